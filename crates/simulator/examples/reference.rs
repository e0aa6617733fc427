// SPDX-License-Identifier: GPL-2.0-only
//! Speed and memory: `reference POLICY SECONDS [reference|scale]` runs one host and prints events
//! per second of CPU time. An event is one wake, block, switch, tick, accounting or timer that the
//! simulator processes.

use std::time::Instant;

use steelyard_policy::Policy;
use steelyard_simulator::Simulation;
use steelyard_simulator::config::{Domain, Host, Setup};
use steelyard_simulator::units::Nanoseconds;
use steelyard_simulator::workload::{Busy, SysbenchCpu};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<_> = std::env::args().collect();
    let argument = |index: usize, default: &str| {
        arguments.get(index).cloned().unwrap_or_else(|| default.to_owned())
    };
    let policy = argument(1, "credit2");
    let seconds: u64 = argument(2, "1000").parse()?;
    let (sockets, cores_per_socket, domains) = match argument(3, "reference").as_str() {
        "scale" => (64, 8, 2048),
        _ => (1, 4, 9),
    };
    let load = Busy {
        compute: Nanoseconds::from_ms(27),
        sleep: Nanoseconds::from_ms(200),
        jitter_percent: 10,
    };
    let setup = Setup {
        host: Host { sockets, cores_per_socket, threads_per_core: 2, ..Host::default() },
        domains: (1..=domains)
            .map(|number| {
                let domain = Domain::new(format!("domain-{number}"), 4);
                if number % 9 == 1 {
                    domain.with_task(4, SysbenchCpu::default())
                } else {
                    domain.with_task(4, load.clone())
                }
            })
            .collect(),
    };
    let mut simulation = Simulation::new(&setup, &Policy::named(&policy)?, 1)?;
    let start = Instant::now();
    simulation.run_until(seconds * 1_000_000_000);
    let elapsed = start.elapsed();
    let run = simulation.measure();
    println!(
        "{:20} {:10} events in {:6.3} s: {:6.2} million/s  {:?}",
        run.policy,
        run.events.total(),
        elapsed.as_secs_f64(),
        run.events.total() as f64 / elapsed.as_secs_f64() / 1e6,
        run.events,
    );
    Ok(())
}
