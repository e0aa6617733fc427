// SPDX-License-Identifier: GPL-2.0-only
//! Single runs and waits of a Linux host, from a BPF program in its kernel. Where there is none, because
//! this was built without or the kernel or its administrator do not want it, its place says why.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use steelyard_kvm::{
    Counted, Doing, Observer, Standings, ThreadFigures, ThreadGroup, ThreadPlacement, Told, Woken,
    loaded, now_ns,
};
use steelyard_recording::weight::Scale;
use steelyard_recording::{
    Figures, Group, OtherRun, Placement, PolicyState, Snapshot, State, Structure, Tally, Wake, Who,
};
use steelyard_simulator::measure::Segment;

use crate::metrics::Counter;

/// Single runs and waits that are kept for one snapshot, of 32 bytes each.
const MOST_KEPT: usize = 1 << 18;
/// Threads of which it is kept how they are held.
const MOST_HELD: usize = 1 << 16;
/// Levels of control groups, as in bpf/observer.h.
const GROUP_LEVELS: usize = 8;
/// Names of threads that are kept.
const MOST_NAMES: usize = 1 << 12;
/// Nobody fetches more often: the kernel has room for longer than that.
const FETCH_EVERY_NS: u64 = 200_000_000;

/// What the kernel tells.
pub(crate) struct Observed {
    observer: Observer,
    /// Of a policy of this project's, while one schedules this host.
    standings: Option<Standings>,
    /// On the monotonic clock: when the source began.
    began_ns: u64,
    fetched_ns: u64,
    tells_others: bool,
    /// Whether a snapshot has single runs and waits, or their sums only.
    keeps: bool,
    threads: HashMap<i32, ThreadFigures>,
    /// Of each thread that is a vCPU.
    places: HashMap<i32, Place>,
    structure: Option<Arc<Structure>>,
    tally: Tally,
    names: HashMap<[u8; 16], Arc<str>>,
    /// Threads that are no vCPUs and could run on when they ran last.
    going_on: HashSet<i32>,
    told: Vec<Told>,
    woken: Vec<Woken>,
    segments: Vec<Segment>,
    others: Vec<OtherRun>,
    /// How each thread is held, as last seen, and of whom a snapshot has not told that yet.
    held: HashMap<i32, Held>,
    untold: BTreeSet<i32>,
    /// Those that were read, and numbers for them.
    groups: HashMap<u64, ThreadGroup>,
    group_numbers: HashMap<u64, u64>,
    dropped: u64,
}

/// Its priority, group and CPUs.
type Held = (u32, ThreadPlacement);

struct Place {
    domain: u32,
    vcpu: u32,
    /// End of what was told of it last.
    told_until_ns: u64,
}

impl Observed {
    /// Of a source that began then. What is said if it cannot be: what to do about it.
    pub fn attach(began: Instant) -> Result<Observed, String> {
        let observer = Observer::attach_telling().map_err(|error| match error {
            steelyard_kvm::KvmError::NoPrivilege => {
                "run as root, or with CAP_BPF and CAP_PERFMON".to_owned()
            }
            steelyard_kvm::KvmError::NoBtf => "the kernel has no BTF".to_owned(),
            other => other.to_string(),
        })?;
        Ok(Observed {
            observer,
            standings: None,
            began_ns: now_ns().saturating_sub(began.elapsed().as_nanos() as u64),
            fetched_ns: 0,
            tells_others: false,
            keeps: true,
            threads: HashMap::new(),
            places: HashMap::new(),
            structure: None,
            tally: Tally::default(),
            names: HashMap::new(),
            going_on: HashSet::new(),
            told: vec![],
            woken: vec![],
            segments: vec![],
            others: vec![],
            held: HashMap::new(),
            untold: BTreeSet::new(),
            groups: HashMap::new(),
            group_numbers: HashMap::new(),
            dropped: 0,
        })
    }

    /// All runs of who is no vCPU are wanted, too, not only those where one waits.
    pub fn tell_others(&mut self) {
        self.tells_others = true;
        self.observer.tell_others();
    }

    pub fn set_keeps(&mut self, keeps: bool) {
        self.keeps = keeps;
    }

