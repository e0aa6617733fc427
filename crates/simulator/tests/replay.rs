// SPDX-License-Identifier: GPL-2.0-only
//! Replays conserve what was recorded: whoever schedules, each thread gets the CPU time that it had, once its
//! waits are over, and seeds move nothing but the phases.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use proptest::prelude::*;
use steelyard_policy::Policy;
use steelyard_simulator::config::{Costs, Domain, Host, Setup};
use steelyard_simulator::units::Nanoseconds;
use steelyard_simulator::workload::{
    Burst, Cause, RecordedThread, Replay, ReplayThread, Wake, Workload,
};
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
        .with_task(count, Replay { recording, process: 1, jitter_percent, causes: true, threads })
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
            ReplayThread { first_wake_ns: 1000 * first_us, bursts, ..ReplayThread::default() }
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
    let bursts = vec![Burst { run_ns: 3 * MS, sleep_ns: 7 * MS }];
    let thread = ReplayThread { bursts, ..ReplayThread::default() };
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
        ..ReplayThread::default()
    };
    for seed in 1..20 {
        let domain = || vec![replay(vec![thread.clone()], 100)];
        let early = run(domain(), 1, "fair@eevdf", seed, 9_999 * MS - 1);
        let late = run(domain(), 1, "fair@eevdf", seed, 10_004 * MS + 1);
        assert_eq!(early.domains[0].time.gotten_ns, 0);
        assert_eq!(late.domains[0].time.gotten_ns, 3 * MS);
    }
}

/// Two threads of process 1 that compute 2 ms in turn, each of which wakes the other at its end; meanwhile another
/// computed for as long on the same pCPU, so that in the recording one's work takes 4 ms and its sleep 4 ms.
/// If it is so, the recording says that each was awake when the other slept.
fn ping_pong(rounds: u32, causes: bool, was_awake: bool) -> Domain {
    // At first both sleep.
    let work_ns = |burst| (was_awake && burst > 0).then_some(2 * MS);
    let thread = |thread: u32, first: bool| {
        let other = RecordedThread { process: 1, thread: 1 - thread };
        let bursts = vec![Burst { run_ns: 2 * MS, sleep_ns: 4 * MS }; rounds as usize];
        let wakes =
            (0..rounds).map(|burst| Wake { burst, after_ns: 2 * MS, woken: other }).collect();
        // The first burst of all has no cause; from then on each one's cause is the other's burst before.
        let caused = u32::from(first)..rounds;
        let cause = |burst| Cause {
            burst,
            waker: other,
            wake: burst - u32::from(first),
            awake_work_ns: work_ns(burst),
        };
        let first_wake_ns = if first { 0 } else { 4 * MS };
        let causes = caused.map(cause).collect();
        ReplayThread { first_wake_ns, first_pcpu: None, bursts, wakes, causes }
    };
    let mut domain = replay(vec![thread(0, true), thread(1, false)], 0);
    let Workload::Replay(replay) = &mut domain.task[0].workload else { unreachable!() };
    replay.causes = causes;
    domain
}

#[test]
fn who_is_served_sooner_wakes_the_next_sooner() {
    // Alone on a pCPU a turn takes 2 ms instead of 4: in 80 ms there are 40 turns, not 20, and no pCPU time is left.
    let gotten = |run: &Run| run.domains[0].vcpus.iter().map(|it| it.time.gotten_ns).collect();
    // Each is awake when the other sleeps: whether it was so in the recording changes nothing.
    for was_awake in [false, true] {
        let caused = run(vec![ping_pong(100, true, was_awake)], 1, "fair@eevdf", 1, 80 * MS);
        let both: Vec<u64> = gotten(&caused);
        // The sleep before the first of all is of 1 ns.
        assert_eq!(both, [40 * MS, 40 * MS - 1]);
    }
    // By the clock each computes 2 ms of 6, whatever the other does: the second from 4 ms on.
    let clock: Vec<u64> =
        gotten(&run(vec![ping_pong(100, false, false)], 2, "fair@eevdf", 1, 78 * MS));
    assert_eq!(clock, [26 * MS; 2]);
}

