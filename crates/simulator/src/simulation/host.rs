// SPDX-License-Identifier: GPL-2.0-only
//! The simulated host as a host of the engine (`policy/engine`): what the engine is told, and its operations as far as
//! they need more than its tables (`host.c`). Nothing is decided here.

use std::ffi::c_void;
use std::ops::Range;
use std::ptr::{from_mut, null_mut};

use steelyard_policy::ffi;

use crate::config;
use crate::engine::{Domain as Group, Host};
use crate::numbers::{DomainNumber, Number, PcpuNumber, QueueNumber, VcpuNumber};
use crate::topology::Level;

use super::{Beginning, EPOCH_NS, FULL_SPEED, Simulation, Sleep};

/// Ids of groups, above those of domains.
const GROUP_IDS: u64 = 1 << 32;

impl Simulation {
    /// What the engine is called with.
    #[inline(always)]
    fn host(&mut self) -> *mut Host {
        let simulation = from_mut(self);
        // SAFETY: it is this simulation; nothing else is borrowed.
        unsafe {
            (*simulation).host.policy = &raw const (*simulation).policy;
            (*simulation).host.simulation = simulation.cast();
            &raw mut (*simulation).host
        }
    }

    // ---- What happens ----

    /// Which pCPUs share a queue, queue by queue: the host's shape is told.
    pub(super) fn queue_ranges(&mut self) -> Vec<Range<PcpuNumber>> {
        let mut ranges: Vec<Range<PcpuNumber>> = vec![];
        let mut first = Number::new(0);
        while first.0 < self.topology.pcpus {
            // SAFETY: the contract of `engine.rs`.
            let end = unsafe { (self.calls.queue_end)(self.host(), first) };
            ranges.push(first..end);
            first = end;
        }
        ranges
    }

    /// The host begins, all pCPUs idle: `tables` is set.
    pub(super) fn begin(&mut self) {
        // SAFETY: the contract of `engine.rs`.
        unsafe { (self.calls.begin)(self.host()) }
        for queue in self.queues.numbers() {
            // SAFETY: the same.
            unsafe { (self.calls.queue_begin)(self.host(), queue) }
        }
    }

    /// The host's control groups, an outer one before those in it; `groups` has room for them and stays where it is.
    pub(super) fn begin_groups(&mut self, groups: &[config::Group]) {
        let now = self.policy_now();
        for (number, config) in groups.iter().enumerate() {
            let settings = ffi::Settings { weight: config.weight.into(), ..ffi::Settings::usual() };
            let around = self.group(groups, config.group.as_ref());
            let group = &raw mut self.groups[number];
            let id = GROUP_IDS + number as u64;
            // SAFETY: the contract of `engine.rs`; both are of `groups`.
            unsafe { (self.calls.group_begin)(self.host(), group, around, id, &settings, now) }
        }
    }

    /// Where the one of this name is; null if there is none.
    pub(super) fn group(&mut self, groups: &[config::Group], name: Option<&String>) -> *mut Group {
        let number = groups.iter().position(|group| Some(&group.name) == name);
        number.map_or(null_mut(), |number| &raw mut self.groups[number])
    }

    /// Until now the domain was not there: nobody knows of it, and its vCPUs count as blocked.
    pub(super) fn domain_begin(&mut self, beginning: Beginning) {
        let Beginning { domain, group, settings, homes } = beginning;
        self.domains[domain].sampled = self.sums(domain);
        self.account_order.push(domain);
        self.host.tables.account_count += 1;
        let now = self.policy_now();
        let vcpus = homes.len() as u64;
        // SAFETY: the contract of `engine.rs`; the group is of `groups`, or none.
        unsafe {
            (self.calls.domain_begin)(self.host(), domain, group, &settings, vcpus, now);
        }
        for ((index, vcpu), home) in (0..).zip(self.domains[domain].vcpus()).zip(homes) {
            let entry = &mut self.vcpus[vcpu];
            entry.times.blocked_ns += self.now_ns - entry.since_ns();
            // SAFETY: the same.
            unsafe { (self.calls.vcpu_begin)(self.host(), vcpu, domain, index, home, now) }
            self.arm_vcpu_timer(vcpu);
        }
    }

    /// A blocked vCPU has work again.
    pub(super) fn vcpu_wake(&mut self, vcpu: VcpuNumber) {
        if self.is_other(vcpu) {
            self.other_wakes(vcpu);
            return;
        }
        let now = self.policy_now();
        // SAFETY: the contract of `engine.rs`.
        unsafe { (self.calls.wake)(self.host(), vcpu, now) }
    }

