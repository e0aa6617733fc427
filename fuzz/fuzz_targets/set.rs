// SPDX-License-Identifier: GPL-2.0-only
//! Changes by `--set`, one per line, and the units in their values.
#![no_main]

use libfuzzer_sys::fuzz_target;
use steelyard_scenario::{Options, load_text};
use steelyard_simulator::units::{CpuSet, Nanoseconds};

const SCENARIO: &str = "
    name = 'x'
    host = { cores_per_socket = 4 }
    [[domain]]
    name = 'a'
    [[domain.task]]
    workload.busy = { compute = '1 ms' }
    [[policy]]
    policy = 'credit'
    set = { slice_ns = 1_000_000 }
";

fuzz_target!(|text: &str| {
    let set: Vec<_> = text.lines().map(str::to_owned).collect();
    for value in set.iter().filter_map(|line| line.split_once('=')).map(|(_, value)| value) {
        if let Ok(time) = value.parse::<Nanoseconds>() {
            assert_eq!(time.to_string().parse(), Ok(time));
        }
        if let Ok(pcpus) = value.parse::<CpuSet>() {
            assert_eq!(pcpus.to_string().parse(), Ok(pcpus));
        }
    }
    let options = Options { set, ..Options::default() };
    if let Err(error) = load_text("fuzz.toml", SCENARIO, &options) {
        assert!(!error.to_string().is_empty());
    }
});
