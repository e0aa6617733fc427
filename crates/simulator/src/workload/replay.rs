// SPDX-License-Identifier: GPL-2.0-only
//! Replays recorded threads: each runs for as long as it ran, then sleeps for as long as it slept.
//! Waiting is not replayed: that is what the policy under test decides. When the recording ends it
//! starts again.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Configuration: thread `n` of the task replays the recorded thread `n` on vCPU `n`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// File of the recording, relative to the scenario.
    pub recording: String,
    /// The recorded process whose threads are replayed.
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
