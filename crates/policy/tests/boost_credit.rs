// SPDX-License-Identifier: GPL-2.0-only
//! Both improvements of Credit for client virtualization, by hand as Nishiguchi describes them, and
//! that boost credit keeps shares.
#![allow(clippy::unwrap_used)]

mod books;
mod host;

use books::{BOOST, Books, OVER, UNDER};
use host::{Host, MS};
use proptest::prelude::*;
use steelyard_policy::ffi::*;
use steelyard_policy::{Policy, request};

const FIRST: &str = "credit@xen-3.3-fujitsu";
const SECOND: &str = "boost-credit";

/// The same with this choice of a parameter of Credit's or of the governor's.
fn reading(policy: &str, parameter: &str, choice: &str, vcpus: &[u64]) -> Books {
    let mut policy = Policy::named(policy).unwrap();
    policy.set(parameter, choice).unwrap();
    let mut books = Books::of(&policy, 1);
    vcpus.iter().for_each(|&vcpus| books.add(256, 0, vcpus));
    books
}

/// One pCPU, one domain of so many vCPUs per entry, all of the same weight.
fn books(policy: &str, vcpus: &[u64]) -> Books {
    let mut books = Books::new(policy, 1);
    vcpus.iter().for_each(|&vcpus| books.add(256, 0, vcpus));
    books
}

fn boosts(books: &Books) -> Vec<Vec<u64>> {
    let of = |(_, vcpus): &(_, Vec<Vcpu>)| vcpus.iter().map(|v| v.boost_ns).collect();
    books.domains.iter().map(of).collect()
}

/// A vCPU that wakes with these credits: its key.
fn wakes_as(books: &mut Books, domain: usize) -> u64 {
    let (d, vcpus) = &mut books.domains[domain];
    let v = &mut vcpus[0];
    sy_wake(&books.p, &mut books.q, d, v, 1);
    sy_key(&books.p, &mut books.q, d, v, 1)
}

// ---- The first improvement ----

#[test]
fn debit_is_exact_in_units_of_a_microsecond() {
    let mut books = books(FIRST, &[1]);
    books.run(0, 0, 1_500);
    assert_eq!(books.credits(), [[-1]]);
    books.run(0, 0, 1_500);
    assert_eq!(books.credits(), [[-3]], "the half of a credit before is not lost");
}

#[test]
fn credits_are_levelled_before_accounting() {
    // 30000 credits for a pCPU's 30 ms, 15000 for each. One vCPU ran 20 ms, the other 10.001 ms:
    // -20000 and -10001, the mean is -15000.5: -15001 for each. Both are OVER by one credit.
    let mut levelled = books(FIRST, &[2]);
    levelled.run(0, 0, 20 * MS);
    levelled.run(0, 1, 10_001_000);
    assert_eq!(levelled.credits(), [[-20_000, -10_001]]);
    levelled.account();
    assert_eq!(levelled.credits(), [[-1, -1]]);
    assert_eq!(levelled.priorities(), [[OVER, OVER]]);
    // Stock: 100 credits to whom a tick finds, uneven within the domain.
    let mut stock = books("credit@xen-3.3", &[2]);
    stock.run(0, 0, 0);
    stock.run(0, 0, 0);
    stock.run(0, 1, 0);
    stock.account();
    assert_eq!(stock.credits(), [[-50, 50]]);
    assert_eq!(stock.priorities(), [[OVER, UNDER]]);
}

#[test]
fn levels_above_zero_and_vcpus_that_are_not_active() {
    // The third vCPU was never found running: it takes no part.
    let mut books = books(FIRST, &[3]);
    books.run(0, 0, 3 * MS);
    books.run(0, 1, MS);
    books.account();
    // -2000 each, + 15000.
    assert_eq!(books.credits(), [[13_000, 13_000, 0]]);
    books.run(0, 0, 8 * MS);
    books.account();
    // 5000 and 13000: 9000 each, + 15000.
    assert_eq!(books.credits(), [[24_000, 24_000, 0]]);
}

