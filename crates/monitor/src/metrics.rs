// SPDX-License-Identifier: GPL-2.0-only
//! A snapshot as OpenMetrics 1.0, for Prometheus. Anybody may call domains what they like and make many:
//! no two series are the same and there is an end to them, whoever that is. Of each vCPU there are a few, of
//! each domain a histogram.

use std::collections::HashSet;
use std::fmt::{self, Display, Formatter, Write as _};
use std::sync::Arc;

use steelyard_boundary::text::harmless;

use crate::interval::{ProcessTimes, knows_weights};
use steelyard_recording::{Domain, Figures, PolicyState, Snapshot, Structure};

/// The media type of what [`Exposition`] writes.
pub const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What is told of at most, the first of each; how many are left out is told too.
const PCPUS: usize = 8192;
const DOMAINS: usize = 1024;
const VCPUS: usize = 8192;
/// Bytes of a domain's name as it is written.
const NAME: usize = 64;

/// Upper bounds of the histograms' buckets, and how they are written, in seconds.
const BOUNDS: [(u64, &str); 12] = [
    (1_000, "0.000001"),
    (10_000, "0.00001"),
    (100_000, "0.0001"),
    (300_000, "0.0003"),
    (1_000_000, "0.001"),
    (3_000_000, "0.003"),
    (10_000_000, "0.01"),
    (30_000_000, "0.03"),
    (100_000_000, "0.1"),
    (1_000_000_000, "1.0"),
    (10_000_000_000, "10.0"),
    (u64::MAX, "+Inf"),
];

/// What a scheduler counts of its decisions.
#[derive(Clone, Debug)]
pub struct Counter {
    /// Its name; of times it ends in `_ns`.
    pub name: &'static str,
    /// What it means.
    pub help: &'static str,
    /// By the numbers of CPUs.
    pub of_pcpus: Vec<u64>,
}

/// Writes snapshots as the OpenMetrics format wants them; described in `docs/monitor.md`.
#[derive(Default)]
pub struct Exposition {
    /// Whose labels these are.
    structure: Option<Arc<Structure>>,
    domains: Vec<String>,
    vcpus: Vec<String>,
}

impl Exposition {
    /// Appends a snapshot. `left_out` vCPUs are not in it, because its source had no room for them.
    /// `processes` and `counters` is what else is known of it.
    pub fn write(
        &mut self,
        snapshot: &Snapshot,
        processes: &ProcessTimes,
        counters: &[Counter],
        left_out: usize,
        out: &mut String,
    ) {
        self.set_structure(&snapshot.structure);
        let mut idle = Family::counter(out, "pcpu_idle_seconds", "Time in which no task ran");
        for (pcpu, &idle_ns) in snapshot.idle_ns.iter().enumerate().take(PCPUS) {
            idle.sample(&format!("pcpu=\"{pcpu}\""), Seconds(idle_ns));
        }
        self.write_domains(snapshot, out);
        if !processes.is_empty() {
            let help =
                "CPU time of all threads of the virtual machine: vCPUs, emulator, input and output";
            let mut family = Family::counter(out, "domain_process_seconds", help);
            for (domain, labels) in snapshot.structure.domains.iter().zip(&self.domains) {
                if let Some(&ns) = processes.get(&domain.id) {
                    family.sample(labels, Seconds(ns));
                }
            }
        }
        self.write_vcpus(snapshot, out);
        self.write_waits(snapshot, out);
        for counter in counters {
            write_counter(counter, out);
        }
        let help = "Single runs and waits that are missing: there was no room for them";
        Family::counter(out, "lost_events", help).sample("", snapshot.lost);
        let domains = &snapshot.structure.domains;
        let vcpus: usize = domains.iter().map(|domain| domain.vcpus.len()).sum();
        let mut missing = |name, help, count: usize| {
            Family::gauge(out, name, help).sample("", count);
        };
        let help = "Domains that are not told of: there are too many";
        missing("domains_left_out", help, domains.len() - self.domains.len());
        let help = "vCPUs that are not told of: there are too many";
        missing("vcpus_left_out", help, vcpus - self.vcpus.len() + left_out);
        out.push_str("# EOF\n");
    }

