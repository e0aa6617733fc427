// SPDX-License-Identifier: GPL-2.0-only
//! The one error of every reader here: what is wrong, where it stands, and what would be right.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::ops::Range;
use std::path::Path;

use steelyard_boundary::input::{Input, OverBudget, over_budget};
use steelyard_boundary::text::{harmless, short, told};

/// Something that was given and cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// File that it stands in, or the option of the command line.
    pub file: String,
    /// Where in it; none if the file as a whole is meant.
    pub place: Option<Place>,
    /// What is wrong, with the offending text.
    pub message: String,
    /// What would be right.
    pub help: Option<String>,
}

/// A piece of one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of the line, from 1.
    pub line: usize,
    /// Number of the first character that is meant, from 1.
    pub column: usize,
    /// How many characters are meant.
    pub width: usize,
    /// The line.
    pub text: String,
}

/// So many characters of a line are shown, those that are meant among them.
const SHOWN: usize = 160;
/// Characters of a message and of its help, which may list what is known.
const MESSAGE: usize = 1000;
const HELP: usize = 4000;

impl Diagnostic {
    /// An error in a file as a whole.
    pub fn of_file(file: impl Into<String>, message: impl Into<String>) -> Self {
        Diagnostic { file: file.into(), place: None, message: message.into(), help: None }
    }

    /// A file asks for more than is given to one.
    pub fn of_budget(file: impl Into<String>, over: OverBudget) -> Self {
        Diagnostic::of_file(file, over.to_string()).with_help(over.way_out())
    }

    /// The same with what would be right.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The same with all valid words as its help.
    #[must_use]
    pub fn with_known<'a>(self, known: impl IntoIterator<Item = &'a str>) -> Self {
        let known: Vec<_> = known.into_iter().map(|word| format!("`{word}`")).collect();
        if known.is_empty() { self } else { self.with_help(format!("known: {}", known.join(", "))) }
    }
}

/// Harmless and short, whatever it quotes.
impl fmt::Display for Diagnostic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoting = |text: &str, most| harmless(&short(text, most)).into_owned();
        write!(formatter, "{}", quoting(&self.message, MESSAGE))?;
        let file = told(&self.file);
        match &self.place {
            None => write!(formatter, "\n --> {file}")?,
            Some(Place { line, column, width, text }) => {
                let margin = " ".repeat(line.to_string().len());
                // Of a long line what is around the place.
                let left_out = if *column > SHOWN { column - SHOWN / 2 } else { 0 };
                let shown: String = text.chars().skip(left_out).take(SHOWN).collect();
                let indent = column.saturating_sub(1 + left_out);
                let carets = "^".repeat((*width).clamp(1, SHOWN - indent));
                let indent = " ".repeat(indent);
                write!(formatter, "\n{margin}--> {file}:{line}:{column}")?;
                write!(formatter, "\n{margin} |\n{line} | {}", harmless(&shown))?;
                write!(formatter, "\n{margin} | {indent}{carets}")?;
            }
        }
        match &self.help {
            Some(help) => write!(formatter, "\n  help: {}", quoting(help, HELP)),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Diagnostic {}

/// A text and where it came from.
#[derive(Clone, Debug)]
pub struct Source {
    /// File, or option of the command line.
    pub name: String,
    /// All of it.
    pub text: String,
}

impl Source {
    /// A text from somewhere.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Source { name: name.into(), text: text.into() }
    }

    /// All of a file.
    ///
    /// # Errors
    /// It cannot be read, is too long, or no text.
    pub fn read(path: &Path) -> Result<Source, Diagnostic> {
        read_text(path, open(path)?)
    }

    /// All of a file that nobody but this user and root can write: who obeys it is root.
    ///
    /// # Errors
    /// As those of [`Source::read`]; others may write it.
    pub fn read_trusted(path: &Path) -> Result<Source, Diagnostic> {
        read_text(path, Input::open_trusted(path).map_err(|error| unreadable(path, &error))?)
    }

    /// An error about these bytes.
    pub fn error(&self, bytes: Range<usize>, message: impl Into<String>) -> Diagnostic {
        let start = floor(&self.text, bytes.start);
        let line_start = self.text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = self.text[start..].find('\n').map_or(self.text.len(), |end| start + end);
        let end = floor(&self.text, bytes.end).clamp(start, line_end.max(start));
        Diagnostic {
            file: self.name.clone(),
            place: Some(Place {
                line: self.text[..start].matches('\n').count() + 1,
                column: self.text[line_start..start].chars().count() + 1,
                width: self.text[start..end].trim_end().chars().count().max(1),
                text: self.text[line_start..line_end].trim_end().to_owned(),
            }),
            message: message.into(),
            help: None,
        }
    }
}

/// The last boundary between characters that is not behind this byte.
fn floor(text: &str, byte: usize) -> usize {
    (0..=byte.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

/// Opens a file.
pub(crate) fn open(path: &Path) -> Result<Input<BufReader<File>>, Diagnostic> {
    Input::open(path).map_err(|error| unreadable(path, &error))
}

/// A file could not be read, or only up to a limit.
pub(crate) fn unreadable(path: &Path, error: &io::Error) -> Diagnostic {
    let name = path.display().to_string();
    match over_budget(error) {
        Some(over) => Diagnostic::of_budget(name, over),
        None => Diagnostic::of_file(name, format!("cannot be read: {error}")),
    }
}

/// Reads all of a text.
pub(crate) fn read_text(path: &Path, file: Input<impl BufRead>) -> Result<Source, Diagnostic> {
    let name = path.display().to_string();
    let bytes = file.text().map_err(|error| unreadable(path, &error))?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Source::new(name, text)),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            let source = Source::new(name, String::from_utf8_lossy(error.as_bytes()));
            Err(source.error(at..at + 1, "this is no text: a byte that is not UTF-8"))
        }
    }
}

/// Nobody meant a word of more bytes.
const LONGEST_WORD: usize = 64;

/// ", did you mean `weight`?" if a valid word is near, else nothing.
pub fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let nearest = known
        .into_iter()
        .filter(|valid| word.len().max(valid.len()) <= LONGEST_WORD)
        .map(|valid| (strsim::damerau_levenshtein(word, valid), valid))
        .min()
        // A third of the letters may differ, as in rustc.
        .filter(|&(distance, valid)| distance <= word.len().max(valid.len()).max(3) / 3);
    match nearest {
        Some((_, valid)) => format!(", did you mean `{valid}`?"),
        None => String::new(),
    }
}
