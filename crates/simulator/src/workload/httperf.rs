// SPDX-License-Identifier: GPL-2.0-only
//! httperf outside (Mosberger and Jin, 1998) and a web server in the guest, over TCP as Linux has it: every request
//! opens a connection of its own, packets may be lost and are sent again.
//!
//! The clients, by httperf's source (stat/basic.c, core.c): connections are opened at a fixed rate, whether or not
//! earlier ones were answered, each for one request, and closed by the client. *Connection time* is that from connect()
//! to connected; *response time* that from sending the request to the first byte of the reply; *lifetime* that from
//! connect() to the end of the reply; *connection rate* is the
//! connections that were opened over the length of the test, which ends when the last of them is done: one that has to
//! send again late makes the test longer. A descriptor is taken for each, of 1022 (FD_SETSIZE less two); without one
//! left a connection is not opened. Without `timeout` it waits for ever. It is one process, which connects, asks and reads
//! the reply one connection after another, in `client_service` each; its kernel answers the guest's by itself.
//!
//! TCP: a SYN is sent again after `first_timeout` and twice as long each time, five times (tcp_syn_retries); a request
//! after the round trip of the SYN that was answered, known by its timestamp, plus twice that, which is at least 200 ms
//! (tcp_rtt_estimator(), TCP_RTO_MIN), and twice as long each time, up to 120 s (TCP_RTO_MAX), until the guest's kernel
//! has acknowledged it. The acknowledgement of the handshake goes before the request and may be lost: then the request
//! stands for it. Not modelled: losses of what the guest sends, and the guest's own retransmissions.
//!
//! The guest: the first thread of the task is its kernel, which takes a packet before any process runs, at
//! `packet_service` each, answers SYNs and completes connections; no more than `backlog` that the server has not
//! accepted, then SYNs and acknowledgements are dropped. The other threads are the server's: each accepts a connection,
//! reads, answers and closes it in `service` of CPU time. What bounds packets before that is `io.vif` of the host.
//!
//! To be calibrated: `service`. `packet_service` is estimated: netfront, IP and TCP at some 10,000 cycles per packet.
//! `client_service` is a third of the 175 us that a connection takes where httperf comes to its own limit, some 5,700/s in
//! published runs of it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Event, Guest, Order, Outside, Packet, Step, TaskValue, Times, value};
use crate::limits;
use crate::units::Nanoseconds;

/// Configuration.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Httperf {
    /// Connections opened per second (`--rate`).
    #[schemars(range(min = limits::RATE_PER_S.least, max = limits::RATE_PER_S.most))]
    pub rate_per_s: u64,
    /// What is opened before this is not counted.
    pub warm_up: Nanoseconds,
    /// For how long connections are opened then (`--num-conns` over the rate); 0: without end.
    pub duration: Nanoseconds,
    /// How long a client waits for a connection, or for the reply, before it gives up (`--timeout`); 0: for ever.
    pub timeout: Nanoseconds,
    /// After so long the client's kernel sends a SYN again: 1 s in Linux from 3.1 (RFC 6298), 3 s before (RFC 2988).
    pub first_timeout: Nanoseconds,
    /// CPU time of the server for a connection.
    pub service: Nanoseconds,
    /// CPU time of the guest's kernel for a packet that it receives.
    pub packet_service: Nanoseconds,
    /// CPU time of httperf to connect, to send a request, and to read a reply.
    pub client_service: Nanoseconds,
    /// Size of the page.
    #[schemars(range(min = limits::BYTES.least, max = limits::BYTES.most))]
    pub page_bytes: u64,
    /// Connections that may wait for the server to accept them: the less of what it asks listen() for (nginx: 511) and
    /// net.core.somaxconn (Linux before 5.4: 128).
    #[schemars(range(min = limits::BACKLOG.least, max = limits::BACKLOG.most))]
    pub backlog: u32,
}

impl Default for Httperf {
    fn default() -> Self {
        Httperf {
            rate_per_s: 100,
            warm_up: Nanoseconds(0),
            duration: Nanoseconds(0),
            timeout: Nanoseconds(0),
            first_timeout: Nanoseconds::from_s(1),
            service: Nanoseconds::from_us(150),
            packet_service: Nanoseconds::from_us(5),
            client_service: Nanoseconds::from_us(58),
            page_bytes: 4096,
            backlog: 128,
        }
    }
}

