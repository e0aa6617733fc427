// SPDX-License-Identifier: GPL-2.0-only
//! What a recorded kernel did.
use std::sync::Arc;
use steelyard_simulator::{config::Setup, measure::Run, workload::ReplayThread};
#[derive(Debug)]
pub(crate) struct Recording {}
pub(crate) struct Process {
    pub replay: Vec<Arc<ReplayThread>>,
}
impl Recording {
    pub fn process(&self, _pid: u32) -> Option<&Process> {
        None
    }
    pub fn measure(&self, _setup: &Setup) -> Option<Run> {
        None
    }
}
