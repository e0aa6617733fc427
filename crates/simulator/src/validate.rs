// SPDX-License-Identifier: GPL-2.0-only
//! What spans several settings: whether a host and its domains can be simulated.

use std::collections::{HashMap, HashSet};

use crate::config::{ConfigError, Domain, Reservation, Setup, Task};
use crate::limits::{self, Range};
use crate::units::Nanoseconds;
use crate::workload::{Client, Workload};

/// Collects the way to a setting while the checks descend.
struct Path(Vec<String>);

impl Path {
    fn error(&self, key: &str, problem: impl Into<String>) -> ConfigError {
        let mut path = self.0.clone();
        path.extend(key.split('.').map(str::to_owned));
        ConfigError { path, problem: problem.into() }
    }

    fn range(&self, key: &str, value: impl Into<u64>, range: Range) -> Result<(), ConfigError> {
        range.check(value.into()).map_err(|problem| self.error(key, problem))
    }

    fn within(&self, key: &str, time: Nanoseconds, range: Range) -> Result<(), ConfigError> {
        if range.contains(time.0) {
            return Ok(());
        }
        let (least, most) = (Nanoseconds(range.least), Nanoseconds(range.most));
        Err(self.error(key, format!("`{time}`: {least} to {most}")))
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
        let groups = self.validate_groups()?;
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
            if let Some(group) = &domain.group
                && !groups.contains_key(group.as_str())
            {
                return Err(path.error("group", format!("the host has no group `{group}`")));
            }
            self.validate_domain(domain, &path)?;
            vcpus += u64::from(domain.vcpus);
            threads += domain.task.iter().map(|task| u64::from(task.threads)).sum::<u64>();
            for (what, total) in [("vCPUs", vcpus), ("threads", threads)] {
                if total > limits::TOTAL.most {
                    let key = if what == "vCPUs" { "vcpus" } else { "task" };
                    let problem =
                        format!("more than {} {what} on the host in all", limits::TOTAL.most);
                    return Err(path.error(key, problem));
                }
            }
        }
        if let Some(driver) = &self.host.io.driver_domain
            && !names.contains(driver)
        {
            let problem = format!("there is no domain called `{driver}`");
            return Err(top.error("host.io.driver_domain", problem));
        }
        Ok(())
    }

    /// How many groups each is in, by its name.
    fn validate_groups(&self) -> Result<HashMap<&str, u64>, ConfigError> {
        let mut depths = HashMap::new();
        for (index, group) in self.host.group.iter().enumerate() {
            let path = Path(vec!["host".to_owned(), "group".to_owned(), index.to_string()]);
            path.range("weight", group.weight, limits::WEIGHT)?;
            path.range("name", index as u64 + 1, limits::GROUPS)?;
            let depth = match &group.group {
                None => 0,
                Some(around) => match depths.get(around.as_str()) {
                    Some(depth) => depth + 1,
                    None => {
                        let problem = format!("there is no group `{around}` before this one");
                        return Err(path.error("group", problem));
                    }
                },
            };
            path.range("group", depth, limits::GROUP_DEPTH)?;
            if group.name.is_empty() || depths.insert(group.name.as_str(), depth).is_some() {
                let problem = format!("`{}`: a group needs a name of its own", group.name);
                return Err(path.error("name", problem));
            }
        }
        Ok(depths)
    }

    fn validate_host(&self) -> Result<(), ConfigError> {
        let host = &self.host;
        let path = Path(vec!["host".to_owned()]);
        path.range("sockets", host.sockets, limits::SOCKETS)?;
        path.range("cores_per_socket", host.cores_per_socket, limits::CORES)?;
        path.range("nodes_per_socket", host.nodes_per_socket, limits::NODES)?;
        path.range("caches_per_node", host.caches_per_node, limits::CACHES)?;
        path.range("threads_per_core", host.threads_per_core, limits::CORE_THREADS)?;
        let thread_speed = host.thread_speed_percent;
        path.range("thread_speed_percent", thread_speed, limits::THREAD_SPEED_PERCENT)?;
        for (key, parts) in [
            ("nodes_per_socket", u64::from(host.nodes_per_socket)),
            ("caches_per_node", u64::from(host.nodes_per_socket) * u64::from(host.caches_per_node)),
        ] {
            if !u64::from(host.cores_per_socket).is_multiple_of(parts) {
                let problem = format!(
                    "the {} cores of a socket cannot be divided evenly among {parts} {}: \
                     let `cores_per_socket` be a multiple of {parts}",
                    host.cores_per_socket,
                    if key == "nodes_per_socket" { "nodes" } else { "caches" },
                );
                return Err(path.error(key, problem));
            }
        }
        let most = limits::PCPUS.most;
        if u64::from(host.pcpus()) > most {
            let problem = format!("{} pCPUs: a host has at most {most}", host.pcpus());
            return Err(path.error("cores_per_socket", problem));
        }
        path.within("tick", host.tick, limits::TICK_NS)?;
        path.positive("costs.pause_loop_window", host.costs.pause_loop_window)?;
        let growth = host.costs.pause_loop_growth;
        path.range("costs.pause_loop_growth", growth, limits::PAUSE_LOOP_GROWTH)?;
        path.range("io.link_mbit_per_s", host.io.link_mbit_per_s, limits::LINK_MBIT_PER_S)?;
        if let Some(controller) = &host.io.controller {
            path.range("io.controller.accesses", controller.accesses, limits::ACCESSES)?;
            if host.io.driver_domain.is_none() {
                let problem = "there is no `io.driver_domain` to emulate it".to_owned();
                return Err(path.error("io.controller", problem));
            }
        }
        if let Some(vif) = &host.io.vif {
            path.range("io.vif.queue_packets", vif.queue_packets, limits::VIF_PACKETS)?;
            path.range("io.vif.buffers", vif.buffers, limits::VIF_BUFFERS)?;
            path.range("io.vif.reserve", vif.reserve, limits::VIF_PACKETS)?;
            if vif.reserve > vif.buffers / 2 {
                let problem = format!(
                    "`{}` is more than half of the {} buffers, so that packets would wait for ever",
                    vif.reserve, vif.buffers
                );
                return Err(path.error("io.vif.reserve", problem));
            }
        }
        path.range("io.disk_mbyte_per_s", host.io.disk_mbyte_per_s, limits::DISK_MBYTE_PER_S)
    }

    fn validate_domain(&self, domain: &Domain, path: &Path) -> Result<(), ConfigError> {
        let pcpus = self.host.pcpus();
        path.range("vcpus", domain.vcpus, limits::VCPUS)?;
        path.range("weight", domain.weight, limits::WEIGHT)?;
        if let Some(tasks) = &domain.host_tasks {
            path.range("host_tasks.priority", tasks.priority, limits::PRIORITY)?;
        }
        path.range("cap_percent", domain.cap_percent, limits::CAP_PERCENT)?;
        path.within("cap_burst", domain.cap_burst, limits::CAP_BURST_NS)?;
        path.range("load_percent", domain.load_percent, limits::LOAD_PERCENT)?;
        if let Some(boost) = &domain.boost {
            path.range("boost.ratio_percent", boost.ratio_percent, limits::BOOST_PERCENT)?;
        }
        if u64::from(domain.cap_percent) > 100 * u64::from(pcpus) {
            let problem = format!(
                "`{}` is above the host: {pcpus} pCPUs are {} percent",
                domain.cap_percent,
                100 * u64::from(pcpus)
            );
            return Err(path.error("cap_percent", problem));
        }
        for (key, sets) in [("pin", &domain.pin), ("pin_soft", &domain.pin_soft)] {
            if sets.len() > 1 && sets.len() != domain.vcpus as usize {
                let problem = format!(
                    "{} sets of pCPUs for {} vCPUs: give one set for all or one for each",
                    sets.len(),
                    domain.vcpus
                );
                return Err(path.error(key, problem));
            }
            for (index, set) in sets.iter().enumerate() {
                if let Some(pcpu) = set.iter().find(|&pcpu| pcpu >= pcpus) {
                    let problem = format!(
                        "pCPU {pcpu} in `{set}` is not there: the host has {pcpus}, numbered from 0"
                    );
                    return Err(path.error(&format!("{key}.{index}"), problem));
                }
            }
        }
        if let Some(slice) = domain.slice {
            path.within("slice", slice, limits::SLICE_NS)?;
        }
        path.positive("guest_slice", domain.guest_slice)?;
        let asks = |reservation: &&Reservation| reservation.period.0 > 0 || reservation.slice.0 > 0;
        if let Some(Reservation { period, slice, .. }) = domain.sedf.as_ref().filter(asks) {
            path.within("sedf.period", *period, limits::SEDF_PERIOD_NS)?;
            path.within("sedf.slice", *slice, limits::SEDF_SLICE_NS)?;
            if slice > period {
                let problem = format!("`{slice}` is more than the period, which is {period}");
                return Err(path.error("sedf.slice", problem));
            }
        }
        for (index, task) in domain.task.iter().enumerate() {
            let mut path = Path(path.0.clone());
            path.0.extend(["task".to_owned(), index.to_string()]);
            path.range("threads", task.threads, limits::THREADS)?;
            path.0.push("workload".to_owned());
            validate_workload(task, domain.vcpus, &path)?;
            self.check_time_passes(task, &path)?;
        }
        Ok(())
    }
}

