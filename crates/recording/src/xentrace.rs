// SPDX-License-Identifier: GPL-2.0-only
//! What `xentrace` writes, as runs and waits: live from a pipe ([`Xentrace`]) or as a file
//! ([`XentraceFile`]). Layout and numbers: Xen 4.20, `xen/include/public/trace.h` and
//! `tools/xentrace/xentrace.c`; where each record arises, `xen/common/sched/core.c`.
//!
//! Xen notes every change of a vCPU's runstate, with the time stamp counter (TSC) of the pCPU that
//! made it: from running, runnable, blocked or offline to another of them. So a run or a wait lies
//! between two records, and is exact. Of these records alone, xentrace writes 16 bytes for each.
//!
//! Each pCPU has a buffer. xentrace goes through all of them, again and again, and writes what is new
//! in each as a window. A record that is older than the end of one round was in its buffer when the
//! next round began; so at the end of a round all that is not newer than the round before is complete,
//! and can be put in order. If pCPUs' counters disagree, times are kept from going back.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, VecDeque};
use std::io::{self, ErrorKind, Read};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::{error, fmt, mem};

use steelyard_boundary::input::{OverBudget, within_memory, within_number};
use steelyard_simulator::measure::Segment;
use steelyard_simulator::units::MAX_PCPU;

use crate::history::least_interval_ns;
use crate::recording::Ending;
use crate::snapshot::{Domain, Host, Snapshot, Structure, Vcpu};
use crate::tally::Tally;
use crate::threads::ThreadEvents;

/// Who runs on a pCPU that has nothing to do: a vCPU of its own of this domain.
const IDLE_DOMAIN: u32 = 0x7fff;
/// What is wanted of `xentrace -e`: changes of runstates (class TRC_SCHED_MIN).
pub const XENTRACE_RUNSTATES: u32 = 0x0002_1000;

const LOST_RECORDS: u32 = 0x0001_f001;
const CPU_CHANGE: u32 = 0x0001_f003;
/// With old and new runstate in bits 8 and 4.
const RUNSTATE_CHANGE: u32 = 0x0002_1001;
const RUNSTATE_BITS: u32 = 0x0000_0330;
/// Who leaves a pCPU, with the ns that it ran; then who comes.
const SWITCH_FROM: u32 = 0x0002_800e;
const SWITCH_TO: u32 = 0x0002_800f;
/// What Steelyard's scheduler in Xen decides, by the numbers of its records, from 1 on (`xen/decisions.h`).
pub const XEN_DECISIONS: [&str; 19] = [
    "wake",
    "queue",
    "interrupt",
    "choose",
    "steal",
    "move",
    "reset",
    "account",
    "sample",
    "park",
    "unpark",
    "boost",
    "spin",
    "tasklet",
    "miss",
    "later",
    "balance",
    "replace",
    "summon",
];
/// Of its scheduler class, before the first.
const DECISION: u32 = 0x0002_2e00;
/// Runs that are shorter say too little of the frequency, and more of them are not needed.
const SHORTEST_CLOCK_RUN_NS: u64 = 100_000;
const CLOCK_RUNS: usize = 4096;

/// Xen's runstates, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runstate {
    Running,
    Runnable,
    Blocked,
    Offline,
}

impl Runstate {
    /// Of the lowest two bits.
    fn of(bits: u32) -> Runstate {
        match bits & 3 {
            0 => Runstate::Running,
            1 => Runstate::Runnable,
            2 => Runstate::Blocked,
            _ => Runstate::Offline,
        }
    }
}

/// A record as it lies in the file.
#[derive(Debug)]
struct Record {
    pcpu: u32,
    event: u32,
    tsc: Option<u64>,
    count: usize,
    words: [u32; 7],
}

impl Record {
    fn words(&self) -> &[u32] {
        &self.words[..self.count]
    }
}

/// Bytes, as they come, into records.
#[derive(Default)]
struct Decoder {
    bytes: Vec<u8>,
    /// Those that are read.
    at: usize,
    /// All that were read and dropped.
    before: u64,
    pcpu: u32,
    /// Bytes of the window that are left.
    window: u64,
}

