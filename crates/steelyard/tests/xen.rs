// SPDX-License-Identifier: GPL-2.0-only
//! `steelyard xen` with an `xl` and a `xenhypfs` that only keep books. The real ones are in `lab/xen/test`.

#![allow(clippy::unwrap_used)]

mod files;

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use files::Files;

const XL: &str = "#!/bin/sh
echo 'Name                                        ID   Mem VCPUs	State	Time(s)'
echo 'Domain-0                                     0  2048     4     r-----     100.1'
echo 'web                                          3   512     2     -b----       1.0'
echo 'batch                                       12   512     2     -b----       1.0'
";

/// As the scheduler does it (`xen/leaves.h`), and as `xenhypfs` prints it.
const XENHYPFS: &str = r#"#!/bin/sh
cd "$(dirname "$0")/../hypfs" || exit 1
echo "$*" >>calls
file=${2#/steelyard/}
[ -e "$file" ] || { echo 'could not read: No such file or directory' >&2; exit 3; }
case "$1 $file" in
cat*) cat "$file" && echo ;;
"write settings")
	set -- $3
	grep -v "^$1 $2 " settings >new
	[ -z "$3" ] || echo "$1 $2 $3" >>new
	mv new settings
	;;
"write "*) printf %s "$3" >"$file" ;;
esac
"#;

struct Host {
    files: Files,
}

