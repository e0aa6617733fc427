// SPDX-License-Identifier: GPL-2.0-only
//! A busy loop with a duty cycle: compute, sleep, again. Without a sleep it never stops.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Guest, Step, TaskValue, Times, rate};
use crate::units::Nanoseconds;

/// Configuration.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Busy {
    /// CPU time of each burst.
    pub compute: Nanoseconds,
    /// Sleep after each burst; 0: none.
    pub sleep: Nanoseconds,
    /// Both vary uniformly by up to so many percent.
    #[schemars(range(max = 100))]
    pub jitter_percent: u32,
}

impl Default for Busy {
    fn default() -> Self {
        Busy { compute: Nanoseconds::from_ms(10), sleep: Nanoseconds(0), jitter_percent: 0 }
    }
}

pub(super) struct Program {
    config: Busy,
    /// When each thread's burst began, for a thread that computes.
    began_ns: Vec<Option<u64>>,
    bursts: Times,
}

impl Program {
    pub fn new(config: &Busy, threads: u32) -> Self {
        let began_ns = vec![None; threads as usize];
        Program { config: config.clone(), began_ns, bursts: Times::new() }
    }
}

impl super::Program for Program {
    fn next(&mut self, thread: u32, guest: &mut Guest<'_>) -> Step {
        let Busy { compute, sleep, jitter_percent } = self.config;
        let began_ns = &mut self.began_ns[thread as usize];
        if let Some(began) = began_ns.take() {
            self.bursts.record(guest.now_ns - began);
            if sleep.0 > 0 {
                return Step::Sleep(guest.random.jitter(sleep.0, jitter_percent));
            }
        }
        *began_ns = Some(guest.ready_ns);
        Step::Compute(guest.random.jitter(compute.0, jitter_percent))
    }

    fn values(&self, elapsed_ns: u64) -> Vec<TaskValue> {
        let mut values = vec![rate("bursts", "1/s", self.bursts.count() as f64, elapsed_ns)];
        values.extend(self.bursts.values("burst"));
        values
    }
}
