// SPDX-License-Identifier: GPL-2.0-only
//! A snapshot as OpenMetrics, for Prometheus. Series are bounded: a few per vCPU, a histogram per
//! domain.

use std::collections::HashSet;
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use steelyard_recording::{Domain, Figures, PolicyState, Snapshot};

/// The media type of [`to_openmetrics`].
pub const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Upper bounds of the histograms' buckets.
const BOUNDS_NS: [u64; 11] = [
    1_000,
    10_000,
    100_000,
    300_000,
    1_000_000,
    3_000_000,
    10_000_000,
    30_000_000,
    100_000_000,
    1_000_000_000,
    10_000_000_000,
];

/// As the OpenMetrics format wants it; described in `docs/monitor.md`.
pub fn to_openmetrics(snapshot: &Snapshot) -> String {
    let mut registry = Registry::with_prefix("steelyard");
    registry.register_collector(Box::new(Exposition(snapshot.clone())));
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = text::encode(&mut out, &registry);
    out
}

#[derive(Debug)]
struct Exposition(Snapshot);

impl Collector for Exposition {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let Exposition(snapshot) = self;
        let structure = &snapshot.structure;
        let seconds = |ns: u64| ns as f64 / 1e9;
        let labels = Labels::new(&structure.domains);

        let (help, unit) = ("Time in which no task ran", Some(&Unit::Seconds));
        let mut idle = encoder.encode_descriptor("pcpu_idle", help, unit, MetricType::Counter)?;
        for (pcpu, &idle_ns) in snapshot.idle_ns.iter().enumerate() {
            let label = [("pcpu", pcpu.to_string())];
            ConstCounter::new(seconds(idle_ns)).encode(idle.encode_family(&label)?)?;
        }

        let mut per_domain = |name, help, value: fn(&Domain) -> u32| {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (domain, label) in structure.domains.iter().zip(&labels.domains) {
                let family = family.encode_family(label)?;
                ConstGauge::new(i64::from(value(domain))).encode(family)?;
            }
            Ok(())
        };
        per_domain("domain_weight", "Weight, 256 being the usual one", |domain| domain.weight)?;
        let help = "Most CPU time, in percent of one pCPU; 0: no limit";
        per_domain("domain_cap_percent", help, |domain| domain.cap_percent)?;

        let mut per_policy = |name, help, unit, value: fn(&PolicyState) -> Option<f64>| {
            let mut family = encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
            let mut figures = snapshot.vcpus.iter();
            for (domain, label) in structure.domains.iter().zip(&labels.domains) {
                let vcpus = figures.by_ref().take(domain.vcpus.len());
                // Of the domain, though it is told with each vCPU.
                let told: Vec<_> = vcpus.filter_map(|vcpu| vcpu.policy.as_ref()).collect();
                if let Some(value) = told.first().and_then(|policy| value(policy)) {
                    ConstGauge::new(value).encode(family.encode_family(label)?)?;
                }
            }
            Ok(())
        };
        let help = "Weight in effect, which a governor may have changed";
        let name = "domain_weight_in_effect";
        per_policy(name, help, None, |policy| Some(policy.weight as f64))?;
        let help = "Slice in effect, if it is not that of the policy";
        per_policy("domain_slice", help, Some(&Unit::Seconds), |policy| {
            policy.slice_ns.map(|slice_ns| slice_ns as f64 / 1e9)
        })?;

        let mut per_vcpu = |name, help, unit, value: &dyn Fn(&Figures) -> Option<f64>| {
            let mut family = encoder.encode_descriptor(name, help, unit, MetricType::Counter)?;
            for (vcpu, label) in snapshot.vcpus.iter().zip(&labels.vcpus) {
                if let Some(value) = value(vcpu) {
                    ConstCounter::new(value).encode(family.encode_family(label)?)?;
                }
            }
            Ok(())
        };
        let unit = Some(&Unit::Seconds);
        per_vcpu("vcpu_run", "Time running", unit, &|vcpu| Some(seconds(vcpu.gotten_ns)))?;
        let help = "Time runnable and not running";
        per_vcpu("vcpu_wait", help, unit, &|vcpu| vcpu.waited_ns.map(seconds))?;
        let help = "Starts on a pCPU";
        let optional = |count: Option<u64>| count.map(|count| count as f64);
        per_vcpu("vcpu_switches", help, None, &|vcpu| optional(vcpu.switches))?;
        let help = "Starts on another pCPU than before";
        per_vcpu("vcpu_migrations", help, None, &|vcpu| optional(vcpu.migrations))?;
        let help = "Losses of a pCPU while it could have gone on";
        per_vcpu("vcpu_preemptions", help, None, &|vcpu| optional(vcpu.preemptions))?;

