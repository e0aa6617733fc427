// SPDX-License-Identifier: GPL-2.0-only
//! The host: run queues, choices, interrupts, ticks, accounting, balance. It does what the head of
//! `policy/steelyard.h` asks of a host, and decides nothing that a policy could decide.

use std::ops::Range;

use steelyard_policy::{fact, ffi, gang, request, step, verdict};

use super::{EPOCH_NS, EVERYWHERE, NONE, Simulation, Status, Vcpu, guest};

impl Simulation {
    // ---- What policies ask for ----

    /// Does what a policy asked for this vCPU.
    #[inline]
    fn vcpu_requests(&mut self, vcpu: u32, requests: u32) {
        if requests != 0 {
            self.answer(vcpu, requests);
        }
    }

    fn answer(&mut self, vcpu: u32, requests: u32) {
        if requests & request::TIMER != 0 {
            self.arm_vcpu_timer(vcpu);
        }
        if requests & request::DOMAIN_TIMER != 0 {
            self.arm_domain_timer(self.vcpus[vcpu as usize].domain);
        }
        if requests & request::PARK != 0 {
            self.park(vcpu);
        }
        if requests & request::UNPARK != 0 {
            self.unpark(vcpu);
        }
        if requests & request::REKEY != 0 && self.vcpus[vcpu as usize].queued {
            self.dequeue(vcpu);
            self.enqueue(vcpu);
            self.interrupt_for(vcpu);
        }
        if requests & request::RESCHEDULE != 0 {
            let entry = &self.vcpus[vcpu as usize];
            if entry.status == Status::Running {
                self.interrupt(entry.ran_on);
            }
        }
        self.queue_requests(self.vcpus[vcpu as usize].queue, requests);
    }

    /// Does what a policy asked for a queue.
    pub(super) fn queue_requests(&mut self, queue: u32, requests: u32) {
        if requests & request::SURVEY != 0 {
            let entry = &mut self.queues[queue as usize];
            ffi::sy_survey_begin(&self.policy, &mut entry.state);
            for &vcpu in &entry.members {
                let vcpu = &mut self.vcpus[vcpu as usize];
                let domain = &mut self.domains[vcpu.domain as usize].state;
                ffi::sy_survey_vcpu(&self.policy, &mut entry.state, domain, &mut vcpu.state);
            }
        }
        if requests & request::RESORT != 0 {
            let now = self.policy_now();
            let entry = &mut self.queues[queue as usize];
            entry.waiting.resort(|vcpu| {
                let vcpu = &mut self.vcpus[vcpu as usize];
                let domain = &mut self.domains[vcpu.domain as usize].state;
                vcpu.key =
                    ffi::sy_key(&self.policy, &mut entry.state, domain, &mut vcpu.state, now);
                vcpu.key
            });
        }
        if requests & request::BALANCE != 0 && !self.unbalanced.contains(&queue) {
            self.unbalanced.push_back(queue);
        }
    }

    pub(super) fn arm_vcpu_timer(&mut self, vcpu: u32) {
        let timer = self.timer_base.vcpu + vcpu;
        match self.vcpus[vcpu as usize].state.timer_ns {
            0 => self.timers.cancel(timer),
            time_ns => self.timers.set(timer, time_ns.saturating_sub(EPOCH_NS)),
        }
    }

    fn arm_domain_timer(&mut self, domain: u32) {
        let timer = self.timer_base.domain + domain;
        match self.domains[domain as usize].state.timer_ns {
            0 => self.timers.cancel(timer),
            time_ns => self.timers.set(timer, time_ns.saturating_sub(EPOCH_NS)),
        }
    }

    fn park(&mut self, vcpu: u32) {
        let entry = &mut self.vcpus[vcpu as usize];
        if entry.parked {
            return;
        }
        entry.parked = true;
        entry.parked_ns = self.now_ns;
        match entry.status {
            Status::Running => {
                let pcpu = entry.ran_on;
                self.interrupt(pcpu);
            }
            Status::Waiting if entry.queued => self.dequeue(vcpu),
            _ => {}
        }
    }

    fn unpark(&mut self, vcpu: u32) {
        let entry = &mut self.vcpus[vcpu as usize];
        if !entry.parked {
            return;
        }
        entry.parked = false;
        if entry.status == Status::Waiting {
            entry.times.parked_ns += self.now_ns - entry.parked_ns;
            self.enqueue(vcpu);
            self.interrupt_for(vcpu);
        }
    }

    /// Lets a pCPU choose again, after what happens now.
    #[inline]
    pub(super) fn interrupt(&mut self, pcpu: u32) {
        let entry = &mut self.pcpus[pcpu as usize];
        if !entry.interrupted {
            entry.interrupted = true;
            let idles = entry.current == NONE;
            if idles {
                self.end_idle(pcpu);
            }
            self.interrupted.push(pcpu);
        }
    }

    // ---- Queues ----

