// SPDX-License-Identifier: GPL-2.0-only
//! A bulk network stream such as iperf's: a window of packets is under way at any time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::Nanoseconds;

/// Configuration.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Stream {
    /// Which way the data goes, seen from the guest.
    pub direction: Direction,
    /// Size of a packet.
    #[schemars(range(min = 1))]
    pub packet_bytes: u64,
    /// Packets under way at most.
    #[schemars(range(min = 1))]
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
