// SPDX-License-Identifier: GPL-2.0-only
//! The load that guests are offered, as governors are told of it: by load-weight's shares, which follow it whatever was
//! received.

#![allow(clippy::unwrap_used)]

mod common;

use common::{S, no_costs, policy, run};
use steelyard_policy::Policy;
use steelyard_simulator::config::{Domain, Host, Setup};
use steelyard_simulator::units::Nanoseconds;
use steelyard_simulator::workload::Busy;

/// Who gets how much of one CPU after the first interval of three guests in which so many percent of a CPU are asked for
/// by each of so many threads.
fn shares(workload: &str, percent: [u64; 3], backlog: bool, declared: [u32; 3]) -> [f64; 3] {
    let guest = |number: usize| {
        let busy = Busy {
            compute: Nanoseconds::from_ms(percent[number]),
            sleep: Nanoseconds::from_ms(100 - percent[number]),
            backlog,
            ..Busy::default()
        };
        let name = ["a", "b", "c"][number];
        let domain = Domain::new(name, 1).with_task(THREADS, busy);
        Domain { load_percent: declared[number], ..domain }
    };
    let host = Host { costs: no_costs(), ..Host::default() };
    let setup = Setup { host, domains: (0..3).map(guest).collect() };
    let mut policy: Policy = policy("credit2+load-weight");
    policy.set("load-weight.workload", workload).unwrap();
    policy.set("load-weight.interval_ns", &S.to_string()).unwrap();
    let gotten = |length| -> Vec<u64> {
        let run = run(&setup, &policy, 1, length);
        run.domains.iter().map(|domain| domain.vcpus[0].time.gotten_ns).collect()
    };
    // What was before the first weights is left out.
    let (early, late) = (gotten(2 * S), gotten(22 * S));
    [0, 1, 2].map(|number| (late[number] - early[number]) as f64 / (20 * S) as f64 * 100.0)
}

/// So many that all guests have a backlog at equal weights.
const THREADS: u32 = 4;
const NONE: [u32; 3] = [0; 3];

#[track_caller]
fn near(shares: [f64; 3], expected: [f64; 3]) {
    let is_near =
        shares.iter().zip(expected).all(|(share, expected)| (share - expected).abs() < 1.0);
    assert!(is_near, "{shares:?}, not {expected:?}");
}

#[test]
fn shares_follow_what_arrives_where_everybody_has_a_backlog() {
    near(shares("offered", [20, 60, 80], true, NONE), [12.5, 37.5, 50.0]);
    near(shares("offered", [10, 15, 90], true, NONE), [8.7, 13.0, 78.3]);
    near(shares("demand", [20, 60, 80], true, NONE), [100.0 / 3.0; 3]);
    near(shares("gotten", [20, 60, 80], true, NONE), [100.0 / 3.0; 3]);
}

#[test]
fn what_is_declared_comes_before_what_arrives() {
    near(shares("offered", [20, 60, 80], true, [80, 60, 20]), [50.0, 37.5, 12.5]);
    // By the other readings nobody asks for it.
    near(shares("demand", [20, 60, 80], true, [80, 60, 20]), [100.0 / 3.0; 3]);
}

/// What would have come had the work before it been done sooner, nobody tells: it is as by demand.
#[test]
fn without_arrivals_nothing_is_told() {
    let [offered, demand] =
        ["offered", "demand"].map(|workload| shares(workload, [20, 60, 80], false, NONE));
    assert_eq!(offered, demand);
}
