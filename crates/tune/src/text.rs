// SPDX-License-Identifier: GPL-2.0-only
//! What is found, as a person reads it: a screen at most, unless all is asked for.

use std::fmt::Write;

use steelyard_boundary::text::{harmless, told};
use steelyard_report::{number, spread, time, with_unit};

use crate::judge::{ChangeMade, Cost, Judged, Outcome, Proposal, Row, Wanted, enough};
use crate::search::spread as spread_of;

/// So many of each are shown: 24 lines with one goal and one figure to keep.
const CHANGES_SHOWN: usize = 5;
const COSTS_SHOWN: usize = 2;
const COMMANDS_SHOWN: usize = 8;
const OTHERS_SHOWN: usize = 3;

/// The outcome for `input`.
pub fn text(outcome: &Outcome, input: &str, all: bool) -> String {
    let most = |most: usize| if all { usize::MAX } else { most };
    let mut text = head(outcome, input);
    let Some((best, others)) = outcome.proposals.split_first() else {
        text.push_str(&nothing(outcome));
        return text;
    };
    let _ = writeln!(text, "Best: {}", best.policy);
    figures(&mut text, outcome, best);
    text.push_str("What it changes, and what part of the gain is lost without each\n");
    list(&mut text, &best.changes, most(CHANGES_SHOWN), say_change);
    if best.needless > 0 {
        let (they, are) = if best.needless == 1 { ("change", "is") } else { ("changes", "are") };
        let _ =
            writeln!(text, "  {} more {they} made no difference and {are} left out", best.needless);
    }
    if !best.costs.is_empty() {
        text.push_str("Others pay\n");
        list(&mut text, &best.costs, most(COSTS_SHOWN), say_cost);
    }
    text.push_str("What to type: to look at it, and on the host\n");
    let commands: Vec<&String> = std::iter::once(&best.compare).chain(&best.commands).collect();
    list(&mut text, &commands, most(COMMANDS_SHOWN), |command| {
        format!("  {}\n", harmless(command))
    });
    if !others.is_empty() {
        text.push_str("Or, better in one goal and worse in another\n");
        list(&mut text, others, most(OTHERS_SHOWN), |other| say_other(outcome, other, all));
    }
    text
}

fn head(outcome: &Outcome, input: &str) -> String {
    let Outcome { policy, pcpus, domains, search, verdict, tried, keeping, .. } = outcome;
    let many =
        |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let (pcpus, vms) = (many(*pcpus as usize, "pCPU"), many(*domains, "VM"));
    let mut text = format!("{input}: {pcpus}, {vms}, under {policy}\n");
    let _ = write!(
        text,
        "{tried} settings tried, {} runs of {} each",
        search.seeds,
        time(search.length_ns as f64)
    );
    let _ = match outcome.keeps.is_empty() {
        true => writeln!(text),
        false => writeln!(text, "; {keeping} keep what is to be kept"),
    };
    let (seeds, length) = (verdict.seeds, time(verdict.length_ns as f64));
    let _ = match outcome.errors.is_some() {
        true => {
            writeln!(
                text,
                "Verdict by {seeds} runs with other seeds, over the {length} that follow"
            )
        }
        false => writeln!(text, "Verdict by {seeds} runs with other seeds"),
    };
    for (goal, error) in outcome.goals.iter().zip(outcome.errors.iter().flatten()) {
        let _ = match error.is_finite() {
            true => writeln!(
                text,
                "Replays are off by a factor of {} in {}: what gains less is no gain",
                number(*error),
                told(&goal.text)
            ),
            false => writeln!(
                text,
                "Nobody knows how far replays are off in {}: nothing is a gain",
                told(&goal.text)
            ),
        };
    }
    text
}

/// Why nothing is proposed.
fn nothing(outcome: &Outcome) -> String {
    if outcome.keeping == 0 {
        return nearest(outcome);
    }
    let Some(best) = outcome.rejected.first() else {
        return "Nothing to gain: no setting is better than the host as it is.\n".to_owned();
    };
    let mut text =
        "Nothing to gain: what looked best is no gain by runs that the search has not seen\n"
            .to_owned();
    let _ = writeln!(text, "  {}", best.policy);
    figures(&mut text, outcome, best);
    text
}

