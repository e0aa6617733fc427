// SPDX-License-Identifier: GPL-2.0-only
//! The guest kernels: each schedules its threads on its vCPUs, as a small fair scheduler does.
//! A domain has one queue of ready threads, ordered by the CPU time that they have had; a thread
//! that wakes takes a vCPU with nothing to do, or preempts one that had much more. A guest does not
//! know whether a vCPU of its own has a pCPU: a thread on a preempted vCPU stays there.

use std::collections::VecDeque;

use crate::config::{self, GuestClock, GuestLocks};
use crate::engine::Status;
use crate::numbers::{DomainNumber, Number, PcpuNumber, TaskNumber, ThreadNumber, VcpuNumber};
use crate::run_queue::RunQueue;
use crate::workload::{Guest, Step};

use super::io::Request;
use super::{Domain, FULL_SPEED, Simulation, Thread, Vcpu};

/// How much CPU time a sleeper may have missed and still catch up, and how far behind a thread must
/// be to preempt when it wakes: Linux's defaults on one CPU.
const SLEEPER_CREDIT_NS: u64 = 3_000_000;
const WAKEUP_GRANULARITY_NS: u64 = 1_000_000;
/// For how long a guest with paravirtual locks spins before it halts: 2^15 times (SPIN_THRESHOLD of Linux), a PAUSE of 10
/// cycles and 2 more of the loop each, at 3.4 GHz. Since Skylake a PAUSE takes 140 cycles, and the same loop 1.4 ms.
const PARAVIRTUAL_SPIN_NS: u64 = 115_000;
/// Steps without CPU time that a thread may take in a row: then a program is taken to be stuck in a
/// loop, and each further step costs a moment.
const FREE_STEPS: u32 = 100_000;

pub(super) struct GuestKernel {
    slice_ns: u64,
    clock: GuestClock,
    locks: GuestLocks,
    /// Threads that wait for a vCPU, by virtual run time.
    ready: RunQueue<ThreadNumber>,
    /// Since when there is none, if there is none.
    emptied_ns: u64,
    /// The virtual run time of who was picked last; never goes back.
    least_ns: u64,
}

impl GuestKernel {
    pub fn new(config: &config::Domain) -> Self {
        GuestKernel {
            slice_ns: config.guest_slice.0.max(1),
            clock: config.guest_clock,
            locks: config.guest_locks,
            ready: RunQueue::default(),
            emptied_ns: 0,
            least_ns: 0,
        }
    }
}

/// Whether a thread has the spin lock that it wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    Not,
    /// It goes on with it as soon as it has CPU time.
    Got,
    Has,
}

/// The thread that holds it and those that want it, first come first.
pub(super) struct SpinLock {
    holder: ThreadNumber,
    waiters: VecDeque<ThreadNumber>,
}

impl Default for SpinLock {
    fn default() -> Self {
        SpinLock { holder: Number::NONE, waiters: VecDeque::new() }
    }
}

/// What there is to take, or those that wait for it.
pub(super) struct Semaphore {
    count: u32,
    waiters: VecDeque<ThreadNumber>,
}

impl Semaphore {
    pub fn new(count: u32) -> Self {
        Semaphore { count, waiters: VecDeque::new() }
    }
}

impl Thread {
    /// Whether its vCPU is in the guest's kernel. No other thread takes the vCPU then.
    pub fn in_kernel(&self) -> bool {
        self.kernel || self.spins || self.held != Held::Not
    }

    /// It goes on with the lock that it has got. Whether that takes time.
    fn begin_to_hold(&mut self, now_ns: u64) -> bool {
        self.held = Held::Has;
        self.acquired_ns = now_ns;
        self.kernel = true;
        self.left_ns = self.hold_ns;
        self.left_ns > 0
    }

    /// It had so much CPU time: how many of the steps that it repeats ended. `now_too`: one that ends now has ended.
    #[inline(always)]
    fn compute(&mut self, ran_ns: u64, now_too: bool) -> u64 {
        if ran_ns < self.left_ns || self.repeat_ns == 0 {
            self.left_ns = self.left_ns.saturating_sub(ran_ns);
            return 0;
        }
        let over_ns = ran_ns - self.left_ns;
        let before = over_ns.div_ceil(self.repeat_ns);
        let now = now_too && over_ns.is_multiple_of(self.repeat_ns);
        let ends = before + u64::from(now);
        self.left_ns = self.left_ns + ends * self.repeat_ns - ran_ns;
        ends
    }

