// SPDX-License-Identifier: GPL-2.0-only
//! libvirt's domain XML: name, `vcpu`, and of `cputune` shares, quota, period and pins.
//! Meaning of the elements: libvirt, "Domain XML format", CPU Allocation and CPU Tuning.

use std::ops::Range;

use roxmltree::{Document, Node, ParsingOptions};
use steelyard_simulator::units::CpuSet;

use crate::diagnostic::{Diagnostic, Source};
use crate::import::pins::Pins;
use crate::import::{VirtualMachine, clamp_weight, whole_number};
use crate::settings::DomainSettings;

/// cpu.shares of a domain that says nothing, under cgroup v1.
const DEFAULT_SHARES: u64 = 1024;
const DEFAULT_PERIOD_US: i64 = 100_000;

/// The parser compares each attribute of an element with all others, and each element has its list of
/// namespaces: both are bounded beforehand, as is what a document takes. Elements of libvirt's have at most
/// twenty attributes, and no document of its more than two namespaces.
const MOST_ATTRIBUTES: usize = 256;
const MOST_NAMESPACES: usize = 64;
const MOST_NODES: u32 = 1 << 18;

/// Refuses what would take the parser for ever.
fn check_size(source: &Source) -> Result<(), Diagnostic> {
    let text = &source.text;
    if let Some((at, found)) = text.match_indices("xmlns").nth(MOST_NAMESPACES) {
        let message = format!("more than {MOST_NAMESPACES} namespaces: no document of libvirt's");
        return Err(source.error(at..at + found.len(), message));
    }
    let mut at = 0;
    while let Some(found) = text[at..].find('<') {
        let start = at + found;
        let tag = &text[start..];
        // What is no element ends where it says, whatever is in it.
        let known = [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>")];
        let length = match known.into_iter().find(|(begin, _)| tag.starts_with(begin)) {
            Some((_, end)) => tag.find(end),
            None => element(tag).map_err(|end| {
                let message = format!("more than {MOST_ATTRIBUTES} attributes in an element");
                source.error(start + end..start + end + 1, message)
            })?,
        };
        // The parser says what has no end.
        let Some(length) = length else { break };
        at = start + length;
    }
    Ok(())
}

/// The length of the element's tag at the beginning of this, none if it has no end; where it has too many
/// attributes.
fn element(tag: &str) -> Result<Option<usize>, usize> {
    let (mut quote, mut attributes) = (None, 0);
    for (at, byte) in tag.bytes().enumerate() {
        match (quote, byte) {
            (Some(open), _) if open == byte => quote = None,
            (Some(_), _) => {}
            (None, b'\'' | b'"') => quote = Some(byte),
            (None, b'=') if attributes == MOST_ATTRIBUTES => return Err(at),
            (None, b'=') => attributes += 1,
            (None, b'>') => return Ok(Some(at)),
            (None, _) => {}
        }
    }
    Ok(None)
}

/// The namespace of what the metadata of a domain say to Steelyard.
const SETTINGS: &str = "urn:steelyard:settings";

/// What a domain's metadata ask for: the attributes of `<settings xmlns="urn:steelyard:settings">`, each by the name of
/// the setting. The domain may be within `<domstatus>`, as libvirt has those that run below `/run/libvirt/qemu`.
///
/// # Errors
/// This is no domain of libvirt's, or asks for what cannot be had.
pub fn libvirt_settings(source: &Source) -> Result<DomainSettings, Diagnostic> {
    let document = document(source)?;
    let root = document.root_element();
    let inner = root.has_tag_name("domstatus").then(|| child(root, "domain")).flatten();
    settings(source, inner.unwrap_or(root))
}

fn settings(source: &Source, domain: Node<'_, '_>) -> Result<DomainSettings, Diagnostic> {
    let mut asked = DomainSettings::default();
    let metadata = child(domain, "metadata");
    let own = |node: &Node| node.has_tag_name((SETTINGS, "settings"));
    let Some(element) = metadata.and_then(|metadata| metadata.children().find(own)) else {
        return Ok(asked);
    };
    for attribute in element.attributes() {
        let set = asked.set(attribute.name(), attribute.value());
        set.map_err(|why| source.error(attribute.range(), why))?;
    }
    asked.check().map_err(|why| source.error(element.range(), why))?;
    Ok(asked)
}

fn document(source: &Source) -> Result<Document<'_>, Diagnostic> {
    check_size(source)?;
    let options = ParsingOptions { nodes_limit: MOST_NODES, ..ParsingOptions::default() };
    Document::parse_with_options(&source.text, options).map_err(|error| {
        let at = error.pos();
        let line_start: usize =
            source.text.split_inclusive('\n').take(at.row as usize - 1).map(str::len).sum();
        let before: usize =
            source.text[line_start..].chars().take(at.col as usize - 1).map(char::len_utf8).sum();
        let start = line_start + before;
        source.error(start..start + 1, format!("this is no XML: {error}"))
    })
}

