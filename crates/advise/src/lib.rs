// SPDX-License-Identifier: GPL-2.0-only
//! Advice (`docs/advise.md`): what hurts which domain of a host, and which single change of a setting or of the
//! scheduler would ease that most, by simulating each of them beside the host as it is, and which others on top of it.
//!
//! `harm` says how a domain fares, `change` what could be changed, `plan` what to change together, `shell` what to type
//! for it, `text` how a person reads it.

mod change;
mod harm;
mod plan;
mod shell;
mod text;

use std::collections::HashMap;

use serde::Serialize;
use steelyard_policy::Policy;
use steelyard_report::ReplayError;
use steelyard_simulator::config::Setup;
use steelyard_simulator::measure::Run;

pub use crate::change::Change;
pub use crate::plan::{Plan, Step, plan_file};
pub use crate::shell::{Toolstack, commands, quoted};
pub use crate::text::text;

use crate::change::Trial;
use crate::harm::{HURTS, Harm, Yardstick};
use crate::plan::Now;

/// A host, as far as advice is asked for.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    /// Host and domains.
    pub setup: &'a Setup,
    /// The scheduler that it has.
    pub policy: &'a Policy,
    /// What people call that.
    pub label: &'a str,
    /// By what it is administered.
    pub toolstack: Toolstack,
    /// What a recorded host did, if it replays a recording.
    pub recorded: Option<&'a Run>,
}

impl Question<'_> {
    /// Whether it is a virtual machine, not tasks of the host: whom these serve is not known, and nobody has commands
    /// for them here. What they lose counts.
    fn is_vm(&self, domain: usize) -> bool {
        self.setup.domains.get(domain).is_some_and(|domain| domain.is_vm())
    }
}

/// Less than this, and a change is not worth telling: as much as a domain that gets a twentieth more of what it
/// could use.
const GAIN: f64 = 0.05;
/// What a change takes from somebody weighs so many times what it gives: it is they who will complain.
const TAKEN: f64 = 2.0;
/// To undo what was set for one domain and not for others comes before setting something else that gains so many times
/// as much.
const UNDOING: f64 = 1.25;
/// Of like changes, the smallest that brings so much of what the best one does.
const NEARLY: f64 = 0.9;

/// What hurts, and what to do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// The scheduler that the host has.
    pub policy: String,
    /// Runs of each, with as many seeds.
    pub runs: usize,
    /// Simulated time of a run.
    pub elapsed_ns: u64,
    /// pCPUs of the host.
    pub pcpus: u32,
    /// Virtual machines of the host.
    pub domains: usize,
    /// Of a recording: by how much the replays under the host's own scheduler are off, in the measure of gains.
    pub error: Option<f64>,
    /// Likewise, in points of share and as a factor of waits.
    pub replays: Option<ReplayError>,
    /// Who is hurt, worst first.
    pub hurt: Vec<Hurt>,
    /// How many changes were tried.
    pub tried: usize,
    /// Settings that would help, best first.
    pub settings: Vec<Proposal>,
    /// Other schedulers that would, best first: a greater step.
    pub schedulers: Vec<Proposal>,
    /// Settings that gain more together than the best of them, if some do.
    pub plan: Option<Plan>,
}

impl Advice {
    /// What to apply, as a plan for `steelyard apply`: of the changes together, else of the best; nothing if a plan
    /// cannot say it.
    pub fn to_apply(&self) -> Option<&str> {
        let together = self.plan.as_ref().map(|plan| &plan.together);
        together.or(self.settings.first())?.to_apply.as_deref()
    }

    /// Whether nothing is to be gained.
    pub fn is_empty(&self) -> bool {
        self.settings.is_empty() && self.schedulers.is_empty()
    }
}

/// A domain that fares worse than it should.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Hurt {
    /// Its name.
    pub domain: String,
    /// How it fares.
    pub now: Standing,
    /// And how it fared when it was recorded, its CPU time whole; none if it was not, waits of 0 if they were not.
    pub recorded: Option<Standing>,
    /// What it is due of CPU time, in percent of one pCPU.
    pub due_percent: f64,
    /// Why it waited, if it was not for others: part of its waits in which its cap or reservation kept it off.
    pub parked_percent: f64,
    /// Time of its vCPUs spent spinning, in percent of what they got.
    pub spun_percent: f64,
    /// When its worst wait began.
    pub worst_at_ns: u64,
    /// Who ran during the worst waits of all runs, longest first: name, and part of them in percent.
    pub meanwhile: Vec<(String, f64)>,
}

