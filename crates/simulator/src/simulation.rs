// SPDX-License-Identifier: GPL-2.0-only
//! One run of one host under one policy.

use steelyard_policy::Policy;

use crate::config::{ConfigError, Setup};
use crate::measure::{Run, Trace};

/// One run of one host under one policy. The same arguments give the same bytes, anywhere.
pub struct Simulation {}

impl Simulation {
    /// A host at time 0. Domains that cannot be are refused.
    ///
    /// # Errors
    /// What is wrong and where: pinning to a pCPU that is not there, a cap above the host, ...
    pub fn new(setup: &Setup, policy: &Policy, seed: u64) -> Result<Simulation, ConfigError> {
        let _ = (setup, policy, seed);
        todo!()
    }

    /// Records who runs and who waits from `start_ns` to `end_ns`; before the run.
    pub fn trace(&mut self, start_ns: u64, end_ns: u64) {
        let _ = (start_ns, end_ns);
    }

    /// Runs until this time, from where it stopped.
    pub fn run_until(&mut self, end_ns: u64) {
        let _ = end_ns;
    }

    /// The time up to which it ran.
    pub fn now_ns(&self) -> u64 {
        0
    }

    /// What was measured up to now.
    pub fn measure(&self) -> Run {
        todo!()
    }

    /// The trace so far.
    pub fn take_trace(&mut self) -> Trace {
        todo!()
    }
}
