// SPDX-License-Identifier: GPL-2.0-only
//! What a running scheduler knows of its domains and vCPUs, read from the tables of its program.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::marker::PhantomData;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd};
use std::{fs, ptr};

use libbpf_rs::MapHandle;
use libbpf_rs::query::MapInfoIter;
use memmap2::{MmapOptions, MmapRaw};
use serde::Serialize;
use steelyard_boundary::text::told;
use steelyard_policy::{Parameter, Policy, Standing, counts};
use steelyard_recording::qemu;
use steelyard_scenario::DomainSettings;

use crate::check::privileged;
use crate::skeleton::scheduler::types::{bss, domain, pcpu, queue, rodata, sy_policy, vcpu};
use crate::{KvmError, as_core, parts, text};

/// The maps with the tables and the constants, as libbpf names them after the program; and where
/// the last field of each ends, whatever padding follows.
const TABLES: (&str, usize) =
    ("steelyar.bss", offset_of!(bss, exit_message) + size_of::<[i8; 512]>());
const CONSTANTS: (&str, usize) =
    ("steelyar.rodata", offset_of!(rodata, cpu_of_pcpu) + size_of::<[u16; MOST_CPUS]>());
/// CPUs that the tables have room for, as in `bpf/state.h`.
const MOST_CPUS: usize = 1024;
/// `enum engine_status`
const BLOCKED: u32 = 0;
const WAITING: u32 = 1;
const RUNNING: u32 = 2;

/// The whole host.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// The policy that schedules.
    pub policy: String,
    /// Parameters that are not as in its vintage, by the names of `steelyard kvm change`.
    pub parameters: BTreeMap<String, String>,
    /// What vCPUs have of the time of a CPU that other tasks of the host want too, by the weights of their groups: in
    /// percent.
    pub beside_others_percent: f64,
    /// What was decided since it began, of all CPUs, by the names of [`counts`].
    pub counters: BTreeMap<&'static str, u64>,
    /// The same of each.
    pub cpus: Vec<CpuStatus>,
    /// Domains that have a vCPU.
    pub domains: Vec<DomainStatus>,
}

/// One CPU.
#[derive(Clone, Debug, Serialize)]
pub struct CpuStatus {
    /// As the kernel numbers them.
    pub cpu: usize,
    /// What it has decided, by the names of [`counts`].
    #[serde(flatten)]
    pub counters: BTreeMap<&'static str, u64>,
}

/// One thing that is counted.
#[derive(Clone, Debug)]
pub struct Counted {
    /// Its name, unit and meaning.
    pub kind: &'static Parameter,
    /// By the kernel's numbers of CPUs.
    pub of_cpus: Vec<u64>,
}

/// One domain: a process with vCPU threads.
#[derive(Clone, Debug, Serialize)]
pub struct DomainStatus {
    /// What QEMU calls the VM (`-name`), or else the name of its process.
    pub name: String,
    /// Number of its process.
    pub pid: i32,
    /// Weight asked for beside all others: as their control groups divide the host, 256 being the usual one.
    pub weight: u64,
    /// Cap asked for, by quotas of control groups, in percent of one pCPU; 0: none.
    pub cap_percent: u64,
    /// What else is asked for, by the names and in the units of `steelyard kvm set`.
    pub settings: BTreeMap<&'static str, String>,
    /// Weight in effect now.
    pub weight_now: u64,
    /// Slice in effect now, if not that of the discipline.
    pub slice_now_ns: Option<u64>,
    /// Packets that it received, counted only for governors that ask.
    pub packets: u64,
    /// Resets of queues that its vCPUs caused.
    pub resets: u64,
    /// Times that a sibling at a pause-loop exit summoned one of its vCPUs.
    pub summoned: u64,
    /// Of all its vCPUs; of waits the worst.
    #[serde(flatten)]
    pub times: Times,
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
    /// pCPU where it runs or ran last, as the kernel numbers them; none: it has not run yet.
    pub pcpu: Option<u32>,
    /// What the policy counts in its favour, when it was charged last. Unit: the discipline's own.
    pub credit: i64,
    /// The class in which the discipline has it, if it tells classes apart.
    pub class: Option<&'static str>,
    /// A governor or a wake put it before its turn.
    pub boosted: bool,
    /// Its times and counts.
    #[serde(flatten)]
    pub times: Times,
}

