// SPDX-License-Identifier: GPL-2.0-only
//! Where vCPUs run that would rather run on some pCPUs than on others: by hand, and whatever the host.

mod common;

use common::*;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use steelyard_policy::Policy;
use steelyard_simulator::config::{Domain, Host, Setup};
use steelyard_simulator::measure::Trace;
use steelyard_simulator::units::{CpuSet, Nanoseconds};
use steelyard_simulator::workload::Busy;

fn free_host(pcpus: u32) -> Host {
    Host { costs: no_costs(), ..Host::with_pcpus(pcpus) }
}

fn set(pcpus: impl IntoIterator<Item = u32>) -> Vec<CpuSet> {
    vec![pcpus.into_iter().collect()]
}

/// Computes and sleeps by turns, for so many ms each.
fn works(compute_ms: u64, sleep_ms: u64) -> Busy {
    let (compute, sleep) = (Nanoseconds::from_ms(compute_ms), Nanoseconds::from_ms(sleep_ms));
    Busy { compute, sleep, ..Busy::default() }
}

fn prefers(pcpu: u32, name: &str, work: Busy) -> Domain {
    Domain { pin_soft: set([pcpu]), ..Domain::new(name, 1).with_task(1, work) }
}

/// How long the domain's vCPUs ran on this pCPU from the first time to the second, in ms.
fn ran_ms(trace: &Trace, domain: u32, pcpu: u32, between_ms: std::ops::Range<u64>) -> f64 {
    let runs = trace.segments.iter().filter(|run| run.domain == domain && run.pcpu == Some(pcpu));
    let ran_ns = runs.map(|run| {
        let end_ns = run.end_ns.min(between_ms.end * MS);
        end_ns.saturating_sub(run.start_ns.max(between_ms.start * MS))
    });
    ran_ns.sum::<u64>() as f64 / MS as f64
}

/// Who moves vCPUs at all.
fn moving_policies() -> impl Iterator<Item = Policy> {
    all_policies().into_iter().filter(|policy| policy.discipline().name != "sedf")
}

/// pCPU 1 of two sockets' first, and the last: a vCPU begins there and never leaves.
#[test]
fn who_is_alone_stays_where_it_prefers() {
    let host = Host { sockets: 2, cores_per_socket: 2, ..free_host(2) };
    let naps = works(3, 7);
    let domains = vec![prefers(1, "a", naps.clone()), prefers(3, "b", naps)];
    for policy in all_policies() {
        let setup = Setup { host: host.clone(), domains: domains.clone() };
        let (run, trace) = run_traced(&setup, &policy, 1, S);
        for (domain, pcpu) in [(0, 1), (1, 3)] {
            assert_eq!(run.domains[domain].time.migrations, 0, "{policy}");
            let ran_ms = ran_ms(&trace, domain as u32, pcpu, 0..1000);
            assert_eq!(ran_ms, run.domains[domain].time.gotten_ns as f64 / MS as f64, "{policy}");
            assert!(ran_ms >= 290.0, "{policy}: {ran_ms} ms");
        }
    }
}

/// Both prefer pCPU 0. While one has it, the other has the other, so that nobody waits; when `first` sleeps at
/// 100 ms, `second` comes back within a slice and a tick. Who has it until then is `first`, unless the policy
/// lets who wakes preempt before it looks for an idle pCPU.
#[test]
fn who_went_elsewhere_comes_back() {
    let second = Domain { start: Nanoseconds::from_ms(10), ..prefers(0, "second", works(10, 0)) };
    let domains = vec![prefers(0, "first", works(100, 300)), second];
    for policy in moving_policies() {
        let setup = Setup { host: free_host(2), domains: domains.clone() };
        let (run, trace) = run_traced(&setup, &policy, 1, 400 * MS);
        assert_eq!(ran_ms(&trace, 1, 0, 140..400), 260.0, "{policy}");
        for domain in &run.domains {
            assert_eq!(domain.time.waited_ns, 0, "{policy}");
        }
        let label = policy.to_string();
        if ["credit@xen-4.20", "credit2@xen-4.20", "fair@cfs", "fair@eevdf"].contains(&&*label) {
            assert_eq!(ran_ms(&trace, 0, 0, 0..100), 100.0, "{policy}");
            assert_eq!(ran_ms(&trace, 1, 1, 10..100), 90.0, "{policy}");
            assert_eq!(run.domains[1].time.migrations, 1, "{policy}");
        }
    }
}

/// Four that prefer pCPU 0 of four: each has a pCPU, and all the time.
#[test]
fn a_preference_leaves_no_pcpu_idle() {
    let names = ["a", "b", "c", "d"];
    for policy in moving_policies() {
        let domains = names.map(|name| prefers(0, name, works(10, 0))).to_vec();
        let run = run(&Setup { host: free_host(4), domains }, &policy, 1, 2 * S);
        for domain in &run.domains {
            assert!(domain.share_percent > 97.0, "{policy}: {} %", domain.share_percent);
        }
    }
}

