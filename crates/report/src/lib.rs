// SPDX-License-Identifier: GPL-2.0-only
//! What comes out of a comparison: `results.json` and `results.csv` (described in
//! `docs/results.md`), a trace for Perfetto, a table for the terminal and a report for the browser;
//! and out of published experiments (module `reproduction`).
//!
//! The same results and traces give the same bytes.

mod change;
mod change_text;
mod csv;
mod files;
mod format;
mod html;
mod overview;
mod perfetto;
mod replay_error;
mod reproduction;
mod results;
mod summary;
mod terminal;
mod windows;

pub use change::{Change, Changed, DomainChange, Interval, Side};
pub use change_text::change_table;
pub use csv::write_csv;
pub use files::{COMPARISON_FILES, REPRODUCTION_FILES, write_all, write_reproduction};
pub use format::{lines, number, time, with_unit};
pub use html::{Page, chart, write_html};
pub use overview::overview;
pub use perfetto::write_perfetto;
pub use replay_error::{DomainError, ReplayError, Replayed, factor};
pub use reproduction::{
    spread, table as reproduction_table, write_json as write_reproduction_json,
};
pub use results::{
    Comparison, DomainSummary, HostSummary, Known, ParameterValue, PolicySummary, ReadError,
    Results, RunTrace,
};
pub use summary::range;
pub use terminal::{Style, table};
pub use windows::{Windows, WindowsError};
