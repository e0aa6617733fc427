// SPDX-License-Identifier: GPL-2.0-only
//! What is made of a recording, whoever recorded it: from who ran and who waited, what each vCPU (of
//! perf: each thread) got, and the load that it was, which is replayed.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use steelyard_boundary::input::{OverBudget, within_memory, within_number};
use steelyard_policy::Policy;
use steelyard_recording::{Figures, History, Open, OtherRun, Snapshot, Structure, Tally, merged};
use steelyard_simulator::config::{Domain, Setup};
use steelyard_simulator::measure::{
    DomainMeasure, PcpuMeasure, Run, SchedulingEvents, Segment, TimeMeasure, VcpuMeasure, Waits,
    WorstWait,
};
use steelyard_simulator::workload::{Burst, ReplayThread, Workload};
use steelyard_simulator::{Usable, entitle};

use crate::priority;

/// A whole recording.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    /// From beginning to end.
    pub elapsed_ns: u64,
    /// By number.
    pub pcpus: Vec<PcpuMeasure>,
    /// Domains, or processes, by number.
    pub processes: BTreeMap<u32, Process>,
    /// Events that say nothing about scheduling or were not needed.
    pub skipped: u64,
    /// What recorded it.
    pub source: String,
    /// What it does not say, and what is taken instead, a sentence each.
    pub assumed: Vec<String>,
    scheduling_events: SchedulingEvents,
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
    /// In percent of one pCPU; 0: none.
    pub cap_percent: u32,
    /// What each vCPU got.
    pub times: Vec<TimeMeasure>,
    /// What each did.
    pub replay: Vec<Arc<ReplayThread>>,
    /// How many, the first ones, are vCPUs of a virtual machine.
    pub vcpus: usize,
}

