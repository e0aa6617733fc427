// SPDX-License-Identifier: GPL-2.0-only
//! `steelyard policies`: every policy with its vintages and parameters, as the core describes them.

use std::collections::BTreeMap;
use std::fmt::Write;

use anstyle::Style;
use serde::Serialize;
use steelyard_policy::{Parameter, Policy, disciplines, governors, published, settings};
use steelyard_simulator::units::Nanoseconds;

use crate::failure::Failure;
use crate::terminal;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();

/// Lines are no longer than this, however wide the terminal.
const MOST_COLUMNS: usize = 100;

/// The names that `--policy` takes, governors that could be added not counted.
pub fn names() -> impl Iterator<Item = String> {
    let disciplines = disciplines().iter().flat_map(|discipline| {
        let vintages = discipline.vintages.iter();
        std::iter::once(discipline.name.to_owned())
            .chain(vintages.map(|vintage| format!("{}@{vintage}", discipline.name)))
    });
    disciplines.chain(published().iter().map(|(name, _)| (*name).to_owned()))
}

/// The names of disciplines and governors.
pub fn parts() -> impl Iterator<Item = &'static str> {
    let disciplines = disciplines().iter().map(|discipline| discipline.name);
    disciplines.chain(governors().iter().map(|governor| governor.name))
}

/// A discipline or governor, and what there is to say of either.
struct Part {
    kind: &'static str,
    name: &'static str,
    help: &'static str,
    /// Oldest first; none for a governor.
    vintages: &'static [&'static str],
    /// What a governor has a meaning for.
    suits: &'static [&'static str],
    parameters: &'static [Parameter],
    /// What whoever compares it should know, by vintage.
    known: &'static [Option<&'static str>],
}

fn all() -> impl Iterator<Item = Part> {
    let disciplines = disciplines().iter().map(|discipline| Part {
        kind: "discipline",
        name: discipline.name,
        help: discipline.help,
        vintages: &discipline.vintages,
        suits: &[],
        parameters: &discipline.parameters,
        known: &discipline.known,
    });
    disciplines.chain(governors().iter().map(|governor| Part {
        kind: "governor",
        name: governor.name,
        help: governor.help,
        vintages: &[],
        suits: &governor.disciplines,
        parameters: &governor.parameters,
        known: std::slice::from_ref(&governor.known),
    }))
}

/// Lists the discipline or governor of this name, or all.
pub fn run(name: Option<&str>, json: bool) -> Result<(), Failure> {
    let chosen = all().filter(|known| name.is_none_or(|name| name == known.name));
    if json {
        let all: Vec<_> = chosen.map(JsonPart::new).collect();
        let text =
            serde_json::to_string_pretty(&all).map_err(|error| Failure::Output(error.into()))?;
        return terminal::print(&(text + "\n"));
    }
    let width = terminal::width().min(MOST_COLUMNS);
    let all: Vec<_> = chosen.map(|part| as_text(&part, width)).collect();
    terminal::print(&all.join("\n"))
}

fn as_text(part: &Part, width: usize) -> String {
    let Part { kind, name, help, vintages, suits, parameters, known } = part;
    let spelled = vintages.iter().enumerate().map(|(index, vintage)| {
        let default = if index + 1 == vintages.len() { " (the default)" } else { "" };
        format!("{name}@{vintage}{default}")
    });
    let mut lines = vec![(*help).to_owned()];
    if vintages.is_empty() {
        let with: Vec<_> = suits.iter().map(|discipline| format!("{discipline}+{name}")).collect();
        lines.push(format!("With: {}", with.join(", ")));
    } else {
        lines.push(format!("Vintages: {}", spelled.collect::<Vec<_>>().join(", ")));
        lines.push(format!("Heeds: {}", heeded(name, vintages).join("; ")));
    }
    let by_name = published_with(name);
    lines.extend(by_name.map(|(name, spelled)| format!("By name: {name} = {spelled}")));
    lines.extend(known_of(vintages, known).map(|known| format!("Known: {known}")));
    // Writing to a String cannot fail.
    let mut out = format!("{BOLD}{name}{BOLD:#}  {kind}\n");
    for line in lines {
        let _ = writeln!(out, "{}", wrap(&line, 2, width));
    }
    for parameter in *parameters {
        let _ = writeln!(out, "\n  {BOLD}{}{BOLD:#}  {}", parameter.name, range(parameter));
        let _ = writeln!(out, "{}", wrap(parameter.help, 6, width));
        let default = format!("Default: {}", defaults(vintages, parameter));
        let _ = writeln!(out, "{}", wrap(&default, 6, width));
        let source = wrap(&format!("Source: {}", parameter.source), 6, width);
        let _ = writeln!(out, "{DIM}{source}{DIM:#}");
    }
    out
}

