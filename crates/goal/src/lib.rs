// SPDX-License-Identifier: GPL-2.0-only
//! The language of goals (`docs/tune.md`): which figure of which domain is to become as small or as great as it can
//! (`web: wait p99`), and what is to be kept meanwhile (`batch: share >= 80 % of entitled`).
//!
//! `figure` says what can be measured of whom, `keep` what bounds there are. A goal is read with the host at hand,
//! which says what domains there are and what their workloads tell.

mod figure;
mod keep;
mod parse;

pub use figure::Figure;
pub use keep::{Bound, Keep};

use steelyard_scenario::Diagnostic;
use steelyard_simulator::config::Domain;
use steelyard_simulator::measure::Run;

/// What goals are read by: the host that is meant.
#[derive(Clone, Copy, Debug)]
pub struct Host<'a> {
    /// Its domains.
    pub domains: &'a [Domain],
    /// A run of them, in the same order, which says what their workloads tell.
    pub run: &'a Run,
}

/// Which way a figure is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// As small as it can.
    Minimise,
    /// As great as it can.
    Maximise,
}

impl Direction {
    /// The option of a command line that asks for it.
    pub fn option(self) -> &'static str {
        match self {
            Direction::Minimise => "--minimise",
            Direction::Maximise => "--maximise",
        }
    }

    /// Of several domains the one that is worst off.
    fn worst(self, values: impl Iterator<Item = f64>) -> Option<f64> {
        match self {
            Direction::Minimise => values.reduce(f64::max),
            Direction::Maximise => values.reduce(f64::min),
        }
    }
}

/// A figure to better.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    /// Which way.
    pub direction: Direction,
    /// The figure.
    pub figure: Figure,
}

impl Goal {
    /// Reads `DOMAIN: METRIC`.
    ///
    /// # Errors
    /// What is wrong, where, and what would be right.
    pub fn parse(direction: Direction, text: &str, host: &Host<'_>) -> Result<Goal, Diagnostic> {
        parse::goal(direction, text, host)
    }

    /// The figure in a run, of several domains that of the one that is worst off; none where nothing was measured.
    pub fn value(&self, run: &Run) -> Option<f64> {
        // What one of them could not measure is not known of all.
        let values: Option<Vec<f64>> = self.figure.values(run).collect();
        self.direction.worst(values?.into_iter())
    }

    /// By how much less is better: the same for both directions.
    pub fn loss(&self, value: f64) -> f64 {
        match self.direction {
            Direction::Minimise => value,
            Direction::Maximise => -value,
        }
    }

    /// Whether the one is better than the other.
    pub fn prefers(&self, one: f64, other: f64) -> bool {
        self.loss(one) < self.loss(other)
    }
}
