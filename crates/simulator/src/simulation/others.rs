// SPDX-License-Identifier: GPL-2.0-only
//! Tasks of the host that are no vCPUs, where they run beside the vCPUs as under `steelyard kvm run`: the mechanism for
//! `policy/engine/others.h`, as `crates/kvm/bpf/others.h` has it in the kernel's queues. Real-time ones are above all
//! others everywhere, as in Linux. Nothing is decided here but where the kernel puts those that come at once: on an idle
//! pCPU (scx_bpf_select_cpu_dfl()), or, of real-time ones, away from one that has another (select_task_rq_rt()).

use std::collections::VecDeque;

use crate::config::{HostTasks, Others as Way, Setup};
use crate::engine::{self, Status};
use crate::numbers::{Number, OfOther, OtherNumber, PcpuNumber, Table, VcpuNumber};
use crate::priority;
use crate::run_queue::RunQueue;
use crate::topology::{LEVELS, Level};

use super::{EPOCH_NS, Simulation};

/// Time that one gets at a time, and from then on up to the next tick: ENGINE_OTHER_SLICE_NS, which the kernel looks at
/// in no other moment (task_tick_scx()). Real-time ones have no end.
const SLICE_NS: u64 = engine::OTHER_SLICE_NS;

/// Such a task. It has a number among the vCPUs, too, of which the engine knows nothing.
pub(super) struct Other {
    engine: engine::Other,
    weight: u64,
    class: Class,
    /// Where it runs or ran last.
    pcpu: PcpuNumber,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    RealTime,
    /// Runs at once when it wakes.
    Kernel,
    Usual,
}

struct Line {
    engine: engine::Line,
    waiting: RunQueue<VcpuNumber>,
}

struct Turns {
    engine: engine::Turns,
    /// Those that come next, whoever runs or waits.
    at_once: VecDeque<VcpuNumber>,
    /// The pCPU is on the way to a choice that the engine did not ask for.
    asked: bool,
}

/// All of them.
#[derive(Default)]
pub(super) struct Others {
    /// The usual ones run beside the vCPUs, too.
    beside: bool,
    tick_ns: u64,
    tasks: Table<OfOther, Other>,
    lines: Vec<Line>,
    /// By pCPU; empty if there are no such tasks.
    turns: Vec<Turns>,
    /// Real-time ones that wait where others of them run.
    real_time: VecDeque<VcpuNumber>,
}

/// Virtual times begin here: those that are behind stay above 0.
const LINE_EPOCH_NS: u64 = 1 << 40;

impl Others {
    pub fn of(setup: &Setup, policy: &steelyard_policy::Policy, pcpus: u32, lines: u32) -> Others {
        let alone = policy.governors().next().is_none();
        let beside = match setup.host.others {
            Some(way) => way == Way::Beside,
            // As in Linux's own scheduler.
            None => !(policy.discipline().name == "fair" && alone),
        };
        let tick_ns = setup.host.tick.0;
        let mut others = Others { beside, tick_ns, ..Others::default() };
        if setup.domains.iter().any(|domain| others.have(domain.host_tasks.as_ref())) {
            let line = || Line {
                engine: engine::Line { time_ns: LINE_EPOCH_NS },
                waiting: RunQueue::default(),
            };
            let turns = || Turns {
                engine: engine::Turns::default(),
                at_once: VecDeque::new(),
                asked: false,
            };
            others.lines = (0..lines).map(|_| line()).collect();
            others.turns = (0..pcpus).map(|_| turns()).collect();
        }
        others
    }

    /// Whether the vCPUs of such a domain are no vCPUs for the engine.
    pub fn have(&self, tasks: Option<&HostTasks>) -> bool {
        tasks.is_some_and(|tasks| self.beside || tasks.is_real_time())
    }

    pub fn add(&mut self, tasks: &HostTasks, pcpu: PcpuNumber) -> OtherNumber {
        let number = self.tasks.next();
        let class = match tasks {
            tasks if tasks.is_real_time() => Class::RealTime,
            tasks if tasks.kernel => Class::Kernel,
            _ => Class::Usual,
        };
        let weight = priority::sched_ext_weight(tasks.priority);
        self.tasks.push(Other { engine: engine::Other::default(), weight, class, pcpu });
        number
    }

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// When the slice is over that begins now: pCPUs tick together, as Linux has it.
    fn slice_end_ns(&self, now_ns: u64) -> u64 {
        let least_ns = now_ns.saturating_add(SLICE_NS);
        least_ns.checked_next_multiple_of(self.tick_ns).unwrap_or(u64::MAX)
    }

