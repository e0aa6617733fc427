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
        Program { threads, bursts: Times::new(), worked_ns: 0 }
    }
}

impl super::Program for Program {
    fn next(&mut self, thread: u32, guest: &mut Guest<'_>) -> Step {
        let thread = &mut self.threads[thread as usize];
        if let Some((burst, began_ns)) = thread.running.take() {
            self.bursts.record(guest.now_ns - began_ns);
            self.worked_ns += burst.run_ns;
            return Step::Sleep(burst.sleep_ns.max(1));
        }
        let Some(position) = thread.position else {
            thread.position = Some(0);
            return Step::Sleep(thread.recorded.first_wake_ns.max(1));
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
