// SPDX-License-Identifier: GPL-2.0-only
//! The inner parts, one by one: `cargo bench -p steelyard-simulator`. The whole is measured by
//! `scripts/bench`.

use divan::Bencher;
use divan::counter::ItemsCount;
use steelyard_policy::Policy;
use steelyard_simulator::config::Setup;
use steelyard_simulator::{Simulation, WaitRecorder};

mod hosts;
#[allow(dead_code, unused_imports)]
#[path = "../src/run_queue.rs"]
mod run_queue;
#[allow(dead_code, unused_imports)]
#[path = "../src/timers.rs"]
mod timers;

use run_queue::RunQueue;
use timers::Timers;

const POLICIES: [&str; 5] = ["sedf", "credit", "credit2", "fair@cfs", "fair@eevdf"];

fn main() {
    divan::main();
}

/// One timer fires and is set anew, among so many.
#[divan::bench(args = [8, 64, 1024, 16384])]
fn timer_pop_and_set(bencher: Bencher, timers: u32) {
    let delay_ns = |timer: u32| 1_000_000 + u64::from(timer.wrapping_mul(2_654_435_761) >> 8);
    let mut wheel = Timers::new(timers as usize);
    (0..timers).for_each(|timer| wheel.set(timer, delay_ns(timer)));
    bencher.bench_local(|| {
        if let Some(fired) = wheel.pop(u64::MAX) {
            wheel.set(fired.timer, fired.time_ns + delay_ns(fired.timer));
        }
    });
}

/// A timer is set to another time before it fires, among so many.
#[divan::bench(args = [8, 64, 1024, 16384])]
fn timer_set_again(bencher: Bencher, timers: u32) {
    let mut wheel = Timers::new(timers as usize);
    let mut count = 0u32;
    bencher.bench_local(|| {
        count = count.wrapping_add(1);
        let delay_ns = 1_000_000 + u64::from(count.wrapping_mul(2_654_435_761) >> 8);
        wheel.set(count % timers, delay_ns);
    });
}

/// The first of a queue of so many leaves it, and comes again with another key.
#[divan::bench(args = [2, 8, 32, 128])]
fn run_queue_remove_and_insert(bencher: Bencher, length: u32) {
    let mut queue = RunQueue::<u32>::default();
    let mut keys: Vec<u64> = (0..length).map(u64::from).collect();
    (0..length).for_each(|vcpu| queue.insert(keys[vcpu as usize], vcpu));
    bencher.bench_local(|| {
        if let Some(vcpu) = queue.first() {
            let key = &mut keys[vcpu as usize];
            queue.remove(*key, vcpu);
            *key += u64::from(length / 2 + vcpu % 4);
            queue.insert(*key, vcpu);
        }
    });
}

/// A wait is counted.
#[divan::bench]
fn wait_record(bencher: Bencher) {
    let mut waits = WaitRecorder::default();
    let mut length_ns = 1u64;
    bencher.bench_local(|| {
        length_ns = length_ns * 5 % 100_000_007;
        waits.record(length_ns)
    });
}

/// Scheduling events of the reference host.
#[divan::bench(args = POLICIES)]
fn reference(bencher: Bencher, policy: &str) {
    events(bencher, &hosts::reference(), policy, 10_000_000_000, 1_000_000_000);
}

/// Scheduling events of the large host.
#[divan::bench(args = POLICIES, sample_count = 10, sample_size = 1)]
fn scale(bencher: Bencher, policy: &str) {
    events(bencher, &hosts::scale(), policy, 500_000_000, 50_000_000);
}

/// Runs in steps of `step_ns`, after a time in which the host becomes busy.
fn events(bencher: Bencher, setup: &Setup, policy: &str, warm_ns: u64, step_ns: u64) {
    let policy = Policy::named(policy).expect("a policy");
    let mut simulation = Simulation::new(setup, &policy, 1).expect("a valid host");
    simulation.run_until(warm_ns);
    let before = simulation.measure().scheduling_events.total();
    simulation.run_until(warm_ns + step_ns);
    let per_step = simulation.measure().scheduling_events.total() - before;
    bencher.counter(ItemsCount::new(per_step)).bench_local(|| {
        let end_ns = simulation.now_ns() + step_ns;
        simulation.run_until(end_ns);
    });
}