impl Process {
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
        digest.add(&history.segments, &history.others);
        digest.within_budget()?;
        let mut recording = digest.finish(&history.open, 0, history.length_ns, is_vcpu);
        recording.skipped = skipped;
        Ok(recording)
    }

    /// The policy that is nearest to what scheduled the recorded host, and whether that is no more than likely.
    pub fn own_scheduler(&self) -> Option<(Policy, bool)> {
        let (name, assumed) = match self.source.split_once(' ') {
            Some(("simulation", of)) => (of.strip_prefix("of ")?, false),
            Some(("Linux", release)) => {
                // 6.6 replaced CFS by EEVDF.
                let eevdf = version(release) >= (6, 6);
                (if eevdf { "fair@eevdf" } else { "fair@cfs" }, false)
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
            usable.push(Usable { percent, pcpus: None, ungrouped: domain.ungrouped });
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
        let mut histogram = vec![];
        let mut worst = None;
        let mut vcpus = vec![];
        for time in process.times.iter().take(domain.vcpus as usize) {
            let mut time = time.clone();
            for ran in time.waits.worst.iter_mut().flat_map(|worst| &mut worst.ran) {
                if let Some(&name) = names.get(ran.domain.as_str()) {
                    name.clone_into(&mut ran.domain);
                }
            }
            histogram = merged(&histogram, &time.waits.histogram, u64::saturating_add);
            worst = worst
                .into_iter()
                .chain(time.waits.worst.clone())
                .reduce(|one, other| if other.length_ns > one.length_ns { other } else { one });
            total.add_sums(&time);
            vcpus.push(VcpuMeasure { time });
        }
        total.waits = Waits::of(histogram, worst);
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
        let Snapshot { time_ns, idle_ns, mut segments, mut others, .. } = snapshot;
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
        self.digest.add(&segments, &others);
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
    /// Threads that are no vCPUs, by number and name (where there is no number, by pCPU and name).
    others: BTreeMap<(u32, Arc<str>), OtherThread>,
    /// Of all loads.
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
                        self.loads[index].push(Load::default());
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
        let buckets = self.told_buckets + self.tally.buckets();
        let others = 2 * self.others.len() * size_of::<((u32, Arc<str>), OtherThread)>();
        let bursts = self.bursts * size_of::<Burst>();
        within_memory(bursts + others + buckets * size_of::<(u64, u64)>())?;
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

    /// Both in order of their ends.
    fn add(&mut self, segments: &[Segment], others: &[OtherRun]) {
        let mut others = others.iter().peekable();
        for segment in segments {
            while let Some(run) = others.next_if(|run| run.end_ns <= segment.end_ns) {
                self.add_other(run);
            }
            let Some(segment) = self.placed(segment) else { continue };
            self.tally.add(&segment);
            self.load(&segment);
        }
        others.for_each(|run| self.add_other(run));
    }

    fn add_other(&mut self, run: &OtherRun) {
        self.tally.add_other(run);
        self.ran(run.pcpu, run.end_ns.saturating_sub(run.start_ns));
        let number = if run.thread == 0 { run.pcpu } else { run.thread };
        let other = self.others.entry((number, run.name.clone())).or_default();
        other.priority = run.priority.or(other.priority);
        other.partial = run.thread == 0;
        other.runs += 1;
        other.gotten_ns = other.gotten_ns.saturating_add(run.end_ns.saturating_sub(run.start_ns));
        let bursts = other.load.replay.bursts.len();
        if let (true, Some(start_ns)) = (run.waited, other.load.until_ns) {
            other.load.add(&wait(start_ns, run.start_ns));
        }
        other.load.add(&Segment {
            pcpu: Some(run.pcpu),
            end_ns: run.end_ns,
            ..wait(run.start_ns, 0)
        });
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
        load.add(segment);
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
        let mut scheduling_events = SchedulingEvents::default();
        let mut figures = self.tally.figures(&open).into_iter();
        let mut processes = BTreeMap::new();
        for (domain, loads) in self.all.domains.iter().zip(self.loads) {
            let mut process = Process {
                name: domain.name.clone(),
                weight: domain.weight,
                ungrouped: domain.ungrouped,
                cap_percent: domain.cap_percent,
                times: vec![],
                replay: vec![],
                vcpus: domain.vcpus.iter().filter(|vcpu| is_vcpu(&vcpu.name)).count(),
            };
            for ((load, vcpu), figures) in loads.into_iter().zip(&domain.vcpus).zip(&mut figures) {
                let tallied = figures.waits.as_ref().and_then(|waits| waits.worst.clone());
                let [first, last] = self
                    .told
                    .remove(&(domain.id, vcpu.id))
                    .unwrap_or_else(|| [Figures::default(), figures]);
                // That which is told may be from before the recording.
                let told = last.waits.as_ref().and_then(|waits| waits.worst.clone());
                let worst = told.filter(|worst| worst.start_ns >= start_ns).or(tallied);
                let worst = worst.map(|worst| WorstWait {
                    start_ns: worst.start_ns.saturating_sub(start_ns),
                    ..worst
                });
                let since = |told: fn(&Figures) -> Option<u64>| {
                    told(&last).unwrap_or(0).saturating_sub(told(&first).unwrap_or(0))
                };
                let gotten_ns = since(|figures| Some(figures.gotten_ns)).min(elapsed_ns);
                let waited_ns = since(|figures| figures.waited_ns).min(elapsed_ns);
                let switches = since(|figures| figures.switches);
                let waits = |figures: Figures| figures.waits.unwrap_or_default().histogram;
                scheduling_events.switches = scheduling_events.switches.saturating_add(switches);
                scheduling_events.wakes += load.wakes;
                scheduling_events.blocks += load.wakes;
                process.times.push(TimeMeasure {
                    gotten_ns,
                    waited_ns,
                    blocked_ns: elapsed_ns.saturating_sub(gotten_ns).saturating_sub(waited_ns),
                    switches,
                    migrations: since(|figures| figures.migrations),
                    preemptions: since(|figures| figures.preemptions),
                    waits: Waits::of(
                        merged(&waits(first), &waits(last), |first, last| {
                            last.saturating_sub(first)
                        }),
                        worst,
                    ),
                    ..TimeMeasure::default()
                });
                process.replay.push(Arc::new(load.finish(start_ns, end_ns)));
            }
            // Scenarios count in 32 bits, and no system has so many processes or domains.
            if let Ok(id) = u32::try_from(domain.id) {
                processes.insert(id, process);
            }
        }
        let mut assumed = self.all.host.unseen;
        assumed.extend(never_told(&self.all.host.source).map(str::to_owned));
        if self.others.values().any(|other| other.partial) {
            assumed.push(PARTIAL.to_owned());
        }
        for (id, mut process) in rest_of_the_host(self.others, start_ns, end_ns) {
            for time in &mut process.times {
                time.blocked_ns =
                    elapsed_ns.saturating_sub(time.gotten_ns).saturating_sub(time.waited_ns);
            }
            // A domain may be called so, and there may be more threads than one has room for.
            while processes.values().any(|known: &Process| known.name == process.name) {
                process.name += &format!("-{id}");
            }
            processes.entry(id).or_insert(process);
        }
        let pcpus = self.pcpus.iter().map(|&(busy_ns, switches)| PcpuMeasure {
            idle_ns: elapsed_ns.saturating_sub(busy_ns),
            switches,
        });
        Recording {
            elapsed_ns,
            pcpus: pcpus.collect(),
            processes,
            skipped: 0,
            source: self.all.host.source,
            assumed,
            scheduling_events,
        }
    }
}

/// A thread that is no vCPU.
#[derive(Default)]
struct OtherThread {
    priority: Option<u32>,
    /// Not all its runs are told of, nor whether it could have gone on.
    partial: bool,
    load: Load,
    runs: u64,
    gotten_ns: u64,
}

/// What recordings from there never say.
fn never_told(source: &str) -> Option<&'static str> {
    if source.starts_with("Linux ") {
        Some(
            "Pins, niceness of vCPUs, groups within groups and of several domains: there are none.",
        )
    } else if source == "xentrace" {
        Some("Weights, caps, pins: 256 for all, none, none.")
    } else {
        None
    }
}

const PARTIAL: &str =
    "Other threads: they ran no more than was recorded, which is while a vCPU waited.";

/// Nobody's, who waits.
fn wait(start_ns: u64, end_ns: u64) -> Segment {
    Segment { domain: 0, vcpu: 0, pcpu: None, start_ns, end_ns }
}

/// What is no vCPU as domains, one for threads that are equally urgent: their numbers, and what they did. How long
/// they waited after they woke nobody told: that counts as sleep.
fn rest_of_the_host(
    others: BTreeMap<(u32, Arc<str>), OtherThread>,
    start_ns: u64,
    end_ns: u64,
) -> Vec<(u32, Process)> {
    let mut by_priority: BTreeMap<u32, Vec<OtherThread>> = BTreeMap::new();
    for other in others.into_values().filter(|other| other.gotten_ns > 0) {
        by_priority.entry(priority::known(other.priority)).or_default().push(other);
    }
    let mut rest = vec![];
    for (priority, mut threads) in by_priority.into_iter().rev() {
        while !threads.is_empty() {
            let some = threads.drain(..threads.len().min(priority::MAX_THREADS));
            let (times, replay) = some
                .map(|OtherThread { load, runs, gotten_ns, .. }| {
                    let gotten_ns = gotten_ns.min(end_ns - start_ns);
                    let time = TimeMeasure { gotten_ns, switches: runs, ..TimeMeasure::default() };
                    (time, Arc::new(load.finish(start_ns, end_ns)))
                })
                .unzip();
            let process = Process {
                name: priority::rest_name(priority),
                weight: priority::weight(priority),
                ungrouped: true,
                cap_percent: 0,
                times,
                replay,
                vcpus: 0,
            };
            rest.push((priority::REST + rest.len() as u32, process));
        }
    }
    rest
}

/// What a vCPU had to do: what lies between its runs and waits is sleep.
#[derive(Default)]
struct Load {
    replay: ReplayThread,
    burst_ns: u64,
    until_ns: Option<u64>,
    wakes: u64,
    first_ns: u64,
}

impl Load {
    fn add(&mut self, segment: &Segment) {
        match self.until_ns {
            None => self.first_ns = segment.start_ns,
            Some(until_ns) if segment.start_ns > until_ns => {
                self.wakes += 1;
                self.end_burst(segment.start_ns - until_ns);
            }
            Some(_) => {}
        }
        if segment.pcpu.is_some() {
            let ran_ns = segment.end_ns.saturating_sub(segment.start_ns);
            self.burst_ns = self.burst_ns.saturating_add(ran_ns);
        }
        self.until_ns = Some(segment.end_ns.max(self.until_ns.unwrap_or(0)));
    }

    /// It sleeps for so long after what it ran.
    fn end_burst(&mut self, sleep_ns: u64) {
        if self.burst_ns > 0 {
            self.replay.bursts.push(Burst { run_ns: self.burst_ns, sleep_ns });
        } else if let Some(last) = self.replay.bursts.last_mut() {
            last.sleep_ns = last.sleep_ns.saturating_add(sleep_ns);
        } else {
            self.first_ns = self.first_ns.saturating_add(sleep_ns);
        }
        self.burst_ns = 0;
    }

    fn finish(mut self, start_ns: u64, end_ns: u64) -> ReplayThread {
        let first_wake_ns = match self.until_ns {
            None => end_ns.saturating_sub(start_ns),
            Some(_) => self.first_ns.saturating_sub(start_ns),
        };
        // From its last sleep it goes on to its first, so that a repetition takes as long.
        let sleep_ns = end_ns.saturating_sub(self.until_ns.unwrap_or(end_ns));
        self.end_burst(sleep_ns.saturating_add(first_wake_ns));
        ReplayThread { first_wake_ns, ..self.replay }
    }
}