impl Decoder {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.at);
        self.before += self.at as u64;
        self.at = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// All that was pushed was read.
    fn is_empty(&self) -> bool {
        self.at == self.bytes.len() && self.window == 0
    }

    /// None: more bytes are needed.
    fn next(&mut self) -> Result<Option<Record>, XentraceError> {
        let rest = &self.bytes[self.at..];
        let Some((header, rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
        let header = u32::from_le_bytes(*header);
        let event = header & 0x0fff_ffff;
        let (count, has_tsc) = ((header >> 28 & 7) as usize, header >> 31 == 1);
        let wrong = || XentraceError::Damaged { offset: self.before + self.at as u64 };
        if (self.window == 0) != (event == CPU_CHANGE && count == 2 && !has_tsc) {
            return Err(wrong());
        }
        let length = if has_tsc { 8 } else { 0 } + 4 * count;
        let Some(rest) = rest.get(..length) else { return Ok(None) };
        let (tsc, rest) = match (has_tsc, rest.split_first_chunk::<8>()) {
            (true, Some((tsc, rest))) => (Some(u64::from_le_bytes(*tsc)), rest),
            _ => (None, rest),
        };
        let mut words = [0; 7];
        for (word, bytes) in words.iter_mut().zip(rest.chunks_exact(4)) {
            *word = bytes.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte));
        }
        if self.window == 0 {
            (self.pcpu, self.window) = (words[0], words[1].into());
            if self.pcpu > MAX_PCPU {
                return Err(wrong());
            }
        } else {
            self.window = self.window.checked_sub(4 + length as u64).ok_or_else(wrong)?;
        }
        self.at += 4 + length;
        Ok(Some(Record { pcpu: self.pcpu, event, tsc, count, words }))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Change {
        domain: u32,
        vcpu: u32,
        from: Runstate,
        to: Runstate,
    },
    /// From here on records are missing, or no longer.
    LossBegins,
    LossEnds,
}

#[derive(Clone, Copy, Debug)]
struct Timed {
    tsc: u64,
    pcpu: u32,
    event: Event,
}

/// What is not yet in order: the earliest is the greatest, and of equals that which came first.
#[derive(Debug)]
struct Unordered(Reverse<(u64, u64)>, Timed);

impl PartialEq for Unordered {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Unordered {}

impl PartialOrd for Unordered {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Unordered {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

fn change(record: &Record) -> Option<Event> {
    match (record.event & !RUNSTATE_BITS, record.words()) {
        (RUNSTATE_CHANGE, &[who]) => Some(Event::Change {
            domain: who >> 16,
            vcpu: who & 0xffff,
            from: Runstate::of(record.event >> 8),
            to: Runstate::of(record.event >> 4),
        }),
        _ => None,
    }
}

/// What `xentrace` writes, as it comes, into runs and waits. In its [`Segment`]s domains and vCPUs are
/// those of Xen's numbers, and times are those of the TSC.
pub struct Xentrace {
    decoder: Decoder,
    tsc_hz: NonZeroU64,
    lost: u64,
    /// The window before this one was of this pCPU.
    last_pcpu: Option<u32>,
    /// The latest time in the round before, and in this one.
    latest: (u64, u64),
    unordered: BinaryHeap<Unordered>,
    /// How many events came so far.
    count: u64,
    /// In order, not yet looked at.
    ordered: VecDeque<Timed>,
    /// Of the last event that was looked at.
    now_tsc: u64,
    /// pCPUs whose records are missing.
    losing: u32,
    /// Each vCPU: since when it is in which state, and where it was then.
    vcpus: BTreeMap<(u32, u32), (u64, u32, Runstate)>,
    /// See [`Xentrace::set_parked`].
    parked: BTreeSet<u32>,
}

impl Xentrace {
    /// For a TSC of this frequency.
    pub fn new(tsc_hz: NonZeroU64) -> Xentrace {
        Xentrace {
            decoder: Decoder::default(),
            tsc_hz,
            lost: 0,
            last_pcpu: None,
            latest: (0, 0),
            unordered: BinaryHeap::new(),
            count: 0,
            ordered: VecDeque::new(),
            now_tsc: 0,
            losing: 0,
            vcpus: BTreeMap::new(),
            parked: BTreeSet::new(),
        }
    }