        let help = "Single waits of the vCPUs, from runnable to running";
        let name = "domain_waits";
        let mut waits = encoder.encode_descriptor(name, help, unit, MetricType::Histogram)?;
        let mut figures = snapshot.vcpus.iter();
        for (domain, label) in structure.domains.iter().zip(&labels.domains) {
            let vcpus: Vec<_> = figures.by_ref().take(domain.vcpus.len()).collect();
            if vcpus.iter().all(|vcpu| vcpu.waits.is_none()) {
                continue;
            }
            let mut buckets = [0_u64; BOUNDS_NS.len() + 1];
            for (bound_ns, count) in
                vcpus.iter().filter_map(|vcpu| vcpu.waits.as_ref()).flat_map(|w| &w.histogram)
            {
                let bucket = &mut buckets[BOUNDS_NS.partition_point(|bound| bound < bound_ns)];
                *bucket = bucket.saturating_add(*count);
            }
            let count = buckets.iter().fold(0, |sum: u64, &count| sum.saturating_add(count));
            let sum_ns =
                vcpus.iter().filter_map(|vcpu| vcpu.waited_ns).fold(0, u64::saturating_add);
            let bounds = BOUNDS_NS.iter().map(|&bound| seconds(bound)).chain([f64::MAX]);
            let buckets: Vec<_> = bounds.zip(buckets).collect();
            let mut family = waits.encode_family(label)?;
            family.encode_histogram::<NoLabelSet>(seconds(sum_ns), count, &buckets, None)?;
        }
        Ok(())
    }
}

type LabelSet<const N: usize> = [(&'static str, String); N];

/// No two sets are the same, or Prometheus would refuse all.
struct Labels {
    domains: Vec<LabelSet<1>>,
    vcpus: Vec<LabelSet<2>>,
}

impl Labels {
    fn new(domains: &[Domain]) -> Labels {
        let mut labels = Labels { domains: vec![], vcpus: vec![] };
        let mut taken = HashSet::new();
        for domain in domains {
            let mut name = escaped(&domain.name);
            if !taken.insert(name.clone()) {
                name = format!("{name} ({})", domain.id);
                taken.insert(name.clone());
            }
            for vcpu in 0..domain.vcpus.len() {
                labels.vcpus.push([("domain", name.clone()), ("vcpu", vcpu.to_string())]);
            }
            labels.domains.push([("domain", name)]);
        }
        labels
    }
}

/// As the format wants the values of labels; the library leaves it to its user.
fn escaped(text: &str) -> String {
    text.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::Arc;
    use steelyard_recording::{Host, Structure, Vcpu, Waits};

    #[test]
    fn a_snapshot_is_exposed_with_bounded_series() {
        let domain = |id, name: &str| Domain {
            id,
            name: name.to_owned(),
            weight: 512,
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
        };
        let text = to_openmetrics(&snapshot);
        for line in [
            "# TYPE steelyard_pcpu_idle_seconds counter",
            "steelyard_pcpu_idle_seconds_total{pcpu=\"0\"} 0.25",
            "steelyard_domain_weight{domain=\"twin\"} 512",
            "steelyard_domain_weight{domain=\"twin (3)\"} 512",
            r#"steelyard_domain_weight_in_effect{domain="a \"quoted\"\nname"} 400.0"#,
            r#"steelyard_domain_slice_seconds{domain="a \"quoted\"\nname"} 0.003"#,
            r#"steelyard_vcpu_run_seconds_total{domain="a \"quoted\"\nname",vcpu="0"} 1.5"#,
            "steelyard_vcpu_switches_total{domain=\"twin\",vcpu=\"0\"} 9.0",
            "steelyard_domain_waits_seconds_count{domain=\"twin\"} 7",
            "steelyard_domain_waits_seconds_bucket{le=\"0.001\",domain=\"twin\"} 3",
            "steelyard_domain_waits_seconds_bucket{le=\"0.003\",domain=\"twin\"} 7",
            "steelyard_domain_waits_seconds_bucket{le=\"+Inf\",domain=\"twin\"} 7",
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
