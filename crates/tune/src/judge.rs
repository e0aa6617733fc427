// SPDX-License-Identifier: GPL-2.0-only
//! What comes of a search: the best settings without the changes that they do not need, what each change that is left
//! is worth, and the verdict by runs that the search has not seen.

use serde::Serialize;
use steelyard_advise::plan_file;
use steelyard_experiment::Spread;
use steelyard_goal::{Direction, Goal, Keep};
use steelyard_policy::Policy;
use steelyard_simulator::config::Setup;
use steelyard_simulator::measure::Run;

use crate::order::{Score, compromise, front, order};
use crate::search::{Figures, Search, Tried, spread};
use crate::space::{Setting, Space};
use crate::{Bench, Part, Question, shell};

/// So many settings of a front are looked at.
const MOST: usize = 8;
/// A change is not needed if without it, and all others that are not needed, so much of the gain is left: as in advice.
const NEARLY: f64 = 0.9;
/// What chance may look like a gain.
const CHANCE: f64 = 0.05;
/// Somebody else pays if they get less by so much of a pCPU and of what they had, or wait longer by so much and so many
/// times as long.
const LESS_POINTS: f64 = 0.5;
const LESS_FACTOR: f64 = 0.95;
const LONGER_NS: f64 = 1e6;
const LONGER_FACTOR: f64 = 1.25;

/// What is found.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The scheduler that the host has.
    pub policy: String,
    /// pCPUs of the host.
    pub pcpus: u32,
    /// Domains of the host.
    pub domains: usize,
    /// Runs of each setting in the search, and simulated time of each.
    pub search: Runs,
    /// Runs of the verdict.
    pub verdict: Runs,
    /// What was to be bettered.
    pub goals: Vec<Wanted>,
    /// And what to be kept.
    pub keeps: Vec<Wanted>,
    /// How many settings were tried.
    pub tried: usize,
    /// And how many of them keep what is to be kept.
    pub keeping: usize,
    /// By what factor replays are off, for each goal, if the host was recorded.
    pub errors: Option<Vec<f64>>,
    /// What gains: of one goal one, of several a front, first the one nearest to the best of each.
    pub proposals: Vec<Proposal>,
    /// What looked best in the search and is no gain by the verdict.
    pub rejected: Vec<Proposal>,
    /// Every setting that was tried, for files.
    #[serde(skip)]
    pub rows: Vec<Row>,
    /// Names of dimensions, the columns of rows.
    #[serde(skip)]
    pub dimensions: Vec<String>,
}

/// How often, and how long each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Runs {
    /// Seeds.
    pub seeds: usize,
    /// Simulated time.
    pub length_ns: u64,
}

/// A figure that somebody asks for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Wanted {
    /// As it was written; others' text.
    pub text: String,
    /// Unit of figures.
    pub unit: String,
    /// Whether more of it is better.
    pub maximise: bool,
}

/// A setting, and what it does.
#[derive(Clone, Debug, Serialize)]
pub struct Proposal {
    /// Its scheduler.
    pub policy: String,
    /// What it changes, what matters most first.
    pub changes: Vec<ChangeMade>,
    /// How many more changes it came with, which do not matter.
    pub needless: usize,
    /// Figures of the goals.
    pub goals: Vec<Judged>,
    /// And of what is to be kept.
    pub keeps: Vec<Judged>,
    /// Who else pays, most first.
    pub costs: Vec<Cost>,
    /// Looks at it again.
    pub compare: String,
    /// Makes it so on the host.
    pub commands: Vec<String>,
    /// What it changes of domains, as a plan of `steelyard apply`; none if that is nothing.
    pub plan: Option<String>,
}

/// One change, and what the setting is without it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChangeMade {
    /// Of what.
    pub name: String,
    /// As it is without this change; nothing if that is out of the range of the search.
    pub was: Option<String>,
    /// As it is then.
    pub then: String,
    /// By the runs of the search.
    pub without: Without,
}

/// A setting without one of its changes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Without {
    /// For each goal, the median; none where nothing was measured.
    pub goals: Vec<Option<f64>>,
    /// Whether it keeps what is to be kept.
    pub keeps: bool,
    /// What part of the gain is lost, of the goal that loses most.
    pub lost: f64,
}

/// A figure by the verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// Over seeds, as the host is.
    pub now: Option<Spread>,
    /// And with the setting.
    pub then: Option<Spread>,
    /// In so many of the runs it is better, or keeps its bound.
    pub good_runs: usize,
    /// Of a goal: better in `enough` runs, and by more than replays are off. Of what is to be kept: the median keeps it.
    pub holds: bool,
}