    /// Somebody came.
    pub fn find(&mut self) {
        // Who is not found now is found by what happens to it.
        let _ = self.observer.find();
    }

    /// Looks at all threads.
    pub fn look(&mut self, time_ns: u64) {
        self.observer.threads(self.began_ns + time_ns, &mut self.threads);
    }

    /// What this thread got, but for its single waits; none if the kernel does not know it.
    pub fn figures(&self, tid: u64) -> Option<Figures> {
        let thread = self.threads.get(&i32::try_from(tid).ok()?)?;
        let state = match thread.doing {
            Doing::Running => State::Running,
            Doing::Waiting => State::Waiting,
            Doing::Blocked => State::Blocked,
        };
        Some(Figures {
            state: Some(state),
            pcpu: thread.pcpu,
            gotten_ns: thread.gotten_ns,
            waited_ns: Some(thread.waited_ns),
            switches: Some(thread.switches),
            migrations: Some(thread.migrations),
            preemptions: Some(thread.preemptions),
            ..Figures::default()
        })
    }

    /// Completes a snapshot by what is known of single runs and waits.
    pub fn complete(&mut self, snapshot: &mut Snapshot) {
        self.set_structure(&snapshot.structure);
        self.fetch(snapshot.time_ns);
        snapshot.segments = std::mem::take(&mut self.segments);
        snapshot.others = std::mem::take(&mut self.others);
        let open = self.open(snapshot.time_ns);
        for (figures, of_tally) in snapshot.vcpus.iter_mut().zip(self.tally.figures(&open)) {
            if figures.migrations.is_some() {
                figures.waits = of_tally.waits;
            }
        }
        self.add_standings(snapshot);
        if self.keeps && self.tells_others {
            snapshot.threads.wakes = self.wakes(snapshot.time_ns);
            snapshot.threads.placements = self.placements(snapshot);
        }
    }

    /// Who was woken up to this time.
    fn wakes(&mut self, time_ns: u64) -> Vec<Wake> {
        let mut woken = std::mem::take(&mut self.woken);
        woken.sort_by_key(|one| one.time_ns);
        let before = woken.partition_point(|one| self.since_began(one.time_ns) <= time_ns);
        let wake = |one: Woken| Wake {
            time_ns: self.since_began(one.time_ns),
            waker: one.waker.map(|waker| self.who(waker)),
            woken: self.who(one.tid),
        };
        let wakes = woken.drain(..before).map(wake).collect();
        self.woken = woken;
        wakes
    }

    fn who(&self, tid: i32) -> Who {
        match self.places.get(&tid) {
            Some(place) => Who::Vcpu(place.domain, place.vcpu),
            None => Who::Other(tid as u32),
        }
    }

    /// How threads are held that are held otherwise than was told.
    fn placements(&mut self, snapshot: &Snapshot) -> Vec<Placement> {
        let vcpus = self.places.keys().filter_map(|tid| {
            let thread = self.threads.get(tid)?;
            // Who has not run yet has told nothing.
            (thread.switches > 0).then_some((*tid, (thread.priority, thread.placement)))
        });
        for (tid, held) in vcpus.collect::<Vec<_>>() {
            self.holds(tid, held);
        }
        let untold = std::mem::take(&mut self.untold);
        let known = |tid| self.held.get(tid).and_then(|(_, placement)| placement.group);
        if untold.iter().filter_map(known).any(|group| !self.groups.contains_key(&group)) {
            self.find();
            self.groups.extend(self.observer.groups());
        }
        let pcpus = snapshot.structure.host.pcpus;
        let placements = untold.into_iter().filter_map(|tid| {
            let &(priority, ThreadPlacement { group, allowed }) = self.held.get(&tid)?;
            let groups = group.map_or(vec![], |group| self.groups_from(group));
            let everywhere = u64::MAX >> (64 - pcpus.clamp(1, 64));
            // More pCPUs than that are not told of.
            let allowed =
                allowed.filter(|allowed| pcpus <= 64 && allowed & everywhere != everywhere);
            let pcpus = allowed.map(|set| (0..64).filter(|pcpu| set >> pcpu & 1 != 0).collect());
            Some(Placement { who: self.who(tid), priority: Some(priority), groups, pcpus })
        });
        placements.collect()
    }

