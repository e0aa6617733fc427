// SPDX-License-Identifier: GPL-2.0-only
//! What is to be kept while goals are pursued.

use std::fmt;

use steelyard_scenario::Diagnostic;
use steelyard_simulator::measure::Run;

use crate::figure::Figure;
use crate::{Host, parse};

/// A figure that is to stay on one side of a bound, for each domain that it is about.
#[derive(Clone, Debug, PartialEq)]
pub struct Keep {
    /// As somebody wrote it.
    pub(crate) text: String,
    /// The figure.
    pub figure: Figure,
    /// Whether it is to be at least the bound, or at most.
    pub at_least: bool,
    /// The bound.
    pub bound: Bound,
}

/// Absolute, or a part of what the host gives as it is now, with the same seed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// In the figure's unit.
    Value(f64),
    /// Percent of what weighted max-min fairness gives the domain now.
    OfEntitled(f64),
    /// Percent of what the figure is now.
    OfNow(f64),
}

impl Keep {
    /// Reads `DOMAIN: METRIC >= VALUE [UNIT]` or `<=`; the unit may be `% of entitled` or `% of now`.
    ///
    /// # Errors
    /// What is wrong, where, and what would be right.
    pub fn parse(text: &str, host: &Host<'_>) -> Result<Keep, Diagnostic> {
        parse::keep(text, host)
    }

    /// The number of the bound.
    pub fn bound(&self) -> f64 {
        match self.bound {
            Bound::Value(bound) | Bound::OfEntitled(bound) | Bound::OfNow(bound) => bound,
        }
    }

    /// The unit of the bound, and of [`Keep::value`].
    pub fn unit(&self) -> &str {
        match self.bound {
            Bound::Value(_) => self.figure.unit(),
            Bound::OfEntitled(_) | Bound::OfNow(_) => "percent",
        }
    }

    /// What is held against the bound, of the domain that is nearest to breaking it or has; `now` is a run of the host
    /// as it is. None where there was nothing to measure.
    pub fn value(&self, run: &Run, now: &Run) -> Option<f64> {
        let values: Option<Vec<f64>> = self.figure.values(run).collect();
        let values = values?.into_iter();
        // Of nothing, nothing is all; more than nothing cannot be said in percent.
        let percent_of = |value: f64, whole: f64| match whole > 0.0 {
            true => 100.0 * value / whole,
            false if value <= 0.0 || self.at_least => 100.0,
            false => f64::INFINITY,
        };
        let relative: Vec<f64> = match self.bound {
            Bound::Value(_) => values.collect(),
            Bound::OfNow(_) => {
                let then: Option<Vec<f64>> = self.figure.values(now).collect();
                values.zip(then?).map(|(value, now)| percent_of(value, now)).collect()
            }
            Bound::OfEntitled(_) => {
                let domains = self.figure.domains().iter();
                let entitled = domains.map(|&it| Some(now.domains.get(it)?.entitlement_percent));
                let entitled: Option<Vec<f64>> = entitled.collect();
                values.zip(entitled?).map(|(value, due)| percent_of(value, due)).collect()
            }
        };
        let nearest = relative.into_iter().reduce(if self.at_least { f64::min } else { f64::max });
        nearest.filter(|value| value.is_finite())
    }

    /// By what part of the bound a value breaks it; 0 if it does not.
    pub fn shortfall(&self, value: f64) -> f64 {
        let bound = self.bound();
        let missing = if self.at_least { bound - value } else { value - bound };
        missing.max(0.0) / if bound == 0.0 { 1.0 } else { bound }
    }
}

/// As it was written, so others' text.
impl fmt::Display for Keep {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}
