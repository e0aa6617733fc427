// SPDX-License-Identifier: GPL-2.0-only
//! A Linux host, by its `/proc`, its control groups and libvirt.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use steelyard_boundary::text::{LONGEST, short};
use steelyard_monitor::LinuxSource;
use steelyard_recording::GroupPath;
use steelyard_scenario::{ControlGroup, DescribedDomain, HostDescription, Machine, Thread};
use steelyard_simulator::limits;
use steelyard_simulator::units::CpuSet;

use crate::topology::topology;
use crate::{DescribeError, Described, Places, libvirt, line};

/// Threads that are told of at most, beside those of virtual machines: of a host with more the later ones are missing.
const MOST_THREADS: usize = 16_384;
/// PF_KTHREAD of the kernel, linux/sched.h.
const KERNEL_THREAD: u64 = 0x0020_0000;
/// SCHED_* of linux/sched.h, by number; none: the usual one.
const POLICIES: [Option<&str>; 8] = [
    None,
    Some("fifo"),
    Some("rr"),
    Some("batch"),
    None,
    Some("idle"),
    Some("deadline"),
    Some("ext"),
];

pub fn describe(places: &Places) -> Result<Described, DescribeError> {
    let kernel = |file: &str| line(places.proc.join("sys/kernel").join(file));
    let stat = places.proc.join("stat");
    let text = fs::read_to_string(&stat).map_err(|error| DescribeError::File(stat, error))?;
    let numbers = text.lines().filter_map(|line| line.strip_prefix("cpu")?.split(' ').next());
    let pcpus: CpuSet = numbers.flat_map(str::parse).collect();
    let [sockets, cores_per_socket, threads_per_core] = topology(&places.sys, &pcpus);
    let mut host = HostDescription::new(Machine {
        name: kernel("hostname").unwrap_or_else(|| "this host".to_owned()),
        system: format!("Linux {}", kernel("osrelease").unwrap_or_default()),
        scheduler: extension(&places.sys),
        pcpus: pcpus.clone(),
        sockets,
        cores_per_socket,
        threads_per_core,
    });
    let mut source = LinuxSource::new(&places.proc, &places.groups)?;
    source.set_states(false);
    let domains = source.sample()?.structure.domains.clone();
    let mut missing = vec![];
    if source.left_out() > 0 {
        missing.push(format!("{} vCPUs: there are more than can be looked at.", source.left_out()));
    }
    let mut described = libvirt::domains().unwrap_or_else(|error| {
        missing.push(format!("What libvirt says of its domains: {error}."));
        vec![]
    });
    let vms: BTreeSet<u32> = domains.iter().map(|domain| domain.id as u32).collect();
    let mut groups = Groups::new(places);
    let mut threads_of = HashMap::new();
    let pids = pids(&places.proc)?;
    for &pid in &pids {
        let is_vm = vms.contains(&pid);
        let threads = groups.process(pid, is_vm, &pcpus);
        if is_vm {
            threads_of.insert(pid, threads.clone());
        }
        if is_vm || host.thread.len() + threads.len() <= MOST_THREADS {
            host.thread.extend(threads);
        } else if missing.last().is_none_or(|it| !it.starts_with("Processes")) {
            missing.push(format!("Processes beyond the first {MOST_THREADS} threads."));
        }
    }
    let mut names = BTreeSet::new();
    for domain in domains {
        let pid = domain.id as u32;
        // Whoever has ended meanwhile.
        let Some(threads) = threads_of.get(&pid) else { continue };
        let is_vcpu =
            |thread: &&Thread| domain.vcpus.iter().any(|it| it.id == u64::from(thread.id));
        let number = |thread: &&Thread| steelyard_recording::qemu::vcpu_number(&thread.name);
        let mut vcpus: Vec<_> = threads.iter().filter(is_vcpu).collect();
        vcpus.sort_by_key(number);
        let pin: Vec<CpuSet> =
            vcpus.iter().map(|it| it.pcpus.clone().unwrap_or_else(|| pcpus.clone())).collect();
        let at = described.iter().position(|(name, _)| *name == domain.name);
        let mut name = domain.name.clone();
        if !names.insert(name.clone()) {
            name = format!("{name}-{pid}");
            names.insert(name.clone());
        }
        // Of the innermost group that holds them all: among its siblings that counts.
        let own = groups.common(vcpus.iter().map(|vcpu| vcpu.group));
        let weight = own.map_or(domain.weight, |group| group.weight);
        let weight = u64::from(weight).clamp(limits::WEIGHT.least, limits::WEIGHT.most);
        let cap = u64::from(domain.cap_percent).min(limits::CAP_PERCENT.most);
        host.domain.push(DescribedDomain {
            name,
            id: Some(pid),
            weight: Some(weight as u32),
            cap_percent: Some(cap as u32),
            ungrouped: domain.ungrouped,
            vcpus: vcpus.len() as u32,
            pin: if pin.iter().all(|pin| *pin == pcpus) { vec![] } else { pin },
            pin_soft: vec![],
            xml: at.map(|at| described.swap_remove(at).1),
        });
    }
    host.domain.retain(|domain| domain.vcpus > 0);
    for (name, xml) in described {
        if names.insert(name.clone()) && name.chars().count() <= LONGEST {
            host.domain.push(DescribedDomain { name, xml: Some(xml), ..Default::default() });
        }
    }
    host.group = groups.told;
    Ok(Described { host, missing })
}

