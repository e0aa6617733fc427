// SPDX-License-Identifier: GPL-2.0-only
//! Each bad input gets one message with file, line and column, the offending text and what would be
//! right.

use std::io::Cursor;
use std::path::Path;

use steelyard_scenario::{Diagnostic, Options, import_from, load, load_text};

const MINIMAL: &str = "name = \"x\"\n[[domain]]\nname = \"a\"\n";

fn scenario(text: &str) -> Diagnostic {
    with_options(text, &Options::default())
}

fn with_options(text: &str, options: &Options) -> Diagnostic {
    load_text("test.toml", text, options).expect_err(text)
}

fn set(setting: &str) -> Diagnostic {
    with_options(MINIMAL, &Options { set: vec![setting.to_owned()], ..Options::default() })
}

fn file(name: &str, bytes: impl AsRef<[u8]>) -> Diagnostic {
    import_from(Path::new(name), Cursor::new(bytes.as_ref())).expect_err(name)
}

/// Every expected piece is in what a person sees.
#[track_caller]
fn shows(diagnostic: &Diagnostic, pieces: &[&str]) {
    let text = diagnostic.to_string();
    for piece in pieces {
        assert!(text.contains(piece), "`{piece}` is missing in:\n{text}");
    }
}

#[test]
fn the_message_points_at_the_word() {
    let diagnostic = scenario("name = \"x\"\n\n[[domain]]\nname = \"a\"\nwieght = 512\n");
    assert_eq!(
        diagnostic.to_string(),
        "unknown key `wieght`, did you mean `weight`?\n \
         --> test.toml:5:1\n  \
           |\n\
         5 | wieght = 512\n  \
           | ^^^^^^\n  \
         help: known here: `name`, `count`, `vcpus`, `weight`, `ungrouped`, `group`, `cap_percent`, `cap_burst`, `load_percent`, `pin`, `pin_soft`, `host_tasks`, \
         `slice`, `sedf`, `boost`, `start`, `guest_slice`, `guest_clock`, `guest_locks`, `task`"
    );
}

#[test]
fn keys_and_words() {
    shows(&scenario("nam = 1"), &["unknown key `nam`, did you mean `name`?", "test.toml:1:1"]);
    shows(&scenario("name = \"x\"\n"), &["missing key `domain`", "test.toml:1:1"]);
    shows(&scenario("name = \"x\"\ndomain = []\n"), &["no domains", "test.toml:2:1"]);
    shows(
        &scenario(&format!("{MINIMAL}[[domain.task]]\nworkload.bussy = {{}}\n")),
        &["`bussy`, did you mean `busy`?", "test.toml:5:10", "`sysbench-cpu`"],
    );
    shows(
        &scenario(&format!("{MINIMAL}[[domain.task]]\nworkload.busy = {{ conpute = \"1 ms\" }}\n")),
        &["unknown key `conpute`, did you mean `compute`?", "test.toml:5:19"],
    );
    shows(
        &scenario(&format!("{MINIMAL}[[policy]]\npolicy = \"credti2\"\n")),
        &["unknown policy `credti2`, did you mean `credit2`?", "test.toml:5:1", "`fair`"],
    );
    shows(
        &scenario(&format!("{MINIMAL}[[policy]]\npolicy = \"credit2@xen-4.21\"\n")),
        &["unknown vintage `xen-4.21` of credit2, did you mean `xen-4.20`?", "test.toml:5:1"],
    );
    shows(
        &scenario(&format!("{MINIMAL}[[policy]]\npolicy = \"credit\"\nset = {{ slise_ns = 1 }}\n")),
        &["unknown parameter `slise_ns` of credit, did you mean `slice_ns`?", "test.toml:6:9"],
    );
    shows(
        &scenario(&format!("{MINIMAL}[[policy]]\npolicy = \"credit\"\nset.slice_ns = 0\n")),
        &["`0` is no value for slice_ns", "test.toml:6:5"],
    );
    shows(
        &scenario(&format!(
            "{MINIMAL}[[policy]]\npolicy = \"fair\"\n[[policy]]\npolicy = \"fair\"\n"
        )),
        &["is there twice", "label", "test.toml:7:1"],
    );
}

#[test]
fn syntax_and_types() {
    shows(
        &scenario("name = \"x\nlength = 1"),
        &["test.toml:1:10", "name = \"x", "invalid basic string"],
    );
    shows(&scenario("name = 5\n"), &["test.toml:1:8", "expected a string"]);
    shows(
        &scenario("name = \"x\"\nlength = 27\ndomain = []"),
        &["test.toml:2:10", "length = 27", "with its unit"],
    );
    shows(
        &scenario("name = \"x\"\nlength = \"27 mz\"\ndomain = []"),
        &["test.toml:2:10", "`27 mz` is no length of time", "27 ms"],
    );
    shows(
        &scenario(&format!("{MINIMAL}pin = [\"0-\"]\n")),
        &["test.toml:4:7", "`0-` is no set of pCPUs"],
    );
    shows(&scenario(&format!("{MINIMAL}weight = -1\n")), &["test.toml:4:10", "-1"]);
    shows(&scenario("name = \"a\"\nname = \"b\"\n"), &["duplicate key", "test.toml:2:1"]);
}

