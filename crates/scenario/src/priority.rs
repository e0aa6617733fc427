// SPDX-License-Identifier: GPL-2.0-only
//! How urgent threads of a Linux host are, and what is made of those that are the rest of it.

/// Processes and groups that used less of a CPU are no domains of their own, unless they are virtual machines, but
/// belong to the rest of the host.
pub const LEAST_PERMILLE: u64 = 5;

/// vCPUs that a domain can have.
pub const MAX_THREADS: usize = 1024;

/// Domains of the rest are numbered from here: Linux has no more processes (PID_MAX_LIMIT).
pub const REST: u32 = 1 << 22;

/// The kernel's number for how urgent a thread is: up to 99 real-time, from 100 on that and a niceness from -20 on.
pub const NICE_LEAST: u32 = 100;
pub const NICE_USUAL: u32 = 120;
pub const NICE_MOST: u32 = 139;
/// sched_prio_to_weight of the kernel, from niceness -20 to 19; 1024 is the usual one.
pub const NICE_WEIGHTS: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
];

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

/// What the domain of such threads is called.
pub fn rest_name(priority: u32) -> String {
    match priority {
        NICE_USUAL => "rest of the host".to_owned(),
        ..NICE_LEAST => "rest of the host, real-time".to_owned(),
        _ => format!("rest of the host, nice {}", i64::from(priority) - i64::from(NICE_USUAL)),
    }
}
