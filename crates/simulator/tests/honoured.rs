// SPDX-License-Identifier: GPL-2.0-only
//! Whether a policy did what was asked of it, as a run measures it: caps, reservations, pins; and where
//! policies let vCPUs wait though they need not, by their sources and publications.

mod common;

use common::{MS, S, all_policies, no_costs, policies, policy, run};
use steelyard_policy::Policy;
use steelyard_simulator::config::{Domain, Host, Reservation, Setup};
use steelyard_simulator::measure::{Run, Setting};
use steelyard_simulator::units::{CpuSet, Nanoseconds};
use steelyard_simulator::workload::Busy;

fn busy(name: &str, vcpus: u32) -> Domain {
    let busy = Busy { compute: Nanoseconds::from_ms(5), ..Busy::default() };
    Domain::new(name, vcpus).with_task(vcpus, busy)
}

fn host(sockets: u32, cores_per_socket: u32) -> Host {
    Host { sockets, cores_per_socket, costs: no_costs(), ..Host::default() }
}

fn share(run: &Run, domain: usize) -> f64 {
    run.domains[domain].share_percent
}

fn gotten_ns(run: &Run, domain: usize) -> Vec<u64> {
    run.domains[domain].vcpus.iter().map(|vcpu| vcpu.time.gotten_ns).collect()
}

/// Who has caps keeps to them, who has none is told on; and nobody is told on for a cap that does not
/// bind.
#[test]
fn a_cap_that_did_not_hold_is_told() {
    for policy in all_policies() {
        for (cap_percent, binds) in [(20, true), (100, false)] {
            let domain = Domain { cap_percent, ..busy("a", 1) };
            let setup = Setup { host: host(1, 1), domains: vec![domain] };
            let told = &run(&setup, &policy, 1, 10 * S).domains[0].unhonoured;
            if policy.has_caps() || !binds {
                assert_eq!(told, &[], "{policy}");
            } else {
                let [one] = &told[..] else { panic!("{policy}: {told:?}") };
                assert_eq!((one.setting, one.heeded), (Setting::Cap, false), "{policy}");
                assert_eq!((one.asked_percent, one.got_percent), (20.0, 100.0), "{policy}");
            }
        }
    }
}

/// 8 of every 10 ms are reserved for one of three that always compute: only sedf gives more than a third.
#[test]
fn a_reservation_that_was_not_given_is_told() {
    let (period, slice) = (Nanoseconds::from_ms(10), Nanoseconds::from_ms(8));
    let reserved = Reservation { period, slice, extra_time: false };
    let mut domains: Vec<_> = ["a", "b", "c"].map(|name| busy(name, 1)).into();
    domains[0].sedf = Some(reserved);
    let setup = Setup { host: host(1, 1), domains };
    for name in ["sedf", "credit", "credit2", "fair@cfs", "fair@eevdf"] {
        let run = run(&setup, &policy(name), 1, 10 * S);
        let told = &run.domains[0].unhonoured;
        if name == "sedf" {
            assert_eq!(told, &[]);
        } else {
            let [one] = &told[..] else { panic!("{name}: {told:?}") };
            assert_eq!((one.setting, one.heeded), (Setting::Reservation, false), "{name}");
            assert!((one.asked_percent - 80.0).abs() < 0.1, "{name}: {one:?}");
            assert!((one.got_percent - 33.3).abs() < 1.0, "{name}: {one:?}");
        }
        assert!(run.domains[1..].iter().all(|other| other.unhonoured.is_empty()), "{name}");
    }
}

/// What is reserved for one that mostly sleeps was given, whoever schedules it. (Mcredit2 makes it wait for
/// longer than its periods: there it was not.)
#[test]
fn a_reservation_that_is_not_used_is_not_missed() {
    let (period, slice) = (Nanoseconds::from_ms(20), Nanoseconds::from_ms(15));
    let sleeper = Busy {
        compute: Nanoseconds::from_ms(1),
        sleep: Nanoseconds::from_ms(99),
        ..Busy::default()
    };
    let sleeper = Domain {
        sedf: Some(Reservation { period, slice, extra_time: true }),
        ..Domain::new("sleeper", 1).with_task(1, sleeper)
    };
    let setup = Setup { host: host(1, 1), domains: vec![sleeper, busy("a", 1)] };
    for policy in policies() {
        assert_eq!(run(&setup, &policy, 1, 10 * S).domains[0].unhonoured, [], "{policy}");
    }
}

