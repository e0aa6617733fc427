// SPDX-License-Identifier: GPL-2.0-only
//! Virtual machines of XenServer and XCP-ng, as `xe vm-param-list` and `xe vm-list params=all` print them: a line
//! for each parameter, `NAME (ACCESS): VALUE`, an empty line between two machines. Maps are `KEY: VALUE; KEY: VALUE`.
//! Old parameters have `[DEPRECATED]` before the colon, and values are printed with the line breaks that are in them
//! (xapi: ocaml/xapi-cli-server/cli_operations.ml, cli_printer.ml).
//! Meaning of `VCPUs-params`: xapi, "VCPU settings"; weight, cap and mask as those of Xen's schedulers.

use std::ops::Range;

use steelyard_simulator::limits;

use crate::diagnostic::{Diagnostic, Source};
use crate::import::pins::Pins;
use crate::import::{VirtualMachine, whole_number};

/// Whether a file begins as such a list does.
pub(crate) fn looks_like(head: &[u8]) -> bool {
    head.trim_ascii_start().starts_with(b"uuid ( R")
}

/// A parameter, its value and where that stands.
struct Parameter<'a> {
    name: &'a str,
    value: &'a str,
    bytes: Range<usize>,
}

/// Parameters that are texts of somebody's: they may have several lines.
const TEXTS: [&str; 4] = ["name-description", "recommendations", "xenstore-data", "other-config"];

/// Reads all machines but templates and snapshots, which do not run.
pub(crate) fn parse(source: &Source) -> Result<Vec<VirtualMachine>, Diagnostic> {
    let mut machines = vec![];
    let mut parameters: Vec<Parameter> = vec![];
    let mut at = 0;
    for line in source.text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let Some((name, value)) = split(line) else {
            let goes_on = parameters.last().is_some_and(|last| TEXTS.contains(&last.name));
            if !goes_on && !line.trim().is_empty() {
                let end = start + line.trim_end().len();
                let message = "no parameter of a virtual machine: `NAME ( RW): VALUE` is expected";
                return Err(source.error(start..end, message));
            }
            continue;
        };
        // Each begins with its number.
        if name == "uuid" {
            machines.extend(machine(source, &parameters)?);
            parameters.clear();
        }
        let offset = start + (value.as_ptr() as usize - line.as_ptr() as usize);
        parameters.push(Parameter { name, value, bytes: offset..offset + value.len() });
    }
    machines.extend(machine(source, &parameters)?);
    if machines.is_empty() {
        return Err(source.error(0..0, "there is no virtual machine in it, but templates"));
    }
    Ok(machines)
}

/// `NAME (ACCESS): VALUE`, where the access is two or three letters and a blank.
fn split(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.trim_end().split_once('(')?;
    let (access, value) = rest.split_once(')')?;
    let letters = access.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b' ');
    let value = value.trim_start();
    let value = value.strip_prefix("[DEPRECATED]").unwrap_or(value);
    let value = value.trim_start().strip_prefix(':')?.trim();
    let name = name.trim();
    (letters && access.len() == 3 && !name.is_empty()).then_some((name, value))
}

fn machine(
    source: &Source,
    parameters: &[Parameter],
) -> Result<Option<VirtualMachine>, Diagnostic> {
    let find = |name: &str| parameters.iter().find(|parameter| parameter.name == name);
    let is = |name: &str| find(name).is_some_and(|parameter| parameter.value == "true");
    let Some(first) = parameters.first() else { return Ok(None) };
    if is("is-a-template") || is("is-a-snapshot") {
        return Ok(None);
    }
    let missing = |what: &str| {
        let message = format!("this virtual machine has no `{what}`: print all its parameters");
        source.error(first.bytes.clone(), message)
    };
    let name = find("name-label").ok_or_else(|| missing("name-label"))?;
    if name.value.is_empty() {
        return Err(source.error(name.bytes.clone(), "this name is empty"));
    }
    let vcpus = |name: &str| {
        find(name).map(|parameter| {
            let Parameter { value, bytes, .. } = parameter;
            whole_number(source, bytes.clone(), value, "number of vCPUs", 1..=1024)
        })
    };
    let most = vcpus("VCPUs-max").transpose()?;
    let started = vcpus("VCPUs-at-startup").transpose()?;
    let vcpus = started.or(most).ok_or_else(|| missing("VCPUs-max"))?;
    let mut machine = VirtualMachine::new(name.value, vcpus as u32);
    if most.is_some_and(|most| most > vcpus) {
        machine.notes.push("Of its vCPUs those that are there at the start.".to_owned());
    }
    if find("power-state").is_some_and(|state| state.value != "running") {
        machine.notes.push("It did not run when this was printed.".to_owned());
    }
    if let Some(settings) = find("VCPUs-params") {
        read_settings(source, settings, &mut machine)?;
    }
    for (name, what) in [
        ("affinity", "the host on which it is to be (`affinity`)"),
        ("vgpu-uuids", "its virtual GPUs (`vgpu-uuids`)"),
    ] {
        let told = find(name).is_some_and(|it| !matches!(it.value, "" | "<not in database>"));
        machine.left_out.extend(told.then(|| what.to_owned()));
    }
    if find("platform").is_some_and(|platform| platform.value.contains("cores-per-socket")) {
        let what = "the sockets and cores that it sees (`cores-per-socket`)";
        machine.left_out.push(what.to_owned());
    }
    Ok(Some(machine))
}

/// `weight: 512; cap: 80; mask: 1,2,3`
fn read_settings(
    source: &Source,
    settings: &Parameter,
    machine: &mut VirtualMachine,
) -> Result<(), Diagnostic> {
    for setting in settings.value.split(';').filter(|setting| !setting.trim().is_empty()) {
        let offset = setting.as_ptr() as usize - settings.value.as_ptr() as usize;
        let start = settings.bytes.start + offset;
        let bytes = start..start + setting.len();
        let Some((key, value)) = setting.split_once(':') else {
            return Err(source.error(bytes, "`KEY: VALUE` is expected"));
        };
        let number = |what, limits::Range { least, most, .. }| {
            let range = least as i64..=most as i64;
            whole_number(source, bytes.clone(), value, what, range)
        };
        match key.trim() {
            "weight" => machine.weight = number("weight", limits::WEIGHT)? as u32,
            "cap" => machine.cap_percent = number("cap in percent", limits::CAP_PERCENT)? as u32,
            "mask" => {
                let pins = Pins::parse(value.trim())
                    .map_err(|problem| source.error(bytes.clone(), problem))?;
                machine.pin = vec![Some(pins); machine.vcpus as usize];
            }
            other => machine.left_out.push(format!("`{other}` of `VCPUs-params`")),
        }
    }
    Ok(())
}
