// SPDX-License-Identifier: GPL-2.0-only
//! A Linux host as a source, whatever schedules it: processes with vCPU threads are domains, times
//! are those of `/proc/PID/task/TID/schedstat`, weights and caps those of control groups.
//! That needs no privilege. With it a program in the kernel tells of single runs and waits, and sums
//! are those of that program.
//!
//! A thread's files stay open: to read them again is cheap, and a thread that is gone says so, even
//! if its number was given to another. Anybody may call their threads as vCPUs are called: of those for which
//! there is no room it is said how many they are, and all others are watched.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use std::{error, fmt, io};

use rustix::param::clock_ticks_per_second;
use steelyard_boundary::text::{LONGEST, short, told};

use crate::interval::ProcessTimes;
use crate::metrics::Counter;
use crate::observed::Observed;
use crate::open_files;
use steelyard_recording::group_path;
use steelyard_recording::qemu;
use steelyard_recording::weight;
use steelyard_recording::{
    Domain, Figures, GroupPath, Host, Snapshot, State, Structure, ThreadEvents, Vcpu,
};

/// A process is looked at anew, for vCPUs, weight and cap, at least every so many samples.
const LOOK_EVERY: u64 = 10;
/// And so many times after it was seen first: vCPU threads get their names a little later.
const LOOKS_AT_FIRST: u64 = 3;
/// vCPUs that are watched at most: of one domain, of all.
const DOMAIN_VCPUS: usize = 1024;
const VCPUS: usize = 16_384;
/// Bytes of a command line, at whose beginning a VM has its name.
const COMMAND_LINE: u64 = 64 << 10;
/// Links of the threads' directory where one of them is known to be gone: no directory has none.
const STALE: u64 = 0;

/// This host.
pub struct LinuxSource {
    proc: PathBuf,
    groups: PathBuf,
    began: Instant,
    began_unix_ns: u64,
    states: bool,
    /// Or why not.
    observed: Result<Observed, String>,
    /// What schedules instead of Linux's own scheduler.
    instead: Option<String>,
    /// Single runs and waits that are missing, as last told: a power of two.
    lost: u64,
    /// vCPUs that can be watched.
    room: usize,
    /// vCPUs for which there is none, and as last told: a power of two.
    left_out: usize,
    left_out_told: usize,
    samples: u64,
    processes: BTreeMap<u32, Process>,
    times: ProcessTimes,
    structure: Option<Arc<Structure>>,
}

struct Process {
    /// The number of its threads and the sample when it was looked at.
    links: u64,
    seen_at: u64,
    /// If it has vCPUs.
    domain: Option<Tracked>,
    /// If it is a helper of the kernel's for another: that one, and its times.
    helps: Option<(u32, File)>,
    /// vCPUs for which there was no room.
    left_out: usize,
}

struct Tracked {
    /// Its vCPUs are those of `threads`.
    domain: Domain,
    threads: Vec<Thread>,
    /// Of the whole process.
    stat: Option<File>,
    /// Whether its control groups could be read.
    knows_groups: bool,
}

/// How a domain is held.
struct Held {
    weight: u32,
    cap_percent: u32,
    /// By nothing: each vCPU has the weight for itself.
    ungrouped: bool,
    /// How many groups are around its own, if that can be told.
    groups_around: Option<u32>,
    /// Whether that is more than a guess.
    known: bool,
}

impl Default for Held {
    fn default() -> Held {
        Held {
            weight: weight::USUAL as u32,
            cap_percent: 0,
            ungrouped: false,
            groups_around: None,
            known: false,
        }
    }
}

struct Thread {
    directory: PathBuf,
    schedstat: File,
    /// While states are wanted.
    stat: Option<File>,
}

