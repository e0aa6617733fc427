// SPDX-License-Identifier: GPL-2.0-only
//! Speed and memory: `reference POLICY SECONDS [reference|scale|periodic]` runs one host and prints
//! scheduling events per second of CPU time and the peak memory of the process. `scripts/bench` reads this.

use rustix::time::{ClockId, clock_gettime};
use steelyard_policy::Policy;
use steelyard_simulator::Simulation;

#[path = "../benches/hosts.rs"]
mod hosts;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<_> = std::env::args().collect();
    let argument = |index: usize, default: &str| {
        arguments.get(index).cloned().unwrap_or_else(|| default.to_owned())
    };
    let policy = argument(1, "credit2");
    let seconds: u64 = argument(2, "1000").parse()?;
    let setup = match argument(3, "reference").as_str() {
        "scale" => hosts::scale(),
        "periodic" => hosts::periodic(),
        _ => hosts::reference(),
    };
    let mut simulation = Simulation::new(&setup, &Policy::named(&policy)?, 1)?;
    let start_s = cpu_seconds();
    simulation.run_until(seconds * 1_000_000_000);
    let spent_s = cpu_seconds() - start_s;
    let run = simulation.measure();
    let events = run.scheduling_events.total();
    println!(
        "{} {events} events and {} guest steps in {spent_s:.6} s: {:.2} million events/s, {} KiB; {:?}",
        run.policy,
        run.guest_steps,
        events as f64 / spent_s / 1e6,
        peak_kib()?,
        run.scheduling_events,
    );
    Ok(())
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn peak_kib() -> Result<u64, Box<dyn std::error::Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let words = peak.unwrap_or_default().split_whitespace().next();
    Ok(words.unwrap_or("0").parse()?)
}
