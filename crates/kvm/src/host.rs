// SPDX-License-Identifier: GPL-2.0-only
//! Loads the scheduler, and takes it away again.

use std::collections::HashMap;
use std::fs;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::ptr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, OpenObject, PrintCallback, PrintLevel, ProgramInput, ProgramMut, set_print};
use steelyard_boundary::text::{harmless_lines, told};
use steelyard_policy::Policy;
use steelyard_policy::ffi::{
    Settings, sy_queue_pcpus_max, sy_scope, sy_wants_offered, sy_wants_packets,
};
use steelyard_recording::Packets;

use crate::asked::{Asked, Thread, asked};
use crate::parts::{EQUAL, Parts};
use crate::skeleton::scheduler::types::{bss, sy_policy};
use crate::skeleton::scheduler::{SteelyardSkel, SteelyardSkelBuilder};
use crate::status::{blocked_ns, domain_name};
use crate::topology::{CPUS, Numbers, groups};
use crate::wanted::Wanted;
use crate::{KvmError, as_core, check, now_ns, privilege, text};

/// The list of CPUs on which tasks can run.
const ONLINE: &str = "/sys/devices/system/cpu/online";
/// How often CPUs have come or gone.
const HOTPLUGS: &str = "/sys/kernel/sched_ext/hotplug_seq";
/// How often the loader looks whether it should end, or has been ended.
const LOOK: Duration = Duration::from_millis(100);
/// How often it finds anew what is asked for domains, beside when a domain begins.
const ASK: Duration = Duration::from_secs(1);
/// Where control groups are mounted.
pub const GROUPS: &str = "/sys/fs/cgroup";

/// In millionths, as `SY_PERCENT`.
const PERCENT: u64 = 10_000;

/// Instead of a pCPU's number, as in `bpf/state.h`.
const NO_PCPU: u16 = 0xffff;

/// How to run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Print what libbpf and the verifier say.
    pub verbose: bool,
    /// The file of `steelyard kvm set`; it need not be there.
    pub settings: PathBuf,
    /// What load domains are offered; it need not be there.
    pub loads: PathBuf,
    /// For tests of what happens then: tasks of this name are lost.
    #[cfg(feature = "faults")]
    pub lose: String,
}

/// A running scheduler. The kernel schedules by itself again when this is dropped, or its process
/// ends in whatever way.
pub struct Scheduler {
    /// Given up before the skeleton: the program's timers end with the maps, which that holds. None: the program ends
    /// for another one.
    link: Option<Link>,
    program: SteelyardSkel<'static>,
    options: Options,
    /// As it was started, before what is asked of it,
    given: Policy,
    /// and what runs now.
    policy: Policy,
    /// One that was asked for and cannot be had.
    refused: Option<Policy>,
    /// If the policy asks for them.
    packets: Option<Packets>,
    /// What is asked beside control groups.
    wanted: Wanted,
    /// The names of the domains for which it was found what is asked, by their processes,
    names: HashMap<i32, String>,
    /// and when.
    asked: Instant,
    /// What a vCPU's blocked time was then, by its thread, and when.
    blocked: HashMap<i32, (u64, u64)>,
    /// What the vCPUs have beside other tasks.
    parts: Parts,
}

impl Scheduler {
    /// Makes this policy schedule the vCPUs of this host, or what `steelyard kvm change` has asked for instead. This
    /// thread has fewer capabilities afterwards.
    ///
    /// # Errors
    /// Any [`KvmError`] but [`KvmError::Ejected`]; nothing is changed then.
    pub fn start(
        given: &Policy,
        options: &Options,
        tell: impl Fn(&str),
    ) -> Result<Scheduler, KvmError> {
        privilege::raise().map_err(KvmError::Privileged)?;
        check::host()?;
        let mut wanted = Wanted::new(options.settings.clone(), options.loads.clone());
        wanted.look(&[], &tell);
        let policy = wanted.policy(given);
        let mut program = load(&policy, options)?;
        let link = attach(&mut program)?;
        privilege::lower().map_err(KvmError::Privileged)?;
        tell_policy(&policy, &tell);
        Ok(Scheduler {
            program,
            link: Some(link),
            options: options.clone(),
            given: given.clone(),
            packets: packets(&policy),
            policy,
            refused: None,
            wanted,
            names: HashMap::new(),
            asked: Instant::now(),
            blocked: HashMap::new(),
            parts: Parts::new(online(cpus()?).len().max(1) as u32),
        })
    }

