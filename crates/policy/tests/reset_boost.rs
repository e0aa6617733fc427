// SPDX-License-Identifier: GPL-2.0-only
//! reset-boost: its state machine step by step as Kang and Lee describe it, and bounds.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use steelyard_policy::ffi::*;
use steelyard_policy::{Policy, Settings, request};

const MS: u64 = 1_000_000;

/// Domains whose vCPUs cause resets, ids 1, 2, ...
struct Host {
    p: Parameters,
    queue: Queue,
    governor: Governor,
    domains: Vec<Domain>,
    now: u64,
}

impl Host {
    fn new(settings: &[(&str, &str)], weights: &[u64]) -> Self {
        let mut policy = Policy::named("mcredit2").unwrap();
        for (name, value) in settings {
            policy.set(name, value).unwrap();
        }
        let p = policy.parameters().clone();
        let mut queue = Queue::of(1);
        sy_queue_init(&p, &mut queue, 1);
        let domain = |(index, &weight): (usize, &u64)| {
            let mut domain = Domain::of(index as u64 + 1);
            let settings = Settings { weight, ..Settings::default() };
            sy_domain_init(&p, &mut domain, &settings, 1, MS);
            domain
        };
        let domains = weights.iter().enumerate().map(domain).collect();
        Host { p, queue, governor: Governor::default(), domains, now: 1_000 * MS }
    }

    /// So much later this domain causes a reset. True if boosts were looked at.
    fn reset(&mut self, after_ms: u64, domain: usize) -> bool {
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

    fn weights(&self) -> Vec<u64> {
        self.domains.iter().map(|domain| domain.weight).collect()
    }
}

const HUNDRED: (&str, &str) = ("reset-boost.interval_ns", "100000000");

#[test]
fn the_boost_doubles_moves_and_ends_as_published() {
    let mut host = Host::new(&[HUNDRED], &[256, 256, 100]);
    // The first reset is long after "the last change": domain 0 leads with a count of 1.
    assert!(host.reset(0, 0));
    assert_eq!(host.weights(), [512, 256, 100]);
    // Within the interval resets only count: 0 twice, 1 once. At 100 ms 0 still leads: rate 4.
    assert!(!host.reset(10, 0) && !host.reset(10, 1) && !host.reset(10, 0));
    assert!(host.reset(70, 1));
    assert_eq!(host.weights(), [1024, 256, 100], "2 to 2: who was first stays the leader");
    // Counts began at 0: now 2 leads with 3 against 2, takes the boost at rate 2, 0 gets 256 back.
    for domain in [0, 2, 0, 2] {
        assert!(!host.reset(20, domain));
    }
    assert!(host.reset(20, 2));
    assert_eq!(host.weights(), [256, 256, 200]);
    // And again, twice: 4, 8.
    assert!(host.reset(100, 2) && host.reset(100, 2));
    assert_eq!(host.weights(), [256, 256, 800]);
    // Nobody resets for long: as published the boost stays.
    assert!(host.reset(60_000, 2));
    assert_eq!(host.weights(), [256, 256, 1600]);
}

#[test]
fn squared_growth_goes_2_4_16_256_and_stops_at_the_greatest_weight() {
    let mut host = Host::new(&[HUNDRED, ("reset-boost.growth", "squared")], &[1, 256]);
    let mut seen = vec![];
    for _ in 0..6 {
        host.reset(100, 0);
        seen.push(host.weights()[0]);
    }
    assert_eq!(seen, [2, 4, 16, 256, 65_535, 65_535]);
    assert_eq!(host.weights()[1], 256);
}

#[test]
fn a_boost_may_end_by_silence() {
    let mut host = Host::new(&[HUNDRED, ("reset-boost.end_intervals", "5")], &[256, 256]);
    host.reset(0, 0);
    host.reset(100, 0);
    assert_eq!(host.weights(), [1024, 256]);
    // 499 ms of silence are not five intervals; 500 are.
    host.reset(499, 0);
    assert_eq!(host.weights(), [2048, 256]);
    host.reset(500, 0);
    assert_eq!(host.weights(), [256, 256]);
    host.reset(100, 1);
    assert_eq!(host.weights(), [256, 512]);
}

#[test]
fn a_boost_ends_by_silence_at_a_sample_too() {
    let sample = |host: &mut Host, after_ms: u64| {
        host.now += after_ms * MS;
        sy_sample_begin(&host.p, &mut host.governor, 1, host.now);
        for domain in &mut host.domains {
            sy_sample_domain(&host.p, &mut host.governor, domain, &Sample::default());
        }
        for domain in &mut host.domains {
            sy_sample_settle(&host.p, &mut host.governor, domain);
        }
        host.weights()
    };
    let mut host = Host::new(&[HUNDRED, ("reset-boost.end_intervals", "5")], &[256, 256]);
    assert_eq!(sy_sample_ns(&host.p), 100 * MS);
    host.reset(0, 1);
    assert_eq!(sample(&mut host, 499), [256, 512]);
    assert_eq!(sample(&mut host, 1), [256, 256]);
    // As published nobody looks.
    assert_eq!(sy_sample_ns(&Host::new(&[HUNDRED], &[256]).p), 0);
}

#[test]
fn a_change_of_settings_keeps_the_boost() {
    let mut host = Host::new(&[HUNDRED], &[256, 256]);
    host.reset(0, 1);
    let settings = Settings { weight: 100, ..Settings::default() };
    for domain in 0..2 {
        sy_domain_change(&host.p, &mut host.governor, &mut host.domains[domain], &settings);
    }
    assert_eq!(host.weights(), [100, 200]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// At any time at most one domain has more than its own weight, and none leaves 1..65535.
    #[test]
    fn one_boost_at_a_time_within_bounds(
        weights in prop::collection::vec(1..=65_535u64, 1..6),
        resets in prop::collection::vec((0..300u64, 0..6usize), 1..200),
        squared in any::<bool>(),
        end in 0..4u64,
    ) {
        let growth = if squared { "squared" } else { "doubled" };
        let end = end.to_string();
        let settings =
            [HUNDRED, ("reset-boost.growth", growth), ("reset-boost.end_intervals", end.as_str())];
        let mut host = Host::new(&settings, &weights);
        for (after_ms, domain) in resets {
            host.reset(after_ms, domain % weights.len());
            let now = host.weights();
            prop_assert!(now.iter().all(|weight| (1..=65_535).contains(weight)));
            let boosted = now.iter().zip(&weights).filter(|(now, own)| now > own).count();
            prop_assert!(boosted <= 1, "{now:?} of {weights:?}");
            prop_assert!(now.iter().zip(&weights).all(|(now, own)| now >= own));
        }
    }
}
