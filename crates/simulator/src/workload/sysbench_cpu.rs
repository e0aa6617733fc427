// SPDX-License-Identifier: GPL-2.0-only
//! `sysbench cpu`: threads take events from one common count until none is left. An event tests
//! the numbers up to a limit for primality; its CPU time is the parameter. Total time is, as sysbench
//! reports it, that from the start to the last event.
//!
//! To be calibrated: `event`, on the time of one event alone. Testing the numbers up to 10,000 takes
//! about 1 ms on a processor of 2011.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Guest, Step, TaskValue, rate, value};
use crate::limits;
use crate::units::Nanoseconds;

/// Configuration.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SysbenchCpu {
    /// Events over all threads; 0: for ever.
    #[schemars(range(min = limits::SYSBENCH_EVENTS.least, max = limits::SYSBENCH_EVENTS.most))]
    pub events: u64,
    /// CPU time of one event.
    pub event: Nanoseconds,
}

impl Default for SysbenchCpu {
    fn default() -> Self {
        SysbenchCpu { events: 0, event: Nanoseconds::from_ms(1) }
    }
}

pub(super) struct Program {
    config: SysbenchCpu,
    /// Whether each thread is at an event.
    working: Vec<bool>,
    taken: u64,
    finished: u64,
    started_ns: Option<u64>,
    /// From the start of the first event to the end of the last.
    total_ns: Option<u64>,
}

impl Program {
    pub fn new(config: &SysbenchCpu, threads: u32) -> Self {
        Program {
            config: config.clone(),
            working: vec![false; threads as usize],
            taken: 0,
            finished: 0,
            started_ns: None,
            total_ns: None,
        }
    }
}

impl super::Program for Program {
    fn next(&mut self, thread: u32, guest: &mut Guest<'_>) -> Step {
        let started_ns = *self.started_ns.get_or_insert(guest.now_ns);
        let working = &mut self.working[thread as usize];
        self.finished += u64::from(*working);
        *working = false;
        let events = self.config.events;
        if events != 0 && self.finished == events {
            self.total_ns = Some(guest.now_ns - started_ns);
        }
        if events != 0 && self.taken == events {
            return Step::End;
        }
        self.taken += 1;
        *working = true;
        match events {
            0 => Step::Repeat(self.config.event.0),
            // Who takes the last ones is decided event by event.
            _ => Step::Compute(self.config.event.0),
        }
    }

    fn repeated(&mut self, _: u32, ends: u64, _: u64) {
        self.taken += ends;
        self.finished += ends;
    }

    fn values(&self, elapsed_ns: u64) -> Vec<TaskValue> {
        let mut values = vec![rate("events", "1/s", self.finished as f64, elapsed_ns)];
        if self.config.events != 0 {
            let total_s = self.total_ns.map(|ns| ns as f64 / 1e9);
            values.push(value("total time", "s", Some(false), total_s));
        }
        values
    }
}