/// Times and counts since a vCPU was seen first.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Times {
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

impl Times {
    fn and(self, other: Times) -> Times {
        Times {
            gotten_ns: self.gotten_ns + other.gotten_ns,
            waited_ns: self.waited_ns + other.waited_ns,
            blocked_ns: self.blocked_ns + other.blocked_ns,
            worst_wait_ns: self.worst_wait_ns.max(other.worst_wait_ns),
            switches: self.switches + other.switches,
            migrations: self.migrations + other.migrations,
            preemptions: self.preemptions + other.preemptions,
        }
    }
}

/// Reads the tables of the scheduler that runs on this host.
///
/// # Errors
/// [`KvmError::NotRunning`], [`KvmError::Loading`], [`KvmError::NoPrivilege`].
pub fn status() -> Result<Status, KvmError> {
    // SAFETY: both are plain numbers, and the maps of these names have them.
    let read = || unsafe {
        Some((Mapping::<rodata>::of(&find(CONSTANTS)?)?, Mapping::<bss>::of(&find(TABLES)?)?))
    };
    // Without privilege there seem to be no maps.
    let missing = if privileged() { KvmError::NotRunning } else { KvmError::NoPrivilege };
    let (constants, tables) = read().ok_or(missing)?;
    running().ok_or(KvmError::Loading)?;
    Ok(collect(constants.get(), &Tables::read(&tables, constants.get())))
}

/// What the policy says of each vCPU of the scheduler that runs on this host, for who asks often.
pub struct Standings {
    /// The kernel's count of sched_ext schedulers so far: that of the tables.
    count: String,
    constants: Mapping<rodata>,
    tables: Mapping<bss>,
}

impl Standings {
    /// Those of the scheduler that runs now; none if none of this project's does, or without privilege.
    pub fn find() -> Option<Standings> {
        let count = running()?;
        // SAFETY: both are plain numbers, and the maps of these names have them.
        let (constants, tables) =
            unsafe { (Mapping::of(&find(CONSTANTS)?)?, Mapping::of(&find(TABLES)?)?) };
        Some(Standings { count, constants, tables })
    }

    /// Whether that scheduler has not ended.
    pub fn is_current(&self) -> bool {
        running().as_ref() == Some(&self.count)
    }

    /// The policy that it schedules by.
    pub fn policy(&self) -> String {
        // SAFETY: the pointer is to a field of the mapping; the kernel writes it before the scheduler begins.
        text(&unsafe { ptr::read_volatile(&raw const (*self.tables.item()).policy_name) })
    }

    /// What that scheduler has decided.
    pub fn counted(&self) -> Vec<Counted> {
        let constants = self.constants.get();
        let pcpus = read_pcpus(&self.tables, constants);
        let mut all: Vec<_> = counts()
            .iter()
            .map(|kind| Counted { kind, of_cpus: vec![0; constants.cpus_count as usize] })
            .collect();
        for (cpu, pcpu) in cpus(constants, &pcpus) {
            for (counted, &count) in all.iter_mut().zip(&pcpu.counts) {
                counted.of_cpus[cpu] = count;
            }
        }
        all
    }

    /// By the numbers of their threads; none if that scheduler has ended.
    pub fn now(&self) -> Option<HashMap<i32, Standing>> {
        if !self.is_current() {
            return None;
        }
        let constants = self.constants.get();
        let tables = Tables::read(&self.tables, constants);
        let standing = |vcpu: &vcpu| Some((vcpu.pid, standing(&tables, vcpu)?));
        Some(tables.vcpus.iter().filter(|vcpu| vcpu.pid != 0).filter_map(standing).collect())
    }
}

/// The kernel's name for the sched_ext scheduler that runs on this host, of whomever it is.
pub fn loaded() -> Option<String> {
    running()?;
    Some(of_kernel("root/ops").map_or("sched_ext".to_owned(), |name| name.trim().to_owned()))
}

/// While a sched_ext scheduler runs: the how manieth since the host started.
fn running() -> Option<String> {
    let is_enabled = of_kernel("state")?.trim() == "enabled";
    is_enabled.then(|| of_kernel("enable_seq"))?
}

fn of_kernel(file: &str) -> Option<String> {
    fs::read_to_string(format!("/sys/kernel/sched_ext/{file}")).ok()
}

