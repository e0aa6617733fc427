// SPDX-License-Identifier: GPL-2.0-only
//! Scenario files as documents: from text to [`Scenario`], changes by `--set`, and from the path of
//! a setting to its place in the text.

use std::ops::Range;

use serde::de::DeserializeOwned;
use toml_edit::{Document, DocumentMut, InlineTable, Item, Value};

use crate::diagnostic::{Diagnostic, Source, did_you_mean};
use crate::file::Scenario;

/// Reads a document of any form.
///
/// # Errors
/// What is not of this form, and where it stands.
pub fn parse<T: DeserializeOwned>(source: &Source) -> Result<T, Diagnostic> {
    toml_edit::de::from_str(&source.text).map_err(|error| {
        let message = Message::from_serde(error.message());
        message.at(source, error.span().unwrap_or(0..0))
    })
}

/// The parts of a key, between its dots, and what follows its `=`; within quotes neither counts.
fn key_and_value(text: &str) -> Option<(Vec<&str>, &str)> {
    let (mut parts, mut begin, mut quoted) = (vec![], 0, false);
    for (at, letter) in text.char_indices() {
        match letter {
            '"' => quoted = !quoted,
            '.' | '=' if !quoted => {
                parts.push(&text[begin..at]);
                begin = at + 1;
                if letter == '=' {
                    return Some((parts, &text[begin..]));
                }
            }
            _ => {}
        }
    }
    None
}

fn unquoted(part: &str) -> String {
    let inner = part.strip_prefix('"').and_then(|part| part.strip_suffix('"'));
    inner.unwrap_or(part).to_owned()
}

/// A name as a part of a key of `--set`.
#[must_use]
pub fn key_part(name: &str) -> String {
    if name.contains(['.', '=']) { format!("\"{name}\"") } else { name.to_owned() }
}

/// One `--set KEY=VALUE`.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    source: Source,
    /// Where the key ends.
    key_end: usize,
    /// The key's parts.
    pub path: Vec<String>,
    /// The value as it was written.
    pub value: String,
}

impl Setting {
    /// Reads `KEY=VALUE`.
    pub fn parse(text: &str) -> Result<Setting, Diagnostic> {
        let source = Source::new("--set", text);
        let Some((parts, value)) = key_and_value(text) else {
            return Err(source
                .error(0..text.len(), format!("`{text}` lacks a `=`"))
                .with_help("write KEY=VALUE, such as credit.slice_ns=5000000"));
        };
        let path: Vec<_> = parts.iter().map(|part| unquoted(part.trim())).collect();
        let key_end = text.len() - value.len() - 1;
        if path.iter().any(String::is_empty) {
            return Err(source.error(0..key_end, format!("`{}` is no key", &text[..key_end])));
        }
        let value = value.trim().to_owned();
        Ok(Setting { source, key_end, path, value })
    }

    /// An error about the key.
    pub fn key_error(&self, message: impl Into<String>) -> Diagnostic {
        self.source.error(0..self.key_end, message)
    }

    /// An error about the value.
    pub fn value_error(&self, message: impl Into<String>) -> Diagnostic {
        self.source.error(self.key_end + 1..self.source.text.len(), message)
    }

    /// Whether a setting at `path` stands, as a whole or in part, in this one.
    pub fn covers(&self, path: &[String]) -> bool {
        self.path.len() <= path.len() && self.path.iter().zip(path).all(|(a, b)| a == b)
    }

    /// Puts the value into a scenario. Names in the path become the numbers of their items.
    fn apply(&mut self, document: &mut DocumentMut) -> Result<(), Diagnostic> {
        let value = self.value.parse().unwrap_or_else(|_| Value::from(self.value.as_str()));
        let mut path = self.path.clone();
        let mut item = document.as_item_mut();
        let mut is_list = false;
        for (depth, part) in path.iter_mut().enumerate() {
            is_list = item.is_array() || item.is_array_of_tables();
            if is_list {
                let index = find(item, part).map_err(|message| self.key_error(message))?;
                *part = index.to_string();
                item = &mut item[index];
            } else if item.is_table_like() {
                let table = item.as_table_like_mut().ok_or_else(|| self.key_error("no table"))?;
                if !table.contains_key(part) {
                    table.insert(part, Item::Value(InlineTable::new().into()));
                }
                item = &mut item[part.as_str()];
            } else {
                let key = self.path[..depth].join(".");
                return Err(self.key_error(format!("`{key}` has no keys in it")));
            }
        }
        // Among `[[tables]]` a value would be dropped.
        *item = match (&item, value) {
            (Item::Table(_), Value::InlineTable(table)) => Item::Table(table.into_table()),
            (Item::Table(_), _) if is_list => {
                return Err(self.value_error("this is no table: write { KEY = VALUE, ... }"));
            }
            (_, value) => Item::Value(value),
        };
        self.path = path;
        Ok(())
    }
}

