// SPDX-License-Identifier: GPL-2.0-only
//! What the package `steelyard` for Python is made of: the same comparisons and searches as those of the command
//! (crate `steelyard-run`), on inputs that may be objects of Python, with results as tables that pandas, Polars and
//! pyarrow take. What users see of it, with types and meaning, is `python/steelyard/_steelyard.pyi`.

mod arrow;
mod error;
mod input;
mod results;
mod tables;
mod watch;

use pyo3::prelude::*;

#[pymodule]
mod _steelyard {
    #[pymodule_export]
    use crate::input::Scenario;
    #[pymodule_export]
    use crate::results::{
        Comparison, Reproduction, Table, Tuning, compare, experiments, parameters, replay,
        reproduce, tune,
    };

    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
