// SPDX-License-Identifier: GPL-2.0-only
//! Recordings (the format is described in `docs/monitor.md`): gzip members, each a head that says
//! who is there and then samples, a line of JSON each. All that was written up to a sample can be
//! read if the rest is missing, and each member can be read without the others.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::sync::Arc;
use std::{error, fmt};

use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use steelyard_boundary::input::{
    Budget, Input, OverBudget, read_line, within_memory, within_number,
};
use steelyard_simulator::measure::{Segment, WorstWait};
use steelyard_simulator::units::MAX_PCPU;

use crate::column::Column;
use crate::events::{Context, Histogram, MOST_RUNS, Runs};
use crate::snapshot::{Figures, PolicyState, Snapshot, State, Structure, Waits};
use crate::threads::{PlacementSample, ThreadEvents};

const FORMAT: &str = "steelyard-recording";
const VERSION: u32 = 1;
/// Samples in a member at most: what must be read to get at any one of them.
const SAMPLES_PER_MEMBER: usize = 32;
/// And single runs and waits, with the last sample.
const SEGMENTS_PER_MEMBER: usize = 1 << 18;
/// Longer lines are neither written nor read: as values they are some ten times as long.
const LONGEST_LINE: usize = 16 << 20;
/// Buckets that the waits of a vCPU can fall into: there are 3,300 different ones.
const MOST_BUCKETS: usize = 1 << 12;

#[derive(Deserialize)]
struct Format {
    format: String,
    version: u32,
}

#[derive(Serialize, Deserialize)]
struct Head<F, S> {
    format: F,
    version: u32,
    #[serde(flatten)]
    structure: S,
}

/// Differences to the sample before in the same member, or to nothing; times and counts wrap.
#[derive(Serialize, Deserialize)]
struct Sample {
    /// Not a difference.
    time_ns: u64,
    idle_ns: Vec<u64>,
    vcpus: Vec<VcpuSample>,
    #[serde(default, skip_serializing_if = "Runs::is_empty")]
    runs: Runs,
    #[serde(default, skip_serializing_if = "Column::is_empty")]
    wakes: Column,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    placements: Vec<PlacementSample>,
    #[serde(default, skip_serializing_if = "is_zero")]
    lost: u64,
}

/// State and pCPU (no differences), gotten, waited, switches, migrations, preemptions, waits, and what
/// the policy says (no difference).
#[derive(Serialize, Deserialize)]
struct VcpuSample(
    Option<State>,
    Option<u32>,
    u64,
    Option<u64>,
    Option<u64>,
    Option<u64>,
    Option<u64>,
    Option<WaitsSample>,
    Option<PolicyState>,
);

#[derive(Serialize, Deserialize)]
struct WaitsSample {
    /// What is more than the waits in the sample's runs, or less: of each bucket the upper bound, since
    /// that of the bucket before, and how many waits.
    #[serde(default, skip_serializing_if = "Column::is_empty")]
    bounds: Column,
    #[serde(default, skip_serializing_if = "Column::is_empty")]
    counts: Column,
    /// If there is a longer one than before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    worst: Option<WorstWait>,
}

/// Writes a recording. It holds no more in memory than the last snapshot and the compressor.
pub struct Recorder<W> {
    writer: W,
    member: Option<Member>,
}

/// What is being written.
struct Member {
    encoder: GzEncoder<Vec<u8>>,
    context: Context,
    last: Sums,
    samples: usize,
    segments: usize,
}

/// What the next sample differs from.
struct Sums {
    idle_ns: Vec<u64>,
    vcpus: Vec<Figures>,
    lost: u64,
}

impl<W: Write> Recorder<W> {
    /// Begins a recording.
    pub fn new(writer: W) -> Recorder<W> {
        Recorder { writer, member: None }
    }

    /// Adds a snapshot. Once this returns it can be read, whatever becomes of the rest.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn record(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        let mut member = match self.member.take() {
            Some(member) if member.continues(snapshot) => member,
            before => {
                self.end(before)?;
                Member::begin(snapshot)?
            }
        };
        member.add(snapshot)?;
        self.writer.write_all(member.encoder.get_ref())?;
        self.writer.flush()?;
        member.encoder.get_mut().clear();
        self.member = Some(member);
        Ok(())
    }

    /// Where it is written to.
    pub fn writer(&self) -> &W {
        &self.writer
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn finish(mut self) -> io::Result<W> {
        let member = self.member.take();
        self.end(member)?;
        self.writer.flush()?;
        Ok(self.writer)
    }

    fn end(&mut self, member: Option<Member>) -> io::Result<()> {
        match member {
            Some(member) => self.writer.write_all(&member.encoder.finish()?),
            None => Ok(()),
        }
    }
}

