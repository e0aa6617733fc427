// SPDX-License-Identifier: GPL-2.0-only
//! `report.html`: one file with everything in it. The words and tables are HTML, readable without
//! JavaScript; the charts are drawn by `chart.js` from the JSON of [`Charts`].

mod charts;

use std::io::{self, Write};

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::format;
use crate::results::{Comparison, PolicySummary, Results, RunTrace};
use crate::summary::{Cell, Summary, summarise};
use charts::Charts;

/// Sections beyond these are left to the other files.
pub const MOST_GROUPS: usize = 48;

/// Nothing is ever fetched: the browser itself forbids it.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                      img-src data: blob:; base-uri 'none'; form-action 'none'";

/// Writes `report.html`.
///
/// # Errors
/// Those of `writer`.
pub fn write_html(
    results: &Results,
    traces: &[RunTrace],
    mut writer: impl Write,
) -> io::Result<()> {
    let names: Vec<_> = results.comparisons.iter().map(|c| c.scenario.as_str()).collect();
    let body = html! {
        @for (index, comparison) in results.comparisons.iter().enumerate() {
            (section(index, comparison))
        }
    };
    let footer = html! {
        "Steelyard " (results.steelyard)
        ". All figures are in results.json and results.csv, the timelines also in \
         trace.json.gz for Perfetto."
    };
    let page = Page {
        title: &names.join(", "),
        subtitle: "which policy serves which VM best, and why",
        sections: &names,
        body,
        footer,
        data: serde_json::to_string(&Charts::new(results, traces))?,
        script: include_str!("report.js"),
    };
    page.write(&mut writer)
}

/// What differs between pages.
pub struct Page<'a> {
    /// In the window's title.
    pub title: &'a str,
    /// Beside the name of the program.
    pub subtitle: &'a str,
    /// Headings of the sections, whose ids are `input-0`, `input-1`, ...
    pub sections: &'a [&'a str],
    /// The sections.
    pub body: Markup,
    /// At the end.
    pub footer: Markup,
    /// JSON that the script draws.
    pub data: String,
    /// Draws the charts.
    pub script: &'static str,
}

impl Page<'_> {
    /// Writes the page.
    pub fn write(self, writer: &mut impl Write) -> io::Result<()> {
        // In a script element only this sign can end it early.
        let data = self.data.replace('<', "\\u003c");
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta http-equiv="Content-Security-Policy" content=(POLICY);
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (self.title) " · Steelyard" }
                    style { (PreEscaped(include_str!("report.css"))) }
                }
                body {
                    header {
                        div .wide {
                            h1 { "Steelyard" span { " " (self.subtitle) } }
                            label .theme {
                                "Colours "
                                select #theme {
                                    option value="auto" { "as the system" }
                                    option value="light" { "light" }
                                    option value="dark" { "dark" }
                                }
                            }
                        }
                    }
                    @if self.sections.len() > 1 {
                        nav .wide aria-label="Sections" {
                            @for (index, name) in self.sections.iter().enumerate() {
                                a href={ "#input-" (index) } { (name) }
                            }
                        }
                    }
                    noscript { p .wide { "Without JavaScript there are tables, but no charts." } }
                    main .wide { (self.body) }
                    footer .wide { (self.footer) }
                    script type="application/json" #data { (PreEscaped(data)) }
                    script { (PreEscaped(include_str!("chart.js"))) }
                    script { (PreEscaped(include_str!("common.js"))) }
                    script { (PreEscaped(self.script)) }
                }
            }
        };
        writer.write_all(page.into_string().as_bytes())?;
        writer.write_all(b"\n")
    }
}

