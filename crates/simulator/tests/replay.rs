// SPDX-License-Identifier: GPL-2.0-only
//! Replays conserve what was recorded: whoever schedules, each thread gets the CPU time that it had, once its
//! waits are over, and seeds move nothing but the phases.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use proptest::prelude::*;
use steelyard_policy::Policy;
use steelyard_simulator::config::{Costs, Domain, Host, Setup};
use steelyard_simulator::units::Nanoseconds;
use steelyard_simulator::workload::{Burst, Replay, ReplayThread};
use steelyard_simulator::{Simulation, measure::Run};

const MS: u64 = 1_000_000;
/// After its last burst a thread sleeps longer than any test.
const FOR_EVER_NS: u64 = 1 << 50;

fn free() -> Costs {
    let none = Nanoseconds(0);
    Costs {
        context_switch: none,
        interrupt: none,
        vm_exit: none,
        cache_refill: none,
        migration: none,
        socket_migration: none,
        ..Costs::default()
    }
}

fn replay(threads: Vec<ReplayThread>, jitter_percent: u32) -> Domain {
    let count = threads.len() as u32;
    let threads = threads.into_iter().map(Arc::new).collect();
    let recording = "recorded".to_owned();
    Domain::new(format!("{count} threads"), count)
        .with_task(count, Replay { recording, process: 1, jitter_percent, threads })
}

fn run(domains: Vec<Domain>, pcpus: u32, policy: &str, seed: u64, length_ns: u64) -> Run {
    let setup = Setup { host: Host { costs: free(), ..Host::with_pcpus(pcpus) }, domains };
    let mut simulation = Simulation::new(&setup, &Policy::named(policy).unwrap(), seed).unwrap();
    simulation.run_until(length_ns);
    simulation.measure()
}

/// First wake-up, and run and sleep times, in us.
fn thread() -> impl Strategy<Value = (u64, Vec<(u64, u64)>)> {
    (0..20_000_u64, prop::collection::vec((1..8_000_u64, 0..20_000_u64), 1..12))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn run_time_is_conserved(
        threads in prop::collection::vec(thread(), 1..6),
        pcpus in 1..4_u32,
        jitter_percent in 0..=100_u32,
        seed in 1..4_u64,
        ungrouped: bool,
        policy in prop::sample::select(vec!["credit", "credit2", "sedf", "fair@cfs", "fair@eevdf"]),
    ) {
        let mut sums_ns = vec![];
        let mut longest_ns = 0;
        let recorded = threads.into_iter().map(|(first_us, bursts)| {
            let mut bursts: Vec<_> = bursts
                .into_iter()
                .map(|(run_us, sleep_us)| Burst { run_ns: 1000 * run_us, sleep_ns: 1000 * sleep_us })
                .collect();
            sums_ns.push(bursts.iter().map(|burst| burst.run_ns).sum::<u64>());
            longest_ns += 1000 * first_us
                + bursts.iter().map(|burst| burst.run_ns + 2 * burst.sleep_ns).sum::<u64>();
            bursts.last_mut().unwrap().sleep_ns = FOR_EVER_NS;
            ReplayThread { first_wake_ns: 1000 * first_us, bursts }
        });
        let domain = replay(recorded.collect(), jitter_percent);
        let domain = Domain { ungrouped, ..domain };
        // Even one after the other they are through by then.
        let run = run(vec![domain], pcpus, policy, seed, 2 * longest_ns + 1000 * MS);
        for (vcpu, sum_ns) in run.domains[0].vcpus.iter().zip(sums_ns) {
            prop_assert_eq!(vcpu.time.gotten_ns, sum_ns, "{}", policy);
        }
    }
}

/// Two threads that run 3 ms and sleep 7 ms, on one pCPU.
fn alternating(jitter_percent: u32, seed: u64) -> Run {
    let thread =
        ReplayThread { first_wake_ns: 0, bursts: vec![Burst { run_ns: 3 * MS, sleep_ns: 7 * MS }] };
    run(vec![replay(vec![thread; 2], jitter_percent)], 1, "fair@eevdf", seed, 10_000 * MS)
}

#[test]
fn seeds_move_phases_and_no_more() {
    assert_eq!(alternating(0, 1).domains, alternating(0, 2).domains, "without jitter none does");
    let (one, other) = (alternating(5, 1), alternating(5, 2));
    assert_ne!(one.domains, other.domains);
    assert_eq!(one.domains, alternating(5, 1).domains, "the same seed, the same run");
    for run in [&one, &other] {
        // A sleep of 7 ms is 0.35 ms longer or shorter: a period between 9.65 ms and, behind the other, 13.35.
        for vcpu in &run.domains[0].vcpus {
            let periods = vcpu.time.gotten_ns / (3 * MS);
            assert!((749..=1037).contains(&periods), "{periods}");
        }
    }
}

#[test]
fn no_sleep_is_moved_by_more_than_a_millisecond() {
    // 100 % of 10 s would be anywhere.
    let thread = ReplayThread {
        first_wake_ns: 10_000 * MS,
        bursts: vec![Burst { run_ns: 3 * MS, sleep_ns: FOR_EVER_NS }],
    };
    for seed in 1..20 {
        let domain = || vec![replay(vec![thread.clone()], 100)];
        let early = run(domain(), 1, "fair@eevdf", seed, 9_999 * MS - 1);
        let late = run(domain(), 1, "fair@eevdf", seed, 10_004 * MS + 1);
        assert_eq!(early.domains[0].time.gotten_ns, 0);
        assert_eq!(late.domains[0].time.gotten_ns, 3 * MS);
    }
}
