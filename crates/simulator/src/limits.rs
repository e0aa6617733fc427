// SPDX-License-Identifier: GPL-2.0-only
//! From what to what each number of a scenario goes. The schema for editors and the checks
//! ([`crate::config::Setup::validate`]) both take it from here, so that they say the same.

use steelyard_policy::setting_range;

use crate::units::MAX_PCPU;

/// From the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The least.
    pub least: u64,
    /// The most.
    pub most: u64,
}

/// Control groups of a host.
pub const GROUPS: Range = range(0, 4096);
/// Control groups within each other.
pub const GROUP_DEPTH: Range = range(0, 3);

const fn range(least: u64, most: u64) -> Range {
    Range { least, most }
}

/// Of what an administrator asks for a domain, the core says it.
const fn setting((least, most): (u64, u64)) -> Range {
    range(least, most)
}

impl Range {
    /// Whether it goes so far.
    pub fn contains(self, value: u64) -> bool {
        (self.least..=self.most).contains(&value)
    }

    /// What is wrong with a value; nothing if it is within.
    ///
    /// # Errors
    /// In words, with the value.
    pub fn check(self, value: u64) -> Result<(), String> {
        if self.contains(value) {
            return Ok(());
        }
        Err(format!("`{value}` is out of range: {} to {}", self.least, self.most))
    }
}

/// Sizes in bytes, such as of pages and blocks: a TiB is beyond any.
const MOST_BYTES: u64 = 1 << 40;
/// What is counted one by one, and kept.
const MOST_KEPT: u64 = 1_000_000;

/// Runs of each policy.
pub const SEEDS: Range = range(1, 10_000);
/// Domains that are alike, and domains in all.
pub const DOMAINS: Range = range(1, 65_536);
/// Sockets of a host.
pub const SOCKETS: Range = range(1, 64);
/// Cores of a socket.
pub const CORES: Range = range(1, 1024);
/// NUMA nodes of a socket.
pub const NODES: Range = range(1, 64);
/// Last-level caches of a node.
pub const CACHES: Range = range(1, 1024);
/// Threads of a core.
pub const CORE_THREADS: Range = range(1, 8);
/// Rate of a file that is played.
pub const FILE_MBIT_PER_S: Range = range(0, 1_000);
/// Speed of a thread while another of its core is busy.
pub const THREAD_SPEED_PERCENT: Range = range(1, 100);
/// pCPUs of a host.
pub const PCPUS: Range = range(1, MAX_PCPU as u64 + 1);
/// Speed of a link: 10 Tbit/s.
pub const LINK_MBIT_PER_S: Range = range(1, 10_000_000);
/// Accesses to an emulated controller.
pub const ACCESSES: Range = range(1, 1000);
/// Speed of a disk: 1 TB/s.
pub const DISK_MBYTE_PER_S: Range = range(1, 1_000_000);
/// vCPUs of a domain.
pub const VCPUS: Range = range(1, 1024);
/// How urgent a task of the host is, in the kernel's numbers.
pub const PRIORITY: Range = range(0, crate::priority::NICE_MOST as u64);
/// Time between ticks of the host's kernel.
pub const TICK_NS: Range = range(100_000, 1_000_000_000);
/// Weight of a domain.
pub const WEIGHT: Range = setting(setting_range!("weight"));
/// All pCPUs of the largest host.
pub const CAP_PERCENT: Range = setting(setting_range!("cap_percent"));
/// [`Domain::cap_burst`](crate::config::Domain::cap_burst), in ns.
pub const CAP_BURST_NS: Range = setting(setting_range!("cap_burst"));
/// [`Domain::load_percent`](crate::config::Domain::load_percent).
pub const LOAD_PERCENT: Range = setting(setting_range!("load_percent"));
const _: () = assert!(CAP_PERCENT.most == 100 * PCPUS.most, "the core has another largest host");
/// [`Domain::slice`](crate::config::Domain::slice), in ns.
pub const SLICE_NS: Range = setting(setting_range!("slice"));
/// Period of a reservation, in ns.
pub const SEDF_PERIOD_NS: Range = setting(setting_range!("sedf.period"));
/// What is reserved of it, in ns.
pub const SEDF_SLICE_NS: Range = setting(setting_range!("sedf.slice"));
/// Boost of a domain.
pub const BOOST_PERCENT: Range = setting(setting_range!("boost.ratio_percent"));
/// Threads of a task.
pub const THREADS: Range = range(1, 4096);
/// vCPUs, and threads, of all domains.
pub const TOTAL: Range = range(1, 1 << 20);
/// Deviation of a time.
pub const JITTER_PERCENT: Range = range(0, 100);
/// Sizes that may be 0.
pub const BYTES: Range = range(0, MOST_BYTES);
/// Sizes that may not.
pub const SOME_BYTES: Range = range(1, MOST_BYTES);
/// Events of sysbench.
pub const SYSBENCH_EVENTS: Range = range(0, 1 << 53);
/// Requests of clients at a rate of their own.
pub const RATE_PER_S: Range = range(1, 1_000_000_000);
/// Clients that wait for their pages.
pub const CLIENTS: Range = range(1, MOST_KEPT);
/// How busy lookbusy keeps a CPU.
pub const LOOKBUSY_PERCENT: Range = range(1, 100);
/// Packets that wait before the buffers of a network interface.
pub const VIF_PACKETS: Range = range(0, MOST_KEPT);
/// And these.
pub const VIF_BUFFERS: Range = range(2, MOST_KEPT);
/// Requests that may wait.
pub const BACKLOG: Range = range(0, MOST_KEPT);
/// A packet of a stream.
pub const PACKET_BYTES: Range = range(1, 1 << 20);
/// KVM doubles the window; its module's parameter takes any factor.
pub const PAUSE_LOOP_GROWTH: Range = range(1, 16);
/// Packets under way.
pub const WINDOW_PACKETS: Range = range(1, MOST_KEPT);
/// Frames of a video.
pub const FRAMES_PER_S: Range = range(1, 1000);
/// Frames, or periods of sound, that are decoded beforehand.
pub const BUFFERED: Range = range(1, MOST_KEPT);
/// Steps of a start.
pub const STEPS: Range = range(1, 1_000_000_000);
/// Statements of a transaction that read.
pub const OLTP_READS: Range = range(0, 100_000);
/// And that write.
pub const OLTP_WRITES: Range = range(0, 64);
/// Visits to the kernel in a statement.
pub const KERNEL_ENTRIES: Range = range(0, 100_000);
/// Spin locks of a guest's kernel.
pub const LOCKS: Range = range(1, 4096);
/// Rows that are locked.
pub const ROWS: Range = range(64, 1_000_000);
/// Senders of a group of hackbench.
pub const SENDERS: Range = range(1, 1024);
/// Messages of each, and those that fit into a socket.
pub const MESSAGES: Range = range(1, u32::MAX as u64);
/// Number of a process.
pub const PROCESS: Range = range(0, u32::MAX as u64);
