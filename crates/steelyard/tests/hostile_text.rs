// SPDX-License-Identifier: GPL-2.0-only
//! Text that others chose, in every place where it can be named: nothing that the command prints steers a
//! terminal or hides, and no message is long.

#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use steelyard_boundary::text::{LONGEST_MESSAGE, is_harmful};
use tempfile::TempDir;

/// One of each kind, and one that is only long.
const KINDS: [(&str, &str); 9] = [
    ("a terminal's sequence", "\x1b[2J\x1b]0;title\x07"),
    ("a style that hides", "\x1b[8mx\x1b[0m"),
    ("C0", "\x01\x08\r\t"),
    ("DEL", "\x7f"),
    ("C1", "\u{9b}31m\u{85}"),
    ("directions", "\u{202e}\u{2066}\u{200f}"),
    ("separators", "\u{2028}\u{2029}"),
    ("no width", "\u{200b}\u{feff}\u{ad}\u{200d}"),
    ("long", ""),
];

/// What is said of one input: nothing else steers than our own styles, which the option asks for.
fn check(directory: &Path, arguments: &[&str], input: &str) {
    let output = Command::new(env!("CARGO_BIN_EXE_steelyard"))
        .current_dir(directory)
        .args(["--color", "always"])
        .args(arguments)
        .output()
        .unwrap();
    for (stream, bytes) in [("output", &output.stdout), ("error", &output.stderr)] {
        let text = String::from_utf8(bytes.clone()).unwrap();
        let plain = without_styles(&text);
        let harmful = plain.find(|c| c != '\n' && is_harmful(c));
        assert!(
            harmful.is_none(),
            "{arguments:.200?} of {input:.500} prints to {stream}:\n{:?}",
            plain[harmful.unwrap_or(0)..].chars().take(200).collect::<String>()
        );
        let length = plain.chars().count();
        assert!(
            stream == "output" || length <= LONGEST_MESSAGE + 100,
            "{arguments:.200?} of {input:.500}: {length} characters"
        );
    }
}

/// Without bold, faint, underlined and coloured letters.
fn without_styles(text: &str) -> String {
    let mut plain = String::new();
    let mut parts = text.split("\x1b[");
    plain.push_str(parts.next().unwrap());
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_digit() && c != ';').unwrap_or(0);
        let known =
            |p: &str| ["", "0", "1", "2", "4", "22", "24", "39"].contains(&p) || p.starts_with('3');
        let is_style = part[end..].starts_with('m')
            && (part[..end].split(';').all(known) || part.starts_with("38;5;"));
        if is_style {
            plain.push_str(&part[end + 1..]);
        } else {
            plain.push_str("\x1b[");
            plain.push_str(part);
        }
    }
    plain
}

/// A string of TOML.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            // As they are where TOML allows that.
            '\0'..' ' | '\x7f' => write!(out, "\\u{:04X}", c as u32).unwrap(),
            c => out.push(c),
        }
    }
    out + "\""
}

fn for_each_kind(check: impl Fn(&Path, &str)) {
    for (kind, text) in KINDS {
        let directory = TempDir::new().unwrap();
        let text = if text.is_empty() { "y".repeat(100_000) } else { format!("a{text}b") };
        println!("{kind}");
        check(directory.path(), &text);
    }
}

const DOMAIN: &str = "[[domain]]\nname = \"d\"\n";

#[test]
fn what_is_typed() {
    for_each_kind(|directory, hostile| {
        fs::write(
            directory.join("small.toml"),
            format!("name = \"x\"\nlength = \"10 ms\"\n{DOMAIN}"),
        )
        .unwrap();
        let with = |prefix: &str, suffix: &str| format!("{prefix}{hostile}{suffix}");
        let missing = with("missing/", "");
        for arguments in [
            &[hostile][..],
            &["--", hostile],
            &[&with("--", "")],
            &["compare", hostile],
            &["compare", &with("", ".toml")],
            &["compare", "small.toml", &with("--", "=1")],
            &["compare", "small.toml", "--policy", hostile],
            &["compare", "small.toml", "--policy", &with("credit@", "")],
            &["compare", "small.toml", "--policy", &with("credit+", "")],
            &["compare", "small.toml", "--seeds", hostile],
            &["compare", "small.toml", "--threads", hostile],
            &["compare", "small.toml", "--set", hostile],
            &["compare", "small.toml", "--set", &with("", "=1")],
            &["compare", "small.toml", "--set", &with("length=", "")],
            &["compare", "small.toml", "--set", &with("domain.", ".weight=1")],
            &["compare", "small.toml", "--set", &with("domain.d.", "=1")],
            &["compare", "small.toml", "--set", &with("credit.", "=1")],
            &["compare", "small.toml", "--set", &with("credit.slice_ns=", "")],
            &["compare", "small.toml", "--set", &with("name=", "")],
            &["compare", "small.toml", "--out", &with("small.toml/", "")],
            &["import", hostile],
            &["import", "small.toml", "-o", &missing],
            &["convert", hostile, "-o", "x"],
            &["convert", "small.toml", "-o", &missing],
            &["convert", "small.toml", "-o", "x", "--tsc-hz", hostile],
            &["record", "--simulate", "small.toml", "-o", &missing],
            &["record", "--simulate", "small.toml", "-o", "x", "--length", hostile],
            &["top", "--replay", hostile, "--batch", "1"],
            &["top", "--simulate", hostile, "--batch", "1"],
            &["top", "--simulate", "small.toml", "--policy", hostile, "--batch", "1"],
            &["top", "--interval", hostile],
            &["top", "--speed", hostile],
            &["top", "--batch", hostile],
            &["top", "--proc", hostile, "--batch", "1"],
            &["export", "--listen", hostile],
            &["policies", hostile],
            &["reproduce", hostile],
            &["reproduce", "boost-credit", "--out", &with("small.toml/", "")],
            &["completions", hostile],
        ] {
            check(directory, arguments, "");
        }
    });
}

