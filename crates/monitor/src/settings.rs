// SPDX-License-Identifier: GPL-2.0-only
//! What a person wants to see: columns, and from which figures on a domain stands out. It is kept in a small
//! file, `top.toml`, of which only what is changed on the screen is written.

use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::{error, fmt};

use serde::Deserialize;
use steelyard_boundary::output::{Output, OutputError};
use steelyard_boundary::text::{harmless, short, told};
use toml_edit::{Array, DocumentMut, value};

use crate::columns::{COLUMNS, Column};
use crate::interval::DomainInterval;

/// Nobody writes more into such a file.
const MOST_BYTES: u64 = 64 << 10;
/// Characters of what is wrong with it.
const MESSAGE: usize = 1000;

/// What is kept.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Titles of the columns that are shown, in their order; none: as many as there is room for.
    #[serde(default)]
    columns: Option<Vec<String>>,
    /// When a domain stands out.
    #[serde(default)]
    pub alert: Alerts,
    /// Where it is kept.
    #[serde(skip)]
    file: Option<PathBuf>,
}

/// Figures from which on a domain stands out; none: it does not by these.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Alerts {
    /// Time waited, in percent of the time of its vCPUs.
    pub waited_percent: Option<f64>,
    /// 99th percentile of the waits that ended.
    pub wait_p99_ms: Option<f64>,
}

impl Alerts {
    /// Why a domain stands out, if it does.
    #[must_use]
    pub fn of(&self, domain: &DomainInterval) -> Option<String> {
        let vcpus = domain.vcpus.len().max(1) as f64;
        let waited = domain.rates.waited_percent.map(|waited| waited / vcpus);
        let p99_ms = domain.rates.wait_p99_ns.map(|ns| ns as f64 / 1e6);
        let over = |figure: Option<f64>, most: Option<f64>| {
            figure.zip(most).filter(|(figure, most)| figure > most).map(|(figure, _)| figure)
        };
        if let Some(waited) = over(waited, self.waited_percent) {
            return Some(format!("waits {waited:.0} % of the time"));
        }
        over(p99_ms, self.wait_p99_ms).map(|p99_ms| format!("p99 of waits {p99_ms:.1} ms"))
    }
}

impl Settings {
    /// Those that a file keeps; the usual ones if it is not there.
    ///
    /// # Errors
    /// [`SettingsError`].
    pub fn read(path: &Path) -> Result<Settings, SettingsError> {
        let mut text = String::new();
        match fs::File::open(path) {
            Ok(file) => drop(
                file.take(MOST_BYTES)
                    .read_to_string(&mut text)
                    .map_err(|error| SettingsError::Unreadable(path.to_owned(), error))?,
            ),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(SettingsError::Unreadable(path.to_owned(), error)),
        }
        let settings = Settings::parse(&text)
            .map_err(|message| SettingsError::Wrong(path.to_owned(), message))?;
        Ok(Settings { file: Some(path.to_owned()), ..settings })
    }

