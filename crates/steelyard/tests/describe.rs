// SPDX-License-Identifier: GPL-2.0-only
//! `describe`: a host of files, with a `virsh` or an `xl` that only print; what it writes is a scenario, and tells of
//! a recording what that does not.

#![allow(clippy::unwrap_used)]

mod files;

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::io::Read;
use std::ops::Deref;
use std::process::{Command, Output};

use flate2::read::GzDecoder;
use serde_json::Value;

use files::Files;

/// `web`, which runs, and `spare`, which does not.
const VIRSH: &str = r#"#!/bin/sh
[ "$1 $2 $3 $4" = "--connect qemu:///system --quiet --readonly" ] || exit 1
shift 4
case "$*" in
"list --all --name") printf 'web\nspare\n-x\n' ;;
"dumpxml web") echo "<domain type='kvm'><name>web</name><vcpu>2</vcpu><cputune><vcpusched vcpus='0' scheduler='fifo'/></cputune><devices><graphics passwd='secret'/></devices></domain>" ;;
"dumpxml spare") echo "<domain type='kvm'><name>spare</name></domain>" ;;
*) exit 1 ;;
esac
"#;

const XL: &str = r#"#!/bin/sh
case "$*" in
info) printf 'host                   : dom0\nxen_version            : 4.20.0\nxen_scheduler          : credit2\nnr_cpus                : 4\ncores_per_socket       : 2\nthreads_per_core       : 2\n' ;;
sched-credit2)
	echo 'Cpupool Pool-0: sched=CREDIT2'
	echo 'Name                                ID Weight  Cap'
	echo 'Domain-0                             0    256    0'
	echo 'web                                  3    512   50'
	;;
vcpu-list)
	echo 'Name                                ID  VCPU   CPU State   Time(s) Affinity (Hard / Soft)'
	echo 'Domain-0                             0     0    0   r--      10.1  all / all'
	echo 'web                                  3     0    1   -b-       1.0  0-1 / all'
	;;
*) exit 1 ;;
esac
"#;

struct Host {
    files: Files,
}

impl Deref for Host {
    type Target = Files;

    fn deref(&self) -> &Files {
        &self.files
    }
}

impl Host {
    /// Two VMs in groups of one slice, 2:1, and a process in a group of its own.
    fn new() -> Host {
        let host = Host { files: Files::new() };
        host.put("proc/stat", "cpu  0 0 0 0 0\ncpu0 5 0 5 9 2 0\ncpu1 5 0 5 9 2 0\n");
        host.put("proc/sys/kernel/hostname", "ledger\n");
        host.put("proc/sys/kernel/osrelease", "6.18.1\n");
        host.put("proc/100/cmdline", "qemu\0-name\0guest=web\0-secret\0key\0");
        host.put("proc/200/cmdline", "qemu\0-name\0batch\0");
        for (pid, tid, name, nice, policy, group) in [
            (100, 100, "qemu", 0, 0, "/machine.slice/web.scope"),
            (100, 101, "CPU 0/KVM", 0, 0, "/machine.slice/web.scope/vcpu0"),
            (100, 102, "CPU 1/KVM", 0, 1, "/machine.slice/web.scope"),
            (200, 200, "qemu", 0, 0, "/machine.slice/batch.scope"),
            (200, 201, "CPU 0/KVM", 5, 0, "/machine.slice/batch.scope"),
            (300, 300, "backup", 0, 3, "/system.slice"),
            (400, 400, "login", 0, 0, "/"),
        ] {
            let put =
                |file: &str, text: &str| host.put(&format!("proc/{pid}/task/{tid}/{file}"), text);
            put("comm", &format!("{name}\n"));
            put("schedstat", "1 1 1\n");
            // From the third word on: state, 15 of no matter here, niceness, 21 of no matter, policy.
            let zeros = |count: usize| "0 ".repeat(count);
            let stat = format!("{tid} ({name}) R {}{nice} {}{policy} 0 0\n", zeros(15), zeros(21));
            put("stat", &stat);
            put("cgroup", &format!("0::{group}\n"));
            put(
                "status",
                if tid == 101 { "Cpus_allowed_list:\t1\n" } else { "Cpus_allowed_list:\t0-7\n" },
            );
        }
        for (group, weight, max) in [
            ("machine.slice", "200", "max 100000"),
            ("machine.slice/web.scope", "400", "150000 100000"),
            ("machine.slice/batch.scope", "100", "max 100000"),
            ("system.slice", "50", "max 100000"),
        ] {
            host.put(&format!("groups/{group}/cpu.weight"), &format!("{weight}\n"));
            host.put(&format!("groups/{group}/cpu.max"), &format!("{max}\n"));
        }
        fs::create_dir_all(host.path("groups/machine.slice/web.scope/vcpu0")).unwrap();
        host
    }

