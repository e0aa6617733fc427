// SPDX-License-Identifier: GPL-2.0-only
//! Credit's books without a host: ticks, charges and accountings by hand.
#![allow(dead_code)] // Each test file uses its part.

use steelyard_policy::ffi::*;
use steelyard_policy::{Policy, Standing, request};

pub const BOOST: u64 = 0;
pub const UNDER: u64 = 1;
pub const OVER: u64 = 2;

/// Several pCPUs' worth of domains without a host: ticks, charges and accountings by hand.
pub struct Books {
    pub p: Parameters,
    pub a: Accounting,
    pub q: Queue,
    pub c: Pcpu,
    pub domains: Vec<(Domain, Vec<Vcpu>)>,
}

impl Books {
    pub fn new(policy: &str, pcpus: u64) -> Books {
        Books::of(&Policy::named(policy).expect("a policy of the core"), pcpus)
    }

    pub fn of(policy: &Policy, pcpus: u64) -> Books {
        let p = policy.parameters().clone();
        let mut a = Accounting::default();
        sy_accounting_init(&p, &mut a, pcpus);
        Books { p, a, q: Queue::default(), c: Pcpu::default(), domains: Vec::new() }
    }

    pub fn add(&mut self, weight: u64, cap_percent: u64, vcpus: u64) {
        let mut d = Domain::default();
        let settings = Settings { weight, cap_percent, ..Settings::default() };
        sy_domain_init(&self.p, &mut d, &settings, vcpus, 1);
        let vcpus = (0..vcpus)
            .map(|_| {
                let mut v = Vcpu::default();
                sy_vcpu_init(&self.p, &mut d, &mut v, 1);
                v
            })
            .collect();
        self.domains.push((d, vcpus));
    }

    /// The vCPU is found running by a tick, then has run for so long.
    pub fn run(&mut self, domain: usize, vcpu: usize, ran_ns: u64) {
        let (d, vcpus) = &mut self.domains[domain];
        let v = &mut vcpus[vcpu];
        sy_tick(&self.p, &mut self.a, &mut self.q, &mut self.c, d, v, 1);
        sy_charge(&self.p, &mut self.q, d, v, ran_ns, 1);
    }

    /// One accounting; what it asked for per domain, then per vCPU.
    pub fn account(&mut self) -> Vec<(u32, Vec<u32>)> {
        sy_account_begin(&self.p, &mut self.a, 1);
        let asked = self
            .domains
            .iter_mut()
            .map(|(d, vcpus)| {
                let asked = sy_account_domain(&self.p, &mut self.a, d);
                let visited = vcpus.iter_mut().filter(|_| asked & request::VISIT != 0);
                (asked, visited.map(|v| sy_account_vcpu(&self.p, &mut self.a, d, v)).collect())
            })
            .collect();
        sy_account_end(&self.p, &mut self.a);
        asked
    }

    /// Whether it earns credits: a tick would ask for a better place for it.
    pub fn is_active(&self, domain: usize, vcpu: usize) -> bool {
        let (mut d, mut v) = (self.domains[domain].0.clone(), self.domains[domain].1[vcpu].clone());
        let (mut a, mut q, mut c) = (self.a.clone(), self.q.clone(), self.c.clone());
        let asked = sy_tick(&self.p, &mut a, &mut q, &mut c, &mut d, &mut v, 1);
        asked & request::REPLACE != 0
    }

    pub fn credits(&self) -> Vec<Vec<i64>> {
        let of = |(_, vcpus): &(_, Vec<Vcpu>)| {
            vcpus.iter().map(|v| sy_credit(&self.p, &self.q, v)).collect()
        };
        self.domains.iter().map(of).collect()
    }

    /// Of each domain's first vCPU.
    pub fn standings(&self) -> Vec<Standing> {
        let of = |(d, vcpus): &(Domain, Vec<Vcpu>)| Standing::of(&self.p, &self.q, d, &vcpus[0]);
        self.domains.iter().map(of).collect()
    }

    pub fn priorities(&mut self) -> Vec<Vec<u64>> {
        let (p, q) = (&self.p, &mut self.q);
        self.domains
            .iter_mut()
            .map(|(d, vcpus)| vcpus.iter_mut().map(|v| sy_key(p, q, d, v, 1)).collect())
            .collect()
    }
}
