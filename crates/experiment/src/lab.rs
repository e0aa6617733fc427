// SPDX-License-Identifier: GPL-2.0-only
//! An experiment scaled down to what a test machine can do (`lab.toml`), and what real hosts gave
//! (`measured.toml`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use steelyard_scenario::{Diagnostic, Options, Source, load_text, parse};
use steelyard_simulator::config::Domain;
use steelyard_simulator::workload::Workload;

use crate::experiment::{Variant, error, unknown};
use crate::file::{Metric, Over, TimeMeasure};
use crate::measure::Spread;
use crate::run::VariantRuns;

/// A real host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Name, such as Xen.
    pub name: String,
    /// Versions.
    pub of: String,
    /// When it was measured.
    pub date: String,
}

/// `measured.toml`.
#[derive(Clone, Debug, Deserialize)]
struct MeasuredFile {
    machine: Vec<Machine>,
    measured: Vec<Measured>,
}

/// What a machine gave; there may be more than is shown.
#[derive(Clone, Debug, Deserialize)]
struct Measured {
    machine: String,
    policy: String,
    domain: String,
    share_percent: f64,
    worst_wait_ms: f64,
    acquisitions_per_s: Option<f64>,
    mean_round_trip_ms: Option<f64>,
}

/// A scenario for simulator and machines.
#[derive(Clone, Debug)]
pub(crate) struct Lab {
    /// By the policies' labels.
    pub variants: Vec<Variant>,
    /// Two of every domain, one more of one with a lock or that is pinged.
    pub metrics: BTreeMap<String, Metric>,
    measured: MeasuredFile,
}

/// A domain under a policy, simulated and real.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LabRow {
    /// The policy's label.
    pub policy: String,
    /// The domain.
    pub domain: String,
    /// CPU time in percent of one pCPU.
    pub share_percent: LabFigure,
    /// The longest single wait.
    pub worst_wait_ms: LabFigure,
    /// How often its lock was taken, of one that has a lock.
    pub acquisitions_per_s: Option<LabFigure>,
    /// How long its answers took, of one that is pinged.
    pub mean_round_trip_ms: Option<LabFigure>,
}

/// A figure, simulated and real.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LabFigure {
    /// Over seeds.
    pub simulated: Option<Spread>,
    /// One per machine; none where it cannot run the policy.
    pub machines: Vec<Option<f64>>,
}

/// The experiment in real hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LabOutcome {
    /// The hosts.
    pub machines: Vec<Machine>,
    /// What they gave.
    pub rows: Vec<LabRow>,
}

/// What is measured of a domain.
#[derive(Clone, Copy, Debug)]
enum Figure {
    Time(TimeMeasure),
    Acquisitions,
    RoundTrip,
}

const FIGURES: [Figure; 4] = [
    Figure::Time(TimeMeasure::SharePercent),
    Figure::Time(TimeMeasure::WorstWaitMs),
    Figure::Acquisitions,
    Figure::RoundTrip,
];

impl Figure {
    fn metric_name(self, domain: &str) -> String {
        format!("{domain} {self:?}")
    }

    /// None where there is nothing to measure.
    fn metric(self, domain: &Domain) -> Option<Metric> {
        let of_task = |is_it: fn(&Workload) -> bool, value: &str| {
            let task = domain.task.iter().find(|task| is_it(&task.workload))?;
            let name = task.name.as_deref().unwrap_or(task.workload.name());
            Some((None, Some(name.to_owned()), Some(value.to_owned())))
        };
        let (time, task, value) = match self {
            Figure::Time(time) => (Some(time), None, None),
            Figure::Acquisitions => {
                of_task(|workload| matches!(workload, Workload::Spinlock(_)), "acquisitions")?
            }
            Figure::RoundTrip => {
                of_task(|workload| matches!(workload, Workload::Ping(_)), "round trip mean")?
            }
        };
        Some(Metric {
            label: String::new(),
            host: None,
            domain: Some(domain.name.clone()),
            time,
            task,
            value,
            per: None,
            over: Over::Sum,
            from: Default::default(),
            every: None,
            ends_run: false,
        })
    }
}

impl Lab {
    /// Reads both files.
    pub fn read(scenario: &Source, measured: &Source) -> Result<Lab, Diagnostic> {
        let file: MeasuredFile = parse(measured)?;
        let loaded = load_text(&scenario.name, &scenario.text, &Options::default())?;
        let variants: Vec<_> = loaded
            .policies
            .into_iter()
            .map(|known| Variant {
                name: known.label,
                scenario: "lab".to_owned(),
                policy: known.policy,
                set: vec![],
                length: loaded.length,
                setup: loaded.setup.clone(),
            })
            .collect();
        for (index, row) in file.measured.iter().enumerate() {
            let machines: Vec<_> = file.machine.iter().map(|m| m.name.as_str()).collect();
            let policies: Vec<_> = variants.iter().map(|v| v.name.as_str()).collect();
            let domains: Vec<_> = loaded.setup.domains.iter().map(|d| d.name.as_str()).collect();
            for (key, name, known) in [
                ("machine", &row.machine, machines),
                ("policy", &row.policy, policies),
                ("domain", &row.domain, domains),
            ] {
                if !known.contains(&name.as_str()) {
                    let message = unknown(key, name, known.into_iter());
                    return Err(error(measured, &["measured", &index.to_string(), key], message));
                }
            }
        }
        let metrics = loaded.setup.domains.iter().flat_map(|domain| {
            let metric =
                |figure: Figure| Some((figure.metric_name(&domain.name), figure.metric(domain)?));
            FIGURES.into_iter().filter_map(metric)
        });
        Ok(Lab { metrics: metrics.collect(), variants, measured: file })
    }

    /// What was simulated, one per variant, beside what was measured.
    pub fn outcome(&self, runs: &[VariantRuns]) -> LabOutcome {
        let MeasuredFile { machine: machines, measured } = &self.measured;
        let row = |variant: &Variant, runs: &VariantRuns, domain: &str| {
            let figure = |figure: Figure, real: fn(&Measured) -> Option<f64>| LabFigure {
                simulated: runs.spread(&figure.metric_name(domain), 0),
                machines: machines
                    .iter()
                    .map(|machine| {
                        let is_it = |row: &&Measured| {
                            row.machine == machine.name
                                && row.policy == variant.name
                                && row.domain == domain
                        };
                        measured.iter().find(is_it).and_then(real)
                    })
                    .collect(),
            };
            let of_task = |wanted: Figure, real: fn(&Measured) -> Option<f64>| {
                let measured = self.metrics.contains_key(&wanted.metric_name(domain));
                measured.then(|| figure(wanted, real))
            };
            let [share, worst_wait, acquisitions, round_trip] = FIGURES;
            LabRow {
                policy: variant.name.clone(),
                domain: domain.to_owned(),
                share_percent: figure(share, |row| Some(row.share_percent)),
                worst_wait_ms: figure(worst_wait, |row| Some(row.worst_wait_ms)),
                acquisitions_per_s: of_task(acquisitions, |row| row.acquisitions_per_s),
                mean_round_trip_ms: of_task(round_trip, |row| row.mean_round_trip_ms),
            }
        };
        let rows = self.variants.iter().zip(runs).flat_map(|(variant, runs)| {
            variant.setup.domains.iter().map(move |domain| row(variant, runs, &domain.name))
        });
        LabOutcome { machines: machines.clone(), rows: rows.collect() }
    }
}
