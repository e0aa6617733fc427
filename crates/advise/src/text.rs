// SPDX-License-Identifier: GPL-2.0-only
//! Advice as a person reads it: a screen at most, unless all is asked for.

use std::fmt::Write;

use steelyard_report::{lines, number, range, time};

use crate::{Advice, Effect, Hurt, Plan, Proposal, Standing};

/// Of a terminal as everybody has one. Commands are never broken: they are there to be copied.
const COLUMNS: usize = 80;
/// So many of each are shown: 24 lines at most, unless names are long.
const HURT_SHOWN: usize = 3;
const SETTINGS_SHOWN: usize = 2;
const SCHEDULERS_SHOWN: usize = 1;
const EFFECTS_SHOWN: usize = 1;
const COMMANDS_SHOWN: usize = 1;

/// The advice about `input`.
pub fn text(advice: &Advice, input: &str, all: bool) -> String {
    let Advice { pcpus, domains, policy, runs, .. } = advice;
    let host = format!("{input}: {pcpus} pCPUs, {domains} VMs, under {policy}");
    let mut text = wrapped(0, &host);
    let runs = format!("{runs} runs of {} each", time(advice.elapsed_ns as f64));
    let error = advice.error.map_or(String::new(), |error| {
        format!("; replays are off by {} of harm: what gains less is left out", number(error))
    });
    text.push_str(&wrapped(0, &(runs + &error)));
    if let Some(replays) = advice.replays.as_ref().filter(|replays| !replays.within_goals()) {
        text.push_str(&wrapped(0, &replays.short()));
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

/// In lines that fit; those that go on are further in.
fn wrapped(indent: usize, text: &str) -> String {
    // Names may begin with spaces, of which lines know nothing.
    let text = text.trim_start_matches(' ');
    let first = lines(text, COLUMNS - indent).swap_remove(0);
    let rest = text[first.len()..].trim_start();
    let mut all = format!("{:indent$}{first}\n", "");
    if !rest.is_empty() {
        let indent = indent + 2;
        for line in lines(rest, COLUMNS - indent) {
            let _ = writeln!(all, "{:indent$}{line}", "");
        }
    }
    all
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
        // What was recorded has the other's place.
        let ran = hurt.meanwhile.iter().take(if hurt.recorded.is_some() { 2 } else { 3 });
        let ran: Vec<_> = ran.map(|(name, percent)| format!("{name} {percent:.0} %")).collect();
        why.push(format!("meanwhile ran {}", ran.join(", ")));
    }
    if hurt.spun_percent >= 5.0 {
        why.push(format!("it spins for {:.0} % of its time", hurt.spun_percent));
    }
    let (useful, due) = (number(now.useful_percent), number(*due_percent));
    let (p99, worst) = (time(now.p99_ns), time(now.worst_ns));
    let at = time(hurt.worst_at_ns as f64);
    let was = hurt.recorded.map_or(String::new(), |it| format!("; {}", say_recorded(it)));
    why.insert(0, format!("worst {worst} at {at}{was}"));
    let gets = format!("{domain}: gets {useful} % of a CPU, is due {due} %; wait p99 {p99}");
    wrapped(2, &gets) + &wrapped(5, &why.join("; "))
}

/// Its CPU time, and its waits if they were recorded.
fn say_recorded(recorded: Standing) -> String {
    let Standing { useful_percent, p99_ns, worst_ns } = recorded;
    let waits = match worst_ns > 0.0 {
        true => format!(", p99 {}, worst {}", time(p99_ns), time(worst_ns)),
        false => String::new(),
    };
    format!("recorded {} %{waits}", number(useful_percent))
}

/// Of each step what part of the gain is reached with it.
fn say_plan(plan: &Plan, all: bool) -> String {
    let mut text = String::new();
    let (together, most) = (&plan.together, |most| if all { usize::MAX } else { most });
    for (place, step) in (1..).zip(&plan.steps) {
        let percent = 100.0 * step.gain / together.gain;
        let with = if place == 1 { "" } else { "with it " };
        let gain = format!("{place}. {}: {with}{percent:.0} % of the gain", step.change);
        text.push_str(&wrapped(2, &gain));
        say_commands(&mut text, &step.commands, most(COMMANDS_SHOWN));
    }
    say_effects(&mut text, together, most(EFFECTS_SHOWN));
    text
}

fn say_proposal(place: usize, proposal: &Proposal, effects: usize, commands: usize) -> String {
    let mut text = wrapped(2, &format!("{place}. {}", proposal.change));
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
            text.push_str(&wrapped(5, &format!("{sign} {}{more}", say_effect(effect))));
        }
    }
}

fn say_commands(text: &mut String, commands: &[String], most: usize) {
    for (index, command) in commands.iter().take(most).enumerate() {
        let more = match commands.len().saturating_sub(most) {
            more if more > 0 && index + 1 == most => format!("   # and {more} more like it"),
            _ => String::new(),
        };
        let _ = writeln!(text, "     {command}{more}");
    }
}

/// What there is now, and the least and the most of the runs then.
fn say_effect(effect: &Effect) -> String {
    let Effect { domain, now, then: _, useful_range: useful, p99_range_ns: p99 } = effect;
    format!(
        "{domain}: gets {} -> {} %, waits {} -> {}",
        number(now.useful_percent),
        range(&number(useful.0), &number(useful.1)),
        time(now.p99_ns),
        range(&time(p99.0), &time(p99.1))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_and_say_all_whatever_names_are() {
        let long = "é".repeat(200);
        for name in ["a", "  é  é", " é", "ünter  den linden", "", "   ", &long] {
            let text = format!("{name}: gets {}as {name} had", "much é ".repeat(20));
            let said = wrapped(5, &text);
            let longest = name.split(' ').map(|word| word.chars().count()).max().unwrap_or(0);
            let fits = |line: &str| line.chars().count() <= COLUMNS.max(longest + 8);
            assert!(said.lines().all(fits), "{said}");
            assert!(said.split_whitespace().eq(text.split_whitespace()), "{said}");
        }
    }
}