#[test]
fn settings_that_cannot_be() {
    let cases = [
        ("weight = 0", "`0` is out of range: 1 to 65535"),
        ("weight = 65536", "`65536` is out of range: 1 to 65535"),
        ("cap_percent = 101", "`101` is above the host: 1 pCPUs are 100 percent"),
        ("pin = [\"0-1\"]", "pCPU 1 in `0-1` is not there: the host has 1"),
        ("pin_soft = [\"1\"]", "pCPU 1 in `1` is not there: the host has 1"),
        ("vcpus = 0", "`0` is out of range"),
        ("vcpus = 3\npin = [\"0\", \"0\"]", "2 sets of pCPUs for 3 vCPUs"),
        ("vcpus = 3\npin_soft = [\"0\", \"0\"]", "2 sets of pCPUs for 3 vCPUs"),
        ("count = 0", "`0` is out of range: 1 to 65536"),
        ("count = 4000000000", "1 to 65536"),
        ("slice = \"0 s\"", "1 ns to 1 s"),
        ("slice = \"1001 ms\"", "1 ns to 1 s"),
        ("sedf = { period = \"1 us\", slice = \"1 us\" }", "10 us to 10 s"),
        ("sedf = { period = \"10 ms\", slice = \"11 ms\" }", "the period, which is 10 ms"),
        ("sedf = { slice = \"10 ms\" }", "10 us to 10 s"),
        ("task = [{ threads = 3, workload.video = {} }]", "one for the picture and one for"),
        ("task = [{ workload.video.frames_per_s = 0 }]", "`0` is out of range"),
        ("task = [{ workload.boot.steps = 0 }]", "`0` is out of range"),
        ("task = [{ threads = 0, workload.busy = {} }]", "`0` is out of range"),
        ("task = [{ workload.busy.compute = \"0 s\" }]", "more than 0"),
        ("task = [{ workload.clocked.run = \"10 ms\" }]", "not less than the period"),
        ("task = [{ workload.clocked.step = \"0 s\" }]", "more than 0"),
        ("task = [{ workload.stream.packet_bytes = 0 }]", "`0` is out of range"),
        ("task = [{ workload.ping.interval = \"0 s\" }]", "more than 0"),
        ("[[domain]]\nname = \"a\"", "two domains are called `a`"),
        ("[host]\nsockets = 64\ncores_per_socket = 1024", "at most 4096"),
        ("[host]\nthreads_per_core = 0", "`0` is out of range"),
        ("[host]\ncores_per_socket = 4\nnodes_per_socket = 3", "evenly among 3 nodes"),
        (
            "[host]\ncores_per_socket = 4\nnodes_per_socket = 2\ncaches_per_node = 4",
            "evenly among 8 caches",
        ),
        ("[host.io]\ndriver_domain = \"dom0\"", "there is no domain called `dom0`"),
        ("[host.io]\nlink_mbit_per_s = 0", "`0` is out of range"),
    ];
    for (lines, message) in cases {
        let diagnostic = scenario(&format!("{MINIMAL}{lines}\n"));
        shows(&diagnostic, &[message, "test.toml:"]);
        let place = diagnostic.place.unwrap();
        // The line that is shown is one of those at fault.
        assert!(place.line > 3 && lines.contains(&place.text), "{lines}: {place:?}");
    }
}

#[test]
fn of_several_domains_alike_the_entry_is_shown() {
    let text =
        "name = \"x\"\n[[domain]]\nname = \"a\"\ncount = 5\n[[domain]]\nname = \"b\"\nweight = 0\n";
    shows(&scenario(text), &["test.toml:7:1", "weight = 0"]);
}

#[test]
fn more_events_than_one_can_wait_for() {
    let text = format!("length = \"100 days\"\n{MINIMAL}");
    shows(&scenario(&text), &["`100 days` is no length of time"]);
    let text =
        format!("length = \"9000 h\"\n{MINIMAL}task = [{{ workload.busy.compute = \"1 us\" }}]");
    shows(&scenario(&text), &["10^14 events", "test.toml:1:1", "shorten `length`"]);
    let options = Options { seeds: Some(10_000), ..Options::default() };
    let text =
        format!("length = \"1 h\"\n{MINIMAL}task = [{{ workload.busy.compute = \"1 us\" }}]");
    shows(&with_options(&text, &options), &["events", "shorten `length`"]);
    let options = Options { seeds: Some(0), ..Options::default() };
    shows(&with_options(&text, &options), &["--seeds:1:1", "`0` is out of range: 1 to 10000"]);
    shows(&scenario(&format!("length = \"0 s\"\n{MINIMAL}")), &["test.toml:1:1", "nothing"]);
}

