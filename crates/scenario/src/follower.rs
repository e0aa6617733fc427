// SPDX-License-Identifier: GPL-2.0-only
//! From the events of a Linux scheduler to who ran and who waited.
//!
//! A recorder misses events now and then (some kernels never report those of the idle thread). A
//! thread that is seen to run without a switch to it began to run when it was last woken or, if that
//! was missed as well, at that very moment. So a lost event makes a wait too short, never too long.

use std::collections::{BTreeMap, HashMap};

use steelyard_boundary::input::{OverBudget, within_memory, within_number};
use steelyard_recording::{Domain, History, Host, Structure, Vcpu, qemu};
use steelyard_simulator::measure::Segment;

/// Threads of a process that are told of at most: the vCPUs that a domain can have.
const MAX_THREADS: usize = 1024;

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
    /// Bytes of all names that were given.
    names: usize,
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
        within_memory(segments + self.threads.len() * thread + self.names)
    }

    /// A thread is of this process.
    pub fn belongs(&mut self, tid: u32, process: u32) {
        self.threads.entry(tid).or_default().process = Some(process);
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
    pub fn wakes(&mut self, tid: u32) {
        let thread = self.threads.entry(tid).or_default();
        if tid != IDLE && thread.state == State::Blocked {
            thread.state = State::Waiting;
            thread.since_ns = self.now_ns;
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

    /// The recording ends. `host` is what recorded it.
    pub fn finish(self, host: &str, source: &str) -> Result<History, OverBudget> {
        let length_ns = self.now_ns;
        let mut open = vec![];
        let mut processes: BTreeMap<u32, Vec<(u32, &Thread)>> = BTreeMap::new();
        for (&tid, thread) in &self.threads {
            let pcpu = match thread.state {
                State::Running(cpu) => Some(cpu as u32),
                State::Waiting | State::Blocked => None,
            };
            if thread.state != State::Blocked && thread.since_ns < length_ns {
                let (start_ns, end_ns) = (thread.since_ns, length_ns);
                open.push(Segment { domain: 0, vcpu: tid, pcpu, start_ns, end_ns });
            }
            if tid != IDLE && (thread.gotten_ns > 0 || pcpu.is_some()) {
                // QEMU's helpers in the kernel are called after its process.
                let helped = thread.name.strip_prefix("vhost-").and_then(|pid| pid.parse().ok());
                let process = helped.or(thread.process).unwrap_or(tid);
                processes.entry(process).or_default().push((tid, thread));
            }
        }
        within_number(processes.values().map(|threads| threads.len().min(MAX_THREADS)).sum())?;
        let mut domains = vec![];
        let mut index_of = HashMap::new();
        for (pid, mut threads) in processes {
            // The threads of its vCPUs come first, then the emulator's, input and output's and the
            // kernel's helpers.
            threads.sort_by_key(|(tid, thread)| {
                (qemu::vcpu_number(&thread.name).unwrap_or(u32::MAX), *tid)
            });
            threads.truncate(MAX_THREADS);
            for (vcpu, &(tid, _)) in (0..).zip(&threads) {
                index_of.insert(tid, (domains.len() as u32, vcpu));
            }
            let name = self.threads.get(&pid).map(|thread| &thread.name);
            let vcpu = |&(tid, thread): &(u32, &Thread)| Vcpu {
                id: tid.into(),
                name: thread.name.clone(),
            };
            domains.push(Domain {
                id: pid.into(),
                name: match name {
                    Some(name) if !name.is_empty() => name.clone(),
                    _ => format!("process-{pid}"),
                },
                weight: 256,
                cap_percent: 0,
                vcpus: threads.iter().map(vcpu).collect(),
            });
        }
        let host = Host {
            name: host.to_owned(),
            source: source.to_owned(),
            pcpus: self.cpus.len() as u32,
            began_unix_ns: None,
            unseen: vec![],
        };
        let placed = |segment: Segment| {
            let &(domain, vcpu) = index_of.get(&segment.vcpu)?;
            Some(Segment { domain, vcpu, ..segment })
        };
        let mut segments: Vec<_> = self.segments.into_iter().filter_map(placed).collect();
        // A switch that was missed is taken to be earlier than what showed it.
        segments.sort_by_key(|segment| segment.end_ns);
        Ok(History {
            structure: Structure { host, domains }.into(),
            segments,
            open: open.into_iter().filter_map(placed).collect(),
            others: vec![],
            length_ns,
        })
    }
}
