// SPDX-License-Identifier: GPL-2.0-only
//! Nothing that can be read breaks the command: small files that become large, and others that nobody
//! writes by accident, end in a message and exit code 2, within a GB of memory and a few seconds.
//!
//! Each runs in a process of its own whose address space is limited, so that who asks for more is killed
//! by its own abort, which is no exit code.

#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use tempfile::TempDir;

const MIB: usize = 1 << 20;
/// Resident, at most.
const MOST_KB: u64 = 1_000_000;
/// Address space, at most: what is reserved and not used counts too.
const MOST_ADDRESSES_KB: u64 = 1_500_000;
/// Ten times what any of them takes in a debug build on a machine of its own.
const LONGEST: Duration = Duration::from_secs(60);

/// What becomes of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// It is refused.
    Refused,
    /// It is as it should be.
    Read,
    /// One or the other.
    Either,
}
use End::{Either, Read, Refused};

struct Hostile {
    name: String,
    bytes: Vec<u8>,
    end: End,
}

fn hostile(name: &str, bytes: impl Into<Vec<u8>>, end: End) -> Hostile {
    Hostile { name: name.to_owned(), bytes: bytes.into(), end }
}

/// A field of a protobuf message.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let (mut head, mut length) = (vec![number << 3 | 2], bytes.len());
    if number > 15 {
        head = vec![(number & 15) << 3 | 2 | 0x80, number >> 4];
    }
    while length >= 0x80 {
        head.push(length as u8 | 0x80);
        length >>= 7;
    }
    head.push(length as u8);
    [&head, bytes].concat()
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut packed = ZlibEncoder::new(vec![], Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(vec![], Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

/// A frame of zstd, in which four bytes are 128 KiB of this one.
fn zstd_of_one_byte(byte: u8, mib: usize) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 7 << 3];
    for block in (0..8 * mib).rev() {
        let head = u32::from(block == 0) | 1 << 1 | (1 << 17) << 3;
        frame.extend(&head.to_le_bytes()[..3]);
        frame.push(byte);
    }
    frame
}

const SWITCH: &str = " CPU 0/KVM 9/10 [000]  16.049574734: sched:sched_switch: prev_comm=a prev_pid=10 \
                      prev_prio=1 prev_state=S ==> next_comm=b next_pid=11 next_prio=1\n";

fn perfetto(scale: usize) -> Vec<Hostile> {
    let empty = zlib(&[0x0a, 0].repeat(MIB));
    let packed = field(1, &field(50, &empty));
    let events = field(1, &field(1, &[0x12, 0].repeat(MIB / 4)));
    let names = field(1, &field(1, &field(4, &[0x2a, 0].repeat(MIB))));
    let threads = field(1, &field(2, &[0x12, 0].repeat(MIB / 4)));
    let nested = field(1, &field(50, &zlib(&packed)));
    let large = field(1, &field(50, &zlib(&field(1, &field(3, &vec![0; 4 * MIB])))));
    vec![
        // What was found: 32 KB take 4.8 GB.
        hostile("empty-packets.pftrace", packed.repeat(scale), Refused),
        hostile("nested-packets.pftrace", nested.repeat(scale), Refused),
        hostile("large-packets.pftrace", large.repeat(20 * scale), Refused),
        hostile("empty-events.pftrace", events.repeat(2 * scale), Refused),
        hostile("empty-names.pftrace", names.repeat(2 * scale), Refused),
        hostile("empty-threads.pftrace", threads.repeat(2 * scale), Refused),
        hostile("long-packet.pftrace", [&[0x0a][..], &[0xff; 9], &[1]].concat(), Refused),
    ]
}

