// SPDX-License-Identifier: GPL-2.0-only
//! Anything may be called a trace of Perfetto.
#![no_main]

use std::io::Cursor;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use steelyard_scenario::import_from;

fuzz_target!(|bytes: &[u8]| {
    let _ = import_from(Path::new("fuzz.pftrace"), Cursor::new(bytes));
});