    /// When the last of the steps that it repeats ends before `time_ns`, if the present one ends at `end_ns`.
    #[inline(always)]
    fn last_end_ns(&self, end_ns: u64, time_ns: u64) -> Option<u64> {
        if self.repeat_ns == 0 || end_ns >= time_ns {
            return None;
        }
        Some(time_ns - 1 - (time_ns - 1 - end_ns) % self.repeat_ns)
    }
}

/// Of a thread of a recording.
#[derive(Clone, Copy)]
pub(super) struct Causes {
    /// How many wakes its work has caused.
    wakes: u64,
    /// It sleeps until that has happened.
    awaited: Option<Awaited>,
    /// Those that await a part of its work: the first of them, and who comes after this one where it is among them.
    first_awaiting: ThreadNumber,
    next_awaiting: ThreadNumber,
    /// Of what it works on next nobody awaits more than that.
    most_work_ns: u64,
    /// What follows on the part of its work that somebody awaits.
    rest_ns: u64,
}

impl Default for Causes {
    fn default() -> Self {
        let nobody = Number::NONE;
        Causes {
            wakes: 0,
            awaited: None,
            first_awaiting: nobody,
            next_awaiting: nobody,
            most_work_ns: u64::MAX,
            rest_ns: 0,
        }
    }
}

/// That thread's work has caused so many wakes, or it has worked for so long since, if that is enough.
#[derive(Clone, Copy)]
struct Awaited {
    waker: ThreadNumber,
    wakes: u64,
    work_ns: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThreadStatus {
    /// Waits for a timer, a packet, the disk or another's work.
    Asleep,
    /// In the guest's queue.
    Ready,
    /// On a vCPU.
    Current,
    Ended,
}

/// When the guest has something to do on this running vCPU, if its thread has so much to do before. The progress is that
/// of now.
#[inline]
pub(super) fn look_ns(now_ns: u64, vcpu: &Vcpu, domain: &Domain, mut left_ns: u64) -> u64 {
    if !domain.guest.ready.is_empty() {
        left_ns = left_ns.min(vcpu.guest_left_ns);
    }
    now_ns.saturating_add(vcpu.debt_ns).saturating_add(left_ns)
}

impl Vcpu {
    /// How long so much work takes at this speed.
    fn time_for(&self, work_ns: u64, speed_percent: u32) -> u64 {
        let hundredths = work_ns.saturating_mul(100).saturating_sub(self.worked.into());
        hundredths.div_ceil(speed_percent.into())
    }

    /// The whole ns of work that so much time is at this speed; the rest counts the next time.
    #[cold]
    fn work_in(&mut self, time_ns: u64, speed_percent: u32) -> u64 {
        let hundredths =
            time_ns.saturating_mul(speed_percent.into()).saturating_add(self.worked.into());
        self.worked = (hundredths % 100) as u32;
        hundredths / 100
    }

    /// It had a pCPU of this speed for so long, and this thread was on it: how many of the steps that it repeats ended.
    #[inline(always)]
    fn ran(
        &mut self,
        thread: &mut Thread,
        elapsed_ns: u64,
        speed_percent: u32,
        now_too: bool,
    ) -> u64 {
        // What is owed to the machinery comes first.
        let mut ran_ns = elapsed_ns;
        if self.debt_ns > 0 {
            let paid_ns = self.debt_ns.min(elapsed_ns);
            self.debt_ns -= paid_ns;
            self.times.overhead_ns += paid_ns;
            ran_ns -= paid_ns;
            if self.debt_ns > 0 {
                return 0;
            }
        }
        self.guest_left_ns = self.guest_left_ns.saturating_sub(ran_ns);
        thread.vruntime_ns += ran_ns;
        if thread.spins {
            self.times.spun_ns += ran_ns;
        }
        if speed_percent != FULL_SPEED {
            ran_ns = self.work_in(ran_ns, speed_percent);
        }
        thread.compute(ran_ns, now_too)
    }
}

impl Simulation {
    /// Works out what the guest on this pCPU did up to now.
    #[inline(always)]
    pub(super) fn progress(&mut self, pcpu: PcpuNumber) {
        let entry = &mut self.pcpus[pcpu];
        let elapsed_ns = self.now_ns - std::mem::replace(&mut entry.progress_ns, self.now_ns);
        if entry.runs == Number::NONE {
            return;
        }
        let speed_percent = entry.speed_percent;
        let vcpu = &mut self.vcpus[entry.runs];
        let number = vcpu.thread;
        let thread = &mut self.threads[number];
        // It was worked out before, and no step can end in no time.
        if elapsed_ns == 0 && thread.left_ns > 0 {
            return;
        }
        // A step that ends now comes before what happens now if its timer would have been set before.
        let set_ns = vcpu.since_ns().max(self.now_ns.saturating_sub(thread.repeat_ns));
        let ends = vcpu.ran(thread, elapsed_ns, speed_percent, set_ns < self.fired_set_ns);
        if ends > 0 {
            self.repeated(number, ends);
        }
    }