    /// Waits until `stop` says so. What changes meanwhile, and what of that which is asked for cannot be read, is told.
    ///
    /// # Errors
    /// [`KvmError::Ejected`] if the kernel puts an end to it before that; [`KvmError::Refused`].
    pub fn wait(&mut self, stop: impl Fn() -> bool, tell: impl Fn(&str)) -> Result<(), KvmError> {
        while !stop() {
            self.check()?;
            self.tell_packets();
            self.tell_asked(&tell)?;
            self.follow(&tell)?;
            sleep(LOOK);
        }
        self.check()
    }

    /// The policy becomes what is asked of it.
    fn follow(&mut self, tell: &dyn Fn(&str)) -> Result<(), KvmError> {
        let policy = self.wanted.policy(&self.given);
        if policy == self.policy || self.refused.as_ref() == Some(&policy) {
            return Ok(());
        }
        if runs_in_one_program(&policy, &self.policy) {
            self.change_parameters(&policy)?;
            tell_policy(&policy, tell);
            self.policy = policy;
            return Ok(());
        }
        self.replace(policy, tell)
    }

    /// In the program that runs. Others may see some of them changed and some not.
    fn change_parameters(&mut self, policy: &Policy) -> Result<(), KvmError> {
        const WORDS: usize = size_of::<sy_policy>() / size_of::<u64>();
        if let Some(state) = self.program.maps.bss_data.as_deref_mut() {
            // SAFETY: both are `struct sy_policy`, which is so many words.
            let from: &[u64; WORDS] = unsafe { &*ptr::from_ref(policy.parameters()).cast() };
            let to = (&raw mut state.policy).cast::<u64>();
            for (number, &word) in from.iter().enumerate() {
                // SAFETY: it is a word of the map's memory, which the kernel reads.
                unsafe { ptr::write_volatile(to.add(number), word) };
            }
            write_text(&mut state.policy_name, &policy.to_string());
        }
        run(&self.program.progs.steelyard_follow, "follow parameters")
    }

    /// By another program, which the kernel has read before this one ends: it lets a scheduler be replaced by none
    /// (`bpf_scx_update()`), and has one at a time.
    fn replace(&mut self, policy: Policy, tell: &dyn Fn(&str)) -> Result<(), KvmError> {
        privilege::raise().map_err(KvmError::Privileged)?;
        let mut program = match load(&policy, &self.options) {
            Ok(program) => program,
            Err(error) => {
                tell(&format!("{error}; {} goes on", self.policy));
                self.refused = Some(policy);
                return privilege::lower().map_err(KvmError::Privileged);
            }
        };
        let begin = Instant::now();
        self.link = None;
        self.link = Some(attach(&mut program)?);
        let gap = begin.elapsed();
        self.program = program;
        privilege::lower().map_err(KvmError::Privileged)?;
        tell(&format!(
            "{policy} instead of {}; for {:.1} ms the kernel scheduled by itself",
            self.policy,
            gap.as_secs_f64() * 1e3
        ));
        self.packets = packets(&policy);
        self.policy = policy;
        self.refused = None;
        self.names.clear();
        self.blocked.clear();
        Ok(())
    }

