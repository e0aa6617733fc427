// SPDX-License-Identifier: GPL-2.0-only
//! Whether the settings of a domain held: cap, pin, reservation.

use steelyard_policy::ffi;

use crate::measure::{Setting, TimeMeasure, Unhonoured, VcpuMeasure};

use crate::engine::Status;
use crate::numbers::{DomainNumber, Number, PcpuNumber, VcpuNumber};

use super::{EVERYWHERE, Simulation};

/// A cap holds up to this much more, beside what its period allows: what a flat debit does not see.
const ABOVE_CAP: f64 = 1.02;
/// A reservation holds down to this: it is judged over the whole run, not period by period.
const BELOW_RESERVATION: f64 = 0.9;

impl Simulation {
    /// What the policy did not honour of what was asked for this domain.
    pub(super) fn unhonoured(
        &self,
        domain: DomainNumber,
        time: &TimeMeasure,
        vcpus: &[VcpuMeasure],
    ) -> Vec<Unhonoured> {
        [
            self.cap_exceeded(domain, time),
            self.pin_left(domain),
            self.reservation_missed(domain, vcpus),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn percent(&self, time_ns: f64) -> f64 {
        100.0 * time_ns / self.now_ns.max(1) as f64
    }

    /// At most the cap's part of the run and of one period more, in which the last budget was spent.
    /// Where accounting judges, each vCPU may have saved the credits of one, and run through one more
    /// before it is parked.
    fn cap_exceeded(&self, domain: DomainNumber, time: &TimeMeasure) -> Option<Unhonoured> {
        let settings = &self.domains[domain].engine.state.settings;
        let cap_percent = self.domains[domain].cap_percent;
        if cap_percent == 0 {
            return None;
        }
        let period_ns = ffi::sy_cap_period_ns(&self.policy);
        let heeded = period_ns > 0;
        let mut most_ns = ABOVE_CAP * f64::from(cap_percent) / 100.0 * self.now_ns as f64;
        if heeded {
            let period_ns = period_ns.max(settings.period_ns) as f64;
            most_ns += f64::from(cap_percent) / 100.0 * period_ns;
            most_ns += 2.0 * self.account_ns as f64 * self.domains[domain].vcpus().len() as f64;
        }
        (time.gotten_ns as f64 > most_ns).then(|| Unhonoured {
            setting: Setting::Cap,
            heeded,
            asked_percent: cap_percent.into(),
            got_percent: self.percent(time.gotten_ns as f64),
        })
    }

    /// The host keeps pins whatever the policy, so this finds faults of the host.
    fn pin_left(&self, domain: DomainNumber) -> Option<Unhonoured> {
        let vcpus = self.domains[domain].vcpus();
        let outside_ns: u64 = vcpus.map(|vcpu| self.vcpus[vcpu].times.outside_ns).sum();
        (outside_ns > 0).then(|| Unhonoured {
            setting: Setting::Pin,
            heeded: true,
            asked_percent: 0.0,
            got_percent: self.percent(outside_ns as f64),
        })
    }

    /// What is reserved for a vCPU is its part of the time in which it had work, and no more than it
    /// would use if it never waited. It is missed if neither was given.
    fn reservation_missed(
        &self,
        domain: DomainNumber,
        vcpus: &[VcpuMeasure],
    ) -> Option<Unhonoured> {
        let settings = &self.domains[domain].engine.state.settings;
        if settings.reserved_ns == 0 || settings.period_ns == 0 {
            return None;
        }
        let cap = match self.domains[domain].cap_percent {
            0 => 1.0,
            cap => f64::from(cap) / (100.0 * vcpus.len() as f64),
        };
        let rate = (settings.reserved_ns as f64 / settings.period_ns as f64).min(1.0).min(cap);
        let slack_ns = 2.0 * settings.period_ns as f64;
        let (mut missed, mut asked_ns, mut got_ns) = (false, 0.0, 0.0);
        for VcpuMeasure { time } in vcpus {
            let elapsed_ns = (time.gotten_ns + time.waited_ns + time.blocked_ns) as f64;
            let awake_ns = (time.gotten_ns + time.waited_ns) as f64;
            let demand = crate::fairness::demand_percent(time) / 100.0;
            let due_ns = (rate * awake_ns).min(rate.min(demand) * elapsed_ns);
            missed |= (time.gotten_ns as f64) < BELOW_RESERVATION * due_ns - slack_ns;
            asked_ns += due_ns;
            got_ns += time.gotten_ns as f64;
        }
        missed.then(|| Unhonoured {
            setting: Setting::Reservation,
            heeded: ffi::sy_reserves(&self.policy),
            asked_percent: self.percent(asked_ns),
            got_percent: self.percent(got_ns),
        })
    }

    /// The vCPU ran on this pCPU for so long.
    #[inline(always)]
    pub(super) fn check_pin(&mut self, vcpu: VcpuNumber, pcpu: PcpuNumber, ran_ns: u64) {
        let entry = &mut self.vcpus[vcpu];
        if entry.allowed != EVERYWHERE && !self.sets[entry.allowed as usize].contains(pcpu) {
            entry.times.outside_ns += ran_ns;
        }
    }

    // ---- Waits beside idle pCPUs ----

    /// The pCPU is idle and nobody has interrupted it.
    #[inline(always)]
    pub(super) fn begin_idle(&mut self, pcpu: PcpuNumber) {
        if !self.idle.contains(pcpu) {
            self.idle.insert(pcpu);
            self.idleness.begin(pcpu, self.now_ns);
        }
    }

    #[inline(always)]
    pub(super) fn end_idle(&mut self, pcpu: PcpuNumber) {
        if self.idle.contains(pcpu) {
            self.idle.remove(pcpu);
            self.idleness.end(pcpu, self.now_ns);
        }
    }

    /// Somebody waits from now on where an idle pCPU could take it.
    #[inline(always)]
    pub(super) fn begin_beside_idle(&mut self, vcpu: VcpuNumber) {
        let entry = &mut self.vcpus[vcpu];
        entry.idle_mark_ns = self.idleness.of(entry.allowed, self.now_ns);
    }

    /// No longer.
    #[inline(always)]
    pub(super) fn end_beside_idle(&mut self, vcpu: VcpuNumber) {
        let entry = &mut self.vcpus[vcpu];
        entry.times.beside_idle_now_ns +=
            self.idleness.of(entry.allowed, self.now_ns) - entry.idle_mark_ns;
    }

    /// A wait of this vCPU has ended: of that, what was beside an idle pCPU.
    #[inline(always)]
    pub(super) fn close_beside_idle(&mut self, vcpu: VcpuNumber) {
        let times = &mut self.vcpus[vcpu].times;
        let this_ns = std::mem::take(&mut times.beside_idle_now_ns);
        times.beside_idle_ns += this_ns;
        times.worst_beside_idle_ns = times.worst_beside_idle_ns.max(this_ns);
    }

    /// The same of the wait that lasts, if one does.
    pub(super) fn open_beside_idle_ns(&self, vcpu: VcpuNumber) -> u64 {
        let entry = &self.vcpus[vcpu];
        let queued_ns = match entry.engine.queued || entry.other != Number::NONE {
            true => self.idleness.of(entry.allowed, self.now_ns) - entry.idle_mark_ns,
            false => 0,
        };
        if entry.engine.status == Status::Waiting {
            entry.times.beside_idle_now_ns + queued_ns
        } else {
            0
        }
    }
}
