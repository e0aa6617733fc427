// SPDX-License-Identifier: GPL-2.0-only
//! Recordings as `perf script` text.
#![no_main]

use std::io::Cursor;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use steelyard_scenario::import_from;

fuzz_target!(|bytes: &[u8]| {
    if let Err(error) = import_from(Path::new("fuzz.txt"), Cursor::new(bytes)) {
        assert!(!error.to_string().is_empty());
    }
});
