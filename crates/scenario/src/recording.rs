// SPDX-License-Identifier: GPL-2.0-only
//! What is made of a recording, whoever recorded it: from who ran and who waited, what each vCPU (of
//! perf: each thread) got, and the load that it was, which is replayed.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::iter::Peekable;
use std::slice;
use std::sync::Arc;

use steelyard_boundary::input::{OverBudget, within_memory, within_number};
use steelyard_policy::Policy;
use steelyard_recording::groups::{Groups, Member};
use steelyard_recording::{
    Figures, Group, History, Open, OtherRun, Owners, Placement, Snapshot, Structure, Tally,
    ThreadEvents, Wake, Who, merged,
};
use steelyard_simulator::config::{Domain, HostTasks, Setup};
use steelyard_simulator::measure::{
    DomainMeasure, PcpuMeasure, Run, SchedulingEvents, Segment, TimeMeasure, VcpuMeasure, Waits,
    WorstWait,
};
use steelyard_simulator::units::CpuSet;
use steelyard_simulator::workload::{Burst, RecordedThread, ReplayThread, Workload};
use steelyard_simulator::{Usable, entitle};

use crate::causes::{Causes, GoneOn, Load};
use crate::priority;
use crate::rest::{self, OtherThread, Rest, rest_of_the_host};

/// A whole recording.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    /// From beginning to end.
    pub elapsed_ns: u64,
    /// By number.
    pub pcpus: Vec<PcpuMeasure>,
    /// Domains, or processes, by number.
    pub processes: BTreeMap<u32, Process>,
    /// Control groups around several of them, an outer one before those in it.
    pub groups: Vec<AroundSeveral>,
    /// Events that say nothing about scheduling or were not needed.
    pub skipped: u64,
    /// What recorded it.
    pub source: String,
    /// What a description of the recorded host says, a sentence each.
    pub known: Vec<String>,
    /// What it does not say, and what is taken instead, a sentence each.
    pub assumed: Vec<String>,
    scheduling_events: SchedulingEvents,
}

/// A control group of the recorded host in which several domains were.
#[derive(Debug, PartialEq)]
pub(crate) struct AroundSeveral {
    pub id: u64,
    /// 256 being the usual one.
    pub weight: u32,
    /// The one around it, by its id.
    pub around: Option<u64>,
}

/// A domain, or a process and those of its threads that ran.
#[derive(Debug)]
pub(crate) struct Process {
    /// Unlike that of any other.
    pub name: String,
    /// Weight, 256 being the usual one.
    pub weight: u32,
    /// Whether each vCPU has that for itself.
    pub ungrouped: bool,
    /// The groups around it, the innermost first.
    pub around: Vec<Group>,
    /// What they are, if no virtual machine.
    pub tasks: Option<HostTasks>,
    /// In percent of one pCPU; 0: none.
    pub cap_percent: u32,
    /// Where each vCPU may run; none: anywhere.
    pub pins: Vec<Option<CpuSet>>,
    /// What each vCPU got.
    pub times: Vec<TimeMeasure>,
    /// What each did.
    pub replay: Vec<Arc<ReplayThread>>,
    /// How many, the first ones, are vCPUs of a virtual machine.
    pub vcpus: usize,
}

impl Process {
    /// The innermost group around it that is around others, too.
    pub fn group<'a>(&self, groups: &'a [AroundSeveral]) -> Option<&'a AroundSeveral> {
        self.around.iter().find_map(|group| groups.iter().find(|several| several.id == group.id))
    }

    /// CPU time of all.
    pub fn gotten_ns(&self) -> u64 {
        self.times.iter().fold(0, |sum: u64, time| sum.saturating_add(time.gotten_ns))
    }
}

impl Recording {
    /// What single events say. `is_vcpu` knows the threads of vCPUs by their names.
    pub fn of_history(
        history: &History,
        is_vcpu: impl Fn(&str) -> bool,
        skipped: u64,
    ) -> Result<Recording, OverBudget> {
        let mut digest = Digest::default();
        digest.set_structure(&history.structure)?;
        digest.place(history.placements.clone());
        digest.add(&history.segments, &history.others, &history.wakes);
        digest.within_budget()?;
        let mut recording = digest.finish(&history.open, 0, history.length_ns, is_vcpu);
        recording.skipped = skipped;
        recording.known.clone_from(&history.known);
        Ok(recording)
    }