    #[inline(always)]
    fn enqueue(&mut self, vcpu: u32) {
        let now = self.policy_now();
        let entry = &mut self.vcpus[vcpu as usize];
        let domain = &mut self.domains[entry.domain as usize].state;
        let queue = &mut self.queues[entry.queue as usize];
        entry.key = ffi::sy_key(&self.policy, &mut queue.state, domain, &mut entry.state, now);
        entry.queued = true;
        entry.idle_mark_ns = self.idleness.of(entry.allowed, self.now_ns);
        queue.waiting.insert(entry.key, vcpu);
        queue.state.queued += 1;
        if queue.state.queued == 1 {
            self.nonempty.insert(entry.queue);
        }
    }

    #[inline(always)]
    fn dequeue(&mut self, vcpu: u32) {
        let entry = &mut self.vcpus[vcpu as usize];
        let queue = &mut self.queues[entry.queue as usize];
        entry.queued = false;
        entry.times.beside_idle_now_ns +=
            self.idleness.of(entry.allowed, self.now_ns) - entry.idle_mark_ns;
        queue.waiting.remove(entry.key, vcpu);
        queue.state.queued -= 1;
        if queue.state.queued == 0 {
            self.nonempty.remove(entry.queue);
        }
    }

    /// Makes a vCPU that neither runs nor waits in a queue belong to the queue of this pCPU.
    fn assign(&mut self, vcpu: u32, pcpu: u32) {
        let now = self.policy_now();
        let to = self.pcpus[pcpu as usize].queue;
        let from = self.vcpus[vcpu as usize].queue;
        if from == to {
            self.vcpus[vcpu as usize].state.pcpu = pcpu;
            return;
        }
        self.charge_lone(from);
        self.charge_lone(to);
        let entry = &mut self.vcpus[vcpu as usize];
        let domain = &mut self.domains[entry.domain as usize].state;
        let queue = &mut self.queues[from as usize];
        let left = ffi::sy_leave(&self.policy, &mut queue.state, domain, &mut entry.state, now);
        queue.members.swap_remove(entry.member as usize);
        let moved = queue.members.get(entry.member as usize).copied();
        let place = entry.member;
        entry.state.pcpu = pcpu;
        entry.queue = to;
        let queue = &mut self.queues[to as usize];
        entry.member = queue.members.len() as u32;
        queue.members.push(vcpu);
        let joined = ffi::sy_join(&self.policy, &mut queue.state, domain, &mut entry.state, now);
        if let Some(moved) = moved {
            self.vcpus[moved as usize].member = place;
        }
        self.queue_requests(from, left);
        self.vcpu_requests(vcpu, joined | left & !request::SURVEY & !request::RESORT);
    }

    // ---- Charging ----

    /// Charges who runs on the pCPU up to now.
    fn charge(&mut self, pcpu: u32) {
        let requests = self.charge_quietly(pcpu);
        if requests != 0 {
            self.vcpu_requests(self.pcpus[pcpu as usize].current, requests);
        }
    }

    #[inline(always)]
    fn charge_quietly(&mut self, pcpu: u32) -> u32 {
        let now_ns = self.now_ns;
        let entry = &mut self.pcpus[pcpu as usize];
        if entry.current == NONE || entry.charged_ns == now_ns {
            return 0;
        }
        let ran_ns = now_ns - entry.charged_ns;
        entry.charged_ns = now_ns;
        let vcpu = &mut self.vcpus[entry.current as usize];
        let domain = &mut self.domains[vcpu.domain as usize].state;
        let queue = &mut self.queues[vcpu.queue as usize].state;
        let now = now_ns + EPOCH_NS;
        ffi::sy_charge(&self.policy, queue, domain, &mut vcpu.state, ran_ns, now)
    }

    /// Charges who runs on the pCPU of a queue of one, whose virtual time must be of now.
    fn charge_lone(&mut self, queue: u32) {
        if let [pcpu] = self.queues[queue as usize].pcpus[..] {
            self.charge(pcpu);
        }
    }

    // ---- What vCPUs do ----

    /// A blocked vCPU has work again.
    pub(super) fn vcpu_wake(&mut self, vcpu: u32) {
        self.events.wakes += 1;
        self.begin_wait(vcpu);
        self.charge_lone(self.vcpus[vcpu as usize].queue);
        let now = self.policy_now();
        let entry = &mut self.vcpus[vcpu as usize];
        entry.woken = true;
        entry.parked_ns = self.now_ns;
        entry.state.runnable = 1;
        let domain = &mut self.domains[entry.domain as usize].state;
        let queue = &mut self.queues[entry.queue as usize].state;
        let requests = ffi::sy_wake(&self.policy, queue, domain, &mut entry.state, now);
        let parked = entry.parked;
        self.vcpu_requests(vcpu, requests);
        // One that was parked and no longer is has been queued by that.
        if !parked && !self.vcpus[vcpu as usize].parked {
            self.enqueue(vcpu);
            self.interrupt_for(vcpu);
        }
    }

