// SPDX-License-Identifier: GPL-2.0-only
//! app-slice: the published classes by hand, the slices that follow, and bounds.
#![allow(clippy::unwrap_used)]

mod books;
mod governed;

use books::Books;
use governed::{Host, MS, S, load};
use proptest::prelude::*;
use steelyard_policy::ffi::*;
use steelyard_policy::{Policy, Sample, request};

const SLICE_NS: u64 = 30 * MS;
const SHORT_NS: u64 = 12 * MS;

/// A second: CPU time in percent of one pCPU, packets received.
fn second(percent: u64, packets: u64) -> Sample {
    Sample { packets, ..load(S, percent * 10 * MS) }
}

/// Slices that knobs ask for; 0: the discipline's.
fn slices(host: &Host) -> Vec<u64> {
    host.domains.iter().map(|domain| domain.slice_ns).collect()
}

/// The publication's experiment B: one core, four domains with cap 25. VM1 answers packets and
/// computes, VM4 only answers, VM2 and VM3 only compute.
fn experiment_b(settings: &[(&str, &str)]) -> Host {
    let mut host = Host::new("app-slice", settings, &[256; 4]);
    for domain in 0..4 {
        host.change_settings(domain, |settings| settings.cap_percent = 25);
    }
    host
}

const EXPERIMENT_B: [(u64, u64); 4] = [(25, 200), (25, 0), (25, 0), (8, 200)];

#[test]
fn only_who_computes_and_answers_gets_the_short_slice() {
    let mut host = experiment_b(&[]);
    assert_eq!(host.sample_ns(), S);
    // Until five intervals have been seen nobody is judged.
    for _ in 0..4 {
        host.sample(&EXPERIMENT_B.map(|(percent, packets)| second(percent, packets)));
        assert_eq!(slices(&host), [0; 4]);
    }
    // 25 % of a pCPU is 100 % of a cap of 25, 8 % is 32 %.
    host.sample(&EXPERIMENT_B.map(|(percent, packets)| second(percent, packets)));
    assert_eq!(slices(&host), [SHORT_NS, 0, 0, 0]);
    let ticks: Vec<_> = host.domains.iter().map(|domain| domain.tick_ns).collect();
    assert_eq!(ticks, [4 * MS, 0, 0, 0]);
}

#[test]
fn thresholds_must_be_exceeded() {
    // Two domains that run share the pCPU: each is entitled to a half; 50 % of that is a quarter.
    let judged = |percent, packets| {
        let mut host = Host::new("app-slice", &[], &[256, 256]);
        for _ in 0..5 {
            host.sample(&[second(percent, packets), second(100 - percent, 0)]);
        }
        slices(&host)[0]
    };
    assert_eq!(judged(25, 31), 0);
    assert_eq!(judged(26, 30), 0);
    assert_eq!(judged(26, 31), SHORT_NS);
}

#[test]
fn entitlement_follows_weights_of_those_that_run_caps_and_vcpus() {
    let judged = |weights: &[u64], samples: &[Sample]| {
        let mut host = Host::new("app-slice", &[], weights);
        for _ in 0..5 {
            host.sample(samples);
        }
        slices(&host)[0]
    };
    // Entitled to 3/4: 37.5 % is the threshold.
    assert_eq!(judged(&[300, 100], &[second(37, 100), second(10, 0)]), 0);
    assert_eq!(judged(&[300, 100], &[second(38, 100), second(10, 0)]), SHORT_NS);
    // Who did not run does not count, so the one that did is entitled to all.
    assert_eq!(judged(&[256, 256], &[second(45, 100), second(0, 0)]), 0);
    // Who only waited does.
    let waited = Sample { waited_ns: S, ..second(0, 0) };
    assert_eq!(judged(&[256, 256], &[second(45, 100), waited]), SHORT_NS);
}

#[test]
fn who_waits_is_entitled_to_no_more_than_it_could_get() {
    let judged = |entitled, gotten, waited: u64| {
        let mut host = Host::new("app-slice", &[("entitled", entitled)], &[256]);
        for _ in 0..5 {
            let waited_ns = waited * 10 * MS;
            host.sample(&[Sample { waited_ns, ..second(gotten, 100) }]);
        }
        slices(&host)[0]
    };
    // One of four that share a pCPU of a host with more: by weight it is entitled to all of one. It ran a third of the
    // time in which it was runnable, 60 %: entitled to a third, of which 20 % are 60 %.
    assert_eq!(judged("weight", 20, 40), 0);
    assert_eq!(judged("received", 20, 40), SHORT_NS);
    // Half of that: 20 % of a third are no half of it.
    assert_eq!(judged("received", 10, 20), 0);
    // Who never waits is entitled to all.
    assert_eq!(judged("received", 50, 0), 0);
    assert_eq!(judged("received", 51, 0), SHORT_NS);
}

