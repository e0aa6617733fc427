// SPDX-License-Identifier: GPL-2.0-only
//! Threads that compute and then hold one common spin lock for a moment: what happens when the
//! holder, or a waiter, loses its pCPU.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Guest, Step, TaskValue, Times, rate};
use crate::units::Nanoseconds;

/// Configuration.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Spinlock {
    /// CPU time between two critical sections.
    pub compute: Nanoseconds,
    /// CPU time of a critical section.
    pub hold: Nanoseconds,
}

impl Default for Spinlock {
    fn default() -> Self {
        Spinlock { compute: Nanoseconds::from_us(50), hold: Nanoseconds::from_us(5) }
    }
}

#[derive(Clone, Copy)]
enum State {
    Begin,
    /// It has computed.
    Outside,
    /// It has had the lock, which it wanted since then.
    Held(u64),
}

pub(super) struct Program {
    config: Spinlock,
    threads: Vec<State>,
    acquisitions: Times,
}

impl Program {
    pub fn new(config: &Spinlock, threads: u32) -> Self {
        Program {
            config: config.clone(),
            threads: vec![State::Begin; threads as usize],
            acquisitions: Times::new(),
        }
    }
}

impl super::Program for Program {
    fn next(&mut self, thread: u32, guest: &mut Guest<'_>) -> Step {
        let state = &mut self.threads[thread as usize];
        if let State::Outside = *state {
            *state = State::Held(guest.now_ns);
            return Step::Hold { lock: 0, ns: self.config.hold.0 };
        }
        if let State::Held(wanted_ns) = *state {
            self.acquisitions.record(guest.acquired_ns - wanted_ns);
        }
        *state = State::Outside;
        Step::Compute(self.config.compute.0)
    }

    fn locks(&self) -> u32 {
        1
    }

    fn values(&self, elapsed_ns: u64) -> Vec<TaskValue> {
        let count = self.acquisitions.count() as f64;
        let mut values = vec![rate("acquisitions", "1/s", count, elapsed_ns)];
        values.extend(self.acquisitions.values("acquisition"));
        values
    }
}
