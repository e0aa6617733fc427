// SPDX-License-Identifier: GPL-2.0-only
//! What libvirt manages is changed through `virsh`, for the VM that runs and for its next start.
//!
//! What is set for the next start is read from the domain's description, not from `virsh schedinfo --config`:
//! that tells 0 where nothing was said, and who set 0 would say something, with which the VM does not start.
//! What was not there before is taken out of the description again (`virsh define`).

use std::fs;
use std::path::Path;

use roxmltree::{Document, Node, ParsingOptions};
use serde::{Deserialize, Serialize};
use steelyard_boundary::text::is_harmful;
use steelyard_simulator::units::CpuSet;

use crate::knob::KnobError;
use crate::program::{line, run};

/// A setting of a domain of libvirt's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// No other domain has it, ever.
    pub uuid: String,
    /// Which of its settings.
    pub parameter: Parameter,
    /// That of its next start, instead of the one in force.
    pub config: bool,
}

/// Those that are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Parameter {
    /// Weight.
    CpuShares,
    /// Period of the quota, in us.
    GlobalPeriod,
    /// CPU time of all its threads in a period, in us; -1: no limit.
    GlobalQuota,
    /// The pCPUs that a vCPU may use.
    Pin(u32),
}

/// What stands for no quota where it is not told as a negative number.
const NO_QUOTA: i64 = 17_592_186_044_415;
/// That a period has if nobody says another.
pub const USUAL_PERIOD_US: &str = "100000";
/// libvirt's own documents have some hundred.
const MOST_NODES: u32 = 1 << 18;

/// What is to be known of a domain before anything is changed.
pub struct Domain {
    pub uuid: String,
    /// It is there when it does not run.
    pub persistent: bool,
}

/// Whether this process is the domain of libvirt's that has this name.
pub fn manages(run: &Path, name: &str, pid: u32) -> bool {
    let file = run.join("libvirt/qemu").join(format!("{name}.pid"));
    let told = (!name.contains('/')).then(|| fs::read_to_string(file).ok()).flatten();
    told.is_some_and(|told| told.trim().parse() == Ok(pid))
}

/// Asks for a domain.
pub fn domain(name: &str) -> Result<Domain, KnobError> {
    let told = virsh(&["dominfo", name], "")?;
    let value = |key: &str| told.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    match value("UUID:") {
        Some(uuid) if is_uuid(uuid) => {
            Ok(Domain { uuid: uuid.to_owned(), persistent: value("Persistent:") == Some("yes") })
        }
        _ => Err(unclear(&["dominfo", name])),
    }
}

impl Parameter {
    fn word(self) -> &'static str {
        match self {
            Parameter::CpuShares => "cpu_shares",
            Parameter::GlobalPeriod => "global_period",
            Parameter::GlobalQuota => "global_quota",
            Parameter::Pin(_) => "vcpupin",
        }
    }

    /// As it is called in a description.
    fn tag(self) -> &'static str {
        match self {
            Parameter::CpuShares => "shares",
            _ => self.word(),
        }
    }

    /// In one of the ways to say it; none if it says nothing.
    fn canonical(self, text: &str) -> Option<String> {
        let text = text.trim();
        Some(match self {
            Parameter::Pin(_) => text.parse::<CpuSet>().ok()?.to_string(),
            Parameter::GlobalQuota => {
                let quota: i128 = text.parse().ok()?;
                if (0..NO_QUOTA.into()).contains(&quota) { quota } else { -1 }.to_string()
            }
            _ => text.parse::<u64>().ok()?.to_string(),
        })
    }
}

impl Setting {
    /// Whether it makes sense, with this value; empty: nothing is said.
    pub fn is_sound(&self, value: &str) -> bool {
        is_name(&self.name)
            && is_uuid(&self.uuid)
            && ((value.is_empty() && self.config)
                || self.parameter.canonical(value).as_deref() == Some(value))
    }

    /// Its value; empty if nothing is said, none if there is no such domain any more.
    pub fn read(&self) -> Result<Option<String>, KnobError> {
        let all: &[&str] = &["list", "--name", "--all"];
        let there = virsh(&all[..if self.config { 3 } else { 2 }], "")?;
        if !there.lines().any(|name| name.trim() == self.name)
            || virsh(&["domuuid", &self.name], "")?.trim() != self.uuid
        {
            return Ok(None);
        }
        if self.config {
            return self.in_description(&self.description()?).map(Some);
        }
        let (arguments, found): (Vec<&str>, _) = match self.parameter {
            Parameter::Pin(vcpu) => {
                let number = vcpu.to_string();
                let arguments = vec!["vcpupin", &self.name, "--live"];
                let told = virsh(&arguments, "")?;
                let row = told.lines().find_map(|line| {
                    let (first, pins) = line.trim().split_once(char::is_whitespace)?;
                    // Older ones write `0: 0-3`.
                    (first.trim_end_matches(':') == number).then(|| pins.trim().to_owned())
                });
                (arguments, row)
            }
            _ => {
                let arguments = vec!["schedinfo", &self.name, "--live"];
                let told = virsh(&arguments, "")?;
                let row = told.lines().find_map(|line| {
                    let (key, value) = line.split_once(':')?;
                    (key.trim() == self.parameter.word()).then(|| value.trim().to_owned())
                });
                (arguments, row)
            }
        };
        let found = found.and_then(|found| self.parameter.canonical(&found));
        found.map(Some).ok_or_else(|| unclear(&arguments))
    }

