// SPDX-License-Identifier: GPL-2.0-only
//! What runs in guests. Each workload is one module behind `Program`: a configuration that a
//! scenario can write, and a program that says, thread by thread, what comes next. Its head says
//! what it models, and which of its parameters want to be calibrated on what; their defaults are
//! estimates from first principles.
//!
//! To add one: a module here, a variant of [`Workload`], an arm in `Workload::program`.

mod backend;
mod boot;
mod busy;
mod clocked;
mod disk;
mod hackbench;
mod httperf;
mod lookbusy;
mod oltp;
mod ping;
mod replay;
mod spinlock;
mod stream;
mod sysbench_cpu;
mod video;
mod web;

use std::sync::Arc;

use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use backend::Backend;
pub use boot::Boot;
pub use busy::Busy;
pub use clocked::Clocked;
pub use disk::Disk;
pub use hackbench::Hackbench;
pub use httperf::Httperf;
pub use lookbusy::Lookbusy;
pub use oltp::Oltp;
pub use ping::Ping;
pub(crate) use replay::Peer;
pub use replay::{Burst, Cause, RecordedThread, Replay, ReplayThread, Wake};
pub use spinlock::Spinlock;
pub use stream::{Direction, Stream};
pub use sysbench_cpu::SysbenchCpu;
pub use video::Video;
pub use web::{Client, Web};

use crate::measure::TaskValue;
use crate::numbers::{TaskNumber, ThreadNumber};
use crate::random::Random;

/// What the threads of a task do.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Computes, sleeps, and so on for ever.
    Busy(Busy),
    /// Computes for a part of every period of the clock.
    Clocked(Clocked),
    /// sysbench cpu: a number of events, each of the same CPU time, over all threads.
    SysbenchCpu(SysbenchCpu),
    /// lookbusy: keeps a CPU busy for so many percent of the time, by the guest's own clock.
    Lookbusy(Lookbusy),
    /// A web server and its clients outside the host.
    Web(Web),
    /// httperf outside, and a web server, over TCP.
    Httperf(Httperf),
    /// Answers echo requests from outside.
    Ping(Ping),
    /// A bulk stream to or from outside.
    Stream(Stream),
    /// Reads or writes a disk, block after block.
    Disk(Disk),
    /// Plays a video: frames and sound, each with a deadline.
    Video(Video),
    /// Starts an operating system: reads the disk and computes, then is idle.
    Boot(Boot),
    /// Threads that share a spin lock.
    Spinlock(Spinlock),
    /// SysBench OLTP: transactions with row locks, kernel spin locks and storage waits.
    Oltp(Oltp),
    /// hackbench: groups of processes that send each other messages over sockets.
    Hackbench(Hackbench),
    /// The run and sleep times of recorded threads.
    Replay(Replay),
}

impl Workload {
    /// The name that a scenario uses.
    pub fn name(&self) -> &'static str {
        match self {
            Workload::Busy(_) => "busy",
            Workload::Clocked(_) => "clocked",
            Workload::SysbenchCpu(_) => "sysbench-cpu",
            Workload::Lookbusy(_) => "lookbusy",
            Workload::Web(_) => "web",
            Workload::Httperf(_) => "httperf",
            Workload::Ping(_) => "ping",
            Workload::Stream(_) => "stream",
            Workload::Disk(_) => "disk",
            Workload::Video(_) => "video",
            Workload::Boot(_) => "boot",
            Workload::Spinlock(_) => "spinlock",
            Workload::Oltp(_) => "oltp",
            Workload::Hackbench(_) => "hackbench",
            Workload::Replay(_) => "replay",
        }
    }

    /// The pCPU that this thread belongs to at first, if that is known.
    pub(crate) fn first_pcpu(&self, thread: u32) -> Option<u32> {
        match self {
            Workload::Replay(replay) => replay.threads.get(thread as usize)?.first_pcpu,
            _ => None,
        }
    }

    pub(crate) fn program(&self, threads: u32) -> Box<dyn Program> {
        match self {
            Workload::Busy(config) => Box::new(busy::Program::new(config, threads)),
            Workload::Clocked(config) => Box::new(clocked::Program::new(config, threads)),
            Workload::SysbenchCpu(config) => Box::new(sysbench_cpu::Program::new(config, threads)),
            Workload::Lookbusy(config) => Box::new(lookbusy::Program::new(config, threads)),
            Workload::Web(config) => Box::new(web::Program::new(config, threads)),
            Workload::Httperf(config) => Box::new(httperf::Program::new(config, threads)),
            Workload::Ping(config) => Box::new(ping::Program::new(config, threads)),
            Workload::Stream(config) => Box::new(stream::Program::new(config, threads)),
            Workload::Disk(config) => Box::new(disk::Program::new(config, threads)),
            Workload::Video(config) => Box::new(video::Program::new(config, threads)),
            Workload::Boot(config) => Box::new(boot::Program::new(config, threads)),
            Workload::Spinlock(config) => Box::new(spinlock::Program::new(config, threads)),
            Workload::Oltp(config) => Box::new(oltp::Program::new(config, threads)),
            Workload::Hackbench(config) => Box::new(hackbench::Program::new(config, threads)),
            Workload::Replay(config) => Box::new(replay::Program::new(config)),
        }
    }
}

