// SPDX-License-Identifier: GPL-2.0-only
//! What was changed, kept until it is taken back: one file, written whole and known to the disk before the
//! first change. A change of which it tells may not have been made; its old value says so.
//!
//! The directory is locked while somebody works, and belongs to who works, as does the file: what others could have
//! written is not believed.

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FlockOperation, Mode, OFlags, flock, mkdir, open, openat, renameat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use steelyard_boundary::input::Input;

use crate::Host;
use crate::change::Change;
use crate::error::StateError;

const NAME: &str = "journal";
/// It has this name until it is whole.
const UNFINISHED: &str = "journal.new";
const VERSION: u32 = 1;
/// Group and others have no rights to the file, nor may they write the directory.
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;

/// All changes of one plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Journal {
    version: u32,
    /// Of this run of the host, which has other numbers for processes and groups than the next.
    pub(crate) boot: String,
    /// In the order in which they are made.
    changes: Vec<Change>,
}

impl Journal {
    /// Of a host that runs since then.
    pub(crate) fn new(boot: String, changes: Vec<Change>) -> Journal {
        Journal { version: VERSION, boot, changes }
    }

    /// What was changed, in the order in which it was.
    #[must_use]
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Reads what may be anything.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &[u8]) -> Result<Journal, String> {
        let journal: Journal = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        if journal.version != VERSION {
            return Err(format!("it is of version {}", journal.version));
        }
        for Change { knob, old, new, .. } in &journal.changes {
            if let Some(value) = [old, new].into_iter().find(|value| !knob.is_sound(value)) {
                return Err(format!("`{value}` is no value of what it is for"));
            }
        }
        Ok(journal)
    }
}

/// The directory with the journal, locked.
#[derive(Debug)]
pub struct State {
    path: PathBuf,
    directory: File,
}

impl State {
    /// Opens and locks it; makes it if it is not there.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn make(host: &Host) -> Result<State, StateError> {
        let path = &host.state;
        let failed = |error: Errno| StateError::System(path.clone(), error.into());
        match mkdir(path, Mode::from_raw_mode(DIRECTORY_MODE)) {
            Ok(()) => {
                let above = path.parent().unwrap_or(Path::new("/"));
                let known = open(above, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
                known.and_then(rustix::fs::fsync).map_err(failed)?;
            }
            Err(Errno::EXIST) => {}
            Err(error) => return Err(failed(error)),
        }
        State::open(host)?.ok_or_else(|| failed(Errno::NOENT))
    }

    /// Opens and locks it, if it is there.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn open(host: &Host) -> Result<Option<State>, StateError> {
        let path = host.state.clone();
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = match open(&path, flags, Mode::empty()) {
            Ok(directory) => File::from(directory),
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP | Errno::NOTDIR) => {
                return Err(StateError::Untrusted(path, "it is no directory"));
            }
            Err(error) => return Err(StateError::System(path, error.into())),
        };
        let found =
            directory.metadata().map_err(|error| StateError::System(path.clone(), error))?;
        if found.uid() != geteuid().as_raw() || found.mode() & 0o022 != 0 {
            return Err(StateError::Untrusted(path, "others own it or may write it"));
        }
        match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(State { path, directory })),
            Err(Errno::WOULDBLOCK) => Err(StateError::Busy(path)),
            Err(error) => Err(StateError::System(path, error.into())),
        }
    }

    /// Where the journal is, or would be.
    #[must_use]
    pub fn journal_path(&self) -> PathBuf {
        self.path.join(NAME)
    }

    /// The journal, if there is one.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn read(&self) -> Result<Option<Journal>, StateError> {
        let path = self.journal_path();
        // No FIFO is waited for.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat(&self.directory, NAME, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(StateError::Untrusted(path, "it is a link")),
            Err(error) => return Err(StateError::System(path, error.into())),
        };
        let failed = |error: io::Error| StateError::System(path.clone(), error);
        let found = file.metadata().map_err(failed)?;
        let own = found.is_file() && found.uid() == geteuid().as_raw() && found.nlink() == 1;
        if !own || found.mode() & 0o077 != 0 {
            return Err(StateError::Untrusted(path, "others own it or may use it"));
        }
        let text = Input::new(BufReader::new(file)).text().map_err(failed)?;
        match Journal::parse(&text) {
            Ok(journal) => Ok(Some(journal)),
            Err(why) => Err(StateError::Damaged(path, why)),
        }
    }

    /// Writes the journal, in the place of the one before.
    ///
    /// # Errors
    /// [`StateError::System`]; then it is as it was.
    pub(crate) fn write(&self, journal: &Journal) -> Result<(), StateError> {
        let write = || -> io::Result<()> {
            self.remove(UNFINISHED)?;
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let mode = Mode::from_raw_mode(FILE_MODE);
            let mut file = File::from(openat(&self.directory, UNFINISHED, flags, mode)?);
            file.write_all(&serde_json::to_vec_pretty(journal)?)?;
            file.write_all(b"\n")?;
            file.sync_all()?;
            renameat(&self.directory, UNFINISHED, &self.directory, NAME)?;
            self.directory.sync_all()
        };
        write().map_err(|error| {
            // What remains is removed before the next.
            let _ = self.remove(UNFINISHED);
            StateError::System(self.journal_path(), error)
        })
    }

    /// Removes the journal: there is nothing left to take back.
    ///
    /// # Errors
    /// [`StateError::System`].
    pub(crate) fn clear(&self) -> Result<(), StateError> {
        let cleared = self.remove(NAME).and_then(|()| self.directory.sync_all());
        cleared.map_err(|error| StateError::System(self.journal_path(), error))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match unlinkat(&self.directory, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