impl Setup {
    /// Refuses what goes on and on at one and the same moment.
    fn check_time_passes(&self, task: &Task, path: &Path) -> Result<(), ConfigError> {
        let io = &self.host.io;
        let (key, other, times) = match &task.workload {
            Workload::Web(web) => match &web.client {
                Client::Closed { think, .. } => {
                    let times = [web.service, *think, io.wire_latency];
                    ("web.service", "the clients' `think` and the host's `io.wire_latency`", times)
                }
                Client::Open { .. } => return Ok(()),
            },
            Workload::Stream(stream) => {
                let times = [stream.packet_service, io.wire_latency, Nanoseconds(0)];
                ("stream.packet_service", "the host's `io.wire_latency`", times)
            }
            Workload::Disk(disk) => {
                let times = [disk.block_service, io.disk_latency, Nanoseconds(0)];
                ("disk.block_service", "the host's `io.disk_latency`", times)
            }
            Workload::Boot(boot) => {
                let times = [boot.compute, io.disk_latency, Nanoseconds(0)];
                ("boot.compute", "the host's `io.disk_latency`", times)
            }
            _ => return Ok(()),
        };
        if times.iter().any(|time| time.0 > 0) {
            return Ok(());
        }
        Err(path.error(key, format!("this and {other} are 0: time would stand still")))
    }
}