impl LinuxSource {
    /// The host whose `/proc` and `/sys/fs/cgroup` these are.
    ///
    /// # Errors
    /// [`LinuxError`].
    pub fn new(
        proc: impl Into<PathBuf>,
        groups: impl Into<PathBuf>,
    ) -> Result<LinuxSource, LinuxError> {
        let proc = proc.into();
        if proc.join("self").exists() && !proc.join("self/schedstat").exists() {
            return Err(LinuxError::NoSchedstat);
        }
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let source = LinuxSource {
            proc,
            groups: groups.into(),
            began: Instant::now(),
            began_unix_ns: began.as_nanos() as u64,
            states: true,
            observed: Err("not looked for".to_owned()),
            instead: None,
            lost: 0,
            // One file for its times, one for its state.
            room: (open_files::for_threads() / 2).min(VCPUS),
            left_out: 0,
            left_out_told: 0,
            samples: 0,
            processes: BTreeMap::new(),
            times: ProcessTimes::new(),
            structure: None,
        };
        source.idle_ns()?;
        Ok(source)
    }

    /// Looks at single runs and waits too, from now on, if it can; it says so in `unseen` if not.
    /// `/proc` must be that of this kernel.
    pub fn observe(&mut self) {
        self.observed = Observed::attach(self.began);
        self.structure = None;
    }

    /// Where it observes: all runs of other threads too, for who will replay the whole host.
    pub fn tell_others(&mut self) {
        if let Ok(observed) = &mut self.observed {
            observed.tell_others();
        }
    }

    /// Whether states and pCPUs of vCPUs are looked at: without [`LinuxSource::observe`] it costs as
    /// much as all else.
    pub fn set_states(&mut self, wanted: bool) {
        self.states = wanted;
    }

    /// Whether snapshots have single runs and waits where they can be seen, or their sums only.
    pub fn set_segments(&mut self, wanted: bool) {
        if let Ok(observed) = &mut self.observed {
            observed.set_keeps(wanted);
        }
    }

    /// To be called now and then if there is no sample for a second or more: the kernel keeps single
    /// runs and waits no longer.
    pub fn attend(&mut self) {
        if let Ok(observed) = &mut self.observed {
            observed.attend();
        }
    }

    /// vCPUs that are not watched, because there are too many.
    #[must_use]
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// CPU time of all threads of each process that is a domain, and of its helpers in the kernel, up to the last
    /// snapshot.
    #[must_use]
    pub fn processes(&self) -> ProcessTimes {
        self.times.clone()
    }

    /// What the scheduler of this host has decided, if it is one of this project's and is seen.
    #[must_use]
    pub fn counters(&self) -> Vec<Counter> {
        self.observed.as_ref().map_or(vec![], Observed::counters)
    }

    fn read_times(&mut self) {
        self.times.clear();
        for (&pid, process) in &self.processes {
            let stat = process.domain.as_ref().and_then(|tracked| tracked.stat.as_ref());
            if let Some(ns) = stat.and_then(process_ns) {
                *self.times.entry(pid.into()).or_default() += ns;
            }
            if let Some((helped, stat)) = &process.helps
                && self.processes.get(helped).is_some_and(|helped| helped.domain.is_some())
                && let Some(ns) = process_ns(stat)
            {
                *self.times.entry((*helped).into()).or_default() += ns;
            }
        }
    }

