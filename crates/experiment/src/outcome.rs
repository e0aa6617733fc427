// SPDX-License-Identifier: GPL-2.0-only
//! What came out of the experiments: `results.json` of `steelyard reproduce` (described in
//! `docs/experiments.md`).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::SYSTEMS;
use crate::claim::{Measured, Published};
use crate::experiment::{Experiment, Point, value_at};
use crate::file::{Better, Free, Known, X};
use crate::lab::LabOutcome;
use crate::measure::Spread;
use crate::run::VariantRuns;
use crate::verdict::state_of;

/// Everything that one command reproduced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reproduction {
    /// [`Reproduction::FORMAT`].
    pub format: String,
    /// [`Reproduction::VERSION`].
    pub version: u32,
    /// Version of Steelyard that wrote it.
    pub steelyard: String,
    /// Each variant ran with the seeds 1, 2, ... up to this.
    pub seeds: u64,
    /// The experiments.
    pub experiments: Vec<Outcome>,
}

impl Reproduction {
    /// Value of `format`.
    pub const FORMAT: &str = "steelyard-reproduction";
    /// Value of `version`.
    pub const VERSION: u32 = 1;

    /// Of these experiments.
    pub fn new(seeds: u64, experiments: Vec<Outcome>) -> Self {
        Reproduction {
            format: Self::FORMAT.to_owned(),
            version: Self::VERSION,
            steelyard: env!("CARGO_PKG_VERSION").to_owned(),
            seeds,
            experiments,
        }
    }

    /// Claims that are not in the state that their experiment expects.
    pub fn unexpected(&self) -> impl Iterator<Item = (&Outcome, &ClaimOutcome)> {
        self.experiments
            .iter()
            .flat_map(|outcome| outcome.claims.iter().map(move |claim| (outcome, claim)))
            .filter(|(_, claim)| !claim.state.is_expected())
    }
}

/// One experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Name of its folder.
    pub name: String,
    /// What is found out.
    pub title: String,
    /// Where it was published.
    pub publication: String,
    /// What the publication left open.
    pub open: Vec<String>,
    /// The switches in use.
    pub switches: Vec<String>,
    /// What was not published, and from where to where it may be.
    pub free: Vec<Free>,
    /// Why tolerances are what they are.
    pub tolerances: Option<String>,
    /// What was measured.
    pub metrics: BTreeMap<String, MetricOutcome>,
    /// Where it was measured.
    pub variants: Vec<VariantOutcome>,
    /// What is drawn.
    pub figures: Vec<FigureOutcome>,
    /// What was claimed: by the publication, then by us.
    pub claims: Vec<ClaimOutcome>,
    /// What has become of everything that the publication says.
    pub statements: Vec<StatementOutcome>,
    /// The five systems on this experiment.
    pub matrix: Option<MatrixOutcome>,
    /// Scaled down, in real hosts.
    pub lab: Option<LabOutcome>,
}

/// A metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricOutcome {
    /// What people call it.
    pub label: String,
    /// Its unit.
    pub unit: String,
}

/// A variant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VariantOutcome {
    /// Name.
    pub name: String,
    /// Its scenario's file, without `.toml`.
    pub scenario: String,
    /// Discipline, vintage, governors; or the published name.
    pub policy: String,
    /// Changes.
    pub set: Vec<String>,
    /// Simulated time.
    pub length_ns: u64,
    /// Jain's index over the domains' share / entitlement.
    pub fairness: Spread,
    /// Switches to another vCPU, on all pCPUs.
    pub switches_per_s: Spread,
    /// The metrics that could be measured: one figure, of a series one per interval; none where a
    /// seed had nothing to measure.
    pub metrics: BTreeMap<String, Vec<Option<Spread>>>,
}

/// A figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FigureOutcome {
    /// Name.
    pub name: String,
    /// Heading.
    pub title: String,
    /// Where the published values were printed.
    pub sources: Vec<String>,
    /// What the places are.
    pub x_label: String,
    /// What the values are.
    pub y_label: String,
    /// Unit of the values.
    pub unit: String,
    /// Whether to draw them on a logarithmic axis.
    pub logarithmic: bool,
    /// Places.
    pub x: Vec<X>,
    /// Curves.
    pub curves: Vec<CurveOutcome>,
}

