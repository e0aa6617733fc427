// SPDX-License-Identifier: GPL-2.0-only
//! Whether this kernel can host the scheduler; asked before anything is changed.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use libbpf_rs::btf::types::{DeclTag, Func};
use libbpf_rs::btf::{Btf, ReferencesType, TypeId};

use crate::KvmError;

/// The kernel's functions that the scheduler cannot do without, as `bpf/kernel.h` declares them.
const FUNCTIONS: [&str; 12] = [
    "bpf_local_irq_restore",
    "bpf_local_irq_save",
    "bpf_task_from_pid",
    "bpf_task_release",
    "scx_bpf_create_dsq",
    "scx_bpf_dsq_insert",
    "scx_bpf_dsq_move_to_local",
    "scx_bpf_dsq_nr_queued",
    "scx_bpf_error_bstr",
    "scx_bpf_kick_cpu",
    "scx_bpf_select_cpu_dfl",
    "scx_bpf_task_cpu",
];

/// Where the kernel says whether a sched_ext scheduler runs, and which.
const STATE: &str = "/sys/kernel/sched_ext/state";
const OPS: &str = "/sys/kernel/sched_ext/root/ops";

/// What is missing here, if anything.
pub fn host() -> Result<(), KvmError> {
    if !Path::new(STATE).exists() {
        return Err(KvmError::NoSchedExt);
    }
    if !privileged() {
        return Err(KvmError::NoPrivilege);
    }
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Err(KvmError::NoBtf);
    }
    let missing = missing_functions()?;
    if !missing.is_empty() {
        return Err(KvmError::NoFunction(missing));
    }
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