fn perf(scale: usize) -> Vec<Hostile> {
    let line = |numbers: &str| SWITCH.replace("9/10 [000]", numbers);
    let brackets = format!("a{} 1/1 [000] 1.000000: x: y\n", " 1 [".repeat(16_000));
    // Each thread is another, so nothing is forgotten.
    let mut threads = String::new();
    for number in 0..50_000 * scale {
        let _ = writeln!(
            threads,
            "a 1/{number} [000] {}.{:06}: sched_switch: prev_comm=a prev_pid={number} prev_prio=1 \
             prev_state=S ==> next_comm=b next_pid={} next_prio=1",
            number / 1_000_000,
            number % 1_000_000,
            number + 1
        );
    }
    vec![
        hostile("newlines.txt.zst", zstd_of_one_byte(b'\n', 4 * scale), Refused),
        hostile("line.txt.zst", zstd_of_one_byte(b'a', 100 * scale), Refused),
        hostile("lines.perf", SWITCH.repeat(20_000 * scale), Refused),
        hostile("comments.perf", "#\n".repeat(MIB * scale), Refused),
        hostile("line.perf", "a".repeat(MIB * scale), Refused),
        hostile("brackets.perf", brackets.repeat(50 * scale), Refused),
        hostile("cpu.perf", line("9/10 [4096]"), Refused),
        hostile("thread.perf", line("9/4294967296 [000]"), Refused),
        hostile("threads.perf", threads, Either),
    ]
}

fn traces(scale: usize) -> Vec<Hostile> {
    let head = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
    let line = format!("{{\"ph\":\"i\",\"name\":\"{}\",\"pid\":1}},\n", "a".repeat(60_000));
    let many = gzip(line.repeat(MIB / line.len()).as_bytes());
    let processes: String = (0..70_000 * scale)
        .map(|pid| format!("{{\"ph\":\"i\",\"name\":\"\",\"pid\":{pid}}},\n"))
        .collect();
    let deep = format!("{{\"args\":{}\n", "[".repeat(60_000));
    vec![
        hostile(
            "lines.json.gz",
            [gzip(head.as_bytes()), many.repeat(100 * scale)].concat(),
            Refused,
        ),
        hostile("zeros.json.gz", gzip(&vec![b'\n'; MIB]).repeat(4 * scale), Refused),
        hostile("processes.json", [head, &processes].concat(), Refused),
        hostile("deep.json", [head, &deep].concat(), Refused),
        hostile("line.json", [head, &"[".repeat(MIB * scale)].concat(), Refused),
    ]
}

/// A member of a recording, with so many domains of one vCPU from this id on, and these samples.
fn member(domains: std::ops::Range<usize>, samples: &[String]) -> String {
    let entry = |id| {
        format!(
            "{{\"id\":{id},\"name\":\"d\",\"weight\":256,\"cap_percent\":0,\
             \"vcpus\":[{{\"id\":0,\"name\":\"\"}}]}}"
        )
    };
    let domains: Vec<_> = domains.map(entry).collect();
    format!(
        "{{\"format\":\"steelyard-recording\",\"version\":1,\"host\":{{\"name\":\"\",\"source\":\"\",\
         \"pcpus\":1,\"began_unix_ns\":null,\"unseen\":[]}},\"domains\":[{}]}}\n{}\n",
        domains.join(","),
        samples.join("\n")
    )
}

fn sample(time_s: usize, vcpus: usize, more: &str) -> String {
    let vcpus = vec!["[\"blocked\",null,0,0,0,0,0,{},null]"; vcpus].join(",");
    format!("{{\"time_ns\":{time_s}000000000,\"idle_ns\":[0],\"vcpus\":[{vcpus}]{more}}}")
}

fn recordings(scale: usize) -> Vec<Hostile> {
    let plain = member(0..1, &[sample(1, 1, ""), sample(2, 1, "")]);
    let churn: Vec<u8> = (0..2_000 * scale)
        .flat_map(|at| gzip(member(at..at + 1, &[sample(at + 1, 1, "")]).as_bytes()))
        .collect();
    let broad: Vec<String> = (1..9).map(|time_s| sample(time_s, 4_000, "")).collect();
    let broad = gzip(member(0..4_000, &broad).as_bytes());
    let runs = format!(",\"runs\":{{\"who\":\"A\",\"names\":[\"\"{}]}}", ",\"\"".repeat(MIB));
    let runs = member(0..1, &[sample(1, 1, &runs)]);
    let buckets = sample(1, 1, "")
        .replace("{}", &format!("{{\"bounds\":\"{0}\",\"counts\":\"{0}\"}}", "B".repeat(MIB)));
    let samples = |count: usize| (1..=count).map(|at| sample(at, 1, "")).collect::<Vec<_>>();
    vec![
        hostile("plain.steelyard", gzip(plain.as_bytes()), Read),
        hostile("blanks.steelyard", gzip(plain.replace("\":", "\" : ").as_bytes()), Read),
        hostile("churn.steelyard", churn, Either),
        hostile("broad.steelyard", broad.repeat(2 * scale), Either),
        hostile("many.steelyard", gzip(member(0..70_000, &[]).as_bytes()), Refused),
        hostile("names.steelyard", gzip(runs.as_bytes()), Refused),
        hostile("buckets.steelyard", gzip(member(0..1, &[buckets]).as_bytes()), Refused),
        hostile(
            "samples.steelyard",
            gzip(member(0..1, &samples(20_000 * scale)).as_bytes()),
            Either,
        ),
        hostile(
            "newlines.steelyard",
            {
                let head = gzip(member(0..1, &samples(1)).as_bytes());
                head.repeat(1000 * scale)
            },
            Either,
        ),
    ]
}

