// SPDX-License-Identifier: GPL-2.0-only
//! `apply` and `undo`: on processes whose threads are called as QEMU's, on real control groups where this process
//! may make some, on a host of files with a `virsh` and an `xl` that only keep books; and killed before every system
//! call that concerns journal, groups or threads (`fault.c`), and around every question to those two.

#![allow(clippy::unwrap_used)]

mod files;

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::ops::Deref;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::OnceLock;
use std::{env, io, thread};

use files::Files;

const VCPUS: &str = "STEELYARD_TEST_VCPUS";

/// Not a test of its own: as a process of its own it is a VM, for those below.
#[test]
#[ignore = "a process that others start"]
fn a_vm() {
    let Some(vcpus) = env::var(VCPUS).ok().and_then(|vcpus| vcpus.parse::<u32>().ok()) else {
        return;
    };
    for vcpu in 0..vcpus {
        thread::Builder::new().name(format!("CPU {vcpu}/KVM")).spawn(thread::park).unwrap();
    }
    println!("\nready");
    io::stdin().read_to_end(&mut vec![]).unwrap();
}

/// A process that looks like a VM.
struct Vm {
    child: Child,
    name: String,
    /// Open until it has ended.
    _told: BufReader<ChildStdout>,
}

impl Vm {
    fn start(vcpus: u32) -> Vm {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("steelyard-test-{}-{number}", std::process::id());
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "a_vm", "--", "-name"])
            .arg(format!("guest={name}"))
            .env(VCPUS, vcpus.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut told = BufReader::new(child.stdout.take().unwrap());
        assert!(told.by_ref().lines().any(|line| line.unwrap() == "ready"));
        let vm = Vm { child, name, _told: told };
        // A thread gives itself its name.
        while vm.vcpus().len() < vcpus as usize {
            thread::yield_now();
        }
        vm
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn vcpus(&self) -> Vec<PathBuf> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
        let is_vcpu = |task: &PathBuf| {
            fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.starts_with("CPU "))
        };
        tasks.map(|task| task.unwrap().path()).filter(is_vcpu).collect()
    }

    fn pins(&self) -> Vec<String> {
        let of = |task: PathBuf| {
            let status = fs::read_to_string(task.join("status")).unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
            line.unwrap().trim().to_owned()
        };
        self.vcpus().into_iter().map(of).collect()
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// A control group of its own for a VM, removed with it.
struct OwnGroup {
    directory: PathBuf,
    vm: Vm,
}

impl OwnGroup {
    /// None where there are no groups that this process may make.
    fn of(vm: Vm) -> Option<OwnGroup> {
        let root = Path::new("/sys/fs/cgroup");
        let v1 = ["cpu,cpuacct", "cpu"].map(|name| root.join(name));
        let above = v1.into_iter().find(|path| path.join("cpu.shares").exists());
        let directory = above.unwrap_or(root.to_owned()).join(&vm.name);
        fs::create_dir(&directory).ok()?;
        let group = OwnGroup { directory, vm };
        // A group without the controller, as where nobody turned it on.
        group.weight_file()?;
        fs::write(group.directory.join("cgroup.procs"), group.vm.pid().to_string()).ok()?;
        Some(group)
    }

    fn weight_file(&self) -> Option<PathBuf> {
        let files = ["cpu.weight", "cpu.shares"].map(|name| self.directory.join(name));
        files.into_iter().find(|path| path.exists())
    }

    fn values(&self) -> Vec<String> {
        let names =
            ["cpu.weight", "cpu.max", "cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us"];
        let files = names.iter().map(|name| self.directory.join(name));
        files.filter_map(|file| fs::read_to_string(file).ok()).collect()
    }
}

impl Drop for OwnGroup {
    fn drop(&mut self) {
        drop(self.vm.child.stdin.take());
        let _ = self.vm.child.wait();
        let _ = fs::remove_dir(&self.directory);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A directory for plan and journal.
struct Bench {
    files: Files,
}

impl Deref for Bench {
    type Target = Files;

    fn deref(&self) -> &Files {
        &self.files
    }
}

impl Bench {
    fn new(plan: &str) -> Bench {
        let files = Files::new();
        files.put("plan.toml", plan);
        Bench { files }
    }

    fn journal(&self) -> PathBuf {
        self.path("state/journal")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_steelyard"));
        command.args(arguments).args(["--state"]).arg(self.path("state"));
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn apply(&self) -> Output {
        self.run(&["apply", self.path("plan.toml").to_str().unwrap()])
    }

    fn dry_run(&self) -> String {
        succeeded(&self.run(&["apply", "--dry-run", self.path("plan.toml").to_str().unwrap()]))
    }

    fn undo(&self) -> Output {
        self.run(&["undo"])
    }
}

fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// The exit code and what is said.
fn refused(output: &Output) -> (i32, String) {
    (output.status.code().unwrap(), text(&output.stderr))
}

#[test]
fn threads_get_slices_and_pins_and_lose_them() {
    let vm = Vm::start(2);
    let before = vm.pins();
    let first = before[0].split(['-', ',']).next().unwrap().to_owned();
    let plan =
        format!("[[domain]]\nname = \"{}\"\nslice = \"5 ms\"\npin = [\"{first}\"]\n", vm.name);
    let bench = Bench::new(&plan);
    let printed =
        text(&bench.run(&["apply", "-n", bench.path("plan.toml").to_str().unwrap()]).stdout);
    if printed.is_empty() {
        // An older kernel has no slices: it says so, and where.
        let (code, message) = refused(&bench.apply());
        assert!(code == 2 && message.contains("plan.toml:3:1"), "{message}");
        return;
    }
    let many = before[0] != first;
    assert_eq!(printed.contains(&format!("taskset --cpu-list --pid {first} ")), many, "{printed}");
    assert_eq!(printed.matches("chrt --other --sched-runtime 5000000 --pid 0 ").count(), 2);
    assert!(!bench.path("state").exists(), "a dry run has left something");
    assert_eq!(succeeded(&bench.apply()), printed);
    assert_eq!(vm.pins(), [first.clone(), first]);
    // What a second look finds is what was asked for.
    let again = bench.dry_run();
    assert!(again.lines().all(|line| line.ends_with("is so already")), "{again}");
    let (code, message) = refused(&bench.apply());
    assert!(code == 1 && message.contains("`steelyard undo` takes it back"), "{message}");
    assert!(!succeeded(&bench.undo()).is_empty());
    assert_eq!(vm.pins(), before);
    assert!(!bench.journal().exists());
    assert_eq!(bench.dry_run(), printed);
    assert_eq!(succeeded(&bench.undo()), "");
}

/// A journal of a VM that has ended: its numbers may be somebody else's by then.
#[test]
fn who_is_gone_is_left_alone() {
    let vm = Vm::start(1);
    let first = vm.pins()[0].split(['-', ',']).next().unwrap().to_owned();
    let plan = format!("[[domain]]\nname = \"{}\"\npin = [\"{first}\"]\n", vm.name);
    let bench = Bench::new(&plan);
    succeeded(&bench.apply());
    if !bench.journal().exists() {
        // There is one pCPU.
        return;
    }
    // The same numbers, began at another time.
    let journal = fs::read_to_string(bench.journal()).unwrap();
    let began = journal.lines().find(|line| line.contains("\"began\"")).unwrap();
    fs::write(bench.journal(), journal.replace(began, "\"began\": 1")).unwrap();
    assert!(succeeded(&bench.undo()).contains("has ended since"));
    assert_eq!(vm.pins(), [first]);
    // And of the host, which was started anew.
    fs::write(bench.journal(), journal.replace("\"boot\": \"", "\"boot\": \"not ")).unwrap();
    fs::set_permissions(bench.journal(), Permissions::from_mode(0o600)).unwrap();
    assert!(succeeded(&bench.undo()).contains("has ended since"));
    assert!(!bench.journal().exists());
}

#[test]
fn real_groups_get_weights_and_caps_and_lose_them() {
    let vm = Vm::start(1);
    // Others' groups are not for it.
    let plan = format!("[[domain]]\nname = \"{}\"\nweight = 300\ncap_percent = 33\n", vm.name);
    let bench = Bench::new(&plan);
    let (code, message) = refused(&bench.apply());
    assert!(code == 2 && message.contains("plan.toml:3:1"), "{message}");
    assert!(message.contains("a group of its own"), "{message}");
    let Some(group) = OwnGroup::of(vm) else { return };
    let before = group.values();
    let printed = bench.dry_run();
    assert!(printed.contains("the nearest") == printed.contains("cpu.weight"), "{printed}");
    assert_eq!(group.values(), before);
    succeeded(&bench.apply());
    let weight = fs::read_to_string(group.weight_file().unwrap()).unwrap();
    // 300 x 100 / 256 and 300 x 1024 / 256.
    assert!(["117\n", "1200\n"].contains(&weight.as_str()), "{weight}");
    let quota = ["cpu.max", "cpu.cfs_quota_us"].map(|name| group.directory.join(name));
    let quota = quota.iter().find_map(|path| fs::read_to_string(path).ok()).unwrap();
    assert!(quota.starts_with("33000"), "{quota}");
    // What it prints does the same, typed by a person.
    succeeded(&bench.undo());
    assert_eq!(group.values(), before);
    let typed = Command::new("sh").args(["-ec", &printed]).output().unwrap();
    succeeded(&typed);
    assert_ne!(group.values(), before);
    assert!(bench.dry_run().lines().all(|line| line.ends_with("is so already")));
    // Nothing was applied, so nothing is taken back.
    assert_eq!(succeeded(&bench.undo()), "");
    for (name, value) in [
        ("cpu.weight", "100"),
        ("cpu.shares", "1024"),
        ("cpu.max", "max"),
        ("cpu.cfs_quota_us", "-1"),
    ] {
        let path = group.directory.join(name);
        if path.exists() {
            fs::write(path, value).unwrap();
        }
    }
    assert_eq!(group.values(), before);

    // What somebody changes in between is theirs.
    succeeded(&bench.apply());
    fs::write(group.weight_file().unwrap(), "77").unwrap();
    let (code, message) = refused(&bench.undo());
    assert!(code == 1 && message.contains("--keep"), "{message}");
    let weight = || fs::read_to_string(group.weight_file().unwrap()).unwrap();
    assert_eq!(weight(), "77\n");
    assert_eq!(group.values()[1..], before[1..]);
    assert!(bench.journal().exists());
    let told = text(&bench.undo().stdout);
    assert!(told.contains("somebody has changed") && told.contains("`77`"), "{told}");
    let forced = bench.run(&["undo", "--force"]);
    succeeded(&forced);
    assert_eq!(group.values(), before);
    succeeded(&bench.apply());
    fs::write(group.weight_file().unwrap(), "77").unwrap();
    succeeded(&bench.run(&["undo", "--keep"]));
    assert_eq!(weight(), "77\n");
    assert!(!bench.journal().exists());
}

/// libvirt's `virsh`, as far as it is asked, with one domain in files; it writes down what it is asked to change.
const VIRSH: &str = r#"#!/bin/sh
cd "$(dirname "$0")/../libvirt" || exit 1
[ "$1 $2 $3" = "--connect qemu:///system --quiet" ] || exit 1
shift 3
keep() { cat >"$1.new" && mv "$1.new" "$1"; }
case "$1 $*" in
dominfo*) printf 'Id:             1\nUUID:           %s\nPersistent:     yes\n' "$(cat uuid)" ;;
list*) cat names ;;
domuuid*) cat uuid ;;
schedinfo*--set*)
	echo "$*" >>calls
	key=${5%%=*} value=${5#*=}
	if [ "$3" = --live ]; then
		echo "$value" | keep "live.$key"
	else
		[ "$key" = cpu_shares ] && key=shares
		grep -v "<$key>" config.xml | sed "s|</cputune>|<$key>$value</$key>\n&|" | keep config.xml
	fi
	;;
schedinfo*)
	for key in cpu_shares vcpu_period global_period global_quota; do
		printf '%-15s: %s\n' "$key" "$(cat "live.$key")"
	done
	;;
