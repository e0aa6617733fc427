// SPDX-License-Identifier: GPL-2.0-only
//! From the events of a Linux scheduler to who ran and who waited.
//!
//! A recorder misses events now and then (some kernels never report those of the idle thread). A
//! thread that is seen to run without a switch to it began to run when it was last woken or, if that
//! was missed as well, at that very moment. So a lost event makes a wait too short, never too long.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::iter;
use std::sync::Arc;

use steelyard_boundary::input::{OverBudget, within_memory, within_number};
use steelyard_recording::{
    Domain, History, Host, OtherRun, Placement, Structure, Vcpu, Wake, Who, qemu,
};
use steelyard_simulator::measure::Segment;

use crate::diagnostic::Diagnostic;
use crate::host::HostDescription;
use crate::known::{Known, Placements};
use crate::priority::{self, LEAST_PERMILLE, MAX_THREADS, NICE_LEAST, NICE_USUAL, weight};
use crate::recognised::{Held, Recognised, recognised};
use crate::wakers::{self, Woken};

/// The number of the idle threads.
const IDLE: u32 = 0;

/// Follows the kernel, event by event.
#[derive(Debug, Default)]
pub(crate) struct Follower {
    now_ns: u64,
    cpus: Vec<Cpu>,
    threads: BTreeMap<u32, Thread>,
    /// What ended, with the thread for the vCPU.
    segments: Vec<Segment>,
    /// Who was woken, in order.
    wakes: Vec<Woken>,
    /// Bytes of all names that were given.
    names: usize,
    /// Whether priorities are told.
    prioritised: bool,
}

#[derive(Debug, Default)]
struct Cpu {
    running: Option<u32>,
    /// When that began, or when the CPU went idle.
    since_ns: u64,
    /// Whether there was an event of this CPU.
    seen: bool,
}

#[derive(Debug, Default)]
struct Thread {
    name: String,
    process: Option<u32>,
    /// Who made it, if that was seen.
    parent: Option<u32>,
    priority: Option<u32>,
    state: State,
    since_ns: u64,
    gotten_ns: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Blocked,
    Waiting,
    Running(usize),
}

