// SPDX-License-Identifier: GPL-2.0-only
//! A guest's stream through a driver domain on one CPU, worked out by hand. A packet costs the guest g, and the driver
//! domain d and, as every second one is acknowledged, half as much again. Nothing else costs anything.

mod common;

use common::*;
use steelyard_simulator::config::{Costs, Domain, Host, Io, Reservation, Setup};
use steelyard_simulator::units::Nanoseconds;
use steelyard_simulator::workload::{Direction, Stream};

const PERIOD_US: u64 = 10_000;

/// Packets per second, of 1500 bytes.
fn packets_per_s(
    guest_us: u64,
    driver_us: u64,
    policy_name: &str,
    driver_slice_us: u64,
    cap_percent: u32,
) -> f64 {
    let reservation = |slice_us| {
        Some(Reservation {
            period: Nanoseconds::from_us(PERIOD_US),
            slice: Nanoseconds::from_us(slice_us),
            extra_time: driver_slice_us == 0,
        })
    };
    let slice_us = if driver_slice_us == 0 { PERIOD_US / 2 } else { driver_slice_us };
    let stream = Stream {
        direction: Direction::Send,
        packet_service: Nanoseconds::from_us(guest_us),
        window_packets: 1024,
        ..Stream::default()
    };
    let driver = Domain { sedf: reservation(slice_us), ..Domain::new("driver", 1) };
    let guest = Domain {
        cap_percent,
        sedf: reservation(PERIOD_US - slice_us),
        ..Domain::new("guest", 1).with_task(1, stream)
    };
    let io = Io {
        driver_domain: Some("driver".to_owned()),
        packet_cost: Nanoseconds::from_us(driver_us),
        link_mbit_per_s: 10_000,
        ..Io::default()
    };
    let host = Host { costs: no_costs(), io, ..Host::with_pcpus(1) };
    let run = run(&Setup { host, domains: vec![driver, guest] }, &policy(policy_name), 1, 10 * S);
    let values = &run.domains[1].tasks[0].values;
    let throughput =
        values.iter().find(|value| value.name == "throughput").and_then(|value| value.value);
    throughput.expect("a stream has a throughput") * 1e6 / (8.0 * 1500.0)
}

fn assert_near(found: f64, expected: f64, what: &str) {
    assert!((found - expected).abs() <= 0.02 * expected, "{what}: {found} instead of {expected}");
}

/// With spare time for both the CPU is full: 1 / (g + 1.5 d), whatever is reserved.
#[test]
fn work_conserving_the_cpu_limits() {
    for policy in ["sedf", "credit@xen-4.2"] {
        assert_near(packets_per_s(20, 10, policy, 0, 0), 1e6 / 35.0, policy);
    }
}

/// Without spare time each has its slice: the lesser of those of the guest over g and of dom0 over 1.5 d. So throughput
/// rises with dom0's part up to where both are used up, and falls beyond it.
#[test]
fn not_work_conserving_the_scarcer_slice_limits() {
    for (driver_slice_us, expected) in [(2_000, 0.2e6 / 30.0), (8_000, 0.2e6 / 20.0)] {
        let found = packets_per_s(20, 20, "sedf", driver_slice_us, 0);
        assert_near(found, expected, &format!("{driver_slice_us} us"));
    }
}

/// Under Credit a cap of 50 % leaves the guest 0.5 / g where it needs more than that.
#[test]
fn a_capped_guest_has_its_cap() {
    assert_near(packets_per_s(40, 4, "credit@xen-4.2", 0, 50), 0.5e6 / 40.0, "capped");
}

/// Two that always compute have 1 of 2 ms each. Who ran at the end of a period goes on at the beginning of the next, so that
/// there is one change in each; it costs who starts 200 us, a tenth of the CPU.
#[test]
fn changes_cost_both() {
    let costs = Costs { cache_refill: Nanoseconds::from_us(200), ..no_costs() };
    let reserved = |name: &str| Domain {
        sedf: Some(Reservation {
            period: Nanoseconds::from_ms(2),
            slice: Nanoseconds::from_ms(1),
            extra_time: false,
        }),
        ..Domain::new(name, 1).with_task(1, steelyard_simulator::workload::Busy::default())
    };
    let setup = Setup {
        host: Host { costs, ..Host::with_pcpus(1) },
        domains: vec![reserved("a"), reserved("b")],
    };
    let run = run(&setup, &policy("sedf"), 1, 10 * S);
    let overhead_ns: u64 = run.domains.iter().map(|domain| domain.time.overhead_ns).sum();
    assert_near(overhead_ns as f64, 0.1 * 10.0 * S as f64, "overhead");
}