    /// Tells the program how many packets each domain has received.
    fn tell_packets(&mut self) {
        let (Some(packets), Some(state)) =
            (&mut self.packets, self.program.maps.bss_data.as_deref_mut())
        else {
            return;
        };
        packets.begin();
        for domain in &mut state.domains {
            // SAFETY: both pointers are to fields of the map's memory. The kernel writes the first,
            // and the second only when it clears the slot for another process, which is told anew.
            unsafe {
                let pid = ptr::read_volatile(&raw const domain.pid);
                if pid != 0 {
                    ptr::write_volatile(&raw mut domain.samples.packets, packets.received(pid));
                }
            }
        }
    }

    /// Tells the program what is asked for its domains, where that is something else now.
    fn tell_asked(&mut self, tell: &dyn Fn(&str)) -> Result<(), KvmError> {
        let Some(state) = self.program.maps.bss_data.as_deref() else { return Ok(()) };
        // SAFETY: the pointers are to fields of the map's memory, which the kernel changes.
        let used =
            |count: &u32, most: usize| unsafe { (ptr::read_volatile(count) as usize).min(most) };
        let slots = &state.domains[..used(&state.domains_used, state.domains.len())];
        // SAFETY: as above.
        let pids = || slots.iter().map(|it| unsafe { ptr::read_volatile(&raw const it.pid) });
        let is_new = pids().any(|pid| pid != 0 && !self.names.contains_key(&pid));
        if !is_new && self.asked.elapsed() < ASK {
            return Ok(());
        }
        self.asked = Instant::now();
        let mut domains: Vec<(usize, i32, Vec<Thread>)> = vec![];
        let mut has: Vec<Settings> = vec![];
        for (slot, pid) in pids().enumerate().filter(|&(_, pid)| pid != 0) {
            domains.push((slot, pid, vec![]));
            let engine = &raw const state.domains[slot].engine;
            // SAFETY: as above; both are `struct sy_settings`.
            has.push(unsafe { *as_core(&ptr::read_volatile(&raw const (*engine).state.settings)) });
        }
        let now_ns = now_ns();
        let mut blocked = HashMap::new();
        for vcpu in &state.vcpus[..used(&state.vcpus_used, state.vcpus.len())] {
            // SAFETY: as above; the numbers may be of different times, and none is relied on.
            let (tid, slot, blocked_ns) = unsafe {
                let vcpu = ptr::read_volatile(vcpu);
                (vcpu.pid, vcpu.engine.domain as usize, blocked_ns(&vcpu, now_ns))
            };
            let Ok(at) = domains.binary_search_by_key(&slot, |it| it.0) else { continue };
            if tid != 0 {
                let activity = activity(self.blocked.get(&tid).copied(), (blocked_ns, now_ns));
                blocked.insert(tid, (blocked_ns, now_ns));
                domains[at].2.push(Thread { tid, activity });
            }
        }
        self.blocked = blocked;
        let domains: Vec<_> = domains.into_iter().map(|(_, pid, vcpus)| (pid, vcpus)).collect();
        let (proc, groups) = (Path::new("/proc"), Path::new(GROUPS));
        let asked = asked(proc, groups, &domains);
        let parts = self.parts.look(proc, groups, &domains);
        if let Some(state) = self.program.maps.bss_data.as_deref_mut() {
            // SAFETY: the pointer is to a field of the map's memory, which the kernel only reads.
            unsafe { ptr::write_volatile(&raw mut state.vcpus_parts, parts) };
        }
        let pids: Vec<i32> = domains.iter().map(|it| it.0).collect();
        self.names.retain(|pid, _| pids.contains(pid));
        for &pid in &pids {
            self.names.entry(pid).or_insert_with(|| domain_name(pid));
        }
        let names: Vec<_> = self.names.values().cloned().collect();
        self.wanted.look(&names, tell);
        for (pid, (Asked { weight, cap_percent, cap_burst_ns }, has)) in
            pids.into_iter().zip(asked.into_iter().zip(has))
        {
            let by_groups = Settings { weight, cap_percent, cap_burst_ns, ..Settings::usual() };
            let asked = self.wanted.over(&self.names[&pid], by_groups);
            if asked != has {
                self.tell(pid, asked)?;
            }
        }
        self.tell_loads();
        Ok(())
    }

