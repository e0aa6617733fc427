// SPDX-License-Identifier: GPL-2.0-only
//! A small web server that Prometheus asks: one thread, sockets that never block, one answer for each
//! connection. There are at most so many; if another comes the oldest goes, and each has an end in time.
//! So nobody who is silent, slow or hostile holds up others or makes it grow.
//!
//! What somebody sends and what they are owed is an [`Exchange`], which knows no socket and no clock.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::listen;
use rustix::net::sockopt::set_socket_send_buffer_size;

use crate::metrics::OPENMETRICS;
use crate::open_files;

/// Connections at a time. Even if thousands come every second one lives for a tenth of one: Prometheus, which
/// asks at once, is answered in that time.
const CONNECTIONS: usize = 512;
/// A connection ends after this time, whatever it did.
const LONGEST: Duration = Duration::from_secs(5);
/// Longer heads of requests are not read.
const LONGEST_HEAD: usize = 8 << 10;
/// Fields of a head.
const FIELDS: usize = 64;
/// Connections that may wait to be accepted; the kernel may allow less.
const WAITING: i32 = 4096;
/// Those that are accepted, and reads and writes of one connection, before others get their turn.
const ACCEPTED_AT_ONCE: usize = 64;
const ROUNDS: usize = 4;
/// Bytes that the kernel keeps for who does not read.
const KEPT_BY_KERNEL: usize = 64 << 10;
/// Different texts that are kept for who reads slowly.
const TEXTS: usize = 4;
/// Nobody is accepted for so long if there is no file for it.
const BREATH: Duration = Duration::from_millis(50);
const WORDS: &str = "text/plain; charset=utf-8";

/// What somebody asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// The metrics themselves, or only what is said of them.
    Metrics {
        /// Themselves.
        body: bool,
    },
    /// Something that is not here.
    Other,
    /// With another method than GET or HEAD.
    OtherMethod,
    /// For another host than this one. A browser asks so for a page of that host, whoever let its name
    /// point here.
    OtherHost,
    /// No request.
    Unreadable,
}

/// What was sent on one connection, and what is owed to it.
#[derive(Debug)]
pub struct Exchange {
    on_loopback: bool,
    head: Vec<u8>,
    answer: Option<Answer>,
}

#[derive(Debug)]
struct Answer {
    head: Vec<u8>,
    text: Arc<String>,
    sent: usize,
}

impl Exchange {
    /// Nothing was sent yet. On loopback only who asks for loopback is answered.
    #[must_use]
    pub fn new(on_loopback: bool) -> Exchange {
        Exchange { on_loopback, head: vec![], answer: None }
    }

    /// Takes in what was sent, nothing being the end of it. Once it is clear what is asked for this says
    /// so, and it is to be answered; what comes after that is not read.
    pub fn receive(&mut self, bytes: &[u8]) -> Option<Request> {
        if self.answer.is_some() {
            return None;
        }
        let first = self.head.is_empty();
        let room = LONGEST_HEAD - self.head.len().min(LONGEST_HEAD);
        self.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
        let is_last = bytes.is_empty() || bytes.len() >= room;
        // A head ends with a line: byte by byte it is not read again and again.
        if !is_last && !first && !bytes.contains(&b'\n') {
            return None;
        }
        let mut fields = [httparse::EMPTY_HEADER; FIELDS];
        let mut request = httparse::Request::new(&mut fields);
        match request.parse(&self.head) {
            Ok(httparse::Status::Complete(_)) => Some(self.asked(&request)),
            Ok(httparse::Status::Partial) if !is_last => None,
            _ => Some(Request::Unreadable),
        }
    }

    fn asked(&self, request: &httparse::Request<'_, '_>) -> Request {
        if self.on_loopback && !is_for_loopback(request) {
            return Request::OtherHost;
        }
        let path = request.path.unwrap_or_default().split('?').next();
        match (request.method.unwrap_or_default(), path) {
            ("GET", Some("/metrics")) => Request::Metrics { body: true },
            ("HEAD", Some("/metrics")) => Request::Metrics { body: false },
            ("GET" | "HEAD", _) => Request::Other,
            _ => Request::OtherMethod,
        }
    }