#[test]
fn credits_above_the_bound_are_kept() {
    // Alone on its pCPU, idle after the tick that made it active, for which 3.3 takes 100 credits:
    // 200, then 500 above 300. With the first improvement 30000, then 60000 above 30000.
    for (policy, overflow, before, kept) in [
        ("credit@xen-3.3", "zero", 200, 0),
        (FIRST, "all", 30_000, 60_000),
        (FIRST, "bound", 30_000, 30_000),
    ] {
        let mut books = reading(policy, "overflow", overflow, &[1]);
        books.run(0, 0, 0);
        books.account();
        assert_eq!(books.credits(), [[before]], "{policy}");
        assert!(books.is_active(0, 0), "{policy}");
        books.account();
        assert_eq!(books.credits(), [[kept]], "{policy}");
        assert!(!books.is_active(0, 0), "{policy}");
        // It earns no more until a tick finds it running.
        books.account();
        assert_eq!(books.credits(), [[kept]], "{policy}");
    }
    let parameters = |name: &str| Policy::named(name).unwrap().parameters().clone();
    let all = reading(FIRST, "overflow", "all", &[]).p;
    assert_eq!(parameters(FIRST), all, "the talk's own words");
}

#[test]
fn a_slice_in_boost_is_2_ms() {
    for (policy, boost_ms) in [("credit@xen-3.3", 30), (FIRST, 2), ("credit@xen-4.2", 30)] {
        let mut books = books(policy, &[1]);
        let slice = |books: &mut Books| {
            let (d, vcpus) = &books.domains[0];
            sy_slice(&books.p, &mut books.q, &books.c, d, &vcpus[0], None, 1)
        };
        assert_eq!(wakes_as(&mut books, 0), BOOST);
        assert_eq!(slice(&mut books), boost_ms * MS, "{policy}");
        // The first tick that finds it running ends the boost of a wake.
        books.run(0, 0, 0);
        assert_eq!(slice(&mut books), 30 * MS, "{policy}");
    }
}

#[test]
fn the_improvements_can_be_chosen_apart() {
    let parameters = |name: &str| Policy::named(name).unwrap().parameters().clone();
    assert_eq!(parameters(SECOND), parameters("credit@xen-3.3-fujitsu+boost-credit"));
    for other in ["credit@xen-3.3+boost-credit", "credit@xen-4.20+boost-credit"] {
        assert!(Policy::named(other).is_ok());
    }
    for other in ["credit2+boost-credit", "sedf+boost-credit", "fair+boost-credit"] {
        let refused = Policy::named(other).unwrap_err().to_string();
        assert!(refused.contains("only credit has both"), "{refused}");
    }
}

// ---- The second improvement ----

/// A and B share a pCPU, 15000 credits each per 30 ms. A runs 5 ms of them and B 25 ms.
fn unequal() -> Books {
    let mut books = books(SECOND, &[1, 1]);
    books.run(0, 0, 0);
    books.run(1, 0, 0);
    books
}

fn period(books: &mut Books) {
    books.run(0, 0, 5 * MS);
    books.run(1, 0, 25 * MS);
    books.account();
}

#[test]
fn what_is_above_the_bound_becomes_boost_credit_up_to_the_limit() {
    let mut books = unequal();
    let mut seen = vec![];
    for _ in 0..13 {
        period(&mut books);
        seen.push((books.credits()[0][0], boosts(&books)[0][0] / MS));
    }
    assert_eq!(
        seen,
        [
            (10_000, 0),
            (20_000, 0),
            (30_000, 0),
            // 40000: 10000 above the bound, 10 ms.
            (30_000, 10),
            // From now on A runs on boost credit and earns 15 ms each time.
            (30_000, 20),
            (30_000, 30),
            (30_000, 40),
            (30_000, 50),
            (30_000, 60),
            (30_000, 70),
            (30_000, 80),
            (30_000, 90),
            (30_000, 100),
        ]
    );
    assert_eq!(books.priorities(), [[BOOST], [OVER]]);
    assert_eq!(boosts(&books)[1], [0], "who uses its share saves nothing");
    assert!(books.is_active(0, 0));
    // Nothing is used: the limit stays, and it leaves the active list.
    books.account();
    assert_eq!(boosts(&books)[0], [100 * MS]);
    assert!(!books.is_active(0, 0));
}