impl Member {
    fn begin(snapshot: &Snapshot) -> io::Result<Member> {
        // What the levels give: docs/monitor.md, at its end.
        let mut encoder = GzEncoder::new(vec![], Compression::default());
        let structure = snapshot.structure.as_ref();
        write_line(&mut encoder, &Head { format: FORMAT, version: VERSION, structure })?;
        Ok(Member {
            encoder,
            context: Context::new(snapshot.structure.clone()),
            last: Sums::none(&snapshot.structure),
            samples: 0,
            segments: 0,
        })
    }

    fn continues(&self, snapshot: &Snapshot) -> bool {
        let known = self.context.structure();
        self.samples < SAMPLES_PER_MEMBER
            && self.samples * self.last.vcpus.len() < SEGMENTS_PER_MEMBER
            && self.segments < SEGMENTS_PER_MEMBER
            && (Arc::ptr_eq(known, &snapshot.structure) || *known == snapshot.structure)
    }

    fn add(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        let events = snapshot.segments.len() + snapshot.others.len();
        if events.max(snapshot.threads.wakes.len()) > MOST_RUNS {
            return Err(too_much());
        }
        let sample = Sample::difference(&self.last, &mut self.context, snapshot);
        write_line(&mut self.encoder, &sample)?;
        // All that went in can be unpacked from what came out.
        self.encoder.flush()?;
        self.last.set(snapshot);
        self.samples += 1;
        self.segments += snapshot.segments.len() + snapshot.others.len();
        Ok(())
    }
}

impl Sums {
    fn none(structure: &Structure) -> Sums {
        let vcpus = structure.domains.iter().map(|domain| domain.vcpus.len()).sum();
        let pcpus = structure.host.pcpus as usize;
        Sums { idle_ns: vec![0; pcpus], vcpus: vec![Figures::default(); vcpus], lost: 0 }
    }

    fn set(&mut self, snapshot: &Snapshot) {
        self.idle_ns.clone_from(&snapshot.idle_ns);
        self.vcpus.clone_from(&snapshot.vcpus);
        self.lost = snapshot.lost;
    }
}

fn write_line(writer: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    if line.len() > LONGEST_LINE {
        return Err(too_much());
    }
    writer.write_all(&line)
}

fn too_much() -> io::Error {
    io::Error::other(
        "too much happened in one sample to be read again: record at shorter intervals",
    )
}

impl Sample {
    fn difference(last: &Sums, context: &mut Context, now: &Snapshot) -> Sample {
        let idle = last.idle_ns.iter().zip(&now.idle_ns);
        let (runs, ended) = context.pack(&now.segments, &now.others);
        let vcpus = last.vcpus.iter().zip(&now.vcpus).zip(&ended);
        Sample {
            time_ns: now.time_ns,
            idle_ns: idle.map(|(last, now)| now.wrapping_sub(*last)).collect(),
            vcpus: vcpus
                .map(|((last, now), ended)| VcpuSample::difference(last, now, ended))
                .collect(),
            runs,
            wakes: context.pack_wakes(&now.threads.wakes),
            placements: context.pack_placements(&now.threads.placements),
            lost: now.lost.wrapping_sub(last.lost),
        }
    }

