// SPDX-License-Identifier: GPL-2.0-only
//! Single runs and waits as a recording keeps them (described in `docs/monitor.md`): pCPU by pCPU, since
//! there as a rule a run begins where the one before ended; and a wait with the run that it ended in. So
//! a switch is four numbers, of which two are small.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use steelyard_boundary::input::within_number;
use steelyard_simulator::measure::Segment;
use steelyard_simulator::wait_bucket_ns;

use crate::column::{Column, Numbers};
use crate::snapshot::{OtherRun, Structure};

/// Upper bounds of buckets in ns, ascending, and how many waits fell into each.
pub(crate) type Histogram = Vec<(u64, u64)>;

/// Times are kept as multiples of this, rounded down. The buckets of histograms begin at multiples of
/// it: a wait whose length is rounded is in the same bucket.
pub(crate) const UNIT_NS: u64 = 256;
/// Times wrap in ns, so they do in units.
const MOST_UNITS: u64 = u64::MAX / UNIT_NS;

/// What is said of a wait: nothing, that it began where the vCPU's run before ended, or its length
/// plus this.
const NONE: u64 = 0;
const FROM_LAST_RUN: u64 = 1;
const LENGTH: u64 = 2;

/// Runs and waits alone in a sample at most: as entries, and put in order, they take some 200 MiB.
pub(crate) const MOST_RUNS: usize = 1 << 21;

/// Runs and waits of a sample, in columns.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Runs {
    /// How many there were on each pCPU.
    counts: Column,
    /// Who ran: number of a vCPU, or of a name after those.
    who: Column,
    /// Beginning, since the end of the run before on this pCPU.
    gaps: Column,
    lengths: Column,
    /// The wait from which it began.
    waits: Column,
    /// Waits without such a run: number of the vCPU, end since that of the one before, the wait.
    #[serde(skip_serializing_if = "Column::is_empty")]
    waited: Column,
    /// Those that are new in the member.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    names: Vec<Arc<str>>,
    /// Of each of these, number of the thread, and its priority plus one; 0: not told.
    #[serde(skip_serializing_if = "Column::is_empty")]
    threads: Column,
}

/// Somebody who is no vCPU: name, number, priority.
type Other = (Arc<str>, u32, Option<u32>);

impl Runs {
    pub fn is_empty(&self) -> bool {
        self.who.is_empty() && self.waited.is_empty()
    }
}

/// A run and the wait before it, or a wait alone. Times are in units.
struct Entry<Wait> {
    who: u64,
    /// None of a wait.
    pcpu: Option<u32>,
    start: u64,
    end: u64,
    wait: Wait,
}

impl<Wait> Entry<Wait> {
    /// In order of their ends, for who writes and who reads them; runs come before waits.
    fn sort(entries: &mut [Entry<Wait>]) {
        entries.sort_by_key(|entry| (entry.end, entry.pcpu.is_none(), entry.pcpu));
    }
}

pub(crate) fn units(ns: u64) -> u64 {
    ns / UNIT_NS
}

fn ns(units: u64) -> u64 {
    units.wrapping_mul(UNIT_NS)
}

pub(crate) fn after(units: u64, more: u64) -> u64 {
    units.wrapping_add(more) & MOST_UNITS
}

pub(crate) fn between(from: u64, to: u64) -> u64 {
    to.wrapping_sub(from) & MOST_UNITS
}

/// What the numbers of a member refer to, for who writes and who reads them. Times are in units.
pub(crate) struct Context {
    structure: Arc<Structure>,
    /// Number of the first vCPU of each domain.
    first: Vec<u64>,
    /// Of each vCPU, end of its last run.
    ran_until: Vec<Option<u64>>,
    /// Of each pCPU, end of the last run.
    busy_until: Vec<u64>,
    waited_until: u64,
    /// When somebody was last woken.
    pub(crate) woken_until: u64,
    others: Vec<Other>,
    numbers: HashMap<Other, u64>,
}

impl Context {
    pub fn new(structure: Arc<Structure>) -> Context {
        let mut first = vec![];
        let mut count = 0;
        for domain in &structure.domains {
            first.push(count as u64);
            count += domain.vcpus.len();
        }
        Context {
            first,
            ran_until: vec![None; count],
            busy_until: vec![0; structure.host.pcpus as usize],
            structure,
            waited_until: 0,
            woken_until: 0,
            others: vec![],
            numbers: HashMap::new(),
        }
    }

    pub fn structure(&self) -> &Arc<Structure> {
        &self.structure
    }

    /// Number of its vCPU; none if that, or the pCPU, is not there.
    fn number(&self, segment: &Segment) -> Option<u64> {
        self.vcpu_number(segment.domain, segment.vcpu).filter(|_| self.has(segment.pcpu))
    }

