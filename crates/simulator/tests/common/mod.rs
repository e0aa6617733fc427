// SPDX-License-Identifier: GPL-2.0-only
//! What the tests of the simulator share: every policy by name, runs with their traces, and
//! questions to a trace.
#![allow(dead_code)] // Each test file uses its part.

use steelyard_policy::{Policy, disciplines, governors, published};
use steelyard_simulator::Simulation;
use steelyard_simulator::config::{Costs, Domain, Group, Setup};
use steelyard_simulator::measure::{Run, TaskMeasure, Trace};
use steelyard_simulator::units::Nanoseconds;

pub const US: u64 = 1_000;
pub const MS: u64 = 1_000_000;
pub const S: u64 = 1_000_000_000;

/// Every discipline in every vintage.
pub fn policies() -> Vec<Policy> {
    let names = disciplines().iter().flat_map(|discipline| {
        discipline.vintages.iter().map(|vintage| format!("{}@{vintage}", discipline.name))
    });
    names.map(|name| policy(&name)).collect()
}

/// These, those published with governors, and each governor that was published with none, with the first
/// discipline that it suits: knobs turn by themselves.
pub fn all_policies() -> Vec<Policy> {
    let published: Vec<Policy> = published().iter().map(|(name, _)| policy(name)).collect();
    let is_published = |name: &str| published.iter().any(|policy| governs(policy, name));
    let alone = governors().iter().filter(|governor| !is_published(governor.name));
    let alone: Vec<Policy> = alone
        .map(|governor| policy(&format!("{}+{}", governor.disciplines[0], governor.name)))
        .collect();
    policies().into_iter().chain(published).chain(alone).collect()
}

/// A control group, in another or in none.
pub fn group(name: &str, weight: u32, around: Option<&str>) -> Group {
    Group { name: name.to_owned(), weight, group: around.map(str::to_owned) }
}

/// Linux's own scheduler, as it is taken for that of a recorded host.
pub fn linux_with_groups() -> Policy {
    let mut policy = policy("fair@eevdf");
    for (name, value) in
        [("groups", "entities"), ("balance_load", "averaged"), ("reweigh", "inflated")]
    {
        policy.set(name, value).expect("a parameter of fair");
    }
    policy
}

fn governs(policy: &Policy, name: &str) -> bool {
    policy.governors().any(|governor| governor.name == name)
}

pub fn policy(name: &str) -> Policy {
    Policy::named(name).expect("a policy of the core")
}

/// The value of a parameter of the policy.
pub fn parameter(policy: &Policy, name: &str) -> u64 {
    policy.value(name).expect("a parameter of the policy")
}

/// A host on which the machinery costs nothing.
pub fn no_costs() -> Costs {
    Costs {
        context_switch: Nanoseconds(0),
        interrupt: Nanoseconds(0),
        vm_exit: Nanoseconds(0),
        cache_refill: Nanoseconds(0),
        migration: Nanoseconds(0),
        cache_migration: Nanoseconds(0),
        socket_migration: Nanoseconds(0),
        ..Costs::default()
    }
}

pub fn simulation(setup: &Setup, policy: &Policy, seed: u64) -> Simulation {
    Simulation::new(setup, policy, seed).unwrap_or_else(|error| panic!("{error}: {setup:?}"))
}

pub fn run(setup: &Setup, policy: &Policy, seed: u64, length_ns: u64) -> Run {
    let mut simulation = simulation(setup, policy, seed);
    simulation.run_until(length_ns);
    simulation.measure()
}

/// The same with a trace of the whole run.
pub fn run_traced(setup: &Setup, policy: &Policy, seed: u64, length_ns: u64) -> (Run, Trace) {
    let mut simulation = simulation(setup, policy, seed);
    simulation.trace(0, length_ns);
    simulation.run_until(length_ns);
    (simulation.measure(), simulation.take_trace())
}

/// A figure that a task reports.
pub fn value(task: &TaskMeasure, name: &str) -> f64 {
    let value = task.values.iter().find(|value| value.name == name);
    let value = value.unwrap_or_else(|| panic!("no `{name}` in {:?}", task.values));
    value.value.unwrap_or_else(|| panic!("`{name}` was not measured"))
}

/// Whether the domain lets this vCPU of its own use this pCPU.
pub fn allows(domain: &Domain, vcpu: u32, pcpu: u32) -> bool {
    match domain.pin.as_slice() {
        [] => true,
        [one] => one.iter().any(|allowed| allowed == pcpu),
        each => each[vcpu as usize].iter().any(|allowed| allowed == pcpu),
    }
}

/// Stretches of time, ascending and apart.
pub type Times = Vec<(u64, u64)>;

/// When this vCPU ran, or waited. What touches is one stretch.
pub fn vcpu_times(trace: &Trace, domain: u32, vcpu: u32, running: bool) -> Times {
    join(
        trace
            .segments
            .iter()
            .filter(|segment| segment.domain == domain && segment.vcpu == vcpu)
            .filter(|segment| segment.pcpu.is_some() == running)
            .map(|segment| (segment.start_ns, segment.end_ns)),
    )
}

/// When nobody ran on this pCPU.
pub fn idle_times(trace: &Trace, pcpu: u32) -> Times {
    let busy = trace.segments.iter().filter(|segment| segment.pcpu == Some(pcpu));
    gaps(trace, busy.map(|segment| (segment.start_ns, segment.end_ns)))
}

/// What these leave of the trace's time.
pub fn gaps(trace: &Trace, times: impl Iterator<Item = (u64, u64)>) -> Times {
    let mut gaps = vec![];
    let mut since_ns = trace.start_ns;
    for (start_ns, end_ns) in join(times).into_iter().chain([(trace.end_ns, trace.end_ns)]) {
        if since_ns < start_ns {
            gaps.push((since_ns, start_ns));
        }
        since_ns = end_ns;
    }
    gaps
}

pub fn join(times: impl Iterator<Item = (u64, u64)>) -> Times {
    let mut times: Times = times.collect();
    times.sort_unstable();
    let mut joined: Times = vec![];
    for (start_ns, end_ns) in times {
        match joined.last_mut() {
            Some(last) if start_ns <= last.1 => last.1 = last.1.max(end_ns),
            _ => joined.push((start_ns, end_ns)),
        }
    }
    joined
}

/// The longest stretch that is in both.
pub fn longest_common(a: &Times, b: &Times) -> (u64, u64) {
    let (mut i, mut j) = (0, 0);
    let mut longest = (0, 0);
    while i < a.len() && j < b.len() {
        let common = (a[i].0.max(b[j].0), a[i].1.min(b[j].1));
        if common.0 < common.1 && common.1 - common.0 > longest.1 - longest.0 {
            longest = common;
        }
        if a[i].1 < b[j].1 { i += 1 } else { j += 1 }
    }
    longest
}
