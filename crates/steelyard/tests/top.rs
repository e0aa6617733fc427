// SPDX-License-Identifier: GPL-2.0-only
//! `steelyard record` and `steelyard top` as a script and a person see them: the person sits in tmux,
//! types, and reads the screen.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use steelyard_monitor::FullScreen;
use tempfile::TempDir;

const SCENARIO: &str = r#"
name = "small"
length = "300 ms"

[host]
cores_per_socket = 2

[[domain]]
name = "web"
vcpus = 2
[[domain.task]]
threads = 2
workload.busy = { compute = "2 ms", sleep = "3 ms" }

[[domain]]
name = "batch"
count = 3
weight = 512
[[domain.task]]
workload.busy = { compute = "5 ms" }

[[policy]]
policy = "credit2"
"#;

/// What is waited for comes within this time, or never.
const PATIENCE: Duration = Duration::from_secs(60);

fn steelyard(directory: &TempDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steelyard"));
    command.current_dir(directory).stdin(Stdio::null());
    command
}

fn run(directory: &TempDir, arguments: &str) -> Output {
    steelyard(directory).args(arguments.split(' ')).output().unwrap()
}

fn succeeded(output: Output) -> String {
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words}");
    String::from_utf8(output.stdout).unwrap()
}

fn refused(output: Output) -> String {
    assert_eq!(output.status.code(), Some(2));
    String::from_utf8(output.stderr).unwrap()
}

/// A directory with a scenario and a recording of it: 31 snapshots.
fn directory() -> TempDir {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("small.toml"), SCENARIO).unwrap();
    succeeded(run(&directory, "record --simulate small.toml --interval 10ms -o small.steelyard"));
    directory
}

#[test]
fn a_replay_is_what_was_recorded() {
    let directory = directory();
    let replayed = succeeded(run(&directory, "top --replay small.steelyard --json"));
    let simulated = succeeded(run(&directory, "top --simulate small.toml --interval 10ms --json"));
    assert!(replayed == simulated);
    let lines: Vec<Value> =
        replayed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 30);
    assert_eq!(lines[29]["time_ns"], 300_000_000);
    for line in lines {
        let names: Vec<_> =
            line["domains"].as_array().unwrap().iter().map(|d| &d["name"]).collect();
        assert_eq!(names, ["web", "batch-1", "batch-2", "batch-3"]);
        // Whatever is not idle somebody got.
        let busy = line["pcpus_busy_percent"].as_array().unwrap().iter();
        let busy: f64 = busy.map(|busy| busy.as_f64().unwrap()).sum();
        let gotten = line["domains"].as_array().unwrap().iter();
        let gotten: f64 = gotten.map(|domain| domain["gotten_percent"].as_f64().unwrap()).sum();
        assert!((busy - gotten).abs() < 0.01, "{busy} {gotten}");
    }
}

#[test]
fn scripts_get_tables_and_bars() {
    let directory = directory();
    let table = succeeded(run(&directory, "top --replay small.steelyard --batch 2"));
    assert_eq!(table.matches("DOMAIN").count(), 2);
    assert_eq!(table.matches("\nbatch-3 ").count(), 2, "{table}");
    let bars = succeeded(run(&directory, "top --replay small.steelyard --simple --batch 3"));
    assert_eq!(bars.matches("average").count(), 3 * 4);
    let without = run(&directory, "top --replay small.steelyard");
    assert!(refused(without).contains("no terminal"));
}

#[test]
fn a_recording_that_was_cut_off_is_shown_as_far_as_it_goes() {
    let directory = directory();
    let path = directory.path().join("small.steelyard");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let output = run(&directory, "top --replay small.steelyard --json");
    let words = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(words.contains("cut off"), "{words}");
    let lines = succeeded(output).lines().count();
    assert!(lines > 0 && lines < 30, "{lines}");
    // Its head begins: it is known to be a recording.
    fs::write(&path, &bytes[..200]).unwrap();
    let words = refused(run(&directory, "top --replay small.steelyard --json"));
    assert!(words.contains("ends before its first sample"), "{words}");
    let words = refused(run(&directory, "top --replay small.toml --json"));
    assert!(words.contains("no recording"), "{words}");
    assert!(refused(run(&directory, "top --replay none --json")).contains("cannot be read"));
}

