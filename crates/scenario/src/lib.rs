// SPDX-License-Identifier: GPL-2.0-only
//! What Steelyard reads: scenarios in TOML, recordings of Linux hosts, VM descriptions of libvirt
//! and Xen. Everything becomes a scenario first ([`import`]), so that there is one way to
//! [`Loaded`], which is ready to run; every error is a [`Diagnostic`] that shows where.

mod causes;
mod diagnostic;
mod document;
mod file;
mod follower;
mod host;
mod import;
mod known;
mod load;
mod loads;
mod priority;
mod recognised;
mod recording;
mod rest;
mod settings;
mod wakers;

pub use diagnostic::{Diagnostic, Place, Source, did_you_mean};
pub use document::{key_part, locate, parse};
pub use file::{DomainEntry, ParameterValue, PolicyEntry, Scenario, schema};
pub use host::{ControlGroup, DescribedDomain, HostDescription, Machine, Thread, beside};
pub use import::libvirt::libvirt_settings;
pub use import::{import, import_from, is_recording, open_recording, recording_error, snapshots};
pub use load::{
    LabelledPolicy, Loaded, MAX_EVENTS, MAX_RUN_BYTES, Options, OwnScheduler, load, load_text,
    policy,
};
pub use loads::{LOADS, Loads, parse_loads};
pub use priority::weight_of_niceness;
pub use settings::{
    DomainSettings, HostSettings, PolicySettings, SETTINGS, SettingsOfDomains, parse_settings,
    read_settings, write_settings,
};