impl Follower {
    /// Time goes on; it is counted from the beginning of the recording.
    pub fn advance(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    fn cpu(&mut self, cpu: usize) -> &mut Cpu {
        if self.cpus.len() <= cpu {
            self.cpus.resize_with(cpu + 1, Cpu::default);
        }
        &mut self.cpus[cpu]
    }

    /// A thread is called so.
    pub fn name(&mut self, tid: u32, name: &str) {
        let thread = self.threads.entry(tid).or_default();
        if tid != IDLE && thread.name != name {
            self.names = self.names - thread.name.len() + name.len();
            name.clone_into(&mut thread.name);
        }
    }

    /// Whether what is known so far may be held.
    pub fn within_budget(&self) -> Result<(), OverBudget> {
        // A tree's nodes are at least half full.
        let thread = 2 * size_of::<(u32, Thread)>();
        let segments = self.segments.len() * size_of::<Segment>();
        let wakes = self.wakes.len() * (size_of::<Woken>() + size_of::<Wake>());
        within_memory(segments + wakes + self.threads.len() * thread + self.names)
    }

    /// A thread is of this process.
    pub fn belongs(&mut self, tid: u32, process: u32) {
        self.threads.entry(tid).or_default().process = Some(process);
    }

    /// A thread is this urgent from now on; `None`: more than any number that the kernel has for it.
    pub fn priority(&mut self, tid: u32, priority: Option<u32>) {
        self.prioritised = true;
        self.threads.entry(tid).or_default().priority = Some(priority.unwrap_or(0));
    }

    /// A thread is on this CPU now, whatever was seen before, and has been for at least so long.
    pub fn runs(&mut self, tid: u32, process: Option<u32>, cpu: usize, ran_ns: u64) {
        let now_ns = self.now_ns;
        if tid == IDLE {
            self.cpu(cpu).seen = true;
            if let Some(running) = self.cpus[cpu].running {
                self.leave(running, cpu, false);
            }
            return;
        }
        let thread = self.threads.entry(tid).or_default();
        thread.process = process.or(thread.process);
        let (state, since_ns) = (thread.state, thread.since_ns);
        if self.cpu(cpu).running == Some(tid) {
            return;
        }
        let seen = self.cpus[cpu].seen;
        let idle = self.cpus[cpu].running.is_none();
        let start_ns = match state {
            // The first that is seen of a CPU: what ran there from the beginning.
            State::Blocked if !seen && since_ns == 0 => 0,
            State::Waiting if idle => since_ns.max(self.cpus[cpu].since_ns),
            State::Blocked if idle => {
                now_ns.saturating_sub(ran_ns).max(since_ns).max(self.cpus[cpu].since_ns)
            }
            _ => now_ns,
        };
        self.now_ns = start_ns;
        if let State::Running(elsewhere) = state {
            self.leave(tid, elsewhere, false);
        }
        if let Some(other) = self.cpus[cpu].running {
            self.leave(other, cpu, false);
        }
        self.enter(tid, cpu);
        self.now_ns = now_ns;
    }

    /// A thread became runnable.
    pub fn wakes(&mut self, tid: u32) -> bool {
        let thread = self.threads.entry(tid).or_default();
        let wakes = tid != IDLE && thread.state == State::Blocked;
        if wakes {
            thread.state = State::Waiting;
            thread.since_ns = self.now_ns;
        }
        wakes
    }

    /// The same, and this CPU did it: by the work of who runs there, or not, if that is told.
    pub fn wakes_by(&mut self, tid: u32, cpu: usize, by_work: Option<bool>) {
        let running = self.cpu(cpu).running.unwrap_or(IDLE);
        if self.wakes(tid) {
            let (time_ns, cpu) = (self.now_ns, cpu as u32);
            self.wakes.push(Woken { time_ns, woken: tid, running, cpu, by_work });
        }
    }

    /// A thread began: who runs on this CPU made it.
    pub fn begins(&mut self, tid: u32, cpu: usize) {
        let parent = self.cpu(cpu).running;
        self.threads.entry(tid).or_default().parent = parent;
        self.wakes_by(tid, cpu, Some(true));
    }

    /// This CPU goes from one thread, which is still runnable or not, to the next.
    pub fn switches(&mut self, cpu: usize, previous: u32, runnable: bool, next: u32) {
        self.runs(previous, None, cpu, 0);
        if let Some(running) = self.cpus[cpu].running {
            self.leave(running, cpu, runnable);
        }
        self.cpus[cpu].since_ns = self.now_ns;
        if next != IDLE {
            if let Some(&Thread { state: State::Running(elsewhere), .. }) = self.threads.get(&next)
            {
                self.leave(next, elsewhere, true);
            }
            self.enter(next, cpu);
        }
    }

    fn enter(&mut self, tid: u32, cpu: usize) {
        self.wakes(tid); // if that was missed
        let now_ns = self.now_ns;
        let thread = self.threads.entry(tid).or_default();
        if thread.since_ns < now_ns {
            let (start_ns, end_ns) = (thread.since_ns, now_ns);
            self.segments.push(Segment { domain: 0, vcpu: tid, pcpu: None, start_ns, end_ns });
        }
        thread.state = State::Running(cpu);
        thread.since_ns = now_ns;
        let cpu = &mut self.cpus[cpu];
        cpu.running = Some(tid);
        cpu.since_ns = now_ns;
        cpu.seen = true;
    }

    fn leave(&mut self, tid: u32, cpu: usize, runnable: bool) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        // A missed switch may have been taken to be later than this.
        let (start_ns, end_ns) = (thread.since_ns, self.now_ns.max(thread.since_ns));
        let pcpu = Some(cpu as u32);
        self.segments.push(Segment { domain: 0, vcpu: tid, pcpu, start_ns, end_ns });
        thread.gotten_ns += end_ns - start_ns;
        thread.since_ns = end_ns;
        thread.state = if runnable { State::Waiting } else { State::Blocked };
        let cpu = &mut self.cpus[cpu];
        cpu.running = None;
        cpu.since_ns = end_ns;
    }

