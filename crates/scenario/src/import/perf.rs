// SPDX-License-Identifier: GPL-2.0-only
//! Recordings of perf: the text that `perf script` makes of what `perf sched record` recorded, plain or
//! compressed with zstd, read line by line. A line is
//!
//! ```text
//!  CPU 0/KVM 29934/29943 [000]  1636.049574734: sched:sched_switch: prev_comm=... ==> next_comm=...
//! ```
//!
//! with the name of the thread on that CPU (which may hold spaces and colons), its process (if the
//! field `pid` was asked for) and number, the CPU, the time, the event, and the event's own fields;
//! these come as `key=value` or, where libtraceevent's plugins are installed, as
//! `comm:pid [prio] S ==> comm:pid [prio]`.

use std::io::{self, BufRead, BufReader, Read};
use std::num::TryFromIntError;
use std::ops::Range;
use std::path::Path;

use ruzstd::decoding::{FrameDecoder, StreamingDecoder};
use steelyard_boundary::input::{Input, LINE_BYTES, over_budget, read_line};
use steelyard_recording::History;

use crate::diagnostic::{Diagnostic, Source, unreadable};
use crate::follower::Follower;
use crate::host::HostDescription;
use crate::import::{KNOWN_FORMATS, ZSTD_MAGIC};

const MAX_CPU: usize = steelyard_simulator::units::MAX_PCPU as usize;

/// Reads a recording, plain or compressed.
///
/// Beside what it says comes the number of events that say nothing about scheduling or were not needed.
pub(crate) fn read(
    path: &Path,
    mut file: Input<impl BufRead>,
    known: Option<&HostDescription>,
) -> Result<(History, u64), Diagnostic> {
    let head = file.fill_buf().map_err(|error| unreadable(path, &error))?;
    if head.starts_with(&ZSTD_MAGIC) {
        let budget = file.budget();
        let text = Zstd::new(file).map_err(|error| damaged(path, 1, &error))?;
        parse(path, BufReader::with_capacity(1 << 16, budget.unpacked(text)), known)
    } else {
        parse(path, file, known)
    }
}

/// The content of a zstd file: of one frame after another, each with its checksum.
struct Zstd<R: BufRead> {
    /// None only while one frame is exchanged for the next.
    frame: Option<StreamingDecoder<R, FrameDecoder>>,
}

impl<R: BufRead> Zstd<R> {
    fn new(file: R) -> io::Result<Self> {
        let frame = StreamingDecoder::new(file).map_err(io::Error::other)?;
        Ok(Zstd { frame: Some(frame) })
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let Some(frame) = &mut self.frame else { return Ok(0) };
            let length = frame.read(buffer)?;
            if length > 0 || buffer.is_empty() {
                return Ok(length);
            }
            let Some((mut file, decoder)) = self.frame.take().map(StreamingDecoder::into_parts)
            else {
                return Ok(0);
            };
            let stored = decoder.get_checksum_from_data();
            if stored.is_some() && stored != decoder.get_calculated_checksum() {
                return Err(io::Error::other("the checksum is wrong"));
            }
            if file.fill_buf()?.is_empty() {
                return Ok(0);
            }
            let next = StreamingDecoder::new_with_decoder(file, decoder);
            self.frame = Some(next.map_err(io::Error::other)?);
        }
    }
}

/// Whether a file that begins so is a recording.
pub(crate) fn looks_like(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head);
    let mut lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines.next().is_some_and(|line| Sample::parse(line).is_ok())
}