#[test]
fn accounting_follows_the_slice_or_does_not() {
    let accounting = |accounting| {
        let mut host = Host::new("app-slice", &[("accounting", accounting)], &[256]);
        for _ in 0..5 {
            host.sample(&[second(100, 100)]);
        }
        (host.domains[0].slice_ns, host.domains[0].account_ns)
    };
    assert_eq!(accounting("slice"), (SHORT_NS, SHORT_NS));
    assert_eq!(accounting("discipline"), (SHORT_NS, 0));
}

/// The vCPU's own accounting at this time: what it asked for.
fn accounts_itself(books: &mut Books, domain: usize, now: u64) -> u32 {
    let (d, vcpus) = &mut books.domains[domain];
    sy_vcpu_timer(&books.p, &mut books.q, d, &mut vcpus[0], now)
}

#[test]
fn credits_and_cap_by_the_slice() {
    // 300 credits for a pCPU's 30 ms, 75 by the cap; by slices of 3 ms 7.5, of which parts are given later.
    let mut books = Books::new("credit@xen-4.2", 1);
    books.add(256, 25, 1);
    books.domains[0].0.account_ns = 3 * MS;
    books.run(0, 0, 3 * MS);
    let asked = books.account();
    assert_eq!(asked[0].1, [request::TIMER]);
    assert_eq!(books.credits(), [[-30]]);
    assert_eq!(books.domains[0].1[0].timer_ns, 1 + 3 * MS);
    // It owes more than 8: it is parked until it owes nothing.
    let mut seen = vec![];
    for times in 1..=4 {
        let asked = accounts_itself(&mut books, 0, 1 + times * 3 * MS);
        seen.push((asked & !request::TIMER, books.credits()[0][0]));
    }
    assert_eq!(seen, [(request::PARK, -23), (0, -15), (0, -8), (request::UNPARK, 0)]);
    // Late by a period and a half: as if it had been in time.
    accounts_itself(&mut books, 0, 1 + 16_500_000);
    assert_eq!(books.credits(), [[11]]);
    // The host's next accounting gives what is left of the 75.
    books.account();
    assert_eq!(books.credits(), [[45]]);
    // The slice has returned: all at once again, and no timer.
    books.domains[0].0.account_ns = 0;
    assert_eq!(accounts_itself(&mut books, 0, 1 + 3 * MS), request::TIMER);
    assert_eq!(books.domains[0].1[0].timer_ns, 0);
    books.account();
    assert_eq!(books.credits(), [[45 + 75 + 75]]);
}

#[test]
fn a_short_slice_waits_behind_its_equals_or_before_them() {
    let keys = |short_slice: &str| {
        let mut policy = Policy::named("app-slice").unwrap();
        policy.set("short_slice", short_slice).unwrap();
        let mut books = Books::new("app-slice", 1);
        books.p = policy.parameters().clone();
        (0..2).for_each(|_| books.add(256, 0, 1));
        books.domains[0].0.slice_ns = 3 * MS;
        let under = books.priorities();
        // 30 ms cost 300 credits, 150 are given.
        (0..2).for_each(|domain| books.run(domain, 0, 30 * MS));
        books.account();
        (under, books.priorities())
    };
    assert_eq!(keys("behind"), (vec![vec![1], vec![1]], vec![vec![2], vec![2]]));
    // Not once its credits are used up.
    assert_eq!(keys("before"), (vec![vec![1], vec![2]], vec![vec![4], vec![4]]));
}

#[test]
fn the_mean_of_five_or_every_one() {
    // A pause of one second in five: the mean is 80 %, but not every interval is above.
    let judged = |judge| {
        let mut host = Host::new("app-slice", &[("judge", judge)], &[256]);
        for interval in 0..5 {
            host.sample(&[if interval == 2 { second(0, 0) } else { second(100, 100) }]);
        }
        slices(&host)[0]
    };
    assert_eq!(judged("mean"), SHORT_NS);
    assert_eq!(judged("every"), 0);
}