/// Reads one domain.
pub(crate) fn parse(source: &Source) -> Result<VirtualMachine, Diagnostic> {
    let document = document(source)?;
    let root = document.root_element();
    if !root.has_tag_name("domain") {
        let name = root.tag_name().name();
        let start = root.range().start;
        let message = format!("`<{name}>` is no libvirt domain: `<domain>` is expected");
        return Err(source.error(start..start + name.len() + 1, message));
    }
    let missing = |key: &str| {
        let start = root.range().start;
        source.error(start..start + 7, format!("this domain has no `<{key}>`"))
    };
    let name = child(root, "name").ok_or_else(|| missing("name"))?;
    let mut notes = vec![];
    let (mut vcpus, mut all_pinned) = (1, None);
    if let Some(vcpu) = child(root, "vcpu") {
        vcpus = content(source, vcpu, "number of vCPUs", 1..=1024)?;
        if vcpu.has_attribute("current") {
            vcpus = attribute(source, vcpu, "current", "number of vCPUs", 1..=1024)?;
            notes.push("Of its vCPUs those that are there at the start (`current`).".to_owned());
        }
        all_pinned = cpuset(source, vcpu)?;
    }
    let name_told = name.text().unwrap_or_default().trim();
    let mut machine = VirtualMachine {
        pin: vec![all_pinned; vcpus as usize],
        notes,
        left_out: left_out(root),
        asked: settings(source, root)?,
        ..VirtualMachine::new(name_told, vcpus as u32)
    };
    if machine.name.is_empty() {
        return Err(source.error(name.range(), "this name is empty"));
    }
    if let Some(tune) = child(root, "cputune") {
        read_tuning(source, tune, &mut machine)?;
    }
    Ok(machine)
}

/// What decides who runs, and is not simulated: below `cputune` if there is no other place, real time first.
const LEFT_OUT: [(&[&str], &str); 17] = [
    (&["cputune", "vcpusched"], "real time: its vCPUs run before all that is not"),
    (&["cputune", "emulatorsched"], "real time of its emulator"),
    (&["cputune", "iothreadsched"], "real time of its input and output"),
    (&["features", "kvm", "hint-dedicated"], "that it is told to have pCPUs of its own"),
    (&["cputune", "emulatorpin"], "where its emulator runs"),
    (&["cputune", "iothreadpin"], "where its input and output runs"),
    (&["iothreads"], "threads for its input and output"),
    (&["cputune", "emulator_quota"], "a cap of its emulator"),
    (&["cputune", "emulator_period"], "the period of its emulator's cap"),
    (&["cputune", "iothread_quota"], "a cap of its input and output"),
    (&["cputune", "iothread_period"], "the period of that cap"),
    (&["cputune", "cachetune"], "its part of caches"),
    (&["cputune", "memorytune"], "its part of the memory's bandwidth"),
    (&["numatune"], "where its memory is"),
    (&["cpu", "numa"], "the NUMA nodes that it sees"),
    (&["cpu", "topology"], "the sockets, cores and threads that it sees"),
    (&["resource"], "the control group that it shares with others (`partition`)"),
];

fn left_out(root: Node<'_, '_>) -> Vec<String> {
    let told = |(path, what): &(&[&str], &str)| {
        let mut nodes = vec![root];
        for name in *path {
            nodes = nodes
                .iter()
                .flat_map(|node| node.children().filter(|child| child.has_tag_name(*name)))
                .collect();
        }
        let node = nodes.iter().find(|node| node.attribute("state") != Some("off"))?;
        let element = path.last().unwrap_or(&"");
        let how = ["scheduler", "priority", "vcpus"]
            .iter()
            .filter_map(|name| Some(format!(" {name}={}", node.attribute(*name)?)));
        Some(format!("{what} (`{element}`{})", how.collect::<String>()))
    };
    let mut all: Vec<String> = LEFT_OUT.iter().filter_map(told).collect();
    if child(root, "vcpu").is_some_and(|vcpu| vcpu.attribute("placement") == Some("auto")) {
        all.push("that numad says where it runs (`placement`)".to_owned());
    }
    all
}