/// Reads a recording from text.
fn parse(
    path: &Path,
    mut text: impl BufRead,
    known: Option<&HostDescription>,
) -> Result<(History, u64), Diagnostic> {
    let name = &path.display().to_string();
    let mut follower = Follower::default();
    let mut first_ns = None;
    let mut last_ns = 0;
    let (mut skipped, mut switches) = (0, 0);
    let mut bytes = vec![];
    for number in 1.. {
        let length = read_line(&mut text, LINE_BYTES, &mut bytes)
            .map_err(|error| damaged(path, number, &error))?;
        if length == 0 {
            break;
        }
        let complete = bytes.last() == Some(&b'\n');
        let line = String::from_utf8_lossy(&bytes);
        let line = line.trim_end();
        let wrong = |bytes: Range<usize>, message: String| {
            let message = if line.contains('\0') {
                "this is binary, no text".to_owned()
            } else if !complete {
                format!("{message}: the file ends in the middle of a line, it was cut off")
            } else {
                message
            };
            let mut diagnostic = Source::new(name, line).error(bytes, message);
            if let Some(place) = &mut diagnostic.place {
                place.line = number;
            }
            diagnostic
        };
        if line.trim_start().is_empty() || line.starts_with('#') {
            continue;
        }
        let sample = Sample::parse(line).map_err(|problem| match problem {
            Problem::NoLine => {
                let message = "this is no line of `perf script`".to_owned();
                wrong(0..line.len(), message).with_help(KNOWN_FORMATS)
            }
            Problem::Number(bytes, message) => wrong(bytes, message),
        })?;
        let start_ns = *first_ns.get_or_insert(sample.time_ns);
        if sample.time_ns < last_ns {
            let message = format!(
                "time runs backwards: `{}` is {} ns earlier than the line before",
                &line[sample.time.clone()],
                last_ns - sample.time_ns
            );
            return Err(wrong(sample.time, message)
                .with_help("`perf script` sorts by time: was the text put together by hand?"));
        }
        last_ns = sample.time_ns;
        follower.advance(sample.time_ns - start_ns);
        let event = Event::parse(sample.event, sample.fields).ok_or_else(|| {
            let Sample { event, fields, .. } = sample;
            let message = format!("the fields of this {event} cannot be read: `{fields}`");
            wrong(line.len() - fields.len()..line.len(), message)
        })?;
        if let Some(tid) = sample.tid {
            follower.name(tid, sample.comm);
            let ran_ns = match event {
                Event::Ran { tid: ran, runtime_ns } if ran == tid => runtime_ns,
                _ => 0,
            };
            follower.runs(tid, sample.process, sample.cpu, ran_ns);
        }
        match event {
            Event::Switch { previous, runnable, next } => {
                switches += 1;
                follower.name(previous.tid, previous.comm);
                follower.name(next.tid, next.comm);
                for thread in [previous, next] {
                    if let Some(priority) = thread.priority {
                        // Deadline tasks have a number below 0.
                        follower.priority(thread.tid, priority.parse().ok());
                    }
                }
                follower.switches(sample.cpu, previous.tid, runnable, next.tid);
            }
            Event::Wake { thread, by } => {
                follower.name(thread.tid, thread.comm);
                match by {
                    By::Running => follower.wakes_by(thread.tid, sample.cpu, None),
                    By::Parent => follower.begins(thread.tid, sample.cpu),
                    By::Unknown => _ = follower.wakes(thread.tid),
                }
            }
            Event::Ran { .. } => {}
            Event::Other => skipped += 1,
        }
        follower.within_budget().map_err(|over| Diagnostic::of_budget(name, over))?;
    }
    let nothing = match (first_ns, switches) {
        (None, _) => "an empty recording: there is no event in it",
        (Some(_), 0) => "an empty recording: there is no `sched_switch` event in it",
        (Some(start_ns), _) if start_ns == last_ns => "an empty recording: no time passes in it",
        _ => {
            return Ok((follower.finish(name, "perf", known)?, skipped));
        }
    };
    Err(Diagnostic::of_file(name, nothing).with_help("record with `perf sched record -- sleep 10`"))
}

fn damaged(path: &Path, line: usize, error: &io::Error) -> Diagnostic {
    if over_budget(error).is_some() {
        return unreadable(path, error);
    }
    let message = format!("damaged or cut off after line {}: {error}", line - 1);
    Diagnostic::of_file(path.display().to_string(), message)
}

/// Why a line is none.
enum Problem {
    NoLine,
    /// It is one but for what stands there.
    Number(Range<usize>, String),
}