    /// The next snapshot: now.
    ///
    /// # Errors
    /// [`LinuxError`].
    pub fn sample(&mut self) -> Result<Snapshot, LinuxError> {
        let mut changed = self.find()?;
        if let (true, Ok(observed)) = (changed, &mut self.observed) {
            observed.find();
        }
        let time_ns = self.began.elapsed().as_nanos() as u64;
        let idle_ns = self.idle_ns()?;
        if let Ok(observed) = &mut self.observed {
            observed.look(time_ns);
        }
        let mut vcpus = vec![];
        for process in self.processes.values_mut() {
            let Some(Tracked { domain, threads, .. }) = &mut process.domain else { continue };
            let all = threads.len();
            let mut kept = vec![];
            let mut ids = domain.vcpus.iter().map(|vcpu| vcpu.id);
            threads.retain_mut(|thread| {
                let observed = self.observed.as_ref().ok().zip(ids.next());
                let figures = observed
                    .and_then(|(observed, tid)| observed.figures(tid))
                    .or_else(|| thread.figures(self.states));
                kept.push(figures.is_some());
                vcpus.extend(figures);
                kept.last() == Some(&true)
            });
            let mut kept = kept.into_iter();
            domain.vcpus.retain(|_| kept.next() == Some(true));
            changed |= threads.len() < all;
            if threads.is_empty() {
                process.domain = None;
                // The number of another process, perhaps.
                process.links = STALE;
            }
        }
        self.read_times();
        self.samples += 1;
        let lost = self.observed.as_ref().map_or(0, Observed::lost);
        if lost > self.lost {
            self.lost = lost.checked_next_power_of_two().unwrap_or(lost);
            changed = true;
        }
        let instead = self.observed.as_mut().ok().and_then(Observed::instead);
        if instead != self.instead {
            self.instead = instead;
            changed = true;
        }
        let left_out = self.left_out.checked_next_power_of_two().unwrap_or(usize::MAX);
        let left_out = if self.left_out == 0 { 0 } else { left_out };
        if left_out != self.left_out_told {
            self.left_out_told = left_out;
            changed = true;
        }
        let known = self
            .structure
            .take()
            .filter(|known| !changed && known.host.pcpus as usize == idle_ns.len());
        let structure = match known {
            Some(known) => known,
            None => Arc::new(self.describe(idle_ns.len() as u32)),
        };
        self.structure = Some(structure.clone());
        let (segments, others, threads) = (vec![], vec![], ThreadEvents::default());
        let mut snapshot =
            Snapshot { structure, time_ns, idle_ns, vcpus, segments, others, threads, lost };
        if let Ok(observed) = &mut self.observed {
            observed.complete(&mut snapshot);
        }
        Ok(snapshot)
    }