/// A cap of a whole pCPU takes nothing from a domain of the same weight.
#[test]
fn a_cap_of_sedf_reserves_nothing() {
    let domains = vec![Domain { cap_percent: 100, ..busy("a", 1) }, busy("b", 1)];
    let run = run(&Setup { host: host(1, 1), domains }, &policy("sedf"), 1, 10 * S);
    assert!((share(&run, 1) - 50.0).abs() < 0.5, "{}", share(&run, 1));
}

// ---- What is known of policies, by their sources ----

/// Nishiguchi's levelling gives all vCPUs of a domain one priority, and Xen 3.3 steals only for a
/// strictly higher one. `four` has its pCPU's worth from two of its vCPUs, so that all four are OVER;
/// the two that share a pCPU with `one`, which is UNDER, never run. Without levelling each would be
/// judged by what it used itself.
#[test]
fn levelled_siblings_starve_beside_a_domain_in_credit() {
    let setup = Setup { host: host(1, 2), domains: vec![busy("four", 4), busy("one", 1)] };
    let least_ns = |policy: &Policy| {
        let run = run(&setup, policy, 1, 12 * S);
        gotten_ns(&run, 0).into_iter().min().unwrap_or(0)
    };
    let mut unlevelled = policy("credit@xen-3.3-fujitsu");
    unlevelled.set("level", "no").expect("a parameter");
    assert!(least_ns(&policy("credit@xen-3.3-fujitsu")) < 100 * MS);
    assert!(least_ns(&policy("boost-credit")) < 100 * MS);
    assert!(least_ns(&unlevelled) > 3 * S);
    assert!(least_ns(&policy("credit@xen-3.3")) > 3 * S);
}

/// Each pCPU of the first socket has two that compute, those of the second one that sleeps half of the
/// time.
fn uneven() -> Setup {
    let half = Busy {
        compute: Nanoseconds::from_ms(20),
        sleep: Nanoseconds::from_ms(20),
        ..Busy::default()
    };
    let pinned = |name: &str, pcpus: std::ops::Range<u32>, domain: Domain| Domain {
        name: name.to_owned(),
        pin: vec![pcpus.collect::<CpuSet>()],
        ..domain
    };
    let mut domains = vec![
        pinned("a", 0..2, busy("a", 2)),
        pinned("b", 2..4, Domain::new("b", 2).with_task(2, half)),
    ];
    domains.push(busy("c", 2));
    Setup { host: host(2, 2), domains }
}

fn worst_beside_idle_ns(run: &Run) -> u64 {
    run.domains.iter().map(|domain| domain.time.worst_beside_idle_ns).max().unwrap_or(0)
}

/// Credit lets nobody wait beside a pCPU that is idle; nor does Credit2 within a socket. Between sockets
/// it evens out load averaged over a second, and SEDF moves nobody at all.
#[test]
fn who_waits_beside_idle_pcpus_is_told() {
    let setup = uneven();
    let one_socket = Setup { host: host(1, 4), ..setup.clone() };
    for policy in all_policies() {
        let told_ns = worst_beside_idle_ns(&run(&setup, &policy, 1, 10 * S));
        let discipline = policy.discipline().name;
        match discipline {
            "credit" => assert_eq!(told_ns, 0, "{policy}"),
            "sedf" => assert!(told_ns > MS, "{policy}: {told_ns}"),
            "credit2" => {
                assert!(told_ns < S, "{policy}: {told_ns}");
                let told_ns = worst_beside_idle_ns(&run(&one_socket, &policy, 1, 10 * S));
                assert_eq!(told_ns, 0, "{policy}");
            }
            _ => {}
        }
        // What is told is part of what was waited for.
        for domain in &run(&setup, &policy, 1, 10 * S).domains {
            assert!(domain.time.beside_idle_ns <= domain.time.waited_ns);
        }
    }
}

/// Mcredit2 as published counts resets per domain: of equal weights, who has more vCPUs leads in every
/// interval and has its weight doubled. Credit2 itself gives each vCPU a quarter.
#[test]
fn a_reset_boost_runs_away() {
    let domains = vec![busy("a", 1), busy("b", 3)];
    let setup = Setup { host: host(1, 1), domains };
    let least = |policy: &Policy| share(&run(&setup, policy, 1, 10 * S), 0);
    assert!((least(&policy("credit2@xen-4.5")) - 25.0).abs() < 1.0);
    assert!(least(&policy("mcredit2")) < 5.0, "{}", least(&policy("mcredit2")));
}