/// What stands before an event's own fields.
struct Sample<'a> {
    comm: &'a str,
    process: Option<u32>,
    /// None: perf could not tell, and wrote -1.
    tid: Option<u32>,
    cpu: usize,
    time_ns: u64,
    /// Where the time stands in the line.
    time: Range<usize>,
    event: &'a str,
    fields: &'a str,
}

/// The bracket around the CPU's number begins so early: names are cut to 15 characters (helpers of the
/// kernel's to 63). A line full of brackets is not looked through from each of them.
const LATEST_BRACKET: usize = 256;
/// And it ends so soon.
const LONGEST_NUMBER: usize = 20;

impl<'a> Sample<'a> {
    fn parse(line: &'a str) -> Result<Self, Problem> {
        // A name may hold anything, even ` [`: the first place where all that follows fits counts.
        let brackets = line.match_indices(" [").take_while(|&(at, _)| at <= LATEST_BRACKET);
        let mut found = brackets.filter_map(|(at, _)| Self::around(line, at));
        found.next().unwrap_or(Err(Problem::NoLine))
    }

    /// With the bracket around the CPU's number at this byte; none if nothing else fits.
    fn around(line: &'a str, at: usize) -> Option<Result<Self, Problem>> {
        let (before, after) = (line[..at].trim_end(), &line[at + 2..]);
        let (comm, ids) = before.rsplit_once(' ')?;
        // The number of the process comes from the field `pid`, that of the thread from `tid`;
        // perf pads both, so that `18/18` is followed by spaces.
        let (process, tid) = match ids.split_once('/') {
            Some((process, tid)) => (number(process)?, number(tid)?),
            None => (None, number(ids)?),
        };
        let cpu_end = after.bytes().take(LONGEST_NUMBER + 1).position(|byte| byte == b']')?;
        let (cpu, after) = (number(&after[..cpu_end])??, &after[cpu_end + 1..]);
        let after = after.trim_start();
        let time_start = line.len() - after.len();
        let (time_text, after) = after.split_once(':')?;
        let (seconds, fraction) = time_text.split_once('.')?;
        if !matches!(fraction.len(), 6 | 9) || !seconds.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let scale = if fraction.len() == 6 { 1_000 } else { 1 };
        let time_ns = seconds
            .parse::<u64>()
            .ok()?
            .checked_mul(1_000_000_000)?
            .checked_add(fraction.parse::<u64>().ok()? * scale)?;
        let (event, fields) = match after.trim_start().split_once(": ") {
            Some((event, fields)) => (event, fields.trim_start()),
            None => (after.trim().trim_end_matches(':'), ""),
        };
        if time_ns > i64::MAX as u64 {
            return None;
        }
        let ids_start = before.len() - ids.len();
        let (Ok(process), Ok(tid)) = (id(process), id(tid)) else {
            let message = format!("`{ids}`: processes and threads are numbered up to {}", u32::MAX);
            return Some(Err(Problem::Number(ids_start..before.len(), message)));
        };
        let cpu = match usize::try_from(cpu) {
            Ok(cpu) if cpu <= MAX_CPU => cpu,
            _ => {
                let message =
                    format!("CPU {cpu}: a host has at most {}, numbered from 0", MAX_CPU + 1);
                return Some(Err(Problem::Number(at + 2..at + 2 + cpu_end, message)));
            }
        };
        Some(Ok(Sample {
            comm: comm.trim(),
            process,
            tid,
            cpu,
            time_ns,
            time: time_start..time_start + time_text.len(),
            event: event.strip_prefix("sched:").unwrap_or(event),
            fields,
        }))
    }
}

/// A number as it is printed, however large; -1 is that of a process or thread that perf does not know.
fn number(text: &str) -> Option<Option<u64>> {
    if text == "-1" {
        return Some(None);
    }
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| Some(text.parse().unwrap_or(u64::MAX)))
}

fn id(number: Option<u64>) -> Result<Option<u32>, TryFromIntError> {
    number.map(u32::try_from).transpose()
}

