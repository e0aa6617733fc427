// SPDX-License-Identifier: GPL-2.0-only
//! What shall run in the test machine, as `lab/linux/run` is given it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The whole plan.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// A policy, or "stock" for the kernel's own scheduler.
    pub policy: String,
    /// Of the policy, by the names of a scenario's `set`.
    #[serde(default)]
    pub parameters: BTreeMap<String, Value>,
    /// CPUs of the machine; `lab/linux/run` reads it.
    #[allow(dead_code)]
    pub cpus: u32,
    /// On which those CPUs are, as many on each; the same.
    #[allow(dead_code)]
    #[serde(default)]
    pub sockets: u32,
    /// Before anything is measured.
    #[serde(default = "second_ms")]
    pub warm_up_ms: u64,
    /// Measured.
    pub length_ms: u64,
    /// What vCPUs are.
    #[serde(default)]
    pub vcpus_are: VcpusAre,
    /// What happens to the scheduler after the measurement.
    #[serde(default)]
    pub end: End,
    pub domains: Vec<Domain>,
    /// Control groups beside those of the domains, which may be within.
    #[serde(default)]
    pub groups: Vec<Group>,
    /// What is written into files meanwhile, in order.
    #[serde(default)]
    pub meanwhile: Vec<Change>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    pub name: String,
    #[serde(default = "default_weight")]
    pub weight: u32,
    /// Of one CPU; 0: none.
    #[serde(default)]
    pub cap_percent: u32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// From the beginning of the measurement on.
    pub at_ms: u64,
    pub file: String,
    pub text: String,
}

fn second_ms() -> u64 {
    1000
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VcpusAre {
    /// vCPUs of KVM that run a guest.
    #[default]
    Kvm,
    /// Threads with the name of a vCPU that compute by themselves: for a machine without KVM under
    /// the kernel's own scheduler; Steelyard's takes them for what else runs on a host.
    Threads,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Ctrl-C.
    #[default]
    Interrupted,
    /// Killed without a chance to clean up.
    Killed,
    /// A task is never dispatched, until the kernel ejects the scheduler.
    Stalled,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Domain {
    pub name: String,
    pub vcpus: u32,
    /// 256 stands for the default `cpu.weight` of 100.
    #[serde(default = "default_weight")]
    pub weight: u32,
    /// Of one CPU; 0: none.
    #[serde(default)]
    pub cap_percent: u32,
    /// `KEY=VALUE`s for `steelyard kvm set`, before the scheduler begins.
    #[serde(default)]
    pub asked: Vec<String>,
    /// The control group that its own is in; empty: the host's.
    #[serde(default)]
    pub within: String,
    /// What its vCPUs are, if not what all are.
    #[serde(default)]
    pub vcpus_are: Option<VcpusAre>,
    /// Of its threads.
    #[serde(default)]
    pub niceness: i32,
    /// CPU time between sleeps; 0: it never sleeps.
    #[serde(default)]
    pub compute_ns: u64,
    #[serde(default)]
    pub sleep_ns: u64,
    /// Until then it sleeps.
    #[serde(default)]
    pub start_ns: u64,
    /// By how many percent each of both times is longer or shorter, evenly distributed.
    #[serde(default)]
    pub jitter_percent: u32,
    /// CPUs that its vCPUs may use; empty: all.
    #[serde(default)]
    pub pin: Vec<usize>,
    /// Each vCPU computes, takes a lock of its domain for so long, and so on; 0: there is no lock.
    #[serde(default)]
    pub hold_ns: u64,
    /// A packet comes to it so often, through a tap, and it answers while it computes; 0: none does.
    #[serde(default)]
    pub ping_interval_ns: u64,
    /// Its rounds of computing end without a pause: for machines that report each pause as a loop of them.
    #[serde(default)]
    pub never_pauses: bool,
    /// It leaves its guest after each round, where its VMM pauses: for machines that intercept a guest's own
    /// pauses, which so end no emulated processor's turn.
    #[serde(default)]
    pub exits: bool,
}

fn default_weight() -> u32 {
    256
}
