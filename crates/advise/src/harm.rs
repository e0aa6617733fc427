// SPDX-License-Identifier: GPL-2.0-only
//! How badly a domain fares. Nobody says what a domain is worth to them, so this has to be right without:
//!
//! - *Due* is what weighted max-min fairness over the whole host would give a domain, pins and caps aside. Who
//!   needs no more than an equal division would give is due all that it needs, whatever its weight: to serve it
//!   takes nothing from anybody that they could claim.
//! - *Loss* is the part of that which it does not get. Time that it spins does no work and is not gotten.
//! - *Lateness* is about its waits, of domains that sleep: who computes all the time waits for its turn, and
//!   should. The 99th percentile counts, and waits of a few milliseconds do no harm.

use steelyard_simulator::config::Setup;
use steelyard_simulator::measure::{DomainMeasure, Run};
use steelyard_simulator::{Usable, demand_percent, entitle};

/// A loss up to this is none: what scheduling costs anyway.
const LOSS_ALLOWED: f64 = 0.05;
/// Nor does a wait up to this: a frame of a screen takes three times as long.
const WAIT_ALLOWED_NS: f64 = 5e6;
/// A wait that is longer by this is half as bad as it can be.
const WAIT_HALF_NS: f64 = 20e6;
/// A domain that is blocked for less of the time computes.
const SLEEPS: f64 = 0.05;
/// Who is served in full by an equal division, but for rounding.
const NEARLY_ALL: f64 = 0.98;
/// Who is harmed by more than this is hurt.
pub const HURTS: f64 = 0.05;

/// How a domain fares, from 0, well, to 1 in each respect.
#[derive(Clone, Copy, Debug, Default)]
pub struct Harm {
    pub loss: f64,
    pub lateness: f64,
}

impl Harm {
    pub fn total(&self) -> f64 {
        self.loss + self.lateness
    }
}

/// What the host as it is says of its domains, by which every change is measured.
pub struct Yardstick {
    domains: Vec<Domain>,
}

struct Domain {
    due_percent: f64,
    sleeps: bool,
}

impl Yardstick {
    pub fn new(run: &Run, setup: &Setup) -> Yardstick {
        let pcpus = setup.host.pcpus();
        let by_weight = entitlements(run.domains.clone(), setup, pcpus);
        let equal =
            run.domains.iter().map(|domain| DomainMeasure { weight: 256, ..domain.clone() });
        let equally = entitlements(equal.collect(), setup, pcpus);
        let domains = run.domains.iter().enumerate().map(|(index, domain)| {
            let all: f64 = domain.vcpus.iter().map(|vcpu| demand_percent(&vcpu.time)).sum();
            let modest = equally[index] >= NEARLY_ALL * all;
            let time = &domain.time;
            // Until it starts it is blocked.
            let away_ns =
                setup.domains[index].start.0.min(run.elapsed_ns) * domain.vcpus.len() as u64;
            let blocked_ns = time.blocked_ns.saturating_sub(away_ns);
            let there_ns = time.gotten_ns + time.waited_ns + blocked_ns;
            Domain {
                due_percent: if modest { equally[index] } else { by_weight[index] },
                sleeps: blocked_ns as f64 > SLEEPS * there_ns as f64,
            }
        });
        Yardstick { domains: domains.collect() }
    }

    /// In percent of one pCPU.
    pub fn due_percent(&self, domain: usize) -> f64 {
        self.domains[domain].due_percent
    }

    /// Of every domain.
    pub fn harms(&self, run: &Run) -> Vec<Harm> {
        let domains = run.domains.iter().enumerate();
        domains.map(|(index, domain)| self.harm(index, domain, run.elapsed_ns)).collect()
    }

    /// Of one.
    pub fn harm(&self, index: usize, measured: &DomainMeasure, elapsed_ns: u64) -> Harm {
        let domain = &self.domains[index];
        let lost = 1.0 - useful_of(measured, elapsed_ns) / domain.due_percent;
        let late_ns = measured.time.waits.p99_ns as f64 - WAIT_ALLOWED_NS;
        let late_ns = if domain.sleeps { late_ns.max(0.0) } else { 0.0 };
        Harm {
            loss: if domain.due_percent > 0.0 { (lost - LOSS_ALLOWED).max(0.0) } else { 0.0 },
            lateness: late_ns / (late_ns + WAIT_HALF_NS),
        }
    }
}

/// What each is due of so many pCPUs without pins and caps, in percent of one.
fn entitlements(mut domains: Vec<DomainMeasure>, setup: &Setup, pcpus: u32) -> Vec<f64> {
    let usable = domains.iter().zip(&setup.domains).map(|(domain, configured)| Usable {
        percent: 100.0 * domain.vcpus.len() as f64,
        ungrouped: configured.ungrouped,
        ..Usable::default()
    });
    let usable: Vec<_> = usable.collect();
    entitle(&mut domains, &usable, pcpus);
    domains.iter().map(|domain| domain.entitlement_percent).collect()
}

/// CPU time that goes into the domain's work and does not go into spinning, in percent of one pCPU.
pub fn useful_percent(run: &Run, domain: usize) -> f64 {
    useful_of(&run.domains[domain], run.elapsed_ns)
}

fn useful_of(measured: &DomainMeasure, elapsed_ns: u64) -> f64 {
    let useful_ns = measured.time.gotten_ns.saturating_sub(measured.time.spun_ns);
    100.0 * useful_ns as f64 / elapsed_ns.max(1) as f64
}