    /// Domains whose vCPUs are kept off by a cap when they are offline, from now on: they wait. Credit pauses them then
    /// (`csched_acct()`), and the trace has no other word for that than for a domain that is paused. One that stays offline
    /// is not told of, as it may have been unplugged.
    pub fn set_parked(&mut self, domains: BTreeSet<u32>) {
        self.parked = domains;
    }

    /// More bytes.
    ///
    /// # Errors
    /// [`XentraceError::Damaged`]: nothing that follows can be read.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), XentraceError> {
        self.decoder.push(bytes);
        while let Some(record) = self.decoder.next()? {
            let event = match (record.event, record.tsc) {
                (CPU_CHANGE, _) => {
                    if self.last_pcpu >= Some(record.pcpu) {
                        self.end_round();
                    }
                    self.last_pcpu = Some(record.pcpu);
                    continue;
                }
                (LOST_RECORDS, Some(_)) => {
                    // How many, a vCPU of no interest, the TSC of the first.
                    let &[count, _, low, high] = record.words() else { continue };
                    self.lost += u64::from(count);
                    let first_tsc = u64::from(high) << 32 | u64::from(low);
                    let tsc = record.tsc.map_or(first_tsc, |tsc| tsc.min(first_tsc));
                    let (pcpu, event) = (record.pcpu, Event::LossBegins);
                    self.add(Timed { tsc, pcpu, event });
                    Event::LossEnds
                }
                _ => match change(&record) {
                    Some(event) => event,
                    None => continue,
                },
            };
            let Some(tsc) = record.tsc else { continue };
            self.latest.1 = self.latest.1.max(tsc);
            self.add(Timed { tsc, pcpu: record.pcpu, event });
        }
        Ok(within_memory(self.unordered.len() * size_of::<Unordered>())?)
    }

    fn add(&mut self, timed: Timed) {
        self.unordered.push(Unordered(Reverse((timed.tsc, self.count)), timed));
        self.count += 1;
    }

    /// A round is over: `xentrace` has written nothing for a while.
    pub fn settle(&mut self) {
        if self.decoder.is_empty() && self.last_pcpu.take().is_some() {
            self.end_round();
        }
    }

    fn end_round(&mut self) {
        let complete = self.latest.0;
        self.order(complete);
        self.latest = (self.latest.1, 0);
    }

    /// Puts in order what is not later than this.
    fn order(&mut self, until_tsc: u64) {
        while self.unordered.peek().is_some_and(|first| first.1.tsc <= until_tsc) {
            self.ordered.extend(self.unordered.pop().map(|first| first.1));
        }
    }

    /// There are no more bytes.
    pub fn end(&mut self) {
        self.order(u64::MAX);
    }

    /// The time of the next event; none: more bytes are needed to know.
    pub fn next_ns(&self) -> Option<u64> {
        self.ordered.front().map(|timed| self.ns(timed.tsc.max(self.now_tsc)))
    }

    /// Runs and waits that ended up to this time, in order of their ends.
    pub fn ended(&mut self, until_ns: u64) -> Vec<Segment> {
        let mut segments = vec![];
        while self.next_ns().is_some_and(|next_ns| next_ns <= until_ns) {
            let Some(timed) = self.ordered.pop_front() else { break };
            self.now_tsc = self.now_tsc.max(timed.tsc);
            segments.extend(self.apply(timed));
        }
        segments
    }

    /// What lasts, as if it ended at this time, which is not before [`Xentrace::now_ns`].
    pub fn lasting(&self, now_ns: u64) -> impl Iterator<Item = Segment> + '_ {
        self.vcpus.iter().filter_map(move |(&who, &(since_tsc, pcpu, state))| {
            self.segment(who, state, pcpu, self.ns(since_tsc), now_ns)
        })
    }