    /// The vCPU that runs on this pCPU has nothing more to do.
    pub(super) fn vcpu_block(&mut self, pcpu: u32) {
        self.events.blocks += 1;
        let vcpu = self.pcpus[pcpu as usize].current;
        self.charge(pcpu);
        let now = self.policy_now();
        let entry = &mut self.vcpus[vcpu as usize];
        entry.state.runnable = 0;
        entry.move_to = NONE;
        let domain = &mut self.domains[entry.domain as usize].state;
        let queue = &mut self.queues[entry.queue as usize].state;
        let requests = ffi::sy_block(&self.policy, queue, domain, &mut entry.state, now);
        self.vacate(pcpu, Status::Blocked);
        self.vcpu_requests(vcpu, requests);
        self.interrupt(pcpu);
    }

    /// A pause-loop exit of the vCPU that runs on this pCPU.
    pub(super) fn vcpu_spin(&mut self, pcpu: u32) {
        self.charge(pcpu);
        let now = self.policy_now();
        let vcpu = self.pcpus[pcpu as usize].current;
        let entry = &mut self.vcpus[vcpu as usize];
        let domain = &mut self.domains[entry.domain as usize].state;
        let gang = ffi::sy_spin(&self.policy, domain, &mut entry.state, now);
        let summoned = if gang == gang::NONE { 0 } else { self.summon(vcpu, gang) };
        let entry = &mut self.vcpus[vcpu as usize];
        let domain = &mut self.domains[entry.domain as usize].state;
        let queue = &mut self.queues[entry.queue as usize].state;
        let state = &mut entry.state;
        let requests = ffi::sy_spun(&self.policy, queue, domain, state, summoned, now);
        self.vcpu_requests(vcpu, requests);
    }

    /// Summons those siblings of the spinning vCPU that the policy wants; returns how many.
    fn summon(&mut self, spinner: u32, gang: u32) -> u32 {
        let now = self.policy_now();
        let domain = self.vcpus[spinner as usize].domain;
        let mut summoned = 0;
        let mut best = (0, NONE);
        for sibling in self.domains[domain as usize].vcpus.clone() {
            if !self.vcpus[sibling as usize].queued {
                continue;
            }
            self.charge_lone(self.vcpus[sibling as usize].queue);
            let entry = &mut self.vcpus[sibling as usize];
            let mut facts = 0;
            if !entry.woken {
                facts |= fact::PREEMPTED;
            }
            if self.threads[entry.thread as usize].in_kernel() {
                facts |= fact::IN_KERNEL;
            }
            let waited_ns = self.now_ns - entry.since_ns;
            let state = &self.domains[domain as usize].state;
            let queue = &self.queues[entry.queue as usize].state;
            let vcpu = &mut entry.state;
            let rank = ffi::sy_rank(&self.policy, queue, state, vcpu, facts, waited_ns, now);
            if rank > 0 && gang == gang::ALL {
                self.summon_one(sibling);
                summoned += 1;
            } else if rank > best.0 {
                best = (rank, sibling);
            }
        }
        if best.1 != NONE {
            self.summon_one(best.1);
            summoned += 1;
        }
        summoned
    }

    fn summon_one(&mut self, sibling: u32) {
        let now = self.policy_now();
        let entry = &mut self.vcpus[sibling as usize];
        let domain = &mut self.domains[entry.domain as usize].state;
        let queue = &self.queues[entry.queue as usize].state;
        let requests = ffi::sy_summon(&self.policy, queue, domain, &mut entry.state, now);
        self.vcpu_requests(sibling, requests);
        if requests & request::RESCHEDULE != 0 {
            self.interrupt(self.vcpus[sibling as usize].state.pcpu);
        }
    }

    // ---- Whom a waking vCPU interrupts ----

    fn interrupt_for(&mut self, vcpu: u32) {
        let plan = ffi::sy_steps(&self.policy, &self.vcpus[vcpu as usize].state);
        let mut steps = plan & (step::QUEUE - 1);
        while steps != step::END {
            let (kind, also) = (steps & (step::ALSO - 1), steps & step::ALSO != 0);
            steps >>= step::BITS;
            if self.take_step(vcpu, kind, plan) && !also {
                break;
            }
        }
    }

