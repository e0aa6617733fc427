// SPDX-License-Identifier: GPL-2.0-only
//! One way to write files: regular files are replaced whole or not at all; devices, FIFOs and links are
//! written through; what is read is never written over.
//!
//! A file is complete, and known to the disk, before it has a name: on a file system that knows files
//! without names (`O_TMPFILE`) whatever ends the process leaves nothing. A name beside a file of before
//! is needed from there to the renaming, a few system calls; SIGKILL or a loss of power just then leaves
//! a `.steelyard-*`, or, of several files, some new and some old.

use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;
use std::{error, fmt, process};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open};
use rustix::io::Errno;
use tempfile::{Builder, NamedTempFile, TempPath};

use crate::text::told;

/// What names that are there for a moment begin with.
const PREFIX: &str = ".steelyard-";
/// As for any new file, less what the umask takes away.
const NEW_FILE: u32 = 0o666;
/// Standard output, as a name of a file.
const STANDARD_OUTPUT: &str = "-";
/// Links to links at most, as of the kernel.
const MOST_LINKS: u32 = 40;
/// A pipe that can take anything takes as much without waiting (`PIPE_BUF`).
const WITHOUT_WAITING: usize = 4096;
/// Whoever wants to stop is heeded within this time.
const ATTENTION: Duration = Duration::from_millis(50);

/// Writes what is in a file.
pub type WriteFile<'a> = Box<dyn FnMut(&mut dyn Write) -> io::Result<()> + 'a>;

/// Files to be written together, all of them or none.
#[derive(Debug)]
pub struct Output {
    /// Made if it is not there.
    directory: Option<PathBuf>,
    paths: Vec<PathBuf>,
    /// What is read.
    inputs: Vec<PathBuf>,
}

impl Output {
    /// One file; `-` is standard output. It is looked at, and nothing is changed.
    ///
    /// # Errors
    /// What would keep it from being written, as far as that can be seen.
    pub fn file(path: &Path, inputs: &[PathBuf]) -> Result<Output, OutputError> {
        let paths = vec![path.to_owned()];
        Output { directory: None, paths, inputs: inputs.to_vec() }.checked()
    }

    /// Files of these names in a directory, which may not be there.
    ///
    /// # Errors
    /// As those of [`Output::file`].
    pub fn directory(
        directory: &Path,
        names: &[&str],
        inputs: &[PathBuf],
    ) -> Result<Output, OutputError> {
        let paths = names.iter().map(|name| directory.join(name)).collect();
        Output { directory: Some(directory.to_owned()), paths, inputs: inputs.to_vec() }.checked()
    }

    /// The same, with more that is read.
    ///
    /// # Errors
    /// One of them would be written over.
    pub fn beside(mut self, inputs: &[PathBuf]) -> Result<Output, OutputError> {
        self.inputs.extend_from_slice(inputs);
        self.checked()
    }

    /// Where the files are, in their order.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Writes the files, in their order. Set `asked`, as a handler of Ctrl-C does, to give up.
    ///
    /// # Errors
    /// What went wrong; then all regular files are as they were.
    ///
    /// # Panics
    /// If there are not as many contents as files.
    pub fn write(&self, contents: &mut [WriteFile], asked: &AtomicBool) -> Result<(), OutputError> {
        assert_eq!(contents.len(), self.paths.len(), "a content for each file");
        let made = self.directory.as_deref().map_or(Ok(vec![]), make_directory)?;
        let written = self.write_there(contents, asked);
        if written.is_err() {
            // Unless somebody else put something into it.
            made.iter().for_each(|directory| drop(fs::remove_dir(directory)));
        }
        written
    }

    fn write_there(
        &self,
        contents: &mut [WriteFile],
        asked: &AtomicBool,
    ) -> Result<(), OutputError> {
        // Time has passed since it was looked at.
        let places = self.places()?;
        let mut staged = vec![];
        for ((place, path), content) in places.into_iter().zip(&self.paths).zip(contents) {
            let failed = |error| OutputError::write(path, error);
            let (sink, unnamed) = place.open(asked, true).map_err(failed)?;
            let mut writer = BufWriter::new(sink);
            let result = content(&mut writer).and_then(|()| writer.flush());
            let (sink, _) = writer.into_parts();
            match (result, unnamed) {
                // Who closes a pipe early has what they want.
                (Err(_), None) if sink.closed => {}
                (Err(error), _) => return Err(failed(error)),
                (Ok(()), None) => {}
                (Ok(()), Some(unnamed)) => {
                    // What the disk refuses is known before anything is replaced.
                    sink.file.sync_all().map_err(failed)?;
                    staged.push((path, sink.file, unnamed));
                }
            }
        }
        if asked.load(Ordering::Relaxed) {
            return Err(OutputError::write(&self.paths[0], given_up()));
        }
        name_all(staged)
    }