/// Policies that have a name of their own, of which this discipline or governor is a part, and what that name stands for.
fn published_with(part: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let is_part = move |spelled: &str| spelled.split(['+', '@']).any(|word| word == part);
    published().iter().copied().filter(move |(_, spelled)| is_part(spelled))
}

/// Which settings of a domain it heeds, and in which vintages if not in all. Pins are the host's to keep.
fn heeded(name: &str, vintages: &[&str]) -> Vec<String> {
    let heeds = |(kind, setting): (&str, &str)| {
        let setting = settings().iter().find(|it| it.name == setting)?;
        let heeds = |vintage: &&&str| {
            let policy = Policy::named(&format!("{name}@{vintage}"));
            policy.is_ok_and(|policy| policy.heeds(setting))
        };
        let those: Vec<_> = vintages.iter().filter(heeds).copied().collect();
        match those.len() {
            0 => None,
            all if all == vintages.len() => Some(kind.to_owned()),
            _ => Some(format!("{kind} in {}", those.join(", "))),
        }
    };
    let kinds = [
        ("weight", "weight"),
        ("cap", "cap_percent"),
        ("slice", "slice"),
        ("reservation", "sedf.period"),
    ];
    kinds.into_iter().filter_map(heeds).collect()
}

/// What is known, with its vintages if it is not known of all.
fn known_of(
    vintages: &'static [&'static str],
    known: &'static [Option<&'static str>],
) -> impl Iterator<Item = String> {
    let mut texts: Vec<&str> = vec![];
    texts.extend(known.iter().flatten());
    texts.dedup();
    texts.into_iter().map(move |text| {
        let of: Vec<_> = vintages.iter().zip(known).filter(|(_, k)| **k == Some(text)).collect();
        if of.len() == vintages.len() {
            return text.to_owned();
        }
        let of: Vec<_> = of.into_iter().map(|(vintage, _)| *vintage).collect();
        format!("{}: {text}", of.join(", "))
    })
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
fn defaults(vintages: &[&str], parameter: &Parameter) -> String {
    let value = |value| match parameter.unit {
        "ns" if value > 0 => format!("{value} ({})", Nanoseconds(value)),
        _ => parameter.format(value),
    };
    let by_vintage: Vec<_> = vintages.iter().zip(&parameter.defaults).collect();
    let spans: Vec<_> = by_vintage.chunk_by(|(_, a), (_, b)| a == b).collect();
    if spans.len() <= 1 {
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

/// A discipline or governor for programs; described in `docs/command.md`.
#[derive(Serialize)]
struct JsonPart {
    kind: &'static str,
    name: &'static str,
    help: &'static str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    vintages: &'static [&'static str],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    suits: &'static [&'static str],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    heeds: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    published: BTreeMap<&'static str, &'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    known: Vec<String>,
    parameters: Vec<JsonParameter>,
}

#[derive(Serialize)]
struct JsonParameter {
    name: &'static str,
    #[serde(flatten)]
    values: JsonValues,
    /// By vintage; for a governor under the one name `default`.
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

impl JsonPart {
    fn new(part: Part) -> Self {
        let Part { kind, name, help, vintages, suits, parameters, known } = part;
        let defaults_of: &[&str] = if vintages.is_empty() { &["default"] } else { vintages };
        let parameters = parameters.iter().map(|parameter| {
            let Parameter { name, unit, minimum, maximum, help, source, .. } = *parameter;
            let is_choice = parameter.choices().is_some();
            JsonParameter {
                name,
                values: match parameter.choices() {
                    Some(choices) => JsonValues::Choices { choices: choices.collect() },
                    None => JsonValues::Range { unit, minimum, maximum },
                },
                defaults: defaults_of
                    .iter()
                    .zip(&parameter.defaults)
                    .map(|(&vintage, &value)| match is_choice {
                        true => (vintage, JsonValue::Choice(parameter.format(value))),
                        false => (vintage, JsonValue::Number(value)),
                    })
                    .collect(),
                help,
                source,
            }
        });
        JsonPart {
            kind,
            name,
            help,
            vintages,
            suits,
            heeds: heeded(name, vintages),
            published: published_with(name).collect(),
            known: known_of(vintages, known).collect(),
            parameters: parameters.collect(),
        }
    }
}
