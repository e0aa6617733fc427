// SPDX-License-Identifier: GPL-2.0-only
//! Every variant with every seed, in parallel, with results that do not depend on the threads.

use std::collections::BTreeMap;

use rayon::prelude::*;
use steelyard_scenario::Diagnostic;
use steelyard_simulator::Simulation;

use crate::experiment::{Experiment, Variant, matches};
use crate::file::{HostMeasure, Metric};
use crate::measure::{Spread, of_host, steps};
use crate::outcome::Outcome;

/// How often it is looked at whether a run is over.
const LOOK_NS: u64 = 1_000_000_000;
/// Seeds are numbered from here.
const FIRST_SEED: u64 = 1;

/// The runs of one variant over all seeds.
pub(crate) struct VariantRuns {
    pub fairness: Spread,
    pub switches_per_s: Spread,
    /// By metric: a figure, of a series one per interval; of each the values in the order of seeds, none where one had
    /// nothing to measure.
    pub metrics: BTreeMap<String, Vec<Option<Vec<f64>>>>,
    pub units: BTreeMap<String, String>,
}

impl VariantRuns {
    /// Over seeds: a metric's figure, of a series that of one interval.
    pub fn spread(&self, metric: &str, index: usize) -> Option<Spread> {
        Spread::of(self.metrics.get(metric)?.get(index)?.as_ref()?)
    }
}

/// What is kept of one run.
struct Sample {
    fairness: f64,
    switches_per_s: f64,
    /// By metric: figures and unit.
    metrics: BTreeMap<String, (Vec<Option<f64>>, String)>,
}

impl Experiment {
    /// What running it with so many seeds costs, in events, about.
    pub fn work(&self, seeds: u64) -> u64 {
        self.runs().map(|(_, variant)| variant.work()).sum::<u64>().saturating_mul(seeds)
    }

    /// Everything that is run, and what is measured of it.
    fn runs(&self) -> impl Iterator<Item = (&BTreeMap<String, Metric>, &Variant)> + Clone {
        let own = self.variants.iter().map(|variant| (&self.file.metric, variant));
        let lab = self.lab.iter();
        own.chain(
            lab.flat_map(|lab| lab.variants.iter().map(move |variant| (&lab.metrics, variant))),
        )
    }
}

impl Variant {
    fn work(&self) -> u64 {
        u64::try_from(self.setup.estimated_events(self.length)).unwrap_or(u64::MAX)
    }
}

/// Runs experiments with so many seeds, at least one, on the threads of rayon's current pool. After
/// each run `progress` is told what it cost ([`Experiment::work`]), several times a second in between that it goes on
/// (0), and may end it all.
///
/// # Errors
/// A setup that cannot be simulated, or that of `progress`.
pub fn run<E: From<Diagnostic> + Send>(
    experiments: &[Experiment],
    seeds: u64,
    progress: &(dyn Fn(u64) -> Result<(), E> + Sync),
) -> Result<Vec<Outcome>, E> {
    let seeds = FIRST_SEED..FIRST_SEED + seeds.max(1);
    let jobs: Vec<_> = experiments
        .iter()
        .flat_map(|experiment| experiment.runs().map(move |run| (experiment.name.as_str(), run)))
        .flat_map(|(name, run)| seeds.clone().map(move |seed| (name, run, seed)))
        .collect();
    let samples = jobs.par_iter().with_max_len(1).map(|(name, (metrics, variant), seed)| {
        let sample = sample(name, metrics, variant, *seed, progress)?;
        progress(variant.work())?;
        Ok(sample)
    });
    let samples = samples.collect::<Result<Vec<_>, E>>()?;
    let mut of_variants = samples.chunks((seeds.end - seeds.start) as usize).filter_map(summarise);
    Ok(experiments
        .iter()
        .map(|experiment| {
            let runs: Vec<_> = of_variants.by_ref().take(experiment.runs().count()).collect();
            Outcome::new(experiment, (seeds.end - seeds.start) as usize, &runs)
        })
        .collect())
}

fn sample<E: From<Diagnostic>>(
    experiment: &str,
    metrics: &BTreeMap<String, Metric>,
    variant: &Variant,
    seed: u64,
    progress: &(dyn Fn(u64) -> Result<(), E> + Sync),
) -> Result<Sample, E> {
    let place = || format!("experiments/{experiment}: {}", variant.name);
    let mut simulation = Simulation::new(&variant.setup, &variant.policy, seed)
        .map_err(|error| Diagnostic::of_file(place(), error.to_string()))?;
    let here = |metric: &Metric| {
        let pattern = metric.domain.as_deref().unwrap_or_default();
        let mut domains = variant.setup.domains.iter();
        metric.host.is_some() || domains.any(|domain| matches(pattern, &domain.name))
    };
    let here_measured = || metrics.iter().filter(|(_, metric)| here(metric));
    let enders: Vec<_> =
        here_measured().map(|(_, metric)| metric).filter(|metric| metric.ends_run).collect();
    let is_over = |simulation: &Simulation| {
        !enders.is_empty() && enders.iter().all(|metric| metric.is_known(simulation))
    };
    let looks = (!enders.is_empty()).then_some(LOOK_NS);
    let looks = looks.into_iter().flat_map(|every| steps(every, variant.length.0));
    let mut stops: BTreeMap<u64, bool> = looks.map(|look| (look, false)).collect();
    let kept = here_measured().flat_map(|(_, metric)| metric.stops(variant.length.0));
    stops.extend(kept.chain([variant.length.0]).map(|stop| (stop, true)));
    let mut snapshots = vec![];
    for (stop, is_kept) in stops {
        simulation.run_watched(stop, |_| progress(0))?;
        let is_over = is_over(&simulation);
        if is_kept || is_over {
            snapshots.push(simulation.measure());
        }
        if is_over {
            break;
        }
    }
    // There is one at least: that of the end.
    let end = &snapshots[snapshots.len() - 1];
    let measured = here_measured().filter_map(|(name, metric)| {
        Some((name.clone(), (metric.evaluate(&snapshots), metric.unit(end)?)))
    });
    Ok(Sample {
        fairness: end.fairness,
        switches_per_s: of_host(HostMeasure::SwitchesPerS, end),
        metrics: measured.collect(),
    })
}

/// The samples of one variant, over seeds.
fn summarise(samples: &[Sample]) -> Option<VariantRuns> {
    let spread =
        |value: fn(&Sample) -> f64| Spread::of(&samples.iter().map(value).collect::<Vec<_>>());
    let first = samples.first()?;
    let over_seeds = |name: &String, index: usize| {
        samples.iter().map(|sample| *sample.metrics.get(name)?.0.get(index)?).collect()
    };
    let metrics = first.metrics.iter().map(|(name, (values, _))| {
        let figures = (0..values.len()).map(|index| over_seeds(name, index));
        (name.clone(), figures.collect())
    });
    let units = first.metrics.iter().map(|(name, (_, unit))| (name.clone(), unit.clone()));
    Some(VariantRuns {
        fairness: spread(|sample| sample.fairness)?,
        switches_per_s: spread(|sample| sample.switches_per_s)?,
        metrics: metrics.collect(),
        units: units.collect(),
    })
}

/// Progress of [`run`] that nobody looks at.
///
/// # Errors
/// None: it ends nothing.
pub fn unwatched(_work: u64) -> Result<(), Diagnostic> {
    Ok(())
}
