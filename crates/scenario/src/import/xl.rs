// SPDX-License-Identifier: GPL-2.0-only
//! Xen's xl.cfg: `name`, `vcpus`, `cpu_weight`, `cap`, `cpus` and `cpus_soft`. The file is a series of
//! `KEY=VALUE`, where a value is a string, a number or a list, and `#` begins a comment; see
//! xl.cfg(5), "Syntax" and "CPU Allocation".

use std::ops::{Range, RangeInclusive};

use steelyard_simulator::limits;

use crate::diagnostic::{Diagnostic, Source};
use crate::import::pins::Pins;
use crate::import::{VirtualMachine, clamp_weight, whole_number};

/// Lists in lists are read so deep.
const MAX_DEPTH: u32 = 16;

/// Reads one domain.
pub(crate) fn parse(source: &Source) -> Result<VirtualMachine, Diagnostic> {
    let mut machine = VirtualMachine::new("", 1);
    let (mut cpus, mut cpus_soft) = (None, None);
    let mut left_out = vec![];
    let mut parser = Parser { source, at: 0 };
    while let Some((key, value)) = parser.assignment()? {
        let number = |what, range| value.number(source, what, range);
        match key {
            "name" => machine.name = value.string(source)?.to_owned(),
            "vcpus" => machine.vcpus = number("number of vCPUs", 1..=1024)? as u32,
            "cpu_weight" => {
                let weight = number("weight", signed(limits::WEIGHT))? as u64;
                machine.weight = clamp_weight(weight, &mut machine.notes);
            }
            "cap" => {
                machine.cap_percent = number("cap in percent", signed(limits::CAP_PERCENT))? as u32
            }
            "cpus" => cpus = Some(value),
            "maxvcpus" => {
                let note =
                    "`vcpus` are there at the start; more, up to `maxvcpus`, are not simulated.";
                machine.notes.push(note.to_owned());
            }
            "cpus_soft" => cpus_soft = Some(value),
            other => left_out.extend(LEFT_OUT.iter().position(|(key, _)| *key == other)),
        }
    }
    left_out.sort_unstable();
    left_out.dedup();
    let told = left_out.into_iter().map(|index| LEFT_OUT[index]);
    machine.left_out.extend(told.map(|(key, what)| format!("{what} (`{key}`)")));
    if machine.name.is_empty() {
        return Err(source.error(0..0, "this domain has no `name`"));
    }
    if let Some(cpus) = cpus {
        machine.pin = pins(source, &cpus, machine.vcpus as usize)?;
    }
    if let Some(cpus) = cpus_soft {
        machine.pin_soft = pins(source, &cpus, machine.vcpus as usize)?;
    }
    Ok(machine)
}

/// What decides who runs, and is not simulated, real time first.
const LEFT_OUT: [(&str, &str); 9] = [
    ("budget", "real time: so much of each period is its own"),
    ("period", "real time: the period of that"),
    ("extratime", "real time: whether it may have more"),
    ("slice", "its time of each period, of the scheduler sedf"),
    ("latency", "its latency, of the scheduler sedf"),
    ("pool", "the pool of pCPUs that it is in, and what schedules it there"),
    ("vnuma", "the NUMA nodes that it sees"),
    ("device_model_stubdomain_override", "the domain that emulates its devices"),
    ("driver_domain", "that it drives devices for others"),
];

/// One set for all vCPUs, or a list with one for each; those behind its end may run anywhere.
fn pins(source: &Source, cpus: &Value, vcpus: usize) -> Result<Vec<Option<Pins>>, Diagnostic> {
    let set = |value: &Value| {
        let pins = Pins::parse(value.string(source)?.trim());
        let pins = pins.map_err(|problem| source.error(value.bytes.clone(), problem))?;
        Ok((!pins.is_all()).then_some(pins))
    };
    match &cpus.kind {
        Kind::List(items) => {
            let mut sets: Vec<_> = items.iter().map(set).collect::<Result<_, _>>()?;
            sets.resize(vcpus, None);
            Ok(sets)
        }
        Kind::Text(_) => Ok(vec![set(cpus)?; vcpus]),
    }
}

/// A value and where it stands.
struct Value<'a> {
    kind: Kind<'a>,
    bytes: Range<usize>,
}

fn signed(range: limits::Range) -> RangeInclusive<i64> {
    range.least as i64..=range.most as i64
}