    /// The snapshot that differs from `last` by this; none if it has other pCPUs and vCPUs.
    fn applied_to(self, last: &Sums, context: &mut Context) -> Option<Snapshot> {
        if self.idle_ns.len() != last.idle_ns.len() || self.vcpus.len() != last.vcpus.len() {
            return None;
        }
        let idle = last.idle_ns.iter().zip(&self.idle_ns);
        let (segments, others, ended) = context.unpack(self.runs)?;
        let wakes = context.unpack_wakes(&self.wakes, MOST_RUNS)?;
        let placements = context.unpack_placements(self.placements)?;
        let vcpus = last.vcpus.iter().zip(self.vcpus).zip(&ended);
        Some(Snapshot {
            structure: context.structure().clone(),
            time_ns: self.time_ns,
            idle_ns: idle.map(|(last, more)| last.wrapping_add(*more)).collect(),
            vcpus: vcpus
                .map(|((last, more), ended)| more.applied_to(last, ended))
                .collect::<Option<_>>()?,
            segments,
            others,
            threads: ThreadEvents { wakes, placements },
            lost: last.lost.wrapping_add(self.lost),
        })
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl VcpuSample {
    fn difference(last: &Figures, now: &Figures, ended: &Histogram) -> VcpuSample {
        let optional =
            |last: Option<u64>, now: Option<u64>| Some(now?.wrapping_sub(last.unwrap_or(0)));
        VcpuSample(
            now.state,
            now.pcpu,
            now.gotten_ns.wrapping_sub(last.gotten_ns),
            optional(last.waited_ns, now.waited_ns),
            optional(last.switches, now.switches),
            optional(last.migrations, now.migrations),
            optional(last.preemptions, now.preemptions),
            now.waits.as_ref().map(|now| WaitsSample::difference(last.waits.as_ref(), now, ended)),
            now.policy.clone(),
        )
    }

    fn applied_to(self, last: &Figures, ended: &Histogram) -> Option<Figures> {
        let VcpuSample(
            state,
            pcpu,
            gotten,
            waited,
            switches,
            migrations,
            preemptions,
            waits,
            policy,
        ) = self;
        let optional =
            |last: Option<u64>, more: Option<u64>| Some(last.unwrap_or(0).wrapping_add(more?));
        let waits = match waits {
            None => None,
            Some(waits) => Some(waits.applied_to(last.waits.as_ref(), ended)?),
        };
        Some(Figures {
            state,
            pcpu,
            gotten_ns: last.gotten_ns.wrapping_add(gotten),
            waited_ns: optional(last.waited_ns, waited),
            switches: optional(last.switches, switches),
            migrations: optional(last.migrations, migrations),
            preemptions: optional(last.preemptions, preemptions),
            waits,
            policy,
        })
    }
}

impl WaitsSample {
    fn difference(last: Option<&Waits>, now: &Waits, ended: &Histogram) -> WaitsSample {
        let nothing = Waits::default();
        let last = last.unwrap_or(&nothing);
        let more = merged(&last.histogram, &now.histogram, |last, now| now.wrapping_sub(last));
        let (mut bounds, mut counts) = (Column::default(), Column::default());
        let mut before_ns = 0;
        for (bound_ns, count) in merged(ended, &more, |ended, more| more.wrapping_sub(ended)) {
            bounds.push(bound_ns - before_ns);
            counts.push(count);
            before_ns = bound_ns;
        }
        let worst = now.worst.clone().filter(|worst| last.worst.as_ref() != Some(worst));
        WaitsSample { bounds, counts, worst }
    }

    /// None if there are no numbers in it.
    fn applied_to(self, last: Option<&Waits>, ended: &Histogram) -> Option<Waits> {
        let nothing = Waits::default();
        let last = last.unwrap_or(&nothing);
        let (mut more, mut counts) = (vec![], self.counts.numbers());
        let mut bound_ns = 0_u64;
        for difference_ns in self.bounds.numbers() {
            bound_ns = bound_ns.checked_add(difference_ns?)?;
            more.push((bound_ns, counts.next()??));
            if more.len() > MOST_BUCKETS {
                return None;
            }
        }
        let more = merged(ended, &more, u64::wrapping_add);
        let histogram = merged(&last.histogram, &more, u64::wrapping_add);
        let worst = self.worst.or_else(|| last.worst.clone());
        (histogram.len() <= MOST_BUCKETS).then_some(Waits { histogram, worst })
    }
}

/// Buckets of two histograms, counts combined; buckets without a count are left out.
pub fn merged(
    first: &[(u64, u64)],
    second: &[(u64, u64)],
    combine: impl Fn(u64, u64) -> u64,
) -> Vec<(u64, u64)> {
    let mut all: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for &(bound, count) in first {
        all.entry(bound).or_default().0 = count;
    }
    for &(bound, count) in second {
        all.entry(bound).or_default().1 = count;
    }
    let combined = all.into_iter().map(|(bound, (first, second))| (bound, combine(first, second)));
    combined.filter(|&(_, count)| count > 0).collect()
}

/// Why a file cannot be read as a recording.
#[derive(Debug)]
pub enum RecordingError {
    /// It could not be read.
    Io(io::Error),
    /// It is something else.
    Other,
    /// It is of another version.
    Version(u32),
    /// It was cut off before the first sample.
    Empty,
}

impl fmt::Display for RecordingError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordingError::Io(error) => write!(formatter, "cannot be read: {error}"),
            RecordingError::Other => {
                formatter.write_str("this is no recording that `steelyard record` wrote")
            }
            RecordingError::Version(version) => write!(
                formatter,
                "a recording of version {version}; this Steelyard reads version {VERSION}"
            ),
            RecordingError::Empty => {
                formatter.write_str("the recording ends before its first sample")
            }
        }
    }
}

