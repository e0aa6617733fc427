// SPDX-License-Identifier: GPL-2.0-only
//! What is found as a page for a browser, by the mechanism of all reports: words and tables in HTML, charts by
//! `tune.js`.

use std::io::{self, Write};

use maud::{Markup, html};
use serde::Serialize;
use steelyard_report::{Page, chart, number, spread, time, with_unit};

use crate::judge::{Outcome, Proposal, Wanted};
use crate::search;

/// What the charts show.
#[derive(Serialize)]
struct Charts<'a> {
    goals: Vec<Wanted>,
    dimensions: &'a [String],
    rows: Vec<Point<'a>>,
    /// Of the best: what is lost without each change, in percent of the gain.
    changes: Vec<(&'a str, f64)>,
}

/// A setting.
#[derive(Serialize)]
struct Point<'a> {
    policy: &'a str,
    values: &'a [Option<String>],
    /// Medians.
    goals: Vec<Option<f64>>,
    keeps: bool,
    front: bool,
}

/// Writes the page about `input`.
///
/// # Errors
/// Those of `writer`.
pub fn write_page(outcome: &Outcome, input: &str, mut writer: impl Write) -> io::Result<()> {
    let proposals = || outcome.proposals.iter().chain(&outcome.rejected);
    let body = html! {
        section .input id="input-0" {
            h2 { (input) }
            p .about {
                (outcome.pcpus) " pCPUs · " (outcome.domains) " VMs · under " (outcome.policy) " · "
                (outcome.tried) " settings tried with " (outcome.search.seeds) " runs of "
                (time(outcome.search.length_ns as f64)) " · verdict by " (outcome.verdict.seeds)
                " runs of " (time(outcome.verdict.length_ns as f64)) " that the search has not seen"
            }
            @if outcome.proposals.is_empty() { p { "Nothing to gain." } }
            @if let Some(first) = proposals().next() { (of_proposal(outcome, first, 0)) }
            (chart("tried", "Every setting", "Medians over the seeds of the search. What is hollow \
                does not keep what is to be kept; the line is the front. A cross is the host as it is."))
            (chart("changes", "What matters", "What part of the gain is lost if one change of the best \
                setting is left out."))
            div .focus {
                h3 { "One thing closely" }
                label {
                    "Changed "
                    select .dimension {
                        @for (number, name) in outcome.dimensions.iter().enumerate() {
                            option value=(number) { (name) }
                        }
                    }
                }
            }
            (chart("closely", "Every value of it that was tried", "Against the first goal."))
            @for (place, proposal) in proposals().enumerate().skip(1) {
                (of_proposal(outcome, proposal, place))
            }
        }
    };
    let page = Page {
        title: input,
        subtitle: "which settings serve your goals best",
        sections: &[input],
        body,
        footer: html! { "Steelyard " (env!("CARGO_PKG_VERSION")) "." },
        data: serde_json::to_string(&charts(outcome))?,
        script: include_str!("tune.js"),
    };
    page.write(&mut writer)
}

fn charts(outcome: &Outcome) -> Charts<'_> {
    // Axes without prefixes of units want times that people have.
    let scaled = |wanted: &Wanted| match wanted.unit.as_str() {
        "ns" => (1e6, Wanted { unit: "ms".to_owned(), ..wanted.clone() }),
        _ => (1.0, wanted.clone()),
    };
    let (scales, goals): (Vec<f64>, Vec<Wanted>) = outcome.goals.iter().map(scaled).unzip();
    let median =
        |(values, scale): (&Vec<Option<f64>>, &f64)| Some(search::spread(values)?.median / scale);
    let rows = outcome.rows.iter().map(|row| Point {
        policy: &row.policy,
        values: &row.values,
        goals: row.figures.goals.iter().zip(&scales).map(median).collect(),
        keeps: row.score.violation == 0.0,
        front: row.front,
    });
    let best = outcome.proposals.first().or(outcome.rejected.first());
    let changes = best.iter().flat_map(|best| &best.changes);
    // More than all is as bad as all.
    let lost = |lost: f64| 100.0 * lost.clamp(0.0, 1.0);
    Charts {
        goals,
        dimensions: &outcome.dimensions,
        rows: rows.collect(),
        changes: changes.map(|it| (it.name.as_str(), lost(it.without.lost))).collect(),
    }
}

fn of_proposal(outcome: &Outcome, proposal: &Proposal, place: usize) -> Markup {
    let wanted = outcome.goals.iter().chain(&outcome.keeps);
    let judged = proposal.goals.iter().chain(&proposal.keeps);
    let title = match (place < outcome.proposals.len(), place) {
        (true, 0) => "Best",
        (true, _) => "Another",
        (false, _) => "No gain by the verdict",
    };
    html! {
        h3 { (title) ": " (proposal.policy) }
        div .scroll {
            table {
                thead {
                    tr { @for head in ["Figure", "Now", "Then", "Runs", "Holds"] { th scope="col" { (head) } } }
                }
                tbody {
                    @for (wanted, judged) in wanted.zip(judged) {
                        tr {
                            th scope="row" { (wanted.text) }
                            td { (judged.now.map_or(String::new(), |it| with_unit(it.median, &wanted.unit))) }
                            td { (spread(judged.then, &wanted.unit)) }
                            td { (judged.good_runs) " of " (outcome.verdict.seeds) }
                            td { @if judged.holds { "yes" } @else { "no" } }
                        }
                    }
                    @for cost in &proposal.costs {
                        tr {
                            th scope="row" { (cost.domain) " pays" }
                            td { (number(cost.share_percent.0)) " %, " (time(cost.p99_ns.0)) }
                            td { (number(cost.share_percent.1)) " %, " (time(cost.p99_ns.1)) }
                            td {}
                            td {}
                        }
                    }
                }
            }
        }
        details open[place == 0] {
            summary { "Changes and commands" }
            ul {
                @for change in &proposal.changes {
                    li {
                        (change.name) " " @if let Some(was) = &change.was { (was) " → " } (change.then)
                    }
                }
            }
            div .scroll {
                pre {
                    (proposal.compare)
                    @for command in &proposal.commands { "\n" (command) }
                }
            }
        }
    }
}
