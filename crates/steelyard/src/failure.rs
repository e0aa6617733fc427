// SPDX-License-Identifier: GPL-2.0-only
//! Why the command ends without success, and its exit codes. Usage errors are clap's, whose exit
//! code is that of bad input too.

use std::io;
use std::path::{Path, PathBuf};

use signal_hook::consts::SIGINT;
use steelyard_boundary::output::OutputError;
use steelyard_boundary::text::told;
use steelyard_run::RunError;
use steelyard_scenario::Diagnostic;

use crate::reproduce::UNEXPECTED;

/// Why there is no result.
#[derive(Debug)]
pub enum Failure {
    /// What was given cannot be used.
    Input(Box<Diagnostic>),
    /// A file could not be written.
    Write { path: PathBuf, error: io::Error },
    /// Standard output could not be written.
    Output(io::Error),
    /// The system refused something else.
    System { what: &'static str, error: String },
    /// Claims that are not in the state that their experiments expect, at least one.
    Unexpected { claims: Vec<String>, few_seeds: bool },
    /// Somebody pressed Ctrl-C, or sent another signal, of this number.
    Interrupted(i32),
}

impl Failure {
    pub fn write(path: &Path, error: io::Error) -> Self {
        Failure::Write { path: path.to_owned(), error }
    }

    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Write { .. } | Failure::Output(_) | Failure::System { .. } => 1,
            Failure::Input(_) => 2,
            Failure::Unexpected { .. } => UNEXPECTED,
            Failure::Interrupted(signal) => interrupted(*signal) as u8,
        }
    }

    /// What to tell the person; nothing if they know.
    pub fn message(&self) -> Option<String> {
        Some(match self {
            Failure::Input(diagnostic) => diagnostic.to_string(),
            Failure::Write { path, error } => {
                format!("cannot write {}: {error}", told(path))
            }
            Failure::Output(error) => format!("cannot write to standard output: {error}"),
            Failure::System { what, error } => format!("cannot {what}: {error}"),
            Failure::Unexpected { claims, few_seeds } => {
                let help = match few_seeds {
                    true => "\n  help: with fewer seeds than ten that may be chance",
                    false => "",
                };
                format!("not as expected:\n  {}{help}", claims.join("\n  "))
            }
            Failure::Interrupted(_) => return None,
        })
    }
}

/// The exit code after a signal, as shells count.
pub fn interrupted(signal: i32) -> i32 {
    128 + signal
}

impl From<Diagnostic> for Failure {
    fn from(diagnostic: Diagnostic) -> Self {
        Failure::Input(Box::new(diagnostic))
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Input(diagnostic) => Failure::Input(diagnostic),
            RunError::Write { path, error } => Failure::Write { path, error },
            RunError::Threads(error) => Failure::System { what: "start threads", error },
            RunError::Ended => Failure::Interrupted(SIGINT),
        }
    }
}

impl From<OutputError> for Failure {
    fn from(error: OutputError) -> Self {
        RunError::from(error).into()
    }
}
