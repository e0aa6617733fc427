// SPDX-License-Identifier: GPL-2.0-only
//! Network and disk. Everything that a guest sends or asks for passes through the driver domain, if
//! there is one, which pays CPU time for it and must get a pCPU first; then the link or the disk,
//! which serve one after another.

use crate::numbers::{Number, TaskNumber, ThreadNumber};
use crate::workload::{Event, Order, Outside, Packet, Way};

use super::Simulation;

/// The most that one disk request carries: 11 segments of 4 KiB (blkif).
const REQUEST_BYTES: u64 = 44 * 1024;

/// What is on its way and will be somewhere at a known time.
#[derive(Clone, Copy)]
pub(super) enum Flight {
    /// A task starts.
    Start(TaskNumber),
    /// A task's clients wanted to be told.
    Timer(TaskNumber),
    /// Arrives from the wire, from the disk, or outside, as its way says.
    Packet(Packet),
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

    /// A guest's thread asks the disk.
    pub(super) fn request(&mut self, task: TaskNumber, thread: ThreadNumber, bytes: u64) {
        self.pass_to_driver(Packet { task, thread, way: Way::ToDisk, bytes, ..Packet::default() });
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
        };
        self.receive(driver, packet);
    }

    /// What the driver domain has worked off goes on.
    pub(super) fn deliver(&mut self, packet: Packet) {
        match packet.way {
            Way::In => {
                let domain = self.tasks[packet.task].domain;
                self.domains[domain].packets += u64::from(packet.packets);
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
            Way::FromDisk => self.thread_wake(packet.thread),
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
