// SPDX-License-Identifier: GPL-2.0-only
//! What spans several settings: whether a host and its domains can be simulated, and about how many
//! events that takes.

use std::collections::HashSet;

use crate::config::{ConfigError, Costs, Domain, Reservation, Setup, Task};
use crate::units::{MAX_PCPU, Nanoseconds};
use crate::workload::{Client, Workload};

/// pCPUs of a host at most.
pub const MAX_PCPUS: u32 = MAX_PCPU + 1;
/// vCPUs of a domain, and threads of a task, at most.
const MAX_VCPUS: u32 = 1024;
const MAX_THREADS: u32 = 4096;
/// vCPUs, and threads, on a host at most.
const MAX_TOTAL: u64 = 1 << 20;

/// Collects the way to a setting while the checks descend.
struct Path(Vec<String>);

impl Path {
    fn error(&self, key: &str, problem: impl Into<String>) -> ConfigError {
        let mut path = self.0.clone();
        path.extend(key.split('.').map(str::to_owned));
        ConfigError { path, problem: problem.into() }
    }

    fn range(&self, key: &str, value: u64, least: u64, most: u64) -> Result<(), ConfigError> {
        if (least..=most).contains(&value) {
            return Ok(());
        }
        Err(self.error(key, format!("`{value}` is out of range: {least} to {most}")))
    }

    fn positive(&self, key: &str, time: Nanoseconds) -> Result<(), ConfigError> {
        if time.0 > 0 {
            return Ok(());
        }
        Err(self.error(key, format!("`{time}`: more than 0 is needed")))
    }
}

impl Setup {
    /// Checks all that [`crate::Simulation::new`] relies on.
    ///
    /// # Errors
    /// The first setting that cannot be, and the way to it.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.validate_host()?;
        let top = Path(vec![]);
        if self.domains.is_empty() {
            return Err(top.error("domain", "no domains: at least one is needed"));
        }
        let mut names = HashSet::new();
        let (mut vcpus, mut threads) = (0, 0);
        for (index, domain) in self.domains.iter().enumerate() {
            let path = Path(vec!["domain".to_owned(), index.to_string()]);
            if domain.name.is_empty() {
                return Err(path.error("name", "a domain needs a name"));
            }
            if !names.insert(&domain.name) {
                return Err(path.error("name", format!("two domains are called `{}`", domain.name)));
            }
            self.validate_domain(domain, &path)?;
            vcpus += u64::from(domain.vcpus);
            threads += domain.task.iter().map(|task| u64::from(task.threads)).sum::<u64>();
            for (what, total) in [("vCPUs", vcpus), ("threads", threads)] {
                if total > MAX_TOTAL {
                    let key = if what == "vCPUs" { "vcpus" } else { "task" };
                    let problem = format!("more than {MAX_TOTAL} {what} on the host in all");
                    return Err(path.error(key, problem));
                }
            }
        }
        if let Some(driver) = &self.host.io.driver_domain {
            if !names.contains(driver) {
                let problem = format!("there is no domain called `{driver}`");
                return Err(top.error("host.io.driver_domain", problem));
            }
        }
        Ok(())
    }

    fn validate_host(&self) -> Result<(), ConfigError> {
        let host = &self.host;
        let path = Path(vec!["host".to_owned()]);
        path.range("sockets", host.sockets.into(), 1, 64)?;
        path.range("cores_per_socket", host.cores_per_socket.into(), 1, 1024)?;
        path.range("threads_per_core", host.threads_per_core.into(), 1, 8)?;
        if host.pcpus() > MAX_PCPUS {
            let problem = format!("{} pCPUs: a host has at most {MAX_PCPUS}", host.pcpus());
            return Err(path.error("cores_per_socket", problem));
        }
        path.positive("costs.pause_loop_window", host.costs.pause_loop_window)?;
        path.range("io.link_mbit_per_s", host.io.link_mbit_per_s, 1, 10_000_000)?;
        path.range("io.disk_mbyte_per_s", host.io.disk_mbyte_per_s, 1, 1_000_000)
    }

    fn validate_domain(&self, domain: &Domain, path: &Path) -> Result<(), ConfigError> {
        let pcpus = self.host.pcpus();
        path.range("vcpus", domain.vcpus.into(), 1, MAX_VCPUS.into())?;
        path.range("weight", domain.weight.into(), 1, 65_535)?;
        if u64::from(domain.cap_percent) > 100 * u64::from(pcpus) {
            let problem = format!(
                "`{}` is above the host: {pcpus} pCPUs are {} percent",
                domain.cap_percent,
                100 * u64::from(pcpus)
            );
            return Err(path.error("cap_percent", problem));
        }
        if domain.pin.len() > 1 && domain.pin.len() != domain.vcpus as usize {
            let problem = format!(
                "{} sets of pCPUs for {} vCPUs: give one set for all or one for each",
                domain.pin.len(),
                domain.vcpus
            );
            return Err(path.error("pin", problem));
        }
        for (index, set) in domain.pin.iter().enumerate() {
            if let Some(pcpu) = set.iter().find(|&pcpu| pcpu >= pcpus) {
                let problem = format!(
                    "pCPU {pcpu} in `{set}` is not there: the host has {pcpus}, numbered from 0"
                );
                return Err(path.error(&format!("pin.{index}"), problem));
            }
        }
        if let Some(slice) = domain.slice {
            path.positive("slice", slice)?;
        }
        path.positive("guest_slice", domain.guest_slice)?;
        let asks = |reservation: &&Reservation| reservation.period.0 > 0 || reservation.slice.0 > 0;
        if let Some(Reservation { period, slice, .. }) = domain.sedf.as_ref().filter(asks) {
            // The limits of Xen 4.5's sedf.
            if !(Nanoseconds::from_us(10)..=Nanoseconds::from_s(10)).contains(period) {
                return Err(path.error("sedf.period", format!("`{period}`: 10 us to 10 s")));
            }
            if !(Nanoseconds::from_us(5)..=*period).contains(slice) {
                let problem = format!("`{slice}`: 5 us to the period, which is {period}");
                return Err(path.error("sedf.slice", problem));
            }
        }
        for (index, task) in domain.task.iter().enumerate() {
            let mut path = Path(path.0.clone());
            path.0.extend(["task".to_owned(), index.to_string()]);
            path.range("threads", task.threads.into(), 1, MAX_THREADS.into())?;
            path.0.push("workload".to_owned());
            validate_workload(task, domain.vcpus, &path)?;
        }
        Ok(())
    }

    /// About how many events a run of this length takes, to refuse what would take for ever.
    pub fn estimated_events(&self, length: Nanoseconds) -> u128 {
        // Each pCPU: a tick every ms at most, a slice that ends, an accounting.
        let pcpus = u128::from(self.host.pcpus());
        let mut per_s = 2_000 * pcpus;
        for task in self.domains.iter().flat_map(|domain| &domain.task) {
            per_s += task_events_per_s(task, pcpus, &self.host.costs);
        }
        per_s * u128::from(length.0) / 1_000_000_000
    }
}