    /// Tells the program what load its domains are offered.
    fn tell_loads(&mut self) {
        if !sy_wants_offered(self.policy.parameters()) {
            return;
        }
        let Some(state) = self.program.maps.bss_data.as_deref_mut() else { return };
        let now_ns = now_ns();
        for domain in &mut state.domains {
            // SAFETY: the pointer is to a field of the map's memory, which the kernel changes.
            let pid = unsafe { ptr::read_volatile(&raw const domain.pid) };
            let name = self.names.get(&pid);
            let Some((percent, age)) = name.and_then(|name| self.wanted.load(name)) else {
                continue;
            };
            let age_ns = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
            // SAFETY: as in `tell_packets`.
            unsafe {
                let samples = &raw mut domain.samples;
                ptr::write_volatile(&raw mut (*samples).offered, PERCENT * u64::from(percent));
                // 0 would be never.
                let at_ns = now_ns.saturating_sub(age_ns).max(1);
                ptr::write_volatile(&raw mut (*samples).offered_at_ns, at_ns);
            }
        }
    }

    /// Asks this of the domain of a process; it may have ended.
    fn tell(&mut self, pid: i32, asked: Settings) -> Result<(), KvmError> {
        if let Some(state) = self.program.maps.bss_data.as_deref_mut() {
            state.asked.pid = pid;
            // SAFETY: both are `struct sy_settings`.
            state.asked.settings = unsafe { *as_core(&asked) };
        }
        run(&self.program.progs.steelyard_ask, "take what is asked for a domain")
    }

    fn check(&self) -> Result<(), KvmError> {
        let Some(state) = self.program.maps.bss_data.as_deref() else { return Ok(()) };
        // SAFETY: the pointer is to a field of the map's memory, which the kernel changes.
        let kind = unsafe { ptr::read_volatile(&raw const state.exit_kind) };
        if kind == 0 {
            return Ok(());
        }
        Err(ejected(state, kind))
    }
}

/// Has the kernel load the program, which changes nothing yet.
fn load(policy: &Policy, options: &Options) -> Result<SteelyardSkel<'static>, KvmError> {
    let print: PrintCallback = if options.verbose { tell } else { |_, _| {} };
    set_print(Some((PrintLevel::Debug, print)));
    // Lives as long as the process: the skeleton borrows it. It is a few bytes for each beginning.
    let storage: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut builder = SteelyardSkelBuilder::default();
    builder.obj_builder.debug(options.verbose);
    let mut open = builder.open(storage).map_err(|error| KvmError::Refused("open", error))?;
    // If that is another when the program is there, the kernel ends it at once, and asks for a new beginning.
    open.struct_ops.steelyard_ops_mut().hotplug_seq = hotplugs();
    let count = cpus()?;
    let numbers = number_pcpus(count);
    if options.verbose {
        let [core, cache, node, socket] = numbers.level_pcpus;
        eprintln!(
            "{} numbers of pCPUs; of a core {core}, a cache {cache}, a node {node}, a socket {socket}",
            numbers.cpus.len()
        );
    }
    if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
        // SAFETY: both are `struct sy_policy`.
        constants.policy_constant = unsafe { *as_core(policy.parameters()) };
        constants.pcpus_count = numbers.cpus.len() as u32;
        constants.cpus_count = count;
        constants.level_pcpus = numbers.level_pcpus;
        constants.pcpu_of_cpu.fill(NO_PCPU);
        for (pcpu, &cpu) in numbers.cpus.iter().enumerate() {
            let Some(cpu) = cpu else { continue };
            // Both are below the length of the tables.
            constants.pcpu_of_cpu[cpu as usize] = pcpu as u16;
            constants.cpu_of_pcpu[pcpu] = cpu as u16;
        }
        #[cfg(feature = "faults")]
        write_text(&mut constants.lost_comm, &options.lose);
    }
    if let Some(tables) = open.maps.bss_data.as_deref_mut() {
        // SAFETY: both are `struct sy_policy`.
        tables.policy = unsafe { *as_core(policy.parameters()) };
        tables.vcpus_parts = EQUAL;
        write_text(&mut tables.policy_name, &policy.to_string());
        for (number, pcpu) in tables.pcpus.iter_mut().enumerate() {
            pcpu.offline = numbers.cpus.get(number).is_none_or(Option::is_none).into();
        }
    }
    let skeleton = open.load().map_err(|error| KvmError::Refused("load the program", error))?;
    if options.verbose {
        for (name, instructions) in verified() {
            // The kernel gives up after a million.
            eprintln!("{}: {instructions} instructions verified", told(&name));
        }
    }
    Ok(skeleton)
}