    /// Writes one file as it goes along. What was there is replaced once something is flushed: from then
    /// on that can be read, whatever ends the process.
    ///
    /// # Errors
    /// As those of [`Output::write`].
    pub fn stream<'a>(&self, asked: &'a AtomicBool) -> Result<Stream<'a>, OutputError> {
        let path = &self.paths[0];
        let place = self.places()?.remove(0);
        let (sink, unnamed) =
            place.open(asked, false).map_err(|error| OutputError::write(path, error))?;
        Ok(Stream { regular: unnamed.is_some(), sink, unnamed })
    }

    fn checked(self) -> Result<Output, OutputError> {
        if let Some(directory) = &self.directory {
            let failed = |error| OutputError::write(directory, error);
            match fs::metadata(directory) {
                Ok(found) if !found.is_dir() => {
                    return Err(OutputError::NoDirectory { path: directory.clone() });
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    // A link to nothing, or what is above.
                    let there = directory.ancestors().find(|path| path.symlink_metadata().is_ok());
                    let there = there.unwrap_or(Path::new("."));
                    let (_, name) = create(there).map_err(failed)?;
                    return name.map_or(Ok(()), remove).map_err(failed).map(|()| self);
                }
                Err(error) => return Err(failed(error)),
                Ok(_) => {}
            }
        }
        for (place, path) in self.places()?.iter().zip(&self.paths) {
            place.check().map_err(|error| OutputError::write(path, error))?;
        }
        Ok(self)
    }

    /// What is at the paths now, none of it an input.
    fn places(&self) -> Result<Vec<Place>, OutputError> {
        let identity = |found: Metadata| found.is_file().then(|| (found.dev(), found.ino()));
        let inputs = self.inputs.iter();
        let inputs: Vec<_> = inputs
            .filter_map(|input| Some((identity(fs::metadata(input).ok()?)?, input)))
            .collect();
        let place = |path: &PathBuf| {
            let place = Place::at(path).map_err(|error| OutputError::write(path, error))?;
            let own = place.metadata().and_then(identity);
            match inputs.iter().find(|(input, _)| Some(*input) == own) {
                None => Ok(place),
                Some((_, input)) => {
                    Err(OutputError::Input { path: path.clone(), input: input.to_path_buf() })
                }
            }
        };
        self.paths.iter().map(place).collect()
    }
}

/// What a path leads to.
enum Place {
    /// To be replaced whole, if it is there; the path has no links.
    Regular { path: PathBuf, before: Option<Metadata> },
    /// A device or a FIFO.
    Special { path: PathBuf, found: Metadata },
    /// What this process has open.
    Open(File),
}

impl Place {
    fn at(path: &Path) -> io::Result<Place> {
        if path == Path::new(STANDARD_OUTPUT) {
            return Place::open_already(io::stdout());
        }
        Place::behind(path, MOST_LINKS)
    }