macro_rules! into_workload {
    ($($config:ident),*) => {
        $(impl From<$config> for Workload {
            fn from(config: $config) -> Self {
                Workload::$config(config)
            }
        })*
    };
}
into_workload!(
    Busy,
    Clocked,
    SysbenchCpu,
    Lookbusy,
    Web,
    Httperf,
    Ping,
    Stream,
    Disk,
    Video,
    Boot,
    Spinlock,
    Oltp,
    Hackbench,
    Replay
);

/// What a thread does next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Uses so much CPU time.
    Compute(u64),
    /// Uses so much CPU time, again and again for ever: [`Program::repeated`] is told.
    Repeat(u64),
    /// Sleeps for so many ns.
    Sleep(u64),
    /// Takes the next packet that has come for the task, waiting for one if there is none.
    Receive,
    /// Sends to the outside and goes on.
    Send(Packet),
    /// Reads or writes so many bytes on the disk, and waits for that.
    Disk(u64),
    /// Uses so much CPU time in the guest's kernel, which no other thread interrupts.
    Kernel(u64),
    /// Takes this spin lock of the task's, spinning until it is free, uses so much CPU time, and gives it back; all of that
    /// in the guest's kernel.
    Hold { lock: u32, ns: u64 },
    /// Takes one from this semaphore of the task's, sleeping until there is one.
    Wait(u32),
    /// Gives it one: to who has waited longest.
    Signal(u32),
    /// Its work has caused one more wake; this thread, if there is one, awaits it or will.
    Cause(ThreadNumber),
    /// Sleeps until that thread's work has caused so many wakes, if it has not yet; or only if that one is awake, until
    /// it has worked for so long.
    Await { waker: ThreadNumber, wakes: u64, work_ns: Option<u64> },
    /// Passes on what the driver domain has worked off.
    Deliver(Packet),
    /// Ends.
    End,
}

/// Packets that travel together, or a disk request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Packet {
    /// The task that it is for or from.
    pub task: TaskNumber,
    /// The thread that waits for a disk request.
    pub thread: ThreadNumber,
    /// Which way.
    pub way: Way,
    /// The workload's own.
    pub token: u64,
    /// Number of packets.
    pub packets: u32,
    /// Bytes over all of them.
    pub bytes: u64,
    /// CPU time that the driver domain pays at this point of the way.
    pub cost_ns: u64,
}

impl Packet {
    /// Packets of this size in all.
    pub fn new(token: u64, packets: u32, bytes: u64) -> Self {
        Packet { token, packets, bytes, ..Packet::default() }
    }
}

/// Which way a [`Packet`] goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Way {
    /// From outside to a guest.
    #[default]
    In,
    /// From a guest to the outside.
    Out,
    /// A request from a guest to the disk.
    ToDisk,
    /// Its completion.
    FromDisk,
    /// A guest's access to the controller that the driver domain emulates.
    Access,
}

/// Something happened outside the host.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// The domain started.
    Start,
    /// The time of an [`Order::After`] has come.
    Timer,
    /// What the guest sent has arrived.
    Arrived(Packet),
    /// What was sent to the guest found its backlog full.
    Dropped,
}

/// What the outside does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    /// Be told [`Event::Timer`] after so many ns.
    After(u64),
    /// Send to the task in the guest.
    Send(Packet),
}

/// What a thread sees when it is asked for its next step.
pub(crate) struct Guest<'a> {
    pub now_ns: u64,
    /// Since when the thread could have taken this step, had it had a pCPU.
    pub ready_ns: u64,
    /// CPU time of the guest's vCPUs up to now, for a program that [`Program::reads_stat`].
    pub busy_ns: u64,
    pub random: &'a mut Random,
    /// After [`Step::Receive`]: the packet.
    pub received: &'a mut Option<Packet>,
    /// After [`Step::Hold`]: when it had the lock.
    pub acquired_ns: u64,
}