    /// What such a text says, or what is wrong with it.
    ///
    /// # Errors
    /// A sentence.
    pub fn parse(text: &str) -> Result<Settings, String> {
        let settings: Settings = toml_edit::de::from_str(text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            format!("line {line}: {}", error.message().replace('\n', " "))
        })?;
        for title in settings.columns.iter().flatten() {
            if column(title).is_none() {
                let known: Vec<&str> = COLUMNS.iter().map(|column| column.title).collect();
                return Err(format!("`{title}` is no column: there are {}", known.join(", ")));
            }
        }
        let Alerts { waited_percent, wait_p99_ms } = settings.alert;
        let mut figures = [waited_percent, wait_p99_ms].into_iter().flatten();
        if figures.any(|figure| !(0.0..=1e9).contains(&figure)) {
            return Err("`[alert]`: a figure is from 0 to a billion".to_owned());
        }
        Ok(settings)
    }

    /// The columns that were chosen.
    pub(crate) fn columns(&self) -> Option<Vec<&'static Column>> {
        self.columns.as_ref().map(|titles| titles.iter().filter_map(|it| column(it)).collect())
    }

    /// From now on these columns are shown.
    pub(crate) fn choose(&mut self, columns: Option<&[&'static Column]>) {
        let titles = |columns: &[&Column]| columns.iter().map(|it| it.title.to_owned()).collect();
        self.columns = columns.map(titles);
    }

    /// Keeps them, beside whatever else is in the file; where that is, if there is one.
    ///
    /// # Errors
    /// [`SettingsError`].
    pub fn write(&self) -> Result<Option<&Path>, SettingsError> {
        let Some(path) = &self.file else { return Ok(None) };
        let unreadable = |error| SettingsError::Unreadable(path.clone(), error);
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
            read => read,
        };
        let mut document: DocumentMut =
            text.map_err(unreadable)?.parse().map_err(|error: toml_edit::TomlError| {
                SettingsError::Wrong(path.clone(), error.to_string())
            })?;
        match &self.columns {
            Some(titles) => document["columns"] = value(titles.iter().collect::<Array>()),
            None => drop(document.remove("columns")),
        }
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).map_err(unreadable)?;
        }
        let text = document.to_string();
        let output = Output::file(path, &[]).map_err(SettingsError::Output)?;
        let content: steelyard_boundary::output::WriteFile =
            Box::new(|file| file.write_all(text.as_bytes()));
        output.write(&mut [content], &AtomicBool::new(false)).map_err(SettingsError::Output)?;
        Ok(Some(path))
    }
}

fn column(title: &str) -> Option<&'static Column> {
    COLUMNS.iter().find(|column| column.title.eq_ignore_ascii_case(title))
}

/// Why settings are not as they were wanted.
#[derive(Debug)]
pub enum SettingsError {
    /// The file cannot be read, or not be made.
    Unreadable(PathBuf, io::Error),
    /// What is in it is wrong.
    Wrong(PathBuf, String),
    /// It cannot be written.
    Output(OutputError),
}

impl fmt::Display for SettingsError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingsError::Unreadable(path, error) => write!(formatter, "{}: {error}", told(path)),
            SettingsError::Wrong(path, message) => {
                let message = short(message.trim_end(), MESSAGE);
                write!(formatter, "{}: {}", told(path), harmless(&message))
            }
            SettingsError::Output(error) => error.fmt(formatter),
        }
    }
}

impl error::Error for SettingsError {}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_is_chosen_is_kept_beside_what_else_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/top.toml");
        let mut settings = Settings::read(&path).unwrap();
        assert!(settings.columns().is_none(), "there is no file yet");
        settings.choose(Some(&[&COLUMNS[4], &COLUMNS[1]]));
        assert_eq!(settings.write().unwrap(), Some(&*path));
        let text = fs::read_to_string(&path).unwrap() + "# mine\n[alert]\nwait_p99_ms = 5.0\n";
        fs::write(&path, text).unwrap();
        let mut settings = Settings::read(&path).unwrap();
        let titles: Vec<_> = settings.columns().unwrap().iter().map(|it| it.title).collect();
        assert_eq!(titles, [COLUMNS[4].title, COLUMNS[1].title]);
        settings.choose(None);
        settings.write().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("# mine") && !text.contains("columns"), "{text}");
        assert_eq!(Settings::read(&path).unwrap().alert.wait_p99_ms, Some(5.0));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, word) in [
            ("columns = ['AVG', 'NOPE']", "`NOPE` is no column"),
            ("colums = []", "unknown field"),
            ("[alert]\nwaited_percent = 'much'", "invalid type"),
            ("[alert]\nwaited_percent = -1.0", "from 0"),
            ("[alert]\nwait_p99_ms = nan", "from 0"),
            ("\ncolumns = [", "line 2: "),
        ] {
            let message = Settings::parse(text).unwrap_err();
            assert!(message.contains(word), "{text}: {message}");
        }
        assert!(Settings::parse("columns = ['avg', 'Cap%']").is_ok(), "in any letters");
    }
}
