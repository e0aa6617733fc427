// SPDX-License-Identifier: GPL-2.0-only
//! Scenarios and `--set`: whatever loads passes all checks and can be simulated, and no ns is lost.

use arbitrary::Unstructured;
use steelyard_policy::Policy;
use steelyard_scenario::{Options, load_text};
use steelyard_simulator::Simulation;
use steelyard_simulator::config::Setup;
use steelyard_simulator::units::{CpuSet, Nanoseconds};

use crate::schema;

/// Any text as TOML.
pub fn text(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match load_text("fuzz.toml", text, &Options::default()) {
        Ok(loaded) => assert_eq!(loaded.setup.validate(), Ok(())),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

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

/// Changes by `--set`, one per line, and the units in their values.
pub fn set(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
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
}

/// A scenario of the right form is loaded or refused, and if it is loaded, simulated for a while.
pub fn simulation(bytes: &[u8]) {
    let Ok(scenario) = schema::scenario(&mut Unstructured::new(bytes)) else { return };
    let Ok(text) = toml_edit::ser::to_string_pretty(&scenario) else { return };
    let loaded = match load_text("fuzz.toml", &text, &Options::default()) {
        Ok(loaded) => loaded,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert_eq!(loaded.setup.validate(), Ok(()));
    for policy in loaded.policies.iter().take(4) {
        simulate(&loaded.setup, &policy.policy, loaded.length.0, 1);
    }
}

/// As much of a host as can be simulated thousands of times.
const MOST_VCPUS: u32 = 64;
const MOST_PCPUS: u32 = 16;
const MOST_THREADS: u32 = 256;
/// So much happens in a simulation, about.
const EVENTS: u64 = 2_000;
/// A simulation is looked at so often at most, and this far it goes in between if a vCPU may do something every ns.
const LOOKS: u32 = 100;
const STEP_NS: u64 = 1_000_000;

/// Simulates a while of a host that is not too large: every ns of every vCPU and pCPU is accounted for. `least_ns`:
/// no vCPU computes for less at a time.
pub fn simulate(setup: &Setup, policy: &Policy, length_ns: u64, least_ns: u64) {
    let vcpus = setup.domains.iter().map(|domain| domain.vcpus).fold(0, u32::saturating_add);
    let tasks = setup.domains.iter().flat_map(|domain| &domain.task);
    let threads = tasks.map(|task| task.threads).fold(0, u32::saturating_add);
    if vcpus > MOST_VCPUS || setup.host.pcpus() > MOST_PCPUS || threads > MOST_THREADS {
        return;
    }
    let mut simulation = Simulation::new(setup, policy, 1).expect("it passed all checks");
    // Who knows how much happens in a time: twice as far each time, until enough did. But not much further: what
    // slept for long may do much at once.
    let step_ns = STEP_NS.saturating_mul(least_ns / 10).max(STEP_NS);
    let mut until_ns = 1_000.min(length_ns);
    let mut looks = 0;
    let run = loop {
        simulation.run_until(until_ns);
        let run = simulation.measure();
        looks += 1;
        if until_ns == length_ns
            || looks == LOOKS
            || run.scheduling_events.total() + run.guest_steps > EVENTS
        {
            break run;
        }
        until_ns = (until_ns + until_ns.min(step_ns)).min(length_ns);
    };
    assert_eq!(run.elapsed_ns, until_ns);
    let mut gotten_ns = 0;
    for domain in &run.domains {
        for vcpu in &domain.vcpus {
            let time = &vcpu.time;
            assert_eq!(time.gotten_ns + time.waited_ns + time.blocked_ns, until_ns, "{domain:?}");
            assert!(time.parked_ns <= time.waited_ns, "{domain:?}");
            gotten_ns += u128::from(time.gotten_ns);
        }
        assert!(domain.share_percent.is_finite() && domain.entitlement_percent.is_finite());
    }
    let idle_ns = run.pcpus.iter().map(|pcpu| u128::from(pcpu.idle_ns)).sum::<u128>();
    assert_eq!(gotten_ns + idle_ns, u128::from(until_ns) * run.pcpus.len() as u128);
    assert!((0.0..=1.0 + 1e-9).contains(&run.fairness), "{}", run.fairness);
}
