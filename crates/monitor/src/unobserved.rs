// SPDX-License-Identifier: GPL-2.0-only
//! In the place of the kernel's single runs and waits, where this is built without BPF.

use std::convert::Infallible;
use std::time::Instant;

use steelyard_recording::{Figures, Snapshot};

use crate::metrics::Counter;

/// There is none.
pub(crate) struct Observed(Infallible);

impl Observed {
    pub fn attach(_began: Instant) -> Result<Observed, String> {
        Err("this was built without BPF (`--features kvm`)".to_owned())
    }

    pub fn tell_others(&mut self) {
        match self.0 {}
    }

    pub fn set_keeps(&mut self, _keeps: bool) {
        match self.0 {}
    }

    pub fn find(&mut self) {
        match self.0 {}
    }

    pub fn look(&mut self, _time_ns: u64) {
        match self.0 {}
    }

    pub fn figures(&self, _tid: u64) -> Option<Figures> {
        match self.0 {}
    }

    pub fn complete(&mut self, _snapshot: &mut Snapshot) {
        match self.0 {}
    }

    pub fn instead(&mut self) -> Option<String> {
        match self.0 {}
    }

    pub fn attend(&mut self) {
        match self.0 {}
    }

    pub fn counters(&self) -> Vec<Counter> {
        match self.0 {}
    }

    pub fn lost(&self) -> u64 {
        match self.0 {}
    }
}