    /// Looks for processes that came, went or changed; whether there were any of interest.
    fn find(&mut self) -> Result<bool, LinuxError> {
        let failed = |error| LinuxError::Unreadable(self.proc.clone(), error);
        let mut before = std::mem::take(&mut self.processes);
        let mut room = self.room.saturating_sub(before.values().map(Process::vcpus).sum());
        let mut changed = false;
        for entry in fs::read_dir(&self.proc).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            let known = before.remove(&pid);
            let seen_at = known.as_ref().map_or(self.samples, |known| known.seen_at);
            let due = (self.samples + u64::from(pid)).is_multiple_of(LOOK_EVERY)
                || self.samples < seen_at + LOOKS_AT_FIRST;
            let known = match known {
                // Its vCPUs hardly ever change; other threads of it come and go all the time.
                Some(known) if known.domain.is_some() && known.links != STALE && !due => {
                    self.processes.insert(pid, known);
                    continue;
                }
                known => known,
            };
            let tasks = self.proc.join(&name).join("task");
            // Each thread is a directory, each directory a link. Who vanished meanwhile is gone.
            let Ok(links) = fs::metadata(&tasks).map(|tasks| tasks.nlink()) else { continue };
            let process = match known {
                Some(known) if known.links == links && !due => known,
                known => {
                    room += known.as_ref().map_or(0, Process::vcpus);
                    let (known, helps) = match known {
                        Some(known) => (known.domain, known.helps),
                        None => (None, self.helps(pid)),
                    };
                    let was = known.as_ref().map(|known| known.domain.clone());
                    let (domain, left_out) = self.look(pid, &tasks, known, room.min(DOMAIN_VCPUS));
                    changed |= was.as_ref() != domain.as_ref().map(|tracked| &tracked.domain);
                    let process = Process { links, seen_at, domain, helps, left_out };
                    room -= process.vcpus().min(room);
                    process
                }
            };
            self.processes.insert(pid, process);
        }
        self.left_out = self.processes.values().map(|process| process.left_out).sum();
        Ok(changed || before.values().any(|gone| gone.domain.is_some()))
    }

    /// The domain that a process is, if it has vCPUs, with so many of them at most; and how many are
    /// left out.
    fn look(
        &self,
        pid: u32,
        tasks: &Path,
        known: Option<Tracked>,
        most: usize,
    ) -> (Option<Tracked>, usize) {
        let Ok(entries) = fs::read_dir(tasks) else { return (None, 0) };
        // Who was a vCPU is one still: its file would say if it were gone.
        let names: HashMap<u64, String> = known
            .iter()
            .flat_map(|known| &known.domain.vcpus)
            .map(|vcpu| (vcpu.id, vcpu.name.clone()))
            .collect();
        let mut found = vec![];
        for entry in entries.flatten().map(|entry| entry.file_name()) {
            let Some(id) = entry.to_str().and_then(|id| id.parse().ok()) else { continue };
            let path = tasks.join(&entry);
            let name = match names.get(&id) {
                Some(name) => name.clone(),
                None => match fs::read_to_string(path.join("comm")) {
                    Ok(name) => name.trim_end().to_owned(),
                    Err(_) => continue,
                },
            };
            if let Some(number) = qemu::vcpu_number(&name) {
                found.push((number, Vcpu { id, name }, path));
            }
        }
        found.sort_by_key(|(number, vcpu, _)| (*number, vcpu.id));
        let mut left_out = found.len().saturating_sub(most);
        found.truncate(most);
        let Some((_, _, first)) = found.first() else { return (None, left_out) };
        let Held { weight, cap_percent, ungrouped, groups_around, known: knows_groups } =
            self.held(first, found.len() as u32);
        let name = match &known {
            Some(known) => known.domain.name.clone(),
            None => self.domain_name(pid),
        };
        let mut open = BTreeMap::new();
        let mut stat = None;
        if let Some(known) = known {
            open.extend(known.domain.vcpus.iter().map(|vcpu| vcpu.id).zip(known.threads));
            stat = known.stat;
        }
        let stat = stat.or_else(|| File::open(self.proc.join(pid.to_string()).join("stat")).ok());
        let (mut vcpus, mut threads) = (vec![], vec![]);
        for (_, vcpu, path) in found {
            let thread = match open.remove(&vcpu.id) {
                Some(thread) => thread,
                None => match Thread::open(&path) {
                    Ok(thread) => thread,
                    // Somebody else has them, or this process got fewer.
                    Err(error) if TOO_MANY_OPEN.contains(&error.raw_os_error()) => {
                        left_out += 1;
                        continue;
                    }
                    // It vanished.
                    Err(_) => continue,
                },
            };
            threads.push(thread);
            vcpus.push(vcpu);
        }
        let id = pid.into();
        let domain = Domain { id, name, weight, ungrouped, groups_around, cap_percent, vcpus };
        let tracked = Tracked { domain, threads, stat, knows_groups };
        ((!tracked.threads.is_empty()).then_some(tracked), left_out)
    }

    /// Whom a thread of the kernel helps: `vhost-PID`, of kernels before 6.4, is a process of its own.
    fn helps(&self, pid: u32) -> Option<(u32, File)> {
        let process = self.proc.join(pid.to_string());
        let name = fs::read_to_string(process.join("comm")).ok()?;
        let helped = name.trim_end().strip_prefix("vhost-")?.parse().ok()?;
        Some((helped, File::open(process.join("stat")).ok()?))
    }

    /// What QEMU calls the VM, or else the name of the process.
    fn domain_name(&self, pid: u32) -> String {
        let process = self.proc.join(pid.to_string());
        let read = |file: &str| {
            let mut bytes = vec![];
            let file = File::open(process.join(file)).ok()?;
            file.take(COMMAND_LINE).read_to_end(&mut bytes).ok()?;
            Some(bytes)
        };
        let comm = || Some(String::from_utf8_lossy(&read("comm")?).trim_end().to_owned());
        let name = read("cmdline").and_then(|command_line| qemu::guest_name(&command_line));
        let name = name.or_else(comm).unwrap_or_else(|| format!("process {pid}"));
        short(&name, LONGEST).into_owned()
    }

    /// From the control groups of a domain's first vCPU, up to the root: the first weight that somebody
    /// chose, the least quota, and whether there are none. libvirt gives each vCPU a group of its own, whose
    /// quota is that of one.
    fn held(&self, thread: &Path, vcpus: u32) -> Held {
        let Some(group) = GroupPath::of_thread(thread, &self.groups) else {
            return Held::default();
        };
        let (mut chosen_weight, mut cap_percent, mut ungrouped) = (None, u64::MAX, true);
        let own = group_path::own(group.path());
        let mut groups_around = None;
        for group in group.chain() {
            let weight = group.weight();
            ungrouped &= weight.is_none();
            // Without the controller a group's members are those of the group around it.
            groups_around = match groups_around {
                Some(around) => Some(around + u32::from(weight.is_some())),
                None => (own == Some(group.path()) && weight.is_some()).then_some(0),
            };
            // As it is where nobody chose one.
            chosen_weight = chosen_weight.or(weight.filter(|&weight| weight != weight::USUAL));
            if let Some(percent) = group.cap_percent() {
                let name = group.path().file_name().and_then(OsStr::to_str).unwrap_or_default();
                let of_one = name.starts_with("vcpu");
                let together = if of_one { percent * u64::from(vcpus) } else { percent };
                cap_percent = cap_percent.min(together);
            }
        }
        let cap_percent = if cap_percent == u64::MAX { 0 } else { cap_percent };
        Held {
            weight: chosen_weight.unwrap_or(weight::USUAL) as u32,
            cap_percent: u32::try_from(cap_percent).unwrap_or(u32::MAX),
            // Where a session is a group of its own it holds them.
            ungrouped: ungrouped && !self.groups_sessions(),
            groups_around,
            known: true,
        }
    }

    /// Whether threads in no other group are held together by their session.
    fn groups_sessions(&self) -> bool {
        let enabled = fs::read(self.proc.join("sys/kernel/sched_autogroup_enabled"));
        enabled.is_ok_and(|enabled| enabled.starts_with(b"1"))
    }

    fn describe(&self, pcpus: u32) -> Structure {
        let read = |file: &str| fs::read_to_string(self.proc.join("sys/kernel").join(file)).ok();
        let name = |text: Option<String>| text.map(|text| text.trim().to_owned());
        let mut unseen = vec![];
        if let Err(reason) = &self.observed {
            unseen.push(format!("Single waits, preemptions, migrations: {reason}."));
        }
        if self.lost > 0 {
            let few = self.lost;
            unseen.push(format!("Some single waits: there was no room for up to {few} events."));
        }
        if self.left_out_told > 0 {
            let few = self.left_out_told;
            unseen.push(format!(
                "Some vCPUs, up to {few}: there are more than can be watched ({} of one process, {} of \
                 all: a quarter of the files that may be open, `ulimit -Hn`).",
                DOMAIN_VCPUS, self.room
            ));
        }
        let tracked = self.processes.values().filter_map(|process| process.domain.as_ref());
        if let Some(tracked) = tracked.clone().find(|tracked| !tracked.knows_groups) {
            unseen.push(format!(
                "Weights and caps: the control groups of {} are not where they should be.",
                told(&tracked.domain.name)
            ));
        }
        let mut source = format!("Linux {}", name(read("osrelease")).unwrap_or_default());
        // As Xen's source has it.
        source.extend(self.instead.iter().flat_map(|policy| [", ", policy]));
        Structure {
            host: Host {
                name: name(read("hostname")).unwrap_or_else(|| "this host".to_owned()),
                source,
                pcpus,
                began_unix_ns: Some(self.began_unix_ns),
                unseen,
            },
            domains: tracked.map(|tracked| tracked.domain.clone()).collect(),
        }
    }

    /// Of each pCPU that is online. The kernel counts in ticks.
    fn idle_ns(&self) -> Result<Vec<u64>, LinuxError> {
        let path = self.proc.join("stat");
        let stat = fs::read_to_string(&path).map_err(|e| LinuxError::Unreadable(path, e))?;
        let pcpus = stat.lines().filter_map(|line| {
            let mut words = line.strip_prefix("cpu")?.split(' ');
            words.next()?.parse::<u32>().ok()?;
            // user, nice, system, idle, waiting for a disk
            let words: Vec<u64> = words.skip(3).take(2).flat_map(str::parse).collect();
            Some(words.iter().sum::<u64>() * (1_000_000_000 / clock_ticks_per_second().max(1)))
        });
        Ok(pcpus.collect())
    }
}

