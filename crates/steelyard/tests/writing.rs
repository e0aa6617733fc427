// SPDX-License-Identifier: GPL-2.0-only
//! Where the commands write: into files, through devices, FIFOs and links, never over what they read; and
//! when a signal ends that.

#![allow(clippy::unwrap_used)]

use std::fs::{self, Permissions};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

const SCENARIO: &str = r#"
name = "small"
length = "100 ms"

[host]
cores_per_socket = 2

[[domain]]
name = "batch"
count = 3
[[domain.task]]
workload.busy = { compute = "5 ms" }

[[policy]]
policy = "credit2"
"#;
const FILES: [&str; 4] = ["results.json", "results.csv", "report.html", "trace.json.gz"];
/// What is waited for comes within this time, or never.
const PATIENCE: Duration = Duration::from_secs(60);

/// Commands that write one file, without it.
const COMMANDS: [&str; 4] = [
    "import guest.cfg -o",
    "convert small.steelyard -o",
    "record --simulate small.toml --interval 10ms -o",
    "record --simulate small.steelyard --policy credit --length 50ms --interval 10ms -o",
];

fn directory() -> TempDir {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("small.toml"), SCENARIO).unwrap();
    fs::write(directory.path().join("guest.cfg"), "name = \"guest\"\nvcpus = 2\n").unwrap();
    succeeds(&directory, "record --simulate small.toml --interval 10ms -o small.steelyard");
    directory
}

fn steelyard(directory: &TempDir, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steelyard"));
    command.current_dir(directory).args(arguments.split(' ')).stdin(Stdio::null());
    command
}

fn run(directory: &TempDir, arguments: &str) -> Output {
    steelyard(directory, arguments).output().unwrap()
}

fn succeeds(directory: &TempDir, arguments: &str) -> Vec<u8> {
    let output = run(directory, arguments);
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// It fails with this code and says these words.
fn fails(directory: &TempDir, arguments: &str, code: i32, words: &str) {
    let output = run(directory, arguments);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{arguments}: {message}");
    assert!(message.contains(words), "{arguments}: {message}");
}

/// How it ended, which it did in time.
fn ended(mut child: Child) -> ExitStatus {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if begin.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("it does not end");
        }
        sleep(Duration::from_millis(10));
    }
}

fn wait_for(path: &Path) {
    let begin = Instant::now();
    while !path.exists() {
        assert!(begin.elapsed() < PATIENCE, "no {}", path.display());
        sleep(Duration::from_millis(5));
    }
}

#[test]
fn devices_and_pipes_are_written_through() {
    let directory = directory();
    let path = |name: &str| directory.path().join(name);
    symlink("/dev/null", path("link")).unwrap();
    let mode = Mode::from_raw_mode(0o666);
    mknodat(CWD, path("fifo"), FileType::Fifo, mode, 0).unwrap();
    // Only root may.
    let node = mknodat(CWD, path("node"), FileType::CharacterDevice, mode, makedev(1, 3));
    for command in COMMANDS {
        succeeds(&directory, &format!("{command} plain"));
        let plain = fs::read(path("plain")).unwrap();
        for device in ["link", "node", "/dev/null"] {
            if device != "node" || node.is_ok() {
                succeeds(&directory, &format!("{command} {device}"));
                assert!(fs::metadata(path(device)).unwrap().file_type().is_char_device());
            }
        }
        assert!(fs::symlink_metadata(path("link")).unwrap().is_symlink());
        fails(&directory, &format!("{command} /dev/full"), 1, "cannot write /dev/full: No space");
        // Standard output, and a FIFO, get the same as a file.
        assert!(succeeds(&directory, &format!("{command} -")) == plain, "{command}");
        assert!(succeeds(&directory, &format!("{command} /dev/stdout")) == plain, "{command}");
        let reader = thread::spawn({
            let fifo = path("fifo");
            move || fs::read(fifo).unwrap()
        });
        succeeds(&directory, &format!("{command} fifo"));
        assert!(reader.join().unwrap() == plain, "{command}");
        assert!(fs::metadata(path("fifo")).unwrap().file_type().is_fifo());
        fs::remove_file(path("plain")).unwrap();
    }
    // What the shell appends to is not written over.
    let script = format!(
        "(echo before; {} import guest.cfg -o /dev/stdout; echo after) > both",
        env!("CARGO_BIN_EXE_steelyard")
    );
    Command::new("sh").args(["-c", &script]).current_dir(&directory).status().unwrap();
    let both = fs::read_to_string(path("both")).unwrap();
    assert!(both.starts_with("before\n#") && both.ends_with("\nafter\n"), "{both}");
}

