// SPDX-License-Identifier: GPL-2.0-only
//! After the start nothing is allocated per event. What may be is the description of a wait that is
//! longer than all before it, which happens ever more rarely.

use steelyard_policy::Policy;
use steelyard_simulator::Simulation;

#[path = "../benches/hosts.rs"]
mod hosts;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

#[test]
fn events_allocate_nothing() {
    let _profiler = dhat::Profiler::builder().testing().build();
    for policy in ["sedf", "credit", "credit2", "fair@cfs", "fair@eevdf"] {
        let policy = Policy::named(policy).unwrap();
        let mut simulation = Simulation::new(&hosts::reference(), &policy, 1).unwrap();
        simulation.run_until(240_000_000_000);
        let events_before = simulation.measure().scheduling_events.total();
        let blocks_before = dhat::HeapStats::get().total_blocks;
        simulation.run_until(300_000_000_000);
        let blocks = dhat::HeapStats::get().total_blocks - blocks_before;
        let events = simulation.measure().scheduling_events.total() - events_before;
        println!("{policy}: {events} events, {blocks} allocations");
        assert!(events > 50_000, "{policy}: {events}");
        assert!(blocks * 1000 < events, "{policy}: {blocks} blocks for {events} events");
    }
}
