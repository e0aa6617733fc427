// SPDX-License-Identifier: GPL-2.0-only
//! Linux as a host of Steelyard's policies: a sched_ext scheduler (`bpf/`) and its loader.
//!
//! Without the feature `bpf`, which needs clang and libelf, this crate is empty.
#![cfg(feature = "bpf")]

mod check;
mod error;
mod host;
mod observer;
mod status;

/// What libbpf-cargo generates from `bpf/`.
#[allow(warnings, clippy::all, clippy::undocumented_unsafe_blocks, clippy::unwrap_used)]
mod skeleton {
    /// The scheduler.
    pub mod scheduler {
        include!(concat!(env!("OUT_DIR"), "/steelyard.skel.rs"));
    }
    /// The observer.
    pub mod observer {
        include!(concat!(env!("OUT_DIR"), "/observer.skel.rs"));
    }
}

pub use error::KvmError;
pub use host::{Options, Scheduler};
pub use observer::{Observer, Threads};
pub use status::{DomainStatus, Status, VcpuStatus, status};
