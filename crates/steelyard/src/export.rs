// SPDX-License-Identifier: GPL-2.0-only
//! `steelyard export`: a small web server that Prometheus asks.

use std::sync::atomic::{AtomicBool, Ordering};

use steelyard_monitor::{OPENMETRICS, Source, to_openmetrics};
use steelyard_recording::Snapshot;
use tiny_http::{Header, Method, Request, Response, Server};

use crate::arguments::Export;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::monitor::{ATTENTION, open, watching};
use crate::terminal;

pub fn run(arguments: &Export, interrupt: &Interrupt) -> Result<(), Failure> {
    let Export { watched, listen } = arguments;
    let mut source = open(watched, None)?;
    source.set_states(false);
    source.set_segments(false);
    let server = Server::http(listen).map_err(|error| Failure::System {
        what: "listen",
        error: format!("on {listen}: {error}"),
    })?;
    terminal::note(&format!("metrics on http://{}/metrics; Ctrl-C ends it", server.server_addr()));
    let mut watch = Watch { source, last: None };
    // A signal is how it is ended.
    interrupt.until_asked(|asked| serve(&server, asked, &mut watch))
}

/// What is watched, as it was seen last.
struct Watch {
    source: Source,
    last: Option<Snapshot>,
}

impl Watch {
    fn look(&mut self) -> Result<String, Failure> {
        // At the end of a simulation it stays as it was.
        self.last = self.source.sample().map_err(watching)?.or_else(|| self.last.take());
        Ok(self.last.as_ref().map_or_else(String::new, to_openmetrics))
    }
}

fn serve(server: &Server, asked: &AtomicBool, watch: &mut Watch) -> Result<(), Failure> {
    while !asked.load(Ordering::Relaxed) {
        let request = server
            .recv_timeout(ATTENTION)
            .map_err(|error| Failure::System { what: "listen", error: error.to_string() })?;
        watch.source.attend();
        if let Some(request) = request {
            // Whether whoever asked is still there is no concern of this host.
            let _ = answer(request, watch)?;
        }
    }
    Ok(())
}

fn answer(request: Request, watch: &mut Watch) -> Result<std::io::Result<()>, Failure> {
    let words = |status, text: &str| Response::from_string(text).with_status_code(status);
    let response = match (request.method(), request.url()) {
        (Method::Get | Method::Head, "/metrics") => {
            let response = words(200, &watch.look()?);
            match Header::from_bytes("Content-Type", OPENMETRICS) {
                Ok(header) => response.with_header(header),
                Err(()) => response,
            }
        }
        (Method::Get | Method::Head, _) => words(404, "steelyard export: see /metrics\n"),
        _ => words(405, "only GET\n"),
    };
    Ok(request.respond(response))
}
