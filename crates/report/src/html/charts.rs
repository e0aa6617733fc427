// SPDX-License-Identifier: GPL-2.0-only
//! What the charts of the report show, as `report.js` reads it.

use serde::Serialize;
use steelyard_simulator::measure::{DomainMeasure, Run, Segment, Trace, VcpuMeasure, WorstWait};

use super::MOST_GROUPS;
use crate::results::{Comparison, Results, RunTrace};
use crate::summary::{Figure, Group, Spread, groups, share_and_entitlement, task_figures};

/// Runs in a timeline; more would make the file slow to open.
const MOST_SEGMENTS: usize = 20_000;
/// Names in a worst wait; the others are summed up.
const MOST_NAMES: usize = 6;
/// Steps of the histogram per power of ten.
const STEPS: f64 = 10.0;

#[derive(Serialize)]
pub struct Charts {
    comparisons: Vec<Charted>,
}

#[derive(Serialize)]
struct Charted {
    policies: Vec<String>,
    pcpus: u32,
    length_ns: u64,
    /// Names of the domains by index, as segments use them, and the group of each.
    domains: Vec<(String, usize)>,
    groups: Vec<ChartedGroup>,
    timelines: Vec<Timeline>,
}

/// In each list one item per policy.
#[derive(Serialize)]
struct ChartedGroup {
    title: String,
    rest_of_host: bool,
    share: Vec<Option<Spread>>,
    entitlement: Vec<Option<Spread>>,
    workload: Vec<ChartedFigure>,
    /// Upper bounds in ns and percents of all waits.
    histograms: Vec<Vec<(f64, f64)>>,
    worst: Vec<Option<ChartedWait>>,
}

#[derive(Serialize)]
struct ChartedFigure {
    label: String,
    unit: String,
    more_is_better: Option<bool>,
    values: Vec<Option<Spread>>,
}

#[derive(Serialize)]
struct ChartedWait {
    name: String,
    start_ns: u64,
    length_ns: u64,
    /// Name of the vCPU, index of its domain, CPU time.
    ran: Vec<(String, usize, u64)>,
    others_ns: u64,
}

#[derive(Serialize)]
struct Timeline {
    policy: usize,
    start_ns: u64,
    end_ns: u64,
    /// Whether all that was traced is here.
    whole: bool,
    worst: Option<ChartedWait>,
    /// For each run: pCPU, domain, vCPU, beginning after `start_ns`, length. By pCPU, then time.
    segments: Vec<(u32, u32, u32, u64, u64)>,
}

impl Charts {
    pub fn new(results: &Results, traces: &[RunTrace]) -> Self {
        let comparisons = results.comparisons.iter().enumerate().map(|(index, comparison)| {
            let traces = traces.iter().filter(|trace| trace.comparison == index);
            charted(comparison, traces)
        });
        Charts { comparisons: comparisons.collect() }
    }
}

fn charted<'a>(comparison: &Comparison, traces: impl Iterator<Item = &'a RunTrace>) -> Charted {
    let mut groups = groups(comparison);
    let names: Vec<_> = comparison.domains.iter().map(|domain| domain.name.clone()).collect();
    let group_of = |name| groups.iter().position(|group| group.names.contains(name));
    let domains = names.iter().map(|name| (name.clone(), group_of(name).unwrap_or_default()));
    let domains = domains.collect();
    groups.truncate(MOST_GROUPS);
    let timelines = traces.filter_map(|trace| timeline(comparison, trace, &names));
    Charted {
        policies: comparison.policies.iter().map(|policy| policy.label.clone()).collect(),
        pcpus: comparison.host.pcpus,
        length_ns: comparison.length_ns,
        timelines: timelines.collect(),
        groups: groups.iter().map(|group| charted_group(comparison, group, &names)).collect(),
        domains,
    }
}

fn charted_group(comparison: &Comparison, group: &Group, names: &[String]) -> ChartedGroup {
    let (share, entitlement) = share_and_entitlement(comparison, group);
    let policies = || comparison.policies.iter().map(|policy| policy.label.as_str());
    ChartedGroup {
        title: group.title.clone(),
        rest_of_host: group.rest_of_host,
        share: share.spreads(),
        entitlement: entitlement.spreads(),
        workload: task_figures(comparison, group)
            .iter()
            .map(|figure: &Figure| ChartedFigure {
                label: figure.label.clone(),
                unit: figure.unit.clone(),
                more_is_better: figure.more_is_better(),
                values: figure.spreads(),
            })
            .collect(),
        histograms: policies().map(|label| histogram(comparison.runs_of(label), group)).collect(),
        worst: policies()
            .map(|label| {
                let (domain, wait) = group.worst_wait(comparison.runs_of(label))?;
                Some(charted_wait(&domain.name, wait, names))
            })
            .collect(),
    }
}

