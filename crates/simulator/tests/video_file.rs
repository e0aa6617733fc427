// SPDX-License-Identifier: GPL-2.0-only
//! A video that is read from the disk: how much, when, and who pays for it, by hand.

mod common;

use common::*;
use steelyard_simulator::config::{Domain, Host, Io, Setup};
use steelyard_simulator::units::Nanoseconds;
use steelyard_simulator::workload::Video;

const END_NS: u64 = 9_950 * MS;

/// Ten frames per second of a file of 4 Mbit/s, 50,000 bytes each, in pieces of that size.
fn video(file_mbit_per_s: u32) -> Video {
    Video {
        frames_per_s: 10,
        i_frame: Nanoseconds::from_ms(10),
        p_frame: Nanoseconds::from_ms(10),
        b_frame: Nanoseconds::from_ms(10),
        jitter_percent: 0,
        show: Nanoseconds(0),
        buffer_frames: 1,
        file_mbit_per_s,
        read_bytes: 50_000,
        ..Video::default()
    }
}

/// The disk takes 20 ms for a piece, and dom0 half a ms for each of its two requests, on its way to the disk and back.
fn setup(video: Video) -> Setup {
    let io = Io {
        driver_domain: Some("dom0".to_owned()),
        request_cost: Nanoseconds::from_us(500),
        disk_latency: Nanoseconds::from_ms(10),
        disk_mbyte_per_s: 5,
        ..Io::default()
    };
    let host = Host { costs: no_costs(), io, ..Host::with_pcpus(2) };
    let player = Domain::new("player", 1).with_task(1, video);
    Setup { host, domains: vec![Domain::new("dom0", 1), player] }
}

#[test]
fn each_piece_is_read_before_its_frame_and_paid_for_by_dom0() {
    for policy in all_policies() {
        let run = run(&setup(video(4)), &policy, 1, END_NS);
        // The first at 0.1 s, the last at 9.9 s; each one is decoded when the one before it was shown: 100.
        assert_eq!(value(&run.domains[1].tasks[0], "frames shown"), 99.0, "{policy}");
        assert_eq!(run.domains[0].time.gotten_ns, 100 * 2 * 500 * US, "{policy}");
        assert_eq!(run.domains[1].time.gotten_ns, 100 * 10 * MS, "{policy}");
    }
    // In memory nobody is asked.
    let run = run(&setup(video(0)), &policy("credit@xen-3.3"), 1, END_NS);
    assert_eq!(run.domains[0].time.gotten_ns, 0);
    assert_eq!(run.domains[1].time.gotten_ns, 100 * 10 * MS);
}

#[test]
fn a_frame_waits_for_its_piece() {
    // 90 ms to decode and 21 for the piece: more than the 100 ms of a frame, so that not all are shown; 79 ms is not.
    let shown = |decode_ms| {
        let time = Nanoseconds::from_ms(decode_ms);
        let slow = Video { i_frame: time, p_frame: time, b_frame: time, ..video(4) };
        let run = run(&setup(slow), &policy("credit@xen-3.3"), 1, 10 * S);
        value(&run.domains[1].tasks[0], "frames dropped")
    };
    assert!(shown(90) > 5.0, "{}", shown(90));
    assert_eq!(shown(78), 0.0);
}