/// Connections that the client can have open.
const DESCRIPTORS: u32 = 1022;
const SYN_RETRIES: u32 = 5;
const RTO_LEAST_NS: u64 = 200_000_000;
const RTO_MOST_NS: u64 = 120_000_000_000;
/// On Ethernet: data that fit a packet, a packet without any, a request, and what comes before the page.
const PACKET_BYTES: u64 = 1448;
const EMPTY_BYTES: u64 = 66;
const REQUEST_BYTES: u64 = 130;
const HEADER_BYTES: u64 = 240;

/// Which packet of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Syn,
    Ack,
    Request,
    /// Acknowledges data, or ends the connection.
    Other,
}

/// What a packet's token says.
#[derive(Clone, Copy)]
struct Segment {
    kind: Kind,
    /// Which SYN of the connection it is, or answers.
    attempt: u32,
    connection: u32,
    /// How often the place of the connection was taken before.
    generation: u32,
}

impl Segment {
    fn packet(self, packets: u32, bytes: u64) -> Packet {
        let low = self.kind as u64 | u64::from(self.attempt) << 2;
        let token = low | u64::from(self.connection) << 8 | u64::from(self.generation) << 32;
        Packet::new(token, packets, bytes)
    }

    fn of(packet: Packet) -> Self {
        let kind = match packet.token & 3 {
            0 => Kind::Syn,
            1 => Kind::Ack,
            2 => Kind::Request,
            _ => Kind::Other,
        };
        Segment {
            kind,
            attempt: (packet.token >> 2 & 63) as u32,
            connection: (packet.token >> 8 & 0xff_ffff) as u32,
            generation: (packet.token >> 32) as u32,
        }
    }
}

/// As the client has it.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Client {
    #[default]
    Closed,
    /// The SYN was sent.
    Connects,
    /// The connection is there; the request was sent, and acknowledged.
    Connected,
    Asks,
    Awaits,
}

/// As the guest has it.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Server {
    #[default]
    Closed,
    SynReceived,
    Established,
    /// The request has come.
    Asked,
}

#[derive(Clone, Copy, Default)]
struct Connection {
    generation: u32,
    client: Client,
    server: Server,
    counted: bool,
    /// When the first SYN was sent, and the request.
    began_ns: u64,
    asked_ns: u64,
    /// How often what it waits for was sent again, and how long it waits.
    attempt: u32,
    rto_ns: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Alarm {
    /// Another connection is opened.
    Open,
    /// The client's process sends the request of a connection.
    Ask { connection: u32, generation: u32 },
    /// What was sent is sent again if nothing came; which attempt that was, and in which state.
    Again { connection: u32, generation: u32, attempt: u32, asks: bool },
    /// The client has no patience left.
    GiveUp { connection: u32, generation: u32 },
}

#[derive(Clone, Copy, Default)]
enum Worker {
    #[default]
    Waits,
    Woken,
    Serves(Segment),
}

pub(super) struct Program {
    config: Httperf,
    connections: Vec<Connection>,
    free: Vec<u32>,
    alarms: BinaryHeap<Reverse<(u64, Alarm)>>,
    /// What the kernel has taken, and still has to do; what the server's threads do.
    taken: Option<Segment>,
    next: Option<Step>,
    workers: Vec<Worker>,
    /// Connections that the server has not accepted, and those of them whose request has come.
    unaccepted: u32,
    asked: VecDeque<Segment>,
    open: u32,
    /// When the client's process is free.
    free_ns: u64,

    // What is counted.
    ended: bool,
    opened: u64,
    counted_open: u64,
    last_done_ns: u64,
    connected: Times,
    responses: Times,
    lifetimes: Times,
    no_descriptor: u64,
    timed_out: u64,
    syns_again: u64,
    requests_again: u64,
    overflows: u64,
}

impl Program {
    pub fn new(config: &Httperf, threads: u32) -> Self {
        Program {
            config: config.clone(),
            connections: vec![],
            free: vec![],
            alarms: BinaryHeap::new(),
            taken: None,
            next: None,
            workers: vec![Worker::default(); threads as usize],
            unaccepted: 0,
            asked: VecDeque::new(),
            open: 0,
            free_ns: 0,
            ended: false,
            opened: 0,
            counted_open: 0,
            last_done_ns: 0,
            connected: Times::new(),
            responses: Times::new(),
            lifetimes: Times::new(),
            no_descriptor: 0,
            timed_out: 0,
            syns_again: 0,
            requests_again: 0,
            overflows: 0,
        }
    }