fn validate_workload(task: &Task, vcpus: u32, path: &Path) -> Result<(), ConfigError> {
    match &task.workload {
        Workload::Busy(busy) => {
            path.positive("busy.compute", busy.compute)?;
            path.range("busy.jitter_percent", busy.jitter_percent.into(), 0, 100)
        }
        Workload::SysbenchCpu(sysbench) => path.positive("sysbench-cpu.event", sysbench.event),
        Workload::Web(web) => {
            path.range("web.page_bytes", web.page_bytes, 0, 1 << 40)?;
            match &web.client {
                Client::Open { rate_per_s, .. } => {
                    path.range("web.client.open.rate_per_s", *rate_per_s, 1, 1_000_000_000)
                }
                Client::Closed { clients, .. } => {
                    path.range("web.client.closed.clients", (*clients).into(), 1, 1_000_000)
                }
            }
        }
        Workload::Ping(ping) => path.positive("ping.interval", ping.interval),
        Workload::Stream(stream) => {
            path.range("stream.packet_bytes", stream.packet_bytes, 1, 1 << 20)?;
            path.range("stream.window_packets", stream.window_packets.into(), 1, 1_000_000)
        }
        Workload::Disk(disk) => path.range("disk.block_bytes", disk.block_bytes, 1, 1 << 40),
        Workload::Video(video) => {
            path.range("video.frames_per_s", video.frames_per_s.into(), 1, 1000)?;
            path.range("video.jitter_percent", video.jitter_percent.into(), 0, 100)?;
            path.range("video.buffer_frames", video.buffer_frames.into(), 1, 1_000_000)?;
            path.positive("video.audio_period", video.audio_period)?;
            let periods = video.audio_buffer_periods;
            path.range("video.audio_buffer_periods", periods.into(), 1, 1_000_000)?;
            if task.threads > 2 {
                let problem =
                    format!("{} threads: one for the picture and one for the sound", task.threads);
                return Err(path.error("video", problem));
            }
            Ok(())
        }
        Workload::Boot(boot) => {
            path.range("boot.steps", boot.steps, 1, 1_000_000_000)?;
            path.range("boot.read_bytes", boot.read_bytes, 1, 1 << 40)
        }
        Workload::Spinlock(spinlock) => {
            if spinlock.compute.0.saturating_add(spinlock.hold.0) == 0 {
                return Err(path.error("spinlock", "`compute` and `hold` are both 0"));
            }
            Ok(())
        }
        Workload::Oltp(oltp) => {
            path.positive("oltp.statement", oltp.statement)?;
            path.range(
                "oltp.reads",
                (u64::from(oltp.reads) + u64::from(oltp.writes)).min(1 << 20),
                1,
                100_000,
            )?;
            path.range("oltp.writes", oltp.writes.into(), 0, 64)?;
            path.range("oltp.kernel_entries", oltp.kernel_entries.into(), 0, 100_000)?;
            path.range("oltp.kernel_locks", oltp.kernel_locks.into(), 1, 4096)?;
            path.range("oltp.rows", oltp.rows.into(), 64, 1_000_000)?;
            path.range("oltp.log_bytes", oltp.log_bytes, 0, 1 << 40)
        }
        Workload::Hackbench(hackbench) => {
            path.range("hackbench.senders", hackbench.senders.into(), 1, 1024)?;
            path.range("hackbench.messages", hackbench.messages.into(), 1, u32::MAX.into())?;
            path.positive("hackbench.system_call", hackbench.system_call)?;
            path.range("hackbench.locks", hackbench.locks.into(), 1, 4096)?;
            path.range(
                "hackbench.socket_messages",
                hackbench.socket_messages.into(),
                1,
                u32::MAX.into(),
            )?;
            if task.threads % (2 * hackbench.senders) != 0 {
                let problem = format!(
                    "{} threads: a group has {} senders and as many receivers",
                    task.threads, hackbench.senders
                );
                return Err(path.error("hackbench", problem));
            }
            Ok(())
        }
        Workload::Replay(replay) => {
            if replay.threads.len() < task.threads as usize {
                let problem = format!(
                    "{} threads, but {} are recorded of process {}",
                    task.threads,
                    replay.threads.len(),
                    replay.process
                );
                return Err(path.error("replay", problem));
            }
            if task.threads > vcpus {
                let problem = format!(
                    "{} threads: each needs a vCPU of its own, {vcpus} are there",
                    task.threads
                );
                return Err(path.error("replay", problem));
            }
            Ok(())
        }
    }
}

