// SPDX-License-Identifier: GPL-2.0-only
//! What is measured of whom, by the names that results have.

use std::fmt;

use steelyard_simulator::measure::{DomainMeasure, Run, TimeMeasure};

/// A figure of the host, or of domains.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// As somebody wrote it.
    pub(crate) text: String,
    pub(crate) of: Of,
}

/// Of whom.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Of {
    Host(HostMetric),
    /// By their index in the run, at least one.
    Domains(Vec<usize>, Metric),
}

/// What can be measured of a domain.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Metric {
    Time(TimeMetric),
    /// What its workloads say of themselves, by the figure's name, and its unit.
    Task {
        name: String,
        unit: String,
    },
}

/// What the scheduler did to a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeMetric {
    Share,
    Waited,
    Spun,
    WaitP50,
    WaitP90,
    WaitP99,
    WaitP999,
    WorstWait,
    Switches,
    Migrations,
    Preemptions,
}

/// What can be measured of the host as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostMetric {
    Fairness,
    Idle,
    Switches,
}

impl TimeMetric {
    /// Names as in `results.csv`.
    pub const ALL: [(&'static str, TimeMetric); 11] = [
        ("share", TimeMetric::Share),
        ("waited", TimeMetric::Waited),
        ("spun", TimeMetric::Spun),
        ("wait p50", TimeMetric::WaitP50),
        ("wait p90", TimeMetric::WaitP90),
        ("wait p99", TimeMetric::WaitP99),
        ("wait p99.9", TimeMetric::WaitP999),
        ("worst wait", TimeMetric::WorstWait),
        ("switches", TimeMetric::Switches),
        ("migrations", TimeMetric::Migrations),
        ("preemptions", TimeMetric::Preemptions),
    ];

    fn unit(self) -> &'static str {
        use TimeMetric::{Migrations, Preemptions, Share, Spun, Switches, Waited};
        match self {
            Share | Waited | Spun => "percent",
            Switches | Migrations | Preemptions => "1/s",
            _ => "ns",
        }
    }

    fn value(self, time: &TimeMeasure, elapsed_ns: u64) -> f64 {
        let elapsed_ns = elapsed_ns.max(1) as f64;
        let percent = |ns: u64| 100.0 * ns as f64 / elapsed_ns;
        let per_s = |count: u64| count as f64 / elapsed_ns * 1e9;
        let waits = &time.waits;
        match self {
            TimeMetric::Share => percent(time.gotten_ns),
            TimeMetric::Waited => percent(time.waited_ns),
            TimeMetric::Spun => percent(time.spun_ns),
            TimeMetric::WaitP50 => waits.p50_ns as f64,
            TimeMetric::WaitP90 => waits.p90_ns as f64,
            TimeMetric::WaitP99 => waits.p99_ns as f64,
            TimeMetric::WaitP999 => waits.p999_ns as f64,
            TimeMetric::WorstWait => waits.worst.as_ref().map_or(0, |it| it.length_ns) as f64,
            TimeMetric::Switches => per_s(time.switches),
            TimeMetric::Migrations => per_s(time.migrations),
            TimeMetric::Preemptions => per_s(time.preemptions),
        }
    }
}

impl HostMetric {
    pub const ALL: [(&'static str, HostMetric); 3] = [
        ("fairness", HostMetric::Fairness),
        ("idle", HostMetric::Idle),
        ("switches", HostMetric::Switches),
    ];

    fn value(self, run: &Run) -> f64 {
        let elapsed_ns = run.elapsed_ns.max(1) as f64;
        match self {
            HostMetric::Fairness => run.fairness,
            HostMetric::Idle => {
                let idle_ns: u64 = run.pcpus.iter().map(|pcpu| pcpu.idle_ns).sum();
                100.0 * idle_ns as f64 / elapsed_ns
            }
            HostMetric::Switches => run.scheduling_events.switches as f64 / elapsed_ns * 1e9,
        }
    }
}

impl Metric {
    /// None where there was nothing to measure. Of several tasks that have the figure, the greatest: of times, which
    /// most of these are, the worst.
    fn value(&self, domain: &DomainMeasure, elapsed_ns: u64) -> Option<f64> {
        match self {
            Metric::Time(metric) => Some(metric.value(&domain.time, elapsed_ns)),
            Metric::Task { name, .. } => {
                let values = domain.tasks.iter().flat_map(|task| &task.values);
                let named = values.filter(|value| value.name == *name);
                let values: Option<Vec<f64>> = named.map(|value| value.value).collect();
                values?.into_iter().reduce(f64::max)
            }
        }
    }
}

impl Figure {
    /// Its unit, as results write it: `ns`, `percent`, `1/s`, nothing, or the workload's own.
    pub fn unit(&self) -> &str {
        match &self.of {
            Of::Host(HostMetric::Fairness) => "",
            Of::Host(HostMetric::Idle) => "percent",
            Of::Host(HostMetric::Switches) => "1/s",
            Of::Domains(_, Metric::Time(metric)) => metric.unit(),
            Of::Domains(_, Metric::Task { unit, .. }) => unit,
        }
    }

    /// The domains that it is about, by their index; none if it is about the host.
    pub fn domains(&self) -> &[usize] {
        match &self.of {
            Of::Host(_) => &[],
            Of::Domains(domains, _) => domains,
        }
    }

    /// Whether a domain can be entitled to so much of it.
    pub(crate) fn is_share(&self) -> bool {
        matches!(self.of, Of::Domains(_, Metric::Time(TimeMetric::Share)))
    }

    /// The figure of each domain, or of the host; none where there was nothing to measure.
    pub(crate) fn values<'a>(&'a self, run: &'a Run) -> Box<dyn Iterator<Item = Option<f64>> + 'a> {
        match &self.of {
            Of::Host(metric) => Box::new(std::iter::once(Some(metric.value(run)))),
            Of::Domains(domains, metric) => Box::new(domains.iter().map(|&domain| {
                metric.value(run.domains.get(domain)?, run.elapsed_ns).filter(|it| it.is_finite())
            })),
        }
    }
}

/// As it was written, so others' text.
impl fmt::Display for Figure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}
