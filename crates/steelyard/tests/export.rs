// SPDX-License-Identifier: GPL-2.0-only
//! `steelyard export` beside neighbours who say nothing, little by little, or do not read.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use tempfile::TempDir;

const SCENARIO: &str = r#"
name = "small"
length = "10 s"

[host]
cores_per_socket = 2

[[domain]]
name = "web"
count = 40
vcpus = 4
[[domain.task]]
workload.busy = {}
"#;

/// A scrape is to be answered within a second, whoever else is there. That is so for most on any machine;
/// this one may be busy with other tests, so one may take longer, but never as long as a silent
/// connection lives, which is what it took when these were waited for.
const WANTED: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_millis(4500);
const SCRAPES: usize = 15;

struct Export {
    child: Child,
    address: SocketAddr,
    _directory: TempDir,
}

impl Export {
    fn start() -> Export {
        let directory = TempDir::new().unwrap();
        fs::write(directory.path().join("small.toml"), SCENARIO).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_steelyard"));
        command.args(["export", "--simulate", "small.toml", "--interval", "10ms"]);
        Export::started(directory, command)
    }

    fn started(directory: TempDir, mut command: Command) -> Export {
        let mut child = command
            .current_dir(directory.path())
            .args(["--listen", "127.0.0.1:0"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap();
        Export { address: address.parse().unwrap(), child, _directory: directory }
    }

    /// How long one takes, if it is answered in time.
    fn scrape(&self) -> Result<Duration, String> {
        self.ask().map(|(took, _)| took)
    }

    /// And what is answered.
    fn ask(&self) -> Result<(Duration, String), String> {
        let begin = Instant::now();
        let failed = |error: std::io::Error| format!("{error} after {:?}", begin.elapsed());
        let mut stream = TcpStream::connect_timeout(&self.address, LONGEST).map_err(failed)?;
        stream.set_read_timeout(Some(LONGEST)).map_err(failed)?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").map_err(failed)?;
        let mut text = String::new();
        stream.read_to_string(&mut text).map_err(failed)?;
        if !text.starts_with("HTTP/1.1 200") || !text.ends_with("# EOF\n") {
            return Err(format!("no whole answer, {} bytes", text.len()));
        }
        Ok((begin.elapsed(), text))
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        self.child.wait().unwrap();
    }
}

/// What a neighbour sends, again and again, and whether it reads.
#[derive(Clone, Copy)]
struct Neighbour {
    first: &'static [u8],
    then: &'static [u8],
}

const SILENT: Neighbour = Neighbour { first: b"", then: b"" };
const LITTLE_BY_LITTLE: Neighbour = Neighbour { first: b"GET /metrics HTTP/1.1\r\n", then: b"a" };
const NEVER_READS: Neighbour = Neighbour { first: b"GET /metrics HTTP/1.0\r\n\r\n", then: b"" };

/// Keeps up so many connections until it is told to stop: who is thrown out comes again.
fn besiege(address: SocketAddr, count: usize, neighbour: Neighbour, stop: &AtomicBool) {
    let mut streams: Vec<Option<TcpStream>> = (0..count).map(|_| None).collect();
    while !stop.load(Ordering::Relaxed) {
        for stream in &mut streams {
            let lives = stream.as_mut().is_some_and(|stream| {
                let gone = match neighbour.first.ends_with(b"\r\n\r\n") {
                    // Who does not read sees it when it is gone only.
                    true => stream.take_error().is_ok_and(|error| error.is_some()),
                    false => !stream
                        .read(&mut [0])
                        .is_err_and(|error| error.kind() == ErrorKind::WouldBlock),
                };
                !gone && stream.write(neighbour.then).is_ok()
            });
            if !lives {
                *stream = TcpStream::connect_timeout(&address, WANTED).ok().filter(|stream| {
                    let mut stream = stream;
                    stream.set_nonblocking(true).is_ok() && stream.write(neighbour.first).is_ok()
                });
            }
        }
        sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_scrape_is_answered_beside_whoever_is_there() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    if maximum.is_some_and(|files| files < 1500) {
        eprintln!("left out: no more than {maximum:?} files may be open");
        return;
    }
    for (what, count, neighbour) in [
        ("silent", 1000, SILENT),
        ("little by little", 400, LITTLE_BY_LITTLE),
        ("without reading", 400, NEVER_READS),
    ] {
        let export = Export::start();
        export.scrape().unwrap();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let hostile: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| besiege(export.address, count / 4, neighbour, &stop)))
                .collect();
            // They are all there, and come again.
            sleep(Duration::from_millis(500));
            let scrapes: Vec<_> = (0..SCRAPES)
                .map(|_| {
                    sleep(Duration::from_millis(100));
                    export.scrape()
                })
                .collect();
            stop.store(true, Ordering::Relaxed);
            hostile.into_iter().for_each(|hostile| hostile.join().unwrap());
            let mut took: Vec<_> = scrapes
                .into_iter()
                .map(|scrape| scrape.unwrap_or_else(|error| panic!("{count} {what}: {error}")))
                .collect();
            took.sort();
            println!(
                "{count} {what}: median {:?}, longest {:?}",
                took[SCRAPES / 2],
                took[SCRAPES - 1]
            );
            assert!(took[SCRAPES / 2] < WANTED, "{count} {what}: {took:?}");
        });
        assert!(export.scrape().is_ok(), "it goes on afterwards");
    }
}

