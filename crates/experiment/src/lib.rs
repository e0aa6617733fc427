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
mod measure;
mod outcome;
mod run;

pub use experiment::{Experiment, Files, Variant, named, names};
pub use file::{Better, Known, X};
pub use measure::Spread;
pub use outcome::{
    Cell, ClaimOutcome, CurveOutcome, FigureOutcome, Figures, MatrixOutcome, MetricOutcome,
    Outcome, PointOutcome, Reproduction, State, VariantOutcome,
};
pub use run::run;

/// The published systems in the order in which they are shown, and what each extends.
pub const SYSTEMS: [(&str, &str); 5] = [
    ("mcredit2", "credit2@xen-4.5"),
    ("boost-credit", "credit@xen-3.3"),
    ("app-slice", "credit@xen-4.2"),
    ("load-weight", "credit@xen-4.2"),
    ("lockvisor", "fair@cfs"),
];