#[test]
fn who_closes_a_pipe_early_has_what_they_want() {
    let directory = directory();
    for command in COMMANDS {
        let mut command = steelyard(&directory, &format!("{command} -"));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(!directory.path().join("-").exists());
    }
}

#[test]
fn a_fifo_that_nobody_reads_can_be_given_up() {
    let directory = directory();
    let fifo = directory.path().join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    for command in COMMANDS {
        let child = steelyard(&directory, &format!("{command} fifo")).spawn().unwrap();
        sleep(Duration::from_millis(300));
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        assert_eq!(ended(child).code(), Some(130), "{command}");
    }
}

#[test]
fn links_stay_and_lead_to_what_was_written() {
    let directory = directory();
    let path = |name: &str| directory.path().join(name);
    fs::create_dir(path("there")).unwrap();
    for command in COMMANDS {
        for (link, target) in [("relative", "there/file"), ("absolute", "there/other")] {
            let _ = fs::remove_file(path(link));
            let to = if link == "absolute" { path(target) } else { target.into() };
            symlink(to, path(link)).unwrap();
            symlink(link, path("again")).unwrap();
            // One that leads to nothing, then one that leads to a file.
            let _ = fs::remove_file(path(target));
            for _ in 0..2 {
                succeeds(&directory, &format!("{command} again"));
                assert!(fs::symlink_metadata(path(link)).unwrap().is_symlink());
                assert!(fs::symlink_metadata(path("again")).unwrap().is_symlink());
                assert!(fs::symlink_metadata(path(target)).unwrap().is_file());
            }
            fs::remove_file(path("again")).unwrap();
        }
        let _ = fs::remove_file(path("loop"));
        symlink("loop", path("loop")).unwrap();
        fails(&directory, &format!("{command} loop"), 1, "cannot write loop");
        fails(&directory, &format!("{command} there"), 1, "cannot write there: is a directory");
    }
}

#[test]
fn what_is_read_is_not_written_over() {
    let directory = directory();
    let path = |name: &str| directory.path().join(name);
    let refuses = |arguments: &str, input: &str| {
        let before = fs::read(path(input)).unwrap();
        for name in ["link", "hard"] {
            let _ = fs::remove_file(path(name));
        }
        symlink(input, path("link")).unwrap();
        fs::hard_link(path(input), path("hard")).unwrap();
        for output in [input, "link", "hard", &format!("./{input}")] {
            fails(&directory, &format!("{arguments} -o {output}"), 2, "is read: it is not written");
            assert!(fs::read(path(input)).unwrap() == before);
        }
    };
    refuses("import guest.cfg", "guest.cfg");
    refuses("convert small.steelyard", "small.steelyard");
    refuses("record --simulate small.toml", "small.toml");
    refuses("record --simulate small.steelyard --policy credit", "small.steelyard");
    // A recording that a scenario names.
    succeeds(&directory, "import small.steelyard -o named.toml");
    refuses("record --simulate named.toml --policy credit", "small.steelyard");

    let refuses = |name: &str| {
        let before = fs::read(path("out").join(name)).unwrap();
        for input in [format!("out/{name}"), "named.toml".to_owned()] {
            if path(&input).exists() {
                let arguments = format!("compare {input} --policy credit --out out");
                fails(&directory, &arguments, 2, "is read: it is not written over");
            }
        }
        assert!(fs::read(path("out").join(name)).unwrap() == before);
    };
    fs::remove_file(path("named.toml")).unwrap();
    for name in FILES {
        let _ = fs::remove_dir_all(path("out"));
        fs::create_dir(path("out")).unwrap();
        fs::copy(path("small.toml"), path("out").join(name)).unwrap();
        refuses(name);
    }
    fs::copy(path("small.steelyard"), path("out/results.csv")).unwrap();
    succeeds(&directory, "import small.steelyard -o named.toml");
    let named = fs::read_to_string(path("named.toml")).unwrap();
    fs::write(path("named.toml"), named.replace("small.steelyard", "out/results.csv")).unwrap();
    refuses("results.csv");
}

#[test]
fn a_folder_in_the_way_is_seen_before_anything_is_replaced() {
    let directory = directory();
    for in_the_way in FILES {
        let out = directory.path().join("out");
        let _ = fs::remove_dir_all(&out);
        fs::create_dir_all(out.join(in_the_way).join("full")).unwrap();
        let others: Vec<_> = FILES.iter().filter(|name| **name != in_the_way).collect();
        for name in &others {
            fs::write(out.join(name), "old").unwrap();
        }
        // It would take hours to get as far as writing.
        let arguments = "compare small.toml --set length=2000h --out out";
        fails(&directory, arguments, 1, &format!("cannot write out/{in_the_way}: is a directory"));
        for name in others {
            assert_eq!(fs::read(out.join(name)).unwrap(), b"old");
        }
        assert_eq!(fs::read_dir(&out).unwrap().count(), FILES.len());
    }
}