/// A curve of a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurveOutcome {
    /// Name.
    pub name: String,
    /// One per place.
    pub points: Vec<PointOutcome>,
}

/// A point of a curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointOutcome {
    /// What was measured.
    pub measured: Option<Spread>,
    /// What was published, if it was and can be read.
    pub published: Option<f64>,
    /// Whether parameters were fitted on what was published here.
    pub calibrated: bool,
}

/// A claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimOutcome {
    /// The statement.
    pub says: String,
    /// Where it stands in the publication; empty for ours.
    pub source: String,
    /// Whether it holds.
    pub state: State,
    /// What must be so for it to hold.
    pub expected: String,
    /// What was measured.
    pub measured: Vec<Figures>,
    /// Why it is known not to hold.
    pub known: Option<Known>,
    /// What had been seen of what it decides when it, or what it stands on, was chosen.
    pub chosen_after: Option<String>,
}

/// A statement of a publication.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatementOutcome {
    /// Name.
    pub name: String,
    /// Page, section, figure or table.
    pub source: String,
    /// What it says.
    pub says: String,
    /// The values that tables have of it.
    pub values: Vec<f64>,
    /// What has become of it.
    pub settled: Settled,
    /// Of what was set: where it is.
    pub here: Option<String>,
    /// How that differs, or why nothing is claimed.
    pub reason: Option<String>,
    /// Of what is claimed: the indices of its claims.
    pub claims: Vec<usize>,
}

/// What has become of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Settled {
    /// All its claims hold.
    Holds,
    /// All its claims hold, and one of them, or what that stands on, was chosen after what it decides had been seen.
    HoldsChosenAfter,
    /// One of them does not.
    DoesNotHold,
    /// None of them does not, but with other seeds one might.
    Undecided,
    /// Nothing is claimed of it.
    NoClaimYet,
    /// It cannot be reproduced.
    NotReproducible,
    /// It was set, and is so here.
    Followed,
    /// It was set, and is otherwise here.
    Differs,
}

/// Something measured for a claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// A variant, or what was computed.
    pub what: String,
    /// Unit.
    pub unit: String,
    /// None if there was nothing to measure.
    pub value: Option<Spread>,
}

impl Figures {
    pub(crate) fn exact(what: &str, unit: &str, value: Option<f64>) -> Self {
        let value = value.map(|value| Spread { median: value, least: value, greatest: value });
        Figures { what: what.to_owned(), unit: unit.to_owned(), value }
    }
}

/// Whether a claim holds, and whether that was to be expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It holds.
    Holds,
    /// It does not, and nobody knew.
    Fails,
    /// It is known not to hold.
    Known,
    /// It holds, though it is known not to.
    Turned,
    /// With other seeds it might be otherwise.
    Undecided,
}

impl State {
    /// Whether it is as the experiment says.
    pub fn is_expected(self) -> bool {
        matches!(self, State::Holds | State::Known | State::Undecided)
    }
}

/// The five systems on one experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MatrixOutcome {
    /// What is compared.
    pub label: String,
    /// Its unit.
    pub unit: String,
    /// Which way is better.
    pub better: Better,
    /// What the systems are compared with.
    pub baseline: Cell,
    /// One per system.
    pub systems: Vec<SystemOutcome>,
}

/// One system on one experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SystemOutcome {
    /// Whether it was published with this experiment.
    pub own: bool,
    /// Whether none is better here.
    pub best: bool,
    /// Why it has no meaning here; then nothing was measured.
    pub without: Option<String>,
    /// The system.
    pub system: Cell,
    /// What it extends, alone; of a stock scheduler what was stock before it.
    pub base: Cell,
    /// How many times as good as `base`; more is better.
    pub effect: Option<f64>,
}

