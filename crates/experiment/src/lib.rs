// SPDX-License-Identifier: GPL-2.0-only
//! Published experiments that can be run (their form is described in `docs/experiments.md`).
//!
//! An [`Experiment`] is read from one folder: scenarios, the variants to run them in, what is
//! measured, what was published and the claims about it. [`run`] runs every variant with every seed
//! and gives an [`Outcome`] per experiment: what was measured beside what was published, and which
//! claims hold.

mod claim;
mod experiment;
mod file;
mod lab;
mod measure;
mod outcome;
mod run;
mod statement;
mod verdict;

pub use experiment::{Experiment, Files, Variant, named, names};
pub use file::{Better, Free, Known, Statement, X};
pub use lab::{LabFigure, LabOutcome, LabRow, Machine};
pub use measure::Spread;
pub use outcome::{
    Cell, ClaimOutcome, CurveOutcome, FigureOutcome, Figures, MatrixOutcome, MetricOutcome,
    Outcome, PointOutcome, Reproduction, Settled, State, StatementOutcome, SystemOutcome,
    VariantOutcome,
};
pub use run::{run, unwatched};

/// A published system, ours, or a stock scheduler of today.
pub struct System {
    /// Its name as a policy.
    pub policy: &'static str,
    /// What it extends; of a stock scheduler what was stock before it.
    pub base: &'static str,
    /// The experiment that it was published with.
    pub experiment: Option<&'static str>,
}

const fn published(policy: &'static str, base: &'static str, experiment: &'static str) -> System {
    System { policy, base, experiment: Some(experiment) }
}

const fn other(policy: &'static str, base: &'static str) -> System {
    System { policy, base, experiment: None }
}

/// The systems in the order in which they are shown.
pub const SYSTEMS: [System; 9] = [
    published("mcredit2", "credit2@xen-4.5", "mcredit2"),
    published("boost-credit", "credit@xen-3.3", "boost-credit"),
    published("app-slice", "credit@xen-4.2", "app-slice"),
    published("load-weight", "credit@xen-4.2", "load-weight"),
    published("lockvisor", "fair@cfs", "cosched"),
    other("poise", "fair@eevdf"),
    other("fair@eevdf", "fair@cfs"),
    other("credit2@xen-4.20", "credit@xen-4.20"),
    other("credit@xen-4.20", "credit@xen-4.2"),
];