    /// From now on the answer to this request is owed, for which `metrics` are asked if they are wanted.
    ///
    /// # Errors
    /// Those of `metrics`.
    pub fn answer<E>(
        &mut self,
        request: Request,
        metrics: impl FnOnce() -> Result<Arc<String>, E>,
    ) -> Result<(), E> {
        let words = |words: &str| Arc::new(words.to_owned());
        let (status, text) = match request {
            Request::Metrics { .. } => ("200 OK", metrics()?),
            Request::Other => ("404 Not Found", words("steelyard export: see /metrics\n")),
            Request::OtherHost => (
                "403 Forbidden",
                words(
                    "steelyard export: it listens on loopback and answers who asks for localhost only\n",
                ),
            ),
            Request::OtherMethod => ("405 Method Not Allowed", words("only GET\n")),
            Request::Unreadable => ("400 Bad Request", words("this is no request\n")),
        };
        let kind = if matches!(request, Request::Metrics { .. }) { OPENMETRICS } else { WORDS };
        let length = text.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n"
        );
        let text =
            if request == (Request::Metrics { body: false }) { Arc::default() } else { text };
        self.head = vec![];
        self.answer = Some(Answer { head: head.into_bytes(), text, sent: 0 });
        Ok(())
    }

    /// What is to be sent next: nothing if all was, none as long as nothing is owed.
    #[must_use]
    pub fn owed(&self) -> Option<&[u8]> {
        let Answer { head, text, sent } = self.answer.as_ref()?;
        Some(match head.get(*sent..) {
            Some(rest) if !rest.is_empty() => rest,
            _ => text.as_bytes().get(sent - head.len()..).unwrap_or_default(),
        })
    }

    /// So many bytes of that were sent.
    pub fn sent(&mut self, bytes: usize) {
        if let Some(answer) = &mut self.answer {
            answer.sent = (answer.sent + bytes).min(answer.head.len() + answer.text.len());
        }
    }

    /// Whether this text is owed.
    fn owes(&self, text: &Arc<String>) -> bool {
        self.answer.as_ref().is_some_and(|answer| Arc::ptr_eq(&answer.text, text))
    }
}

/// A request of HTTP/1.0 need not say for which host it is.
fn is_for_loopback(request: &httparse::Request<'_, '_>) -> bool {
    let mut hosts = request.headers.iter().filter(|field| field.name.eq_ignore_ascii_case("host"));
    hosts.all(|host| std::str::from_utf8(host.value).is_ok_and(is_loopback))
}

/// Whether this is a name or an address of loopback, with a port or without.
fn is_loopback(host: &str) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, port),
        _ => (host, ""),
    };
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    let is_address = || address.parse().is_ok_and(|address: IpAddr| address.is_loopback());
    port.bytes().all(|digit| digit.is_ascii_digit())
        && (name.eq_ignore_ascii_case("localhost") || is_address())
}

/// Listens, and serves whoever comes.
pub struct Server {
    listener: TcpListener,
    /// The oldest first.
    connections: VecDeque<Connection>,
    most: usize,
    /// Nobody is accepted until then.
    deaf_until: Instant,
    /// Those that are owed to somebody, or were: the oldest first.
    texts: VecDeque<Weak<String>>,
}

struct Connection {
    stream: TcpStream,
    exchange: Exchange,
    end: Instant,
}

