// SPDX-License-Identifier: GPL-2.0-only
//! Changes that are worth making together: the best one, and on top of it what then gains most; and what changes of
//! domains as a file that `steelyard apply` takes.

use std::fmt::Write as _;

use serde::Serialize;
use steelyard_boundary::text::told;
use steelyard_simulator::config::Setup;
use steelyard_simulator::measure::Run;
use steelyard_simulator::units::CpuSet;
use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, Table, value};

use crate::change::Trial;
use crate::harm::{Harm, Yardstick};
use crate::{Change, Proposal, Question, Simulate, after, propose, ranked, shell};

/// More changes at once nobody oversees.
const MOST: usize = 3;

/// Changes that gain more together than the best of them alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// The best change, and each that gains most on top of those before; two at least.
    pub steps: Vec<Step>,
    /// What comes of all of them.
    pub together: Proposal,
}

/// A change of a plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// What it is.
    pub change: String,
    /// What it gains with those before it; their effects are measured, not added.
    pub gain: f64,
    /// What to type.
    pub commands: Vec<String>,
}

/// The host as it is.
pub struct Now<'a> {
    pub runs: &'a [Run],
    pub yardsticks: &'a [Yardstick],
    pub harms: &'a [Vec<Harm>],
    /// Of a recording: by how much replays are off. A step that gains less is none.
    pub error: Option<f64>,
}

/// What to add to the best change, out of those that were tried alone; nothing if nothing gains more with it.
pub fn plan<E>(
    question: &Question,
    now: &Now,
    tried: &[Trial],
    best: &Proposal,
    simulate: &mut Simulate<E>,
) -> Result<Option<Plan>, E> {
    let settings: Vec<_> =
        tried.iter().filter(|it| !matches!(it.change, Change::Scheduler { .. })).collect();
    let Some(first) = settings.iter().find(|trial| trial.change == best.kind) else {
        return Ok(None);
    };
    let mut so_far = (*first).clone();
    let step = |proposal: &Proposal, kind: &Change| Step {
        change: kind.describe(question),
        gain: proposal.gain,
        commands: shell::commands(question, kind),
    };
    let mut steps = vec![step(best, &best.kind)];
    let mut together = best.clone();
    let mut runs = simulate(&[(&so_far.setup, &so_far.policy)])?.pop().unwrap_or_default();
    while steps.len() < MOST {
        let others = settings.iter().filter(|it| !so_far.has_like(&it.change));
        let trials: Vec<_> = others.filter_map(|it| so_far.with(&it.change)).collect();
        let asked: Vec<_> = trials.iter().map(|trial| (&trial.setup, &trial.policy)).collect();
        let outcomes = simulate(&asked)?;
        let before = after(now.yardsticks, now.runs, &so_far, &runs);
        let more = trials.iter().zip(&outcomes).filter_map(|(trial, then)| {
            let harms = after(now.yardsticks, now.runs, trial, then);
            propose(question, trial, &runs, &before, then, &harms)
        });
        let more = more.filter(|more| now.error.is_none_or(|error| more.gain > error)).collect();
        let Some(next) = ranked(more).into_iter().next() else { break };
        let Some(place) = trials.iter().position(|trial| trial.change == next.kind) else { break };
        let (trial, then) = (&trials[place], &outcomes[place]);
        let harms = after(now.yardsticks, now.runs, trial, then);
        let Some(all) = propose(question, trial, now.runs, now.harms, then, &harms) else { break };
        steps.push(step(&all, &next.kind));
        together = all;
        runs.clone_from(then);
        so_far = trial.clone();
    }
    Ok((steps.len() > 1).then_some(Plan { steps, together }))
}

