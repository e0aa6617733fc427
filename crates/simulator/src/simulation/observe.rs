// SPDX-License-Identifier: GPL-2.0-only
//! What is measured while it runs, and the report at the end.

use steelyard_policy::{Sample, Standing, ffi};

use crate::fairness::Usable;
use crate::measure::{
    DomainMeasure, PcpuMeasure, Ran, Run, Segment, TaskMeasure, TimeMeasure, Trace, VcpuMeasure,
};
use crate::waits::WaitRecorder;

use crate::engine::Status;
use crate::numbers::{DomainNumber, Number, PcpuNumber, VcpuNumber};

use super::{EPOCH_NS, FULL_SPEED, Simulation, Vcpu};

/// Runs that a pCPU remembers, to say who ran during a wait.
const REMEMBERED: usize = 64;
/// pCPUs looked at for that, where many share a queue.
const LOOKED_AT: usize = 64;
/// vCPUs named for a worst wait.
const NAMED: usize = 8;

/// The last runs on a pCPU.
pub(super) struct History {
    /// vCPU, from, until.
    runs: [(VcpuNumber, u64, u64); REMEMBERED],
    next: usize,
}

impl Default for History {
    fn default() -> Self {
        History { runs: [(Number::NONE, 0, 0); REMEMBERED], next: 0 }
    }
}

impl History {
    #[inline]
    fn push(&mut self, vcpu: VcpuNumber, start_ns: u64, end_ns: u64) {
        self.runs[self.next % REMEMBERED] = (vcpu, start_ns, end_ns);
        self.next = self.next.wrapping_add(1);
    }

    /// The runs that ended after this time.
    fn since(&self, time_ns: u64) -> impl Iterator<Item = (VcpuNumber, u64, u64)> + '_ {
        let back =
            (1..=REMEMBERED).map(|back| self.runs[self.next.wrapping_sub(back) % REMEMBERED]);
        back.take_while(move |&(_, _, end_ns)| end_ns > time_ns)
    }
}

/// Sums of one vCPU; see [`TimeMeasure`].
#[derive(Default)]
pub(super) struct Times {
    pub gotten_ns: u64,
    pub waited_ns: u64,
    pub blocked_ns: u64,
    pub parked_ns: u64,
    /// In waits that ended, the most in one of them, and in the one that lasts.
    pub beside_idle_ns: u64,
    pub worst_beside_idle_ns: u64,
    pub beside_idle_now_ns: u64,
    /// Running on pCPUs that it may not use.
    pub outside_ns: u64,
    pub overhead_ns: u64,
    pub spun_ns: u64,
    pub switches: u64,
    pub migrations: u64,
    pub preemptions: u64,
}

impl Simulation {
    /// A blocked vCPU waits.
    #[inline]
    pub(super) fn begin_wait(&mut self, vcpu: VcpuNumber) {
        self.scheduling_events.wakes += 1;
        let entry = &mut self.vcpus[vcpu];
        entry.times.blocked_ns += self.now_ns - entry.since_ns();
    }

    /// A waiting vCPU runs.
    #[inline]
    pub(super) fn end_wait(&mut self, vcpu: VcpuNumber) {
        let entry = &mut self.vcpus[vcpu];
        let start_ns = entry.since_ns();
        let length_ns = self.now_ns - start_ns;
        entry.times.waited_ns += length_ns;
        if length_ns > self.late_ns {
            self.domains[entry.engine.domain].late_waits += 1;
        }
        self.close_beside_idle(vcpu);
        let entry = &mut self.vcpus[vcpu];
        if entry.waits.record(length_ns) {
            self.describe_worst_wait(vcpu, start_ns);
        }
        if self.trace.is_some() {
            self.record_segment(vcpu, None, start_ns);
        }
    }

    /// The vCPU runs on the pCPU no more.
    #[inline(always)]
    pub(super) fn stops(&mut self, current: VcpuNumber, pcpu: PcpuNumber, preempted: bool) {
        let now_ns = self.now_ns;
        let entry = &mut self.pcpus[pcpu];
        entry.last = current;
        entry.runs = Number::NONE;
        entry.idle_since_ns = now_ns;
        if self.thread_speed_percent != FULL_SPEED {
            self.changed.push(pcpu);
        }
        let vcpu = &mut self.vcpus[current];
        let start_ns = vcpu.since_ns();
        vcpu.left_ns = now_ns;
        vcpu.times.gotten_ns += now_ns - start_ns;
        vcpu.times.preemptions += u64::from(preempted);
        entry.history.push(current, start_ns, now_ns);
        self.check_pin(current, pcpu, now_ns - start_ns);
        if self.trace.is_some() {
            self.record_segment(current, Some(pcpu), start_ns);
        }
    }