    // ---- The clients ----

    fn alarm(&mut self, after_ns: u64, alarm: Alarm, outside: &mut Outside<'_>) {
        let due_ns = outside.now_ns.saturating_add(after_ns);
        self.alarms.push(Reverse((due_ns, alarm)));
        outside.orders.push(Order::After(after_ns));
    }

    /// Sends this of the connection, and again if nothing comes.
    fn send(&mut self, connection: u32, kind: Kind, outside: &mut Outside<'_>) {
        let Connection { generation, attempt, rto_ns, .. } = self.connections[connection as usize];
        let asks = kind == Kind::Request;
        let bytes = if asks { REQUEST_BYTES } else { EMPTY_BYTES };
        let segment = Segment { kind, attempt, connection, generation };
        outside.orders.push(Order::Send(segment.packet(1, bytes)));
        let again = Alarm::Again { connection, generation, attempt, asks };
        self.alarm(rto_ns, again, outside);
    }

    /// When the client's process has done one thing more.
    fn act(&mut self, now_ns: u64) -> u64 {
        self.free_ns = self.free_ns.max(now_ns).saturating_add(self.config.client_service.0);
        self.free_ns
    }

    /// One more of those at a fixed rate.
    fn open(&mut self, outside: &mut Outside<'_>) {
        let Httperf { rate_per_s, warm_up, duration, timeout, first_timeout, .. } = self.config;
        let counted = outside.now_ns >= warm_up.0;
        if duration.0 > 0 && outside.now_ns >= warm_up.0.saturating_add(duration.0) {
            self.ended = true;
            return;
        }
        self.alarm(1_000_000_000 / rate_per_s.max(1), Alarm::Open, outside);
        if self.open >= DESCRIPTORS {
            self.no_descriptor += u64::from(counted);
            return;
        }
        self.act(outside.now_ns);
        self.open += 1;
        self.opened += u64::from(counted);
        self.counted_open += u64::from(counted);
        let connection = self.free.pop().unwrap_or_else(|| {
            self.connections.push(Connection::default());
            self.connections.len() as u32 - 1
        });
        let entry = &mut self.connections[connection as usize];
        *entry = Connection {
            generation: entry.generation.wrapping_add(1),
            client: Client::Connects,
            counted,
            began_ns: outside.now_ns,
            rto_ns: first_timeout.0.max(1),
            ..Connection::default()
        };
        let generation = entry.generation;
        self.send(connection, Kind::Syn, outside);
        if timeout.0 > 0 {
            self.alarm(timeout.0, Alarm::GiveUp { connection, generation }, outside);
        }
    }

    /// The client is through with it, one way or another.
    fn close(&mut self, connection: u32, now_ns: u64) {
        let entry = &mut self.connections[connection as usize];
        entry.client = Client::Closed;
        self.open -= 1;
        if entry.counted {
            self.counted_open -= 1;
            self.last_done_ns = now_ns;
        }
        self.free.push(connection);
    }

    fn give_up(&mut self, connection: u32, now_ns: u64) {
        self.timed_out += u64::from(self.connections[connection as usize].counted);
        self.close(connection, now_ns);
    }

    fn rings(&mut self, alarm: Alarm, outside: &mut Outside<'_>) {
        match alarm {
            Alarm::Open => self.open(outside),
            Alarm::Ask { connection, generation } => {
                let entry = &mut self.connections[connection as usize];
                if (entry.generation, entry.client) == (generation, Client::Connected) {
                    entry.client = Client::Asks;
                    entry.asked_ns = outside.now_ns;
                    self.send(connection, Kind::Request, outside);
                }
            }
            Alarm::GiveUp { connection, generation } => {
                let entry = &self.connections[connection as usize];
                if entry.generation == generation && entry.client != Client::Closed {
                    self.give_up(connection, outside.now_ns);
                }
            }
            Alarm::Again { connection, generation, attempt, asks } => {
                let entry = &mut self.connections[connection as usize];
                let waits = if asks { Client::Asks } else { Client::Connects };
                if (entry.generation, entry.client, entry.attempt) != (generation, waits, attempt) {
                    return;
                }
                if !asks && attempt == SYN_RETRIES {
                    self.give_up(connection, outside.now_ns);
                    return;
                }
                entry.attempt = (attempt + 1).min(63);
                entry.rto_ns = entry.rto_ns.saturating_mul(2).min(RTO_MOST_NS);
                let counted = u64::from(entry.counted);
                if asks {
                    self.requests_again += counted;
                } else {
                    self.syns_again += counted;
                }
                let kind = if asks { Kind::Request } else { Kind::Syn };
                self.send(connection, kind, outside);
            }
        }
    }