fn xentrace(scale: usize) -> Vec<Hostile> {
    let record = |tsc: u64, who: u32| {
        let header = 0x21001_u32 | 0x10 | 1 << 28 | 1 << 31;
        [&header.to_le_bytes()[..], &tsc.to_le_bytes(), &who.to_le_bytes()].concat()
    };
    let window = |records: &[Vec<u8>]| {
        let records = records.concat();
        let header = [0x1f003_u32 | 2 << 28, 0, records.len() as u32];
        [header.map(u32::to_le_bytes).concat(), records].concat()
    };
    let future: Vec<_> = (0..20_000 * scale as u64).map(|at| record(1 << 60 | at, 1)).collect();
    let rounds = (0..20_000 * scale as u64).flat_map(|at| window(&[record(at, 1)]));
    let far: Vec<_> = (0..20_000 * scale as u64).map(|at| record(at << 34, at as u32)).collect();
    let vcpus: Vec<_> = (0..70_000 * scale as u64).map(|at| record(at, at as u32)).collect();
    vec![
        hostile("future.xentrace", [window(&future), rounds.collect()].concat(), Either),
        hostile("far.xentrace", window(&far), Either),
        hostile("vcpus.xentrace", window(&vcpus), Refused),
    ]
}

fn descriptions(scale: usize) -> Vec<Hostile> {
    let domain = |inside: &str| format!("<domain><name>a</name>{inside}</domain>");
    let attributes: String = (0..20_000 * scale).map(|number| format!(" a{number}=''")).collect();
    let namespaces: String =
        (0..10_000 * scale).map(|number| format!("<a xmlns:b{number}='c'>")).collect();
    let entity = "<!DOCTYPE a [<!ENTITY b 'bbbb'>]><domain><name>&b;</name></domain>";
    let keys: String =
        (0..50_000 * scale).map(|number| format!("k{number} = {number}\n")).collect();
    vec![
        hostile("plain.xml", domain(""), Read),
        hostile("attributes.xml", domain(&format!("<x{attributes}/>")), Refused),
        hostile("namespaces.xml", domain(&(namespaces + &"</a>".repeat(10_000 * scale))), Refused),
        hostile("elements.xml", domain(&"<a/>".repeat(300_000 * scale)), Refused),
        hostile("comments.xml", domain(&"<!--a='>'-->".repeat(10_000)), Read),
        hostile("deep.xml", "<domain>".repeat(100_000 * scale), Refused),
        hostile("entity.xml", entity, Refused),
        hostile("number.xml", domain(&format!("<vcpu>{}</vcpu>", "9".repeat(MIB))), Refused),
        hostile("keys.cfg", keys, Refused),
        hostile("deep.cfg", format!("name='a'\nb={}", "[".repeat(MIB * scale)), Refused),
        hostile("list.cfg", format!("name='a'\nb=[{}]", "1,".repeat(MIB)), Read),
        hostile("line.cfg", format!("name='{}", "a".repeat(5 * MIB * scale)), Refused),
    ]
}

