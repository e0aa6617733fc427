// SPDX-License-Identifier: GPL-2.0-only
//! app-slice in whole runs: what a vCPU is given by accountings of its own is what it would have been given.

mod common;

use common::*;
use steelyard_policy::Policy;
use steelyard_simulator::config::{Domain, Host, Setup};
use steelyard_simulator::units::Nanoseconds;
use steelyard_simulator::workload::{Busy, Ping};

/// Slices of 3 ms, or the tick alone.
fn short(accounting: &str) -> Policy {
    let mut policy = policy("app-slice");
    for (name, value) in [("app-slice.slice_percent", "10"), ("app-slice.accounting", accounting)] {
        policy.set(name, value).expect("parameters of app-slice");
    }
    policy
}

/// One pCPU: the first domain computes and is pinged each 10 ms, so that it is heterogeneous from 5 s on; the others
/// compute. Their shares from 10 s on.
fn shares(policy: &Policy, domains: &[(u32, u32)]) -> Vec<f64> {
    let domain = |(number, &(weight, cap_percent)): (usize, &(u32, u32))| {
        let domain = Domain { weight, cap_percent, ..Domain::new(format!("vm{number}"), 1) };
        let domain = domain.with_task(1, Busy::default());
        let ping = Ping { interval: Nanoseconds(10_370_000), ..Ping::default() };
        if number == 0 { domain.with_task(1, ping) } else { domain }
    };
    let domains = domains.iter().enumerate().map(domain).collect();
    let host = Host { costs: no_costs(), ..Host::with_pcpus(1) };
    let mut simulation = simulation(&Setup { host, domains }, policy, 1);
    let gotten = |simulation: &mut steelyard_simulator::Simulation| -> Vec<u64> {
        simulation.measure().domains.iter().map(|domain| domain.time.gotten_ns).collect()
    };
    simulation.run_until(10 * S);
    let before = gotten(&mut simulation);
    simulation.run_until(70 * S);
    let gotten = gotten(&mut simulation);
    gotten.iter().zip(before).map(|(&gotten, before)| (gotten - before) as f64 / 6e8).collect()
}

fn assert_shares(found: &[f64], expected: &[f64], what: &str) {
    let near = |(found, expected): (&f64, &f64)| (found - expected).abs() <= 1.0;
    assert!(found.iter().zip(expected).all(near), "{what}: {found:?} instead of {expected:?}");
}

#[test]
fn shares_are_those_of_weights() {
    for accounting in ["slice", "discipline"] {
        let policy = short(accounting);
        assert_shares(&shares(&policy, &[(256, 0); 3]), &[33.3; 3], accounting);
        assert_shares(
            &shares(&policy, &[(512, 0), (256, 0), (256, 0)]),
            &[50.0, 25.0, 25.0],
            accounting,
        );
        assert_shares(
            &shares(&policy, &[(128, 0), (256, 0), (256, 0)]),
            &[20.0, 40.0, 40.0],
            accounting,
        );
    }
}

#[test]
fn caps_hold() {
    for accounting in ["slice", "discipline"] {
        let policy = short(accounting);
        assert_shares(&shares(&policy, &[(256, 25); 3]), &[25.0; 3], accounting);
        assert_shares(&shares(&policy, &[(256, 10), (256, 0)]), &[10.0, 90.0], accounting);
    }
}