enum Kind<'a> {
    /// A string without its quotes, or a number.
    Text(&'a str),
    List(Vec<Value<'a>>),
}

impl Value<'_> {
    fn string(&self, source: &Source) -> Result<&str, Diagnostic> {
        match self.kind {
            Kind::Text(text) => Ok(text),
            Kind::List(_) => {
                Err(source.error(self.bytes.clone(), "a list where a string is expected"))
            }
        }
    }

    fn number(
        &self,
        source: &Source,
        what: &str,
        range: RangeInclusive<i64>,
    ) -> Result<i64, Diagnostic> {
        whole_number(source, self.bytes.clone(), self.string(source)?, what, range)
    }
}

struct Parser<'a> {
    source: &'a Source,
    at: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.source.text[self.at..]
    }

    fn error<T>(&self, width: usize, message: impl Into<String>) -> Result<T, Diagnostic> {
        Err(self.source.error(self.at..self.at + width, message))
    }

    /// Skips white space, comments, and the characters that end nothing here.
    fn skip(&mut self, separators: &[char]) {
        loop {
            let rest = self.rest();
            let trimmed =
                rest.trim_start_matches(|c: char| c.is_whitespace() || separators.contains(&c));
            self.at += rest.len() - trimmed.len();
            if !trimmed.starts_with('#') {
                return;
            }
            self.at += trimmed.find('\n').unwrap_or(trimmed.len());
        }
    }

    /// The length of the word that begins here.
    fn word(&self) -> usize {
        let rest = self.rest();
        rest.find(|c: char| !c.is_alphanumeric() && !"_-.".contains(c)).unwrap_or(rest.len())
    }

    fn assignment(&mut self) -> Result<Option<(&'a str, Value<'a>)>, Diagnostic> {
        self.skip(&[';']);
        if self.rest().is_empty() {
            return Ok(None);
        }
        let (start, length) = (self.at, self.word());
        let key = &self.rest()[..length];
        if key.is_empty() {
            let found = self.rest().chars().next().unwrap_or(' ');
            return self
                .error(found.len_utf8(), format!("`{found}` where `KEY = VALUE` is expected"));
        }
        self.at += length;
        self.blank();
        let operator = ["+=", "="].into_iter().find(|operator| self.rest().starts_with(operator));
        let Some(operator) = operator else {
            self.at = start;
            return self.error(length, format!("`=` and a value are missing after `{key}`"));
        };
        self.at += operator.len();
        self.blank();
        let value = self.value(0)?;
        self.blank();
        match self.rest().chars().next() {
            None | Some('\n' | '\r' | ';' | '#') => Ok(Some((key, value))),
            Some(other) => {
                self.error(other.len_utf8(), format!("`{other}` after the value of `{key}`"))
            }
        }
    }

    /// Skips blanks within a line.
    fn blank(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t']).len();
    }

    fn value(&mut self, depth: u32) -> Result<Value<'a>, Diagnostic> {
        let start = self.at;
        let kind = match self.rest().chars().next() {
            Some(quote @ ('"' | '\'')) => {
                let inside = &self.rest()[1..];
                let end = inside.find([quote, '\n']);
                let Some(end) = end.filter(|&end| inside[end..].starts_with(quote)) else {
                    let width = inside.find('\n').unwrap_or(inside.len()) + 1;
                    return self.error(width, "this string has no end");
                };
                self.at += end + 2;
                let bytes = start + 1..start + 1 + end;
                return Ok(Value { kind: Kind::Text(&inside[..end]), bytes });
            }
            Some('[') if depth < MAX_DEPTH => {
                self.at += 1;
                let mut items = vec![];
                loop {
                    self.skip(&[]);
                    match self.rest().chars().next() {
                        Some(']') => break self.at += 1,
                        Some(_) => items.push(self.value(depth + 1)?),
                        None => {
                            self.at = start;
                            return self.error(1, "this list has no end");
                        }
                    }
                    self.skip(&[]);
                    match self.rest().chars().next() {
                        Some(',') => self.at += 1,
                        Some(']') | None => {}
                        Some(other) => {
                            let message = format!("`{other}` where `,` or `]` is expected");
                            return self.error(other.len_utf8(), message);
                        }
                    }
                }
                Kind::List(items)
            }
            Some(found) => {
                let length = self.word();
                if length == 0 {
                    let message =
                        format!("`{found}` where a string, a number or a list is expected");
                    return self.error(found.len_utf8(), message);
                }
                let text = &self.rest()[..length];
                self.at += length;
                Kind::Text(text)
            }
            None => return self.error(0, "a value is missing"),
        };
        Ok(Value { kind, bytes: start..self.at })
    }
}
