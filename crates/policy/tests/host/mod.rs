// SPDX-License-Identifier: GPL-2.0-only
//! A host of one pCPU and one queue for tests: time goes in steps of [`STEP_NS`], everything that
//! is due happens at the start of a step, and the tests say who wakes and blocks.
#![allow(dead_code)] // Each test file uses its part.

use steelyard_policy::ffi::*;
use steelyard_policy::{Policy, Standing, request, verdict};

pub const MS: u64 = 1_000_000;
pub const STEP_NS: u64 = MS / 10;

pub struct Task {
    pub vcpu: Vcpu,
    pub domain: usize,
    pub parked: bool,
    pub ran_ns: u64,
}

pub struct Host {
    policy: Policy,
    queue: Queue,
    pcpu: Pcpu,
    accounting: Accounting,
    pub domains: Vec<Domain>,
    pub tasks: Vec<Task>,
    /// Key and task, lowest first, equals in order of arrival.
    waiting: Vec<(u64, usize)>,
    pub running: Option<usize>,
    charged_ns: u64,
    choose_ns: u64,
    choose: bool,
    pub start_ns: u64,
    pub now: u64,
}

impl Host {
    /// Time starts at [`Host::start_ns`], a multiple of every tick and period in use.
    pub fn new(policy: &str) -> Host {
        let policy = Policy::named(policy).expect("a policy of the core");
        let start_ns = 3_000 * MS;
        let mut host = Host {
            policy,
            queue: Queue::default(),
            pcpu: Pcpu::default(),
            accounting: Accounting::default(),
            domains: Vec::new(),
            tasks: Vec::new(),
            waiting: Vec::new(),
            running: None,
            charged_ns: start_ns,
            choose_ns: u64::MAX,
            choose: false,
            start_ns,
            now: start_ns,
        };
        host.queue.pcpus = 1;
        sy_accounting_init(host.policy.parameters(), &mut host.accounting, 1);
        sy_queue_init(host.policy.parameters(), &mut host.queue, 1);
        host
    }

    pub fn set(mut self, parameter: &str, value: &str) -> Host {
        self.policy.set(parameter, value).expect("a parameter of the policy");
        self
    }