    fn take_step(&mut self, vcpu: u32, kind: u32, plan: u32) -> bool {
        let entry = &self.vcpus[vcpu as usize];
        let (last, queue) = (entry.state.pcpu, entry.queue);
        match kind {
            step::LAST_IDLE => {
                let found = self.idle.contains(last);
                if found {
                    self.interrupt(last);
                }
                found
            }
            step::LAST_LEAD => {
                let leads = self.lead(vcpu, last) > 0;
                if leads {
                    self.interrupt(last);
                }
                leads
            }
            step::ONE_IDLE | step::NEXT_IDLE => {
                let range = self.idle_range(vcpu, plan);
                let found = if kind == step::ONE_IDLE {
                    self.nearest_idle(vcpu, range)
                } else {
                    self.next_idle(vcpu, range)
                };
                let Some(pcpu) = found else { return false };
                self.interrupt(pcpu);
                if plan & step::PLACE != 0 && self.pcpus[pcpu as usize].queue != queue {
                    self.dequeue(vcpu);
                    self.assign(vcpu, pcpu);
                    self.enqueue(vcpu);
                }
                true
            }
            step::ALL_IDLE => {
                let range = self.idle_range(vcpu, plan);
                let mut next = range.start;
                while let Some(pcpu) = self.idle_for(vcpu, next..range.end) {
                    self.interrupt(pcpu);
                    next = pcpu + 1;
                }
                next > range.start
            }
            step::LEAST => {
                let mut best = (0, NONE);
                for index in 0..self.queues[queue as usize].pcpus.len() {
                    let pcpu = self.queues[queue as usize].pcpus[index];
                    if self.may_use(&self.vcpus[vcpu as usize], pcpu) {
                        let lead = self.lead(vcpu, pcpu);
                        if lead > best.0 {
                            best = (lead, pcpu);
                        }
                    }
                }
                if best.1 != NONE {
                    self.interrupt(best.1);
                }
                best.1 != NONE
            }
            step::EVICT => {
                let none_suits = self.nearest_idle(vcpu, 0..self.topology.pcpus).is_none();
                if !none_suits || self.idle.is_empty() || self.lead(vcpu, last) <= 0 {
                    return false;
                }
                let running = self.pcpus[last as usize].current;
                if let Some(pcpu) = self.nearest_idle(running, 0..self.topology.pcpus) {
                    self.vcpus[running as usize].move_to = pcpu;
                }
                self.interrupt(last);
                true
            }
            _ => false,
        }
    }

    /// By how much the waiting vCPU is ahead of who runs on the pCPU; 0 if nobody does, or if that
    /// pCPU chooses again anyway.
    fn lead(&mut self, vcpu: u32, pcpu: u32) -> i64 {
        let entry = &self.pcpus[pcpu as usize];
        if entry.current == NONE || entry.interrupted {
            return 0;
        }
        self.charge(pcpu);
        let entry = &self.pcpus[pcpu as usize];
        let queue = &self.queues[entry.queue as usize].state;
        let running = &self.vcpus[entry.current as usize].state;
        let waiting = &self.vcpus[vcpu as usize].state;
        ffi::sy_lead(&self.policy, queue, &entry.state, waiting, running, self.policy_now())
    }

    /// Where idle pCPUs count for this vCPU.
    fn idle_range(&self, vcpu: u32, plan: u32) -> Range<u32> {
        if plan & step::QUEUE == 0 {
            return 0..self.topology.pcpus;
        }
        let pcpus = &self.queues[self.vcpus[vcpu as usize].queue as usize].pcpus;
        pcpus[0]..pcpus[pcpus.len() - 1] + 1
    }

    #[inline]
    fn may_use(&self, vcpu: &Vcpu, pcpu: u32) -> bool {
        vcpu.allowed == EVERYWHERE || self.allowed[vcpu.allowed as usize].contains(pcpu)
    }

    /// The first idle pCPU in the range that the vCPU may use.
    #[inline]
    fn idle_for(&self, vcpu: u32, range: Range<u32>) -> Option<u32> {
        let allowed = &self.allowed[self.vcpus[vcpu as usize].allowed as usize];
        self.idle.first_common(allowed, range)
    }

    /// The idle pCPU nearest to where the vCPU was last, one whose whole core is idle first.
    fn nearest_idle(&self, vcpu: u32, within: Range<u32>) -> Option<u32> {
        let any = self.idle_for(vcpu, within.clone())?;
        let last = self.vcpus[vcpu as usize].state.pcpu;
        let near = intersect(self.topology.socket(last), &within);
        if self.topology.has_threads() {
            for range in [near.clone(), within.clone()] {
                let mut next = range.start;
                while let Some(pcpu) = self.idle_for(vcpu, next..range.end) {
                    if self.topology.core(pcpu).all(|sibling| self.idle.contains(sibling)) {
                        return Some(pcpu);
                    }
                    next = pcpu + 1;
                }
            }
        }
        if within.contains(&last) && self.idle.contains(last) {
            return Some(last);
        }
        self.idle_for(vcpu, near).or(Some(any))
    }

    /// The next idle pCPU in rotation.
    fn next_idle(&mut self, vcpu: u32, within: Range<u32>) -> Option<u32> {
        let middle = self.rotor.clamp(within.start, within.end);
        let found = self
            .idle_for(vcpu, middle..within.end)
            .or_else(|| self.idle_for(vcpu, within.start..middle));
        if let Some(pcpu) = found {
            self.rotor = pcpu + 1;
        }
        found
    }