    /// So many steps that the thread repeats have ended by now.
    fn repeated(&mut self, thread: ThreadNumber, ends: u64) {
        self.guest_steps += ends;
        let thread = &mut self.threads[thread];
        thread.ended_ns = self.now_ns - (thread.repeat_ns - thread.left_ns);
        self.tasks[thread.task].program.repeated(thread.index, ends, thread.ended_ns);
    }

    /// Whether a step that the thread repeats has ended since no other one of its guest is ready.
    fn has_seen_nobody(&self, thread: ThreadNumber) -> bool {
        let thread = &self.threads[thread];
        let guest = &self.domains[thread.domain].guest;
        thread.repeat_ns > 0 && guest.ready.is_empty() && thread.ended_ns > guest.emptied_ns
    }

    /// Lets the pCPU be looked at when its slice ends or its guest has something to do. The
    /// progress is that of now.
    #[inline(always)]
    pub(super) fn arm(&mut self, pcpu: PcpuNumber) {
        let entry = &self.pcpus[pcpu];
        let vcpu = &self.vcpus[entry.runs];
        let domain = &self.domains[vcpu.engine.domain];
        let thread = &self.threads[vcpu.thread];
        if entry.speed_percent != FULL_SPEED {
            return self.arm_slowed(pcpu);
        }
        // Steps that are repeated are worked out later.
        let left_ns = if thread.repeat_ns > 0 { u64::MAX } else { thread.left_ns };
        let time_ns = entry.slice_end_ns.min(look_ns(self.now_ns, vcpu, domain, left_ns));
        // Whether steps are repeated or taken one by one, the same happens in the same order.
        let end_ns = self.now_ns.saturating_add(vcpu.debt_ns).saturating_add(thread.left_ns);
        let set_ns = thread.last_end_ns(end_ns, time_ns).unwrap_or(self.now_ns);
        self.timers.set_as_of(pcpu.0, time_ns, set_ns);
    }

    /// The same where the sibling's work slows this one's: steps are taken one by one.
    #[cold]
    fn arm_slowed(&mut self, pcpu: PcpuNumber) {
        let entry = &self.pcpus[pcpu];
        let vcpu = &self.vcpus[entry.runs];
        let left_ns = vcpu.time_for(self.threads[vcpu.thread].left_ns, entry.speed_percent);
        let domain = &self.domains[vcpu.engine.domain];
        let look_ns = look_ns(self.now_ns, vcpu, domain, left_ns);
        self.timers.set(pcpu.0, entry.slice_end_ns.min(look_ns));
    }

