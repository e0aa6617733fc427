// SPDX-License-Identifier: GPL-2.0-only
//! What is simulated: a host, its domains, and what runs in them.
//!
//! These types are also the tables of a scenario file (crate `steelyard-scenario`). Every field has
//! a default where one makes sense; [`crate::Simulation::new`] checks what spans several fields.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits;
use crate::priority;
use crate::units::{CpuSet, Nanoseconds};
use crate::workload::Workload;

/// A host with its domains.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// The machine.
    pub host: Host,
    /// Its domains; names are unique.
    pub domains: Vec<Domain>,
}

/// One physical machine.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Host {
    /// Sockets.
    #[schemars(range(min = limits::SOCKETS.least, max = limits::SOCKETS.most))]
    pub sockets: u32,
    /// Cores of each socket.
    #[schemars(range(min = limits::CORES.least, max = limits::CORES.most))]
    pub cores_per_socket: u32,
    /// NUMA nodes of each socket, with as many cores each.
    #[schemars(range(min = limits::NODES.least, max = limits::NODES.most))]
    pub nodes_per_socket: u32,
    /// Last-level caches of each node, each shared by as many cores.
    #[schemars(range(min = limits::CACHES.least, max = limits::CACHES.most))]
    pub caches_per_node: u32,
    /// Hardware threads of each core. Each is a pCPU.
    #[schemars(range(min = limits::CORE_THREADS.least, max = limits::CORE_THREADS.most))]
    pub threads_per_core: u32,
    /// Speed at which a guest computes while another thread of its core is busy, in percent of that alone on the core.
    /// 100: threads share nothing. Two threads of Intel's processors from 2008 to 2011 do 1.2 to 1.3 times as much of
    /// integer code as one: 60 to 65.
    #[schemars(range(min = limits::THREAD_SPEED_PERCENT.least, max = limits::THREAD_SPEED_PERCENT.most))]
    pub thread_speed_percent: u32,
    /// How tasks that are no vCPUs run; without it `among` under `fair` without a governor, which stands for Linux's
    /// own scheduler, and else `beside`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others: Option<Others>,
    /// Time between ticks of the host's kernel (CONFIG_HZ=250): where such tasks run beside the vCPUs, a tick ends
    /// their turns. 100 us .. 1 s.
    pub tick: Nanoseconds,
    /// Control groups in which domains are; an outer one comes before those in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub group: Vec<Group>,
    /// What things cost.
    pub costs: Costs,
    /// Network and disk.
    pub io: Io,
}

impl Default for Host {
    fn default() -> Self {
        Host {
            sockets: 1,
            cores_per_socket: 1,
            nodes_per_socket: 1,
            caches_per_node: 1,
            threads_per_core: 1,
            thread_speed_percent: 100,
            others: None,
            tick: Nanoseconds::from_ms(4),
            group: vec![],
            costs: Costs::default(),
            io: Io::default(),
        }
    }
}

impl Host {
    /// A host of one socket with so many single-threaded cores.
    pub fn with_pcpus(pcpus: u32) -> Self {
        Host { cores_per_socket: pcpus, ..Host::default() }
    }

    /// Number of pCPUs.
    pub fn pcpus(&self) -> u32 {
        self.sockets.saturating_mul(self.cores_per_socket).saturating_mul(self.threads_per_core)
    }
}

/// A control group of a Linux host around several domains, as a slice of systemd is: `fair` with `groups = "entities"`
/// gives its domains together what falls to its weight. Other policies know the domains' weights alone.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Its name, unique among groups.
    pub name: String,
    /// Its part of the CPU time under contention, relative to what else is where it is.
    #[serde(default = "default_weight")]
    #[schemars(range(min = limits::WEIGHT.least, max = limits::WEIGHT.most))]
    pub weight: u32,
    /// The group around it, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// How tasks of the host that are no vCPUs (`host_tasks` of a domain) share it with the vCPUs. Real-time ones are above
/// all others either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Others {
    /// As vCPUs of their domain, by the same policy: Linux's own scheduler.
    Among,
    /// In turns with the vCPUs on each pCPU, out of the policy's sight: `steelyard kvm run`.
    Beside,
}

/// Tasks of a Linux host.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostTasks {
    /// In the kernel's numbers: below 100 real-time, from 100 on niceness -20 to 19.
    #[serde(default = "usual_priority")]
    #[schemars(range(min = limits::PRIORITY.least, max = limits::PRIORITY.most))]
    pub priority: u32,
    /// Threads of the kernel, which run at once when they wake.
    #[serde(default)]
    pub kernel: bool,
}