/// Has the kernel schedule by it.
fn attach(program: &mut SteelyardSkel<'_>) -> Result<Link, KvmError> {
    let failed = |error| KvmError::Refused("start the scheduler", error);
    program.maps.steelyard_ops.attach_struct_ops().map_err(failed)
}

/// Runs a program that is called by nobody else.
fn run(program: &ProgramMut<'_>, what: &'static str) -> Result<(), KvmError> {
    program.test_run(ProgramInput::default()).map_err(|error| KvmError::Refused(what, error))?;
    Ok(())
}

fn tell_policy(policy: &Policy, tell: &dyn Fn(&str)) {
    tell(&format!("{policy} schedules the vCPUs of this host; Ctrl-C ends it"));
}

/// Whether they differ only by what is read again and again: what a program consists of follows from discipline,
/// governors and parameters that are choices, and its queues are made at the start.
fn runs_in_one_program(one: &Policy, other: &Policy) -> bool {
    let shape = |policy: &Policy| {
        let it = policy.parameters();
        (it.discipline, it.governors, sy_scope(it), sy_queue_pcpus_max(it))
    };
    let choices = |policy: &Policy| -> Vec<u64> {
        let choices = policy.values().filter(|(_, parameter, _)| parameter.choices().is_some());
        choices.map(|(_, _, value)| value).collect()
    };
    shape(one) == shape(other) && choices(one) == choices(other)
}

fn packets(policy: &Policy) -> Option<Packets> {
    sy_wants_packets(policy.parameters()).then(Packets::default)
}

/// Programs of the scheduler that the kernel has, with how many instructions its verifier has read of each.
fn verified() -> Vec<(String, u32)> {
    ProgInfoIter::default()
        .map(|program| (program.name.to_string_lossy().into_owned(), program.verified_insns))
        .filter(|(name, _)| name.starts_with("steelyard_"))
        .collect()
}

/// Whether the kernel's verifier accepts the program with this policy: how many instructions it has read of each of its
/// programs. Nothing is changed.
///
/// # Errors
/// Those of [`Scheduler::start`].
pub fn verify(policy: &Policy) -> Result<Vec<(String, u32)>, KvmError> {
    check::host()?;
    let _loaded = load(policy, &Options::default())?;
    Ok(verified())
}

/// What libbpf says; the verifier's words are among it, and of others the names of what they loaded.
fn tell(_: PrintLevel, words: String) {
    eprint!("{}", harmless_lines(&words));
}

fn ejected(state: &bss, kind: u32) -> KvmError {
    KvmError::Ejected {
        kind,
        code: state.exit_code,
        reason: text(&state.exit_reason),
        message: text(&state.exit_message),
        dump: text(&state.exit_dump),
    }
}

/// Part of the time between two looks in which a vCPU had something to do; each is its blocked time and when that was.
/// Whoever was not there before has just begun.
fn activity(before: Option<(u64, u64)>, (blocked_ns, now_ns): (u64, u64)) -> f64 {
    let Some((blocked_before_ns, before_ns)) = before else { return 1.0 };
    let passed_ns = now_ns.saturating_sub(before_ns).max(1);
    1.0 - (blocked_ns.saturating_sub(blocked_before_ns) as f64 / passed_ns as f64).min(1.0)
}