    /// The time has come for which [`Simulation::arm`] set the timer.
    pub(super) fn pcpu_event(&mut self, pcpu: PcpuNumber) {
        // As [`Simulation::progress`] does, and then on with the same vCPU and thread.
        let entry = &mut self.pcpus[pcpu];
        let elapsed_ns = self.now_ns - std::mem::replace(&mut entry.progress_ns, self.now_ns);
        let current = entry.runs;
        if current == Number::NONE {
            self.wakes_up(pcpu);
            return;
        }
        let speed_percent = entry.speed_percent;
        let slice_ends = entry.slice_end_ns <= self.now_ns;
        let vcpu = &mut self.vcpus[current];
        let number = vcpu.thread;
        let thread = &mut self.threads[number];
        let ends = vcpu.ran(thread, elapsed_ns, speed_percent, true);
        let pays = vcpu.debt_ns > 0;
        let (computes, spins) = (thread.left_ns > 0, thread.spins);
        // A step that ends now comes before the turn that ends now, and one that ended since has seen that nobody is
        // ready any more.
        let begins = ends > 0 && thread.left_ns == thread.repeat_ns;
        let turn_ends = vcpu.guest_left_ns == 0 && !begins;
        if ends > 0 {
            self.repeated(number, ends);
        }
        let turn_ends = turn_ends && (slice_ends || !self.has_seen_nobody(number));
        if slice_ends {
            self.scheduling_events.slice_ends += 1;
            self.turn_ends(pcpu);
        }
        if !pays && (!computes || turn_ends) {
            self.guest_steps += 1;
            if computes {
                self.rotate(current, 0);
            } else if spins {
                self.pause_loop_exit(pcpu);
            } else {
                self.advance(pcpu, current);
            }
        }
        // Interrupted pCPUs choose when the event is over, and are armed then.
        let entry = &self.pcpus[pcpu];
        if entry.runs != Number::NONE && !entry.engine.interrupted && !self.others.asked(pcpu) {
            self.arm(pcpu);
        }
    }

    /// The vCPU starts on the pCPU: the guest sees what has happened meanwhile.
    #[inline]
    pub(super) fn guest_start(&mut self, vcpu: VcpuNumber) {
        let entry = &mut self.vcpus[vcpu];
        let guest = &self.domains[entry.engine.domain].guest;
        if guest.clock == GuestClock::Wall && !entry.engine.woken {
            let stolen_ns = self.now_ns - entry.left_ns;
            entry.guest_left_ns = entry.guest_left_ns.saturating_sub(stolen_ns);
            self.threads[entry.thread].vruntime_ns += stolen_ns;
        }
        if !guest.ready.is_empty() {
            self.rotate(vcpu, WAKEUP_GRANULARITY_NS);
        }
        let thread = self.vcpus[vcpu].thread;
        let entry = &self.threads[thread];
        self.vcpus[vcpu].pause_window_ns = self.costs.pause_loop_window.0.max(1);
        if entry.spins {
            self.go_on_spinning(thread);
        }
    }

    // ---- Threads ----

