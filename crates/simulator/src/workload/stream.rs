// SPDX-License-Identifier: GPL-2.0-only
//! A bulk network stream such as iperf's over TCP: a window of packets is under way at any time, every
//! second one is acknowledged. Nothing is lost, so that the window stays as it is.
//!
//! Whichever is slowest limits it: the guest, with `packet_service` per packet; the driver domain,
//! with its cost per packet of data and acknowledgement; the link; or the window over the round trip,
//! in which both must get a CPU.
//!
//! To be calibrated: `packet_service`, and the host's `packet_cost`, on the throughput with nobody
//! else there and on the two domains' CPU time at that. The default of 3 us is that of a network
//! stack with segmentation offload; a window of 64 packets is 96 KB, iperf's of its day.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Event, Guest, Order, Outside, Packet, Step, TaskValue, rate};
use crate::limits;
use crate::units::Nanoseconds;

/// Configuration.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Stream {
    /// Which way the data goes, seen from the guest.
    pub direction: Direction,
    /// Size of a packet.
    #[schemars(range(min = limits::PACKET_BYTES.least, max = limits::PACKET_BYTES.most))]
    pub packet_bytes: u64,
    /// Packets under way at most.
    #[schemars(range(min = limits::WINDOW_PACKETS.least, max = limits::WINDOW_PACKETS.most))]
    pub window_packets: u32,
    /// CPU time of the guest per packet.
    pub packet_service: Nanoseconds,
}

/// Seen from the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From outside into the guest.
    Receive,
    /// Out of the guest.
    Send,
}

impl Default for Stream {
    fn default() -> Self {
        Stream {
            direction: Direction::Send,
            packet_bytes: 1500,
            window_packets: 64,
            packet_service: Nanoseconds::from_us(3),
        }
    }
}

/// Packets that a segmentation offload handles as one piece.
const CHUNK_PACKETS: u32 = 16;
/// An acknowledgement without data.
const ACKNOWLEDGEMENT_BYTES: u64 = 66;

pub(super) struct Program {
    config: Stream,
    chunk: u32,
    /// Packets that may still be sent by the guest.
    window: u32,
    /// Per thread: the packets that it has computed for and must now send or acknowledge.
    pending: Vec<u32>,
    bytes: u64,
}

impl Program {
    pub fn new(config: &Stream, threads: u32) -> Self {
        let window = config.window_packets.max(1);
        Program {
            config: config.clone(),
            chunk: window.min(CHUNK_PACKETS),
            window,
            pending: vec![0; threads as usize],
            bytes: 0,
        }
    }

    fn data(&self, packets: u32) -> Packet {
        let bytes = self.config.packet_bytes.saturating_mul(packets.into());
        Packet::new(packets.into(), packets, bytes)
    }

    fn acknowledgement(packets: u32) -> Packet {
        let acknowledgements = packets.div_ceil(2);
        let bytes = ACKNOWLEDGEMENT_BYTES * u64::from(acknowledgements);
        Packet::new(packets.into(), acknowledgements, bytes)
    }

    fn compute(&self, packets: u32) -> Step {
        Step::Compute(self.config.packet_service.0.saturating_mul(packets.into()))
    }
}

impl super::Program for Program {
    fn next(&mut self, thread: u32, guest: &mut Guest<'_>) -> Step {
        let received = guest.received.take().map(|packet| packet.token as u32);
        let pending = std::mem::take(&mut self.pending[thread as usize]);
        match self.config.direction {
            Direction::Send => {
                self.window += received.unwrap_or(0);
                if pending > 0 {
                    return Step::Send(self.data(pending));
                }
                let packets = self.chunk.min(self.window);
                if packets == 0 {
                    return Step::Receive;
                }
                self.window -= packets;
                self.pending[thread as usize] = packets;
                self.compute(packets)
            }
            Direction::Receive => {
                if let Some(packets) = received {
                    self.pending[thread as usize] = packets;
                    return self.compute(packets);
                }
                if pending > 0 {
                    self.bytes += self.data(pending).bytes;
                    return Step::Send(Self::acknowledgement(pending));
                }
                Step::Receive
            }
        }
    }

    fn outside(&mut self, event: Event, outside: &mut Outside<'_>) {
        match (self.config.direction, event) {
            (Direction::Send, Event::Arrived(data)) => {
                self.bytes += data.bytes;
                outside.orders.push(Order::Send(Self::acknowledgement(data.token as u32)));
            }
            (Direction::Receive, Event::Start) => {
                let mut left = self.window;
                while left > 0 {
                    let packets = left.min(self.chunk);
                    outside.orders.push(Order::Send(self.data(packets)));
                    left -= packets;
                }
            }
            (Direction::Receive, Event::Arrived(acknowledgement)) => {
                outside.orders.push(Order::Send(self.data(acknowledgement.token as u32)));
            }
            _ => {}
        }
    }

    fn values(&self, elapsed_ns: u64) -> Vec<TaskValue> {
        vec![rate("throughput", "Mbit/s", self.bytes as f64 * 8.0 / 1e6, elapsed_ns)]
    }
}
