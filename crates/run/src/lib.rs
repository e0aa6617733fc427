// SPDX-License-Identifier: GPL-2.0-only
//! Runs comparisons and searches: every policy with every seed, in parallel, with results in an order that does not
//! depend on the threads. What the command and the package for Python have in common lies here.

mod compare;
mod search;
mod simulator;

use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use rayon::ThreadPool;
use steelyard_boundary::output::OutputError;
use steelyard_scenario::{Diagnostic, Loaded, MAX_RUN_BYTES};

pub use crate::compare::{compare, trace_worst_waits};
pub use crate::search::{MOST_SETTINGS, Search, search};
pub use crate::simulator::{Simulator, check_own, own, own_label};

/// Seeds are numbered from here.
pub const FIRST_SEED: u64 = 1;

/// Threads at most: of more no run is faster, and a host can run out of them.
pub const MOST_THREADS: usize = 1024;

/// Whoever waits for runs.
pub trait Watch: Sync {
    /// What is done from now on, and how much work that is; none: nobody knows.
    fn begin(&self, what: &'static str, work: Option<u64>);

    /// So much of it is done.
    ///
    /// # Errors
    /// Nobody waits any more: everything ends.
    fn done(&self, work: u64) -> Result<(), Ended>;

    /// Asks whether it is still waited for, several times a second.
    ///
    /// # Errors
    /// As that of `done`.
    fn wanted(&self) -> Result<(), Ended> {
        self.done(0)
    }
}

/// Nobody watches.
impl Watch for () {
    fn begin(&self, _what: &'static str, _work: Option<u64>) {}

    fn done(&self, _work: u64) -> Result<(), Ended> {
        Ok(())
    }
}

/// Who watched wanted an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended;

/// Why there is no result.
#[derive(Debug)]
pub enum RunError {
    /// What was given cannot be used.
    Input(Box<Diagnostic>),
    /// A file could not be written.
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// No threads could be started.
    Threads(String),
    /// Who watched wanted an end.
    Ended,
}

impl RunError {
    fn write(path: &Path, error: io::Error) -> Self {
        RunError::Write { path: path.to_owned(), error }
    }
}

impl From<Diagnostic> for RunError {
    fn from(diagnostic: Diagnostic) -> Self {
        RunError::Input(Box::new(diagnostic))
    }
}

impl From<Ended> for RunError {
    fn from(_: Ended) -> Self {
        RunError::Ended
    }
}

impl From<OutputError> for RunError {
    fn from(error: OutputError) -> Self {
        let message = error.to_string();
        match error {
            OutputError::Write { path, error } => RunError::Write { path, error },
            OutputError::Input { path, .. } => {
                let diagnostic = Diagnostic::of_file(path.display().to_string(), message);
                diagnostic.with_help("give what is written another name").into()
            }
            OutputError::NoDirectory { .. } => Diagnostic::of_file("--out", message).into(),
        }
    }
}

/// Threads to run simulations on: so many, or one per CPU.
///
/// # Errors
/// The system gives none.
pub fn pool(threads: Option<NonZeroUsize>) -> Result<ThreadPool, RunError> {
    // Not what rayon takes from the environment, which nothing bounds.
    let threads = threads.or(available_parallelism().ok()).map_or(1, usize::from);
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads.min(MOST_THREADS))
        .build()
        .map_err(|error| RunError::Threads(error.to_string()))
}

/// So many runs at a time as wanted, one per CPU if nobody says, but no more than there is memory for: that of
/// the largest that is not refused.
pub fn within_memory(wanted: Option<NonZeroUsize>, inputs: &[Loaded]) -> Option<NonZeroUsize> {
    let each = inputs.iter().map(|input| input.setup.estimated_memory(input.length)).max();
    let most = usize::try_from(MAX_RUN_BYTES / each.unwrap_or(1).max(1)).unwrap_or(usize::MAX);
    let wanted = wanted.or_else(|| available_parallelism().ok())?;
    NonZeroUsize::new(usize::from(wanted).min(most).max(1))
}
