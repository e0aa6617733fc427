// SPDX-License-Identifier: GPL-2.0-only
//! Advice as a person reads it: a screen at most, unless all is asked for.

use std::fmt::Write;

use steelyard_report::{number, time};

use crate::{Advice, Effect, Hurt, Plan, Proposal};

/// So many of each are shown: 24 lines at most.
const HURT_SHOWN: usize = 3;
const SETTINGS_SHOWN: usize = 2;
const SCHEDULERS_SHOWN: usize = 1;
const EFFECTS_SHOWN: usize = 1;
const COMMANDS_SHOWN: usize = 1;

/// The advice about `input`.
pub fn text(advice: &Advice, input: &str, all: bool) -> String {
    let mut text = format!(
        "{input}: {} pCPUs, {} VMs, under {}; {} runs of {} each\n",
        advice.pcpus,
        advice.domains,
        advice.policy,
        advice.runs,
        time(advice.elapsed_ns as f64)
    );
    if let Some(error) = advice.error {
        let _ = writeln!(text, "Replays are off by {}: what gains less is left out", number(error));
    }
    if advice.hurt.is_empty() {
        text.push_str(
            "Nothing to gain: everybody gets what they are due, and nobody waits long.\n",
        );
        return text;
    }
    let most = |most: usize| if all { usize::MAX } else { most };
    text.push_str("What hurts\n");
    list(&mut text, &advice.hurt, most(HURT_SHOWN), |_, hurt| say_hurt(hurt));
    if advice.is_empty() {
        let tried = advice.tried;
        let error = if advice.error.is_some() { " by more than that" } else { "" };
        let _ = writeln!(
            text,
            "Nothing to gain: of {tried} changes none eases that in every run{error}."
        );
        return text;
    }
    let tried = advice.tried;
    if let Some(plan) = &advice.plan {
        let _ = writeln!(text, "What to change: these together, of {tried} tried");
        text.push_str(&say_plan(plan, all));
        if !all && advice.settings.len() > 1 {
            let _ = writeln!(text, "  each alone, and {} more: --all", advice.settings.len() - 1);
        }
    }
    let mut section = |head: &str, proposals: &[Proposal], shown| {
        if !proposals.is_empty() {
            let _ = writeln!(text, "{head}");
            list(&mut text, proposals, most(shown), |place, proposal| {
                say_proposal(place, proposal, most(EFFECTS_SHOWN), most(COMMANDS_SHOWN))
            });
        }
    };
    let alone = format!("What to change: best first, each alone, of {tried} tried");
    match &advice.plan {
        Some(_) if all => section("Each alone, best first", &advice.settings, usize::MAX),
        Some(_) => {}
        None => section(&alone, &advice.settings, SETTINGS_SHOWN),
    }
    section("Or another scheduler, a greater step", &advice.schedulers, SCHEDULERS_SHOWN);
    text
}

/// Places count from 1.
fn list<T>(text: &mut String, items: &[T], most: usize, say: impl Fn(usize, &T) -> String) {
    for (index, item) in items.iter().take(most).enumerate() {
        text.push_str(&say(index + 1, item));
    }
    if items.len() > most {
        let _ = writeln!(text, "  and {} more: --all", items.len() - most);
    }
}

fn say_hurt(hurt: &Hurt) -> String {
    let Hurt { domain, now, due_percent, .. } = hurt;
    let mut why = vec![];
    if hurt.parked_percent >= 50.0 {
        why.push("its cap or reservation keeps it off".to_owned());
    } else if !hurt.meanwhile.is_empty() {
        let ran = hurt.meanwhile.iter().take(3);
        let ran: Vec<_> = ran.map(|(name, percent)| format!("{name} {percent:.0} %")).collect();
        why.push(format!("meanwhile ran {}", ran.join(", ")));
    }
    if hurt.spun_percent >= 5.0 {
        why.push(format!("it spins for {:.0} % of its time", hurt.spun_percent));
    }
    format!(
        "  {domain}: gets {} of the {} % of a CPU that it is due; waits up to {}\n     worst {} at {}; {}\n",
        number(now.useful_percent),
        number(*due_percent),
        time(now.p99_ns),
        time(now.worst_ns),
        time(hurt.worst_at_ns as f64),
        why.join("; ")
    )
}

/// Of each step what part of the gain is reached with it.
fn say_plan(plan: &Plan, all: bool) -> String {
    let mut text = String::new();
    let (together, most) = (&plan.together, |most| if all { usize::MAX } else { most });
    for (place, step) in (1..).zip(&plan.steps) {
        let percent = 100.0 * step.gain / together.gain;
        let with = if place == 1 { "" } else { "with it " };
        let _ = writeln!(text, "  {place}. {}: {with}{percent:.0} % of the gain", step.change);
        say_commands(&mut text, &step.commands, most(COMMANDS_SHOWN));
    }
    say_effects(&mut text, together, most(EFFECTS_SHOWN));
    text
}

fn say_proposal(place: usize, proposal: &Proposal, effects: usize, commands: usize) -> String {
    let mut text = format!("  {place}. {}\n", proposal.change);
    say_effects(&mut text, proposal, effects);
    say_commands(&mut text, &proposal.commands, commands);
    text
}

fn say_effects(text: &mut String, proposal: &Proposal, effects: usize) {
    for (sign, all) in [('+', &proposal.helps), ('-', &proposal.costs)] {
        for (index, effect) in all.iter().take(effects).enumerate() {
            let more = match all.len().saturating_sub(effects) {
                more if more > 0 && index + 1 == effects => format!("; {more} more"),
                _ => String::new(),
            };
            let _ = writeln!(text, "     {sign} {}{more}", say_effect(effect));
        }
    }
}

fn say_commands(text: &mut String, commands: &[String], most: usize) {
    for (index, command) in commands.iter().take(most).enumerate() {
        let more = match commands.len().saturating_sub(most) {
            more if more > 0 && index + 1 == most => format!("   # and {more} more like it"),
            _ => String::new(),
        };
        let _ = writeln!(text, "       {command}{more}");
    }
}

fn say_effect(effect: &Effect) -> String {
    let Effect { domain, now, then, useful_range, p99_range_ns } = effect;
    format!(
        "{domain}: gets {} -> {} % ({}..{}), waits {} -> {} ({}..{})",
        number(now.useful_percent),
        number(then.useful_percent),
        number(useful_range.0),
        number(useful_range.1),
        time(now.p99_ns),
        time(then.p99_ns),
        time(p99_range_ns.0),
        time(p99_range_ns.1)
    )
}
