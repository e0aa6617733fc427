// SPDX-License-Identifier: GPL-2.0-only
//! One budget of memory and time for everything that is read (docs/limits.md), checked while it comes.
//!
//! What is read is an [`Input`], which counts its bytes. Whatever unpacks a part of it does so through [`Budget::unpacked`],
//! so that a small file cannot become a large one; lines
//! come through [`read_line`], texts that are held as a whole through [`Input::text`]. Memory is bounded by
//! [`within_memory`], with what a reader holds by then, and [`within_number`]. A limit is told as
//! [`OverBudget`], which also travels within an [`io::Error`].

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::rc::Rc;
use std::{error, fmt};

use rustix::process::geteuid;

/// Texts that are held as a whole: scenarios, libvirt's XML, xl.cfg.
pub const TEXT_BYTES: u64 = 4 << 20;
/// A line of text that is read line by line, unless a format says otherwise.
pub const LINE_BYTES: u64 = 1 << 16;
/// However small it is, a file may unpack to so much ...
pub const UNPACKED_LEAST_BYTES: u64 = 64 << 20;
/// ... and to so many times what was read of it ...
pub const UNPACKED_RATIO: u64 = 200;
/// ... but never to more.
pub const UNPACKED_BYTES: u64 = 1 << 30;
/// A line that is unpacked counts as so many bytes more: looking at an empty one takes as long.
pub const UNPACKED_LINE_BYTES: u64 = 32;
/// What is held of an input, such as runs and waits, takes at most so much memory. Putting it in order
/// and making something of it takes as much again, and more for a moment.
pub const MEMORY_BYTES: usize = 256 << 20;
/// Domains, and vCPUs, or the threads in their place, that an input can tell of.
pub const MOST_NAMED: usize = 1 << 16;

/// An input asks for more than there is of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverBudget {
    /// A text.
    Text,
    /// A line, which is longer than so many bytes.
    Line(u64),
    /// What comes out of compressed bytes.
    Unpacked,
    /// What must be held.
    Memory,
    /// Domains or vCPUs.
    Named,
}

impl OverBudget {
    /// What can be done about it.
    pub fn way_out(self) -> &'static str {
        match self {
            OverBudget::Text => "describe domains that are alike by one entry with `count`",
            OverBudget::Line(_) => "is it of this format at all?",
            OverBudget::Unpacked => "if it is what it should be, record for a shorter time",
            OverBudget::Memory => "record for a shorter time, or cut it into parts",
            OverBudget::Named => "record fewer of them",
        }
    }
}

impl fmt::Display for OverBudget {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MIB: u64 = 1 << 20;
        match self {
            OverBudget::Text => {
                write!(
                    formatter,
                    "this text is too long: at most {} MiB are read",
                    TEXT_BYTES / MIB
                )
            }
            OverBudget::Line(bytes) => {
                write!(formatter, "a line is too long: at most {bytes} bytes are read")
            }
            OverBudget::Unpacked => write!(
                formatter,
                "this unpacks to too much: at most {} MiB or {UNPACKED_RATIO} times its size are read, \
                 and never more than {} MiB",
                UNPACKED_LEAST_BYTES / MIB,
                UNPACKED_BYTES / MIB
            ),
            OverBudget::Memory => write!(
                formatter,
                "this holds more than fits into memory: at most {} MiB of runs and waits are kept",
                MEMORY_BYTES as u64 / MIB
            ),
            OverBudget::Named => write!(
                formatter,
                "this tells of too many domains, vCPUs or threads: at most {MOST_NAMED} of each"
            ),
        }
    }
}

impl error::Error for OverBudget {}

impl From<OverBudget> for io::Error {
    fn from(over: OverBudget) -> io::Error {
        io::Error::new(io::ErrorKind::QuotaExceeded, over)
    }
}

/// The limit, if that is what an error is about.
pub fn over_budget(error: &io::Error) -> Option<OverBudget> {
    error.get_ref()?.downcast_ref().copied()
}

/// Whether so many bytes may be held.
///
/// # Errors
/// [`OverBudget::Memory`]
pub fn within_memory(bytes: usize) -> Result<(), OverBudget> {
    if bytes <= MEMORY_BYTES { Ok(()) } else { Err(OverBudget::Memory) }
}

/// Whether there may be so many domains, or vCPUs.
///
/// # Errors
/// [`OverBudget::Named`]
pub fn within_number(named: usize) -> Result<(), OverBudget> {
    if named <= MOST_NAMED { Ok(()) } else { Err(OverBudget::Named) }
}

/// What was read of one input so far, and what it was unpacked to.
#[derive(Clone, Debug, Default)]
pub struct Budget {
    read: Rc<Cell<u64>>,
    unpacked: Rc<Cell<u64>>,
}

impl Budget {
    /// What a decoder of bytes of this input yields, as far as the budget goes.
    pub fn unpacked<D: Read>(&self, decoder: D) -> Unpacked<D> {
        Unpacked { decoder, budget: self.clone() }
    }

    fn add_read(&self, bytes: usize) {
        self.read.set(self.read.get().saturating_add(bytes as u64));
    }

    fn add_unpacked(&self, bytes: &[u8]) -> Result<(), OverBudget> {
        let lines = bytes.iter().filter(|&&byte| byte == b'\n').count() as u64;
        let counted = bytes.len() as u64 + UNPACKED_LINE_BYTES * lines;
        let unpacked = self.unpacked.get().saturating_add(counted);
        self.unpacked.set(unpacked);
        let in_proportion = self.read.get().saturating_mul(UNPACKED_RATIO);
        let most = in_proportion.clamp(UNPACKED_LEAST_BYTES, UNPACKED_BYTES);
        if unpacked <= most { Ok(()) } else { Err(OverBudget::Unpacked) }
    }
}