/// What a trial changes of domains, as a plan that says what it leaves out.
pub fn to_apply(question: &Question, trial: &Trial) -> Option<String> {
    let mut text = String::new();
    for change in trial.changes() {
        if matches!(change, Change::Vcpus { .. } | Change::HostSlice { .. }) {
            let _ = writeln!(text, "# Left out: {}.", told(&change.describe(question)));
        }
    }
    plan_file(question.setup, &trial.setup).map(|plan| text + &plan)
}

/// What differs between domains, as a plan (`docs/apply.md`); nothing if that is nothing it can say.
pub fn plan_file(now: &Setup, then: &Setup) -> Option<String> {
    let all: CpuSet = (0..now.host.pcpus()).collect();
    let mut domains = ArrayOfTables::new();
    for (now, then) in now.domains.iter().zip(&then.domains) {
        let mut wanted = Table::new();
        if then.weight != now.weight {
            wanted["weight"] = value(i64::from(then.weight));
        }
        if then.cap_percent != now.cap_percent {
            wanted["cap_percent"] = value(i64::from(then.cap_percent));
        }
        if let Some(slice) = then.slice.filter(|_| then.slice != now.slice) {
            wanted["slice"] = value(slice.to_string());
        }
        if then.pin.is_empty() && !now.pin.is_empty() {
            wanted["pin"] = value(Array::from_iter([all.to_string()]));
        }
        if !wanted.is_empty() {
            let mut named = Table::new();
            named["name"] = value(&now.name);
            named.extend(wanted);
            domains.push(named);
        }
    }
    if domains.is_empty() {
        return None;
    }
    let mut plan = DocumentMut::new();
    plan["domain"] = Item::ArrayOfTables(domains);
    Some(plan.to_string())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use steelyard_policy::Policy;
    use steelyard_simulator::config::{Domain, Host};
    use steelyard_simulator::units::Nanoseconds;

    use super::*;
    use crate::Toolstack;

    #[test]
    fn a_file_has_what_is_changed_of_domains() {
        let mut now = Setup { host: Host::with_pcpus(4), domains: vec![] };
        now.domains = ["same", "a \"b\"", "c"].map(|name| Domain::new(name, 1)).into();
        now.domains[1].pin = vec!["1".parse().unwrap()];
        assert_eq!(plan_file(&now, &now), None);
        let mut then = now.clone();
        then.domains[1].weight = 512;
        then.domains[1].pin.clear();
        then.domains[2].cap_percent = 50;
        then.domains[2].slice = Some(Nanoseconds(1_900_000));
        assert_eq!(
            plan_file(&now, &then).unwrap(),
            "[[domain]]\nname = 'a \"b\"'\nweight = 512\npin = [\"0-3\"]\n\n\
             [[domain]]\nname = \"c\"\ncap_percent = 50\nslice = \"1900 us\"\n"
        );
        // Of vCPUs a plan says nothing.
        then = now.clone();
        then.domains[0].vcpus = 2;
        assert_eq!(plan_file(&now, &then), None);
    }

    #[test]
    fn a_file_says_what_it_leaves_out() {
        let domains = vec![Domain::new("a\n[[domain]]", 4)];
        let setup = Setup { host: Host::with_pcpus(4), domains };
        let policy = Policy::named("credit").unwrap();
        let question = Question {
            setup: &setup,
            policy: &policy,
            label: "",
            toolstack: Toolstack::Xl,
            recorded: None,
        };
        let fewer = Change::Vcpus { domain: 0, vcpus: 2 };
        let mut trial =
            Trial { change: fewer, earlier: vec![], setup: setup.clone(), policy: policy.clone() };
        trial = trial.with(&Change::Cap { domain: 0, cap_percent: 50 }).unwrap();
        let text = to_apply(&question, &trial).unwrap();
        let (first, rest) = text.split_once('\n').unwrap();
        assert!(
            first.starts_with("# Left out: vCPUs of a") && first.ends_with("4 -> 2."),
            "{text}"
        );
        assert_eq!(rest.matches("[[domain]]\n").count(), 1, "{text}");
    }
}
