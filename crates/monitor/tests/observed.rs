// SPDX-License-Identifier: GPL-2.0-only
//! This very machine, with a program in its kernel, where its user may load one.
#![cfg(feature = "bpf")]
#![allow(clippy::unwrap_used)]

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use steelyard_monitor::LinuxSource;
use steelyard_recording::Snapshot;

/// A thread that looks like a vCPU and has something to do all the time, or now and then.
fn vcpu(number: u32, stop: &Arc<AtomicBool>) -> JoinHandle<()> {
    let stop = stop.clone();
    let name = format!("CPU {number}/KVM");
    let run = move || {
        while !stop.load(Ordering::Relaxed) {
            if number % 2 == 1 {
                sleep(Duration::from_micros(500));
            }
        }
    };
    thread::Builder::new().name(name).spawn(run).unwrap()
}

/// The numbers of this process's threads that look like vCPUs.
fn own(snapshot: &Snapshot) -> Vec<u64> {
    let id = u64::from(process::id());
    let own = snapshot.structure.domains.iter().filter(|domain| domain.id == id);
    own.flat_map(|domain| domain.vcpus.iter().map(|vcpu| vcpu.id)).collect()
}

#[test]
fn single_waits_of_who_comes_and_goes_are_seen() {
    let mut source = LinuxSource::new("/proc", "/sys/fs/cgroup").unwrap();
    let (stop, stop_one) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let mut threads: Vec<_> = (0..4).map(|number| vcpu(number, &stop)).collect();
    source.observe();
    let first = source.sample().unwrap();
    let unseen = &first.structure.host.unseen;
    if let Some(reason) = unseen.iter().find(|line| line.starts_with("Single waits")) {
        eprintln!("skipped: {reason}");
        assert!(first.vcpus.iter().all(|figures| figures.waits.is_none()));
        return;
    }
    assert_eq!(own(&first).len(), 4);
    let one = vcpu(4, &stop_one);
    sleep(Duration::from_millis(300));
    let second = source.sample().unwrap();
    assert_eq!(own(&second).len(), 5);
    sleep(Duration::from_millis(300));
    let third = source.sample().unwrap();
    stop_one.store(true, Ordering::Relaxed);
    one.join().unwrap();
    // It is joined a little before the kernel is done with it.
    let end = Instant::now() + Duration::from_secs(20);
    let fourth = loop {
        let fourth = source.sample().unwrap();
        if own(&fourth) == own(&first) || Instant::now() > end {
            break fourth;
        }
    };
    assert_eq!(own(&fourth), own(&first));
    stop.store(true, Ordering::Relaxed);
    threads.drain(..).for_each(|thread| thread.join().unwrap());
    let ids: Vec<u64> = third
        .structure
        .domains
        .iter()
        .flat_map(|domain| domain.vcpus.iter().map(|vcpu| vcpu.id))
        .collect();
    for id in own(&third) {
        let figures = &third.vcpus[ids.iter().position(|&other| other == id).unwrap()];
        assert!(figures.gotten_ns > 0 && figures.switches > Some(0), "{figures:?}");
        assert!(figures.migrations.is_some() && figures.preemptions.is_some());
        let waits = figures.waits.as_ref().unwrap();
        assert!(waits.histogram.iter().any(|&(_, count)| count > 0));
        let worst = waits.worst.as_ref().unwrap();
        assert!(worst.start_ns + worst.length_ns <= third.time_ns);
        // On the pCPU where it ended: one at a time.
        assert!(worst.ran.iter().map(|ran| ran.ran_ns).sum::<u64>() <= worst.length_ns);
    }
    for snapshot in [&second, &third, &fourth] {
        assert!(snapshot.segments.windows(2).all(|pair| pair[0].end_ns <= pair[1].end_ns));
        for segment in &snapshot.segments {
            let domain = &snapshot.structure.domains[segment.domain as usize];
            assert!((segment.vcpu as usize) < domain.vcpus.len());
            assert!(segment.start_ns <= segment.end_ns);
        }
    }
    assert!(!third.segments.is_empty());
}
