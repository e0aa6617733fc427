// SPDX-License-Identifier: GPL-2.0-only
//! reset-boost: its state machine step by step as Kang and Lee describe it, and bounds.
#![allow(clippy::unwrap_used)]

mod governed;

use governed::{Host, MS};
use proptest::prelude::*;
use steelyard_policy::Sample;

const HUNDRED: (&str, &str) = ("interval_ns", "100000000");

/// The other reading of which resets count.
const EACH: (&str, &str) = ("counts", "each");

#[test]
fn the_boost_doubles_moves_and_ends_as_published() {
    let mut host = Host::new("mcredit2", &[HUNDRED], &[256, 256, 100]);
    // The first reset is long after "the last change": it changes the boost, to nobody's, and does not count.
    assert!(host.reset(0, 0));
    assert_eq!(host.weights(), [256, 256, 100]);
    // Within the interval resets count: 0 twice, 1 once. At 100 ms 0 leads: rate 2; that reset, of 1, does not count.
    assert!(!host.reset(10, 0) && !host.reset(10, 1) && !host.reset(10, 0));
    assert!(host.reset(70, 1));
    assert_eq!(host.weights(), [512, 256, 100]);
    // 1 to 1: who was first leads. Rate 4.
    assert!(!host.reset(20, 0) && !host.reset(20, 1));
    assert!(host.reset(60, 1));
    assert_eq!(host.weights(), [1024, 256, 100]);
    // Counts began at 0: now 2 leads with 2 against 1, takes the boost at rate 2, 0 gets 256 back.
    for domain in [0, 2, 2] {
        assert!(!host.reset(20, domain));
    }
    assert!(host.reset(40, 0));
    assert_eq!(host.weights(), [256, 256, 200]);
    // Nothing counts in the next two intervals: 2 still leads, whoever ends them. 4, 8.
    assert!(host.reset(100, 0) && host.reset(100, 1));
    assert_eq!(host.weights(), [256, 256, 800]);
    // Nobody resets for long: as published the boost stays.
    assert!(host.reset(60_000, 2));
    assert_eq!(host.weights(), [256, 256, 1600]);
}

#[test]
fn each_reset_may_count() {
    let mut host = Host::new("mcredit2", &[HUNDRED, EACH], &[256, 256, 100]);
    // The first reset counts and so leads.
    assert!(host.reset(0, 0));
    assert_eq!(host.weights(), [512, 256, 100]);
    // 0 twice, 1 once; the one at 100 ms makes it 2 to 2: who was first stays the leader. Rate 4.
    assert!(!host.reset(10, 0) && !host.reset(10, 1) && !host.reset(10, 0));
    assert!(host.reset(70, 1));
    assert_eq!(host.weights(), [1024, 256, 100]);
    // 2 leads with 3 to 2 by the reset that ends the interval.
    for domain in [0, 2, 0, 2] {
        assert!(!host.reset(20, domain));
    }
    assert!(host.reset(20, 2));
    assert_eq!(host.weights(), [256, 256, 200]);
}

#[test]
fn a_leader_may_be_forgotten() {
    let mut host = Host::new("mcredit2", &[HUNDRED, ("leader", "forgotten")], &[256, 256]);
    host.reset(0, 0);
    assert!(!host.reset(10, 1));
    assert!(host.reset(90, 0));
    assert_eq!(host.weights(), [256, 512]);
    // Nothing counted since: nobody leads, and that ends the boost.
    assert!(host.reset(100, 1));
    assert_eq!(host.weights(), [256, 256]);
    // Where each reset counts the one that ends an interval always gives it a leader.
    let mut host = Host::new("mcredit2", &[HUNDRED, EACH, ("leader", "forgotten")], &[256, 256]);
    assert!(host.reset(0, 0) && host.reset(100, 0) && host.reset(100, 0));
    assert_eq!(host.weights(), [2048, 256]);
}

#[test]
fn squared_growth_goes_2_4_16_256_and_stops_at_the_greatest_weight() {
    let mut host = Host::new("mcredit2", &[HUNDRED, EACH, ("growth", "squared")], &[1, 256]);
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
    let mut host = Host::new("mcredit2", &[HUNDRED, EACH, ("end_intervals", "5")], &[256, 256]);
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
        host.sample_after(after_ms * MS, &[Sample::default(); 2]);
        host.weights()
    };
    let mut host = Host::new("mcredit2", &[HUNDRED, EACH, ("end_intervals", "5")], &[256, 256]);
    assert_eq!(host.sample_ns(), 100 * MS);
    host.reset(0, 1);
    assert_eq!(sample(&mut host, 499), [256, 512]);
    assert_eq!(sample(&mut host, 1), [256, 256]);
    // As published nobody looks.
    assert_eq!(Host::new("mcredit2", &[HUNDRED], &[256]).sample_ns(), 0);
}

#[test]
fn a_change_of_settings_keeps_the_boost() {
    let mut host = Host::new("mcredit2", &[HUNDRED, EACH], &[256, 256]);
    host.reset(0, 1);
    for domain in 0..2 {
        host.change_settings(domain, |settings| settings.weight = 100);
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
        each in any::<bool>(),
        forgotten in any::<bool>(),
        end in 0..4u64,
    ) {
        let growth = if squared { "squared" } else { "doubled" };
        let counts = if each { "each" } else { "otherwise" };
        let leader = if forgotten { "forgotten" } else { "kept" };
        let end = end.to_string();
        let settings = [
            HUNDRED,
            ("growth", growth),
            ("counts", counts),
            ("leader", leader),
            ("end_intervals", end.as_str()),
        ];
        let mut host = Host::new("mcredit2", &settings, &weights);
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
