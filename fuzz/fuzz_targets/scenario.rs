// SPDX-License-Identifier: GPL-2.0-only
//! Scenarios in TOML. Whatever loads passes all checks, and errors can be printed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use steelyard_scenario::{Options, load_text};

fuzz_target!(|text: &str| {
    match load_text("fuzz.toml", text, &Options::default()) {
        Ok(loaded) => assert_eq!(loaded.setup.validate(), Ok(())),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
