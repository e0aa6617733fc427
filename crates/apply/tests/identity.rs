// SPDX-License-Identifier: GPL-2.0-only
//! Random plans on random hosts, made of files: what is applied is there, and taken back all is as it was.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use proptest::prelude::*;
use steelyard_apply::{ApplyError, Host, Others, Plan, apply, steps, undo};
use steelyard_scenario::Source;
use tempfile::TempDir;

/// A VM, and what is wanted of it.
#[derive(Clone, Debug)]
struct Vm {
    /// cpu.weight or cpu.shares, quota and period.
    before: (u64, Option<u64>, u64),
    weight: Option<u32>,
    cap_percent: Option<u32>,
    period_ms: Option<u64>,
    /// In a group of a unit's, as libvirt has.
    nested: bool,
}

fn vm() -> impl Strategy<Value = Vm> {
    let quota = prop::option::of(1_000..10_000_000_u64);
    let before = (2..10_000_u64, quota, prop::sample::select(vec![1000_u64, 33_333, 100_000]));
    let wanted = (
        prop::option::of(1..=65_535_u32),
        prop::option::of(0..10_000_u32),
        prop::option::of(1..=1000_u64),
    );
    (before, wanted, any::<bool>()).prop_map(|(before, wanted, nested)| {
        let (weight, cap_percent, period_ms) = wanted;
        let period_ms = period_ms.filter(|_| cap_percent.is_some_and(|cap| cap > 0));
        Vm { before, weight, cap_percent, period_ms, nested }
    })
}

fn write(path: PathBuf, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A host with these, and its files.
fn host(vms: &[Vm], version: u32) -> (TempDir, Host) {
    let directory = TempDir::new().unwrap();
    let root = fs::canonicalize(&directory).unwrap();
    let put = |file: &str, text: &str| write(root.join(file), text);
    put("proc/stat", "cpu  0 0 0 0 0\ncpu0 5 0 5 100 20 0 0 0 0 0\n");
    put("proc/sys/kernel/random/boot_id", "this\n");
    for (number, vm) in vms.iter().enumerate() {
        let pid = 100 * (number + 1);
        put(&format!("proc/{pid}/cmdline"), &format!("qemu\0-name\0guest=vm{number}\0"));
        let outer = format!("machine/vm{number}.scope");
        let inner = if vm.nested { format!("{outer}/libvirt") } else { outer.clone() };
        for (tid, name, group) in [(pid, "qemu", "emulator"), (pid + 1, "CPU 0/KVM", "vcpu0")] {
            let group = if vm.nested { format!("{inner}/{group}") } else { inner.clone() };
            let cgroup = match version {
                1 => format!("5:cpuset:/\n4:cpu,cpuacct:/{group}\n0::/\n"),
                _ => format!("0::/{group}\n"),
            };
            let thread = format!("proc/{pid}/task/{tid}");
            put(&format!("{thread}/comm"), &format!("{name}\n"));
            put(&format!("{thread}/schedstat"), "1 1 1\n");
            put(&format!("{thread}/stat"), &format!("{tid} ({name}) R {}\n", "0 ".repeat(50)));
            put(&format!("{thread}/cgroup"), &cgroup);
        }
        let groups = if version == 1 { "groups/cpu,cpuacct" } else { "groups" };
        put(&format!("{groups}/{outer}/cgroup.procs"), &format!("{pid}\n"));
        let (weight, quota, period) = vm.before;
        let file = |name: &str, text: String| put(&format!("{groups}/{outer}/{name}"), &text);
        if version == 1 {
            file("cpu.shares", format!("{weight}\n"));
            file("cpu.cfs_quota_us", format!("{}\n", quota.map_or(-1, |quota| quota as i64)));
            file("cpu.cfs_period_us", format!("{period}\n"));
        } else {
            file("cpu.weight", format!("{weight}\n"));
            let quota = quota.map_or("max".to_owned(), |quota| quota.to_string());
            file("cpu.max", format!("{quota} {period}\n"));
        }
    }
    let at = |name: &str| root.join(name);
    let host = Host { proc: at("proc"), groups: at("groups"), run: at("run"), state: at("state") };
    (directory, host)
}

/// The first line of each file: the kernel's have no other.
fn lines(directory: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(lines(&path));
        } else {
            let line = fs::read_to_string(&path).unwrap().lines().next().unwrap_or("").to_owned();
            found.insert(path, line);
        }
    }
    found
}

fn plan(vms: &[Vm]) -> Option<Plan> {
    let mut text = String::new();
    for (number, vm) in vms.iter().enumerate() {
        if vm.weight.is_none() && vm.cap_percent.is_none() {
            continue;
        }
        text += &format!("[[domain]]\nname = \"vm{number}\"\n");
        text += &vm.weight.map_or(String::new(), |weight| format!("weight = {weight}\n"));
        text += &vm.cap_percent.map_or(String::new(), |cap| format!("cap_percent = {cap}\n"));
        let period = |ms| format!("cap_period = \"{ms} ms\"\n");
        text += &vm.period_ms.map_or(String::new(), period);
    }
    (!text.is_empty()).then(|| Plan::parse(Source::new("plan.toml", text)).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn what_is_applied_and_taken_back_was_never_there(
        vms in prop::collection::vec(vm(), 1..5),
        version in 1..=2_u32,
    ) {
        let (_directory, host) = host(&vms, version);
        let Some(plan) = plan(&vms) else { return Ok(()) };
        let before = lines(&host.groups);
        let never = AtomicBool::new(false);
        let wanted = steps(&plan, &host);
        prop_assert_eq!(&lines(&host.groups), &before);
        match apply(&plan, &host, &never) {
            Ok(made) => {
                let now = lines(&host.groups);
                // Each is as it says; a second look finds all done.
                prop_assert!(now != before || made.is_empty());
                for step in &steps(&plan, &host).unwrap() {
                    prop_assert_eq!(&step.change.old, &step.change.new);
                }
                let differ = now.iter().filter(|(path, line)| before[*path] != **line).count();
                prop_assert_eq!(differ, made.len());
                prop_assert!(made.is_empty() != host.state.join("journal").exists());
            }
            // As it was told beforehand.
            Err(ApplyError::Refused(told)) => {
                prop_assert!(told.place.is_some() && told.help.is_some(), "{}", told);
                prop_assert!(matches!(wanted, Err(ApplyError::Refused(_))));
                prop_assert_eq!(&lines(&host.groups), &before);
            }
            Err(other) => prop_assert!(false, "{}", other),
        }
        undo(&host, Others::Leave).unwrap();
        prop_assert_eq!(&lines(&host.groups), &before);
        prop_assert!(!host.state.join("journal").exists());
        prop_assert!(undo(&host, Others::Leave).unwrap().is_empty());
    }
}

#[test]
fn who_wants_to_stop_finds_all_as_it_was() {
    let vm = Vm {
        before: (100, None, 100_000),
        weight: Some(512),
        cap_percent: None,
        period_ms: None,
        nested: true,
    };
    let (_directory, host) = host(std::slice::from_ref(&vm), 2);
    let before = lines(&host.groups);
    let stopped = apply(&plan(&[vm]).unwrap(), &host, &AtomicBool::new(true));
    assert!(matches!(stopped, Err(ApplyError::Failed { left, .. }) if left.is_empty()));
    assert_eq!(lines(&host.groups), before);
    assert!(!host.state.join("journal").exists());
}
