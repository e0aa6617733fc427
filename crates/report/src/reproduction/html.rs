// SPDX-License-Identifier: GPL-2.0-only
//! `report.html` of experiments: claims, the publications' figures redrawn, the matrix.

use std::io::{self, Write};

use maud::{Markup, html};
use steelyard_experiment::{ClaimOutcome, LabOutcome, Outcome, Reproduction, State};

use super::{
    LAB, LIST, OURS, STATES, hosts, matrix, measured, remarks, said, settled, sign, spread, state,
};
use crate::format::with_unit;
use crate::html::{Page, drawn};

/// Writes `report.html`.
///
/// # Errors
/// Those of `writer`.
pub fn write_html(reproduction: &Reproduction, mut writer: impl Write) -> io::Result<()> {
    let mut names = vec!["all systems"];
    names.extend(reproduction.experiments.iter().map(|outcome| outcome.name.as_str()));
    let body = html! {
        section .input id="input-0" {
            h2 { "Every system on every experiment" }
            div .scroll { (matrix::picture(reproduction)) }
            (reasons(reproduction))
            h3 { "How many claims hold" }
            div .scroll { (counts(reproduction)) }
            h3 { (LIST) }
            div .scroll { (counted(reproduction)) }
        }
        @for (index, outcome) in reproduction.experiments.iter().enumerate() {
            (experiment(index, outcome, reproduction.seeds))
        }
    };
    let page = Page {
        title: "Published experiments",
        subtitle: "what was published, and what is measured",
        sections: &names,
        body,
        footer: html! {
            "Steelyard " (reproduction.steelyard) ". All figures are in results.json."
        },
        data: serde_json::to_string(reproduction)?,
        script: include_str!("reproduction.js"),
    };
    page.write(&mut writer)
}

fn experiment(index: usize, outcome: &Outcome, seeds: u64) -> Markup {
    html! {
        section .input id={ "input-" (index + 1) } data-experiment=(index) {
            h2 { (outcome.name) ": " (outcome.title) }
            p .about {
                (outcome.publication) " · " (outcome.variants.len()) " variants · " (seeds) " seed"
                @if seeds != 1 { "s, the median (least..greatest)" }
            }
            @for (number, figure) in outcome.figures.iter().enumerate() {
                figure {
                    figcaption {
                        h3 { (figure.title) }
                        p {
                            @if figure.sources.is_empty() { "No values were published." } @else {
                                "Diamonds were published: " (figure.sources.join("; ")) ". "
                                @if figure.curves.iter().flat_map(|c| &c.points).any(|p| p.calibrated) {
                                    "What parameters were fitted on is drawn hollow."
                                }
                            }
                        }
                    }
                    (drawn(&format!("figure-{index}-{number}"), &figure.title))
                    (values(figure))
                }
            }
            h3 { "Claims" }
            (claims(super::claims(outcome, false)))
            @if super::claims(outcome, true).next().is_some() {
                h3 { (OURS) }
                (claims(super::claims(outcome, true)))
            }
            (statements(outcome))
            @if let Some(lab) = &outcome.lab { (real_hosts(lab)) }
            (list("Switches in use", &outcome.switches))
            (list("What the publication left open", &outcome.open))
            @if let Some(tolerances) = &outcome.tolerances {
                h3 { "Tolerances" } p { (tolerances) }
            }
        }
    }
}

fn claims<'a>(claims: impl Iterator<Item = &'a ClaimOutcome>) -> Markup {
    html! {
        table .claims {
            thead {
                tr { @for title in ["", "Claim", "Expected", "Measured"] {
                    th scope="col" { (title) }
                } }
            }
            @for claim in claims { (claim_rows(claim)) }
        }
    }
}

/// Everything that the publication says, and what became of it.
fn statements(outcome: &Outcome) -> Markup {
    html! {
        details {
            summary { "Everything that the publication says, and what became of it" }
            div .scroll {
                table {
                    thead { tr { @for title in ["Where", "What it says", "Verdict", "Here, or why not"] {
                        th scope="col" { (title) }
                    } } }
                    tbody { @for statement in &outcome.statements {
                        tr {
                            th scope="row" { (statement.source) }
                            td { (said(statement)) }
                            td { (settled(statement.settled)) }
                            td {
                                @for text in statement.here.iter().chain(&statement.reason) {
                                    div { (text) }
                                }
                            }
                        }
                    } }
                }
            }
        }
    }
}

