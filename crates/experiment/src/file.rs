// SPDX-License-Identifier: GPL-2.0-only
//! The tables of `experiment.toml`, `published.toml` and `calibration.toml` (described in
//! `docs/experiments.md`).

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use steelyard_simulator::units::Nanoseconds;

/// `experiment.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentFile {
    /// What is found out, in a line.
    pub title: String,
    /// Where it was published.
    pub publication: String,
    /// What the publication left open.
    #[serde(default)]
    pub open: Vec<String>,
    /// How ambiguous places were read: the switches in use.
    #[serde(default)]
    pub switches: Vec<String>,
    /// What was not published, and from where to where it may be.
    #[serde(default)]
    pub free: Vec<Free>,
    /// Why the claims' tolerances are what they are, where none was published.
    #[serde(default)]
    pub tolerances: Option<String>,
    /// What is measured, by the name that claims and figures use.
    #[serde(default)]
    pub metric: BTreeMap<String, Metric>,
    /// What is run.
    pub variant: Vec<VariantEntry>,
    /// What is drawn.
    #[serde(default)]
    pub figure: Vec<Figure>,
    /// What the publication claims.
    #[serde(default)]
    pub claim: Vec<Claim>,
    /// What it does not: the project's own claims.
    #[serde(default)]
    pub ours: Vec<Claim>,
    /// The five systems on this experiment.
    #[serde(default)]
    pub matrix: Option<Matrix>,
}

/// A free parameter: what was not published, and has to be something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Free {
    /// What it is, and what it is here.
    pub says: String,
    /// From where to where it may be, and why.
    pub range: String,
    /// Other settings of it, the ends of the range at least: of each, what `--set` takes.
    pub settings: Vec<Vec<String>>,
}

/// What is measured in a run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metric {
    /// What people call it.
    pub label: String,
    /// Of the whole host.
    #[serde(default)]
    pub host: Option<HostMeasure>,
    /// Of a domain; with `*` at the end, of all whose names begin so.
    #[serde(default)]
    pub domain: Option<String>,
    /// Times of the domain's vCPUs.
    #[serde(default)]
    pub time: Option<TimeMeasure>,
    /// A task of the domain ...
    #[serde(default)]
    pub task: Option<String>,
    /// ... and the figure that it reports.
    #[serde(default)]
    pub value: Option<String>,
    /// Of a value that is a mean: the rate, of the same task, of what it is the mean over. Without
    /// it a mean cannot be measured from a later time on.
    #[serde(default)]
    pub per: Option<String>,
    /// How several domains become one figure.
    #[serde(default)]
    pub over: Over,
    /// Measured from this time on.
    #[serde(default)]
    pub from: Nanoseconds,
    /// A series: measured anew after each such time.
    #[serde(default)]
    pub every: Option<Nanoseconds>,
    /// A run ends once this is known, and all others that say so: it is looked at every second.
    #[serde(default)]
    pub ends_run: bool,
}

/// Of the whole host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostMeasure {
    /// Time with no vCPU, in percent of one pCPU.
    IdlePercent,
    /// Jain's index over the domains' share / entitlement.
    Fairness,
    /// Switches to another vCPU.
    SwitchesPerS,
}

/// Of a domain's vCPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeMeasure {
    /// CPU time in percent of one pCPU.
    SharePercent,
    /// The longest single wait.
    WorstWaitMs,
    /// 99 % of the waits are no longer.
    #[serde(rename = "wait_p99_ms")]
    WaitP99Ms,
    /// Runnable and not running, in percent of elapsed time, summed over vCPUs.
    WaitedPercent,
    /// Spinning for locks, in percent of one pCPU.
    SpunPercent,
}

/// How the figures of several domains become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// Added up.
    #[default]
    Sum,
    /// Their mean.
    Mean,
    /// The greatest.
    Max,
    /// The least.
    Min,
}

/// A run, or one for each combination of the values in `each`, which stand wherever `{key}` does.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VariantEntry {
    /// Unique in the experiment.
    pub name: String,
    /// The scenario's file, without `.toml`.
    pub scenario: String,
    /// The policy.
    pub policy: String,
    /// Changes, as `--set` takes them.
    #[serde(default)]
    pub set: Vec<String>,
    /// Values by key.
    #[serde(default)]
    pub each: BTreeMap<String, Vec<X>>,
}

/// A place on an axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum X {
    /// A number.
    Number(f64),
    /// A word.
    Word(String),
}

impl fmt::Display for X {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            X::Number(number) => number.fmt(formatter),
            X::Word(word) => formatter.write_str(word),
        }
    }
}

/// Curves over common places. If a curve's metric is a series, places are the ends of its intervals
/// in seconds; else `{x}` stands for the place in the variant's name.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Unique in the experiment; tables of published figures refer to it.
    pub name: String,
    /// Heading.
    pub title: String,
    /// What the places are.
    pub x_label: String,
    /// Places.
    pub x: Vec<X>,
    /// The metric of curves that name no other.
    pub metric: String,
    /// Whether values are drawn on a logarithmic axis.
    #[serde(default)]
    pub logarithmic: bool,
    /// The curves.
    pub curve: Vec<Curve>,
}

