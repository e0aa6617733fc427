// SPDX-License-Identifier: GPL-2.0-only
//! `tables.md`: the matrix and the claims as tables for pages in Markdown.

use std::io::{self, Write};

use steelyard_experiment::{
    ClaimOutcome, LabOutcome, MatrixOutcome, Outcome, Reproduction, StatementOutcome, SystemOutcome,
};

use super::matrix::{self, Verdict};
use super::{LAB, LIST, OURS, hosts, measured, remarks, said, settled, spread, state, told};

/// Writes `tables.md`: the matrix, each system on every experiment, what became of what each
/// publication says, the claims of each experiment.
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
            let name = format!("`{}`<br>over `{}`", system.system.policy, system.base.policy);
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
    writeln!(writer, "\n# {LIST}\n")?;
    let (header, rows) = super::list(reproduction);
    table(&mut writer, [header].into_iter().chain(rows))?;
    for outcome in &reproduction.experiments {
        writeln!(writer, "\n# List of {}\n", outcome.name)?;
        statements(&mut writer, outcome)?;
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
    claim_rows(writer, super::claims(outcome, false))?;
    if super::claims(outcome, true).next().is_some() {
        writeln!(writer, "\n{OURS}:\n")?;
        claim_rows(writer, super::claims(outcome, true))?;
    }
    outcome.lab.as_ref().map_or(Ok(()), |lab| real_hosts(writer, lab))
}

fn claim_rows<'a>(
    writer: &mut impl Write,
    claims: impl Iterator<Item = &'a ClaimOutcome>,
) -> io::Result<()> {
    row(writer, "Claim", ["Expected", "Measured", "State"].map(str::to_owned))?;
    row(writer, "---", ["---"; 3].map(str::to_owned))?;
    for claim in claims {
        let said =
            std::iter::once(told(claim)).chain(remarks(claim).map(|remark| format!("*{remark}*")));
        let says = said.collect::<Vec<_>>().join("<br>");
        let measured = measured(&claim.measured).collect::<Vec<_>>().join("<br>");
        row(writer, &says, [claim.expected.clone(), measured, state(claim.state).to_owned()])?;
    }
    Ok(())
}

/// Everything that a publication says, in its order, and what became of it.
fn statements(writer: &mut impl Write, outcome: &Outcome) -> io::Result<()> {
    row(writer, "Where", ["What it says", "Here", "Verdict"].map(str::to_owned))?;
    row(writer, "---", ["---"; 3].map(str::to_owned))?;
    for statement in &outcome.statements {
        let here = here(outcome, statement);
        let verdict = format!("**{}**", settled(statement.settled));
        row(writer, &statement.source, [said(statement), here, verdict])?;
    }
    Ok(())
}

/// Where what was set is, or what was measured of what was found, or why neither.
fn here(outcome: &Outcome, statement: &StatementOutcome) -> String {
    let place = statement.here.iter().map(|here| match here.split_once(':') {
        Some((file, what)) => format!("[`{file}`](../../{file}):{what}"),
        None => here.clone(),
    });
    let claims = statement.claims.iter().filter_map(|&index| outcome.claims.get(index));
    let found = claims.flat_map(|claim| {
        let says = match statement.claims.len() {
            1 => format!("expected {}", claim.expected),
            _ => format!("{}: {}, expected {}", claim.says, state(claim.state), claim.expected),
        };
        let remarks = remarks(claim).map(|remark| format!("*{remark}*"));
        std::iter::once(says).chain(measured(&claim.measured)).chain(remarks)
    });
    let reason = statement.reason.clone();
    place.chain(found).chain(reason).collect::<Vec<_>>().join("<br>")
}

/// A table whose first row is its head.
fn table(writer: &mut impl Write, mut rows: impl Iterator<Item = Vec<String>>) -> io::Result<()> {
    let Some(header) = rows.next() else { return Ok(()) };
    let rule = vec!["---".to_owned(); header.len()];
    for cells in [header, rule].into_iter().chain(rows) {
        row(writer, &cells[0], cells[1..].iter().cloned())?;
    }
    Ok(())
}

/// What real hosts gave.
fn real_hosts(writer: &mut impl Write, lab: &LabOutcome) -> io::Result<()> {
    let (header, rows) = super::lab(lab);
    writeln!(writer, "\n{LAB} ({}).\n", hosts(lab))?;
    table(writer, [header].into_iter().chain(rows))
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