    /// The vCPU that runs on this pCPU has nothing more to do.
    pub(super) fn vcpu_block(&mut self, pcpu: PcpuNumber) {
        if self.is_other(self.pcpus[pcpu].runs) {
            self.other_blocks(pcpu);
            return;
        }
        self.scheduling_events.blocks += 1;
        let now = self.policy_now();
        // SAFETY: the contract of `engine.rs`.
        unsafe { (self.calls.block)(self.host(), pcpu, now) }
    }

    /// A pause-loop exit of the vCPU that runs on this pCPU.
    pub(super) fn vcpu_spin(&mut self, pcpu: PcpuNumber) {
        // Of a task of the host there is none.
        if self.is_other(self.pcpus[pcpu].runs) {
            return;
        }
        let now = self.policy_now();
        // SAFETY: the contract of `engine.rs`.
        unsafe { (self.calls.spin)(self.host(), pcpu, now) }
    }

    /// Lets a pCPU choose again, after what happens now.
    pub(super) fn interrupt(&mut self, pcpu: PcpuNumber) {
        // SAFETY: the contract of `engine.rs`.
        unsafe { (self.calls.interrupt_pcpu)(self.host(), pcpu) }
    }

    /// The pCPU chooses who runs next.
    pub(super) fn schedule(&mut self, pcpu: PcpuNumber) {
        self.progress(pcpu);
        if !self.others.is_empty() {
            self.dispatch(pcpu);
            return;
        }
        let slice_ns = self.choose(pcpu);
        let entry = &mut self.pcpus[pcpu];
        if entry.engine.current == Number::NONE {
            self.falls_asleep(pcpu);
        } else {
            entry.slice_end_ns = self.now_ns.saturating_add(slice_ns);
            self.arm(pcpu);
        }
    }

    /// The pCPU has nobody to run.
    #[inline(always)]
    pub(super) fn falls_asleep(&mut self, pcpu: PcpuNumber) {
        self.timers.cancel(pcpu.0);
        if self.wake_up_ns > 0 {
            self.pcpus[pcpu].sleep = Sleep::Asleep;
        }
    }

    /// It has left its sleep state: it chooses.
    #[inline(never)] // Most hosts have none that sleep.
    pub(super) fn wakes_up(&mut self, pcpu: PcpuNumber) {
        self.pcpus[pcpu].sleep = Sleep::WokenUp;
        self.interrupted.push(pcpu);
    }

    /// Lets a pCPU choose as soon as it can.
    #[inline(always)]
    fn let_choose(&mut self, pcpu: PcpuNumber) {
        if self.pcpus[pcpu].sleep == Sleep::Asleep {
            self.timers.set(pcpu.0, self.now_ns.saturating_add(self.wake_up_ns));
        } else {
            self.interrupted.push(pcpu);
        }
    }

    /// The engine's choice, and for how long.
    #[inline(always)]
    pub(super) fn choose(&mut self, pcpu: PcpuNumber) -> u64 {
        let now = self.policy_now();
        // SAFETY: the contract of `engine.rs`.
        unsafe { (self.calls.choose)(self.host(), pcpu, now) }
    }

    /// Something that is no vCPU runs there from now on.
    pub(super) fn occupy(&mut self, pcpu: PcpuNumber) {
        let now = self.policy_now();
        // SAFETY: the contract of `engine.rs`.
        unsafe { (self.calls.occupy)(self.host(), pcpu, now) }
    }

    pub(super) fn balance(&mut self, queue: QueueNumber) {
        let now = self.policy_now();
        // SAFETY: the contract of `engine.rs`.
        unsafe { (self.calls.balance_queue)(self.host(), queue, now) }
    }

    pub(super) fn tick(&mut self, pcpu: PcpuNumber) {
        if self.pcpus[pcpu].engine.current != Number::NONE {
            self.scheduling_events.ticks += 1;
        }
        let now = self.policy_now();
        // SAFETY: the contract of `engine.rs`.
        unsafe { (self.calls.tick_of)(self.host(), pcpu, now) }
    }

    pub(super) fn vcpu_timer(&mut self, vcpu: VcpuNumber) {
        let now = self.policy_now();
        // SAFETY: the contract of `engine.rs`.
        unsafe { (self.calls.vcpu_timer_of)(self.host(), vcpu, now) }
    }

    pub(super) fn domain_timer(&mut self, domain: DomainNumber) {
        let now = self.policy_now();
        // SAFETY: the contract of `engine.rs`.
        unsafe { (self.calls.domain_timer_of)(self.host(), domain, now) }
    }

    pub(super) fn account(&mut self) {
        self.scheduling_events.accountings += 1;
        let now = self.policy_now();
        // SAFETY: the contract of `engine.rs`.
        unsafe { (self.calls.account)(self.host(), now) }
        self.timers.set(self.timer_base.accounting, self.now_ns + self.account_ns);
    }