/// Fills a string of the program, all but its last byte, which stays zero.
fn write_text(to: &mut [i8], from: &str) {
    let room = to.len() - 1;
    for (to, from) in to[..room].iter_mut().zip(from.bytes()) {
        *to = from as i8;
    }
}

/// 0, which the kernel does not look at, if it does not say.
fn hotplugs() -> u64 {
    fs::read_to_string(HOTPLUGS).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// Possible CPUs of this host; the kernel's numbers are below this.
pub fn cpus() -> Result<u32, KvmError> {
    let most = most_pcpus();
    let count = libbpf_rs::num_possible_cpus().unwrap_or(1);
    match u32::try_from(count) {
        Ok(count) if count as usize <= most => Ok(count),
        _ => Err(KvmError::TooManyPcpus(most)),
    }
}

/// The numbers of CPUs that are online, of so many that may be.
fn online(count: u32) -> Vec<u32> {
    let online = fs::read_to_string(ONLINE).unwrap_or_else(|_| format!("0-{}", count - 1));
    (0..count).filter(|&cpu| contains(&online, cpu as usize)).collect()
}

/// Of those that are online.
fn number_pcpus(count: u32) -> Numbers {
    let online = online(count);
    Numbers::new(&online, |cpu| groups(Path::new(CPUS), cpu), most_pcpus())
}

pub fn most_pcpus() -> usize {
    length(|tables: &bss| &tables.pcpus)
}

fn length<T, const N: usize>(_table: impl Fn(&bss) -> &[T; N]) -> usize {
    N
}

/// Whether a list of CPUs as the kernel writes it, such as `0-3,8`, has this one.
fn contains(list: &str, cpu: usize) -> bool {
    list.trim().split(',').any(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        match (first.parse::<usize>(), last.parse::<usize>()) {
            (Ok(first), Ok(last)) => (first..=last).contains(&cpu),
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{activity, contains, runs_in_one_program};
    use steelyard_policy::Policy;

    #[test]
    fn lists_of_cpus_are_read() {
        let there: Vec<_> = (0..12).filter(|&cpu| contains("0-2,5,8-9\n", cpu)).collect();
        assert_eq!(there, [0, 1, 2, 5, 8, 9]);
        assert!(!contains("", 0));
    }
    #[test]
    fn activity_is_what_was_not_blocked() {
        assert_eq!(activity(None, (5, 5)), 1.0);
        assert_eq!(activity(Some((100, 1000)), (350, 2000)), 0.75);
        assert_eq!(activity(Some((100, 1000)), (1100, 2000)), 0.0);
        // Another vCPU has that number now; the clock stood still.
        assert_eq!(activity(Some((100, 1000)), (0, 2000)), 1.0);
        assert_eq!(activity(Some((100, 1000)), (200, 1000)), 0.0);
    }

    #[test]
    fn parameters_alone_need_no_other_program() {
        let policy = |name| Policy::named(name).unwrap();
        let one = |one, other| runs_in_one_program(&policy(one), &policy(other));
        assert!(one("mcredit2", "credit2@xen-4.5+reset-boost"));
        let mut longer = policy("credit2+reset-boost");
        longer.set("run_max_ns", "5000000").unwrap();
        longer.set("reset-boost.interval_ns", "50000000").unwrap();
        assert!(runs_in_one_program(&policy("credit2+reset-boost"), &longer));
        assert!(!one("credit@xen-4.2", "credit@xen-4.20") && !one("fair@cfs", "fair@eevdf"));
        assert!(!one("credit2", "credit2+load-weight") && !one("credit", "fair"));
        // These split queues of a socket where they are large, and do not.
        assert!(!one("credit2@xen-4.5", "credit2@xen-4.20"));
        let mut flat = policy("credit2");
        flat.set("queue", "all").unwrap();
        assert!(!runs_in_one_program(&policy("credit2"), &flat));
    }
}