/// ENFILE and EMFILE.
const TOO_MANY_OPEN: [Option<i32>; 2] = [Some(23), Some(24)];

impl Process {
    fn vcpus(&self) -> usize {
        self.domain.as_ref().map_or(0, |tracked| tracked.threads.len())
    }
}

impl Thread {
    fn open(directory: &Path) -> io::Result<Thread> {
        let schedstat = File::open(directory.join("schedstat"))?;
        Ok(Thread { directory: directory.to_owned(), schedstat, stat: None })
    }

    /// None if it is gone.
    fn figures(&mut self, states: bool) -> Option<Figures> {
        let mut buffer = [0; 1024];
        let mut numbers = read(&self.schedstat, &mut buffer)?.split_ascii_whitespace();
        let mut number = || numbers.next()?.parse::<u64>().ok();
        let (gotten_ns, waited_ns, switches) = (number()?, Some(number()?), Some(number()?));
        let (state, pcpu) = match states {
            true => self.state_and_pcpu(&mut buffer).unzip(),
            false => {
                self.stat = None;
                (None, None)
            }
        };
        Some(Figures { state, pcpu, gotten_ns, waited_ns, switches, ..Figures::default() })
    }

    fn state_and_pcpu(&mut self, buffer: &mut [u8]) -> Option<(State, u32)> {
        if self.stat.is_none() {
            self.stat = File::open(self.directory.join("stat")).ok();
        }
        // Its name, in brackets, may have brackets and blanks in it.
        let (_, stat) = read(self.stat.as_ref()?, buffer)?.rsplit_once(") ")?;
        let mut words = stat.split(' ');
        let state = if words.next()? == "R" { State::Runnable } else { State::Blocked };
        // The state is the third word of all, the pCPU the 39th.
        Some((state, words.nth(35)?.parse().ok()?))
    }
}