    // ---- The choice ----

    /// The pCPU chooses who runs next. The numbers are the steps at the head of `steelyard.h`.
    pub(super) fn schedule(&mut self, pcpu: u32) {
        let previous = self.pcpus[pcpu as usize].current;
        if previous != NONE {
            // 1. Asking again for a choice means nothing while choosing.
            self.progress(pcpu);
            let requests = self.charge_quietly(pcpu);
            self.vcpu_requests(previous, requests & !request::RESCHEDULE);
        }
        let mut chosen = self.choose_here(pcpu, previous);
        if self.looks_further(pcpu, chosen) {
            let stolen = self.steal(pcpu, chosen);
            if stolen != NONE {
                chosen = stolen;
                self.dequeue(stolen);
                self.assign(stolen, pcpu);
            }
        }
        if chosen != NONE {
            self.reset_if_due(pcpu, chosen);
        }
        if chosen != previous {
            if chosen != NONE && self.vcpus[chosen as usize].queued {
                self.dequeue(chosen);
            }
            if previous != NONE {
                self.stop(pcpu, previous);
            }
            if chosen == NONE {
                self.begin_idle(pcpu);
            } else {
                self.start(pcpu, chosen);
            }
        } else if chosen == NONE {
            self.begin_idle(pcpu);
        }
        if chosen != NONE {
            self.set_slice(pcpu, chosen);
        } else {
            // A request made meanwhile was answered by this choice.
            if self.pcpus[pcpu as usize].interrupted {
                self.end_idle(pcpu);
            }
            self.timers.cancel(pcpu);
        }
    }

    /// 2. Who runs on, or comes from the pCPU's own queue.
    fn choose_here(&self, pcpu: u32, previous: u32) -> u32 {
        let entry = &self.pcpus[pcpu as usize];
        let queue = &self.queues[entry.queue as usize];
        let now = self.policy_now();
        let best = self.vcpus.get(previous as usize);
        let best = best.filter(|vcpu| !vcpu.parked && vcpu.move_to == NONE);
        let mut first = NONE;
        for candidate in queue.waiting.iter() {
            let vcpu = &self.vcpus[candidate as usize];
            if !self.may_use(vcpu, pcpu) {
                continue;
            }
            if first == NONE {
                first = candidate;
            }
            match ffi::sy_consider(
                &self.policy,
                &queue.state,
                &entry.state,
                best.map(|vcpu| &vcpu.state),
                &vcpu.state,
                now,
            ) {
                verdict::SKIP => {}
                verdict::TAKE => return candidate,
                _ => break,
            }
        }
        if best.is_some() { previous } else { first }
    }

    /// 3. Whether the policy wants to see other queues.
    #[inline]
    fn looks_further(&mut self, pcpu: u32, chosen: u32) -> bool {
        if self.queues.len() == 1 {
            return false;
        }
        let now = self.policy_now();
        let best = self.vcpus.get(chosen as usize).map(|vcpu| &vcpu.state);
        let state = &mut self.pcpus[pcpu as usize].state;
        ffi::sy_look_further(&self.policy, state, best, now)
    }

    /// Who comes from another queue, nearest first, if the policy says so.
    fn steal(&self, pcpu: u32, chosen: u32) -> u32 {
        let entry = &self.pcpus[pcpu as usize];
        let best = (chosen != NONE).then(|| &self.vcpus[chosen as usize].state);
        let now = self.policy_now();
        // Queues of one pCPU have its number; only such queues are stolen from.
        let socket = self.topology.socket(pcpu);
        let all = 0..self.queues.len() as u32;
        let walk = [pcpu + 1..socket.end, socket.start..pcpu, socket.end..all.end, 0..socket.start];
        for mut range in walk {
            while let Some(peer) = self.nonempty.first(range.clone()) {
                range.start = peer + 1;
                let queue = &self.queues[peer as usize];
                for candidate in queue.waiting.iter() {
                    let vcpu = &self.vcpus[candidate as usize];
                    if !self.may_use(vcpu, pcpu) {
                        continue;
                    }
                    match ffi::sy_steal(
                        &self.policy,
                        &entry.state,
                        best,
                        &queue.state,
                        &vcpu.state,
                        now,
                    ) {
                        verdict::SKIP => {}
                        verdict::TAKE => return candidate,
                        _ => break,
                    }
                }
            }
        }
        NONE
    }

