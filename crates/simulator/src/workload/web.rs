// SPDX-License-Identifier: GPL-2.0-only
//! A web server: a request arrives in one packet, costs CPU time, and the page leaves in packets of
//! 1500 bytes. Clients outside ask at a rate of their own (open loop) or wait for the page and
//! think (closed loop).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Event, Guest, Order, Outside, Packet, Step, TaskValue, Times, rate, value};
use crate::units::Nanoseconds;

/// Configuration.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Web {
    /// Who asks.
    pub client: Client,
    /// CPU time of a request in the guest.
    pub service: Nanoseconds,
    /// Size of a page.
    pub page_bytes: u64,
    /// Requests that may wait for the server before more are refused (nginx on Linux: 511).
    pub backlog: u32,
}

/// The clients of a [`Web`] server.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum Client {
    /// Requests at random (Poisson) at this rate, whether or not earlier ones were answered.
    Open {
        /// Requests per second.
        rate_per_s: u64,
    },
    /// So many clients, each of which waits for its page, then thinks.
    Closed {
        /// Number of clients.
        clients: u32,
        /// Mean time (exponential) between a page and the next request.
        think: Nanoseconds,
    },
}

impl Default for Web {
    fn default() -> Self {
        Web {
            client: Client::Open { rate_per_s: 100 },
            service: Nanoseconds::from_us(300),
            page_bytes: 4096,
            backlog: 511,
        }
    }
}

/// Bytes of data that fit a packet on Ethernet.
const PACKET_BYTES: u64 = 1448;
/// A request's size on the wire.
const REQUEST_BYTES: u64 = 200;

/// Threads that take a packet, compute, and answer it.
pub(super) struct Server {
    serving: Vec<Option<Packet>>,
}

impl Server {
    pub fn new(threads: u32) -> Self {
        Server { serving: vec![None; threads as usize] }
    }

    pub fn next(&mut self, thread: u32, guest: &mut Guest<'_>, service: u64, bytes: u64) -> Step {
        let serving = &mut self.serving[thread as usize];
        if let Some(request) = guest.received.take() {
            *serving = Some(request);
            return Step::Compute(service);
        }
        match serving.take() {
            Some(request) => {
                let packets = bytes.div_ceil(PACKET_BYTES).max(1) as u32;
                Step::Send(Packet::new(request.token, packets, bytes))
            }
            None => Step::Receive,
        }
    }
}

pub(super) struct Program {
    config: Web,
    server: Server,
    responses: Times,
    refused: u64,
}

impl Program {
    pub fn new(config: &Web, threads: u32) -> Self {
        let server = Server::new(threads);
        Program { config: config.clone(), server, responses: Times::new(), refused: 0 }
    }

    /// A closed-loop client thinks; an open loop lets its next request come.
    fn pause(&self, outside: &mut Outside<'_>) {
        let mean = match self.config.client {
            Client::Open { rate_per_s } => 1_000_000_000 / rate_per_s.max(1),
            Client::Closed { think, .. } => think.0,
        };
        outside.orders.push(Order::After(outside.random.exponential(mean)));
    }
}

impl super::Program for Program {
    fn next(&mut self, thread: u32, guest: &mut Guest<'_>) -> Step {
        self.server.next(thread, guest, self.config.service.0, self.config.page_bytes)
    }

    fn outside(&mut self, event: Event, outside: &mut Outside<'_>) {
        let open = matches!(self.config.client, Client::Open { .. });
        match event {
            Event::Start => {
                let clients = match self.config.client {
                    Client::Open { .. } => 1,
                    Client::Closed { clients, .. } => clients,
                };
                for _ in 0..clients {
                    self.pause(outside);
                }
            }
            Event::Timer => {
                // The token carries the time of the request to its answer.
                let request = Packet::new(outside.now_ns, 1, REQUEST_BYTES);
                outside.orders.push(Order::Send(request));
                if open {
                    self.pause(outside);
                }
            }
            Event::Arrived(page) => {
                self.responses.record(outside.now_ns - page.token);
                if !open {
                    self.pause(outside);
                }
            }
            Event::Dropped => {
                self.refused += 1;
                if !open {
                    self.pause(outside);
                }
            }
        }
    }

    fn backlog(&self) -> usize {
        self.config.backlog as usize
    }

    fn values(&self, elapsed_ns: u64) -> Vec<TaskValue> {
        let mut values = vec![rate("requests", "1/s", self.responses.count() as f64, elapsed_ns)];
        values.extend(self.responses.values("response time"));
        values.push(value("refused", "requests", Some(false), Some(self.refused as f64)));
        values
    }
}