    /// Tells the governors what happened since the sample before.
    pub(super) fn sample(&mut self) {
        let now = self.policy_now();
        // SAFETY: the contract of `engine.rs`.
        unsafe { (self.calls.sample_all)(self.host(), now) }
        self.timers.set(self.timer_base.sample, self.now_ns + self.sample_ns);
    }

    // ---- What is asked for ----

    pub(super) fn arm_vcpu_timer(&mut self, vcpu: VcpuNumber) {
        let timer = self.timer_base.vcpu + vcpu.0;
        match ffi::sy_vcpu_timer_ns(&self.policy, &self.vcpus[vcpu].engine.state) {
            0 => self.timers.cancel(timer),
            time_ns => self.timers.set(timer, time_ns.saturating_sub(EPOCH_NS)),
        }
    }

    fn arm_domain_timer(&mut self, domain: DomainNumber) {
        let timer = self.timer_base.domain + domain.0;
        match self.domains[domain].engine.state.timer_ns {
            0 => self.timers.cancel(timer),
            time_ns => self.timers.set(timer, time_ns.saturating_sub(EPOCH_NS)),
        }
    }

    #[inline(always)]
    fn insert(&mut self, queue: QueueNumber, vcpu: VcpuNumber) {
        self.begin_beside_idle(vcpu);
        let queue = &mut self.queues[queue];
        queue.waiting.insert(self.vcpus[vcpu].engine.key, vcpu);
        queue.show_waiting();
    }

    #[inline(always)]
    fn remove(&mut self, queue: QueueNumber, vcpu: VcpuNumber) {
        self.end_beside_idle(vcpu);
        let queue = &mut self.queues[queue];
        queue.waiting.remove(self.vcpus[vcpu].engine.key, vcpu);
        queue.show_waiting();
    }

    fn sort(&mut self, queue: QueueNumber) {
        let queue = &mut self.queues[queue];
        queue.waiting.resort(|vcpu| self.vcpus[vcpu].engine.key);
    }

    fn change_queue(&mut self, vcpu: VcpuNumber, from: QueueNumber, to: QueueNumber) {
        if from != Number::NONE {
            let place = self.vcpus[vcpu].member;
            let queue = &mut self.queues[from];
            queue.members.swap_remove(place as usize);
            queue.show_members();
            if let Some(&moved) = queue.members.get(place as usize) {
                self.vcpus[moved].member = place;
            }
        }
        let queue = &mut self.queues[to];
        self.vcpus[vcpu].member = queue.members.len() as u32;
        queue.members.push(vcpu);
        queue.show_members();
    }

    fn set_tick(&mut self, pcpu: PcpuNumber, at_ns: u64) {
        self.timers.set(self.timer_base.tick + pcpu.0, at_ns.saturating_sub(EPOCH_NS));
    }

    fn sample_of(&mut self, domain: DomainNumber) -> ffi::Sample {
        let sums = self.sums(domain);
        let last = std::mem::replace(&mut self.domains[domain].sampled, sums);
        ffi::Sample {
            interval_ns: sums.interval_ns - last.interval_ns,
            gotten_ns: sums.gotten_ns - last.gotten_ns,
            waited_ns: sums.waited_ns - last.waited_ns,
            packets: sums.packets - last.packets,
            waits: sums.waits - last.waits,
            late_waits: sums.late_waits - last.late_waits,
            // Without jitter that is known; what has not begun may turn out shorter.
            offered_ns: sums.offered_ns.saturating_sub(last.offered_ns),
            offered_age_ns: sums.offered_age_ns,
        }
    }

    /// The vCPU starts on the pCPU: what that costs, and what its guest does.
    #[inline(always)]
    pub(super) fn starts(&mut self, vcpu: VcpuNumber, pcpu: PcpuNumber) {
        if !self.others.is_empty() {
            self.put_back(pcpu);
        }
        let now_ns = self.now_ns;
        self.scheduling_events.switches += 1;
        let entry = &mut self.pcpus[pcpu];
        entry.idle_ns += now_ns - entry.idle_since_ns;
        entry.switches += 1;
        entry.progress_ns = now_ns;
        entry.runs = vcpu;
        let sleep = std::mem::replace(&mut entry.sleep, Sleep::Awake);
        let last = entry.last;
        let target = &mut self.vcpus[vcpu];
        let costs = &self.costs;
        if last != vcpu {
            target.debt_ns += costs.context_switch.0;
            // Others cannot have evicted more than they had time to load.
            target.debt_ns += costs.cache_refill.0.min(now_ns - target.left_ns);
        }
        if target.engine.woken && sleep != Sleep::WokenUp {
            target.debt_ns += costs.interrupt.0;
        }
        target.times.switches += 1;
        let ran_on = target.engine.ran_on;
        if ran_on != Number::NONE && ran_on != pcpu {
            target.times.migrations += 1;
            target.debt_ns += match self.topology.distance(ran_on, pcpu) {
                Some(Level::Core) => 0,
                Some(Level::Cache) => costs.migration.0,
                Some(Level::Node | Level::Socket) => costs.cache_migration.0,
                None => costs.socket_migration.0,
            };
        }
        if self.thread_speed_percent != FULL_SPEED {
            self.pcpus[pcpu].speed_percent = self.speed_percent(pcpu);
            self.changed.push(pcpu);
        }
        self.end_wait(vcpu);
        self.guest_start(vcpu);
    }
}

