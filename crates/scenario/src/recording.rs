// SPDX-License-Identifier: GPL-2.0-only
//! What a recorded Linux kernel did, from its scheduler's events: how long each thread ran, slept
//! and waited, and in which bursts.
//!
//! A recorder misses events now and then (some kernels never report those of the idle thread). A
//! thread that is seen to run without a switch to it began to run when it was last woken or, if that
//! was missed as well, at that very moment. So a lost event makes a wait too short, never too long.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use steelyard_simulator::config::{Domain, Setup};
use steelyard_simulator::measure::{
    DomainMeasure, Events, PcpuMeasure, Ran, Run, TimeMeasure, VcpuMeasure,
};
use steelyard_simulator::workload::{Burst, ReplayThread, Workload};
use steelyard_simulator::{Usable, WaitRecorder, entitle};

/// Threads of a process that are replayed at most: the vCPUs that a domain can have.
const MAX_THREADS: usize = 1024;

/// A whole recording.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    /// From the first event to the last.
    pub elapsed_ns: u64,
    /// By number.
    pub pcpus: Vec<PcpuMeasure>,
    /// Processes that ran, by number.
    pub processes: BTreeMap<u32, Process>,
    /// Events that say nothing about scheduling or were not needed.
    pub skipped: u64,
    events: Events,
}

/// A process and those of its threads that ran.
#[derive(Debug)]
pub(crate) struct Process {
    /// Name of its first thread.
    pub name: String,
    /// Threads in the order of the vCPUs that they become.
    pub threads: Vec<RecordedThread>,
    /// What the threads did, in the same order.
    pub replay: Vec<Arc<ReplayThread>>,
    /// How many of the threads, the first ones, are vCPUs of a virtual machine.
    pub vcpus: usize,
}

/// What a thread got.
#[derive(Debug)]
pub(crate) struct RecordedThread {
    tid: u32,
    time: TimeMeasure,
    waits_ns: Vec<u64>,
    worst: Wait,
}

#[derive(Clone, Debug, Default)]
struct Wait {
    start_ns: u64,
    length_ns: u64,
    /// Threads that ran meanwhile, longest first.
    ran: Vec<(u32, u64)>,
}

impl Process {
    /// CPU time of all its threads.
    pub fn gotten_ns(&self) -> u64 {
        self.threads.iter().map(|thread| thread.time.gotten_ns).sum()
    }
}

impl Recording {
    /// The recorded kernel's figures for the domains that replay this recording; none if none does.
    pub fn measure(&self, setup: &Setup) -> Option<Run> {
        let replayed = |domain: &Domain| {
            domain.task.iter().find_map(|task| match &task.workload {
                Workload::Replay(replay) => self.processes.get(&replay.process),
                _ => None,
            })
        };
        let mut names = HashMap::new();
        for domain in &setup.domains {
            for (vcpu, thread) in replayed(domain).iter().flat_map(|p| p.threads.iter().enumerate())
            {
                names.entry(thread.tid).or_insert((domain.name.clone(), vcpu as u32));
            }
        }
        // Who is not in the scenario appears under its own name.
        for (pid, process) in &self.processes {
            for (index, thread) in process.threads.iter().enumerate() {
                let name = || (format!("{}-{pid}", process.name), index as u32);
                names.entry(thread.tid).or_insert_with(name);
            }
        }
        let (mut domains, mut usable) = (vec![], vec![]);
        for domain in &setup.domains {
            let Some(process) = replayed(domain) else { continue };
            domains.push(self.measure_domain(domain, process, &names));
            usable.push(Usable { percent: 100.0 * f64::from(domain.vcpus), pcpus: None });
        }
        if domains.is_empty() {
            return None;
        }
        let fairness = entitle(&mut domains, &usable, self.pcpus.len() as u32);
        Some(Run {
            policy: "recorded".to_owned(),
            seed: 0,
            elapsed_ns: self.elapsed_ns,
            events: self.events,
            fairness,
            pcpus: self.pcpus.clone(),
            domains,
        })
    }

    fn measure_domain(
        &self,
        domain: &Domain,
        process: &Process,
        names: &HashMap<u32, (String, u32)>,
    ) -> DomainMeasure {
        let mut all = WaitRecorder::default();
        let mut total = TimeMeasure::default();
        let mut vcpus = vec![];
        for (index, thread) in process.threads.iter().take(domain.vcpus as usize).enumerate() {
            let mut waits = WaitRecorder::default();
            for &wait_ns in &thread.waits_ns {
                let _ = waits.record(wait_ns);
            }
            let Wait { start_ns, length_ns, ran } = &thread.worst;
            let ran = ran.iter().map(|&(tid, ran_ns)| {
                let (domain, vcpu) =
                    names.get(&tid).cloned().unwrap_or_else(|| (format!("thread {tid}"), 0));
                Ran { domain, vcpu, ran_ns }
            });
            if *length_ns > 0 {
                waits.set_worst(index as u32, *start_ns, *length_ns, ran.collect());
            }
            all.add(&waits);
            let time = TimeMeasure { waits: waits.measure(), ..thread.time.clone() };
            total.add_sums(&time);
            vcpus.push(VcpuMeasure { time });
        }
        total.waits = all.measure();
        DomainMeasure {
            name: domain.name.clone(),
            weight: domain.weight,
            cap_percent: domain.cap_percent,
            share_percent: 100.0 * total.gotten_ns as f64 / self.elapsed_ns.max(1) as f64,
            entitlement_percent: 0.0,
            time: total,
            vcpus,
            tasks: vec![],
        }
    }
}

