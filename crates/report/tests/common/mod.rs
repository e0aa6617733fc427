// SPDX-License-Identifier: GPL-2.0-only
//! Results made up for tests: a host of two pCPUs, a web server beside busy domains, several
//! policies and seeds. The figures need not be what any policy would do.

// Each test uses a part; a wrong fixture may panic.
#![allow(dead_code, clippy::unwrap_used)]

use steelyard_experiment::{
    ClaimOutcome, Experiment, Files, Reproduction, Settled, State, StatementOutcome,
};
use steelyard_policy::Policy;
use steelyard_report::{Comparison, DomainSummary, HostSummary, PolicySummary, Results, RunTrace};
use steelyard_simulator::config::Host;
use steelyard_simulator::measure::{
    DomainMeasure, PcpuMeasure, Ran, Run, SchedulingEvents, Segment, TaskMeasure, TaskValue,
    TimeMeasure, Trace, VcpuMeasure, Waits, WorstWait,
};

pub const LENGTH_NS: u64 = 10_000_000_000;
const PCPUS: u32 = 2;
/// Name, vCPUs, weight, share in percent of one pCPU.
const DOMAINS: [(&str, u32, u32, f64); 5] = [
    ("Domain-0", 1, 512, 10.0),
    ("web", 2, 256, 46.0),
    ("busy-1", 1, 256, 48.0),
    ("busy-2", 1, 256, 48.0),
    ("busy-3", 1, 256, 48.0),
];

