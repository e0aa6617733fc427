// SPDX-License-Identifier: GPL-2.0-only
//! What the domains and vCPUs of a host get and wait for.
//!
//! A source yields [`Snapshot`]s: a simulation ([`SimulationSource`]), this Linux host, or a
//! [`Recording`] of either, which a [`Recorder`] wrote.

mod recording;
mod simulation;
mod snapshot;

pub use recording::{Ending, Recorder, Recording, RecordingError};
pub use simulation::SimulationSource;
pub use snapshot::{Domain, Figures, Host, Snapshot, State, Structure, Vcpu, Waits};
