// SPDX-License-Identifier: GPL-2.0-only
//! The contents of `results.json`. A change of meaning, or a field less, is a new
//! [`Results::VERSION`]; a field more is not.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};
use steelyard_policy::Policy;
use steelyard_simulator::config::{Domain, Host, Setup};
use steelyard_simulator::measure::{Run, Trace};
use steelyard_simulator::workload::Workload;

use crate::replay_error::ReplayError;

/// Everything that one command compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// [`Results::FORMAT`].
    pub format: String,
    /// [`Results::VERSION`].
    pub version: u32,
    /// Version of Steelyard that wrote it.
    pub steelyard: String,
    /// One item per input.
    pub comparisons: Vec<Comparison>,
}

/// One input under several policies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Name of the scenario, unlike that of any other comparison.
    pub scenario: String,
    /// Name of the file it was read from, without directories.
    pub source: String,
    /// Time to simulate.
    pub length_ns: u64,
    /// The seeds; each policy ran once with each.
    pub seeds: Vec<u64>,
    /// The machine.
    pub host: HostSummary,
    /// Its domains.
    pub domains: Vec<DomainSummary>,
    /// What was compared, in the order in which it is to be shown.
    pub policies: Vec<PolicySummary>,
    /// Of a recording: what it does not say, and what is taken instead, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assumed: Vec<String>,
    /// Of a recording: what a description of its host says, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub described: Vec<String>,
    /// Of a recording: how far replays are off, where it is known what scheduled the recorded host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_error: Option<ReplayError>,
    /// One item per policy and seed, by policy first; of a recorded host only one.
    pub runs: Vec<Run>,
}

/// The machine of a [`Comparison`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostSummary {
    /// Number of pCPUs: the product of sockets, cores and threads.
    pub pcpus: u32,
    /// Sockets.
    pub sockets: u32,
    /// Cores of each socket.
    pub cores_per_socket: u32,
    /// NUMA nodes of each socket; not told if it is one.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub nodes_per_socket: u32,
    /// Last-level caches of each node; not told if it is one.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub caches_per_node: u32,
    /// Hardware threads of each core.
    pub threads_per_core: u32,
}

fn one() -> u32 {
    1
}

/// Serde wants a reference.
fn is_one(number: &u32) -> bool {
    *number == 1
}

/// A domain of a [`Comparison`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainSummary {
    /// Name.
    pub name: String,
    /// Index of the first domain that differs in nothing but its name; its own if there is none
    /// before it. Such domains are shown as one.
    pub like: usize,
    /// It is what ran on a recorded host beside its virtual machines.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rest_of_host: bool,
}

/// A policy, or the kernel of a recorded host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicySummary {
    /// How it is called in the runs.
    pub label: String,
    /// Discipline and vintage, such as `credit@xen-4.5`; none for a recorded host.
    pub policy: Option<String>,
    /// Every parameter of the discipline.
    pub parameters: Vec<ParameterValue>,
    /// What whoever compares it should know of its parts.
    #[serde(default)]
    pub known: Vec<Known>,
}

/// What is known of a part of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// Discipline and vintage, or governor.
    pub of: String,
    /// How it behaves, by its source or publication.
    pub text: String,
}

/// A parameter and its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParameterValue {
    /// Name.
    pub name: String,
    /// As a person writes it: a number, or the name of a choice.
    pub value: String,
    /// Unit, or the choices separated by `|`.
    pub unit: String,
}

/// Who ran where in one run of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunTrace {
    /// Index of the comparison.
    pub comparison: usize,
    /// Label of the policy.
    pub policy: String,
    /// Seed of the run.
    pub seed: u64,
    /// The segments.
    pub trace: Trace,
}

impl Results {
    /// Value of `format`.
    pub const FORMAT: &str = "steelyard-results";
    /// Value of `version`.
    pub const VERSION: u32 = 2;

    /// Makes names of scenarios unique where inputs have the same.
    pub fn new(mut comparisons: Vec<Comparison>) -> Self {
        for index in 1..comparisons.len() {
            let (before, rest) = comparisons.split_at_mut(index);
            let name = rest[0].scenario.clone();
            let mut number = 1;
            while before.iter().any(|comparison| comparison.scenario == rest[0].scenario) {
                number += 1;
                rest[0].scenario = format!("{name} ({number})");
            }
        }
        Results {
            format: Self::FORMAT.to_owned(),
            version: Self::VERSION,
            steelyard: env!("CARGO_PKG_VERSION").to_owned(),
            comparisons,
        }
    }