    /// A thread is held so.
    fn holds(&mut self, tid: i32, mut held: Held) {
        // Who ends is moved to the root (sched_autogroup_exit_task() of the kernel).
        if let (None, Some((_, known))) = (held.1.group, self.held.get(&tid)) {
            held.1.group = known.group;
        }
        if self.held.len() >= MOST_HELD {
            // They are told of again.
            self.held.clear();
        }
        if self.held.insert(tid, held) != Some(held) {
            self.untold.insert(tid);
        }
    }

    /// This group and those around it.
    fn groups_from(&mut self, innermost: u64) -> Vec<Group> {
        let mut groups = vec![];
        let mut next = Some(innermost);
        while let Some(name) = next
            && groups.len() < GROUP_LEVELS
        {
            let number = self.group_numbers.len() as u64 + 1;
            let id = *self.group_numbers.entry(name).or_insert(number);
            // One that is gone before it was looked at had the usual weight, as likely as not.
            let usual = ThreadGroup { parent: None, shares: Scale::Shares.figures().0 };
            let group = *self.groups.entry(name).or_insert(usual);
            let weight = Scale::Shares.weight(group.shares) as u32;
            groups.push(Group { id, weight });
            next = group.parent;
        }
        groups
    }

    /// Runs and waits that last at this time.
    fn open(&self, time_ns: u64) -> Vec<Segment> {
        let open = |tid: &i32, start_ns, pcpu| {
            let place = self.places.get(tid)?;
            let start_ns = self.since_began(start_ns);
            // Of threads more is known than at that time.
            (place.told_until_ns <= start_ns && start_ns <= time_ns).then_some(Segment {
                domain: place.domain,
                vcpu: place.vcpu,
                pcpu,
                start_ns,
                end_ns: time_ns,
            })
        };
        let lasting = self.threads.iter().filter_map(|(tid, thread)| match thread.doing {
            Doing::Running => open(tid, thread.since_ns, Some(thread.pcpu?)),
            Doing::Waiting => open(tid, thread.since_ns, None),
            Doing::Blocked => None,
        });
        // Those that have ended since the time.
        let ended = self.told.iter().filter(|one| one.other.is_none());
        let ended = ended.filter_map(|one| open(&one.tid, one.start_ns, one.pcpu));
        let mut segments: Vec<Segment> = ended.chain(lasting).collect();
        segments.sort_by_key(|segment| (segment.domain, segment.vcpu));
        segments.dedup_by_key(|segment| (segment.domain, segment.vcpu));
        segments
    }

    /// What the policy says, if one of this project's schedules this host.
    fn add_standings(&mut self, snapshot: &mut Snapshot) {
        let Some(by_thread) = self.standings.as_ref().and_then(Standings::now) else { return };
        let vcpus = snapshot.structure.domains.iter().flat_map(|domain| &domain.vcpus);
        for (vcpu, figures) in vcpus.zip(&mut snapshot.vcpus) {
            let standing = i32::try_from(vcpu.id).ok().and_then(|tid| by_thread.get(&tid));
            figures.policy = standing.copied().map(PolicyState::from);
        }
    }

    /// What schedules this host instead of Linux's own scheduler, from now on: the policy, if it is one of this project's and
    /// can be read, else its name.
    pub fn instead(&mut self) -> Option<String> {
        if !self.standings.as_ref().is_some_and(Standings::is_current) {
            self.standings = Standings::find();
        }
        self.standings.as_ref().map(Standings::policy).or_else(loaded)
    }

    /// To be called now and then if there is no look for long: the kernel has no room for more than a
    /// second or so of a busy host.
    pub fn attend(&mut self) {
        if now_ns().saturating_sub(self.fetched_ns) >= FETCH_EVERY_NS {
            self.fetch(u64::MAX);
        }
    }

    /// Single runs and waits that are missing, so far.
    /// What that policy's scheduler has decided.
    pub fn counters(&self) -> Vec<Counter> {
        let counted = self.standings.as_ref().map_or(vec![], Standings::counted);
        let counter =
            |it: Counted| Counter { name: it.kind.name, help: it.kind.help, of_pcpus: it.of_cpus };
        counted.into_iter().map(counter).collect()
    }

