// SPDX-License-Identifier: GPL-2.0-only
//! `steelyard tune` as a person or a script sees it: the same bytes however it came about, files, bad input.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use steelyard_boundary::text::is_harmful;
use tempfile::TempDir;

/// One pCPU: `report` computes for a while and sleeps, two others never sleep.
const SCENARIO: &str = r#"
name = "late"
length = "10 s"
[[domain]]
name = "report"
[[domain.task]]
workload.busy = { compute = "27 ms", sleep = "100 ms", jitter_percent = 20 }
[[domain]]
name = "batch"
count = 2
[[domain.task]]
workload.busy = { compute = "5 ms" }
[[policy]]
policy = "credit"
"#;

const GOALS: [&str; 4] =
    ["--minimise", "report: wait p99", "--keep", "batch*: share >= 80 % of entitled"];

fn directory() -> TempDir {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("late.toml"), SCENARIO).unwrap();
    directory
}

fn tune(directory: &TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steelyard"));
    command.current_dir(directory).args(["tune", "late.toml"]).args(arguments);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// All that a search leaves, in a directory of its own.
fn outcome(prepare: impl FnOnce(&TempDir, &[&str]), threads: &str) -> (String, [Vec<u8>; 3]) {
    let directory = directory();
    let files = ["--state", "state.jsonl", "--csv", "tried.csv", "--page", "page.html"];
    let arguments = [&GOALS[..], &files, &["--settings", "120", "-j", threads]].concat();
    prepare(&directory, &arguments);
    let said = succeeded(&tune(&directory, &arguments).output().unwrap());
    let read = |name: &str| fs::read(directory.path().join(name)).unwrap();
    (said, ["state.jsonl", "tried.csv", "page.html"].map(read))
}

/// Waits until a file has so many lines.
fn wait_for_lines(path: &Path, lines: usize) {
    let begin = Instant::now();
    while fs::read_to_string(path).map_or(0, |text| text.matches('\n').count()) < lines {
        assert!(begin.elapsed() < Duration::from_secs(120), "it does not begin");
        sleep(Duration::from_millis(1));
    }
}

#[test]
fn threads_and_a_kill_change_no_byte() {
    let (said, files) = outcome(|_, _| {}, "1");
    assert!(said.contains("Best: ") && said.lines().count() <= 24, "{said}");
    assert!(
        said.lines().next().unwrap().starts_with("late.toml: 1 pCPU, 3 VMs, under credit@xen-4.20")
    );
    for threads in ["1", "5"] {
        let killed = |directory: &TempDir, arguments: &[&str]| {
            let mut command = tune(directory, arguments);
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            wait_for_lines(&directory.path().join("state.jsonl"), 30);
            child.kill().unwrap();
            assert_eq!(child.wait().unwrap().signal(), Some(9), "it ended before");
        };
        let (again, again_files) = outcome(killed, threads);
        assert_eq!(again, said, "{threads} threads");
        assert!(again_files == files, "{threads} threads");
    }
}

#[test]
fn bad_input_is_refused_before_the_work() {
    let directory = directory();
    fs::write(directory.path().join("other.jsonl"), "{\"some\": 1}\n").unwrap();
    let cases: [(&[&str], &[&str]); 11] = [
        (&[], &["--minimise"]),
        (
            &["--minimise", "report: share", "--maximise", "report: share"],
            &["this is to be minimised, too"],
        ),
        (&["--minimise", "report: wiat p99"], &["did you mean `wait p99`?", "--> --minimise:1:8"]),
        (&["--maximize", "reprot: share"], &["did you mean `report`?", "`all`, `host`"]),
        (&["--minimise", "report: burst p98"], &["`burst p90`"]),
        (
            &[GOALS[0], GOALS[1], "--keep", "batch-1: share >= 5 ms"],
            &["`ms` is no unit", "% of entitled"],
        ),
        (&[GOALS[0], GOALS[1], "--vary", "weights"], &["invalid value 'weights'"]),
        (&[GOALS[0], GOALS[1], "--policy", "credit3"], &["did you mean `credit"]),
        (
            &[GOALS[0], GOALS[1], "--vary", "weight", "--policy", "credit2"],
            &["`policy` is not among", "add it to `--vary`"],
        ),
        (&[GOALS[0], GOALS[1], "--state", "late.toml"], &["late.toml", "another name"]),
        (
            &[GOALS[0], GOALS[1], "--state", "other.jsonl"],
            &["no state of `steelyard tune`", "other.jsonl:1:1"],
        ),
    ];
    for (arguments, says) in cases {
        let output = tune(&directory, arguments).output().unwrap();
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert_eq!(text(&output.stdout), "", "{message}");
        assert!(says.iter().all(|words| message.contains(words)), "{message}");
    }
    assert_eq!(fs::read_to_string(directory.path().join("late.toml")).unwrap(), SCENARIO);
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 2);
    let output = tune(&directory, &GOALS).args(["--settings", "1", "--csv", "/dev/full"]).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
}