/// The number of an item of a list, given as a number or as its `name`.
fn find(list: &Item, part: &str) -> Result<usize, String> {
    let named: Vec<&dyn toml_edit::TableLike> = match list {
        Item::ArrayOfTables(tables) => {
            tables.iter().map(|table| table as &dyn toml_edit::TableLike).collect()
        }
        Item::Value(Value::Array(values)) => values
            .iter()
            .filter_map(|value| value.as_inline_table())
            .map(|table| table as &dyn toml_edit::TableLike)
            .collect(),
        _ => vec![],
    };
    let length = list.as_array().map_or(named.len(), toml_edit::Array::len);
    let names =
        || named.iter().map(|table| table.get("name").and_then(Item::as_str).unwrap_or_default());
    let index = names().position(|name| name == part).or_else(|| part.parse().ok());
    match index {
        Some(index) if index < length => Ok(index),
        Some(index) => Err(format!(
            "there is no item {index}: they are numbered from 0 to {}",
            length.saturating_sub(1)
        )),
        None => Err(format!("there is no `{part}`{}", did_you_mean(part, names()))),
    }
}

/// Applies settings one after another, so that an error is that of the one that made it.
pub(crate) fn apply(source: &Source, settings: &mut [Setting]) -> Result<Scenario, Diagnostic> {
    let mut scenario: Scenario = parse(source)?;
    let mut document: DocumentMut = match source.text.parse() {
        Ok(document) => document,
        Err(error) => return Err(source.error(0..0, error.to_string())),
    };
    for setting in settings {
        setting.apply(&mut document)?;
        scenario = toml_edit::de::from_str(&document.to_string()).map_err(|error| {
            let message = Message::from_serde(error.message());
            let about_key = message.text.starts_with("unknown key");
            let diagnostic = if about_key {
                setting.key_error(message.text)
            } else {
                setting.value_error(message.text)
            };
            Diagnostic { help: message.help, ..diagnostic }
        })?;
    }
    Ok(scenario)
}

/// The bytes of the setting at `path`, or of the nearest table around it.
pub fn locate(source: &Source, path: &[String]) -> Range<usize> {
    let Ok(document) = Document::parse(source.text.as_str()) else {
        return 0..0;
    };
    let mut item = document.as_item();
    let mut bytes = 0..0;
    for part in path {
        let next = match part.parse::<usize>() {
            Ok(index) => item.get(index),
            Err(_) => item.get(part.as_str()),
        };
        let Some(next) = next else { break };
        let key = item.as_table_like().and_then(|table| table.key(part));
        let shown = match (key.and_then(|key| key.span()), next.span()) {
            (Some(key), Some(value)) if next.is_value() => Some(key.start..value.end),
            (key, _) => key,
        };
        bytes = shown.or_else(|| next.span()).unwrap_or(bytes);
        item = next;
    }
    bytes
}

/// A message of serde in the words of scenario files.
struct Message {
    text: String,
    help: Option<String>,
}

impl Message {
    fn from_serde(message: &str) -> Message {
        let mut message = message.trim_end().to_owned();
        if let Some(rest) = message.strip_prefix("missing field ") {
            return Message { text: format!("missing key {rest}"), help: None };
        }
        for (serde, own) in
            [("unknown field ", "unknown key "), ("unknown variant ", "unknown word ")]
        {
            // "unknown field `x`, expected one of `a`, `b`"
            let Some(rest) = message.strip_prefix(serde) else { continue };
            let quoted: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
            if let [word, known @ ..] = quoted.as_slice() {
                let nearest = did_you_mean(word, known.iter().copied());
                let known: Vec<_> = known.iter().map(|word| format!("`{word}`")).collect();
                return Message {
                    text: format!("{own}`{word}`{nearest}"),
                    help: Some(format!("known here: {}", known.join(", "))),
                };
            }
        }
        let help = (message.starts_with("invalid type") && message.ends_with("expected a string"))
            .then(|| "write it in quotes, a length of time with its unit: \"27 ms\"".to_owned());
        message = message.replace('\n', "; ");
        Message { text: message, help }
    }

    fn at(self, source: &Source, bytes: Range<usize>) -> Diagnostic {
        Diagnostic { help: self.help, ..source.error(bytes, self.text) }
    }
}
