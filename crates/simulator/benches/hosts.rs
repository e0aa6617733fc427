// SPDX-License-Identifier: GPL-2.0-only
//! The hosts whose speed is measured.
#![allow(dead_code)] // Each user takes its part.

use steelyard_simulator::config::{Domain, Host, Reservation, Setup};
use steelyard_simulator::units::Nanoseconds;
use steelyard_simulator::workload::{Busy, SysbenchCpu};

/// 8 pCPUs, 9 domains of 4 vCPUs: one computes, the others do so for about 27 ms of every 227.
pub fn reference() -> Setup {
    grid(1, 4, 9)
}

/// The same in large: 1,024 pCPUs, 2,048 domains of 4 vCPUs.
pub fn scale() -> Setup {
    grid(64, 8, 2048)
}

fn grid(sockets: u32, cores_per_socket: u32, domains: u32) -> Setup {
    let load = Busy {
        compute: Nanoseconds::from_ms(27),
        sleep: Nanoseconds::from_ms(200),
        jitter_percent: 10,
        ..Busy::default()
    };
    let domain = |number| {
        let domain = Domain::new(format!("domain-{number}"), 4);
        if number % 9 == 1 {
            domain.with_task(4, SysbenchCpu::default())
        } else {
            domain.with_task(4, load.clone())
        }
    };
    Setup {
        host: Host { sockets, cores_per_socket, threads_per_core: 2, ..Host::default() },
        domains: (1..=domains).map(domain).collect(),
    }
}

/// Periods of the 32 periodic tasks, in ms; each task computes for a fifth of its period, so that
/// 8 CPUs are busy for four fifths. `scripts/simso_peer.py` has the same.
const PERIODS_MS: [u64; 8] = [5, 8, 10, 20, 25, 40, 50, 100];

/// 8 pCPUs and 32 domains of one vCPU with a reservation each, that compute and sleep.
pub fn periodic() -> Setup {
    let domain = |index: usize| {
        let period_ms = PERIODS_MS[index % PERIODS_MS.len()];
        let compute = Nanoseconds::from_us(period_ms * 200);
        let sleep = Nanoseconds::from_us(period_ms * 800);
        let mut domain = Domain::new(format!("task-{index}"), 1);
        domain.sedf = Some(Reservation {
            period: Nanoseconds::from_ms(period_ms),
            slice: compute,
            extra_time: false,
        });
        domain.with_task(1, Busy { compute, sleep, ..Busy::default() })
    };
    Setup { host: Host::with_pcpus(8), domains: (0..32).map(domain).collect() }
}