#[test]
fn perfetto_gets_a_counter_for_each_vcpu() {
    let directory = directory();
    succeeded(run(&directory, "convert small.steelyard -o small.json.gz"));
    let trace = fs::File::open(directory.path().join("small.json.gz")).unwrap();
    let trace: Value = serde_json::from_reader(flate2::read::GzDecoder::new(trace)).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let named: Vec<_> = events.iter().filter(|event| event["name"] == "process_name").collect();
    let names: Vec<_> = named.iter().map(|event| &event["args"]["name"]).collect();
    assert_eq!(names, ["pCPUs", "web", "batch-1", "batch-2", "batch-3"]);
    // What a vCPU ran and waited is no more than there was, in every interval.
    let vcpu = |event: &&Value| {
        event["ph"] == "C" && event["pid"] == named[1]["pid"] && event["name"] == "vCPU 1"
    };
    let counters: Vec<_> = events.iter().filter(vcpu).collect();
    assert_eq!(counters.len(), 30);
    for (number, counter) in counters.iter().enumerate() {
        assert_eq!(counter["ts"], number as f64 * 10_000.0);
        let of = |what: &str| counter["args"][what].as_f64().unwrap();
        assert!(of("running %") + of("waiting %") < 100.001, "{counter}");
    }
    assert!(refused(run(&directory, "convert small.toml -o other")).contains("no recording"));
    assert!(!directory.path().join("other").exists());
}

#[test]
fn a_file_of_xentrace_becomes_a_recording() {
    let directory = directory();
    let compressed = include_bytes!("../../recording/tests/data/credit2.xentrace.gz");
    let mut bytes = vec![];
    flate2::read::GzDecoder::new(&compressed[..]).read_to_end(&mut bytes).unwrap();
    let path = directory.path().join("host.xentrace");
    fs::write(&path, &bytes).unwrap();
    succeeded(run(&directory, "convert host.xentrace -o host.steelyard"));
    let table = succeeded(run(&directory, "top --replay host.steelyard --batch 1 --speed 1000"));
    assert!(table.contains("host.xentrace: xentrace, 2 pCPUs"), "{table}");
    assert!(table.contains("domain 1"), "{table}");
    // Without switches it does not tell how fast its clock goes.
    let window = bytes[4..12].to_vec();
    let empty = [&bytes[..4], &window[..4], &[0; 4]].concat();
    fs::write(&path, &empty).unwrap();
    let words = refused(run(&directory, "convert host.xentrace -o other"));
    assert!(words.contains("--tsc-hz"), "{words}");
    succeeded(run(&directory, "convert host.xentrace -o other --tsc-hz 1000000000"));
    // What is written goes by its name, not by what is read.
    fs::write(&path, &bytes).unwrap();
    succeeded(run(&directory, "convert host.xentrace -o host.json.gz"));
    let mut trace = String::new();
    let packed = fs::File::open(directory.path().join("host.json.gz")).unwrap();
    flate2::read::GzDecoder::new(packed).read_to_string(&mut trace).unwrap();
    assert!(trace.starts_with("{\"displayTimeUnit\""), "{}", &trace[..100]);
    let cut = &bytes[..bytes.len() - 3];
    fs::write(&path, cut).unwrap();
    let output = run(&directory, "convert host.xentrace -o cut.steelyard");
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && words.contains("cut off"), "{words}");
}