#[test]
fn a_file_keeps_its_mode() {
    let directory = directory();
    let mode = |name: &str| {
        fs::metadata(directory.path().join(name)).unwrap().permissions().mode() & 0o7777
    };
    for command in COMMANDS {
        let file = directory.path().join("file");
        let _ = fs::remove_file(&file);
        succeeds(&directory, &format!("{command} file"));
        // As of any other new file.
        assert_eq!(mode("file"), mode("small.toml"), "{command}");
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        succeeds(&directory, &format!("{command} file"));
        assert_eq!(mode("file"), 0o640, "{command}");
    }
}

#[test]
fn a_recording_can_be_read_while_it_is_written_and_stays_until_then() {
    let directory = directory();
    let file = directory.path().join("host.steelyard");
    fs::write(&file, "old").unwrap();
    fails(&directory, "record --simulate none.toml -o host.steelyard", 2, "none.toml");
    assert_eq!(fs::read(&file).unwrap(), b"old");
    fs::remove_file(&file).unwrap();
    let mut record = steelyard(&directory, "record --interval 50ms --no-waits -o host.steelyard");
    let child = record.stderr(Stdio::null()).spawn().unwrap();
    wait_for(&file);
    let lines = || {
        let replayed = run(&directory, "top --replay host.steelyard --json");
        String::from_utf8(replayed.stdout).unwrap().lines().count()
    };
    let begin = Instant::now();
    while lines() < 3 {
        assert!(begin.elapsed() < PATIENCE, "nothing can be read");
    }
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    ended(child);
    assert!(lines() >= 3);
    let entries = fs::read_dir(&directory).unwrap();
    let names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| !name.to_string_lossy().starts_with('.')), "{names:?}");
}

#[test]
fn a_signal_ends_a_simulation_in_the_midst_of_a_sample() {
    for (signal, arguments) in [
        (Signal::INT, "record --simulate small.toml --interval 2000h --length 2000h -o x"),
        (Signal::QUIT, "record --simulate small.toml --interval 2000h --length 2000h -o x"),
    ] {
        let directory = directory();
        let child = steelyard(&directory, arguments).spawn().unwrap();
        // The first sample is at the beginning.
        wait_for(&directory.path().join("x"));
        sleep(Duration::from_millis(100));
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(ended(child).code(), Some(0));
        let replayed = run(&directory, "top --replay x --json");
        assert_eq!(String::from_utf8(replayed.stderr).unwrap(), "", "it was ended as it should");
    }
}

#[test]
fn a_host_that_hangs_does_not_hold_up_a_signal() {
    let directory = directory();
    for known in ["proc/self", "groups"] {
        fs::create_dir_all(directory.path().join(known)).unwrap();
    }
    fs::write(directory.path().join("proc/self/schedstat"), "").unwrap();
    let stat = directory.path().join("proc/stat");
    fs::write(&stat, "cpu0 1 0 1 100 0\n").unwrap();
    let arguments = "record --proc proc --groups groups --interval 50ms -o x";
    let mut record = steelyard(&directory, arguments);
    let child = record.stderr(Stdio::null()).spawn().unwrap();
    wait_for(&directory.path().join("x"));
    // Nobody ever writes to it.
    let fifo = directory.path().join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    fs::rename(&fifo, &stat).unwrap();
    sleep(Duration::from_millis(500));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(ended(child).code(), Some(130));
}

#[test]
fn threads_are_bounded() {
    let directory = directory();
    for command in ["compare small.toml", "reproduce boost-credit"] {
        fails(&directory, &format!("{command} -j 100000"), 2, "100000 is not in 1..=1024");
    }
    // Nor does the environment make more of them: it would fail to, or take long.
    let mut child = steelyard(&directory, "compare small.toml --set length=2000h --out out")
        .env("RAYON_NUM_THREADS", "3000")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let tasks = format!("/proc/{}/task", child.id());
    let threads = (0..100).map(|_| {
        sleep(Duration::from_millis(10));
        fs::read_dir(&tasks).map_or(0, Iterator::count)
    });
    let threads = threads.max().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(threads > 1 && threads < 2000, "{threads} threads");
}
