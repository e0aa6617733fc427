// SPDX-License-Identifier: GPL-2.0-only
//! `steelyard export`: a small web server that Prometheus asks. Each connection has a thread, of which
//! there are few, an end in time and one answer, so that nobody who is slow or hostile holds up others
//! or makes it grow.

use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use steelyard_monitor::{Exposition, OPENMETRICS, Source};
use steelyard_recording::Snapshot;

use crate::arguments::Export;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::monitor::{ATTENTION, open, watching};
use crate::terminal;

/// Connections that are served at the same time; others wait.
const CONNECTIONS: usize = 16;
/// A connection ends after this time, whatever it did.
const LONGEST: Duration = Duration::from_secs(5);
/// Longer requests are not read.
const LONGEST_REQUEST: usize = 16 << 10;
/// Fields of a request's head.
const FIELDS: usize = 64;
/// Who asks sooner gets the same again: asking costs this host no more than so many looks.
const SOONEST: Duration = Duration::from_millis(50);
const WORDS: &str = "text/plain; charset=utf-8";

/// Somebody wants the metrics, and where they are to be sent.
type Wanted = SyncSender<Arc<String>>;

pub fn run(arguments: &Export, interrupt: &Interrupt) -> Result<(), Failure> {
    let Export { watched, listen } = arguments;
    let (mut source, _) = open(watched, None)?;
    source.set_states(false);
    source.set_segments(false);
    let failed = |error| Failure::System { what: "listen", error: format!("on {listen}: {error}") };
    let listener = TcpListener::bind(listen).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let (wants, wanted) = channel();
    let listener = Arc::new(Mutex::new(listener));
    for _ in 0..CONNECTIONS {
        let (listener, wants) = (listener.clone(), wants.clone());
        thread::spawn(move || accept(&listener, &wants));
    }
    terminal::note(&format!("metrics on http://{address}/metrics; Ctrl-C ends it"));
    // A signal is how it is ended.
    interrupt.until_asked(|asked| Watch::new(source).serve(&wanted, asked))
}

/// What is watched, as it was seen last.
struct Watch {
    source: Source,
    last: Option<Snapshot>,
    exposition: Exposition,
    text: Arc<String>,
    looked: Option<Instant>,
}

impl Watch {
    fn new(source: Source) -> Watch {
        let (exposition, text) = Default::default();
        Watch { source, last: None, exposition, text, looked: None }
    }

    fn serve(&mut self, wanted: &Receiver<Wanted>, asked: &AtomicBool) -> Result<(), Failure> {
        while !asked.load(Ordering::Relaxed) {
            match wanted.recv_timeout(ATTENTION) {
                Ok(wanted) => {
                    self.look(asked)?;
                    // If nobody waits for it any more, that is no concern of this host.
                    let _ = wanted.try_send(self.text.clone());
                }
                Err(RecvTimeoutError::Timeout) => self.source.attend(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Ok(())
    }

    fn look(&mut self, asked: &AtomicBool) -> Result<(), Failure> {
        if self.looked.is_some_and(|looked| looked.elapsed() < SOONEST) {
            return Ok(());
        }
        // At the end of a simulation it stays as it was.
        self.last = self.source.sample(asked).map_err(watching)?.or_else(|| self.last.take());
        // As long as nobody reads it any more it is written over.
        let mut text = Arc::try_unwrap(std::mem::take(&mut self.text)).unwrap_or_default();
        text.clear();
        if let Some(snapshot) = &self.last {
            self.exposition.write(snapshot, &mut text);
        }
        self.text = text.into();
        self.looked = Some(Instant::now());
        Ok(())
    }
}

/// Serves one connection after the other.
fn accept(listener: &Mutex<TcpListener>, wants: &Sender<Wanted>) {
    loop {
        let accepted = listener.lock().unwrap_or_else(PoisonError::into_inner).accept();
        match accepted {
            // Whoever asked sees what went wrong.
            Ok((stream, _)) => drop(answer(stream, wants)),
            // Too many open files, perhaps: not for ever.
            Err(_) => thread::sleep(ATTENTION),
        }
    }
}

fn answer(mut stream: TcpStream, wants: &Sender<Wanted>) -> io::Result<()> {
    let end = Instant::now() + LONGEST;
    let request = match read_request(&mut stream, end)? {
        Request::Metrics { body } => {
            let (send, receive) = sync_channel(1);
            wants.send(send).map_err(io::Error::other)?;
            match receive.recv_timeout(left(end)?) {
                Ok(text) => return respond(&mut stream, end, "200 OK", OPENMETRICS, &text, body),
                Err(_) => ("503 Service Unavailable", "the host does not answer\n"),
            }
        }
        Request::Other => ("404 Not Found", "steelyard export: see /metrics\n"),
        Request::OtherHost => (
            "403 Forbidden",
            "steelyard export: it listens on loopback and answers who asks for localhost only\n",
        ),
        Request::OtherMethod => ("405 Method Not Allowed", "only GET\n"),
        Request::Unreadable => ("400 Bad Request", "this is no request\n"),
    };
    let (status, words) = request;
    respond(&mut stream, end, status, WORDS, words, true)
}

enum Request {
    /// With the metrics themselves, or only what is said of them.
    Metrics {
        body: bool,
    },
    Other,
    OtherMethod,
    /// For another host than this one. A browser asks so for a page of that host, whoever let its name
    /// point here.
    OtherHost,
    Unreadable,
}

fn read_request(stream: &mut TcpStream, end: Instant) -> io::Result<Request> {
    let mut buffer = vec![];
    loop {
        stream.set_read_timeout(Some(left(end)?))?;
        let mut more = [0; 1024];
        let read = stream.read(&mut more)?;
        buffer.extend_from_slice(&more[..read]);
        let mut fields = [httparse::EMPTY_HEADER; FIELDS];
        let mut request = httparse::Request::new(&mut fields);
        match request.parse(&buffer) {
            Ok(httparse::Status::Complete(_)) => {
                if stream.local_addr()?.ip().is_loopback() && !is_for_loopback(&request) {
                    return Ok(Request::OtherHost);
                }
                let path = request.path.unwrap_or_default().split('?').next();
                return Ok(match (request.method.unwrap_or_default(), path) {
                    ("GET", Some("/metrics")) => Request::Metrics { body: true },
                    ("HEAD", Some("/metrics")) => Request::Metrics { body: false },
                    ("GET" | "HEAD", _) => Request::Other,
                    _ => Request::OtherMethod,
                });
            }
            Ok(httparse::Status::Partial) if read > 0 && buffer.len() < LONGEST_REQUEST => {}
            _ => return Ok(Request::Unreadable),
        }
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

fn respond(
    stream: &mut TcpStream,
    end: Instant,
    status: &str,
    kind: &str,
    text: &str,
    body: bool,
) -> io::Result<()> {
    let length = text.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n"
    );
    for mut part in [head.as_bytes(), if body { text.as_bytes() } else { b"" }] {
        while !part.is_empty() {
            stream.set_write_timeout(Some(left(end)?))?;
            let written = stream.write(part)?;
            part = &part[written..];
        }
    }
    Ok(())
}

/// An error at the end, as 0 would mean for ever.
fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
