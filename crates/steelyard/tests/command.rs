// SPDX-License-Identifier: GPL-2.0-only
//! The command as a person or a script sees it: output, exit codes, files, signals.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Two policies, two seeds, a domain of each kind of load.
const SCENARIO: &str = r#"
name = "small"
length = "300 ms"
seeds = 2

[host]
cores_per_socket = 2

[[domain]]
name = "web"
[[domain.task]]
workload.web = { client = { open = { rate_per_s = 500 } }, service = "500 us", page_bytes = 4096 }

[[domain]]
name = "batch"
count = 3
weight = 512
[[domain.task]]
workload.busy = { compute = "5 ms", sleep = "1 ms", jitter_percent = 20 }

[[policy]]
policy = "credit@xen-4.5"

[[policy]]
policy = "fair"
"#;

/// A domain with a cap and one without, on one pCPU.
const CAPPED: &str = r#"
name = "capped"
length = "2 s"
[[domain]]
name = "trial"
cap_percent = 20
[[domain.task]]
workload.busy = { compute = "5 ms" }
[[domain]]
name = "other"
[[domain.task]]
workload.busy = { compute = "5 ms" }
[[policy]]
policy = "credit2@xen-4.5"
[[policy]]
policy = "credit2@xen-4.20"
[[policy]]
policy = "sedf"
"#;