/// A thread in an event's fields.
#[derive(Clone, Copy)]
struct Thread<'a> {
    comm: &'a str,
    tid: u32,
    /// As a switch tells it.
    priority: Option<&'a str>,
}

enum Event<'a> {
    Switch { previous: Thread<'a>, runnable: bool, next: Thread<'a> },
    Wake { thread: Thread<'a>, by: By },
    Ran { tid: u32, runtime_ns: u64 },
    Other,
}

/// Who wakes a thread.
#[derive(Clone, Copy)]
enum By {
    /// Who runs there, or an interrupt.
    Running,
    /// Who runs there: it made the thread.
    Parent,
    /// It may be another CPU than that on which it began.
    Unknown,
}

impl<'a> Event<'a> {
    fn parse(name: &str, fields: &'a str) -> Option<Self> {
        match name {
            "sched_switch" => Self::switch(fields),
            // Waking comes first, on the CPU of who wakes; the two others, where they are recorded
            // at all, when the thread is in its queue.
            "sched_waking" => Self::wake(fields, By::Running),
            "sched_wakeup" => Self::wake(fields, By::Unknown),
            "sched_wakeup_new" => Self::wake(fields, By::Parent),
            "sched_stat_runtime" => Self::ran(fields),
            _ => Some(Event::Other),
        }
    }

    fn switch(fields: &'a str) -> Option<Self> {
        let (left, right) = fields.split_once(" ==> ")?;
        let (previous, state, next);
        if left.starts_with("prev_comm=") {
            previous = Thread {
                priority: word_after(left, " prev_prio="),
                ..keyed(left, "prev_comm=", " prev_pid=")?
            };
            state = left.rsplit_once(" prev_state=")?.1;
            next = Thread {
                priority: word_after(right, " next_prio="),
                ..keyed(right, "next_comm=", " next_pid=")?
            };
        } else {
            previous = plain(left)?;
            state = left.rsplit_once("] ")?.1;
            next = plain(right)?;
        }
        let runnable = state.trim().starts_with('R');
        if state.trim().is_empty() {
            return None;
        }
        Some(Event::Switch { previous, runnable, next })
    }

    fn wake(fields: &'a str, by: By) -> Option<Self> {
        let thread = if fields.starts_with("comm=") {
            keyed(fields, "comm=", " pid=")?
        } else {
            plain(fields)?
        };
        // Not needed; but if it is missing the line was cut off.
        let cpu = word_after(fields, " target_cpu=").or_else(|| word_after(fields, " CPU:"))?;
        cpu_number(cpu)?;
        Some(Event::Wake { thread, by })
    }

    fn ran(fields: &'a str) -> Option<Self> {
        let Thread { tid, .. } = keyed(fields, "comm=", " pid=")?;
        Some(Event::Ran { tid, runtime_ns: word_after(fields, " runtime=")?.parse().ok()? })
    }
}

fn cpu_number(text: &str) -> Option<usize> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|&cpu| digits && cpu <= MAX_CPU)
}

/// The word that follows the last occurrence of a key.
fn word_after<'a>(fields: &'a str, key: &str) -> Option<&'a str> {
    fields[fields.rfind(key)? + key.len()..].split_whitespace().next()
}

/// `comm=NAME pid=N ...`
fn keyed<'a>(fields: &'a str, comm_key: &str, tid_key: &str) -> Option<Thread<'a>> {
    let comm = fields.get(comm_key.len()..fields.rfind(tid_key)?)?;
    Some(Thread { comm, tid: word_after(fields, tid_key)?.parse().ok()?, priority: None })
}

/// `NAME:N [PRIO] ...`
fn plain(fields: &str) -> Option<Thread<'_>> {
    let (thread, priority) = fields.rsplit_once(" [")?;
    let (comm, tid) = thread.rsplit_once(':')?;
    let priority = priority.split_once(']').map(|(priority, _)| priority);
    Some(Thread { comm, tid: tid.trim().parse().ok()?, priority })
}
