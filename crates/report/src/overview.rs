// SPDX-License-Identifier: GPL-2.0-only
//! A comparison on one screen: one figure of every virtual machine under every policy, and what to make
//! of it. What does not fit is counted; [`crate::table`] has all of it.

use comfy_table::{Attribute, Cell, Color};

use crate::format;
use crate::results::{Comparison, PolicySummary, Results};
use crate::summary::{HEADLINE, Section, Summary, summarise};
use crate::terminal::{Style, aligned, paint, sentence, visible, wrap};

/// Lines of a terminal, less the one in which the next command is typed.
pub const LINES: usize = 23;
/// Whatever else there is to say, so many rows are shown.
const LEAST_ROWS: usize = 3;
/// Widths of names, and of figures: "*9.18 ms", below "@xen-4.20".
const LABEL_WIDTHS: [usize; 2] = [12, 30];
const POLICY_WIDTHS: [usize; 2] = [10, 16];
/// Policies whose faults are told.
const MOST_FAULTS: usize = 2;
/// Characters of what an assumption is about.
const ASSUMED: usize = 50;

/// Each comparison on a screen of its own.
pub fn overview(results: &Results, style: Style) -> String {
    let screens = results.comparisons.iter().map(|comparison| screen(comparison, style));
    screens.collect::<Vec<_>>().join("\n")
}

fn screen(comparison: &Comparison, style: Style) -> String {
    let summary = summarise(comparison);
    let head = head(comparison, style);
    let remarks = remarks(comparison, &summary, style);
    let sections: Vec<&Section> = summary.sections.iter().filter(|it| it.counts).collect();
    let label = sections.iter().map(|section| visible(&section.title).chars().count() + 1).max();
    let label = label.unwrap_or(0).clamp(LABEL_WIDTHS[0], LABEL_WIDTHS[1]).min(style.width / 2);
    let room = style.width.saturating_sub(label);
    let words = summary.policies.iter().flat_map(|label| label.split(['@', '+']));
    let longest = words.map(|word| visible(word).chars().count() + 2).max().unwrap_or(0);
    let least = longest.clamp(POLICY_WIDTHS[0], POLICY_WIDTHS[1]);
    let columns = columns(comparison, &sections, (room / least).max(1));
    let column = (room / columns.len().max(1)).clamp(least, POLICY_WIDTHS[1]);
    let header = columns.iter().map(|&number| {
        let mark = if summary.faults[number].is_empty() { "" } else { "†" };
        let label = visible(&summary.policies[number]).replace('@', "\n@").replace('+', "\n+");
        Cell::new(format!("{mark}{label}")).add_attribute(Attribute::Bold)
    });
    let header = aligned([(String::new(), header.collect())], (label, column), style);
    // Two lines are empty, one may tell what is left out.
    let taken = [&head, &header, &remarks].map(|text| text.lines().count()).iter().sum::<usize>();
    let most = LINES.saturating_sub(taken + 3).max(LEAST_ROWS);
    let shown = &sections[..sections.len().min(most)];
    let rows = shown.iter().filter_map(|section| {
        let row = section.headline()?;
        let cells = columns.iter().map(|&number| {
            let cell = &row.cells[number];
            let shown =
                Cell::new(format!("{}{}", if cell.best { "*" } else { "" }, visible(&cell.text)));
            if cell.best { shown.fg(Color::DarkGreen) } else { shown }
        });
        Some((fitted(&visible(&section.title), label - 1), cells.collect()))
    });
    let table = aligned(rows, (label, column), style);
    let mut parts = vec![head, header];
    parts.extend((!table.is_empty()).then_some(table));
    parts.extend(left_out(&summary, shown, summary.policies.len() - columns.len()));
    format!("{}\n\n{remarks}\n", parts.join("\n"))
}