/// Xen 4.5's Credit2 knew no caps: it is told on and best at nothing, in the table, and named with what it
/// heeds by `policies`.
#[test]
fn a_policy_that_ignores_a_cap_is_told_on() {
    let directory = directory();
    fs::write(directory.path().join("capped.toml"), CAPPED).unwrap();
    let output = steelyard(&directory).args(["compare", "capped.toml", "--all"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(one_line.contains("credit2@xen-4.5 did not honour the cap of trial: trial ran 50.0 % of a pCPU where 20.0 % are its cap; credit2@xen-4.5 knows no caps"), "{text}");
    assert!(one_line.contains("sedf@xen-4.2: a vCPU stays on its pCPU"), "{text}");
    assert!(!one_line.contains("credit2@xen-4.5 serves it best"), "{text}");
    let output = steelyard(&directory).args(["policies", "credit2"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("Heeds: weight; cap in xen-4.20; slice\n"), "{text}");
    assert!(text.contains("Known: xen-4.5: queues are balanced"), "{text}");
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The command, to be run in a directory with `small.toml`.
fn steelyard(directory: &TempDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steelyard"));
    command.current_dir(directory).env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
    command
}

fn directory() -> TempDir {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("small.toml"), SCENARIO).unwrap();
    directory
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn succeeded(output: Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

const FILES: [&str; 4] = ["report.html", "results.csv", "results.json", "trace.json.gz"];

#[test]
fn the_number_of_threads_changes_no_byte() {
    let directory = directory();
    for threads in ["1", "8"] {
        let arguments = ["compare", "small.toml", "--threads", threads, "--out", threads];
        succeeded(steelyard(&directory).args(arguments).output().unwrap());
    }
    let read = |threads: &str, name| fs::read(directory.path().join(threads).join(name)).unwrap();
    for name in FILES {
        assert!(read("1", name) == read("8", name), "{name}");
    }
}

#[test]
fn a_comparison_holds_every_run_in_order() {
    let directory = directory();
    let arguments = ["compare", "small.toml", "small.toml", "--json", "--seeds", "3", "-p"];
    let json = succeeded(
        steelyard(&directory).args(arguments).arg("credit2,sedf,fair@cfs").output().unwrap(),
    );
    let results: serde_json::Value = serde_json::from_str(&json).unwrap();
    let comparisons = results["comparisons"].as_array().unwrap();
    assert_eq!(comparisons.len(), 2);
    for comparison in comparisons {
        let runs: Vec<_> = comparison["runs"].as_array().unwrap().iter().collect();
        let order: Vec<_> = runs
            .iter()
            .map(|run| (run["policy"].as_str().unwrap(), run["seed"].as_u64().unwrap()))
            .collect();
        let expected: Vec<_> = ["credit2@xen-4.20", "sedf@xen-4.2", "fair@cfs"]
            .into_iter()
            .flat_map(|policy| (1..=3).map(move |seed| (policy, seed)))
            .collect();
        assert_eq!(order, expected);
        assert_eq!(runs[0]["domains"].as_array().unwrap().len(), 4);
        assert_ne!(runs[0]["domains"], runs[1]["domains"], "another seed, another run");
    }
}

#[test]
fn the_trace_shows_the_worst_wait_of_each_policy() {
    let directory = directory();
    // Longer than what a trace covers.
    let arguments = ["compare", "small.toml", "--out", "out", "--set", "length=4 s"];
    succeeded(steelyard(&directory).args(arguments).output().unwrap());
    let out = directory.path().join("out");
    let results: serde_json::Value =
        serde_json::from_slice(&fs::read(out.join("results.json")).unwrap()).unwrap();
    let mut trace = String::new();
    flate2::read::GzDecoder::new(fs::File::open(out.join("trace.json.gz")).unwrap())
        .read_to_string(&mut trace)
        .unwrap();
    let trace: serde_json::Value = serde_json::from_str(&trace).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let runs = results["comparisons"][0]["runs"].as_array().unwrap();
    for run in runs.iter().filter(|run| run["seed"] == 1) {
        let longest = run["domains"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|domain| domain["waits"]["worst"]["length_ns"].as_u64())
            .max()
            .unwrap();
        let prefix = format!("small | {} | ", run["policy"].as_str().unwrap());
        let pids: Vec<_> = events
            .iter()
            .filter(|event| event["name"] == "process_name")
            .filter(|event| event["args"]["name"].as_str().unwrap().starts_with(&prefix))
            .map(|event| event["pid"].as_u64().unwrap())
            .collect();
        let waits = events
            .iter()
            .filter(|event| event["name"] == "waiting")
            .filter(|event| pids.contains(&event["pid"].as_u64().unwrap()))
            .map(|event| (event["dur"].as_f64().unwrap() * 1e3).round() as u64);
        assert_eq!(waits.max(), Some(longest), "{prefix}");
    }
}

#[test]
fn a_recording_stands_beside_the_policies() {
    let directory = directory();
    let recording = repository().join("recordings/four-vms.perf.txt.zst");
    let output = steelyard(&directory)
        .args(["compare", "--all", "--set", "length=200 ms", "--policy", "credit2,sedf"])
        .arg(recording)
        .output()
        .unwrap();
    let table = succeeded(output);
    for word in ["recorded", "credit2", "sedf"] {
        assert!(table.contains(word), "{word}: {table}");
    }
    // Its own scheduler stands there unasked, with how far off it is, and what was assumed.
    for word in ["fair", "How far replays are off", "assumed: `--own`", "No control groups"] {
        assert!(table.contains(word), "{word}: {table}");
    }
}

/// One that can be sent by mail: the page of the shipped recording, every policy in it, at most 1.5 MB.
#[test]
fn the_page_of_a_recording_is_small() {
    let directory = directory();
    let recording = repository().join("recordings/four-vms.perf.txt.zst");
    let compare = ["compare", "--seeds", "1", "--out", "report"];
    succeeded(steelyard(&directory).args(compare).arg(recording).output().unwrap());
    let length = fs::metadata(directory.path().join("report/report.html")).unwrap().len();
    assert!(length <= 1_500_000, "{length} bytes");
}

#[test]
fn a_comparison_fits_on_a_screen() {
    let directory = directory();
    let recording = repository().join("recordings/four-vms.perf.txt.zst");
    let compare = ["compare", "--set", "length=200 ms"];
    let output = steelyard(&directory).args(compare).arg(recording).output().unwrap();
    let screen = succeeded(output);
    assert!(screen.lines().count() <= 23, "{screen}");
    for word in ["recorded", "wait p99", "vm-web", "(assumed)", "Assumed, not recorded", "--all"] {
        assert!(screen.contains(word), "{word}: {screen}");
    }
    // What else ran on that host is not among its machines.
    assert!(!screen.contains("rest of the host"), "{screen}");
}

#[test]
fn two_recordings_say_what_a_change_brought() {
    let directory = directory();
    let longer = SCENARIO.replacen("300 ms", "2 s", 1);
    fs::write(directory.path().join("small.toml"), longer).unwrap();
    for (policy, file) in [("credit", "before.steelyard"), ("sedf", "after.steelyard")] {
        let record = ["record", "--simulate", "small.toml", "--policy", policy, "-o", file];
        succeeded(steelyard(&directory).args(record).output().unwrap());
    }
    let compare = |arguments: &[&str]| {
        let files = ["compare", "before.steelyard", "after.steelyard"];
        steelyard(&directory).args(files).args(arguments).output().unwrap()
    };
    let text_of_it = succeeded(compare(&[]));
    assert!(text_of_it.contains("From before.steelyard") && text_of_it.contains("wait p99"));
    // The figures are those of the recording itself.
    let change: serde_json::Value = serde_json::from_str(&succeeded(compare(&["--json"]))).unwrap();
    let json = succeeded(compare(&["--json", "--policy", "credit"]));
    let simulated: serde_json::Value = serde_json::from_str(&json).unwrap();
    for (number, side) in ["before", "after"].into_iter().enumerate() {
        let domains = simulated["comparisons"][number]["runs"][0]["domains"].as_array().unwrap();
        for domain in domains {
            let changes = change["domains"].as_array().unwrap();
            let same = changes.iter().find(|one| one["name"] == domain["name"]).unwrap();
            let near = |one: &serde_json::Value, other: &serde_json::Value, within: f64| {
                let (one, other) = (one.as_f64().unwrap(), other.as_f64().unwrap());
                assert!((one - other).abs() <= within, "{side} {domain}: {one} {other}");
            };
            near(&same["share_percent"][side], &domain["share_percent"], 0.1);
            let p99 = &domain["waits"]["p99_ns"];
            near(&same["wait_p99_ns"][side], p99, 0.02 * p99.as_f64().unwrap());
        }
    }
    let output = compare(&["--out", "out"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--out"), "{output:?}");
}

#[test]
fn own_is_for_recordings() {
    let directory = directory();
    let arguments = ["compare", "small.toml", "--own", "credit"];
    let output = steelyard(&directory).args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("this is no recording"), "{output:?}");
}

#[test]
fn a_replay_by_the_scheduler_that_was_recorded_is_near_to_it() {
    let directory = directory();
    let policy = ["--policy", "fair@eevdf", "--interval", "100ms", "-o", "small.steelyard"];
    let record = [&["record", "--simulate", "small.toml"][..], &policy].concat();
    succeeded(steelyard(&directory).args(record).output().unwrap());
    let compare = ["compare", "small.steelyard", "--policy", "credit", "--json"];
    let json = succeeded(steelyard(&directory).args(compare).output().unwrap());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let comparison = &json["comparisons"][0];
    // A recording of a simulation says what it simulated.
    let error = &comparison["replay_error"];
    assert_eq!((&error["policy"], &error["assumed"]), (&"fair@eevdf".into(), &false.into()));
    assert!(error["share_worst_points"].as_f64().unwrap() < 5.0, "{error}");
    assert_eq!(comparison["seeds"].as_array().unwrap().len(), 5);

    // What would be with other weights is no error of the replay.
    let changed = ["--set", "domain.\"web\".weight=8192", "--set", "host.others=\"beside\""];
    let output = steelyard(&directory).args(compare).args(changed).output().unwrap();
    let json: serde_json::Value = serde_json::from_str(&succeeded(output)).unwrap();
    assert_eq!(&json["comparisons"][0]["replay_error"], error);

    // That the file does not end as it should is said.
    let whole = fs::read(directory.path().join("small.steelyard")).unwrap();
    fs::write(directory.path().join("cut.steelyard"), &whole[..whole.len() * 3 / 4]).unwrap();
    let cut = ["compare", "cut.steelyard", "--policy", "credit", "--seeds", "1"];
    let said = succeeded(steelyard(&directory).args(cut).output().unwrap());
    assert!(said.contains("s of the file"), "{said}");
}

#[test]
#[cfg(not(feature = "kvm"))]
fn a_recording_without_single_waits_is_announced() {
    let directory = directory();
    let record = ["record", "--length", "10ms", "--interval", "10ms", "-o", "host.steelyard"];
    let output = steelyard(&directory).args(record).output().unwrap();
    let said = text(&output.stderr);
    succeeded(output);
    assert!(said.contains("no single waits") && said.contains("compare"), "{said}");
}

#[test]
fn what_was_written_is_named_and_the_table_still_printed() {
    let directory = directory();
    let output =
        steelyard(&directory).args(["compare", "small.toml", "--out", "a/b"]).output().unwrap();
    let notes = text(&output.stderr);
    assert!(succeeded(output).contains("small"));
    assert_eq!(names(&directory.path().join("a/b")), FILES);
    for name in FILES {
        assert!(notes.contains(&format!("a/b/{name}")), "{notes}");
    }
    // No progress bar where nobody watches.
    assert_eq!(notes.lines().count(), FILES.len(), "{notes}");
}

#[test]
fn without_out_nothing_is_written() {
    let directory = directory();
    let output = steelyard(&directory).args(["compare", "small.toml"]).output().unwrap();
    assert_eq!(text(&output.stderr), "");
    assert!(succeeded(output).contains("web"));
    assert_eq!(names(directory.path()), ["small.toml"]);
}

#[test]
fn colour_is_for_terminals_unless_asked_for() {
    let directory = directory();
    let colored = |arguments: &[&str]| {
        let output = steelyard(&directory).args(arguments).output().unwrap();
        succeeded(output).contains('\x1b')
    };
    assert!(!colored(&["compare", "small.toml"]));
    assert!(!colored(&["policies"]));
    assert!(!colored(&["--help"]));
    assert!(colored(&["compare", "small.toml", "--color", "always"]));
    assert!(colored(&["policies", "--color", "always"]));
    let output = steelyard(&directory)
        .args(["policies", "--color", "auto"])
        .env("CLICOLOR_FORCE", "1")
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    assert!(!succeeded(output).contains('\x1b'));
}

/// Runs `arguments` with a file of this content, which must be refused without a trace.
fn refused(name: &str, content: impl AsRef<[u8]>, arguments: &[&str], expected: &[&str]) {
    let directory = directory();
    fs::write(directory.path().join(name), content).unwrap();
    let before = names(directory.path());
    let output = steelyard(&directory)
        .args(["compare", name, "--out", "out"])
        .args(arguments)
        .output()
        .unwrap();
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert_eq!(text(&output.stdout), "", "{message}");
    assert!(message.starts_with("error: "), "{message}");
    for words in expected {
        assert!(message.contains(words), "`{words}` is not in:\n{message}");
    }
    assert_eq!(names(directory.path()), before, "{message}");
}

/// [`refused`] of the scenario with a piece of it replaced; the message names the line.
fn refused_scenario(piece: &str, replacement: &str, expected: &[&str]) {
    let start = SCENARIO.find(piece).unwrap();
    let line = SCENARIO[..start].matches('\n').count() + 1;
    let place = format!("--> bad.toml:{line}:");
    let content = SCENARIO.replacen(piece, replacement, 1);
    refused("bad.toml", content, &[], &[expected, &[&place]].concat());
}

#[test]
fn bad_settings_are_shown_with_their_place() {
    let weight = "weight = 512";
    refused_scenario(weight, "wieght = 512", &["`wieght`", "did you mean `weight`?"]);
    refused_scenario(weight, "weight = 0", &["`0`", "1 to 65535"]);
    refused_scenario(weight, "weight = 65536", &["`65536`", "1 to 65535"]);
    refused_scenario(weight, "cap_percent = 201", &["`201`", "above the host"]);
    refused_scenario(weight, "pin = [\"0-2\"]", &["pCPU 2", "not there"]);
    refused_scenario("300 ms", "300 yaers", &["300 yaers"]);
    refused_scenario("300 ms", "300000 h", &["10^12"]);
    refused_scenario("credit@xen-4.5", "credti@xen-4.5", &["`credti`", "did you mean `credit`?"]);
    refused_scenario("[host]", "[host", &[]);
}

#[test]
fn bad_options_are_refused() {
    let refused = |arguments: &[&str], expected: &[&str]| {
        refused("good.toml", SCENARIO, arguments, expected);
    };
    refused(
        &["--policy", "credit@xen-4.6"],
        &["`xen-4.6`", "did you mean `xen-4.2`?", "`xen-4.5`"],
    );
    refused(&["--policy", "credit,credti2"], &["`credti2`", "did you mean `credit2`?"]);
    refused(&["--policy", "credit2+reset-bost"], &["did you mean `reset-boost`?"]);
    refused(&["--policy", "credit+reset-boost"], &["no meaning for credit: it follows the resets"]);
    refused(&["--set", "reset-boost.growth=squared"], &["no policy here has `reset-boost`"]);
    refused(&["--policy", "credit,credit"], &["twice"]);
    refused(&["--set", "lenght=1 s"], &["--set", "`lenght`", "did you mean `length`?"]);
    refused(&["--set", "credit.slice_n=5"], &["--set", "`slice_n`", "did you mean `slice_ns`?"]);
    refused(&["--set", "credit.slice_ns=soon"], &["--set", "`soon`"]);
    refused(&["--set", "domain.web.weight=65536"], &["--set", "65536"]);
    refused(&["--set", "length"], &["--set", "KEY=VALUE"]);
    refused(&["--seeds", "0"], &["'0'", "--seeds"]);
    refused(&["--seeds", "many"], &["many", "--seeds"]);
    refused(&["--seeds", "4000000000"], &["1..=10000", "--seeds"]);
    refused(&["--threads", "0"], &["'0'", "--threads"]);
    refused(&["--polcy", "credit"], &["--polcy", "--policy"]);
    refused(&["missing.toml"], &["missing.toml"]);
    refused(&["--out", "out"], &["--out", "multiple times"]);
}

#[test]
fn an_output_that_is_no_directory_is_refused_before_the_work() {
    let directory = directory();
    let output = steelyard(&directory)
        .args(["compare", "small.toml", "--out", "small.toml"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("small.toml"), "{}", text(&output.stderr));
    assert_eq!(fs::read_to_string(directory.path().join("small.toml")).unwrap(), SCENARIO);
}

#[test]
fn bad_recordings_are_refused() {
    let shipped = fs::read(repository().join("recordings/four-vms.perf.txt.zst")).unwrap();
    refused("cut.txt.zst", &shipped[..shipped.len() / 2], &[], &["cut.txt.zst"]);
    refused("nothing.perf.txt", "", &[], &["nothing.perf.txt", "empty"]);
    refused("comments.perf.txt", "# none\n", &[], &["comments.perf.txt", "empty"]);
    refused("perf.data", b"PERFILE2\0\0", &[], &["perf.data", "perf script"]);
    refused("noise.perf.txt", [0x7f, b'E', b'L', b'F', 0, 1, 2], &[], &["noise.perf.txt"]);
    let switch = |time: &str| {
        format!(
            "a 7/7 [000] {time}: sched:sched_switch: prev_comm=a prev_pid=7 prev_prio=120 \
             prev_state=S ==> next_comm=b next_pid=8 next_prio=120\n"
        )
    };
    let backwards = switch("5.000002000") + &switch("5.000001000");
    refused("back.perf.txt", backwards, &[], &["back.perf.txt:2:", "5.000001000", "backwards"]);
}

#[test]
fn policies_are_listed_with_all_that_they_are_made_of() {
    let directory = directory();
    let list =
        |arguments: &[&str]| succeeded(steelyard(&directory).args(arguments).output().unwrap());
    let all = list(&["policies"]);
    let json: serde_json::Value = serde_json::from_str(&list(&["policies", "--json"])).unwrap();
    let mut by_name = BTreeSet::new();
    for part in json.as_array().unwrap() {
        let name = part["name"].as_str().unwrap();
        let one = list(&["policies", name]);
        assert!(all.contains(&one), "{one}");
        for vintage in part["vintages"].as_array().into_iter().flatten() {
            assert!(one.contains(&format!("{name}@{}", vintage.as_str().unwrap())), "{one}");
        }
        for (published, spelled) in part["published"].as_object().into_iter().flatten() {
            let named = |name: &str| steelyard_policy::Policy::named(name).unwrap();
            let (same, spelled) = (named(published), named(spelled.as_str().unwrap()));
            assert_eq!(same.parameters(), spelled.parameters());
            by_name.insert(published.clone());
        }
        // A governor is set as part of a policy that it suits.
        let governed = part["suits"][0].as_str().map(|suits| format!("{suits}+{name}"));
        assert_eq!(part["kind"] == "governor", governed.is_some(), "{one}");
        // What is listed can be set.
        for parameter in part["parameters"].as_array().unwrap() {
            let key = parameter["name"].as_str().unwrap();
            assert!(one.contains(&format!("\n  {key}  ")), "{key}: {one}");
            for (vintage, value) in parameter["defaults"].as_object().unwrap() {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                let (policy, key) = match &governed {
                    Some(policy) => (policy.clone(), format!("{name}.{key}")),
                    None => (format!("{name}@{vintage}"), key.to_owned()),
                };
                let mut policy = steelyard_policy::Policy::named(&policy).unwrap();
                policy.set(&key, &value).unwrap();
                assert!(one.contains(&value), "{value}: {one}");
            }
        }
    }
    let published = steelyard_policy::published().iter().map(|(name, _)| (*name).to_owned());
    assert_eq!(by_name, published.collect());
    assert!(all.lines().all(|line| line.chars().count() <= 100), "{all}");
    let output = steelyard(&directory).args(["policies", "credt"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("'credit'"), "{}", text(&output.stderr));
}

#[test]
fn an_import_can_be_compared() {
    let directory = directory();
    let description = "name = \"guest\"\nvcpus = 2\ncpu_weight = 512\n";
    fs::write(directory.path().join("guest.cfg"), description).unwrap();
    let printed = succeeded(steelyard(&directory).args(["import", "guest.cfg"]).output().unwrap());
    let arguments = ["import", "guest.cfg", "-o", "guest.toml"];
    assert_eq!(succeeded(steelyard(&directory).args(arguments).output().unwrap()), "");
    assert_eq!(fs::read_to_string(directory.path().join("guest.toml")).unwrap(), printed);
    assert_eq!(names(directory.path()), ["guest.cfg", "guest.toml", "small.toml"]);
    let compare = |input| {
        let arguments = ["compare", input, "--set", "length=100 ms", "--json"];
        let json = succeeded(steelyard(&directory).args(arguments).output().unwrap());
        let results: serde_json::Value = serde_json::from_str(&json).unwrap();
        results["comparisons"][0]["runs"].clone()
    };
    assert_eq!(compare("guest.cfg"), compare("guest.toml"));
}

/// A run of a comparison by its policy, as JSON.
fn runs(directory: &TempDir, input: &str) -> serde_json::Value {
    let arguments = ["compare", input, "--policy", "credit2", "--seeds", "1", "--json"];
    let json = succeeded(steelyard(directory).args(arguments).output().unwrap());
    let results: serde_json::Value = serde_json::from_str(&json).unwrap();
    results["comparisons"][0]["runs"].clone()
}

#[test]
fn what_was_recorded_can_be_compared_and_converted() {
    let directory = directory();
    let policy = ["--policy", "credit2", "--interval", "100ms", "-o", "small.steelyard"];
    let record = [&["record", "--simulate", "small.toml"][..], &policy].concat();
    succeeded(steelyard(&directory).args(record).output().unwrap());
    let original = &runs(&directory, "small.toml")[0];
    let replayed = runs(&directory, "small.steelyard");
    let (recorded, again) = (&replayed[0], &replayed[1]);
    assert_eq!(recorded["policy"], "recorded");
    let domains = |run: &serde_json::Value| run["domains"].as_array().unwrap().clone();
    for ((original, recorded), again) in
        domains(original).iter().zip(domains(recorded)).zip(domains(again))
    {
        // What the simulation measured by itself is what the recording says.
        let keys = [
            "name",
            "weight",
            "cap_percent",
            "gotten_ns",
            "waited_ns",
            "blocked_ns",
            "switches",
            "migrations",
            "preemptions",
        ];
        for key in keys {
            assert_eq!(recorded[key], original[key], "{key}");
        }
        assert_eq!(recorded["waits"]["histogram"], original["waits"]["histogram"]);
        assert_eq!(recorded["waits"]["p99_ns"], original["waits"]["p99_ns"]);
        // As a load for the same policy it gives nearly the same.
        let share = |domain: &serde_json::Value| domain["share_percent"].as_f64().unwrap();
        let (share, before) = (share(&again), share(original));
        assert!((share - before).abs() < 5.0, "{share} % after {before} %");
    }

    // To Perfetto's format and back nothing is lost but what rounding to 256 ns takes from sums.
    for arguments in [
        ["convert", "small.steelyard", "-o", "small.json.gz"],
        ["convert", "small.json.gz", "-o", "again.steelyard"],
    ] {
        succeeded(steelyard(&directory).args(arguments).output().unwrap());
    }
    let converted = &runs(&directory, "again.steelyard")[0];
    for (converted, recorded) in domains(converted).iter().zip(domains(recorded)) {
        for key in ["name", "weight", "cap_percent", "switches", "migrations"] {
            assert_eq!(converted[key], recorded[key], "{key}");
        }
        let most_ns = 256 * recorded["switches"].as_u64().unwrap();
        for key in ["gotten_ns", "waited_ns"] {
            let ns = |domain: &serde_json::Value| domain[key].as_u64().unwrap();
            assert!(ns(converted).abs_diff(ns(&recorded)) < most_ns, "{key}");
        }
    }
    let output = steelyard(&directory).args(["convert", "small.toml", "-o", "x"]).output().unwrap();
    assert!(text(&output.stderr).contains("no recording"), "{}", text(&output.stderr));
    assert!(!directory.path().join("x").exists());
}

#[test]
fn an_import_that_fails_leaves_the_old_file() {
    let directory = directory();
    fs::write(directory.path().join("bad.cfg"), "vcpus = many\n").unwrap();
    let output =
        steelyard(&directory).args(["import", "bad.cfg", "-o", "small.toml"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("bad.cfg:1:"), "{}", text(&output.stderr));
    let output = steelyard(&directory)
        .args(["import", "small.toml", "-o", "missing/small.toml"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("missing/small.toml"), "{}", text(&output.stderr));
    assert_eq!(names(directory.path()), ["bad.cfg", "small.toml"]);
    assert_eq!(fs::read_to_string(directory.path().join("small.toml")).unwrap(), SCENARIO);
}

#[test]
fn the_schema_is_the_one_in_the_documentation() {
    let directory = directory();
    let printed = succeeded(steelyard(&directory).arg("schema").output().unwrap());
    let kept = fs::read_to_string(repository().join("docs/scenario.schema.json")).unwrap();
    assert_eq!(printed, kept);
}

#[test]
fn every_command_has_a_manual_page() {
    let directory = directory();
    let page = |arguments: &[&str]| {
        succeeded(steelyard(&directory).arg("man").args(arguments).output().unwrap())
    };
    let program = page(&[]);
    for command in ["compare", "top", "apply", "undo", "completions"] {
        assert!(program.contains(&format!("steelyard\\-{command}(1)")), "{command}: {program}");
        let own = page(&[command]);
        assert!(own.contains(&format!(".TH steelyard-{command} 1")), "{own}");
        // What is coloured on a terminal is not here.
        assert!(own.contains("Examples") && !own.contains('\x1b'), "{own}");
    }
    let output = steelyard(&directory).args(["man", "wman"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
#[cfg(not(feature = "kvm"))]
fn a_build_without_kvm_says_so() {
    let output = steelyard(&directory()).args(["kvm", "check"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("built without"), "{}", text(&output.stderr));
}

#[test]
fn the_version_names_commit_and_features() {
    let told = succeeded(steelyard(&directory()).arg("--version").output().unwrap());
    let lines: Vec<_> = told.lines().collect();
    let [version, commit, features] = lines[..] else { panic!("{told}") };
    assert_eq!(version, format!("steelyard {}", env!("CARGO_PKG_VERSION")));
    let commit = commit.strip_prefix("commit: ").unwrap();
    assert!(commit == "unknown" || commit.chars().all(|c| c.is_ascii_hexdigit()), "{commit}");
    assert_eq!(features.contains("kvm"), cfg!(feature = "kvm"), "{features}");
}

#[test]
fn completions_know_the_policies() {
    let directory = directory();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script =
            succeeded(steelyard(&directory).args(["completions", shell]).output().unwrap());
        assert!(script.contains("compare"), "{script}");
    }
    let script = succeeded(steelyard(&directory).args(["completions", "bash"]).output().unwrap());
    assert!(script.contains("credit@xen-4.5"), "{script}");
}

#[test]
fn experiments_are_part_of_the_program() {
    let directory = directory();
    let arguments = ["reproduce", "boost-credit", "--seeds", "1", "--out", "out"];
    let output = steelyard(&directory).args(arguments).output().unwrap();
    let json: serde_json::Value =
        serde_json::from_slice(&fs::read(directory.path().join("out/results.json")).unwrap())
            .unwrap();
    let claims = json["experiments"][0]["claims"].as_array().unwrap();
    let expected = claims.iter().all(|c| c["state"] == "holds" || c["state"] == "known");
    assert_eq!(output.status.code(), Some(if expected { 0 } else { 3 }));
    let table = text(&output.stdout);
    assert!(table.contains("boost-credit") && table.contains("worst wait of HVM1"), "{table}");
    let files = ["matrix.svg", "report.html", "results.json", "tables.md"];
    assert_eq!(names(&directory.path().join("out")), files);

    for threads in ["1", "3"] {
        let arguments =
            ["reproduce", "boost-credit", "--seeds", "1", "--json", "--threads", threads];
        let output = steelyard(&directory).args(arguments).output().unwrap();
        let again: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(again, json);
    }
}

#[test]
fn unknown_experiments_are_refused() {
    let directory = directory();
    let output = steelyard(&directory).args(["reproduce", "boost"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let message = text(&output.stderr);
    for words in ["there is no experiment `boost`", "--> NAME:1:1", "`mcredit2`"] {
        assert!(message.contains(words), "{message}");
    }
    let output = steelyard(&directory).args(["reproduce", "all", "boost"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let output = steelyard(&directory).args(["reproduce", "--seeds", "0"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("0 is not in 1.."));
    // Before anything runs.
    let output = steelyard(&directory).args(["reproduce", "--out", "/proc/x"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("cannot write /proc/x"));
}

#[test]
fn a_pipe_that_is_closed_early_is_no_error() {
    let directory = directory();
    for arguments in [&["policies"][..], &["compare", "small.toml", "--json"]] {
        let mut child = steelyard(&directory)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(text(&output.stderr), "");
        assert_eq!(output.status.code(), Some(0));
    }
}

#[test]
fn a_full_disk_is_an_error() {
    let directory = directory();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = steelyard(&directory).arg("policies").stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("standard output"), "{}", text(&output.stderr));
}

/// Sends a signal and returns the exit code, or none if it died of it.
fn interrupt(mut child: Child, signal: Signal) -> Option<i32> {
    kill_process(Pid::from_child(&child), signal).unwrap();
    child.wait().unwrap().code()
}

#[test]
fn a_signal_stops_the_work_and_leaves_nothing() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let directory = directory();
        // Reading the input from a pipe tells when the command is up.
        let input = directory.path().join("long.toml");
        mknodat(CWD, &input, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let child = steelyard(&directory)
            .args(["compare", "long.toml", "--out", "out", "--seeds", "1000"])
            .args(["--set", "length=1 h"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        fs::write(&input, SCENARIO).unwrap();
        sleep(Duration::from_millis(300));
        assert_eq!(interrupt(child, signal), Some(code));
        assert_eq!(names(directory.path()), ["long.toml", "small.toml"]);
    }
}

#[test]
fn a_signal_while_writing_leaves_no_half_written_file() {
    let directory = directory();
    let out = directory.path().join("out");
    // Few events, many figures to write.
    let child = steelyard(&directory)
        .args(["compare", "small.toml", "--out", "out", "--seeds", "10"])
        .args(["--set", "length=1 ms", "--set", "domain.batch.count=2000"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while !out.exists() {
        sleep(Duration::from_millis(1));
    }
    assert_eq!(interrupt(child, Signal::INT), Some(130));
    // It may have been quick enough to finish all of them.
    assert!(!out.exists() || names(&out) == FILES, "{:?}", names(&out));
}

/// Two that compute beside each other on one pCPU, one of them capped without need: what the first advice is.
const ADVISED: &str = r#"
name = "advised"
length = "1 s"
host.cores_per_socket = 2
[[domain]]
name = "tight fit"
cap_percent = 30
task = [{ workload.busy = {} }]
[[domain]]
name = "another one, with a name as long as they are in practice"
task = [{ workload.busy = {} }]
[[policy]]
policy = "credit2"
"#;

#[test]
fn advice_names_cause_and_command() {
    let directory = directory();
    fs::write(directory.path().join("advised.toml"), ADVISED).unwrap();
    let advice = |arguments: &[&str]| {
        let mut command = steelyard(&directory);
        succeeded(command.arg("advise").arg("advised.toml").args(arguments).output().unwrap())
    };
    let said = advice(&[]);
    assert!(said.contains("no cap for tight fit"), "{said}");
    assert!(said.contains("xl sched-credit2 -d 'tight fit' -c 0"), "{said}");
    assert!(said.lines().count() <= 24, "{said}");
    let all = advice(&["--all"]);
    // Commands are there to be copied.
    let is_command = |line: &str| line.trim_start().starts_with("xl ");
    let mut words = all.lines().filter(|line| !is_command(line));
    assert!(words.all(|line| line.chars().count() <= 80), "{all}");
    assert_eq!(advice(&["--json", "-j", "1"]), advice(&["--json", "-j", "2"]));
    advice(&["--plan", "plan.toml"]);
    steelyard_apply::Plan::read(&directory.path().join("plan.toml")).unwrap();
    let without = advice(&["--set", "domain.0.cap_percent=0"]);
    assert!(without.contains("Nothing to gain"), "{without}");
}
