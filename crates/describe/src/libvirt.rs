// SPDX-License-Identifier: GPL-2.0-only
//! What libvirt says of its domains, as far as it decides who runs: no disks, no networks, no passwords.

use roxmltree::{Document, ParsingOptions};
use steelyard_apply::{KnobError, run};
use steelyard_boundary::text::is_harmful;

/// Domains that are asked for at most.
const MOST_DOMAINS: usize = 4096;
/// libvirt's own documents have some hundred.
const MOST_NODES: u32 = 1 << 18;
/// Elements that are kept, of those directly below `<domain>`.
const KEPT: [&str; 10] = [
    "name",
    "vcpu",
    "vcpus",
    "iothreads",
    "iothreadids",
    "cputune",
    "numatune",
    "resource",
    "features",
    "cpu",
];

/// Name and description of each domain. Nothing where there is no libvirt.
pub fn domains() -> Result<Vec<(String, String)>, KnobError> {
    let listed = match virsh(&["list", "--all", "--name"]) {
        Ok(listed) => listed,
        Err(error) if error.is_missing_program() => return Ok(vec![]),
        Err(error) => return Err(error),
    };
    let names = listed.lines().map(str::trim);
    let names = names.filter(|name| {
        // What virsh would take for an option or a number is no name to ask for.
        !name.is_empty()
            && !name.starts_with('-')
            && !name.contains(is_harmful)
            && !name.bytes().all(|byte| byte.is_ascii_digit())
    });
    let mut found = vec![];
    for name in names.take(MOST_DOMAINS) {
        // Who was taken away meanwhile is not there.
        let Ok(xml) = virsh(&["dumpxml", name]) else { continue };
        if let Some(xml) = kept(&xml) {
            found.push((name.to_owned(), xml));
        }
    }
    Ok(found)
}

/// The description with those elements alone; none if it is no such description.
fn kept(xml: &str) -> Option<String> {
    let options = ParsingOptions { nodes_limit: MOST_NODES, ..ParsingOptions::default() };
    let document = Document::parse_with_options(xml, options).ok()?;
    let root = document.root_element();
    let mut text = "<domain>\n".to_owned();
    for node in root.children().filter(|node| KEPT.iter().any(|name| node.has_tag_name(*name))) {
        text += &format!("  {}\n", &xml[node.range()]);
    }
    root.has_tag_name("domain").then_some(text + "</domain>\n")
}

fn virsh(arguments: &[&str]) -> Result<String, KnobError> {
    let all = [&["--connect", "qemu:///system", "--quiet", "--readonly"], arguments].concat();
    run("virsh", &all, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_decides_who_runs_is_kept() {
        let xml = "<domain type='kvm' id='3'>\n<name>web</name>\n<vcpu>2</vcpu>\n\
                   <cputune><shares>200</shares></cputune>\n<devices><graphics passwd='secret'/></devices>\n\
                   <metadata><cputune>no</cputune></metadata></domain>";
        assert_eq!(
            kept(xml).as_deref(),
            Some(
                "<domain>\n  <name>web</name>\n  <vcpu>2</vcpu>\n  <cputune><shares>200</shares></cputune>\n\
                 </domain>\n"
            )
        );
        assert_eq!(kept("<network/>"), None);
        assert_eq!(kept("no XML"), None);
    }
}
