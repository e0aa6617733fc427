// SPDX-License-Identifier: GPL-2.0-only
//! Between single events and snapshots: a [`History`] is what an importer of events yields, from which
//! come the snapshots that a recording keeps; what lasts at the end of a recording is an [`Open`].

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use steelyard_simulator::measure::Segment;

use crate::events::UNIT_NS;
use crate::snapshot::{Figures, OtherRun, Snapshot, State, Structure};
use crate::tally::Tally;
use crate::threads::{Placement, ThreadEvents, Wake};

/// Who ran and who waited, from a time of 0 to the end. Nobody comes or goes.
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    /// Who is there.
    pub structure: Arc<Structure>,
    /// Runs and waits that ended, in order of their ends.
    pub segments: Vec<Segment>,
    /// Those that last at the end.
    pub open: Vec<Segment>,
    /// Runs of whoever is no vCPU, in order of their ends.
    pub others: Vec<OtherRun>,
    /// Who woke whom, in order.
    pub wakes: Vec<Wake>,
    /// How threads are held all the time, as far as that is told.
    pub placements: Vec<Placement>,
    /// What else than the events told of it, a sentence each.
    pub known: Vec<String>,
    /// The end.
    pub length_ns: u64,
}

/// However long it is, no more snapshots are made of it.
const MOST_SNAPSHOTS: u64 = 100_000;
/// And no more figures in them than so many, or than there are events.
const MOST_FIGURES: u64 = 1 << 22;

/// The least time between snapshots of so many vCPUs and pCPUs over so long a time, so that what they
/// take is in proportion to what they are made of.
pub(crate) fn least_interval_ns(length_ns: u64, width: usize, events: u64) -> u64 {
    let most = events.max(MOST_FIGURES) / (width as u64).max(1);
    (length_ns / most.clamp(1, MOST_SNAPSHOTS)).max(1)
}

impl History {
    /// Looks at it, `interval_ns` apart, the first at the beginning and the last at the end.
    pub fn snapshots(&self, interval_ns: u64) -> impl Iterator<Item = Snapshot> + '_ {
        let domains = self.structure.domains.iter();
        let vcpus: usize = domains.map(|domain| domain.vcpus.len()).sum();
        let width = vcpus + self.structure.host.pcpus as usize;
        let events = self.segments.len() as u64;
        let interval_ns = interval_ns.max(least_interval_ns(self.length_ns, width, events));
        let looks = (0..=self.length_ns / interval_ns).map(move |look| look * interval_ns);
        let last = (!self.length_ns.is_multiple_of(interval_ns)).then_some(self.length_ns);
        let mut player = Player::new(self);
        looks.chain(last).map(move |now_ns| player.look(now_ns))
    }
}

/// Goes through a history.
struct Player<'a> {
    history: &'a History,
    tally: Tally,
    /// Segments and others before this were told.
    segment: usize,
    other: usize,
    wake: usize,
    /// Whether there was a look before.
    looked: bool,
    /// Of each vCPU of each domain, which segments are its own, from the one that has not ended on;
    /// those that last at the end count on after the others.
    lives: Vec<Vec<VecDeque<usize>>>,
    busy_ns: Vec<u64>,
}

