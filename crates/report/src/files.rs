// SPDX-License-Identifier: GPL-2.0-only
//! The files of a comparison and of experiments, which are written together.

use std::sync::atomic::AtomicBool;

use steelyard_boundary::output::{Output, OutputError, WriteFile};
use steelyard_experiment::Reproduction;

use crate::results::{Results, RunTrace};
use crate::{reproduction, write_csv, write_html, write_perfetto};

/// Names of the files of a comparison.
pub const COMPARISON_FILES: [&str; 4] =
    ["results.json", "results.csv", "report.html", "trace.json.gz"];
/// Names of the files of experiments.
pub const REPRODUCTION_FILES: [&str; 4] =
    ["results.json", "matrix.svg", "tables.md", "report.html"];

/// Writes [`COMPARISON_FILES`]. Set `asked`, as a handler of Ctrl-C does, to give up without a trace.
///
/// # Errors
/// As those of [`Output::write`].
pub fn write_all(
    output: &Output,
    results: &Results,
    traces: &[RunTrace],
    asked: &AtomicBool,
) -> Result<(), OutputError> {
    let mut contents: [WriteFile; 4] = [
        Box::new(|writer| results.write_json(writer)),
        Box::new(|writer| write_csv(results, writer)),
        Box::new(|writer| write_html(results, traces, writer)),
        Box::new(|writer| write_perfetto(results, traces, writer)),
    ];
    output.write(&mut contents, asked)
}

/// Writes [`REPRODUCTION_FILES`], as [`write_all`] does those of a comparison.
///
/// # Errors
/// As those of [`Output::write`].
pub fn write_reproduction(
    output: &Output,
    reproduction: &Reproduction,
    asked: &AtomicBool,
) -> Result<(), OutputError> {
    let mut contents: [WriteFile; 4] = [
        Box::new(|writer| reproduction::write_json(reproduction, writer)),
        Box::new(|writer| reproduction::write_matrix(reproduction, writer)),
        Box::new(|writer| reproduction::write_markdown(reproduction, writer)),
        Box::new(|writer| reproduction::write_html(reproduction, writer)),
    ];
    output.write(&mut contents, asked)
}
