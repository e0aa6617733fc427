// SPDX-License-Identifier: GPL-2.0-only
//! What the domains and vCPUs of a host get and wait for.
//!
//! A [`Source`] yields snapshots ([`steelyard_recording`]): a simulation, this host (Linux, or Xen's
//! dom0), or a recording of either.

mod columns;
mod fill_screen;
mod full_screen;
mod interval;
mod linux;
mod metrics;
#[cfg_attr(not(feature = "bpf"), path = "unobserved.rs")]
mod observed;
mod open_files;
mod perfetto;
mod rules;
mod screen;
mod server;
mod settings;
mod simulation;
mod source;
mod table;
mod tape;
mod timeline;
mod views;
mod xen;

pub use fill_screen::{ScreenError, fill_screen};
pub use full_screen::{FullScreen, give_back};
pub use interval::{DomainInterval, Interval, Past, ProcessTimes, Rates, Timeline, VcpuInterval};
pub use linux::{LinuxError, LinuxSource};
pub use metrics::{Counter, Exposition, OPENMETRICS};
pub use perfetto::PerfettoTrace;
pub use rules::alerting_rules;
pub use screen::{Action, Looks, Screen};
pub use server::{Exchange, Request, Server};
pub use settings::{Alerts, Settings, SettingsError};
pub use simulation::SimulationSource;
pub use source::{Source, SourceError};
pub use xen::{XenError, XenSource};