impl<'a> Player<'a> {
    fn new(history: &'a History) -> Player<'a> {
        let mut tally = Tally::default();
        tally.set_structure(&history.structure);
        let domains = &history.structure.domains;
        let mut lives: Vec<_> =
            domains.iter().map(|domain| vec![VecDeque::new(); domain.vcpus.len()]).collect();
        let all = history.segments.iter().chain(&history.open);
        for (number, segment) in all.enumerate() {
            let domain = lives.get_mut(segment.domain as usize);
            if let Some(life) = domain.and_then(|domain| domain.get_mut(segment.vcpu as usize)) {
                life.push_back(number);
            }
        }
        Player {
            history,
            tally,
            segment: 0,
            other: 0,
            wake: 0,
            looked: false,
            lives,
            busy_ns: vec![0; history.structure.host.pcpus as usize],
        }
    }

    fn look(&mut self, now_ns: u64) -> Snapshot {
        let History { structure, segments, others, wakes, .. } = self.history;
        let ended = segments[self.segment..].iter().take_while(|segment| segment.end_ns <= now_ns);
        let segments = &segments[self.segment..self.segment + ended.count()];
        self.segment += segments.len();
        let ended = others[self.other..].iter().take_while(|run| run.end_ns <= now_ns);
        let others = &others[self.other..self.other + ended.count()];
        self.other += others.len();
        let wakes = wakes[self.wake..].iter().take_while(|wake| wake.time_ns <= now_ns);
        let wakes: Vec<Wake> = wakes.copied().collect();
        self.wake += wakes.len();
        // In order of their ends, for the tally to know who ran while another waited.
        let mut others_left = others.iter().peekable();
        for segment in segments {
            while let Some(run) = others_left.next_if(|run| run.end_ns <= segment.end_ns) {
                self.tally.add_other(run);
            }
            self.tally.add(segment);
        }
        others_left.for_each(|run| self.tally.add_other(run));

        let mut open = vec![];
        let History { segments: all, open: at_end, .. } = self.history;
        for life in self.lives.iter_mut().flatten() {
            while life.front().is_some_and(|&number| number < self.segment) {
                life.pop_front();
            }
            let Some(&number) = life.front() else { continue };
            let segment = all.get(number).or_else(|| at_end.get(number - all.len()));
            let lasting = segment.filter(|segment| segment.start_ns < now_ns);
            open.extend(lasting.map(|segment| Segment { end_ns: now_ns, ..*segment }));
        }
        let runs = segments.iter().filter_map(|run| Some((run.pcpu?, run.start_ns, run.end_ns)));
        let runs = runs.chain(others.iter().map(|run| (run.pcpu, run.start_ns, run.end_ns)));
        for (pcpu, start_ns, end_ns) in runs {
            if let Some(busy_ns) = self.busy_ns.get_mut(pcpu as usize) {
                *busy_ns = busy_ns.saturating_add(end_ns.saturating_sub(start_ns));
            }
        }
        let mut open_ns = vec![0; self.busy_ns.len()];
        for run in &open {
            if let Some(longest_ns) = run.pcpu.and_then(|pcpu| open_ns.get_mut(pcpu as usize)) {
                *longest_ns = run.end_ns.saturating_sub(run.start_ns).max(*longest_ns);
            }
        }
        let idle = |(busy_ns, open_ns): (&u64, &u64)| {
            now_ns.saturating_sub(*busy_ns).saturating_sub(*open_ns)
        };
        // That does not change.
        let placements = if self.looked { vec![] } else { self.history.placements.clone() };
        self.looked = true;
        Snapshot {
            structure: structure.clone(),
            time_ns: now_ns,
            idle_ns: self.busy_ns.iter().zip(&open_ns).map(idle).collect(),
            vcpus: self.tally.figures(&open),
            segments: segments.to_vec(),
            others: others.to_vec(),
            threads: ThreadEvents { wakes, placements },
            lost: 0,
        }
    }
}

/// Finds out what lasts at the end of a recording: what was gotten and waited, and is in no run or
/// wait that ended, belongs to the one that has not.
#[derive(Default)]
pub struct Open {
    structure: Option<Arc<Structure>>,
    /// By domain and vCPU.
    vcpus: HashMap<(u64, u64), Seen>,
    last: Vec<Figures>,
    now_ns: u64,
}

/// What was seen of a vCPU. Sums are exact, segments rounded: so they are compared from as late a
/// snapshot on as can be, the one before its last segments.
struct Seen {
    from_ns: u64,
    /// At that time: gotten, waited.
    before_ns: (u64, u64),
    /// In segments since.
    since_ns: (u64, u64),
    /// At the last snapshot.
    sums_ns: (u64, u64),
    last_end_ns: u64,
}

impl Open {
    /// The recording goes on by this.
    pub fn add(&mut self, snapshot: &Snapshot) {
        let vcpus = snapshot.structure.domains.iter();
        let ids = vcpus.flat_map(|domain| domain.vcpus.iter().map(|vcpu| (domain.id, vcpu.id)));
        for (id, figures) in ids.clone().zip(&snapshot.vcpus) {
            let sums_ns = (figures.gotten_ns, figures.waited_ns.unwrap_or(0));
            self.vcpus.entry(id).or_insert(Seen {
                from_ns: snapshot.time_ns,
                before_ns: sums_ns,
                since_ns: (0, 0),
                sums_ns,
                last_end_ns: snapshot.time_ns,
            });
        }
        for segment in &snapshot.segments {
            let Some(domain) = snapshot.structure.domains.get(segment.domain as usize) else {
                continue;
            };
            let Some(vcpu) = domain.vcpus.get(segment.vcpu as usize) else { continue };
            let Some(seen) = self.vcpus.get_mut(&(domain.id, vcpu.id)) else { continue };
            if seen.from_ns < self.now_ns {
                seen.from_ns = self.now_ns;
                (seen.before_ns, seen.since_ns) = (seen.sums_ns, (0, 0));
            }
            let length_ns = segment.end_ns.saturating_sub(segment.start_ns.max(seen.from_ns));
            let (gotten_ns, waited_ns) = &mut seen.since_ns;
            let sum_ns = if segment.pcpu.is_some() { gotten_ns } else { waited_ns };
            *sum_ns = sum_ns.wrapping_add(length_ns);
            seen.last_end_ns = segment.end_ns.max(seen.last_end_ns);
        }
        for (id, figures) in ids.zip(&snapshot.vcpus) {
            if let Some(seen) = self.vcpus.get_mut(&id) {
                seen.sums_ns = (figures.gotten_ns, figures.waited_ns.unwrap_or(0));
            }
        }
        self.structure = Some(snapshot.structure.clone());
        self.last.clone_from(&snapshot.vcpus);
        self.now_ns = snapshot.time_ns;
    }