/// The number of the idle threads.
const IDLE: u32 = 0;

/// Follows the kernel, event by event.
#[derive(Debug, Default)]
pub(crate) struct Follower {
    now_ns: u64,
    cpus: Vec<Cpu>,
    threads: BTreeMap<u32, Thread>,
    events: Events,
}

#[derive(Debug, Default)]
struct Cpu {
    running: Option<u32>,
    /// When that began, or when the CPU went idle.
    since_ns: u64,
    /// Whether there was an event of this CPU.
    seen: bool,
    switches: u64,
    ran_ns: u64,
    /// Who ran, with beginning and end, to say who ran while another waited.
    runs: Vec<(u32, u64, u64)>,
}

#[derive(Debug, Default)]
struct Thread {
    name: String,
    process: Option<u32>,
    state: State,
    since_ns: u64,
    /// Queues in which it has been waiting, and from when on.
    queues: Vec<(usize, u64)>,
    last_cpu: Option<usize>,
    time: TimeMeasure,
    waits_ns: Vec<u64>,
    worst: Wait,
    replay: ReplayThread,
    burst_ns: u64,
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
            name.clone_into(&mut thread.name);
        }
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

    /// A thread became runnable and is put into the queue of this CPU.
    pub fn wakes(&mut self, tid: u32, cpu: usize) {
        let now_ns = self.now_ns;
        self.cpu(cpu);
        let thread = self.threads.entry(tid).or_default();
        if tid == IDLE || thread.state != State::Blocked {
            return;
        }
        thread.time.blocked_ns += now_ns - thread.since_ns;
        thread.end_burst(now_ns - thread.since_ns);
        thread.state = State::Waiting;
        thread.since_ns = now_ns;
        thread.queues.clear();
        thread.queues.push((cpu, now_ns));
        self.events.wakes += 1;
    }

    /// A thread moves to the queue of this CPU.
    pub fn migrates(&mut self, tid: u32, cpu: usize) {
        let now_ns = self.now_ns;
        self.cpu(cpu);
        if let Some(thread) = self.threads.get_mut(&tid) {
            if thread.state == State::Waiting {
                thread.queues.push((cpu, now_ns));
            }
        }
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
        self.wakes(tid, cpu); // if that was missed
        let now_ns = self.now_ns;
        let thread = self.threads.entry(tid).or_default();
        let wait_ns = now_ns - thread.since_ns;
        thread.end_wait(tid, now_ns, &self.cpus);
        thread.waits_ns.push(wait_ns);
        thread.time.switches += 1;
        thread.time.migrations += u64::from(thread.last_cpu.is_some_and(|last| last != cpu));
        thread.last_cpu = Some(cpu);
        thread.state = State::Running(cpu);
        thread.since_ns = now_ns;
        let cpu = &mut self.cpus[cpu];
        cpu.running = Some(tid);
        cpu.since_ns = now_ns;
        cpu.seen = true;
        cpu.switches += 1;
        self.events.switches += 1;
    }

    fn leave(&mut self, tid: u32, cpu: usize, runnable: bool) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        // A missed switch may have been taken to be later than this.
        let now_ns = self.now_ns.max(thread.since_ns);
        let ran_ns = now_ns - thread.since_ns;
        thread.time.gotten_ns += ran_ns;
        thread.burst_ns += ran_ns;
        thread.since_ns = now_ns;
        thread.queues.clear();
        if runnable {
            thread.time.preemptions += 1;
            thread.state = State::Waiting;
            thread.queues.push((cpu, now_ns));
        } else {
            thread.state = State::Blocked;
            self.events.blocks += 1;
        }
        let cpu = &mut self.cpus[cpu];
        if ran_ns > 0 {
            cpu.runs.push((tid, now_ns - ran_ns, now_ns));
        }
        cpu.ran_ns += ran_ns;
        cpu.running = None;
        cpu.since_ns = now_ns;
    }

    /// The recording ends.
    pub fn finish(mut self, skipped: u64) -> Recording {
        let end_ns = self.now_ns;
        for index in 0..self.cpus.len() {
            if let Some(running) = self.cpus[index].running {
                let thread = self.threads.entry(running).or_default();
                let ran_ns = end_ns - thread.since_ns;
                thread.time.gotten_ns += ran_ns;
                thread.burst_ns += ran_ns;
                self.cpus[index].ran_ns += ran_ns;
            }
        }
        let mut processes: BTreeMap<u32, Vec<(u32, Thread)>> = BTreeMap::new();
        let names: HashMap<u32, String> =
            self.threads.iter().map(|(&tid, thread)| (tid, thread.name.clone())).collect();
        for (tid, mut thread) in std::mem::take(&mut self.threads) {
            let mut sleep_ns = 0;
            match thread.state {
                State::Running(_) => {}
                State::Waiting => thread.end_wait(tid, end_ns, &self.cpus),
                State::Blocked => {
                    sleep_ns = end_ns - thread.since_ns;
                    thread.time.blocked_ns += sleep_ns;
                }
            }
            // From its last sleep it goes on to its first, so that a repetition takes as long.
            thread.end_burst(sleep_ns + thread.replay.first_wake_ns);
            if tid != IDLE && thread.time.gotten_ns > 0 {
                // QEMU's helpers in the kernel are called after its process.
                let helped = thread.name.strip_prefix("vhost-").and_then(|pid| pid.parse().ok());
                let process = helped.or(thread.process).unwrap_or(tid);
                processes.entry(process).or_default().push((tid, thread));
            }
        }
        let pcpus = self.cpus.iter().map(|cpu| PcpuMeasure {
            idle_ns: end_ns.saturating_sub(cpu.ran_ns),
            switches: cpu.switches,
        });
        Recording {
            elapsed_ns: end_ns,
            pcpus: pcpus.collect(),
            processes: processes
                .into_iter()
                .map(|(pid, threads)| (pid, Process::new(pid, names.get(&pid), threads)))
                .collect(),
            skipped,
            events: self.events,
        }
    }
}