    /// What the guest sent has come: an answer to a SYN, or the reply.
    fn arrives(&mut self, segment: Segment, outside: &mut Outside<'_>) {
        let connection = segment.connection;
        let entry = &mut self.connections[connection as usize];
        if entry.generation != segment.generation {
            return;
        }
        match (segment.kind, entry.client) {
            (Kind::Syn, Client::Connects) => {
                let first_ns = self.config.first_timeout.0.max(1);
                let sent_ns = entry.began_ns + first_ns * ((1 << segment.attempt) - 1);
                let round_trip_ns = outside.now_ns - sent_ns;
                entry.client = Client::Connected;
                entry.attempt = 0;
                entry.rto_ns = round_trip_ns + (2 * round_trip_ns).max(RTO_LEAST_NS);
                if entry.counted {
                    self.connected.record(outside.now_ns - entry.began_ns);
                }
                let ack = Segment { kind: Kind::Ack, attempt: 0, ..segment };
                outside.orders.push(Order::Send(ack.packet(1, EMPTY_BYTES)));
                let ask = Alarm::Ask { connection, generation: segment.generation };
                let after_ns = self.act(outside.now_ns) - outside.now_ns;
                self.alarm(after_ns, ask, outside);
            }
            (Kind::Ack, Client::Asks) => entry.client = Client::Awaits,
            (Kind::Request, Client::Asks | Client::Awaits) => {
                let Connection { counted, began_ns, asked_ns, .. } = *entry;
                let read_ns = self.act(outside.now_ns);
                if counted {
                    self.responses.record(read_ns - asked_ns);
                    self.lifetimes.record(read_ns - began_ns);
                }
                self.close(connection, outside.now_ns);
                // Acknowledges every second packet; ends its side, and acknowledges the end of the other.
                let data = self.page_packets() / 2;
                let other = Segment { kind: Kind::Other, ..segment };
                for _ in 0..data + 2 {
                    outside.orders.push(Order::Send(other.packet(1, EMPTY_BYTES)));
                }
            }
            _ => {}
        }
    }

    fn page_packets(&self) -> u32 {
        let bytes = self.config.page_bytes + HEADER_BYTES;
        bytes.div_ceil(PACKET_BYTES).clamp(1, 1 << 20) as u32
    }

    // ---- The guest ----

    /// The guest's kernel has one connection more for the server to accept, if there is room.
    fn establish(&mut self, connection: u32) {
        if self.unaccepted >= self.config.backlog {
            self.overflows += 1;
            return;
        }
        self.unaccepted += 1;
        self.connections[connection as usize].server = Server::Established;
    }

    /// The guest's kernel does what the packet asks for; what follows.
    fn receive(&mut self, segment: Segment) -> Option<Step> {
        let Segment { kind, connection, generation, .. } = segment;
        let entry = &mut self.connections[connection as usize];
        if entry.generation != generation {
            return None;
        }
        match (kind, entry.server) {
            (Kind::Syn, Server::Closed | Server::SynReceived) => {
                if self.unaccepted >= self.config.backlog {
                    self.overflows += 1;
                    return None;
                }
                entry.server = Server::SynReceived;
                return Some(Step::Send(segment.packet(1, EMPTY_BYTES)));
            }
            (Kind::Ack, Server::SynReceived) => self.establish(connection),
            (Kind::Request, Server::SynReceived | Server::Established) => {
                if entry.server == Server::SynReceived {
                    self.establish(connection);
                }
                let entry = &mut self.connections[connection as usize];
                if entry.server == Server::Established {
                    entry.server = Server::Asked;
                    self.asked.push_back(segment);
                    self.next = Some(Step::Signal(0));
                    return Some(Self::acknowledges(segment));
                }
            }
            (Kind::Request, Server::Asked) => return Some(Self::acknowledges(segment)),
            _ => {}
        }
        None
    }

