// SPDX-License-Identifier: GPL-2.0-only
//! cosched: who is summoned, when it runs, and when its moment ends; and what `fair` does about a
//! pause-loop exit by itself, as KVM of its time.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use steelyard_policy::ffi::*;
use steelyard_policy::{Policy, Settings, fact, gang, request, verdict};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const KERNEL: u32 = fact::PREEMPTED | fact::IN_KERNEL;
const USER: u32 = fact::PREEMPTED;
const WOKEN: u32 = fact::IN_KERNEL;

/// A domain of four vCPUs, each alone with a rival of another domain on a pCPU of its own.
struct Host {
    p: Parameters,
    queues: Vec<Queue>,
    pcpus: Vec<Pcpu>,
    domains: [Domain; 2],
    vcpus: [Vec<Vcpu>; 2],
    now: u64,
}

const OURS: usize = 0;
const RIVAL: usize = 1;

impl Host {
    fn new(name: &str, settings: &[(&str, &str)]) -> Self {
        let mut policy = Policy::named(name).unwrap();
        for (name, value) in settings {
            policy.set(name, value).unwrap();
        }
        let p = policy.parameters().clone();
        let now = 1_000 * MS;
        let mut queues = vec![Queue::of(1); 4];
        let mut domains = [Domain::of(1), Domain::of(2)];
        let mut vcpus = [vec![], vec![]];
        for queue in &mut queues {
            sy_queue_init(&p, queue, 1);
        }
        for (domain, vcpus) in domains.iter_mut().zip(&mut vcpus) {
            sy_domain_init(&p, domain, &Settings::default(), 4, now);
            for index in 0..4 {
                let mut vcpu = Vcpu::on(index);
                vcpu.index = index;
                sy_vcpu_init(&p, domain, &mut vcpu, now);
                sy_join(&p, &mut queues[index as usize], domain, &mut vcpu, now);
                vcpus.push(vcpu);
            }
        }
        let pcpus = (0..4).map(Pcpu::numbered).collect();
        let mut host = Host { p, queues, pcpus, domains, vcpus, now };
        for index in 0..4 {
            for domain in [OURS, RIVAL] {
                host.vcpus[domain][index].runnable = 1;
                host.call(domain, index, |p, q, d, v, now| sy_wake(p, q, d, v, now));
                host.key(domain, index);
            }
            host.queues[index].queued = 1;
        }
        // The averages by which a domain's weight is divided settle.
        host.now += 1_000 * MS;
        for index in 0..4 {
            host.run(OURS, index, 0);
            host.run(RIVAL, index, 0);
        }
        host
    }

    fn call(
        &mut self,
        domain: usize,
        index: usize,
        call: impl FnOnce(&Parameters, &mut Queue, &mut Domain, &mut Vcpu, u64) -> u32,
    ) -> u32 {
        let Host { p, queues, domains, vcpus, now, .. } = self;
        call(p, &mut queues[index], &mut domains[domain], &mut vcpus[domain][index], *now)
    }

    fn key(&mut self, domain: usize, index: usize) -> u64 {
        let Host { p, queues, domains, vcpus, now, .. } = self;
        sy_key(p, &mut queues[index], &mut domains[domain], &mut vcpus[domain][index], *now)
    }

    fn start(&mut self, domain: usize, index: usize) {
        let Host { p, queues, pcpus, domains, vcpus, now } = self;
        let (queue, vcpu) = (&mut queues[index], &mut vcpus[domain][index]);
        sy_start(p, queue, &mut pcpus[index], &mut domains[domain], vcpu, *now);
    }

    fn run(&mut self, domain: usize, index: usize, ran_ns: u64) {
        self.now += ran_ns;
        let Host { p, queues, domains, vcpus, now, .. } = self;
        let (queue, vcpu) = (&mut queues[index], &mut vcpus[domain][index]);
        sy_charge(p, queue, &mut domains[domain], vcpu, ran_ns, *now);
    }

    fn spin(&mut self, index: usize) -> u32 {
        let Host { p, domains, vcpus, now, .. } = self;
        sy_spin(p, &mut domains[OURS], &mut vcpus[OURS][index], *now)
    }