impl Thread {
    /// It sleeps for so long after what it ran.
    fn end_burst(&mut self, sleep_ns: u64) {
        if self.burst_ns > 0 {
            self.replay.bursts.push(Burst { run_ns: self.burst_ns, sleep_ns });
        } else if let Some(last) = self.replay.bursts.last_mut() {
            last.sleep_ns += sleep_ns;
        } else {
            self.replay.first_wake_ns += sleep_ns;
        }
        self.burst_ns = 0;
    }

    /// It need not wait any longer.
    fn end_wait(&mut self, own_tid: u32, now_ns: u64, cpus: &[Cpu]) {
        let length_ns = now_ns - self.since_ns;
        self.time.waited_ns += length_ns;
        if length_ns <= self.worst.length_ns {
            return;
        }
        let mut ran: BTreeMap<u32, u64> = BTreeMap::new();
        let ends = self.queues.iter().skip(1).map(|&(_, start_ns)| start_ns).chain([now_ns]);
        for (&(cpu, from_ns), to_ns) in self.queues.iter().zip(ends) {
            let cpu = &cpus[cpu];
            let running = cpu.running.map(|tid| (tid, cpu.since_ns, now_ns));
            let past = cpu.runs.iter().rev().take_while(|&&(_, _, end_ns)| end_ns > from_ns);
            for (tid, start_ns, end_ns) in past.copied().chain(running) {
                let ran_ns = end_ns.min(to_ns).saturating_sub(start_ns.max(from_ns));
                if ran_ns > 0 && tid != own_tid {
                    *ran.entry(tid).or_default() += ran_ns;
                }
            }
        }
        let mut ran: Vec<_> = ran.into_iter().collect();
        ran.sort_by_key(|&(_, ran_ns)| std::cmp::Reverse(ran_ns));
        self.worst = Wait { start_ns: self.since_ns, length_ns, ran };
    }
}

impl Process {
    fn new(pid: u32, name: Option<&String>, mut threads: Vec<(u32, Thread)>) -> Process {
        // QEMU calls the threads of its vCPUs `CPU 0/KVM` or `CPU 0/TCG`. They come first, then the
        // emulator's, input and output's and the kernel's helpers.
        let number = |name: &str| -> Option<u32> {
            let (number, kind) = name.strip_prefix("CPU ")?.split_once('/')?;
            matches!(kind, "KVM" | "TCG").then(|| number.parse().ok())?
        };
        threads.sort_by_key(|(tid, thread)| (number(&thread.name).unwrap_or(u32::MAX), *tid));
        threads.truncate(MAX_THREADS);
        let name = match name {
            Some(name) if !name.is_empty() => name.clone(),
            _ => format!("process-{pid}"),
        };
        let replay =
            threads.iter_mut().map(|(_, thread)| Arc::new(std::mem::take(&mut thread.replay)));
        Process {
            name,
            replay: replay.collect(),
            vcpus: threads.iter().filter(|(_, thread)| number(&thread.name).is_some()).count(),
            threads: threads
                .into_iter()
                .map(|(tid, thread)| RecordedThread {
                    tid,
                    time: thread.time,
                    waits_ns: thread.waits_ns,
                    worst: thread.worst,
                })
                .collect(),
        }
    }
}
