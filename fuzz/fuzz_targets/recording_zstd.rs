// SPDX-License-Identifier: GPL-2.0-only
//! Compressed recordings: what follows zstd's magic number.
#![no_main]

use std::io::Cursor;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use steelyard_scenario::import_from;

fuzz_target!(|bytes: &[u8]| {
    let file = [&[0x28, 0xb5, 0x2f, 0xfd], bytes].concat();
    if let Err(error) = import_from(Path::new("fuzz.zst"), Cursor::new(file)) {
        assert!(!error.to_string().is_empty());
    }
});
