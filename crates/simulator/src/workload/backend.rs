// SPDX-License-Identifier: GPL-2.0-only
//! The driver domain's work for other domains (Xen's netback and blkback): takes packets and disk
//! requests in order, pays CPU time for each, and passes it on. Its threads share one queue.
//!
//! To be calibrated, on the driver domain's CPU time under a stream: the host's `packet_cost` and
//! `request_cost`. The default of 5 us per packet is some 10,000 cycles for bridge, copy and grant
//! (10 to 20 us on hosts of 2005 to 2007).

use super::{Guest, Packet, Program, Step, TaskValue, Way, rate};

pub(crate) struct Backend {
    /// What each thread is working on.
    working: Vec<Option<Packet>>,
    packets: u64,
    requests: u64,
}

impl Backend {
    pub fn new(threads: u32) -> Self {
        Backend { working: vec![None; threads as usize], packets: 0, requests: 0 }
    }
}

impl Program for Backend {
    fn next(&mut self, thread: u32, guest: &mut Guest<'_>) -> Step {
        let working = &mut self.working[thread as usize];
        if let Some(packet) = guest.received.take() {
            *working = Some(packet);
            return Step::Compute(packet.cost_ns);
        }
        match working.take() {
            Some(packet) => {
                match packet.way {
                    Way::In | Way::Out => self.packets += u64::from(packet.packets),
                    Way::ToDisk | Way::FromDisk => self.requests += 1,
                    Way::Access => {}
                }
                Step::Deliver(packet)
            }
            None => Step::Receive,
        }
    }

    fn values(&self, elapsed_ns: u64) -> Vec<TaskValue> {
        vec![
            rate("packets", "1/s", self.packets as f64, elapsed_ns),
            // Each request passes twice: to the disk and back.
            rate("disk requests", "1/s", self.requests as f64 / 2.0, elapsed_ns),
        ]
    }
}