    /// The pCPU chooses, whoever asked for that.
    #[inline(always)]
    pub fn answer(&mut self, pcpu: PcpuNumber) {
        if let Some(turns) = self.turns.get_mut(pcpu.0 as usize) {
            turns.asked = false;
        }
    }

    #[inline(always)]
    pub fn asked(&self, pcpu: PcpuNumber) -> bool {
        self.turns.get(pcpu.0 as usize).is_some_and(|turns| turns.asked)
    }
}

impl Simulation {
    fn other_of(&mut self, vcpu: VcpuNumber) -> &mut Other {
        &mut self.others.tasks[self.vcpus[vcpu].other]
    }

    #[inline(always)]
    pub(super) fn is_other(&self, vcpu: VcpuNumber) -> bool {
        !self.others.is_empty() && vcpu != Number::NONE && self.vcpus[vcpu].other != Number::NONE
    }

    fn class(&self, vcpu: VcpuNumber) -> Class {
        self.others.tasks[self.vcpus[vcpu].other].class
    }

    /// Whether a real-time task runs there or is about to.
    fn has_real_time(&self, pcpu: PcpuNumber) -> bool {
        let runs = self.pcpus[pcpu].runs;
        let next = self.others.turns[pcpu.0 as usize].at_once.front();
        let mut there = next.copied().into_iter().chain(self.is_other(runs).then_some(runs));
        there.any(|task| self.class(task) == Class::RealTime)
    }

    fn may_use(&self, vcpu: VcpuNumber, pcpu: PcpuNumber) -> bool {
        self.sets[self.vcpus[vcpu].allowed as usize].contains(pcpu)
    }

    fn line_of(&self, pcpu: PcpuNumber) -> usize {
        (pcpu.0 / self.topology.level_pcpus[Level::Cache as usize]) as usize
    }

    /// The nearest that it may use of which this holds, its own first.
    fn nearest(&self, vcpu: VcpuNumber, holds: impl Fn(PcpuNumber) -> bool) -> Option<PcpuNumber> {
        let own = self.others.tasks[self.vcpus[vcpu].other].pcpu;
        let usable = self.pcpus.numbers().filter(|&pcpu| self.may_use(vcpu, pcpu) && holds(pcpu));
        let distance =
            |pcpu| self.topology.distance(own, pcpu).map_or(LEVELS, |level| level as usize);
        usable.min_by_key(|&pcpu| (pcpu != own, distance(pcpu)))
    }

    /// The pCPU chooses soon.
    #[inline(never)] // Most hosts have none of them.
    fn ask(&mut self, pcpu: PcpuNumber) {
        let turns = &mut self.others.turns[pcpu.0 as usize];
        if !self.pcpus[pcpu].engine.interrupted && !std::mem::replace(&mut turns.asked, true) {
            self.interrupted.push(pcpu);
        }
    }

    // ---- What happens ----

    /// One that slept has work again.
    #[inline(never)] // Most hosts have none of them.
    pub(super) fn other_wakes(&mut self, vcpu: VcpuNumber) {
        self.begin_wait(vcpu);
        self.turn(vcpu, Status::Waiting);
        let own = self.other_of(vcpu).pcpu;
        let idle = self.nearest(vcpu, |pcpu| self.idle.contains(pcpu));
        match (self.class(vcpu), idle) {
            (Class::RealTime, idle) => {
                let free = |pcpu| !self.has_real_time(pcpu);
                let stays = self.may_use(vcpu, own) && free(own);
                let to = stays.then_some(own).or(idle).or_else(|| self.nearest(vcpu, free));
                match to {
                    Some(pcpu) => self.send_at_once(vcpu, pcpu),
                    None => self.others.real_time.push_back(vcpu),
                }
            }
            (_, Some(pcpu)) => self.send_at_once(vcpu, pcpu),
            (Class::Kernel, None) if self.may_use(vcpu, own) => self.send_at_once(vcpu, own),
            (Class::Kernel | Class::Usual, None) => {
                self.join_line(vcpu, own);
                if engine::other_interrupts(&self.pcpus[own].engine) {
                    self.ask(own);
                }
            }
        }
    }

