// SPDX-License-Identifier: GPL-2.0-only
//! Work by the clock: each thread computes for a part of every period of the clock, whatever it got of
//! it, and sleeps for the rest. It looks at the clock after each `step` of CPU time.
//!
//! Models who has a time of its own on a host: a slot of a time-division bus, a device polled at fixed
//! times; and a guest that sleeps while the host's scheduler looks, as in Zhou et al., "Scheduler
//! Vulnerabilities and Coordinated Attacks in Cloud Computing", NCA 2011. In step with the host: the
//! periods begin with the simulation. Nothing is to be calibrated: `step` is how exactly the end is met, and
//! what it costs to simulate.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Guest, Step, TaskValue, value};
use crate::units::Nanoseconds;

/// Configuration.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Clocked {
    /// Time from one begin to the next.
    pub period: Nanoseconds,
    /// When the first begins.
    pub from: Nanoseconds,
    /// Time from the begin to the end, less than `period`.
    pub run: Nanoseconds,
    /// CPU time after which it looks at the clock.
    pub step: Nanoseconds,
}

impl Default for Clocked {
    fn default() -> Self {
        Clocked {
            period: Nanoseconds::from_ms(10),
            from: Nanoseconds(0),
            run: Nanoseconds::from_ms(1),
            step: Nanoseconds::from_us(50),
        }
    }
}

pub(super) struct Program {
    config: Clocked,
    /// CPU time of the step that each thread computes.
    steps: Vec<u64>,
    worked_ns: u64,
}

impl Program {
    pub fn new(config: &Clocked, threads: u32) -> Self {
        Program { config: config.clone(), steps: vec![0; threads as usize], worked_ns: 0 }
    }
}

impl super::Program for Program {
    fn next(&mut self, thread: u32, guest: &mut Guest<'_>) -> Step {
        let Clocked { period, from, run, step } = &self.config;
        self.worked_ns += std::mem::take(&mut self.steps[thread as usize]);
        let Some(since_ns) = guest.now_ns.checked_sub(from.0) else {
            return Step::Sleep(from.0 - guest.now_ns);
        };
        let at_ns = since_ns % period.0;
        if at_ns >= run.0 {
            return Step::Sleep(period.0 - at_ns);
        }
        let step_ns = step.0.min(run.0 - at_ns);
        self.steps[thread as usize] = step_ns;
        Step::Compute(step_ns)
    }

    fn values(&self, elapsed_ns: u64) -> Vec<TaskValue> {
        let share = 100.0 * self.worked_ns as f64 / elapsed_ns as f64;
        vec![value("work done", "% of a pCPU", Some(true), (elapsed_ns > 0).then_some(share))]
    }
}