#[test]
fn what_is_wrong_in_a_file() {
    for_each_kind(|directory, hostile| {
        let q = quoted(hostile);
        let head = "name = \"x\"\nlength = \"10 ms\"\n";
        let scenarios = [
            format!("name = \"x\"\n{q} = 1\n{DOMAIN}"),
            format!("name = {q}\nlength = {q}\n{DOMAIN}"),
            format!("{head}{q}"),
            format!("{head}# {hostile}\n"),
            format!("{head}{hostile}\n"),
            format!("{head}[host.io]\ndriver_domain = {q}\n{DOMAIN}"),
            format!("{head}[[domain]]\nname = {q}\n[[domain]]\nname = {q}\n"),
            format!("{head}[[domain]]\nname = {q}\nweight = {q}\n"),
            format!("{head}{DOMAIN}{q} = 1\n"),
            format!("{head}{DOMAIN}pin = [{q}]\n"),
            format!("{head}{DOMAIN}guest_locks = {q}\n"),
            format!("{head}{DOMAIN}[[domain.task]]\nworkload.{q} = {{}}\n"),
            format!("{head}{DOMAIN}[[domain.task]]\nworkload.busy = {{ {q} = 1 }}\n"),
            format!(
                "{head}{DOMAIN}[[domain.task]]\nworkload.replay = {{ recording = {q}, process = 1 }}\n"
            ),
            format!("{head}{DOMAIN}[[policy]]\npolicy = {q}\n"),
            format!("{head}{DOMAIN}[[policy]]\npolicy = \"credit\"\nset.{q} = 1\n"),
            format!("{head}{DOMAIN}[[policy]]\npolicy = \"credit\"\nset.slice_ns = {q}\n"),
            format!(
                "{head}{DOMAIN}{}",
                format!("[[policy]]\npolicy = \"credit\"\nlabel = {q}\n").repeat(2)
            ),
        ];
        let machines = [
            format!("name = \"x\"\nvcpus = \"{hostile}\"\n"),
            format!("name = \"x\"\ncpus = \"{hostile}\"\n"),
            format!("name = {hostile}\n"),
            format!("{hostile}\n"),
            format!("name = \"{hostile}\"\nvcpus = 1\nvcpus = many\n"),
        ];
        let domain = |inside: &str| format!("<domain><name>x</name>{inside}</domain>");
        let descriptions = [
            hostile.to_owned(),
            domain(&format!("<vcpu>{hostile}</vcpu>")),
            domain(&format!("<vcpu cpuset='{hostile}'>1</vcpu>")),
            domain(&format!(
                "<vcpu>1</vcpu><cputune><vcpupin vcpu='{hostile}' cpuset='0'/></cputune>"
            )),
            domain(&format!("<vcpu>1</vcpu><cputune><shares>{hostile}</shares></cputune>")),
            domain(&format!("<{hostile}>")),
            format!("<!DOCTYPE {hostile}>"),
        ];
        let event = |comm: &str, time: &str, cpu: &str, more: &str| {
            format!(
                "{comm} 1/1 [{cpu}] {time}: sched:sched_switch: prev_comm={comm} prev_pid=1 {more}\n"
            )
        };
        let recordings = [
            format!("{hostile}\n"),
            event(hostile, "1.0", "000", ""),
            event("x", hostile, "000", ""),
            event("x", "1.0", hostile, ""),
            event("x", "1.0", "000", hostile),
            event(
                "x",
                "1.0",
                "000",
                &format!("prev_prio=1 prev_state={hostile} ==> next_comm=y next_pid={hostile}"),
            ),
        ];
        for (extension, texts) in [
            ("toml", &scenarios[..]),
            ("cfg", &machines),
            ("xml", &descriptions),
            ("perf.txt", &recordings),
            ("steelyard", &recordings[..1]),
            ("json", &recordings[..1]),
        ] {
            let file = format!("input.{extension}");
            for text in texts {
                fs::write(directory.join(&file), text).unwrap();
                for arguments in [&["compare", &file][..], &["convert", &file, "-o", "converted"]] {
                    check(directory, arguments, text);
                }
            }
        }
        // Names of files that are there.
        if hostile.len() < 100 {
            let file = format!("{hostile}.toml");
            fs::write(directory.join(&file), format!("{head}{DOMAIN}weight = 0\n")).unwrap();
            check(directory, &["compare", &file], "");
            check(directory, &["convert", &file, "-o", "x"], "");
        }
    });
}