    /// It comes next there.
    fn send_at_once(&mut self, vcpu: VcpuNumber, pcpu: PcpuNumber) {
        // Nobody else is sent to an idle pCPU then.
        if self.pcpus[pcpu].runs == Number::NONE && !self.pcpus[pcpu].engine.occupied {
            self.occupy(pcpu);
        }
        let real_time = self.class(vcpu) == Class::RealTime;
        let at_once = &mut self.others.turns[pcpu.0 as usize].at_once;
        if real_time {
            at_once.push_front(vcpu);
        } else {
            at_once.push_back(vcpu);
        }
        self.ask(pcpu);
    }

    /// The one that runs there has nothing more to do.
    #[inline(never)] // Most hosts have none of them.
    pub(super) fn other_blocks(&mut self, pcpu: PcpuNumber) {
        self.scheduling_events.blocks += 1;
        let vcpu = self.pcpus[pcpu].runs;
        self.stop_other(pcpu, false);
        self.turn(vcpu, Status::Blocked);
        self.ask(pcpu);
    }

    /// The turn there is over: the pCPU chooses again.
    #[inline(always)]
    pub(super) fn turn_ends(&mut self, pcpu: PcpuNumber) {
        if self.is_other(self.pcpus[pcpu].runs) {
            self.ask(pcpu);
        } else {
            self.interrupt(pcpu);
        }
    }

    /// A vCPU that waits would have this pCPU; whether it gets it, now or soon.
    pub(super) fn interrupt_other(&mut self, pcpu: PcpuNumber, now: u64) -> bool {
        if self.others.is_empty() || !self.is_other(self.pcpus[pcpu].runs) {
            return false;
        }
        match self.others.turns[pcpu.0 as usize].engine.yields_at(now) {
            0 => return false,
            at if at <= now => self.ask(pcpu),
            at => {
                let end_ns = &mut self.pcpus[pcpu].slice_end_ns;
                *end_ns = (*end_ns).min(at - EPOCH_NS);
                self.arm(pcpu);
            }
        }
        true
    }

    /// The pCPU chooses among those tasks and the vCPUs.
    #[inline(never)] // Most hosts have none of them.
    pub(super) fn dispatch(&mut self, pcpu: PcpuNumber) {
        let now = self.policy_now();
        let ran = self.pcpus[pcpu].runs;
        let goes_on = self.is_other(ran);
        if goes_on && self.class(ran) == Class::RealTime {
            self.arm(pcpu);
            return;
        }
        if let Some(next) = self.comes_at_once(pcpu) {
            self.run_other(pcpu, next);
            return;
        }
        let line = self.line_of(pcpu);
        let waits = !self.others.lines[line].waiting.is_empty();
        let vcpus_turn_ns = |others: &Others, waits, goes_on| {
            others.turns[pcpu.0 as usize].engine.vcpus_turn_ns(waits, goes_on, now)
        };
        let mut turn_ns = vcpus_turn_ns(&self.others, waits, goes_on);
        if turn_ns == 0 {
            if let Some(next) = self.take_other(line, pcpu) {
                self.run_other(pcpu, next);
                return;
            }
            turn_ns = vcpus_turn_ns(&self.others, false, true);
        }
        // It may choose of its own accord.
        self.end_idle(pcpu);
        let slice_ns = self.choose(pcpu).min(turn_ns);
        if self.pcpus[pcpu].engine.current != Number::NONE {
            self.pcpus[pcpu].slice_end_ns = self.now_ns.saturating_add(slice_ns);
            self.arm(pcpu);
            return;
        }
        let own_first = (line..self.others.lines.len()).chain(0..line);
        let next = own_first.into_iter().find_map(|line| self.take_other(line, pcpu));
        if let Some(next) = next {
            self.run_other(pcpu, next);
        } else if goes_on {
            self.occupy(pcpu);
            self.pcpus[pcpu].slice_end_ns = self.others.slice_end_ns(self.now_ns);
            self.arm(pcpu);
        } else {
            self.falls_asleep(pcpu);
        }
    }