    /// Of a vCPU; none if it is not there.
    pub(crate) fn vcpu_number(&self, domain: u32, vcpu: u32) -> Option<u64> {
        let known = self.structure.domains.get(domain as usize)?.vcpus.len();
        let there = (vcpu as usize) < known;
        there.then(|| self.first[domain as usize] + u64::from(vcpu))
    }

    /// How many there are.
    pub(crate) fn vcpus(&self) -> u64 {
        self.ran_until.len() as u64
    }

    /// Domain and vCPU of a number below that.
    pub(crate) fn vcpu_at(&self, number: u64) -> (u32, u32) {
        // Domains without vCPUs share the number of the next one's first.
        let domain = self.first.partition_point(|&first| first <= number) - 1;
        (domain as u32, (number - self.first[domain]) as u32)
    }

    fn has(&self, pcpu: Option<u32>) -> bool {
        pcpu.is_none_or(|pcpu| (pcpu as usize) < self.busy_until.len())
    }

    /// Segments and runs of vCPUs and pCPUs that are there as numbers, and the waits among them as they
    /// will be read, of each vCPU.
    pub fn pack(&mut self, segments: &[Segment], others: &[OtherRun]) -> (Runs, Vec<Histogram>) {
        let mut entries = vec![];
        let alone = |who, wait: (u64, u64)| {
            let end = units(wait.1);
            Entry { who, pcpu: None, start: end, end, wait: Some(wait) }
        };
        let mut waiting = vec![None; self.ran_until.len()];
        for segment in segments {
            let Some(who) = self.number(segment) else { continue };
            let &Segment { pcpu, start_ns, end_ns, .. } = segment;
            let waiting = &mut waiting[who as usize];
            if pcpu.is_none() {
                entries.extend(waiting.replace((start_ns, end_ns)).map(|wait| alone(who, wait)));
                continue;
            }
            let wait = waiting.take_if(|&mut (_, end_ns)| end_ns == start_ns);
            let (start, end) = (units(start_ns), units(end_ns));
            entries.push(Entry { who, pcpu, start, end, wait });
        }
        let left = (0..).zip(waiting).filter_map(|(who, wait)| Some(alone(who, wait?)));
        entries.extend(left);
        let (mut names, mut threads) = (vec![], Column::default());
        for run in others {
            if !self.has(Some(run.pcpu)) {
                continue;
            }
            let next = (self.ran_until.len() + self.numbers.len()) as u64;
            let other = (run.name.clone(), run.thread, run.priority);
            let who = *self.numbers.entry(other).or_insert_with(|| {
                names.push(run.name.clone());
                threads.push(run.thread.into());
                threads.push(run.priority.map_or(0, |priority| u64::from(priority) + 1));
                next
            });
            let (start, end) = (units(run.start_ns), units(run.end_ns));
            let wait = run.waited.then_some((run.start_ns, run.start_ns));
            entries.push(Entry { who, pcpu: Some(run.pcpu), start, end, wait });
        }
        Entry::sort(&mut entries);

        let mut histograms = vec![vec![]; self.ran_until.len()];
        let vcpus = self.ran_until.len() as u64;
        let mut runs = Runs { names, threads, ..Runs::default() };
        let mut by_pcpu = vec![vec![]; self.busy_until.len()];
        for Entry { who, pcpu, start, end, wait } in entries {
            let wait = match wait {
                None => NONE,
                Some(_) if who >= vcpus => FROM_LAST_RUN,
                Some(wait) => self.told(who, wait),
            };
            // It was made so that there is one.
            let began = if who < vcpus { self.wait_began(who, start, wait) } else { None };
            if let Some(Some(began)) = began {
                count(&mut histograms[who as usize], between(began, start));
            }
            let Some(pcpu) = pcpu else {
                let after = between(self.waited_until, end);
                [who, after, wait].into_iter().for_each(|number| runs.waited.push(number));
                self.waited_until = end;
                continue;
            };
            let gap = between(self.busy_until[pcpu as usize], start);
            by_pcpu[pcpu as usize].push([who, gap, between(start, end), wait]);
            self.ran(who, pcpu, end);
        }
        for numbers in by_pcpu {
            runs.counts.push(numbers.len() as u64);
            for [who, gap, length, wait] in numbers {
                runs.who.push(who);
                runs.gaps.push(gap);
                runs.lengths.push(length);
                runs.waits.push(wait);
            }
        }
        (runs, histograms)
    }

