// SPDX-License-Identifier: GPL-2.0-only
//! Network and disk. Everything that a guest sends or asks for passes through the driver domain, if
//! there is one, which pays CPU time for it and must get a pCPU first; then the link or the disk,
//! which serve one after another.

use crate::config::Vif;
use crate::numbers::{DomainNumber, Number, TaskNumber, ThreadNumber};
use crate::workload::{Event, Order, Outside, Packet, Way};

use super::Simulation;

/// The most that one disk request carries: 11 segments of 4 KiB (blkif).
const REQUEST_BYTES: u64 = 44 * 1024;

/// What is on its way and will be somewhere at a known time.
#[derive(Clone, Copy)]
pub(super) enum Flight {
    /// A domain begins.
    Begin(DomainNumber),
    /// A task starts.
    Start(TaskNumber),
    /// A task's clients wanted to be told.
    Timer(TaskNumber),
    /// Arrives from the wire, from the disk, or outside, as its way says.
    Packet(Packet),
}

/// A thread's request to the disk.
#[derive(Clone, Copy, Default)]
pub(super) struct Request {
    /// The disk itself and the accesses to an emulated controller that are yet to come.
    pub steps: u32,
    pub bytes: u64,
}

/// The state of a guest's network interface, see [`Vif`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Interface {
    /// Buffers that took no packet yet.
    given: u32,
    /// Packets in buffers that the guest has not taken, and buffers that it has emptied and not given back.
    filled: u32,
    emptied: u32,
    /// Packets that wait before the buffers.
    queued: u32,
    /// Packets that were lost here.
    pub lost: u64,
}

impl Interface {
    pub fn new(vif: Option<&Vif>) -> Self {
        Interface { given: vif.map_or(0, |vif| vif.buffers), ..Interface::default() }
    }

    /// Packets have come together. Whether they are not lost.
    fn arrive(&mut self, vif: &Vif, packets: u32) -> bool {
        let buffers = (self.given + 1).saturating_sub(vif.reserve.max(1));
        if packets > buffers + vif.queue_packets.saturating_sub(self.queued) {
            self.lost += u64::from(packets);
            return false;
        }
        self.queued += packets;
        self.fill(vif);
        true
    }

    /// What waits comes into buffers.
    fn fill(&mut self, vif: &Vif) {
        while self.queued > 0 && self.given >= vif.reserve.max(1) {
            self.queued -= 1;
            self.given -= 1;
            self.filled += 1;
        }
    }

    /// The guest has taken packets.
    fn take(&mut self, vif: &Vif, packets: u32) {
        let packets = packets.min(self.filled);
        self.filled -= packets;
        self.emptied += packets;
        if self.emptied >= (vif.buffers / 2).max(1) {
            self.given += std::mem::take(&mut self.emptied);
            self.fill(vif);
        }
    }
}

/// Devices of the host and what is on its way.
pub(super) struct Devices {
    /// The driver domain's task.
    pub driver: TaskNumber,
    link_in_free_ns: u64,
    link_out_free_ns: u64,
    disk_free_ns: u64,
    flights: Vec<Flight>,
    landed: Vec<u32>,
}

impl Default for Devices {
    fn default() -> Self {
        Devices {
            driver: Number::NONE,
            link_in_free_ns: 0,
            link_out_free_ns: 0,
            disk_free_ns: 0,
            flights: vec![],
            landed: vec![],
        }
    }
}

impl Simulation {
    pub(super) fn launch(&mut self, flight: Flight, land_ns: u64) {
        let devices = &mut self.devices;
        let index = match devices.landed.pop() {
            Some(index) => {
                devices.flights[index as usize] = flight;
                index
            }
            None => {
                devices.flights.push(flight);
                self.timers.grow(1) - self.timer_base.flight
            }
        };
        self.timers.set(self.timer_base.flight + index, land_ns);
    }

    pub(super) fn land(&mut self, index: u32) {
        let flight = self.devices.flights[index as usize];
        self.devices.landed.push(index);
        match flight {
            Flight::Begin(domain) => self.begin_later(domain),
            Flight::Start(task) => self.outside(task, Event::Start),
            Flight::Timer(task) => self.outside(task, Event::Timer),
            Flight::Packet(packet) if packet.way == Way::Out => {
                self.outside(packet.task, Event::Arrived(packet));
            }
            Flight::Packet(packet) => self.pass_to_driver(packet),
        }
    }

