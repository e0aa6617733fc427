// SPDX-License-Identifier: GPL-2.0-only
//! Hardware threads that slow each other down: throughput and changes in the middle of a burst by hand, what must not
//! change, and who knows of them.

mod common;

use common::*;
use steelyard_simulator::config::{Domain, Host, Setup};
use steelyard_simulator::measure::Run;
use steelyard_simulator::units::{CpuSet, Nanoseconds};
use steelyard_simulator::workload::{Busy, SysbenchCpu};

/// So many cores of so many threads; machinery costs nothing.
fn host(cores: u32, threads: u32, thread_speed_percent: u32) -> Host {
    Host {
        cores_per_socket: cores,
        threads_per_core: threads,
        thread_speed_percent,
        costs: no_costs(),
        ..Host::default()
    }
}

/// Begins then, and takes so many events of so many ns; 0: without end.
fn computes(name: &str, start_ns: u64, events: u64, event_ns: u64) -> Domain {
    let work = SysbenchCpu { events, event: Nanoseconds(event_ns) };
    Domain { start: Nanoseconds(start_ns), ..Domain::new(name, 1).with_task(1, work) }
}

fn figure(run: &Run, domain: usize, name: &str) -> f64 {
    value(&run.domains[domain].tasks[0], name)
}

#[test]
fn two_threads_do_1_2_times_as_much_as_one() {
    for policy in all_policies() {
        // Events that are counted one by one, and those that repeat: 600 of 1 ms each s.
        for events in [0, 1_000_000] {
            let both = [computes("a", 0, events, MS), computes("b", 0, events, MS)];
            let setup = Setup { host: host(1, 2, 60), domains: both.to_vec() };
            let run = run(&setup, &policy, 1, 10 * S);
            for domain in 0..2 {
                assert_eq!(figure(&run, domain, "events"), 600.0, "{policy}");
                // CPU time is the pCPU's, as hypervisors count it.
                assert_eq!(run.domains[domain].share_percent, 100.0, "{policy}");
            }
        }
        // Alone on the core each does 1000, in whichever core; threads of other cores do not matter.
        let alone = [computes("a", 0, 0, MS)];
        let setup = Setup { host: host(1, 2, 60), domains: alone.to_vec() };
        assert_eq!(figure(&run(&setup, &policy, 1, 10 * S), 0, "events"), 1000.0, "{policy}");
    }
}

#[test]
fn speed_changes_in_the_middle_of_a_burst() {
    // At half speed: A has done 4 of 10 ms when B comes, which takes 6 ms for its 3. A does 3 in them, and its last
    // 3 ms alone.
    let setup = Setup {
        host: host(1, 2, 50),
        domains: vec![computes("a", 0, 1, 10 * MS), computes("b", 4 * MS, 1, 3 * MS)],
    };
    for policy in all_policies() {
        let run = run(&setup, &policy, 1, S);
        assert_eq!(figure(&run, 0, "total time"), 0.013, "{policy}");
        assert_eq!(figure(&run, 1, "total time"), 0.006, "{policy}");
        assert_eq!(run.domains[0].time.gotten_ns, 13 * MS, "{policy}");
        assert_eq!(run.domains[1].time.gotten_ns, 6 * MS, "{policy}");
    }
    // At 62 %: B takes 3 ms / 0.62 = 4 838 710 ns, rounded up, in which A does 3 ms and 0.2 ns; its last 3 ms follow.
    let setup = Setup { host: host(1, 2, 62), ..setup };
    let run = run(&setup, &policy("credit@xen-4.5"), 1, S);
    assert_eq!(run.domains[1].time.gotten_ns, 4_838_710);
    assert_eq!(run.domains[0].time.gotten_ns, 4 * MS + 4_838_710 + 3 * MS);
}

#[test]
fn no_part_of_a_nanosecond_is_lost() {
    // A thousand events of 7 ns at 62 % take 7000 / 0.62 = 11 290.3 ns, not a thousand times 12.
    let both = [computes("a", 0, 1_000, 7), computes("b", 0, 0, MS)];
    let setup = Setup { host: host(1, 2, 62), domains: both.to_vec() };
    let run = run(&setup, &policy("credit@xen-4.5"), 1, MS);
    assert_eq!(run.domains[0].time.gotten_ns, 11_291);
}

#[test]
fn cores_of_one_thread_share_nothing() {
    let both = [computes("a", 0, 0, MS), computes("b", 0, 0, MS)];
    let setup = Setup { host: host(2, 1, 10), domains: both.to_vec() };
    let run = run(&setup, &policy("credit@xen-4.5"), 1, 10 * S);
    assert_eq!([0, 1].map(|domain| figure(&run, domain, "events")), [1000.0; 2]);
}

#[test]
fn repeated_steps_are_as_if_taken_one_by_one() {
    let comes_and_goes = Busy {
        compute: Nanoseconds(7 * MS + 13),
        sleep: Nanoseconds(11 * MS + 17),
        phase: Nanoseconds(18 * MS),
        slack: Nanoseconds(50 * US),
        ..Busy::default()
    };
    let domains = vec![
        Domain::new("a", 2).with_task(3, SysbenchCpu { events: 0, event: Nanoseconds(777_777) }),
        Domain::new("b", 3).with_task(3, comes_and_goes),
        Domain::new("c", 1).with_task(1, Busy::default()),
    ];
    let setup = Setup { host: host(2, 2, 62), domains };
    for policy in all_policies() {
        let run = |single_steps| {
            let mut simulation = simulation(&setup, &policy, 7);
            if single_steps {
                simulation.take_single_steps();
            }
            simulation.run_until(2 * S);
            Run { guest_steps: 0, ..simulation.measure() }
        };
        assert_eq!(run(false), run(true), "{policy}");
    }
}

/// A vCPU whose last pCPU, 0, is taken by one that it does not preempt finds 1 to 3 idle: Credit2 of Xen 4.5 takes the
/// next in number, beside that one on its core; with knowledge of cores it takes one of the other core.
#[test]
fn who_knows_of_threads_takes_a_whole_core() {
    let first_pcpu = |policy: &str, idle: &str| {
        let mut policy = policy_named(policy);
        policy.set("idle", idle).expect("a choice");
        let pinned = |domain: Domain| Domain { pin: vec![CpuSet::from_iter([0])], ..domain };
        // The late one has burnt most of its credit on pCPU 0 before the busy one comes there.
        let late = Busy {
            compute: Nanoseconds::from_ms(3),
            sleep: Nanoseconds::from_ms(2),
            ..Busy::default()
        };
        let busy = pinned(computes("busy", 4 * MS, 0, MS));
        let domains = vec![Domain::new("late", 1).with_task(1, late), busy];
        let setup = Setup { host: host(2, 2, 60), domains };
        let (_, trace) = run_traced(&setup, &policy, 1, 6 * MS);
        let mut runs = trace.segments.iter().filter(|run| run.domain == 0 && run.pcpu.is_some());
        runs.find(|run| run.start_ns >= 5 * MS).and_then(|run| run.pcpu)
    };
    assert_eq!(first_pcpu("credit2@xen-4.5", "next"), Some(1));
    assert_eq!(first_pcpu("credit2@xen-4.5", "nearest"), Some(2));
}

fn policy_named(name: &str) -> steelyard_policy::Policy {
    policy(name)
}
