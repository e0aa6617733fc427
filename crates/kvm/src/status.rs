// SPDX-License-Identifier: GPL-2.0-only
//! What a running scheduler knows of its domains and vCPUs, read from the tables of its program.

use std::fmt::Write as _;
use std::mem::{MaybeUninit, offset_of};
use std::{fs, ptr};

use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use serde::Serialize;

use crate::KvmError;
use crate::check::privileged;
use crate::skeleton::scheduler::types::{bss, domain, vcpu};

/// Name of the map with the tables, as libbpf makes it from the program's name.
const TABLES: &str = "steelyar.bss";
/// The end of the last table, without padding.
const TABLES_BYTES: usize = offset_of!(bss, exit_message) + size_of::<[i8; 512]>();
const FREE: u32 = 0;
const BLOCKED: u32 = 1;
const WAITING: u32 = 2;
const RUNNING: u32 = 3;

/// The whole host.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// Choices that pCPUs made.
    pub choices: u64,
    /// Interrupts sent to pCPUs.
    pub interrupts: u64,
    /// Resets of all queues.
    pub resets: u64,
    /// Domains that have a vCPU.
    pub domains: Vec<DomainStatus>,
}

/// One domain: a process with vCPU threads.
#[derive(Clone, Debug, Serialize)]
pub struct DomainStatus {
    /// Name of its process.
    pub name: String,
    /// Number of its process.
    pub pid: i32,
    /// Weight asked for, from `cpu.weight`: 256 stands for 100.
    pub weight: u64,
    /// Weight in effect now.
    pub weight_now: u64,
    /// One item per vCPU.
    pub vcpus: Vec<VcpuStatus>,
}

/// One vCPU: a thread.
#[derive(Clone, Debug, Serialize)]
pub struct VcpuStatus {
    /// Name of its thread.
    pub name: String,
    /// Number of its thread.
    pub tid: i32,
    /// "running", "waiting" or "blocked".
    pub state: &'static str,
    /// pCPU where it runs or ran last; none: it has not run yet.
    pub pcpu: Option<u32>,
    /// Running.
    pub gotten_ns: u64,
    /// Runnable, not running.
    pub waited_ns: u64,
    /// Nothing to do.
    pub blocked_ns: u64,
    /// The longest single wait.
    pub worst_wait_ns: u64,
    /// Times that it started on a pCPU.
    pub switches: u64,
    /// Starts on another pCPU than before.
    pub migrations: u64,
    /// Times that it lost a pCPU while it could have gone on.
    pub preemptions: u64,
}

/// Reads the tables of the scheduler that runs on this host.
///
/// # Errors
/// [`KvmError::NotRunning`], [`KvmError::NoPrivilege`].
pub fn status() -> Result<Status, KvmError> {
    let map = tables()?;
    let bytes = map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).ok().flatten();
    let bytes = bytes.filter(|bytes| bytes.len() >= TABLES_BYTES).ok_or(KvmError::NotRunning)?;
    let mut tables = Box::new(MaybeUninit::<bss>::zeroed());
    // SAFETY: bss is plain numbers, of which any bytes are a value, and no larger than what is
    // copied but for padding at its end.
    let tables = unsafe {
        let length = bytes.len().min(size_of::<bss>());
        ptr::copy_nonoverlapping(bytes.as_ptr(), tables.as_mut_ptr().cast(), length);
        tables.assume_init()
    };
    Ok(collect(&tables))
}

fn tables() -> Result<MapHandle, KvmError> {
    // Without privilege there seem to be no maps.
    let missing = if privileged() { KvmError::NotRunning } else { KvmError::NoPrivilege };
    let found = MapInfoIter::default()
        .find(|map| map.name.to_str() == Some(TABLES) && map.value_size as usize >= TABLES_BYTES);
    found.and_then(|map| MapHandle::from_map_id(map.id).ok()).ok_or(missing)
}