#[test]
fn a_wake_comes_in_the_middle_of_work_and_may_come_early() {
    // The first works 5 ms and wakes the second after 1 and 2 ms of it; the second works 3 ms each time. On two pCPUs
    // it begins at 1 ms, and the second wake finds it at work: it goes on at once, to 7 ms.
    let second = RecordedThread { process: 1, thread: 1 };
    let first = RecordedThread { process: 1, thread: 0 };
    let wake = |after_ns| Wake { burst: 0, after_ns, woken: second };
    let threads = vec![
        ReplayThread {
            bursts: vec![Burst { run_ns: 5 * MS, sleep_ns: FOR_EVER_NS }],
            wakes: vec![wake(MS), wake(2 * MS)],
            ..ReplayThread::default()
        },
        ReplayThread {
            first_wake_ns: 50 * MS,
            first_pcpu: None,
            bursts: vec![
                Burst { run_ns: 3 * MS, sleep_ns: 50 * MS },
                Burst { run_ns: 3 * MS, sleep_ns: FOR_EVER_NS },
            ],
            wakes: vec![],
            causes: (0..2)
                .map(|burst| Cause { burst, waker: first, wake: burst, awake_work_ns: None })
                .collect(),
        },
    ];
    let gotten = |end_ns| {
        let run = run(vec![replay(threads.clone(), 0)], 2, "fair@eevdf", 1, end_ns);
        run.domains[0].vcpus[1].time.gotten_ns
    };
    assert_eq!([gotten(MS), gotten(4 * MS + 1), gotten(20 * MS)], [0, 3 * MS, 6 * MS]);
}

#[test]
fn who_wants_a_lock_sleeps_while_the_other_holds_it() {
    // The first works 8 ms, sleeps 20 ms by the clock, works 2 ms and wakes the second, which worked 1 ms since the
    // beginning and then slept: on two pCPUs until 30 ms. If the first was awake all that while in the recording, the
    // second goes on when it has worked as much as then, or sleeps.
    let thread = |thread| RecordedThread { process: 1, thread };
    let threads = |awake_work_ns| {
        let wake = Wake { burst: 1, after_ns: 2 * MS, woken: thread(1) };
        let cause = Cause { burst: 1, waker: thread(0), wake: 0, awake_work_ns };
        let burst = |run_ms, sleep_ns| Burst { run_ns: run_ms * MS, sleep_ns };
        let first = ReplayThread {
            bursts: vec![burst(8, 20 * MS), burst(2, FOR_EVER_NS)],
            wakes: vec![wake],
            ..ReplayThread::default()
        };
        let second = ReplayThread {
            bursts: vec![burst(1, MS), burst(1, FOR_EVER_NS)],
            causes: vec![cause],
            ..ReplayThread::default()
        };
        vec![first, second]
    };
    let gotten = |awake_work_ns, end_ns| {
        let domain = replay(threads(awake_work_ns), 0);
        let run = run(vec![domain], 2, "fair@eevdf", 1, end_ns);
        let [first, second] = run.domains[0].vcpus.as_slice() else { unreachable!() };
        // But for the 1 ns that its first sleep is.
        let expected_ns = end_ns.min(8 * MS) + (end_ns.max(28 * MS) - 28 * MS);
        assert!(first.time.gotten_ns.abs_diff(expected_ns) <= 2);
        second.time.gotten_ns
    };
    assert_eq!([gotten(None, 29 * MS), gotten(None, 30 * MS)], [MS, MS]);
    assert_eq!([gotten(Some(3 * MS), 4 * MS), gotten(Some(3 * MS), 5 * MS + 2)], [MS, 2 * MS]);
    assert_eq!([gotten(Some(50 * MS), 8 * MS), gotten(Some(50 * MS), 9 * MS + 2)], [MS, 2 * MS]);
}

#[test]
fn whoever_is_not_replayed_wakes_nobody_and_the_clock_does() {
    let mut domain = ping_pong(10, true, false);
    let Workload::Replay(replay) = &mut domain.task[0].workload else { unreachable!() };
    let elsewhere = RecordedThread { process: 7, thread: 0 };
    for thread in &mut replay.threads {
        let thread = Arc::make_mut(thread);
        thread.causes.iter_mut().for_each(|cause| cause.waker = elsewhere);
        thread.wakes.iter_mut().for_each(|wake| wake.woken = elsewhere);
    }
    let clock = run(vec![ping_pong(10, false, false)], 2, "fair@eevdf", 1, 200 * MS);
    assert_eq!(run(vec![domain], 2, "fair@eevdf", 1, 200 * MS).domains, clock.domains);
    // Nor does a process that is replayed twice: whose thread would it be?
    let twice = |causes| {
        let second = Domain { name: "again".to_owned(), ..ping_pong(10, causes, false) };
        run(vec![ping_pong(10, causes, false), second], 2, "fair@eevdf", 1, 200 * MS).domains
    };
    assert_eq!(twice(true), twice(false));
}