#[test]
fn options_of_the_command() {
    shows(&set("nonsense"), &["--set:1:1", "`nonsense` lacks a `=`"]);
    shows(&set("lenght=5 s"), &["--set:1:1", "`lenght`, did you mean `length`?"]);
    shows(&set("length=5"), &["--set:1:8", "length=5", "with its unit"]);
    shows(&set("credit.slise_ns=5"), &["--set:1:1", "did you mean `slice_ns`?"]);
    shows(&set("credit.slice_ns=x"), &["--set:1:17", "`x` is no value for slice_ns"]);
    shows(&set("domain.0.weight=0"), &["--set:1:17", "`0` is out of range"]);
    shows(&set("domain.a.weight=65536"), &["--set:1:17", "`65536` is out of range"]);
    shows(&set("domain.0=a"), &["--set:1:10", "write { KEY = VALUE, ... }"]);
    shows(&set("domain.a=1"), &["--set:1:10", "write { KEY = VALUE, ... }"]);
    shows(&set("domain.7.weight=1"), &["--set:1:1", "no item 7"]);
    shows(&set("domain.aa.weight=1"), &["--set:1:1", "there is no `aa`, did you mean `a`?"]);
    shows(&set("domain.a.name.x=1"), &["--set:1:1", "`domain.a.name` has no keys"]);
    shows(&set("=1"), &["--set:1:1"]);
    let options =
        Options { policies: vec!["fair".to_owned(), "creditt".to_owned()], ..Options::default() };
    let diagnostic = with_options(MINIMAL, &options);
    shows(&diagnostic, &["--policy:1:1", "unknown policy `creditt`, did you mean `credit`?"]);
    let options = Options {
        policies: vec!["fair".to_owned()],
        set: vec!["credit.slice_ns=5000000".to_owned()],
        ..Options::default()
    };
    shows(&with_options(MINIMAL, &options), &["--set:1:1", "no policy here", "`credit`"]);
}

#[test]
fn files_that_are_no_input() {
    let missing = load(Path::new("no/such.toml"), &Options::default()).unwrap_err();
    shows(&missing, &["cannot be read", "no/such.toml"]);
    shows(&file("a.toml", ""), &["empty", "a.toml"]);
    shows(&file("a.toml", b"\x7fELF\0\0"), &["binary", "a.toml"]);
    shows(&file("a.toml", b"name = \"\xff\""), &["a.toml:1:9", "not UTF-8"]);
    shows(&file("a.png", "x"), &["format of this file is not known", "xl.cfg"]);
    shows(&file("perf.data", b"PERFILE2\0\0"), &["perf's binary file", "perf script"]);
}

const SWITCHES: &str = "\
          CPU 0/KVM  100/101   [000]    10.000000000:       sched:sched_switch: prev_comm=CPU 0/KVM prev_pid=101 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
            swapper     0/0     [000]    10.001000000:       sched:sched_waking: comm=CPU 0/KVM pid=101 prio=120 target_cpu=000
            swapper     0/0     [000]    10.002000000:       sched:sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=CPU 0/KVM next_pid=101 next_prio=120
          CPU 0/KVM  100/101   [000]    10.005000000:       sched:sched_switch: prev_comm=CPU 0/KVM prev_pid=101 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
";

#[test]
fn recordings() {
    import_from(Path::new("a.txt"), Cursor::new(SWITCHES)).unwrap();
    shows(&file("a.txt", "# only\n# comments\n"), &["an empty recording", "a.txt"]);
    shows(
        &file(
            "a.txt",
            "bash 1/1 [000] 1.000000: sched:sched_waking: comm=x pid=2 prio=1 target_cpu=000\n",
        ),
        &["empty recording", "no `sched_switch`"],
    );
    shows(&file("a.txt", "Dear diary\n"), &["a.txt:1:1", "no line of `perf script`"]);
    shows(&file("a.txt", &SWITCHES.as_bytes()[..300]), &["a.txt:2:", "cut off"]);
    let backwards = SWITCHES.replace("10.002000000", " 9.500000000");
    let diagnostic = file("a.txt", backwards);
    shows(&diagnostic, &["a.txt:3:", "time runs backwards: `9.500000000` is 501000000 ns earlier"]);
    let place = diagnostic.place.unwrap();
    let word: String = place.text.chars().skip(place.column - 1).take(place.width).collect();
    assert_eq!(word, "9.500000000");
    let negative = SWITCHES.replace("10.000000000", "-1.000000000");
    shows(&file("a.txt", negative), &["a.txt:1:1", "no line of `perf script`"]);
    let garbled = SWITCHES.replace("next_pid=101", "next_pid=1o1");
    shows(&file("a.txt", garbled), &["a.txt:3:", "sched_switch", "next_pid=1o1"]);
    shows(&file("a.txt", [SWITCHES.as_bytes(), b"\0\x01\x02"].concat()), &["binary"]);
    let bare = "x 1/1 [000] 5.006000: sched:sched_stat_runtime\n";
    shows(&file("a.txt", bare), &["a.txt:1:", "the fields of this sched_stat_runtime"]);
    let idle = "swapper 0/0 [000] 1.0000000: x: \n".replace("1.0000000", "1.000000")
        + "swapper 0/0 [000] 2.000000: sched:sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=1 prev_state=R ==> next_comm=swapper/0 next_pid=0 next_prio=1\n";
    shows(&file("a.txt", idle), &["nothing but the idle threads ran"]);
}