fn section(index: usize, comparison: &Comparison) -> Markup {
    let summary = summarise(comparison);
    let host = summary.sections.len() - 1;
    let groups = &summary.sections[..host.min(MOST_GROUPS)];
    let id = |name: &str| format!("{name}-{index}");
    let settings = comparison.host;
    html! {
        section .input id=(id("input")) data-input=(index) {
            h2 { (comparison.scenario) }
            p .about {
                (comparison.source) " · " (format::time(comparison.length_ns as f64)) " · "
                (settings.pcpus) " pCPU" @if settings.pcpus != 1 { "s" }
                " (" (settings.sockets) " × " (settings.cores_per_socket) " × "
                (settings.threads_per_core) " sockets, cores, threads"
                @if settings.nodes_per_socket > 1 {
                    "; " (settings.nodes_per_socket) " nodes to a socket"
                }
                @if settings.caches_per_node > 1 {
                    "; " (settings.caches_per_node) " caches to a node"
                }
                ") · "
                (comparison.seeds.len()) " seed" @if comparison.seeds.len() != 1 { "s" }
            }
            fieldset .policies {
                legend { "Policies" }
                @for (number, label) in summary.policies.iter().enumerate() {
                    label {
                        input type="checkbox" checked data-policy=(number);
                        span .swatch data-policy=(number) {}
                        (label)
                    }
                }
            }
            @if !summary.replay.is_empty() {
                h3 { "How far replays are off" }
                ul .verdicts .replay {
                    @for line in summary.replay.iter().take(MOST_GROUPS) { li { (line) } }
                }
            }
            @if !comparison.described.is_empty() {
                h3 { "Known: the host was described" }
                ul .verdicts .described {
                    @for line in &comparison.described { li { (line) } }
                }
            }
            @if !comparison.assumed.is_empty() {
                h3 { "Assumed: the recording does not say it" }
                ul .verdicts .assumed {
                    @for line in &comparison.assumed { li { (line) } }
                }
            }
            @if summary.all_faults().next().is_some() {
                h3 { "Never best (†)" }
                ul .verdicts .faults {
                    @for fault in summary.all_faults() { li { (fault) } }
                }
            }
            @if !summary.known.is_empty() {
                h3 { "Known" }
                ul .verdicts .known {
                    @for known in &summary.known { li { (known.of) ": " (known.text) } }
                }
            }
            @if !summary.verdicts.is_empty() {
                h3 { "Who serves whom best" }
                ul .verdicts {
                    @for verdict in summary.verdicts.iter().take(MOST_GROUPS) { li { (verdict) } }
                }
            }
            (chart(
                &id("shares"),
                "Share against entitlement",
                "Bars: CPU time that a domain got, in percent of one pCPU. Diamonds: what it is \
                 entitled to. Whiskers: least and greatest over seeds and domains that are alike.",
            ))
            div .focus {
                h3 { "One domain closely" }
                label {
                    "Domain "
                    select .domain {
                        @for (number, group) in groups.iter().enumerate() {
                            option value=(number) { (group.title) }
                        }
                    }
                }
            }
            (chart(
                &id("workload"),
                "What its workload says",
                "The workload's own results under each policy; an arrow says which way is better.",
            ))
            div .pair {
                (chart(
                    &id("waits"),
                    "How long it waited each time",
                    "Part of all waits, from runnable to running, by length; ten steps per power of \
                     ten. Both axes are logarithmic: the tail on the right is what people feel.",
                ))
                (chart(
                    &id("worst"),
                    "Its worst wait, and who ran meanwhile",
                    "Bars: CPU time of others on the pCPUs that it waited for; several pCPUs may add \
                     up to more than the wait. Diamonds: length of the wait.",
                ))
            }
            h3 { "Who ran where" }
            p .about {
                "A stretch of the first seed's run around its worst wait, which is shaded. The buttons \
                 zoom and move; so does the wheel with Ctrl, and dragging. Double-click for the \
                 whole. Runs too short to be drawn are summed up in grey; zoom in to see them."
            }
            @for place in 0..summary.policies.len().min(2) { (timeline(index, place, &summary)) }
            (figures(&summary, comparison))
            (parameters(&comparison.policies))
        }
    }
}

/// A chart of that id, which a script draws, with its table behind it.
#[must_use]
pub fn chart(id: &str, title: &str, caption: &str) -> Markup {
    html! {
        figure {
            figcaption { h3 { (title) } p { (caption) } }
            (drawn(id, title))
            p .empty {}
            (behind())
        }
    }
}

