// SPDX-License-Identifier: GPL-2.0-only
//! Domains of which tests say what was measured and who caused a reset, and the knobs that governors
//! turn for that.
#![allow(dead_code, clippy::unwrap_used)] // Each test file uses its part.

use steelyard_policy::ffi::*;
use steelyard_policy::{Policy, request};

pub const MS: u64 = 1_000_000;
pub const S: u64 = 1_000 * MS;
/// Of the host.
pub const PCPUS: u64 = 1;

pub struct Host {
    pub p: Parameters,
    queue: Queue,
    governor: Governor,
    pub domains: Vec<Domain>,
    pub now: u64,
}

/// So much CPU time in an interval, and nothing else.
pub fn load(interval_ns: u64, gotten_ns: u64) -> Sample {
    Sample { interval_ns, gotten_ns, ..Sample::default() }
}

impl Host {
    /// Domains of one vCPU with these weights; settings are those of the policy's last governor.
    pub fn new(policy: &str, settings: &[(&str, &str)], weights: &[u64]) -> Self {
        let mut policy = Policy::named(policy).unwrap();
        let governor = policy.governors().last().unwrap().name;
        for (name, value) in settings {
            policy.set(&format!("{governor}.{name}"), value).unwrap();
        }
        let p = policy.parameters().clone();
        let domain = |(index, &weight): (usize, &u64)| {
            let mut domain = Domain::of(index as u64 + 1);
            let settings = Settings { weight, ..Settings::default() };
            sy_domain_init(&p, &mut domain, &settings, 1, S);
            domain
        };
        let domains = weights.iter().enumerate().map(domain).collect();
        let mut queue = Queue::of(PCPUS as u32);
        sy_queue_init(&p, &mut queue, PCPUS);
        Host { p, queue, governor: Governor::default(), domains, now: 1_000 * S }
    }

    pub fn sample_ns(&self) -> u64 {
        sy_sample_ns(&self.p)
    }

    /// What was measured of each domain in the time since the sample before.
    pub fn sample(&mut self, measured: &[Sample]) {
        self.sample_after(self.sample_ns(), measured);
    }

    /// The same with a host whose sample comes so much later than what happened before.
    pub fn sample_after(&mut self, after_ns: u64, measured: &[Sample]) {
        self.now += after_ns;
        sy_sample_begin(&self.p, &mut self.governor, PCPUS, self.now);
        for (domain, sample) in self.domains.iter_mut().zip(measured) {
            sy_sample_domain(&self.p, &mut self.governor, domain, sample);
        }
        for domain in &mut self.domains {
            sy_sample_settle(&self.p, &mut self.governor, domain);
        }
    }

    /// An administrator asks for something else.
    pub fn change_settings(&mut self, domain: usize, change: impl FnOnce(&mut Settings)) {
        let mut settings = self.domains[domain].settings;
        change(&mut settings);
        sy_domain_change(&self.p, &mut self.governor, &mut self.domains[domain], &settings);
    }

    /// So much later this domain causes a reset. True if boosts were looked at.
    pub fn reset(&mut self, after_ms: u64, domain: usize) -> bool {
        self.now += after_ms * MS;
        let Host { p, queue, governor, domains, now } = self;
        let requests = sy_reset(p, queue, governor, &mut domains[domain], 1, *now);
        if requests & request::REWEIGH == 0 {
            return false;
        }
        for id in governor.reweigh.into_iter().filter(|&id| id > 0) {
            sy_reweigh(p, governor, &mut domains[id as usize - 1]);
        }
        true
    }

    pub fn weights(&self) -> Vec<u64> {
        self.domains.iter().map(|domain| domain.weight).collect()
    }
}