    fn steelyard(&self, arguments: &[&str]) -> Output {
        let path = format!("{}:{}", self.path("bin").display(), env::var("PATH").unwrap());
        Command::new(env!("CARGO_BIN_EXE_steelyard"))
            .args(arguments)
            .current_dir(self.path(""))
            .env("PATH", path)
            .output()
            .unwrap()
    }

    fn describe(&self, file: &str) -> String {
        let arguments =
            ["describe", "--proc", "proc", "--groups", "groups", "--sys", "sys", "-o", file];
        let output = self.steelyard(&arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        fs::read_to_string(self.path(file)).unwrap()
    }

    fn succeeds(&self, arguments: &[&str]) -> String {
        let output = self.steelyard(arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    }

    fn refused(&self, arguments: &[&str]) -> String {
        let output = self.steelyard(arguments);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
        text(&output.stderr)
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// `perf script` of two CPUs for a second: on each a vCPU of either VM by turns, of 10 ms each. No process is told.
fn recording() -> String {
    let mut text = String::new();
    for turn in 0..100_u64 {
        for (cpu, first, second) in
            [(0, ("CPU 0/KVM", 101), ("CPU 0/KVM", 201)), (1, ("CPU 1/KVM", 102), ("backup", 300))]
        {
            let (from, to) = if turn.is_multiple_of(2) { (first, second) } else { (second, first) };
            let us = 10_000 * (turn + 1) + cpu;
            let _ = writeln!(
                text,
                "{} {} [00{cpu}] {}.{:06}: sched:sched_switch: prev_comm={} prev_pid={} prev_prio=120 prev_state=R ==> \
                 next_comm={} next_pid={} next_prio=120",
                from.0,
                from.1,
                us / 1_000_000,
                us % 1_000_000,
                from.0,
                from.1,
                to.0,
                to.1
            );
        }
    }
    text
}

#[test]
fn a_host_is_described_and_a_scenario() {
    let host = Host::new();
    host.program("virsh", VIRSH);
    let written = host.describe("ledger.host.toml");
    for line in
        ["name = \"ledger\"", "system = \"Linux 6.18.1\"", "pcpus = \"0-1\"", "cap_percent = 150"]
    {
        assert!(written.contains(line), "{line}: {written}");
    }
    assert!(!written.contains("secret") && !written.contains("login"), "{written}");
    // 400 of 100 are 1024 of 256, and so on.
    for weight in [512, 1024, 256, 128] {
        assert!(written.contains(&format!("weight = {weight}\n")), "{weight}: {written}");
    }
    let scenario = host.succeeds(&["import", "ledger.host.toml"]);
    for line in [
        "cores_per_socket = 2",
        "name = \"web\"",
        "vcpus = 2",
        "weight = 1024",
        "cap_percent = 150",
        "pin = [\"1\", \"0-1\"]",
        "# Left out, since they do not run: spare.",
        "# Left out: real time: its vCPUs run before all that is not (`vcpusched` scheduler=fifo vcpus=0).",
        "# Left out: how urgent its threads are: CPU 1/KVM is fifo.",
        "# Left out: how urgent its threads are: CPU 0/KVM has niceness 5.",
    ] {
        assert!(scenario.lines().any(|it| it == line), "{line}: {scenario}");
    }
    host.put("ledger.toml", &scenario);
    host.succeeds(&[
        "compare",
        "ledger.toml",
        "--policy",
        "credit",
        "--seeds",
        "1",
        "--set",
        "length=1 s",
    ]);
}

#[test]
fn a_recording_is_read_with_what_lies_beside_it() {
    let host = Host::new();
    host.put("night.perf.txt", &recording());
    let plain = host.succeeds(&["import", "night.perf.txt"]);
    assert!(
        plain.contains("name = \"CPU 0/KVM-101\"")
            && plain.contains("# Assumed: No control groups"),
        "{plain}"
    );
    host.describe("night.host.toml");
    let known = host.succeeds(&["import", "night.perf.txt"]);
    for line in ["name = \"web\"", "name = \"batch\"", "cap_percent = 150", "vcpus = 2"] {
        assert!(known.lines().any(|it| it == line), "{line}: {known}");
    }
    assert!(known.contains("# Known: By the description of ledger"), "{known}");
    let mut assumed = known.lines().filter(|line| line.starts_with("# Assumed: "));
    assert!(assumed.all(|line| !line.contains("ontrol group")), "{known}");
    // Pins of one vCPU.
    assert!(known.contains("pin = [\"1\", \"0-1\"]"), "{known}");
    // Each has what was set for it. They divide the slice's 512, both always runnable, so that these are 2.5 times as much
    // here, and the other's 128 as well; 256 is not told.
    let weight = |name: &str| {
        let after = known.split(&format!("name = \"{name}\"\n")).nth(1).unwrap();
        let own = after.split("\n\n").next().unwrap();
        own.lines().find_map(|line| line.strip_prefix("weight = ")).map(str::to_owned)
    };
    let weights = ["web", "batch", "group-1", "backup"].map(weight);
    let weights = weights.each_ref().map(Option::as_deref);
    assert_eq!(weights, [Some("1024"), None, Some("1280"), Some("320")], "{known}");
    let results =
        host.succeeds(&["compare", "night.perf.txt", "--policy", "fair", "--json", "--seeds", "1"]);
    let results: Value = serde_json::from_str(&results).unwrap();
    let comparison = &results["comparisons"][0];
    assert!(comparison["described"][0].as_str().unwrap().contains("of ledger"), "{comparison}");
    assert_eq!(comparison["replay_error"]["assumed"], false);
    // Moved away and named, it is the same; a trace keeps it.
    fs::rename(host.path("night.host.toml"), host.path("other.toml")).unwrap();
    let named = [
        "compare",
        "night.perf.txt",
        "--policy",
        "fair",
        "--json",
        "--seeds",
        "1",
        "--host",
        "other.toml",
    ];
    assert_eq!(serde_json::from_str::<Value>(&host.succeeds(&named)).unwrap(), results);
    assert_eq!(host.succeeds(&["import", "night.perf.txt", "--host", "other.toml"]), known);
    // So is what was imported with it.
    host.succeeds(&["import", "night.perf.txt", "--host", "other.toml", "-o", "night.toml"]);
    let usual = [&["compare", "night.toml"], &named[2..]].concat();
    let again: Value = serde_json::from_str(&host.succeeds(&usual)).unwrap();
    assert_eq!(again["comparisons"][0]["policies"], results["comparisons"][0]["policies"]);
    host.succeeds(&["convert", "night.perf.txt", "--host", "other.toml", "-o", "night.steelyard"]);
    let converted = host.succeeds(&["import", "night.steelyard"]);
    assert!(
        converted.contains("name = \"web\"") && converted.contains("weight = 1024\n"),
        "{converted}"
    );
}

#[test]
fn what_does_not_fit_is_refused() {
    let host = Host::new();
    host.put("night.perf.txt", &recording());
    let good = host.describe("good.toml");
    let compare = ["compare", "night.perf.txt", "--host", "bad.toml"];
    for (bad, words) in [
        (good.replace("steelyard_host = 1", "steelyard_host = 2"), "version 2 of this form"),
        (good.replace("steelyard_host = 1\n", ""), "no description of a host"),
        (good.replace("nice = 5", "nice = 50"), "is not -20 to 19"),
        (good.replace("group = 3", "group = 999"), "no such group"),
        (good.replace("within = 0", "within = 9"), "stands before it"),
        (good.replace("weight = 1024", "weight = 0"), "out of range"),
        (
            good.replace("wieght", "").replace("[[domain]]\n", "[[domain]]\nwieght = 1\n"),
            "did you mean `weight`?",
        ),
        (good.replace("name = \"batch\"", "name = \"web\""), "another domain has `web`"),
        (good.replace("pcpus = \"0-1\"", "pcpus = \"1-0\""), "no set of pCPUs"),
        // Of before the host was started anew.
        (
            good.replace("name = \"CPU", "name = \"GPU")
                .replace("name = \"backup\"", "name = \"x\""),
            "VMs or threads than were recorded",
        ),
        // The VMs alone were.
        (
            good.replace("name = \"CPU", "name = \"GPU")
                .replace("\nid = 1", "\nid = 71")
                .replace("\nid = 2", "\nid = 72"),
            "not after VMs were started anew",
        ),
    ] {
        assert_ne!(bad, good);
        host.put("bad.toml", &bad);
        let message = host.refused(&compare);
        assert!(message.contains(words), "{words}: {message}");
    }
    // A recording is none, however long it is.
    host.put("long.perf.txt", &recording().repeat(400));
    let message = host.refused(&["compare", "night.perf.txt", "--host", "long.perf.txt"]);
    assert!(message.contains("no description of a host"), "{message}");
    // For what needs none.
    host.succeeds(&["convert", "night.perf.txt", "-o", "night.steelyard"]);
    let message = host.refused(&["compare", "night.steelyard", "--host", "good.toml"]);
    assert!(message.contains("leave `--host` out"), "{message}");
    host.succeeds(&["import", "good.toml", "-o", "host.toml"]);
    let message = host.refused(&["compare", "host.toml", "--host", "good.toml"]);
    assert!(message.contains("leave `--host` out"), "{message}");
    // Nor does `import` take one where it reads no recording.
    fs::create_dir(host.path("vms")).unwrap();
    host.put("vms/web.xml", "<domain><name>web</name></domain>");
    for other in ["night.steelyard", "host.toml", "good.toml", "vms", "vms/web.xml"] {
        let message = host.refused(&["import", other, "--host", "good.toml"]);
        assert!(message.contains("leave `--host` out"), "{other}: {message}");
    }
    let message = host.refused(&["import", "night.perf.txt", "--host", "none.toml"]);
    assert!(message.contains("none.toml"), "{message}");
    let message =
        host.refused(&["import", "night.perf.txt", "--host", "good.toml", "-o", "good.toml"]);
    assert!(message.contains("good.toml"), "{message}");
}

#[test]
fn a_xen_host_is_described_by_xl() {
    let host = Host::new();
    host.program("xl", XL);
    host.put("proc/xen/capabilities", "control_d\n");
    let written = host.describe("dom0.host.toml");
    for line in [
        "system = \"Xen 4.20.0\"",
        "scheduler = \"credit2\"",
        "sockets = 1",
        "threads_per_core = 2",
    ] {
        assert!(written.lines().any(|it| it == line), "{line}: {written}");
    }
    let scenario = host.succeeds(&["import", "dom0.host.toml"]);
    for line in [
        "name = \"web\"",
        "weight = 512",
        "cap_percent = 50",
        "pin = [\"0-1\"]",
        "cores_per_socket = 2",
    ] {
        assert!(scenario.lines().any(|it| it == line), "{line}: {scenario}");
    }
}

#[test]
fn a_xen_host_under_steelyard_is_replayed_by_its_policy() {
    let host = Host::new();
    host.program("xl", XL);
    host.put("proc/xen/capabilities", "control_d\n");
    host.program(
        "xenhypfs",
        "#!/bin/sh\n[ \"$*\" = 'cat /steelyard/policy' ] && echo credit+load-weight\n",
    );
    let written = host.describe("night.host.toml");
    assert!(written.contains("\nscheduler = \"credit+load-weight\"\n"), "{written}");
    // What `xl` calls credit2 has weights and caps all the same.
    assert!(written.contains("weight = 512") && written.contains("cap_percent = 50"), "{written}");
    let trace = include_bytes!("../../recording/tests/data/credit2.xentrace.gz");
    let mut records = vec![];
    GzDecoder::new(&trace[..]).read_to_end(&mut records).unwrap();
    fs::write(host.path("night.xentrace"), records).unwrap();
    let table =
        host.succeeds(&["compare", "night.xentrace", "--policy", "credit2", "--seeds", "1"]);
    assert!(table.contains("by the host's own credit@xen-4.20+load-weight"), "{table}");
}