/// CPU time of a process, which the kernel tells in ticks, from its `stat`.
fn process_ns(stat: &File) -> Option<u64> {
    let mut buffer = [0; 1024];
    let (_, stat) = read(stat, &mut buffer)?.rsplit_once(") ")?;
    // The state is the third word of all; 14th and 15th are the times in user space and in the kernel.
    let ticks: Vec<u64> = stat.split(' ').skip(11).take(2).flat_map(str::parse).collect();
    let tick_ns = 1_000_000_000 / clock_ticks_per_second().max(1);
    (ticks.len() == 2).then(|| ticks.iter().sum::<u64>().saturating_mul(tick_ns))
}

fn read<'a>(file: &File, buffer: &'a mut [u8]) -> Option<&'a str> {
    let length = file.read_at(buffer, 0).ok()?;
    std::str::from_utf8(&buffer[..length]).ok()
}

/// Why this host cannot be watched.
#[derive(Debug)]
pub enum LinuxError {
    /// A file of the kernel.
    Unreadable(PathBuf, io::Error),
    /// The kernel does not count waits.
    NoSchedstat,
}

impl fmt::Display for LinuxError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinuxError::Unreadable(path, error) => {
                write!(formatter, "{}: {error}", told(path))
            }
            LinuxError::NoSchedstat => formatter.write_str(
                "this kernel does not tell how long threads wait: it was built without \
                 CONFIG_SCHED_INFO",
            ),
        }
    }
}

impl error::Error for LinuxError {}
