// SPDX-License-Identifier: GPL-2.0-only
//! `steelyard import`: a recording or VM description as a scenario to look at and edit.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::Ordering;

use crate::failure::Failure;
use crate::interrupt::{Interrupt, given_up};
use crate::terminal;

pub fn run(file: &Path, output: Option<&Path>, interrupt: &Interrupt) -> Result<(), Failure> {
    let scenario = steelyard_scenario::import(file)?;
    let Some(output) = output else {
        return terminal::print(&scenario);
    };
    write_whole(output, interrupt, |file| file.write_all(scenario.as_bytes()))
}

/// Writes a file under a temporary name and renames it at the end: there is all of it or nothing.
pub fn write_whole(
    output: &Path,
    interrupt: &Interrupt,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> Result<(), Failure> {
    interrupt.while_writing(|asked| {
        let directory = match output.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let write = || {
            let mut file = tempfile::Builder::new()
                .prefix(".steelyard-")
                // As for any new file, less what the umask takes away.
                .permissions(Permissions::from_mode(0o666))
                .tempfile_in(directory)?;
            write(file.as_file_mut())?;
            if asked.load(Ordering::Relaxed) {
                return Err(given_up());
            }
            file.persist(output).map_err(|error| error.error).map(drop)
        };
        write().map_err(|error| Failure::write(output, error))
    })
}
