// SPDX-License-Identifier: GPL-2.0-only
//! Replays recorded threads: each runs for as long as it ran, then sleeps for as long as it slept.
//! Waiting is not replayed: that is what the policy under test decides. When the recording ends it
//! starts again.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Guest, Step, TaskValue, Times, rate, value};
use crate::limits;

/// Configuration: thread `n` of the task replays the recorded thread `n` on vCPU `n`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// File of the recording, relative to the scenario.
    pub recording: String,
    /// The recorded process whose threads are replayed.
    #[schemars(range(min = limits::PROCESS.least, max = limits::PROCESS.most))]
    pub process: u32,
    /// Each sleep is longer or shorter by up to so many percent, and by 1 ms at most: the recorded phases are one
    /// case of many.
    #[serde(default)]
    #[schemars(range(min = limits::JITTER_PERCENT.least, max = limits::JITTER_PERCENT.most))]
    pub jitter_percent: u32,
    /// What was recorded, one item per thread; filled in by whoever reads the recording.
    #[serde(skip)]
    pub threads: Vec<Arc<ReplayThread>>,
}

/// One recorded thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayThread {
    /// When it woke first, from the start of the recording.
    pub first_wake_ns: u64,
    /// What it did from then on.
    pub bursts: Vec<Burst>,
}

/// The most by which a sleep is made longer or shorter.
const MOST_JITTER_NS: u64 = 1_000_000;

/// Runs, then sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// CPU time.
    pub run_ns: u64,
    /// Time between blocking and the next wake-up.
    pub sleep_ns: u64,
}

pub(super) struct Program {
    threads: Vec<Thread>,
    jitter_percent: u32,
    bursts: Times,
    worked_ns: u64,
}

struct Thread {
    recorded: Arc<ReplayThread>,
    /// Index of the next burst; none before the first wake-up.
    position: Option<usize>,
    /// The burst that runs and when it began.
    running: Option<(Burst, u64)>,
}

impl Program {
    pub fn new(config: &Replay) -> Self {
        let thread = |recorded: &Arc<ReplayThread>| Thread {
            recorded: recorded.clone(),
            position: None,
            running: None,
        };
        let threads = config.threads.iter().map(thread).collect();
        let jitter_percent = config.jitter_percent;
        Program { threads, jitter_percent, bursts: Times::new(), worked_ns: 0 }
    }

    fn sleep(&self, recorded_ns: u64, guest: &mut Guest<'_>) -> Step {
        // Only so much of it is drawn, and the rest is what it is.
        let percent = u64::from(self.jitter_percent).max(1);
        let drawn_ns = recorded_ns.min(MOST_JITTER_NS.saturating_mul(100) / percent);
        let moved_ns = guest.random.jitter(drawn_ns, self.jitter_percent);
        Step::Sleep((recorded_ns - drawn_ns).saturating_add(moved_ns).max(1))
    }
}

impl super::Program for Program {
    fn next(&mut self, thread: u32, guest: &mut Guest<'_>) -> Step {
        let thread = &mut self.threads[thread as usize];
        if let Some((burst, began_ns)) = thread.running.take() {
            self.bursts.record(guest.now_ns - began_ns);
            self.worked_ns += burst.run_ns;
            return self.sleep(burst.sleep_ns, guest);
        }
        let Some(position) = thread.position else {
            thread.position = Some(0);
            let first_wake_ns = thread.recorded.first_wake_ns;
            return self.sleep(first_wake_ns, guest);
        };
        let Some(&burst) = thread.recorded.bursts.get(position) else {
            return Step::End;
        };
        thread.position = Some((position + 1) % thread.recorded.bursts.len());
        thread.running = Some((burst, guest.ready_ns));
        Step::Compute(burst.run_ns)
    }

    fn vcpu(&self, thread: u32) -> Option<u32> {
        Some(thread)
    }

    fn values(&self, elapsed_ns: u64) -> Vec<TaskValue> {
        let share = 100.0 * self.worked_ns as f64 / elapsed_ns as f64;
        let mut values = vec![
            value("work done", "% of a pCPU", Some(true), (elapsed_ns > 0).then_some(share)),
            rate("bursts", "1/s", self.bursts.count() as f64, elapsed_ns),
        ];
        values.extend(self.bursts.values("burst"));
        values
    }
}
