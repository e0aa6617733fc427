// SPDX-License-Identifier: GPL-2.0-only
//! What a run measured, named as xenmon and the literature name it. Serialised, these types are the
//! `runs` of `results.json` (described in `docs/results.md`).

use serde::{Deserialize, Serialize};

/// One run: one policy, one seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Label of the policy, or "recorded" for what a recorded host did.
    pub policy: String,
    /// Seed of all random streams.
    pub seed: u64,
    /// Simulated time.
    pub elapsed_ns: u64,
    /// What happened to the scheduler.
    pub scheduling_events: SchedulingEvents,
    /// What happened in guests: a step of a thread ended that took CPU time, slept or spun for a window, its turn
    /// on the vCPU ended, a packet or disk request came. However few of them took the simulator's time.
    pub guest_steps: u64,
    /// Jain's index of share over entitlement, 1 being perfectly fair.
    pub fairness: f64,
    /// One item per pCPU.
    pub pcpus: Vec<PcpuMeasure>,
    /// One item per domain, in the order of the configuration.
    pub domains: Vec<DomainMeasure>,
}

impl Run {
    /// The part of this run after an earlier measure of it: sums and shares, and the waits that ended then. What cannot
    /// be told apart afterwards is that of the whole run (entitlements, settings that did not hold) or left out
    /// (figures of workloads).
    #[must_use]
    pub fn since(mut self, earlier: &Run) -> Run {
        let begin_ns = earlier.elapsed_ns;
        self.elapsed_ns -= begin_ns;
        self.scheduling_events = self.scheduling_events.since(&earlier.scheduling_events);
        self.guest_steps -= earlier.guest_steps;
        for (pcpu, before) in self.pcpus.iter_mut().zip(&earlier.pcpus) {
            pcpu.idle_ns -= before.idle_ns;
            pcpu.switches -= before.switches;
        }
        for (domain, before) in self.domains.iter_mut().zip(&earlier.domains) {
            domain.time.take_away(&before.time, begin_ns);
            for (vcpu, before) in domain.vcpus.iter_mut().zip(&before.vcpus) {
                vcpu.time.take_away(&before.time, begin_ns);
            }
            domain.share_percent =
                100.0 * domain.time.gotten_ns as f64 / self.elapsed_ns.max(1) as f64;
            domain.tasks.clear();
        }
        self
    }
}

/// What happened to the scheduler, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchedulingEvents {
    /// A vCPU woke.
    pub wakes: u64,
    /// A vCPU blocked.
    pub blocks: u64,
    /// A pCPU went from one vCPU, or from idle, to another vCPU.
    pub switches: u64,
    /// A tick of a pCPU.
    pub ticks: u64,
    /// An accounting of the whole host.
    pub accountings: u64,
    /// A slice ended.
    pub slice_ends: u64,
    /// A timer of the policy: of a vCPU, of a domain, for a sample.
    pub policy_timers: u64,
}

impl SchedulingEvents {
    fn since(&self, earlier: &SchedulingEvents) -> SchedulingEvents {
        SchedulingEvents {
            wakes: self.wakes - earlier.wakes,
            blocks: self.blocks - earlier.blocks,
            switches: self.switches - earlier.switches,
            ticks: self.ticks - earlier.ticks,
            accountings: self.accountings - earlier.accountings,
            slice_ends: self.slice_ends - earlier.slice_ends,
            policy_timers: self.policy_timers - earlier.policy_timers,
        }
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.wakes
            + self.blocks
            + self.switches
            + self.ticks
            + self.accountings
            + self.slice_ends
            + self.policy_timers
    }
}

/// One pCPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PcpuMeasure {
    /// Time with no vCPU.
    pub idle_ns: u64,
    /// Switches to another vCPU.
    pub switches: u64,
}

/// One domain. Times are sums over its vCPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DomainMeasure {
    /// Name.
    pub name: String,
    /// As configured.
    pub weight: u32,
    /// As configured; 0: none.
    pub cap_percent: u32,
    /// CPU time in percent of one pCPU: 100 x gotten / elapsed.
    pub share_percent: f64,
    /// What weighted max-min fairness gives it, in percent of one pCPU: no more than it would use if
    /// it never waited (its run time as a part of the time in which it did not wait), than its vCPUs
    /// and pCPUs can use, and than its cap.
    pub entitlement_percent: f64,
    /// Sums and waits.
    #[serde(flatten)]
    pub time: TimeMeasure,
    /// One item per vCPU.
    pub vcpus: Vec<VcpuMeasure>,
    /// One item per task.
    pub tasks: Vec<TaskMeasure>,
    /// What was asked for it and the policy did not honour.
    #[serde(default)]
    pub unhonoured: Vec<Unhonoured>,
}

/// A setting of a domain that did not hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unhonoured {
    /// Which one.
    pub setting: Setting,
    /// Whether the policy has such settings at all.
    pub heeded: bool,
    /// What was asked, in percent of one pCPU: at most (cap), at least (reservation; what it would have
    /// used of it), or, outside its pCPUs, nothing (pin).
    pub asked_percent: f64,
    /// What it got instead.
    pub got_percent: f64,
}

