// SPDX-License-Identifier: GPL-2.0-only
//! Why there is no result, as exceptions.

use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use steelyard_run::RunError;
use steelyard_scenario::Diagnostic;

/// `steelyard.InputError`, with what is wrong and where.
pub fn input_error(py: Python, mut diagnostic: Diagnostic) -> PyErr {
    // What stands in an argument is an option of the command there.
    let argument = match diagnostic.file.as_str() {
        "--policy" => Some("policies"),
        option => option.strip_prefix("--"),
    };
    if let Some(argument) = argument {
        diagnostic.file = argument.to_owned();
    }
    let place = diagnostic.place.as_ref();
    let made = py.import("steelyard._errors").and_then(|module| {
        module.getattr("InputError")?.call1((
            diagnostic.to_string(),
            &diagnostic.message,
            &diagnostic.file,
            place.map(|place| place.line),
            place.map(|place| place.column),
            &diagnostic.help,
        ))
    });
    made.map_or_else(|error| error, PyErr::from_value)
}

pub fn run_error(py: Python, error: RunError) -> PyErr {
    match error {
        RunError::Input(diagnostic) => input_error(py, *diagnostic),
        RunError::Write { path, error } => {
            PyOSError::new_err(format!("cannot write {}: {error}", path.display()))
        }
        RunError::Threads(error) => {
            PyRuntimeError::new_err(format!("cannot start threads: {error}"))
        }
        RunError::Ended => PyRuntimeError::new_err("it was ended"),
    }
}
