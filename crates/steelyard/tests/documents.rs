// SPDX-License-Identifier: GPL-2.0-only
//! Every command of the documents runs: of each page the blocks of `sh`, one after the other in one shell, as they stand
//! there. The shell's world is a directory with the files that the pages speak of, a host of files, a `perf` and an `xe`
//! that print, a `sudo` that only runs, and a `steelyard` that makes long runs short. Blocks of `sh lab` need root, a
//! host of KVM or Xen, the lab or much time; `pages.rs` sees that they are understood.

#![allow(clippy::unwrap_used)]

mod files;
mod markdown;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, io};

use files::Files;
use flate2::read::GzDecoder;
use markdown::{blocks, pages, repository};

const STEELYARD: &str = env!("CARGO_BIN_EXE_steelyard");

/// A host with all the virtual machines that pages name.
const HOST: &str = r#"
name = "host"
length = "1 s"
[host]
cores_per_socket = 4
[[domain]]
name = "dom0"
[[domain.task]]
workload.busy = { compute = "1 ms", sleep = "9 ms" }
[[domain]]
name = "web"
vcpus = 2
[[domain.task]]
threads = 2
workload.web = { client = { open = { rate_per_s = 200 } }, service = "800 us" }
[[domain]]
name = "db"
[[domain.task]]
workload.busy = { compute = "2 ms", sleep = "3 ms" }
[[domain]]
name = "batch"
vcpus = 4
[[domain.task]]
threads = 4
workload.busy = { compute = "100 ms", sleep = "1 ms" }
[[policy]]
policy = "credit@xen-4.20"
"#;

