// SPDX-License-Identifier: GPL-2.0-only
//! What runs in guests. Each workload is one module behind [`Program`]: a configuration that a
//! scenario can write, and a program that says, thread by thread, what comes next.
//!
//! To add one: a module here, a variant of [`Workload`], an arm in [`Workload::program`].

mod busy;
mod disk;
mod ping;
mod replay;
mod spinlock;
mod stream;
mod sysbench_cpu;
mod web;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use busy::Busy;
pub use disk::Disk;
pub use ping::Ping;
pub use replay::{Burst, Replay, ReplayThread};
pub use spinlock::Spinlock;
pub use stream::{Direction, Stream};
pub use sysbench_cpu::SysbenchCpu;
pub use web::{Client, Web};

/// What the threads of a task do.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Computes, sleeps, and so on for ever.
    Busy(Busy),
    /// sysbench cpu: a number of events, each of the same CPU time, over all threads.
    SysbenchCpu(SysbenchCpu),
    /// A web server and its clients outside the host.
    Web(Web),
    /// Answers echo requests from outside.
    Ping(Ping),
    /// A bulk stream to or from outside.
    Stream(Stream),
    /// Reads or writes a disk, block after block.
    Disk(Disk),
    /// Threads that share a spin lock.
    Spinlock(Spinlock),
    /// The run and sleep times of recorded threads.
    Replay(Replay),
}