    /// The class in which the policy has a task now.
    pub fn class(&self, task: usize) -> Option<&'static str> {
        let Task { vcpu, domain, .. } = &self.tasks[task];
        Standing::of(self.policy.parameters(), &self.queue, &self.domains[*domain], vcpu).class
    }

    /// A domain with this many vCPUs; returns the number of its first task.
    pub fn add(&mut self, settings: Settings, vcpus: u64) -> usize {
        let p = self.policy.parameters();
        let mut domain = Domain::default();
        sy_domain_init(p, &mut domain, &settings, vcpus, self.now);
        let first = self.tasks.len();
        for _ in 0..vcpus {
            let mut vcpu = Vcpu::default();
            sy_vcpu_init(p, &mut domain, &mut vcpu, self.now);
            sy_join(p, &mut self.queue, &mut domain, &mut vcpu, self.now);
            self.tasks.push(Task { vcpu, domain: self.domains.len(), parked: false, ran_ns: 0 });
        }
        self.domains.push(domain);
        first
    }

    /// One call that takes queue, domain and vCPU, and what it asks for.
    fn call(
        &mut self,
        task: usize,
        call: impl FnOnce(&Parameters, &mut Queue, &mut Domain, &mut Vcpu, u64) -> u32,
    ) {
        let Task { vcpu, domain, .. } = &mut self.tasks[task];
        let p = self.policy.parameters();
        let asked = call(p, &mut self.queue, &mut self.domains[*domain], vcpu, self.now);
        self.obey(task, asked);
    }

    fn obey(&mut self, task: usize, asked: u32) {
        if asked & request::PARK != 0 {
            self.tasks[task].parked = true;
            self.waiting.retain(|&(_, waits)| waits != task);
            self.choose |= self.running == Some(task);
        }
        if asked & request::UNPARK != 0 {
            self.tasks[task].parked = false;
            self.enqueue(task);
        }
        if asked & request::REKEY != 0 && self.waiting.iter().any(|&(_, waits)| waits == task) {
            self.waiting.retain(|&(_, waits)| waits != task);
            self.enqueue(task);
        }
        if asked & request::RESORT != 0 {
            let mut waiting = std::mem::take(&mut self.waiting);
            waiting.iter_mut().for_each(|(key, task)| *key = self.key(*task));
            waiting.sort_by_key(|&(key, _)| key);
            self.waiting = waiting;
        }
        self.choose |= asked & request::RESCHEDULE != 0;
    }

    fn key(&mut self, task: usize) -> u64 {
        let Task { vcpu, domain, .. } = &mut self.tasks[task];
        let p = self.policy.parameters();
        sy_key(p, &mut self.queue, &mut self.domains[*domain], vcpu, self.now)
    }

    fn queue_by_key(&mut self, task: usize) {
        let key = self.key(task);
        let place = self.waiting.partition_point(|&(other, _)| other <= key);
        self.waiting.insert(place, (key, task));
        self.queue.queued = self.waiting.len() as u32;
    }

    /// Queues a vCPU that may wait, and chooses again if it comes before who runs.
    fn enqueue(&mut self, task: usize) {
        let Task { vcpu, parked, .. } = &self.tasks[task];
        let waits = self.waiting.iter().any(|&(_, waits)| waits == task);
        if vcpu.runnable == 0 || *parked || waits || self.running == Some(task) {
            return;
        }
        self.queue_by_key(task);
        let Some(running) = self.running else {
            self.choose = true;
            return;
        };
        self.charge(running);
        let (vcpu, runs) = (&self.tasks[task].vcpu, &self.tasks[running].vcpu);
        let p = self.policy.parameters();
        self.choose |= sy_lead(p, &self.queue, &self.pcpu, vcpu, runs, self.now) > 0;
    }

    fn charge(&mut self, task: usize) {
        let ran_ns = self.now - self.charged_ns;
        self.charged_ns = self.now;
        self.tasks[task].ran_ns += ran_ns;
        self.call(task, |p, q, d, v, now| sy_charge(p, q, d, v, ran_ns, now));
    }

    pub fn wake(&mut self, task: usize) {
        self.tasks[task].vcpu.runnable = 1;
        self.call(task, |p, q, d, v, now| sy_wake(p, q, d, v, now));
        self.enqueue(task);
    }

    /// Blocks the vCPU if it runs.
    pub fn block(&mut self, task: usize) {
        if self.running == Some(task) {
            self.charge(task);
            self.tasks[task].vcpu.runnable = 0;
            self.call(task, |p, q, d, v, now| sy_block(p, q, d, v, now));
            self.running = None;
            self.pcpu.busy = 0;
            self.choose = true;
        }
    }

    /// The running vCPU yields.
    pub fn yields(&mut self) {
        if let Some(task) = self.running {
            self.charge(task);
            self.call(task, |p, q, d, v, now| sy_yield(p, q, d, v, now));
            self.choose = true;
        }
    }

    fn account(&mut self) {
        let p = self.policy.parameters().clone();
        sy_account_begin(&p, &mut self.accounting, self.now);
        for domain in 0..self.domains.len() {
            let d = &mut self.domains[domain];
            let asked = sy_account_domain(&p, &mut self.accounting, d);
            if asked & request::VISIT == 0 {
                continue;
            }
            for task in 0..self.tasks.len() {
                if self.tasks[task].domain == domain {
                    let v = &mut self.tasks[task].vcpu;
                    let d = &mut self.domains[domain];
                    let asked = sy_account_vcpu(&p, &mut self.accounting, d, v);
                    self.obey(task, asked);
                }
            }
        }
        sy_account_end(&p, &mut self.accounting);
    }

    fn choose_next(&mut self) {
        self.choose = false;
        let ran = self.running;
        if let Some(ran) = ran {
            self.charge(ran);
        }
        let best = ran.filter(|&ran| !self.tasks[ran].parked);
        let p = self.policy.parameters().clone();
        let mut chosen = best;
        for &(_, waits) in &self.waiting {
            let best = best.map(|best| &self.tasks[best].vcpu);
            let candidate = &self.tasks[waits].vcpu;
            match sy_consider(&p, &self.queue, &self.pcpu, best, candidate, self.now) {
                verdict::TAKE => chosen = Some(waits),
                verdict::SKIP => continue,
                _ => {}
            }
            break;
        }
        chosen = chosen.or_else(|| self.waiting.first().map(|&(_, waits)| waits));
        if chosen != ran {
            self.waiting.retain(|&(_, waits)| Some(waits) != chosen);
            if let Some(best) = best {
                self.queue_by_key(best);
            }
            self.queue.queued = self.waiting.len() as u32;
            if let Some(chosen) = chosen {
                self.pcpu.started_ns = self.now;
                let Task { vcpu, domain, .. } = &mut self.tasks[chosen];
                let d = &mut self.domains[*domain];
                sy_start(&p, &mut self.queue, &mut self.pcpu, d, vcpu, self.now);
            }
        }
        self.running = chosen;
        self.pcpu.busy = u32::from(chosen.is_some());
        self.charged_ns = self.now;
        self.choose_ns = chosen.map_or(u64::MAX, |chosen| {
            let next = self.waiting.first().map(|&(_, next)| &self.tasks[next].vcpu);
            let Task { vcpu, domain, .. } = &self.tasks[chosen];
            let d = &self.domains[*domain];
            let slice_ns = sy_slice(&p, &mut self.queue, &self.pcpu, d, vcpu, next, self.now);
            assert!(slice_ns > 0);
            self.now.saturating_add(slice_ns)
        });
    }

    /// What is due now: timers, tick, accounting, choice.
    fn turn(&mut self) {
        for task in 0..self.tasks.len() {
            let timer_ns = self.tasks[task].vcpu.timer_ns;
            if timer_ns != 0 && timer_ns <= self.now {
                if self.running == Some(task) {
                    self.charge(task);
                }
                self.call(task, |p, q, d, v, now| sy_vcpu_timer(p, q, d, v, now));
            }
        }
        let p = self.policy.parameters().clone();
        let (tick_ns, account_ns) = (sy_tick_ns(&p), sy_account_ns(&p));
        if let Some(task) = self.running
            && tick_ns != 0
            && self.now.is_multiple_of(tick_ns)
        {
            self.charge(task);
            let Task { vcpu, domain, .. } = &mut self.tasks[task];
            let d = &mut self.domains[*domain];
            let (a, q, c) = (&mut self.accounting, &mut self.queue, &mut self.pcpu);
            let asked = sy_tick(&p, a, q, c, d, vcpu, self.now);
            self.obey(task, asked);
        }
        if account_ns != 0 && self.now.is_multiple_of(account_ns) {
            self.account();
        }
        if self.choose || self.now >= self.choose_ns {
            self.choose_next();
        }
    }

    /// Runs until so long after the start; returns who ran from when on, in units of [`STEP_NS`]
    /// after the start.
    pub fn run_until(&mut self, end_ns: u64) -> Vec<(u64, Option<usize>)> {
        let mut runs: Vec<(u64, Option<usize>)> = Vec::new();
        while self.now < self.start_ns + end_ns {
            self.turn();
            if runs.last().is_none_or(|&(_, last)| last != self.running) {
                runs.push(((self.now - self.start_ns) / STEP_NS, self.running));
            }
            self.now += STEP_NS;
        }
        if let Some(task) = self.running {
            self.charge(task);
        }
        runs
    }
}
