// SPDX-License-Identifier: GPL-2.0-only
//! The boot of an operating system: its threads take steps from one common count, each of which
//! reads a piece of the disk and then computes, until none is left; then it is idle.
//!
//! A boot alternates between waiting for the disk, for pieces of 4 to 64 KB all over it, and bursts
//! of CPU time while services start side by side. A piece is uniform over `read_bytes` +- 90 %. Bursts
//! have the mean `compute` and are hyperexponential, as textbooks have it of CPU bursts: many short
//! and few long ones. Here one of 20 is ten times as long on average, which makes half of the CPU
//! time.
//!
//! The defaults make 15 s of CPU time and 96 MB: the order of a desktop system of 2008. To be
//! calibrated, on the boot of one guest alone: `steps` on its disk requests, `compute` on its CPU
//! time; the speed of the disk is the host's.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Guest, Step, TaskValue, value};
use crate::limits;
use crate::units::Nanoseconds;

/// Configuration.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Boot {
    /// Steps over all threads.
    #[schemars(range(min = limits::STEPS.least, max = limits::STEPS.most))]
    pub steps: u64,
    /// Mean size of what a step reads.
    #[schemars(range(min = limits::SOME_BYTES.least, max = limits::SOME_BYTES.most))]
    pub read_bytes: u64,
    /// Mean CPU time of a step.
    pub compute: Nanoseconds,
}

impl Default for Boot {
    fn default() -> Self {
        Boot { steps: 3000, read_bytes: 32 << 10, compute: Nanoseconds::from_ms(5) }
    }
}

/// How much sizes differ: 4 to 60 KB around 32.
const READ_JITTER_PERCENT: u32 = 90;

/// Of so many bursts one is long, and by how much.
const BURSTS_PER_LONG: u64 = 20;
const LONG_FACTOR: u64 = 10;

#[derive(Clone, Copy)]
enum Doing {
    Nothing,
    Reading,
    Computing,
}

pub(super) struct Program {
    config: Boot,
    doing: Vec<Doing>,
    taken: u64,
    finished: u64,
    started_ns: Option<u64>,
    boot_ns: Option<u64>,
}

impl Program {
    pub fn new(config: &Boot, threads: u32) -> Self {
        Program {
            config: config.clone(),
            doing: vec![Doing::Nothing; threads as usize],
            taken: 0,
            finished: 0,
            started_ns: None,
            boot_ns: None,
        }
    }
}

impl super::Program for Program {
    fn next(&mut self, thread: u32, guest: &mut Guest<'_>) -> Step {
        let started_ns = *self.started_ns.get_or_insert(guest.ready_ns);
        let Boot { steps, read_bytes, compute } = self.config;
        let doing = &mut self.doing[thread as usize];
        match *doing {
            Doing::Reading => {
                *doing = Doing::Computing;
                let mean_ns = if guest.random.below(BURSTS_PER_LONG) == 0 {
                    compute.0.saturating_mul(LONG_FACTOR)
                } else {
                    // So that the mean over all is `compute`.
                    (u128::from(compute.0) * u128::from(BURSTS_PER_LONG - LONG_FACTOR)
                        / u128::from(BURSTS_PER_LONG - 1)) as u64
                };
                return Step::Compute(guest.random.exponential(mean_ns));
            }
            Doing::Computing => {
                self.finished += 1;
                if self.finished == steps {
                    self.boot_ns = Some(guest.now_ns - started_ns);
                }
            }
            Doing::Nothing => {}
        }
        if self.taken == steps {
            return Step::End;
        }
        self.taken += 1;
        *doing = Doing::Reading;
        Step::Disk(guest.random.jitter(read_bytes, READ_JITTER_PERCENT).max(1))
    }

    fn values(&self, _: u64) -> Vec<TaskValue> {
        let boot_s = self.boot_ns.map(|ns| ns as f64 / 1e9);
        let finished = 100.0 * self.finished as f64 / self.config.steps.max(1) as f64;
        vec![
            value("boot time", "s", Some(false), boot_s),
            value("booted", "%", Some(true), Some(finished)),
        ]
    }
}