impl HostTasks {
    /// Above all that are not.
    #[must_use]
    pub fn is_real_time(&self) -> bool {
        self.priority < priority::NICE_LEAST
    }
}

fn usual_priority() -> u32 {
    priority::NICE_USUAL
}

/// CPU time lost to the machinery. A vCPU pays for its own: gotten time without progress.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Costs {
    /// Switching a pCPU from one vCPU to another.
    pub context_switch: Nanoseconds,
    /// Waking an idle pCPU for a vCPU by an inter-processor interrupt.
    pub interrupt: Nanoseconds,
    /// How long an idle pCPU takes to leave its sleep state. With it a vCPU waits for the interrupt and for this, as
    /// real hosts count; 0: the pCPU chooses at once, and the vCPU pays for the interrupt as its own time.
    pub idle_exit: Nanoseconds,
    /// One VM exit: a guest's sleep, I/O request or pause loop.
    pub vm_exit: Nanoseconds,
    /// Refilling the caches after another vCPU used the pCPU; less if that one ran for less.
    pub cache_refill: Nanoseconds,
    /// More refill when a vCPU starts on another core of its last-level cache.
    pub migration: Nanoseconds,
    /// More refill when a vCPU starts under another last-level cache of its socket.
    pub cache_migration: Nanoseconds,
    /// More refill when a vCPU starts on another socket.
    pub socket_migration: Nanoseconds,
    /// How long a guest spins before the CPU reports a pause loop: 4096 cycles.
    pub pause_loop_window: Nanoseconds,
    /// How many times as long the window is after each report, until the vCPU loses its pCPU: 1, or 2 as KVM has it
    /// since Linux 3.18 (ple_window_grow).
    #[schemars(range(min = limits::PAUSE_LOOP_GROWTH.least, max = limits::PAUSE_LOOP_GROWTH.most))]
    pub pause_loop_growth: u32,
}

impl Default for Costs {
    fn default() -> Self {
        Costs {
            context_switch: Nanoseconds(1_500),
            interrupt: Nanoseconds(1_000),
            idle_exit: Nanoseconds(0),
            vm_exit: Nanoseconds(1_000),
            cache_refill: Nanoseconds::from_us(20),
            migration: Nanoseconds::from_us(10),
            // As in another socket, it finds nothing there of what it has used.
            cache_migration: Nanoseconds::from_us(100),
            socket_migration: Nanoseconds::from_us(100),
            pause_loop_window: Nanoseconds(1_500),
            pause_loop_growth: 1,
        }
    }
}

/// Network and disk of the host.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Io {
    /// The domain whose CPU time pays for packets and disk requests (Xen's dom0). Without one the
    /// devices work by themselves and cost no CPU.
    pub driver_domain: Option<String>,
    /// CPU time of the driver domain per packet.
    pub packet_cost: Nanoseconds,
    /// CPU time of the driver domain per disk request of at most 44 KiB.
    pub request_cost: Nanoseconds,
    /// Speed of the network link.
    #[schemars(range(min = limits::LINK_MBIT_PER_S.least, max = limits::LINK_MBIT_PER_S.most))]
    pub link_mbit_per_s: u64,
    /// Time on the wire between the host and a client, one way.
    pub wire_latency: Nanoseconds,
    /// What bounds the packets before a guest, as between Xen's netback and netfront; without it nothing does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vif: Option<Vif>,
    /// The disk's controller, if the driver domain emulates one for its guests; without it they share a ring with the
    /// driver domain, as blkfront and blkback do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<Controller>,
    /// Time of a disk request before its first byte.
    pub disk_latency: Nanoseconds,
    /// Speed of the disk.
    #[schemars(range(min = limits::DISK_MBYTE_PER_S.least, max = limits::DISK_MBYTE_PER_S.most))]
    pub disk_mbyte_per_s: u64,
}

impl Io {
    /// Accesses to an emulated controller in a request; 0: none is emulated.
    pub(crate) fn accesses(&self) -> u32 {
        self.controller.as_ref().map_or(0, |controller| controller.accesses)
    }
}

impl Default for Io {
    fn default() -> Self {
        Io {
            driver_domain: None,
            packet_cost: Nanoseconds::from_us(5),
            request_cost: Nanoseconds::from_us(20),
            link_mbit_per_s: 1000,
            wire_latency: Nanoseconds::from_us(50),
            vif: None,
            controller: None,
            disk_latency: Nanoseconds::from_us(100),
            disk_mbyte_per_s: 200,
        }
    }
}

