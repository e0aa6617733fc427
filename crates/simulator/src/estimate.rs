// SPDX-License-Identifier: GPL-2.0-only
//! About how many events a run takes, and how much memory, to refuse beforehand what would take for ever
//! or more than there is.

use std::mem::size_of;

use crate::config::{Costs, Domain, Host, Setup, Task};
use crate::measure::{DomainMeasure, TaskMeasure, TaskValue, VcpuMeasure};
use crate::simulation::sizes;
use crate::units::{CpuSet, Nanoseconds};
use crate::waits::histogram_bytes;
use crate::workload::{Client, Packet, Workload};

impl Setup {
    /// About how many events a run of this length takes, to refuse what would take for ever.
    pub fn estimated_events(&self, length: Nanoseconds) -> u128 {
        // Each pCPU: a tick every ms at most, a slice that ends, an accounting.
        let pcpus = u128::from(self.host.pcpus());
        let mut per_s = 2_000 * pcpus;
        for domain in &self.domains {
            let tasks = domain.task.iter();
            per_s += tasks.map(|task| task_events_per_s(task, pcpus, &self.host)).sum::<u128>();
            // Where threads share a vCPU the guest goes from one to the next.
            let at_once = pcpus.min(domain.vcpus.into());
            let threads: u64 = domain.task.iter().map(|task| u64::from(task.threads)).sum();
            if threads > u64::from(domain.vcpus) {
                per_s += at_once * 1_000_000_000 / u128::from(domain.guest_slice.0.max(1));
            }
            if let Some(period) =
                domain.sedf.as_ref().map(|sedf| sedf.period.0).filter(|&ns| ns > 0)
            {
                per_s += 4 * u128::from(domain.vcpus) * 1_000_000_000 / u128::from(period);
            }
        }
        per_s * u128::from(length.0) / 1_000_000_000
    }

    /// About how much memory a run of this length takes at most, in bytes.
    pub fn estimated_memory(&self, length: Nanoseconds) -> u128 {
        let pcpus = u128::from(self.host.pcpus());
        let mut bytes = pcpus * (sizes::PCPU + sizes::QUEUE) as u128;
        for domain in &self.domains {
            // Each with its waits, and a place in queues and among timers.
            let vcpu = sizes::VCPU + histogram_bytes() + sizes::TIMER + 64;
            bytes += u128::from(domain.vcpus) * vcpu as u128;
            // Sets of pCPUs are kept as bits; in each queue there is one key per member.
            bytes += (domain.pin.len() + domain.pin_soft.len()) as u128 * (pcpus / 8 + 64);
            bytes += (sizes::DOMAIN + sizes::TIMER + domain.name.len()) as u128;
            let tasks = domain.task.iter();
            bytes += tasks.map(|task| self.task_memory(task, length)).sum::<u128>();
        }
        bytes
    }

    /// About how much memory what was measured in a run takes, in bytes: the least, as nobody knows how
    /// many different waits there will be.
    pub fn estimated_result(&self) -> u128 {
        let of_domain = |domain: &Domain| {
            let vcpus = u128::from(domain.vcpus) * (size_of::<VcpuMeasure>() + WAITS) as u128;
            let task = size_of::<TaskMeasure>() + 8 * (size_of::<TaskValue>() + 32);
            let tasks = (domain.task.len() * task) as u128;
            vcpus + tasks + (size_of::<DomainMeasure>() + WAITS + domain.name.len()) as u128
        };
        self.domains.iter().map(of_domain).sum()
    }

    /// About how much memory the domains themselves take.
    fn task_memory(&self, task: &Task, length: Nanoseconds) -> u128 {
        let threads = u128::from(task.threads);
        let thread = sizes::THREAD + sizes::TIMER + 64;
        // What is on its way, and waits for whoever takes it.
        let packet = (sizes::FLIGHT + sizes::TIMER + size_of::<Packet>()) as u128;
        let lasts = |per_s: u128| per_s * u128::from(length.0) / 1_000_000_000;
        let own = match &task.workload {
            Workload::Web(web) => {
                let asked = match &web.client {
                    Client::Open { rate_per_s, .. } => {
                        self.left_behind(web.page_bytes, *rate_per_s, length)
                    }
                    Client::Closed { clients, .. } => u128::from(*clients),
                };
                packet * (asked + u128::from(web.backlog).min(lasts(1_000_000_000)))
            }
            Workload::Httperf(httperf) => {
                // A connection with its alarms, and a packet on its way.
                let open = u128::from(httperf.rate_per_s).min(1022)
                    + lasts(httperf.rate_per_s.into()) / 16;
                (packet + 128) * (open + u128::from(httperf.backlog))
            }
            Workload::Ping(ping) => {
                packet * threads * lasts(1_000_000_000 / u128::from(ping.interval.0.max(1)))
            }
            Workload::Stream(stream) => packet * u128::from(stream.window_packets),
            Workload::Oltp(oltp) => {
                let locks =
                    (u128::from(oltp.rows) + u128::from(oltp.kernel_locks)) * sizes::LOCK as u128;
                locks + threads * 4 * u128::from(oltp.writes)
            }
            Workload::Hackbench(hackbench) => {
                (threads + u128::from(hackbench.locks)) * sizes::LOCK as u128
            }
            _ => packet * threads,
        };
        (sizes::TASK + 2 * histogram_bytes()) as u128 + threads * thread as u128 + own
    }

