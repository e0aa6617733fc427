// SPDX-License-Identifier: GPL-2.0-only
//! A disk stream such as dd's: each thread reads or writes one block after another and waits for
//! each, as with direct I/O. Two threads are a reader with read-ahead: one block is on its way while
//! the other is worked on.
//!
//! Whichever is slowest limits it: the guest, with `block_service` per block; the driver domain, with
//! its cost per request of 44 KiB; or the disk, with a latency and its speed per block.
//!
//! To be calibrated: the host's `disk_mbyte_per_s` and `request_cost`, on throughput and the driver
//! domain's CPU time with nobody else there. `block_service` is copying: 100 us for 1 MiB.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Guest, Step, TaskValue, Times, rate};
use crate::limits;
use crate::units::Nanoseconds;

/// Configuration.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Disk {
    /// Size of a block.
    #[schemars(range(min = limits::SOME_BYTES.least, max = limits::SOME_BYTES.most))]
    pub block_bytes: u64,
    /// CPU time of the guest per block.
    pub block_service: Nanoseconds,
}

impl Default for Disk {
    fn default() -> Self {
        Disk { block_bytes: 1 << 20, block_service: Nanoseconds::from_us(100) }
    }
}

pub(super) struct Program {
    config: Disk,
    /// When each thread's block was asked for.
    asked_ns: Vec<Option<u64>>,
    blocks: Times,
}

impl Program {
    pub fn new(config: &Disk, threads: u32) -> Self {
        let asked_ns = vec![None; threads as usize];
        Program { config: config.clone(), asked_ns, blocks: Times::new() }
    }
}

impl super::Program for Program {
    fn next(&mut self, thread: u32, guest: &mut Guest<'_>) -> Step {
        let asked_ns = &mut self.asked_ns[thread as usize];
        match asked_ns.take() {
            Some(asked) => {
                self.blocks.record(guest.now_ns - asked);
                Step::Compute(self.config.block_service.0)
            }
            None => {
                *asked_ns = Some(guest.now_ns);
                Step::Disk(self.config.block_bytes)
            }
        }
    }

    fn values(&self, elapsed_ns: u64) -> Vec<TaskValue> {
        let bytes = self.blocks.count() as f64 * self.config.block_bytes as f64;
        let mut values = vec![rate("throughput", "MB/s", bytes / 1e6, elapsed_ns)];
        values.extend(self.blocks.values("block"));
        values
    }
}