    fn spun(&mut self, index: usize, summoned: u32) -> u32 {
        let Host { p, queues, domains, vcpus, now, .. } = self;
        let (queue, vcpu) = (&mut queues[index], &mut vcpus[OURS][index]);
        sy_spun(p, queue, &mut domains[OURS], vcpu, summoned, *now)
    }

    fn rank(&mut self, index: usize, facts: u32, waited_ns: u64) -> u64 {
        let Host { p, queues, domains, vcpus, now, .. } = self;
        let vcpu = &mut vcpus[OURS][index];
        sy_rank(p, &queues[index], &domains[OURS], vcpu, facts, waited_ns, *now)
    }

    fn summon(&mut self, index: usize) -> u32 {
        let Host { p, queues, domains, vcpus, now, .. } = self;
        sy_summon(p, &queues[index], &mut domains[OURS], &mut vcpus[OURS][index], *now)
    }

    /// Whether the candidate of this domain would take the pCPU from the other, which runs.
    fn takes(&self, domain: usize, index: usize) -> bool {
        self.takes_by(&self.p, domain, index)
    }

    /// The same by another policy.
    fn takes_by(&self, p: &Parameters, domain: usize, index: usize) -> bool {
        let candidate = &self.vcpus[domain][index];
        let running = Some(&self.vcpus[1 - domain][index]);
        let (queue, pcpu) = (&self.queues[index], &self.pcpus[index]);
        sy_consider(p, queue, pcpu, running, candidate, self.now) == verdict::TAKE
    }

    fn slice(&mut self, domain: usize, index: usize) -> u64 {
        let Host { p, queues, pcpus, domains, vcpus, now } = self;
        let (vcpu, next) = (&vcpus[domain][index], Some(&vcpus[1 - domain][index]));
        sy_slice(p, &mut queues[index], &pcpus[index], &domains[domain], vcpu, next, *now)
    }
}

fn with(policy: &'static str) -> [(&'static str, &'static str); 1] {
    [("cosched.policy", policy)]
}

#[test]
fn each_policy_summons_whom_the_publication_names() {
    //                woken  user   kernel  spins in the kernel
    let table = [
        ("instant", [false, true, true, true]),
        ("selective", [false, false, true, false]), // once, then alternately
        ("deferred", [false, true, true, true]),
    ];
    for (policy, expected) in table {
        let mut host = Host::new("lockvisor", &with(policy));
        assert_eq!(host.spin(0), gang::ALL);
        // 3 spun 9 us of run time ago: that is below `spinning_ns`.
        host.spin(3);
        host.run(OURS, 3, 9 * US);
        let found = [
            host.rank(1, WOKEN, MS) > 0,
            host.rank(1, USER, MS) > 0,
            host.rank(1, KERNEL, MS) > 0,
            host.rank(3, KERNEL, MS) > 0,
        ];
        assert_eq!(found, expected, "{policy}");
        if policy == "selective" {
            // A ticket lock may wait for just this one.
            assert!(host.rank(3, KERNEL, MS) > 0);
            assert_eq!(host.rank(3, KERNEL, MS), 0);
            let mut host =
                Host::new("lockvisor", &[with(policy)[0], ("cosched.spinners", "never")]);
            host.spin(3);
            assert_eq!([host.rank(3, KERNEL, MS), host.rank(3, KERNEL, MS)], [0, 0]);
        }
        // After 10 us it does not spin any more.
        host.run(OURS, 3, US);
        assert!(host.rank(3, KERNEL, MS) > 0, "{policy}");
    }
}

#[test]
fn the_best_is_in_the_kernel_then_does_not_spin_then_has_waited_longest() {
    let mut host = Host::new("lockvisor", &[with("instant")[0], ("cosched.siblings", "best")]);
    assert_eq!(host.spin(0), gang::BEST);
    host.spin(3);
    let ranks = [
        host.rank(3, USER, 9_000 * MS),
        host.rank(1, USER, MS),
        host.rank(1, USER, 2 * MS),
        host.rank(3, KERNEL, 9_000 * MS),
        host.rank(1, KERNEL, 0),
        host.rank(1, KERNEL, 5),
    ];
    assert!(ranks.is_sorted_by(|a, b| a < b), "{ranks:?}");
}