/// The map of this name with at least so many bytes.
fn find((name, least): (&str, usize)) -> Option<MapHandle> {
    MapInfoIter::default()
        .find(|map| map.name.to_str() == Some(name) && map.value_size as usize >= least)
        .and_then(|map| MapHandle::from_map_id(map.id).ok())
}

/// The only item of a map, where the kernel has it: copying all of it takes milliseconds, and most of it is free slots.
struct Mapping<T> {
    at: MmapRaw,
    of: PhantomData<T>,
}

impl<T> Mapping<T> {
    /// # Safety
    /// Any bytes are a `T`, and the map's item is no shorter, but for padding at its end.
    unsafe fn of(map: &MapHandle) -> Option<Self> {
        let length = size_of::<T>();
        let at = MmapOptions::new().len(length).map_raw_read_only(map.as_fd().as_raw_fd()).ok()?;
        Some(Mapping { at, of: PhantomData })
    }

    /// To be read for as long as this is there; the kernel may change it.
    fn item(&self) -> *const T {
        self.at.as_ptr().cast()
    }
}

impl Mapping<rodata> {
    fn get(&self) -> &rodata {
        // SAFETY: it is mapped and begins a page, and its map is frozen: nobody changes it.
        unsafe { &*self.item() }
    }
}

/// What is used of the program's tables, as it was when each entry was read: numbers of one entry may be of different
/// times.
struct Tables {
    policy: sy_policy,
    policy_name: [i8; 128],
    vcpus_parts: u32,
    vcpus: Vec<vcpu>,
    domains: Vec<domain>,
    queues: Vec<queue>,
    pcpus: Vec<pcpu>,
}

impl Tables {
    fn read(tables: &Mapping<bss>, constants: &rodata) -> Tables {
        let map = tables.item();
        // SAFETY: the pointers are to fields of the mapping, which the kernel changes, and no entry is after the last.
        unsafe {
            Tables {
                policy: ptr::read_volatile(&raw const (*map).policy),
                policy_name: ptr::read_volatile(&raw const (*map).policy_name),
                vcpus_parts: ptr::read_volatile(&raw const (*map).vcpus_parts),
                vcpus: first(
                    &raw const (*map).vcpus,
                    ptr::read_volatile(&raw const (*map).vcpus_used),
                ),
                domains: first(
                    &raw const (*map).domains,
                    ptr::read_volatile(&raw const (*map).domains_used),
                ),
                queues: first(&raw const (*map).queues, constants.pcpus_count),
                pcpus: read_pcpus(tables, constants),
            }
        }
    }
}

/// By the engine's numbers.
fn read_pcpus(map: &Mapping<bss>, constants: &rodata) -> Vec<pcpu> {
    // SAFETY: the pointer is to a field of the mapping, which the kernel changes; it is all numbers.
    unsafe { first(&raw const (*map.item()).pcpus, constants.pcpus_count) }
}