    /// 4. Whoever runs on the queue's pCPUs is charged before a reset.
    fn reset_if_due(&mut self, pcpu: u32, chosen: u32) {
        let queue = self.pcpus[pcpu as usize].queue;
        let entry = &self.queues[queue as usize];
        let vcpu = &self.vcpus[chosen as usize].state;
        let next = entry.waiting.first().map(|next| &self.vcpus[next as usize].state);
        let units = ffi::sy_reset_due(&self.policy, &entry.state, vcpu, next);
        if units == 0 {
            return;
        }
        for index in 0..self.queues[queue as usize].pcpus.len() {
            let other = self.queues[queue as usize].pcpus[index];
            if other != pcpu {
                self.charge(other);
            }
        }
        let now = self.policy_now();
        let state = &mut self.queues[queue as usize].state;
        let domain = &mut self.domains[self.vcpus[chosen as usize].domain as usize].state;
        let governor = &mut self.governor;
        let requests = ffi::sy_reset(&self.policy, state, governor, domain, units, now);
        self.queue_requests(queue, requests);
        if requests & request::REWEIGH != 0 {
            // Ids are indices plus one.
            for id in self.governor.reweigh.into_iter().filter(|&id| id > 0) {
                let domain = &mut self.domains[id as usize - 1].state;
                ffi::sy_reweigh(&self.policy, &mut self.governor, domain);
            }
        }
    }

    /// 5. Who ran waits again, or is parked, or moves.
    fn stop(&mut self, pcpu: u32, vcpu: u32) {
        self.vacate(pcpu, Status::Waiting);
        let entry = &mut self.vcpus[vcpu as usize];
        entry.times.preemptions += 1;
        let move_to = std::mem::replace(&mut entry.move_to, NONE);
        if move_to != NONE {
            self.assign(vcpu, move_to);
        }
        if self.vcpus[vcpu as usize].parked {
            return;
        }
        self.enqueue(vcpu);
        if move_to != NONE {
            self.interrupt_for(vcpu);
        } else if !self.idle.is_empty()
            && self.queues[self.vcpus[vcpu as usize].queue as usize].pcpus.len() > 1
        {
            // Another pCPU of the queue may be idle.
            if let Some(idle) = self.nearest_idle(vcpu, self.idle_range(vcpu, step::QUEUE)) {
                self.interrupt(idle);
            }
        }
    }

    /// 6. The chosen one starts.
    fn start(&mut self, pcpu: u32, vcpu: u32) {
        let now_ns = self.now_ns;
        let now = self.policy_now();
        self.events.switches += 1;
        let entry = &mut self.pcpus[pcpu as usize];
        if entry.current == NONE {
            entry.idle_ns += now_ns - entry.idle_since_ns;
        }
        entry.switches += 1;
        entry.current = vcpu;
        entry.charged_ns = now_ns;
        entry.progress_ns = now_ns;
        entry.state.busy = 1;
        entry.state.started_ns = now;
        let last = entry.last;

        let target = &mut self.vcpus[vcpu as usize];
        let queue = &mut self.queues[target.queue as usize].state;
        ffi::sy_start(&self.policy, queue, &mut entry.state, &mut target.state, now);
        target.state.pcpu = pcpu;

        // What the start costs.
        let costs = &self.costs;
        if last != vcpu {
            target.debt_ns += costs.context_switch.0;
            // Others cannot have evicted more than they had time to load.
            target.debt_ns += costs.cache_refill.0.min(now_ns - target.left_ns);
        }
        if std::mem::take(&mut target.woken) {
            target.debt_ns += costs.interrupt.0;
        }
        target.times.switches += 1;
        if target.ran_on != NONE && target.ran_on != pcpu {
            target.times.migrations += 1;
            if !self.topology.same_socket(target.ran_on, pcpu) {
                target.debt_ns += costs.socket_migration.0;
            } else if !self.topology.same_core(target.ran_on, pcpu) {
                target.debt_ns += costs.migration.0;
            }
        }
        target.ran_on = pcpu;
        self.end_wait(vcpu);

        if self.tick_ns > 0 {
            self.start_tick(pcpu, vcpu);
        }
        self.guest_start(vcpu);
    }

    /// pCPUs tick in turn, not all at once, and none when accounting and slices that are multiples
    /// of a tick end: who pays for a tick would hang on the order at that instant.
    #[inline(always)]
    fn start_tick(&mut self, pcpu: u32, vcpu: u32) {
        let tick = self.timer_base.tick + pcpu;
        let tick_ns = self.tick_ns_of(vcpu);
        let entry = &mut self.pcpus[pcpu as usize];
        if !self.timers.is_set(tick) || entry.tick_ns != tick_ns {
            entry.tick_ns = tick_ns;
            let phase_ns =
                tick_ns * (2 * u64::from(pcpu) + 1) / (2 * u64::from(self.topology.pcpus));
            let since_ns = (self.now_ns + tick_ns - phase_ns) % tick_ns;
            self.timers.set(tick, self.now_ns + tick_ns - since_ns);
        }
    }

    /// Time between ticks while this vCPU runs.
    #[inline(always)]
    fn tick_ns_of(&self, vcpu: u32) -> u64 {
        let domain = &self.domains[self.vcpus[vcpu as usize].domain as usize];
        match domain.state.tick_ns {
            0 => self.tick_ns,
            own_ns => self.tick_ns.min(own_ns),
        }
    }

