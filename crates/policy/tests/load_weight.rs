// SPDX-License-Identifier: GPL-2.0-only
//! load-weight: weights by hand for the published workloads, and bounds.
#![allow(clippy::unwrap_used)]

mod governed;

use governed::{Host, MS, S, load};
use proptest::prelude::*;

/// What a domain measured in 10 s: CPU time in percent of one pCPU.
fn percent(percent: u64) -> steelyard_policy::Sample {
    load(10 * S, percent * 100 * MS)
}

#[test]
fn weights_follow_the_published_workloads() {
    // Case 1: 20, 60, 80 % of a pCPU; the mean is 160/3. 256 x 20 x 3/160 = 96, and so on.
    let mut host = Host::new("load-weight", &[], &[256, 256, 256]);
    assert_eq!(host.sample_ns(), 10 * S);
    host.sample(&[percent(20), percent(60), percent(80)]);
    assert_eq!(host.weights(), [96, 288, 384]);
    // Case 2: 10, 15, 90; the mean is 115/3. 66.8, 100.2, 601.04.
    host.sample(&[percent(10), percent(15), percent(90)]);
    assert_eq!(host.weights(), [67, 100, 601]);
    // The shares that follow are the expected ones: 13/37/50 and 9/14/80 in the thesis, whose
    // second row does not add up to 100.
    let shares = |weights: Vec<u64>| {
        let sum: u64 = weights.iter().sum();
        weights.iter().map(|weight| (100 * weight + sum / 2) / sum).collect::<Vec<_>>()
    };
    assert_eq!(shares(vec![96, 288, 384]), [13, 38, 50]);
    assert_eq!(shares(host.weights()), [9, 13, 78]);
}

#[test]
fn who_does_not_run_does_not_count_in_the_mean() {
    let mut host = Host::new("load-weight", &[], &[256, 256, 256]);
    host.sample(&[percent(0), percent(30), percent(90)]);
    // The mean is 60; the least is a tenth: 25.6.
    assert_eq!(host.weights(), [26, 128, 384]);
}

#[test]
fn weights_asked_for_are_factors() {
    let mut host = Host::new("load-weight", &[], &[512, 100]);
    host.sample(&[percent(30), percent(90)]);
    assert_eq!(host.weights(), [256, 150]);
}

#[test]
fn without_load_or_with_equal_load_weights_are_as_asked() {
    let mut host = Host::new("load-weight", &[], &[256, 100, 1000]);
    host.sample(&[percent(20), percent(60), percent(80)]);
    assert_ne!(host.weights(), [256, 100, 1000]);
    host.sample(&[percent(0), percent(0), percent(0)]);
    assert_eq!(host.weights(), [256, 100, 1000]);
    host.sample(&[percent(20), percent(60), percent(80)]);
    host.sample(&[percent(33), percent(33), percent(33)]);
    assert_eq!(host.weights(), [256, 100, 1000]);
}

/// A domain that got this of a pCPU, and of which so many percent of offered load were told so long before.
fn offered(percent_of_one: u64, told_before_ns: u64, gotten: u64) -> steelyard_policy::Sample {
    steelyard_policy::Sample {
        waited_ns: 10 * S - gotten * 100 * MS,
        offered_ns: percent_of_one * 100 * MS,
        offered_age_ns: told_before_ns,
        ..percent(gotten)
    }
}

#[test]
fn offered_load_is_followed_whatever_is_received() {
    let mut host = Host::new("load-weight", &[], &[256; 3]);
    // All have a backlog and have received a third; then as the weights gave it. It stays.
    for gotten in [[33, 33, 33], [13, 37, 50]] {
        let told = [20, 60, 80].into_iter().zip(gotten);
        host.sample(&told.map(|(load, gotten)| offered(load, 1, gotten)).collect::<Vec<_>>());
        assert_eq!(host.weights(), [96, 288, 384]);
    }
    // The same load is offered by several processes in each: one vCPU is no limit to it.
    host.sample(&[80, 240, 320].map(|load| offered(load, 1, 33)));
    assert_eq!(host.weights(), [96, 288, 384]);
    // By the two other readings a backlog everywhere is equal shares.
    for workload in ["gotten", "demand"] {
        let mut host = Host::new("load-weight", &[("workload", workload)], &[256; 3]);
        host.sample(&[20, 60, 80].map(|load| offered(load, 1, 33)));
        assert_eq!(host.weights(), [256; 3], "{workload}");
    }
}

#[test]
fn what_is_declared_comes_before_what_is_told() {
    let mut host = Host::new("load-weight", &[], &[256; 3]);
    for (domain, load) in [20, 60, 80].into_iter().enumerate() {
        host.change_settings(domain, |settings| settings.load_percent = load);
    }
    host.sample(&[percent(33); 3]);
    assert_eq!(host.weights(), [96, 288, 384], "nothing is told");
    host.sample(&[90, 15, 10].map(|load| offered(load, 1, 33)));
    assert_eq!(host.weights(), [96, 288, 384], "something else is told");
    host.change_settings(0, |settings| settings.load_percent = 0);
    host.sample(&[140, 15, 10].map(|load| offered(load, 1, 33)));
    // 140, 60 and 80 of a mean of 280/3.
    assert_eq!(host.weights(), [384, 165, 219], "the first declares no more");
}