    /// Requests of clients that do not wait that may be on their way, or in the queue of the driver
    /// domain, at the end: if they are more than the link or that domain can take, all.
    fn left_behind(&self, page_bytes: u64, rate_per_s: u64, length: Nanoseconds) -> u128 {
        let io = &self.host.io;
        let (rate, packets) = (u128::from(rate_per_s), u128::from(page_bytes / 1448 + 4));
        let bits = 8 * (u128::from(page_bytes) + 66 * packets + 400);
        let fits = rate * bits <= 1_000_000 * u128::from(io.link_mbit_per_s);
        let taken = rate * 2 * packets * u128::from(io.packet_cost.0) <= 500_000_000;
        let seconds = u128::from(length.0).div_ceil(1_000_000_000);
        match fits && (taken || io.driver_domain.is_none()) {
            true => rate,
            false => rate * seconds,
        }
    }
}

/// Different waits that a vCPU has as a rule, at 16 bytes each.
const WAITS: usize = 64 * 16;

/// Memory that the domains of one entry take before anything is made of them.
pub fn domain_bytes(domain: &Domain) -> usize {
    let pins = domain.pin.iter().chain(&domain.pin_soft);
    let pins: usize = pins.map(|set| size_of::<CpuSet>() + 4 * set.iter().count()).sum();
    let tasks = domain.task.len() * (size_of::<Task>() + 64);
    size_of::<Domain>() + domain.name.len() + 16 + pins + tasks
}

/// A wake, a switch, a block, a timer, and as many again around an exchange with a device.
fn task_events_per_s(task: &Task, pcpus: u128, host: &Host) -> u128 {
    let (costs, io) = (&host.costs, &host.io);
    const CYCLE: u128 = 4;
    const EXCHANGE: u128 = 8;
    let threads = u128::from(task.threads);
    let per_s = |time: u64| 1_000_000_000 / u128::from(time.max(1));
    let request = EXCHANGE * (1 + u128::from(io.accesses()));
    match &task.workload {
        Workload::Busy(busy) => {
            let at_work = (pcpus * per_s(busy.compute.0))
                .min(threads * per_s(busy.compute.0.saturating_add(busy.sleep.0)));
            CYCLE * at_work
        }
        Workload::Clocked(clocked) => {
            let step = clocked.step.0.min(clocked.run.0);
            threads.min(pcpus) * per_s(step) + CYCLE * threads * per_s(clocked.period.0)
        }
        Workload::SysbenchCpu(sysbench) => threads.min(pcpus) * per_s(sysbench.event.0),
        Workload::Web(web) => {
            let exchanges = if web.connect.is_some() { 2 * EXCHANGE } else { EXCHANGE };
            match &web.client {
                Client::Open { rate_per_s, .. } => exchanges * u128::from(*rate_per_s),
                Client::Closed { clients, think } => {
                    let there_and_back = io.wire_latency.0.saturating_mul(2);
                    let round_trip = |service: u64| {
                        per_s(think.0.saturating_add(service).saturating_add(there_and_back))
                    };
                    // Who finds no room is refused at once, and asks again.
                    let clients = u128::from(*clients);
                    let refused = clients.saturating_sub(u128::from(web.backlog) + threads);
                    exchanges * (clients * round_trip(web.service.0) + refused * round_trip(0))
                }
            }
        }
        // Connection and request, and what ends it.
        Workload::Httperf(httperf) => 3 * EXCHANGE * u128::from(httperf.rate_per_s),
        Workload::Lookbusy(_) => CYCLE * threads * per_s(100_000_000),
        Workload::Ping(ping) => EXCHANGE * threads * per_s(ping.interval.0),
        Workload::Stream(stream) => {
            // The guest's own time for a packet limits it, or the window over the round trip.
            let round_trip = per_s(io.wire_latency.0.saturating_mul(2));
            let window = u128::from(stream.window_packets).saturating_mul(round_trip);
            EXCHANGE * window.min(threads * per_s(stream.packet_service.0))
        }
        Workload::Video(video) => {
            // A frame is decoded, waited for and shown.
            let frames = 2 * u128::from(video.frames_per_s);
            CYCLE * (frames + per_s(video.audio_period.0))
        }
        Workload::Boot(boot) => {
            request * threads * per_s(boot.compute.0.saturating_add(io.disk_latency.0))
        }
        Workload::Disk(disk) => {
            request * threads * per_s(disk.block_service.0.saturating_add(io.disk_latency.0))
        }
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
            // Whoever is woken by others' work may be so at once, and each wake interrupts the work that causes it.
            let rate = |thread: &crate::workload::ReplayThread| {
                let run_ns = thread.bursts.iter().map(|burst| burst.run_ns);
                let sleep_ns = thread.bursts.iter().map(|burst| burst.sleep_ns);
                let by_clock = if thread.causes.is_empty() { usize::MAX } else { 0 };
                let length = run_ns.chain(sleep_ns.take(by_clock)).fold(0, u64::saturating_add);
                let events = CYCLE * thread.bursts.len() as u128 + thread.wakes.len() as u128;
                events * 1_000_000_000 / u128::from(length.max(1))
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
