// SPDX-License-Identifier: GPL-2.0-only
//! Every setting that was tried in a row of its own, with a column for each thing that was varied.

use std::io::{self, Write};

use crate::judge::Outcome;
use crate::search::spread;

/// Writes the settings in the order in which they were tried. The value of what has no meaning for a scheduler is
/// empty; figures are those of the search, over its seeds.
///
/// # Errors
/// Those of `writer`.
pub fn write_csv(outcome: &Outcome, writer: impl Write) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(writer);
    let figures = || outcome.goals.iter().chain(&outcome.keeps);
    let mut header: Vec<String> =
        ["setting", "scheduler", "keeps", "front"].map(str::to_owned).into();
    header.extend(outcome.dimensions.iter().cloned());
    for wanted in figures() {
        for what in ["median", "least", "greatest"] {
            header.push(format!("{}, {what}, {}", wanted.text, wanted.unit));
        }
    }
    writer.write_record(&header)?;
    let yes = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    for (number, row) in outcome.rows.iter().enumerate() {
        let (keeps, front) = (yes(row.keeps()), yes(row.front));
        let mut cells = vec![number.to_string(), row.policy.clone(), keeps, front];
        cells.extend(row.values.iter().map(|value| value.clone().unwrap_or_default()));
        for values in row.figures.goals.iter().chain(&row.figures.keeps) {
            let spread = spread(values);
            let figures =
                spread.map(|it| [it.median, it.least, it.greatest].map(|it| it.to_string()));
            cells.extend(figures.unwrap_or_default());
        }
        writer.write_record(&cells)?;
    }
    writer.flush()
}
