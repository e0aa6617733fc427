// SPDX-License-Identifier: GPL-2.0-only
//! How urgent threads of a Linux host are, and what is made of those that are the rest of it.

use std::collections::BTreeMap;

use steelyard_simulator::config::HostTasks;
pub use steelyard_simulator::priority::{NICE_LEAST, NICE_MOST, NICE_USUAL, NICE_WEIGHTS};

/// Processes and groups that used less of a CPU are no domains of their own, unless they are virtual machines, but
/// belong to the rest of the host.
pub const LEAST_PERMILLE: u64 = 5;

/// vCPUs that a domain can have.
pub const MAX_THREADS: usize = 1024;

/// Domains of the rest are numbered from here: Linux has no more processes (PID_MAX_LIMIT).
pub const REST: u32 = 1 << 22;

/// The weight of a thread, or of a session, of this niceness, 256 being the usual one.
#[must_use]
pub fn weight_of_niceness(nice: i32) -> u32 {
    weight(NICE_USUAL.saturating_add_signed(nice))
}

/// The weight of such a thread, 256 being the usual one. Real-time ones have the greatest: fair knows no more.
pub fn weight(priority: u32) -> u32 {
    let index = priority.clamp(NICE_LEAST, NICE_MOST) - NICE_LEAST;
    (NICE_WEIGHTS[index as usize] + 2) / 4
}

/// The priority that a thread has if it is told; all that are real-time are alike.
pub fn known(priority: Option<u32>) -> u32 {
    match priority.unwrap_or(NICE_USUAL) {
        ..NICE_LEAST => 0,
        priority => priority.min(NICE_MOST),
    }
}

/// The priority at which most time was used, of threads by theirs and how long each ran.
pub fn prevailing(threads: impl Iterator<Item = (u32, u64)>) -> u32 {
    let mut used: BTreeMap<u32, u64> = BTreeMap::new();
    for (priority, ran_ns) in threads {
        *used.entry(priority).or_default() += ran_ns;
    }
    let most = used.into_iter().max_by_key(|&(_, used_ns)| used_ns);
    most.map_or(NICE_USUAL, |(priority, _)| priority)
}

/// What the domain of such threads is called.
pub fn rest_name(tasks: &HostTasks) -> String {
    let name = if tasks.kernel { "rest of the host, kernel" } else { "rest of the host" };
    match tasks.priority {
        NICE_USUAL => name.to_owned(),
        ..NICE_LEAST => format!("{name}, real-time"),
        priority => format!("{name}, nice {}", i64::from(priority) - i64::from(NICE_USUAL)),
    }
}