    /// Wakes by others' work. `open` are the runs and waits that last at the end.
    fn caused(&self, open: &[Segment]) -> Vec<Woken> {
        let mut ran_ns: HashMap<(u32, u32), u64> = HashMap::new();
        for run in self.segments.iter().chain(open) {
            if let Some(cpu) = run.pcpu {
                *ran_ns.entry((run.vcpu, cpu)).or_default() += run.end_ns - run.start_ns;
            }
        }
        let by_work = wakers::by_work(&self.wakes, &ran_ns, self.now_ns);
        let caused = self.wakes.iter().zip(by_work).filter(|(_, by_work)| *by_work);
        caused.map(|(wake, _)| *wake).collect()
    }

    /// The recording ends. `host` is what recorded it. A process is a domain; those that hardly ran, and are
    /// no virtual machines, are others, as real-time threads are.
    pub fn finish(
        self,
        host: &str,
        source: &str,
        description: Option<&HostDescription>,
    ) -> Result<History, Diagnostic> {
        let length_ns = self.now_ns;
        let known = description.map(Known::of);
        let mut open = vec![];
        let mut processes: BTreeMap<u32, Vec<Ran<'_>>> = BTreeMap::new();
        for (&tid, thread) in &self.threads {
            let pcpu = match thread.state {
                State::Running(cpu) => Some(cpu as u32),
                State::Waiting | State::Blocked => None,
            };
            if thread.state != State::Blocked && thread.since_ns < length_ns {
                let (start_ns, end_ns) = (thread.since_ns, length_ns);
                open.push(Segment { domain: 0, vcpu: tid, pcpu, start_ns, end_ns });
            }
            let open_ns = pcpu.map_or(0, |_| length_ns.saturating_sub(thread.since_ns));
            if tid != IDLE && (thread.gotten_ns > 0 || pcpu.is_some()) {
                // QEMU's helpers in the kernel are called after its process.
                let helped = thread.name.strip_prefix("vhost-").and_then(|pid| pid.parse().ok());
                let told = || known.as_ref().and_then(|known| known.process(tid, &thread.name));
                let process = helped.or(thread.process).or_else(told).unwrap_or(tid);
                let gotten_ns = thread.gotten_ns + open_ns;
                let ran = Ran { tid, thread, gotten_ns };
                processes.entry(process).or_default().push(ran);
            }
        }
        within_number(processes.values().map(Vec::len).sum())
            .map_err(|over| Diagnostic::of_budget(host, over))?;
        let gotten_ns = |threads: &[Ran<'_>]| threads.iter().map(|ran| ran.gotten_ns).sum::<u64>();
        let busiest = processes.values().map(|threads| gotten_ns(threads)).max().unwrap_or(0);
        let least_ns = (length_ns / 1000 * LEAST_PERMILLE).min(busiest);
        let mut rest = vec![];
        let mut domains = vec![];
        for (pid, mut threads) in processes {
            // The threads of its vCPUs come first, then the emulator's, input and output's and the
            // kernel's helpers.
            threads.sort_by_key(|ran| (ran.vcpu_number().unwrap_or(u32::MAX), ran.tid));
            let is_virtual_machine = is_virtual_machine(&threads);
            if !is_virtual_machine {
                // They compete with each other, not with the others of their process.
                rest.extend(threads.extract_if(.., |ran| ran.priority() < NICE_LEAST));
            }
            let kept = match is_virtual_machine || gotten_ns(&threads) >= least_ns {
                true => threads.len().min(MAX_THREADS),
                false => 0,
            };
            rest.extend(threads.drain(kept..));
            if threads.is_empty() {
                continue;
            }
            let described = known.as_ref().filter(|_| is_virtual_machine);
            let described = described.and_then(|known| known.domain(pid));
            let name = match self.threads.get(&pid).map(|thread| &thread.name) {
                _ if described.is_some() => described.map_or(String::new(), |it| it.name.clone()),
                Some(name) if !name.is_empty() => name.clone(),
                _ => known
                    .as_ref()
                    .and_then(|known| known.name(pid))
                    .map_or_else(|| format!("process-{pid}"), str::to_owned),
            };
            domains.push((pid, name, threads));
        }
        let mut unseen = vec![];
        let recognised = match known {
            Some(_) => Recognised::default(),
            None => self.recognised(&open, &domains, &rest),
        };
        if known.is_none() {
            unseen.extend(recognised.told());
        }
        if !self.prioritised && known.is_none() {
            unseen.push("Niceness: 0 for all.".to_owned());
        }
        let all = domains.iter().flat_map(|(_, _, threads)| threads);
        let urgent = all.filter(|ran| ran.priority() < NICE_LEAST).map(|ran| ran.gotten_ns);
        let urgent_ns: u64 = urgent.sum();
        if urgent_ns > 0 {
            unseen.push(format!(
                "Real-time threads of VMs before all others: with the weight of niceness -20; they used {:.2} % of a CPU.",
                100.0 * urgent_ns as f64 / length_ns.max(1) as f64
            ));
        }
        let wakes = self.caused(&open);
        let mut index_of = HashMap::new();
        let mut told = vec![];
        let mut placements = Placements::default();
        let mut place = |who, ran: &Ran<'_>, pid| {
            let placement = match &known {
                Some(known) => self.place(known, &mut placements, who, ran, pid),
                None => recognised.place(who, ran.tid, ran.thread.priority),
            };
            placements.all.push(placement);
        };
        let machines = domains.iter().filter(|(.., threads)| is_virtual_machine(threads));
        let machines: Vec<u32> = machines.map(|(pid, ..)| *pid).collect();
        for (index, (id, name, threads)) in (0..).zip(domains) {
            let described = known.as_ref().filter(|_| is_virtual_machine(&threads));
            let described = described.and_then(|known| known.domain(id));
            index_of.extend((0..).zip(&threads).map(|(vcpu, ran)| (ran.tid, (index, vcpu))));
            let vcpu = |ran: &Ran<'_>| Vcpu { id: ran.tid.into(), name: ran.thread.name.clone() };
            for (vcpu, ran) in (0..).zip(&threads) {
                place(Who::Vcpu(index, vcpu), ran, id);
            }
            let (own_weight, ungrouped) = match recognised.grouped {
                Some(_) => (weight(NICE_USUAL), false),
                None => {
                    let used = threads.iter().map(|ran| (ran.priority(), ran.gotten_ns));
                    (weight(priority::prevailing(used)), true)
                }
            };
            told.push(Domain {
                id: id.into(),
                name,
                weight: described.and_then(|it| it.weight).unwrap_or(own_weight),
                ungrouped: described.map_or(ungrouped, |it| it.ungrouped),
                groups_around: known.as_ref().and_then(|known| known.groups_around(id)),
                cap_percent: described.and_then(|it| it.cap_percent).unwrap_or(0),
                vcpus: threads.iter().map(vcpu).collect(),
            });
        }
        for ran in &rest {
            place(Who::Other(ran.tid), ran, ran.thread.process.unwrap_or(ran.tid));
        }
        let mut told_of = vec![];
        if let Some(known) = &known {
            let (of_description, not_told) = known.told(host, &placements, &machines, length_ns)?;
            told_of = of_description;
            unseen.extend(not_told);
        }
        let host = Host {
            name: host.to_owned(),
            source: known.as_ref().map_or(source.to_owned(), |known| known.source(source)),
            pcpus: self.cpus.len() as u32,
            began_unix_ns: None,
            unseen,
        };
        let placed = |segment: Segment| {
            let &(domain, vcpu) = index_of.get(&segment.vcpu)?;
            Some(Segment { domain, vcpu, ..segment })
        };
        let mut others = Others::of(&rest);
        let named = |wake: &Woken| {
            let who = |tid| match index_of.get(&tid) {
                Some(&(domain, vcpu)) => Some(Who::Vcpu(domain, vcpu)),
                None => others.threads.contains_key(&tid).then_some(Who::Other(tid)),
            };
            let (waker, woken) = (Some(who(wake.running)?), who(wake.woken)?);
            Some(Wake { time_ns: wake.time_ns, waker, woken })
        };
        let mut wakes: Vec<_> = wakes.iter().filter_map(named).collect();
        let mut segments = vec![];
        for segment in self.segments {
            others.follow(&segment);
            segments.extend(placed(segment));
        }
        for segment in &open {
            others.follow(segment);
        }
        // A switch that was missed is taken to be earlier than what showed it.
        segments.sort_by_key(|segment| segment.end_ns);
        others.runs.sort_by_key(|run| run.end_ns);
        let known_wakes: HashSet<_> = wakes.iter().map(|wake| (wake.time_ns, wake.woken)).collect();
        others.wakes.retain(|wake| !known_wakes.contains(&(wake.time_ns, wake.woken)));
        wakes.extend(others.wakes);
        wakes.sort_by_key(|wake| wake.time_ns);
        Ok(History {
            structure: Structure { host, domains: told }.into(),
            segments,
            open: open.into_iter().filter_map(placed).collect(),
            others: others.runs,
            wakes,
            placements: placements.all,
            known: told_of,
            length_ns,
        })
    }