/// Threads of which each wakes others as its work goes on, in an order in which it can have happened: by lot each next
/// event is a piece of work of a thread that is awake, after which it wakes one that sleeps, or sleeps.
fn caused() -> impl Strategy<Value = Vec<ReplayThread>> {
    let events = prop::collection::vec((0..5_usize, 0..5_u32, 1..4_000_u64, 0..4_u32), 1..60);
    (2..5_usize, events).prop_map(|(count, events)| {
        let mut threads = vec![ReplayThread::default(); count];
        let mut work_ns = vec![0_u64; count];
        let mut awake = vec![true; count];
        for (who, whom, us, kind) in events {
            let (who, whom) = (who % count, whom as usize % count);
            if !awake[who] {
                continue;
            }
            work_ns[who] += 1_000 * us;
            let recorded = |thread: usize| RecordedThread { process: 1, thread: thread as u32 };
            let burst = |thread: &ReplayThread| thread.bursts.len() as u32;
            if kind == 0 && count > 1 && awake.iter().filter(|awake| **awake).count() > 1 {
                threads[who].bursts.push(Burst { run_ns: work_ns[who], sleep_ns: 1_000 * us });
                (work_ns[who], awake[who]) = (0, false);
            } else if !awake[whom] {
                let wake = threads[who].wakes.len() as u32;
                let (at, after_ns) = (burst(&threads[who]), work_ns[who]);
                threads[who].wakes.push(Wake { burst: at, after_ns, woken: recorded(whom) });
                let awake_work_ns = (us % 2 == 0).then_some(1_000 * us);
                let cause = Cause {
                    burst: burst(&threads[whom]),
                    waker: recorded(who),
                    wake,
                    awake_work_ns,
                };
                threads[whom].causes.push(cause);
                awake[whom] = true;
            }
        }
        for (thread, work_ns) in threads.iter_mut().zip(work_ns) {
            // Who sleeps at the end has no burst that its last cause could begin.
            let run_ns = work_ns.max(1);
            thread.bursts.push(Burst { run_ns, sleep_ns: FOR_EVER_NS });
        }
        threads
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn run_time_is_conserved_by_chains_and_none_gets_stuck(
        threads in caused(),
        pcpus in 1..4_u32,
        seed in 1..4_u64,
        policy in prop::sample::select(vec!["credit", "credit2", "sedf", "fair@cfs", "fair@eevdf"]),
    ) {
        let sum = |thread: &ReplayThread| thread.bursts.iter().map(|it| it.run_ns).sum::<u64>();
        let sums_ns: Vec<u64> = threads.iter().map(sum).collect();
        let longest_ns: u64 = threads.iter().flat_map(|thread| &thread.bursts)
            .map(|burst| burst.run_ns + burst.sleep_ns % FOR_EVER_NS).sum();
        let domains = || vec![replay(threads.clone(), 5)];
        let once = run(domains(), pcpus, policy, seed, 2 * longest_ns + 1000 * MS);
        for (vcpu, sum_ns) in once.domains[0].vcpus.iter().zip(sums_ns) {
            prop_assert_eq!(vcpu.time.gotten_ns, sum_ns, "{}", policy);
        }
        let again = run(domains(), pcpus, policy, seed, 2 * longest_ns + 1000 * MS);
        prop_assert_eq!(once.domains, again.domains);
    }
}

#[test]
fn a_thread_begins_where_it_was_recorded_to_run() {
    // A pCPU that the host does not have says nothing: then it is the first.
    for (first_pcpu, runs_on) in [(Some(1), 1), (Some(0), 0), (Some(9), 0), (None, 0)] {
        let bursts = vec![Burst { run_ns: MS, sleep_ns: FOR_EVER_NS }];
        let thread = ReplayThread { first_pcpu, bursts, ..ReplayThread::default() };
        let run = run(vec![replay(vec![thread], 0)], 2, "fair@eevdf", 1, 10 * MS);
        let used: Vec<bool> = run.pcpus.iter().map(|pcpu| pcpu.switches > 0).collect();
        assert!(used[runs_on] && !used[1 - runs_on], "{first_pcpu:?}");
    }
}
