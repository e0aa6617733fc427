// SPDX-License-Identifier: GPL-2.0-only
//! Work beside Python: other threads of Python go on meanwhile, progress is told, and Ctrl-C ends it.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;
use steelyard_run::{Ended, RunError, Watch};

use crate::error::run_error;

/// Progress is told, and Ctrl-C heeded, within this time.
const ATTENTION: Duration = Duration::from_millis(50);

/// How far the work is.
#[derive(Default)]
struct Watched {
    /// What is done, and how much that is.
    stage: Mutex<(&'static str, Option<u64>)>,
    done: AtomicU64,
    /// It is to end.
    ended: AtomicBool,
}

impl Watch for Watched {
    fn begin(&self, what: &'static str, work: Option<u64>) {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        *stage = (what, work);
        self.done.store(0, Ordering::Relaxed);
    }

    fn done(&self, work: u64) -> Result<(), Ended> {
        self.done.fetch_add(work, Ordering::Relaxed);
        if self.ended.load(Ordering::Relaxed) { Err(Ended) } else { Ok(()) }
    }
}

/// What is told: a function of Python, or a bar of tqdm.
struct Progress<'py> {
    tell: Option<Bound<'py, PyAny>>,
    last: Option<(&'static str, u64, Option<u64>)>,
}

impl<'py> Progress<'py> {
    /// Of an argument: `None` or `False`, `True`, or a function.
    fn new(py: Python<'py>, asked: Option<Bound<'py, PyAny>>) -> PyResult<Progress<'py>> {
        let tell = match asked {
            Some(asked) => match asked.extract::<bool>() {
                Ok(true) => Some(py.import("steelyard._progress")?.getattr("Bar")?.call0()?),
                Ok(false) => None,
                Err(_) => Some(asked),
            },
            None => None,
        };
        Ok(Progress { tell, last: None })
    }

    fn tell(&mut self, watched: &Watched) -> PyResult<()> {
        let Some(tell) = &self.tell else { return Ok(()) };
        let now = {
            let stage = watched.stage.lock().unwrap_or_else(PoisonError::into_inner);
            (stage.0, watched.done.load(Ordering::Relaxed), stage.1)
        };
        if !now.0.is_empty() && self.last != Some(now) {
            self.last = Some(now);
            tell.call1(now)?;
        }
        Ok(())
    }
}

/// Does work on another thread, until it is done or somebody wants an end.
pub fn watched<'py, T: Send>(
    py: Python<'py>,
    progress: Option<Bound<'py, PyAny>>,
    work: impl FnOnce(&dyn Watch) -> Result<T, RunError> + Send,
) -> PyResult<T> {
    let mut progress = Progress::new(py, progress)?;
    let watched = Watched::default();
    let waiting = thread::current();
    // A thread that is done is not finished yet when it says so.
    let over = AtomicBool::new(false);
    let (result, failure) = thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let result = work(&watched);
            over.store(true, Ordering::Release);
            waiting.unpark();
            result
        });
        let mut failure = None;
        while !over.load(Ordering::Acquire) && !worker.is_finished() {
            py.detach(|| thread::park_timeout(ATTENTION));
            if failure.is_none()
                && let Err(error) = py.check_signals().and_then(|()| progress.tell(&watched))
            {
                failure = Some(error);
                watched.ended.store(true, Ordering::Relaxed);
            }
        }
        (worker.join(), failure)
    });
    let closed = progress.tell.as_ref().filter(|tell| tell.hasattr("close").unwrap_or(false));
    let closed = closed.map_or(Ok(()), |bar| bar.call_method0("close").map(drop));
    if let Some(failure) = failure {
        return Err(failure);
    }
    closed?;
    match result {
        Ok(result) => result.map_err(|error| run_error(py, error)),
        Err(panic) => resume_unwind(panic),
    }
}