    fn write_domains(&self, snapshot: &Snapshot, out: &mut String) {
        let domains = &snapshot.structure.domains;
        // What is not known is not told.
        let (knows_weights, knows_caps) = knows_weights(&snapshot.structure);
        let mut gauge = |known: bool, name, help, value: fn(&Domain) -> u32| {
            if !known {
                return;
            }
            let mut family = Family::gauge(out, name, help);
            for (domain, labels) in domains.iter().zip(&self.domains) {
                family.sample(labels, value(domain));
            }
        };
        let help = "Weight, 256 being the usual one";
        gauge(knows_weights, "domain_weight", help, |domain| domain.weight);
        let help = "Most CPU time, in percent of one pCPU; 0: no limit";
        gauge(knows_caps, "domain_cap_percent", help, |domain| domain.cap_percent);

        // Of the domain, though it is told with each vCPU.
        let policies =
            self.domains.iter().zip(by_domain(snapshot)).filter_map(|(labels, vcpus)| {
                Some((labels, vcpus.iter().find_map(|vcpu| vcpu.policy.as_ref())?))
            });
        let policies: Vec<(&String, &PolicyState)> = policies.collect();
        let help = "Weight in effect, which a governor may have changed";
        let mut family = Family::gauge(out, "domain_weight_in_effect", help);
        for (labels, policy) in &policies {
            family.sample(labels, policy.weight);
        }
        let help = "Slice in effect, if it is not that of the policy";
        let mut family = Family::gauge(out, "domain_slice_seconds", help);
        for (labels, policy) in policies {
            if let Some(slice_ns) = policy.slice_ns {
                family.sample(labels, Seconds(slice_ns));
            }
        }
    }

    fn write_vcpus(&self, snapshot: &Snapshot, out: &mut String) {
        let vcpus = || snapshot.vcpus.iter().zip(&self.vcpus);
        let mut times = |name, help, ns: fn(&Figures) -> Option<u64>| {
            let mut family = Family::counter(out, name, help);
            for (vcpu, labels) in vcpus() {
                if let Some(ns) = ns(vcpu) {
                    family.sample(labels, Seconds(ns));
                }
            }
        };
        times("vcpu_run_seconds", "Time running", |vcpu| Some(vcpu.gotten_ns));
        times("vcpu_wait_seconds", "Time runnable and not running", |vcpu| vcpu.waited_ns);
        let mut counts = |name, help, count: fn(&Figures) -> Option<u64>| {
            let mut family = Family::counter(out, name, help);
            for (vcpu, labels) in vcpus() {
                if let Some(count) = count(vcpu) {
                    family.sample(labels, count);
                }
            }
        };
        counts("vcpu_switches", "Starts on a pCPU", |vcpu| vcpu.switches);
        counts("vcpu_migrations", "Starts on another pCPU than before", |vcpu| vcpu.migrations);
        let help = "Losses of a pCPU while it could have gone on";
        counts("vcpu_preemptions", help, |vcpu| vcpu.preemptions);
    }

    fn write_waits(&self, snapshot: &Snapshot, out: &mut String) {
        let help = "Single waits of the vCPUs, from runnable to running";
        let mut family = Family::new(out, "domain_waits_seconds", "histogram", help);
        for (labels, vcpus) in self.domains.iter().zip(by_domain(snapshot)) {
            let mut waits = vcpus.iter().filter_map(|vcpu| vcpu.waits.as_ref()).peekable();
            if waits.peek().is_none() {
                continue;
            }
            let mut buckets = [0_u64; BOUNDS.len()];
            for &(bound_ns, count) in waits.flat_map(|waits| &waits.histogram) {
                let bucket = BOUNDS.partition_point(|&(bound, _)| bound < bound_ns);
                buckets[bucket] = buckets[bucket].saturating_add(count);
            }
            let mut count = 0_u64;
            for (&(_, bound), of_bucket) in BOUNDS.iter().zip(buckets) {
                count = count.saturating_add(of_bucket);
                family.part("_bucket", format_args!("{labels},le=\"{bound}\""), count);
            }
            let sum_ns =
                vcpus.iter().filter_map(|vcpu| vcpu.waited_ns).fold(0, u64::saturating_add);
            family.part("_count", labels, count);
            family.part("_sum", labels, Seconds(sum_ns));
        }
    }

