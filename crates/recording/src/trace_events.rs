// SPDX-License-Identifier: GPL-2.0-only
//! The Trace Event Format of Chromium, compressed, which Perfetto (ui.perfetto.dev) opens: written
//! here for whoever has runs and waits to show, an event a line, and read back from such lines.
//!
//! A process is all pCPUs, where a slice is a vCPU that ran; the others are domains with a thread per
//! vCPU, where a slice is "running" or "waiting". Times are microseconds, as the format wants, with
//! nanoseconds behind the point.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::sync::Arc;
use std::{error, fmt};

use flate2::write::GzEncoder;
use flate2::{Compression, GzBuilder};
use serde::Deserialize;
use serde_json::{Value, json};
use steelyard_boundary::input::{LINE_BYTES, OverBudget, read_line, within_memory, within_number};
use steelyard_simulator::measure::Segment;
use steelyard_simulator::units::MAX_PCPU;

use crate::history::History;
use crate::snapshot::{Domain, Host, OtherRun, Structure, Vcpu};

const RUNNING: &str = "running";
const WAITING: &str = "waiting";
const OTHER: &str = "other";
/// Counters.
const WEIGHT: &str = "weight";
const CAP: &str = "cap %";

/// A trace that is being written.
pub struct TraceEvents<W: Write> {
    writer: GzEncoder<W>,
    separator: &'static [u8],
}

impl<W: Write> TraceEvents<W> {
    /// Begins a trace.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn new(writer: W) -> io::Result<TraceEvents<W>> {
        // No time of writing, no name: the same traces give the same bytes.
        let mut writer = GzBuilder::new().mtime(0).write(writer, Compression::default());
        writer.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")?;
        Ok(TraceEvents { writer, separator: b"" })
    }

    /// Ends the trace.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn finish(mut self) -> io::Result<W> {
        self.writer.write_all(b"\n]}\n")?;
        self.writer.finish()
    }

    /// A process has a name and a place among the others. 0 is the kernel's own.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn name_process(&mut self, pid: u64, name: &str) -> io::Result<()> {
        self.event(&json!({"ph": "M", "name": "process_name", "pid": pid, "tid": 0,
                           "args": {"name": name}}))?;
        self.event(&json!({"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0,
                           "args": {"sort_index": pid}}))
    }

    /// A pCPU or vCPU has a name.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn name_thread(&mut self, pid: u64, index: u32, name: &str) -> io::Result<()> {
        let tid = thread(index);
        self.event(&json!({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid,
                           "args": {"name": name}}))?;
        self.event(&json!({"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid,
                           "args": {"sort_index": tid}}))
    }

    /// A pCPU ran somebody of this name.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn ran(&mut self, pid: u64, pcpu: u32, name: &str, segment: &Segment) -> io::Result<()> {
        self.event(&slice(pid, pcpu, name, RUNNING, Some(pcpu), segment.start_ns, segment.end_ns))
    }

    /// A pCPU ran somebody who is no vCPU.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn other_ran(&mut self, pid: u64, run: &OtherRun) -> io::Result<()> {
        let OtherRun { name, pcpu, start_ns, end_ns, .. } = run;
        self.event(&slice(pid, *pcpu, name, OTHER, Some(*pcpu), *start_ns, *end_ns))
    }

    /// A vCPU ran or waited.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn segment(&mut self, pid: u64, segment: &Segment) -> io::Result<()> {
        let state = if segment.pcpu.is_some() { RUNNING } else { WAITING };
        let Segment { vcpu, pcpu, start_ns, end_ns, .. } = *segment;
        self.event(&slice(pid, vcpu, state, state, pcpu, start_ns, end_ns))
    }

    /// Values from this time on.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn counter(
        &mut self,
        pid: u64,
        name: &str,
        time_ns: u64,
        values: &Value,
    ) -> io::Result<()> {
        let time_us = time_ns as f64 / 1e3;
        self.event(&json!({"ph": "C", "pid": pid, "name": name, "ts": time_us, "args": values}))
    }

    /// A domain has this weight and cap from this time on.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn entitle(
        &mut self,
        pid: u64,
        time_ns: u64,
        weight: u32,
        cap_percent: u32,
    ) -> io::Result<()> {
        self.counter(pid, WEIGHT, time_ns, &json!({ WEIGHT: weight }))?;
        self.counter(pid, CAP, time_ns, &json!({ CAP: cap_percent }))
    }

    fn event(&mut self, event: &Value) -> io::Result<()> {
        self.writer.write_all(std::mem::replace(&mut self.separator, b",\n"))?;
        serde_json::to_writer(&mut self.writer, event).map_err(io::Error::from)
    }
}

/// Threads count from 1: 0 is the idle thread for Perfetto.
fn thread(index: u32) -> u64 {
    u64::from(index) + 1
}

