// SPDX-License-Identifier: GPL-2.0-only
//! Descriptions of virtual machines by libvirt, xl and xapi: what can be imported can be loaded.

use std::fmt::Write as _;
use std::io::Cursor;
use std::path::Path;

use arbitrary::{Arbitrary, Unstructured};
use steelyard_scenario::{HostDescription, Options, Source, import_from, load_text};

use crate::values::{Number, Word};

fn import(name: &str, bytes: &[u8]) {
    match import_from(Path::new(name), Cursor::new(bytes)) {
        Ok(text) => {
            if let Err(error) = load_text("imported.toml", &text, &Options::default()) {
                panic!("{error}\n{text}");
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Any bytes as libvirt's domain XML.
pub fn libvirt(bytes: &[u8]) {
    import("fuzz.xml", bytes);
}

/// Any bytes as Xen's xl.cfg.
pub fn xl(bytes: &[u8]) {
    import("fuzz.cfg", bytes);
}

/// Any bytes as the parameters that `xe` prints, and as what `VCPUs-params` has.
pub fn xapi(bytes: &[u8]) {
    import("fuzz.txt", &[b"uuid ( RO): 1\n", bytes].concat());
    let settings = [
        &b"uuid ( RO): 1\nname-label ( RW): a\nVCPUs-max ( RW): 2\nVCPUs-params (MRW): "[..],
        bytes,
    ];
    import("fuzz.txt", &settings.concat());
}

/// Any bytes as what `steelyard describe` writes: what can be read is written as the same, and can be imported.
pub fn host(bytes: &[u8]) {
    let text = [&b"steelyard_host = 1\n"[..], bytes].concat();
    import("fuzz.host.toml", &text);
    let Ok(text) = String::from_utf8(text) else { return };
    let Ok(host) = HostDescription::parse(&Source::new("fuzz.host.toml", text)) else { return };
    let written = host.text().expect("what was read can be written");
    let again = HostDescription::parse(&Source::new("again.host.toml", written));
    assert_eq!(again.expect("what was written can be read"), host);
}

/// A value: mostly one that fits.
#[derive(Arbitrary, Debug)]
enum Content {
    Number(Number),
    Time(u32),
    Set(u8, u8),
    Name(Word),
}

impl Content {
    fn text(&self) -> String {
        match self {
            Content::Number(number) => number.0.to_string(),
            Content::Time(us) => us.to_string(),
            Content::Set(first, more) => {
                let kind = SETS[usize::from(*more) % SETS.len()];
                format!("{kind}{first}-{}", u32::from(*first) + u32::from(*more))
            }
            Content::Name(Word(name)) => name.clone(),
        }
    }
}

/// An element, or an assignment.
#[derive(Arbitrary, Debug)]
struct Piece {
    key: u8,
    attribute: Option<(u8, Content)>,
    content: Content,
    pieces: Vec<Piece>,
}

const ELEMENTS: [&str; 17] = [
    "name",
    "vcpu",
    "cputune",
    "shares",
    "period",
    "quota",
    "global_period",
    "global_quota",
    "vcpupin",
    "vcpus",
    "memory",
    "domain",
    "vcpusched",
    "emulatorpin",
    "numatune",
    "cpu",
    "topology",
];
const ATTRIBUTES: [&str; 6] = ["vcpu", "cpuset", "current", "placement", "type", "xmlns"];
const KEYS: [&str; 10] = [
    "name",
    "vcpus",
    "cpu_weight",
    "cap",
    "cpus",
    "maxvcpus",
    "cpus_soft",
    "disk",
    "pool",
    "budget",
];
const SETS: [&str; 5] = ["", "all,^", "node:", "nodes:", "all,^node:"];

/// Elements and assignments that such files are made of, in any order and depth.
pub fn pieces(bytes: &[u8]) {
    let Ok(pieces) = Vec::<Piece>::arbitrary_take_rest(Unstructured::new(bytes)) else { return };
    let mut xml = "<domain type='kvm'>\n<name>x</name>".to_owned();
    let mut config = "name = 'x'\n".to_owned();
    for piece in &pieces {
        piece.write_xml(&mut xml, 0);
        let key = KEYS[usize::from(piece.key) % KEYS.len()];
        let _ = write!(config, "{key} = ");
        piece.write_value(&mut config);
        config.push('\n');
    }
    xml.push_str("</domain>\n");
    libvirt(xml.as_bytes());
    xl(config.as_bytes());
}

impl Piece {
    fn write_xml(&self, out: &mut String, depth: u32) {
        // `cputune` has most of what is read.
        let element = match (depth, self.pieces.is_empty()) {
            (0, false) => "cputune",
            _ => ELEMENTS[usize::from(self.key) % ELEMENTS.len()],
        };
        let _ = write!(out, "<{element}");
        if let Some((key, value)) = &self.attribute {
            let key = ATTRIBUTES[usize::from(*key) % ATTRIBUTES.len()];
            let _ = write!(out, " {key}='{}'", escaped(&value.text()));
        }
        out.push('>');
        if self.pieces.is_empty() {
            out.push_str(&escaped(&self.content.text()));
        }
        for piece in &self.pieces {
            piece.write_xml(out, depth + 1);
        }
        let _ = writeln!(out, "</{element}>");
    }

    fn write_value(&self, out: &mut String) {
        if self.pieces.is_empty() {
            let quote = ["", "'", "\""][usize::from(self.key % 3)];
            let _ = write!(out, "{quote}{}{quote}", self.content.text());
            return;
        }
        out.push('[');
        for piece in &self.pieces {
            piece.write_value(out);
            out.push(',');
        }
        out.push(']');
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('\'', "&apos;")
}