/// Those that were there as it was loaded, by the kernel's numbers.
fn cpus<'a>(
    constants: &'a rodata,
    pcpus: &'a [pcpu],
) -> impl Iterator<Item = (usize, &'a pcpu)> + 'a {
    let all = constants.pcpu_of_cpu.iter().take(constants.cpus_count as usize).enumerate();
    all.filter_map(|(cpu, &pcpu)| Some((cpu, pcpus.get(pcpu as usize)?)))
}

/// The first ones of a table, no more than it has.
///
/// # Safety
/// The table can be read, and any bytes are a `T`.
unsafe fn first<T, const N: usize>(table: *const [T; N], count: u32) -> Vec<T> {
    let table = table.cast::<T>();
    // SAFETY: the number is below that of the entries.
    (0..N.min(count as usize))
        .map(|number| unsafe { ptr::read_volatile(table.add(number)) })
        .collect()
}

fn collect(constants: &rodata, tables: &Tables) -> Status {
    let now_ns = now_ns();
    let occupied = tables.domains.iter().enumerate().filter(|(_, domain)| domain.pid != 0);
    let mut members = HashMap::<usize, Vec<&vcpu>>::new();
    for vcpu in tables.vcpus.iter().filter(|vcpu| vcpu.pid != 0) {
        members.entry(vcpu.engine.domain as usize).or_default().push(vcpu);
    }
    let domains = occupied.map(|(index, domain)| {
        let status =
            members.remove(&index).unwrap_or_default().into_iter().map(|vcpu| {
                vcpu_status(constants, domain.pid, vcpu, standing(tables, vcpu), now_ns)
            });
        let mut vcpus: Vec<_> = status.collect();
        vcpus.sort_by_key(|vcpu| vcpu.tid);
        DomainStatus {
            name: domain_name(domain.pid),
            pid: domain.pid,
            weight: domain.engine.state.settings.weight,
            cap_percent: domain.engine.state.settings.cap_percent,
            settings: settings(domain),
            weight_now: domain.engine.state.weight,
            slice_now_ns: (domain.engine.state.slice_ns != 0)
                .then_some(domain.engine.state.slice_ns),
            packets: domain.samples.packets,
            resets: domain.engine.resets,
            summoned: domain.engine.summoned,
            times: vcpus.iter().fold(Times::default(), |sum, vcpu| sum.and(vcpu.times)),
            vcpus,
        }
    });
    let domains: Vec<_> = domains.collect();
    Status {
        parameters: parameters(&tables.policy, &text(&tables.policy_name)),
        policy: text(&tables.policy_name),
        beside_others_percent: parts::percent(tables.vcpus_parts),
        counters: named(|kind| tables.pcpus.iter().map(|pcpu| pcpu.counts[kind]).sum()),
        cpus: cpus(constants, &tables.pcpus)
            .map(|(cpu, own)| CpuStatus { cpu, counters: named(|kind| own.counts[kind]) })
            .collect(),
        domains,
    }
}

fn named(value: impl Fn(usize) -> u64) -> BTreeMap<&'static str, u64> {
    counts().iter().enumerate().map(|(number, kind)| (kind.name, value(number))).collect()
}

/// Those of the policy of this name that are not as the name says.
fn parameters(policy: &sy_policy, name: &str) -> BTreeMap<String, String> {
    let Ok(usual) = Policy::named(name) else { return BTreeMap::new() };
    // SAFETY: both are `struct sy_policy`.
    let now = usual.with_parameters(unsafe { as_core(policy) });
    let both = now.values().zip(usual.values());
    let other = both.filter(|((_, _, now), (_, _, usual))| now != usual);
    let discipline = usual.discipline().name;
    let key = |name: String| if name.contains('.') { name } else { format!("{discipline}.{name}") };
    other.map(|((name, parameter, value), _)| (key(name), parameter.format(value))).collect()
}

/// But for weight and cap.
fn settings(domain: &domain) -> BTreeMap<&'static str, String> {
    // SAFETY: both are `struct sy_settings`.
    let asked = DomainSettings::of(unsafe { *as_core(&domain.engine.state.settings) });
    let others = asked.iter().filter(|(it, _)| !["weight", "cap_percent"].contains(&it.name));
    others.map(|(setting, value)| (setting.name, value)).collect()
}

/// Of the domain of a process.
pub fn domain_name(pid: i32) -> String {
    fs::read(format!("/proc/{pid}/cmdline"))
        .ok()
        .and_then(|command| qemu::guest_name(&command))
        .unwrap_or_else(|| name(&format!("/proc/{pid}/comm")))
}

/// None while the tables are being written.
fn standing(tables: &Tables, vcpu: &vcpu) -> Option<Standing> {
    let queue = tables.queues.get(vcpu.engine.queue as usize)?;
    let domain = tables.domains.get(vcpu.engine.domain as usize)?;
    // SAFETY: each is the same struct of the core.
    unsafe {
        Some(Standing::of(
            as_core(&tables.policy),
            as_core(&queue.engine.state),
            as_core(&domain.engine.state),
            as_core(&vcpu.engine.state),
        ))
    }
}

/// Times are counted when a status ends: for how long by now, if this is the one that lasts.
fn lasting_ns(vcpu: &vcpu, status: u32, now_ns: u64) -> u64 {
    if vcpu.engine.status == status { now_ns.saturating_sub(vcpu.engine.since_ns) } else { 0 }
}

/// For how long a vCPU has had nothing to do by now.
pub fn blocked_ns(vcpu: &vcpu, now_ns: u64) -> u64 {
    vcpu.met.blocked_ns + lasting_ns(vcpu, BLOCKED, now_ns)
}

