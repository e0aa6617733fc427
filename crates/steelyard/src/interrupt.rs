// SPDX-License-Identifier: GPL-2.0-only
//! Ctrl-C, and other signals that ask to end. As long as no file is being written the process just
//! ends, in the midst of whatever it does; while files are being written the writer is asked to give
//! up and to clean up.

use std::process::exit;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fs, thread};

use indicatif::ProgressBar;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::failure::{Failure, interrupted};

/// A screen that was asked to ends within this time.
const SCREEN_ENDS: Duration = Duration::from_secs(1);
/// What else was asked to, though the host that it watches may hang.
const ENDS: Duration = Duration::from_secs(5);

/// What to do when a signal comes.
#[derive(Debug, Default)]
pub struct Interrupt {
    state: Mutex<State>,
    /// Somebody wants to stop.
    asked: AtomicBool,
    /// By this signal.
    signal: AtomicI32,
}

#[derive(Debug)]
struct State {
    busy: Busy,
    /// Cleared before the process ends.
    bar: ProgressBar,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Busy {
    /// It can end at once.
    No,
    /// It ends by itself when it is asked to, or is ended a little later.
    Running,
    /// It ends by itself when it is asked to.
    Writing,
}

impl Default for State {
    fn default() -> Self {
        State { busy: Busy::No, bar: ProgressBar::hidden() }
    }
}

impl State {
    /// Ends the process. The state is held until then, so that nobody begins to write meanwhile.
    fn end_unless(&self, signal: i32, busy: &[Busy]) {
        if !busy.contains(&self.busy) {
            self.bar.finish_and_clear();
            exit(interrupted(signal));
        }
    }
}

impl Interrupt {
    /// From now on signals are heeded.
    pub fn watch() -> Result<Arc<Interrupt>, Failure> {
        let interrupt = Arc::new(Interrupt::default());
        let in_thread = interrupt.clone();
        let mut heeded = vec![SIGINT, SIGQUIT, SIGTERM];
        if !is_ignored(SIGHUP) {
            heeded.push(SIGHUP);
        }
        let mut signals = Signals::new(heeded).map_err(|error| Failure::System {
            what: "listen for signals",
            error: error.to_string(),
        })?;
        thread::spawn(move || {
            for signal in signals.forever() {
                in_thread.heed(signal);
                let patient = in_thread.clone();
                thread::spawn(move || patient.end_late(signal));
            }
        });
        Ok(interrupt)
    }

    /// A bar to clear before the process ends.
    pub fn set_bar(&self, bar: &ProgressBar) {
        self.state().bar = bar.clone();
    }

    /// Writes files. The writer returns an error, and leaves nothing behind, once its argument is
    /// set; if it had finished by then the files stay.
    pub fn while_writing<T>(
        &self,
        write: impl FnOnce(&AtomicBool) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let result = self.while_busy(Busy::Writing, write);
        self.asked().map_or(result, Err)
    }

    /// Whether somebody wants to stop.
    pub fn asked(&self) -> Option<Failure> {
        let asked = self.asked.load(Ordering::Relaxed);
        asked.then(|| Failure::Interrupted(self.signal.load(Ordering::Relaxed)))
    }

    /// Does what is to end by a signal: once the argument is set, or soon after.
    pub fn until_asked<T>(&self, run: impl FnOnce(&AtomicBool) -> T) -> T {
        self.while_busy(Busy::Running, run)
    }

    fn while_busy<T>(&self, busy: Busy, run: impl FnOnce(&AtomicBool) -> T) -> T {
        self.state().busy = busy;
        let result = run(&self.asked);
        self.state().busy = Busy::No;
        result
    }

    /// Asks what is busy to end, or ends the process.
    fn heed(&self, signal: i32) {
        // Held meanwhile: what ends by itself because it is asked to is not idle before it is known
        // to have been busy.
        let state = self.state();
        self.signal.store(signal, Ordering::Relaxed);
        self.asked.store(true, Ordering::Relaxed);
        state.end_unless(signal, &[Busy::Running, Busy::Writing]);
    }

    /// Ends what does not heed a signal soon.
    fn end_late(&self, signal: i32) {
        thread::sleep(SCREEN_ENDS);
        if steelyard_monitor::give_back() {
            exit(interrupted(signal));
        }
        thread::sleep(ENDS - SCREEN_ENDS);
        self.state().end_unless(signal, &[Busy::Writing]);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether whoever started this process wants it to go on after this signal, as `nohup` does.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_because_it_is_asked_to_has_been_busy() {
        let interrupt = Interrupt::default();
        let ended = interrupt.until_asked(|asked| {
            thread::scope(|scope| {
                let state = interrupt.state();
                scope.spawn(|| interrupt.heed(SIGTERM));
                thread::sleep(Duration::from_millis(50));
                assert!(!asked.load(Ordering::Relaxed), "it may be taken for idle, and ended");
                drop(state);
            });
            asked.load(Ordering::Relaxed)
        });
        assert!(ended);
    }
}