/// One policy on one experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The policy.
    pub policy: String,
    /// What was measured.
    pub value: Option<Spread>,
    /// How many times as good as the baseline; more is better.
    pub gain: Option<f64>,
    /// Jain's index over the domains' share / entitlement.
    pub fairness: Option<Spread>,
    /// Switches to another vCPU, on all pCPUs.
    pub switches_per_s: Option<Spread>,
}

/// The runs of one experiment, variant by variant.
pub(crate) struct Runs<'a> {
    experiment: &'a Experiment,
    variants: &'a [VariantRuns],
    units: &'a BTreeMap<String, MetricOutcome>,
    /// Which seeds count, by their places; one that is here twice counts twice.
    pub(crate) seeds: Vec<usize>,
}

impl<'a> Runs<'a> {
    /// The same runs, of which other seeds count.
    pub(crate) fn with(&self, seeds: Vec<usize>) -> Runs<'a> {
        Runs { seeds, ..*self }
    }
}

impl Measured for Runs<'_> {
    fn figure(&self, metric: &str, variant: &str, index: usize) -> Option<Spread> {
        let variant = &self.variants[self.experiment.variant(variant)?];
        let by_seed = variant.metrics.get(metric)?.get(index)?.as_ref()?;
        Spread::of(&self.seeds.iter().map(|&seed| by_seed[seed]).collect::<Vec<_>>())
    }

    fn unit(&self, metric: &str) -> &str {
        self.units.get(metric).map_or("", |metric| &metric.unit)
    }
}

impl Outcome {
    /// Of all that an experiment runs with so many seeds: its variants, then those of the lab.
    pub(crate) fn new(experiment: &Experiment, seeds: usize, runs: &[VariantRuns]) -> Outcome {
        let (runs, of_lab) = runs.split_at(experiment.variants.len());
        let file = &experiment.file;
        let unit = |name: &str| runs.iter().find_map(|runs| runs.units.get(name).cloned());
        let metrics: BTreeMap<_, _> = file
            .metric
            .iter()
            .map(|(name, metric)| {
                let unit = unit(name).unwrap_or_default();
                (name.clone(), MetricOutcome { label: metric.label.clone(), unit })
            })
            .collect();
        let variants: Vec<_> = experiment
            .variants
            .iter()
            .zip(runs)
            .map(|(variant, runs)| VariantOutcome {
                name: variant.name.clone(),
                scenario: variant.scenario.clone(),
                policy: variant.policy.to_string(),
                set: variant.set.clone(),
                length_ns: variant.length.0,
                fairness: runs.fairness,
                switches_per_s: runs.switches_per_s,
                metrics: runs
                    .metrics
                    .iter()
                    .map(|(name, figures)| {
                        let spreads = (0..figures.len()).map(|index| runs.spread(name, index));
                        (name.clone(), spreads.collect())
                    })
                    .collect(),
            })
            .collect();
        let measured =
            Runs { experiment, variants: runs, units: &metrics, seeds: (0..seeds).collect() };
        let claims = experiment.claims().map(|(_, claim)| {
            let (state, verdict) =
                state_of(claim, &measured, &experiment.published_values(&claim.test));
            ClaimOutcome {
                says: claim.says.clone(),
                source: experiment.source_of(claim),
                state,
                expected: verdict.expected,
                measured: verdict.measured,
                known: claim.known.clone(),
                chosen_after: claim.chosen_after.clone(),
            }
        });
        let claims: Vec<_> = claims.collect();
        Outcome {
            name: experiment.name.clone(),
            title: file.title.clone(),
            publication: file.publication.clone(),
            open: file.open.clone(),
            switches: file.switches.clone(),
            free: file.free.clone(),
            tolerances: file.tolerances.clone(),
            statements: experiment.settled(&claims),
            claims,
            figures: figures(experiment, &measured),
            matrix: matrix(experiment, &measured),
            lab: experiment.lab.as_ref().map(|lab| lab.outcome(of_lab)),
            metrics,
            variants,
        }
    }
}