impl Host {
    fn new() -> Host {
        let files = Files::new();
        files.program("xl", XL);
        files.program("xenhypfs", XENHYPFS);
        files.put("hypfs/policy", "credit2@xen-4.20+load-weight");
        files.put("hypfs/settings", "12 weight 512\n12 later.release 7\n");
        let policy = steelyard_policy::Policy::named("credit2+load-weight").unwrap();
        for (name, _, value) in policy.values() {
            files.put(&format!("hypfs/parameters/{name}"), &value.to_string());
        }
        Host { files }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let path =
            format!("{}:{}", self.files.path("bin").display(), std::env::var("PATH").unwrap());
        let mut command = Command::new(env!("CARGO_BIN_EXE_steelyard"));
        command.arg("xen").args(arguments).env("PATH", path);
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn succeeds(&self, arguments: &[&str]) -> (String, String) {
        let output = self.run(arguments);
        let [out, said] =
            [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        assert!(output.status.success(), "{said}");
        (out, said)
    }

    /// With this exit code, and having written nothing.
    fn refuses(&self, arguments: &[&str], code: i32, words: &str) {
        let settings = self.read("settings");
        let output = self.run(arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(words), "{said}");
        assert_eq!(self.read("settings"), settings);
        assert!(!self.read("calls").contains("write"));
    }

    fn read(&self, leaf: &str) -> String {
        fs::read_to_string(self.files.path(&format!("hypfs/{leaf}"))).unwrap()
    }
}

#[test]
fn what_is_asked_for_a_domain_is_written_and_taken_back() {
    let host = Host::new();
    let (_, said) =
        host.succeeds(&["set", "web", "slice=5 ms", "sedf.period=20 ms", "sedf.slice=5 ms"]);
    assert!(said.contains("`sedf.period` is heeded by: sedf"), "{said}");
    assert!(!said.contains("`slice`"), "{said}");
    let (_, said) = host.succeeds(&[
        "set",
        "web",
        "sedf.extra_time=false",
        "boost.limit=0 ns",
        "cap_percent=409600",
    ]);
    assert!(said.contains("`boost.limit`") && !said.contains("`cap_percent`"), "{said}");
    let mut lines: Vec<_> = host.read("settings").lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(
        lines,
        [
            "12 later.release 7",
            "12 weight 512",
            // 0 would be "not asked".
            "3 boost.limit 1",
            "3 cap_percent 409600",
            "3 sedf.extra_time 0",
            "3 sedf.period 20000000",
            "3 sedf.slice 5000000",
            "3 slice 5000000",
        ]
    );
    let (shown, _) = host.succeeds(&["set", "web"]);
    for line in ["web              slice                5 ms\n", "sedf.extra_time      false\n"] {
        assert!(shown.contains(line), "{shown}");
    }
    assert!(!shown.contains("batch"), "{shown}");
    let (shown, _) = host.succeeds(&["set"]);
    assert!(shown.contains("batch            weight               512\n"), "{shown}");
    // Only what changes is written.
    fs::write(host.files.path("hypfs/calls"), "").unwrap();
    host.succeeds(&["set", "web", "slice=", "cap_percent=409600", "weight=256"]);
    let calls = host.read("calls");
    let writes: Vec<_> = calls.lines().filter(|call| call.starts_with("write")).collect();
    assert_eq!(writes, ["write /steelyard/settings 3 slice"]);
    let (nothing, said) = host.succeeds(&["set", "Domain-0"]);
    assert!(nothing.is_empty() && said.contains("nothing is asked for"), "{said}");
}

#[test]
fn what_cannot_be_had_is_refused_before_anything_is_written() {
    let host = Host::new();
    host.refuses(&["set", "wep", "weight=1"], 2, "there is no domain `wep`, did you mean `web`?");
    host.refuses(&["set", "web", "weight=512", "weigt=1"], 2, "did you mean `weight`?");
    host.refuses(&["set", "web", "weight=512", "slice"], 2, "lacks a `=`");
    host.refuses(&["set", "web", "weight=65536"], 2, "out of range");
    host.refuses(&["set", "web", "weight=512", "sedf.period=20 ms"], 2, "needs `sedf.slice`");
    host.refuses(
        &["parameters", "credit2.run_max_ns=1000000", "credit2.run_max=1"],
        2,
        "unknown parameter `run_max`",
    );
    host.refuses(&["parameters", "credit2.run_max_ns="], 2, "run_max_ns");
    host.refuses(&["parameters", "boost-credit.limit_ns=1"], 2, "boost-credit");
    fs::remove_file(host.files.path("hypfs/policy")).unwrap();
    host.refuses(&["parameters"], 1, "`xenhypfs cat /steelyard/policy`: could not read");
}

#[test]
fn parameters_are_shown_and_changed_by_the_names_of_policies() {
    let host = Host::new();
    let (shown, _) = host.succeeds(&["parameters"]);
    let row = |key: &str| {
        let row = shown.lines().find(|line| line.split_whitespace().next() == Some(key));
        row.and_then(|row| row.split_whitespace().nth(1)).map(str::to_owned)
    };
    assert_eq!(row("credit2.run_max_ns"), Some(host.read("parameters/run_max_ns")));
    // A choice is its name.
    assert_eq!(row("credit2.queue").as_deref(), Some("socket"));
    assert!(row("load-weight.interval_ns").is_some(), "{shown}");
    host.succeeds(&[
        "parameters",
        "credit2.run_max_ns=5000000",
        "load-weight.interval_ns=1000000000",
    ]);
    host.succeeds(&["parameters", "credit2.queue=core"]);
    assert_eq!(host.read("parameters/run_max_ns"), "5000000");
    assert_eq!(host.read("parameters/load-weight.interval_ns"), "1000000000");
    assert_ne!(host.read("parameters/queue"), "core");
    let (shown, _) = host.succeeds(&["parameters"]);
    assert!(shown.contains(" core\n"), "{shown}");
}

/// Until it is so; not before long.
fn wait_for(is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "nothing comes");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn loads_are_told_each_time_that_they_are_written() {
    let host = Host::new();
    host.files.put("hypfs/loads", "");
    host.files.put("hypfs/calls", "");
    let file = host.files.path("loads");
    let write = |text: &str, mode: u32| {
        let new = file.with_extension("new");
        fs::write(&new, text).unwrap();
        fs::set_permissions(&new, Permissions::from_mode(mode)).unwrap();
        fs::rename(new, &file).unwrap();
    };
    write("web 60\nbatch 250\nanother 5\n", 0o644);
    let arguments = ["feed", "--interval", "10ms", "--loads", file.to_str().unwrap()];
    let mut feed = host.command(&arguments).spawn().unwrap();
    let told = |line: &str| host.read("calls").lines().filter(|&call| call == line).count();
    wait_for(|| {
        told("write /steelyard/loads 12 250") == 1 && told("write /steelyard/loads 3 60") == 1
    });
    // The same load is news all the same.
    write("web 60", 0o644);
    wait_for(|| told("write /steelyard/loads 3 60") == 2);
    // What anybody can write is not obeyed.
    write("web 99", 0o666);
    thread::sleep(Duration::from_millis(100));
    write("web 70", 0o644);
    wait_for(|| told("write /steelyard/loads 3 70") == 1);
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&feed),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    assert!(feed.wait().unwrap().success());
    assert_eq!(told("write /steelyard/loads 12 250"), 1);
    assert_eq!(told("write /steelyard/loads 3 99"), 0);
}

#[test]
fn packets_are_told_as_they_come_until_it_is_ended() {
    let host = Host::new();
    let sys = host.files.path("sys");
    let arguments = ["feed", "--interval", "10ms", "--sys", sys.to_str().unwrap()];
    host.refuses(&arguments, 1, "credit2@xen-4.20+load-weight wants neither packets nor loads");
    host.files.put("hypfs/packets", "");
    let put = |interface: &str, packets: &str| {
        let directory = format!("sys/class/net/{interface}/statistics");
        host.files.put(&format!("{directory}/new"), packets);
        let [new, file] =
            ["new", "tx_packets"].map(|it| host.files.path(&format!("{directory}/{it}")));
        fs::rename(new, file).unwrap();
    };
    for (interface, packets) in
        [("vif3.0", "100\n"), ("vif3.1", "20\n"), ("vif3.0-emu", "3\n"), ("vif12.0", "7\n")]
    {
        put(interface, packets);
    }
    for (interface, packets) in
        [("eth0", "1\n"), ("vif", "1\n"), ("vifx.0", "1\n"), ("vif4", "1\n"), ("vif5.0", "x\n")]
    {
        put(interface, packets);
    }
    let mut feed = host.command(&arguments).spawn().unwrap();
    let has = |line: &str| host.read("calls").lines().any(|call| call == line);
    wait_for(|| has("write /steelyard/packets 3 123") && has("write /steelyard/packets 12 7"));
    put("vif3.0", "150\n");
    wait_for(|| has("write /steelyard/packets 3 173"));
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&feed),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    assert!(feed.wait().unwrap().success());
    let calls = host.read("calls");
    let written: BTreeSet<_> = calls.lines().filter(|call| call.starts_with("write")).collect();
    assert_eq!(written.len(), 3, "{calls}");
    // What has not changed is not told again.
    assert_eq!(calls.matches("packets 12 7").count(), 1);
}