fn validate_workload(task: &Task, vcpus: u32, path: &Path) -> Result<(), ConfigError> {
    match &task.workload {
        Workload::Busy(busy) => {
            path.positive("busy.compute", busy.compute)?;
            path.range("busy.jitter_percent", busy.jitter_percent, limits::JITTER_PERCENT)
        }
        Workload::Clocked(clocked) => {
            path.positive("clocked.run", clocked.run)?;
            path.positive("clocked.step", clocked.step)?;
            if clocked.run >= clocked.period {
                let problem = format!(
                    "`{}` is not less than the period, which is {}",
                    clocked.run, clocked.period
                );
                return Err(path.error("clocked.run", problem));
            }
            Ok(())
        }
        Workload::SysbenchCpu(sysbench) => {
            path.range("sysbench-cpu.events", sysbench.events, limits::SYSBENCH_EVENTS)?;
            path.positive("sysbench-cpu.event", sysbench.event)
        }
        Workload::Web(web) => {
            path.range("web.page_bytes", web.page_bytes, limits::BYTES)?;
            path.range("web.backlog", web.backlog, limits::BACKLOG)?;
            match &web.client {
                Client::Open { rate_per_s, .. } => {
                    path.range("web.client.open.rate_per_s", *rate_per_s, limits::RATE_PER_S)
                }
                Client::Closed { clients, .. } => {
                    path.range("web.client.closed.clients", *clients, limits::CLIENTS)
                }
            }
        }
        Workload::Lookbusy(lookbusy) => {
            path.range("lookbusy.percent", lookbusy.percent, limits::LOOKBUSY_PERCENT)
        }
        Workload::Httperf(httperf) => {
            path.range("httperf.rate_per_s", httperf.rate_per_s, limits::RATE_PER_S)?;
            path.range("httperf.page_bytes", httperf.page_bytes, limits::BYTES)?;
            path.range("httperf.backlog", httperf.backlog, limits::BACKLOG)?;
            if task.threads < 2 {
                let problem =
                    "the first thread is the guest's kernel, the others are the server: 2 at least";
                return Err(path.error("httperf", problem.to_owned()));
            }
            Ok(())
        }
        Workload::Ping(ping) => path.positive("ping.interval", ping.interval),
        Workload::Stream(stream) => {
            path.range("stream.packet_bytes", stream.packet_bytes, limits::PACKET_BYTES)?;
            path.range("stream.window_packets", stream.window_packets, limits::WINDOW_PACKETS)
        }
        Workload::Disk(disk) => {
            path.range("disk.block_bytes", disk.block_bytes, limits::SOME_BYTES)
        }
        Workload::Video(video) => {
            path.range("video.frames_per_s", video.frames_per_s, limits::FRAMES_PER_S)?;
            path.range("video.file_mbit_per_s", video.file_mbit_per_s, limits::FILE_MBIT_PER_S)?;
            path.range("video.read_bytes", video.read_bytes, limits::SOME_BYTES)?;
            path.range("video.jitter_percent", video.jitter_percent, limits::JITTER_PERCENT)?;
            path.range("video.buffer_frames", video.buffer_frames, limits::BUFFERED)?;
            path.positive("video.audio_period", video.audio_period)?;
            let periods = video.audio_buffer_periods;
            path.range("video.audio_buffer_periods", periods, limits::BUFFERED)?;
            if task.threads > 2 {
                let problem =
                    format!("{} threads: one for the picture and one for the sound", task.threads);
                return Err(path.error("video", problem));
            }
            Ok(())
        }
        Workload::Boot(boot) => {
            path.range("boot.steps", boot.steps, limits::STEPS)?;
            path.range("boot.read_bytes", boot.read_bytes, limits::SOME_BYTES)
        }
        Workload::Spinlock(spinlock) => {
            if spinlock.compute.0.saturating_add(spinlock.hold.0) == 0 {
                return Err(path.error("spinlock", "`compute` and `hold` are both 0"));
            }
            Ok(())
        }
        Workload::Oltp(oltp) => {
            path.positive("oltp.statement", oltp.statement)?;
            path.range("oltp.reads", oltp.reads, limits::OLTP_READS)?;
            path.range("oltp.writes", oltp.writes, limits::OLTP_WRITES)?;
            if oltp.reads == 0 && oltp.writes == 0 {
                return Err(path.error("oltp.reads", "`reads` and `writes` are both 0"));
            }
            path.range("oltp.kernel_entries", oltp.kernel_entries, limits::KERNEL_ENTRIES)?;
            path.range("oltp.kernel_locks", oltp.kernel_locks, limits::LOCKS)?;
            path.range("oltp.rows", oltp.rows, limits::ROWS)?;
            path.range("oltp.log_bytes", oltp.log_bytes, limits::BYTES)
        }
        Workload::Hackbench(hackbench) => {
            path.range("hackbench.senders", hackbench.senders, limits::SENDERS)?;
            path.range("hackbench.messages", hackbench.messages, limits::MESSAGES)?;
            path.positive("hackbench.system_call", hackbench.system_call)?;
            path.range("hackbench.locks", hackbench.locks, limits::LOCKS)?;
            path.range("hackbench.socket_messages", hackbench.socket_messages, limits::MESSAGES)?;
            if !task.threads.is_multiple_of(2 * hackbench.senders) {
                let problem = format!(
                    "{} threads: a group has {} senders and as many receivers",
                    task.threads, hackbench.senders
                );
                return Err(path.error("hackbench", problem));
            }
            Ok(())
        }
        Workload::Replay(replay) => {
            path.range("replay.jitter_percent", replay.jitter_percent, limits::JITTER_PERCENT)?;
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