    /// The policy that is nearest to what scheduled the recorded host, and whether that is no more than likely.
    pub fn own_scheduler(&self) -> Option<(Policy, bool)> {
        let (name, assumed) = match self.source.split_once(' ') {
            Some(("simulation", of)) => (of.strip_prefix("of ")?, false),
            // Of perf and Perfetto as the description of the host tells.
            Some(("Linux" | "perf" | "Perfetto", _)) => match linux(&self.source)? {
                (_, Some(policy)) => (policy, false),
                (release, None) => return Some((of_linux(release)?, false)),
            },
            Some(("xentrace", of)) => {
                let (release, scheduler) = of.strip_prefix("of Xen ")?.rsplit_once(' ')?;
                let policy = match (scheduler, version(release) >= (4, 12)) {
                    ("credit2", true) => "credit2@xen-4.20",
                    ("credit2", false) => "credit2@xen-4.5",
                    ("credit", true) => "credit@xen-4.20",
                    ("credit", false) => "credit@xen-4.5",
                    // Another one of Xen's, or this project's, which says its policy.
                    (scheduler, _) => scheduler,
                };
                (policy, false)
            }
            // It says which policy of this project's it runs, and no other scheduler's name.
            Some(("Xen", release)) => match release.split_once(", ") {
                Some((_, policy)) => (policy, false),
                // 4.12 made Credit2 the usual one.
                None if version(release) >= (4, 12) => ("credit2@xen-4.20", true),
                None => ("credit@xen-4.5", true),
            },
            _ => match self.source.as_str() {
                "perf" | "Perfetto" => ("fair@eevdf", true),
                "xentrace" => ("credit2@xen-4.20", true),
                _ => return None,
            },
        };
        Some((Policy::named(name).ok()?, assumed))
    }

    /// The recorded host's figures for the domains that replay this recording; none if none does.
    pub fn measure(&self, setup: &Setup) -> Option<Run> {
        let replayed = |domain: &Domain| {
            domain.task.iter().find_map(|task| match &task.workload {
                Workload::Replay(replay) => self.processes.get(&replay.process),
                _ => None,
            })
        };
        // Who is not in the scenario appears under its own name.
        let mut names = HashMap::new();
        for domain in &setup.domains {
            if let Some(process) = replayed(domain) {
                names.entry(process.name.as_str()).or_insert(domain.name.as_str());
            }
        }
        let (mut domains, mut usable) = (vec![], vec![]);
        for domain in &setup.domains {
            let Some(process) = replayed(domain) else { continue };
            domains.push(self.measure_domain(domain, process, &names));
            let percent = 100.0 * f64::from(domain.vcpus);
            usable.push(Usable { percent, ungrouped: domain.ungrouped, ..Usable::default() });
        }
        if domains.is_empty() {
            return None;
        }
        let fairness = entitle(&mut domains, &usable, self.pcpus.len() as u32);
        Some(Run {
            policy: "recorded".to_owned(),
            seed: 0,
            elapsed_ns: self.elapsed_ns,
            scheduling_events: self.scheduling_events,
            guest_steps: 0,
            fairness,
            pcpus: self.pcpus.clone(),
            domains,
        })
    }

    fn measure_domain(
        &self,
        domain: &Domain,
        process: &Process,
        names: &HashMap<&str, &str>,
    ) -> DomainMeasure {
        let mut total = TimeMeasure::default();
        let mut vcpus = vec![];
        for time in process.times.iter().take(domain.vcpus as usize) {
            let mut time = time.clone();
            for ran in time.waits.worst.iter_mut().flat_map(|worst| &mut worst.ran) {
                if let Some(&name) = names.get(ran.domain.as_str()) {
                    name.clone_into(&mut ran.domain);
                }
            }
            rest::add(&mut total, &time);
            vcpus.push(VcpuMeasure { time });
        }
        DomainMeasure {
            name: domain.name.clone(),
            weight: domain.weight,
            cap_percent: domain.cap_percent,
            share_percent: 100.0 * total.gotten_ns as f64 / self.elapsed_ns.max(1) as f64,
            entitlement_percent: 0.0,
            time: total,
            vcpus,
            tasks: vec![],
            unhonoured: vec![],
        }
    }
}

/// Of a source that names them: Linux's release, and what scheduled in the place of its own scheduler, a policy of this
/// project's or another one's name.
fn linux(source: &str) -> Option<(&str, Option<&str>)> {
    let ("" | "perf of " | "Perfetto of ", of) = source.split_once("Linux ")? else { return None };
    Some(of.split_once(", ").map_or((of, None), |(release, instead)| (release, Some(instead))))
}

/// The release, if its own scheduler was at work.
fn linux_release(source: &str) -> Option<&str> {
    linux(source).and_then(|(release, instead)| instead.is_none().then_some(release))
}

/// Whether another one was.
pub(crate) fn is_replaced(source: &str) -> bool {
    matches!(linux(source), Some((_, Some(_))))
}

/// 6.6 replaced CFS by EEVDF. Of that as much as `fair` knows: groups, balance, their fault, and the timer that ends slices.
fn of_linux(release: &str) -> Option<Policy> {
    if version(release) < (6, 6) {
        return Policy::named("fair@cfs").ok();
    }
    let mut policy = Policy::named("fair@eevdf").ok()?;
    policy.set("groups", "entities").ok()?;
    policy.set("balance_load", "averaged").ok()?;
    if favours_groups(release) {
        policy.set("reweigh", "inflated").ok()?;
    }
    if ends_slices_by_timer(release) {
        policy.set("hrtick", "on").ok()?;
    }
    Some(policy)
}

