// SPDX-License-Identifier: GPL-2.0-only
//! What the schema says of numbers is what is enforced, wherever they enter: every number of it is tried
//! one below its least, at its least, at its most and one above.

#![allow(clippy::unwrap_used)]

use serde_json::Value;
use steelyard_scenario::{Options, load_text, schema};

/// A number of the schema: the way to it, and from what to what it goes.
#[derive(Debug)]
struct Number {
    path: Vec<String>,
    least: i128,
    most: i128,
}

struct Schema(Value);

impl Schema {
    fn resolve<'a>(&'a self, node: &'a Value) -> &'a Value {
        match node["$ref"].as_str() {
            Some(name) => &self.0["$defs"][name.rsplit('/').next().unwrap()],
            None => node,
        }
    }

    /// The forms that a value can have.
    fn forms<'a>(&'a self, node: &'a Value) -> Vec<&'a Value> {
        let node = self.resolve(node);
        let alternatives = ["oneOf", "anyOf", "allOf"].into_iter();
        let forms: Vec<_> = alternatives
            .filter_map(|key| node[key].as_array())
            .flatten()
            .flat_map(|form| self.forms(form))
            .collect();
        if forms.is_empty() { vec![node] } else { forms }
    }

    /// Every number in a value, with a document in which it is the one that is odd.
    fn numbers(&self, node: &Value, path: &[String], found: &mut Vec<Number>) {
        for form in self.forms(node) {
            let is = |kind: &str| match &form["type"] {
                Value::String(own) => own == kind,
                Value::Array(kinds) => kinds.iter().any(|own| own == kind),
                _ => false,
            };
            if is("integer") && !is("string") {
                let bound = |key: &str| form[key].as_i64().map(i128::from);
                let (Some(least), Some(most)) = (bound("minimum"), bound("maximum")) else {
                    panic!("{} has no bounds: {form}", path.join("."));
                };
                found.push(Number { path: path.to_vec(), least, most });
            }
            for (key, value) in form["properties"].as_object().into_iter().flatten() {
                let path = [path, std::slice::from_ref(key)].concat();
                self.numbers(value, &path, found);
            }
            if form["items"].is_object() {
                self.numbers(&form["items"], &[path, &["0".to_owned()]].concat(), found);
            }
        }
    }

    /// A value that this can have, with what it needs and this at the end of the path.
    fn value(&self, node: &Value, path: &[String], number: i128) -> Option<String> {
        self.forms(node).into_iter().find_map(|form| {
            if let Some(words) = form["enum"].as_array() {
                return path.is_empty().then(|| words[0].to_string());
            }
            if let Some(word) = form["const"].as_str() {
                return path.is_empty().then(|| format!("\"{word}\""));
            }
            if form["items"].is_object() {
                let rest = path.strip_prefix(&["0".to_owned()]).unwrap_or(path);
                return Some(format!("[{}]", self.value(&form["items"], rest, number)?));
            }
            if let Some(properties) = form["properties"].as_object() {
                if path.first().is_some_and(|key| !properties.contains_key(key)) {
                    return None;
                }
                let needed = form["required"].as_array().into_iter().flatten();
                let needed = needed.map(|key| key.as_str().unwrap());
                let mut keys: Vec<_> = needed.collect();
                keys.extend(path.first().map(String::as_str).filter(|key| !keys.contains(key)));
                let items: Option<Vec<_>> = keys
                    .iter()
                    .map(|key| {
                        let on_the_way = path.first().is_some_and(|first| first == key);
                        let rest = if on_the_way { &path[1..] } else { &[] };
                        let goes_on = on_the_way && rest.is_empty();
                        let value = match (goes_on, *key) {
                            (true, _) => number.to_string(),
                            // A time in the middle of what any of them can be.
                            _ => self.value(&properties[*key], rest, number)?,
                        };
                        Some(format!("{key} = {value}"))
                    })
                    .collect();
                return Some(format!("{{ {} }}", items?.join(", ")));
            }
            if !path.is_empty() {
                return None;
            }
            match form["type"].as_str()? {
                "integer" => Some(form["minimum"].to_string()),
                "string" if form["pattern"].as_str().is_some_and(|it| it.contains("ms")) => {
                    Some("\"1 ms\"".to_owned())
                }
                "string" => Some("\"a\"".to_owned()),
                _ => None,
            }
        })
    }

    /// What is said of a scenario with this number.
    fn said(&self, number: &Number, value: i128) -> String {
        let document = self.value(&self.0, &number.path, value);
        let document = document.unwrap_or_else(|| panic!("no document for {:?}", number.path));
        // The outermost table is the document itself.
        let inside = document.strip_prefix("{ ").and_then(|text| text.strip_suffix(" }"));
        let keys = top_level(inside.unwrap());
        let options = Options { policies: vec!["credit".to_owned()], ..Options::default() };
        match load_text("x.toml", &keys, &options) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        }
    }
}

/// The outermost keys of an inline table, a line each.
fn top_level(text: &str) -> String {
    let (mut depth, mut quoted) = (0, false);
    text.chars()
        .map(|c| {
            match c {
                '"' => quoted = !quoted,
                '{' | '[' if !quoted => depth += 1,
                '}' | ']' if !quoted => depth -= 1,
                ',' if !quoted && depth == 0 => return '\n',
                _ => {}
            }
            c
        })
        .collect()
}

#[test]
fn every_number_of_the_schema_goes_from_its_least_to_its_most() {
    let schema = Schema(serde_json::from_str(&schema()).unwrap());
    let mut numbers = vec![];
    schema.numbers(&schema.0, &[], &mut numbers);
    assert!(numbers.len() >= 38, "{numbers:#?}");
    for number in &numbers {
        let refused = |value: i128| {
            let said = schema.said(number, value);
            let about_it = said.contains(&format!("`{value}`"));
            (said.contains("out of range") || said.contains("invalid value")) && about_it
        };
        let path = number.path.join(".");
        for value in [number.least - 1, number.most + 1] {
            assert!(refused(value), "{path} = {value}: {}", schema.said(number, value));
        }
        for value in [number.least, number.most] {
            assert!(!refused(value), "{path} = {value}: {}", schema.said(number, value));
        }
    }
}

#[test]
fn options_go_no_further_than_the_schema() {
    let text = "name = 'x'\n[[domain]]\nname = 'a'\n";
    for (seeds, fits) in [(0, false), (1, true), (10_000, true), (10_001, false), (u32::MAX, false)]
    {
        let options = Options {
            policies: vec!["credit".to_owned()],
            seeds: Some(seeds),
            ..Options::default()
        };
        assert_eq!(load_text("x.toml", text, &options).is_ok(), fits, "--seeds {seeds}");
        let set = vec![format!("seeds={seeds}")];
        let options = Options { set, ..Options { seeds: None, ..options } };
        let result = load_text("x.toml", text, &options);
        assert_eq!(result.is_ok(), fits, "--set seeds={seeds}");
        if let Err(error) = result {
            assert!(error.to_string().contains("--set:1:7"), "{error}");
        }
    }
}