/// What a page runs, and how many commands of ours these are.
fn commands(page: &Path) -> (String, usize) {
    let text = fs::read_to_string(page).unwrap();
    let lines = blocks(&text).into_iter().filter(|(language, _)| *language == "sh");
    let commands: String = lines.flat_map(|(_, line)| [line, "\n"]).collect();
    let ours = commands.lines().filter(|line| line.contains("steelyard ")).count();
    // This machine may have virtual machines of its own.
    (commands.replace("/etc/libvirt", "libvirt"), ours)
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

/// What the pages find where they are followed.
fn world() -> Files {
    let world = Files::new();
    world.put("host/proc/stat", "cpu  0 0 0 0 0\ncpu0 5 0 5 9 2 0\n");
    world.put("host/proc/meminfo", "MemTotal: 1 kB\n");
    world.put("host/proc/sys/kernel/osrelease", "6.18.1\n");
    world.put("host/proc/sys/kernel/random/boot_id", "this\n");
    for (pid, name) in [(100, "build"), (200, "shop"), (300, "web"), (400, "batch"), (500, "db")] {
        let group = format!("0::/{name}.scope\n");
        world.put(&format!("host/proc/{pid}/cmdline"), &format!("qemu\0-name\0{name}\0"));
        world.put(&format!("host/proc/{pid}/cgroup"), &group);
        for (tid, comm) in [(pid, "qemu"), (pid + 1, "CPU 0/KVM")] {
            let task = format!("host/proc/{pid}/task/{tid}");
            world.put(&format!("{task}/comm"), &format!("{comm}\n"));
            world.put(&format!("{task}/schedstat"), "1 1 1\n");
            world.put(&format!("{task}/stat"), &format!("{tid} ({comm}) R {}\n", "0 ".repeat(50)));
            world.put(&format!("{task}/cgroup"), &group);
        }
        world.put(&format!("host/groups/{name}.scope/cgroup.procs"), &format!("{pid}\n"));
        world.put(&format!("host/groups/{name}.scope/cpu.weight"), "100\n");
    }
    let data = repository().join("crates/recording/tests/data/credit2.xentrace.gz");
    let mut trace = GzDecoder::new(File::open(data).unwrap());
    io::copy(&mut trace, &mut File::create(world.path("host.xentrace")).unwrap()).unwrap();
    // Whoever writes a governor changes them.
    let mut copy = Command::new("cp");
    copy.arg("-r").arg(repository().join("policy")).arg(world.path("policy"));
    assert!(copy.status().unwrap().success());
    world.put("plan.toml", "[[domain]]\nname = \"shop\"\nweight = 512\n");
    world.put("host.toml", HOST);
    let first_look = fs::read_to_string(repository().join("scenarios/first-look.toml")).unwrap();
    let shorter = first_look.replacen("length = \"10 s\"", "length = \"300 ms\"", 1);
    assert_ne!(first_look, shorter);
    world.put("scenarios/first-look.toml", &shorter);
    for folder in ["recordings", "experiments"] {
        symlink(repository().join(folder), world.path(folder)).unwrap();
    }
    for description in ["web.xml", "libvirt/qemu/web.xml"] {
        world.put(description, "<domain type='kvm'><name>web</name><vcpu>2</vcpu></domain>\n");
    }
    for (name, wait_us) in [("before", 5_000), ("after", 500), ("night", 5_000)] {
        world.put(&format!("{name}.data.txt"), &recording(wait_us));
        let file = world.path(&format!("{name}.steelyard"));
        let record = Command::new(STEELYARD)
            .args(["record", "--simulate", "host.toml", "--interval", "10ms", "-o"])
            .arg(file)
            .current_dir(world.path(""))
            .output()
            .unwrap();
        assert!(record.status.success(), "{record:?}");
    }
    programs(&world);
    world
}

fn programs(world: &Files) {
    // The moment that a page waits for it is no part of what is tested.
    world.program("sleep", "#!/bin/sh\nexit 0\n");
    world.program("sudo", "#!/bin/sh\nexec \"$@\"\n");
    world.program("virsh", "#!/bin/sh\nexit 1\n");
    world.program("jq", "#!/bin/sh\nexec cat\n");
    world.program(
        "perf",
        "#!/bin/sh\ncase \"$1\" in\nsched) ;;\n*) while [ $# -gt 1 ]; do shift; done; cat \"$1.txt\" ;;\nesac\n",
    );
    world.program(
        "xe",
        "#!/bin/sh\nprintf 'uuid ( RO)          : 1\\n    name-label ( RW): web\\n  VCPUs-max ( RW): 2\\n'\n",
    );
    let of_host = "--proc host/proc --groups host/groups";
    let kept = "--run host/run --state host/state";
    // A plan that is more than weights would reach for threads of this machine. With one seed chance decides a claim.
    world.program(
        "steelyard",
        &format!(
            "#!/bin/sh\ncase \"$*\" in\n\
             \"compare recordings\"*) exec {STEELYARD} \"$@\" --seeds 1 --set 'length=200 ms' ;;\n\
             'compare host.toml'*--policy*) exec {STEELYARD} \"$@\" --set 'length=200 ms' ;;\n\
             describe*) exec {STEELYARD} \"$@\" {of_host} --sys host/sys ;;\n\
             apply*) grep -qE '^(cap|pin|slice)' \"$2\" && set -- \"$1\" \"$2\" --dry-run\n\
             exec {STEELYARD} \"$@\" {of_host} {kept} ;;\n\
             undo*) exec {STEELYARD} \"$@\" {of_host} {kept} ;;\n\
             govern*) exec {STEELYARD} govern \"$2\" --dry-run --length 20ms {of_host} ;;\n\
             tune*) exec {STEELYARD} \"$@\" --settings 8 ;;\n\
             reproduce*) {STEELYARD} reproduce boost-credit --seeds 1 || [ $? = 3 ] ;;\n\
             top*--batch*) exec {STEELYARD} \"$@\" --interval 10ms ;;\n\
             top*--simulate* | top*--replay*) exec {STEELYARD} \"$@\" --batch 1 ;;\n\
             top*) exec {STEELYARD} \"$@\" --batch 1 --interval 10ms --no-waits ;;\n\
             *--simulate*) exec {STEELYARD} \"$@\" ;;\n\
             export) ;; # until Ctrl-C: export.rs\n\
             record*) exec {STEELYARD} record -o \"$3\" --length 20ms --interval 10ms --no-waits ;;\n\
             *) exec {STEELYARD} \"$@\" ;;\nesac\n"
        ),
    );
}

/// Follows a page, and gives what it printed, or in what it failed.
fn follow(page: &Path, world: &Files) -> Result<String, String> {
    let path = format!("{}:{}", world.path("bin").display(), env::var("PATH").unwrap());
    let output = Command::new("sh")
        .args(["-exc", &commands(page).0])
        .current_dir(world.path(""))
        .env("PATH", path)
        .output()
        .unwrap();
    let (told, errors) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    if output.status.success() {
        Ok(told)
    } else {
        Err(format!("{}: {told}\n{errors}", page.display()))
    }
}

/// All of these words are among what a page printed.
fn tells(page: &str, world: &Files, words: &[&str]) {
    let told = follow(&repository().join(page), world).unwrap_or_else(|failed| panic!("{failed}"));
    for word in words {
        assert!(told.contains(word), "{page}: {word}: {told}");
    }
}

#[test]
fn the_readme() {
    let world = world();
    tells("README.md", &world, &["pCPU", "vm-web", "credit2@xen-4.20", "claims"]);
    assert_eq!(commands(&repository().join("README.md")).1, 6);
    assert!(world.path("report/report.html").exists());
}

#[test]
fn the_tutorial_does_what_it_says() {
    let world = world();
    tells(
        "docs/tutorial.md",
        &world,
        &[
            "By the description of",
            // 1024 is 400 where 256 is 100.
            "# shop: weight 1024 is cpu.weight 400, 256 being 100; was 100",
            "From before.perf.txt",
            "shop: done: echo 100 > ",
        ],
    );
    let weight = fs::read_to_string(world.path("host/groups/shop.scope/cpu.weight"));
    assert_eq!(weight.unwrap(), "100\n");
}

#[test]
fn every_other_page() {
    let own = ["README.md", "docs/tutorial.md"].map(|page| repository().join(page));
    let pages = pages().into_iter().map(|(path, _)| path.canonicalize().unwrap());
    let of_commands = |page: &PathBuf| !own.contains(page) && !commands(page).0.is_empty();
    let pages: Vec<_> = pages.filter(of_commands).collect();
    let lines: usize = pages.iter().map(|page| commands(page).1).sum();
    assert!(lines > 40, "{lines} on {pages:?}");
    let failed: Vec<_> = pages.iter().filter_map(|page| follow(page, &world()).err()).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
