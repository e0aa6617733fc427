// SPDX-License-Identifier: GPL-2.0-only
//! The state of a search in a file, so that it can go on: lines of JSON, first what is asked, then each setting that was
//! tried and what was measured of it (`docs/tune.md`). A search asks for the same settings in the same order, so what a
//! line says need not be simulated again, and nothing else changes.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use steelyard_scenario::{Diagnostic, Source};

use crate::search::Figures;
use crate::{Question, Written};

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
        let goal = |it: &steelyard_goal::Goal| format!("{} {}", it.direction.option(), it.figure);
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
    /// Reads a file of the same question. A last line that was not written whole is left out.
    ///
    /// # Errors
    /// It is of another question, or no such file.
    pub fn parse(source: &Source, header: &Header) -> Result<State, Diagnostic> {
        let mut state = State::default();
        let (whole, _) = source.text.rsplit_once('\n').unwrap_or_default();
        let mut at = 0;
        for (number, line) in whole.split('\n').enumerate() {
            let place = at..at + line.len();
            at = place.end + 1;
            let wrong = |message: String| source.error(place.clone(), message);
            if number == 0 {
                let found: Header = serde_json::from_str(line).map_err(|_| {
                    wrong("this is no state of `steelyard tune`".to_owned())
                        .with_help("give the state another name")
                })?;
                if found != *header {
                    return Err(wrong(header.difference(&found))
                        .with_help("give the state another name, or remove this one"));
                }
                continue;
            }
            let Line { changes, figures }: Line<Written, Figures> = serde_json::from_str(line)
                .map_err(|error| wrong(format!("no setting and its figures: {error}")))?;
            if !figures.fits(header.goals.len(), header.keep.len(), header.seeds as usize) {
                return Err(wrong("figures of other goals or seeds".to_owned()));
            }
            if state.numbers.insert(changes.clone(), state.tried.len()).is_some() {
                return Err(wrong("this setting is there twice".to_owned()));
            }
            state.tried.push((changes, figures));
        }
        Ok(state)
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

impl Header {
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
        format!("this is the state of another search: its {what} differs")
    }
}