fn scenarios(scale: usize) -> Vec<Hostile> {
    let keys: String = (0..30_000 * scale).map(|number| format!("k{number} = 1\n")).collect();
    let domain = "[[domain]]\nname = 'a'\n";
    let with = |text: &str| format!("name = 'x'\n{text}");
    let task = |workload: &str| with(&format!("{domain}task = [{{ workload.{workload} }}]\n"));
    let busy = "task = [{ workload.busy = { compute = '1 ms' } }]\n";
    let credit2 = "[[policy]]\npolicy = 'credit2'\nset = { run_max_ns = 1, run_min_ns = 1 }\n";
    let pins = vec!["'0-4095'"; 1024].join(", ");
    let hostile = |name: &str, text: String| hostile(&format!("{name}.toml"), text, Refused);
    vec![
        hostile("keys", with(&keys)),
        hostile("array", with(&format!("a = [{}]", "1,".repeat(100_000 * scale)))),
        hostile("deep", with(&format!("a = {}", "[".repeat(100_000 * scale)))),
        hostile("dotted", with(&format!("{}a = 1", "a.".repeat(10_000 * scale)))),
        hostile("long", with(&"# a\n".repeat(2 * MIB * scale))),
        hostile("number", with(&format!("seeds = {}", "9".repeat(MIB)))),
        hostile("domains", with(&domain.repeat(20_000 * scale))),
        // What was found: each asked for more memory than there was.
        hostile("seeds", with(&format!("seeds = 4294967295\n{domain}"))),
        hostile("vcpus", with(&format!("{domain}count = 1024\nvcpus = 1024\n"))),
        hostile("idle-domains", with(&format!("{domain}count = 65536\n"))),
        hostile(
            "pins",
            with(&format!(
                "host.cores_per_socket = 1024\nhost.sockets = 4\n{domain}count = 1000\nvcpus = 1024\npin = [{pins}]\n"
            )),
        ),
        hostile("results", with(&format!("seeds = 10000\n{domain}count = 100\n"))),
        // And these for more time.
        hostile("slices", with(&format!("length = '1 h'\n{domain}{busy}{credit2}"))),
        hostile(
            "guest-slice",
            with(&format!(
                "length = '1 h'\n{domain}guest_slice = '1 ns'\ntask = [{{ threads = 2, workload.busy = {{ compute = '1 ms' }} }}]\n"
            )),
        ),
        hostile("window", task("stream = { window_packets = 4294967295 }")),
        hostile(
            "backlog",
            task("web = { client = { open = { rate_per_s = 1000000000 } }, backlog = 4294967295 }"),
        ),
        hostile("pings", task("ping = { interval = '1 ns' }")),
    ]
}

fn plans() -> Vec<Hostile> {
    let domain = "[[domain]]\nname = 'a'\n";
    // Nobody runs such a VM, and where somebody does, it has other pCPUs.
    let pins = format!("{domain}pin = ['{}4095']\n", "0-4095,".repeat(590_000));
    let number = |number| format!("[[domain]]\nname = 'a{number}'\nweight = 1\n");
    vec![
        // What was found: 4 MB take 17 GB.
        hostile("pins.toml", pins, Refused),
        hostile("domains.toml", (0..100_000).map(number).collect::<String>(), Refused),
        hostile("long.toml", domain.repeat(150_000), Refused),
        hostile("deep.toml", format!("domain = {}", "[".repeat(100_000)), Refused),
        hostile(
            "name.toml",
            format!("[[domain]]\nname = '{}'\nweight = 1", "a".repeat(MIB)),
            Refused,
        ),
    ]
}

/// Runs the command on a file; its exit code, none if a signal ended it, and the most memory that it had.
fn run(directory: &TempDir, arguments: &[&str]) -> (Option<i32>, u64, Duration, String) {
    let begin = Instant::now();
    let errors = directory.path().join("errors");
    let mut child = Command::new("sh")
        .arg("-c")
        .arg(format!("ulimit -v {MOST_ADDRESSES_KB}; exec \"$0\" \"$@\""))
        .arg(env!("CARGO_BIN_EXE_steelyard"))
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(&errors).unwrap())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut most_kb = 0;
    let code = loop {
        let told = fs::read_to_string(&status).unwrap_or_default();
        let peak = told.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kb = peak.and_then(|peak| peak.trim_end_matches("kB").trim().parse().ok());
        most_kb = most_kb.max(kb.unwrap_or(0));
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
        if begin.elapsed() > LONGEST {
            child.kill().unwrap();
            child.wait().unwrap();
            break None;
        }
        sleep(Duration::from_millis(2));
    };
    (code, most_kb, begin.elapsed(), fs::read_to_string(errors).unwrap())
}