/// What an administrator asks for a domain beside its weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Setting {
    /// No more CPU time than this.
    Cap,
    /// On these pCPUs only.
    Pin,
    /// So much of each period, if it has work.
    Reservation,
}

/// One vCPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VcpuMeasure {
    /// Times and waits.
    #[serde(flatten)]
    pub time: TimeMeasure,
}

/// gotten + waited + blocked = elapsed, for each vCPU, to the nanosecond.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TimeMeasure {
    /// Running.
    pub gotten_ns: u64,
    /// Runnable, not running.
    pub waited_ns: u64,
    /// Nothing to do.
    pub blocked_ns: u64,
    /// The part of `waited_ns` in which a cap or reservation kept it from running.
    pub parked_ns: u64,
    /// The part of `waited_ns` in which a pCPU that it may use was idle; of a recorded host 0.
    #[serde(default)]
    pub beside_idle_ns: u64,
    /// The most of that in one wait.
    #[serde(default)]
    pub worst_beside_idle_ns: u64,
    /// The part of `gotten_ns` that went into switches, refills, interrupts and exits.
    pub overhead_ns: u64,
    /// The part of `gotten_ns` spent spinning for a lock.
    pub spun_ns: u64,
    /// Times that it started on a pCPU.
    pub switches: u64,
    /// Starts on another pCPU than before.
    pub migrations: u64,
    /// Times that it lost a pCPU while it could have gone on.
    pub preemptions: u64,
    /// How long it waited each time.
    pub waits: Waits,
}

impl TimeMeasure {
    /// Adds the sums of another; its single waits are left alone.
    pub fn add_sums(&mut self, other: &TimeMeasure) {
        self.gotten_ns += other.gotten_ns;
        self.waited_ns += other.waited_ns;
        self.blocked_ns += other.blocked_ns;
        self.parked_ns += other.parked_ns;
        self.beside_idle_ns += other.beside_idle_ns;
        self.worst_beside_idle_ns = self.worst_beside_idle_ns.max(other.worst_beside_idle_ns);
        self.overhead_ns += other.overhead_ns;
        self.spun_ns += other.spun_ns;
        self.switches += other.switches;
        self.migrations += other.migrations;
        self.preemptions += other.preemptions;
    }
}

impl TimeMeasure {
    /// Leaves what came after an earlier measure, which was at this time.
    fn take_away(&mut self, earlier: &TimeMeasure, begin_ns: u64) {
        self.gotten_ns -= earlier.gotten_ns;
        self.waited_ns -= earlier.waited_ns;
        self.blocked_ns -= earlier.blocked_ns;
        self.parked_ns -= earlier.parked_ns;
        self.beside_idle_ns -= earlier.beside_idle_ns;
        self.overhead_ns -= earlier.overhead_ns;
        self.spun_ns -= earlier.spun_ns;
        self.switches -= earlier.switches;
        self.migrations -= earlier.migrations;
        self.preemptions -= earlier.preemptions;
        self.waits = self.waits.since(&earlier.waits, begin_ns);
    }
}

/// Single waits: from runnable to running.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waits {
    /// Number of them, those of no length included.
    pub count: u64,
    /// Percentiles.
    pub p50_ns: u64,
    /// 90 %.
    pub p90_ns: u64,
    /// 99 %.
    pub p99_ns: u64,
    /// 99.9 %.
    pub p999_ns: u64,
    /// The longest one.
    pub worst: Option<WorstWait>,
    /// Histogram: upper bound of a bucket in ns, and how many waits fell into it; empty buckets are
    /// left out.
    pub histogram: Vec<(u64, u64)>,
}

/// The longest single wait and who ran meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorstWait {
    /// Which vCPU of the domain.
    pub vcpu: u32,
    /// When it began.
    pub start_ns: u64,
    /// How long it was.
    pub length_ns: u64,
    /// Who ran meanwhile on the pCPUs that it waited for, longest first.
    pub ran: Vec<Ran>,
}

/// Part of a [`WorstWait`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ran {
    /// Domain.
    pub domain: String,
    /// vCPU.
    pub vcpu: u32,
    /// CPU time within the wait.
    pub ran_ns: u64,
}

/// The workload's own result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskMeasure {
    /// Name of the task.
    pub name: String,
    /// What was measured.
    pub values: Vec<TaskValue>,
}

/// A figure that a workload reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskValue {
    /// What it is, such as "response time p99".
    pub name: String,
    /// Unit, such as "ms" or "1/s".
    pub unit: String,
    /// Whether more is better; none where neither is.
    pub more_is_better: Option<bool>,
    /// The figure; none if there was nothing to measure.
    pub value: Option<f64>,
}

/// Who ran where, over a window of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// Beginning of the window.
    pub start_ns: u64,
    /// End of the window.
    pub end_ns: u64,
    /// Runs and waits of vCPUs, by the time at which they ended.
    pub segments: Vec<Segment>,
}

/// A vCPU ran, or waited, without interruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// Index of the domain.
    pub domain: u32,
    /// Index of the vCPU in its domain.
    pub vcpu: u32,
    /// The pCPU that it ran on; none: it waited.
    pub pcpu: Option<u32>,
    /// Beginning.
    pub start_ns: u64,
    /// End.
    pub end_ns: u64,
}