/// A guest's network interface, as Linux has it under Xen (3.2 to 3.11: xen-netback/interface.c and netback.c,
/// xen-netfront.c): the guest gives buffers, each of which takes a packet; while few are left packets wait in the
/// interface's queue in the driver domain, and beyond that they are lost. Buffers that the guest has emptied are given
/// back in batches of half of all.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Vif {
    /// Packets that wait before the buffers (XENVIF_QUEUE_LENGTH).
    #[schemars(range(min = limits::VIF_PACKETS.least, max = limits::VIF_PACKETS.most))]
    pub queue_packets: u32,
    /// Buffers that the guest gives (RX_DFL_MIN_TARGET; more only after it has come to a quarter of them, which `reserve`
    /// prevents).
    #[schemars(range(min = limits::VIF_BUFFERS.least, max = limits::VIF_BUFFERS.most))]
    pub buffers: u32,
    /// With fewer left than that packets wait: the most that one packet could take (max_required_rx_slots(): 1 for the
    /// MTU, MAX_SKB_FRAGS of 17, and 1), as it may with scatter and gather, which is the default.
    #[schemars(range(min = limits::VIF_PACKETS.least, max = limits::VIF_PACKETS.most))]
    pub reserve: u32,
}

impl Default for Vif {
    fn default() -> Self {
        Vif { queue_packets: 32, buffers: 64, reserve: 19 }
    }
}

/// A disk controller that a process of the driver domain emulates: the guest waits at each access to one of its registers
/// until that process has had a CPU and answered. A real one's vCPU does; here it is the thread, and another of the guest may
/// have the vCPU meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Controller {
    /// Accesses of a request, half of them before the disk is asked and half once it has answered. A DMA command to
    /// an IDE disk takes some 20 by Linux's libata-sff.c.
    #[schemars(range(min = limits::ACCESSES.least, max = limits::ACCESSES.most))]
    pub accesses: u32,
    /// CPU time of the driver domain per access.
    pub access_cost: Nanoseconds,
}

impl Default for Controller {
    fn default() -> Self {
        Controller { accesses: 20, access_cost: Nanoseconds::from_us(5) }
    }
}

/// A virtual machine.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Domain {
    /// Its name, unique on the host.
    pub name: String,
    /// Number of vCPUs.
    #[serde(default = "one")]
    #[schemars(range(min = limits::VCPUS.least, max = limits::VCPUS.most))]
    pub vcpus: u32,
    /// Its part of the CPU time under contention, relative to the other domains; 1..65535.
    #[serde(default = "default_weight")]
    #[schemars(range(min = limits::WEIGHT.least, max = limits::WEIGHT.most))]
    pub weight: u32,
    /// Whether each vCPU has the whole weight for itself, as threads that no control group holds together
    /// (`fair`).
    #[serde(default)]
    pub ungrouped: bool,
    /// The control group that it is in, one of `group` of the host; its weight counts there.
    #[serde(default)]
    pub group: Option<String>,
    /// The most CPU time it may use, in percent of one pCPU; 0: no limit.
    #[serde(default)]
    #[schemars(range(min = limits::CAP_PERCENT.least, max = limits::CAP_PERCENT.most))]
    pub cap_percent: u32,
    /// CPU time of its cap that it may save for later; 0: what the policy says.
    #[serde(default)]
    pub cap_burst: Nanoseconds,
    /// CPU time that its work asks for, in percent of one pCPU, as declared to `load-weight`; 0: not declared.
    #[serde(default)]
    #[schemars(range(min = limits::LOAD_PERCENT.least, max = limits::LOAD_PERCENT.most))]
    pub load_percent: u32,
    /// The pCPUs that it may use: one set for all its vCPUs, or one for each. Empty: all.
    #[serde(default)]
    pub pin: Vec<CpuSet>,
    /// Of those, the pCPUs that it would rather use, as in `pin`. Empty, or none of those: no preference.
    #[serde(default)]
    pub pin_soft: Vec<CpuSet>,
    /// Its vCPUs are none, but tasks of the host itself; see `others` of the host.
    #[serde(default)]
    pub host_tasks: Option<HostTasks>,
    /// The slice it asks for, where a policy heeds that: 1 ns .. 1 s.
    #[serde(default)]
    pub slice: Option<Nanoseconds>,
    /// Its reservation under `sedf`.
    #[serde(default)]
    pub sedf: Option<Reservation>,
    /// The boost credit that it may save under `boost-credit`; without, what the policy says.
    #[serde(default)]
    pub boost: Option<Boost>,
    /// When it starts; before, it is not there.
    #[serde(default)]
    pub start: Nanoseconds,
    /// How long the guest's own scheduler lets a thread run while others wait.
    #[serde(default = "default_guest_slice")]
    pub guest_slice: Nanoseconds,
    /// What the guest's own scheduler takes for the time that a thread ran.
    #[serde(default)]
    pub guest_clock: GuestClock,
    /// How the guest kernel's spin locks are passed on.
    #[serde(default)]
    pub guest_locks: GuestLocks,
    /// What runs in it.
    #[serde(default)]
    pub task: Vec<Task>,
}

