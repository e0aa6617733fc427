// SPDX-License-Identifier: GPL-2.0-only
//! lookbusy (Devin Carraway, 2006 to 2013), a load generator that keeps a CPU busy for so many percent of the time: one
//! spinner per thread of the task.
//!
//! Source: its lb.c, version 1.4 (cpu_spin_calibrate, cpu_spin). A spinner times 10,000,000 additions by the clock, and
//! takes as many additions as would fill `percent` of 100 ms then; the rest of the 100 ms is its sleep, for ever. After
//! each burst and sleep it compares what the CPU was busy meanwhile with the time that passed, both in whole percents,
//! and makes the burst longer or shorter by as many percent as are missing or too many, over the spinners. Busy is what
//! the guest's /proc/stat has, in ticks of 10 ms (USER_HZ): the time of all processes and of the kernel, without the
//! time that others had the CPU (steal). So where its guest gets less than `percent` of a CPU the bursts grow, by up to
//! `percent` percent each, and hardly leave room for a sleep in the end; and where other processes of the guest
//! compute, the spinner makes room for them.
//!
//! A sleep is late by Linux's timer slack, 50 us (prctl(2), PR_SET_TIMERSLACK). An addition takes 2.7 ns: 6 to 7 cycles
//! of the loop and its call on a processor of 2.4 GHz; that sets how long the calibration takes and the shortest burst,
//! nothing else. Nothing is to be calibrated.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Guest, Step, TaskValue, value};
use crate::limits;

/// Configuration.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Lookbusy {
    /// How busy it keeps each CPU (`--cpu-util`).
    #[schemars(range(min = limits::LOOKBUSY_PERCENT.least, max = limits::LOOKBUSY_PERCENT.most))]
    pub percent: u64,
}

impl Default for Lookbusy {
    fn default() -> Self {
        Lookbusy { percent: 50 }
    }
}

/// Burst and sleep together, at first.
const PERIOD_NS: u64 = 100_000_000;
/// 10,000,000 additions, and the fewest that a burst has, 10,000.
const CALIBRATION_NS: u64 = 27_000_000;
const SHORTEST_NS: u64 = 27_000;
/// Of a clock of the guest, and by how much a sleep is late.
const TICK_NS: u64 = 10_000_000;
const SLACK_NS: u64 = 50_000;

#[derive(Clone, Copy, Default)]
enum Phase {
    #[default]
    New,
    Calibrates,
    Spins,
    Sleeps,
}

#[derive(Clone, Copy, Default)]
struct Spinner {
    phase: Phase,
    /// Of the calibration, or of burst and sleep.
    began_ns: u64,
    /// Ticks that the guest's CPUs had been busy then.
    busy_ticks: u64,
    /// CPU time of the next burst.
    burst_ns: u64,
    worked_ns: u64,
}

impl Spinner {
    /// After burst and sleep: the next burst.
    fn adjust(&mut self, percent: u64, spinners: u64, guest: &Guest<'_>) {
        let busy_ns = (guest.busy_ns / TICK_NS - self.busy_ticks) * TICK_NS / spinners;
        let wall_ns = (guest.now_ns - self.began_ns).max(1);
        let actual = (u128::from(busy_ns) * 100 / u128::from(wall_ns)) as i128;
        let missing = i128::from(percent) - actual;
        let adjust = missing * i128::from(self.burst_ns) / 100 / i128::from(spinners);
        let burst_ns = i128::from(self.burst_ns) + adjust;
        self.burst_ns = burst_ns.clamp(SHORTEST_NS.into(), (u64::MAX / 4).into()) as u64;
    }
}

pub(super) struct Program {
    config: Lookbusy,
    spinners: Vec<Spinner>,
}

impl Program {
    pub fn new(config: &Lookbusy, threads: u32) -> Self {
        let spinners = vec![Spinner::default(); threads as usize];
        Program { config: config.clone(), spinners }
    }
}

impl super::Program for Program {
    fn next(&mut self, thread: u32, guest: &mut Guest<'_>) -> Step {
        let percent = self.config.percent;
        let spinners = self.spinners.len() as u64;
        let spinner = &mut self.spinners[thread as usize];
        match spinner.phase {
            Phase::New => {
                spinner.phase = Phase::Calibrates;
                spinner.began_ns = guest.now_ns;
                return Step::Compute(CALIBRATION_NS);
            }
            Phase::Calibrates => {
                let elapsed_ns = (guest.now_ns - spinner.began_ns).max(CALIBRATION_NS);
                let burst = u128::from(PERIOD_NS * percent / 100) * u128::from(CALIBRATION_NS);
                spinner.burst_ns = (burst / u128::from(elapsed_ns)) as u64;
            }
            Phase::Spins => {
                spinner.phase = Phase::Sleeps;
                spinner.worked_ns = spinner.worked_ns.saturating_add(spinner.burst_ns);
                return Step::Sleep(PERIOD_NS * (100 - percent) / 100 + SLACK_NS);
            }
            Phase::Sleeps => spinner.adjust(percent, spinners, guest),
        }
        spinner.phase = Phase::Spins;
        spinner.began_ns = guest.now_ns;
        spinner.busy_ticks = guest.busy_ns / TICK_NS;
        Step::Compute(spinner.burst_ns)
    }

    fn reads_stat(&self) -> bool {
        true
    }

    fn values(&self, elapsed_ns: u64) -> Vec<TaskValue> {
        let sum = |of: fn(&Spinner) -> u64| self.spinners.iter().map(of).sum::<u64>() as f64;
        let worked = 100.0 * sum(|spinner| spinner.worked_ns) / elapsed_ns as f64;
        let burst_ms = sum(|spinner| spinner.burst_ns) / self.spinners.len() as f64 / 1e6;
        vec![
            value("work done", "% of a pCPU", Some(true), (elapsed_ns > 0).then_some(worked)),
            value("burst", "ms", None, Some(burst_ms)),
        ]
    }
}