/// Where a chart is drawn: a stop of the tab key, in which arrow keys go from mark to mark.
pub fn drawn(id: &str, title: &str) -> Markup {
    html! {
        div .chart id=(id) tabindex="0" role="group"
            aria-label={ (title) "; arrow keys go through it, the table below has the figures" } {}
    }
}

/// The table behind a chart, which `chart.js` fills when it is opened.
fn behind() -> Markup {
    html! {
        details .behind { summary { "As a table" } div .scroll { table {} } }
    }
}

/// Two of them, so that one policy can be held against another.
fn timeline(index: usize, place: usize, summary: &Summary) -> Markup {
    let id = format!("timeline-{index}-{place}");
    html! {
        figure .timeline data-place=(place) {
            figcaption {
                label {
                    "Policy "
                    select .policy {
                        @for (number, label) in summary.policies.iter().enumerate() {
                            option value=(number) { (label) }
                        }
                    }
                }
                span .buttons role="group" aria-label="Timeline" {
                    @for (action, name, sign) in [
                        ("left", "Earlier", "◀"),
                        ("right", "Later", "▶"),
                        ("in", "Zoom in", "+"),
                        ("out", "Zoom out", "−"),
                        ("worst", "To the worst wait", "worst wait"),
                        ("all", "The whole", "all"),
                    ] {
                        button type="button" data-action=(action) aria-label=(name) title=(name) {
                            (sign)
                        }
                    }
                }
                p .window {}
            }
            (drawn(&id, "Timeline of vCPUs on pCPUs"))
            p .empty {}
            (behind())
        }
    }
}

fn figures(summary: &Summary, comparison: &Comparison) -> Markup {
    let host = summary.sections.len() - 1;
    let shown = summary.sections[..host.min(MOST_GROUPS)].iter().chain(&summary.sections[host..]);
    html! {
        h3 { "All figures" }
        div .scroll {
            table {
                caption {
                    "Under each policy"
                    @if comparison.seeds.len() > 1 { ", the median over seeds" }
                    ". ★ marks what no other policy betters. Percentages of time are of one pCPU."
                    @if host > MOST_GROUPS {
                        " " (host - MOST_GROUPS) " more domains are in results.csv."
                    }
                }
                thead {
                    tr {
                        th scope="col" { "Figure" }
                        @for (label, faults) in summary.policies.iter().zip(&summary.faults) {
                            th scope="col" { @if !faults.is_empty() { "†" } (label) }
                        }
                    }
                }
                @for section in shown {
                    tbody {
                        tr .title {
                            th colspan=(summary.policies.len() + 1) scope="rowgroup" {
                                (section.title) span { " " (section.detail) }
                            }
                        }
                        @for row in &section.rows {
                            tr {
                                th scope="row" { (row.label.trim()) }
                                @for cell in &row.cells { (figure_cell(cell)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn figure_cell(cell: &Cell) -> Markup {
    html! {
        td .best[cell.best] {
            @if cell.best { span title="best" aria-label="best" role="img" { "★ " } }
            (cell.text)
            @if let Some(spread) = &cell.spread { small { (spread) } }
        }
    }
}

fn parameters(policies: &[PolicySummary]) -> Markup {
    html! {
        details {
            summary { "Parameters of the policies" }
            @for policy in policies {
                @if let Some(name) = &policy.policy {
                    div .scroll {
                        table .parameters {
                            caption { (policy.label) @if *name != policy.label { " (" (name) ")" } }
                            thead {
                                tr {
                                    th scope="col" { "Parameter" }
                                    th scope="col" { "Value" }
                                    th scope="col" { "Unit" }
                                }
                            }
                            tbody {
                                @for parameter in &policy.parameters {
                                    tr {
                                        th scope="row" { (parameter.name) }
                                        td { (parameter.value) }
                                        td { (parameter.unit.replace('|', " | ")) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