#[test]
fn time_is_taken_from_boost_credit_first() {
    let mut books = unequal();
    (0..5).for_each(|_| period(&mut books));
    assert_eq!(boosts(&books)[0], [20 * MS]);
    // A tick does not end this boost.
    books.run(0, 0, 19 * MS);
    books.run(0, 0, 0);
    assert_eq!((boosts(&books)[0][0], books.credits()[0][0]), (MS, 30_000));
    assert_eq!(books.priorities()[0], [BOOST]);
    assert!(books.standings()[0].boosted);
    // 999 ns are less than a credit.
    books.run(0, 0, MS - 999);
    assert_eq!((boosts(&books)[0][0], books.credits()[0][0]), (999, 30_000));
    assert_eq!(books.priorities()[0], [UNDER]);
    assert!(!books.standings()[0].boosted);
    // What boost credit does not cover is debited.
    books.run(0, 0, 5 * MS + 999);
    assert_eq!((boosts(&books)[0][0], books.credits()[0][0]), (0, 25_000));
    assert_eq!(books.priorities()[0], [UNDER]);
}

#[test]
fn with_flat_debits_ticks_take_boost_credit() {
    let mut books = books("credit@xen-3.3+boost-credit", &[1, 1]);
    books.run(0, 0, 0);
    books.run(1, 0, 0);
    // Each accounting 150 credits: -100, 50, 200, 350: 50 above the bound are 5 ms.
    (0..3).for_each(|_| drop(books.account()));
    assert_eq!((boosts(&books)[0][0], books.credits()[0][0]), (5 * MS, 300));
    // A tick takes 10 ms: 5 of them are paid with 50 credits.
    books.run(0, 0, 0);
    assert_eq!((boosts(&books)[0][0], books.credits()[0][0]), (0, 250));
}

#[test]
fn a_domain_may_ask_for_another_limit_or_none() {
    for (limit_ns, saved_ns) in [(0, 100 * MS), (25 * MS, 25 * MS), (1, 1)] {
        let mut books = unequal();
        books.domains[0].0.settings.boost_limit_ns = limit_ns;
        (0..20).for_each(|_| period(&mut books));
        // The last period's own 5 ms were taken from it and given back.
        assert_eq!(boosts(&books)[0], [saved_ns]);
        let expected = if saved_ns == 1 { UNDER } else { BOOST };
        assert_eq!(books.priorities()[0], [expected]);
    }
}

#[test]
fn by_ratio_other_domains_have_no_influence() {
    // 50 % of a pCPU for two vCPUs: 7.5 ms each in 30 ms, however many others there are.
    for others in 1..4u64 {
        for choice in ["in_place", "on_top"] {
            let vcpus = [&[2][..], &vec![2; others as usize]].concat();
            let mut books = reading(SECOND, "boost-credit.ratio", choice, &vcpus);
            books.domains[0].0.settings.boost_percent = 50;
            for domain in 0..=others as usize {
                (0..2).for_each(|vcpu| books.run(domain, vcpu, 30 * MS));
            }
            books.account();
            assert_eq!(boosts(&books)[0], [7_500_000; 2]);
            assert_eq!(boosts(&books)[1], [0; 2]);
            assert_eq!(books.priorities()[0], [BOOST; 2]);
        }
    }
}