#[test]
fn classes_change_and_the_slice_returns() {
    let mut host = Host::new("app-slice", &[], &[256]);
    let mut seen = vec![];
    // Six seconds of both, then computing alone: the mean rate is 100, 80, 60, 40, 20.
    for interval in 0..11 {
        host.sample(&[second(100, if interval < 6 { 100 } else { 0 })]);
        seen.push(slices(&host)[0] > 0);
    }
    let t = true;
    assert_eq!(seen, [false, false, false, false, t, t, t, t, t, false, false]);
    assert_eq!(host.domains[0].tick_ns, 0);
}

#[test]
fn a_slice_that_was_asked_for_is_only_shortened() {
    for (asked_ns, slice_ns, tick_ns) in
        [(20 * MS, SHORT_NS, 4 * MS), (5 * MS, 5 * MS, 0), (0, SHORT_NS, 4 * MS)]
    {
        let mut host = Host::new("app-slice", &[], &[256]);
        host.change_settings(0, |settings| settings.slice_ns = asked_ns);
        assert_eq!(slices(&host), [asked_ns]);
        for _ in 0..5 {
            host.sample(&[second(100, 100)]);
        }
        assert_eq!((slices(&host)[0], host.domains[0].tick_ns), (slice_ns, tick_ns));
        // An administrator's change of something else keeps it.
        host.change_settings(0, |settings| settings.weight = 100);
        assert_eq!(slices(&host), [slice_ns]);
    }
}

#[test]
fn published_short_slices_are_percentages() {
    for (percent, milliseconds) in [("80", 24), ("60", 18), ("40", 12), ("20", 6), ("10", 3)] {
        let mut host = Host::new("app-slice", &[("slice_percent", percent)], &[256]);
        for _ in 0..5 {
            host.sample(&[second(100, 100)]);
        }
        assert_eq!(slices(&host), [milliseconds * MS]);
        assert_eq!(host.domains[0].tick_ns, milliseconds * MS / 3);
    }
}

#[test]
fn other_disciplines_shorten_their_own_slice() {
    for (policy, slice_ns) in [
        ("credit2@xen-4.20+app-slice", 4 * MS),
        ("credit2@xen-4.5+app-slice", 800_000),
        ("fair@eevdf+app-slice", 280_000),
        // CFS gives no domain a slice of its own.
        ("fair@cfs+app-slice", 0),
    ] {
        let mut host = Host::new(policy, &[], &[256]);
        for _ in 0..5 {
            host.sample(&[second(100, 100)]);
        }
        assert_eq!(slices(&host), [slice_ns], "{policy}");
    }
}

#[test]
fn a_boost_and_a_short_slice_go_together() {
    let mut host = Host::new("credit2+reset-boost+app-slice", &[], &[256, 256]);
    for _ in 0..5 {
        host.sample(&[second(50, 100), second(50, 0)]);
    }
    // One that changes to nobody's, one that counts, one that changes to the leader's.
    assert!(host.reset(0, 1) && !host.reset(1, 1) && host.reset(99, 1));
    assert_eq!((host.weights(), slices(&host)), (vec![256, 512], vec![4 * MS, 0]));
    // The boost goes on while the slice returns.
    for _ in 0..5 {
        host.sample(&[second(50, 0), second(50, 0)]);
    }
    assert_eq!((host.weights(), slices(&host)), (vec![256, 512], vec![0, 0]));
}

/// A second of a heterogeneous domain, so many waits of which were late.
fn with_waits(waits: u64, late_waits: u64) -> Sample {
    Sample { waits, late_waits, ..second(100, 100) }
}