    /// No two sets of labels are the same, or Prometheus would refuse all.
    fn set_structure(&mut self, structure: &Arc<Structure>) {
        if self.structure.as_ref().is_some_and(|known| Arc::ptr_eq(known, structure)) {
            return;
        }
        self.domains.clear();
        self.vcpus.clear();
        let mut taken = HashSet::new();
        for domain in structure.domains.iter().take(DOMAINS) {
            let mut name = labelled(&domain.name, "");
            let mut others = 0_u64;
            while name.is_empty() || taken.contains(&name) {
                let number = match others {
                    0 => format!(" ({})", domain.id),
                    // Somebody is called as this one would be.
                    others => format!(" ({}.{others})", domain.id),
                };
                name = labelled(&domain.name, &number);
                others += 1;
            }
            let labels = format!("domain=\"{name}\"");
            taken.insert(name);
            let numbers = 0..domain.vcpus.len().min(VCPUS - self.vcpus.len());
            self.vcpus.extend(numbers.map(|vcpu| format!("{labels},vcpu=\"{vcpu}\"")));
            self.domains.push(labels);
        }
        self.structure = Some(structure.clone());
    }
}

fn write_counter(counter: &Counter, out: &mut String) {
    let Counter { name, help, of_pcpus } = counter;
    let of_time = name.strip_suffix("_ns");
    let name = match of_time {
        Some(name) => format!("scheduler_{name}_seconds"),
        None => format!("scheduler_{name}"),
    };
    let help = match of_time {
        Some(_) => format!("Time {help}"),
        None => format!("Times that {help}"),
    };
    let mut family = Family::counter(out, &name, &help);
    for (pcpu, &count) in of_pcpus.iter().enumerate().take(PCPUS) {
        let labels = format!("pcpu=\"{pcpu}\"");
        match of_time {
            Some(_) => family.sample(&labels, Seconds(count)),
            None => family.sample(&labels, count),
        }
    }
}

/// The vCPUs of each domain.
fn by_domain(snapshot: &Snapshot) -> impl Iterator<Item = &[Figures]> {
    let mut rest = &snapshot.vcpus[..];
    snapshot.structure.domains.iter().map(move |domain| {
        let (vcpus, others) = rest.split_at(domain.vcpus.len().min(rest.len()));
        rest = others;
        vcpus
    })
}

/// Metrics of one name. Writing to a String cannot fail.
struct Family<'a> {
    out: &'a mut String,
    name: &'a str,
    /// Of its samples, as this kind of metric has it.
    suffix: &'static str,
}

impl<'a> Family<'a> {
    fn counter(out: &'a mut String, name: &'a str, help: &str) -> Family<'a> {
        Family { suffix: "_total", ..Family::new(out, name, "counter", help) }
    }

    fn gauge(out: &'a mut String, name: &'a str, help: &str) -> Family<'a> {
        Family::new(out, name, "gauge", help)
    }

    fn new(out: &'a mut String, name: &'a str, kind: &str, help: &str) -> Family<'a> {
        let _ = write!(out, "# HELP steelyard_{name} {help}.\n# TYPE steelyard_{name} {kind}\n");
        if name.ends_with("_seconds") {
            let _ = writeln!(out, "# UNIT steelyard_{name} seconds");
        }
        Family { out, name, suffix: "" }
    }

    /// There are thousands: each is put together without a format, but for its number.
    fn sample(&mut self, labels: &str, value: impl Display) {
        for part in ["steelyard_", self.name, self.suffix] {
            self.out.push_str(part);
        }
        if !labels.is_empty() {
            for part in ["{", labels, "}"] {
                self.out.push_str(part);
            }
        }
        let _ = writeln!(self.out, " {value}");
    }

    /// Of a metric that has several samples.
    fn part(&mut self, suffix: &str, labels: impl Display, value: impl Display) {
        let _ = writeln!(self.out, "steelyard_{}{suffix}{{{labels}}} {value}", self.name);
    }
}

/// A time in ns.
struct Seconds(u64);

impl Display for Seconds {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Seconds(ns) = self;
        write!(formatter, "{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
    }
}