    /// The thread on the pCPU and vCPU has done its step: it takes the next ones up to one that needs time.
    #[inline]
    fn advance(&mut self, pcpu: PcpuNumber, vcpu: VcpuNumber) {
        let mut steps = 0;
        loop {
            let thread = self.vcpus[vcpu].thread;
            let entry = &mut self.threads[thread];
            if entry.left_ns > 0 || entry.repeat_ns > 0 {
                return;
            }
            if self.causes.len() > 0 && self.end_of_work(thread) {
                return;
            }
            let entry = &mut self.threads[thread];
            steps += 1;
            if steps > FREE_STEPS {
                entry.left_ns = 1_000;
                return;
            }
            let (domain, task) = (entry.domain, entry.task);
            if entry.received.is_some() {
                self.taken(thread);
            }
            match self.threads[thread].held {
                Held::Not => {}
                Held::Got => {
                    if self.threads[thread].begin_to_hold(self.now_ns) {
                        return;
                    }
                    continue;
                }
                Held::Has => self.release_lock(thread),
            }
            if self.threads[thread].request.steps > 0 {
                // Before the request: who works it off may be a thread of this guest.
                self.threads[thread].status = ThreadStatus::Asleep;
                self.exit(vcpu);
                self.request(task, thread);
                self.leave_vcpu(pcpu);
                if self.pcpus[pcpu].runs == Number::NONE {
                    return;
                }
                continue;
            }
            let reads_stat = self.tasks[task].reads_stat;
            let busy_ns = if reads_stat { self.busy_ns(domain) } else { 0 };
            let entry = &mut self.threads[thread];
            let task = &mut self.tasks[entry.task];
            let mut guest = Guest {
                now_ns: self.now_ns,
                busy_ns,
                ready_ns: std::mem::replace(&mut entry.ready_ns, u64::MAX).min(self.now_ns),
                random: &mut entry.random,
                received: &mut entry.received,
                acquired_ns: entry.acquired_ns,
            };
            let sleeps = match task.program.next(entry.index, &mut guest) {
                step @ (Step::Compute(ns) | Step::Repeat(ns)) => {
                    let repeats = matches!(step, Step::Repeat(_)) && !self.single_steps;
                    entry.repeat_ns = if repeats { ns } else { 0 };
                    entry.ended_ns = self.now_ns;
                    entry.left_ns = ns;
                    entry.kernel = false;
                    if self.causes.len() > 0 {
                        self.cut(thread);
                    }
                    let entry = &mut self.threads[thread];
                    if entry.resched && !entry.in_kernel() {
                        self.rotate(vcpu, 0);
                    } else if ns > 0 {
                        return;
                    }
                    false
                }
                Step::Kernel(ns) => {
                    entry.left_ns = ns;
                    entry.kernel = true;
                    if ns > 0 {
                        return;
                    }
                    false
                }
                Step::Sleep(ns) => {
                    let wake_ns = self.now_ns.saturating_add(ns.max(1));
                    self.timers.set(self.timer_base.thread + thread.0, wake_ns);
                    true
                }
                Step::Receive => {
                    entry.received = task.inbox.pop_front();
                    if entry.received.is_none() {
                        task.receivers.push_back(thread);
                    }
                    entry.received.is_none()
                }
                Step::Send(packet) => {
                    let task = entry.task;
                    self.exit(vcpu);
                    self.send(task, packet);
                    false
                }
                Step::Disk(bytes) => {
                    entry.request = Request { steps: 1 + self.io.accesses(), bytes };
                    false
                }
                Step::Hold { lock: number, ns } => {
                    let lock = &mut task.locks[number as usize];
                    (entry.lock, entry.hold_ns) = (number, ns);
                    if lock.holder == Number::NONE {
                        lock.holder = thread;
                        entry.held = Held::Got;
                    } else {
                        entry.next_in_line = lock.waiters.is_empty();
                        lock.waiters.push_back(thread);
                        entry.spins = true;
                        entry.spun_ns = 0;
                        entry.left_ns = self.vcpus[vcpu].pause_window_ns;
                    }
                    false
                }
                Step::Wait(number) => {
                    let semaphore = &mut task.semaphores[number as usize];
                    let sleeps = semaphore.count == 0;
                    if sleeps {
                        semaphore.waiters.push_back(thread);
                    } else {
                        semaphore.count -= 1;
                    }
                    sleeps
                }
                Step::Signal(number) => {
                    let semaphore = &mut task.semaphores[number as usize];
                    match semaphore.waiters.pop_front() {
                        Some(waiter) => self.thread_wake(waiter),
                        None => semaphore.count += 1,
                    }
                    false
                }
                Step::Cause(woken) => {
                    self.cause(thread, woken);
                    false
                }
                Step::Await { waker, wakes, work_ns } => {
                    self.awaits(thread, Awaited { waker, wakes, work_ns })
                }
                Step::Deliver(packet) => {
                    self.deliver(packet);
                    false
                }
                Step::End => {
                    entry.status = ThreadStatus::Ended;
                    self.leave_vcpu(pcpu);
                    if self.pcpus[pcpu].runs == Number::NONE {
                        return;
                    }
                    continue;
                }
            };
            if sleeps {
                self.threads[thread].status = ThreadStatus::Asleep;
                self.leave_vcpu(pcpu);
                if self.pcpus[pcpu].runs == Number::NONE {
                    return;
                }
            }
        }
    }

    /// CPU time of the domain's vCPUs up to now.
    fn busy_ns(&self, domain: DomainNumber) -> u64 {
        let gotten = |vcpu| {
            let entry = &self.vcpus[vcpu];
            let runs = entry.engine.status == Status::Running;
            entry.times.gotten_ns + if runs { self.now_ns - entry.since_ns() } else { 0 }
        };
        self.domains[domain].vcpus().map(gotten).sum()
    }

    /// The thread on the pCPU's vCPU has left it: another comes, or the vCPU blocks.
    fn leave_vcpu(&mut self, pcpu: PcpuNumber) {
        let vcpu = self.pcpus[pcpu].runs;
        let entry = &self.vcpus[vcpu];
        match self.first_ready(entry.engine.domain, vcpu) {
            Some(next) => self.pick(vcpu, next),
            None => {
                self.vcpus[vcpu].thread = Number::NONE;
                self.exit(vcpu);
                self.vcpu_block(pcpu);
            }
        }
    }