    /// The segments and runs that these numbers are, and the waits among them; none if they are none.
    pub fn unpack(&mut self, runs: Runs) -> Option<(Vec<Segment>, Vec<OtherRun>, Vec<Histogram>)> {
        let mut histograms = vec![vec![]; self.ran_until.len()];
        if runs.is_empty() {
            return Some((vec![], vec![], histograms));
        }
        let mut threads = runs.threads.numbers();
        for name in runs.names {
            // Older recordings have names alone.
            let (thread, priority) = match threads.next() {
                None => (0, None),
                Some(thread) => (u32::try_from(thread?).ok()?, threads.next()??.checked_sub(1)),
            };
            let priority = priority.map(u32::try_from).transpose().ok()?;
            self.others.push((name, thread, priority));
        }
        within_number(self.others.len()).ok()?;
        let mut entries = vec![];
        let columns = [&runs.who, &runs.gaps, &runs.lengths, &runs.waits];
        let mut columns = columns.map(Column::numbers);
        let mut counts = runs.counts.numbers();
        for pcpu in 0..self.busy_until.len() {
            let mut until = self.busy_until[pcpu];
            for _ in 0..counts.next()?? {
                if entries.len() >= MOST_RUNS {
                    return None;
                }
                let [who, gap, length, wait] = row(&mut columns)?;
                let start = after(until, gap);
                until = after(start, length);
                entries.push(Entry { who, pcpu: Some(pcpu as u32), start, end: until, wait });
            }
        }
        let mut waited = runs.waited.numbers();
        while let Some(who) = waited.next() {
            if entries.len() >= MOST_RUNS {
                return None;
            }
            self.waited_until = after(self.waited_until, waited.next()??);
            let (who, end, wait) = (who?, self.waited_until, waited.next()??);
            entries.push(Entry { who, pcpu: None, start: end, end, wait });
        }
        if counts.next().is_some() || columns.iter_mut().any(|column| column.next().is_some()) {
            return None;
        }
        Entry::sort(&mut entries);

        let (mut segments, mut others) = (vec![], vec![]);
        for Entry { who, pcpu, start, end, wait } in entries {
            let vcpus = self.ran_until.len() as u64;
            if let Some(name) = who.checked_sub(vcpus) {
                let other = self.others.get(usize::try_from(name).ok()?)?;
                let (name, thread, priority) = other.clone();
                let (start_ns, end_ns) = (ns(start), ns(end));
                let waited = wait == FROM_LAST_RUN;
                let pcpu = pcpu?;
                others.push(OtherRun { name, thread, priority, waited, pcpu, start_ns, end_ns });
            } else {
                let (domain, vcpu) = self.vcpu_at(who);
                let segment = |pcpu, start, end| Segment {
                    domain,
                    vcpu,
                    pcpu,
                    start_ns: ns(start),
                    end_ns: ns(end),
                };
                if let Some(began) = self.wait_began(who, start, wait)? {
                    count(&mut histograms[who as usize], between(began, start));
                    segments.push(segment(None, began, start));
                }
                segments.extend(pcpu.map(|_| segment(pcpu, start, end)));
            }
            if let Some(pcpu) = pcpu {
                self.ran(who, pcpu, end);
            }
        }
        segments.sort_by_key(|segment| segment.end_ns);
        Some((segments, others, histograms))
    }

    fn ran(&mut self, who: u64, pcpu: u32, until: u64) {
        self.busy_until[pcpu as usize] = until;
        if let Some(ran_until) = self.ran_until.get_mut(who as usize) {
            *ran_until = Some(until);
        }
    }

    /// What is said of a wait, from and to these ns.
    fn told(&self, who: u64, (start_ns, end_ns): (u64, u64)) -> u64 {
        match self.ran_until[who as usize] {
            Some(until) if until == units(start_ns) => FROM_LAST_RUN,
            Some(_) => LENGTH + end_ns.wrapping_sub(start_ns) / UNIT_NS,
            // A run in another member may have ended where it began.
            None => LENGTH + between(units(start_ns), units(end_ns)),
        }
    }

    /// When the wait began of which this is said; none if that cannot be said.
    fn wait_began(&self, who: u64, end: u64, told: u64) -> Option<Option<u64>> {
        Some(match told {
            NONE => None,
            FROM_LAST_RUN => Some((*self.ran_until.get(usize::try_from(who).ok()?)?)?),
            _ => Some(between(told - LENGTH, end)),
        })
    }
}

fn row<const N: usize>(columns: &mut [Numbers<'_>; N]) -> Option<[u64; N]> {
    let mut row = [0; N];
    for (number, column) in row.iter_mut().zip(columns) {
        *number = column.next()??;
    }
    Some(row)
}

/// Counts a wait of so many units.
fn count(histogram: &mut Histogram, length: u64) {
    let bucket_ns = wait_bucket_ns(ns(length));
    match histogram.binary_search_by_key(&bucket_ns, |&(bound_ns, _)| bound_ns) {
        Ok(place) => histogram[place].1 += 1,
        Err(place) => histogram.insert(place, (bucket_ns, 1)),
    }
}