/// What became of all statements, counted.
fn counted(reproduction: &Reproduction) -> Markup {
    let (header, rows) = super::list(reproduction);
    html! {
        table {
            thead { tr { @for title in &header { th scope="col" { (title) } } } }
            tbody { @for row in &rows { tr { @for cell in row { td { (cell) } } } } }
        }
    }
}

fn class(state: State) -> &'static str {
    match state {
        State::Holds => "holds",
        State::Fails | State::Known => "fails",
        State::Turned | State::Undecided => "turned",
    }
}

fn claim_rows(claim: &ClaimOutcome) -> Markup {
    html! {
        tbody {
            tr {
                td .state .(class(claim.state)) { (sign(claim.state)) " " (state(claim.state)) }
                th scope="row" { (claim.says) span { " " (claim.source) } }
                td { (claim.expected) }
                td { @for line in measured(&claim.measured) { div { (line) } } }
            }
            @if remarks(claim).next().is_some() {
                tr .known {
                    td {}
                    td colspan="3" { @for remark in remarks(claim) { div { (remark) } } }
                }
            }
        }
    }
}

fn real_hosts(lab: &LabOutcome) -> Markup {
    let (header, rows) = super::lab(lab);
    html! {
        h3 { (LAB) }
        p .about { (hosts(lab)) }
        div .scroll {
            table {
                thead { tr { @for title in &header { th scope="col" { (title) } } } }
                tbody { @for row in &rows { tr { @for cell in row { td { (cell) } } } } }
            }
        }
    }
}

/// How many claims of each experiment are in which state.
fn counts(reproduction: &Reproduction) -> Markup {
    html! {
        table {
            thead {
                tr {
                    th scope="col" { "Experiment" }
                    @for of in STATES { th scope="col" { (sign(of)) " " (state(of)) } }
                }
            }
            tbody {
                @for outcome in &reproduction.experiments {
                    tr {
                        th scope="row" { (outcome.name) }
                        @for count in super::counts(outcome) { td { (count) } }
                    }
                }
            }
        }
    }
}

/// The values of a figure that were published, beside what was measured.
fn values(figure: &steelyard_experiment::FigureOutcome) -> Markup {
    let unit = &figure.unit;
    html! {
        details {
            summary { "As a table" }
            div .scroll {
                table {
                    thead {
                        tr {
                            th scope="col" { (figure.x_label) }
                            @for x in &figure.x { th scope="col" { (x) } }
                        }
                    }
                    tbody {
                        @for curve in &figure.curves {
                            tr {
                                th scope="row" { (curve.name) }
                                @for point in &curve.points {
                                    td {
                                        (spread(point.measured, unit))
                                        @if let Some(published) = point.published {
                                            small {
                                                "published " (with_unit(published, unit))
                                                @if point.calibrated { ", fitted on" }
                                            }
                                        }
                                        @if let (Some(published), Some(measured)) =
                                            (point.published, point.measured)
                                        {
                                            small {
                                                (format!("{:+.0} %",
                                                    100.0 * (measured.median / published - 1.0)))
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
    }
}

fn list(title: &str, items: &[String]) -> Markup {
    html! {
        @if !items.is_empty() {
            h3 { (title) }
            ul { @for item in items { li { (item) } } }
        }
    }
}

/// Why some systems have no meaning on some experiments.
fn reasons(reproduction: &Reproduction) -> Markup {
    let columns = matrix::columns(reproduction);
    let reasons: Vec<_> = columns
        .iter()
        .flat_map(|(outcome, matrix)| {
            matrix.systems.iter().filter_map(|on| {
                let reason = on.without.as_ref()?;
                Some(format!("{} on {}: {reason}", on.system.policy, outcome.name))
            })
        })
        .collect();
    list("Without meaning", &reasons)
}