impl Server {
    /// Listens on this address.
    ///
    /// # Errors
    /// Those of the system.
    pub fn listen(address: SocketAddr) -> io::Result<Server> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        // The standard library lets few wait. What is accepted takes over the size.
        listen(&listener, WAITING)?;
        set_socket_send_buffer_size(&listener, KEPT_BY_KERNEL)?;
        Ok(Server {
            listener,
            connections: VecDeque::new(),
            most: CONNECTIONS.min(open_files::for_connections()).max(1),
            deaf_until: Instant::now(),
            texts: VecDeque::new(),
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// Those of the system.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Waits so long for somebody to come, to ask or to be able to read more, and serves them as far as it
    /// can be done now. `metrics` are asked for each who wants them.
    ///
    /// # Errors
    /// Those of `metrics`.
    pub fn turn<E>(
        &mut self,
        wait: Duration,
        mut metrics: impl FnMut() -> Result<Arc<String>, E>,
    ) -> Result<(), E> {
        let ready = self.ready(wait);
        let now = Instant::now();
        let mut failed = Ok(());
        let mut index = 0;
        self.connections.retain_mut(|connection| {
            let is_ready = ready.get(index) == Some(&true);
            index += 1;
            now < connection.end && (!is_ready || connection.go_on(&mut metrics, &mut failed))
        });
        failed?;
        if now >= self.deaf_until {
            self.accept(now, &mut metrics)?;
        }
        self.forget_texts();
        Ok(())
    }

    /// Which connections can go on.
    fn ready(&self, wait: Duration) -> Vec<bool> {
        let mut polled: Vec<_> = self.connections.iter().map(Connection::wants).collect();
        if Instant::now() >= self.deaf_until {
            polled.push(PollFd::new(&self.listener, PollFlags::IN));
        }
        let wait = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() };
        // What fails here is a signal, or no memory for the moment: the next turn will see.
        match poll(&mut polled, Some(&wait)) {
            Ok(_) => polled.iter().map(|polled| !polled.revents().is_empty()).collect(),
            Err(_) => vec![],
        }
    }

    fn accept<E>(
        &mut self,
        now: Instant,
        metrics: &mut impl FnMut() -> Result<Arc<String>, E>,
    ) -> Result<(), E> {
        for _ in 0..ACCEPTED_AT_ONCE {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                // They went before they were accepted.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::ConnectionAborted | ErrorKind::Interrupted
                    ) =>
                {
                    continue;
                }
                // Too many open files: one is given back, if it is here that they are.
                Err(_) if self.connections.pop_front().is_some() => continue,
                Err(_) => {
                    self.deaf_until = now + BREATH;
                    return Ok(());
                }
            };
            let Ok(mut connection) = Connection::new(stream, now) else { continue };
            // Who asks says so as soon as there is a connection.
            let mut failed = Ok(());
            let goes_on = connection.go_on(metrics, &mut failed);
            failed?;
            if goes_on {
                if self.connections.len() >= self.most {
                    self.connections.pop_front();
                }
                self.connections.push_back(connection);
            }
        }
        Ok(())
    }

    /// Who still reads an old text when there are many newer ones goes: texts are large.
    fn forget_texts(&mut self) {
        for text in self
            .connections
            .iter()
            .filter_map(|connection| connection.exchange.answer.as_ref().map(|answer| &answer.text))
        {
            if self.texts.iter().all(|known| !std::ptr::eq(known.as_ptr(), Arc::as_ptr(text))) {
                self.texts.push_back(Arc::downgrade(text));
            }
        }
        self.texts.retain(|text| text.strong_count() > 0);
        while self.texts.len() > TEXTS {
            if let Some(text) = self.texts.pop_front().and_then(|text| text.upgrade()) {
                self.connections.retain(|connection| !connection.exchange.owes(&text));
            }
        }
    }
}

impl Connection {
    fn new(stream: TcpStream, now: Instant) -> io::Result<Connection> {
        stream.set_nonblocking(true)?;
        let on_loopback = stream.local_addr()?.ip().is_loopback();
        Ok(Connection { stream, exchange: Exchange::new(on_loopback), end: now + LONGEST })
    }

