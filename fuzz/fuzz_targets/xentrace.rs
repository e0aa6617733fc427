// SPDX-License-Identifier: GPL-2.0-only
//! Anything may be called a file of xentrace.
#![no_main]

use std::num::NonZeroU64;

use libfuzzer_sys::fuzz_target;
use steelyard_recording::{XentraceFile, XentraceSurvey};

fuzz_target!(|bytes: &[u8]| {
    let Ok(survey) = XentraceSurvey::new(bytes) else { return };
    let tsc_hz = survey.tsc_hz.unwrap_or(NonZeroU64::MIN);
    let mut file = XentraceFile::new(bytes, &survey, tsc_hz, "host", 100_000_000);
    let mut last_ns = 0;
    while let Ok(Some(snapshot)) = file.snapshot() {
        assert!(snapshot.time_ns >= last_ns);
        last_ns = snapshot.time_ns;
    }
});
