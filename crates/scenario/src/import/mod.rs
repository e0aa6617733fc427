// SPDX-License-Identifier: GPL-2.0-only
//! From other files to scenarios.

use std::path::Path;
use std::sync::Arc;

use crate::diagnostic::{Diagnostic, Source, read};
use crate::load::{Recordings, utf8};
use crate::recording::Recording;

pub(crate) const KNOWN_FORMATS: &str =
    "known are scenarios (.toml), `perf script` text (plain or .zst), libvirt XML and xl.cfg";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Scenario,
}

impl Format {
    pub fn of(_path: &Path, _bytes: &[u8]) -> Format {
        Format::Scenario
    }
}

pub(crate) fn scenario(
    path: &Path,
    _format: Format,
    _bytes: Vec<u8>,
    _recordings: &mut Recordings,
) -> Result<String, Diagnostic> {
    Err(Diagnostic::of_file(path.display().to_string(), "not yet"))
}

pub(crate) fn recording(path: &Path) -> Result<Recording, Diagnostic> {
    Err(Diagnostic::of_file(path.display().to_string(), "not yet"))
}

/// A recording or VM description as the text of a scenario, with comments, to look at and edit.
///
/// # Errors
/// What cannot be read, and where it stands.
pub fn import(path: &Path) -> Result<String, Diagnostic> {
    Err(Diagnostic::of_file(path.display().to_string(), "not yet"))
}
