// SPDX-License-Identifier: GPL-2.0-only
//! libvirt domain XML. What can be imported can be loaded.
#![no_main]

use std::io::Cursor;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use steelyard_scenario::{Options, import_from, load_text};

fuzz_target!(|bytes: &[u8]| {
    match import_from(Path::new("fuzz.xml"), Cursor::new(bytes)) {
        Ok(text) => {
            if let Err(error) = load_text("imported.toml", &text, &Options::default()) {
                panic!("{error}\n{text}");
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