#[test]
fn compressed_recordings() {
    let shipped =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recordings/four-vms.perf.txt.zst");
    let bytes = std::fs::read(shipped).unwrap();
    shows(&file("a.zst", &bytes[..bytes.len() / 2]), &["a.zst", "cut off after line"]);
    shows(&file("a.zst", &bytes[..8]), &["a.zst", "cut off"]);
    let mut flipped = bytes;
    let end = flipped.len() - 1;
    flipped[end] ^= 1;
    shows(&file("a.zst", &flipped), &["a.zst", "checksum"]);
}

#[test]
fn descriptions_of_virtual_machines() {
    let xml = |inside: &str| {
        file("a.xml", format!("<domain>\n  <name>vm</name>\n  {inside}\n</domain>\n"))
    };
    shows(&file("a.xml", "<domain>\n<name>x</nam></domain>"), &["a.xml:2:", "no XML"]);
    let metadata = |attributes: &str| {
        file(
            "a.xml",
            format!(
                "<domain><name>a</name><metadata>\n<settings xmlns='urn:steelyard:settings'\n{attributes}/>\n</metadata></domain>"
            ),
        )
    };
    shows(&metadata("slcie='2 ms'"), &["a.xml:3:1", "`slcie`, did you mean `slice`?"]);
    shows(&metadata("slice='2'"), &["a.xml:3:1", "`slice`: `2` is no length of time"]);
    shows(&metadata("sedf.slice='2 ms'"), &["a.xml:2:1", "`sedf.slice` needs `sedf.period`"]);
    shows(&file("a.xml", "<network/>"), &["a.xml:1:1", "`<network>` is no libvirt domain"]);
    shows(&file("a.xml", "<domain/>"), &["a.xml:1:1", "no `<name>`"]);
    shows(&xml("<vcpu>four</vcpu>"), &["a.xml:3:9", "`four` is no number of vCPUs"]);
    shows(&xml("<vcpu>0</vcpu>"), &["a.xml:3:9", "`0`", "1 to 1024"]);
    shows(&xml("<cputune><shares>0</shares></cputune>"), &["a.xml:3:20", "`0` is no shares"]);
    shows(
        &xml("<cputune><vcpupin vcpu='0' cpuset='0-x'/></cputune>"),
        &["a.xml:3:38", "`0-x` is no set of pCPUs"],
    );
    shows(&xml("<cputune><vcpupin cpuset='0'/></cputune>"), &["a.xml:3:12", "no `vcpu`"]);

    let xl = |text: &str| file("a.cfg", text);
    shows(&xl("vcpus = 2\n"), &["a.cfg:1:1", "no `name`"]);
    shows(&xl("name = \"a\nvcpus = 2\n"), &["a.cfg:1:8", "no end"]);
    shows(&xl("name = \"a\"\nvcpus = two\n"), &["a.cfg:2:9", "`two` is no number of vCPUs"]);
    shows(&xl("name = \"a\"\ncpu_weight = 0\n"), &["a.cfg:2:14", "`0` is no weight"]);
    shows(&xl("name = \"a\"\ncpu_weight = 65536\n"), &["a.cfg:2:14", "`65536` is no weight"]);
    shows(
        &xl("name = \"a\"\ncpus = [\"0\", \"1-\"]\n"),
        &["a.cfg:2:15", "`1-` is no set of pCPUs"],
    );
    shows(&xl("name = \"a\"\ncpus = [\"0\"\n"), &["a.cfg:2:8", "this list has no end"]);
    shows(&xl("name = \"a\"\nvcpus\n"), &["a.cfg:2:1", "`=` and a value are missing"]);
    shows(&xl("name = \"a\" vcpus = 2\n"), &["a.cfg:1:12", "`v` after the value of `name`"]);
    shows(&xl("name = [\"a\"]\n"), &["a.cfg:1:8", "a list where a string is expected"]);
}