impl error::Error for RecordingError {}

/// How a recording ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// As its recorder ended it.
    Complete,
    /// Before that: it is still being written, or the recorder was killed.
    CutOff,
    /// In bytes that mean nothing.
    Damaged,
}

impl Ending {
    /// What is wrong with it, in words.
    #[must_use]
    pub fn fault(self) -> Option<&'static str> {
        match self {
            Ending::Complete => None,
            Ending::CutOff => Some("it was cut off"),
            Ending::Damaged => Some("what follows is damaged"),
        }
    }
}

/// Whether a file that begins so is a recording.
pub fn looks_like(head: &[u8]) -> bool {
    let mut line = vec![];
    // Of a file's first bytes the end is missing.
    let _ = GzDecoder::new(head).take(LOOKED_AT).read_to_end(&mut line);
    let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
    // Any JSON may have blanks between its words, and its keys in any order.
    let words: Vec<u8> = line.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let known = format!("\"format\":\"{FORMAT}\"");
    words.windows(known.len()).any(|words| words == known.as_bytes())
}

/// Bytes of the first line that are looked at to recognise a recording.
const LOOKED_AT: u64 = 4096;

/// A recording to be looked at in any order.
pub struct Recording<R> {
    reader: Input<R>,
    /// Offset of each member, and the number of its first snapshot.
    members: Vec<(u64, usize)>,
    length: usize,
    ending: Ending,
    /// The member looked at last: its index, its snapshots.
    loaded: Option<(usize, Vec<Snapshot>)>,
}

impl<R: BufRead + Seek> Recording<R> {
    /// Reads through a recording once, holding none of it.
    ///
    /// # Errors
    /// [`RecordingError`], if there is not a single snapshot in it.
    pub fn new(reader: R) -> Result<Recording<R>, RecordingError> {
        let mut reader = Input::new(reader);
        let (mut members, mut length) = (vec![], 0);
        let mut begun = None;
        // A member is held as a whole when it is looked at.
        let (mut held, mut within) = (0, Ok(()));
        let ending = read_members(&mut reader, Seek::stream_position, |offset, snapshot| {
            if begun != Some(offset) {
                begun = Some(offset);
                held = 0;
                members.push((offset, length));
            }
            length += 1;
            held += snapshot.bytes();
            within = within_memory(held);
            within.is_ok()
        })?;
        within.map_err(|over| RecordingError::Io(over.into()))?;
        Ok(Recording { reader, members, length, ending, loaded: None })
    }

    /// Number of snapshots; at least one.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.length
    }

    /// How it ends.
    pub fn ending(&self) -> Ending {
        self.ending
    }

    /// The snapshot of this number, from 0 on; none if there is none, or it cannot be read any more.
    pub fn snapshot(&mut self, number: usize) -> Option<Snapshot> {
        let index = self.members.partition_point(|&(_, first)| first <= number).checked_sub(1)?;
        let (offset, first) = self.members[index];
        if self.loaded.as_ref().is_none_or(|(loaded, _)| *loaded != index) {
            self.reader.seek(SeekFrom::Start(offset)).ok()?;
            let mut snapshots = vec![];
            // How it ends was found out before.
            let budget = self.reader.budget();
            let _ = read_member(&mut self.reader, &budget, |snapshot| {
                snapshots.push(snapshot);
                true
            });
            self.loaded = Some((index, snapshots));
        }
        let (_, snapshots) = self.loaded.as_ref()?;
        snapshots.get(number - first).cloned()
    }
}

