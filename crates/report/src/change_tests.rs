// SPDX-License-Identifier: GPL-2.0-only
//! Changes by hand, and how often chance is taken for one.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use steelyard_recording::{
    Domain, Figures, Group, Host, OtherRun, Placement, Snapshot, Structure, ThreadEvents, Vcpu,
    Wake, Who,
};
use steelyard_simulator::measure::Segment;

use super::*;
use crate::windows::WindowsError;
use crate::{Style, change_table};

const MS: u64 = 1_000_000;

fn read(waits_ms: impl Fn(u64) -> f64, times: u64) -> Result<Windows, WindowsError> {
    read_beside(waits_ms, times, ThreadEvents::default())
}

/// A vCPU that in each 10 ms waits for so long, then runs 2 ms; for so many times. Another thread, 1, runs 3 ms meanwhile,
/// 0.5 ms after it was woken; this was told of both.
fn read_beside(
    waits_ms: impl Fn(u64) -> f64,
    times: u64,
    threads: ThreadEvents,
) -> Result<Windows, WindowsError> {
    let vcpu = Vcpu { id: 0, name: "vcpu 0".to_owned() };
    let domain = |id: u64, name: &str| Domain {
        id,
        name: name.to_owned(),
        weight: 256,
        ungrouped: false,
        groups_around: None,
        cap_percent: 0,
        vcpus: vec![vcpu.clone()],
    };
    let host = Host { pcpus: 1, ..Host::default() };
    let structure =
        Arc::new(Structure { host, domains: vec![domain(1, "web"), domain(2, "idle")] });
    let snapshot = |time_ns, segments, others| Snapshot {
        structure: structure.clone(),
        time_ns,
        vcpus: vec![Figures::default(); 2],
        segments,
        others,
        ..empty()
    };
    // The source began a second before the recording.
    let began_ns = 1000 * MS;
    let mut windows = Windows::default();
    windows.add(&Snapshot { threads, ..snapshot(began_ns, vec![], vec![]) }).unwrap();
    for time in 0..times {
        let start_ns = began_ns + time * 10 * MS;
        let runs_ns = start_ns + (waits_ms(time) * MS as f64) as u64;
        let segment =
            |pcpu, start_ns, end_ns| Segment { domain: 0, vcpu: 0, pcpu, start_ns, end_ns };
        let segments =
            vec![segment(None, start_ns, runs_ns), segment(Some(0), runs_ns, runs_ns + 2 * MS)];
        let (woken, time_ns) = (Who::Other(1), start_ns);
        let threads = ThreadEvents {
            wakes: vec![Wake { time_ns, waker: None, woken }],
            ..ThreadEvents::default()
        };
        let (name, priority, waited, thread) = ("make".into(), None, false, 1);
        let (start_ns, end_ns) = (start_ns + MS / 2, start_ns + MS / 2 + 3 * MS);
        let other = OtherRun { name, thread, priority, waited, pcpu: 0, start_ns, end_ns };
        let snapshot = snapshot(time_ns + 10 * MS, segments, vec![other]);
        windows.add(&Snapshot { threads, ..snapshot }).unwrap();
    }
    windows.finish()
}

fn recording(waits_ms: impl Fn(u64) -> f64, times: u64) -> Windows {
    read(waits_ms, times).unwrap()
}

fn empty() -> Snapshot {
    Snapshot {
        structure: Arc::default(),
        time_ns: 0,
        idle_ns: vec![],
        vcpus: vec![],
        segments: vec![],
        others: vec![],
        threads: ThreadEvents::default(),
        lost: 0,
    }
}

/// Of a step of splitmix64, from 0 to 1.
fn random(number: u64) -> f64 {
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

fn near(value: f64, expected: f64) {
    assert!((value - expected).abs() < 1e-6, "{value}");
}

fn of<'a>(change: &'a Change, name: &str) -> &'a DomainChange {
    change.domains.iter().find(|domain| domain.name == name).unwrap()
}