/// The scheduler that sched_ext has loaded.
fn extension(sys: &Path) -> Option<String> {
    let of = |file: &str| line(sys.join("kernel/sched_ext").join(file));
    let enabled = of("state")? == "enabled";
    enabled.then(|| of("root/ops").unwrap_or_else(|| "of sched_ext".to_owned()))
}

/// In order.
fn pids(proc: &Path) -> Result<Vec<u32>, DescribeError> {
    let failed = |error| DescribeError::File(proc.to_owned(), error);
    let mut pids = vec![];
    for entry in fs::read_dir(proc).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        pids.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    pids.sort_unstable();
    Ok(pids)
}

/// Control groups, as somebody is found in them.
struct Groups<'a> {
    places: &'a Places,
    /// Whether the kernel takes sessions for groups.
    sessions: bool,
    told: Vec<ControlGroup>,
    /// Their places in the list.
    known: BTreeMap<PathBuf, Option<u32>>,
}

impl Groups<'_> {
    fn new(places: &Places) -> Groups<'_> {
        let enabled = line(places.proc.join("sys/kernel/sched_autogroup_enabled"));
        let sessions = enabled.as_deref() == Some("1");
        Groups { places, sessions, told: vec![], known: BTreeMap::new() }
    }

    /// Threads of a process: none if it has ended, or is held by nothing and no virtual machine.
    fn process(&mut self, pid: u32, is_vm: bool, pcpus: &CpuSet) -> Vec<Thread> {
        let tasks = self.places.proc.join(format!("{pid}/task"));
        let Some((first, kernel_thread)) = self.thread(pid, pid, pcpus) else { return vec![] };
        if !is_vm {
            let usual = Thread { id: pid, name: first.name.clone(), ..Thread::default() };
            // Those of the kernel are in no group, and a recording tells their niceness.
            let told = !kernel_thread && first != usual;
            return if told { vec![first] } else { vec![] };
        }
        let mut ids: Vec<u32> = fs::read_dir(tasks)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|&tid| tid != pid)
            .collect();
        ids.sort_unstable();
        let mut threads = vec![first];
        for tid in ids {
            threads.extend(self.thread(pid, tid, pcpus).map(|(thread, _)| thread));
        }
        threads
    }

    /// A thread, and whether it is the kernel's own; none if it has ended.
    fn thread(&mut self, pid: u32, id: u32, pcpus: &CpuSet) -> Option<(Thread, bool)> {
        let directory = self.places.proc.join(format!("{pid}/task/{id}"));
        let name = line(directory.join("comm"))?;
        let stat = line(directory.join("stat"))?;
        // Its name, in brackets, may have brackets and blanks in it. The third word follows.
        let words: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        let word = |number: usize| words.get(number - 3).copied();
        let flags: u64 = word(9)?.parse().ok()?;
        let nice = word(19)?.parse::<i32>().ok()?.clamp(-20, 19);
        let policy = word(41)?.parse::<usize>().ok()?;
        let policy = POLICIES.get(policy).copied().flatten().map(str::to_owned);
        let status = fs::read_to_string(directory.join("status")).unwrap_or_default();
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let allowed = allowed.and_then(|list| list.trim().parse::<CpuSet>().ok());
        let online = |set: CpuSet| set.iter().filter(|it| pcpus.iter().any(|p| p == *it)).collect();
        let allowed: Option<CpuSet> = allowed.map(online);
        let kernel_thread = flags & KERNEL_THREAD != 0;
        let group = if kernel_thread { None } else { self.of_thread(&directory, pid) };
        let name = short(&name, LONGEST).into_owned();
        let less = allowed.filter(|set| set != pcpus && set.iter().next().is_some());
        let process = (id != pid).then_some(pid);
        Some((Thread { id, process, name, nice, policy, pcpus: less, group }, kernel_thread))
    }

    /// The control group that holds a thread, or its session.
    fn of_thread(&mut self, directory: &Path, pid: u32) -> Option<u32> {
        let innermost = GroupPath::of_thread(directory, &self.places.groups)?;
        let chain: Vec<_> = innermost.chain().collect();
        let held = self.group(&chain);
        held.or_else(|| if self.sessions { self.session(pid) } else { None })
    }

    /// The place of a group in the list, after those around it, which follow it here; none if it holds nobody together.
    fn group(&mut self, chain: &[GroupPath]) -> Option<u32> {
        let (group, around) = chain.split_first()?;
        if let Some(&known) = self.known.get(group.path()) {
            return known;
        }
        let within = self.group(around);
        let place = match group.weight() {
            // Without the controller its members are those of the group around it.
            None => within,
            Some(weight) => {
                let weight = weight.min(limits::WEIGHT.most) as u32;
                let cap_percent = group.cap_percent().unwrap_or(0);
                let cap_percent = u32::try_from(cap_percent).unwrap_or(u32::MAX);
                let name = short(&group.path().to_string_lossy(), LONGEST).into_owned();
                self.told.push(ControlGroup { name, weight, cap_percent, within });
                Some(self.told.len() as u32 - 1)
            }
        };
        self.known.insert(group.path().to_owned(), place);
        place
    }

    /// The innermost group that holds all of these.
    fn common(&self, mut members: impl Iterator<Item = Option<u32>>) -> Option<&ControlGroup> {
        let chain = |group: Option<u32>| {
            let outer = |group: &u32| self.told.get(*group as usize)?.within;
            std::iter::successors(group, outer).collect::<Vec<u32>>()
        };
        let first = chain(members.next()?);
        let common = members.map(chain).fold(first, |common, other| {
            common.into_iter().filter(|group| other.contains(group)).collect()
        });
        self.told.get(*common.first()? as usize)
    }

    /// A session as a group, by what the kernel says of one of its processes: "/autogroup-12 nice 0".
    fn session(&mut self, pid: u32) -> Option<u32> {
        let told = line(self.places.proc.join(format!("{pid}/autogroup")))?;
        let (name, nice) = told.trim_start_matches('/').split_once(" nice ")?;
        let path = PathBuf::from("/").join(name);
        if let Some(&known) = self.known.get(&path) {
            return known;
        }
        let nice = nice.parse::<i32>().ok()?;
        let weight = steelyard_scenario::weight_of_niceness(nice);
        let name = short(name, LONGEST).into_owned();
        self.told.push(ControlGroup { name, weight, cap_percent: 0, within: None });
        let place = Some(self.told.len() as u32 - 1);
        self.known.insert(path, place);
        place
    }
}
