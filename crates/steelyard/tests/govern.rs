// SPDX-License-Identifier: GPL-2.0-only
//! `govern` on a host of files, of which one VM uses three times as much CPU time as the other: weights follow, limits
//! hold, and whatever ends it all is as it was.

#![allow(clippy::unwrap_used)]

mod files;

use std::fs::{self, File, OpenOptions};
use std::ops::Deref;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use files::Files;

const VMS: [(u32, &str, u64); 2] = [(100, "web", 3), (200, "batch", 1)];
const FIRST: &str = "100\n";

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
    fn new() -> Host {
        let host = Host { files: Files::new() };
        host.put("proc/stat", "cpu  0 0 0 0 0\ncpu0 5 0 5 9 2 0\ncpu1 5 0 5 9 2 0\n");
        host.put("proc/sys/kernel/random/boot_id", "this\n");
        for (pid, name, _) in VMS {
            host.put(&format!("proc/{pid}/cmdline"), &format!("qemu\0-name\0{name}\0"));
            host.put(&format!("proc/{pid}/cgroup"), &format!("0::/{name}.scope\n"));
            let task = format!("proc/{pid}/task/{pid}");
            host.put(&format!("{task}/comm"), "CPU 0/KVM\n");
            host.put(&format!("{task}/schedstat"), &line(0));
            host.put(&format!("{task}/stat"), &format!("{pid} (x) R {}\n", "0 ".repeat(50)));
            host.put(&format!("{task}/cgroup"), &format!("0::/{name}.scope\n"));
            host.put(&format!("groups/{name}.scope/cgroup.procs"), &format!("{pid}\n"));
            host.put(&format!("groups/{name}.scope/cpu.weight"), FIRST);
        }
        host
    }

    fn weights(&self) -> [String; 2] {
        VMS.map(|(_, name, _)| {
            fs::read_to_string(self.path(&format!("groups/{name}.scope/cpu.weight"))).unwrap()
        })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_steelyard"));
        command.args(arguments);
        for (option, place) in
            [("--proc", "proc"), ("--groups", "groups"), ("--run", "run"), ("--state", "state")]
        {
            command.arg(option).arg(self.path(place));
        }
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Every 100 ms a look, with more of these.
    fn govern(&self, more: &[&str]) -> Child {
        let usual = ["govern", "load-weight", "--set", "interval_ns=100000000"];
        self.command(&[&usual, more].concat()).spawn().unwrap()
    }

    /// The VMs use CPU time while something is done.
    fn loaded<T>(&self, act: impl FnOnce() -> T) -> T {
        let over = AtomicBool::new(false);
        let files = VMS.map(|(pid, _, part)| {
            let path = self.path(&format!("proc/{pid}/task/{pid}/schedstat"));
            (OpenOptions::new().write(true).open(path).unwrap(), part)
        });
        let began = Instant::now();
        thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    // Which one has more changes every so often, so that weights do.
                    let elapsed_ns = began.elapsed().as_nanos() as u64;
                    files.iter().for_each(|(file, part)| tell(file, elapsed_ns / 4 * part));
                    thread::sleep(Duration::from_millis(2));
                }
            });
            let result = act();
            over.store(true, Ordering::Relaxed);
            result
        })
    }
}

/// Of one length, so that nobody ever reads half of it.
fn line(ns: u64) -> String {
    format!("{ns:020} {:020} 1\n", 0)
}