vcpupin*)
	if [ -n "$5" ]; then
		echo "$*" >>calls
		if [ "$5" = --live ]; then
			echo "$4" | keep "live.pin$3"
		else
			grep -v "vcpu='$3'" config.xml |
				sed "s|</cputune>|<vcpupin vcpu='$3' cpuset='$4'/>\n&|" | keep config.xml
		fi
	else
		printf ' 0      %s\n 1      %s\n' "$(cat live.pin0)" "$(cat live.pin1)"
	fi
	;;
dumpxml*) cat config.xml ;;
define*)
	echo "$*" >>calls
	grep -v '^ *$' | keep config.xml
	;;
*) exit 1 ;;
esac
"#;

const CONFIG: &str = "<domain type='kvm'>\n<name>web</name>\n<cputune>\n<global_quota>-1</global_quota>\n\
                      <vcpupin vcpu='1' cpuset='0-1'/>\n</cputune>\n</domain>\n";

/// Xen's `xl`, as far as it is asked, with one domain under Credit.
const XL: &str = r#"#!/bin/sh
cd "$(dirname "$0")/../xen" || exit 1
keep() { cat >"$1.new" && mv "$1.new" "$1"; }
case "$1 $*" in
list*)
	echo 'Name                                        ID   Mem VCPUs	State	Time(s)'
	echo 'Domain-0                                     0  2048     4     r-----     100.1'
	printf 'web                                         %2d   512     2     -b----       1.0\n' "$(cat id)"
	;;