#[test]
fn what_is_shown() {
    for_each_kind(|directory, hostile| {
        let q = quoted(hostile);
        let scenario = format!(
            "name = {q}\nlength = \"30 ms\"\nseeds = 1\n[[domain]]\nname = {q}\nvcpus = 2\n\
             [[domain.task]]\nthreads = 2\nworkload.busy = {{}}\n[[domain]]\nname = \"other\"\n\
             [[domain.task]]\nworkload.busy = {{}}\n[[policy]]\npolicy = \"credit\"\nlabel = {q}\n\
             [[policy]]\npolicy = \"credit2\"\n"
        );
        fs::write(directory.join("shown.toml"), &scenario).unwrap();
        let machine = format!("name = \"{hostile}\"\nvcpus = 2\n");
        fs::write(directory.join("machine.cfg"), &machine).unwrap();
        // Characters below a blank are none of XML's.
        let allowed = |c: &char| *c >= ' ' || matches!(c, '\t' | '\r');
        let name: String = hostile.chars().filter(allowed).collect();
        let description = format!("<domain type='kvm'><name>{name}</name><vcpu>1</vcpu></domain>");
        fs::write(directory.join("machine.xml"), &description).unwrap();
        host(&directory.join("proc"), hostile);
        let out = if hostile.len() < 100 { hostile } else { "out" };
        let top = ["top", "--replay", "r.steelyard", "--batch", "2"];
        let live =
            ["top", "--proc", "proc", "--groups", "proc", "--interval", "10ms", "--batch", "1"];
        for arguments in [
            &["compare", "shown.toml"][..],
            &[
                "compare",
                "shown.toml",
                "machine.cfg",
                "machine.xml",
                "--set",
                "length=5 ms",
                "--json",
            ],
            &["compare", "shown.toml", "--out", out],
            &["import", "machine.cfg"],
            &["import", "machine.xml"],
            &["record", "--simulate", "shown.toml", "--interval", "10ms", "-o", "r.steelyard"],
            &top,
            &[&top[..], &["--simple"]].concat(),
            &[&top[..], &["--json"]].concat(),
            &["import", "r.steelyard"],
            &["convert", "r.steelyard", "-o", "trace.json"],
            &["import", "trace.json"],
            &live,
            &[&live[..], &["--simple"]].concat(),
            &[&live[..], &["--json"]].concat(),
        ] {
            check(directory, arguments, "");
        }
        // What programs read means what was written.
        let imported = directory.join("imported.toml");
        let output = Command::new(env!("CARGO_BIN_EXE_steelyard"))
            .current_dir(directory)
            .args(["import", "machine.xml", "-o", "imported.toml"])
            .output()
            .unwrap();
        assert!(output.status.success());
        let imported = fs::read_to_string(imported).unwrap();
        let imported = steelyard_scenario::load_text("imported", &imported, &Default::default());
        // XML takes the end of a line for a line feed, and trims names.
        let name = name.replace('\r', "\n");
        assert_eq!(imported.unwrap().setup.domains[0].name, name);
    });
}

/// What `/proc` has of a virtual machine of this name, on a host of this name.
fn host(proc: &Path, name: &str) {
    let thread = proc.join("7/task/7");
    fs::create_dir_all(&thread).unwrap();
    fs::create_dir_all(proc.join("sys/kernel")).unwrap();
    fs::write(proc.join("sys/kernel/hostname"), name).unwrap();
    fs::write(proc.join("sys/kernel/osrelease"), name).unwrap();
    fs::write(proc.join("stat"), "cpu  1 1 1 1\ncpu0 1 1 1 1 1\n").unwrap();
    fs::write(proc.join("7/cmdline"), format!("qemu\0-name\0{name}\0")).unwrap();
    fs::write(proc.join("7/comm"), name).unwrap();
    fs::write(thread.join("comm"), "CPU 0/KVM\n").unwrap();
    fs::write(thread.join("schedstat"), "1 1 1\n").unwrap();
    fs::write(thread.join("stat"), "7 (CPU 0/KVM) R 1\n").unwrap();
}