    /// The ready thread of the domain that comes next on this vCPU.
    fn first_ready(&self, domain: DomainNumber, vcpu: VcpuNumber) -> Option<ThreadNumber> {
        self.domains[domain].guest.ready.iter().find(|&thread| {
            let bound = self.threads[thread].bound;
            bound == Number::NONE || bound == vcpu
        })
    }

    /// A ready thread comes onto the vCPU.
    fn pick(&mut self, vcpu: VcpuNumber, thread: ThreadNumber) {
        let entry = &mut self.threads[thread];
        let guest = &mut self.domains[entry.domain].guest;
        guest.ready.remove(entry.vruntime_ns, thread);
        guest.emptied_ns = self.now_ns;
        self.put(vcpu, thread);
    }

    fn put(&mut self, vcpu: VcpuNumber, thread: ThreadNumber) {
        let entry = &mut self.threads[thread];
        let guest = &mut self.domains[entry.domain].guest;
        guest.least_ns = guest.least_ns.max(entry.vruntime_ns);
        entry.status = ThreadStatus::Current;
        entry.resched = false;
        entry.vcpu = vcpu;
        let target = &mut self.vcpus[vcpu];
        target.thread = thread;
        target.guest_left_ns = guest.slice_ns;
    }

    /// The ready thread that comes next replaces the one on the vCPU if it had less CPU time, by
    /// more than the margin; if that is in the kernel, as soon as it leaves it.
    fn rotate(&mut self, vcpu: VcpuNumber, margin_ns: u64) {
        let target = &mut self.vcpus[vcpu];
        let (domain, current) = (target.engine.domain, target.thread);
        self.threads[current].resched = false;
        if target.guest_left_ns == 0 {
            target.guest_left_ns = self.domains[domain].guest.slice_ns;
        }
        let Some(next) = self.first_ready(domain, vcpu) else { return };
        let current_ns = self.threads[current].vruntime_ns;
        if self.threads[next].vruntime_ns.saturating_add(margin_ns) < current_ns {
            let entry = &mut self.threads[current];
            if entry.in_kernel() {
                entry.resched = true;
                return;
            }
            entry.status = ThreadStatus::Ready;
            self.pick(vcpu, next);
            self.domains[domain].guest.ready.insert(current_ns, current);
        }
    }

    /// The thread has something to do again.
    pub(super) fn thread_wake(&mut self, thread: ThreadNumber) {
        let entry = &mut self.threads[thread];
        let domain = &self.domains[entry.domain];
        let (home, bound) = (entry.vcpu, entry.bound != Number::NONE);
        entry.ready_ns = self.now_ns;
        entry.vruntime_ns = match entry.interrupts {
            // Before all others.
            true => 0,
            false => entry.vruntime_ns.max(domain.guest.least_ns.saturating_sub(SLEEPER_CREDIT_NS)),
        };
        let home = if bound { entry.bound } else { home };
        let mut free = [home].into_iter().chain(domain.vcpus().filter(|_| !bound));
        if let Some(vcpu) = free.find(|&vcpu| self.vcpus[vcpu].thread == Number::NONE) {
            self.put(vcpu, thread);
            self.vcpu_wake(vcpu);
            return;
        }
        entry.status = ThreadStatus::Ready;
        let (key, vcpus) = (entry.vruntime_ns, domain.vcpus());
        let domain = entry.domain;
        self.domains[domain].guest.ready.insert(key, thread);
        // Running siblings must look at the queue in time; home may be preempted at once, unless its
        // thread is about to leave it anyway.
        for vcpu in vcpus {
            let entry = &self.vcpus[vcpu];
            if entry.engine.status == Status::Running {
                let pcpu = entry.engine.ran_on;
                self.progress(pcpu);
                let current = self.vcpus[vcpu].thread;
                if vcpu == home && self.threads[current].status == ThreadStatus::Current {
                    self.rotate(vcpu, WAKEUP_GRANULARITY_NS);
                }
                self.arm(pcpu);
            }
        }
    }