/// Too few files for all who come: the oldest make room.
#[test]
fn few_open_files_end_nothing() {
    let export = Export::start();
    let pid = Pid::from_child(&export.child);
    let few = Rlimit { current: Some(20), maximum: Some(20) };
    rustix::process::prlimit(Some(pid), Resource::Nofile, few).unwrap();
    let silent: Vec<_> = (0..100).map(|_| TcpStream::connect(export.address).unwrap()).collect();
    for _ in 0..3 {
        export.scrape().unwrap();
    }
    drop(silent);
    export.scrape().unwrap();
}

/// More threads that are called as vCPUs are than files may be open: some are watched, and it says how many
/// are not.
#[test]
fn more_vcpus_than_open_files_end_nothing() {
    const VCPUS: usize = 200;
    // Half of all for them, two for each.
    const FILES: usize = 80;
    const WATCHED: usize = FILES / 4;
    let directory = TempDir::new().unwrap();
    let proc = directory.path().join("proc");
    fs::create_dir_all(proc.join("sys/kernel")).unwrap();
    fs::write(proc.join("stat"), "cpu  1 1 1 1\ncpu0 1 1 1 1 1\n").unwrap();
    for vcpu in 0..VCPUS {
        // Of several processes.
        let process = 100 + vcpu / 15;
        let thread = proc.join(format!("{process}/task/{}", 1000 + vcpu));
        fs::create_dir_all(&thread).unwrap();
        fs::write(proc.join(format!("{process}/comm")), format!("vm-{process}\n")).unwrap();
        fs::write(thread.join("comm"), format!("CPU {}/KVM\n", vcpu % 15)).unwrap();
        fs::write(thread.join("schedstat"), "1 1 1\n").unwrap();
        fs::write(thread.join("stat"), "7 (CPU 0/KVM) R 1\n").unwrap();
    }
    let steelyard = |arguments: &str| {
        let program = env!("CARGO_BIN_EXE_steelyard");
        let mut command = Command::new("sh");
        let line = format!("ulimit -n {FILES}; exec \"$@\"");
        command.current_dir(directory.path()).args(["-c", &line, "sh", program]);
        command.args(arguments.split(' '));
        command.args(["--proc".as_ref(), proc.as_os_str(), "--groups".as_ref(), proc.as_os_str()]);
        command
    };
    let output = steelyard("top --json --batch 2 --interval 10ms").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let interval: serde_json::Value = serde_json::from_str(line).unwrap();
        let domains = interval["domains"].as_array().unwrap();
        let watched: usize = domains.iter().map(|d| d["vcpus"].as_array().unwrap().len()).sum();
        assert_eq!(watched, WATCHED);
        let unseen = interval["host"]["unseen"].to_string();
        assert!(unseen.contains("Some vCPUs, up to 256"), "{unseen}");
    }
    let length = ["--length", "50ms", "--interval", "10ms"];
    let output = steelyard("record -o r.steelyard").args(length).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let export = Export::started(TempDir::new().unwrap(), steelyard("export"));
    let (_, text) = export.ask().unwrap();
    let count = text.lines().filter(|line| line.starts_with("steelyard_vcpu_run")).count();
    assert_eq!(count, WATCHED);
    let left_out = format!("\nsteelyard_vcpus_left_out {}\n", VCPUS - WATCHED);
    assert!(text.contains(&left_out), "{text}");
}