/// A step of splitmix64, enough for figures that differ.
fn random(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

/// A recording under `policies` policies, with three seeds each.
pub fn results() -> Results {
    Results::new(vec![comparison("overcommitted web server"), comparison("recorded host")])
}

/// The same without what was recorded: nobody is named best of a recording whose own scheduler is not known.
#[allow(dead_code)]
pub fn simulated() -> Results {
    let mut results = results();
    for comparison in &mut results.comparisons {
        comparison.policies.retain(|policy| policy.policy.is_some());
        comparison.runs.retain(|run| run.policy != PolicySummary::RECORDED);
    }
    results
}

pub fn comparison(name: &str) -> Comparison {
    let mut policies = vec![PolicySummary::recorded()];
    for spec in ["sedf", "credit@xen-4.5", "credit2@xen-4.20", "fair@eevdf"] {
        let discipline = spec.split('@').next().unwrap_or(spec);
        let policy = Policy::named(spec).or_else(|_| Policy::named(discipline)).unwrap();
        policies.push(PolicySummary::new(spec, &policy));
    }
    let seeds = vec![1, 2, 3];
    let mut runs = vec![];
    for (index, policy) in policies.iter().enumerate() {
        let seeds = if policy.policy.is_some() { &seeds[..] } else { &[0] };
        for &seed in seeds {
            runs.push(run(&policy.label, seed, index as u64));
        }
    }
    Comparison {
        scenario: name.to_owned(),
        source: "web-and-busy.toml".to_owned(),
        length_ns: LENGTH_NS,
        seeds,
        host: HostSummary::from(&Host::with_pcpus(PCPUS)),
        domains: DOMAINS
            .iter()
            .enumerate()
            // The three busy ones are alike.
            .map(|(index, domain)| DomainSummary {
                name: domain.0.to_owned(),
                like: index.min(2),
                rest_of_host: false,
            })
            .collect(),
        policies,
        assumed: vec![],
        described: vec![],
        replay_error: None,
        runs,
    }
}

fn run(policy: &str, seed: u64, index: u64) -> Run {
    let mut state = seed * 1000 + index;
    let slowness = [1.0, 2.0, 5.0, 0.2, 0.4][index as usize % 5];
    let domains = DOMAINS.map(|(name, vcpus, weight, share)| {
        let share = share * (0.98 + 0.04 * random(&mut state));
        let vcpus: Vec<_> = (0..vcpus)
            .map(|_| VcpuMeasure {
                time: time(share / f64::from(vcpus), slowness, name, &mut state),
            })
            .collect();
        let mut total = vcpus[0].time.clone();
        for vcpu in &vcpus[1..] {
            total.gotten_ns += vcpu.time.gotten_ns;
            total.waited_ns += vcpu.time.waited_ns;
            total.blocked_ns += vcpu.time.blocked_ns;
            total.switches += vcpu.time.switches;
        }
        let value = |name: &str, unit: &str, more, value| TaskValue {
            name: name.to_owned(),
            unit: unit.to_owned(),
            more_is_better: more,
            value,
        };
        let tasks = match name {
            _ if policy == PolicySummary::RECORDED => vec![],
            "web" => vec![TaskMeasure {
                name: "web".to_owned(),
                values: vec![
                    value("requests", "1/s", Some(true), Some(1200.0 - 10.0 * slowness)),
                    value("response time mean", "ms", Some(false), Some(4.0 * slowness)),
                    value("response time p99", "ms", Some(false), Some(8.0 * slowness)),
                    value("threads", "1", None, Some(8.0)),
                ],
            }],
            "Domain-0" => vec![TaskMeasure {
                name: "backend".to_owned(),
                values: vec![value("packets", "1/s", Some(true), None)],
            }],
            _ => vec![TaskMeasure {
                name: "busy".to_owned(),
                values: vec![value("work done", "% of a pCPU", Some(true), Some(50.0 - slowness))],
            }],
        };
        DomainMeasure {
            name: name.to_owned(),
            weight,
            cap_percent: 0,
            share_percent: share,
            entitlement_percent: share.max(47.0),
            time: total,
            vcpus,
            tasks,
            unhonoured: vec![],
        }
    });
    Run {
        policy: policy.to_owned(),
        seed,
        elapsed_ns: LENGTH_NS,
        scheduling_events: SchedulingEvents {
            wakes: 9000,
            blocks: 9000,
            switches: 21_000,
            ..SchedulingEvents::default()
        },
        guest_steps: 60_000,
        fairness: 1.0 - 0.01 * slowness,
        pcpus: vec![PcpuMeasure { idle_ns: 12_000_000, switches: 10_500 }; PCPUS as usize],
        domains: domains.to_vec(),
    }
}

fn time(share_percent: f64, slowness: f64, name: &str, state: &mut u64) -> TimeMeasure {
    let gotten_ns = (share_percent / 100.0 * LENGTH_NS as f64) as u64;
    let waited_ns = (0.1 * slowness * gotten_ns as f64) as u64;
    let peak = 1e6 * slowness * (0.9 + 0.2 * random(state));
    let mut histogram = vec![];
    for step in 0..60 {
        let upper = 1e3 * 1.3_f64.powi(step);
        let distance = (upper / peak).ln();
        let count = 4000.0 * (-distance * distance).exp() + 300.0 * (-(upper / 2e3)).exp();
        if count >= 1.0 {
            histogram.push((upper as u64, count as u64));
        }
    }
    let length_ns = (12.0 * peak) as u64;
    let ran = |domain: &str, vcpu, part: f64| Ran {
        domain: domain.to_owned(),
        vcpu,
        ran_ns: (part * length_ns as f64) as u64,
    };
    let mut ran = vec![ran("busy-1", 0, 0.5), ran("busy-2", 0, 0.3), ran("web", 1, 0.1)];
    ran.retain(|ran| ran.domain != name);
    TimeMeasure {
        gotten_ns,
        waited_ns,
        blocked_ns: LENGTH_NS - gotten_ns - waited_ns,
        parked_ns: 0,
        beside_idle_ns: 0,
        worst_beside_idle_ns: 0,
        overhead_ns: gotten_ns / 100,
        spun_ns: 0,
        switches: 5000,
        migrations: 700,
        preemptions: 900,
        waits: Waits {
            count: histogram.iter().map(|&(_, count)| count).sum(),
            p50_ns: peak as u64,
            p90_ns: (2.0 * peak) as u64,
            p99_ns: (5.0 * peak) as u64,
            p999_ns: (9.0 * peak) as u64,
            worst: Some(WorstWait { vcpu: 0, start_ns: 4_000_000_000, length_ns, ran }),
            histogram,
        },
    }
}

/// Traces for the first seed of each policy: vCPUs take turns on two pCPUs.
pub fn traces(results: &Results) -> Vec<RunTrace> {
    let mut traces = vec![];
    for (index, comparison) in results.comparisons.iter().enumerate() {
        for (number, policy) in comparison.policies.iter().enumerate() {
            let slice_ns = [3e6, 2e7, 3e7, 4e6, 3e6][number % 5];
            let seed = if policy.policy.is_some() { 1 } else { 0 };
            traces.push(RunTrace {
                comparison: index,
                policy: policy.label.clone(),
                seed,
                trace: trace(slice_ns, number as u64),
            });
        }
    }
    traces
}

fn trace(slice_ns: f64, mut state: u64) -> Trace {
    let (start_ns, end_ns) = (3_500_000_000, 4_500_000_000);
    let mut queue: std::collections::VecDeque<(u32, u32, u64)> = DOMAINS
        .iter()
        .zip(0..)
        .flat_map(|(&(_, vcpus, _, _), domain)| (0..vcpus).map(move |v| (domain, v, start_ns)))
        .collect();
    let mut segments = vec![];
    let mut free = [(start_ns, 0_u32), (start_ns, 1)];
    loop {
        free.sort_unstable();
        let (now, pcpu) = free[0];
        if now >= end_ns {
            break;
        }
        let (domain, vcpu, since) = queue.pop_front().unwrap();
        let end = (now + (slice_ns * (0.1 + random(&mut state))) as u64).min(end_ns);
        if since < now {
            segments.push(Segment { domain, vcpu, pcpu: None, start_ns: since, end_ns: now });
        }
        segments.push(Segment {
            domain,
            vcpu,
            pcpu: Some(pcpu),
            start_ns: now.max(since),
            end_ns: end.max(since),
        });
        // A little idle time now and then.
        let idle = if random(&mut state) < 0.1 { 1_000_000 } else { 0 };
        queue.push_back((domain, vcpu, end.max(since)));
        free[0] = (end.max(since) + idle, pcpu);
    }
    segments.sort_by_key(|segment| (segment.end_ns, segment.start_ns));
    Trace { start_ns, end_ns, segments }
}

/// An experiment made up of words, numbers, a claim in each state, and names that mean something
/// else in HTML and Markdown.
pub fn reproduction() -> Reproduction {
    let texts = [
        ("experiment.toml", include_str!("experiment.toml")),
        ("published.toml", include_str!("published.toml")),
        ("calibration.toml", include_str!("calibration.toml")),
        ("one.toml", include_str!("one.toml")),
        ("lab.toml", include_str!("lab.toml")),
        ("measured.toml", include_str!("measured.toml")),
    ];
    let experiment =
        Experiment::read(&Files { name: "made-up", texts: texts.into(), set: vec![] }).unwrap();
    let outcomes = steelyard_experiment::run(&[experiment], 3, &steelyard_experiment::unwatched);
    let mut reproduction = Reproduction::new(3, outcomes.unwrap());
    // So few seeds leave nothing undecided.
    let outcome = &mut reproduction.experiments[0];
    let claim = &mut outcome.claims[0];
    let undecided = ClaimOutcome { state: State::Undecided, ..claim.clone() };
    outcome.claims.push(undecided);
    let statement = &outcome.statements[0];
    let undecided = StatementOutcome { settled: Settled::Undecided, ..statement.clone() };
    outcome.statements.push(undecided);
    reproduction
}