    /// A thread's work has caused one more wake, which another may await, or may not yet.
    fn cause(&mut self, waker: ThreadNumber, woken: ThreadNumber) {
        let caused = &mut self.causes[waker].wakes;
        *caused += 1;
        let caused = *caused;
        if woken == Number::NONE {
            return;
        }
        let awaited = &mut self.causes[woken].awaited;
        let comes = |awaited: &mut Awaited| awaited.waker == waker && awaited.wakes <= caused;
        if let Some(awaited) = awaited.take_if(comes) {
            if awaited.work_ns.is_some() {
                self.forget_awaiting(waker, woken);
            }
            self.thread_wake(woken);
        }
    }

    /// Whether a thread sleeps until another's work has come so far.
    fn awaits(&mut self, thread: ThreadNumber, awaited: Awaited) -> bool {
        let Awaited { waker, wakes, work_ns } = awaited;
        let asleep = self.threads[waker].status == ThreadStatus::Asleep;
        if self.causes[waker].wakes >= wakes || (work_ns.is_some() && asleep) {
            return false;
        }
        self.causes[thread].awaited = Some(awaited);
        let Some(work_ns) = work_ns else { return true };
        let next = std::mem::replace(&mut self.causes[waker].first_awaiting, thread);
        self.causes[thread].next_awaiting = next;
        let most_ns = &mut self.causes[waker].most_work_ns;
        *most_ns = work_ns.max(1).min(*most_ns);
        // What it works on ends sooner.
        let vcpu = self.threads[waker].vcpu;
        let entry = &self.vcpus[vcpu];
        let runs = entry.engine.status == Status::Running && entry.thread == waker;
        let pcpu = entry.engine.ran_on;
        if runs {
            self.progress(pcpu);
        }
        if self.threads[waker].left_ns > 0 {
            self.cut(waker);
            if runs {
                self.arm(pcpu);
            }
        }
        true
    }

    /// Of the present work of a thread somebody awaits no more than a part.
    fn cut(&mut self, waker: ThreadNumber) {
        let causes = &mut self.causes[waker];
        let left_ns = &mut self.threads[waker].left_ns;
        let most_ns = std::mem::replace(&mut causes.most_work_ns, u64::MAX);
        if *left_ns > most_ns {
            causes.rest_ns += *left_ns - most_ns;
            *left_ns = most_ns;
        }
    }

    /// A thread's work, or the part of it that others awaited, is done: they go on. Whether the rest of it follows.
    fn end_of_work(&mut self, waker: ThreadNumber) -> bool {
        let causes = &mut self.causes[waker];
        let rest_ns = std::mem::take(&mut causes.rest_ns);
        self.threads[waker].left_ns = rest_ns;
        // Before it has begun nobody is released.
        if causes.most_work_ns == u64::MAX {
            let mut next = std::mem::replace(&mut causes.first_awaiting, Number::NONE);
            while next != Number::NONE {
                let entry = &mut self.causes[next];
                let thread = std::mem::replace(&mut next, entry.next_awaiting);
                entry.awaited = None;
                self.thread_wake(thread);
            }
        }
        rest_ns > 0
    }

    /// A thread awaits no part of the other's work any more.
    fn forget_awaiting(&mut self, waker: ThreadNumber, thread: ThreadNumber) {
        let next = self.causes[thread].next_awaiting;
        let first = self.causes[waker].first_awaiting;
        if first == thread {
            self.causes[waker].first_awaiting = next;
            return;
        }
        let mut before = first;
        while self.causes[before].next_awaiting != thread {
            before = self.causes[before].next_awaiting;
        }
        self.causes[before].next_awaiting = next;
    }

    /// The vCPU pays for a VM exit.
    fn exit(&mut self, vcpu: VcpuNumber) {
        self.vcpus[vcpu].debt_ns += self.costs.vm_exit.0;
    }

    // ---- Spin locks ----

    /// The vCPU of one that spins has a pCPU again: the lock may have become free meanwhile, or be its own.
    fn go_on_spinning(&mut self, thread: ThreadNumber) {
        let entry = &self.threads[thread];
        let lock = &self.tasks[entry.task].locks[entry.lock as usize];
        let (holder, next) = (lock.holder, lock.waiters.front() == Some(&thread));
        let locks = self.domains[entry.domain].guest.locks;
        if holder == thread || holder == Number::NONE && (next || locks != GuestLocks::Paravirtual)
        {
            self.take_lock(thread);
            return;
        }
        let window_ns = self.vcpus[entry.vcpu].pause_window_ns;
        let entry = &mut self.threads[thread];
        entry.next_in_line = next;
        // It had halted.
        if locks == GuestLocks::Paravirtual && entry.left_ns == 0 {
            entry.left_ns = window_ns;
            entry.spun_ns = 0;
        }
    }

