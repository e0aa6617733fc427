// SPDX-License-Identifier: GPL-2.0-only
//! Anything may stand in the lines of a recording of `steelyard record`.
#![no_main]

use std::io::{Cursor, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use libfuzzer_sys::fuzz_target;
use steelyard_scenario::import_from;

fuzz_target!(|lines: &[u8]| {
    let mut packed = GzEncoder::new(vec![], Compression::fast());
    let packed = packed.write_all(lines).and_then(|()| packed.finish());
    if let Ok(packed) = packed {
        let _ = import_from(Path::new("fuzz.steelyard"), Cursor::new(packed));
    }
});