/// At 5 ms pCPU 1 has nobody any more and steals from pCPU 0, where `here` runs and two wait: not the first of
/// them, which would rather stay, but the second, to which all pCPUs are the same.
#[test]
fn who_would_rather_stay_is_stolen_last() {
    let at_1 = |name: &str| Domain { pin: set([1]), ..Domain::new(name, 1) };
    let domains = vec![
        at_1("leaves").with_task(1, works(5, 1000)),
        // A new vCPU begins where fewest do.
        at_1("idle"),
        at_1("idle too"),
        prefers(0, "here", works(10, 0)),
        prefers(0, "stays", works(10, 0)),
        Domain::new("goes", 1).with_task(1, works(10, 0)),
    ];
    for name in ["credit@xen-3.3", "credit@xen-4.2", "credit@xen-4.5", "credit@xen-4.20"] {
        let policy = policy(name);
        let setup = Setup { host: free_host(2), domains: domains.clone() };
        let (_, trace) = run_traced(&setup, &policy, 1, 8 * MS);
        assert_eq!(ran_ms(&trace, 0, 1, 0..5), 5.0, "{policy}");
        assert_eq!(ran_ms(&trace, 5, 1, 5..8), 3.0, "{policy}");
    }
}

/// Two sockets under credit2, a queue each. The four that prefer socket 0 have it to themselves; the balance
/// takes two elsewhere once there are six.
#[test]
fn balance_leaves_who_prefers_its_queue_unless_somebody_waits_there() {
    let host = || Host { sockets: 2, cores_per_socket: 4, ..free_host(4) };
    for policy in all_policies().into_iter().filter(|p| p.discipline().name == "credit2") {
        for (vcpus, elsewhere_ms) in [(4, 0.0..1.0), (6, 3000.0..4500.0)] {
            let crowd = Domain::new("crowd", vcpus).with_task(vcpus, works(10, 0));
            let domains = vec![Domain { pin_soft: set(0..4), ..crowd }];
            let (_, trace) = run_traced(&Setup { host: host(), domains }, &policy, 1, 2 * S);
            let ran_ms: f64 = (4..8).map(|pcpu| ran_ms(&trace, 0, pcpu, 0..2000)).sum();
            assert!(elsewhere_ms.contains(&ran_ms), "{policy}, {vcpus} vCPUs: {ran_ms} ms");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 100,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Nor does one for pCPUs that it may not use.
    #[test]
    fn a_preference_for_all_changes_nothing(
        drawn in prop::collection::vec((1..20u64, 0..20u64, 1..=3u32, 1..16u32), 1..5),
        seed in 0..1000u64,
    ) {
        let domains = |soft: &dyn Fn(u32) -> u32| -> Vec<Domain> {
            let bits = |bits: u32| set((0..4).filter(move |pcpu| bits >> pcpu & 1 != 0));
            let domain = |(compute_ms, sleep_ms, vcpus, pin): (u64, u64, u32, u32)| Domain {
                pin: bits(pin),
                pin_soft: if soft(pin) == 0 { vec![] } else { bits(soft(pin)) },
                ..Domain::new(format!("{compute_ms}"), vcpus)
                    .with_task(vcpus, Busy { jitter_percent: 50, ..works(compute_ms, sleep_ms) })
            };
            let named = drawn.iter().copied().map(domain).enumerate();
            named.map(|(n, domain)| Domain { name: n.to_string(), ..domain }).collect()
        };
        let host = Host { threads_per_core: 2, ..free_host(2) };
        for policy in all_policies() {
            let run_of = |domains| {
                run_traced(&Setup { host: host.clone(), domains }, &policy, seed, 300 * MS)
            };
            let without = run_of(domains(&|_| 0));
            prop_assert_eq!(&without, &run_of(domains(&|_| 15)));
            prop_assert_eq!(&without, &run_of(domains(&|pin| 15 & !pin)));
        }
    }

    /// As many as pCPUs, each preferring one of its own, in any order: nobody ever finds its own taken.
    #[test]
    fn who_has_a_pcpu_to_itself_keeps_it(
        order in Just([0, 1, 2, 3]).prop_shuffle(),
        work in (1..20u64, 1..20u64),
        seed in 0..1000u64,
    ) {
        let domain = |pcpu: u32| {
            let busy = Busy { jitter_percent: 100, ..works(work.0, work.1) };
            prefers(pcpu, &format!("at {pcpu}"), busy)
        };
        let setup = Setup { host: free_host(4), domains: order.map(domain).to_vec() };
        for policy in all_policies() {
            let run = run(&setup, &policy, seed, S);
            for domain in &run.domains {
                prop_assert_eq!(domain.time.migrations, 0, "{}", &policy);
                prop_assert_eq!(domain.time.waited_ns, 0, "{}", &policy);
            }
        }
    }
}