#[test]
fn who_is_summoned_runs_for_a_moment_and_then_competes() {
    for (policy, now) in [("instant", true), ("selective", true), ("deferred", false)] {
        let mut host = Host::new("lockvisor", &with(policy));
        // Ours ran for 2 ms and was preempted by the rival, who has a right to the pCPU.
        host.start(OURS, 1);
        host.run(OURS, 1, 2 * MS);
        assert!(host.key(OURS, 1) > 0);
        host.start(RIVAL, 1);
        host.run(RIVAL, 1, 500 * US);
        assert!(!host.takes(OURS, 1));

        host.spin(0);
        assert!(host.rank(1, KERNEL, 500 * US) > 0);
        let requests = host.summon(1);
        assert_eq!(requests & request::REKEY, request::REKEY);
        assert_eq!(requests & request::RESCHEDULE != 0, now, "{policy}");
        assert_eq!(host.rank(1, KERNEL, 500 * US), 0, "it is summoned already");
        assert_eq!(host.key(OURS, 1), 0, "it is first");
        assert!(host.takes(OURS, 1));
        // The spinner stays; its exit is a choice for its own pCPU.
        assert_eq!(host.spun(0, 1), request::RESCHEDULE);
        assert_eq!(host.spun(0, 0), 0);

        host.key(RIVAL, 1);
        host.start(OURS, 1);
        assert_eq!(host.slice(OURS, 1), 100 * US);
        host.run(OURS, 1, 99 * US);
        assert!(!host.takes(RIVAL, 1), "the moment lasts");
        host.run(OURS, 1, US);
        assert!(host.takes(RIVAL, 1), "the moment is over");
        assert!(host.key(OURS, 1) > 0, "it was charged and waits like anybody");
        assert!(host.rank(1, KERNEL, 0) > 0);
    }
}

#[test]
fn a_moment_ends_when_its_vcpu_spins_or_blocks() {
    let mut host = Host::new("lockvisor", &with("instant"));
    for (end, blocks) in [(1, false), (2, true)] {
        host.start(OURS, end);
        host.run(OURS, end, 2 * MS);
        host.key(OURS, end);
        host.summon(end);
        host.key(OURS, end);
        host.start(OURS, end);
        host.run(OURS, end, 10 * US);
        assert!(!host.takes(RIVAL, end));
        if blocks {
            host.vcpus[OURS][end].runnable = 0;
            host.call(OURS, end, |p, q, d, v, now| sy_block(p, q, d, v, now));
            assert!(host.takes(RIVAL, end));
        } else {
            host.spin(end);
            assert_eq!(host.spun(end, 0), request::RESCHEDULE);
            assert!(host.takes(RIVAL, end));
        }
    }
}

/// 30 ms ahead is the bound: one who ran so much longer than its rival waits for its turn.
#[test]
fn who_has_borrowed_too_much_is_not_summoned() {
    let mut host = Host::new("lockvisor", &with("instant"));
    host.start(OURS, 1);
    host.run(OURS, 1, 29 * MS);
    host.key(OURS, 1);
    assert!(host.rank(1, KERNEL, MS) > 0);
    host.run(OURS, 1, 2 * MS);
    assert_eq!(host.rank(1, KERNEL, MS), 0);
    // The rival makes up for it.
    host.start(RIVAL, 1);
    host.run(RIVAL, 1, 2 * MS);
    host.slice(RIVAL, 1);
    host.run(RIVAL, 1, MS);
    assert!(host.rank(1, KERNEL, MS) > 0);
}

// ---- The answers of `fair` itself ----

#[test]
fn kvm_of_2_6_38_sleeps_for_100_us() {
    let mut host = Host::new("fair@cfs", &[]);
    host.start(OURS, 0);
    host.run(OURS, 0, 10 * US);
    assert_eq!(host.spin(0), gang::NONE);
    let requests = host.spun(0, 0);
    assert_eq!(requests, request::PARK | request::TIMER);
    assert_eq!(host.vcpus[OURS][0].timer_ns, host.now + 100 * US);
    host.now += 100 * US;
    assert_eq!(
        host.call(OURS, 0, |p, q, d, v, now| sy_vcpu_timer(p, q, d, v, now)),
        request::UNPARK | request::TIMER
    );
    assert_eq!(host.vcpus[OURS][0].timer_ns, 0);
    assert!(host.key(OURS, 0) > 0);
}