    /// What lasts at the last snapshot, and ends there.
    pub fn segments(&self) -> Vec<Segment> {
        let domains = self.structure.iter().flat_map(|structure| &structure.domains);
        let vcpus = (0..).zip(domains).flat_map(|(index, domain)| {
            (0..).zip(&domain.vcpus).map(move |(vcpu, entry)| (index, vcpu, (domain.id, entry.id)))
        });
        let open = vcpus.zip(&self.last).filter_map(|((domain, vcpu, id), figures)| {
            let seen = self.vcpus.get(&id)?;
            let (pcpu, now_ns, before_ns, since_ns) = match figures.state? {
                State::Running => {
                    let pcpu = Some(figures.pcpu?);
                    (pcpu, figures.gotten_ns, seen.before_ns.0, seen.since_ns.0)
                }
                State::Waiting => (None, figures.waited_ns?, seen.before_ns.1, seen.since_ns.1),
                State::Runnable | State::Blocked => return None,
            };
            let length_ns = now_ns.wrapping_sub(before_ns).wrapping_sub(since_ns);
            // Whatever the figures say, it began after what ended last; or then, but for rounding.
            let longest_ns = self.now_ns.saturating_sub(seen.last_end_ns);
            let length_ns = match length_ns.saturating_add(UNIT_NS) > longest_ns {
                true => longest_ns,
                false => length_ns,
            };
            let start_ns = self.now_ns - length_ns;
            (length_ns > 0).then_some(Segment { domain, vcpu, pcpu, start_ns, end_ns: self.now_ns })
        });
        open.collect()
    }
}