#[test]
fn prometheus_gets_metrics() {
    let directory = directory();
    let arguments = ["export", "--simulate", "small.toml", "--listen", "127.0.0.1:0"];
    let mut child = steelyard(&directory)
        .args(arguments)
        .args(["--interval", "100ms"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap();
    let connect = || {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    };
    let ask = |request: &[u8]| {
        let mut stream = connect();
        stream.write_all(request).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    let get =
        |path: &str| ask(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes());
    let run_s = |text: &str| -> f64 {
        let name = "steelyard_vcpu_run_seconds_total{domain=\"batch-1\",vcpu=\"0\"} ";
        text.split(name).nth(1).unwrap().lines().next().unwrap().parse().unwrap()
    };
    // Who says nothing, or not all, or does not read, holds up nobody.
    let mut idle: Vec<_> = (0..6).map(|_| connect()).collect();
    idle[1].write_all(b"GET /met").unwrap();
    idle[2].write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let first = get("/metrics");
    let second = loop {
        let second = get("/metrics");
        if run_s(&second) > run_s(&first) {
            break second;
        }
    };
    assert!(first.starts_with("HTTP/1.1 200") && first.contains("application/openmetrics-text"));
    assert!(second.contains("steelyard_domain_waits_seconds_bucket") && second.contains("# EOF"));
    // The dashboard asks for nothing else.
    let dashboard = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/monitor/grafana.json");
    let dashboard: Value = serde_json::from_slice(&fs::read(dashboard).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    for target in panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap()) {
        let asked = target["expr"].as_str().unwrap();
        let name = asked.split(|c: char| c != '_' && !c.is_alphanumeric());
        let name = name.into_iter().find(|word| word.starts_with("steelyard_")).unwrap();
        assert!(second.contains(&format!("\n{name}{{")), "{name}");
    }
    assert!(get("/").starts_with("HTTP/1.1 404"));
    // A page of somebody's, whose name points here.
    let other = ask(b"GET /metrics HTTP/1.1\r\nHost: example.org\r\n\r\n");
    assert!(other.starts_with("HTTP/1.1 403"), "{other}");
    let head = ask(b"HEAD /metrics HTTP/1.0\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");
    assert!(ask(b"POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
    assert!(ask(b"\x16\x03\x01 what\r\n\r\n").starts_with("HTTP/1.1 400"));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// This process is a virtual machine with one busy vCPU as long as it is kept.
struct VirtualMachine(Arc<AtomicBool>, Option<thread::JoinHandle<()>>);

impl VirtualMachine {
    fn start() -> VirtualMachine {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let (starts, started) = mpsc::channel();
        let busy = move || {
            // From now on it has its name.
            starts.send(()).unwrap();
            let begin = Instant::now();
            while !stopped.load(Ordering::Relaxed) && begin.elapsed() < PATIENCE {
                std::hint::spin_loop();
            }
        };
        let vcpu = thread::Builder::new().name("CPU 0/KVM".to_owned()).spawn(busy).unwrap();
        started.recv().unwrap();
        VirtualMachine(stop, Some(vcpu))
    }
}

impl Drop for VirtualMachine {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        let _ = self.1.take().map(thread::JoinHandle::join);
    }
}

#[test]
fn this_host_is_watched_and_recorded() {
    let directory = TempDir::new().unwrap();
    let _vm = VirtualMachine::start();
    let own = |line: &str| -> Option<Value> {
        let interval: Value = serde_json::from_str(line).unwrap();
        let domains = interval["domains"].as_array().unwrap();
        domains.iter().find(|domain| domain["id"] == std::process::id()).cloned()
    };
    let now = succeeded(run(&directory, "top --json --batch 2 --interval 300ms --no-waits"));
    for line in now.lines() {
        let vm = own(line).unwrap();
        assert_eq!(vm["vcpus"][0]["name"], "CPU 0/KVM");
        assert_eq!(vm["vcpus"][0]["state"], "runnable");
        // It never blocks.
        let seen = |what: &str| vm[what].as_f64().unwrap();
        assert!(seen("gotten_percent") > 0.0, "{vm}");
        assert!(vm["worst_wait"].is_null());
    }
    // Ctrl-C ends a recording, as it should.
    let arguments = ["record", "-o", "host.steelyard", "--interval", "100ms"];
    let mut child = steelyard(&directory).args(arguments).stderr(Stdio::null()).spawn().unwrap();
    let path = directory.path().join("host.steelyard");
    let before = Instant::now();
    let recorded = || {
        let output = run(&directory, "top --replay host.steelyard --json");
        String::from_utf8(output.stdout).unwrap().lines().filter_map(own).count()
    };
    // It can be read while it is written.
    while !path.exists() || recorded() < 3 {
        assert!(before.elapsed() < PATIENCE);
        sleep(Duration::from_millis(100));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    // Why there are no single waits, and nothing else.
    let output = run(&directory, "top --replay host.steelyard --batch 1");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("Single waits") && said.lines().count() == 1, "{said}");
}

/// A terminal with a person. Its socket lies in the directory, another for each: a server that was told
/// to end still listens for a while.
struct Person<'a> {
    directory: &'a Path,
    socket: String,
}

impl<'a> Person<'a> {
    /// Runs the command; its number is in the file `pid`, afterwards the screen has its exit code and
    /// how the terminal is set.
    fn starts(directory: &'a TempDir, width: u16, height: u16, arguments: &str) -> Person<'a> {
        let program = env!("CARGO_BIN_EXE_steelyard");
        Person::sits_at(directory, width, height, &format!("{program} {arguments}"))
    }

    fn sits_at(directory: &'a TempDir, width: u16, height: u16, command: &str) -> Person<'a> {
        let person =
            Person { directory: directory.path(), socket: format!("socket-{width}x{height}") };
        let script = format!(
            "echo before; sh -c 'echo $$ > pid; exec {command}'; \
             echo \"code $?$(stty -a | grep -o '.icanon')\"; sleep 60"
        );
        let (width, height) = (width.to_string(), height.to_string());
        let size = ["-x", &width, "-y", &height];
        person.tmux(&[&["new-session", "-d"], &size[..], &[&script]].concat());
        person
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        succeeded(self.try_tmux(arguments))
    }

    fn try_tmux(&self, arguments: &[&str]) -> Output {
        Command::new("tmux")
            .args(["-u", "-S", &self.socket, "-f", "/dev/null"])
            .args(arguments)
            .current_dir(self.directory)
            .env("LC_ALL", "C.UTF-8")
            .env("SHELL", "/bin/sh")
            .env_remove("TMUX")
            .output()
            .unwrap()
    }

    fn process(&self) -> Pid {
        let pid = fs::read_to_string(self.directory.join("pid")).unwrap();
        Pid::from_raw(pid.trim().parse().unwrap()).unwrap()
    }

    fn types(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// The screen, once all of this is on it.
    fn reads(&self, expected: &[&str]) -> String {
        let begin = Instant::now();
        loop {
            let screen = self.tmux(&["capture-pane", "-p"]);
            if expected.iter().all(|text| screen.contains(text)) {
                return screen;
            }
            assert!(begin.elapsed() < PATIENCE, "no {expected:?} in\n{screen}");
            sleep(Duration::from_millis(20));
        }
    }

    /// One of `tests/data`, to the character. With `WRITE_SCREENS` set it becomes what is on the screen
    /// after this text.
    fn sees(&self, name: &str, text: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
        let path = path.with_extension("screen");
        if std::env::var_os("WRITE_SCREENS").is_some() {
            self.reads(&[text]);
            sleep(Duration::from_secs(1));
            fs::write(&path, self.tmux(&["capture-pane", "-p"])).unwrap();
        }
        let expected = fs::read_to_string(&path).unwrap_or_default();
        let begin = Instant::now();
        loop {
            let screen = self.tmux(&["capture-pane", "-p"]);
            if screen == expected {
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "{name} is now\n{screen}");
            sleep(Duration::from_millis(20));
        }
    }

    /// As it was before: its text is there again, and lines can be edited.
    fn has_the_terminal_back(&self) {
        self.has_the_terminal_back_after(0);
    }

    fn has_the_terminal_back_after(&self, code: i32) {
        let screen = self.reads(&["before", &format!("code {code} icanon")]);
        assert!(!screen.contains("DOMAIN"), "{screen}");
        // The cursor is seen again, and the mouse is the terminal's.
        let modes = self.tmux(&["display-message", "-p", "#{cursor_flag}#{mouse_any_flag}"]);
        assert_eq!(modes.trim(), "10");
    }
}

impl Drop for Person<'_> {
    fn drop(&mut self) {
        let _ = self.try_tmux(&["kill-server"]);
    }
}

#[test]
fn a_person_finds_their_way_through_a_recording() {
    let directory = directory();
    for (width, height) in [(80, 24), (200, 60)] {
        let person = Person::starts(&directory, width, height, "top --replay small.steelyard");
        person.reads(&["small: simulation of credit2", "31 of 31", "at its end", "+ batch-3"]);
        person.types(&["["]);
        person.reads(&["paused", "2 of 31", "10.0ms"]);
        person.types(&[".", "."]);
        person.reads(&["4 of 31", "0.030 s over"]);
        person.types(&[","]);
        person.reads(&["3 of 31", "0.020 s over"]);
        person.types(&["Enter"]);
        person.reads(&["- web", "vCPU 0", "vCPU 1"]);
        person.types(&["/", "b", "a", "t"]);
        person.reads(&["show domains with: bat_", "+ batch-1"]);
        person.types(&["Enter"]);
        let screen = person.reads(&["with \"bat\""]);
        assert!(!screen.contains("- web"), "{screen}");
        person.types(&["v"]);
        person.reads(&["batch-1, vCPU 0", "Waits that ended"]);
        person.types(&["p"]);
        person.reads(&["BEFORE", "QUEUE"]);
        person.types(&["?"]);
        person.reads(&["unfold or fold", "CPU%"]);
        // Sizes change while it runs.
        person.types(&["Escape"]);
        person.reads(&["DOMAIN"]);
        person.tmux(&["resize-window", "-x", "20", "-y", "5"]);
        person.reads(&["+ batch-1"]);
        person.tmux(&["resize-window", "-x", &width.to_string(), "-y", &height.to_string()]);
        person.reads(&["+ batch-3"]);
        person.types(&["q"]);
        person.has_the_terminal_back();
    }
}

#[test]
fn a_replayed_simulation_gives_these_screens() {
    let directory = directory();
    for (width, height) in [(80, 24), (200, 60)] {
        let person = Person::starts(&directory, width, height, "top --replay small.steelyard");
        person.reads(&["31 of 31", "at its end"]);
        person.types(&["[", ">", "a"]);
        person.sees(&format!("domains-{width}x{height}"), "vCPU 1");
        person.types(&["v"]);
        person.sees(&format!("vcpu-{width}x{height}"), "web, vCPU 0");
        person.types(&["p"]);
        person.sees(&format!("pcpus-{width}x{height}"), "WHO RAN");
    }
}

#[test]
fn what_others_recorded_is_replayed_too() {
    let directory = directory();
    succeeded(run(&directory, "convert small.steelyard -o small.json.gz"));
    let shares = |file: &str| -> Vec<(String, u64)> {
        let lines = succeeded(run(&directory, &format!("top --replay {file} --json")));
        let lines: Vec<Value> =
            lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let domains = lines[0]["domains"].as_array().unwrap().iter();
        let names = domains.map(|domain| domain["name"].as_str().unwrap().to_owned());
        let gotten_us = |name: &str| -> f64 {
            let all = lines.iter().flat_map(|line| {
                let domains = line["domains"].as_array().unwrap().iter();
                let length_us = line["length_ns"].as_f64().unwrap() / 1e3;
                domains.map(move |domain| (domain, length_us))
            });
            let own = all.filter(|(domain, _)| domain["name"] == name);
            own.map(|(d, us)| d["gotten_percent"].as_f64().unwrap() / 100.0 * us).sum()
        };
        names.map(|name| (name.clone(), gotten_us(&name).round() as u64)).collect()
    };
    // Runs are rounded to 256 ns, sums are not.
    for (of_trace, recorded) in shares("small.json.gz").iter().zip(shares("small.steelyard")) {
        assert_eq!(of_trace.0, recorded.0);
        assert!(of_trace.1.abs_diff(recorded.1) < 20, "{of_trace:?} {recorded:?}");
    }
}

#[test]
fn colours_and_blocks_are_there_where_they_are_wanted() {
    let directory = directory();
    let program = env!("CARGO_BIN_EXE_steelyard");
    // Bars are green.
    let colours = |person: &Person| person.tmux(&["capture-pane", "-e", "-p"]).contains("38;5;2m");
    let command = |before: &str, option: &str| {
        format!("env {before} {program} top --replay small.steelyard {option}")
    };
    for (width, before, option, wanted, bar) in [
        (80, "NO_COLOR=", "", true, "\u{2588}"),
        (81, "NO_COLOR=1", "", false, "\u{2588}"),
        (82, "NO_COLOR=1", "--color always", true, "\u{2588}"),
        (83, "NO_COLOR=", "--color never", false, "\u{2588}"),
        (84, "LC_ALL=C", "", true, "###"),
    ] {
        let person = Person::sits_at(&directory, width, 24, &command(before, option));
        person.reads(&["at its end", "+ batch-3", bar]);
        assert_eq!(colours(&person), wanted, "{before} {option}");
    }
    let person = Person::sits_at(&directory, 85, 24, &command("TERM=dumb", ""));
    person.reads(&["cannot be filled", "--batch", "code 2 icanon"]);
}

#[test]
fn a_signal_leaves_the_terminal_as_it_was() {
    for (signal, code) in [
        (Signal::INT, 0),
        (Signal::TERM, 0),
        (Signal::HUP, 0),
        (Signal::QUIT, 0),
        (Signal::ABORT, 128 + 6),
        (Signal::USR1, 128 + 10),
        (Signal::SEGV, 128 + 11),
        (Signal::ALARM, 128 + 14),
        (Signal::XCPU, 128 + 24),
    ] {
        let directory = TempDir::new().unwrap();
        let person = Person::starts(&directory, 80, 24, "top --interval 200ms");
        person.reads(&["pCPUs", "every 200ms", "q quit"]);
        kill_process(person.process(), signal).unwrap();
        person.has_the_terminal_back_after(code);
    }
}

#[test]
fn a_terminal_that_goes_takes_it_along() {
    // It is told by a signal, or finds out by itself.
    for told in ["trap : HUP", "trap '' HUP"] {
        let directory = TempDir::new().unwrap();
        let program = env!("CARGO_BIN_EXE_steelyard");
        // What the shell does itself ends by no signal, as another program would by a second one.
        let script = format!("{told}\n{program} top --interval 200ms\necho $? >code\n");
        fs::write(directory.path().join("script"), script).unwrap();
        let person = Person::sits_at(&directory, 80, 24, "sh ./script");
        person.reads(&["pCPUs", "every 200ms", "q quit"]);
        person.tmux(&["kill-server"]);
        let begin = Instant::now();
        let code = loop {
            match fs::read_to_string(directory.path().join("code")) {
                Ok(code) if code.ends_with('\n') => break code,
                _ => assert!(begin.elapsed() < PATIENCE, "it goes on without a terminal: {told}"),
            }
            sleep(Duration::from_millis(20));
        };
        // The signal may still come when it has found out and is about to end.
        assert!(["0\n", "129\n"].contains(&code.as_str()), "{told}: {code}");
    }
}

#[test]
fn where_no_keys_come_from_it_says_so() {
    let directory = directory();
    let program = env!("CARGO_BIN_EXE_steelyard");
    // Another session has no terminal of its own.
    let command = format!("setsid -w {program} top --replay small.steelyard </dev/null");
    let person = Person::sits_at(&directory, 100, 24, &command);
    person.reads(&["cannot fill the terminal: no keys can be read from /dev/tty", "code 1 icanon"]);
}

#[test]
fn a_panic_leaves_the_terminal_as_it_was() {
    let directory = TempDir::new().unwrap();
    let test = std::env::current_exe().unwrap();
    let command = format!(
        "env RUST_BACKTRACE=0 {} --exact fills_the_terminal_and_panics --ignored",
        test.display()
    );
    let person = Person::sits_at(&directory, 80, 24, &command);
    person.reads(&["before", "with the terminal filled", "code 101 icanon"]);
}

#[test]
#[ignore = "it is run by another test, in a terminal"]
fn fills_the_terminal_and_panics() {
    let _screen = FullScreen::enter().unwrap();
    panic!("with the terminal filled");
}

#[test]
fn a_panic_of_another_thread_leaves_the_terminal_as_it_was() {
    let directory = TempDir::new().unwrap();
    let test = std::env::current_exe().unwrap();
    let command = format!(
        "env RUST_BACKTRACE=0 {} --exact fills_the_terminal_while_another_thread_panics --ignored --nocapture",
        test.display()
    );
    let person = Person::sits_at(&directory, 80, 24, &command);
    let screen = person.reads(&["before", "in another thread", "code 0 icanon"]);
    assert!(!screen.contains("drawn after"), "{screen}");
}

#[test]
#[ignore = "it is run by another test, in a terminal"]
fn fills_the_terminal_while_another_thread_panics() {
    let mut screen = FullScreen::enter().unwrap();
    assert!(thread::spawn(|| panic!("in another thread")).join().is_err());
    // The thread that draws does not know yet.
    screen.draw(|frame| frame.render_widget("drawn after", frame.area())).unwrap();
}

#[test]
fn a_simulation_goes_back_as_well_as_forwards() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("small.toml"), SCENARIO).unwrap();
    let person = Person::starts(&directory, 100, 30, "top --simulate small.toml --interval 10ms");
    person.reads(&["31 of 31", "at its end"]);
    person.types(&["<"]);
    let last = person.reads(&["paused", "21 of 31", "0.200 s over"]);
    person.types(&["b", "Space"]);
    person.reads(&["2 of 31", "backwards, at its beginning", "0.010 s over"]);
    // What was is what it was before.
    person.types(&["Space", "b", "]", "<"]);
    assert_eq!(person.reads(&["paused, 21 of 31", "0.200 s over"]), last);
    person.types(&["q"]);
    person.has_the_terminal_back();
}

#[test]
fn a_source_that_stalls_holds_up_nobody() {
    let directory = TempDir::new().unwrap();
    for known in ["proc/self", "groups"] {
        fs::create_dir_all(directory.path().join(known)).unwrap();
    }
    let stat = directory.path().join("proc/stat");
    fs::write(directory.path().join("proc/self/schedstat"), "").unwrap();
    fs::write(&stat, "cpu0 1 0 1 100 0\n").unwrap();
    let arguments = "top --proc proc --groups groups --interval 100ms";
    let person = Person::starts(&directory, 80, 24, arguments);
    person.reads(&["1 pCPUs", "no virtual machine"]);
    // Nobody ever writes to it.
    let pipe = directory.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    fs::rename(&pipe, &stat).unwrap();
    person.reads(&["no answer for 2 s"]);
    person.types(&["?"]);
    person.reads(&["unfold or fold a domain", "no answer for"]);
    person.types(&["q"]);
    person.has_the_terminal_back();
}

#[test]
fn it_is_suspended_and_goes_on() {
    let directory = directory();
    let person = Person::sits_at(&directory, 100, 30, "sh -i");
    person.types(&["PS1='ready> '", "Enter"]);
    person.reads(&["ready> "]);
    let command = format!("{} top --replay small.steelyard", env!("CARGO_BIN_EXE_steelyard"));
    person.types(&[&command, "Enter"]);
    person.reads(&["31 of 31", "+ batch-3"]);
    person.types(&["C-z"]);
    let shell = person.reads(&["Stopped", "before"]);
    assert!(!shell.contains("DOMAIN"), "{shell}");
    person.types(&["fg", "Enter"]);
    person.reads(&["31 of 31", "+ batch-3"]);
    person.types(&["q"]);
    person.reads(&["ready> ", "before"]);
}