impl Experiment {
    /// The values of `published.toml` that a test of a figure is about; none for other tests.
    pub(crate) fn published_values(&self, test: &crate::file::Test) -> Vec<Published<'_>> {
        let crate::file::Test::Near { figure: name, constant_at, .. } = test else { return vec![] };
        let mut values = vec![];
        for figure in self.file.figure.iter().filter(|figure| figure.name == *name) {
            for curve in &figure.curve {
                for point in self.points(figure, curve) {
                    if let Some(value) = value_at(&self.published, name, &curve.name, point.x) {
                        let constant = constant_at.as_ref().and_then(|x| {
                            let at = |tables| value_at(tables, name, &curve.name, x);
                            at(&self.published).or_else(|| at(&self.calibrated))
                        });
                        values.push(Published { curve: &curve.name, point, value, constant });
                    }
                }
            }
        }
        values
    }
}

fn figures(experiment: &Experiment, measured: &Runs<'_>) -> Vec<FigureOutcome> {
    let figure = |figure: &crate::file::Figure| {
        let point = |curve: &str, point: Point<'_>| {
            let value = |tables| value_at(tables, &figure.name, curve, point.x);
            let calibrated = value(&experiment.calibrated);
            PointOutcome {
                measured: measured.figure(point.metric, &point.variant, point.index),
                published: value(&experiment.published).or(calibrated),
                calibrated: calibrated.is_some(),
            }
        };
        let curves = figure.curve.iter().map(|curve| CurveOutcome {
            name: curve.name.clone(),
            points: experiment.points(figure, curve).map(|p| point(&curve.name, p)).collect(),
        });
        let tables = experiment.published.iter().chain(&experiment.calibrated);
        let sources: BTreeSet<_> = tables
            .filter(|table| table.figure == figure.name)
            .map(|table| table.source.clone())
            .collect();
        let metric = &measured.units[&figure.metric];
        FigureOutcome {
            name: figure.name.clone(),
            title: figure.title.clone(),
            sources: sources.into_iter().collect(),
            x_label: figure.x_label.clone(),
            y_label: metric.label.clone(),
            unit: metric.unit.clone(),
            logarithmic: figure.logarithmic,
            x: figure.x.clone(),
            curves: curves.collect(),
        }
    };
    experiment.file.figure.iter().map(figure).collect()
}

fn matrix(experiment: &Experiment, measured: &Runs<'_>) -> Option<MatrixOutcome> {
    let matrix = experiment.file.matrix.as_ref()?;
    let value_of = |policy: &str| measured.figure(&matrix.metric, &matrix.variant_of(policy), 0);
    let better = |value: Option<Spread>, than: Option<Spread>| {
        let times = value.zip(than).map(|(value, than)| match matrix.better {
            Better::Lower => than.median / value.median,
            Better::Higher => value.median / than.median,
        });
        times.filter(|times| times.is_finite())
    };
    let baseline = value_of(&matrix.baseline);
    let cell = |policy: &str, meant: bool| {
        let variant = experiment.variant(&matrix.variant_of(policy)).filter(|_| meant);
        let variant = variant.map(|index| &measured.variants[index]);
        let value = variant.and_then(|_| value_of(policy));
        Cell {
            policy: policy.to_owned(),
            value,
            gain: better(value, baseline),
            fairness: variant.map(|variant| variant.fairness),
            switches_per_s: variant.map(|variant| variant.switches_per_s),
        }
    };
    let systems = SYSTEMS.iter().map(|known| {
        let without = matrix.without.get(known.policy).cloned();
        let meant = without.is_none();
        let (system, base) = (cell(known.policy, meant), cell(known.base, meant));
        SystemOutcome {
            own: known.experiment == Some(experiment.name.as_str()),
            best: false,
            without,
            effect: better(system.value, base.value),
            system,
            base,
        }
    });
    let mut systems: Vec<SystemOutcome> = systems.collect();
    let most = systems.iter().filter_map(|on| on.system.gain).fold(f64::NEG_INFINITY, f64::max);
    for on in &mut systems {
        on.best = on.system.gain == Some(most);
    }
    let metric = &measured.units[&matrix.metric];
    Some(MatrixOutcome {
        label: metric.label.clone(),
        unit: metric.unit.clone(),
        better: matrix.better,
        baseline: cell(&matrix.baseline, true),
        systems,
    })
}
