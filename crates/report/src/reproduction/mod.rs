// SPDX-License-Identifier: GPL-2.0-only
//! Published experiments: tables for the terminal and for pages, `results.json`, a report with the
//! publications' figures redrawn, and the picture of all systems on all experiments.

mod html;
mod markdown;
mod matrix;
mod terminal;

use std::io::{self, Write};

use steelyard_experiment::{
    ClaimOutcome, Figures, LabFigure, LabOutcome, LabRow, Machine, Outcome, Reproduction, Settled,
    Spread, State, StatementOutcome,
};

use crate::format::with_unit;

pub use html::write_html;
pub use markdown::write_markdown;
pub use matrix::write_matrix;
pub use terminal::table;

/// Writes `results.json`.
///
/// # Errors
/// Those of `writer`.
pub fn write_json(reproduction: &Reproduction, mut writer: impl Write) -> io::Result<()> {
    serde_json::to_writer(&mut writer, reproduction)?;
    writer.write_all(b"\n")
}

/// Heads what real hosts gave.
const LAB: &str = "The same scaled down to a test machine, in real hosts";

/// A state in words.
fn state(state: State) -> &'static str {
    match state {
        State::Holds => "holds",
        State::Fails => "does not hold",
        State::Known => "does not hold (known)",
        State::Turned => "holds (not expected)",
        State::Undecided => "undecided",
    }
}

/// A sign for a state that needs no colour.
fn sign(state: State) -> &'static str {
    match state {
        State::Holds => "✓",
        State::Fails | State::Known => "✗",
        State::Turned => "!",
        State::Undecided => "?",
    }
}

/// The states in the order in which they are counted.
const STATES: [State; 5] =
    [State::Holds, State::Known, State::Fails, State::Turned, State::Undecided];

/// How many claims of the publication are in each of [`STATES`].
fn counts(outcome: &Outcome) -> [usize; STATES.len()] {
    STATES.map(|state| claims(outcome, false).filter(|claim| claim.state == state).count())
}

/// The claims of the publication, or ours.
fn claims(outcome: &Outcome, ours: bool) -> impl Iterator<Item = &ClaimOutcome> {
    outcome.claims.iter().filter(move |claim| claim.source.is_empty() == ours)
}

/// A claim, and where it stands.
fn told(claim: &ClaimOutcome) -> String {
    let source = if claim.source.is_empty() { "ours" } else { &claim.source };
    format!("{} ({source})", claim.says)
}

/// What is to be known of a claim beside its figures.
fn remarks(claim: &ClaimOutcome) -> impl Iterator<Item = String> + '_ {
    let known = claim.known.iter();
    let known = known.flat_map(|known| {
        let turned_by = known.turned_by.iter().map(|turned_by| format!("Turned by: {turned_by}"));
        std::iter::once(format!("Because: {}", known.because)).chain(turned_by)
    });
    known.chain(claim.chosen_after.iter().map(|seen| format!("Chosen after it was seen: {seen}")))
}

/// Heads the claims that no publication makes.
const OURS: &str = "Ours, of no publication";

/// Heads what has become of everything that a publication says.
const LIST: &str = "What became of what the publications say";

/// What a publication says, with its values.
fn said(statement: &StatementOutcome) -> String {
    let values: Vec<_> = statement.values.iter().map(f64::to_string).collect();
    match values.is_empty() {
        true => statement.says.clone(),
        false => format!("{}: {}", statement.says, values.join(", ")),
    }
}

/// What has become of a statement, in words.
fn settled(settled: Settled) -> &'static str {
    match settled {
        Settled::Holds => "holds",
        Settled::HoldsChosenAfter => "holds, chosen after",
        Settled::DoesNotHold => "does not hold",
        Settled::Undecided => "undecided",
        Settled::NoClaimYet => "no claim yet",
        Settled::NotReproducible => "not reproducible here",
        Settled::Followed => "set so",
        Settled::Differs => "set otherwise",
    }
}

/// What can become of a statement, in the order in which it is counted: of what was found, then of
/// what was set.
const SETTLED: [Settled; 8] = [
    Settled::Holds,
    Settled::HoldsChosenAfter,
    Settled::DoesNotHold,
    Settled::Undecided,
    Settled::NoClaimYet,
    Settled::NotReproducible,
    Settled::Followed,
    Settled::Differs,
];

