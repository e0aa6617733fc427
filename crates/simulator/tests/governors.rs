// SPDX-License-Identifier: GPL-2.0-only
//! What the host samples reaches governors, and what they turn changes who runs.

mod common;

use common::{MS, S, no_costs, policy, run};
use steelyard_policy::Policy;
use steelyard_simulator::config::{Domain, Host, Setup};
use steelyard_simulator::measure::Run;
use steelyard_simulator::units::Nanoseconds;
use steelyard_simulator::workload::{Busy, Ping};

fn one_pcpu(domains: Vec<Domain>) -> Setup {
    let mut host = Host::with_pcpus(1);
    host.costs = no_costs();
    Setup { host, domains }
}

/// A guest that, alone on a pCPU, runs for so many percent of the time.
fn duty(name: &str, percent: u64) -> Domain {
    let busy = Busy {
        compute: Nanoseconds(percent * MS),
        sleep: Nanoseconds((100 - percent) * MS),
        jitter_percent: 10,
        ..Busy::default()
    };
    Domain::new(name, 1).with_task(1, busy)
}

fn shares(run: &Run) -> Vec<f64> {
    run.domains.iter().map(|domain| domain.share_percent).collect()
}

fn with(name: &str, settings: &[(&str, &str)]) -> Policy {
    let mut policy = policy(name);
    for (parameter, value) in settings {
        policy.set(parameter, value).expect("a parameter of the policy");
    }
    policy
}

/// Guests of 20, 60 and 80 % that compute and sleep: by demand their shares are in that proportion.
/// Guests that sleep do not use all that weights allow them, so only nearly.
#[test]
fn load_weight_by_demand_divides_by_workload() {
    let setup = one_pcpu(vec![duty("a", 20), duty("b", 60), duty("c", 80)]);
    let off = |policy: &Policy| {
        let shares = shares(&run(&setup, policy, 1, 120 * S));
        let sum: f64 = shares.iter().sum();
        let expected = [12.5, 37.5, 50.0];
        shares.iter().zip(expected).map(|(s, e)| (100.0 * s / sum - e).abs()).fold(0.0, f64::max)
    };
    let governed = off(&with("load-weight", &[("load-weight.workload", "demand")]));
    let plain = off(&policy("credit@xen-4.2"));
    assert!(governed < plain / 3.0, "{governed} {plain}");
}

/// With CPUs to spare every guest gets what it wants, whatever its weight is.
#[test]
fn load_weight_costs_nobody_anything_on_an_idle_host() {
    let mut setup = one_pcpu(vec![duty("a", 20), duty("b", 60), duty("c", 80)]);
    setup.host.cores_per_socket = 4;
    let shares = shares(&run(&setup, &policy("load-weight"), 1, 60 * S));
    for (share, expected) in shares.iter().zip([20.0, 60.0, 80.0]) {
        assert!((share - expected).abs() < 3.0, "{shares:?}");
    }
}

/// Two guests: the first computes and answers pings, the second only computes.
fn both_and_computes() -> Vec<Domain> {
    let both = Domain::new("both", 1)
        .with_task(1, Busy::default())
        .with_task(1, Ping { interval: Nanoseconds(10 * MS), ..Ping::default() });
    vec![both, Domain::new("computes", 1).with_task(1, Busy::default())]
}

/// Whether the runs of each of two guests are whole slices of this length, nine of ten at least; who
/// is chosen again has several in one run.
fn whole_slices(setup: &Setup, policy: &Policy, slice_ns: u64) -> [bool; 2] {
    let mut simulation = common::simulation(setup, policy, 1);
    simulation.trace(20 * S, 30 * S);
    simulation.run_until(30 * S);
    let trace = simulation.take_trace();
    [0, 1].map(|domain| {
        let runs = trace.segments.iter().filter(|s| s.domain == domain && s.pcpu.is_some());
        let lengths: Vec<_> = runs.map(|segment| segment.end_ns - segment.start_ns).collect();
        let whole = lengths.iter().filter(|&length_ns| length_ns % slice_ns == 0).count();
        whole * 10 > lengths.len() * 9
    })
}

#[test]
fn app_slice_shortens_the_slice_of_who_computes_and_answers() {
    let setup = one_pcpu(both_and_computes());
    assert_eq!(whole_slices(&setup, &policy("credit@xen-4.2"), 30 * MS), [true, true]);
    assert_eq!(whole_slices(&setup, &policy("app-slice"), 12 * MS), [true, false]);
    assert_eq!(whole_slices(&setup, &policy("app-slice"), 30 * MS), [false, true]);
    // Both get what they did.
    let shares = |policy: &Policy| shares(&run(&setup, policy, 1, 60 * S));
    let (plain, governed) = (shares(&policy("credit@xen-4.2")), shares(&policy("app-slice")));
    assert!((plain[0] - governed[0]).abs() < 3.0, "{plain:?} {governed:?}");
}

/// Waits of a host are what a slice that is found follows: it stays the discipline's where none is
/// late, and becomes the shortest where that is of no avail, beside one that runs for 30 ms at a time.
#[test]
fn app_slice_finds_a_slice_by_the_waits_of_a_host() {
    let setup = one_pcpu(both_and_computes());
    let found = |late_ns: &str| {
        with("app-slice", &[("app-slice.slice", "found"), ("app-slice.late_ns", late_ns)])
    };
    assert_eq!(whole_slices(&setup, &found("100000000"), 30 * MS), [true, true]);
    assert_eq!(whole_slices(&setup, &found("1000000"), 900_000), [true, false]);
    assert_eq!(whole_slices(&setup, &found("1000000"), 30 * MS), [false, true]);
}

/// A guest that leaves most of its part unused runs at once and for as long as it saved, beside two
/// busy ones.
#[test]
fn boost_credit_ends_long_waits_of_who_saves() {
    let light = Busy {
        compute: Nanoseconds(5 * MS),
        sleep: Nanoseconds(20 * MS),
        jitter_percent: 50,
        ..Busy::default()
    };
    let busy = |name: &str| Domain::new(name, 1).with_task(1, Busy::default());
    let light = Domain::new("light", 1).with_task(1, light);
    let setup = one_pcpu(vec![light, busy("a"), busy("b")]);
    let worst_ns = |policy: &Policy| {
        let run = run(&setup, policy, 1, 60 * S);
        run.domains[0].time.waits.worst.as_ref().map_or(0, |worst| worst.length_ns)
    };
    let (stock, both) = (worst_ns(&policy("credit@xen-3.3")), worst_ns(&policy("boost-credit")));
    assert!(both < stock / 2, "{both} {stock}");
}