/// Steps of equal width on a logarithmic axis.
fn histogram<'a>(runs: impl Iterator<Item = &'a Run>, group: &Group) -> Vec<(f64, f64)> {
    let mut steps = std::collections::BTreeMap::<i32, u64>::new();
    for run in runs {
        for &(upper_ns, count) in group.members(run).flat_map(|d| &d.time.waits.histogram) {
            // All below a microsecond are one.
            let step = (upper_ns.max(1) as f64).log10().max(3.0) * STEPS;
            *steps.entry(step.ceil() as i32).or_default() += count;
        }
    }
    let total = steps.values().sum::<u64>().max(1) as f64;
    let (Some(&first), Some(&last)) = (steps.keys().next(), steps.keys().next_back()) else {
        return vec![];
    };
    (first..=last)
        .map(|step| {
            let count = steps.get(&step).copied().unwrap_or_default() as f64;
            (10_f64.powf(f64::from(step) / STEPS), 100.0 * count / total)
        })
        .collect()
}

fn charted_wait(domain: &str, wait: &WorstWait, names: &[String]) -> ChartedWait {
    let index = |name: &String| names.iter().position(|other| other == name).unwrap_or_default();
    let named = wait.ran.iter().take(MOST_NAMES);
    ChartedWait {
        name: format!("{domain}/{}", wait.vcpu),
        start_ns: wait.start_ns,
        length_ns: wait.length_ns,
        ran: named
            .map(|ran| (format!("{}/{}", ran.domain, ran.vcpu), index(&ran.domain), ran.ran_ns))
            .collect(),
        others_ns: wait.ran.iter().skip(MOST_NAMES).map(|ran| ran.ran_ns).sum(),
    }
}

/// The longest wait that a window shows; waits for a cap or reservation only if there is no other.
fn worst_within<'a>(
    run: &'a Run,
    start_ns: u64,
    end_ns: u64,
) -> Option<(&'a DomainMeasure, &'a WorstWait)> {
    let waits = run.domains.iter().flat_map(|domain| {
        let of = move |vcpu: &'a VcpuMeasure| {
            Some((domain, vcpu.time.parked_ns == 0, vcpu.time.waits.worst.as_ref()?))
        };
        domain.vcpus.iter().filter_map(of)
    });
    waits
        .filter(|(_, _, wait)| wait.start_ns < end_ns && wait.start_ns + wait.length_ns > start_ns)
        .max_by_key(|(_, unparked, wait)| (*unparked, wait.length_ns))
        .map(|(domain, _, wait)| (domain, wait))
}

fn timeline(comparison: &Comparison, trace: &RunTrace, names: &[String]) -> Option<Timeline> {
    let policy = comparison.policies.iter().position(|policy| policy.label == trace.policy)?;
    let run = comparison.runs_of(&trace.policy).find(|run| run.seed == trace.seed)?;
    let Trace { start_ns, end_ns, .. } = trace.trace;
    let worst = worst_within(run, start_ns, end_ns)
        .map(|(domain, wait)| charted_wait(&domain.name, wait, names));
    let mut runs: Vec<&Segment> =
        trace.trace.segments.iter().filter(|segment| segment.pcpu.is_some()).collect();
    let whole = runs.len() <= MOST_SEGMENTS;
    let (mut start_ns, mut end_ns) = (start_ns, end_ns);
    if !whole {
        // Those nearest to the middle of the worst wait.
        let middle = worst
            .as_ref()
            .map_or(start_ns / 2 + end_ns / 2, |wait| wait.start_ns + wait.length_ns / 2);
        let distance = |segment: &&Segment| {
            segment.start_ns.abs_diff(middle).max(segment.end_ns.abs_diff(middle))
        };
        runs.sort_by_key(distance);
        let reach = distance(&runs[MOST_SEGMENTS]);
        runs.truncate(MOST_SEGMENTS);
        start_ns = start_ns.max(middle.saturating_sub(reach));
        end_ns = end_ns.min(middle + reach);
    }
    runs.sort_by_key(|segment| (segment.pcpu, segment.start_ns));
    let segments = runs.into_iter().filter_map(|segment| {
        let (from, to) = (segment.start_ns.max(start_ns), segment.end_ns.min(end_ns));
        let length_ns = to.checked_sub(from).filter(|&length_ns| length_ns > 0)?;
        Some((segment.pcpu?, segment.domain, segment.vcpu, from - start_ns, length_ns))
    });
    Some(Timeline { policy, start_ns, end_ns, whole, worst, segments: segments.collect() })
}
