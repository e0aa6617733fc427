// SPDX-License-Identifier: GPL-2.0-only
//! `report.html` of experiments: claims, the publications' figures redrawn, the matrix.

use std::io::{self, Write};

use maud::{Markup, PreEscaped, html};
use steelyard_experiment::{ClaimOutcome, Outcome, Reproduction, State};

use super::{matrix, measured, spread, state};
use crate::format::with_unit;
use crate::html::Page;

/// Writes `report.html`.
///
/// # Errors
/// Those of `writer`.
pub fn write_html(reproduction: &Reproduction, mut writer: impl Write) -> io::Result<()> {
    let mut names: Vec<_> =
        reproduction.experiments.iter().map(|outcome| outcome.name.as_str()).collect();
    names.push("all systems");
    let seeds = reproduction.seeds;
    let body = html! {
        @for (index, outcome) in reproduction.experiments.iter().enumerate() {
            (experiment(index, outcome, seeds))
        }
        section .input id={ "input-" (names.len() - 1) } {
            h2 { "Every system on every experiment" }
            p .about { (matrix::CAPTION) }
            div .scroll { (PreEscaped(matrix::picture(reproduction).into_string())) }
            (reasons(reproduction))
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
        section .input id={ "input-" (index) } data-experiment=(index) {
            h2 { (outcome.name) ": " (outcome.title) }
            p .about {
                (outcome.publication) " · " (outcome.variants.len()) " variants · " (seeds) " seed"
                @if seeds != 1 { "s, the median (least..greatest)" }
            }
            div .scroll {
                table .claims {
                    thead {
                        tr { @for title in ["Claim", "Published", "Measured", ""] {
                            th scope="col" { (title) }
                        } }
                    }
                    tbody { @for claim in &outcome.claims { (claim_row(claim)) } }
                }
            }
            @for (number, figure) in outcome.figures.iter().enumerate() {
                figure {
                    figcaption {
                        h3 { (figure.title) }
                        p {
                            @if figure.sources.is_empty() { "No values were published." } @else {
                                "Published: " (figure.sources.join("; ")) ". "
                                @if figure.curves.iter().flat_map(|c| &c.points).any(|p| p.calibrated) {
                                    "What parameters were fitted on is drawn hollow."
                                }
                            }
                        }
                    }
                    div .chart id={ "figure-" (index) "-" (number) } role="img"
                        aria-label=(figure.title) {}
                    (values(figure))
                }
            }
            (list("Switches in use", &outcome.switches))
            (list("What the publication left open", &outcome.open))
            @if let Some(tolerances) = &outcome.tolerances {
                h3 { "Tolerances" } p { (tolerances) }
            }
        }
    }
}

fn claim_row(claim: &ClaimOutcome) -> Markup {
    let class = match claim.state {
        State::Holds => "holds",
        State::Fails | State::Known => "fails",
        State::Turned => "turned",
    };
    html! {
        tr {
            th scope="row" {
                (claim.says) span { " " (claim.source) }
                @if let Some(known) = &claim.known {
                    small { "Known not to hold: " (known.because) }
                    @if let Some(switches) = &known.turned_by { small { "Turned by: " (switches) } }
                }
            }
            td { (claim.expected) }
            td { @for line in measured(&claim.measured) { div { (line) } } }
            td .state .(class) { (state(claim.state)) }
        }
    }
}

/// The values of a figure that were published, beside what was measured.
fn values(figure: &steelyard_experiment::FigureOutcome) -> Markup {
    let unit = &figure.unit;
    html! {
        details {
            summary { "Values" }
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
        .flat_map(|(outcome, matrix)| {
            matrix.systems.iter().filter_map(|cell| {
                let reason = cell.without.as_ref()?;
                Some(format!("{} on {}: {reason}", cell.policy, outcome.name))
            })
        })
        .collect();
    list("Without meaning", &reasons)
}