/// What the outside sees.
pub(crate) struct Outside<'a> {
    pub now_ns: u64,
    pub random: &'a mut Random,
    pub orders: &'a mut Vec<Order>,
}

/// A workload at work.
pub(crate) trait Program: Send {
    /// What this thread does next; called when the step before is done.
    fn next(&mut self, thread: u32, guest: &mut Guest<'_>) -> Step;

    /// Of the thread's [`Step::Repeat`] so many steps have ended, the last of them at `end_ns`, those before it each one
    /// step earlier, and another has begun. It may be told later than that.
    fn repeated(&mut self, thread: u32, ends: u64, end_ns: u64) {
        let _ = (thread, ends, end_ns);
    }

    /// What clients outside do.
    fn outside(&mut self, event: Event, outside: &mut Outside<'_>) {
        let _ = (event, outside);
    }

    /// CPU time of the work that has arrived by now, done or not. None: work comes when that before it is done, so that
    /// nobody knows what would have come.
    fn offered_ns(&self, now_ns: u64) -> Option<u64> {
        let _ = now_ns;
        None
    }

    /// Packets that may wait for the task before more are dropped.
    fn backlog(&self) -> usize {
        usize::MAX
    }

    /// Whether this thread is the guest's kernel that takes an interrupt: it runs before all others.
    fn interrupts(&self, thread: u32) -> bool {
        let _ = thread;
        false
    }

    /// Whether it wants to know how busy the guest's CPUs were.
    fn reads_stat(&self) -> bool {
        false
    }

    /// Number of spin locks.
    fn locks(&self) -> u32 {
        0
    }

    /// What is in each semaphore at first.
    fn semaphores(&self) -> Vec<u32> {
        vec![]
    }

    /// The vCPU of the domain that this thread must stay on.
    fn vcpu(&self, thread: u32) -> Option<u32> {
        let _ = thread;
        None
    }

    /// Which threads of the host replay the same recording.
    fn meet(&mut self, peers: &Arc<[Peer]>) {
        let _ = peers;
    }

    /// The workload's own result.
    fn values(&self, elapsed_ns: u64) -> Vec<TaskValue>;
}

/// Times that a workload measures, to 1 %.
pub(crate) struct Times {
    histogram: Histogram<u32>,
    sum_ns: u64,
    worst_ns: u64,
}

impl Times {
    pub fn new() -> Self {
        Times { histogram: crate::waits::histogram(), sum_ns: 0, worst_ns: 0 }
    }

    pub fn record(&mut self, ns: u64) {
        self.record_same(ns, 1);
    }

    /// The same time so often, at least once.
    pub fn record_same(&mut self, ns: u64, count: u64) {
        self.histogram.saturating_record_n(ns, u32::try_from(count).unwrap_or(u32::MAX));
        self.sum_ns = self.sum_ns.saturating_add(ns.saturating_mul(count));
        self.worst_ns = self.worst_ns.max(ns);
    }

    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Mean, p50, p90, p99 and worst in ms.
    pub fn values(&self, name: &str) -> impl Iterator<Item = TaskValue> {
        let some = self.count() > 0;
        let quantile = |quantile| self.histogram.value_at_quantile(quantile).min(self.worst_ns);
        let figures = [
            ("mean", self.sum_ns as f64 / self.count() as f64),
            ("p50", quantile(0.5) as f64),
            ("p90", quantile(0.9) as f64),
            ("p99", quantile(0.99) as f64),
            ("worst", self.worst_ns as f64),
        ];
        let name = name.to_owned();
        figures.into_iter().map(move |(figure, ns)| {
            value(format!("{name} {figure}"), "ms", Some(false), some.then_some(ns / 1e6))
        })
    }
}

/// A figure of a workload.
pub(crate) fn value(
    name: impl Into<String>,
    unit: &str,
    more_is_better: Option<bool>,
    value: Option<f64>,
) -> TaskValue {
    TaskValue { name: name.into(), unit: unit.to_owned(), more_is_better, value }
}

/// So many per second of elapsed time.
pub(crate) fn rate(name: &str, unit: &str, count: f64, elapsed_ns: u64) -> TaskValue {
    let seconds = elapsed_ns as f64 / 1e9;
    value(name, unit, Some(true), (elapsed_ns > 0).then(|| count / seconds))
}