/// What somebody else pays: means over the runs of the verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// Who; others' text.
    pub domain: String,
    /// In percent of a pCPU, now and then.
    pub share_percent: (f64, f64),
    /// 99th percentile of waits, now and then.
    pub p99_ns: (f64, f64),
}

impl Wanted {
    fn of_goal(goal: &Goal) -> Wanted {
        let maximise = goal.direction == Direction::Maximise;
        Wanted { text: goal.figure.to_string(), unit: goal.figure.unit().to_owned(), maximise }
    }

    fn of_keep(keep: &Keep) -> Wanted {
        Wanted { text: keep.to_string(), unit: keep.unit().to_owned(), maximise: keep.at_least }
    }
}

impl Proposal {
    /// Whether it is a gain: all is kept, and something is better.
    fn gains(&self) -> bool {
        self.keeps.iter().all(|judged| judged.holds) && self.goals.iter().any(|it| it.holds)
    }
}

/// A setting for files.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its scheduler.
    pub policy: String,
    /// By dimension: its value, if it has a meaning there.
    pub values: Vec<Option<String>>,
    /// What was measured in the search.
    pub figures: Figures,
    pub(crate) score: Score,
    /// Whether it is one of the best.
    pub front: bool,
}

impl Row {
    /// Whether it keeps what is to be kept.
    pub fn keeps(&self) -> bool {
        self.score.violation == 0.0
    }
}

/// Judges what a search has found.
pub fn judge<B: Bench>(mut search: Search<'_, B>) -> Result<Outcome, B::Error> {
    let (question, space) = (search.question, search.space);
    let mut chosen: Vec<(Setting, usize)> = vec![];
    for number in best(&search) {
        let (setting, needless) = simplify(&mut search, number)?;
        if !setting.0.is_empty() && !chosen.iter().any(|(other, _)| *other == setting) {
            chosen.push((setting, needless));
        }
    }
    let mut hosts = vec![(question.setup.clone(), question.policy.clone())];
    hosts.extend(chosen.iter().map(|(setting, _)| space.host(setting)));
    let asked: Vec<_> = hosts.iter().map(|(setup, policy)| (setup, policy)).collect();
    let mut runs = search.bench.simulate(&asked, Part::Verdict)?.into_iter();
    let now = runs.next().unwrap_or_default();
    let mut judged = vec![];
    for (((setting, needless), host), runs) in chosen.iter().zip(&hosts[1..]).zip(runs) {
        let changes = changes(&mut search, setting)?;
        judged.push(propose(question, host, changes, *needless, &runs, &now));
    }
    let (proposals, rejected) = judged.into_iter().partition(Proposal::gains);
    let seeds = search.tried.first().map_or(0, |tried| tried.figures.forgotten.len());
    let elapsed_ns = now.first().map_or(0, |run| run.elapsed_ns);
    let keeping = search.tried.iter().filter(|tried| tried.score.violation == 0.0);
    Ok(Outcome {
        policy: question.label.to_owned(),
        pcpus: question.setup.host.pcpus(),
        domains: question.setup.domains.iter().filter(|it| it.is_vm()).count(),
        search: Runs { seeds, length_ns: search.length_ns() },
        verdict: Runs { seeds: now.len(), length_ns: elapsed_ns },
        goals: question.goals.iter().map(Wanted::of_goal).collect(),
        keeps: question.keeps.iter().map(Wanted::of_keep).collect(),
        tried: search.tried.len(),
        keeping: keeping.count(),
        errors: question.errors.map(<[f64]>::to_vec),
        proposals,
        rejected,
        rows: rows(&search),
        dimensions: space.dimensions.iter().map(|dimension| dimension.name.clone()).collect(),
    })
}

/// Numbers of those that are worth a verdict, the compromise first; none where nothing keeps what is to be kept.
fn best<B: Bench>(search: &Search<'_, B>) -> Vec<usize> {
    let scores: Vec<Score> = search.tried.iter().map(|tried| tried.score.clone()).collect();
    let keeping: Vec<usize> =
        (0..scores.len()).filter(|&number| scores[number].violation == 0.0).collect();
    let front = front(&scores, &keeping);
    let Some(middle) = compromise(&scores, &front) else { return vec![] };
    let spread_out = order(&scores).into_iter().filter(|number| front.contains(number));
    let others = spread_out.filter(|&number| number != middle);
    std::iter::once(middle).chain(others).take(MOST).collect()
}

/// What part of the gain over the host as it is one score has lost of another's, of the goal that loses most; infinite
/// if it breaks what is to be kept.
fn lost(now: &Score, with: &Score, without: &Score) -> f64 {
    if without.violation > with.violation {
        return f64::INFINITY;
    }
    let goals = now.losses.iter().zip(&with.losses).zip(&without.losses);
    let of = |((now, with), without): ((&f64, &f64), &f64)| match (now > with, without > with) {
        (true, _) => (without - with) / (now - with),
        // Where nothing is gained nothing may be lost.
        (false, true) => f64::INFINITY,
        (false, false) => 0.0,
    };
    goals.map(of).fold(f64::NEG_INFINITY, f64::max)
}

