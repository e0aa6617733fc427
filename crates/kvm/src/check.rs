// SPDX-License-Identifier: GPL-2.0-only
//! Whether this kernel can host the scheduler; asked before anything is changed.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use libbpf_rs::btf::types::{DeclTag, Func};
use libbpf_rs::btf::{Btf, ReferencesType, TypeId};

use steelyard_policy::Policy;

use crate::KvmError;
use crate::host::{GROUPS, cpus, verify};

/// The kernel's functions that the scheduler cannot do without, as `bpf/kernel.h` declares them.
const FUNCTIONS: [&str; 13] = [
    "bpf_local_irq_restore",
    "bpf_local_irq_save",
    "bpf_task_acquire",
    "bpf_task_release",
    "scx_bpf_create_dsq",
    "scx_bpf_dsq_insert",
    "scx_bpf_dsq_move_to_local",
    "scx_bpf_dsq_nr_queued",
    "scx_bpf_error_bstr",
    "scx_bpf_kick_cpu",
    "scx_bpf_pick_idle_cpu",
    "scx_bpf_select_cpu_dfl",
    "scx_bpf_task_cpu",
];

/// Where the kernel says whether a sched_ext scheduler runs, and which.
const STATE: &str = "/sys/kernel/sched_ext/state";
const OPS: &str = "/sys/kernel/sched_ext/root/ops";

type Check = fn() -> Result<(), KvmError>;
/// What must be so, in this order, and what it is called.
const REQUIRED: [(&str, Check); 7] = [
    ("the kernel has sched_ext", sched_ext),
    ("the kernel lets programs have timers", timers),
    ("privilege to load programs", privilege),
    ("the kernel describes its types", types),
    ("the kernel offers the functions that are needed", functions),
    ("no other sched_ext scheduler runs", alone),
    ("the tables hold all CPUs", || cpus().map(drop)),
];

/// What is missing here, if anything.
pub fn host() -> Result<(), KvmError> {
    REQUIRED.iter().try_for_each(|(_, check)| check())
}

/// One thing that was looked at.
#[derive(Debug)]
pub enum Finding {
    /// It is as it must be.
    Good(String),
    /// It is not necessary, and not there: what that means.
    Lacks(String),
    /// It stands in the way.
    Bad(String, KvmError),
}

/// What of this kernel and machine is as the scheduler with this policy needs it. Nothing is changed.
pub fn check(policy: &Policy) -> Vec<Finding> {
    let mut findings = vec![];
    for (what, check) in REQUIRED {
        findings.push(match check() {
            Ok(()) => Finding::Good(what.to_owned()),
            Err(error) => Finding::Bad(what.to_owned(), error),
        });
    }
    let is_there = |path: &str| Path::new(path).exists();
    let version_2 = fs::read_to_string(format!("{GROUPS}/cgroup.controllers")).unwrap_or_default();
    let told =
        version_2.split_whitespace().any(|it| it == "cpu") || is_there(&format!("{GROUPS}/cpu"));
    for (good, what, lacks) in [
        (
            is_there("/sys/module/kvm"),
            "KVM is loaded",
            "KVM is not loaded: load it first, or vCPUs are known by the names that QEMU gives them",
        ),
        (
            told,
            "control groups tell weights and quotas",
            "no control groups with the controller cpu: all domains have the same weight",
        ),
    ] {
        findings.push(if good {
            Finding::Good(what.to_owned())
        } else {
            Finding::Lacks(lacks.to_owned())
        });
    }
    if findings.iter().any(|finding| matches!(finding, Finding::Bad(..))) {
        return findings;
    }
    let what = format!("the verifier accepts {policy}");
    findings.push(match verify(policy) {
        Ok(programs) => {
            let most = programs.iter().map(|(_, instructions)| *instructions).max().unwrap_or(0);
            Finding::Good(format!("{what}: reads at most {most} instructions of a program"))
        }
        Err(error) => Finding::Bad(what, error),
    });
    findings
}

fn sched_ext() -> Result<(), KvmError> {
    if Path::new(STATE).exists() { Ok(()) } else { Err(KvmError::NoSchedExt) }
}

/// Its verifier takes no program with a timer if it is built with `CONFIG_PREEMPT_RT`.
fn timers() -> Result<(), KvmError> {
    let realtime = fs::read_to_string("/sys/kernel/realtime").unwrap_or_default();
    if realtime.trim() == "1" { Err(KvmError::Realtime) } else { Ok(()) }
}

fn privilege() -> Result<(), KvmError> {
    if privileged() { Ok(()) } else { Err(KvmError::NoPrivilege) }
}

fn types() -> Result<(), KvmError> {
    if Path::new("/sys/kernel/btf/vmlinux").exists() { Ok(()) } else { Err(KvmError::NoBtf) }
}

fn functions() -> Result<(), KvmError> {
    let missing = missing_functions()?;
    if missing.is_empty() { Ok(()) } else { Err(KvmError::NoFunction(missing)) }
}

fn alone() -> Result<(), KvmError> {
    match fs::read_to_string(STATE) {
        Ok(state) if state.trim() != "disabled" => {
            let name = fs::read_to_string(OPS).unwrap_or(state);
            Err(KvmError::Busy(name.trim().to_owned()))
        }
        _ => Ok(()),
    }
}

/// Whether this process has the capabilities that loading takes: CAP_SYS_ADMIN, or CAP_BPF with
/// CAP_PERFMON.
pub fn privileged() -> bool {
    const SYS_ADMIN: u64 = 1 << 21;
    const PERFMON_AND_BPF: u64 = 1 << 38 | 1 << 39;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0);
    bits & SYS_ADMIN != 0 || bits & PERFMON_AND_BPF == PERFMON_AND_BPF
}

/// A function is there for BPF programs only if the kernel's BTF has the tag `bpf_kfunc` on it;
/// some builds lose the tag of some functions.
fn missing_functions() -> Result<Vec<&'static str>, KvmError> {
    let btf = Btf::from_vmlinux().map_err(|_| KvmError::NoBtf)?;
    let tagged: HashSet<TypeId> = btf
        .type_by_kind::<DeclTag<'_>>()
        .filter(|tag| tag.name() == Some(OsStr::new("bpf_kfunc")))
        .map(|tag| tag.referenced_type().type_id())
        .collect();
    let mut found: HashMap<&str, bool> = FUNCTIONS.iter().map(|&name| (name, false)).collect();
    for function in btf.type_by_kind::<Func<'_>>() {
        let Some(name) = function.name().and_then(OsStr::to_str) else { continue };
        if let Some(found) = found.get_mut(name) {
            *found |= tagged.contains(&function.type_id());
        }
    }
    Ok(FUNCTIONS.into_iter().filter(|name| !found[name]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_functions_is_that_of_the_header() {
        let header = include_str!("../bpf/kernel.h");
        let mut declared: Vec<_> = header
            .split(';')
            .filter(|part| part.trim_end().ends_with("__ksym"))
            .filter_map(|part| {
                let before = &part[..part.rfind('(').filter(|_| part.contains('('))?];
                before.rsplit([' ', '*', '\n']).next()
            })
            .collect();
        declared.sort_unstable();
        assert_eq!(declared, FUNCTIONS);
    }
}