fn vcpu_status(
    constants: &rodata,
    pid: i32,
    vcpu: &vcpu,
    standing: Option<Standing>,
    now_ns: u64,
) -> VcpuStatus {
    let since = |status| lasting_ns(vcpu, status, now_ns);
    VcpuStatus {
        name: name(&format!("/proc/{pid}/task/{}/comm", vcpu.pid)),
        tid: vcpu.pid,
        state: match vcpu.engine.status {
            RUNNING => "running",
            WAITING => "waiting",
            _ => "blocked",
        },
        pcpu: constants.cpu_of_pcpu.get(vcpu.engine.ran_on as usize).map(|&cpu| cpu.into()),
        credit: standing.map_or(0, |standing| standing.credit),
        class: standing.and_then(|standing| standing.class),
        boosted: standing.is_some_and(|standing| standing.boosted),
        times: Times {
            gotten_ns: vcpu.met.gotten_ns + since(RUNNING),
            waited_ns: vcpu.met.waited_ns + since(WAITING),
            blocked_ns: blocked_ns(vcpu, now_ns),
            worst_wait_ns: vcpu.met.worst_wait_ns.max(since(WAITING)),
            switches: vcpu.met.switches,
            migrations: vcpu.met.migrations,
            preemptions: vcpu.met.preemptions,
        },
    }
}

fn name(path: &str) -> String {
    fs::read(path).map_or_else(
        |_| "(gone)".to_owned(),
        |name| String::from_utf8_lossy(&name).trim().to_owned(),
    )
}

/// The kernel's monotonic clock, which is the program's.
pub fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of ours.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A line of the table: 80 columns, unless a number is longer than any day makes it.
macro_rules! line {
    ($out:expr, $($column:expr),* $(,)?) => {
        // Writing to a String cannot fail.
        let _ = writeln!(
            $out,
            "{:<12} {:>7} {:>4} {:>8} {:>8} {:>8} {:>7} {:>10} {}",
            $($column),*
        );
    };
}

impl Status {
    /// What was decided, with what that means.
    pub fn to_counters(&self) -> String {
        let line = |kind: &Parameter| {
            let count = self.counters.get(kind.name).copied().unwrap_or_default();
            format!("{:<15} {count:>16} {:<5} {}\n", kind.name, kind.unit, kind.help)
        };
        counts().iter().map(line).collect()
    }

    /// A table for people.
    pub fn to_table(&self) -> String {
        let Status { policy, parameters, beside_others_percent, counters, cpus: _, domains } = self;
        let policy = told(policy);
        let [choices, interrupts, resets, pause_loops, summoned] =
            ["choices", "interrupts", "resets", "pause_loops", "summoned"]
                .map(|name| counters.get(name).copied().unwrap_or_default());
        let mut out = format!("{policy}\n");
        for (name, value) in parameters {
            let _ = writeln!(out, " {name}={value}");
        }
        let _ = writeln!(out, "{choices} choices, {interrupts} interrupts, {resets} resets");
        if pause_loops > 0 {
            let _ = writeln!(out, "{pause_loops} pause-loop exits, {summoned} vCPUs summoned");
        }
        let _ =
            writeln!(out, "beside other tasks vCPUs have {beside_others_percent:.0} % of a CPU");
        out.push('\n');
        line!(
            out, "", "state", "pCPU", "gotten s", "waited s", "worst ms", "switch", "credit",
            "class"
        );
        for domain in domains {
            let DomainStatus {
                pid,
                weight,
                weight_now,
                cap_percent,
                settings,
                resets,
                times,
                vcpus,
                ..
            } = domain;
            let name = told(&domain.name);
            let cap = match cap_percent {
                0 => String::new(),
                cap => format!("cap {cap} %, "),
            };
            let _ = writeln!(
                out,
                "{name} ({pid}): weight {weight}, now {weight_now}; {cap}{resets} resets"
            );
            let asked = settings.iter().map(|(name, value)| format!(" {name}={value}"));
            if !settings.is_empty() {
                let _ = writeln!(out, " asked:{}", asked.collect::<Vec<_>>().join(","));
            }
            for vcpu in vcpus {
                let pcpu = vcpu.pcpu.map_or_else(|| "-".to_owned(), |pcpu| pcpu.to_string());
                let class = vcpu.class.unwrap_or_default();
                let class = format!("{class}{}", if vcpu.boosted { "!" } else { "" });
                let name = format!(" {}", told(&vcpu.name));
                let credit = vcpu.credit.to_string();
                write_row(&mut out, [&name, vcpu.state, &pcpu], vcpu.times, [&credit, &class]);
            }
            if vcpus.len() > 1 {
                write_row(&mut out, [" together", "", ""], *times, ["-", ""]);
            }
        }
        if domains.is_empty() {
            out.push_str("no vCPU has run yet\n");
        }
        out
    }
}