sched-credit2*) echo 'libxl_domain_sched_params_get returned credit not credit2.' >&2 && exit 1 ;;
"sched-credit "*" -w "*) echo "$5" | keep weight ;;
"sched-credit "*" -c "*) echo "$5" | keep cap ;;
sched-credit*)
	echo 'Name                                ID Weight  Cap'
	printf 'web                                %2d  %5d %4d\n' "$(cat id)" "$(cat weight)" "$(cat cap)"
	;;
vcpu-list*)
	echo 'Name                                ID  VCPU   CPU State   Time(s) Affinity (Hard / Soft)'
	printf 'web                                  3     0    1   -b-       1.0  %s / all\n' "$(cat pin0)"
	printf 'web                                  3     1    -   --p       1.0  %s / 0-1\n' "$(cat pin1)"
	;;
vcpu-pin*) echo "$4" | keep "pin$3" ;;
*) exit 1 ;;
esac
"#;

/// A host of files: `web`, with two vCPUs, that libvirt manages or not, or that is Xen's.
struct Host {
    bench: Bench,
}

/// What may change, and must be as it was.
type Books = BTreeMap<PathBuf, String>;

impl Host {
    fn new(plan: &str) -> Host {
        let host = Host { bench: Bench::new(plan) };
        host.bench.put("proc/stat", "cpu  0 0 0 0 0\ncpu0 5 0 5 9 2 0\ncpu1 5 0 5 9 2 0\n");
        host.bench.put("proc/sys/kernel/random/boot_id", "this\n");
        host.bench.put("proc/100/cmdline", "qemu\0-name\0guest=web,debug-threads=on\0");
        for (tid, name) in [(100, "qemu"), (101, "CPU 0/KVM"), (102, "CPU 1/KVM")] {
            let put = |file: &str, text: &str| {
                host.bench.put(&format!("proc/100/task/{tid}/{file}"), text)
            };
            put("comm", &format!("{name}\n"));
            put("schedstat", "1 1 1\n");
            put("stat", &format!("{tid} ({name}) R {}\n", "0 ".repeat(50)));
            put("cgroup", "0::/machine.slice/web.scope\n");
        }
        host.bench.put("proc/100/cgroup", "0::/machine.slice/web.scope\n");
        host.bench.put("kept/groups/machine.slice/web.scope/cgroup.procs", "100\n");
        host.bench.put("kept/groups/machine.slice/web.scope/cpu.weight", "100\n");
        host.bench.put("kept/groups/machine.slice/web.scope/cpu.max", "max 100000\n");
        host
    }