/// How a domain fares: means over the runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Standing {
    /// CPU time that went into its work, in percent of one pCPU.
    pub useful_percent: f64,
    /// 99 of 100 waits are no longer.
    pub p99_ns: f64,
    /// The longest wait of all runs.
    pub worst_ns: f64,
}

/// A change worth making.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Proposal {
    /// What it is.
    pub change: String,
    /// By how much less hurts, mean over the runs: one for a domain that gets all that it is due instead of nothing,
    /// or whose long waits end; what others lose counts twice.
    pub gain: f64,
    /// The least and the most of one run.
    pub gain_range: (f64, f64),
    /// Whom it helps, most first.
    pub helps: Vec<Effect>,
    /// Whom it costs something, most first.
    pub costs: Vec<Effect>,
    /// What to type.
    pub commands: Vec<String>,
    /// What of it a plan of `steelyard apply` can say.
    pub to_apply: Option<String>,
    /// Whether it does away with a setting that other domains do not have.
    pub undoes: bool,
    #[serde(skip)]
    kind: Change,
}

impl Proposal {
    /// The change itself.
    pub fn kind(&self) -> &Change {
        &self.kind
    }
}

/// What a change does to a domain.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Effect {
    /// Its name.
    pub domain: String,
    /// How it fares now.
    pub now: Standing,
    /// And then.
    pub then: Standing,
    /// Of the runs, the least and the most of what it then uses well, in percent of one pCPU.
    pub useful_range: (f64, f64),
    /// The least and the most of its then 99th percentile of waits.
    pub p99_range_ns: (f64, f64),
}

/// Simulates each of these under its policy, once with every seed, in their order; or what went wrong.
pub type Simulate<'a, E> = dyn FnMut(&[(&Setup, &Policy)]) -> Result<Vec<Vec<Run>>, E> + 'a;

/// Finds out what hurts, and tries what may help.
///
/// # Errors
/// Those of `simulate`.
pub fn advise<E>(question: &Question, simulate: &mut Simulate<E>) -> Result<Advice, E> {
    let now = simulate(&[(question.setup, question.policy)])?.pop().unwrap_or_default();
    let yardsticks: Vec<_> = now.iter().map(|run| Yardstick::new(run, question.setup)).collect();
    let before: Vec<Vec<Harm>> = zip_harms(&yardsticks, &now);
    let hurt = hurt(question, &now, &yardsticks, &before);
    let error = question.recorded.map(|recorded| error(question, recorded, &yardsticks, &before));
    let runs: Vec<&Run> = now.iter().collect();
    let replays =
        question.recorded.and_then(|then| ReplayError::of(then, &runs, question.label, false));
    let mut advice = Advice {
        error,
        replays,
        policy: question.label.to_owned(),
        runs: now.len(),
        elapsed_ns: now.first().map_or(0, |run| run.elapsed_ns),
        pcpus: question.setup.host.pcpus(),
        domains: (0..question.setup.domains.len()).filter(|&it| question.is_vm(it)).count(),
        hurt,
        tried: 0,
        settings: vec![],
        schedulers: vec![],
        plan: None,
    };
    if advice.hurt.is_empty() {
        return Ok(advice);
    }
    let trials = change::trials(question, &advice.hurt, &now);
    advice.tried = trials.len();
    let asked: Vec<_> = trials.iter().map(|trial| (&trial.setup, &trial.policy)).collect();
    let outcomes = simulate(&asked)?;
    let proposals = trials.iter().zip(&outcomes).filter_map(|(trial, runs)| {
        propose(question, trial, &now, &before, runs, &after(&yardsticks, &now, trial, runs))
    });
    let proposals = proposals.filter(|proposal| error.is_none_or(|error| proposal.gain > error));
    (advice.schedulers, advice.settings) =
        proposals.partition(|proposal| matches!(proposal.kind, Change::Scheduler { .. }));
    advice.schedulers.sort_by(|a, b| b.gain.total_cmp(&a.gain));
    advice.settings = ranked(advice.settings);
    if let Some(best) = advice.settings.first() {
        let now = Now { runs: &now, yardsticks: &yardsticks, harms: &before, error };
        advice.plan = plan::plan(question, &now, &trials, best, simulate)?;
    }
    Ok(advice)
}

