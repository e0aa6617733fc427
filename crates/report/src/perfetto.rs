// SPDX-License-Identifier: GPL-2.0-only
//! `trace.json.gz`: who ran where, for Perfetto. Each policy has its own processes.

use std::collections::BTreeMap;
use std::io::{self, Write};

use steelyard_recording::TraceEvents;
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
    let mut events = TraceEvents::new(writer)?;
    // Zero is the kernel's own process for Perfetto.
    let mut process = 0_u64;
    for trace in traces {
        let Some(comparison) = results.comparisons.get(trace.comparison) else { continue };
        let Some(run) = comparison.runs_of(&trace.policy).find(|run| run.seed == trace.seed) else {
            continue;
        };
        let domain_name = |index: u32| {
            run.domains.get(index as usize).map_or_else(|| index.to_string(), |d| d.name.clone())
        };
        let prefix = format!("{} | {} | ", comparison.scenario, trace.policy);
        let mut name_process = |events: &mut TraceEvents<_>, name: &str| {
            process += 1;
            events.name_process(process, &format!("{prefix}{name}"))?;
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

        let pid = name_process(&mut events, "pCPUs")?;
        for (pcpu, segments) in by_pcpu {
            events.name_thread(pid, pcpu, &format!("pCPU {pcpu}"))?;
            for segment in in_order(segments) {
                let name = format!("{}/{}", domain_name(segment.domain), segment.vcpu);
                events.ran(pid, pcpu, &name, segment)?;
            }
        }
        for (index, vcpus) in by_vcpu {
            let domain = domain_name(index);
            let pid = name_process(&mut events, &domain)?;
            if let Some(measured) = run.domains.get(index as usize) {
                let start_ns = trace.trace.start_ns;
                events.entitle(pid, start_ns, measured.weight, measured.cap_percent)?;
            }
            for (vcpu, segments) in vcpus {
                events.name_thread(pid, vcpu, &format!("{domain}/{vcpu}"))?;
                for segment in in_order(segments) {
                    events.segment(pid, segment)?;
                }
            }
        }
    }
    events.finish()?.flush()
}

fn in_order(mut segments: Vec<&Segment>) -> Vec<&Segment> {
    segments.sort_by_key(|segment| (segment.start_ns, segment.end_ns));
    segments
}