    fn behind(path: &Path, links: u32) -> io::Result<Place> {
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let name = path.file_name().ok_or(ErrorKind::IsADirectory)?;
        let parent = fs::canonicalize(parent)?;
        // /dev/stdout and the like. Opened anew, a file would be written from its beginning again.
        if parent == Path::new(&format!("/proc/{}/fd", process::id())) {
            let known = [0, 1, 2].map(|number| number.to_string());
            return match known.iter().position(|number| name == number.as_str()) {
                Some(0) => Place::open_already(io::stdin()),
                Some(1) => Place::open_already(io::stdout()),
                Some(_) => Place::open_already(io::stderr()),
                None => Ok(Place::Special { path: path.to_owned(), found: fs::metadata(path)? }),
            };
        }
        // Whether a link may be followed is the kernel's to say (`fs.protected_symlinks`).
        let found = match fs::metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            found => Some(found?),
        };
        if fs::symlink_metadata(path).is_ok_and(|link| link.is_symlink()) {
            let links = links.checked_sub(1).ok_or(Errno::LOOP)?;
            // One that leads to nothing, too: there the file is made.
            return Place::behind(&parent.join(fs::read_link(path)?), links);
        }
        let path = match path.as_os_str().as_bytes().ends_with(b"/") {
            true => return Err(ErrorKind::IsADirectory.into()),
            false => parent.join(name),
        };
        match found {
            Some(found) if found.is_dir() => Err(ErrorKind::IsADirectory.into()),
            Some(found) if found.file_type().is_socket() => Err(io::Error::other("it is a socket")),
            Some(found) if !found.is_file() => Ok(Place::Special { path, found }),
            before => Ok(Place::Regular { path, before }),
        }
    }

    fn open_already(file: impl AsFd) -> io::Result<Place> {
        Ok(Place::Open(file.as_fd().try_clone_to_owned()?.into()))
    }

    fn metadata(&self) -> Option<Metadata> {
        match self {
            Place::Regular { before, .. } => before.clone(),
            Place::Special { found, .. } => Some(found.clone()),
            Place::Open(file) => file.metadata().ok(),
        }
    }

    /// Whether it can be written, as far as it can be seen without changing anything.
    fn check(&self) -> io::Result<()> {
        match self {
            Place::Regular { path, before } => {
                let (_, unnamed) = Unnamed::for_file(path, before.as_ref())?;
                unnamed.name.map_or(Ok(()), remove)
            }
            Place::Special { .. } | Place::Open(_) => Ok(()),
        }
    }

    /// Where bytes go, and what remains to be done with a regular file.
    fn open(self, asked: &AtomicBool, whole: bool) -> io::Result<(Sink<'_>, Option<Unnamed>)> {
        let sink = |file, waits| Sink { file, waits, whole, asked, closed: false };
        match self {
            Place::Regular { path, before } => {
                let (file, unnamed) = Unnamed::for_file(&path, before.as_ref())?;
                Ok((sink(file, false), Some(unnamed)))
            }
            Place::Special { path, found } => {
                let fifo = found.file_type().is_fifo();
                Ok((sink(open_special(&path, fifo, asked)?, true), None))
            }
            Place::Open(file) => Ok((sink(file, true), None)),
        }
    }
}

/// Opens a device, or a FIFO once somebody reads it.
fn open_special(path: &Path, fifo: bool, asked: &AtomicBool) -> io::Result<File> {
    // `CREATE` has the kernel see to `fs.protected_fifos`.
    // `APPEND` is for a file by way of /dev/fd.
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = flags | OFlags::APPEND;
    loop {
        match open(path, flags | OFlags::CLOEXEC, Mode::from_raw_mode(NEW_FILE)) {
            Ok(file) => return Ok(file.into()),
            Err(Errno::NXIO) if fifo => sleep(ATTENTION),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if asked.load(Ordering::Relaxed) {
            return Err(given_up());
        }
    }
}

fn directory_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

/// Where bytes go.
struct Sink<'a> {
    file: File,
    /// It may take its time, as a pipe does.
    waits: bool,
    /// It is of no use in part: gives up as soon as it is asked to. Else only instead of waiting.
    whole: bool,
    asked: &'a AtomicBool,
    /// Nobody reads it any more.
    closed: bool,
}

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut asked = self.whole && self.asked.load(Ordering::Relaxed);
        while !asked {
            if !self.waits {
                return self.file.write(bytes);
            }
            let wait = Timespec { tv_sec: 0, tv_nsec: ATTENTION.subsec_nanos().into() };
            match poll(&mut [PollFd::new(&self.file, PollFlags::OUT)], Some(&wait)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => match self.file.write(&bytes[..bytes.len().min(WITHOUT_WAITING)]) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    written => {
                        let error = written.as_ref().err().map(io::Error::kind);
                        self.closed |= error == Some(ErrorKind::BrokenPipe);
                        return written;
                    }
                },
                Err(error) => return Err(error.into()),
            }
            asked = self.asked.load(Ordering::Relaxed);
        }
        Err(given_up())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// A file that is written as it goes along.