/// The setting without changes that it does not need, and how many those were: one after the other, first the one that
/// is missed least.
fn simplify<B: Bench>(
    search: &mut Search<'_, B>,
    number: usize,
) -> Result<(Setting, usize), B::Error> {
    let best = search.tried[number].score.clone();
    let now = search.tried[0].score.clone();
    let mut setting = search.tried[number].setting.clone();
    let before = setting.0.len();
    while !setting.0.is_empty() {
        let fewer: Vec<Setting> = without_each(search.space, &setting);
        let numbers = search.evaluate(&fewer)?;
        let losses = numbers.iter().map(|&it| lost(&now, &best, &search.tried[it].score));
        let least = losses.enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
        match least {
            Some((place, lost)) if lost <= 1.0 - NEARLY => setting = fewer[place].clone(),
            _ => break,
        }
    }
    let needless = before - setting.0.len();
    Ok((setting, needless))
}

/// The setting without one change, for each of its changes in their order.
fn without_each(space: &Space, setting: &Setting) -> Vec<Setting> {
    let without = |dimension: &usize| {
        let mut fewer = setting.clone();
        fewer.0.remove(dimension);
        space.tidy(&fewer)
    };
    setting.0.keys().map(without).collect()
}

/// What the setting changes, and what it is without each change, those first without which most is lost.
fn changes<B: Bench>(
    search: &mut Search<'_, B>,
    setting: &Setting,
) -> Result<Vec<ChangeMade>, B::Error> {
    let space = search.space;
    let with = search.evaluate(std::slice::from_ref(setting))?;
    let without = search.evaluate(&without_each(space, setting))?;
    let score = |number: usize| &search.tried[number].score;
    let (now, with) = (score(0), with.first().map_or(score(0), |&number| score(number)));
    let change = |((&dimension, &value), number): ((&usize, &u64), &usize)| {
        let Tried { setting, figures, score } = &search.tried[*number];
        let was = space.value(dimension, setting, &space.host(setting));
        ChangeMade {
            name: space.dimensions[dimension].name.clone(),
            was: was.map(|value| space.format(dimension, value)),
            then: space.format(dimension, value),
            without: Without {
                goals: figures.goals.iter().map(|it| Some(spread(it)?.median)).collect(),
                keeps: score.violation == 0.0,
                lost: lost(now, with, score),
            },
        }
    };
    let mut changes: Vec<_> = setting.0.iter().zip(&without).map(change).collect();
    changes.sort_by(|a, b| b.without.lost.total_cmp(&a.without.lost));
    Ok(changes)
}

fn propose(
    question: &Question,
    host: &(Setup, Policy),
    changes: Vec<ChangeMade>,
    needless: usize,
    runs: &[Run],
    now: &[Run],
) -> Proposal {
    let then = Figures::of(question, runs, now);
    let now_figures = Figures::of(question, now, now);
    let pairs = then.goals.iter().zip(&now_figures.goals);
    let goals = question.goals.iter().zip(pairs).enumerate().map(|(number, (goal, pair))| {
        let (then, now) = pair;
        let better = |(then, now): &(&Option<f64>, &Option<f64>)| {
            then.zip(**now).is_some_and(|(then, now)| goal.prefers(then, now))
        };
        let good_runs = then.iter().zip(now).filter(better).count();
        let (now_spread, then_spread) = (spread(now), spread(then));
        let doubt = question.errors.and_then(|errors| errors.get(number)).copied().unwrap_or(1.0);
        let factor = now_spread
            .zip(then_spread)
            .map_or(1.0, |(now, then)| steelyard_report::factor(now.median, then.median));
        let holds = good_runs >= enough(then.len()) && factor > doubt;
        Judged { now: now_spread, then: then_spread, good_runs, holds }
    });
    let goals = goals.collect();
    let all_kept = then.forgotten.iter().all(|&forgotten| forgotten == 0);
    let pairs = then.keeps.iter().zip(&now_figures.keeps);
    let keeps = question.keeps.iter().zip(pairs).map(|(keep, (then, now))| {
        let kept = |value: f64| keep.shortfall(value) == 0.0;
        let then_spread = spread(then);
        Judged {
            now: spread(now),
            then: then_spread,
            good_runs: then.iter().filter(|value| value.is_some_and(kept)).count(),
            holds: all_kept && then_spread.is_some_and(|spread| kept(spread.median)),
        }
    });
    Proposal {
        policy: host.1.to_string(),
        changes,
        needless,
        goals,
        keeps: keeps.collect(),
        costs: costs(question, runs, now),
        compare: shell::compare(question, host),
        commands: shell::on_the_host(question, host),
        plan: plan_file(question.setup, &host.0),
    }
}

