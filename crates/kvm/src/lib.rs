// SPDX-License-Identifier: GPL-2.0-only
//! Linux as a host of Steelyard's policies: a sched_ext scheduler (`bpf/`) and its loader.
//!
//! Without the feature `bpf`, which needs clang and libelf, this crate is empty.
#![cfg(feature = "bpf")]

mod asked;
mod check;
mod error;
mod host;
mod observer;
mod parts;
mod privilege;
mod status;
mod topology;
mod wanted;

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

pub use check::{Finding, check};
pub use error::KvmError;
pub use host::{Options, Scheduler};
pub use observer::{
    Doing, Observer, ThreadFigures, ThreadGroup, ThreadPlacement, Threads, Told, Woken,
};
pub use status::{
    Counted, CpuStatus, DomainStatus, Standings, Status, Times, VcpuStatus, loaded, now_ns, status,
};

/// A struct of the core as another set of bindings has it: the skeleton's, or `steelyard_policy`'s.
///
/// # Safety
/// Both are the same C struct, of plain numbers.
unsafe fn as_core<From, To>(from: &From) -> &To {
    const { assert!(size_of::<From>() == size_of::<To>() && align_of::<From>() == align_of::<To>()) };
    // SAFETY: the same bytes, as the caller promises.
    unsafe { &*std::ptr::from_ref(from).cast() }
}

/// A string of the program.
fn text(bytes: &[i8]) -> String {
    let bytes: Vec<u8> =
        bytes.iter().map(|&byte| byte as u8).take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&bytes).trim().to_owned()
}