    fn record_segment(&mut self, vcpu: VcpuNumber, pcpu: Option<PcpuNumber>, start_ns: u64) {
        let segment = self.segment(vcpu, pcpu, start_ns);
        let Some(trace) = &mut self.trace else { return };
        if trace.start_ns <= segment.end_ns && segment.start_ns <= trace.end_ns {
            trace.segments.push(segment);
        }
    }

    /// What ends now.
    fn segment(&self, vcpu: VcpuNumber, pcpu: Option<PcpuNumber>, start_ns: u64) -> Segment {
        let domain = self.vcpus[vcpu].engine.domain;
        let vcpu = vcpu.0 - self.domains[domain].engine.first_vcpu.0;
        let pcpu = pcpu.map(|pcpu| pcpu.0);
        Segment { domain: domain.0, vcpu, pcpu, start_ns, end_ns: self.now_ns }
    }

    #[cold]
    fn describe_worst_wait(&mut self, vcpu: VcpuNumber, start_ns: u64) {
        let pcpus = if self.is_other(vcpu) {
            Number::new(0)..self.pcpus.next()
        } else {
            self.queues[self.vcpus[vcpu].engine.queue].pcpus()
        };
        let mut ran: Vec<(VcpuNumber, u64)> = vec![];
        for pcpu in Number::range(pcpus).take(LOOKED_AT) {
            let pcpu = &self.pcpus[pcpu];
            let current = pcpu.runs;
            let current = (current != Number::NONE)
                .then(|| (current, self.vcpus[current].since_ns(), self.now_ns));
            for (other, from, until) in pcpu.history.since(start_ns).chain(current) {
                let overlap_ns = until.min(self.now_ns).saturating_sub(from.max(start_ns));
                if other == Number::NONE || other == vcpu || overlap_ns == 0 {
                    continue;
                }
                ran.push((other, overlap_ns));
            }
        }
        ran.sort_unstable_by_key(|&(other, _)| other);
        ran.dedup_by(|&mut (other, ns), (before, sum_ns)| {
            let same = other == *before;
            *sum_ns += if same { ns } else { 0 };
            same
        });
        ran.sort_unstable_by_key(|&(other, ns)| (std::cmp::Reverse(ns), other));
        let ran = ran.into_iter().take(NAMED).map(|(other, ran_ns)| {
            let domain = &self.domains[self.vcpus[other].engine.domain];
            Ran { domain: domain.name.clone(), vcpu: other.0 - domain.engine.first_vcpu.0, ran_ns }
        });
        let ran = ran.collect();
        let length_ns = self.now_ns - start_ns;
        let entry = &mut self.vcpus[vcpu];
        let index = vcpu.0 - self.domains[entry.engine.domain].engine.first_vcpu.0;
        entry.waits.set_worst(index, start_ns, length_ns, ran);
    }

    /// Ends what is under way now, so that every sum and trace reaches up to now.
    fn close(&mut self) {
        for pcpu in self.pcpus.numbers() {
            self.progress(pcpu);
        }
        for vcpu in self.vcpus.numbers() {
            let entry = &mut self.vcpus[vcpu];
            if entry.is_kept() {
                entry.times.parked_ns += self.now_ns + EPOCH_NS - entry.engine.parked_ns;
                entry.engine.parked_ns = self.now_ns + EPOCH_NS;
            }
        }
    }

    /// Sums of a vCPU, with what is under way.
    fn times(&self, vcpu: VcpuNumber) -> TimeMeasure {
        let entry = &self.vcpus[vcpu];
        let times = &entry.times;
        let open_ns = self.now_ns - entry.since_ns();
        let open = |status| if entry.engine.status == status { open_ns } else { 0 };
        let beside_idle_ns = self.open_beside_idle_ns(vcpu);
        TimeMeasure {
            gotten_ns: times.gotten_ns + open(Status::Running),
            waited_ns: times.waited_ns + open(Status::Waiting),
            blocked_ns: times.blocked_ns + open(Status::Blocked),
            parked_ns: times.parked_ns,
            beside_idle_ns: times.beside_idle_ns + beside_idle_ns,
            worst_beside_idle_ns: times.worst_beside_idle_ns.max(beside_idle_ns),
            overhead_ns: times.overhead_ns,
            spun_ns: times.spun_ns,
            switches: times.switches,
            migrations: times.migrations,
            preemptions: times.preemptions,
            waits: entry.waits.measure(),
        }
    }