pub struct Stream<'a> {
    sink: Sink<'a>,
    unnamed: Option<Unnamed>,
    regular: bool,
}

impl Stream<'_> {
    /// Ends it. What the disk refuses is known then.
    ///
    /// # Errors
    /// Those of the system.
    pub fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        if self.regular { self.sink.file.sync_all() } else { Ok(()) }
    }
}

impl Write for Stream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sink.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()?;
        self.unnamed.take().map_or(Ok(()), |unnamed| unnamed.name(&self.sink.file))
    }
}

/// What is to be named when it is complete; its file goes with it until then.
struct Unnamed {
    /// A name until then, on a file system that has no files without.
    name: Option<TempPath>,
    target: PathBuf,
}

impl Unnamed {
    /// To become this file, with the mode and, as far as permitted, the owners of what it replaces.
    fn for_file(target: &Path, before: Option<&Metadata>) -> io::Result<(File, Unnamed)> {
        if before.is_some() {
            // To replace it takes the rights to write it. `CREATE` has the kernel see to
            // `fs.protected_regular` too.
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            open(target, flags, Mode::from_raw_mode(NEW_FILE))?;
        }
        let (file, name) = create(directory_of(target))?;
        if let Some(before) = before {
            let own = file.metadata()?;
            if (own.uid(), own.gid()) != (before.uid(), before.gid()) {
                let all = fchown(&file, Some(before.uid()), Some(before.gid()));
                let _ = all.or_else(|_| fchown(&file, None, Some(before.gid())));
            }
            let mode = before.mode() & 0o777;
            if own.mode() & 0o7777 != mode {
                file.set_permissions(Permissions::from_mode(mode))?;
            }
        }
        Ok((file, Unnamed { name, target: target.to_owned() }))
    }

    /// Gives the file the name that it is for, which is then no other's.
    fn name(self, file: &File) -> io::Result<()> {
        let link = |path: &Path| linkat(CWD, way_to(file), CWD, path, AtFlags::SYMLINK_FOLLOW);
        let name = match self.name {
            Some(name) => name,
            None => match link(&self.target) {
                Ok(()) => return Ok(()),
                Err(Errno::EXIST) => {
                    let directory = directory_of(&self.target);
                    let made = names().make_in(directory, |path| Ok(link(path)?))?;
                    made.into_temp_path()
                }
                Err(error) => return Err(error.into()),
            },
        };
        name.persist(&self.target).map_err(|error| error.error)
    }
}

/// A file in this directory, and a name where the file system has no files without.
fn create(directory: &Path) -> io::Result<(File, Option<TempPath>)> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let unnamed = open(directory, flags, Mode::from_raw_mode(NEW_FILE)).map(File::from);
    match unnamed {
        // Without /proc it could not be named.
        Ok(file) if way_to(&file).exists() => Ok((file, None)),
        _ => {
            let permissions = Permissions::from_mode(NEW_FILE);
            let named = names().permissions(permissions).tempfile_in(directory)?;
            let (file, name) = named.into_parts();
            Ok((file, Some(name)))
        }
    }
}