/// Part of a [`Figure`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// Unique in the figure.
    pub name: String,
    /// Name of its variants, with `{x}` for the place.
    pub variant: String,
    /// Its metric, if not the figure's.
    #[serde(default)]
    pub metric: Option<String>,
}

/// `published.toml`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedFile {
    /// Everything that the publication says in numbers or comparisons.
    #[serde(default)]
    pub statement: Vec<Statement>,
    /// What was published and is checked.
    #[serde(default)]
    pub table: Vec<Table>,
}

/// `calibration.toml`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalibrationFile {
    /// Parameters of the scenarios that were fitted.
    #[serde(default)]
    pub parameter: Vec<Parameter>,
    /// What was published and used for that. None of it is checked.
    #[serde(default)]
    pub table: Vec<Table>,
}

/// A number or a comparison of a publication: what it found, or what it set.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// Unique in the experiment; claims name it.
    pub name: String,
    /// Page, section, figure or table.
    pub source: String,
    /// What it says.
    pub says: String,
    /// The figure whose tables have its values ...
    #[serde(default)]
    pub figure: Option<String>,
    /// ... and the curve.
    #[serde(default)]
    pub curve: Option<String>,
    /// Of what was set: the file that has it, a colon, and what there.
    #[serde(default)]
    pub here: Option<String>,
    /// How that differs from what was set.
    #[serde(default)]
    pub differs: Option<String>,
    /// Why nothing is claimed of what was found ...
    #[serde(default)]
    pub no_claim_yet: Option<String>,
    /// ... or why it cannot be reproduced.
    #[serde(default)]
    pub not_reproducible: Option<String>,
}

/// Published figures as they were printed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// The figure that they belong to.
    pub figure: String,
    /// Where they were printed.
    pub source: String,
    /// Places: some of the figure's.
    pub x: Vec<X>,
    /// By curve, a value for each place; `nan` where the print is illegible.
    pub values: BTreeMap<String, Vec<f64>>,
}

/// A parameter that was fitted.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// The scenarios that it stands in.
    pub scenarios: Vec<String>,
    /// The way to it, as in `--set`.
    pub key: String,
    /// Its value, as it stands there.
    pub value: String,
    /// The figure in `calibration.toml` that it was fitted on.
    pub fitted_on: String,
}

/// Something that is claimed, and how it is tested.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The statement.
    pub says: String,
    /// The statements of `published.toml` that it is about; none of ours.
    #[serde(default)]
    pub of: Vec<String>,
    /// What must be so.
    pub test: Test,
    /// Why it is known not to hold.
    #[serde(default)]
    pub known: Option<Known>,
    /// What had been seen of what it decides when it, or what it stands on, was chosen.
    #[serde(default)]
    pub chosen_after: Option<String>,
}

/// A claim that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// The reason that was found.
    pub because: String,
    /// What would make it hold.
    #[serde(default)]
    pub turned_by: Option<String>,
}

/// What must be so of the medians over seeds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Test {
    /// Each variant has more than the one before it.
    Increasing {
        /// What of.
        metric: String,
        /// In order.
        variants: Vec<String>,
        /// By at least so many percent of the one before.
        #[serde(default)]
        by_percent: f64,
    },
    /// No two variants are further apart than this, in percent of the lesser.
    Equal {
        /// What of.
        metric: String,
        /// In any order.
        variants: Vec<String>,
        /// At most.
        tolerance_percent: f64,
    },
    /// One variant has so much.
    Bounds {
        /// What of.
        metric: String,
        /// Whose.
        variant: String,
        /// At least.
        #[serde(default)]
        at_least: Option<f64>,
        /// At most.
        #[serde(default)]
        at_most: Option<f64>,
    },
    /// One variant has so many times as much as another.
    Ratio {
        /// What of.
        metric: String,
        /// The one.
        of: String,
        /// The other.
        to: String,
        /// At least.
        #[serde(default)]
        at_least: Option<f64>,
        /// At most.
        #[serde(default)]
        at_most: Option<f64>,
    },
    /// What `published.toml` has of these curves is measured, in the mean over its values.
    Near {
        /// The figure.
        figure: String,
        /// Curves; none: all.
        #[serde(default)]
        curves: Vec<String>,
        /// Places; none: all.
        #[serde(default)]
        x: Vec<X>,
        /// Mean of |measured - published| / published, at most.
        #[serde(default)]
        mean_error_percent: Option<f64>,
        /// Mean of |measured - published| in the metric's unit, at most.
        #[serde(default)]
        mean_error: Option<f64>,
        /// And less than if every curve stayed at what was published of it here.
        #[serde(default)]
        constant_at: Option<X>,
    },
}

/// One metric under each of the five systems, against a baseline.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Matrix {
    /// Name of the variants, with `{policy}` for the system.
    pub variant: String,
    /// What is compared.
    pub metric: String,
    /// Which way is better.
    pub better: Better,
    /// The policy that the systems are compared with.
    pub baseline: String,
    /// Systems for which it has no meaning, and why.
    #[serde(default)]
    pub without: BTreeMap<String, String>,
}

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Less.
    Lower,
    /// More.
    Higher,
}
