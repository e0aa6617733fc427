// SPDX-License-Identifier: GPL-2.0-only
//! Tries settings, a generation at a time, and keeps what was measured of each. A generation has the same size whatever
//! the number of threads, so that the search goes the same way.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use steelyard_experiment::Spread;
use steelyard_goal::{Goal, Keep};
use steelyard_simulator::measure::Run;

use crate::order::{Score, order};
use crate::propose::Proposer;
use crate::space::{Setting, Space};
use crate::{Bench, Part, Question};

/// Settings that are made of the same history, and simulated together.
const GENERATION: usize = 16;

/// What was measured of a setting: a figure per seed, none where nothing was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// Of each goal.
    pub goals: Vec<Vec<Option<f64>>>,
    /// Of each figure to keep.
    pub keeps: Vec<Vec<Option<f64>>>,
    /// How many caps, pins and reservations that held before did not hold.
    pub forgotten: Vec<u32>,
}

/// A setting and what it does.
#[derive(Clone, Debug)]
pub struct Tried {
    pub setting: Setting,
    pub figures: Figures,
    pub score: Score,
}

impl Figures {
    /// Of runs of a host, with those of the host as it is with the same seeds.
    pub fn of(question: &Question, runs: &[Run], now: &[Run]) -> Figures {
        let pairs = || runs.iter().zip(now);
        let goal = |goal: &Goal| runs.iter().map(|run| goal.value(run)).collect();
        let keep = |keep: &Keep| pairs().map(|(run, now)| keep.value(run, now)).collect();
        Figures {
            goals: question.goals.iter().map(goal).collect(),
            keeps: question.keeps.iter().map(keep).collect(),
            forgotten: pairs().map(|(run, now)| forgotten(run, now)).collect(),
        }
    }

    /// Whether they are of so many goals, of what is to be kept and of seeds.
    pub fn fits(&self, goals: usize, keeps: usize, seeds: usize) -> bool {
        let full = |figures: &[Vec<Option<f64>>]| figures.iter().all(|it| it.len() == seeds);
        self.goals.len() == goals
            && self.keeps.len() == keeps
            && self.forgotten.len() == seeds
            && full(&self.goals)
            && full(&self.keeps)
    }

    pub(crate) fn score(&self, question: &Question) -> Score {
        let keeps = question.keeps.iter().zip(&self.keeps).map(|(keep, values)| {
            spread(values).map_or(f64::INFINITY, |spread| keep.shortfall(spread.median))
        });
        let forgotten = self.forgotten.iter().max().copied().unwrap_or(0);
        let medians = self.goals.iter().map(|values| spread(values).map(|spread| spread.median));
        let goals = question.goals.iter().zip(medians);
        let losses: Option<Vec<f64>> =
            goals.map(|(goal, median)| Some(goal.loss(median?))).collect();
        let measured = losses.is_some();
        Score {
            violation: match measured {
                true => keeps.sum::<f64>() + f64::from(forgotten),
                false => f64::INFINITY,
            },
            losses: losses.unwrap_or_else(|| vec![f64::MAX; question.goals.len()]),
        }
    }
}

/// Of figures that were measured with every seed.
pub fn spread(values: &[Option<f64>]) -> Option<Spread> {
    Spread::of(&values.iter().copied().collect::<Option<Vec<f64>>>()?)
}

/// What was asked for and held, and does not hold any more.
fn forgotten(run: &Run, now: &Run) -> u32 {
    let pairs = run.domains.iter().zip(&now.domains);
    pairs.map(|(then, now)| then.unhonoured.len().saturating_sub(now.unhonoured.len()) as u32).sum()
}

/// A search under way.
pub struct Search<'a, B: Bench> {
    pub question: &'a Question<'a>,
    pub space: &'a Space<'a>,
    pub bench: &'a mut B,
    /// The host as it is, as far as the search may see.
    now: Vec<Run>,
    /// In the order in which they were tried; the first is the host as it is.
    pub tried: Vec<Tried>,
    numbers: HashMap<Setting, usize>,
}

impl<'a, B: Bench> Search<'a, B> {
    pub fn new(
        question: &'a Question<'a>,
        space: &'a Space<'a>,
        bench: &'a mut B,
    ) -> Result<Search<'a, B>, B::Error> {
        let host = [(question.setup, question.policy)];
        let now = bench.simulate(&host, Part::Search)?.pop().unwrap_or_default();
        Ok(Search { question, space, bench, now, tried: vec![], numbers: HashMap::new() })
    }

    /// Simulated time of each run.
    pub fn length_ns(&self) -> u64 {
        self.now.first().map_or(0, |run| run.elapsed_ns)
    }

    /// Tries as many as are asked for, or as there are.
    pub fn run(&mut self) -> Result<(), B::Error> {
        let wanted = self.question.settings;
        let mut beginning = self.space.beginning();
        beginning.truncate(wanted);
        for generation in beginning.chunks(GENERATION) {
            self.evaluate(generation)?;
        }
        let mut proposer = Proposer::new(self.space, self.question.seed);
        while self.tried.len() < wanted {
            let ordered = self.ordered();
            let best_first: Vec<&Setting> =
                ordered.iter().map(|&number| &self.tried[number].setting).collect();
            // Always whole generations: with more settings asked for the search begins the same way.
            let mut generation = proposer.propose(&best_first, GENERATION);
            generation.truncate(wanted - self.tried.len());
            if generation.is_empty() {
                break;
            }
            self.evaluate(&generation)?;
        }
        Ok(())
    }

    /// Numbers of what was tried, best first.
    pub fn ordered(&self) -> Vec<usize> {
        let scores: Vec<Score> = self.tried.iter().map(|tried| tried.score.clone()).collect();
        order(&scores)
    }

    /// Numbers of these settings among what was tried; those that were not are tried now.
    pub fn evaluate(&mut self, settings: &[Setting]) -> Result<Vec<usize>, B::Error> {
        let mut new: Vec<&Setting> = vec![];
        for setting in settings {
            if !self.numbers.contains_key(setting) && !new.contains(&setting) {
                new.push(setting);
            }
        }
        let written: Vec<_> = new.iter().map(|setting| self.space.written(setting)).collect();
        let mut figures: Vec<_> = written.iter().map(|it| self.bench.recall(it)).collect();
        let unknown: Vec<usize> = (0..new.len()).filter(|&it| figures[it].is_none()).collect();
        let hosts: Vec<_> = unknown.iter().map(|&number| self.space.host(new[number])).collect();
        let asked: Vec<_> = hosts.iter().map(|(setup, policy)| (setup, policy)).collect();
        let runs = match asked.is_empty() {
            true => vec![],
            false => self.bench.simulate(&asked, Part::Search)?,
        };
        for (number, runs) in unknown.into_iter().zip(runs) {
            figures[number] = Some(Figures::of(self.question, &runs, &self.now));
        }
        for ((setting, written), figures) in new.into_iter().zip(&written).zip(figures) {
            let Some(figures) = figures else { continue };
            self.bench.note(written, &figures)?;
            let score = figures.score(self.question);
            self.numbers.insert(setting.clone(), self.tried.len());
            self.tried.push(Tried { setting: setting.clone(), figures, score });
        }
        Ok(settings.iter().filter_map(|setting| self.numbers.get(setting).copied()).collect())
    }
}