    /// 7. For how long; then it is looked at again, or earlier for its guest. As [`Simulation::arm`].
    #[inline(always)]
    fn set_slice(&mut self, pcpu: u32, vcpu: u32) {
        let now = self.policy_now();
        let entry = &mut self.pcpus[pcpu as usize];
        let queue = &mut self.queues[entry.queue as usize];
        let target = &self.vcpus[vcpu as usize];
        let domain = &self.domains[target.domain as usize];
        let next = queue.waiting.first().map(|next| &self.vcpus[next as usize].state);
        let slice_ns = ffi::sy_slice(
            &self.policy,
            &mut queue.state,
            &entry.state,
            &domain.state,
            &target.state,
            next,
            now,
        );
        entry.slice_end_ns = self.now_ns.saturating_add(slice_ns.max(1));
        let look_ns = guest::look_ns(self.now_ns, target, domain, &self.threads);
        self.timers.set(pcpu, entry.slice_end_ns.min(look_ns));
    }

    // ---- Time that passes ----

    pub(super) fn tick(&mut self, pcpu: u32) {
        let vcpu = self.pcpus[pcpu as usize].current;
        if vcpu == NONE {
            // Ticks stop while a pCPU is idle.
            return;
        }
        self.events.ticks += 1;
        let tick_ns = self.tick_ns_of(vcpu);
        self.pcpus[pcpu as usize].tick_ns = tick_ns;
        self.timers.set(self.timer_base.tick + pcpu, self.now_ns + tick_ns);
        self.charge(pcpu);
        let now = self.policy_now();
        let target = &mut self.vcpus[vcpu as usize];
        let domain = &mut self.domains[target.domain as usize].state;
        let queue = &mut self.queues[target.queue as usize].state;
        let requests = ffi::sy_tick(
            &self.policy,
            &mut self.accounting,
            queue,
            &mut self.pcpus[pcpu as usize].state,
            domain,
            &mut target.state,
            now,
        );
        if requests != 0 {
            self.vcpu_requests(vcpu, requests);
            if requests & request::REPLACE != 0 {
                self.replace(pcpu, vcpu);
            }
        }
    }

    pub(super) fn vcpu_timer(&mut self, vcpu: u32) {
        let entry = &self.vcpus[vcpu as usize];
        if entry.status == Status::Running {
            self.charge(entry.ran_on);
        }
        let now = self.policy_now();
        let entry = &mut self.vcpus[vcpu as usize];
        let domain = &mut self.domains[entry.domain as usize].state;
        let queue = &mut self.queues[entry.queue as usize].state;
        let requests = ffi::sy_vcpu_timer(&self.policy, queue, domain, &mut entry.state, now);
        self.vcpu_requests(vcpu, requests);
    }

    pub(super) fn domain_timer(&mut self, domain: u32) {
        let now = self.policy_now();
        let entry = &mut self.domains[domain as usize];
        let requests = ffi::sy_domain_timer(&self.policy, &mut entry.state, now);
        if requests & request::DOMAIN_TIMER != 0 {
            self.arm_domain_timer(domain);
        }
        if requests & request::UNPARK != 0 {
            for vcpu in self.domains[domain as usize].vcpus.clone() {
                self.unpark(vcpu);
            }
        }
    }

    pub(super) fn account(&mut self) {
        self.events.accountings += 1;
        let now = self.policy_now();
        ffi::sy_account_begin(&self.policy, &mut self.accounting, now);
        for index in 0..self.account_order.len() {
            let domain = self.account_order[index];
            let state = &mut self.domains[domain as usize].state;
            let requests = ffi::sy_account_domain(&self.policy, &mut self.accounting, state);
            if requests & request::VISIT != 0 {
                for vcpu in self.domains[domain as usize].vcpus.clone() {
                    let state = &mut self.domains[domain as usize].state;
                    let vcpu_state = &mut self.vcpus[vcpu as usize].state;
                    let accounting = &mut self.accounting;
                    let requests =
                        ffi::sy_account_vcpu(&self.policy, accounting, state, vcpu_state);
                    self.vcpu_requests(vcpu, requests);
                }
            }
            if requests & request::FIRST != 0 {
                // Those visited before it come one place later.
                self.account_order[..=index].rotate_right(1);
            }
        }
        ffi::sy_account_end(&self.policy, &mut self.accounting);
        self.timers.set(self.timer_base.accounting, self.now_ns + self.account_ns);
    }