    /// CPU time of the work that has arrived in a domain, if somebody asks and work arrives in all its tasks.
    fn offered_ns(&self, domain: DomainNumber) -> Option<u64> {
        let tasks = &self.domains[domain].tasks;
        if !self.wants_offered || tasks.is_empty() {
            return None;
        }
        let offered = |task| self.tasks[task].program.offered_ns(self.now_ns);
        Number::range(tasks.clone()).map(offered).sum()
    }

    /// What governors want to know of a domain, from the start up to now.
    pub(super) fn sums(&self, domain: DomainNumber) -> Sample {
        let entry = &self.domains[domain];
        let mut sums = Sample {
            interval_ns: self.now_ns,
            packets: entry.packets,
            late_waits: entry.late_waits,
            ..Sample::default()
        };
        if let Some(offered_ns) = self.offered_ns(domain) {
            (sums.offered_ns, sums.offered_age_ns) = (offered_ns, 1);
        }
        for vcpu in entry.vcpus() {
            let entry = &self.vcpus[vcpu];
            let open_ns = self.now_ns - entry.since_ns();
            let mut waited_ns = entry.times.waited_ns;
            sums.gotten_ns += entry.times.gotten_ns;
            match entry.engine.status {
                Status::Running => sums.gotten_ns += open_ns,
                Status::Waiting => waited_ns += open_ns,
                Status::Blocked => {}
            }
            if entry.is_kept() {
                waited_ns -= self.now_ns + EPOCH_NS - entry.engine.parked_ns;
            }
            sums.waited_ns += waited_ns - entry.times.parked_ns;
            sums.waits += entry.waits.count();
        }
        sums
    }

    /// What was measured up to now. A wait that has not ended counts in the sums, not among the
    /// single waits, unless it is the longest of its vCPU.
    pub fn measure(&mut self) -> Run {
        self.close();
        for vcpu in self.vcpus.numbers() {
            let entry = &self.vcpus[vcpu];
            let start_ns = entry.since_ns();
            let length_ns = self.now_ns - start_ns;
            let longest_ns = entry.waits.worst_ns();
            if entry.engine.status == Status::Waiting && length_ns > longest_ns {
                self.describe_worst_wait(vcpu, start_ns);
            }
        }
        let elapsed_ns = self.now_ns;
        let pcpus = self.pcpus.iter().map(|pcpu| PcpuMeasure {
            idle_ns: pcpu.idle_ns
                + if pcpu.runs == Number::NONE { elapsed_ns - pcpu.idle_since_ns } else { 0 },
            switches: pcpu.switches,
        });
        let pcpus = pcpus.collect();
        let mut domains: Vec<_> = self.domains.numbers().map(|d| self.measure_domain(d)).collect();
        let limits: Vec<_> = self.domains.numbers().map(|d| self.usable(d)).collect();
        let fairness = crate::fairness::entitle(&mut domains, &limits, self.topology.pcpus);
        Run {
            policy: self.label.clone(),
            seed: self.seed,
            elapsed_ns,
            scheduling_events: self.scheduling_events,
            guest_steps: self.guest_steps,
            fairness,
            pcpus,
            domains,
        }
    }

    /// What was measured since an earlier measure of this simulation, as [`Run::since`] says.
    pub fn measure_since(&mut self, earlier: &Run) -> Run {
        let mut run = self.measure().since(earlier);
        let limits: Vec<_> = self.domains.numbers().map(|d| self.usable(d)).collect();
        run.fairness = crate::fairness::entitle(&mut run.domains, &limits, self.topology.pcpus);
        run
    }

    fn tasks_of(&self, domain: DomainNumber) -> impl Iterator<Item = TaskMeasure> {
        Number::range(self.domains[domain].tasks.clone()).map(|task| {
            let task = &self.tasks[task];
            TaskMeasure { name: task.name.clone(), values: task.program.values(self.now_ns) }
        })
    }

