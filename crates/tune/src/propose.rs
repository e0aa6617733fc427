// SPDX-License-Identifier: GPL-2.0-only
//! What to try next. Each new setting is one of the best tenth so far with a change or a few more, or one less; which
//! value a change takes says a tree-structured Parzen estimator of its dimension (crate `tpe`; J. Bergstra, R. Bardenet, Y.
//! Bengio, B. Kégl: Algorithms for Hyper-Parameter Optimization, NIPS 2011), which is told of all settings in their
//! order from best to worst. So several goals, and what is to be kept, count as [`crate::order`] counts them.

use std::collections::HashMap;

use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use tpe::TpeOptimizer;

use crate::Vary;
use crate::space::{Setting, Space, Values};

/// The best of so many are what new ones are made of.
const BEST: usize = 10;
/// Another change follows with this probability, up to so many.
const ANOTHER: f64 = 0.5;
const CHANGES: usize = 4;
/// So often something new is looked for before it is given up.
const ATTEMPTS: usize = 200;

/// Makes settings that were not tried; of one seed and the same history always the same.
pub struct Proposer<'a> {
    space: &'a Space<'a>,
    random: Xoshiro256PlusPlus,
    /// Dimensions by what somebody asked to vary: each kind is as likely as another, however many dimensions it has.
    kinds: Vec<Vec<usize>>,
}

impl<'a> Proposer<'a> {
    pub fn new(space: &'a Space<'a>, seed: u64) -> Proposer<'a> {
        let kinds = Vary::ALL.map(|(_, vary)| {
            let dimensions = space.dimensions.iter().enumerate();
            dimensions.filter(|(_, it)| it.vary == vary).map(|(number, _)| number).collect()
        });
        let kinds = kinds.into_iter().filter(|kind: &Vec<usize>| !kind.is_empty()).collect();
        Proposer { space, random: Xoshiro256PlusPlus::seed_from_u64(seed), kinds }
    }

    /// Up to so many settings, none of them in `tried`, which is ordered from best to worst; fewer if nothing new is
    /// found.
    pub fn propose(&mut self, tried: &[&Setting], most: usize) -> Vec<Setting> {
        let mut models = Models { space: self.space, tried, of: HashMap::new(), hosts: vec![] };
        let mut proposed: Vec<Setting> = vec![];
        let best = &tried[..tried.len().div_ceil(BEST)];
        for _ in 0..ATTEMPTS {
            if proposed.len() == most {
                break;
            }
            let Some(parent) = best.choose(&mut self.random) else { break };
            let child = self.change(parent, &mut models);
            if !tried.contains(&&child) && !proposed.contains(&child) {
                proposed.push(child);
            }
        }
        proposed
    }

    fn change(&mut self, parent: &Setting, models: &mut Models) -> Setting {
        let mut child = parent.clone();
        for number in 0..CHANGES {
            if number > 0 && !self.random.random_bool(ANOTHER) {
                break;
            }
            // One step among the kinds is back, so that changes that do nothing do not pile up.
            let step = self.random.random_range(0..=self.kinds.len());
            let Some(kind) = self.kinds.get(step) else {
                let changed: Vec<usize> = child.0.keys().copied().collect();
                let back = changed.choose(&mut self.random);
                back.map(|dimension| child.0.remove(dimension));
                continue;
            };
            let (_, policy) = self.space.host(&child);
            let meant: Vec<usize> =
                kind.iter().copied().filter(|&it| self.space.has_meaning(it, &policy)).collect();
            let Some(&dimension) = meant.choose(&mut self.random) else { continue };
            let value = models.ask(dimension, &mut self.random);
            child.0.insert(dimension, value);
        }
        self.space.tidy(&child)
    }
}

/// The estimator of each dimension, made when it is asked.
struct Models<'a> {
    space: &'a Space<'a>,
    /// From best to worst.
    tried: &'a [&'a Setting],
    of: HashMap<usize, TpeOptimizer>,
    /// Those that the settings make, once somebody asks.
    hosts: Vec<(steelyard_simulator::config::Setup, steelyard_policy::Policy)>,
}

impl Models<'_> {
    fn ask(&mut self, dimension: usize, random: &mut Xoshiro256PlusPlus) -> u64 {
        let values = &self.space.dimensions[dimension].values;
        if self.hosts.is_empty() {
            self.hosts = self.tried.iter().map(|setting| self.space.host(setting)).collect();
        }
        let model = self.of.entry(dimension).or_insert_with(|| {
            let (mut model, least) = new_model(values);
            for (place, (setting, host)) in self.tried.iter().zip(&self.hosts).enumerate() {
                let value = self.space.value(dimension, setting, host);
                let told = value.map_or(f64::NAN, |value| to_model(values, value));
                // Rounding may lead out of the range.
                let told = if told < least { least } else { told };
                let _ = model.tell(told, place as f64);
            }
            model
        });
        let Ok(asked) = model.ask(random);
        from_model(values, asked)
    }
}

/// An estimator of these values, and the beginning of its range. Numbers are told by their logarithm.
fn new_model(values: &Values) -> (TpeOptimizer, f64) {
    let (estimator, least, most) = match values {
        Values::Choices(names) => (tpe::histogram_estimator(), 0.0, names.len() as f64),
        Values::Numbers { least, most } => {
            (tpe::parzen_estimator(), (*least as f64).ln(), ((*most + 1) as f64).ln())
        }
    };
    // Never empty: there is a choice at least, and the greatest number is not less than the least.
    let range = tpe::range(least, most).unwrap_or_else(|_| unreachable!("{least}..{most}"));
    (TpeOptimizer::new(estimator, range), least)
}

fn to_model(values: &Values, value: u64) -> f64 {
    match values {
        Values::Choices(_) => value as f64,
        Values::Numbers { .. } => (value as f64).ln(),
    }
}

/// Numbers have two digits that count: more are not worth writing down.
fn from_model(values: &Values, asked: f64) -> u64 {
    match values {
        Values::Choices(_) => asked as u64,
        Values::Numbers { least, most } => {
            let value = asked.exp();
            let scale = 10_f64.powi((value.log10().floor() as i32 - 1).max(0));
            (((value / scale).round() * scale) as u64).clamp(*least, *most)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_two_digits_and_stay_in_range() {
        let values = Values::Numbers { least: 3, most: 1_234_567 };
        for (asked, value) in
            [(1.0_f64, 3), (7.4, 7), (123.0, 120), (987_654.0, 990_000), (1e9, 1_234_567)]
        {
            assert_eq!(from_model(&values, asked.ln()), value);
        }
        assert_eq!(from_model(&Values::Choices(vec![]), 3.7), 3);
    }
}