/// Reads a recording from beginning to end, snapshot by snapshot, or until `each` says false.
///
/// # Errors
/// [`RecordingError`], if there is not a single snapshot in it.
pub fn read(
    reader: impl BufRead,
    mut each: impl FnMut(Snapshot) -> bool,
) -> Result<Ending, RecordingError> {
    read_members(&mut Input::new(reader), |_| Ok(0), |_, snapshot| each(snapshot))
}

/// Reads members to the end; each snapshot with where its member begins, as `place` says it.
fn read_members<R: BufRead>(
    reader: &mut Input<R>,
    place: impl Fn(&mut Input<R>) -> io::Result<u64>,
    mut each: impl FnMut(u64, Snapshot) -> bool,
) -> Result<Ending, RecordingError> {
    let budget = reader.budget();
    let mut any = false;
    let ending = loop {
        let offset = place(reader).map_err(RecordingError::Io)?;
        if reader.fill_buf().map_err(RecordingError::Io)?.is_empty() {
            break Ending::Complete;
        }
        let end = read_member(reader, &budget, |snapshot| {
            any = true;
            each(offset, snapshot)
        });
        match end {
            Ok(true) => {}
            Ok(false) => break Ending::Complete,
            Err(Stop::CutOff) => break Ending::CutOff,
            Err(Stop::Damaged) if any => break Ending::Damaged,
            Err(Stop::Damaged) => return Err(RecordingError::Other),
            Err(Stop::Version(version)) => return Err(RecordingError::Version(version)),
            Err(Stop::Io(error)) => return Err(RecordingError::Io(error)),
        }
    };
    if any { Ok(ending) } else { Err(RecordingError::Empty) }
}

/// Why reading stopped within a member.
enum Stop {
    CutOff,
    Damaged,
    Version(u32),
    Io(io::Error),
}

impl From<OverBudget> for Stop {
    fn from(over: OverBudget) -> Stop {
        Stop::Io(over.into())
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        match error.kind() {
            ErrorKind::UnexpectedEof => Stop::CutOff,
            // What the decompressor says of bytes that mean nothing.
            ErrorKind::InvalidInput | ErrorKind::InvalidData => Stop::Damaged,
            _ => Stop::Io(error),
        }
    }
}

/// Reads the member that begins here, and what follows it no further; whether `each` wants more.
fn read_member(
    reader: &mut impl BufRead,
    budget: &Budget,
    mut each: impl FnMut(Snapshot) -> bool,
) -> Result<bool, Stop> {
    let mut lines = BufReader::new(budget.unpacked(GzDecoder::new(reader)));
    let mut line = vec![];
    if !next_line(&mut lines, &mut line)? {
        return Err(Stop::Damaged);
    }
    let head: Head<String, Structure> = serde_json::from_slice(&line).map_err(|_| {
        match serde_json::from_slice::<Format>(&line) {
            Ok(other) if other.format == FORMAT && other.version != VERSION => {
                Stop::Version(other.version)
            }
            _ => Stop::Damaged,
        }
    })?;
    if head.format != FORMAT || !(1..=MAX_PCPU + 1).contains(&head.structure.host.pcpus) {
        return Err(Stop::Damaged);
    }
    if head.version != VERSION {
        return Err(Stop::Version(head.version));
    }
    let mut last = Sums::none(&head.structure);
    within_number(head.structure.domains.len())?;
    within_number(last.vcpus.len())?;
    let mut context = Context::new(Arc::new(head.structure));
    while next_line(&mut lines, &mut line)? {
        let sample: Sample = serde_json::from_slice(&line).map_err(|_| Stop::Damaged)?;
        let snapshot = sample.applied_to(&last, &mut context).ok_or(Stop::Damaged)?;
        // Whoever follows a recording holds the figures of some, and one's runs and waits.
        within_memory(4 * snapshot.bytes() - 3 * size_of_val::<[Segment]>(&snapshot.segments))?;
        last.set(&snapshot);
        if !each(snapshot) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Reads a line; false at the end of the member.
fn next_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> Result<bool, Stop> {
    read_line(reader, LONGEST_LINE as u64, line)?;
    match line.last() {
        Some(b'\n') => Ok(true),
        Some(_) => Err(Stop::Damaged),
        None => Ok(false),
    }
}
