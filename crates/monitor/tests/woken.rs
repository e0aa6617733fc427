// SPDX-License-Identifier: GPL-2.0-only
//! Who woke whom on this very machine, and how threads are held, where its user may load programs into the kernel. A
//! process of its own: all its threads that look like vCPUs are one domain.
#![cfg(feature = "bpf")]
#![allow(clippy::unwrap_used)]

use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use steelyard_monitor::LinuxSource;
use steelyard_recording::{Wake, Who};

/// Two threads that look like vCPUs and pass a token to and fro.
fn ping_pong(stop: &Arc<AtomicBool>) -> Vec<JoinHandle<()>> {
    let (first, second) = (mpsc::channel::<()>(), mpsc::channel::<()>());
    first.0.send(()).unwrap();
    let ends = [(first.1, second.0), (second.1, first.0)];
    let threads = ends.into_iter().enumerate().map(|(number, (from, to))| {
        let stop = stop.clone();
        let run = move || {
            while from.recv().is_ok() && !stop.load(Ordering::Relaxed) {
                // Long enough for the other to sleep.
                let end = Instant::now() + Duration::from_micros(200);
                while Instant::now() < end {}
                if to.send(()).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name(format!("CPU {number}/TCG")).spawn(run).unwrap()
    });
    threads.collect()
}

#[test]
fn it_is_seen_who_woke_whom_and_how_threads_are_held() {
    let mut source = LinuxSource::new("/proc", "/sys/fs/cgroup").unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let threads = ping_pong(&stop);
    source.observe();
    source.tell_others();
    let first = source.sample().unwrap();
    if first.structure.host.unseen.iter().any(|line| line.starts_with("Single waits")) {
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        return;
    }
    let short = ["-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"];
    let mut short = process::Command::new("sh").args(short).spawn().unwrap();
    let short_id = short.id();
    assert!(short.wait().unwrap().success());
    sleep(Duration::from_millis(500));
    let second = source.sample().unwrap();
    stop.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let id = u64::from(process::id());
    let domains = &second.structure.domains;
    let domain = domains.iter().position(|domain| domain.id == id).unwrap();
    let named = |name: &str| {
        let vcpu = domains[domain].vcpus.iter().position(|vcpu| vcpu.name == name).unwrap();
        Who::Vcpu(domain as u32, vcpu as u32)
    };
    let (one, other) = (named("CPU 0/TCG"), named("CPU 1/TCG"));
    let events = &second.threads;
    assert!(events.wakes.windows(2).all(|pair| pair[0].time_ns <= pair[1].time_ns));
    let wakes = |waker, woken| {
        let same = |wake: &&Wake| wake.woken == woken && (wake.waker == waker);
        events.wakes.iter().filter(same).count()
    };
    // If any waker is known on this machine those are: nobody else wakes them but at their end.
    if events.wakes.iter().any(|wake| wake.waker.is_some()) {
        for (waker, woken) in [(one, other), (other, one)] {
            let all = events.wakes.iter().filter(|wake| wake.woken == woken).count();
            assert!(all > 10 && wakes(Some(waker), woken) * 10 > all * 9, "{all}");
            assert_eq!(wakes(Some(woken), woken), 0);
        }
    }
    // Once: where the first look saw them already, it says so.
    let placements = || first.threads.placements.iter().chain(&events.placements);
    let held = |who| placements().find(|it| it.who == who);
    assert!(held(one).is_some_and(|it| it.priority.is_some()));
    assert_eq!(held(one).map(|it| &it.groups), held(other).map(|it| &it.groups));
    // It lived for a moment, in the group of who began it, and had ended before it was looked for.
    let ended = held(Who::Other(short_id));
    assert_eq!(ended.map(|it| &it.groups), held(one).map(|it| &it.groups));
    // The kernel has threads for each of its CPUs.
    let pinned = placements().any(|it| it.pcpus.is_some());
    assert!(pinned || !(2..=64).contains(&second.structure.host.pcpus));
}