/// A path to a file that has none.
fn way_to(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

fn names() -> Builder<'static, 'static> {
    let mut builder = Builder::new();
    builder.prefix(PREFIX);
    builder
}

/// Names files that are complete, all of them or none.
fn name_all(files: Vec<(&PathBuf, File, Unnamed)>) -> Result<(), OutputError> {
    let mut kept: Vec<Kept> = vec![];
    let count = files.len();
    let mut result = Ok(());
    for (number, (path, file, unnamed)) in files.into_iter().enumerate() {
        let target = unnamed.target.clone();
        // What the last one replaces nobody wants back.
        let before = if number + 1 < count { keep(&target) } else { Ok(None) };
        let named = before.and_then(|before| {
            kept.push(Kept { target, before, replaced: false });
            unnamed.name(&file)
        });
        match (named, kept.last_mut()) {
            (Err(error), _) => {
                result = Err(OutputError::write(path, error));
                break;
            }
            (Ok(()), Some(last)) => last.replaced = true,
            (Ok(()), None) => {}
        }
    }
    let end = if result.is_ok() { Kept::forget } else { Kept::bring_back };
    for kept in kept.into_iter().rev() {
        let target = kept.target.clone();
        let ended = end(kept).map_err(|error| OutputError::write(&target, error));
        result = result.and(ended);
    }
    result
}

/// Removes a name, which is not to be left: it is tried twice.
fn remove(name: TempPath) -> io::Result<()> {
    let path = name.to_path_buf();
    name.close().or_else(|_| fs::remove_file(path))
}

/// What is needed to undo a renaming.
struct Kept {
    target: PathBuf,
    /// What was there, by another name.
    before: Option<TempPath>,
    replaced: bool,
}

/// Keeps what is there, if something is, by another name. Where a file can have only one it loses its
/// own for a moment.
fn keep(target: &Path) -> io::Result<Option<TempPath>> {
    let kept = names().make_in(directory_of(target), |path| match fs::hard_link(target, path) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::AlreadyExists) => {
            Err(error)
        }
        Err(_) => fs::rename(target, path),
        Ok(()) => Ok(()),
    });
    match kept {
        Ok(kept) => Ok(Some(kept.into_temp_path())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

impl Kept {
    fn forget(self) -> io::Result<()> {
        self.before.map_or(Ok(()), remove)
    }

    fn bring_back(self) -> io::Result<()> {
        match self.before {
            Some(before) => {
                let path = before.to_path_buf();
                if let Err(error) = before.persist(&self.target) {
                    let told = format!("{}; what was there is {}", error.error, told(&path));
                    // Better a name too many than a file too few.
                    drop(error.path.keep());
                    return Err(io::Error::other(told));
                }
                // Two names of one file remain two.
                drop(fs::remove_file(path));
                Ok(())
            }
            None if self.replaced => fs::remove_file(self.target),
            None => Ok(()),
        }
    }
}

/// Makes a directory, and those above it; which ones, the deepest first.
fn make_directory(directory: &Path) -> Result<Vec<PathBuf>, OutputError> {
    let missing = directory.ancestors().filter(|path| !path.as_os_str().is_empty());
    let missing: Vec<_> = missing.take_while(|path| !path.exists()).collect();
    let mut made = vec![];
    for path in missing.into_iter().rev() {
        match fs::create_dir(path) {
            Ok(()) => made.insert(0, path.to_owned()),
            Err(_) if path.is_dir() => {}
            Err(error) => {
                made.iter().for_each(|made| drop(fs::remove_dir(made)));
                return Err(OutputError::write(directory, error));
            }
        }
    }
    Ok(made)
}

/// A file without a name, and another place in it.
///
/// # Errors
/// Those of the system.
pub fn scratch() -> io::Result<(File, File)> {
    let file = tempfile::tempfile()?;
    if let Ok(again) = File::open(way_to(&file)) {
        return Ok((file, again));
    }
    // Without /proc it needs a name for a moment.
    let named = NamedTempFile::new()?;
    let again = named.reopen()?;
    Ok((named.into_file(), again))
}

/// Not [`ErrorKind::Interrupted`], which means "try again".
fn given_up() -> io::Error {
    io::Error::other("interrupted")
}

/// Files that cannot be written.
#[derive(Debug)]
pub enum OutputError {
    /// One would be written over what is read.
    Input {
        /// What was to be written.
        path: PathBuf,
        /// What is read.
        input: PathBuf,
    },
    /// What is to be a directory is something else.
    NoDirectory {
        /// It.
        path: PathBuf,
    },
    /// The system refuses.
    Write {
        /// What.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl OutputError {
    /// The system refuses to write this.
    pub fn write(path: &Path, error: io::Error) -> OutputError {
        OutputError::Write { path: path.to_owned(), error }
    }
}

impl fmt::Display for OutputError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OutputError::Input { path, input } if path == input => {
                write!(formatter, "`{}` is read: it is not written over", told(path))
            }
            OutputError::Input { path, input } => {
                let (path, input) = (told(path), told(input));
                write!(formatter, "`{path}` is `{input}`, which is read: it is not written over")
            }
            OutputError::NoDirectory { path } => {
                write!(formatter, "`{}` is there and is no directory", told(path))
            }
            OutputError::Write { path, error } => {
                write!(formatter, "cannot write {}: {error}", told(path))
            }
        }
    }
}

impl error::Error for OutputError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            OutputError::Write { error, .. } => Some(error),
            OutputError::Input { .. } | OutputError::NoDirectory { .. } => None,
        }
    }
}