/// What each command makes of each; those that are not as they should be.
fn try_all(all: Vec<Hostile>, commands: &[&[&str]]) {
    let directory = TempDir::new().unwrap();
    let mut wrong = vec![];
    for Hostile { name, bytes, end } in all {
        fs::write(directory.path().join(&name), &bytes).unwrap();
        for command in commands {
            let (first, rest) = command.split_first().unwrap();
            let arguments = [&[first, name.as_str()], rest].concat();
            let (code, most_kb, time, said) = run(&directory, &arguments);
            let first_line = said.lines().next().unwrap_or_default();
            let shown: String = first_line.chars().take(120).collect();
            println!(
                "{name} ({} KB), {first}: {code:?}, {} MB, {:.1} s: {shown}",
                bytes.len() / 1000,
                most_kb / 1000,
                time.as_secs_f64()
            );
            let fits = match (end, *first) {
                (Read, _) => code == Some(0),
                (Refused, _) => code == Some(2),
                (Either, _) => matches!(code, Some(0 | 2)),
            };
            let explained = code != Some(2) || said.contains("-->") || said.contains("error:");
            if !fits || !explained || most_kb > MOST_KB {
                wrong.push(format!(
                    "{name}, {first}: {code:?}, {} MB, {time:?}: {shown}",
                    most_kb / 1000
                ));
            }
        }
        fs::remove_file(directory.path().join(&name)).unwrap();
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

const IMPORT: &[&str] = &["import", "-o", "out.toml"];
const CONVERT: &[&str] = &["convert", "-o", "out.json.gz"];
const COMPARE: &[&str] = &["compare", "-j", "1", "--set", "length=1 ms"];

#[test]
fn recordings_of_others_that_are_bombs() {
    try_all([perfetto(1), perf(1), traces(1), xentrace(1)].concat_all(), &[IMPORT]);
}

#[test]
fn own_recordings_that_are_bombs() {
    try_all(recordings(1), &[IMPORT]);
}

#[test]
fn descriptions_that_are_bombs() {
    try_all(descriptions(1), &[IMPORT]);
}

#[test]
fn scenarios_that_are_bombs() {
    try_all(scenarios(1), &[&["compare", "-j", "1"]]);
}

#[test]
fn plans_that_are_bombs() {
    try_all(plans(), &[&["apply", "--dry-run"]]);
}

/// Up to 100 MB each, for a release build: `cargo test --release -p steelyard --test hostile -- --ignored`.
#[test]
#[ignore = "takes minutes, and is for a release build"]
fn large_ones() {
    let all = [perfetto(40), perf(30), traces(30), recordings(20), xentrace(60)];
    try_all(all.concat_all(), &[IMPORT, CONVERT, COMPARE]);
    try_all([descriptions(20), scenarios(20)].concat_all(), &[IMPORT, &["compare", "-j", "1"]]);
}

#[test]
fn whatever_is_cut_off_says_so() {
    let whole = [
        ("a.pftrace", field(1, &field(1, &field(4, &[0x0a, 1, 1].repeat(50))))),
        ("a.perf", SWITCH.repeat(3).into_bytes()),
        ("a.steelyard", gzip(member(0..3, &[sample(1, 3, ""), sample(2, 3, "")]).as_bytes())),
        ("a.json.gz", gzip(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{\"ph\":\"i\"")),
        ("a.xml", b"<domain type='x'><name>a</name><vcpu>2</vcpu></domain>".to_vec()),
        ("a.cfg", b"name = 'a'\ncpus = ['1', \"2-3\"]\n".to_vec()),
    ];
    let cut = whole.into_iter().flat_map(|(name, bytes)| {
        let ends = [0, 1, 2, 5, 11, 17, 23, bytes.len() / 2, bytes.len() - 1];
        ends.into_iter().map(move |end| {
            let bytes = bytes[..end.min(bytes.len())].to_vec();
            Hostile { name: name.to_owned(), bytes, end: Either }
        })
    });
    try_all(cut.collect(), &[IMPORT]);
}

trait ConcatAll {
    fn concat_all(self) -> Vec<Hostile>;
}

impl<const N: usize> ConcatAll for [Vec<Hostile>; N] {
    fn concat_all(self) -> Vec<Hostile> {
        self.into_iter().flatten().collect()
    }
}
