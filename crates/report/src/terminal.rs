// SPDX-License-Identifier: GPL-2.0-only
//! The whole table in the terminal: policies side by side, one block of rows per group of domains.

use std::fmt::Write;
use std::ops::{Range, RangeInclusive};

use comfy_table::{
    Attribute, Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Table, Width,
};
use steelyard_boundary::text::{harmless, short, told};

use crate::format;
use crate::results::{Comparison, Results};
use crate::summary::{Section, summarise};

/// How to write for a terminal.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Columns of the terminal.
    pub width: usize,
    /// Whether it shows colours.
    pub color: bool,
}

/// Width of the first column, with a space behind.
const LABEL_WIDTH: usize = 20;
/// Widths of the others: "*48.2/50.0 %", and as much as "908 µs..1.03 ms".
const POLICY_WIDTHS: RangeInclusive<usize> = 13..=16;
/// Characters of a verdict, which has names in it.
const VERDICT: usize = 1000;
/// More sections than this are left to the files.
const MOST_SECTIONS: usize = 12;

/// All comparisons, policy beside policy. The best figures of a row are marked `*`.
pub fn table(results: &Results, style: Style) -> String {
    let mut out = String::new();
    for comparison in &results.comparisons {
        comparison_table(&mut out, comparison, style);
    }
    out
}

fn comparison_table(out: &mut String, comparison: &Comparison, style: Style) {
    let summary = summarise(comparison);
    let seeds = comparison.seeds.len();
    // Results of writing are not looked at here: writing to a String cannot fail.
    let paint = |text: &str, code: &str| paint(style, text, code);
    let mut about = format!(
        "{}, {} on {} pCPU{}. Percentages of time are of one pCPU.",
        visible(&comparison.source),
        format::time(comparison.length_ns as f64),
        comparison.host.pcpus,
        if comparison.host.pcpus == 1 { "" } else { "s" },
    );
    if summary.policies.len() > 1 {
        about += " * is the best of a row.";
    }
    if seeds > 1 {
        let _ = write!(about, " {seeds} seeds: the median, and least..greatest where they differ.");
    }
    let _ = writeln!(out, "{}", paint(&visible(&comparison.scenario), "1"));
    let _ = writeln!(out, "  {}", wrap(&about, style.width.saturating_sub(2)));
    let space = style.width.saturating_sub(LABEL_WIDTH);
    let most = (space / POLICY_WIDTHS.start()).max(1);
    let tables = summary.policies.len().div_ceil(most).max(1);
    let each = summary.policies.len().div_ceil(tables).max(1);
    let column = (space / each).clamp(*POLICY_WIDTHS.start(), *POLICY_WIDTHS.end());
    for (number, policies) in summary.policies.chunks(each).enumerate() {
        let columns = number * each..number * each + policies.len();
        let header = columns.clone().zip(policies).map(|(number, label)| {
            let mark = if summary.faults[number].is_empty() { "" } else { "†" };
            let label = visible(label).replacen('@', "\n@", 1);
            Cell::new(format!("{mark}{label}")).add_attribute(Attribute::Bold)
        });
        let _ = writeln!(
            out,
            "\n{}",
            aligned([("".to_owned(), header.collect())], (LABEL_WIDTH, column), style)
        );
        let rule = "─".repeat(LABEL_WIDTH + column * policies.len());
        let _ = writeln!(out, "{}", paint(&rule, "2"));
        let host = summary.sections.len() - 1;
        let shown = host.min(MOST_SECTIONS);
        for section in summary.sections[..shown].iter().chain(&summary.sections[host..]) {
            let detail = paint(&visible(&section.detail), "2");
            let _ = writeln!(out, "{}  {detail}", paint(&visible(&section.title), "1"));
            let _ = writeln!(out, "{}\n", section_table(section, columns.clone(), column, style));
        }
        if host > shown {
            let _ = writeln!(out, "({} more in the report and in results.csv)\n", host - shown);
        }
    }
    let faults: Vec<_> = summary.all_faults().collect();
    let known = summary.known.iter().map(|known| format!("{}: {}", known.of, known.text));
    let replay = summary.replay.iter().take(MOST_SECTIONS).cloned().collect();
    for (title, lines) in [
        ("How far replays are off", replay),
        ("Known: the host was described", comparison.described.clone()),
        ("Assumed: the recording does not say it", comparison.assumed.clone()),
        ("Never best (†)", faults),
        ("Known", known.collect()),
    ] {
        if !lines.is_empty() {
            let _ = writeln!(out, "{}", paint(title, "1"));
            for line in lines {
                let _ = writeln!(out, "- {}", wrap(&visible(&line), style.width.saturating_sub(2)));
            }
            out.push('\n');
        }
    }
    if !summary.verdicts.is_empty() {
        let _ = writeln!(out, "{}", paint("Who serves whom best", "1"));
        for verdict in summary.verdicts.iter().take(MOST_SECTIONS) {
            let verdict = sentence(verdict);
            let _ = writeln!(out, "- {}", wrap(&verdict, style.width.saturating_sub(2)));
        }
        out.push('\n');
    }
}

fn section_table(section: &Section, columns: Range<usize>, width: usize, style: Style) -> String {
    let rows = section.rows.iter().filter(|row| row.terse).map(|row| {
        let cells = row.cells[columns.clone()].iter().map(|cell| {
            let mark = if cell.best { "*" } else { "" };
            let spread = cell.spread.as_ref().map_or(String::new(), |spread| format!("\n{spread}"));
            let shown = Cell::new(format!("{mark}{}{spread}", visible(&cell.text)));
            if cell.best { shown.fg(Color::DarkGreen) } else { shown }
        });
        (format!("  {}", visible(&row.label)), cells.collect())
    });
    aligned(rows, (LABEL_WIDTH, width), style)
}

/// Rows of a label and cells, in columns that are the same in every table.
pub fn aligned(
    rows: impl IntoIterator<Item = (String, Vec<Cell>)>,
    (label, width): (usize, usize),
    style: Style,
) -> String {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    // Only then are constraints heeded; the widths are all fixed, so that the limit has no effect.
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(u16::MAX);
    if style.color {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    for (label, cells) in rows {
        table.add_row(std::iter::once(Cell::new(label)).chain(cells));
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        let (width, padding, alignment) = match index {
            0 => (label, (0, 1), CellAlignment::Left),
            _ => (width, (1, 0), CellAlignment::Right),
        };
        column.set_padding(padding).set_cell_alignment(alignment);
        column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width as u16)));
    }
    table.trim_fmt()
}

/// A text with an attribute of the terminal.
pub fn paint(style: Style, text: &str, code: &str) -> String {
    if style.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

/// Names come from files: none may steer the terminal, nor fill it.
pub fn visible(text: &str) -> String {
    told(text).to_string()
}

/// A sentence with such names in it.
pub fn sentence(text: &str) -> String {
    harmless(&short(text, VERDICT)).into_owned()
}

/// Breaks a line between words; what follows is indented.
pub fn wrap(text: &str, width: usize) -> String {
    format::lines(text, width).join("\n  ")
}
