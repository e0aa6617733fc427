// SPDX-License-Identifier: GPL-2.0-only
//! Every system call of writing fails once, for every command that writes: then all files are as they
//! were, or all are new, and nothing else is left. `fault.c` makes them fail.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use rustix::io::Errno;
use tempfile::TempDir;

const SCENARIO: &str = r#"
name = "small"
length = "20 ms"

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
const GUEST: &str = "name = \"guest\"\nvcpus = 2\n";
const COMPARED: [&str; 4] =
    ["out/report.html", "out/results.csv", "out/results.json", "out/trace.json.gz"];
const KILLED: i32 = 128 + 9;
/// Only from the first of these on a process that is killed can leave anything.
const NAMING: [&str; 7] =
    ["link", "linkat", "rename", "renameat", "renameat2", "unlink", "unlinkat"];

/// `fault.c`, built.
fn fault() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fault.c");
        let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fault");
        let mut compiler = Command::new("cc");
        compiler.args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-o"]);
        assert!(compiler.arg(&built).arg(source).status().unwrap().success());
        built
    })
}

/// Files below a directory, and directories, which have no content.
type Tree = BTreeMap<String, Option<Vec<u8>>>;

fn tree(directory: &Path) -> Tree {
    let mut tree = Tree::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            let below = self::tree(&path).into_iter();
            tree.extend(below.map(|(below, content)| (format!("{name}/{below}"), content)));
            tree.insert(name, None);
        } else {
            tree.insert(name, Some(fs::read(path).unwrap()));
        }
    }
    tree
}

/// A command that writes into one directory what it reads from another.
struct Writes {
    input: TempDir,
    output: TempDir,
    arguments: Vec<String>,
    /// What is there before it runs.
    old: Vec<String>,
    without: &'static str,
    /// It writes as it goes along: what it wrote until it failed stays.
    streams: bool,
}

struct Ended {
    code: i32,
    message: String,
    calls: usize,
    /// The one that failed.
    call: String,
    tree: Tree,
}

impl Writes {
    /// `IN` and `OUT` in the arguments become the directories.
    fn new(arguments: &str, old: &[&str], without: &'static str) -> Writes {
        let (input, output) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        fs::write(input.path().join("small.toml"), SCENARIO).unwrap();
        fs::write(input.path().join("guest.cfg"), GUEST).unwrap();
        let place = |argument: &str| {
            let of = |directory: &TempDir| directory.path().to_str().unwrap().to_owned();
            argument.replace("IN", &of(&input)).replace("OUT", &of(&output))
        };
        let arguments: Vec<_> = arguments.split(' ').map(place).collect();
        let recorded = input.path().join("small.steelyard");
        let mut record = Command::new(env!("CARGO_BIN_EXE_steelyard"));
        record.args(["record", "--simulate"]).arg(input.path().join("small.toml"));
        assert!(record.arg("-o").arg(recorded).status().unwrap().success());
        let streams = arguments[0] == "record";
        let old = old.iter().map(|&name| name.to_owned()).collect();
        Writes { input, output, arguments, old, without, streams }
    }