/// What is compared, and how to read the table.
fn head(comparison: &Comparison, style: Style) -> String {
    let seeds = comparison.seeds.len();
    let about = format!(
        "{}, {} on {} pCPU{}. {HEADLINE}: 99 % of the waits for a pCPU were no longer{}; * is the best.",
        visible(&comparison.source),
        format::time(comparison.length_ns as f64),
        comparison.host.pcpus,
        if comparison.host.pcpus == 1 { "" } else { "s" },
        if seeds > 1 { format!(", in the median of {seeds} seeds") } else { String::new() },
    );
    let about = wrap(&about, style.width.saturating_sub(2));
    format!(
        "{}\n  {about}",
        paint(style, &fitted(&visible(&comparison.scenario), style.width), "1")
    )
}

/// The policies that are shown, if no more than so many fit: what was recorded and its own scheduler, then
/// those that are best most often; in their order.
fn columns(comparison: &Comparison, sections: &[&Section], most: usize) -> Vec<usize> {
    let own = comparison.replay_error.as_ref().map(|error| error.policy.as_str());
    let rank = |&number: &usize| {
        let label = comparison.policies[number].label.as_str();
        let best = |section: &&&Section| {
            section.headline().is_some_and(|row| row.cells.get(number).is_some_and(|it| it.best))
        };
        let best = sections.iter().filter(best).count();
        std::cmp::Reverse((label == PolicySummary::RECORDED, Some(label) == own, best))
    };
    let mut numbers: Vec<usize> = (0..comparison.policies.len()).collect();
    numbers.sort_by_key(rank);
    numbers.truncate(most);
    numbers.sort_unstable();
    numbers
}

/// A line on what the table does not show.
fn left_out(summary: &Summary, shown: &[&Section], policies: usize) -> Option<String> {
    let domains = |sections: &mut dyn Iterator<Item = &Section>| {
        sections.map(|section| section.domains).sum::<usize>()
    };
    let all = domains(&mut summary.sections.iter());
    let hidden = all - domains(&mut shown.iter().copied());
    let named = |count: usize, one: &str, more: &str| match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        count => Some(format!("{count} {more}")),
    };
    let parts = [named(hidden, "domain", "domains"), named(policies, "policy", "policies")];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("({} more: --all)", parts.join(" and ")))
}

/// The verdict, how far it can be trusted, and where to read on.
fn remarks(comparison: &Comparison, summary: &Summary, style: Style) -> String {
    let mut remarks = vec![summary.headline.clone()];
    if let Some(error) = &comparison.replay_error {
        remarks.push(error.short());
    }
    remarks.extend(comparison.described.iter().cloned());
    if !comparison.assumed.is_empty() {
        let subject = |sentence: &String| {
            let subject =
                sentence.split_once(':').map_or(sentence.as_str(), |(subject, _)| subject);
            fitted(subject, ASSUMED)
        };
        let subjects: Vec<String> = comparison.assumed.iter().map(subject).collect();
        remarks.push(format!("Assumed, not recorded: {}.", subjects.join("; ")));
    }
    let faults: Vec<String> = summary.all_faults().collect();
    let told = faults.iter().take(MOST_FAULTS).map(|fault| format!("† {fault}"));
    remarks.extend(told.map(|fault| fitted(&visible(&fault), style.width.saturating_sub(2))));
    let more = faults.len().saturating_sub(MOST_FAULTS);
    if more > 0 {
        remarks.push(format!("† {more} more of these: --all"));
    }
    remarks.push("Every figure: --all. A page with plots: --out DIR.".to_owned());
    let lines = remarks.iter().enumerate().map(|(number, remark)| {
        let text = wrap(&sentence(remark), style.width.saturating_sub(2));
        if number == 0 { paint(style, &text, "1") } else { text }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// At most so many characters of a text, `…` where it is cut.
pub fn fitted(text: &str, width: usize) -> String {
    match text.chars().count() > width {
        true => text.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
        false => text.to_owned(),
    }
}
