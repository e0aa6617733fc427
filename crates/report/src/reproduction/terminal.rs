// SPDX-License-Identifier: GPL-2.0-only
//! Tables in the terminal: a claim per row, and the matrix.

use std::fmt::Write;

use comfy_table::{Attribute, Cell, Color, ContentArrangement, Table};
use steelyard_experiment::{ClaimOutcome, Outcome, Reproduction, State};

use super::{matrix, measured, spread, state};
use crate::terminal::Style;

/// Every experiment's claims, then the five systems on all of them.
pub fn table(reproduction: &Reproduction, style: Style) -> String {
    let mut out = String::new();
    for outcome in &reproduction.experiments {
        experiment(&mut out, outcome, reproduction.seeds, style);
    }
    matrix_table(&mut out, reproduction, style);
    out
}

// Results of writing are not looked at here: writing to a String cannot fail.
fn experiment(out: &mut String, outcome: &Outcome, seeds: u64, style: Style) {
    let paint = |text: &str, code: &str| {
        if style.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    };
    let _ = writeln!(out, "{}  {}", paint(&outcome.name, "1"), outcome.title);
    let _ = writeln!(out, "{}", paint(&outcome.publication, "2"));
    let _ = writeln!(
        out,
        "{} variants, {seeds} seed{}: the median (least..greatest)",
        outcome.variants.len(),
        if seeds == 1 { "" } else { "s" }
    );
    let mut table = new_table(style);
    table.set_header(["claim", "published", "measured", ""].map(bold));
    for claim in &outcome.claims {
        table.add_row(row(claim));
    }
    let _ = writeln!(out, "{table}");
    for switch in &outcome.switches {
        let _ = writeln!(out, "{}", paint(&format!("Switch: {switch}"), "2"));
    }
    out.push('\n');
}

fn row(claim: &ClaimOutcome) -> [Cell; 4] {
    let mut says = format!("{} ({})", claim.says, claim.source);
    if let Some(known) = &claim.known {
        let _ = write!(says, "\nKnown not to hold: {}", known.because);
        if let Some(switches) = &known.turned_by {
            let _ = write!(says, "\nTurned by: {switches}");
        }
    }
    let color = match claim.state {
        State::Holds => Color::DarkGreen,
        State::Fails | State::Known => Color::DarkRed,
        State::Turned => Color::DarkYellow,
    };
    [
        Cell::new(says),
        Cell::new(&claim.expected),
        Cell::new(measured(&claim.measured).collect::<Vec<_>>().join("\n")),
        Cell::new(state(claim.state)).fg(color),
    ]
}

fn matrix_table(out: &mut String, reproduction: &Reproduction, style: Style) {
    let columns: Vec<_> = matrix::columns(reproduction).collect();
    let Some((_, first)) = columns.first() else { return };
    let mut table = new_table(style);
    let header = columns.iter().map(|(outcome, matrix)| {
        bold(&format!("{}\n{}\nagainst {}", outcome.name, matrix.label, matrix.baseline.policy))
    });
    table.set_header(std::iter::once(bold("")).chain(header));
    for (index, system) in first.systems.iter().enumerate() {
        let cells = columns.iter().map(|(_, matrix)| {
            let cell = &matrix.systems[index];
            let text = match &cell.without {
                Some(reason) => format!("none: {reason}"),
                None => {
                    format!(
                        "{}\n{}\n{}",
                        matrix::gain(cell),
                        matrix::base(cell),
                        matrix::cost(cell)
                    )
                }
            };
            match cell.gain {
                Some(gain) if gain > matrix::EVEN => Cell::new(text).fg(Color::DarkGreen),
                Some(gain) if gain < 1.0 / matrix::EVEN => Cell::new(text).fg(Color::DarkRed),
                _ => Cell::new(text),
            }
        });
        table.add_row(std::iter::once(bold(&system.policy)).chain(cells));
    }
    let baselines = columns.iter().map(|(_, matrix)| {
        let cell = &matrix.baseline;
        Cell::new(format!("{}\n{}", spread(cell.value, &matrix.unit), matrix::cost(cell)))
    });
    table.add_row(std::iter::once(bold("baseline")).chain(baselines));
    let _ = writeln!(out, "{}\n{table}", matrix::CAPTION);
}

fn bold(text: &str) -> Cell {
    Cell::new(text).add_attribute(Attribute::Bold)
}

fn new_table(style: Style) -> Table {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::UTF8_HORIZONTAL_ONLY);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(u16::try_from(style.width).unwrap_or(u16::MAX));
    if style.color {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    table
}