/// Whether it may have the fault that 6d71a9c61604 brought and 101f3498b4bd took back (docs/what-if.md): 6.18.44 has it,
/// 7.2.13 has not, and those between were not looked at.
fn favours_groups(release: &str) -> bool {
    ((6, 13)..(7, 2)).contains(&version(release))
}

/// Whether HRTICK is on, as it is by default where CONFIG_HRTIMER_REARM_DEFERRED is: 7.2 on x86; 6.12 has it off, and those
/// between were not looked at.
fn ends_slices_by_timer(release: &str) -> bool {
    version(release) >= (7, 2)
}

/// "6.18.44-cloud": (6, 18).
fn version(release: &str) -> (u32, u32) {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut number = || numbers.next().and_then(|number| number.parse().ok()).unwrap_or(0);
    (number(), number())
}

/// What `steelyard record` wrote, as it is read.
#[derive(Default)]
pub(crate) struct Snapshots {
    digest: Digest,
    open: Open,
    /// Time and idle times of the first and the last.
    first: Option<(u64, Vec<u64>)>,
    last: Option<(u64, Vec<u64>)>,
    seen: bool,
}

impl Snapshots {
    /// The next one.
    pub fn add(&mut self, snapshot: Snapshot) -> Result<(), OverBudget> {
        self.digest.set_structure(&snapshot.structure)?;
        self.digest.tell(&snapshot);
        self.open.add(&snapshot);
        self.seen |= snapshot.vcpus.iter().any(|figures| figures.waits.is_some());
        let Snapshot { time_ns, idle_ns, mut segments, mut others, threads, .. } = snapshot;
        let &mut (start_ns, _) = self.first.get_or_insert_with(|| (time_ns, idle_ns.clone()));
        // Of what began before, what belongs to the recording.
        segments.retain(|segment| segment.end_ns > start_ns);
        for segment in &mut segments {
            segment.start_ns = segment.start_ns.max(start_ns);
        }
        others.retain(|run| run.end_ns > start_ns);
        for run in &mut others {
            run.start_ns = run.start_ns.max(start_ns);
        }
        let ThreadEvents { mut wakes, placements } = threads;
        wakes.retain(|wake| wake.time_ns >= start_ns);
        self.digest.place(placements);
        self.digest.add(&segments, &others, &wakes);
        self.last = Some((time_ns, idle_ns));
        self.digest.within_budget()
    }

    /// The recording; none if it holds no single runs and waits, or no time passes.
    pub fn finish(self) -> Option<Recording> {
        let ((start_ns, idle_before), (end_ns, idle_now)) = (self.first?, self.last?);
        if !self.seen || end_ns <= start_ns {
            return None;
        }
        let open = self.open.segments();
        let mut recording = self.digest.finish(&open, start_ns, end_ns, |_| true);
        let idle = idle_before.iter().zip(&idle_now);
        for (pcpu, (before, now)) in recording.pcpus.iter_mut().zip(idle) {
            pcpu.idle_ns = now.saturating_sub(*before).min(end_ns - start_ns);
        }
        Some(recording)
    }
}

/// Who was first called so, by index, and whether that was changed since another was too.
struct Named(usize, bool);

/// Adds up a recording as it is read. Domains that went stay.
#[derive(Default)]
struct Digest {
    /// As it is now.
    now: Option<Arc<Structure>>,
    /// Everybody that there was.
    all: Structure,
    /// Index of a domain among all, by id; number of a vCPU in its domain, by both ids.
    domains: HashMap<u64, usize>,
    vcpus: HashMap<(u64, u64), u32>,
    names: HashMap<String, Named>,
    /// The place among all of each vCPU of each domain as it is now.
    places: Vec<Vec<(u32, u32)>>,
    tally: Tally,
    /// By domain and vCPU, what was told of it at first and at last, if it was: single runs and waits of a
    /// recording are rounded, its figures are not.
    told: HashMap<(u64, u64), [Figures; 2]>,
    told_buckets: usize,
    loads: Vec<Vec<Load>>,
    /// Threads that are no vCPUs, by number (where there is none, by pCPU and name).
    others: BTreeMap<(u32, Arc<str>), OtherThread>,
    /// Their runs and waits, each of them as a domain.
    others_tally: Tally,
    causes: Causes,
    /// How threads are held, as told last: vCPUs by their places among all.
    placements: HashMap<Who, Arc<Placement>>,
    /// How many loads there are, and bursts of all of them.
    load_count: u32,
    bursts: usize,
    /// Of each pCPU: time in which somebody ran, and switches.
    pcpus: Vec<(u64, u64)>,
}

