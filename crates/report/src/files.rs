// SPDX-License-Identifier: GPL-2.0-only
//! Writes all files of a command, or none: each under a temporary name first, and all are renamed
//! at the end. Temporary files that were not renamed are removed on the way out.

use std::fs::{self, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{error, fmt};

use steelyard_experiment::Reproduction;
use tempfile::NamedTempFile;

use crate::results::{Results, RunTrace};
use crate::{reproduction, write_csv, write_html, write_perfetto};

type WriteFile<'a> = &'a dyn Fn(&mut dyn Write) -> io::Result<()>;

/// Writes `results.json`, `results.csv`, `trace.json.gz` and `report.html` of a comparison into
/// `directory`, which is made if it is not there, and returns their paths. Files of these names are
/// replaced. Set `interrupted`, as a handler of Ctrl-C does, to give up without a trace.
///
/// # Errors
/// [`WriteError`]; then none of the files was replaced, unless it was the renaming that failed.
pub fn write_all(
    directory: &Path,
    results: &Results,
    traces: &[RunTrace],
    interrupted: &AtomicBool,
) -> Result<Vec<PathBuf>, WriteError> {
    let files: [(&str, WriteFile); 4] = [
        ("results.json", &|writer| results.write_json(writer)),
        ("results.csv", &|writer| write_csv(results, writer)),
        ("report.html", &|writer| write_html(results, traces, writer)),
        ("trace.json.gz", &|writer| write_perfetto(results, traces, writer)),
    ];
    write_files(directory, &files, interrupted)
}

/// Writes `results.json`, `matrix.svg`, `tables.md` and `report.html` of experiments, as
/// [`write_all`] does those of a comparison.
///
/// # Errors
/// As those of [`write_all`].
pub fn write_reproduction(
    directory: &Path,
    reproduction: &Reproduction,
    interrupted: &AtomicBool,
) -> Result<Vec<PathBuf>, WriteError> {
    let files: [(&str, WriteFile); 4] = [
        ("results.json", &|writer| reproduction::write_json(reproduction, writer)),
        ("matrix.svg", &|writer| reproduction::write_matrix(reproduction, writer)),
        ("tables.md", &|writer| reproduction::write_markdown(reproduction, writer)),
        ("report.html", &|writer| reproduction::write_html(reproduction, writer)),
    ];
    write_files(directory, &files, interrupted)
}

/// Whether files can be written into a directory, or it can be made, as far as it can be seen
/// without leaving anything there.
///
/// # Errors
/// [`WriteError`], of the directory.
pub fn check_directory(directory: &Path) -> Result<(), WriteError> {
    let there = directory.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
    tempfile::tempfile_in(there).map_err(|error| WriteError::at(directory, error)).map(drop)
}

fn write_files(
    directory: &Path,
    files: &[(&str, WriteFile)],
    interrupted: &AtomicBool,
) -> Result<Vec<PathBuf>, WriteError> {
    fs::create_dir_all(directory).map_err(|error| WriteError::at(directory, error))?;
    let mut staged = vec![];
    for (name, write) in files {
        let path = directory.join(name);
        staged.push((
            stage(directory, write, interrupted).map_err(|error| WriteError::at(&path, error))?,
            path,
        ));
    }
    let mut written = vec![];
    for (file, path) in staged {
        file.persist(&path).map_err(|error| WriteError::at(&path, error.error))?;
        written.push(path);
    }
    Ok(written)
}

fn stage(
    directory: &Path,
    write: WriteFile,
    interrupted: &AtomicBool,
) -> io::Result<NamedTempFile> {
    let file = tempfile::Builder::new()
        .prefix(".steelyard-")
        // As for any new file, less what the umask takes away.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(directory)?;
    let mut writer = BufWriter::new(Interruptible { inner: file, interrupted });
    write(&mut writer)?;
    Ok(writer.into_inner().map_err(io::IntoInnerError::into_error)?.inner)
}

/// Fails as soon as the person wants to stop.
struct Interruptible<'a> {
    inner: NamedTempFile,
    interrupted: &'a AtomicBool,
}

impl Write for Interruptible<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.interrupted.load(Ordering::Relaxed) {
            // Not ErrorKind::Interrupted, which means "try again".
            return Err(io::Error::other("interrupted"));
        }
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// A file that could not be written.
#[derive(Debug)]
pub struct WriteError {
    /// Which one.
    pub path: PathBuf,
    /// Why.
    pub error: io::Error,
}

impl WriteError {
    fn at(path: &Path, error: io::Error) -> Self {
        WriteError { path: path.to_owned(), error }
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "cannot write {}: {}", self.path.display(), self.error)
    }
}

impl error::Error for WriteError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        Some(&self.error)
    }
}