#[test]
fn what_was_told_is_believed_for_a_while() {
    let told = |age_ns| [offered(20, age_ns, 50), offered(80, age_ns, 50)];
    let mut host = Host::new("load-weight", &[], &[256; 2]);
    host.sample(&told(30 * S));
    assert_eq!(host.weights(), [102, 410], "20 and 80 of a mean of 50");
    // Who tells has stopped: both demand all, since both have a backlog.
    host.sample(&told(30 * S + 1));
    assert_eq!(host.weights(), [256; 2]);
    host.sample(&told(1));
    assert_eq!(host.weights(), [102, 410], "and goes on");
    // Only of one it is known. The other has never been told of, and would use 50 % of a pCPU.
    host.sample(&[offered(150, 1, 50), percent(50)]);
    assert_eq!(host.weights(), [384, 128]);
    // Nothing is offered: that is known, and what it gets is what it owes.
    host.sample(&[offered(0, 1, 50), offered(80, 1, 50)]);
    assert_eq!(host.weights(), [26, 256]);
}

#[test]
fn demand_leaves_out_the_time_waited() {
    let mut host = Host::new("load-weight", &[("workload", "demand")], &[256, 256]);
    // 20 % and 60 % of a pCPU alone: 2 s and 6 s of work for each 8 s and 4 s of sleep. Under
    // contention they got 1.5 s and 3 s; the sleep is 6 s and 2 s, the rest they waited.
    let contended =
        |gotten_ns, waited_ns| steelyard_policy::Sample { waited_ns, ..load(10 * S, gotten_ns) };
    host.sample(&[contended(1_500 * MS, 2_500 * MS), contended(3 * S, 5 * S)]);
    assert_eq!(host.weights(), [128, 384], "20 and 60 of a mean of 40");
    // Who never slept demands all, whatever it received.
    host.sample(&[contended(S, 9 * S), contended(9 * S, S)]);
    assert_eq!(host.weights(), [256, 256]);
    host.sample(&[contended(0, 10 * S), contended(9 * S, S)]);
    assert_eq!(host.weights(), [256, 256]);
}

#[test]
fn smoothing_keeps_a_part_of_the_workload_before() {
    let mut host = Host::new("load-weight", &[("smoothing_percent", "75")], &[256, 256]);
    host.sample(&[percent(20), percent(60)]);
    assert_eq!(host.weights(), [128, 384]);
    // 0.75 x 20 + 0.25 x 60 = 30, and 0.75 x 60 + 0.25 x 20 = 50.
    host.sample(&[percent(60), percent(20)]);
    assert_eq!(host.weights(), [192, 320]);
}

#[test]
fn bounds_are_of_the_weight_asked_for() {
    let bounds = [("least_percent", "50"), ("most_percent", "150")];
    let mut host = Host::new("load-weight", &bounds, &[256, 256]);
    host.sample(&[percent(10), percent(90)]);
    assert_eq!(host.weights(), [128, 384]);
}

#[test]
fn a_change_of_settings_keeps_the_factor() {
    let mut host = Host::new("load-weight", &[], &[256, 256]);
    host.sample(&[percent(20), percent(60)]);
    host.change_settings(0, |settings| settings.weight = 1000);
    assert_eq!(host.weights(), [500, 384]);
}

#[test]
fn a_boost_and_a_workload_multiply() {
    let mut host = Host::new("credit2+reset-boost+load-weight", &[], &[256, 256]);
    host.sample(&[percent(20), percent(60)]);
    assert!(host.reset(0, 1) && !host.reset(1, 1) && host.reset(99, 1));
    assert_eq!(host.weights(), [128, 768], "60 of a mean of 40, and rate 2");
    host.sample(&[percent(40), percent(40)]);
    assert_eq!(host.weights(), [256, 512], "the boost stays");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever is measured, weights are in 1..65535 and between the bounds, who has more workload
    /// has no less weight, and with equal workloads all is neutral again.
    #[test]
    fn weights_stay_in_bounds_and_in_order(
        workload in prop::sample::select(vec!["gotten", "demand", "offered"]),
        declared in prop::collection::vec(any::<u64>(), 4),
        smoothing in 0..=99u64,
        least in 0..=100u64,
        most in 100..=2000u64,
        samples in prop::collection::vec(
            prop::collection::vec(
                (any::<u64>(), 0..=64u32, any::<u64>(), 0..=64u32, any::<u64>(), any::<u64>()), 4,
            ),
            1..20,
        ),
    ) {
        let (smoothing, least_text, most_text) =
            (smoothing.to_string(), least.to_string(), most.to_string());
        let settings = [
            ("workload", workload),
            ("smoothing_percent", smoothing.as_str()),
            ("least_percent", least_text.as_str()),
            ("most_percent", most_text.as_str()),
        ];
        let asked = 1000;
        let mut host = Host::new("load-weight", &settings, &[asked; 4]);
        for (domain, declared) in declared.into_iter().enumerate().filter(|it| it.1 % 2 == 0) {
            host.change_settings(domain, |settings| settings.load_percent = declared);
        }
        for domains in samples {
            let shift = |value: u64, by: u32| value.checked_shr(by).unwrap_or(0);
            let measured: Vec<_> = domains
                .iter()
                .map(|&(gotten, g, waited, w, offered_ns, offered_age_ns)| steelyard_policy::Sample {
                    waited_ns: shift(waited, w),
                    offered_ns,
                    offered_age_ns,
                    ..load(10 * S, shift(gotten, g))
                })
                .collect();
            host.sample(&measured);
            for weight in host.weights() {
                prop_assert!((1..=65_535).contains(&weight));
                prop_assert!(weight + 1 >= asked * least / 100, "{weight}");
                prop_assert!(weight <= asked * most / 100 + 1, "{weight}");
            }
        }
        let mut host = Host::new("load-weight", &[], &[asked; 4]);
        let mut loads = [5, 20, 60, 80];
        host.sample(&loads.map(percent));
        let weights = host.weights();
        prop_assert!(weights.windows(2).all(|pair| pair[0] <= pair[1]), "{weights:?}");
        loads = [40; 4];
        host.sample(&loads.map(percent));
        prop_assert_eq!(host.weights(), vec![asked; 4]);
    }
}