impl Digest {
    /// Takes time for who is there, not for who was.
    fn set_structure(&mut self, structure: &Arc<Structure>) -> Result<(), OverBudget> {
        let known = self.now.replace(structure.clone());
        if known.is_some_and(|known| Arc::ptr_eq(&known, structure) || known == *structure) {
            return Ok(());
        }
        self.all.host = structure.host.clone();
        self.tally.set_pcpus(structure.host.pcpus);
        self.others_tally.set_pcpus(structure.host.pcpus);
        self.pcpus.resize(structure.host.pcpus as usize, (0, 0));
        self.places.clear();
        for domain in &structure.domains {
            let index = self.domain(domain);
            let all = &mut self.all.domains[index];
            all.weight = domain.weight;
            all.ungrouped = domain.ungrouped;
            all.cap_percent = domain.cap_percent;
            let mut name: Option<Arc<str>> = None;
            let mut places = vec![];
            for vcpu in &domain.vcpus {
                let number = match self.vcpus.entry((domain.id, vcpu.id)) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(new) => {
                        let name = name.get_or_insert_with(|| all.name.as_str().into());
                        self.tally.join(index, domain.id, name);
                        self.loads[index].push(Load::numbered(self.load_count));
                        self.load_count += 1;
                        all.vcpus.push(vcpu.clone());
                        *new.insert(all.vcpus.len() as u32 - 1)
                    }
                };
                places.push((index as u32, number));
            }
            self.places.push(places);
        }
        within_number(self.all.domains.len())?;
        within_number(self.vcpus.len())
    }

    /// Its index among all, where no two are called the same.
    fn domain(&mut self, domain: &steelyard_recording::Domain) -> usize {
        let index = self.all.domains.len();
        match self.domains.entry(domain.id) {
            Entry::Occupied(known) => return *known.get(),
            Entry::Vacant(new) => new.insert(index),
        };
        self.loads.push(vec![]);
        let mut new = steelyard_recording::Domain { vcpus: vec![], ..domain.clone() };
        match self.names.get(&domain.name) {
            None => {}
            Some(&Named(other, renamed)) => {
                if !renamed {
                    self.names.insert(domain.name.clone(), Named(other, true));
                    let other_domain = &self.all.domains[other];
                    let name = self.free_name(&other_domain.name, other_domain.id);
                    self.tally.rename(other, &name.as_str().into());
                    self.names.insert(name.clone(), Named(other, false));
                    self.all.domains[other].name = name;
                }
                new.name = self.free_name(&domain.name, domain.id);
            }
        }
        self.names.insert(new.name.clone(), Named(index, false));
        self.all.domains.push(new);
        index
    }

    /// A name with the domain's number that no other has.
    fn free_name(&self, name: &str, id: u64) -> String {
        let mut free = format!("{name}-{id}");
        while self.names.contains_key(&free) {
            free = format!("{free}-{id}");
        }
        free
    }

    /// Whether what is known so far may be held.
    fn within_budget(&self) -> Result<(), OverBudget> {
        let buckets = self.told_buckets + self.tally.buckets() + self.others_tally.buckets();
        let other = 2 * size_of::<((u32, Arc<str>), OtherThread)>() + size_of::<Figures>() * 2;
        let placements = 2 * self.placements.len() * size_of::<(Who, Placement)>();
        let threads = self.others.len() * other + placements + self.causes.bytes();
        let bursts = self.bursts * size_of::<Burst>();
        within_memory(bursts + threads + buckets * size_of::<(u64, u64)>())?;
        within_number(self.placements.len())?;
        within_number(self.others.len())
    }

    fn tell(&mut self, snapshot: &Snapshot) {
        let domains = snapshot.structure.domains.iter();
        let ids = domains.flat_map(|domain| domain.vcpus.iter().map(|vcpu| (domain.id, vcpu.id)));
        for (id, figures) in ids.zip(&snapshot.vcpus) {
            // Whatever there was at the beginning of the source's time began with it.
            let first = || if snapshot.time_ns == 0 { Figures::default() } else { figures.clone() };
            let buckets = |told: &[Figures; 2]| -> usize {
                let waits = told.iter().filter_map(|figures| figures.waits.as_ref());
                waits.map(|waits| waits.histogram.len()).sum()
            };
            let (before, told) = match self.told.entry(id) {
                Entry::Vacant(new) => (0, new.insert([first(), figures.clone()])),
                Entry::Occupied(known) => {
                    let told = known.into_mut();
                    let before = buckets(told);
                    told[1].clone_from(figures);
                    (before, told)
                }
            };
            self.told_buckets += buckets(told);
            self.told_buckets -= before;
        }
    }

    /// Both in order of their ends, with the wakes up to then.
    fn add(&mut self, segments: &[Segment], others: &[OtherRun], wakes: &[Wake]) {
        let mut others = others.iter().peekable();
        let mut wakes = wakes.iter().peekable();
        for segment in segments {
            while let Some(run) = others.next_if(|run| run.end_ns <= segment.end_ns) {
                self.wake_until(&mut wakes, run.end_ns);
                self.add_other(run);
            }
            self.wake_until(&mut wakes, segment.end_ns);
            let Some(segment) = self.placed(segment) else { continue };
            self.tally.add(&segment);
            self.load(&segment);
        }
        for run in others {
            self.wake_until(&mut wakes, run.end_ns);
            self.add_other(run);
        }
        self.wake_until(&mut wakes, u64::MAX);
    }

    fn wake_until(&mut self, wakes: &mut Peekable<slice::Iter<'_, Wake>>, time_ns: u64) {
        while let Some(wake) = wakes.next_if(|wake| wake.time_ns <= time_ns) {
            let waker = wake.waker.and_then(|waker| self.who(waker));
            if let Some(woken) = self.who(wake.woken) {
                self.causes.wake(wake.time_ns, waker, woken);
            }
        }
    }

    /// A thread as it is known among all.
    fn who(&self, who: Who) -> Option<Who> {
        let Who::Vcpu(domain, vcpu) = who else { return Some(who) };
        let &(domain, vcpu) = self.places.get(domain as usize)?.get(vcpu as usize)?;
        Some(Who::Vcpu(domain, vcpu))
    }

    /// Threads are held so from now on.
    fn place(&mut self, placements: Vec<Placement>) {
        for mut placement in placements {
            let Some(who) = self.who(placement.who) else { continue };
            // Who ends is moved to the root (sched_autogroup_exit_task() of the kernel).
            if let (true, Some(known)) = (placement.groups.is_empty(), self.placements.get(&who)) {
                placement.groups.clone_from(&known.groups);
            }
            self.placements.insert(who, placement.into());
        }
    }

    fn add_other(&mut self, run: &OtherRun) {
        self.tally.add_other(run);
        self.ran(run.pcpu, run.end_ns.saturating_sub(run.start_ns));
        let number = if run.thread == 0 { run.pcpu } else { run.thread };
        let (next, load_count) = (self.others.len() as u32, &mut self.load_count);
        let tally = &mut self.others_tally;
        // Who calls another program has another name, and is the same.
        let name = if run.thread == 0 { run.name.clone() } else { Arc::from("") };
        let other = self.others.entry((number, name)).or_insert_with(|| {
            tally.join(next as usize, next.into(), &run.name);
            let load = Load::numbered(*load_count);
            *load_count += 1;
            OtherThread { name: run.name.clone(), index: next, load, ..OtherThread::default() }
        });
        other.priority = run.priority.or(other.priority);
        other.name.clone_from(&run.name);
        other.partial = run.thread == 0;
        other.runs += 1;
        other.gotten_ns = other.gotten_ns.saturating_add(run.end_ns.saturating_sub(run.start_ns));
        let who = Who::Other(number);
        other.placement = self.placements.get(&who).cloned().or(other.placement.take());
        let bursts = other.load.replay.bursts.len();
        // Since it was thrown out, or woken.
        let woken_ns = self.causes.woken_ns(who, &other.load, run.start_ns);
        let runnable_ns = if run.waited { other.load.until_ns } else { woken_ns };
        // Recordings that tell how threads are held tell of all their runs.
        other.waits_told |= woken_ns.is_some() || (run.waited && other.placement.is_some());
        let waited = runnable_ns
            .filter(|&since_ns| since_ns < run.start_ns)
            .map(|since_ns| (None, since_ns, run.start_ns));
        let ran = Some((Some(run.pcpu), run.start_ns, run.end_ns));
        for (pcpu, start_ns, end_ns) in [waited, ran].into_iter().flatten() {
            let segment = Segment { domain: other.index, vcpu: 0, pcpu, start_ns, end_ns };
            tally.add(&segment);
            self.causes.add(who, &mut other.load, &segment);
        }
        self.bursts += other.load.replay.bursts.len() - bursts;
    }

    fn ran(&mut self, pcpu: u32, ran_ns: u64) {
        if let Some((busy_ns, switches)) = self.pcpus.get_mut(pcpu as usize) {
            *busy_ns = busy_ns.saturating_add(ran_ns);
            *switches += 1;
        }
    }

    fn placed(&self, segment: &Segment) -> Option<Segment> {
        let &(domain, vcpu) =
            self.places.get(segment.domain as usize)?.get(segment.vcpu as usize)?;
        Some(Segment { domain, vcpu, ..*segment })
    }

    fn load(&mut self, segment: &Segment) {
        if let Some(pcpu) = segment.pcpu {
            self.ran(pcpu, segment.end_ns.saturating_sub(segment.start_ns));
        }
        let load = &mut self.loads[segment.domain as usize][segment.vcpu as usize];
        let bursts = load.replay.bursts.len();
        self.causes.add(Who::Vcpu(segment.domain, segment.vcpu), load, segment);
        self.bursts += load.replay.bursts.len() - bursts;
    }

    fn finish(
        mut self,
        open: &[Segment],
        start_ns: u64,
        end_ns: u64,
        is_vcpu: impl Fn(&str) -> bool,
    ) -> Recording {
        let open: Vec<_> = open.iter().filter_map(|segment| self.placed(segment)).collect();
        for segment in &open {
            self.load(segment);
        }
        let elapsed_ns = end_ns.saturating_sub(start_ns);
        let figures = self.tally.figures(&open).into_iter();
        let mut threads = Threads { start_ns, end_ns, ..Threads::default() };
        let mut processes = self.virtual_machines(figures, &is_vcpu, &mut threads);
        let mut others = std::mem::take(&mut self.others);
        let mut assumed = std::mem::take(&mut self.all.host.unseen);
        let held = self.held();
        assumed.extend(never_told(&self.all.host.source, held).map(str::to_owned));
        let looked_at = |release: &str| version(release) < (6, 19);
        if linux_release(&self.all.host.source)
            .is_some_and(|it| favours_groups(it) && !looked_at(it))
        {
            assumed.push(FAVOURED.to_owned());
        }
        if linux_release(&self.all.host.source).is_some_and(ends_slices_by_timer) {
            assumed.push(HRTICK.to_owned());
        }
        if others.values().any(|other| other.partial) {
            assumed.push(PARTIAL.to_owned());
        }
        let figures = self.others_tally.figures(&[]);
        self.adopt(&mut processes, &mut others, &figures, &mut threads);
        let groups = self.hold(&mut processes, &others, &figures, elapsed_ns);
        let (rest, gone_on) = rest_of_the_host(others.into_values(), &figures, &groups, elapsed_ns);
        for (id, rest) in (priority::REST..).zip(rest) {
            let Rest { mut name, weight, ungrouped, around, tasks, times, loads, pins } = rest;
            // A domain may be called so, and there may be more threads than one has room for.
            let (called, mut number) = (name.clone(), 2);
            while processes.values().any(|known: &Process| known.name == name) {
                name = format!("{called}, {number}");
                number += 1;
            }
            processes.entry(id).or_insert_with(|| {
                threads.add(id, loads);
                let (cap_percent, replay, vcpus) = (0, vec![], 0);
                let tasks = Some(tasks);
                Process {
                    name,
                    weight,
                    ungrouped,
                    around,
                    tasks,
                    cap_percent,
                    pins,
                    times,
                    replay,
                    vcpus,
                }
            });
        }
        threads.settle(self.causes, &gone_on, &mut processes);
        let pcpus = self.pcpus.iter().map(|&(busy_ns, switches)| PcpuMeasure {
            idle_ns: elapsed_ns.saturating_sub(busy_ns),
            switches,
        });
        let (switches, wakes, blocks) = (threads.switches, threads.wakes, threads.wakes);
        Recording {
            elapsed_ns,
            pcpus: pcpus.collect(),
            groups: around_several(&groups, &processes),
            processes,
            skipped: 0,
            known: vec![],
            source: self.all.host.source,
            assumed,
            scheduling_events: SchedulingEvents {
                switches,
                wakes,
                blocks,
                ..SchedulingEvents::default()
            },
        }
    }

    /// The domains, with what each vCPU got.
    fn virtual_machines(
        &mut self,
        mut figures: impl Iterator<Item = Figures>,
        is_vcpu: &impl Fn(&str) -> bool,
        threads: &mut Threads,
    ) -> BTreeMap<u32, Process> {
        let mut processes = BTreeMap::new();
        let loads = std::mem::take(&mut self.loads);
        for (domain, loads) in self.all.domains.iter().zip(loads) {
            let mut times = vec![];
            for (vcpu, figures) in domain.vcpus.iter().zip(&mut figures) {
                let told = self.told.remove(&(domain.id, vcpu.id));
                let told = told.unwrap_or_else(|| [Figures::default(), figures.clone()]);
                let time = time_of_vcpu(told, figures, threads.start_ns, threads.end_ns);
                threads.switches = threads.switches.saturating_add(time.switches);
                times.push(time);
            }
            // Scenarios count in 32 bits, and no system has so many processes or domains.
            let Ok(id) = u32::try_from(domain.id) else { continue };
            threads.wakes += loads.iter().map(|load| load.wakes).sum::<u64>();
            threads.add(id, loads);
            let process = Process {
                name: domain.name.clone(),
                weight: domain.weight,
                ungrouped: domain.ungrouped,
                around: vec![],
                tasks: None,
                cap_percent: domain.cap_percent,
                pins: vec![],
                times,
                replay: vec![],
                vcpus: domain.vcpus.iter().filter(|vcpu| is_vcpu(&vcpu.name)).count(),
            };
            processes.insert(id, process);
        }
        processes
    }

    /// Whether it was told how threads are held. By perf and Perfetto alone only how urgent they are is told.
    fn held(&self) -> bool {
        !matches!(self.all.host.source.as_str(), "perf" | "Perfetto") && !self.placements.is_empty()
    }

    /// I/O and emulator threads are their virtual machine's.
    fn adopt(
        &mut self,
        processes: &mut BTreeMap<u32, Process>,
        others: &mut BTreeMap<(u32, Arc<str>), OtherThread>,
        figures: &[Figures],
        threads: &mut Threads,
    ) {
        let ids: Vec<_> =
            self.all.domains.iter().map(|domain| u32::try_from(domain.id).ok()).collect();
        let mut owners = Owners::default();
        for (who, placement) in &self.placements {
            let Who::Vcpu(index, _) = who else { continue };
            let domain = &self.all.domains[*index as usize];
            owners.add(*index as usize, domain, &placement.groups);
        }
        let elapsed_ns = threads.end_ns.saturating_sub(threads.start_ns);
        for (key, mut other) in std::mem::take(others) {
            let owner = other.owner(&owners).filter(|_| other.gotten_ns > 0);
            let id = owner.and_then(|index| ids.get(index).copied().flatten());
            let process = id.and_then(|id| Some((id, processes.get_mut(&id)?)));
            let room =
                process.filter(|(_, it)| it.vcpus > 0 && it.times.len() < priority::MAX_THREADS);
            let (Some(index), Some((id, process))) = (owner, room) else {
                others.insert(key, other);
                continue;
            };
            if let Some(placement) = other.placement.take() {
                let who = Who::Vcpu(index as u32, process.times.len() as u32);
                self.placements.insert(who, placement);
            }
            let figures = figures.get(other.index as usize).cloned().unwrap_or_default();
            process.times.push(other.time(figures, elapsed_ns));
            threads.add(id, vec![other.load]);
        }
    }

    /// Where it was told how threads are held, domains are held so; the groups that there were.
    fn hold(
        &self,
        processes: &mut BTreeMap<u32, Process>,
        others: &BTreeMap<(u32, Arc<str>), OtherThread>,
        figures: &[Figures],
        elapsed_ns: u64,
    ) -> Groups {
        let vcpus = |index: usize, process: &Process| -> Vec<Member<'_>> {
            let placed = (0..).zip(&process.times).filter_map(|(vcpu, time)| {
                let placement = self.placements.get(&Who::Vcpu(index as u32, vcpu))?;
                let runnable_ns = time.gotten_ns.saturating_add(time.waited_ns);
                Some(Member {
                    domain: Some(index),
                    groups: &placement.groups,
                    weight: priority::weight(priority::known(placement.priority)).into(),
                    activity: runnable_ns as f64 / elapsed_ns.max(1) as f64,
                })
            });
            placed.collect()
        };
        let ids = || {
            let domains = self.all.domains.iter().enumerate();
            domains.filter_map(|(index, domain)| Some((index, u32::try_from(domain.id).ok()?)))
        };
        let of_domains = ids().filter_map(|(index, id)| Some(vcpus(index, processes.get(&id)?)));
        let of_others = others.values().map(|other| {
            let figures = figures.get(other.index as usize).cloned().unwrap_or_default();
            other.member(&figures, elapsed_ns)
        });
        let mut groups = Groups::of(of_domains.flatten().chain(of_others));
        let of_xen = self.all.host.source.starts_with("xentrace");
        let held = self.held() && !of_xen;
        let set = ids().filter(|_| held).filter_map(|(index, id)| {
            let vcpus = vcpus(index, processes.get(&id).filter(|it| it.vcpus > 0)?);
            let own = self.all.domains[index].own_group(vcpus.first()?.groups)?;
            let (held, _) = groups.of_domain(index, &vcpus);
            (!held.ungrouped).then(|| (f64::from(own.weight.max(1)), held.weight))
        });
        let set: Vec<_> = set.collect();
        groups.count_as_set(set);
        for (index, id) in ids() {
            let Some(process) = processes.get_mut(&id) else { continue };
            let vcpus = vcpus(index, process);
            if vcpus.is_empty() {
                continue;
            }
            let pin = |vcpu| self.placements.get(&Who::Vcpu(index as u32, vcpu))?.pcpus.clone();
            // Xen knows no groups: its domains have their own weights.
            if held {
                let (held, around) = groups.of_domain(index, &vcpus);
                process.around = around.to_vec();
                process.weight = held.weight.round() as u32;
                process.ungrouped = held.ungrouped;
            }
            process.pins = (0..process.times.len() as u32).map(pin).collect();
        }
        // Beside virtual machines; else they are what is asked about. Real-time ones are above all either way.
        let source = &self.all.host.source;
        let of_linux = ["Linux", "perf", "Perfetto"].iter().any(|begin| source.starts_with(begin));
        let beside = processes.values().any(|process| process.vcpus > 0);
        for (index, id) in ids() {
            let Some(process) = processes.get_mut(&id).filter(|process| process.vcpus == 0) else {
                continue;
            };
            let used = (0..).zip(&process.times).map(|(vcpu, time)| {
                let placement = self.placements.get(&Who::Vcpu(index as u32, vcpu));
                let priority = placement.and_then(|placement| placement.priority);
                (priority::known(priority), time.gotten_ns)
            });
            let priority = priority::prevailing(used);
            if of_linux && (beside || priority < priority::NICE_LEAST) {
                process.tasks = Some(HostTasks { priority, kernel: false });
            }
        }
        groups
    }
}