    /// Runs it with what was there before.
    fn run(&self, options: &[String]) -> (Tree, Ended) {
        for entry in fs::read_dir(&self.output).unwrap() {
            let path = entry.unwrap().path();
            let removed =
                if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
            removed.unwrap();
        }
        for name in &self.old {
            let path = self.output.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, format!("old {name}")).unwrap();
            // Another mode than a new file has.
            fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        }
        let before = tree(self.output.path());
        let report = self.input.path().join("report");
        let output = Command::new(fault())
            .arg("-d")
            .arg(self.output.path())
            .arg("-r")
            .arg(&report)
            .args(["-w", self.without])
            .args(options)
            .arg(env!("CARGO_BIN_EXE_steelyard"))
            .args(&self.arguments)
            .output()
            .unwrap();
        let report = fs::read_to_string(report).unwrap();
        let (calls, call) = report.trim().split_once(' ').unwrap();
        let ended = Ended {
            code: output.status.code().unwrap(),
            message: String::from_utf8(output.stderr).unwrap(),
            calls: calls.parse().unwrap(),
            call: call.to_owned(),
            tree: tree(self.output.path()),
        };
        (before, ended)
    }

    /// It ended as if it had never run, and said so once, or as if nothing had happened.
    fn is_sound(&self, before: &Tree, new: &Tree, ended: &Ended) -> bool {
        let errors = ended.message.matches("error: ").count();
        let part = || {
            let begins = |(name, content): (&String, &Option<Vec<u8>>)| match (content, &new[name])
            {
                (Some(content), Some(whole)) => whole.starts_with(content),
                _ => false,
            };
            self.streams && ended.tree.keys().eq(new.keys()) && ended.tree.iter().all(begins)
        };
        match ended.code {
            // A claim that does not hold (3) is no fault of writing.
            0 | 3 => ended.tree == *new && (errors == 0 || ended.code == 3),
            1 => errors == 1 && (ended.tree == *before || part()),
            _ => false,
        }
    }

    /// Lets every call fail, with these errors in turn, and be the last one.
    fn survives(&self, errors: &[&[Errno]]) {
        let (before, whole) = self.run(&[]);
        assert_eq!(whole.code, 0, "{}", whole.message);
        let new = &whole.tree;
        assert!(new.keys().all(|name| !name.contains(".steelyard-")), "{:?}", new.keys());
        assert!(whole.calls > 5, "{} calls", whole.calls);
        let mut failed = 0;
        let mut naming = false;
        for number in 1..=whole.calls {
            let fail = |how: &[String]| {
                let options = ["-n".to_owned(), number.to_string()];
                self.run(&[&options[..], how].concat()).1
            };
            for error in errors[number % errors.len()] {
                let ended = fail(&["-e".to_owned(), error.raw_os_error().to_string()]);
                let sound = self.is_sound(&before, new, &ended);
                let Ended { code, message, call, tree, .. } = &ended;
                let left: Vec<_> = tree.keys().collect();
                assert!(
                    sound,
                    "{:?}, {:?} there, without `{}`: call {number} ({call}) fails with {error}: \
                     code {code}, {message}, {left:?}",
                    self.arguments, self.old, self.without
                );
                failed += usize::from(*code == 1);
            }
            let killed = fail(&["-k".to_owned()]);
            assert_eq!(killed.code, KILLED);
            naming |= NAMING.contains(&killed.call.as_str());
            for (name, content) in new {
                // Each is whole, whatever there is besides.
                let now = killed.tree.get(name);
                let part = self.streams
                    && now.is_some_and(|now| match (now, content) {
                        (Some(now), Some(whole)) => whole.starts_with(now),
                        _ => false,
                    });
                // Where it can have only one name, for a moment it has another.
                let renamed = self.without.contains("links")
                    && killed.tree.values().any(|now| Some(now) == before.get(name));
                let whole = now == Some(content) || now == before.get(name) || part || renamed;
                assert!(whole, "{name} after SIGKILL at call {number} ({})", killed.call);
            }
            if !naming && self.without.is_empty() {
                let left: Vec<_> = killed.tree.keys().collect();
                let call = &killed.call;
                let made = killed.tree.iter().filter(|(name, _)| !before.contains_key(*name));
                let made = made.filter(|(_, content)| content.is_some()).count();
                assert_eq!(made, 0, "SIGKILL at call {number} ({call}) leaves {left:?}");
            }
        }
        assert!(failed > 0, "nothing failed");
        // As full as a disk can be: the last write is short, the next one fails.
        let sizes = new.values().flatten().map(Vec::len);
        for bytes in sizes.flat_map(|size| [0, 1, size / 2, size - 1]) {
            let (before, ended) = self.run(&["-s".to_owned(), bytes.to_string()]);
            let (code, message) = (ended.code, &ended.message);
            assert!(
                code == 1 && self.is_sound(&before, new, &ended),
                "{:?}: {bytes} bytes fit: code {code}, {message}",
                self.arguments
            );
        }
    }
}

const FULL: &[Errno] = &[Errno::NOSPC];
const ALL: &[Errno] = &[Errno::NOSPC, Errno::DQUOT, Errno::IO, Errno::INTR, Errno::ACCESS];

/// With and without files of before, on file systems that can do more and less.
fn survives(arguments: &str, files: &[&str]) {
    for without in ["", "tmpfile"] {
        for old in [&[][..], files] {
            Writes::new(arguments, old, without).survives(&[ALL]);
        }
    }
}

#[test]
fn an_import_is_all_there_or_not_at_all() {
    survives("import IN/guest.cfg -o OUT/guest.toml", &["guest.toml"]);
}

#[test]
fn a_conversion_is_all_there_or_not_at_all() {
    survives("convert IN/small.steelyard -o OUT/x.json.gz", &["x.json.gz"]);
}

#[test]
fn a_recording_is_there_as_far_as_it_was_written() {
    let arguments = "record --simulate IN/small.toml --interval 10ms -o OUT/x.steelyard";
    survives(arguments, &["x.steelyard"]);
}

#[test]
fn a_comparison_is_all_there_or_not_at_all() {
    let arguments = "compare IN/small.toml --set length=2ms --out OUT/out";
    // It makes many calls, which take turns.
    let turns = [FULL, &[Errno::IO], &[Errno::ACCESS], &[Errno::INTR]];
    for (old, without) in [
        (&[][..], ""),
        (&COMPARED, ""),
        // Some are there, some not.
        (&COMPARED[1..3], ""),
        (&COMPARED, "tmpfile,links"),
    ] {
        Writes::new(arguments, old, without).survives(&turns);
    }
}

#[test]
fn experiments_are_all_there_or_not_at_all() {
    let arguments = "reproduce load-weight --seeds 1 --out OUT/out";
    let files = ["out/matrix.svg", "out/report.html", "out/results.json", "out/tables.md"];
    let writes = Writes::new(arguments, &files, "");
    let (before, whole) = writes.run(&[]);
    // It takes its time: only in the midst of the renaming, which is at the end.
    for last in [1, 5, 8] {
        let number = (whole.calls - last).to_string();
        let options = ["-n", &number, "-e", &Errno::IO.raw_os_error().to_string()];
        let (_, ended) = writes.run(&options.map(str::to_owned));
        let (code, message) = (ended.code, &ended.message);
        let sound = writes.is_sound(&before, &whole.tree, &ended);
        assert!(sound, "{} fails: code {code}, {message}", ended.call);
    }
}
