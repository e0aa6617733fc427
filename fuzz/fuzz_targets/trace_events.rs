// SPDX-License-Identifier: GPL-2.0-only
//! Anything may stand in the lines of a trace for Perfetto.
#![no_main]

use libfuzzer_sys::fuzz_target;
use steelyard_recording::read_trace_events;

fuzz_target!(|lines: &[u8]| {
    let Ok(history) = read_trace_events(lines) else { return };
    let mut last_ns = 0;
    for snapshot in history.snapshots(history.length_ns / 8) {
        assert!(snapshot.time_ns >= last_ns);
        last_ns = snapshot.time_ns;
    }
});
