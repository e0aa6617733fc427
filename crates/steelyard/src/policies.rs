// SPDX-License-Identifier: GPL-2.0-only
//! `steelyard policies`: every policy with its vintages and parameters, as the core describes them.

use std::fmt::Write;

use anstyle::Style;
use serde_json::{Map, Value, json};
use steelyard_policy::{Discipline, Parameter, disciplines};

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
        let all: Vec<_> = chosen.map(as_json).collect();
        return terminal::print(&format!("{:#}\n", Value::from(all)));
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
    match parameter.choices() {
        Some(choices) => choices.collect::<Vec<_>>().join(" | "),
        None => format!("{}, {} to {}", parameter.unit, parameter.minimum, parameter.maximum),
    }
}

/// The default, by vintage where it changed.
fn defaults(discipline: &Discipline, parameter: &Parameter) -> String {
    let by_vintage: Vec<_> = discipline.vintages.iter().zip(&parameter.defaults).collect();
    let mut spans: Vec<String> = by_vintage
        .chunk_by(|(_, a), (_, b)| a == b)
        .map(|span| {
            let value = parameter.format(*span[0].1);
            let vintages: Vec<_> = span.iter().map(|(vintage, _)| **vintage).collect();
            format!("{value} in {}", vintages.join(", "))
        })
        .collect();
    match spans.as_mut_slice() {
        [_] => parameter.format(parameter.defaults[0]),
        _ => spans.join("; "),
    }
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

fn as_json(discipline: &Discipline) -> Value {
    let parameters = discipline.parameters.iter().map(|parameter| {
        let defaults: Map<_, _> = discipline
            .vintages
            .iter()
            .zip(&parameter.defaults)
            .map(|(vintage, &value)| ((*vintage).to_owned(), parameter.format(value).into()))
            .collect();
        let choices = parameter.choices().map(Iterator::collect::<Vec<_>>);
        json!({
            "name": parameter.name,
            "unit": if choices.is_some() { None } else { Some(parameter.unit) },
            "choices": choices,
            "minimum": parameter.minimum,
            "maximum": parameter.maximum,
            "defaults": defaults,
            "help": parameter.help,
            "source": parameter.source,
        })
    });
    json!({
        "name": discipline.name,
        "help": discipline.help,
        "vintages": discipline.vintages,
        "parameters": parameters.collect::<Vec<_>>(),
    })
}
