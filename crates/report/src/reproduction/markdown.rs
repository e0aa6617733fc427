// SPDX-License-Identifier: GPL-2.0-only
//! `tables.md`: the matrix and the claims as tables for pages in Markdown.

use std::io::{self, Write};

use steelyard_experiment::{Outcome, Reproduction};

use super::{matrix, measured, spread, state};

/// Writes `tables.md`: first the matrix, then a section per experiment.
///
/// # Errors
/// Those of `writer`.
pub fn write_markdown(reproduction: &Reproduction, mut writer: impl Write) -> io::Result<()> {
    let columns: Vec<_> = matrix::columns(reproduction).collect();
    if let Some((_, first)) = columns.first() {
        row(&mut writer, "", columns.iter().map(|(outcome, _)| format!("`{}`", outcome.name)))?;
        row(&mut writer, "---", columns.iter().map(|_| "---".to_owned()))?;
        for (index, system) in first.systems.iter().enumerate() {
            let cells = columns.iter().map(|(_, matrix)| {
                let cell = &matrix.systems[index];
                match &cell.without {
                    Some(reason) => format!("none: {reason}"),
                    None => {
                        let [gain, base, cost] =
                            [matrix::gain(cell), matrix::base(cell), matrix::cost(cell)];
                        format!("**{gain}**<br>{base}<br>{cost}")
                    }
                }
            });
            row(&mut writer, &format!("`{}`", system.policy), cells)?;
        }
        let baselines = columns.iter().map(|(_, matrix)| {
            let cell = &matrix.baseline;
            let value = spread(cell.value, &matrix.unit);
            format!("{}: {value}<br>`{}`<br>{}", matrix.label, cell.policy, matrix::cost(cell))
        });
        row(&mut writer, "baseline", baselines)?;
    }
    for outcome in &reproduction.experiments {
        claims(&mut writer, outcome)?;
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