    fn wants(&self) -> PollFd<'_> {
        let flags = match self.exchange.owed() {
            Some(owed) if !owed.is_empty() => PollFlags::OUT,
            _ => PollFlags::IN,
        };
        PollFd::new(&self.stream, flags)
    }

    /// Reads and writes what can be done at once; whether it goes on.
    fn go_on<E>(
        &mut self,
        metrics: &mut impl FnMut() -> Result<Arc<String>, E>,
        failed: &mut Result<(), E>,
    ) -> bool {
        for _ in 0..ROUNDS {
            let done = match self.exchange.owed() {
                Some(owed) if !owed.is_empty() => {
                    self.stream.write(owed).map(|written| self.send(written))
                }
                // Until they have read all and say so: who closes with something unread breaks off what is
                // under way.
                owed => {
                    let is_answered = owed.is_some();
                    let mut bytes = [0; 4096];
                    self.stream.read(&mut bytes).map(|read| {
                        if let Some(request) = self.exchange.receive(&bytes[..read]) {
                            *failed = self.exchange.answer(request, &mut *metrics);
                        }
                        !(is_answered && read == 0)
                    })
                }
            };
            match done {
                Ok(goes_on) if goes_on && failed.is_ok() => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => return false,
            }
        }
        true
    }

    /// So much was sent; whether it goes on.
    fn send(&mut self, written: usize) -> bool {
        self.exchange.sent(written);
        let is_all = self.exchange.owed().is_none_or(<[u8]>::is_empty);
        written > 0 && (!is_all || self.stream.shutdown(Shutdown::Write).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    #[test]
    fn loopback_has_several_names() {
        for host in
            ["localhost", "LocalHost:9750", "127.0.0.1:9750", "127.1.2.3", "[::1]:80", "[::1]"]
        {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["", "example.org:9750", "localhost.example.org", "192.0.2.1", "[::2]", "::1:x"]
        {
            assert!(!is_loopback(host), "{host}");
        }
    }

    /// What comes back for this, sent in pieces of so many bytes.
    fn exchanged(sent: &[u8], piece: usize) -> (Option<Request>, Vec<u8>) {
        let mut exchange = Exchange::new(true);
        let request = sent.chunks(piece).chain([&b""[..]]).find_map(|part| exchange.receive(part));
        let Some(asked) = request else { return (None, vec![]) };
        let metrics = || Ok::<_, io::Error>(Arc::new("# EOF\n".to_owned()));
        exchange.answer(asked, metrics).unwrap();
        let mut received = vec![];
        while let Some(owed) = exchange.owed().filter(|owed| !owed.is_empty()) {
            let part = owed.len().min(piece);
            received.extend_from_slice(&owed[..part]);
            exchange.sent(part);
        }
        assert_eq!(exchange.receive(b"GET / HTTP/1.1\r\n\r\n"), None, "one answer each");
        (request, received)
    }

    #[test]
    fn each_request_has_its_answer() {
        let long = [&b"GET /metrics HTTP/1.1\r\nx: "[..], &[b'a'; LONGEST_HEAD]].concat();
        let fields = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(FIELDS + 1));
        for (sent, request, status) in [
            (
                &b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"[..],
                Request::Metrics { body: true },
                "200",
            ),
            (b"GET /metrics?x HTTP/1.0\r\n\r\n", Request::Metrics { body: true }, "200"),
            (b"HEAD /metrics HTTP/1.0\r\n\r\n", Request::Metrics { body: false }, "200"),
            (b"GET / HTTP/1.1\r\n\r\n", Request::Other, "404"),
            (b"POST /metrics HTTP/1.1\r\n\r\n", Request::OtherMethod, "405"),
            (b"GET /metrics HTTP/1.1\r\nHost: example.org\r\n\r\n", Request::OtherHost, "403"),
            (b"\x16\x03\x01 what", Request::Unreadable, "400"),
            (b"GET /met", Request::Unreadable, "400"),
            (b"", Request::Unreadable, "400"),
            (&long, Request::Unreadable, "400"),
            (fields.as_bytes(), Request::Unreadable, "400"),
        ] {
            for piece in [1, 7, usize::MAX] {
                let (asked, answer) = exchanged(sent, piece);
                assert_eq!(asked, Some(request));
                let answer = String::from_utf8(answer).unwrap();
                let (head, text) = answer.split_once("\r\n\r\n").unwrap();
                assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
                let length =
                    if request == (Request::Metrics { body: false }) { 6 } else { text.len() };
                assert!(head.contains(&format!("Content-Length: {length}\r\n")), "{answer}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered_once(
            sent in proptest::collection::vec(any::<u8>(), 0..200),
            prefix in 0_usize..26,
            piece in 1_usize..50,
        ) {
            let sent = [&b"GET /metrics HTTP/1.1\r\na: "[..prefix], &sent].concat();
            let (request, answer) = exchanged(&sent, piece);
            prop_assert!(request.is_some());
            prop_assert!(answer.starts_with(b"HTTP/1.1 "));
        }
    }
}