#[test]
fn by_ratio_boost_credit_comes_in_place_of_credits_or_on_top() {
    // 30000 credits for 30 ms, three domains of one vCPU. The first has 20 % of a pCPU, 6 ms, which are 6000 credits.
    for (choice, expected) in [("in_place", [0, 12_000, 12_000]), ("on_top", [10_000; 3])] {
        let mut books = reading(SECOND, "boost-credit.ratio", choice, &[1, 1, 1]);
        books.domains[0].0.settings.boost_percent = 20;
        (0..3).for_each(|domain| books.run(domain, 0, 0));
        books.account();
        assert_eq!(books.credits(), expected.map(|credits| [credits]), "{choice}");
        assert_eq!(boosts(&books), [[6 * MS], [0], [0]], "{choice}");
    }
}

#[test]
fn a_ratio_above_the_part_by_weight_is_taken_from_the_others() {
    // 50 % of a pCPU where a third would be its part: 15000 are left for the other two.
    let mut books = reading(SECOND, "boost-credit.ratio", "in_place", &[1, 1, 1]);
    books.domains[0].0.settings.boost_percent = 50;
    (0..3).for_each(|domain| books.run(domain, 0, 0));
    books.account();
    assert_eq!(books.credits(), [[0], [7_500], [7_500]]);
    assert_eq!(boosts(&books), [[15 * MS], [0], [0]]);
    // Where nobody is left to take from it comes first in the next accounting.
    let mut books = reading(SECOND, "boost-credit.ratio", "in_place", &[1, 1]);
    books.domains[1].0.settings.boost_percent = 80;
    (0..2).for_each(|domain| books.run(domain, 0, 0));
    let asked = books.account();
    let asked: Vec<u32> = asked.iter().map(|(domain, _)| *domain).collect();
    assert_eq!(asked, [request::VISIT, request::VISIT | request::FIRST]);
    assert_eq!(books.credits(), [[15_000], [0]]);
}

#[test]
fn who_has_spent_its_boost_is_under_or_what_it_was() {
    for (choice, expected) in [("under", UNDER), ("before", OVER)] {
        let mut books = reading(SECOND, "boost_end", choice, &[1, 1]);
        books.domains[0].0.settings.boost_percent = 20;
        // It owes 21000 credits after the first accounting, in which it is given 6 ms: OVER, and in BOOST.
        (0..2).for_each(|domain| books.run(domain, 0, 21 * MS));
        books.account();
        assert_eq!(books.credits()[0], [-21_000], "{choice}");
        assert_eq!(books.priorities()[0], [BOOST], "{choice}");
        books.run(0, 0, 5 * MS);
        assert_eq!(books.priorities()[0], [BOOST], "{choice}");
        books.run(0, 0, MS);
        assert_eq!(books.priorities()[0], [expected], "{choice}");
        // The next accounting judges by credits, in either reading.
        books.domains[0].0.settings.boost_limit_ns = 1;
        books.account();
        assert_eq!(books.priorities()[0], [OVER], "{choice}");
    }
}

#[test]
fn boost_credit_may_be_levelled_within_a_domain() {
    for (choice, expected) in [("yes", [22_500, 7_500]), ("with_boost", [15_000, 15_000])] {
        let mut books = reading(SECOND, "level", choice, &[2]);
        (0..2).for_each(|vcpu| books.run(0, vcpu, 0));
        // 15000 credits each, then 30000, then 15 ms of boost each.
        (0..3).for_each(|_| drop(books.account()));
        assert_eq!(boosts(&books), [[15 * MS; 2]], "{choice}");
        // One spends all and pays for 15 ms: the mean of 30000 and 15000, and 15000 more, are 7500 above the bound.
        books.run(0, 1, 30 * MS);
        assert_eq!(boosts(&books), [[15 * MS, 0]], "{choice}");
        books.account();
        assert_eq!(boosts(&books), [expected.map(|us| us * 1_000)], "{choice}");
    }
}

