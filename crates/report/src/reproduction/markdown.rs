// SPDX-License-Identifier: GPL-2.0-only
//! `tables.md`: the matrix and the claims as tables for pages in Markdown.

use std::io::{self, Write};

use steelyard_experiment::{LabOutcome, MatrixOutcome, Outcome, Reproduction, SystemOutcome};

use super::matrix::{self, Verdict};
use super::{LAB, hosts, measured, spread, state};

/// Writes `tables.md`: the matrix, each system on every experiment, the claims of each experiment.
///
/// # Errors
/// Those of `writer`.
pub fn write_markdown(reproduction: &Reproduction, mut writer: impl Write) -> io::Result<()> {
    let columns = matrix::columns(reproduction);
    if let Some((_, first)) = columns.first() {
        writeln!(writer, "# {}\n", matrix::TITLE)?;
        row(&mut writer, "", columns.iter().map(|(outcome, _)| format!("`{}`", outcome.name)))?;
        row(&mut writer, "---", columns.iter().map(|_| "---".to_owned()))?;
        let labels = columns.iter().map(|(_, matrix)| matrix.label.clone());
        row(&mut writer, "measured", labels)?;
        for (index, system) in first.systems.iter().enumerate() {
            let cells = columns.iter().map(|(_, matrix)| {
                let on = &matrix.systems[index];
                let effect = format!("**{}**", matrix::effect(on));
                std::iter::once(effect).chain(matrix::details(on)).collect::<Vec<_>>().join("<br>")
            });
            let name = format!("`{}`<br>on `{}`", system.system.policy, system.base.policy);
            row(&mut writer, &name, cells)?;
        }
        let baselines = columns.iter().map(|(_, matrix)| {
            format!("`{}`<br>{}", matrix.baseline.policy, matrix::baseline(matrix).join("<br>"))
        });
        row(&mut writer, "baseline", baselines)?;
        for index in 0..first.systems.len() {
            system(&mut writer, &columns, index)?;
        }
    }
    writeln!(writer, "\n# Claims")?;
    for outcome in &reproduction.experiments {
        claims(&mut writer, outcome)?;
    }
    Ok(())
}

/// One system on every experiment.
fn system(
    writer: &mut impl Write,
    columns: &[(&Outcome, &MatrixOutcome)],
    index: usize,
) -> io::Result<()> {
    let SystemOutcome { system, base, .. } = &columns[0].1.systems[index];
    writeln!(writer, "\n# {}\n", system.policy)?;
    let header = [
        "Measured",
        &format!("`{}` alone", base.policy),
        &format!("`{}`", system.policy),
        "With over without",
        "Jain's index, switches",
    ];
    row(writer, "Experiment", header.map(str::to_owned))?;
    row(writer, "---", ["---"; 5].map(str::to_owned))?;
    for (outcome, matrix) in columns {
        let on = &matrix.systems[index];
        let [alone, with] = [&on.base, &on.system].map(|cell| spread(cell.value, &matrix.unit));
        let cells = match &on.without {
            Some(reason) => ["", "", "none", reason].map(str::to_owned),
            None => {
                let dear = if matrix::unfair(on) { ", at others' expense" } else { "" };
                let word = format!("{}{dear}", Verdict::of(on).word());
                let cost = [matrix::fairness(on), matrix::switches(on)];
                let cost = cost.into_iter().flatten().collect::<Vec<_>>().join(", ");
                [alone, with, format!("**{}** {word}", matrix::effect(on)), cost]
            }
        };
        let own = if on.own { " (its own)" } else { "" };
        let label = std::iter::once(matrix.label.clone());
        row(writer, &format!("`{}`{own}", outcome.name), label.chain(cells))?;
    }
    Ok(())
}

fn claims(writer: &mut impl Write, outcome: &Outcome) -> io::Result<()> {
    writeln!(writer, "\n### {}\n", outcome.name)?;
    row(writer, "Claim", ["Published", "Measured", "State"].map(str::to_owned))?;
    row(writer, "---", ["---"; 3].map(str::to_owned))?;
    for claim in &outcome.claims {
        let mut says = format!("{} ({})", claim.says, claim.source);
        if let Some(known) = &claim.known {
            says += &format!(" *{}*", known.because);
        }
        let measured = measured(&claim.measured).collect::<Vec<_>>().join("<br>");
        row(writer, &says, [claim.expected.clone(), measured, state(claim.state).to_owned()])?;
    }
    outcome.lab.as_ref().map_or(Ok(()), |lab| real_hosts(writer, lab))
}

/// What real hosts gave.
fn real_hosts(writer: &mut impl Write, lab: &LabOutcome) -> io::Result<()> {
    let (header, rows) = super::lab(lab);
    writeln!(writer, "\n{LAB} ({}).\n", hosts(lab))?;
    let rule = vec!["---".to_owned(); header.len()];
    for cells in [header, rule].into_iter().chain(rows) {
        row(writer, &cells[0], cells[1..].iter().cloned())?;
    }
    Ok(())
}

fn row(
    writer: &mut impl Write,
    first: &str,
    cells: impl IntoIterator<Item = String>,
) -> io::Result<()> {
    write!(writer, "| {} |", escape(first))?;
    for cell in cells {
        write!(writer, " {} |", escape(&cell))?;
    }
    writeln!(writer)
}

/// A cell is one line, its end is a bar, and names are no HTML: only breaks of lines are.
fn escape(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|").replace('<', "&lt;").replace("&lt;br>", "<br>")
}