    fn with_libvirt(self) -> Host {
        self.bench.program("virsh", VIRSH);
        self.bench.put("run/libvirt/qemu/web.pid", "100\n");
        self.bench.put("libvirt/uuid", "c7a5fdbd-edaf-9455-926a-d65c16db1809\n");
        self.bench.put("libvirt/names", "web\n");
        self.bench.put("libvirt/config.xml", CONFIG);
        for (key, value) in [
            ("cpu_shares", "100"),
            ("vcpu_period", "100000"),
            ("global_period", "100000"),
            ("global_quota", "17592186044415"),
            ("pin0", "0-1"),
            ("pin1", "1"),
        ] {
            self.bench.put(&format!("libvirt/live.{key}"), &format!("{value}\n"));
        }
        self
    }

    fn with_xen(self) -> Host {
        self.bench.program("xl", XL);
        self.bench.put("proc/xen/capabilities", "control_d\n");
        for (file, value) in
            [("id", "3"), ("weight", "256"), ("cap", "0"), ("pin0", "all"), ("pin1", "0-1")]
        {
            self.bench.put(&format!("xen/{file}"), &format!("{value}\n"));
        }
        self
    }

    /// The arguments that make this host the one.
    fn arguments(&self, arguments: &[&str]) -> Vec<String> {
        let mut all: Vec<_> = arguments.iter().map(|&word| word.to_owned()).collect();
        for (option, place) in [
            ("--proc", "proc"),
            ("--groups", "kept/groups"),
            ("--run", "run"),
            ("--state", "kept/state"),
        ] {
            all.extend([option.to_owned(), self.bench.path(place).to_str().unwrap().to_owned()]);
        }
        all
    }

    fn path(&self) -> String {
        let own = self.bench.path("bin");
        format!("{}:{}", own.display(), env::var("PATH").unwrap())
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_steelyard"));
        command.args(self.arguments(arguments)).env("PATH", self.path()).output().unwrap()
    }

    fn apply(&self) -> Output {
        self.run(&["apply", self.bench.path("plan.toml").to_str().unwrap()])
    }

    fn dry_run(&self) -> Output {
        self.run(&["apply", self.bench.path("plan.toml").to_str().unwrap(), "-n"])
    }

    fn undo(&self) -> Output {
        self.run(&["undo"])
    }

    fn books(&self) -> Books {
        let mut books = Books::new();
        for directory in ["kept", "libvirt", "xen"] {
            add(&self.bench.path(directory), &mut books);
        }
        books
    }

    /// Under `fault.c`: the exit code, how many system calls it looked at, and which one failed.
    fn faulty(&self, arguments: &[&str], how: &[&str]) -> (i32, usize, String) {
        let report = self.bench.path("report");
        let output = Command::new(fault())
            .arg("-d")
            .arg(self.bench.path("kept"))
            .arg("-r")
            .arg(&report)
            .args(how)
            .arg(env!("CARGO_BIN_EXE_steelyard"))
            .args(self.arguments(arguments))
            .env("PATH", self.path())
            .output()
            .unwrap();
        let report = fs::read_to_string(report).unwrap();
        let (calls, call) = report.trim().split_once(' ').unwrap();
        (output.status.code().unwrap(), calls.parse().unwrap(), call.to_owned())
    }
}

/// The kernel's files are a line each; of libvirt's description and the books of others, all.
fn add(directory: &Path, books: &mut Books) {
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            add(&path, books);
        } else if name != "calls" {
            let whole = fs::read_to_string(&path).unwrap();
            let line = whole.lines().next().unwrap_or_default().to_owned();
            let content = if name.starts_with("cpu.") { line } else { whole };
            books.insert(path, content);
        }
    }
}

/// `fault.c`, built.
fn fault() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fault.c");
        let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fault-apply");
        let mut compiler = Command::new("cc");
        compiler.args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-o"]);
        assert!(compiler.arg(&built).arg(source).status().unwrap().success());
        built
    })
}

const GROUP_PLAN: &str = "[[domain]]\nname = \"web\"\nweight = 512\ncap_percent = 150\n";
const FULL_PLAN: &str =
    "[[domain]]\nname = \"web\"\nweight = 512\ncap_percent = 150\npin = [\"0\"]\n";

