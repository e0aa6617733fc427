// SPDX-License-Identifier: GPL-2.0-only
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| steelyard_fuzz::take("domain_settings", bytes));
