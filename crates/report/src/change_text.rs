// SPDX-License-Identifier: GPL-2.0-only
//! What a change brought, as people read it: a verdict, then a row for each domain with what was before, what
//! is after, and how far the change can be told.

use comfy_table::{Attribute, Cell, Color};

use crate::change::{Change, Changed, DRAWINGS, DomainChange, KEPT_PERCENT, Side};
use crate::format;
use crate::overview::{LINES, fitted};
use crate::summary::{HEADLINE, spread};
use crate::terminal::{Style, aligned, paint, sentence, visible, wrap};

const LABEL_WIDTH: usize = 16;
const COLUMN_WIDTH: usize = 16;
/// Names that are told of who is in one recording alone.
const MOST_NAMES: usize = 5;

/// All of it, or as many domains as a screen has room for.
#[must_use]
pub fn change_table(change: &Change, all: bool, style: Style) -> String {
    let text = |text: &str| wrap(&sentence(text), style.width.saturating_sub(2));
    let side = |side: &Side| {
        format!("{} ({})", visible(&side.source), format::time(side.length_ns as f64))
    };
    let mut lines = vec![
        text(&format!("From {} to {}", side(&change.before), side(&change.after))),
        paint(style, &text(&headline(change)), "1"),
        String::new(),
    ];
    let remarks: Vec<String> = remarks(change).iter().map(|remark| text(remark)).collect();
    if !change.domains.is_empty() {
        let header = [HEADLINE, "worst wait", "share", "waited"]
            .map(|title| Cell::new(title).add_attribute(Attribute::Bold));
        let widths = (LABEL_WIDTH, COLUMN_WIDTH);
        lines.push(aligned([(String::new(), header.to_vec())], widths, style));
        // Each takes two lines; one is empty, one tells how many are left out.
        let taken = lines.iter().chain(&remarks).map(|part| part.lines().count().max(1));
        let room = LINES.saturating_sub(taken.sum::<usize>() + 2) / 2;
        let most = if all { usize::MAX } else { room.max(1) };
        let rows = change.domains.iter().take(most).map(|domain| {
            let name = fitted(&visible(&domain.name), LABEL_WIDTH - 1);
            (name, cells(domain))
        });
        lines.push(aligned(rows, widths, style));
        let more = change.domains.len().saturating_sub(most);
        if more > 0 {
            lines.push(format!("({more} more: --all)"));
        }
        lines.push(String::new());
    }
    lines.extend(remarks);
    lines.join("\n") + "\n"
}

/// By the one figure: who is better off, who is worse.
fn headline(change: &Change) -> String {
    let machines = change.domains.iter().filter(|domain| !domain.rest_of_host);
    let figures: Vec<(&DomainChange, Changed)> =
        machines.filter_map(|domain| Some((domain, domain.wait_p99_ns?))).collect();
    let certain = |shorter: bool| {
        let of = figures
            .iter()
            .filter(move |(_, p99)| p99.certain && (p99.change.greatest < 1.0) == shorter);
        of.map(|(domain, _)| visible(&domain.name)).collect::<Vec<_>>()
    };
    let (shorter, longer) = (certain(true), certain(false));
    let all = figures.len();
    if all == 0 {
        return "No virtual machine is in both: there is nothing to compare.".to_owned();
    }
    if shorter.is_empty() && longer.is_empty() {
        return format!("{HEADLINE}: no change that is more than chance, of {all}.");
    }
    let named = |names: &[String]| match names {
        [] => "none".to_owned(),
        names if names.len() <= 3 => names.join(", "),
        names => format!("{} of {all}", names.len()),
    };
    let same = all - shorter.len() - longer.len();
    format!(
        "{HEADLINE}: shorter for {}; longer for {}; no more than chance for {same} of {all}.",
        named(&shorter),
        named(&longer)
    )
}

fn cells(domain: &DomainChange) -> Vec<Cell> {
    let factor = |figure: Option<Changed>| {
        cell(figure, format::time, |change| {
            let factor = |value: f64| format!("{value:.2}");
            format!("{}..{} x", factor(change.0), factor(change.1))
        })
    };
    let points = |figure: Option<Changed>| {
        let percent = |value: f64| format!("{value:.1} %");
        cell(figure, percent, |change| format!("{:+.1}..{:+.1}", change.0, change.1))
    };
    vec![
        factor(domain.wait_p99_ns),
        factor(domain.worst_wait_ns),
        points(Some(domain.share_percent)),
        points(domain.waited_percent),
    ]
}

/// Before and after, and below it the interval of the change.
fn cell(
    figure: Option<Changed>,
    value: impl Fn(f64) -> String,
    interval: impl Fn((f64, f64)) -> String,
) -> Cell {
    let Some(figure) = figure else { return Cell::new("–") };
    let both = spread(&value(figure.before), &value(figure.after)).replacen("..", "→", 1);
    let mark = if figure.certain { "*" } else { "" };
    let change = interval((figure.change.least, figure.change.greatest));
    let cell = Cell::new(format!("{both}\n{mark}{change}"));
    if figure.certain { cell.fg(Color::DarkGreen) } else { cell }
}

fn remarks(change: &Change) -> Vec<String> {
    let windows =
        |side: &Side| format!("{} of {}", side.windows, format::time(side.window_ns as f64));
    let mut remarks = vec![];
    if !change.domains.is_empty() {
        remarks.push(format!(
        "Below each figure the change, as a factor or in points of a pCPU: {KEPT_PERCENT:.0} % of {DRAWINGS} \
         bootstraps over windows ({} before, {} after) are within. * is more than chance. It says what \
         differs, not why: the load may have been another, too.",
        windows(&change.before),
        windows(&change.after)
        ));
    }
    if change.before.pcpus != change.after.pcpus {
        remarks.push(format!(
            "The hosts differ: {} pCPUs before, {} after.",
            change.before.pcpus, change.after.pcpus
        ));
    }
    for (when, names) in [("before", &change.only_before), ("after", &change.only_after)] {
        if names.is_empty() {
            continue;
        }
        let told: Vec<String> = names.iter().take(MOST_NAMES).map(|name| visible(name)).collect();
        let more = match names.len().saturating_sub(MOST_NAMES) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        remarks.push(format!("Only {when}: {}{more}.", told.join(", ")));
    }
    remarks
}
