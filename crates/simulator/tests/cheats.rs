// SPDX-License-Identifier: GPL-2.0-only
//! Guests that try to get more than their part: what is known of who gains and who does not. All cheats under all
//! policies are in docs/cheats.md.

mod common;

use common::*;
use steelyard_policy::Policy;
use steelyard_simulator::config::{Domain, Host, Setup};
use steelyard_simulator::units::Nanoseconds;
use steelyard_simulator::workload::{Busy, Clocked, Workload};

/// Share in percent of a cheat of one vCPU beside an honest guest that computes, on one pCPU without costs.
fn share(policy: &Policy, vcpus: u32, cheat: impl Into<Workload>) -> f64 {
    let setup = Setup {
        host: Host { costs: no_costs(), ..Host::with_pcpus(1) },
        domains: vec![
            Domain::new("cheat", vcpus).with_task(vcpus, cheat),
            Domain::new("honest", 1).with_task(1, Busy::default()),
        ],
    };
    run(&setup, policy, 1, 30 * S).domains[0].share_percent
}

/// Sleeps for 200 us around a moment of each period, and wants the rest.
fn sleeps_around(moment: Nanoseconds, period: Nanoseconds) -> Clocked {
    let from = Nanoseconds(moment.0 + 100 * US);
    Clocked { period, from, run: Nanoseconds(period.0 - 200 * US), step: Nanoseconds(10 * US) }
}

/// Credit of Xen 3.3 charges whoever it finds running at a tick, each 10 ms, on one pCPU at 5, 15, ... ms. Who sleeps
/// then never pays and always wakes in BOOST: it has all the rest, 9.8 of 10 ms. Half a period later the same guest
/// pays for whole ticks and has no more than its half (Zhou et al. 2011, section 3).
#[test]
fn credit_that_looks_at_ticks_is_dodged() {
    let period = Nanoseconds::from_ms(10);
    let at =
        |ms| share(&policy("credit@xen-3.3"), 1, sleeps_around(Nanoseconds::from_ms(ms), period));
    let (dodges, pays) = (at(5), at(10));
    assert!((97.5..=98.0).contains(&dodges), "{dodges}");
    assert!(pays <= 51.0, "{pays}");
}