fn tell(schedstat: &File, ns: u64) {
    schedstat.write_all_at(line(ns).as_bytes(), 0).unwrap();
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// The numbers that were written, in order.
fn written(told: &str) -> Vec<u64> {
    let numbers = told.lines().filter_map(|line| line.strip_prefix("echo ")?.split(' ').next());
    numbers.map(|number| number.parse().unwrap()).collect()
}

/// Three quarters and one quarter: 256 x 1.5 and x 0.5, which are cpu.weight 150 and 50.
#[test]
fn weights_follow_and_are_given_back() {
    let host = Host::new();
    let told = host.loaded(|| host.govern(&["--length", "1s"]).wait_with_output().unwrap());
    let told = succeeded(&told);
    for (name, near) in [("web", 150.0), ("batch", 50.0)] {
        let of =
            |line: &&str| line.starts_with("echo ") && line.contains(&format!("/{name}.scope/"));
        let numbers = told.lines().filter(of).map(|line| written(line)[0] as f64);
        let numbers: Vec<f64> = numbers.collect();
        let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
        assert!((mean - near).abs() < 0.2 * near, "{name}: {told}");
    }
    assert!(told.contains("web: done: echo 100 > "), "{told}");
    assert_eq!(host.weights(), [FIRST; 2]);
    assert!(!host.path("state/journal").exists());
}

#[test]
fn a_dry_run_changes_nothing() {
    let host = Host::new();
    let govern = || host.govern(&["--length", "600ms", "-n"]).wait_with_output().unwrap();
    let told = succeeded(&host.loaded(govern));
    assert!(told.contains("# web: weight 3"), "{told}");
    assert_eq!(host.weights(), [FIRST; 2]);
    assert!(!host.path("state").exists());
}

#[test]
fn limits_hold() {
    let host = Host::new();
    let limits = ["--least-weight", "200", "--most-weight", "300", "--length", "1s"];
    let told = succeeded(&host.loaded(|| host.govern(&limits).wait_with_output().unwrap()));
    let done = told.lines().filter(|line| !line.contains(": done: "));
    let numbers = written(&done.collect::<Vec<_>>().join("\n"));
    // 200 and 300 of 256 are 78 and 117 of 100.
    assert!(numbers.contains(&78) && numbers.contains(&117), "{told}");
    assert!(numbers.iter().all(|number| (78..=117).contains(number)), "{told}");
    let pace = ["--changes-per-minute", "1", "--length", "1s"];
    let output = host.loaded(|| host.govern(&pace).wait_with_output().unwrap());
    let told = succeeded(&output);
    assert_eq!(told.lines().filter(|line| line.starts_with("echo ")).count(), 1, "{told}");
    assert!(text(&output.stderr).contains("1 more wait"), "{}", text(&output.stderr));
    assert_eq!(host.weights(), [FIRST; 2]);
}

/// Whenever it is killed: what it did is taken back, and until then nobody begins anew.
#[test]
fn killed_at_any_time_it_is_undone() {
    let host = Host::new();
    let mut turned = 0;
    host.loaded(|| {
        for number in 0..24 {
            let mut child = host.govern(&["--changes-per-minute", "6000"]);
            thread::sleep(Duration::from_millis(100 + 13 * number));
            child.kill().unwrap();
            child.wait().unwrap();
            if host.weights() != [FIRST; 2] {
                turned += 1;
                let refused = host.govern(&[]).wait_with_output().unwrap();
                assert_eq!(refused.status.code(), Some(1));
                assert!(text(&refused.stderr).contains("`steelyard undo` takes it back"));
            }
            succeeded(&host.command(&["undo"]).output().unwrap());
            assert_eq!(host.weights(), [FIRST; 2], "killed at {number}");
            assert!(!host.path("state/journal").exists());
        }
    });
    assert!(turned > 0, "it was never killed while something was turned");
}

/// What somebody else turns meanwhile is theirs, and stays.
#[test]
fn others_come_first() {
    let host = Host::new();
    let weight = host.path("groups/web.scope/cpu.weight");
    let output = host.loaded(|| {
        let mut govern = host.govern(&["--length", "1500ms", "--set", "smoothing_percent=90"]);
        let waits = |it: &mut Child| it.try_wait().unwrap().is_none();
        while fs::read_to_string(&weight).unwrap() == FIRST && waits(&mut govern) {
            thread::sleep(Duration::from_millis(5));
        }
        fs::write(&weight, "77\n").unwrap();
        govern.wait_with_output().unwrap()
    });
    let told = succeeded(&output);
    assert_eq!(host.weights(), ["77\n", FIRST], "{told}");
}

#[test]
fn what_cannot_be_is_refused() {
    let host = Host::new();
    for (arguments, words) in [
        (&["govern", "reset-boost"][..], "invalid value"),
        (&["govern", "load-weight", "--set", "workload=x"], "workload"),
        (&["govern", "load-weight", "--set", "nothing=1"], "nothing"),
        (&["govern", "load-weight", "--least-weight", "2000"], "--least-weight"),
        (&["govern", "load-weight", "--most-weight", "0"], "0"),
        (&["govern", "load-weight", "--least-slice", "1 s"], "0.1 to 100 ms"),
        (&["govern", "load-weight", "--set", "workload"], "NAME=VALUE"),
    ] {
        let output = host.command(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(words), "{}", text(&output.stderr));
    }
    assert!(!host.path("state").exists());
}