fn slice(
    pid: u64,
    index: u32,
    name: &str,
    category: &str,
    pcpu: Option<u32>,
    start_ns: u64,
    end_ns: u64,
) -> Value {
    let mut event = json!({
        "ph": "X", "name": name, "cat": category, "pid": pid, "tid": thread(index),
        "ts": start_ns as f64 / 1e3,
        "dur": end_ns.saturating_sub(start_ns) as f64 / 1e3,
    });
    if let Some(pcpu) = pcpu {
        event["args"] = json!({"pCPU": pcpu});
    }
    event
}

/// Why lines cannot be read as such a trace.
#[derive(Debug)]
pub enum TraceEventsError {
    /// They could not be read.
    Io(io::Error),
    /// This line is no event.
    Line(usize),
    /// There is nothing in them that this project writes.
    Empty,
}

impl fmt::Display for TraceEventsError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceEventsError::Io(error) => write!(formatter, "cannot be read: {error}"),
            TraceEventsError::Line(line) => {
                write!(formatter, "line {line} is no event of a trace that Steelyard wrote")
            }
            TraceEventsError::Empty => {
                formatter.write_str("there are no runs of vCPUs in it as Steelyard writes them")
            }
        }
    }
}

impl error::Error for TraceEventsError {}

#[derive(Deserialize)]
struct Event {
    ph: String,
    name: String,
    #[serde(default)]
    cat: String,
    pid: u64,
    #[serde(default)]
    tid: u64,
    #[serde(default)]
    ts: f64,
    #[serde(default)]
    dur: f64,
    #[serde(default)]
    args: Value,
}

#[derive(Default)]
struct Process {
    name: String,
    /// The last that is told.
    weight: Option<u32>,
    cap_percent: u32,
    threads: BTreeMap<u32, String>,
    segments: Vec<Segment>,
    others: Vec<OtherRun>,
}

/// Reads the lines of a trace that Steelyard wrote, unpacked. If it shows several policies the first is
/// read.
///
/// # Errors
/// [`TraceEventsError`]
pub fn read_trace_events(mut lines: impl BufRead) -> Result<History, TraceEventsError> {
    let mut read = Lines::default();
    let mut line = vec![];
    for number in 1.. {
        let length = read_line(&mut lines, LINE_BYTES, &mut line);
        if length.map_err(TraceEventsError::Io)? == 0 {
            break;
        }
        let text = line.trim_ascii();
        let text = text.strip_suffix(b",").unwrap_or(text);
        if number == 1 || text.is_empty() || text == b"]}" {
            continue;
        }
        let event: Event =
            serde_json::from_slice(text).map_err(|_| TraceEventsError::Line(number))?;
        read.event(event).ok_or(TraceEventsError::Line(number))?;
        read.within_budget().map_err(|over| TraceEventsError::Io(over.into()))?;
    }
    history(read.processes).ok_or(TraceEventsError::Empty)
}

/// What lines said.
#[derive(Default)]
struct Lines {
    processes: BTreeMap<u64, Process>,
    /// Of all processes.
    threads: usize,
    /// What runs, and names, take.
    bytes: usize,
}

impl Lines {
    fn within_budget(&self) -> Result<(), OverBudget> {
        within_number(self.processes.len())?;
        within_number(self.threads)?;
        within_memory(self.bytes)
    }

    /// None if it is not as it should be.
    fn event(&mut self, event: Event) -> Option<()> {
        let Event { ph, name, cat, pid, tid, ts, dur, args } = event;
        let process = self.processes.entry(pid).or_default();
        let index = u32::try_from(tid.saturating_sub(1)).ok()?;
        let named = || args.get("name").and_then(Value::as_str).map(str::to_owned);
        match (ph.as_str(), name.as_str()) {
            ("M", "process_name") => {
                process.name = named()?;
                self.bytes += process.name.len();
            }
            ("M", "thread_name") => {
                let name = named()?;
                self.bytes += name.len();
                self.threads += usize::from(process.threads.insert(index, name).is_none());
            }
            ("C", WEIGHT | CAP) => {
                let value = |name| args.get(name).and_then(Value::as_u64).map(u32::try_from);
                if let Some(weight) = value(WEIGHT) {
                    process.weight = Some(weight.ok()?);
                }
                if let Some(cap_percent) = value(CAP) {
                    process.cap_percent = cap_percent.ok()?;
                }
            }
            ("X", _) => {
                let ns =
                    |us: f64| (us.is_finite() && us >= 0.0).then_some((us * 1e3).round() as u64);
                let start_ns = ns(ts)?;
                let end_ns = start_ns.checked_add(ns(dur)?)?;
                let pcpu = match args.get("pCPU") {
                    None => None,
                    Some(pcpu) => {
                        let pcpu = u32::try_from(pcpu.as_u64()?).ok();
                        Some(pcpu.filter(|&pcpu| pcpu <= MAX_PCPU)?)
                    }
                };
                if cat == OTHER {
                    self.bytes += size_of::<OtherRun>() + name.len();
                    let name = name.as_str().into();
                    let (thread, priority, waited, pcpu) = (0, None, false, pcpu?);
                    process.others.push(OtherRun {
                        name,
                        thread,
                        priority,
                        waited,
                        pcpu,
                        start_ns,
                        end_ns,
                    });
                } else if name == cat {
                    // In the process of all pCPUs a slice is called after the vCPU that ran.
                    let domain = 0;
                    self.bytes += size_of::<Segment>();
                    process.threads.entry(index).or_insert_with(|| {
                        self.threads += 1;
                        format!("vCPU {index}")
                    });
                    process.segments.push(Segment { domain, vcpu: index, pcpu, start_ns, end_ns });
                }
            }
            _ => {}
        }
        Some(())
    }
}