fn zip_harms(yardsticks: &[Yardstick], runs: &[Run]) -> Vec<Vec<Harm>> {
    yardsticks.iter().zip(runs).map(|(yardstick, run)| yardstick.harms(run)).collect()
}

/// By how much more or less those that were recorded are harmed in replays than they were then. A scenario may have
/// others beside them; of some no waits are recorded.
fn error(
    question: &Question,
    recorded: &Run,
    yardsticks: &[Yardstick],
    replayed: &[Vec<Harm>],
) -> f64 {
    let pairs: Vec<_> = yardsticks.iter().zip(replayed).collect();
    let domains = recorded.domains.iter().filter_map(|domain| {
        let index = question.setup.domains.iter().position(|known| known.name == domain.name);
        let index = index.filter(|&index| question.is_vm(index))?;
        Some(mean(&pairs, |(yardstick, replayed)| {
            let then = yardstick.harm(index, domain, recorded.elapsed_ns);
            let late = then.lateness - replayed[index].lateness;
            let waits_recorded = domain.time.waits.count > 0;
            let late = if waits_recorded { late } else { 0.0 };
            (then.loss - replayed[index].loss + late).abs()
        }))
    });
    domains.sum()
}

/// How everybody fares after changes. Who had more weight than others, and has no longer, is due less.
fn after(yardsticks: &[Yardstick], now: &[Run], trial: &Trial, runs: &[Run]) -> Vec<Vec<Harm>> {
    let mut changed = zip_harms(yardsticks, runs);
    for change in trial.changes() {
        let Change::Weight { domain, was, weight } = *change else { continue };
        if weight > was || !change.undoes(&trial.setup) {
            continue;
        }
        for ((harms, now), run) in changed.iter_mut().zip(now).zip(runs) {
            let mut now = now.clone();
            now.domains[domain].weight = weight;
            harms[domain] = Yardstick::new(&now, &trial.setup).harms(run)[domain];
        }
    }
    changed
}

/// The mean over runs of something about a domain.
fn mean<T>(runs: &[T], of: impl Fn(&T) -> f64) -> f64 {
    runs.iter().map(of).sum::<f64>() / runs.len().max(1) as f64
}

fn range<T>(runs: &[T], of: impl Fn(&T) -> f64) -> (f64, f64) {
    let values = runs.iter().map(of);
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| {
        (least.min(value), most.max(value))
    })
}

fn standing(runs: &[Run], domain: usize) -> Standing {
    let worst_ns = |run: &Run| {
        run.domains[domain].time.waits.worst.as_ref().map_or(0.0, |worst| worst.length_ns as f64)
    };
    Standing {
        useful_percent: mean(runs, |run| harm::useful_percent(run, domain)),
        p99_ns: mean(runs, |run| run.domains[domain].time.waits.p99_ns as f64),
        worst_ns: range(runs, worst_ns).1,
    }
}