    /// Tells the governors what happened since the sample before.
    pub(super) fn sample(&mut self) {
        let now = self.policy_now();
        let pcpus = u64::from(self.topology.pcpus);
        ffi::sy_sample_begin(&self.policy, &mut self.governor, pcpus, now);
        for domain in 0..self.domains.len() {
            let sums = self.sums(domain);
            let entry = &mut self.domains[domain];
            let last = std::mem::replace(&mut entry.sampled, sums);
            let sample = ffi::Sample {
                interval_ns: sums.interval_ns - last.interval_ns,
                gotten_ns: sums.gotten_ns - last.gotten_ns,
                waited_ns: sums.waited_ns - last.waited_ns,
                packets: sums.packets - last.packets,
                waits: sums.waits - last.waits,
                late_waits: sums.late_waits - last.late_waits,
            };
            let governor = &mut self.governor;
            ffi::sy_sample_domain(&self.policy, governor, &mut entry.state, &sample);
        }
        for domain in &mut self.domains {
            ffi::sy_sample_settle(&self.policy, &mut self.governor, &mut domain.state);
        }
        self.timers.set(self.timer_base.sample, self.now_ns + self.sample_ns);
    }

    /// Moves a running vCPU to an idle pCPU, if there is one: to any if another vCPU waits for this
    /// one, to one whose whole core is idle if the core here is shared.
    fn replace(&mut self, pcpu: u32, vcpu: u32) {
        let queue = self.pcpus[pcpu as usize].queue;
        let awaited = self.queues[queue as usize].state.queued > 0;
        let core = self.topology.core(pcpu);
        let shared =
            core.clone().any(|other| other != pcpu && self.pcpus[other as usize].current != NONE);
        if !awaited && !shared {
            return;
        }
        let Some(target) = self.nearest_idle(vcpu, 0..self.topology.pcpus) else { return };
        let alone = || self.topology.core(target).all(|sibling| self.idle.contains(sibling));
        if awaited || alone() {
            self.vcpus[vcpu as usize].move_to = target;
            self.interrupt(pcpu);
        }
    }

    /// Moves the vCPU that is worth most, if any, between this queue and the most or the least
    /// loaded one of the host. Where every pCPU has its own queue, those of the socket are compared
    /// every time and those of the whole host one time in eight, as scheduling domains are.
    pub(super) fn balance(&mut self, queue: u32) {
        let now = self.policy_now();
        let all = 0..self.queues.len() as u32;
        let per_pcpu = self.queues.len() == self.pcpus.len();
        let balances = &mut self.queues[queue as usize].balances;
        *balances = balances.wrapping_add(1);
        let range = if per_pcpu && !(*balances).is_multiple_of(8) {
            self.topology.socket(queue)
        } else {
            all
        };
        let here = self.load(queue, now);
        let mut most = (here, queue);
        let mut least = (here, queue);
        for other in range {
            let load = self.load(other, now);
            if load > most.0 {
                most = (load, other);
            }
            if load < least.0 {
                least = (load, other);
            }
        }
        for (from, to) in [(most.1, queue), (queue, least.1)] {
            if from != to && self.move_best(from, to, now) {
                break;
            }
        }
    }

    fn load(&mut self, queue: u32, now: u64) -> u64 {
        let state = &mut self.queues[queue as usize].state;
        let pcpus = u64::from(state.pcpus.max(1));
        ffi::sy_load(&self.policy, state, now) / pcpus
    }

    fn move_best(&mut self, from: u32, to: u32, now: u64) -> bool {
        let (source, target) = (&self.queues[from as usize], &self.queues[to as usize]);
        let mut best = (0, NONE, NONE);
        for &vcpu in &source.members {
            let entry = &self.vcpus[vcpu as usize];
            if entry.move_to != NONE {
                continue;
            }
            let domain = &self.domains[entry.domain as usize].state;
            let gain = ffi::sy_balance_gain(
                &self.policy,
                &source.state,
                &target.state,
                domain,
                &entry.state,
                now,
            );
            if gain > best.0 {
                let allowed = &self.allowed[entry.allowed as usize];
                let usable = || target.pcpus.iter().copied().filter(|&p| allowed.contains(p));
                let idle = usable().find(|&pcpu| self.idle.contains(pcpu));
                if let Some(pcpu) = idle.or_else(|| usable().next()) {
                    best = (gain, vcpu, pcpu);
                }
            }
        }
        let (_, vcpu, pcpu) = best;
        if vcpu == NONE {
            return false;
        }
        match self.vcpus[vcpu as usize].status {
            Status::Running => {
                self.vcpus[vcpu as usize].move_to = pcpu;
                self.interrupt(self.vcpus[vcpu as usize].ran_on);
            }
            Status::Waiting if self.vcpus[vcpu as usize].queued => {
                self.dequeue(vcpu);
                self.assign(vcpu, pcpu);
                self.enqueue(vcpu);
                self.interrupt_for(vcpu);
            }
            Status::Waiting | Status::Blocked => self.assign(vcpu, pcpu),
        }
        true
    }
}

fn intersect(a: Range<u32>, b: &Range<u32>) -> Range<u32> {
    a.start.max(b.start)..a.end.min(b.end)
}