    /// Linux acknowledges the first data of a connection at once.
    fn acknowledges(segment: Segment) -> Step {
        Step::Send(Segment { kind: Kind::Ack, ..segment }.packet(1, EMPTY_BYTES))
    }

    fn kernel(&mut self, guest: &mut Guest<'_>) -> Step {
        if let Some(packet) = guest.received.take() {
            self.taken = Some(Segment::of(packet));
            return Step::Kernel(self.config.packet_service.0);
        }
        if let Some(next) = self.next.take() {
            return next;
        }
        let taken = self.taken.take();
        taken.and_then(|segment| self.receive(segment)).unwrap_or(Step::Receive)
    }

    fn serve(&mut self, thread: u32) -> Step {
        match self.workers[thread as usize] {
            Worker::Waits => {
                self.workers[thread as usize] = Worker::Woken;
                Step::Wait(0)
            }
            Worker::Woken => {
                let Some(segment) = self.asked.pop_front() else {
                    return Step::Wait(0);
                };
                self.unaccepted -= 1;
                self.workers[thread as usize] = Worker::Serves(segment);
                Step::Compute(self.config.service.0)
            }
            Worker::Serves(segment) => {
                self.workers[thread as usize] = Worker::Waits;
                let bytes = self.config.page_bytes + HEADER_BYTES;
                Step::Send(segment.packet(self.page_packets(), bytes))
            }
        }
    }
}

impl super::Program for Program {
    fn next(&mut self, thread: u32, guest: &mut Guest<'_>) -> Step {
        if thread == 0 { self.kernel(guest) } else { self.serve(thread) }
    }

    fn interrupts(&self, thread: u32) -> bool {
        thread == 0
    }

    fn semaphores(&self) -> Vec<u32> {
        vec![0]
    }

    fn outside(&mut self, event: Event, outside: &mut Outside<'_>) {
        match event {
            // Not in step with the host's own periods.
            Event::Start => {
                let interval_ns = 1_000_000_000 / self.config.rate_per_s.max(1);
                let first_ns = outside.random.below(interval_ns.max(1));
                self.alarm(first_ns, Alarm::Open, outside);
            }
            Event::Timer => {
                while let Some(&Reverse((due_ns, alarm))) = self.alarms.peek() {
                    if due_ns > outside.now_ns {
                        break;
                    }
                    self.alarms.pop();
                    self.rings(alarm, outside);
                }
            }
            Event::Arrived(packet) => self.arrives(Segment::of(packet), outside),
            // Nobody is told of a loss.
            Event::Dropped => {}
        }
    }

    fn values(&self, elapsed_ns: u64) -> Vec<TaskValue> {
        let over = self.ended && self.counted_open == 0;
        let end_ns = if over { self.last_done_ns } else { elapsed_ns };
        let seconds = end_ns.saturating_sub(self.config.warm_up.0) as f64 / 1e9;
        let per_s = |name, count: u64| {
            let rate = (seconds > 0.0).then(|| count as f64 / seconds);
            value(name, "1/s", Some(true), rate)
        };
        let count = |name, unit, more_is_better, count: u64| {
            value(name, unit, more_is_better, Some(count as f64))
        };
        let mut values = vec![
            per_s("connection rate", self.opened),
            per_s("reply rate", self.responses.count()),
            value("test duration", "s", None, over.then_some(seconds)),
        ];
        values.extend(self.responses.values("response time"));
        values.extend(self.connected.values("connection time"));
        values.extend(self.lifetimes.values("lifetime"));
        values.push(count("opened", "connections", None, self.opened));
        values.push(count("answered", "connections", Some(true), self.responses.count()));
        values.push(count("timed out", "connections", Some(false), self.timed_out));
        values.push(count("without descriptor", "connections", Some(false), self.no_descriptor));
        values.push(count("SYNs sent again", "packets", Some(false), self.syns_again));
        values.push(count("requests sent again", "packets", Some(false), self.requests_again));
        values.push(count("dropped at accept", "packets", Some(false), self.overflows));
        values
    }
}