    /// Who comes there whoever waits.
    fn comes_at_once(&mut self, pcpu: PcpuNumber) -> Option<VcpuNumber> {
        if let Some(next) = self.others.turns[pcpu.0 as usize].at_once.pop_front() {
            return Some(next);
        }
        let mut waiting = self.others.real_time.iter();
        let place = waiting.position(|&vcpu| self.may_use(vcpu, pcpu))?;
        self.others.real_time.remove(place)
    }

    // ---- Lines ----

    fn join_line(&mut self, vcpu: VcpuNumber, pcpu: PcpuNumber) {
        let to = self.line_of(pcpu);
        let number = self.vcpus[vcpu].other;
        let Others { tasks, lines, .. } = &mut self.others;
        let other = &mut tasks[number];
        let from = lines[other.engine.line as usize].engine;
        other.engine.join(&from, &lines[to].engine, to as u32, other.weight);
        lines[to].waiting.insert(other.engine.time_ns, vcpu);
    }

    /// The first of the line that may use this pCPU leaves the line.
    fn take_other(&mut self, line: usize, pcpu: PcpuNumber) -> Option<VcpuNumber> {
        let waiting = self.others.lines[line].waiting.waiting();
        let next = waiting.iter().find(|next| self.may_use(next.who, pcpu)).copied()?;
        self.others.lines[line].waiting.remove(next.key, next.who);
        Some(next.who)
    }

    // ---- On and off a pCPU ----

    /// It has this status from now on.
    fn turn(&mut self, vcpu: VcpuNumber, status: Status) {
        if status == Status::Waiting {
            self.begin_beside_idle(vcpu);
        }
        let entry = &mut self.vcpus[vcpu].engine;
        entry.status = status;
        entry.since_ns = self.now_ns + EPOCH_NS;
    }

    /// It runs there, in place of whoever ran.
    fn run_other(&mut self, pcpu: PcpuNumber, vcpu: VcpuNumber) {
        // Before who ran looks for an idle pCPU.
        if !self.pcpus[pcpu].engine.occupied {
            self.occupy(pcpu);
        }
        self.put_back(pcpu);
        self.end_beside_idle(vcpu);
        self.starts(vcpu, pcpu);
        self.turn(vcpu, Status::Running);
        self.vcpus[vcpu].engine.ran_on = pcpu;
        let now = self.policy_now();
        let slice_end_ns = self.others.slice_end_ns(self.now_ns);
        let number = self.vcpus[vcpu].other;
        let Others { tasks, lines, turns, .. } = &mut self.others;
        let other = &mut tasks[number];
        other.pcpu = pcpu;
        self.pcpus[pcpu].slice_end_ns = if other.class == Class::RealTime {
            u64::MAX
        } else {
            let line = &mut lines[other.engine.line as usize].engine;
            let is_kernel = other.class == Class::Kernel;
            turns[pcpu.0 as usize].engine.start(line, &other.engine, is_kernel, now);
            slice_end_ns
        };
        self.arm(pcpu);
    }

    /// Another task than who comes there now has more to do: it waits in the line.
    #[inline(never)] // Most hosts have none of them.
    pub(super) fn put_back(&mut self, pcpu: PcpuNumber) {
        let vcpu = self.pcpus[pcpu].runs;
        if !self.is_other(vcpu) {
            return;
        }
        self.stop_other(pcpu, true);
        self.turn(vcpu, Status::Waiting);
        self.join_line(vcpu, pcpu);
        if let Some(idle) = self.nearest(vcpu, |pcpu| self.idle.contains(pcpu)) {
            self.ask(idle);
        }
    }

    /// The one that runs there no longer does.
    fn stop_other(&mut self, pcpu: PcpuNumber, preempted: bool) {
        let vcpu = self.pcpus[pcpu].runs;
        self.stops(vcpu, pcpu, preempted);
        let now = self.policy_now();
        let number = self.vcpus[vcpu].other;
        let Others { tasks, turns, .. } = &mut self.others;
        let Other { engine, weight, class, .. } = &mut tasks[number];
        if *class != Class::RealTime {
            turns[pcpu.0 as usize].engine.stop(engine, *weight, now);
        }
    }
}