/// In so many of these runs a setting has to be better for chance alone to be unlikely, by a sign test: were it better and
/// worse equally often, it would be better in as many in less than one of twenty verdicts.
pub fn enough(runs: usize) -> usize {
    let mut likely = 0.5_f64.powi(runs as i32);
    let mut tail = 0.0;
    for good in (0..=runs).rev() {
        tail += likely;
        if tail > CHANCE {
            return good + 1;
        }
        // From C(n, k) to C(n, k - 1).
        likely *= good as f64 / (runs - good + 1) as f64;
    }
    0
}

/// Who pays, beside those whom goals are about.
fn costs(question: &Question, then: &[Run], now: &[Run]) -> Vec<Cost> {
    let mean = |runs: &[Run], of: &dyn Fn(&Run) -> f64| {
        runs.iter().map(of).sum::<f64>() / runs.len().max(1) as f64
    };
    let both = |of: &dyn Fn(&Run) -> f64| (mean(now, of), mean(then, of));
    let meant = |domain: usize| question.goals.iter().any(|goal| goal.figure.domains() == [domain]);
    let others = (0..question.setup.domains.len()).filter(|&domain| !meant(domain));
    let mut costs: Vec<_> = others
        .filter_map(|domain| {
            let share_percent = both(&|run| run.domains[domain].share_percent);
            let p99_ns = both(&|run| run.domains[domain].time.waits.p99_ns as f64);
            let less = share_percent.1 < LESS_FACTOR * share_percent.0 - LESS_POINTS;
            let longer = p99_ns.1 > LONGER_FACTOR * p99_ns.0 + LONGER_NS;
            let domain = question.setup.domains[domain].name.clone();
            (less || longer).then_some(Cost { domain, share_percent, p99_ns })
        })
        .collect();
    let worth = |cost: &Cost| {
        let times_as_long = (cost.p99_ns.1 + LONGER_NS) / (cost.p99_ns.0 + LONGER_NS);
        let part_left = (cost.share_percent.1 + 1.0) / (cost.share_percent.0 + 1.0);
        times_as_long.ln().max(0.0) - part_left.ln().min(0.0)
    };
    costs.sort_by(|a, b| worth(b).total_cmp(&worth(a)));
    costs
}

fn rows<B: Bench>(search: &Search<'_, B>) -> Vec<Row> {
    let space = search.space;
    let scores: Vec<Score> = search.tried.iter().map(|tried| tried.score.clone()).collect();
    let keeping: Vec<usize> = (0..scores.len()).filter(|&it| scores[it].violation == 0.0).collect();
    let front = front(&scores, &keeping);
    let row = |(number, tried): (usize, &Tried)| {
        let host = space.host(&tried.setting);
        let value = |dimension| {
            let value = space.value(dimension, &tried.setting, &host)?;
            Some(space.format(dimension, value))
        };
        Row {
            policy: host.1.to_string(),
            values: (0..space.dimensions.len()).map(value).collect(),
            figures: tried.figures.clone(),
            score: tried.score.clone(),
            front: front.contains(&number),
        }
    };
    search.tried.iter().enumerate().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(violation: f64, losses: &[f64]) -> Score {
        Score { violation, losses: losses.to_vec() }
    }

    #[test]
    fn chance_is_ruled_out_by_hand() {
        // 1/16 is too much, 1/32 is not; 11/1024 and 56/1024; 1.3 % and 5.8 % of 2^20.
        assert_eq!([0, 1, 4, 5, 10, 20].map(enough), [1, 2, 5, 5, 9, 15]);
    }

    #[test]
    fn what_is_lost_counts_against_what_was_gained() {
        let (now, with) = (score(0.0, &[10.0, 5.0]), score(0.0, &[2.0, 4.0]));
        assert_eq!(lost(&now, &with, &score(0.0, &[6.0, 4.1])), 0.5);
        assert_eq!(lost(&now, &with, &score(0.0, &[1.0, 3.5])), -0.125);
        assert_eq!(lost(&now, &with, &score(0.3, &[1.0, 3.0])), f64::INFINITY);
        // Nothing was gained in the second.
        let with = score(0.0, &[2.0, 5.0]);
        assert_eq!(lost(&now, &with, &score(0.0, &[2.0, 5.1])), f64::INFINITY);
        assert_eq!(lost(&now, &with, &score(0.0, &[2.0, 5.0])), 0.0);
    }
}
