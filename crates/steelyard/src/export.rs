// SPDX-License-Identifier: GPL-2.0-only
//! `steelyard export`: a small web server that Prometheus asks. It looks at the host when it is asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use steelyard_monitor::{Exposition, Server, Source, alerting_rules};
use steelyard_recording::Snapshot;
use steelyard_scenario::Diagnostic;

use crate::arguments::Export;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::monitor::{ATTENTION, open, settings, watching};
use crate::terminal;

/// Who asks sooner gets the same again: asking costs this host no more than so many looks.
const SOONEST: Duration = Duration::from_millis(50);

pub fn run(arguments: &Export, interrupt: &Interrupt) -> Result<(), Failure> {
    let Export { watched, listen, rules } = arguments;
    if *rules {
        let Some(rules) = alerting_rules(&settings()?.alert) else {
            let message = "there are no thresholds to make rules of";
            let help = "write some into top.toml, such as `[alert]` and below `waited_percent = 50.0` and `wait_p99_ms = 20.0`";
            return Err(Diagnostic::of_file("steelyard/top.toml", message).with_help(help).into());
        };
        return terminal::print_file(&rules);
    }
    let (mut source, _) = open(watched, None)?;
    source.set_states(false);
    source.set_segments(false);
    let failed = |error| Failure::System { what: "listen", error: format!("on {listen}: {error}") };
    let mut server = Server::listen(*listen).map_err(failed)?;
    let address = server.address().map_err(failed)?;
    terminal::note(&format!("metrics on http://{address}/metrics; Ctrl-C ends it"));
    let mut watch = Watch::new(source);
    // A signal is how it is ended.
    interrupt.until_asked(|asked| {
        while !asked.load(Ordering::Relaxed) {
            server.turn(ATTENTION, || watch.look(asked))?;
            watch.attend();
        }
        Ok(())
    })
}

/// What is watched, as it was seen last.
struct Watch {
    source: Source,
    last: Option<Snapshot>,
    exposition: Exposition,
    text: Arc<String>,
    looked: Option<Instant>,
    attended: Instant,
}

impl Watch {
    fn new(source: Source) -> Watch {
        let (exposition, text) = Default::default();
        Watch { source, last: None, exposition, text, looked: None, attended: Instant::now() }
    }

    /// What the source wants between looks.
    fn attend(&mut self) {
        if self.attended.elapsed() >= ATTENTION {
            self.source.attend();
            self.attended = Instant::now();
        }
    }

    fn look(&mut self, asked: &AtomicBool) -> Result<Arc<String>, Failure> {
        if self.looked.is_some_and(|looked| looked.elapsed() < SOONEST) {
            return Ok(self.text.clone());
        }
        // At the end of a simulation it stays as it was.
        self.last = self.source.sample(asked).map_err(watching)?.or_else(|| self.last.take());
        // As soon as nobody reads it any more it is written over.
        let mut text = Arc::try_unwrap(std::mem::take(&mut self.text)).unwrap_or_default();
        text.clear();
        if let Some(snapshot) = &self.last {
            let processes = self.source.processes();
            let counters = self.source.counters();
            let left_out = self.source.left_out();
            self.exposition.write(snapshot, &processes, &counters, left_out, &mut text);
        }
        self.text = text.into();
        self.looked = Some(Instant::now());
        Ok(self.text.clone())
    }
}