#[test]
fn a_plan_can_be_applied() {
    let directory = directory();
    let plan = directory.path().join("plan.toml");
    let vary =
        ["--vary", "weight,slice,cap", "--own", "fair", "--settings", "60", "--plan", "plan.toml"];
    let said = succeeded(&tune(&directory, &[&GOALS[..2], &vary].concat()).output().unwrap());
    assert!(said.contains("cpu_shares=") || said.contains("--sched-runtime"), "{said}");
    steelyard_apply::Plan::read(&plan).unwrap();
    // Where the scheduler alone may change there is none, and what was there stays.
    let before = fs::read(&plan).unwrap();
    let vary = ["--vary", "policy", "--policy", "credit2", "--plan", "plan.toml"];
    let output = tune(&directory, &[&GOALS[..2], &vary].concat()).output().unwrap();
    succeeded(&output);
    assert!(text(&output.stderr).contains("no plan was written"));
    assert_eq!(fs::read(&plan).unwrap(), before);
}

/// Of a recording the verdict is on the half that the search has not seen, and nobody recorded what workloads say.
#[test]
fn a_recording_is_judged_by_time_that_follows() {
    let directory = directory();
    let recording =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recordings/four-vms.perf.txt.zst");
    let tune = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_steelyard"));
        command
            .current_dir(&directory)
            .arg("tune")
            .arg(&recording)
            .args(arguments)
            .output()
            .unwrap()
    };
    let said = succeeded(&tune(&["--minimise", "vm-web: wait p99", "--settings", "20"]));
    assert!(said.contains("runs of 4.00 s each"), "{said}");
    assert!(said.contains("over the 4.00 s that follow"), "{said}");
    assert!(said.contains("Replays are off by a factor of"), "{said}");
    let refused = tune(&["--maximise", "vm-web: work done"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("unknown metric `work done`"));
}

/// As a comparison knows it; who asks for no policy has not said that the host has the first that there is.
#[test]
fn what_schedules_a_host_is_known_told_or_asked_for() {
    let directory = directory();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_steelyard"));
        command.current_dir(&directory).args(arguments).output().unwrap()
    };
    let recording =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recordings/four-vms.perf.txt.zst");
    let recording = recording.to_str().unwrap();
    for to in ["night.steelyard", "night.json"] {
        succeeded(&run(&["convert", recording, "-o", to]));
    }
    let (scenario, _) = SCENARIO.split_once("[[policy]]").unwrap();
    fs::write(directory.path().join("plain.toml"), scenario).unwrap();
    fs::write(directory.path().join("web.xml"), "<domain><name>web</name></domain>").unwrap();
    let tune = |input: &str, more: &[&str]| {
        let vm = match input {
            "plain.toml" => "report",
            "web.xml" => "web",
            _ => "vm-web",
        };
        let goal = format!("{vm}: wait p99");
        let usual = ["tune", input, "--minimise", &goal, "--settings", "1", "--seeds", "1"];
        run(&[&usual, more].concat())
    };
    for input in [recording, "night.steelyard"] {
        let said = succeeded(&tune(input, &[]));
        assert!(said.contains("under fair@eevdf (assumed"), "{said}");
    }
    for input in ["night.json", "plain.toml", "web.xml"] {
        let advise = run(&["advise", input]);
        for refused in [tune(input, &[]), tune(input, &["--policy", "credit2"]), advise] {
            assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stdout));
            assert!(text(&refused.stderr).contains("`--own P`"), "{}", text(&refused.stderr));
        }
        let said = succeeded(&tune(input, &["--own", "fair@cfs"]));
        assert!(said.contains("under fair@cfs"), "{said}");
    }
}

#[test]
fn names_of_domains_steer_nothing() {
    let directory = directory();
    for kind in ["\\u001b[2J", "a\\nrm -rf x", "\\u202e", "'; reboot '"] {
        let scenario =
            SCENARIO.replace("\"batch\"", &format!("\"{kind}\"")).replace("count = 2", "");
        fs::write(directory.path().join("late.toml"), scenario).unwrap();
        let arguments =
            ["--minimise", "report: wait p99", "--vary", "weight", "--all", "--settings", "40"];
        let output = tune(&directory, &arguments).output().unwrap();
        for bytes in [&output.stdout, &output.stderr] {
            let said = text(bytes);
            assert!(!said.contains(|c| c != '\n' && is_harmful(c)), "{said:?}");
            assert!(said.lines().all(|line| !line.starts_with("rm ")), "{said:?}");
        }
    }
}