/// The head and the rows of the count of all statements; the last row is their sum.
fn list(reproduction: &Reproduction) -> (Vec<String>, Vec<Vec<String>>) {
    let header = ["experiment", "statements", "values in tables"].map(str::to_owned).into_iter();
    let header = header.chain(SETTLED.map(|of| settled(of).to_owned())).collect();
    let counts = |outcome: &Outcome| -> Vec<usize> {
        let statements = || outcome.statements.iter();
        let values = statements().map(|statement| statement.values.len()).sum();
        let of = |settled| statements().filter(|statement| statement.settled == settled).count();
        [statements().count(), values].into_iter().chain(SETTLED.map(of)).collect()
    };
    let mut sum = vec![0; SETTLED.len() + 2];
    let row = |name: &str, counts: &[usize]| {
        std::iter::once(name.to_owned()).chain(counts.iter().map(usize::to_string)).collect()
    };
    let mut rows: Vec<Vec<String>> = vec![];
    for outcome in &reproduction.experiments {
        let counts = counts(outcome);
        sum.iter_mut().zip(&counts).for_each(|(sum, count)| *sum += count);
        rows.push(row(&outcome.name, &counts));
    }
    rows.push(row("all", &sum));
    (header, rows)
}

/// The median, and least and greatest where they do not read the same.
pub fn spread(value: Option<Spread>, unit: &str) -> String {
    let Some(value) = value else { return "not measured".to_owned() };
    let [median, least, greatest] =
        [value.median, value.least, value.greatest].map(|value| with_unit(value, unit));
    if least == greatest {
        return median;
    }
    // The unit once, if it is the same.
    let (number, rest) = least.split_once(' ').unwrap_or((&least, ""));
    let same = greatest.split_once(' ').is_some_and(|(_, unit)| unit == rest);
    format!("{median} ({}..{greatest})", if same { number } else { &least })
}

/// The header and the rows of what real hosts gave beside the simulator.
fn lab(lab: &LabOutcome) -> (Vec<String>, Vec<Vec<String>>) {
    let machines = lab.machines.iter().map(|machine| machine.name.as_str());
    let columns = std::iter::once("simulated").chain(machines);
    let of = |figure: &'static str| columns.clone().map(move |host| format!("{figure}, {host}"));
    let header = ["policy", "domain"].map(str::to_owned).into_iter();
    let figures = |figure: &LabFigure, unit: &str| {
        let real = figure.machines.iter().map(|value| match value {
            Some(value) => with_unit(*value, unit),
            None => "does not run it".to_owned(),
        });
        std::iter::once(spread(figure.simulated, unit)).chain(real).collect::<Vec<_>>()
    };
    let locks = lab.rows.iter().any(|row| row.acquisitions_per_s.is_some());
    let pings = lab.rows.iter().any(|row| row.mean_round_trip_ms.is_some());
    let of_task = |figure: &Option<LabFigure>, unit: &str, any: bool| match figure {
        Some(figure) => figures(figure, unit),
        None => vec![String::new(); if any { columns.clone().count() } else { 0 }],
    };
    let row = |row: &LabRow| {
        let names = vec![row.policy.clone(), row.domain.clone()];
        [
            names,
            figures(&row.share_percent, "percent"),
            figures(&row.worst_wait_ms, "ms"),
            of_task(&row.acquisitions_per_s, "1/s", locks),
            of_task(&row.mean_round_trip_ms, "ms", pings),
        ]
        .concat()
    };
    let header = header.chain(of("share")).chain(of("worst wait"));
    let header = header.chain(of("acquisitions").filter(|_| locks));
    (
        header.chain(of("mean round trip").filter(|_| pings)).collect(),
        lab.rows.iter().map(row).collect(),
    )
}

/// What the real hosts are.
fn hosts(lab: &LabOutcome) -> String {
    let host = |machine: &Machine| format!("{}: {}, {}", machine.name, machine.of, machine.date);
    lab.machines.iter().map(host).collect::<Vec<_>>().join("; ")
}

/// What was measured for a claim.
fn measured(figures: &[Figures]) -> impl Iterator<Item = String> + '_ {
    figures.iter().map(|figure| format!("{}: {}", figure.what, spread(figure.value, &figure.unit)))
}