    /// What the tasks of each domain say of themselves up to now, with the domain's name: a small part of
    /// [`Simulation::measure`], and of its cost.
    pub fn tasks(&self) -> impl Iterator<Item = (&str, Vec<TaskMeasure>)> {
        let of = |domain| (self.domains[domain].name.as_str(), self.tasks_of(domain).collect());
        self.domains.numbers().map(of)
    }

    fn measure_domain(&self, index: DomainNumber) -> DomainMeasure {
        let domain = &self.domains[index];
        let mut time = TimeMeasure::default();
        let mut waits = WaitRecorder::default();
        let mut vcpus = vec![];
        for vcpu in domain.vcpus() {
            let measure = self.times(vcpu);
            waits.add(&self.vcpus[vcpu].waits);
            time.add_sums(&measure);
            vcpus.push(VcpuMeasure { time: measure });
        }
        time.waits = waits.measure();
        DomainMeasure {
            name: domain.name.clone(),
            weight: domain.weight,
            cap_percent: domain.cap_percent,
            share_percent: 100.0 * time.gotten_ns as f64 / self.now_ns.max(1) as f64,
            entitlement_percent: 0.0,
            tasks: self.tasks_of(index).collect(),
            unhonoured: self.unhonoured(index, &time, &vcpus),
            time,
            vcpus,
        }
    }

    fn usable(&self, domain: DomainNumber) -> Usable {
        let domain = &self.domains[domain];
        let settings = &domain.engine.state.settings;
        let vcpus = 100.0 * domain.vcpus().len() as f64;
        let limit = match domain.cap_percent {
            0 => vcpus,
            cap => vcpus.min(f64::from(cap)),
        };
        let reserves = ffi::sy_reserves(&self.policy) && settings.reserved_ns > 0;
        let reserved_percent = if reserves {
            limit.min(vcpus * settings.reserved_ns as f64 / settings.period_ns.max(1) as f64)
        } else {
            0.0
        };
        let percent = if reserves && settings.extra_time == 0 { reserved_percent } else { limit };
        let masks = || domain.vcpus().map(|vcpu| self.vcpus[vcpu].allowed);
        // Set 0 is the whole host.
        let pcpus = (!masks().any(|mask| mask == 0)).then(|| {
            let allowed =
                |&pcpu: &PcpuNumber| masks().any(|m| self.sets[m as usize].contains(pcpu));
            self.pcpus.numbers().filter(allowed).map(|pcpu| pcpu.0).collect()
        });
        Usable { percent, pcpus, ungrouped: domain.ungrouped, reserved_percent }
    }

    /// What the policy says of each vCPU now, domain by domain.
    pub fn standings(&self) -> impl Iterator<Item = Standing> + '_ {
        self.vcpus.iter().map(|vcpu| {
            // Nobody knows of it.
            if vcpu.engine.queue == Number::NONE {
                return Standing::default();
            }
            let domain = &self.domains[vcpu.engine.domain].engine.state;
            let queue = &self.queues[vcpu.engine.queue].engine.state;
            Standing::of(&self.policy, queue, domain, &vcpu.engine.state)
        })
    }

    /// The runs and waits that last, as if they ended now.
    pub fn open_segments(&self) -> impl Iterator<Item = Segment> + '_ {
        let segment = |(vcpu, entry): (VcpuNumber, &Vcpu)| match entry.engine.status {
            Status::Blocked => None,
            Status::Waiting => Some(self.segment(vcpu, None, entry.since_ns())),
            Status::Running => {
                Some(self.segment(vcpu, Some(entry.engine.ran_on), entry.since_ns()))
            }
        };
        self.vcpus.numbers().zip(self.vcpus.iter()).filter_map(segment)
    }

    /// The runs and waits that ended since the last call or [`Simulation::trace`], in order of their
    /// ends, those of no length and the whole of each that began before the window included.
    pub fn drain_segments(&mut self) -> impl Iterator<Item = Segment> + '_ {
        self.trace.iter_mut().flat_map(|trace| trace.segments.drain(..))
    }

    /// The trace so far: what lies in its window.
    pub fn take_trace(&mut self) -> Trace {
        let Some(mut trace) = self.trace.take() else { return Trace::default() };
        trace.segments.extend(self.open_segments());
        for segment in &mut trace.segments {
            segment.start_ns = segment.start_ns.max(trace.start_ns);
            segment.end_ns = segment.end_ns.min(trace.end_ns);
        }
        trace.segments.retain(|segment| segment.start_ns < segment.end_ns);
        trace
    }
}
