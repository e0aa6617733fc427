// SPDX-License-Identifier: GPL-2.0-only
//! What the domains and vCPUs of a host get and wait for.
//!
//! A source yields [`Snapshot`]s: a simulation ([`SimulationSource`]), this Linux host, or a
//! [`Recording`] of either, which a [`Recorder`] wrote.

mod columns;
mod fill_screen;
mod interval;
mod linux;
mod metrics;
mod perfetto;
mod qemu;
mod recording;
mod screen;
mod simulation;
mod snapshot;
mod source;
mod table;

pub use fill_screen::{ScreenError, fill_screen};
pub use interval::{DomainInterval, Interval, Rates, VcpuInterval};
pub use linux::{LinuxError, LinuxSource};
pub use metrics::OPENMETRICS;
pub use perfetto::PerfettoTrace;
pub use recording::{Ending, Recorder, Recording, RecordingError};
pub use screen::{Action, Looks, Screen};
pub use simulation::SimulationSource;
pub use snapshot::{Domain, Figures, Host, Snapshot, State, Structure, Vcpu, Waits};
pub use source::Source;
