// SPDX-License-Identifier: GPL-2.0-only
//! Advice as a person reads it: a screen at most, unless all is asked for.

use std::fmt::Write;

use steelyard_report::{number, time};

use crate::{Advice, Effect, Hurt, Proposal};

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
    let mut section = |head: &str, proposals: &[Proposal], shown| {
        if !proposals.is_empty() {
            let _ = writeln!(text, "{head}");
            list(&mut text, proposals, most(shown), |place, proposal| {
                say_proposal(place, proposal, most(EFFECTS_SHOWN), most(COMMANDS_SHOWN))
            });
        }
    };
    let head = format!("What to change: best first, each alone, of {} tried", advice.tried);
    section(&head, &advice.settings, SETTINGS_SHOWN);
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

fn say_proposal(place: usize, proposal: &Proposal, effects: usize, commands: usize) -> String {
    let mut text = format!("  {place}. {}\n", proposal.change);
    let mut say = |sign: char, all: &[Effect]| {
        for (index, effect) in all.iter().take(effects).enumerate() {
            let more = match all.len().saturating_sub(effects) {
                more if more > 0 && index + 1 == effects => format!("; {more} more"),
                _ => String::new(),
            };
            let _ = writeln!(text, "     {sign} {}{more}", say_effect(effect));
        }
    };
    say('+', &proposal.helps);
    say('-', &proposal.costs);
    for (index, command) in proposal.commands.iter().take(commands).enumerate() {
        let more = match proposal.commands.len().saturating_sub(commands) {
            more if more > 0 && index + 1 == commands => format!("   # and {more} more like it"),
            _ => String::new(),
        };
        let _ = writeln!(text, "       {command}{more}");
    }
    text
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