fn read_tuning(
    source: &Source,
    tune: Node<'_, '_>,
    machine: &mut VirtualMachine,
) -> Result<(), Diagnostic> {
    if let Some(element) = child(tune, "shares") {
        let shares = content(source, element, "shares", 1..=262_144)? as u64;
        machine.notes.push(format!(
            "shares {shares} of {DEFAULT_SHARES}, the default under cgroup v1, are weight {} of 256. \
             Under cgroup v2 the default is 100: then take {}.",
            shares * 256 / DEFAULT_SHARES,
            shares * 256 / 100
        ));
        machine.weight = clamp_weight(shares * 256 / DEFAULT_SHARES, &mut machine.notes);
    }
    // <quota> limits each vCPU, <global_quota> the whole domain; negative is no limit.
    let mut caps = vec![];
    for (prefix, vcpus) in [("", machine.vcpus), ("global_", 1)] {
        let us = |key: &str, default: i64, range| match child(tune, &format!("{prefix}{key}")) {
            Some(element) => content(source, element, "time in microseconds", range),
            None => Ok(default),
        };
        let period = us("period", DEFAULT_PERIOD_US, 1_000..=1_000_000)?;
        let quota = us("quota", 0, -1..=17_592_186_044_415)?;
        if quota > 0 {
            let cap = (quota as u64 * 100 * u64::from(vcpus)).div_ceil(period as u64);
            caps.push(cap);
            machine.notes.push(format!(
                "{prefix}quota {quota} of {period} us for {vcpus} x 100 % is a cap of {cap} %."
            ));
        }
    }
    // More than all vCPUs can use is no cap.
    let usable = 100 * u64::from(machine.vcpus);
    if let Some(cap) = caps.into_iter().min().filter(|&cap| cap < usable) {
        machine.cap_percent = cap as u32;
    }
    for pin in tune.children().filter(|node| node.has_tag_name("vcpupin")) {
        let vcpu = attribute(source, pin, "vcpu", "number of a vCPU", 0..=1023)? as usize;
        if pin.attribute("cpuset").is_none() {
            return Err(source.error(pin.range(), "this `<vcpupin>` has no `cpuset`"));
        }
        let set = cpuset(source, pin)?;
        // libvirt allows pins of vCPUs that are not there yet.
        if let Some(slot) = machine.pin.get_mut(vcpu) {
            *slot = set;
        }
    }
    Ok(())
}

fn child<'a, 'input>(node: Node<'a, 'input>, name: &str) -> Option<Node<'a, 'input>> {
    node.children().find(|child| child.has_tag_name(name))
}

fn content(
    source: &Source,
    node: Node<'_, '_>,
    what: &str,
    range: std::ops::RangeInclusive<i64>,
) -> Result<i64, Diagnostic> {
    let bytes = node.first_child().map_or(node.range(), |text| text.range());
    let padding = source.text[bytes.clone()].len() - source.text[bytes.clone()].trim_start().len();
    let text = node.text().unwrap_or_default();
    whole_number(source, bytes.start + padding..bytes.end, text, what, range)
}

fn attribute(
    source: &Source,
    node: Node<'_, '_>,
    name: &str,
    what: &str,
    range: std::ops::RangeInclusive<i64>,
) -> Result<i64, Diagnostic> {
    match node.attribute_node(name) {
        Some(attribute) => {
            whole_number(source, attribute.range_value(), attribute.value(), what, range)
        }
        None => {
            let tag = node.tag_name().name();
            Err(source.error(node.range(), format!("this `<{tag}>` has no `{name}`")))
        }
    }
}

fn cpuset(source: &Source, node: Node<'_, '_>) -> Result<Option<Pins>, Diagnostic> {
    let Some(attribute) = node.attribute_node("cpuset") else { return Ok(None) };
    let bytes: Range<usize> = attribute.range_value();
    let set: Result<CpuSet, String> = attribute.value().parse();
    set.map(|set| Some(set.into())).map_err(|problem| source.error(bytes, problem))
}
