// SPDX-License-Identifier: GPL-2.0-only
//! A recording as a trace for Perfetto: runs and waits as slices, intervals as counters.

use std::collections::HashMap;
use std::io::{self, Write};

use serde_json::json;
use steelyard_recording::{Open, Snapshot, TraceEvents};
use steelyard_simulator::measure::Segment;

use crate::interval::Interval;

/// The number of the pCPUs' process; 0 is the kernel's own for Perfetto.
const PCPUS: u64 = 1;

/// A trace that is being written.
pub struct PerfettoTrace<W: Write> {
    events: TraceEvents<W>,
    last: Option<Snapshot>,
    open: Open,
    /// Who has a name: pCPUs so many, and of domains, by id, vCPUs so many.
    pcpus: u32,
    domains: HashMap<u64, usize>,
}

impl<W: Write> PerfettoTrace<W> {
    /// Begins a trace.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn new(writer: W) -> io::Result<PerfettoTrace<W>> {
        let mut events = TraceEvents::new(writer)?;
        events.name_process(PCPUS, "pCPUs")?;
        let domains = HashMap::new();
        Ok(PerfettoTrace { events, last: None, open: Open::default(), pcpus: 0, domains })
    }

    /// Adds what happened up to a snapshot, since the one before.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn add(&mut self, snapshot: Snapshot) -> io::Result<()> {
        self.open.add(&snapshot);
        self.name(&snapshot)?;
        for run in &snapshot.others {
            self.events.other_ran(PCPUS, run)?;
        }
        for segment in &snapshot.segments {
            self.segment(&snapshot, segment)?;
        }
        if let Some(last) = &self.last {
            let interval = Interval::between(last, &snapshot);
            let begin_ns = interval.time_ns.saturating_sub(interval.length_ns);
            for (pcpu, busy) in interval.pcpus_busy_percent.iter().enumerate() {
                let name = format!("pCPU {pcpu}");
                self.events.counter(PCPUS, &name, begin_ns, &json!({"busy %": busy}))?;
            }
            for domain in &interval.domains {
                for vcpu in &domain.vcpus {
                    let mut values = json!({"running %": vcpu.rates.gotten_percent});
                    if let Some(waited) = vcpu.rates.waited_percent {
                        values["waiting %"] = waited.into();
                    }
                    self.events.counter(process(domain.id), &vcpu.name, begin_ns, &values)?;
                }
            }
        }
        self.last = Some(snapshot);
        Ok(())
    }

    /// Ends the trace.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn finish(mut self) -> io::Result<W> {
        if let Some(last) = self.last.take() {
            for segment in self.open.segments() {
                self.segment(&last, &segment)?;
            }
        }
        self.events.finish()
    }

    fn name(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        for pcpu in self.pcpus..snapshot.structure.host.pcpus {
            self.events.name_thread(PCPUS, pcpu, &format!("pCPU {pcpu}"))?;
        }
        self.pcpus = self.pcpus.max(snapshot.structure.host.pcpus);
        for domain in &snapshot.structure.domains {
            let pid = process(domain.id);
            let named = match self.domains.get(&domain.id) {
                Some(&named) => named,
                None => {
                    self.events.name_process(pid, &domain.name)?;
                    0
                }
            };
            for (index, vcpu) in (0..).zip(&domain.vcpus).skip(named) {
                self.events.name_thread(pid, index, &vcpu.name)?;
            }
            self.domains.insert(domain.id, named.max(domain.vcpus.len()));
        }
        Ok(())
    }

    fn segment(&mut self, snapshot: &Snapshot, segment: &Segment) -> io::Result<()> {
        let domains = &snapshot.structure.domains;
        let Some(domain) = domains.get(segment.domain as usize) else { return Ok(()) };
        // Those of no length cannot be seen.
        if segment.start_ns >= segment.end_ns {
            return Ok(());
        }
        if let Some(pcpu) = segment.pcpu {
            let name = format!("{}/{}", domain.name, segment.vcpu);
            self.events.ran(PCPUS, pcpu, &name, segment)?;
        }
        self.events.segment(process(domain.id), segment)
    }
}

/// The number of a domain's process.
fn process(domain: u64) -> u64 {
    domain.saturating_add(PCPUS + 1)
}