    /// Sets it.
    pub fn write(&self, value: &str) -> Result<(), KnobError> {
        match value.is_empty() {
            false => {
                let arguments = self.arguments(value);
                virsh(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), "").map(drop)
            }
            true => {
                let text = self.description()?;
                let without = self.without(&text)?;
                virsh(&["define", "/dev/stdin"], &without).map(drop)
            }
        }
    }

    /// The command that sets it.
    pub fn command(&self, value: &str) -> String {
        match value.is_empty() {
            true => format!(
                "{}  # and take <{}> out of <cputune>",
                line("virsh", &["edit", &self.name]),
                self.parameter.tag()
            ),
            false => {
                let arguments = self.arguments(value);
                line("virsh", &arguments.iter().map(String::as_str).collect::<Vec<_>>())
            }
        }
    }

    fn arguments(&self, value: &str) -> Vec<String> {
        let when = if self.config { "--config" } else { "--live" };
        match self.parameter {
            Parameter::Pin(vcpu) => {
                [self.parameter.word(), &self.name, &vcpu.to_string(), value, when]
                    .map(str::to_owned)
                    .into()
            }
            _ => {
                let set = format!("{}={value}", self.parameter.word());
                ["schedinfo", &self.name, when, "--set", &set].map(str::to_owned).into()
            }
        }
    }

    /// As it will be started.
    fn description(&self) -> Result<String, KnobError> {
        virsh(&["dumpxml", "--inactive", "--security-info", &self.name], "")
    }

    fn in_description(&self, text: &str) -> Result<String, KnobError> {
        let document = self.parsed(text)?;
        let Some(element) = self.element(&document) else { return Ok(String::new()) };
        let value = match self.parameter {
            Parameter::Pin(_) => element.attribute("cpuset"),
            _ => element.text(),
        };
        let value = value.and_then(|value| self.parameter.canonical(value));
        value.ok_or_else(|| unclear(&["dumpxml", "--inactive", &self.name]))
    }

    /// The description without the element; all else stays to the byte.
    fn without(&self, text: &str) -> Result<String, KnobError> {
        let document = self.parsed(text)?;
        let Some(element) = self.element(&document) else { return Ok(text.to_owned()) };
        let bytes = element.range();
        Ok([&text[..bytes.start], &text[bytes.end..]].concat())
    }

    fn parsed<'a>(&self, text: &'a str) -> Result<Document<'a>, KnobError> {
        let options = ParsingOptions { nodes_limit: MOST_NODES, ..ParsingOptions::default() };
        Document::parse_with_options(text, options)
            .map_err(|_| unclear(&["dumpxml", "--inactive", &self.name]))
    }

    fn element<'a>(&self, document: &'a Document<'a>) -> Option<Node<'a, 'a>> {
        let tune = document.root_element().children().find(|node| node.has_tag_name("cputune"))?;
        tune.children().find(|node| {
            node.has_tag_name(self.parameter.tag())
                && match self.parameter {
                    Parameter::Pin(vcpu) => {
                        node.attribute("vcpu").is_some_and(|number| number.parse() == Ok(vcpu))
                    }
                    _ => true,
                }
        })
    }
}

/// Whether `virsh` takes it for a name: no option, no number of a running domain.
pub fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('-')
        && !name.contains(is_harmful)
        && !name.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

fn virsh(arguments: &[&str], input: &str) -> Result<String, KnobError> {
    let all = [&["--connect", "qemu:///system", "--quiet"], arguments].concat();
    run("virsh", &all, input)
}

fn unclear(arguments: &[&str]) -> KnobError {
    let reason = "its answer is not understood".to_owned();
    KnobError::Program { missing: false, command: line("virsh", arguments), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    const XML: &str = "<domain type='kvm'>\n  <name>web</name>\n  <cputune>\n    <shares>200</shares>\n    \
                       <vcpupin vcpu='0' cpuset='0-3,^1'/>\n    <vcpupin vcpu='1' cpuset='2'/>\n    \
                       <global_quota>-1</global_quota>\n  </cputune>\n  <metadata><shares>9</shares>\
                       </metadata>\n</domain>\n";

    fn setting(parameter: Parameter) -> Setting {
        let uuid = "c7a5fdbd-edaf-9455-926a-d65c16db1809".to_owned();
        Setting { name: "web".to_owned(), uuid, parameter, config: true }
    }

    #[test]
    fn descriptions_are_read_and_lose_one_element() {
        for (parameter, value, taken) in [
            (Parameter::CpuShares, "200", "<shares>200</shares>"),
            (Parameter::Pin(0), "0,2-3", "<vcpupin vcpu='0' cpuset='0-3,^1'/>"),
            (Parameter::Pin(1), "2", "<vcpupin vcpu='1' cpuset='2'/>"),
            (Parameter::GlobalQuota, "-1", "<global_quota>-1</global_quota>"),
        ] {
            let setting = setting(parameter);
            assert_eq!(setting.in_description(XML).unwrap(), value);
            let without = setting.without(XML).unwrap();
            assert_eq!(without, XML.replace(taken, ""));
            assert_eq!(setting.in_description(&without).unwrap(), "");
        }
        assert_eq!(setting(Parameter::GlobalPeriod).in_description(XML).unwrap(), "");
        assert!(setting(Parameter::CpuShares).in_description("no XML").is_err());
    }

    #[test]
    fn no_limit_is_told_in_one_way() {
        let quota = |text| Parameter::GlobalQuota.canonical(text);
        for text in ["-1", "17592186044415", "18446744073709551", "18446744073709551615"] {
            assert_eq!(quota(text).as_deref(), Some("-1"), "{text}");
        }
        assert_eq!(quota(" 50000").as_deref(), Some("50000"));
        assert_eq!(quota("x"), None);
    }
}