    /// Up to when all is known.
    pub fn now_ns(&self) -> u64 {
        self.ns(self.now_tsc)
    }

    /// The latest time of all records, of those too that are not yet in order.
    pub fn latest_ns(&self) -> u64 {
        self.ns(self.latest.0.max(self.latest.1))
    }

    /// How many records Xen had no room for.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    fn apply(&mut self, timed: Timed) -> Option<Segment> {
        let Timed { pcpu, event, .. } = timed;
        let (domain, vcpu, from, to) = match event {
            Event::LossBegins => {
                self.losing += 1;
                self.vcpus.clear();
                return None;
            }
            Event::LossEnds => {
                self.losing = self.losing.saturating_sub(1);
                return None;
            }
            Event::Change { domain, vcpu, from, to } => (domain, vcpu, from, to),
        };
        if self.losing > 0 {
            return None;
        }
        let before = self.vcpus.insert((domain, vcpu), (self.now_tsc, pcpu, to));
        let (since_tsc, where_it_began, state) = before?;
        // Otherwise there was a change that is not in the trace.
        if state != from {
            return None;
        }
        let state = match state {
            Runstate::Offline if self.parked.contains(&domain) => Runstate::Runnable,
            other => other,
        };
        let (start_ns, end_ns) = (self.ns(since_tsc), self.ns(self.now_tsc));
        self.segment((domain, vcpu), state, where_it_began, start_ns, end_ns)
    }

    fn segment(
        &self,
        (domain, vcpu): (u32, u32),
        state: Runstate,
        pcpu: u32,
        start_ns: u64,
        end_ns: u64,
    ) -> Option<Segment> {
        let pcpu = match state {
            Runstate::Running => Some(pcpu),
            Runstate::Runnable => None,
            Runstate::Blocked | Runstate::Offline => return None,
        };
        Some(Segment { domain, vcpu, pcpu, start_ns, end_ns: end_ns.max(start_ns) })
    }

    fn ns(&self, tsc: u64) -> u64 {
        ns(tsc, self.tsc_hz)
    }
}

