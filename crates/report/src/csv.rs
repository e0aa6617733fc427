// SPDX-License-Identifier: GPL-2.0-only
//! `results.csv`: every figure in a row of its own, for spreadsheets and data frames.

use std::io::{self, Write};

use steelyard_simulator::measure::TimeMeasure;

use crate::results::Results;

const HEADER: [&str; 9] =
    ["input", "policy", "seed", "domain", "vcpu", "task", "measure", "unit", "value"];

/// Writes `results.csv`. Rows about the whole host have no domain and no vCPU; rows about a whole
/// domain have `all` as vCPU.
///
/// # Errors
/// Those of `writer`.
pub fn write_csv(results: &Results, writer: impl Write) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(writer);
    writer.write_record(HEADER)?;
    for comparison in &results.comparisons {
        for run in &comparison.runs {
            let seed = run.seed.to_string();
            let mut row =
                |domain: &str, vcpu: &str, task: &str, name: &str, unit: &str, value: &str| {
                    writer.write_record([
                        &comparison.scenario,
                        &run.policy,
                        &seed,
                        domain,
                        vcpu,
                        task,
                        name,
                        unit,
                        value,
                    ])
                };
            row("", "", "", "elapsed", "ns", &run.elapsed_ns.to_string())?;
            row("", "", "", "fairness", "", &run.fairness.to_string())?;
            let idle_ns: u64 = run.pcpus.iter().map(|pcpu| pcpu.idle_ns).sum();
            row("", "", "", "idle", "ns", &idle_ns.to_string())?;
            let events = &run.scheduling_events;
            for (name, count) in [
                ("wakes", events.wakes),
                ("blocks", events.blocks),
                ("switches", events.switches),
                ("ticks", events.ticks),
                ("accountings", events.accountings),
                ("slice ends", events.slice_ends),
                ("policy timers", events.policy_timers),
                ("guest steps", run.guest_steps),
            ] {
                row("", "", "", name, "1", &count.to_string())?;
            }
            for domain in &run.domains {
                let name = &domain.name;
                for (measure, unit, value) in [
                    ("weight", "1", domain.weight.to_string()),
                    ("cap", "percent", domain.cap_percent.to_string()),
                    ("share", "percent", domain.share_percent.to_string()),
                    ("entitlement", "percent", domain.entitlement_percent.to_string()),
                ] {
                    row(name, "all", "", measure, unit, &value)?;
                }
                for (measure, unit, value) in figures(&domain.time) {
                    row(name, "all", "", measure, unit, &value.to_string())?;
                }
                for (index, vcpu) in domain.vcpus.iter().enumerate() {
                    for (measure, unit, value) in figures(&vcpu.time) {
                        row(name, &index.to_string(), "", measure, unit, &value.to_string())?;
                    }
                }
                for task in &domain.tasks {
                    for figure in &task.values {
                        let value = figure.value.map_or(String::new(), |value| value.to_string());
                        row(name, "all", &task.name, &figure.name, &figure.unit, &value)?;
                    }
                }
            }
        }
    }
    writer.flush()
}

fn figures(time: &TimeMeasure) -> [(&'static str, &'static str, u64); 17] {
    [
        ("gotten", "ns", time.gotten_ns),
        ("waited", "ns", time.waited_ns),
        ("blocked", "ns", time.blocked_ns),
        ("parked", "ns", time.parked_ns),
        ("beside idle", "ns", time.beside_idle_ns),
        ("worst beside idle", "ns", time.worst_beside_idle_ns),
        ("overhead", "ns", time.overhead_ns),
        ("spun", "ns", time.spun_ns),
        ("switches", "1", time.switches),
        ("migrations", "1", time.migrations),
        ("preemptions", "1", time.preemptions),
        ("waits", "1", time.waits.count),
        ("wait p50", "ns", time.waits.p50_ns),
        ("wait p90", "ns", time.waits.p90_ns),
        ("wait p99", "ns", time.waits.p99_ns),
        ("wait p99.9", "ns", time.waits.p999_ns),
        ("worst wait", "ns", time.waits.worst.as_ref().map_or(0, |worst| worst.length_ns)),
    ]
}