fn write_row(out: &mut String, who: [&str; 3], times: Times, standing: [&str; 2]) {
    let seconds = |ns: u64| format!("{:.1}", ns as f64 / 1e9);
    let [name, state, pcpu] = who;
    let [credit, class] = standing;
    line!(
        out,
        name,
        state,
        pcpu,
        seconds(times.gotten_ns),
        seconds(times.waited_ns),
        format!("{:.1}", times.worst_wait_ns as f64 / 1e6),
        times.switches,
        credit,
        class,
    );
}

#[cfg(test)]
mod tests {
    use steelyard_boundary::text::is_harmful;

    use super::*;

    #[test]
    fn the_table_fits_80_columns() {
        let times = Times {
            gotten_ns: 123_456_789_000_000,
            worst_wait_ns: 12_345_600_000,
            switches: 1_234_567,
            migrations: 12_345,
            ..Times::default()
        };
        let vcpu = VcpuStatus {
            name: "CPU 123/KVM".to_owned(),
            tid: 1,
            state: "running",
            pcpu: Some(123),
            credit: -123_456_789,
            class: Some("RESERVED"),
            boosted: false,
            times,
        };
        let domain = DomainStatus {
            name: "web".to_owned(),
            pid: 1_234_567,
            weight: 256,
            weight_now: 65_535,
            cap_percent: 409_600,
            settings: [
                ("sedf.extra_time", "false"),
                ("sedf.period", "20 ms"),
                ("sedf.slice", "15 ms"),
            ]
            .map(|(name, value)| (name, value.to_owned()))
            .into(),
            slice_now_ns: None,
            packets: 0,
            resets: 1_234_567,
            summoned: 123_456,
            times,
            vcpus: vec![vcpu.clone(), vcpu],
        };
        let mut status = Status {
            policy: "credit2@xen-4.20+reset-boost".to_owned(),
            parameters: [("credit2.ratelimit_ns".to_owned(), "2000000".to_owned())].into(),
            beside_others_percent: 88.9,
            counters: named(|_| 12_345_678_901),
            cpus: vec![],
            domains: vec![domain],
        };
        let counters = status.to_counters();
        assert_eq!(counters.lines().count(), counts().len());
        assert!(counters.lines().all(|line| line.len() <= 110), "{counters}");
        let table = status.to_table();
        assert!(table.lines().all(|line| line.len() <= 80), "{table}");
        assert!(table.contains("-123456789"), "{table}");
        let asked = " asked: sedf.extra_time=false, sedf.period=20 ms, sedf.slice=15 ms\n";
        assert!(table.contains(asked), "{table}");
        // Names come from processes of anybody.
        for name in [&mut status.policy, &mut status.domains[0].name] {
            *name = format!("\x1b[2J\u{9b}31m\n{}", "x".repeat(100_000));
        }
        status.domains[0].vcpus[0].name = "\r\u{202e}".to_owned();
        let table = status.to_table();
        assert!(table.len() < 4000 && !table.contains(|c| c != '\n' && is_harmful(c)), "{table:?}");
    }

    #[test]
    fn parameters_that_were_changed_are_told() {
        let mut policy = Policy::named("credit2+load-weight").unwrap();
        policy.set("reset", "chosen").unwrap();
        policy.set("load-weight.least_percent", "7").unwrap();
        // SAFETY: both are `struct sy_policy`.
        let raw: sy_policy = unsafe { *as_core(policy.parameters()) };
        let told = parameters(&raw, &policy.to_string());
        let expected = [("credit2.reset", "chosen"), ("load-weight.least_percent", "7")];
        assert_eq!(told, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
    }
}
