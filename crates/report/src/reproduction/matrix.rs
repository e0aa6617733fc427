// SPDX-License-Identifier: GPL-2.0-only
//! All systems on every experiment: what the picture and the tables have in common, and the
//! picture.

use std::io::{self, Write};

use maud::{Markup, html};
use steelyard_experiment::{
    Cell, MatrixOutcome, Outcome, Reproduction, SYSTEMS, Spread, SystemOutcome,
};

use super::spread;
use crate::format::{lines, number};

/// What the picture and the tables show.
pub const TITLE: &str =
    "Five published schedulers, ours and those of today on the five experiments";

/// How to read them; each item is a line of a cell.
pub const READING: [&str; 4] = [
    "First: the system over what it extends; a stock scheduler over what was stock before. 2.00 x is twice as good.",
    "Then: the whole system over the experiment's baseline; ★ at the best.",
    "Jain's index of share over entitlement: 1 means that all get what is theirs. a → b: without, with.",
    "Switches between vCPUs: with the system over without it.",
];

/// The experiments that have a column, in the order of the systems' rows.
pub fn columns(reproduction: &Reproduction) -> Vec<(&Outcome, &MatrixOutcome)> {
    let mut columns: Vec<_> = reproduction
        .experiments
        .iter()
        .filter_map(|outcome| Some((outcome, outcome.matrix.as_ref()?)))
        .collect();
    columns.sort_by_key(|(outcome, _)| {
        SYSTEMS.iter().position(|system| system.experiment == Some(outcome.name.as_str()))
    });
    columns
}

/// What a system does to an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It makes no sense there.
    Without,
    Unmeasured,
    Better,
    /// Less than two percent, or within what seeds gave.
    Even,
    Worse,
}

impl Verdict {
    pub fn of(on: &SystemOutcome) -> Verdict {
        // Whether a median is within what seeds gave of the other.
        let within =
            |one: Spread, other: Spread| (other.least..=other.greatest).contains(&one.median);
        let (Some(effect), Some(with), Some(without)) = (on.effect, on.system.value, on.base.value)
        else {
            return if on.without.is_some() { Verdict::Without } else { Verdict::Unmeasured };
        };
        match effect {
            _ if within(with, without) || within(without, with) => Verdict::Even,
            effect if effect >= 1.02 => Verdict::Better,
            effect if effect <= 0.98 => Verdict::Worse,
            _ => Verdict::Even,
        }
    }

    /// A sign that needs no colour.
    pub fn sign(self) -> &'static str {
        match self {
            Verdict::Better => "▲",
            Verdict::Worse => "▼",
            Verdict::Even => "≈",
            Verdict::Without | Verdict::Unmeasured => "",
        }
    }

    /// The same in a word.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Without => "no meaning",
            Verdict::Unmeasured => "not measured",
            Verdict::Better => "helps",
            Verdict::Even => "no clear difference",
            Verdict::Worse => "hurts",
        }
    }
}

/// What a system does to what it extends.
pub fn effect(on: &SystemOutcome) -> String {
    let verdict = Verdict::of(on);
    match on.effect {
        Some(effect) => format!("{} {} x", verdict.sign(), number(effect)),
        None => verdict.word().to_owned(),
    }
}

/// The lines of a cell below its effect: against the baseline, and what it costs.
pub fn details(on: &SystemOutcome) -> Vec<String> {
    let star = if on.best { " ★" } else { "" };
    let gain = on.system.gain.map(|gain| format!("{} x baseline{star}", number(gain)));
    [gain, fairness(on), switches(on)].into_iter().flatten().collect()
}

/// Jain's index, and that without the system where it is another one.
pub fn fairness(on: &SystemOutcome) -> Option<String> {
    let [with, without] =
        [on.system.fairness?, on.base.fairness?].map(|index| format!("{:.2}", index.median));
    Some(if with == without {
        format!("Jain {with}")
    } else {
        format!("Jain {without} → {with}")
    })
}

/// Whether the system costs others a part of what is theirs.
pub fn unfair(on: &SystemOutcome) -> bool {
    let index = |cell: &Cell| cell.fairness.map(|index| index.median);
    index(&on.base).zip(index(&on.system)).is_some_and(|(without, with)| with < without - 0.05)
}

/// Switches, with the system over without it.
pub fn switches(on: &SystemOutcome) -> Option<String> {
    let [with, without] = [on.system.switches_per_s?, on.base.switches_per_s?];
    let times = with.median / without.median;
    times.is_finite().then(|| format!("switches {} x", number(times)))
}

/// What is compared with: the figure, fairness, switches.
pub fn baseline(matrix: &MatrixOutcome) -> Vec<String> {
    let Cell { value, fairness, switches_per_s, .. } = &matrix.baseline;
    let fairness = fairness.map(|index| format!("Jain {:.2}", index.median));
    let switches = switches_per_s.map(|rate| format!("{} switches/s", number(rate.median)));
    let value =
        value.map(|Spread { median, .. }| Spread { median, least: median, greatest: median });
    [Some(spread(value, &matrix.unit)), fairness, switches].into_iter().flatten().collect()
}

/// Writes `matrix.svg`: a picture that needs no other file, in light and dark.
///
/// # Errors
/// Those of `writer`.
pub fn write_matrix(reproduction: &Reproduction, mut writer: impl Write) -> io::Result<()> {
    writer.write_all(picture(reproduction).into_string().as_bytes())?;
    writer.write_all(b"\n")
}

const MARGIN: usize = 14;
const LABELS: usize = 160;
const COLUMN: usize = 152;
const HEADER: usize = 98;
const ROW: usize = 84;
const LEGEND: usize = 24;
const LINE: usize = 17;
/// Characters of the small text that a column has room for.
const CHARACTERS: usize = 20;

