// SPDX-License-Identifier: GPL-2.0-only
//! A Linux host, made of files: who is found, under which name, with which weight and cap; who comes
//! and goes.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use steelyard_monitor::{Interval, LinuxError, LinuxSource};
use steelyard_recording::State;
use tempfile::TempDir;

/// A `/proc` with one pCPU, and control groups.
fn host() -> TempDir {
    let host = TempDir::new().unwrap();
    write(host.path(), "proc/stat", "cpu  0 0 0 0 0\ncpu0 5 0 5 100 20 0 0 0 0 0\nintr 1\n");
    write(host.path(), "proc/sys/kernel/hostname", "node\n");
    write(host.path(), "proc/sys/kernel/osrelease", "6.12.0\n");
    write(host.path(), "cgroup/cgroup.controllers", "cpu\n");
    write(host.path(), "cgroup/machine.slice/vm.scope/libvirt/vcpu0/cgroup.procs", "");
    host
}

fn write(host: &Path, file: &str, text: &str) {
    let path = host.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn thread(host: &TempDir, pid: u32, tid: u32, comm: &str, schedstat: &str) {
    let directory = format!("proc/{pid}/task/{tid}");
    let put = |file: &str, text: &str| write(host.path(), &format!("{directory}/{file}"), text);
    put("comm", &format!("{comm}\n"));
    put("schedstat", &format!("{schedstat}\n"));
    // From the fourth word on, 35 that are of no interest; then the pCPU.
    let others = vec!["0"; 35].join(" ");
    put("stat", &format!("{tid} (odd) name) R {others} 7 0 0\n"));
    put("cgroup", "0::/machine.slice/vm.scope/libvirt/vcpu0\n");
}

fn vm(host: &TempDir, pid: u32, command_line: &str, vcpus: u32) {
    write(host.path(), &format!("proc/{pid}/cmdline"), &command_line.replace(' ', "\0"));
    write(host.path(), &format!("proc/{pid}/comm"), "qemu-system\n");
    thread(host, pid, pid, "qemu-system", "9 9 9");
    for vcpu in 0..vcpus {
        thread(host, pid, pid + 1 + vcpu, &format!("CPU {vcpu}/KVM"), "1000 200 3");
    }
}

fn source(host: &TempDir) -> LinuxSource {
    LinuxSource::new(host.path().join("proc"), host.path().join("cgroup")).unwrap()
}

#[test]
fn domains_are_processes_with_vcpus() {
    let host = host();
    vm(&host, 200, "qemu -name guest=web,debug-threads=on", 2);
    vm(&host, 100, "something", 1);
    thread(&host, 300, 300, "bash", "1 1 1");
    let snapshot = source(&host).sample().unwrap();
    let described: Vec<_> = snapshot
        .structure
        .domains
        .iter()
        .map(|domain| (domain.id, domain.name.as_str(), domain.vcpus.len()))
        .collect();
    assert_eq!(described, [(100, "qemu-system", 1), (200, "web", 2)]);
    assert_eq!(snapshot.structure.host.name, "node");
    assert_eq!(snapshot.structure.host.source, "Linux 6.12.0");
    assert_eq!(snapshot.idle_ns, [1_200_000_000]);
    assert_eq!(snapshot.vcpus.len(), 3);
    for vcpu in &snapshot.vcpus {
        assert_eq!((vcpu.gotten_ns, vcpu.waited_ns, vcpu.switches), (1000, Some(200), Some(3)));
        assert_eq!((vcpu.state, vcpu.pcpu), (Some(State::Runnable), Some(7)));
    }
}

#[test]
fn states_are_looked_at_if_they_are_wanted() {
    let host = host();
    vm(&host, 100, "qemu -name web", 1);
    let mut source = source(&host);
    for wanted in [true, false, true] {
        source.set_states(wanted);
        let vcpu = source.sample().unwrap().vcpus[0].clone();
        assert_eq!((vcpu.state.is_some(), vcpu.pcpu.is_some()), (wanted, wanted));
        assert_eq!(vcpu.gotten_ns, 1000);
    }
}

#[test]
fn who_is_in_no_group_competes_by_itself() {
    let held = |membership: &str, files: &[(&str, &str)]| {
        let host = host();
        vm(&host, 100, "qemu -name web", 1);
        write(host.path(), "proc/100/task/101/cgroup", membership);
        for (file, text) in files {
            write(host.path(), file, text);
        }
        let snapshot = source(&host).sample().unwrap();
        let domain = &snapshot.structure.domains[0];
        (domain.ungrouped, domain.weight, domain.cap_percent)
    };
    let weight = ("cgroup/a/cpu.weight", "100\n");
    let inner = ("cgroup/a/b/cgroup.procs", "");
    assert_eq!(held("0::/a/b\n", &[weight, inner]), (false, 256, 0));
    // Groups for other purposes, and the root.
    assert_eq!(held("0::/a/b\n", &[inner]), (true, 256, 0));
    assert_eq!(held("0::/\n", &[]), (true, 256, 0));
    let sessions = ("proc/sys/kernel/sched_autogroup_enabled", "1\n");
    assert_eq!(held("0::/\n", &[sessions]), (false, 256, 0), "its session holds it");
    // Version 1, beside groups of version 2 for other purposes.
    let shares = ("cgroup/cpu,cpuacct/a/cpu.shares", "2048\n");
    let quota = ("cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "50000\n");
    let period = ("cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
    let membership = "4:memory:/x\n2:cpu,cpuacct:/a\n0::/y\n";
    assert_eq!(held(membership, &[shares, quota, period]), (false, 512, 50));
    let none = ("cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n");
    assert_eq!(held(membership, &[shares, none, period]), (false, 512, 0));
    let other = ("cgroup/cpu,cpuacct/cpu.shares", "1024\n");
    assert_eq!(held("2:cpu,cpuacct:/\n0::/y\n", &[other]), (true, 256, 0));
    // Mounted under the other order of its controllers, and linked to under one.
    let linked = ("cgroup/cpu/a/cpu.shares", "512\n");
    assert_eq!(held("2:cpuacct,cpu:/a\n", &[linked]), (false, 128, 0));
}

#[test]
fn weights_and_caps_are_those_of_control_groups() {
    let weight_and_cap = |groups: &[(&str, &str)]| {
        let host = host();
        vm(&host, 100, "qemu -name web", 4);
        for (file, text) in groups {
            write(host.path(), &format!("cgroup/{file}"), text);
        }
        let snapshot = source(&host).sample().unwrap();
        let domain = &snapshot.structure.domains[0];
        (domain.weight, domain.cap_percent)
    };
    assert_eq!(weight_and_cap(&[]), (256, 0));
    let scope = "machine.slice/vm.scope";
    let weight = |group: &str| format!("{group}/cpu.weight");
    // The nearest that somebody chose.
    assert_eq!(weight_and_cap(&[(&weight(scope), "200\n")]), (512, 0));
    let both = [(&*weight("machine.slice"), "400\n"), (&*weight(scope), "100\n")];
    assert_eq!(weight_and_cap(&both), (1024, 0));
    // The least, where libvirt's for each vCPU is one for all four.
    let max = |group: &str| format!("{group}/cpu.max");
    assert_eq!(weight_and_cap(&[(&max(scope), "50000 100000\n")]), (256, 50));
    assert_eq!(weight_and_cap(&[(&max(scope), "max 100000\n")]), (256, 0));
    let each = format!("{scope}/libvirt/vcpu0");
    assert_eq!(weight_and_cap(&[(&max(&each), "50000 100000\n")]), (256, 200));
}

/// The kernel has a group only where its controller is: of those the ones around the scope count.
#[test]
fn it_is_told_which_group_is_the_machines_own() {
    let around = |with_weight: &[&str]| {
        let host = host();
        vm(&host, 100, "qemu -name web", 1);
        for group in with_weight {
            write(host.path(), &format!("cgroup/{group}/cpu.weight"), "100\n");
        }
        source(&host).sample().unwrap().structure.domains[0].groups_around
    };
    let (slice, scope) = ("machine.slice", "machine.slice/vm.scope");
    let vcpu = "machine.slice/vm.scope/libvirt/vcpu0";
    assert_eq!(around(&[slice, scope, vcpu]), Some(1));
    assert_eq!(around(&[scope, vcpu]), Some(0));
    // Without a weight of its own there is no such group.
    assert_eq!(around(&[slice, vcpu]), None);
    assert_eq!(around(&[]), None);
}

#[test]
fn who_comes_and_goes_is_seen() {
    let host = host();
    vm(&host, 100, "qemu -name web", 1);
    let mut source = source(&host);
    let first = source.sample().unwrap();
    vm(&host, 200, "qemu -name batch", 1);
    let second = source.sample().unwrap();
    let interval = Interval::between(&first, &second);
    let names = |interval: &Interval| {
        let domains = interval.domains.iter();
        domains.map(|domain| (domain.name.clone(), domain.ended)).collect::<Vec<_>>()
    };
    assert_eq!(names(&interval), [("web".to_owned(), false), ("batch".to_owned(), false)]);
    // It may be older than the source knows: of what it got before nothing is said.
    assert_eq!(interval.domains[1].rates.gotten_percent.to_bits(), 0f64.to_bits());
    fs::remove_dir_all(host.path().join("proc/100")).unwrap();
    let third = source.sample().unwrap();
    let interval = Interval::between(&second, &third);
    assert_eq!(names(&interval), [("batch".to_owned(), false), ("web".to_owned(), true)]);
    // A vCPU that is plugged in.
    thread(&host, 200, 210, "CPU 1/KVM", "0 0 0");
    let fourth = source.sample().unwrap();
    assert_eq!(fourth.structure.domains[0].vcpus.len(), 2);
    assert_eq!(fourth.vcpus.len(), 2);
}

#[test]
fn what_happens_in_an_interval_is_the_difference() {
    let host = host();
    vm(&host, 100, "qemu -name web", 1);
    let mut source = source(&host);
    let first = source.sample().unwrap();
    thread(&host, 100, 101, "CPU 0/KVM", "500001000 250000200 13");
    let mut second = source.sample().unwrap();
    second.time_ns = first.time_ns + 1_000_000_000;
    second.idle_ns[0] += 500_000_000;
    let interval = Interval::between(&first, &second);
    let rates = &interval.domains[0].rates;
    let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
    near(rates.gotten_percent, 50.0);
    near(rates.waited_percent.unwrap(), 25.0);
    near(rates.blocked_percent.unwrap(), 25.0);
    near(rates.switches_per_s.unwrap(), 10.0);
    // Alone it may have what it would use if it never waited: 500 of 750 ms.
    near(interval.domains[0].entitlement_percent, 100.0 * 2.0 / 3.0);
}

#[test]
fn no_proc_is_an_error_in_words() {
    let error = LinuxSource::new("/nowhere", "/nowhere").err().unwrap();
    assert!(matches!(error, LinuxError::Unreadable(..)));
    assert!(error.to_string().contains("/nowhere/stat"), "{error}");
    let host = host();
    write(host.path(), "proc/self/stat", "");
    let refused = LinuxSource::new(host.path().join("proc"), host.path());
    assert!(matches!(refused, Err(LinuxError::NoSchedstat)));
}

#[test]
fn what_is_not_known_is_none() {
    let host = host();
    vm(&host, 100, "qemu -name web", 1);
    // In a group that is nowhere to be seen, as in a container.
    write(host.path(), "proc/100/task/101/cgroup", "0::/elsewhere\n");
    let mut source = source(&host);
    let (first, second) = (source.sample().unwrap(), source.sample().unwrap());
    let interval = Interval::between(&first, &second);
    assert_eq!((interval.domains[0].weight, interval.domains[0].cap_percent), (None, None));
    assert!(interval.host.unseen.iter().any(|it| it.starts_with("Weights and caps: ")));
    let text = interval.to_table(80, false);
    assert!(!text.contains("256") && !text.contains("WT"), "{text}");
    let json = serde_json::to_value(&interval).unwrap();
    assert!(json["domains"][0]["weight"].is_null() && json["domains"][0]["cap_percent"].is_null());
}

#[test]
fn emulators_belong_to_their_machine_and_the_rest_is_beside_them() {
    let host = host();
    vm(&host, 100, "qemu -name web", 1);
    thread(&host, 300, 300, "vhost-100", "1 1 1");
    let process = |pid: u32, ticks: u64| {
        let others = ["0"; 10].join(" ");
        let stat = format!("{pid} (a) b) S {others} {ticks} 3 0 0\n");
        write(host.path(), &format!("proc/{pid}/stat"), &stat);
    };
    write(host.path(), "proc/300/comm", "vhost-100\n");
    process(100, 50);
    process(300, 7);
    let mut source = source(&host);
    let first = source.sample().unwrap();
    let before = source.processes();
    // 53 and 10 ticks of 10 ms.
    assert_eq!(before.get(&100), Some(&630_000_000));
    let mut second = first.clone();
    second.time_ns = first.time_ns + 1_000_000_000;
    second.vcpus[0].gotten_ns += 300_000_000;
    second.idle_ns[0] += 100_000_000;
    let after = [(100, before[&100] + 450_000_000)].into();
    let interval = Interval::between(&first, &second).with_processes(&before, &after);
    let domain = &interval.domains[0];
    // Of 90 % busy 30 are its vCPU, 15 its emulator, 45 others: it cannot get more than 40.
    let near = |value: f64, expected: f64| assert!((value - expected).abs() < 0.01, "{value}");
    near(domain.emulator_percent.unwrap(), 15.0);
    near(interval.rest_percent, 45.0);
    assert_eq!(domain.gotten_ns, 300_001_000);
    // It did not want more than it had.
    near(domain.entitlement_percent, 30.0);
    second.vcpus[0].waited_ns = Some(200 + 700_000_000);
    let interval = Interval::between(&first, &second).with_processes(&before, &after);
    near(interval.domains[0].entitlement_percent, 40.0);
    assert!(interval.to_table(80, false).contains("rest of the host: 45.0 %"));
}