#[test]
fn libvirts_domains_are_changed_through_libvirt_and_back() {
    let host = Host::new(FULL_PLAN).with_libvirt();
    let before = host.books();
    let printed = succeeded(&host.dry_run());
    assert_eq!(host.books(), before);
    for command in [
        "virsh schedinfo web --live --set cpu_shares=200\n",
        "virsh schedinfo web --live --set global_quota=150000\n",
        "virsh vcpupin web 0 0 --live\n",
        "virsh vcpupin web 1 0 --live\n",
        "virsh schedinfo web --config --set cpu_shares=200\n",
        "virsh schedinfo web --config --set global_quota=150000\n",
        "virsh vcpupin web 0 0 --config\n",
        "virsh vcpupin web 1 0 --config\n",
    ] {
        assert!(printed.contains(command), "{command}: {printed}");
    }
    succeeded(&host.apply());
    // The groups are libvirt's to write.
    let changed = host.books();
    let groups = |books: &Books| {
        let of_groups = |(path, _): &(&PathBuf, &String)| path.to_str().unwrap().contains("groups");
        books.iter().filter(of_groups).map(|(_, line)| line.clone()).collect::<Vec<_>>()
    };
    assert_eq!(groups(&changed), groups(&before));
    let config = &changed[&host.bench.path("libvirt/config.xml")];
    assert!(config.contains("<shares>200</shares>"), "{config}");
    succeeded(&host.undo());
    // To the byte, though nothing was said of weights before.
    let after = host.books();
    let mut expected = before;
    // -1 and what stands for it are the same to libvirt.
    let quota = host.bench.path("libvirt/live.global_quota");
    expected.insert(quota, "-1\n".to_owned());
    let sorted = |books: &Books| {
        let of = |text: &String| {
            let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        books.iter().map(|(path, text)| (path.clone(), of(text))).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(sorted(&after), sorted(&expected));
}

#[test]
fn xens_domains_are_changed_through_xl_and_back() {
    let host = Host::new(FULL_PLAN).with_xen();
    let before = host.books();
    let printed = succeeded(&host.dry_run());
    for command in [
        "xl sched-credit -d web -w 512\n",
        "xl sched-credit -d web -c 150\n",
        "xl vcpu-pin web 0 0 -\n",
        "xl vcpu-pin web 1 0 -\n",
    ] {
        assert!(printed.contains(command), "{command}: {printed}");
    }
    succeeded(&host.apply());
    assert_eq!(host.books()[&host.bench.path("xen/weight")], "512\n");
    succeeded(&host.undo());
    assert_eq!(host.books(), before);
    // Another domain of the same name is another.
    succeeded(&host.apply());
    host.bench.put("xen/id", "4\n");
    assert!(succeeded(&host.undo()).contains("has ended since"));
    assert_eq!(host.books()[&host.bench.path("xen/weight")], "512\n");
}

#[test]
fn what_a_host_cannot_do_is_refused_before_anything_is_changed() {
    let refuses = |host: Host, place: &str, words: &str| {
        let before = host.books();
        let (code, message) = refused(&host.apply());
        assert!(code == 2, "{message}");
        assert!(message.contains(place) && message.contains(words), "{message}");
        assert!(message.contains("help: "), "{message}");
        assert_eq!(host.books(), before);
    };
    let plan = |keys: &str| format!("{GROUP_PLAN}[[domain]]\nname = \"web2\"\n{keys}\n");
    refuses(Host::new(&plan("weight = 1")), "plan.toml:6:1", "did you mean `web`?");
    let one = |keys: &str| format!("[[domain]]\nname = \"web\"\nweight = 512\n{keys}\n");
    refuses(Host::new(&one("pin = [\"7\"]")), "plan.toml:4:1", "no pCPU 7 online");
    let three = "pin = [\"0\", \"1\", \"0\"]";
    refuses(Host::new(&one(three)), "plan.toml:4:1", "3 sets of pCPUs for 2 vCPUs");
    refuses(Host::new(&one("slice = \"3 ms\"")).with_xen(), "plan.toml:4:1", "no `slice`");
    let small = "cap_percent = 1\ncap_period = \"50 ms\"";
    refuses(Host::new(&one(small)), "plan.toml:4:1", "500 us");
    let heavy = one("").replace("512", "30000");
    refuses(Host::new(&heavy), "plan.toml:3:1", "weights from 2 to 25601");
    let burst = Host::new(&one("cap_percent = 50"));
    burst.bench.put("kept/groups/machine.slice/web.scope/cpu.max.burst", "60000\n");
    refuses(burst, "plan.toml:4:1", "its burst");
    let other = Host::new(GROUP_PLAN);
    other.bench.put("kept/groups/machine.slice/web.scope/cgroup.procs", "100\n200\n");
    refuses(other, "plan.toml:3:1", "holds process 200 too");
    let off = Host::new(GROUP_PLAN);
    fs::remove_file(off.bench.path("kept/groups/machine.slice/web.scope/cpu.weight")).unwrap();
    refuses(off, "plan.toml:3:1", "cgroup.subtree_control");
    // virsh is not there.
    let missing = Host::new(GROUP_PLAN).with_libvirt();
    missing
        .bench
        .program("virsh", "#!/bin/sh\necho 'failed to connect to the hypervisor' >&2\nexit 1\n");
    let (code, message) = refused(&missing.apply());
    assert!(code == 2 && message.contains("failed to connect"), "{message}");
    assert!(!missing.bench.path("kept/state/journal").exists());
}

/// The last change fails: all before it are taken back.
#[test]
fn a_change_that_fails_takes_all_back() {
    let host = Host::new(FULL_PLAN).with_libvirt();
    let script = VIRSH.replace(
        "if [ -n \"$5\" ]; then",
        "if [ \"$5\" = --config ]; then exit 1; fi\n\tif [ -n \"$5\" ]; then",
    );
    host.bench.program("virsh", &script);
    let before = host.books();
    let (code, message) = refused(&host.apply());
    assert!(code == 1 && message.contains("all that was changed before is as it was"), "{message}");
    assert!(!host.bench.path("kept/state/journal").exists());
    let after = host.books();
    assert_eq!(after[&host.bench.path("libvirt/live.cpu_shares")], "100\n");
    assert_eq!(after.len(), before.len());
    // One of which something else comes is this command's too.
    let off = "echo \"$value\" | sed 's/^200$/201/' | keep";
    host.bench.program("virsh", &VIRSH.replace("echo \"$value\" | keep", off));
    let (code, message) = refused(&host.apply());
    assert!(code == 1 && message.contains("the host made `201` of it"), "{message}");
    assert!(message.contains("is as it was"), "{message}");
    assert_eq!(host.books()[&host.bench.path("libvirt/live.cpu_shares")], "100\n");
    assert!(!host.bench.path("kept/state/journal").exists());
}

/// A group that leaves its VM one pCPU.
#[test]
fn a_pin_beyond_the_cpuset_is_refused() {
    let vm = Vm::start(1);
    let pins = vm.pins()[0].clone();
    let first = pins.split(['-', ',']).next().unwrap().to_owned();
    let root = Path::new("/sys/fs/cgroup");
    let above = if root.join("cpuset").is_dir() { root.join("cpuset") } else { root.to_owned() };
    let directory = above.join(format!("{}-cpuset", vm.name));
    let put = |file: &str, text: &str| fs::write(directory.join(file), text);
    let made = fs::create_dir(&directory)
        .and_then(|()| put("cpuset.cpus", &first))
        .and_then(|()| put("cpuset.mems", "0"))
        .and_then(|()| put("cgroup.procs", &vm.pid().to_string()));
    if made.is_ok() && pins != first {
        let plan = format!("[[domain]]\nname = \"{}\"\npin = [\"{pins}\"]\n", vm.name);
        let (code, message) = refused(&Bench::new(&plan).apply());
        assert!(code == 2 && message.contains("plan.toml:3:1"), "{message}");
        assert!(message.contains(&format!("leaves it {first}")), "{message}");
        assert_eq!(vm.pins(), [first]);
    }
    drop(vm);
    let _ = fs::remove_dir(&directory);
}

#[test]
fn journals_of_others_are_not_believed() {
    let host = Host::new(GROUP_PLAN);
    succeeded(&host.apply());
    let journal = host.bench.path("kept/state/journal");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&journal), mode(&host.bench.path("kept/state"))), (0o600, 0o700));
    let good = fs::read_to_string(&journal).unwrap();
    let applied = host.books();
    let refuses = |words: &str| {
        let (code, message) = refused(&host.undo());
        assert!(code == 1 && message.contains(words), "{words}: {message}");
    };
    fs::set_permissions(&journal, Permissions::from_mode(0o644)).unwrap();
    refuses("others own it or may use it");
    fs::set_permissions(&journal, Permissions::from_mode(0o600)).unwrap();
    fs::rename(&journal, host.bench.path("kept/state/other")).unwrap();
    symlink("other", &journal).unwrap();
    refuses("it is a link");
    fs::remove_file(&journal).unwrap();
    fs::hard_link(host.bench.path("kept/state/other"), &journal).unwrap();
    refuses("others own it or may use it");
    fs::remove_file(host.bench.path("kept/state/other")).unwrap();
    for (from, to) in [
        ("\"version\": 1", "\"version\": 2"),
        ("cpu.max", "cpu.weight"),
        ("cpu.max", "../../x"),
        ("\"old\"", "\"odl\""),
        ("\"100\"", "\"100\\n7\""),
        ("}", ""),
    ] {
        fs::write(&journal, good.replacen(from, to, 1)).unwrap();
        refuses("no journal");
    }
    // A directory that is no group of this host's: what it names is gone, as far as anybody can tell.
    host.bench.put("elsewhere/cpu.weight", "200\n");
    let elsewhere = host.bench.path("elsewhere");
    let group = host.bench.path("kept/groups/machine.slice/web.scope");
    let inode = |path: &Path| {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(path).unwrap().ino().to_string()
    };
    let astray = good
        .replace(group.to_str().unwrap(), elsewhere.to_str().unwrap())
        .replace(&inode(&group), &inode(&elsewhere));
    fs::write(&journal, astray).unwrap();
    assert!(succeeded(&host.undo()).contains("has ended since"));
    assert_eq!(fs::read_to_string(elsewhere.join("cpu.weight")).unwrap(), "200\n");
    fs::write(&journal, good).unwrap();
    fs::set_permissions(&journal, Permissions::from_mode(0o600)).unwrap();
    assert_eq!(host.books(), applied);
    fs::set_permissions(host.bench.path("kept/state"), Permissions::from_mode(0o777)).unwrap();
    refuses("others own it or may write it");
    fs::set_permissions(host.bench.path("kept/state"), Permissions::from_mode(0o700)).unwrap();
    succeeded(&host.undo());
    assert!(!journal.exists());
}