#[test]
fn boost_credit_ends_when_nothing_is_left_unused() {
    let mut books = unequal();
    (0..20).for_each(|_| period(&mut books));
    assert_eq!(books.priorities()[0], [BOOST]);
    // From now on both run half of the time, as they are entitled to.
    for _ in 0..20 {
        books.run(0, 0, 15 * MS);
        books.run(1, 0, 15 * MS);
        books.account();
    }
    assert_eq!(books.priorities()[0], [BOOST], "what was saved is still there: it used no more");
    // 10 ms more than its share each time: 100 ms last ten times, the credits three more.
    for _ in 0..14 {
        books.run(0, 0, 25 * MS);
        books.run(1, 0, 5 * MS);
        books.account();
    }
    assert_eq!(boosts(&books)[0], [0]);
    assert_eq!(books.priorities()[0], [OVER]);
}

#[test]
fn who_saved_runs_at_once_and_for_long() {
    // A sleeps for a while, then works for 80 ms beside a busy B.
    let work = |policy: &str| {
        let mut host = Host::new(policy);
        let a = host.add(Settings::default(), 1);
        let b = host.add(Settings::default(), 1);
        host.wake(b);
        let mut end_ns = 0;
        // Half a second of 5 ms in 30 ms, so that A is active.
        for _ in 0..17 {
            host.wake(a);
            end_ns += 5 * MS;
            host.run_until(end_ns);
            host.block(a);
            end_ns += 25 * MS;
            host.run_until(end_ns);
        }
        let before_ns = host.tasks[a].ran_ns;
        host.wake(a);
        host.run_until(end_ns + 80 * MS);
        host.tasks[a].ran_ns - before_ns
    };
    assert_eq!(work(SECOND), 80 * MS);
    assert!(work("credit@xen-3.3") < 60 * MS, "{}", work("credit@xen-3.3"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Beside a busy domain of the same weight, whatever it does, a domain with boost credit gets no
    /// more than its half, what it may save before, and an accounting or two on either side.
    #[test]
    fn by_weight_shares_are_kept(
        bursts in prop::collection::vec((1..400u64, 1..400u64), 1..20),
        limit_ms in 0..500u64,
    ) {
        let limit_ns = (limit_ms * MS).to_string();
        let mut host = Host::new(SECOND).set("boost-credit.limit_ns", &limit_ns);
        let a = host.add(Settings::default(), 1);
        let b = host.add(Settings::default(), 1);
        host.wake(b);
        let mut end_ns = 0;
        for (works_ms, sleeps_ms) in bursts {
            host.wake(a);
            end_ns += works_ms * MS;
            host.run_until(end_ns);
            host.block(a);
            end_ns += sleeps_ms * MS;
            host.run_until(end_ns);
        }
        let most_ns = end_ns / 2 + limit_ms * MS + 90 * MS;
        prop_assert!(host.tasks[a].ran_ns <= most_ns, "{} of {most_ns}", host.tasks[a].ran_ns);
        prop_assert!(host.tasks[a].vcpu.boost_ns <= limit_ms * MS);
    }

    /// Boost credit never exceeds the limit, and by weight never what was left unused.
    #[test]
    fn boost_credit_stays_in_bounds(
        periods in prop::collection::vec((0..60u64, 0..60u64), 1..50),
        limit_ns in 0..200 * MS,
        percent in prop_oneof![Just(0u64), 1..200u64],
    ) {
        let mut books = unequal();
        books.domains[0].0.settings.boost_limit_ns = limit_ns;
        books.domains[0].0.settings.boost_percent = percent;
        let limit_ns = if limit_ns == 0 { 100 * MS } else { limit_ns };
        let mut earned_ns = 0;
        for (a_ms, b_ms) in periods {
            books.run(0, 0, a_ms * MS);
            books.run(1, 0, b_ms * MS);
            let asked = books.account();
            prop_assert!(asked.iter().all(|(domain, _)| domain & !(request::VISIT | request::FIRST) == 0));
            earned_ns += 30 * MS;
            let boost_ns = boosts(&books)[0][0];
            prop_assert!(boost_ns <= limit_ns);
            if percent == 0 {
                prop_assert!(boost_ns <= earned_ns);
            }
        }
    }
}
