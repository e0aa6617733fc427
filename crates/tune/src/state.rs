// SPDX-License-Identifier: GPL-2.0-only
//! The state of a search in a file, so that it can go on: lines of JSON, first what is asked, then each setting that was
//! tried and what was measured of it (`docs/tune.md`). A search asks for the same settings in the same order, so what a
//! line says need not be simulated again, and nothing else changes.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};
use steelyard_boundary::input::read_line;
use steelyard_goal::Goal;
use steelyard_scenario::{Diagnostic, Source};

use crate::search::Figures;
use crate::{Question, Written};

/// A line of the greatest number of seeds, and lines of a search of the greatest number of settings and what it tries
/// then.
const LINE_BYTES: u64 = 4 << 20;
const MOST_LINES: usize = 20_000;

/// The first line: everything that figures depend on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    format: String,
    version: u32,
    /// Version of the program.
    steelyard: String,
    /// Of host, domains and scheduler, and of recordings.
    host: String,
    goals: Vec<String>,
    keep: Vec<String>,
    /// Seeds of each setting.
    seeds: u32,
    /// Simulated time of each.
    length_ns: u64,
}

/// A line after the first.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<S, F> {
    changes: S,
    figures: F,
}

/// What a file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// In the order of their lines.
    tried: Vec<(Written, Figures)>,
    numbers: HashMap<Written, usize>,
}

impl Header {
    const FORMAT: &'static str = "steelyard tune";
    const VERSION: u32 = 1;

    /// Of a question whose settings run so long with so many seeds.
    pub fn new(question: &Question, seeds: u32, length_ns: u64) -> Header {
        let goals = question.goals.iter();
        let goal = |it: &Goal| format!("{} {}", it.direction.option(), it.figure);
        Header {
            format: Header::FORMAT.to_owned(),
            version: Header::VERSION,
            steelyard: env!("CARGO_PKG_VERSION").to_owned(),
            host: fingerprint(&(question.setup, question.policy)),
            goals: goals.map(goal).collect(),
            keep: question.keeps.iter().map(ToString::to_string).collect(),
            seeds,
            length_ns,
        }
    }
}

/// A number for everything that is written of a thing.
fn fingerprint(thing: &impl fmt::Debug) -> String {
    struct Hashing(DefaultHasher);
    impl fmt::Write for Hashing {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            text.hash(&mut self.0);
            Ok(())
        }
    }
    let mut hashing = Hashing(DefaultHasher::new());
    // A hasher takes everything.
    let _ = write!(hashing, "{thing:?}");
    format!("{:016x}", hashing.0.finish())
}

impl State {
    /// Reads a file of the same question, which messages call `name`. A last line that was not written whole is left
    /// out.
    ///
    /// # Errors
    /// It is of another question, or no such file.
    pub fn read(
        name: &str,
        reader: &mut impl BufRead,
        header: &Header,
    ) -> Result<State, Diagnostic> {
        let mut state = State::default();
        let mut bytes = vec![];
        for number in 1.. {
            let length = read_line(reader, LINE_BYTES, &mut bytes);
            length.map_err(|error| Diagnostic::of_file(name, error.to_string()))?;
            let whole = bytes.strip_suffix(b"\n");
            let line = match whole {
                Some(line) => String::from_utf8_lossy(line),
                None if number > 1 => break,
                None => return Err(no_state(name, &String::from_utf8_lossy(&bytes))),
            };
            if number == 1 {
                header.check(name, &line)?;
            } else if number > MOST_LINES {
                let message = format!("more lines than {MOST_LINES}");
                return Err(at(name, &line, number, message));
            } else {
                let added = state.add(&line, header);
                added.map_err(|message| at(name, &line, number, message))?;
            }
        }
        Ok(state)
    }

    /// Adds what a line says; or what is wrong with it.
    fn add(&mut self, line: &str, header: &Header) -> Result<(), String> {
        let Line { changes, figures }: Line<Written, Figures> = serde_json::from_str(line)
            .map_err(|error| format!("no setting and its figures: {error}"))?;
        if !figures.fits(header.goals.len(), header.keep.len(), header.seeds as usize) {
            return Err("figures of other goals or seeds".to_owned());
        }
        if self.numbers.insert(changes.clone(), self.tried.len()).is_some() {
            return Err("this setting is there twice".to_owned());
        }
        self.tried.push((changes, figures));
        Ok(())
    }

    /// What was measured of a setting.
    pub fn recall(&self, setting: &Written) -> Option<&Figures> {
        Some(&self.tried[*self.numbers.get(setting)?].1)
    }

    /// How many settings it has.
    pub fn len(&self) -> usize {
        self.tried.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.tried.is_empty()
    }

    /// Writes all of it.
    ///
    /// # Errors
    /// Those of `writer`.
    pub fn write(&self, header: &Header, writer: &mut impl Write) -> io::Result<()> {
        serde_json::to_writer(&mut *writer, header)?;
        writer.write_all(b"\n")?;
        self.tried.iter().try_for_each(|(setting, figures)| State::line(setting, figures, writer))
    }

    /// Writes one line more.
    ///
    /// # Errors
    /// Those of `writer`.
    pub fn line(changes: &Written, figures: &Figures, writer: &mut impl Write) -> io::Result<()> {
        // At once, so that no line is written in pieces.
        let mut line = serde_json::to_vec(&Line { changes, figures })?;
        line.push(b'\n');
        writer.write_all(&line)
    }
}

/// An error about a line.
fn at(name: &str, line: &str, number: usize, message: String) -> Diagnostic {
    let mut error = Source::new(name, line).error(0..line.len(), message);
    if let Some(place) = &mut error.place {
        place.line = number;
    }
    error
}

fn no_state(name: &str, line: &str) -> Diagnostic {
    let message = "this is no state of `steelyard tune`".to_owned();
    at(name, line, 1, message).with_help("give the state another name")
}

impl Header {
    /// Whether the first line of a file says the same.
    fn check(&self, name: &str, line: &str) -> Result<(), Diagnostic> {
        let found: Header = serde_json::from_str(line).map_err(|_| no_state(name, line))?;
        if found == *self {
            return Ok(());
        }
        let help = "give the state another name, or remove this one";
        Err(at(name, line, 1, self.difference(&found)).with_help(help))
    }

    /// What differs first, for the person.
    fn difference(&self, found: &Header) -> String {
        let what = match found {
            it if (&it.format, it.version) != (&self.format, self.version) => "format",
            it if it.steelyard != self.steelyard => "version of the program",
            it if it.host != self.host => "host, scheduler or recording",
            it if it.goals != self.goals => "goals",
            it if it.keep != self.keep => "what is to be kept",
            it if it.seeds != self.seeds => "number of seeds",
            _ => "length",
        };
        format!("this is the state of another search: they differ in {what}")
    }
}