    /// Clients outside act.
    fn outside(&mut self, task: TaskNumber, event: Event) {
        let mut orders = std::mem::take(&mut self.orders);
        let entry = &mut self.tasks[task];
        let mut outside =
            Outside { now_ns: self.now_ns, random: &mut entry.outside, orders: &mut orders };
        entry.program.outside(event, &mut outside);
        for order in orders.drain(..) {
            match order {
                Order::After(ns) => {
                    self.launch(Flight::Timer(task), self.now_ns.saturating_add(ns));
                }
                Order::Send(packet) => {
                    let packet = Packet { task, way: Way::In, ..packet };
                    let sent_ns = self.transmit(self.devices.link_in_free_ns, packet.bytes);
                    self.devices.link_in_free_ns = sent_ns;
                    self.launch(Flight::Packet(packet), sent_ns + self.io.wire_latency.0);
                }
            }
        }
        self.orders = orders;
    }

    /// When a link that is free from then on has sent so many bytes. At least 1 ns: else a window of
    /// packets could go round for ever at one time.
    fn transmit(&self, free_ns: u64, bytes: u64) -> u64 {
        let ns = u128::from(bytes) * 8_000 / u128::from(self.io.link_mbit_per_s.max(1));
        self.now_ns.max(free_ns).saturating_add(ns.clamp(1, u128::from(u64::MAX >> 2)) as u64)
    }

    /// A guest sends.
    pub(super) fn send(&mut self, task: TaskNumber, packet: Packet) {
        self.pass_to_driver(Packet { task, way: Way::Out, ..packet });
    }

    /// A guest's thread, which sleeps by now, takes the next step of its request: to the controller, if that is emulated,
    /// or to the disk.
    pub(super) fn request(&mut self, task: TaskNumber, thread: ThreadNumber) {
        let request = &mut self.threads[thread].request;
        request.steps -= 1;
        let way = if request.steps == self.io.accesses() / 2 { Way::ToDisk } else { Way::Access };
        let bytes = request.bytes;
        self.pass_to_driver(Packet { task, thread, way, bytes, ..Packet::default() });
    }

    /// The driver domain's part of the way, if there is one.
    fn pass_to_driver(&mut self, mut packet: Packet) {
        let driver = self.devices.driver;
        if driver == Number::NONE {
            return self.deliver(packet);
        }
        packet.cost_ns = match packet.way {
            Way::In | Way::Out => self.io.packet_cost.0.saturating_mul(packet.packets.into()),
            // Half on the way to the disk, half on the way back.
            Way::ToDisk | Way::FromDisk => {
                let requests = packet.bytes.div_ceil(REQUEST_BYTES).max(1);
                self.io.request_cost.0.saturating_mul(requests) / 2
            }
            Way::Access => self.io.controller.as_ref().map_or(0, |entry| entry.access_cost.0),
        };
        self.receive(driver, packet);
    }

    /// What the driver domain has worked off goes on.
    pub(super) fn deliver(&mut self, packet: Packet) {
        match packet.way {
            Way::In => {
                let domain = &mut self.domains[self.tasks[packet.task].domain];
                if let Some(vif) = &self.io.vif
                    && !domain.interface.arrive(vif, packet.packets)
                {
                    return self.outside(packet.task, Event::Dropped);
                }
                domain.packets += u64::from(packet.packets);
                self.receive(packet.task, packet);
            }
            Way::Out => {
                let sent_ns = self.transmit(self.devices.link_out_free_ns, packet.bytes);
                self.devices.link_out_free_ns = sent_ns;
                self.launch(Flight::Packet(packet), sent_ns + self.io.wire_latency.0);
            }
            Way::ToDisk => {
                let begin_ns = self.now_ns.max(self.devices.disk_free_ns);
                let bytes_ns =
                    u128::from(packet.bytes) * 1_000 / u128::from(self.io.disk_mbyte_per_s.max(1));
                let bytes_ns = bytes_ns.clamp(1, u128::from(u64::MAX >> 2)) as u64;
                let done_ns =
                    begin_ns.saturating_add(self.io.disk_latency.0).saturating_add(bytes_ns);
                self.devices.disk_free_ns = done_ns;
                self.launch(Flight::Packet(Packet { way: Way::FromDisk, ..packet }), done_ns);
            }
            Way::FromDisk | Way::Access => self.thread_wake(packet.thread),
        }
    }

    /// The thread, which goes on, has taken a packet.
    pub(super) fn taken(&mut self, thread: ThreadNumber) {
        let entry = &self.threads[thread];
        if let (Some(vif), Some(packet)) = (&self.io.vif, entry.received)
            && packet.task == entry.task
        {
            self.domains[entry.domain].interface.take(vif, packet.packets);
        }
    }

    /// A packet has come to a task: a thread that waits takes it, or it waits itself.
    fn receive(&mut self, task: TaskNumber, packet: Packet) {
        let entry = &mut self.tasks[task];
        if let Some(thread) = entry.receivers.pop_front() {
            self.threads[thread].received = Some(packet);
            self.thread_wake(thread);
        } else if entry.inbox.len() < entry.program.backlog() {
            entry.inbox.push_back(packet);
        } else {
            self.outside(task, Event::Dropped);
        }
    }
}