/// The rotation goes on after the last one, and who spins is asked in vain every second time.
#[test]
fn a_directed_yield_goes_to_the_next_in_rotation() {
    for vintage in ["fair@cfs", "fair@eevdf"] {
        let mut host = Host::new(vintage, &[("pause_loop", "directed")]);
        assert_eq!(host.spin(0), gang::BEST);
        let best = |host: &mut Host| (1..4).max_by_key(|&index| host.rank(index, KERNEL, MS));
        for expected in [1, 2, 3, 1] {
            assert_eq!(best(&mut host), Some(expected), "{vintage}");
            let requests = host.summon(expected);
            assert_eq!(requests, request::REKEY | request::RESCHEDULE);
            host.vcpus[OURS][expected].first = 0;
        }
        assert_eq!(host.rank(2, USER, MS), 0, "preempted outside the kernel");
        assert!(host.rank(2, 0, MS) > 0, "has woken");
        host.spin(2);
        assert_eq!(host.rank(2, KERNEL, MS), 0);
        assert!(host.rank(2, KERNEL, MS) > 0);
        assert_eq!(host.rank(2, KERNEL, MS), 0);
        // Nobody to yield to: the spinner goes on.
        assert_eq!(host.spun(0, 0), 0);
    }
}

/// Granularity is 1 ms on one pCPU: within it the spinner is skipped and the sibling comes first.
#[test]
fn buddies_come_first_within_a_granularity() {
    let directed = [("pause_loop", "directed")];
    for (ahead_ns, comes) in [(MS, true), (MS + 10, false)] {
        let mut host = Host::new("fair@cfs", &directed);
        host.start(OURS, 1);
        host.run(OURS, 1, ahead_ns);
        host.key(OURS, 1);
        host.start(RIVAL, 1);
        host.slice(RIVAL, 1);
        host.spin(0);
        host.summon(1);
        assert_eq!(host.vcpus[OURS][1].first != 0, comes);
        assert_eq!(host.takes(OURS, 1), comes);

        // The rival of the spinner is ahead of it by so much, and still gets its turn.
        host.start(RIVAL, 0);
        host.run(RIVAL, 0, ahead_ns);
        host.key(RIVAL, 0);
        host.start(OURS, 0);
        assert!(!host.takes(RIVAL, 0));
        assert_eq!(host.spun(0, 1), request::RESCHEDULE);
        assert_eq!(host.takes(RIVAL, 0), comes);
    }
    // 6.12 ignores the wish.
    let mut host = Host::new("fair@eevdf", &directed);
    host.spin(0);
    host.summon(1);
    assert_eq!(host.vcpus[OURS][1].first, 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever happens, nobody keeps a pCPU against a rival with a right to it for longer than a
    /// moment, and nobody is first once it has started.
    #[test]
    fn gangs_end(
        steps in prop::collection::vec((0..5u8, 0..4usize, 0..300u64), 1..300),
        policy in 0..3usize,
        base in 0..3usize,
    ) {
        let base = ["fair@cfs", "fair@eevdf", "credit"][base];
        let policy = ["instant", "selective", "deferred"][policy];
        let mut host = Host::new(&format!("{base}+cosched"), &with(policy));
        // What is without cosched, and until when it may be otherwise.
        let plain = Policy::named(base).unwrap().parameters().clone();
        let mut kept_until = [0; 4];
        let moment_ns = 100 * US;
        for (what, index, us) in steps {
            host.run(OURS, index, us * US);
            match what {
                0 => {
                    host.spin(index);
                }
                1 if host.rank(index, KERNEL, us * US) > 0 => {
                    host.summon(index);
                    prop_assert_eq!(host.key(OURS, index), 0);
                    prop_assert!(host.takes(OURS, index));
                }
                2 => {
                    let first = host.vcpus[OURS][index].first != 0;
                    host.start(OURS, index);
                    prop_assert_eq!(host.vcpus[OURS][index].first, 0);
                    if first {
                        kept_until[index] = host.now + moment_ns;
                        prop_assert!(host.slice(OURS, index) <= moment_ns);
                    }
                }
                3 => {
                    host.key(OURS, index);
                    kept_until[index] = 0;
                }
                _ => {}
            }
            let kept = host.takes_by(&plain, RIVAL, index) && !host.takes(RIVAL, index);
            prop_assert!(!kept || host.now < kept_until[index]);
        }
    }
}
