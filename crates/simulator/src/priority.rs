// SPDX-License-Identifier: GPL-2.0-only
//! How urgent tasks of a Linux host are, in the kernel's numbers.

/// The kernel's number for how urgent a thread is: up to 99 real-time, from 100 on that and a niceness from -20 on.
pub const NICE_LEAST: u32 = 100;
/// Of niceness 0.
pub const NICE_USUAL: u32 = 120;
/// Of niceness 19.
pub const NICE_MOST: u32 = 139;
/// sched_prio_to_weight of the kernel, from niceness -20 to 19; 1024 is the usual one.
pub const NICE_WEIGHTS: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
];

/// What sched_ext gives a task of this priority: sched_weight_to_cgroup(), 100 being the usual one.
pub(crate) fn sched_ext_weight(priority: u32) -> u64 {
    let index = priority.clamp(NICE_LEAST, NICE_MOST) - NICE_LEAST;
    let weight = u64::from(NICE_WEIGHTS[index as usize]);
    ((weight * 100 + 512) / 1024).clamp(1, 10_000)
}