#[test]
fn figures_are_those_of_the_whole_recordings() {
    // 6.4 s are 64 windows of 100 ms.
    let (before, after) = (recording(|_| 4.0, 640), recording(|_| 1.0, 640));
    let change = Change::between(("a", &before), ("b", &after));
    assert_eq!((change.before.windows, change.before.window_ns), (64, 100 * MS));
    assert_eq!(change.before.length_ns, 6400 * MS);
    let web = of(&change, "web");
    near(web.share_percent.before, 20.0);
    near(web.share_percent.after, 20.0);
    near(web.waited_percent.unwrap().before, 40.0);
    near(web.waited_percent.unwrap().after, 10.0);
    assert_eq!(web.worst_wait_ns.unwrap().before, 4.0 * MS as f64);
    // Every window is like every other: nothing is left to chance.
    assert!(!web.share_percent.certain && web.waited_percent.unwrap().certain);
    near(web.waited_percent.unwrap().change.least, -30.0);
    let p99 = web.wait_p99_ns.unwrap();
    // Buckets have two digits.
    assert!(p99.certain && (p99.change.least - 0.25).abs() < 0.01, "{p99:?}");
    let rest = change.domains.last().unwrap();
    assert!(rest.rest_of_host && rest.wait_p99_ns.is_none());
    near(rest.share_percent.before, 30.0);
    let text = change_table(&change, false, Style { width: 80, color: false });
    assert!(text.contains("shorter for web; longer for none"), "{text}");
    assert!(
        text.lines().count() <= 23 && text.lines().all(|it| it.chars().count() <= 80),
        "{text}"
    );
}

#[test]
fn threads_of_a_machine_are_its_own() {
    let of_web = [Who::Vcpu(0, 0), Who::Other(1)];
    let held = |who, id| Placement {
        who,
        priority: None,
        groups: vec![Group { id, weight: 256 }],
        pcpus: None,
    };
    let told = |placements| ThreadEvents { placements, ..ThreadEvents::default() };
    let beside = |threads| read_beside(|_| 4.0, 640, threads).unwrap();
    let emulator = beside(told(of_web.map(|who| held(who, 1)).to_vec()));
    let other = beside(told(vec![held(of_web[0], 1), held(of_web[1], 2)]));
    let change = Change::between(("a", &emulator), ("b", &other));
    let web = of(&change, "web");
    // 3 ms more of each 10, and 0.5 ms more in which it waited.
    near(web.share_percent.before, 50.0);
    near(web.share_percent.after, 20.0);
    near(web.waited_percent.unwrap().before, 45.0);
    near(web.waited_percent.unwrap().after, 40.0);
    assert_eq!(web.worst_wait_ns.unwrap().before, 4.0 * MS as f64);
    assert_eq!(change.only_after, ["rest of the host"]);
}

#[test]
fn nothing_is_said_of_the_same_load() {
    // Waits that are exponential, up to 7 ms, by other numbers each time.
    let wait_ms = |number: u64| (-random(number).max(1e-9).ln()).min(7.0);
    let load = |seed: u64| recording(move |time| wait_ms((seed << 32) | time), 640);
    let (mut claims, mut figures) = (0, 0);
    for seed in 0..20 {
        let (before, after) = (load(2 * seed), load(2 * seed + 1));
        let web = of(&Change::between(("a", &before), ("b", &after)), "web").clone();
        let waits = [web.waited_percent, web.wait_p99_ns, web.worst_wait_ns].map(Option::unwrap);
        for figure in waits.iter().chain([&web.share_percent]) {
            claims += usize::from(figure.certain);
            figures += 1;
        }
    }
    println!("{claims} of {figures}");
    // One in a hundred is wanted; of extremes a bootstrap is too sure.
    assert!(claims <= figures / 20, "{claims} of {figures}");
}

#[test]
fn a_recording_differs_not_from_itself() {
    let one = recording(|time| 5.0 * random(time), 300);
    let change = Change::between(("a", &one), ("a", &one));
    for domain in &change.domains {
        let figures = [
            Some(domain.share_percent),
            domain.waited_percent,
            domain.wait_p99_ns,
            domain.worst_wait_ns,
        ];
        assert!(figures.into_iter().flatten().all(|figure| !figure.certain), "{domain:?}");
    }
    let text = change_table(&change, false, Style { width: 80, color: false });
    assert!(text.contains("no change that is more than chance"), "{text}");
}

#[test]
fn what_is_too_short_or_has_sums_alone_is_refused() {
    // 16 windows of 50 ms.
    assert_eq!(read(|_| 1.0, 79).err(), Some(WindowsError::TooShort));
    assert!(read(|_| 1.0, 80).is_ok());
    // A long time in which nothing happens takes no memory.
    let mut long = Windows::default();
    long.add(&empty()).unwrap();
    long.add(&Snapshot { time_ns: u64::MAX, ..empty() }).unwrap();
    assert_eq!(long.finish().err(), Some(WindowsError::NoWaits));
    let mut sums = Windows::default();
    for time in 0..100 {
        let snapshot = Snapshot { time_ns: time * 10 * MS, ..empty() };
        sums.add(&snapshot).unwrap();
    }
    assert_eq!(sums.finish().err(), Some(WindowsError::NoWaits));
}
