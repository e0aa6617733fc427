// SPDX-License-Identifier: GPL-2.0-only
//! A web server and its clients outside, such as nginx under httperf or ab. A request costs CPU time
//! of the guest, and the page leaves in packets of 1500 bytes, of which the client acknowledges
//! every second one. Clients ask at a rate of their own (open loop, httperf) or wait for the page and
//! think (closed loop, ab). Nothing is lost and sent again: `httperf` is the one with TCP.
//!
//! With `connect` each request opens a connection of its own, as httperf's do by default: the client
//! asks for it and sends its request when the guest has answered; that the connection is closed again
//! costs two more packets. Response time is that from request to page.
//!
//! Who waits for longer than `timeout`, for a connection or a page, gives up; the server does not
//! know and works for it all the same. Requests are sent = answered + refused + timed out + those
//! under way.
//!
//! To be calibrated: `service` and `connect`, on the rate at which the server alone on its CPU is
//! saturated. nginx serves some thousands of small static pages per second and CPU of 2009, of
//! which the guest's network stack takes most.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Event, Guest, Order, Outside, Packet, Step, TaskValue, Times, rate, value};
use crate::limits;
use crate::units::Nanoseconds;

/// Configuration.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Web {
    /// Who asks.
    pub client: Client,
    /// CPU time of a request in the guest.
    pub service: Nanoseconds,
    /// CPU time of the guest to accept a connection, where each request opens one of its own.
    /// Without it connections are kept open.
    pub connect: Option<Nanoseconds>,
    /// Size of a page.
    #[schemars(range(min = limits::BYTES.least, max = limits::BYTES.most))]
    pub page_bytes: u64,
    /// Requests that may wait for the server before more are refused (nginx on Linux: 511).
    #[schemars(range(min = limits::BACKLOG.least, max = limits::BACKLOG.most))]
    pub backlog: u32,
}

/// The clients of a [`Web`] server.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum Client {
    /// Requests at random (Poisson) at this rate, whether or not earlier ones were answered.
    Open {
        /// Requests per second.
        #[schemars(range(min = limits::RATE_PER_S.least, max = limits::RATE_PER_S.most))]
        rate_per_s: u64,
        /// How long a client waits before it gives up; 0: for ever.
        #[serde(default)]
        timeout: Nanoseconds,
    },
    /// So many clients, each of which waits for its page, then thinks.
    Closed {
        /// Number of clients.
        #[schemars(range(min = limits::CLIENTS.least, max = limits::CLIENTS.most))]
        clients: u32,
        /// Mean time (exponential) between a page and the next request.
        think: Nanoseconds,
    },
}

impl Default for Web {
    fn default() -> Self {
        Web {
            client: Client::Open { rate_per_s: 100, timeout: Nanoseconds(0) },
            service: Nanoseconds::from_us(300),
            connect: None,
            page_bytes: 4096,
            backlog: 511,
        }
    }
}

/// Bytes of data that fit a packet on Ethernet.
const PACKET_BYTES: u64 = 1448;
/// A request's size on the wire, and that of a packet without data.
const REQUEST_BYTES: u64 = 200;
const EMPTY_BYTES: u64 = 66;

/// Threads that take a packet, compute, and answer it.
pub(super) struct Server {
    /// What each thread is working on: the answer.
    serving: Vec<Option<Packet>>,
}

impl Server {
    pub fn new(threads: u32) -> Self {
        Server { serving: vec![None; threads as usize] }
    }

    /// `work` gives the CPU time of a request, and its answer.
    pub fn next(
        &mut self,
        thread: u32,
        guest: &mut Guest<'_>,
        work: impl FnOnce(Packet) -> (Nanoseconds, Packet),
    ) -> Step {
        let serving = &mut self.serving[thread as usize];
        if let Some(request) = guest.received.take() {
            let (service, answer) = work(request);
            *serving = Some(answer);
            return Step::Compute(service.0);
        }
        serving.take().map_or(Step::Receive, Step::Send)
    }
}

/// What a packet's token says: which exchange it belongs to, and when that began.
#[derive(Clone, Copy)]
struct Exchange {
    connects: bool,
    began_ns: u64,
}

impl Exchange {
    fn token(self) -> u64 {
        self.began_ns << 1 | u64::from(self.connects)
    }

