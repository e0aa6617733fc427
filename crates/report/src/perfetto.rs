// SPDX-License-Identifier: GPL-2.0-only
//! `trace.json.gz`: who ran where, in the Trace Event Format of Chromium, which Perfetto
//! (ui.perfetto.dev) and chrome://tracing open.
//!
//! Each policy has its own processes: one of all pCPUs, where a slice is a vCPU that ran, and one
//! per domain with its vCPUs, where a slice is "running" or "waiting". Times are microseconds, as
//! the format wants, with nanoseconds behind the point.

use std::collections::BTreeMap;
use std::io::{self, Write};

use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};
use steelyard_simulator::measure::Segment;

use crate::results::{Results, RunTrace};

/// Writes `trace.json.gz`.
///
/// # Errors
/// Those of `writer`.
pub fn write_perfetto(
    results: &Results,
    traces: &[RunTrace],
    writer: impl Write,
) -> io::Result<()> {
    // No time of writing, no name: the same traces give the same bytes.
    let mut writer = GzBuilder::new().mtime(0).write(writer, Compression::default());
    writer.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")?;
    let mut first = true;
    let mut emit = |event: Value| -> io::Result<()> {
        if !std::mem::take(&mut first) {
            writer.write_all(b",\n")?;
        }
        serde_json::to_writer(&mut writer, &event).map_err(io::Error::from)
    };
    // Zero is the kernel's own process for Perfetto.
    let mut process = 0_u32;
    for trace in traces {
        let Some(comparison) = results.comparisons.get(trace.comparison) else { continue };
        let Some(run) = comparison.runs_of(&trace.policy).find(|run| run.seed == trace.seed) else {
            continue;
        };
        let domain_name = |index: u32| {
            run.domains.get(index as usize).map_or_else(|| index.to_string(), |d| d.name.clone())
        };
        let prefix = format!("{} | {} | ", comparison.scenario, trace.policy);
        let mut name_process = |emit: &mut dyn FnMut(Value) -> io::Result<()>, name: &str| {
            process += 1;
            emit(json!({"ph": "M", "name": "process_name", "pid": process, "tid": 0,
                        "args": {"name": format!("{prefix}{name}")}}))?;
            emit(json!({"ph": "M", "name": "process_sort_index", "pid": process, "tid": 0,
                        "args": {"sort_index": process}}))?;
            io::Result::Ok(process)
        };

        let mut by_pcpu = BTreeMap::<u32, Vec<&Segment>>::new();
        let mut by_vcpu = BTreeMap::<u32, BTreeMap<u32, Vec<&Segment>>>::new();
        for segment in &trace.trace.segments {
            if let Some(pcpu) = segment.pcpu {
                by_pcpu.entry(pcpu).or_default().push(segment);
            }
            by_vcpu
                .entry(segment.domain)
                .or_default()
                .entry(segment.vcpu)
                .or_default()
                .push(segment);
        }

        let pid = name_process(&mut emit, "pCPUs")?;
        for (pcpu, segments) in by_pcpu {
            name_thread(&mut emit, pid, pcpu, &format!("pCPU {pcpu}"))?;
            for segment in in_order(segments) {
                let name = format!("{}/{}", domain_name(segment.domain), segment.vcpu);
                emit(slice(pid, pcpu, &name, "running", segment))?;
            }
        }
        for (domain, vcpus) in by_vcpu {
            let domain = domain_name(domain);
            let pid = name_process(&mut emit, &domain)?;
            for (vcpu, segments) in vcpus {
                name_thread(&mut emit, pid, vcpu, &format!("{domain}/{vcpu}"))?;
                for segment in in_order(segments) {
                    let state = if segment.pcpu.is_some() { "running" } else { "waiting" };
                    emit(slice(pid, vcpu, state, state, segment))?;
                }
            }
        }
    }
    writer.write_all(b"\n]}\n")?;
    writer.finish()?.flush()
}

fn in_order(mut segments: Vec<&Segment>) -> Vec<&Segment> {
    segments.sort_by_key(|segment| (segment.start_ns, segment.end_ns));
    segments
}

/// Thread ids count from 1: 0 is the idle thread for Perfetto.
fn name_thread(
    emit: &mut impl FnMut(Value) -> io::Result<()>,
    pid: u32,
    index: u32,
    name: &str,
) -> io::Result<()> {
    let tid = index + 1;
    emit(
        json!({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}),
    )?;
    emit(json!({"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid,
                "args": {"sort_index": tid}}))
}

fn slice(pid: u32, index: u32, name: &str, category: &str, segment: &Segment) -> Value {
    let mut event = json!({
        "ph": "X", "name": name, "cat": category, "pid": pid, "tid": index + 1,
        "ts": segment.start_ns as f64 / 1e3,
        "dur": segment.end_ns.saturating_sub(segment.start_ns) as f64 / 1e3,
    });
    if let Some(pcpu) = segment.pcpu {
        event["args"] = json!({"pCPU": pcpu});
    }
    event
}