fn ns(tsc: u64, tsc_hz: NonZeroU64) -> u64 {
    let ns = u128::from(tsc) * 1_000_000_000 / u128::from(tsc_hz.get());
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// What a file of `xentrace` holds.
pub struct XentraceSurvey {
    /// Frequency of the TSC, by runs whose length in ns the file tells: it does if it was recorded with
    /// `-e 0x29000`, which has switches too.
    pub tsc_hz: Option<NonZeroU64>,
    /// How it ends.
    pub ending: Ending,
    /// How many records Xen had no room for.
    pub lost: u64,
    /// How often Steelyard's scheduler decided what, as [`XEN_DECISIONS`].
    pub decisions: [u64; XEN_DECISIONS.len()],
    first_tsc: u64,
    last_tsc: u64,
    vcpus: BTreeMap<u32, BTreeSet<u32>>,
    /// Of all domains.
    vcpu_count: usize,
    pcpus: u32,
    changes: u64,
}

impl XentraceSurvey {
    /// Reads all of it.
    ///
    /// # Errors
    /// [`XentraceError`]; not for what follows after something that can be read.
    pub fn new(mut file: impl Read) -> Result<XentraceSurvey, XentraceError> {
        let mut survey = XentraceSurvey {
            tsc_hz: None,
            ending: Ending::Complete,
            lost: 0,
            decisions: [0; XEN_DECISIONS.len()],
            first_tsc: u64::MAX,
            last_tsc: 0,
            vcpus: BTreeMap::new(),
            vcpu_count: 0,
            pcpus: 0,
            changes: 0,
        };
        let mut decoder = Decoder::default();
        let mut clock = Clock::default();
        let mut buffer = vec![0; CHUNK];
        loop {
            let length = read(&mut file, &mut buffer)?;
            if length == 0 {
                break;
            }
            decoder.push(&buffer[..length]);
            loop {
                match decoder.next() {
                    Ok(Some(record)) => survey.add(&record, &mut clock),
                    Ok(None) => break,
                    Err(error) if survey.pcpus == 0 => return Err(error),
                    Err(_) => {
                        survey.ending = Ending::Damaged;
                        survey.tsc_hz = clock.tsc_hz();
                        return Ok(survey);
                    }
                }
                within_number(survey.vcpu_count)?;
            }
        }
        if survey.pcpus == 0 {
            return Err(XentraceError::Damaged { offset: 0 });
        }
        if !decoder.is_empty() {
            survey.ending = Ending::CutOff;
        }
        survey.tsc_hz = clock.tsc_hz();
        Ok(survey)
    }

    fn add(&mut self, record: &Record, clock: &mut Clock) {
        self.pcpus = self.pcpus.max(record.pcpu + 1);
        let Some(tsc) = record.tsc else { return };
        clock.add(record, tsc);
        match change(record) {
            Some(Event::Change { domain, vcpu, .. }) => {
                self.first_tsc = self.first_tsc.min(tsc);
                self.last_tsc = self.last_tsc.max(tsc);
                self.changes += 1;
                if domain != IDLE_DOMAIN {
                    let new = self.vcpus.entry(domain).or_default().insert(vcpu);
                    self.vcpu_count += usize::from(new);
                }
            }
            _ if record.event == LOST_RECORDS => {
                self.lost += record.words().first().copied().map_or(0, u64::from);
            }
            _ => {
                let number = record.event.wrapping_sub(DECISION + 1) as usize;
                if let Some(count) = self.decisions.get_mut(number) {
                    *count += 1;
                }
            }
        }
    }

    /// How often Steelyard's scheduler decided what, in words; none if it is not in the trace.
    pub fn decided(&self) -> Option<String> {
        let counts = XEN_DECISIONS.iter().zip(self.decisions).filter(|&(_, count)| count > 0);
        let words: Vec<_> = counts.map(|(name, count)| format!("{count} {name}")).collect();
        (!words.is_empty()).then(|| format!("Decisions of Steelyard in Xen: {}.", words.join(", ")))
    }

    fn structure(&self, name: &str) -> Structure {
        let domain = |(&id, vcpus): (&u32, &BTreeSet<u32>)| Domain {
            id: id.into(),
            name: format!("domain {id}"),
            weight: 256,
            ungrouped: false,
            groups_around: None,
            cap_percent: 0,
            vcpus: vcpus
                .iter()
                .map(|&id| Vcpu { id: id.into(), name: format!("vCPU {id}") })
                .collect(),
        };
        let mut unseen =
            vec!["Names, weights and caps of domains: weights of 256 are shown.".to_owned()];
        if self.lost > 0 {
            unseen.push(format!("{} records, for which Xen had no room.", self.lost));
        }
        Structure {
            host: Host {
                name: name.to_owned(),
                source: "xentrace".to_owned(),
                pcpus: self.pcpus,
                began_unix_ns: None,
                unseen,
            },
            domains: self.vcpus.iter().map(domain).collect(),
        }
    }
}

/// Runs that are told in ns and, from one switch of a pCPU to the next, in ticks of the TSC.
#[derive(Default)]
struct Clock {
    /// The last switch of each pCPU: when, and to whom.
    switches: HashMap<u32, (u64, Option<u32>)>,
    runs: Vec<(u64, u64)>,
}

impl Clock {
    fn add(&mut self, record: &Record, tsc: u64) {
        let Some(&domain) = record.words().first() else { return };
        match record.event {
            SWITCH_FROM => {
                let ns = record.words().last().copied().map_or(0, u64::from);
                let last = self.switches.insert(record.pcpu, (tsc, None));
                let came = last.filter(|&(came, to)| to == Some(domain) && came < tsc);
                if let Some((came, _)) = came
                    && ns >= SHORTEST_CLOCK_RUN_NS
                    && self.runs.len() < CLOCK_RUNS
                {
                    self.runs.push((tsc - came, ns));
                }
            }
            // Its own time is a little later than that of who left.
            SWITCH_TO => {
                if let Some((_, to)) = self.switches.get_mut(&record.pcpu) {
                    *to = Some(domain);
                }
            }
            _ => {}
        }
    }

    /// Of runs beyond 2^32 ns Xen tells the lower bits only: those far from the median are left out.
    fn tsc_hz(mut self) -> Option<NonZeroU64> {
        let hz = |(ticks, ns): (u64, u64)| u128::from(ticks) * 1_000_000_000 / u128::from(ns);
        self.runs.sort_by_key(|&run| hz(run));
        let median = hz(*self.runs.get(self.runs.len() / 2)?);
        let near = self.runs.iter().filter(|&&run| hz(run).abs_diff(median) <= median / 100);
        let (ticks, ns) = near.fold((0, 0), |(ticks, ns), &(more_ticks, more_ns)| {
            (ticks + u128::from(more_ticks), ns + u128::from(more_ns))
        });
        let hz = ticks.checked_mul(1_000_000_000)?.checked_div(ns)?;
        NonZeroU64::new(u64::try_from(hz).ok()?)
    }
}

const CHUNK: usize = 1 << 16;

/// A file of `xentrace` as snapshots.
pub struct XentraceFile<R> {
    file: R,
    buffer: Vec<u8>,
    xentrace: Xentrace,
    tally: Tally,
    structure: Arc<Structure>,
    first_ns: u64,
    interval_ns: u64,
    /// Time of the next snapshot.
    due_ns: u64,
    idle_ns: Vec<u64>,
    segments: Vec<Segment>,
    ended: bool,
}

impl<R: Read> XentraceFile<R> {
    /// Snapshots every so often of a file that was surveyed, read from its beginning. `name` is that of
    /// the host.
    pub fn new(
        file: R,
        survey: &XentraceSurvey,
        tsc_hz: NonZeroU64,
        name: &str,
        interval_ns: u64,
    ) -> XentraceFile<R> {
        let structure = Arc::new(survey.structure(name));
        let mut tally = Tally::default();
        tally.set_structure(&structure);
        let length_ns = ns(survey.last_tsc.saturating_sub(survey.first_tsc), tsc_hz);
        let width = survey.vcpu_count + survey.pcpus as usize;
        let interval_ns = interval_ns.max(least_interval_ns(length_ns, width, survey.changes));
        XentraceFile {
            file,
            buffer: vec![0; CHUNK],
            xentrace: Xentrace::new(tsc_hz),
            tally,
            first_ns: ns(survey.first_tsc, tsc_hz),
            interval_ns,
            due_ns: 0,
            idle_ns: vec![0; survey.pcpus as usize],
            structure,
            segments: vec![],
            ended: false,
        }
    }

    /// As [`Xentrace::set_parked`], for all of the file.
    pub fn set_parked(&mut self, domains: BTreeSet<u32>) {
        self.xentrace.set_parked(domains);
    }

    /// The next snapshot; none at the end.
    ///
    /// # Errors
    /// The file cannot be read. Damage is where it ends.
    pub fn snapshot(&mut self) -> Result<Option<Snapshot>, XentraceError> {
        loop {
            match self.xentrace.next_ns().map(|next_ns| next_ns.saturating_sub(self.first_ns)) {
                Some(next_ns) if next_ns < self.due_ns => self.advance(next_ns),
                Some(next_ns) => {
                    let snapshot = self.snapshot_at(self.due_ns);
                    // Where nothing happens there are none.
                    let idle = next_ns.saturating_sub(self.due_ns) / self.interval_ns;
                    let step_ns = idle.max(1).saturating_mul(self.interval_ns);
                    self.due_ns = self.due_ns.saturating_add(step_ns);
                    if self.due_ns == u64::MAX {
                        self.advance(u64::MAX);
                    }
                    return Ok(Some(snapshot));
                }
                None if !self.ended => self.read_on()?,
                None => {
                    let end_ns = self.xentrace.now_ns().saturating_sub(self.first_ns);
                    let last = (mem::replace(&mut self.due_ns, u64::MAX) < u64::MAX)
                        .then(|| self.snapshot_at(end_ns));
                    return Ok(last);
                }
            }
        }
    }

    fn read_on(&mut self) -> Result<(), XentraceError> {
        let length = read(&mut self.file, &mut self.buffer)?;
        let damaged = match self.xentrace.push(&self.buffer[..length]) {
            Err(XentraceError::Damaged { .. }) => true,
            other => other.map(|()| false)?,
        };
        if length == 0 || damaged {
            self.xentrace.end();
            self.ended = true;
        }
        Ok(())
    }

    fn advance(&mut self, until_ns: u64) {
        for segment in self.xentrace.ended(self.first_ns.saturating_add(until_ns)) {
            if segment.domain == IDLE_DOMAIN {
                if let Some(pcpu) = segment.pcpu
                    && let Some(idle_ns) = self.idle_ns.get_mut(pcpu as usize)
                {
                    *idle_ns = idle_ns.saturating_add(segment.end_ns - segment.start_ns);
                }
            } else if let Some(segment) = placed(&self.structure, segment, self.first_ns) {
                self.tally.add(&segment);
                self.segments.push(segment);
            }
        }
    }

    fn snapshot_at(&mut self, time_ns: u64) -> Snapshot {
        let mut idle_ns = self.idle_ns.clone();
        let mut open = vec![];
        for segment in self.xentrace.lasting(self.first_ns.saturating_add(time_ns)) {
            if segment.domain != IDLE_DOMAIN {
                open.extend(placed(&self.structure, segment, self.first_ns));
            } else if let Some(idle_ns) = segment.pcpu.and_then(|it| idle_ns.get_mut(it as usize)) {
                *idle_ns = idle_ns.saturating_add(segment.end_ns - segment.start_ns);
            }
        }
        Snapshot {
            structure: self.structure.clone(),
            time_ns,
            idle_ns,
            vcpus: self.tally.figures(&open),
            segments: mem::take(&mut self.segments),
            others: vec![],
            threads: ThreadEvents::default(),
            lost: self.xentrace.lost(),
        }
    }
}

/// With domain and vCPU as indices, and times since the first. None if it is nobody's. The structure is
/// in the order of ids.
pub fn placed(structure: &Structure, segment: Segment, first_ns: u64) -> Option<Segment> {
    let (domain_id, vcpu_id) = (u64::from(segment.domain), u64::from(segment.vcpu));
    let domain = structure.domains.binary_search_by_key(&domain_id, |domain| domain.id).ok()?;
    let vcpus = &structure.domains[domain].vcpus;
    let vcpu = vcpus.binary_search_by_key(&vcpu_id, |vcpu| vcpu.id).ok()?;
    Some(Segment {
        domain: domain as u32,
        vcpu: vcpu as u32,
        pcpu: segment.pcpu,
        start_ns: segment.start_ns.saturating_sub(first_ns),
        end_ns: segment.end_ns.saturating_sub(first_ns),
    })
}

fn read(file: &mut impl Read, buffer: &mut [u8]) -> Result<usize, XentraceError> {
    loop {
        match file.read(buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => return done.map_err(XentraceError::Unreadable),
        }
    }
}

/// Why this is no trace.
#[derive(Debug)]
pub enum XentraceError {
    /// It cannot be read.
    Unreadable(io::Error),
    /// From here on it is not what `xentrace` writes.
    Damaged {
        /// Bytes from its beginning.
        offset: u64,
    },
}

impl From<OverBudget> for XentraceError {
    fn from(over: OverBudget) -> XentraceError {
        XentraceError::Unreadable(over.into())
    }
}

impl fmt::Display for XentraceError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            XentraceError::Unreadable(error) => write!(formatter, "cannot be read: {error}"),
            XentraceError::Damaged { offset } => {
                write!(formatter, "not what xentrace writes, from byte {offset} on")
            }
        }
    }
}

impl error::Error for XentraceError {}

/// Whether a file that begins with these bytes is one of `xentrace`.
pub fn is_xentrace(beginning: &[u8]) -> bool {
    beginning.starts_with(&(CPU_CHANGE | 2 << 28).to_le_bytes())
}
