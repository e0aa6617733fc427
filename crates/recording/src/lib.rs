// SPDX-License-Identifier: GPL-2.0-only
//! What the domains and vCPUs of a host got and waited for, as whatever watched it tells: a
//! [`Snapshot`] per look, with the single runs and waits since the look before where they can be
//! seen. A [`Recorder`] keeps them in a file, a [`Recording`] reads them back.

mod column;
mod events;
pub mod group_path;
pub mod groups;
mod history;
mod owners;
mod packets;
pub mod qemu;
mod recording;
mod snapshot;
mod tally;
mod threads;
mod trace_events;
pub mod weight;
mod xentrace;

pub use group_path::GroupPath;
pub use history::{History, Open};
pub use owners::Owners;
pub use packets::Packets;
pub use recording::{Ending, Recorder, Recording, RecordingError, looks_like, merged, read};
pub use snapshot::{
    Domain, Figures, Host, OtherRun, PolicyState, Snapshot, State, Structure, Vcpu, Waits,
};
pub use tally::Tally;
pub use threads::{Group, Placement, ThreadEvents, Wake, Who};
pub use trace_events::{TraceEvents, TraceEventsError, read_trace_events};
pub use xentrace::{
    XEN_DECISIONS, XENTRACE_RUNSTATES, Xentrace, XentraceError, XentraceFile, XentraceSurvey,
    is_xentrace, placed,
};