/// A name and this number as the format wants the values of labels: no more than [`NAME`] bytes.
fn labelled(name: &str, number: &str) -> String {
    const CUT: &str = "…";
    let mut out = String::new();
    let room = NAME - number.len().min(NAME);
    // Where it ends if not all has room.
    let mut end = 0;
    for c in harmless(name).chars() {
        if out.len() + CUT.len() <= room {
            end = out.len();
        }
        if matches!(c, '\\' | '"') {
            out.push('\\');
        }
        out.push(c);
        if out.len() > room {
            out.truncate(end);
            out.push_str(CUT);
            break;
        }
    }
    out + number
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::Arc;
    use steelyard_recording::{Host, Structure, ThreadEvents, Vcpu, Waits};

    #[test]
    fn a_snapshot_is_exposed_with_bounded_series() {
        let domain = |id, name: &str| Domain {
            id,
            name: name.to_owned(),
            weight: 512,
            ungrouped: false,
            groups_around: None,
            cap_percent: 0,
            vcpus: vec![Vcpu { id: 7, name: "CPU 0/KVM".to_owned() }],
        };
        let host = Host {
            name: "node".to_owned(),
            source: "test".to_owned(),
            pcpus: 1,
            began_unix_ns: None,
            unseen: vec![],
        };
        let domains = vec![domain(1, "a \"quoted\"\nname"), domain(2, "twin"), domain(3, "twin")];
        let figures = |waits| Figures {
            gotten_ns: 1_500_000_000,
            waited_ns: Some(2_000_000),
            switches: Some(9),
            waits,
            ..Figures::default()
        };
        let policy =
            PolicyState { weight: 400, slice_ns: Some(3_000_000), ..PolicyState::default() };
        let waits = Waits { histogram: vec![(0, 1), (1_000_000, 2), (1_000_001, 4)], worst: None };
        let snapshot = Snapshot {
            structure: Arc::new(Structure { host, domains }),
            time_ns: 0,
            idle_ns: vec![250_000_000],
            vcpus: vec![
                Figures { policy: Some(policy), ..figures(None) },
                figures(Some(waits)),
                Figures { waited_ns: None, ..figures(None) },
            ],
            segments: vec![],
            others: vec![],
            threads: ThreadEvents::default(),
            lost: 3,
        };
        let mut text = String::new();
        let counter = |name, help, of_pcpus| Counter { name, help, of_pcpus };
        let counters = [
            counter("choices", "a pCPU chose", vec![5, 7]),
            counter("others_ns", "that others ran", vec![1_500_000_000]),
        ];
        Exposition::default().write(&snapshot, &ProcessTimes::new(), &counters, 0, &mut text);
        for line in [
            "# TYPE steelyard_pcpu_idle_seconds counter",
            "steelyard_pcpu_idle_seconds_total{pcpu=\"0\"} 0.250000000",
            "steelyard_domain_weight{domain=\"twin\"} 512",
            "steelyard_domain_weight{domain=\"twin (3)\"} 512",
            "steelyard_domain_weight_in_effect{domain=\"a \\\"quoted\\\"\u{fffd}name\"} 400",
            "steelyard_domain_slice_seconds{domain=\"a \\\"quoted\\\"\u{fffd}name\"} 0.003000000",
            "steelyard_vcpu_run_seconds_total{domain=\"a \\\"quoted\\\"\u{fffd}name\",vcpu=\"0\"} 1.500000000",
            "steelyard_vcpu_switches_total{domain=\"twin\",vcpu=\"0\"} 9",
            "steelyard_lost_events_total 3",
            "# HELP steelyard_scheduler_choices Times that a pCPU chose.",
            "steelyard_scheduler_choices_total{pcpu=\"1\"} 7",
            "# UNIT steelyard_scheduler_others_seconds seconds",
            "steelyard_scheduler_others_seconds_total{pcpu=\"0\"} 1.500000000",
            "steelyard_domain_waits_seconds_count{domain=\"twin\"} 7",
            "steelyard_domain_waits_seconds_bucket{domain=\"twin\",le=\"0.001\"} 3",
            "steelyard_domain_waits_seconds_bucket{domain=\"twin\",le=\"0.003\"} 7",
            "steelyard_domain_waits_seconds_bucket{domain=\"twin\",le=\"+Inf\"} 7",
        ] {
            assert!(text.lines().any(|known| known == line), "no {line} in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
        // What is not seen is not there.
        assert!(!text.contains("migrations_total"), "{text}");
        assert!(!text.contains("wait_seconds_total{domain=\"twin (3)\""), "{text}");
        assert!(!text.contains("weight_in_effect{domain=\"twin\"}"), "{text}");
        assert!(!text.contains("waits_seconds_count{domain=\"twin (3)\"}"), "{text}");
    }
}