fn hurt(
    question: &Question,
    runs: &[Run],
    yardsticks: &[Yardstick],
    harms: &[Vec<Harm>],
) -> Vec<Hurt> {
    let Some(first) = runs.first() else { return vec![] };
    let harm = |domain: usize| mean(harms, |run| run[domain].total());
    let is_hurt = |domain: &usize| question.is_vm(*domain) && harm(*domain) > HURTS;
    let mut hurt: Vec<_> = (0..first.domains.len()).filter(is_hurt).collect();
    hurt.sort_by(|&a, &b| harm(b).total_cmp(&harm(a)));
    let one = |domain: usize| {
        let sum = |of: &dyn Fn(&steelyard_simulator::measure::TimeMeasure) -> u64| {
            runs.iter().map(|run| of(&run.domains[domain].time)).sum::<u64>() as f64
        };
        let worst = runs.iter().filter_map(|run| run.domains[domain].time.waits.worst.as_ref());
        let mut ran: HashMap<&str, u64> = HashMap::new();
        for item in worst.clone().flat_map(|worst| &worst.ran) {
            *ran.entry(&item.domain).or_default() += item.ran_ns;
        }
        let all = ran.values().sum::<u64>().max(1) as f64;
        let mut meanwhile: Vec<_> =
            ran.into_iter().map(|(name, ns)| (name.to_owned(), 100.0 * ns as f64 / all)).collect();
        meanwhile.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        Hurt {
            domain: first.domains[domain].name.clone(),
            now: standing(runs, domain),
            recorded: recorded(question, &first.domains[domain].name),
            due_percent: mean(yardsticks, |yardstick| yardstick.due_percent(domain)),
            parked_percent: 100.0 * sum(&|time| time.parked_ns)
                / sum(&|time| time.waited_ns).max(1.0),
            spun_percent: 100.0 * sum(&|time| time.spun_ns) / sum(&|time| time.gotten_ns).max(1.0),
            worst_at_ns: worst
                .max_by_key(|worst| worst.length_ns)
                .map_or(0, |worst| worst.start_ns),
            meanwhile,
        }
    };
    hurt.into_iter().map(one).collect()
}

/// How a domain fared when the host was recorded.
fn recorded(question: &Question, name: &str) -> Option<Standing> {
    let domain = question.recorded?.domains.iter().find(|domain| domain.name == name)?;
    let waits = &domain.time.waits;
    Some(Standing {
        useful_percent: domain.share_percent,
        p99_ns: waits.p99_ns as f64,
        worst_ns: waits.worst.as_ref().map_or(0, |worst| worst.length_ns) as f64,
    })
}

/// What comes of a trial, if it is worth telling.
fn propose(
    question: &Question,
    trial: &Trial,
    now: &[Run],
    before: &[Vec<Harm>],
    runs: &[Run],
    after: &[Vec<Harm>],
) -> Option<Proposal> {
    let mut after = after.to_vec();
    for change in trial.changes() {
        let Change::Vcpus { domain, .. } = *change else { continue };
        // Its threads now wait for each other inside, where nobody sees it.
        for (after, before) in after.iter_mut().zip(before) {
            after[domain].lateness = after[domain].lateness.max(before[domain].lateness);
        }
    }
    for (after, before) in after.iter_mut().zip(before) {
        for domain in (0..before.len()).filter(|&domain| !question.is_vm(domain)) {
            after[domain].loss = after[domain].loss.max(before[domain].loss);
            after[domain].lateness = after[domain].lateness.max(before[domain].lateness);
        }
    }
    let gains: Vec<_> = before.iter().zip(&after).map(|(a, b)| gain_of(a, b)).collect();
    let gain = mean(&gains, |gain| *gain);
    let gain_range = range(&gains, |gain| *gain);
    // A gain that not every run has may be chance.
    if gain < GAIN || gain_range.0 <= 0.0 || forgets(now, runs) {
        return None;
    }
    let pairs: Vec<_> = before.iter().zip(&after).collect();
    let difference =
        |domain: usize| mean(&pairs, |(a, b)| gain_of(&a[domain..=domain], &b[domain..=domain]));
    let robbed = |domain: usize| is_robbed(now, runs, domain);
    let effect = |domain: usize| Effect {
        domain: question.setup.domains[domain].name.clone(),
        now: standing(now, domain),
        then: standing(runs, domain),
        useful_range: range(runs, |run| harm::useful_percent(run, domain)),
        p99_range_ns: range(runs, |run| run.domains[domain].time.waits.p99_ns as f64),
    };
    let mut domains: Vec<_> = (0..question.setup.domains.len()).collect();
    domains.sort_by(|&a, &b| difference(b).total_cmp(&difference(a)));
    let helps = domains.iter().filter(|&&one| difference(one) > GAIN / 2.0 && !robbed(one));
    let costs = domains.iter().rev().filter(|&&one| difference(one) < -GAIN / 2.0 || robbed(one));
    let changes: Vec<_> = trial.changes().map(|change| change.describe(question)).collect();
    Some(Proposal {
        change: changes.join("; "),
        gain,
        gain_range,
        helps: helps.map(|&domain| effect(domain)).collect(),
        costs: costs.map(|&domain| effect(domain)).collect(),
        commands: trial.changes().flat_map(|it| shell::commands(question, it)).collect(),
        to_apply: plan::to_apply(question, trial),
        undoes: trial.change.undoes(question.setup),
        kind: trial.change.clone(),
    })
}

