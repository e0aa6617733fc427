// SPDX-License-Identifier: GPL-2.0-only
//! `ping` from outside: an echo request at a fixed interval, whether or not those before it were
//! answered; the guest's kernel answers, before any process runs. The round trip beyond that of an idle host is what packet
//! and guest waited for CPUs. Echoes are sent = answered + those under way + those lost at a full interface.
//!
//! `ping` itself sends one each second by default; more often only gives more samples. `service` is
//! an interrupt and two ways through the network stack, some 10 us; nothing is to be calibrated.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::web::Server;
use super::{Event, Guest, Order, Outside, Packet, Step, TaskValue, Times, value};
use crate::units::Nanoseconds;

/// Configuration.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Ping {
    /// Time between two requests.
    pub interval: Nanoseconds,
    /// CPU time of the guest for one answer.
    pub service: Nanoseconds,
}

impl Default for Ping {
    fn default() -> Self {
        Ping { interval: Nanoseconds::from_ms(100), service: Nanoseconds::from_us(10) }
    }
}

/// An echo request as `ping` sends it by default: 56 bytes of data, with its headers.
const ECHO_BYTES: u64 = 98;

pub(super) struct Program {
    config: Ping,
    server: Server,
    sent: u64,
    lost: u64,
    round_trips: Times,
}

impl Program {
    pub fn new(config: &Ping, threads: u32) -> Self {
        let server = Server::new(threads);
        Program { config: config.clone(), server, sent: 0, lost: 0, round_trips: Times::new() }
    }
}

impl super::Program for Program {
    fn next(&mut self, thread: u32, guest: &mut Guest<'_>) -> Step {
        let service = self.config.service;
        self.server.next(thread, guest, |echo| (service, Packet::new(echo.token, 1, ECHO_BYTES)))
    }

    fn interrupts(&self, _: u32) -> bool {
        true
    }

    fn outside(&mut self, event: Event, outside: &mut Outside<'_>) {
        let interval_ns = self.config.interval.0.max(1);
        match event {
            // Not in step with the host's own periods.
            Event::Start => {
                let first = outside.random.below(interval_ns);
                outside.orders.push(Order::After(first));
            }
            Event::Timer => {
                self.sent += 1;
                outside.orders.push(Order::Send(Packet::new(outside.now_ns, 1, ECHO_BYTES)));
                outside.orders.push(Order::After(interval_ns));
            }
            Event::Arrived(echo) => self.round_trips.record(outside.now_ns - echo.token),
            Event::Dropped => self.lost += 1,
        }
    }

    fn values(&self, _: u64) -> Vec<TaskValue> {
        let mut values: Vec<_> = self.round_trips.values("round trip").collect();
        let answered = self.round_trips.count() as f64;
        values.push(value("answered", "echoes", Some(true), Some(answered)));
        values.push(value("sent", "echoes", None, Some(self.sent as f64)));
        values.push(value("lost", "echoes", Some(false), Some(self.lost as f64)));
        values
    }
}
