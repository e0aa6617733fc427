// SPDX-License-Identifier: GPL-2.0-only
//! A busy loop with a duty cycle: each thread computes, sleeps, and so on for ever; without a sleep
//! it never stops.
//!
//! - The *Mcredit2 load program*, a thread that counts to 10,000,000 and then sleeps for 200 ms:
//!   `compute = "16 ms", sleep = "200 ms"`. An addition to a counter in memory waits for the one before
//!   it, 5 to 6 cycles on the processor of that publication (Sandy Bridge; A. Fog, *The microarchitecture of
//!   Intel, AMD and VIA CPUs*: store forwarding), which runs at 3.4 to 3.8 GHz: 13 to 18 ms alone on a
//!   core. A sleep ends late by up to `slack`: 50 us is the timer slack of Linux (prctl(2)). Programs
//!   that are started by hand are in step with nobody: `phase`. To be calibrated: `compute`.
//! - A *load generator* of so many percent, which starts afresh after each sleep and so never asks
//!   for more: compute / (compute + sleep).
//! - With `backlog` one to which *work arrives* whether or not it was served. What could not be done
//!   in time is owed and done later, so that a guest that gets less than it needs has always
//!   something to do.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Guest, Step, TaskValue, Times, rate, value};
use crate::limits;
use crate::units::Nanoseconds;

/// Configuration.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Busy {
    /// CPU time of each burst.
    pub compute: Nanoseconds,
    /// Sleep after each burst; 0: none.
    pub sleep: Nanoseconds,
    /// Before its first burst each thread sleeps for up to so long, uniformly; 0: all begin in step.
    pub phase: Nanoseconds,
    /// Each sleep is longer by up to so much, uniformly.
    pub slack: Nanoseconds,
    /// Both vary uniformly by up to so many percent.
    #[schemars(range(min = limits::JITTER_PERCENT.least, max = limits::JITTER_PERCENT.most))]
    pub jitter_percent: u32,
    /// A burst arrives every `compute` + `sleep`, whether or not those before it are done; what
    /// is late is owed and done later. Otherwise the sleep begins when the burst is done.
    pub backlog: bool,
}

impl Default for Busy {
    fn default() -> Self {
        Busy {
            compute: Nanoseconds::from_ms(10),
            sleep: Nanoseconds(0),
            phase: Nanoseconds(0),
            slack: Nanoseconds(0),
            jitter_percent: 0,
            backlog: false,
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Thread {
    /// It has slept for its phase.
    in_phase: bool,
    /// When the next burst arrives, with a backlog; none before the first one.
    arrival_ns: Option<u64>,
    /// Since when the burst that it computes could have been computed.
    began_ns: Option<u64>,
}

pub(super) struct Program {
    config: Busy,
    threads: Vec<Thread>,
    bursts: Times,
    /// CPU time of the bursts that have begun.
    begun_ns: u64,
}

impl Program {
    pub fn new(config: &Busy, threads: u32) -> Self {
        let threads = vec![Thread::default(); threads as usize];
        Program { config: config.clone(), threads, bursts: Times::new(), begun_ns: 0 }
    }

    /// CPU time of the bursts that have arrived and have not begun.
    fn waiting_ns(&self, now_ns: u64) -> u128 {
        let Busy { compute, sleep, .. } = self.config;
        let bursts = |thread: &Thread| {
            let late_ns = thread.arrival_ns.and_then(|arrival| now_ns.checked_sub(arrival));
            late_ns.map_or(0, |ns| 1 + u128::from(ns / compute.0.saturating_add(sleep.0).max(1)))
        };
        u128::from(compute.0) * self.threads.iter().map(bursts).sum::<u128>()
    }

    /// CPU time of the bursts that have arrived and are not done, one that is being done as a whole.
    fn owed_ns(&self, now_ns: u64) -> u128 {
        let begun = self.threads.iter().filter(|thread| thread.began_ns.is_some()).count();
        self.waiting_ns(now_ns) + u128::from(self.config.compute.0) * begun as u128
    }
}

impl super::Program for Program {
    fn next(&mut self, thread: u32, guest: &mut Guest<'_>) -> Step {
        let Busy { compute, sleep, phase, slack, jitter_percent, backlog } = self.config;
        let thread = &mut self.threads[thread as usize];
        if !std::mem::replace(&mut thread.in_phase, true) && phase.0 > 0 {
            return Step::Sleep(guest.random.below(phase.0.saturating_add(1)));
        }
        if let Some(began_ns) = thread.began_ns.take() {
            self.bursts.record(guest.now_ns - began_ns);
            if sleep.0 > 0 && !backlog {
                let sleep_ns = guest.random.jitter(sleep.0, jitter_percent);
                let late_ns =
                    if slack.0 > 0 { guest.random.below(slack.0.saturating_add(1)) } else { 0 };
                return Step::Sleep(sleep_ns.saturating_add(late_ns));
            }
        }
        if backlog {
            let arrival_ns = *thread.arrival_ns.get_or_insert(guest.ready_ns);
            if arrival_ns > guest.now_ns {
                return Step::Sleep(arrival_ns - guest.now_ns);
            }
            let period_ns = guest.random.jitter(compute.0.saturating_add(sleep.0), jitter_percent);
            thread.arrival_ns = Some(arrival_ns.saturating_add(period_ns));
            thread.began_ns = Some(arrival_ns);
        } else {
            thread.began_ns = Some(guest.ready_ns);
        }
        if sleep.0 == 0 && !backlog && jitter_percent == 0 {
            return Step::Repeat(compute.0);
        }
        let compute_ns = guest.random.jitter(compute.0, jitter_percent);
        self.begun_ns = self.begun_ns.saturating_add(compute_ns);
        Step::Compute(compute_ns)
    }

    fn offered_ns(&self, now_ns: u64) -> Option<u64> {
        let waiting_ns = u64::try_from(self.waiting_ns(now_ns)).unwrap_or(u64::MAX);
        self.config.backlog.then(|| self.begun_ns.saturating_add(waiting_ns))
    }

    fn repeated(&mut self, thread: u32, ends: u64, end_ns: u64) {
        // The first of them may have been interrupted, the others were not.
        let compute_ns = self.config.compute.0;
        let first_ns = end_ns - (ends - 1) * compute_ns;
        if let Some(began_ns) = self.threads[thread as usize].began_ns.replace(end_ns) {
            self.bursts.record(first_ns - began_ns);
        }
        if ends > 1 {
            self.bursts.record_same(compute_ns, ends - 1);
        }
    }

    fn values(&self, elapsed_ns: u64) -> Vec<TaskValue> {
        let mut values = vec![rate("bursts", "1/s", self.bursts.count() as f64, elapsed_ns)];
        values.extend(self.bursts.values("burst"));
        if self.config.backlog {
            let owed_ms = self.owed_ns(elapsed_ns) as f64 / 1e6;
            values.push(value("owed", "ms", Some(false), Some(owed_ms)));
        }
        values
    }
}