#[test]
fn a_found_slice_is_halved_when_late_and_else_grows() {
    let mut host = Host::new("app-slice", &[("slice", "found")], &[256]);
    for _ in 0..5 {
        host.sample(&[with_waits(200, 200)]);
    }
    assert_eq!(slices(&host), [SLICE_NS], "it starts with the discipline's");
    let mut step = |waits, late| {
        host.sample(&[with_waits(waits, late)]);
        slices(&host)[0]
    };
    // One in a hundred may be late.
    assert_eq!(step(200, 3), 15 * MS);
    assert_eq!(step(200, 2), 15 * MS + 15 * MS / 8 + 1);
    assert_eq!(step(200, 200), (15 * MS + 15 * MS / 8).div_ceil(2));
    for _ in 0..10 {
        step(200, 200);
    }
    // 3 % of 30 ms.
    assert_eq!(step(200, 200), 900_000);
    for _ in 0..50 {
        step(200, 0);
    }
    assert_eq!(step(200, 0), SLICE_NS);
    // Without waits none is late.
    assert_eq!(step(0, 0), SLICE_NS);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Where waits are late if and only if the slice is longer than some length, the found slice
    /// comes to stay between half of that and an eighth above it.
    #[test]
    fn a_found_slice_comes_to_where_waits_are_just_in_time(limit_ns in 2 * MS..29 * MS) {
        let mut host = Host::new("app-slice", &[("slice", "found")], &[256]);
        for interval in 0..60 {
            let slice_ns = if slices(&host)[0] == 0 { SLICE_NS } else { slices(&host)[0] };
            host.sample(&[with_waits(100, if slice_ns > limit_ns { 100 } else { 0 })]);
            if interval > 15 {
                let slice_ns = slices(&host)[0];
                prop_assert!(slice_ns >= limit_ns / 2 && slice_ns <= limit_ns + limit_ns / 8 + 1,
                    "{slice_ns} of {limit_ns}");
            }
        }
    }

    /// Whenever its own accountings come: from one accounting of the host to the next a vCPU gets what another of the
    /// same weight does, a period later.
    #[test]
    fn own_accountings_give_as_much(
        own_ms in 1..30u64,
        weights in prop::collection::vec(1..1000u64, 2..6),
        times_ns in prop::collection::vec(prop::collection::vec(0..60 * MS, 0..12), 2),
    ) {
        let mut books = Books::new("credit@xen-4.2", 1);
        // The same weight twice.
        books.add(weights[0], 0, 1);
        weights.iter().for_each(|&weight| books.add(weight, 0, 1));
        books.domains[0].0.account_ns = own_ms * MS;
        let all = books.domains.len();
        (0..all).for_each(|domain| books.run(domain, 0, 25 * MS));
        let mut before = -250;
        for times_ns in times_ns {
            books.account();
            let credits = books.credits();
            let (own, other) = (credits[0][0], credits[1][0]);
            // The floor of -300 is the same for both.
            prop_assert_eq!(own - before, 0);
            // It had more than a vCPU may save, of which half is gone.
            if !books.is_active(1, 0) {
                break;
            }
            before = other;
            let mut sorted = times_ns.clone();
            sorted.sort_unstable();
            for time_ns in sorted {
                accounts_itself(&mut books, 0, 1 + time_ns);
                let credits = books.credits();
                prop_assert!(credits[0][0] >= own && credits[0][0] <= other);
            }
        }
    }

    /// Whatever is measured: a slice is the discipline's or shorter, ticks are as many as asked or
    /// 100 us apart, and five intervals without packets end it.
    #[test]
    fn slices_stay_in_bounds_and_return(
        found in any::<bool>(),
        percent in 1..=100u64,
        ticks in 1..=1000u64,
        samples in prop::collection::vec(
            prop::collection::vec((any::<u64>(), 0..64u32, any::<u64>(), 0..64u32), 3), 1..40),
    ) {
        let (percent, ticks_text) = (percent.to_string(), ticks.to_string());
        let settings = [
            ("slice", if found { "found" } else { "set" }),
            ("slice_percent", percent.as_str()),
            ("ticks_per_slice", ticks_text.as_str()),
        ];
        let mut host = Host::new("app-slice", &settings, &[1, 256, 65_535]);
        for domains in samples {
            let measured: Vec<_> = domains
                .iter()
                .map(|&(word, shift, other, by)| Sample {
                    interval_ns: if word % 3 == 0 { S } else { other >> (by / 2) },
                    gotten_ns: word >> shift,
                    waited_ns: other >> by,
                    packets: word >> by,
                    waits: other >> shift,
                    late_waits: word >> (shift / 2),
                    ..Sample::default()
                })
                .collect();
            host.sample(&measured);
            for domain in &host.domains {
                prop_assert!(domain.slice_ns <= SLICE_NS);
                prop_assert_eq!(domain.slice_ns == 0, domain.tick_ns == 0);
                if domain.slice_ns > 0 {
                    prop_assert_eq!(domain.tick_ns, (domain.slice_ns / ticks).max(100_000));
                }
            }
        }
        for _ in 0..5 {
            host.sample(&[second(100, 0); 3]);
        }
        prop_assert_eq!(slices(&host), vec![0; 3]);
    }
}