/// Bytes from outside.
#[derive(Debug)]
pub struct Input<R> {
    reader: R,
    budget: Budget,
}

impl Input<BufReader<File>> {
    /// Opens a file.
    ///
    /// # Errors
    /// Those of the system.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Input::of_file(File::open(path)?))
    }

    /// Opens a file that nobody but this user and root can write.
    ///
    /// # Errors
    /// Others may write it; those of the system.
    pub fn open_trusted(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let about = file.metadata()?;
        if ![0, geteuid().as_raw()].contains(&about.uid()) || about.mode() & 0o022 != 0 {
            let why = "others may write it: `chown root` and `chmod go-w` mend that";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        Ok(Input::of_file(file))
    }

    fn of_file(file: File) -> Self {
        Input::new(BufReader::with_capacity(1 << 16, file))
    }
}

impl<R: BufRead> Input<R> {
    /// What is already open, or in memory.
    pub fn new(reader: R) -> Self {
        Input { reader, budget: Budget::default() }
    }

    /// What is under it, where reading has got to.
    pub fn into_inner(self) -> R {
        self.reader
    }

    /// For what unpacks parts of it.
    pub fn budget(&self) -> Budget {
        self.budget.clone()
    }

    /// All of a text, as bytes.
    ///
    /// # Errors
    /// [`OverBudget::Text`] and those of the system.
    pub fn text(self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![];
        if self.take(TEXT_BYTES + 1).read_to_end(&mut bytes)? as u64 > TEXT_BYTES {
            return Err(OverBudget::Text.into());
        }
        Ok(bytes)
    }
}

impl<R: BufRead> Read for Input<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.reader.read(buffer)?;
        self.budget.add_read(length);
        Ok(length)
    }
}

impl<R: BufRead> BufRead for Input<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.reader.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.budget.add_read(amount);
        self.reader.consume(amount);
    }
}

impl<R: BufRead + Seek> Seek for Input<R> {
    /// Reading begins anew, and so does the budget.
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let place = self.reader.seek(to)?;
        self.budget.read.set(0);
        self.budget.unpacked.set(0);
        Ok(place)
    }

    fn stream_position(&mut self) -> io::Result<u64> {
        self.reader.stream_position()
    }
}

/// What a decoder yields, counted.
pub struct Unpacked<D> {
    decoder: D,
    budget: Budget,
}

impl<D: Read> Read for Unpacked<D> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.decoder.read(buffer)?;
        self.budget.add_unpacked(&buffer[..length])?;
        Ok(length)
    }
}

/// Reads a line, with its end, in the place of what was in it; its length, 0 at the end. The last one
/// may have no end.
///
/// # Errors
/// [`OverBudget::Line`] for one of more than `most` bytes, and those of the reader.
pub fn read_line(reader: &mut impl BufRead, most: u64, line: &mut Vec<u8>) -> io::Result<usize> {
    line.clear();
    let length = reader.take(most + 1).read_until(b'\n', line)?;
    if length as u64 > most { Err(OverBudget::Line(most).into()) } else { Ok(length) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many bytes of the same as anybody wants, of which `packed` come with each read.
    struct Bomb {
        budget: Budget,
        packed: usize,
        byte: u8,
    }

    impl Read for Bomb {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.budget.add_read(self.packed);
            buffer.fill(self.byte);
            Ok(buffer.len())
        }
    }

    /// How much comes out of a bomb of which so many bytes are read for each MiB.
    fn out_of_bomb(packed: usize, byte: u8) -> u64 {
        let budget = Budget::default();
        let mut unpacked = budget.unpacked(Bomb { budget: budget.clone(), packed, byte });
        let mut buffer = vec![0; 1 << 20];
        let error = (0..1 << 20).find_map(|_| unpacked.read(&mut buffer).err());
        assert_eq!(over_budget(&error.unwrap()), Some(OverBudget::Unpacked));
        budget.unpacked.get()
    }

    #[test]
    fn bombs_end_at_the_limit() {
        let mib = 1 << 20;
        assert_eq!(out_of_bomb(1, 0), UNPACKED_LEAST_BYTES + mib);
        assert_eq!(out_of_bomb(mib as usize, 0), UNPACKED_BYTES + mib);
        // It gives more than is allowed for each byte, so the least is all there is.
        let thin = mib / UNPACKED_RATIO / 2;
        assert_eq!(out_of_bomb(thin as usize, 0), UNPACKED_LEAST_BYTES + mib);
        // Empty lines: 2 MiB and a little.
        assert_eq!(out_of_bomb(1, b'\n'), 2 * mib * (1 + UNPACKED_LINE_BYTES));
    }

    #[test]
    fn lines_and_texts_are_bounded() {
        let mut line = vec![];
        let mut input = Input::new(&b"abc\nab\nabcd\n"[..]);
        assert_eq!(read_line(&mut input, 4, &mut line).unwrap(), 4);
        assert_eq!(read_line(&mut input, 4, &mut line).unwrap(), 3);
        let error = read_line(&mut input, 4, &mut line).unwrap_err();
        assert_eq!(over_budget(&error), Some(OverBudget::Line(4)));
        let text = vec![b' '; TEXT_BYTES as usize];
        assert_eq!(Input::new(&text[..]).text().unwrap().len(), text.len());
        let more = [&text[..], b" "].concat();
        let error = Input::new(&more[..]).text().unwrap_err();
        assert_eq!(over_budget(&error), Some(OverBudget::Text));
    }
}
