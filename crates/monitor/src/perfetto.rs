// SPDX-License-Identifier: GPL-2.0-only
//! Intervals as counters in the Trace Event Format of Chromium, which Perfetto (ui.perfetto.dev) opens:
//! a process per domain, in it a counter per vCPU; a process of the pCPUs.

use std::collections::HashSet;
use std::io::{self, Write};

use flate2::write::GzEncoder;
use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};

use crate::interval::Interval;

/// The number of the pCPUs' process; 0 is the kernel's own for Perfetto.
const PCPUS: u64 = 1;

/// A trace that is being written.
pub struct PerfettoTrace<W: Write> {
    writer: GzEncoder<W>,
    separator: &'static [u8],
    named: HashSet<u64>,
}

impl<W: Write> PerfettoTrace<W> {
    /// Begins a trace.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn new(writer: W) -> io::Result<PerfettoTrace<W>> {
        // No time of writing: the same intervals give the same bytes.
        let mut writer = GzBuilder::new().mtime(0).write(writer, Compression::default());
        writer.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")?;
        Ok(PerfettoTrace { writer, separator: b"", named: HashSet::new() })
    }

    /// Adds what happened in an interval.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn add(&mut self, interval: &Interval) -> io::Result<()> {
        let begin_us = interval.time_ns.saturating_sub(interval.length_ns) as f64 / 1e3;
        let counter = |process: u64, name: &str, time_us: f64, values: Value| json!({"ph": "C", "pid": process, "name": name, "ts": time_us, "args": values});
        self.name(PCPUS, "pCPUs")?;
        for (pcpu, busy) in interval.pcpus_busy_percent.iter().enumerate() {
            let values = json!({"busy %": busy});
            self.event(&counter(PCPUS, &format!("pCPU {pcpu}"), begin_us, values))?;
        }
        for domain in &interval.domains {
            let process = domain.id.saturating_add(PCPUS + 1);
            self.name(process, &domain.name)?;
            for vcpu in &domain.vcpus {
                let values = json!({
                    "running %": vcpu.rates.gotten_percent, "waiting %": vcpu.rates.waited_percent,
                });
                self.event(&counter(process, &vcpu.name, begin_us, values))?;
            }
        }
        Ok(())
    }

    /// Ends the trace.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn finish(mut self) -> io::Result<W> {
        self.writer.write_all(b"\n]}\n")?;
        self.writer.finish()
    }

    fn name(&mut self, process: u64, name: &str) -> io::Result<()> {
        if !self.named.insert(process) {
            return Ok(());
        }
        self.event(&json!({"ph": "M", "name": "process_name", "pid": process,
                           "args": {"name": name}}))
    }

    fn event(&mut self, event: &Value) -> io::Result<()> {
        self.writer.write_all(std::mem::replace(&mut self.separator, b",\n"))?;
        serde_json::to_writer(&mut self.writer, event).map_err(io::Error::from)
    }
}