/// A wake, a switch, a block, a timer, and as many again around an exchange with a device.
fn task_events_per_s(task: &Task, pcpus: u128, costs: &Costs) -> u128 {
    const CYCLE: u128 = 4;
    const EXCHANGE: u128 = 8;
    let threads = u128::from(task.threads);
    let per_s = |time: u64| 1_000_000_000 / u128::from(time.max(1));
    match &task.workload {
        Workload::Busy(busy) => {
            let at_work = (pcpus * per_s(busy.compute.0))
                .min(threads * per_s(busy.compute.0.saturating_add(busy.sleep.0)));
            CYCLE * at_work
        }
        Workload::SysbenchCpu(sysbench) => threads.min(pcpus) * per_s(sysbench.event.0),
        Workload::Web(web) => {
            let exchanges = if web.connect.is_some() { 2 * EXCHANGE } else { EXCHANGE };
            match &web.client {
                Client::Open { rate_per_s, .. } => exchanges * u128::from(*rate_per_s),
                Client::Closed { clients, think } => {
                    let round_trip = think.0.saturating_add(web.service.0).max(1_000);
                    exchanges * u128::from(*clients) * per_s(round_trip)
                }
            }
        }
        Workload::Ping(ping) => EXCHANGE * threads * per_s(ping.interval.0),
        Workload::Stream(stream) => EXCHANGE * threads * per_s(stream.packet_service.0.max(1_000)),
        Workload::Video(video) => {
            // A frame is decoded, waited for and shown.
            let frames = 2 * u128::from(video.frames_per_s);
            CYCLE * (frames + per_s(video.audio_period.0))
        }
        Workload::Boot(boot) => EXCHANGE * threads * per_s(boot.compute.0.max(10_000)),
        Workload::Disk(disk) => EXCHANGE * threads * per_s(disk.block_service.0.max(10_000)),
        // While the holder of a spin lock has no pCPU the others exit once per window.
        Workload::Oltp(oltp) => {
            let entries = 3 * u128::from(oltp.kernel_entries) + 1;
            let entry = oltp.kernel_entry.0.saturating_add(oltp.kernel_hold.0);
            let statement = oltp
                .statement
                .0
                .saturating_add(u64::from(oltp.kernel_entries).saturating_mul(entry));
            threads.min(pcpus) * (entries * per_s(statement) + exits_per_s(costs))
        }
        Workload::Hackbench(hackbench) => {
            let message = hackbench.system_call.0.saturating_add(hackbench.hold.0);
            threads.min(pcpus) * (CYCLE * per_s(message) + exits_per_s(costs))
        }
        Workload::Spinlock(spinlock) => {
            let round = spinlock.compute.0.saturating_add(spinlock.hold.0);
            threads.min(pcpus) * (2 * per_s(round) + exits_per_s(costs))
        }
        Workload::Replay(replay) => {
            let rate = |thread: &crate::workload::ReplayThread| {
                let length: u64 = thread
                    .bursts
                    .iter()
                    .map(|burst| burst.run_ns.saturating_add(burst.sleep_ns))
                    .fold(0, u64::saturating_add);
                CYCLE * thread.bursts.len() as u128 * 1_000_000_000 / u128::from(length.max(1))
            };
            replay.threads.iter().map(|thread| rate(thread)).sum()
        }
    }
}

/// Pause-loop exits of a vCPU that does nothing but spin.
fn exits_per_s(costs: &Costs) -> u128 {
    let window = costs.pause_loop_window.0.saturating_add(costs.vm_exit.0);
    1_000_000_000 / u128::from(window.max(1))
}