    /// Writes `results.json`.
    ///
    /// # Errors
    /// Those of `writer`.
    pub fn write_json(&self, mut writer: impl Write) -> io::Result<()> {
        serde_json::to_writer(&mut writer, self)?;
        writer.write_all(b"\n")
    }

    /// Reads what [`Results::write_json`] wrote.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read_json(mut reader: impl Read) -> Result<Self, ReadError> {
        #[derive(Deserialize)]
        struct Head {
            format: String,
            version: u32,
        }
        let mut text = String::new();
        reader.read_to_string(&mut text).map_err(ReadError::Io)?;
        let head: Head = serde_json::from_str(&text).map_err(ReadError::Json)?;
        if head.format != Self::FORMAT {
            return Err(ReadError::Format(head.format));
        }
        if head.version != Self::VERSION {
            return Err(ReadError::Version(head.version));
        }
        serde_json::from_str(&text).map_err(ReadError::Json)
    }
}

impl Comparison {
    /// An input under which nothing has run yet: add to `runs`.
    pub fn new(
        scenario: impl Into<String>,
        source: impl Into<String>,
        length_ns: u64,
        seeds: Vec<u64>,
        setup: &Setup,
        policies: Vec<PolicySummary>,
    ) -> Self {
        Comparison {
            scenario: scenario.into(),
            source: source.into(),
            length_ns,
            seeds,
            host: HostSummary::from(&setup.host),
            domains: summaries(&setup.domains),
            policies,
            assumed: vec![],
            described: vec![],
            replay_error: None,
            runs: vec![],
        }
    }

    /// The runs under one policy, one per seed.
    pub fn runs_of<'a>(&'a self, label: &'a str) -> impl Iterator<Item = &'a Run> + Clone {
        self.runs.iter().filter(move |run| run.policy == label)
    }
}

/// Who is no process of its own in a recording is numbered from here: Linux has no more (PID_MAX_LIMIT).
pub const REST: u32 = 1 << 22;

fn summaries(domains: &[Domain]) -> Vec<DomainSummary> {
    let mut first = HashMap::new();
    let alike = |(index, domain): (usize, &Domain)| {
        let nameless = Domain { name: String::new(), ..domain.clone() };
        // Domains are read from text, and so can be written as such, with all that makes them up.
        let settings = serde_json::to_string(&nameless).unwrap_or_else(|_| domain.name.clone());
        let like = *first.entry(settings).or_insert(index);
        let rest_of_host = domain.task.iter().any(
            |task| matches!(&task.workload, Workload::Replay(replay) if replay.process >= REST),
        );
        DomainSummary { name: domain.name.clone(), like, rest_of_host }
    };
    domains.iter().enumerate().map(alike).collect()
}

impl From<&Host> for HostSummary {
    fn from(host: &Host) -> Self {
        HostSummary {
            pcpus: host.pcpus(),
            sockets: host.sockets,
            cores_per_socket: host.cores_per_socket,
            nodes_per_socket: host.nodes_per_socket,
            caches_per_node: host.caches_per_node,
            threads_per_core: host.threads_per_core,
        }
    }
}

impl PolicySummary {
    /// Label of what a recorded host did.
    pub const RECORDED: &str = "recorded";

    /// A policy with all its parameters.
    pub fn new(label: impl Into<String>, policy: &Policy) -> Self {
        PolicySummary {
            label: label.into(),
            policy: Some(policy.to_string()),
            parameters: policy
                .values()
                .map(|(name, parameter, value)| ParameterValue {
                    name,
                    value: parameter.format(value),
                    unit: parameter.unit.to_owned(),
                })
                .collect(),
            known: policy.known().map(|(of, text)| Known { of, text: text.to_owned() }).collect(),
        }
    }

    /// The kernel of a recorded host.
    pub fn recorded() -> Self {
        PolicySummary {
            label: Self::RECORDED.to_owned(),
            policy: None,
            parameters: vec![],
            known: vec![],
        }
    }
}

/// Why a file could not be read as results.
#[derive(Debug)]
pub enum ReadError {
    /// It could not be read.
    Io(io::Error),
    /// It is not JSON, or fields are missing.
    Json(serde_json::Error),
    /// It is something else.
    Format(String),
    /// It is of another version.
    Version(u32),
}

impl fmt::Display for ReadError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Io(error) => error.fmt(formatter),
            ReadError::Json(error) => write!(formatter, "not the results of a comparison: {error}"),
            ReadError::Format(format) => write!(
                formatter,
                "`format` is `{format}`, where results of a comparison say `{}`",
                Results::FORMAT
            ),
            ReadError::Version(version) => write!(
                formatter,
                "results of version {version}; this Steelyard reads version {}",
                Results::VERSION
            ),
        }
    }
}

impl std::error::Error for ReadError {}