/// The picture.
pub fn picture(reproduction: &Reproduction) -> Markup {
    let columns = columns(reproduction);
    let systems = columns.first().map_or(&[][..], |(_, matrix)| &matrix.systems);
    let width = LABELS + COLUMN * columns.len().max(4) + 2 * MARGIN;
    let left = |column: usize| MARGIN + LABELS + column * COLUMN;
    let top = |row: usize| MARGIN + HEADER + row * ROW;
    let legend = top(systems.len() + 1) + LEGEND;
    let height = legend + LINE * (READING.len() + 1) + MARGIN;
    let text = |class: &str, x: usize, y: usize, text: &str| {
        html! { text class=(class) x=(x) y=(y) { (text) } }
    };
    let label = |row: usize, name: &str, below: &str| {
        html! {
            (text("name left", MARGIN, top(row) + ROW / 2 - 2, name))
            (text("small left", MARGIN, top(row) + ROW / 2 + LINE - 2, below))
        }
    };
    let square = |row: usize, column: usize, class: &str, depth: f64| {
        html! {
            rect .(class) x=(left(column) + 3) y=(top(row) + 3) width=(COLUMN - 6) height=(ROW - 6)
                rx="5" fill-opacity=(format!("{depth:.2}")) {}
        }
    };
    html! {
        svg .matrix xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (width) " " (height) }
            width=(width) height=(height) role="img" aria-label=(TITLE)
        {
            title { (TITLE) }
            style { (maud::PreEscaped(include_str!("matrix.css"))) }
            rect .card width=(width) height=(height) rx="8" {}
            (text("title left", MARGIN, MARGIN + 16, TITLE))
            (text("small left", MARGIN, MARGIN + 52, "system ↓"))
            (text("small left", MARGIN, MARGIN + 52 + LINE, "experiment →"))
            @for (number, (outcome, matrix)) in columns.iter().enumerate() {
                @let middle = left(number) + COLUMN / 2;
                (text("name", middle, MARGIN + 52, &outcome.name))
                @for (line, words) in lines(&matrix.label, CHARACTERS).iter().take(3).enumerate() {
                    (text("small", middle, MARGIN + 52 + LINE * (line + 1), words))
                }
                @for (row, on) in matrix.systems.iter().enumerate() {
                    (square(row, number, "even", 1.0))
                    @let verdict = Verdict::of(on);
                    @if let (Verdict::Better | Verdict::Worse, Some(effect)) = (verdict, on.effect) {
                        // Deepest from a factor of 8 on.
                        @let class = if verdict == Verdict::Better { "better" } else { "worse" };
                        (square(row, number, class, (effect.log2().abs() / 3.0).clamp(0.25, 1.0)))
                    }
                    @if on.own { (square(row, number, "own", 0.0)) }
                    @if on.effect.is_some() {
                        @let class = if verdict == Verdict::Even { "effect plain" } else { "effect" };
                        (text(class, middle, top(row) + 22, &effect(on)))
                    } @else {
                        g {
                            title { (on.without.as_deref().unwrap_or_default()) }
                            (text("small", middle, top(row) + ROW / 2 + 4, &effect(on)))
                        }
                    }
                    @for (line, words) in details(on).iter().enumerate() {
                        @let class = if unfair(on) && words.starts_with("Jain") { "small unfair" } else { "small" };
                        (text(class, middle, top(row) + 40 + LINE * line, words))
                    }
                }
                @let row = matrix.systems.len();
                (text("small", middle, top(row) + 20, &matrix.baseline.policy))
                @for (line, words) in baseline(matrix).iter().enumerate() {
                    (text("small", middle, top(row) + 20 + LINE * (line + 1), words))
                }
            }
            @for (row, on) in systems.iter().enumerate() {
                (label(row, &on.system.policy, &format!("over {}", on.base.policy)))
            }
            (label(systems.len(), "baseline", "as it is"))
            @for (index, (class, words)) in [
                ("better", "▲ helps"),
                ("worse", "▼ hurts"),
                ("even", "≈ no clear difference"),
                ("even own", "its own experiment"),
            ].into_iter().enumerate() {
                @let x = MARGIN + index * 170;
                rect .(class) x=(x) y=(legend - 11) width="20" height="13" rx="3" {}
                (text("small left", x + 27, legend, words))
            }
            @for (line, words) in READING.iter().enumerate() {
                (text("small left", MARGIN, legend + 4 + LINE * (line + 1), words))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(value: Option<(f64, f64, f64)>) -> Cell {
        Cell {
            policy: String::new(),
            value: value.map(|(least, median, greatest)| Spread { median, least, greatest }),
            gain: None,
            fairness: None,
            switches_per_s: None,
        }
    }

    #[test]
    fn a_difference_is_clear_if_seeds_do_not_make_it_too() {
        let apart = [(9.0, 10.0, 11.0), (4.0, 5.0, 6.0)];
        let touching = [(5.5, 10.0, 11.0), (4.0, 5.0, 6.0)];
        let mixed = [(5.0, 10.0, 11.0), (4.0, 5.0, 6.0)];
        let cases = [
            (apart, Some(2.0), Verdict::Better),
            (apart, Some(0.5), Verdict::Worse),
            (apart, Some(1.01), Verdict::Even),
            (touching, Some(2.0), Verdict::Better),
            (mixed, Some(2.0), Verdict::Even),
            (apart, None, Verdict::Unmeasured),
        ];
        for ([with, without], effect, verdict) in cases {
            let on = SystemOutcome {
                own: false,
                best: false,
                without: None,
                system: cell(Some(with)),
                base: cell(Some(without)),
                effect,
            };
            assert_eq!(Verdict::of(&on), verdict, "{on:?}");
        }
    }
}
