// SPDX-License-Identifier: GPL-2.0-only
//! Waits on idle pCPUs: an interrupt and the way out of a sleep state, as real hosts count them. By hand.

mod common;

use common::*;
use steelyard_simulator::config::{Costs, Domain, Host, Setup};
use steelyard_simulator::units::Nanoseconds;
use steelyard_simulator::workload::Busy;

const INTERRUPT_NS: u64 = US;
const IDLE_EXIT_NS: u64 = 10 * US;

fn host(pcpus: u32, idle_exit_ns: u64) -> Host {
    let (interrupt, idle_exit) = (Nanoseconds(INTERRUPT_NS), Nanoseconds(idle_exit_ns));
    Host { costs: Costs { interrupt, idle_exit, ..no_costs() }, ..Host::with_pcpus(pcpus) }
}

fn sleeper(compute_ms: u64, sleep_ms: u64) -> Busy {
    let (compute, sleep) = (Nanoseconds::from_ms(compute_ms), Nanoseconds::from_ms(sleep_ms));
    Busy { compute, sleep, ..Busy::default() }
}

#[test]
fn alone_a_vcpu_waits_for_interrupt_and_idle_exit_each_time() {
    // 1 ms of 2: it begins at 11 us, and again each 2 ms and 11 us: 50 times in 100 ms.
    let domains = vec![Domain::new("a", 1).with_task(1, sleeper(1, 1))];
    let setup = Setup { host: host(2, IDLE_EXIT_NS), domains };
    for policy in all_policies() {
        let run = run(&setup, &policy, 1, 100 * MS);
        let time = &run.domains[0].time;
        assert_eq!(
            time.waits.worst.as_ref().map(|worst| worst.length_ns),
            Some(11 * US),
            "{policy}"
        );
        assert_eq!(time.waits.count, 50, "{policy}");
        assert_eq!(time.waited_ns, 50 * 11 * US, "{policy}");
        // What was waited for is not paid for as well.
        assert_eq!(time.overhead_ns, 0, "{policy}");
    }
    // Where no pCPU sleeps nobody waits, and each run pays for the interrupt.
    let setup = Setup { host: host(2, 0), ..setup };
    let run = run(&setup, &policy("credit@xen-3.3"), 1, 100 * MS);
    let time = &run.domains[0].time;
    assert_eq!((time.waited_ns, time.overhead_ns), (0, 50 * INTERRUPT_NS));
}

#[test]
fn a_pcpu_that_runs_somebody_is_awake() {
    // B runs for 3 ms after A's 1 ms, with no idle time between: it has waited from the moment that it began, 0.
    let domains = vec![
        Domain::new("a", 1).with_task(1, sleeper(1, 1_000)),
        Domain::new("b", 1).with_task(1, sleeper(3, 1_000)),
    ];
    let setup = Setup { host: host(1, IDLE_EXIT_NS), domains };
    for name in ["sedf", "credit@xen-3.3", "credit@xen-4.5"] {
        let (run, trace) = run_traced(&setup, &policy(name), 1, 10 * MS);
        assert_eq!(vcpu_times(&trace, 0, 0, true), [(11 * US, MS + 11 * US)], "{name}");
        // The interrupt is its own to pay: the pCPU did not sleep.
        let began_ns = MS + 11 * US;
        let ended_ns = began_ns + INTERRUPT_NS + 3 * MS;
        assert_eq!(vcpu_times(&trace, 1, 0, true), [(began_ns, ended_ns)], "{name}");
        assert_eq!(run.domains[1].time.waited_ns, began_ns, "{name}");
    }
}

#[test]
fn idle_time_ends_when_the_pcpu_chooses() {
    let domains = vec![Domain::new("a", 1).with_task(1, sleeper(1, 1))];
    let setup = Setup { host: host(1, IDLE_EXIT_NS), domains };
    let run = run(&setup, &policy("credit@xen-4.5"), 1, 100 * MS);
    let gotten_ns = run.domains[0].time.gotten_ns;
    assert_eq!(run.pcpus[0].idle_ns, 100 * MS - gotten_ns);
}