    /// The thread on the pCPU has spun for the whole window: the hardware reports it, and a guest that knows of its
    /// hypervisor may have enough of it.
    fn pause_loop_exit(&mut self, pcpu: PcpuNumber) {
        let vcpu = self.pcpus[pcpu].runs;
        self.exit(vcpu);
        let thread = self.vcpus[vcpu].thread;
        let window_ns = self.vcpus[vcpu].pause_window_ns;
        self.threads[thread].spun_ns += window_ns;
        if self.halts(thread) {
            let entry = &mut self.threads[thread];
            (entry.left_ns, entry.next_in_line) = (0, false);
            self.vcpu_block(pcpu);
            return;
        }
        let grown_ns = window_ns.saturating_mul(self.costs.pause_loop_growth.into());
        self.vcpus[vcpu].pause_window_ns = grown_ns;
        self.threads[thread].left_ns = grown_ns;
        self.vcpu_spin(pcpu);
    }

    /// Whether one that spins halts until it is its turn.
    fn halts(&self, thread: ThreadNumber) -> bool {
        let entry = &self.threads[thread];
        if self.domains[entry.domain].guest.locks != GuestLocks::Paravirtual {
            return false;
        }
        let waiters = &self.tasks[entry.task].locks[entry.lock as usize].waiters;
        let before = waiters.iter().take_while(|&&waiter| waiter != thread).last();
        entry.spun_ns >= PARAVIRTUAL_SPIN_NS
            || before.is_some_and(|&before| !self.spins_on_pcpu(before))
    }

    /// A free lock goes to the first of those who spin for it, in unfair guests to the first who
    /// has a pCPU right now: who has lost its pCPU cannot see that the lock is free. A paravirtual one
    /// stays free if the first has halted: it is woken, and takes the lock if nobody came before.
    fn pass_lock(&mut self, task: TaskNumber, number: u32) {
        let entry = &self.tasks[task];
        let locks = self.domains[entry.domain].guest.locks;
        let mut waiters = entry.locks[number as usize].waiters.iter().copied();
        let in_order = locks != GuestLocks::Unfair;
        let Some(heir) = waiters.find(|&waiter| in_order || self.spins_on_pcpu(waiter)) else {
            return;
        };
        let next = waiters.next();
        let vcpu = self.threads[heir].vcpu;
        if self.spins_on_pcpu(heir) {
            let pcpu = self.vcpus[vcpu].engine.ran_on;
            self.progress(pcpu);
            self.take_lock(heir);
            self.arm(pcpu);
        } else if locks != GuestLocks::Paravirtual || self.threads[heir].next_in_line {
            self.tasks[task].locks[number as usize].holder = heir;
        } else {
            if self.vcpus[vcpu].engine.status == Status::Blocked {
                self.vcpu_wake(vcpu);
            }
            return;
        }
        if let Some(next) = next {
            self.threads[next].next_in_line = self.spins_on_pcpu(next);
        }
    }

    fn spins_on_pcpu(&self, thread: ThreadNumber) -> bool {
        let vcpu = self.threads[thread].vcpu;
        self.vcpus[vcpu].engine.status == Status::Running
    }

    /// The thread gives back the lock that it held.
    fn release_lock(&mut self, thread: ThreadNumber) {
        let entry = &mut self.threads[thread];
        entry.held = Held::Not;
        let (task, lock) = (entry.task, entry.lock);
        self.tasks[task].locks[lock as usize].holder = Number::NONE;
        self.pass_lock(task, lock);
    }

    fn take_lock(&mut self, thread: ThreadNumber) {
        let entry = &mut self.threads[thread];
        entry.spins = false;
        entry.left_ns = 0;
        entry.held = Held::Got;
        let lock = &mut self.tasks[entry.task].locks[entry.lock as usize];
        lock.holder = thread;
        lock.waiters.retain(|&waiter| waiter != thread);
    }
}