    fn of(packet: Packet) -> Self {
        Exchange { connects: packet.token & 1 != 0, began_ns: packet.token >> 1 }
    }
}

pub(super) struct Program {
    config: Web,
    server: Server,
    sent: u64,
    connections: Times,
    responses: Times,
    refused: u64,
    timed_out: u64,
}

impl Program {
    pub fn new(config: &Web, threads: u32) -> Self {
        Program {
            config: config.clone(),
            server: Server::new(threads),
            sent: 0,
            connections: Times::new(),
            responses: Times::new(),
            refused: 0,
            timed_out: 0,
        }
    }

    fn is_open(&self) -> bool {
        matches!(self.config.client, Client::Open { .. })
    }

    /// A closed-loop client thinks; an open loop lets its next request come.
    fn pause(&self, outside: &mut Outside<'_>) {
        let mean = match self.config.client {
            Client::Open { rate_per_s, .. } => 1_000_000_000 / rate_per_s.max(1),
            Client::Closed { think, .. } => think.0,
        };
        outside.orders.push(Order::After(outside.random.exponential(mean)));
    }

    /// A client is through with a request, one way or another.
    fn done(&self, outside: &mut Outside<'_>) {
        if !self.is_open() {
            self.pause(outside);
        }
    }

    fn ask(&self, connects: bool, outside: &mut Outside<'_>) {
        let token = Exchange { connects, began_ns: outside.now_ns }.token();
        let packet = if connects {
            Packet::new(token, 1, EMPTY_BYTES)
        } else {
            // With it the acknowledgements of its page; the end of the handshake and that of the
            // connection.
            let own = if self.config.connect.is_some() { 2 } else { 0 };
            let acknowledgements = self.page_packets().div_ceil(2);
            Packet::new(token, 1 + acknowledgements + own, REQUEST_BYTES)
        };
        outside.orders.push(Order::Send(packet));
    }

    /// Packets of a page.
    fn page_packets(&self) -> u32 {
        self.config.page_bytes.div_ceil(PACKET_BYTES).clamp(1, 1 << 30) as u32
    }
}

impl super::Program for Program {
    fn next(&mut self, thread: u32, guest: &mut Guest<'_>) -> Step {
        let Web { service, connect, page_bytes, .. } = self.config;
        let packets = self.page_packets();
        self.server.next(thread, guest, |request| match (Exchange::of(request), connect) {
            (Exchange { connects: true, .. }, Some(connect)) => {
                (connect, Packet::new(request.token, 1, EMPTY_BYTES))
            }
            _ => {
                let end = u32::from(connect.is_some());
                (service, Packet::new(request.token, packets + end, page_bytes))
            }
        })
    }

    fn outside(&mut self, event: Event, outside: &mut Outside<'_>) {
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
                self.sent += 1;
                self.ask(self.config.connect.is_some(), outside);
                if self.is_open() {
                    self.pause(outside);
                }
            }
            Event::Arrived(packet) => {
                let Exchange { connects, began_ns } = Exchange::of(packet);
                let took_ns = outside.now_ns - began_ns;
                let gave_up = match self.config.client {
                    Client::Open { timeout, .. } => timeout.0 > 0 && took_ns > timeout.0,
                    Client::Closed { .. } => false,
                };
                if gave_up {
                    self.timed_out += 1;
                } else if connects {
                    self.connections.record(took_ns);
                    self.ask(false, outside);
                } else {
                    self.responses.record(took_ns);
                    self.done(outside);
                }
            }
            Event::Dropped => {
                self.refused += 1;
                self.done(outside);
            }
        }
    }

    fn backlog(&self) -> usize {
        self.config.backlog as usize
    }

    fn values(&self, elapsed_ns: u64) -> Vec<TaskValue> {
        let count = |name: &str, more_is_better, count: u64| {
            value(name, "requests", more_is_better, Some(count as f64))
        };
        let mut values = vec![rate("requests", "1/s", self.responses.count() as f64, elapsed_ns)];
        values.extend(self.responses.values("response time"));
        if self.config.connect.is_some() {
            values.extend(self.connections.values("connection time"));
        }
        values.push(count("sent", None, self.sent));
        values.push(count("answered", Some(true), self.responses.count()));
        values.push(count("refused", Some(false), self.refused));
        values.push(count("timed out", Some(false), self.timed_out));
        values
    }
}
