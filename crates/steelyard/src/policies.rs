// SPDX-License-Identifier: GPL-2.0-only
//! `steelyard policies`: every policy with its vintages and parameters, as the core describes them.

use std::collections::BTreeMap;
use std::fmt::Write;

use anstyle::Style;
use serde::Serialize;
use steelyard_policy::{Discipline, Parameter, disciplines};
use steelyard_simulator::units::Nanoseconds;

use crate::failure::Failure;
use crate::terminal;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();

/// Lines are no longer than this, however wide the terminal.
const MOST_COLUMNS: usize = 100;

/// Every name that `--policy` takes.
pub fn names() -> impl Iterator<Item = String> {
    disciplines().iter().flat_map(|discipline| {
        let vintages = discipline.vintages.iter();
        std::iter::once(discipline.name.to_owned())
            .chain(vintages.map(|vintage| format!("{}@{vintage}", discipline.name)))
    })
}

/// Lists the discipline of this name, or all.
pub fn run(name: Option<&str>, json: bool) -> Result<(), Failure> {
    let chosen = disciplines().iter().filter(|known| name.is_none_or(|name| name == known.name));
    if json {
        let all: Vec<_> = chosen.map(JsonDiscipline::new).collect();
        let text =
            serde_json::to_string_pretty(&all).map_err(|error| Failure::Output(error.into()))?;
        return terminal::print(&(text + "\n"));
    }
    let width = terminal::width().min(MOST_COLUMNS);
    let all: Vec<_> = chosen.map(|discipline| as_text(discipline, width)).collect();
    terminal::print(&all.join("\n"))
}

fn as_text(discipline: &Discipline, width: usize) -> String {
    let Discipline { name, help, vintages, parameters, .. } = discipline;
    let newest = vintages.len() - 1;
    let vintages: Vec<_> = vintages
        .iter()
        .enumerate()
        .map(|(index, vintage)| {
            let default = if index == newest { " (the default)" } else { "" };
            format!("{name}@{vintage}{default}")
        })
        .collect();
    // Writing to a String cannot fail.
    let mut out = format!("{BOLD}{name}{BOLD:#}\n");
    let _ = writeln!(out, "{}", wrap(help, 2, width));
    let _ = writeln!(out, "{}", wrap(&format!("Vintages: {}", vintages.join(", ")), 2, width));
    for parameter in parameters {
        let _ = writeln!(out, "\n  {BOLD}{}{BOLD:#}  {}", parameter.name, range(parameter));
        let _ = writeln!(out, "{}", wrap(parameter.help, 6, width));
        let default = format!("Default: {}", defaults(discipline, parameter));
        let _ = writeln!(out, "{}", wrap(&default, 6, width));
        let source = wrap(&format!("Source: {}", parameter.source), 6, width);
        let _ = writeln!(out, "{DIM}{source}{DIM:#}");
    }
    out
}

/// What values a parameter takes.
fn range(parameter: &Parameter) -> String {
    let Parameter { unit, minimum, maximum, .. } = parameter;
    match parameter.choices() {
        Some(choices) => choices.collect::<Vec<_>>().join(" | "),
        None if *unit == "ns" => {
            format!("ns, {} to {}", Nanoseconds(*minimum), Nanoseconds(*maximum))
        }
        None => format!("{unit}, {minimum} to {maximum}"),
    }
}

/// The default, by vintage where it changed.
fn defaults(discipline: &Discipline, parameter: &Parameter) -> String {
    let value = |value| match parameter.unit {
        "ns" if value > 0 => format!("{value} ({})", Nanoseconds(value)),
        _ => parameter.format(value),
    };
    let by_vintage: Vec<_> = discipline.vintages.iter().zip(&parameter.defaults).collect();
    let spans: Vec<_> = by_vintage.chunk_by(|(_, a), (_, b)| a == b).collect();
    if let [_] = spans[..] {
        return value(parameter.defaults[0]);
    }
    let spans = spans.iter().map(|span| {
        let vintages: Vec<_> = span.iter().map(|(vintage, _)| **vintage).collect();
        format!("{} in {}", value(*span[0].1), vintages.join(", "))
    });
    spans.collect::<Vec<_>>().join("; ")
}

fn wrap(text: &str, indent: usize, width: usize) -> String {
    let indent = " ".repeat(indent);
    let options = textwrap::Options::new(width)
        .initial_indent(&indent)
        .subsequent_indent(&indent)
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .break_words(false);
    textwrap::fill(text, options)
}

/// A discipline for programs; described in `docs/command.md`.
#[derive(Serialize)]
struct JsonDiscipline {
    name: &'static str,
    help: &'static str,
    vintages: &'static [&'static str],
    parameters: Vec<JsonParameter>,
}

#[derive(Serialize)]
struct JsonParameter {
    name: &'static str,
    #[serde(flatten)]
    values: JsonValues,
    defaults: BTreeMap<&'static str, JsonValue>,
    help: &'static str,
    source: &'static str,
}

#[derive(Serialize)]
#[serde(untagged)]
enum JsonValues {
    Range { unit: &'static str, minimum: u64, maximum: u64 },
    Choices { choices: Vec<&'static str> },
}

#[derive(Serialize)]
#[serde(untagged)]
enum JsonValue {
    Number(u64),
    Choice(String),
}

impl JsonDiscipline {
    fn new(discipline: &'static Discipline) -> Self {
        let parameters = discipline.parameters.iter().map(|parameter| {
            let Parameter { name, unit, minimum, maximum, help, source, .. } = *parameter;
            let is_choice = parameter.choices().is_some();
            let defaults = discipline.vintages.iter().zip(&parameter.defaults);
            JsonParameter {
                name,
                values: match parameter.choices() {
                    Some(choices) => JsonValues::Choices { choices: choices.collect() },
                    None => JsonValues::Range { unit, minimum, maximum },
                },
                defaults: defaults
                    .map(|(&vintage, &value)| match is_choice {
                        true => (vintage, JsonValue::Choice(parameter.format(value))),
                        false => (vintage, JsonValue::Number(value)),
                    })
                    .collect(),
                help,
                source,
            }
        });
        JsonDiscipline {
            name: discipline.name,
            help: discipline.help,
            vintages: &discipline.vintages,
            parameters: parameters.collect(),
        }
    }
}