/// No setting keeps what is to be kept: how near the nearest comes.
fn nearest(outcome: &Outcome) -> String {
    let mut text = "Nothing to gain: no setting keeps what is to be kept.\n".to_owned();
    let violation = |row: &&Row| row.score.violation;
    let rows = outcome.rows.iter();
    let Some(row) = rows.min_by(|a, b| violation(a).total_cmp(&violation(b))) else { return text };
    let _ = writeln!(text, "Nearest, by {}", row.policy);
    for (keep, values) in outcome.keeps.iter().zip(&row.figures.keeps) {
        let has = spread(spread_of(values), &keep.unit);
        let _ = writeln!(text, "  {}: {has}", told(&keep.text));
    }
    text
}

/// Goals and what is to be kept, a line each.
fn figures(text: &mut String, outcome: &Outcome, proposal: &Proposal) {
    for (goal, judged) in outcome.goals.iter().zip(&proposal.goals) {
        let little = judged.good_runs >= enough(outcome.verdict.seeds) && !judged.holds;
        let little = if little { ", but by less than replays are off" } else { "" };
        let runs = format!("{} of {}", judged.good_runs, outcome.verdict.seeds);
        let _ = writeln!(text, "  {}: better in {runs}{little}", say_judged(goal, judged));
    }
    for (keep, judged) in outcome.keeps.iter().zip(&proposal.keeps) {
        let kept = if judged.holds { "kept" } else { "NOT kept" };
        let runs = format!("{} of {}", judged.good_runs, outcome.verdict.seeds);
        let _ = writeln!(text, "  {}: {kept}, in {runs}", say_judged(keep, judged));
    }
}

fn say_judged(wanted: &Wanted, judged: &Judged) -> String {
    let unit = &wanted.unit;
    let now = judged.now.map_or("not measured".to_owned(), |it| with_unit(it.median, unit));
    format!("{}  {now} -> {}", told(&wanted.text), spread(judged.then, unit))
}

/// Places count from 1.
fn list<T>(text: &mut String, items: &[T], most: usize, say: impl Fn(&T) -> String) {
    for item in items.iter().take(most) {
        text.push_str(&say(item));
    }
    if items.len() > most {
        let _ = writeln!(text, "  and {} more: --all", items.len() - most);
    }
}

fn say_change(change: &ChangeMade) -> String {
    let ChangeMade { name, was, then, without } = change;
    let lost = match (without.keeps, without.lost) {
        (false, _) => "what is to be kept is not".to_owned(),
        (true, lost) if lost >= 1.0 => "all".to_owned(),
        (true, lost) => format!("{:.0} %", 100.0 * lost),
    };
    let was = was.as_ref().map_or(String::new(), |was| format!(" {was} ->"));
    format!("  {}{was} {then}: {lost}\n", told(name))
}

fn say_cost(cost: &Cost) -> String {
    let Cost { domain, share_percent: share, p99_ns: p99 } = cost;
    format!(
        "  {}: gets {} -> {} %, waits {} -> {}\n",
        told(domain),
        number(share.0),
        number(share.1),
        time(p99.0),
        time(p99.1)
    )
}

/// Another of the front.
fn say_other(outcome: &Outcome, other: &Proposal, all: bool) -> String {
    let goals = outcome.goals.iter().zip(&other.goals).map(|(goal, judged)| {
        let then =
            judged.then.map_or("not measured".to_owned(), |it| with_unit(it.median, &goal.unit));
        format!("{} {then}", told(&goal.text))
    });
    let mut text = format!("  {}: {}\n", other.policy, goals.collect::<Vec<_>>().join(", "));
    if all {
        for line in std::iter::once(&other.compare).chain(&other.commands) {
            let _ = writeln!(text, "    {}", harmless(line));
        }
    }
    text
}