/// The groups around more than one of these.
fn around_several(groups: &Groups, processes: &BTreeMap<u32, Process>) -> Vec<AroundSeveral> {
    let mut members: HashMap<u64, usize> = HashMap::new();
    for group in processes.values().flat_map(|process| &process.around) {
        *members.entry(group.id).or_default() += 1;
    }
    let mut several: Vec<AroundSeveral> = vec![];
    for process in processes.values() {
        let mut around = None;
        for (depth, group) in process.around.iter().enumerate().rev() {
            if members[&group.id] < 2 {
                continue;
            }
            if several.iter().all(|known| known.id != group.id) {
                let weight = groups.weight(&process.around[depth..]).unwrap_or(1.0);
                several.push(AroundSeveral { id: group.id, weight: weight.round() as u32, around });
            }
            around = Some(group.id);
        }
    }
    several
}

/// What a vCPU got between what was told of it first and last.
fn time_of_vcpu(told: [Figures; 2], tallied: Figures, start_ns: u64, end_ns: u64) -> TimeMeasure {
    let [first, last] = told;
    let elapsed_ns = end_ns.saturating_sub(start_ns);
    // The worst that is told may be from before the recording.
    let worst = last.waits.as_ref().and_then(|waits| waits.worst.clone());
    let worst = worst.filter(|worst| worst.start_ns >= start_ns);
    let worst = worst.or(tallied.waits.and_then(|waits| waits.worst));
    let worst =
        worst.map(|worst| WorstWait { start_ns: worst.start_ns.saturating_sub(start_ns), ..worst });
    let since = |told: fn(&Figures) -> Option<u64>| {
        told(&last).unwrap_or(0).saturating_sub(told(&first).unwrap_or(0))
    };
    let gotten_ns = since(|figures| Some(figures.gotten_ns)).min(elapsed_ns);
    let waited_ns = since(|figures| figures.waited_ns).min(elapsed_ns);
    let waits = |figures: &Figures| figures.waits.clone().unwrap_or_default().histogram;
    let less = |first: u64, last: u64| last.saturating_sub(first);
    TimeMeasure {
        gotten_ns,
        waited_ns,
        blocked_ns: elapsed_ns.saturating_sub(gotten_ns).saturating_sub(waited_ns),
        switches: since(|figures| figures.switches),
        migrations: since(|figures| figures.migrations),
        preemptions: since(|figures| figures.preemptions),
        waits: Waits::of(merged(&waits(&first), &waits(&last), less), worst),
        ..TimeMeasure::default()
    }
}

