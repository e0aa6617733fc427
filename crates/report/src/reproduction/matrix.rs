// SPDX-License-Identifier: GPL-2.0-only
//! The five systems on every experiment: what the picture and the tables have in common, and the
//! picture.

use std::io::{self, Write};

use maud::{Markup, html};
use steelyard_experiment::{Cell, MatrixOutcome, Outcome, Reproduction};

use crate::format::number;

/// What the numbers are.
pub const CAPTION: &str = "Every system on every experiment: how many times as good as the \
                           experiment's baseline (more is better), the same of what the system \
                           extends without it, Jain's index of share over entitlement, switches \
                           per second.";

/// A gain that is not shown as one.
pub const EVEN: f64 = 1.02;

/// The experiments that have a column.
pub fn columns(
    reproduction: &Reproduction,
) -> impl Iterator<Item = (&Outcome, &MatrixOutcome)> + Clone {
    reproduction.experiments.iter().filter_map(|outcome| Some((outcome, outcome.matrix.as_ref()?)))
}

/// How many times as good as the baseline.
pub fn gain(cell: &Cell) -> String {
    times(cell.gain)
}

/// The same of what it extends, alone.
pub fn base(cell: &Cell) -> String {
    format!("{} alone: {}", cell.base, times(cell.base_gain))
}

fn times(gain: Option<f64>) -> String {
    gain.map_or("not measured".to_owned(), |gain| format!("{} x", number(gain)))
}

/// What it costs: fairness and switches.
pub fn cost(cell: &Cell) -> String {
    let fairness = cell.fairness.map(|fairness| format!("Jain {:.3}", fairness.median));
    let switches = cell.switches_per_s.map(|rate| format!("{} /s", number(rate.median)));
    fairness.into_iter().chain(switches).collect::<Vec<_>>().join(", ")
}

/// Writes `matrix.svg`: a picture that needs no other file.
///
/// # Errors
/// Those of `writer`.
pub fn write_matrix(reproduction: &Reproduction, mut writer: impl Write) -> io::Result<()> {
    writer.write_all(picture(reproduction).into_string().as_bytes())?;
    writer.write_all(b"\n")
}

const LABELS: usize = 130;
const COLUMN: usize = 186;
const HEADER: usize = 78;
const ROW: usize = 72;
const MARGIN: usize = 12;

/// The picture. Its card is white wherever it is shown.
pub fn picture(reproduction: &Reproduction) -> Markup {
    let columns: Vec<_> = columns(reproduction).collect();
    let rows = columns.first().map_or(0, |(_, matrix)| matrix.systems.len());
    let width = LABELS + COLUMN * columns.len() + 2 * MARGIN;
    let height = HEADER + ROW * rows + 2 * MARGIN;
    let left = |column: usize| MARGIN + LABELS + column * COLUMN;
    let top = |row: usize| MARGIN + HEADER + row * ROW;
    let text = |x: usize, y: usize, size: usize, weight: usize, fill: &str, text: &str| {
        html! {
            text x=(x) y=(y) font-size=(size) font-weight=(weight) fill=(fill) text-anchor="middle" {
                (text)
            }
        }
    };
    html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (width) " " (height) }
            width=(width) height=(height) role="img" aria-label=(CAPTION)
            font-family="system-ui, 'Segoe UI', Roboto, 'Noto Sans', sans-serif"
        {
            title { (CAPTION) }
            rect width=(width) height=(height) rx="8" fill="#ffffff" {}
            @for (number, (outcome, matrix)) in columns.iter().enumerate() {
                @let middle = left(number) + COLUMN / 2;
                (text(middle, MARGIN + 20, 15, 600, "#1b1f24", &outcome.name))
                (text(middle, MARGIN + 40, 11, 400, "#59636e", &matrix.label))
                (text(middle, MARGIN + 57, 11, 400, "#59636e",
                    &format!("against {}", matrix.baseline.policy)))
                @for (row, cell) in matrix.systems.iter().enumerate() {
                    @let y = top(row);
                    rect x=(left(number) + 2) y=(y + 2) width=(COLUMN - 4) height=(ROW - 4) rx="5"
                        fill=(colour(cell))
                    {
                        @if let Some(reason) = &cell.without { title { (reason) } }
                    }
                    @if cell.without.is_some() {
                        (text(middle, y + ROW / 2 + 5, 13, 400, "#59636e", "no meaning"))
                    } @else {
                        (text(middle, y + 27, 16, 600, "#1b1f24", &gain(cell)))
                        (text(middle, y + 44, 11, 400, "#3c444d", &base(cell)))
                        (text(middle, y + 60, 11, 400, "#3c444d", &cost(cell)))
                    }
                }
            }
            @if let Some((_, matrix)) = columns.first() {
                @for (row, cell) in matrix.systems.iter().enumerate() {
                    text x=(MARGIN + LABELS - 12) y=(top(row) + ROW / 2 + 5) font-size="15"
                        font-weight="600" fill="#1b1f24" text-anchor="end" { (cell.policy) }
                }
            }
        }
    }
}

/// Blue is better than the baseline, orange worse, deeper up to a factor of 8; grey is without
/// meaning.
fn colour(cell: &Cell) -> String {
    let Some(gain) = cell.gain else { return "#e6e9ed".to_owned() };
    let depth = (gain.log2().abs() / 3.0).min(1.0);
    let full: [f64; 3] = if gain >= 1.0 { [86.0, 180.0, 233.0] } else { [240.0, 150.0, 70.0] };
    let mix = full.map(|channel| (246.0 + (channel - 246.0) * depth).round() as u8);
    format!("#{:02x}{:02x}{:02x}", mix[0], mix[1], mix[2])
}