#[test]
fn two_at_once_are_refused() {
    // While the one waits for virsh, the other comes.
    let host = Host::new(GROUP_PLAN).with_libvirt();
    host.bench.program(
        "virsh",
        &VIRSH.replace(
            "dominfo*) ",
            "dominfo*) echo >asked; while [ ! -e go ]; do sleep 0.01; done; ",
        ),
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_steelyard"));
    command.args(host.arguments(&["apply", host.bench.path("plan.toml").to_str().unwrap()]));
    let first = command.env("PATH", host.path()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut first = first.spawn().unwrap();
    while !host.bench.path("libvirt/asked").exists() {
        thread::yield_now();
    }
    for second in [host.apply(), host.undo()] {
        let (code, message) = refused(&second);
        assert!(code == 1 && message.contains("is at work"), "{message}");
    }
    host.bench.put("libvirt/go", "");
    assert!(first.wait().unwrap().success());
    succeeded(&host.undo());
}

/// Killed before each system call on journal and groups, and each of these failing: `undo` gives back what was.
fn survives(host: &Host) {
    let before = host.books();
    let plan = host.bench.path("plan.toml");
    let apply = ["apply", plan.to_str().unwrap()];
    let (code, calls, _) = host.faulty(&apply, &[]);
    assert!(code == 0 && calls > 5, "{code}, {calls} calls");
    let applied = host.books();
    let (code, undo_calls, _) = host.faulty(&["undo"], &[]);
    assert!(code == 0 && undo_calls > 5, "{code}, {undo_calls} calls");
    let clean = |host: &Host, what: &str| {
        let mut now = host.books();
        // A journal that was not finished is no journal.
        now.remove(&host.bench.path("kept/state/journal.new"));
        assert_eq!(normal(&now), normal(&before), "{what}");
    };
    clean(host, "undisturbed");
    const FAILURES: [&str; 3] = ["5", "28", "13"];
    // The directory is made each time.
    let anew = || drop(fs::remove_dir_all(host.bench.path("kept/state")));
    for number in 1..=calls {
        let which = number.to_string();
        anew();
        let (code, _, call) = host.faulty(&apply, &["-n", &which, "-k"]);
        assert_eq!(code, 128 + 9, "call {number}");
        succeeded(&host.undo());
        clean(host, &format!("apply killed at {number} of {calls}"));
        // No kernel refuses to close what was read.
        if call == "close" {
            continue;
        }
        anew();
        let error = FAILURES[number % FAILURES.len()];
        let (code, ..) = host.faulty(&apply, &["-n", &which, "-e", error]);
        match code {
            // It did without the call.
            0 => assert_eq!(without_journal(&host.books()), without_journal(&applied)),
            1 | 2 => {}
            code => panic!("apply ends with {code} as call {number} fails with {error}"),
        }
        succeeded(&host.undo());
        clean(host, &format!("call {number} of {calls} of apply fails with {error}"));
    }
    for number in 1..=undo_calls {
        let which = number.to_string();
        for how in [&["-n", &which, "-k"][..], &["-n", &which, "-e", "5"]] {
            succeeded(&host.apply());
            host.faulty(&["undo"], how);
            succeeded(&host.undo());
            clean(host, &format!("{how:?} of {undo_calls} in undo"));
        }
    }
}

/// Lines of a description in any order: the `virsh` here puts what is new at the end.
fn normal(books: &Books) -> BTreeMap<PathBuf, Vec<String>> {
    let of = |text: &String| {
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    books.iter().map(|(path, text)| (path.clone(), of(text))).collect()
}

fn without_journal(books: &Books) -> BTreeMap<PathBuf, Vec<String>> {
    let mut books = books.clone();
    books.retain(|path, _| !path.to_str().unwrap().contains("/state/"));
    normal(&books)
}

#[test]
fn whatever_ends_it_groups_are_given_back() {
    survives(&Host::new(GROUP_PLAN));
}

/// In the place of `virsh` or `xl`: runs what is called so, and kills who asked, before or after that, the number of
/// times that `kill-at` says.
const KILLER: &str = r#"#!/bin/sh
here=$(dirname "$0")/..
program=$here/bin/real-$(basename "$0")
read -r left when <"$here/kill-at" || exec "$program" "$@"
left=$((left - 1))
echo "$left $when" >"$here/kill-at"
[ "$left $when" = "0 before" ] && kill -9 "$PPID" && exit 1
"$program" "$@"
code=$?
[ "$left $when" = "0 after" ] && kill -9 "$PPID"
exit "$code"
"#;

/// Killed before and after each time that it asks another program.
fn survives_asking(host: &Host, name: &str, script: &str) {
    host.bench.program(&format!("real-{name}"), script);
    host.bench.program(name, KILLER);
    host.bench.put("kill-at", "");
    let before = normal(&host.books());
    let killed = |output: Output| output.status.code().is_none();
    for when in ["before", "after"] {
        let kill_at = |number: usize| host.bench.put("kill-at", &format!("{number} {when}\n"));
        let never = || host.bench.put("kill-at", "");
        let mut number = 1;
        loop {
            kill_at(number);
            let ended = !killed(host.apply());
            never();
            succeeded(&host.undo());
            assert_eq!(normal(&host.books()), before, "apply killed {when} question {number}");
            if ended {
                break;
            }
            number += 1;
        }
        let mut of_undo = 1;
        loop {
            succeeded(&host.apply());
            assert_ne!(normal(&host.books()), before);
            kill_at(of_undo);
            let ended = !killed(host.undo());
            never();
            succeeded(&host.undo());
            assert_eq!(normal(&host.books()), before, "undo killed {when} question {of_undo}");
            if ended {
                break;
            }
            of_undo += 1;
        }
        assert!(number > 8 && of_undo > 4, "{number} and {of_undo} questions");
    }
}

#[test]
fn whatever_ends_it_libvirts_domains_are_given_back() {
    let host = Host::new("[[domain]]\nname = \"web\"\nweight = 512\n").with_libvirt();
    survives_asking(&host, "virsh", VIRSH);
}

#[test]
fn whatever_ends_it_xens_domains_are_given_back() {
    let plan = "[[domain]]\nname = \"web\"\ncap_percent = 50\npin = [\"0\"]\n";
    survives_asking(&Host::new(plan).with_xen(), "xl", XL);
}

#[test]
fn whatever_ends_it_real_groups_are_given_back() {
    let Some(group) = OwnGroup::of(Vm::start(1)) else { return };
    let first = group.vm.pins()[0].split(['-', ',']).next().unwrap().to_owned();
    let plan = format!(
        "[[domain]]\nname = \"{}\"\nweight = 512\ncap_percent = 50\ncap_period = \"20 ms\"\npin = [\"{first}\"]\n",
        group.vm.name
    );
    let bench = Bench::new(&plan);
    let before = (group.values(), group.vm.pins());
    let report = bench.path("report");
    let process = PathBuf::from(format!("/proc/{}", group.vm.pid()));
    for watched in [group.directory.clone(), process, bench.path("state")] {
        let faulty = |how: &[&str]| {
            let output = Command::new(fault())
                .arg("-d")
                .arg(&watched)
                .arg("-r")
                .arg(&report)
                .args(how)
                .arg(env!("CARGO_BIN_EXE_steelyard"))
                .arg("apply")
                .arg(bench.path("plan.toml"))
                .arg("--state")
                .arg(bench.path("state"))
                .output()
                .unwrap();
            let told = fs::read_to_string(&report).unwrap();
            (
                output.status.code().unwrap(),
                told.split(' ').next().unwrap().parse::<usize>().unwrap(),
            )
        };
        let (code, calls) = faulty(&[]);
        assert!(code == 0 && calls > 5, "{code}, {calls} calls");
        assert_ne!((group.values(), group.vm.pins()), before);
        succeeded(&bench.undo());
        for number in 1..=calls {
            let (code, _) = faulty(&["-n", &number.to_string(), "-k"]);
            assert_eq!(code, 128 + 9);
            succeeded(&bench.undo());
            assert_eq!((group.values(), group.vm.pins()), before, "killed at {number} of {calls}");
        }
    }
}

/// Ctrl-C in the midst of it: all is as it was, and the exit code says so.
#[test]
fn who_interrupts_it_finds_all_as_it_was() {
    let host = Host::new(FULL_PLAN).with_libvirt();
    host.bench.put("libvirt/live.global_quota", "-1\n");
    let before = host.books();
    let waits = "schedinfo*--set*)\n\techo >asked; while [ ! -e go ]; do sleep 0.01; done";
    host.bench.program("virsh", &VIRSH.replace("schedinfo*--set*)", waits));
    let mut command = Command::new(env!("CARGO_BIN_EXE_steelyard"));
    command.args(host.arguments(&["apply", host.bench.path("plan.toml").to_str().unwrap()]));
    command.env("PATH", host.path()).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    while !host.bench.path("libvirt/asked").exists() {
        thread::yield_now();
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    // It is heeded by a thread: the change that goes on is not the last one.
    host.bench.put("libvirt/go", "");
    let output = child.wait_with_output().unwrap();
    let (code, message) = refused(&output);
    if code == 130 {
        assert!(message.is_empty() || message.contains("is as it was"), "{message}");
    }
    assert!([0, 130].contains(&code), "{code}: {message}");
    for file in ["asked", "go"] {
        fs::remove_file(host.bench.path("libvirt").join(file)).unwrap();
    }
    host.bench.program("virsh", VIRSH);
    succeeded(&host.undo());
    assert_eq!(normal(&host.books()), normal(&before));
    let _ = io::stdout().flush();
}
