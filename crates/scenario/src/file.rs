// SPDX-License-Identifier: GPL-2.0-only
//! The tables of a scenario file, which are also the source of its JSON Schema.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};
use steelyard_simulator::config::{
    Boost, Domain, GuestClock, GuestLocks, Host, HostTasks, Reservation, Task,
};
use steelyard_simulator::limits;
use steelyard_simulator::units::{CpuSet, Nanoseconds};

/// A host, its domains, and the policies to compare on it.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Steelyard scenario")]
pub struct Scenario {
    /// A name for reports.
    pub name: String,
    /// What one can learn from it.
    #[serde(default)]
    pub about: Option<String>,
    /// Time to simulate.
    #[serde(default = "default_length")]
    pub length: Nanoseconds,
    /// Number of runs of each policy, with the seeds 1, 2, ...
    #[serde(default = "one")]
    #[schemars(range(min = limits::SEEDS.least, max = limits::SEEDS.most))]
    pub seeds: u32,
    /// The machine.
    #[serde(default)]
    pub host: Host,
    /// The domains.
    pub domain: Vec<DomainEntry>,
    /// The policies; none: the newest vintage of each discipline.
    #[serde(default)]
    pub policy: Vec<PolicyEntry>,
}

fn default_length() -> Nanoseconds {
    Nanoseconds::from_s(10)
}

fn one() -> u32 {
    1
}

/// One domain, or several that are alike: [`Domain`] and `count`. Its fields are repeated, since
/// serde's `flatten` would lose the positions of errors.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Domain")]
pub struct DomainEntry {
    /// Its name, unique on the host.
    pub name: String,
    /// Number of such domains; several are called name-1, name-2, ...
    #[serde(default)]
    #[schemars(range(min = limits::DOMAINS.least, max = limits::DOMAINS.most))]
    pub count: Option<u32>,
    /// Number of vCPUs.
    #[serde(default = "one")]
    #[schemars(range(min = limits::VCPUS.least, max = limits::VCPUS.most))]
    pub vcpus: u32,
    /// Its part of the CPU time under contention, relative to the other domains.
    #[serde(default = "default_weight")]
    #[schemars(range(min = limits::WEIGHT.least, max = limits::WEIGHT.most))]
    pub weight: u32,
    /// Whether each vCPU has the whole weight for itself, as threads that no control group holds together
    /// (`fair`).
    #[serde(default)]
    pub ungrouped: bool,
    /// The control group that it is in, one of `group` of the host; its weight counts there.
    #[serde(default)]
    pub group: Option<String>,
    /// The most CPU time it may use, in percent of one pCPU; 0: no limit.
    #[serde(default)]
    #[schemars(range(min = limits::CAP_PERCENT.least, max = limits::CAP_PERCENT.most))]
    pub cap_percent: u32,
    /// CPU time of its cap that it may save for later; 0: what the policy says.
    #[serde(default)]
    pub cap_burst: Nanoseconds,
    /// CPU time that its work asks for, in percent of one pCPU, as declared to `load-weight`; 0: not declared.
    #[serde(default)]
    #[schemars(range(min = limits::LOAD_PERCENT.least, max = limits::LOAD_PERCENT.most))]
    pub load_percent: u32,
    /// The pCPUs that it may use: one set for all its vCPUs, or one for each. Empty: all.
    #[serde(default)]
    pub pin: Vec<CpuSet>,
    /// Of those, the pCPUs that it would rather use, as in `pin`. Empty, or none of those: no preference.
    #[serde(default)]
    pub pin_soft: Vec<CpuSet>,
    /// Its vCPUs are none, but tasks of the host itself; see `others` of the host.
    #[serde(default)]
    pub host_tasks: Option<HostTasks>,
    /// The slice it asks for, where a policy heeds that: 1 ns .. 1 s.
    #[serde(default)]
    pub slice: Option<Nanoseconds>,
    /// Its reservation under `sedf`.
    #[serde(default)]
    pub sedf: Option<Reservation>,
    /// The boost credit that it may save under `boost-credit`; without, what the policy says.
    #[serde(default)]
    pub boost: Option<Boost>,
    /// When it starts; before, it is not there.
    #[serde(default)]
    pub start: Nanoseconds,
    /// How long the guest's own scheduler lets a thread run while others wait.
    #[serde(default = "default_guest_slice")]
    pub guest_slice: Nanoseconds,
    /// What the guest's own scheduler takes for the time that a thread ran.
    #[serde(default)]
    pub guest_clock: GuestClock,
    /// How the guest kernel's spin locks are passed on.
    #[serde(default)]
    pub guest_locks: GuestLocks,
    /// What runs in it.
    #[serde(default)]
    pub task: Vec<Task>,
}

fn default_weight() -> u32 {
    Domain::new("", 1).weight
}

fn default_guest_slice() -> Nanoseconds {
    Domain::new("", 1).guest_slice
}

impl DomainEntry {
    /// The domains that it stands for.
    pub(crate) fn domains(&self) -> impl Iterator<Item = Domain> {
        (1..=self.count.unwrap_or(1)).map(|number| Domain {
            name: match self.count {
                Some(_) => format!("{}-{number}", self.name),
                None => self.name.clone(),
            },
            vcpus: self.vcpus,
            weight: self.weight,
            ungrouped: self.ungrouped,
            group: self.group.clone(),
            cap_percent: self.cap_percent,
            cap_burst: self.cap_burst,
            load_percent: self.load_percent,
            pin: self.pin.clone(),
            pin_soft: self.pin_soft.clone(),
            host_tasks: self.host_tasks.clone(),
            slice: self.slice,
            sedf: self.sedf.clone(),
            boost: self.boost.clone(),
            start: self.start,
            guest_slice: self.guest_slice,
            guest_clock: self.guest_clock,
            guest_locks: self.guest_locks,
            task: self.task.clone(),
        })
    }
}

/// A policy to compare.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Policy")]
pub struct PolicyEntry {
    /// `DISCIPLINE` or `DISCIPLINE@VINTAGE`, as `steelyard policies` lists them.
    pub policy: String,
    /// What results call it; without one its name and vintage.
    #[serde(default)]
    pub label: Option<String>,
    /// Parameters that differ from the vintage's.
    #[serde(default)]
    pub set: BTreeMap<String, ParameterValue>,
}

/// A number, or the name of a choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterValue(pub String);

impl<'de> Deserialize<'de> for ParameterValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = ParameterValue;
            fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
                formatter.write_str("a number or the name of a choice")
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<ParameterValue, E> {
                Ok(ParameterValue(value.to_string()))
            }
            fn visit_str<E: de::Error>(self, value: &str) -> Result<ParameterValue, E> {
                Ok(ParameterValue(value.to_owned()))
            }
        }
        // Only a deserializer that describes itself, as TOML's does, tells numbers from strings.
        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for ParameterValue {
    fn schema_name() -> Cow<'static, str> {
        "ParameterValue".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["integer", "string"], "minimum": 0 })
    }
}

/// The JSON Schema of scenario files, for editors.
pub fn schema() -> String {
    let schema = schemars::schema_for!(Scenario);
    format!("{:#}\n", schema.as_value())
}