/// What all threads had to do, as it becomes what they replay.
#[derive(Default)]
struct Threads {
    start_ns: u64,
    end_ns: u64,
    /// Of vCPUs.
    switches: u64,
    wakes: u64,
    /// By the number of its load.
    replays: HashMap<u32, (RecordedThread, ReplayThread)>,
    /// Of each process, numbers of loads.
    numbers: BTreeMap<u32, Vec<u32>>,
}

impl Threads {
    /// Those of a process, in order, after those that it has.
    fn add(&mut self, process: u32, loads: Vec<Load>) {
        let first = self.numbers.get(&process).map_or(0, Vec::len) as u32;
        for (thread, load) in (first..).zip(loads) {
            let number = load.number;
            let thread = RecordedThread { process, thread };
            let replay = load.finish(self.start_ns, self.end_ns);
            self.replays.insert(number, (thread, replay));
            self.numbers.entry(process).or_default().push(number);
        }
    }

    /// Each process has its own, with who wakes whom.
    fn settle(&mut self, causes: Causes, gone_on: &GoneOn, processes: &mut BTreeMap<u32, Process>) {
        causes.settle(&mut self.replays, gone_on);
        for (id, numbers) in &self.numbers {
            let replays = numbers.iter().filter_map(|number| self.replays.remove(number));
            let replays = replays.map(|(_, replay)| Arc::new(replay)).collect();
            if let Some(process) = processes.get_mut(id) {
                process.replay = replays;
            }
        }
    }
}

/// What recordings from there never say, whether they tell how threads are held or not.
fn never_told(source: &str, held: bool) -> Option<&'static str> {
    if source.starts_with("xentrace of ") {
        Some("Where vCPUs had better run, and CPU pools: there is none.")
    } else if held {
        Some(
            "Nested and shared groups, for policies other than the recorded host's: each has by its weight what its sleep and \
             that of the others leave it on average; caps of other groups: there are none.",
        )
    } else if source.starts_with("Linux ") {
        Some(
            "Pins, niceness of vCPUs, groups within groups and of several domains: there are none.",
        )
    } else if source == "xentrace" {
        Some("Weights, caps, pins: 256 for all, none, none.")
    } else {
        None
    }
}

const FAVOURED: &str = "Turns of groups: as in Linux 6.13 to 6.18, which lets one whose threads sleep and wake in turn keep \
                        its CPU, at times for a second; 7.2 has that mended.";

const HRTICK: &str = "Slices end by a timer (HRTICK of debugfs's sched/features), as on x86 from Linux 7.2 on: elsewhere \
                      `--set fair.hrtick=off`.";

const PARTIAL: &str =
    "Other threads: they ran no more than was recorded, which is while a vCPU waited.";