    pub fn lost(&self) -> u64 {
        let (lost, unwatched) = self.observer.lost();
        lost + unwatched + self.dropped
    }

    fn since_began(&self, ns: u64) -> u64 {
        ns.saturating_sub(self.began_ns)
    }

    fn set_structure(&mut self, structure: &Arc<Structure>) {
        if self.structure.as_ref().is_some_and(|known| Arc::ptr_eq(known, structure)) {
            return;
        }
        self.tally.set_structure(structure);
        let before = std::mem::take(&mut self.places);
        for (domain, of_domain) in structure.domains.iter().enumerate() {
            for (vcpu, of_vcpu) in of_domain.vcpus.iter().enumerate() {
                let Ok(tid) = i32::try_from(of_vcpu.id) else { continue };
                let told_until_ns = before.get(&tid).map_or(0, |place| place.told_until_ns);
                let (domain, vcpu) = (domain as u32, vcpu as u32);
                self.places.insert(tid, Place { domain, vcpu, told_until_ns });
            }
        }
        // What was fetched since the last snapshot has the order of the structure before.
        let known = self.structure.replace(structure.clone());
        self.segments.retain_mut(|segment| {
            let place = known.as_ref().and_then(|known| {
                let domain = known.domains.get(segment.domain as usize)?;
                let vcpu = domain.vcpus.get(segment.vcpu as usize)?;
                self.places.get(&i32::try_from(vcpu.id).ok()?)
            });
            if let Some(place) = place {
                (segment.domain, segment.vcpu) = (place.domain, place.vcpu);
            }
            place.is_some()
        });
    }

    /// Adds up what was told, up to a time since the source began.
    fn fetch(&mut self, until_ns: u64) {
        self.fetched_ns = now_ns();
        let mut told = std::mem::take(&mut self.told);
        self.observer.fetch(&mut told, &mut self.woken);
        if self.woken.len() > MOST_KEPT {
            self.dropped += self.woken.len() as u64;
            self.woken.clear();
        }
        told.sort_by_key(|one| one.end_ns);
        let ended = told.partition_point(|one| self.since_began(one.end_ns) <= until_ns);
        for one in told.drain(..ended) {
            self.add(&one);
        }
        self.told = told;
    }

    fn add(&mut self, one: &Told) {
        let (start_ns, end_ns) = (self.since_began(one.start_ns), self.since_began(one.end_ns));
        let has_room = self.segments.len() + self.others.len() < MOST_KEPT;
        if let (Some(other), Some(pcpu)) = (&one.other, one.pcpu) {
            let name = self.name(&other.name);
            if self.tells_others {
                self.holds(one.tid, (other.priority, other.placement));
            }
            // Until it ran last it could have gone on: since then it waited.
            let waited = match other.goes_on {
                true => !self.going_on.insert(one.tid),
                false => self.going_on.remove(&one.tid),
            };
            let (thread, priority) = (one.tid as u32, Some(other.priority));
            let run = OtherRun { name, thread, priority, waited, pcpu, start_ns, end_ns };
            self.tally.add_other(&run);
            if self.keeps && has_room {
                self.others.push(run);
            }
        } else {
            // Of who is no vCPU any more, or was not found yet, nothing is known.
            let Some(place) = self.places.get_mut(&one.tid) else { return };
            place.told_until_ns = end_ns;
            let Place { domain, vcpu, .. } = *place;
            let segment = Segment { domain, vcpu, pcpu: one.pcpu, start_ns, end_ns };
            self.tally.add(&segment);
            if self.keeps && has_room {
                self.segments.push(segment);
            }
        }
        self.dropped += u64::from(self.keeps && !has_room);
    }

    fn name(&mut self, bytes: &[u8; 16]) -> Arc<str> {
        if let Some(name) = self.names.get(bytes) {
            return name.clone();
        }
        if self.names.len() == MOST_NAMES {
            self.names.clear();
        }
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        let name: Arc<str> = String::from_utf8_lossy(&bytes[..end]).into();
        self.names.insert(*bytes, name.clone());
        name
    }
}