fn history(processes: BTreeMap<u64, Process>) -> Option<History> {
    // Of a comparison, a process is called SCENARIO | POLICY | DOMAIN.
    let prefix = |name: &str| name.rfind(" | ").map_or(String::new(), |end| name[..end].to_owned());
    let mut kept = None;
    let mut domains = vec![];
    let (mut segments, mut others) = (vec![], vec![]);
    for (pid, process) in processes {
        let own = prefix(&process.name);
        if *kept.get_or_insert_with(|| own.clone()) != own {
            continue;
        }
        others.extend(process.others);
        if process.segments.is_empty() {
            continue;
        }
        let domain = domains.len() as u32;
        let place: BTreeMap<u32, u32> = process.threads.keys().copied().zip(0..).collect();
        let placed = |segment: Segment| {
            let &vcpu = place.get(&segment.vcpu)?;
            Some(Segment { domain, vcpu, ..segment })
        };
        segments.extend(process.segments.into_iter().filter_map(placed));
        let vcpus = process.threads.into_iter().map(|(id, name)| Vcpu { id: id.into(), name });
        domains.push(Domain {
            id: pid,
            name: process.name.rsplit(" | ").next().unwrap_or_default().to_owned(),
            weight: process.weight.unwrap_or(256),
            ungrouped: false,
            groups_around: None,
            cap_percent: process.cap_percent,
            vcpus: vcpus.collect(),
        });
    }
    let start_ns = segments.iter().map(|segment| segment.start_ns).min()?;
    for segment in &mut segments {
        segment.start_ns -= start_ns;
        segment.end_ns -= start_ns;
    }
    others.retain(|run| run.start_ns >= start_ns);
    for run in &mut others {
        run.start_ns -= start_ns;
        run.end_ns -= start_ns;
    }
    segments.sort_by_key(|segment| (segment.end_ns, segment.start_ns));
    others.sort_by_key(|run| run.end_ns);
    let runs = segments.iter().filter_map(|segment| segment.pcpu);
    let pcpus = runs.chain(others.iter().map(|run| run.pcpu)).max()? + 1;
    let host = Host {
        name: kept.unwrap_or_default(),
        source: "a trace".to_owned(),
        pcpus,
        began_unix_ns: None,
        unseen: vec![],
    };
    let length_ns = segments.last()?.end_ns;
    let structure = Arc::new(Structure { host, domains });
    let (open, wakes, placements, known) = (vec![], vec![], vec![], vec![]);
    Some(History { structure, segments, open, others, wakes, placements, known, length_ns })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::BufReader;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn a_domain_keeps_its_last_weight_and_cap() {
        let mut events = TraceEvents::new(vec![]).unwrap();
        for (pid, name) in [(2, "web"), (3, "batch")] {
            events.name_process(pid, name).unwrap();
            events.name_thread(pid, 0, "weight").unwrap();
            let (start_ns, end_ns) = (1000, 2000);
            let run = Segment { domain: 0, vcpu: 0, pcpu: Some(0), start_ns, end_ns };
            events.segment(pid, &run).unwrap();
        }
        events.entitle(2, 0, 256, 0).unwrap();
        events.entitle(2, 500, 65_535, 250).unwrap();
        // A vCPU may be called as it likes.
        events.counter(3, WEIGHT, 0, &json!({"running %": 50.5})).unwrap();
        let packed = events.finish().unwrap();
        let history = read_trace_events(BufReader::new(GzDecoder::new(&packed[..]))).unwrap();
        let told = history.structure.domains.iter();
        let told: Vec<_> = told.map(|it| (it.name.as_str(), it.weight, it.cap_percent)).collect();
        assert_eq!(told, [("web", 65_535, 250), ("batch", 256, 0)]);
    }
}