    /// How threads were held, by what they got.
    fn recognised(
        &self,
        open: &[Segment],
        domains: &[(u32, String, Vec<Ran<'_>>)],
        rest: &[Ran<'_>],
    ) -> Recognised {
        let of_domains = domains.iter().flat_map(|(pid, _, all)| all.iter().map(|ran| (*pid, ran)));
        let held = of_domains.chain(rest.iter().map(|ran| (ran.tid, ran))).map(|(process, ran)| {
            let priority = ran.priority();
            let weight = (priority >= NICE_LEAST).then(|| weight(priority));
            (ran.tid, Held { process, weight })
        });
        recognised(self.segments.iter().chain(open), &held.collect(), self.cpus.len())
    }

    /// How the description has a thread of this process, or else of who made it: a process begins in its parent's
    /// control group and session.
    fn place(
        &self,
        known: &Known<'_>,
        placements: &mut Placements,
        who: Who,
        ran: &Ran<'_>,
        pid: u32,
    ) -> Placement {
        // Numbers are given again: not for ever.
        let parents = iter::successors(ran.thread.parent, |tid| self.threads.get(tid)?.parent);
        let processes = parents.take(MOST_PARENTS).map(|tid| {
            let process = self.threads.get(&tid).and_then(|thread| thread.process);
            process.unwrap_or(tid)
        });
        let thread = (ran.tid, ran.thread.name.as_str(), ran.gotten_ns);
        let processes = iter::once(pid).chain(processes);
        known.place(placements, who, thread, processes, ran.thread.priority)
    }
}

/// How far who made a thread is looked for.
const MOST_PARENTS: usize = 64;

/// Threads of the rest of the host, as their runs and waits are told of in order.
struct Others<'a> {
    threads: HashMap<u32, Other<'a>>,
    runs: Vec<OtherRun>,
    /// That they were woken, by whom is not known.
    wakes: Vec<Wake>,
}

struct Other<'a> {
    ran: &'a Ran<'a>,
    name: Arc<str>,
    /// Until when it ran or waited.
    until_ns: Option<u64>,
    /// Whether it could have gone on since it ran last.
    waited: bool,
}

impl<'a> Others<'a> {
    fn of(rest: &'a [Ran<'a>]) -> Others<'a> {
        let threads = rest.iter().map(|ran| {
            let name = ran.thread.name.as_str().into();
            (ran.tid, Other { ran, name, until_ns: None, waited: false })
        });
        Others { threads: threads.collect(), runs: vec![], wakes: vec![] }
    }

    fn follow(&mut self, segment: &Segment) {
        let Some(other) = self.threads.get_mut(&segment.vcpu) else { return };
        let &Segment { pcpu, start_ns, end_ns, .. } = segment;
        let slept = other.until_ns != Some(start_ns);
        other.until_ns = Some(end_ns);
        let Some(pcpu) = pcpu else {
            other.waited = !slept;
            if slept {
                let woken = Who::Other(segment.vcpu);
                self.wakes.push(Wake { time_ns: start_ns, waker: None, woken });
            }
            return;
        };
        let waited = std::mem::replace(&mut other.waited, true) && !slept;
        let (name, thread) = (other.name.clone(), segment.vcpu);
        let priority = other.ran.thread.priority;
        self.runs.push(OtherRun { name, thread, priority, waited, pcpu, start_ns, end_ns });
    }
}

fn is_virtual_machine(threads: &[Ran<'_>]) -> bool {
    threads.iter().any(|ran| ran.vcpu_number().is_some())
}

/// A thread that ran.
struct Ran<'a> {
    tid: u32,
    thread: &'a Thread,
    gotten_ns: u64,
}

impl Ran<'_> {
    fn vcpu_number(&self) -> Option<u32> {
        qemu::vcpu_number(&self.thread.name)
    }

    fn priority(&self) -> u32 {
        priority::known(self.thread.priority)
    }
}
