// SPDX-License-Identifier: GPL-2.0-only
//! Xen's domains are changed through `xl`, until they end.

use serde::{Deserialize, Serialize};
use steelyard_simulator::units::CpuSet;

use crate::knob::KnobError;
use crate::libvirt::is_name;
use crate::program::{line, run};

/// A setting of a domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// Its number, which no other domain has until the host is started anew.
    pub id: u32,
    /// Which of its settings.
    pub parameter: Parameter,
}

/// Those that are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Parameter {
    /// Weight under this scheduler.
    Weight(Scheduler),
    /// Cap in percent of a pCPU; 0: none.
    Cap(Scheduler),
    /// The pCPUs that a vCPU may use.
    Pin(u32),
}

/// Those with weights and caps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scheduler {
    /// Credit2, the usual one.
    Credit2,
    /// Credit.
    Credit,
}

impl Scheduler {
    fn command(self) -> &'static str {
        match self {
            Scheduler::Credit2 => "sched-credit2",
            Scheduler::Credit => "sched-credit",
        }
    }
}

/// As `xl` says that a vCPU may use every pCPU.
const ALL: &str = "all";

/// Every domain's name and number.
///
/// # Errors
/// [`KnobError::Program`].
pub fn domains() -> Result<Vec<(String, u32)>, KnobError> {
    let told = run("xl", &["list"], "")?;
    let domain = |line: &str| {
        // Its name, number, memory, vCPUs, state and time.
        let words: Vec<_> = line.split_whitespace().collect();
        let [name, id, ..] = words.as_slice() else { return None };
        Some(((*name).to_owned(), id.parse().ok()?))
    };
    Ok(told.lines().filter_map(domain).collect())
}

/// The number of the domain of this name, if there is one.
pub fn number(name: &str) -> Result<Option<u32>, KnobError> {
    Ok(domains()?.into_iter().find_map(|(found, id)| (found == name).then_some(id)))
}

/// The scheduler that a domain has: whichever of the two answers for it.
pub fn scheduler(name: &str) -> Result<Scheduler, KnobError> {
    let answers = |scheduler: &Scheduler| figures(*scheduler, name).is_ok();
    match [Scheduler::Credit2, Scheduler::Credit].into_iter().find(answers) {
        Some(scheduler) => Ok(scheduler),
        None => figures(Scheduler::Credit2, name).map(|_| Scheduler::Credit2),
    }
}

/// The numbers of a domain's vCPUs.
pub fn vcpus(name: &str) -> Result<Vec<u32>, KnobError> {
    Ok(pins(name)?.into_iter().map(|(vcpu, _)| vcpu).collect())
}

/// Weight and cap.
fn figures(scheduler: Scheduler, name: &str) -> Result<(u32, u32), KnobError> {
    let arguments = [scheduler.command(), "-d", name];
    let told = run("xl", &arguments, "")?;
    // Below a headline name, number, weight, cap.
    let found = told.lines().find_map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        let [found, _, weight, cap] = words.as_slice() else { return None };
        (*found == name).then(|| Some((weight.parse().ok()?, cap.parse().ok()?)))?
    });
    found.ok_or_else(|| unclear(&arguments))
}

/// Each vCPU, and where it may run.
fn pins(name: &str) -> Result<Vec<(u32, String)>, KnobError> {
    let arguments = ["vcpu-list", name];
    let told = run("xl", &arguments, "")?;
    let rows = told.lines().filter_map(|line| {
        // Name, number, vCPU, pCPU, state, time, `hard / soft`.
        let (before, _) = line.rsplit_once(" / ")?;
        let words: Vec<_> = before.split_whitespace().collect();
        let [found, _, vcpu, .., hard] = words.as_slice() else { return None };
        let hard = match *hard {
            ALL => ALL.to_owned(),
            list => list.parse::<CpuSet>().ok()?.to_string(),
        };
        (*found == name).then(|| Some((vcpu.parse().ok()?, hard)))?
    });
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() { Err(unclear(&arguments)) } else { Ok(rows) }
}

impl Setting {
    /// Whether it makes sense, with this value.
    pub fn is_sound(&self, value: &str) -> bool {
        is_name(&self.name)
            && match self.parameter {
                Parameter::Pin(_) => value == ALL || value.parse::<CpuSet>().is_ok(),
                _ => value.parse::<u32>().is_ok(),
            }
    }

    /// Its value; none if the domain has ended.
    pub fn read(&self) -> Result<Option<String>, KnobError> {
        if number(&self.name)? != Some(self.id) {
            return Ok(None);
        }
        Ok(match self.parameter {
            Parameter::Weight(scheduler) => Some(figures(scheduler, &self.name)?.0.to_string()),
            Parameter::Cap(scheduler) => Some(figures(scheduler, &self.name)?.1.to_string()),
            Parameter::Pin(vcpu) => {
                pins(&self.name)?.into_iter().find(|(found, _)| *found == vcpu).map(|(_, pin)| pin)
            }
        })
    }

    /// Sets it.
    pub fn write(&self, value: &str) -> Result<(), KnobError> {
        let arguments = self.arguments(value);
        run("xl", &arguments.iter().map(String::as_str).collect::<Vec<_>>(), "").map(drop)
    }

    /// The command that sets it.
    pub fn command(&self, value: &str) -> String {
        let arguments = self.arguments(value);
        line("xl", &arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn arguments(&self, value: &str) -> Vec<String> {
        let of = |scheduler: Scheduler, option| {
            [scheduler.command(), "-d", &self.name, option, value].map(str::to_owned).into()
        };
        match self.parameter {
            Parameter::Weight(scheduler) => of(scheduler, "-w"),
            Parameter::Cap(scheduler) => of(scheduler, "-c"),
            // What is preferred stays.
            Parameter::Pin(vcpu) => {
                let vcpu = vcpu.to_string();
                ["vcpu-pin", &self.name, &vcpu, value, "-"].map(str::to_owned).into()
            }
        }
    }
}

fn unclear(arguments: &[&str]) -> KnobError {
    let reason = "its answer is not understood".to_owned();
    KnobError::Program { missing: false, command: line("xl", arguments), reason }
}