/// The operations of `host.c`. Each is called by the engine, within a call of it that [`Simulation`] makes.
mod operations {
    use super::*;

    /// The simulation that the engine was called for.
    ///
    /// # Safety
    /// `simulation` is what [`Simulation::host`] has set, and nobody uses another reference to it meanwhile.
    #[inline(always)]
    unsafe fn of<'a>(simulation: *mut c_void) -> &'a mut Simulation {
        // SAFETY: see above.
        unsafe { &mut *simulation.cast() }
    }

    macro_rules! operations {
        ($(fn $name:ident($simulation:ident $(, $argument:ident: $type:ty)*) $(-> $result:ty)? $body:block)*) => {
            $(
                // SAFETY: no other library has a function of this name.
                #[unsafe(no_mangle)]
                extern "C" fn $name(simulation: *mut c_void $(, $argument: $type)*) $(-> $result)? {
                    // SAFETY: only the engine calls this, see above.
                    let $simulation = unsafe { of(simulation) };
                    $body
                }
            )*
        };
    }

    operations! {
        fn simulated_insert(simulation, queue: QueueNumber, vcpu: VcpuNumber) {
            simulation.insert(queue, vcpu);
        }
        fn simulated_remove(simulation, queue: QueueNumber, vcpu: VcpuNumber) {
            simulation.remove(queue, vcpu);
        }
        fn simulated_sort(simulation, queue: QueueNumber) {
            simulation.sort(queue);
        }
        fn simulated_change_queue(simulation, vcpu: VcpuNumber, from: QueueNumber, to: QueueNumber) {
            simulation.change_queue(vcpu, from, to);
        }
        fn simulated_account_first(simulation, place: u32) {
            // Those visited before it come one place later.
            simulation.account_order[..place as usize].rotate_right(1);
        }
        fn simulated_set_idle(simulation, pcpu: PcpuNumber, idle: bool) {
            if idle {
                simulation.begin_idle(pcpu);
            } else {
                simulation.end_idle(pcpu);
            }
        }
        fn simulated_interrupt(simulation, pcpu: PcpuNumber) {
            if !simulation.others.asked(pcpu) {
                simulation.let_choose(pcpu);
            }
        }
        fn simulated_interrupt_other(simulation, pcpu: PcpuNumber, now: u64) -> bool {
            simulation.interrupt_other(pcpu, now)
        }
        fn simulated_balance(simulation, queue: QueueNumber) {
            if !simulation.unbalanced.contains(&queue) {
                simulation.unbalanced.push_back(queue);
            }
        }
        fn simulated_vcpu_timer(simulation, vcpu: VcpuNumber) {
            simulation.arm_vcpu_timer(vcpu);
        }
        fn simulated_domain_timer(simulation, domain: DomainNumber) {
            simulation.arm_domain_timer(domain);
        }
        fn simulated_tick(simulation, pcpu: PcpuNumber, at_ns: u64) {
            simulation.set_tick(pcpu, at_ns);
        }
        fn simulated_ticks(simulation, pcpu: PcpuNumber) -> bool {
            simulation.timers.is_set(simulation.timer_base.tick + pcpu.0)
        }
        fn simulated_in_kernel(simulation, vcpu: VcpuNumber) -> bool {
            simulation.threads[simulation.vcpus[vcpu].thread].in_kernel()
        }
        fn simulated_sample(simulation, domain: DomainNumber, sample: &mut ffi::Sample) {
            *sample = simulation.sample_of(domain);
        }
        fn simulated_wakes(simulation, vcpu: VcpuNumber) {
            simulation.begin_wait(vcpu);
        }
        fn simulated_starts(simulation, vcpu: VcpuNumber, pcpu: PcpuNumber) {
            simulation.starts(vcpu, pcpu);
        }
        fn simulated_stops(simulation, vcpu: VcpuNumber, pcpu: PcpuNumber, preempted: bool) {
            simulation.stops(vcpu, pcpu, preempted);
        }
        fn simulated_unparks(simulation, vcpu: VcpuNumber) {
            let now = simulation.policy_now();
            let entry = &mut simulation.vcpus[vcpu];
            entry.times.parked_ns += now - entry.engine.parked_ns;
        }
    }
}
