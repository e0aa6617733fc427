// SPDX-License-Identifier: GPL-2.0-only
//! The tutorial's commands, as they stand there (its blocks of `sh`), one after the other in one shell: with a `perf` that
//! prints a recording, a `sudo` that only runs, and a host of files.

#![allow(clippy::unwrap_used)]

use std::env;
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// What the tutorial runs.
fn commands() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tutorial.md");
    let page = fs::read_to_string(page).unwrap();
    let blocks = page.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.collect()
}

/// `perf script` of a second on a CPU: `build` computes, `shop` works for 2 ms of every 12, and waits first for `wait_us`.
fn recording(wait_us: u64) -> String {
    let mut text = String::new();
    let (build, shop) = (("CPU 0/KVM", 101), ("CPU 0/KVM", 201));
    for turn in 1..90_u64 {
        let mut add = |us: u64, (comm, tid): (&str, u32), event: String| {
            let (s, us) = (us / 1_000_000, us % 1_000_000);
            let _ = writeln!(text, "{comm} {tid}/{} [000] {s}.{us:06}: sched:{event}", tid - 1);
        };
        let switch = |from: (&str, u32), state: &str, to: (&str, u32)| {
            format!(
                "sched_switch: prev_comm={} prev_pid={} prev_prio=120 prev_state={state} ==> next_comm={} next_pid={} \
                 next_prio=120",
                from.0, from.1, to.0, to.1
            )
        };
        let at = 12_000 * turn;
        add(at, build, "sched_waking: comm=CPU 0/KVM pid=201 prio=120 target_cpu=000".to_owned());
        add(at + wait_us, build, switch(build, "R", shop));
        add(at + wait_us + 2_000, shop, switch(shop, "S", build));
    }
    text
}

#[test]
fn every_command_of_the_tutorial_does_what_it_says() {
    let directory = tempfile::tempdir().unwrap();
    let put = |file: &str, content: &str| {
        let path = directory.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    };
    put("host/proc/stat", "cpu  0 0 0 0 0\ncpu0 5 0 5 9 2 0\n");
    put("host/proc/sys/kernel/osrelease", "6.18.1\n");
    put("host/proc/sys/kernel/random/boot_id", "this\n");
    for (pid, name) in [(100, "build"), (200, "shop")] {
        let group = format!("0::/{name}.scope\n");
        put(&format!("host/proc/{pid}/cmdline"), &format!("qemu\0-name\0{name}\0"));
        put(&format!("host/proc/{pid}/cgroup"), &group);
        for (tid, comm) in [(pid, "qemu"), (pid + 1, "CPU 0/KVM")] {
            let task = format!("host/proc/{pid}/task/{tid}");
            put(&format!("{task}/comm"), &format!("{comm}\n"));
            put(&format!("{task}/schedstat"), "1 1 1\n");
            put(&format!("{task}/stat"), &format!("{tid} ({comm}) R {}\n", "0 ".repeat(50)));
            put(&format!("{task}/cgroup"), &group);
        }
        put(&format!("host/groups/{name}.scope/cgroup.procs"), &format!("{pid}\n"));
        put(&format!("host/groups/{name}.scope/cpu.weight"), "100\n");
    }
    put("before.data.txt", &recording(5_000));
    put("after.data.txt", &recording(500));
    let steelyard = env!("CARGO_BIN_EXE_steelyard");
    let of_host = "--proc host/proc --groups host/groups";
    for (name, script) in [
        ("sudo", "exec \"$@\"\n".to_owned()),
        // The moment that the page waits for it is no part of what is tested.
        ("sleep", "exit 0\n".to_owned()),
        ("perf", "case \"$1\" in\nsched) ;;\n*) while [ $# -gt 1 ]; do shift; done; cat \"$1.txt\" ;;\nesac\n".to_owned()),
        ("virsh", "exit 1\n".to_owned()),
        ("steelyard", format!(
            "case \"$1\" in\ndescribe) exec {steelyard} \"$@\" {of_host} --sys host/sys ;;\n\
             apply | undo) exec {steelyard} \"$@\" {of_host} --run host/run --state host/state ;;\n\
             *) exec {steelyard} \"$@\" ;;\nesac\n"
        )),
    ] {
        let path = put(&format!("bin/{name}"), &format!("#!/bin/sh\n{script}"));
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:{}", directory.path().join("bin").display(), env::var("PATH").unwrap());
    let output = Command::new("sh")
        .args(["-exc", &commands()])
        .current_dir(directory.path())
        .env("PATH", path)
        .output()
        .unwrap();
    let (told, errors) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{told}\n{errors}");
    for words in [
        "By the description of",
        // 1024 is 400 where 256 is 100.
        "# shop: weight 1024 is cpu.weight 400, 256 being 100; was 100",
        "From before.perf.txt",
        "shop: done: echo 100 > ",
    ] {
        assert!(told.contains(words), "{words}: {told}\n{errors}");
    }
    let weight = fs::read_to_string(directory.path().join("host/groups/shop.scope/cpu.weight"));
    assert_eq!(weight.unwrap(), "100\n");
}