/// By which clock a guest's scheduler charges a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GuestClock {
    /// That of the vCPU: only while it runs (Linux under KVM and Xen where it accounts stolen time).
    #[default]
    Unstolen,
    /// That on the wall: a thread that was on a vCPU pays for the time that others had the pCPU (Linux under Xen from
    /// 2.6.36, whose sched_clock is xen_clocksource_read(), to 4.7).
    Wall,
}

/// Who gets a spin lock of a guest's kernel that was released while several spin for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GuestLocks {
    /// Whoever sees it free: only who has a pCPU.
    #[default]
    Unfair,
    /// The one that has spun longest, with a pCPU or without (Linux from 2.6.25).
    Ticket,
    /// The one that has spun longest; but who has spun for 115 us, or comes after one that has no pCPU, halts until it is
    /// its turn, and whoever comes meanwhile may take the lock (Linux from 4.2 under a hypervisor that it knows).
    Paravirtual,
}

fn one() -> u32 {
    1
}

fn default_weight() -> u32 {
    256
}

fn default_guest_slice() -> Nanoseconds {
    Nanoseconds::from_ms(4)
}

impl Domain {
    /// Whether it is a virtual machine, not tasks of the host.
    pub fn is_vm(&self) -> bool {
        self.host_tasks.is_none()
    }

    /// A domain with default settings and nothing to do.
    pub fn new(name: impl Into<String>, vcpus: u32) -> Self {
        Domain {
            name: name.into(),
            vcpus,
            weight: default_weight(),
            ungrouped: false,
            group: None,
            cap_percent: 0,
            cap_burst: Nanoseconds(0),
            load_percent: 0,
            pin: vec![],
            pin_soft: vec![],
            host_tasks: None,
            slice: None,
            sedf: None,
            boost: None,
            start: Nanoseconds(0),
            guest_slice: default_guest_slice(),
            guest_clock: GuestClock::default(),
            guest_locks: GuestLocks::default(),
            task: vec![],
        }
    }

    /// The same with one more task.
    #[must_use]
    pub fn with_task(mut self, threads: u32, workload: impl Into<Workload>) -> Self {
        self.task.push(Task { name: None, threads, workload: workload.into() });
        self
    }
}

/// Time reserved for each vCPU of a domain under `sedf`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reservation {
    /// 10 us .. 10 s. Without period and slice the domain's part is that of its weight.
    #[serde(default)]
    pub period: Nanoseconds,
    /// The time reserved in each period, at least 5 us.
    #[serde(default)]
    pub slice: Nanoseconds,
    /// Whether spare time may be used as well.
    #[serde(default)]
    pub extra_time: bool,
}

/// Boost credit of each vCPU of a domain under `boost-credit`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Boost {
    /// The most that it saves; 0: none.
    pub limit: Nanoseconds,
    /// What the domain is given, in percent of one pCPU, instead of what it leaves unused; 0: that.
    #[serde(default)]
    #[schemars(range(min = limits::BOOST_PERCENT.least, max = limits::BOOST_PERCENT.most))]
    pub ratio_percent: u32,
}

/// Threads in a domain that do the same work.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// A name for its results; without one that of the workload.
    #[serde(default)]
    pub name: Option<String>,
    /// Number of threads.
    #[serde(default = "one")]
    #[schemars(range(min = limits::THREADS.least, max = limits::THREADS.most))]
    pub threads: u32,
    /// What they do.
    pub workload: Workload,
}

/// Settings that cannot be simulated, and where they stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The way to the setting: keys, and numbers of items as in `domain`, `2`, `pin`.
    pub path: Vec<String>,
    /// What is wrong and what would be right.
    pub problem: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.path.join("."), self.problem)
    }
}

impl std::error::Error for ConfigError {}
