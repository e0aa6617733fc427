// SPDX-License-Identifier: GPL-2.0-only
//! The simulator as a library: a host is built in code, run, and its measures are read.

use steelyard_policy::Policy;
use steelyard_simulator::Simulation;
use steelyard_simulator::config::{Domain, Host, Setup};
use steelyard_simulator::units::Nanoseconds;
use steelyard_simulator::workload::{Busy, Ping};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let setup = Setup {
        host: Host::with_pcpus(1),
        domains: vec![
            Domain { weight: 512, ..Domain::new("heavy", 1).with_task(1, Busy::default()) },
            Domain::new("light", 1).with_task(1, Busy::default()),
            Domain::new("ping", 1)
                .with_task(1, Ping { interval: Nanoseconds::from_ms(20), ..Ping::default() }),
        ],
    };
    for name in ["sedf", "credit@xen-4.5", "credit2", "fair@eevdf"] {
        let mut simulation = Simulation::new(&setup, &Policy::named(name)?, 1)?;
        simulation.run_until(10_000_000_000);
        let run = simulation.measure();
        println!("{}: {:?}", run.policy, run.scheduling_events);
        for domain in &run.domains {
            let time = &domain.time;
            let worst_ms = time.waits.worst.as_ref().map_or(0.0, |w| w.length_ns as f64 / 1e6);
            println!(
                "  {:6} share {:5.1} %  p99 wait {:6.2} ms  worst {worst_ms:6.2} ms",
                domain.name,
                domain.share_percent,
                time.waits.p99_ns as f64 / 1e6,
            );
        }
    }
    Ok(())
}