/// By how much less hurts than before.
fn gain_of(before: &[Harm], after: &[Harm]) -> f64 {
    let weighed = |gain: f64| if gain < 0.0 { TAKEN * gain } else { gain };
    let of = |(before, after): (&Harm, &Harm)| {
        weighed(before.loss - after.loss) + weighed(before.lateness - after.lateness)
    };
    before.iter().zip(after).map(of).sum()
}

/// Whether the domain gets less by more than a twentieth.
fn is_robbed(now: &[Run], then: &[Run], domain: usize) -> bool {
    let useful = |runs: &[Run]| mean(runs, |run| harm::useful_percent(run, domain));
    useful(then) < 0.95 * useful(now) - 0.5
}

/// Whether something that was asked for and held does not hold any more.
fn forgets(now: &[Run], then: &[Run]) -> bool {
    now.iter().zip(then).any(|(now, then)| {
        now.domains
            .iter()
            .zip(&then.domains)
            .any(|(now, then)| then.unhonoured.len() > now.unhonoured.len())
    })
}

/// Best first; of like changes one.
fn ranked(mut proposals: Vec<Proposal>) -> Vec<Proposal> {
    let worth = |proposal: &Proposal| if proposal.undoes { UNDOING } else { 1.0 } * proposal.gain;
    proposals.sort_by(|a, b| worth(b).total_cmp(&worth(a)));
    let mut kept: Vec<Proposal> = vec![];
    for proposal in proposals {
        match kept.iter_mut().find(|best| best.kind.is_like(&proposal.kind)) {
            None => kept.push(proposal),
            Some(best) => {
                let nearly = proposal.gain >= NEARLY * best.gain;
                if nearly && proposal.kind.is_smaller_than(&best.kind) {
                    *best = proposal;
                }
            }
        }
    }
    kept.sort_by(|a, b| worth(b).total_cmp(&worth(a)));
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn harm(loss: f64, lateness: f64) -> Harm {
        Harm { loss, lateness }
    }

    #[test]
    fn what_is_taken_counts_twice() {
        let before = [harm(0.4, 0.2), harm(0.0, 0.0)];
        let after = [harm(0.1, 0.3), harm(0.05, 0.0)];
        // 0.3 less lost, 0.1 later and 0.05 lost by the other, both twice.
        assert!((gain_of(&before, &after) - (0.3 - 0.2 - 0.1)).abs() < 1e-9);
        assert_eq!(gain_of(&before, &before), 0.0);
    }

    fn proposal(kind: Change, gain: f64, undoes: bool) -> Proposal {
        Proposal {
            change: String::new(),
            gain,
            gain_range: (gain, gain),
            helps: vec![],
            costs: vec![],
            commands: vec![],
            to_apply: None,
            undoes,
            kind,
        }
    }

    #[test]
    fn the_smallest_that_nearly_does_it_comes_first() {
        let weight = |weight| Change::Weight { domain: 0, was: 100, weight };
        let changes = [(weight(800), 0.50), (weight(200), 0.46), (weight(400), 0.48)];
        let all = changes.map(|(kind, gain)| proposal(kind, gain, false));
        let ranked = ranked(all.to_vec());
        assert_eq!(ranked.len(), 1);
        assert_eq!(*ranked[0].kind(), weight(200));
    }

    #[test]
    fn undoing_comes_before_what_gains_a_little_more() {
        let unpin = proposal(Change::Unpin { domain: 1 }, 0.41, true);
        let cap = proposal(Change::Cap { domain: 2, cap_percent: 50 }, 0.5, false);
        assert_eq!(ranked(vec![cap.clone(), unpin.clone()])[0].kind, unpin.kind);
        let little = Proposal { gain: 0.39, ..unpin };
        assert_eq!(ranked(vec![little, cap.clone()])[0].kind, cap.kind);
    }
}