fn collect(tables: &bss) -> Status {
    let now_ns = now_ns();
    let occupied = tables.domains.iter().enumerate().filter(|(_, domain)| domain.pid != 0);
    Status {
        choices: tables.choices,
        interrupts: tables.kicks,
        resets: tables.queues.iter().map(|queue| queue.resets).sum(),
        domains: occupied
            .map(|(index, domain)| {
                let own = |vcpu: &&vcpu| vcpu.status != FREE && vcpu.domain as usize == index;
                domain_status(domain, tables.vcpus.iter().filter(own), now_ns)
            })
            .collect(),
    }
}

fn domain_status<'a>(
    domain: &domain,
    vcpus: impl Iterator<Item = &'a vcpu>,
    now_ns: u64,
) -> DomainStatus {
    let mut vcpus: Vec<_> = vcpus.map(|vcpu| vcpu_status(domain.pid, vcpu, now_ns)).collect();
    vcpus.sort_by_key(|vcpu| vcpu.tid);
    DomainStatus {
        name: name(&format!("/proc/{}/comm", domain.pid)),
        pid: domain.pid,
        weight: domain.state.settings.weight,
        weight_now: domain.state.weight,
        vcpus,
    }
}

fn vcpu_status(pid: i32, vcpu: &vcpu, now_ns: u64) -> VcpuStatus {
    // Times are counted when a status ends: the one that lasts is added here.
    let since =
        |status| if vcpu.status == status { now_ns.saturating_sub(vcpu.since_ns) } else { 0 };
    VcpuStatus {
        name: name(&format!("/proc/{pid}/task/{}/comm", vcpu.pid)),
        tid: vcpu.pid,
        state: match vcpu.status {
            RUNNING => "running",
            WAITING => "waiting",
            _ => "blocked",
        },
        pcpu: (vcpu.ran_on != u32::MAX).then_some(vcpu.ran_on),
        gotten_ns: vcpu.gotten_ns + since(RUNNING),
        waited_ns: vcpu.waited_ns + since(WAITING),
        blocked_ns: vcpu.blocked_ns + since(BLOCKED),
        worst_wait_ns: vcpu.worst_wait_ns.max(since(WAITING)),
        switches: vcpu.switches,
        migrations: vcpu.migrations,
        preemptions: vcpu.preemptions,
    }
}

fn name(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| "(gone)".to_owned(), |name| name.trim().to_owned())
}

/// The kernel's monotonic clock, which is the program's.
pub(crate) fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of ours.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Status {
    /// A table for people.
    pub fn to_table(&self) -> String {
        let mut out = String::new();
        // Writing to a String cannot fail.
        for domain in &self.domains {
            let DomainStatus { name, pid, weight, weight_now, .. } = domain;
            let now =
                if weight == weight_now { String::new() } else { format!(", now {weight_now}") };
            let _ = writeln!(out, "{name} ({pid}): weight {weight}{now}");
            let _ = writeln!(
                out,
                "  {:<16} {:>8} {:>5} {:>12} {:>12} {:>12} {:>9} {:>10}",
                "vCPU",
                "state",
                "pCPU",
                "gotten ms",
                "waited ms",
                "worst ms",
                "switches",
                "migrations",
            );
            for vcpu in &domain.vcpus {
                let ms = |ns: u64| format!("{:.3}", ns as f64 / 1e6);
                let pcpu = vcpu.pcpu.map_or_else(|| "-".to_owned(), |pcpu| pcpu.to_string());
                let _ = writeln!(
                    out,
                    "  {:<16} {:>8} {:>5} {:>12} {:>12} {:>12} {:>9} {:>10}",
                    vcpu.name,
                    vcpu.state,
                    pcpu,
                    ms(vcpu.gotten_ns),
                    ms(vcpu.waited_ns),
                    ms(vcpu.worst_wait_ns),
                    vcpu.switches,
                    vcpu.migrations,
                );
            }
        }
        let _ = writeln!(
            out,
            "{} choices, {} interrupts, {} resets",
            self.choices, self.interrupts, self.resets
        );
        out
    }
}
