// SPDX-License-Identifier: GPL-2.0-only
//! What the terminal shows: every claim, the matrix, and how many claims hold.

use std::fmt::Write;

use comfy_table::{Attribute, Cell, Color, ContentArrangement, Table};
use steelyard_experiment::{ClaimOutcome, Outcome, Reproduction, State};

use super::matrix::{self, Verdict};
use super::{LAB, LIST, STATES, counts, hosts, measured, sign, state, told};
use crate::format::lines;
use crate::terminal::{Style, paint};

/// Width of the words before what was published, measured and so on.
const LABEL_WIDTH: usize = 14;

/// Every experiment's claims, the five systems on all of them, and how many claims hold.
pub fn table(reproduction: &Reproduction, style: Style) -> String {
    let mut out = String::new();
    for outcome in &reproduction.experiments {
        experiment(&mut out, outcome, reproduction.seeds, style);
    }
    matrix_table(&mut out, reproduction, style);
    summary(&mut out, reproduction, style);
    out
}

// Results of writing are not looked at here: writing to a String cannot fail.
fn experiment(out: &mut String, outcome: &Outcome, seeds: u64, style: Style) {
    let seeds = match seeds {
        1 => "1 seed".to_owned(),
        _ => format!("{seeds} seeds: the median (least..greatest)"),
    };
    let _ = writeln!(out, "{}  {}", paint(style, &outcome.name, "1"), outcome.title);
    for line in lines(&outcome.publication, style.width) {
        let _ = writeln!(out, "{}", paint(style, &line, "2"));
    }
    let _ = writeln!(out, "{} variants, {seeds}\n", outcome.variants.len());
    for claim in &outcome.claims {
        self::claim(out, claim, style);
    }
    if let Some(lab) = &outcome.lab {
        let (header, rows) = super::lab(lab);
        let mut table = new_table(style);
        table.set_header(header.iter().map(|title| bold(title)));
        for mut row in rows {
            row[0] = broken(&row[0]);
            table.add_row(row);
        }
        let _ = writeln!(out, "{}", paint(style, LAB, "1"));
        for line in lines(&hosts(lab), style.width) {
            let _ = writeln!(out, "{line}");
        }
        let _ = writeln!(out, "{table}\n");
    }
    for switch in &outcome.switches {
        labelled(out, "switch", switch, style);
    }
    out.push('\n');
}

fn claim(out: &mut String, claim: &ClaimOutcome, style: Style) {
    let color = match claim.state {
        State::Holds => "32",
        State::Fails | State::Known => "31",
        State::Turned | State::Undecided => "33",
    };
    for (index, line) in lines(&told(claim), style.width.saturating_sub(2)).iter().enumerate() {
        let mark = if index == 0 { paint(style, sign(claim.state), color) } else { " ".to_owned() };
        let _ = writeln!(out, "{mark} {}", paint(style, line, "1"));
    }
    let _ = writeln!(out, "  {}", paint(style, state(claim.state), color));
    labelled(out, "expected", &claim.expected, style);
    for (index, line) in measured(&claim.measured).enumerate() {
        labelled(out, if index == 0 { "measured" } else { "" }, &line, style);
    }
    if let Some(known) = &claim.known {
        labelled(out, "because", &known.because, style);
        if let Some(switches) = &known.turned_by {
            labelled(out, "turned by", switches, style);
        }
    }
    if let Some(seen) = &claim.chosen_after {
        labelled(out, "seen before", seen, style);
    }
    out.push('\n');
}

/// A text beside its label, in the lines that it takes.
fn labelled(out: &mut String, label: &str, text: &str, style: Style) {
    let mut label = label;
    for line in lines(text, style.width.saturating_sub(LABEL_WIDTH)) {
        let shown = paint(style, &format!("  {label:<width$}", width = LABEL_WIDTH - 2), "2");
        let _ = writeln!(out, "{shown}{line}");
        label = "";
    }
}

/// How many claims of the publications are in which state, and what became of all they say.
fn summary(out: &mut String, reproduction: &Reproduction, style: Style) {
    let mut table = new_table(style);
    table.set_header(["claims of publications"].into_iter().chain(STATES.map(state)).map(bold));
    for outcome in &reproduction.experiments {
        let counts = counts(outcome).map(Cell::new);
        table.add_row(std::iter::once(Cell::new(&outcome.name)).chain(counts));
    }
    let _ = writeln!(out, "\n{table}");
    let (header, rows) = super::list(reproduction);
    let mut table = new_table(style);
    table.set_header(header.iter().map(|title| bold(title)));
    table.add_rows(rows);
    let _ = writeln!(out, "\n{}\n{table}", paint(style, LIST, "1"));
}

fn matrix_table(out: &mut String, reproduction: &Reproduction, style: Style) {
    let columns = matrix::columns(reproduction);
    let Some((_, first)) = columns.first() else { return };
    let mut table = new_table(style);
    let header = columns
        .iter()
        .map(|(outcome, matrix)| bold(&format!("{}\n{}", outcome.name, matrix.label)));
    table.set_header(std::iter::once(bold("")).chain(header));
    for (index, system) in first.systems.iter().enumerate() {
        let cells = columns.iter().map(|(_, matrix)| {
            let on = &matrix.systems[index];
            let mut text = vec![matrix::effect(on)];
            text.extend(matrix::details(on));
            let cell = Cell::new(text.join("\n"));
            match Verdict::of(on) {
                Verdict::Better => cell.fg(Color::DarkGreen),
                Verdict::Worse => cell.fg(Color::DarkRed),
                _ => cell,
            }
        });
        let name = bold(&format!("{}\non {}", system.system.policy, broken(&system.base.policy)));
        table.add_row(std::iter::once(name).chain(cells));
    }
    let baselines = columns.iter().map(|(_, matrix)| {
        let baseline = matrix::baseline(matrix).join("\n");
        Cell::new(format!("{}\n{baseline}", broken(&matrix.baseline.policy)))
    });
    table.add_row(std::iter::once(bold("baseline")).chain(baselines));
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
    let _ = writeln!(out, "{}", paint(style, matrix::TITLE, "1"));
    for line in matrix::READING.iter().flat_map(|line| lines(line, style.width)) {
        let _ = writeln!(out, "{}", paint(style, &line, "2"));
    }
    let _ = writeln!(out, "{table}");
}

/// A policy in two lines.
fn broken(policy: &str) -> String {
    policy.replacen('@', "\n@", 1)
}

fn bold(text: &str) -> Cell {
    Cell::new(text).add_attribute(Attribute::Bold)
}

fn new_table(style: Style) -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::UTF8_HORIZONTAL_ONLY);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(u16::try_from(style.width).unwrap_or(u16::MAX));
    if style.color {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    table
}
