// SPDX-License-Identifier: GPL-2.0-only
//! Who is no vCPU in a recording of a Linux host: what is made of those threads for its replay.

use std::collections::BTreeMap;
use std::sync::Arc;

use steelyard_recording::groups::{Groups, Member};
use steelyard_recording::{Figures, Group, Owners, Placement, merged};
use steelyard_simulator::config::HostTasks;
use steelyard_simulator::measure::{TimeMeasure, Waits};
use steelyard_simulator::units::CpuSet;

use crate::causes::{GoneOn, Load};
use crate::priority;

/// How the names of threads of the kernel begin that run often.
const KERNEL_THREADS: [&str; 20] = [
    "cpuhp/",
    "irq/",
    "jbd2/",
    "kauditd",
    "kblockd",
    "kcompactd",
    "khugepaged",
    "ksmd",
    "ksoftirqd/",
    "kswapd",
    "kthreadd",
    "kworker/",
    "migration/",
    "napi/",
    "nvme",
    "rcu",
    "scsi_",
    "txg_",
    "writeback",
    "xfs",
];

/// A thread that is no vCPU.
#[derive(Default)]
pub(crate) struct OtherThread {
    pub name: Arc<str>,
    /// Among all of them, in order of their first runs.
    pub index: u32,
    pub priority: Option<u32>,
    pub placement: Option<Arc<Placement>>,
    /// Not all its runs are told of, nor whether it could have gone on.
    pub partial: bool,
    /// Whether it was told when it was woken, or that it could have gone on: then its waits are known.
    pub waits_told: bool,
    pub load: Load,
    pub runs: u64,
    pub gotten_ns: u64,
}

impl OtherThread {
    /// Those that hold it: real-time threads none does.
    pub fn groups(&self) -> &[Group] {
        match &self.placement {
            Some(placement) if self.priority() >= priority::NICE_LEAST => &placement.groups,
            _ => &[],
        }
    }

    /// Whether it is a thread of the kernel, as its name has it: no recording tells.
    fn is_of_kernel(&self) -> bool {
        self.groups().is_empty() && KERNEL_THREADS.iter().any(|begin| self.name.starts_with(begin))
    }

    /// The domain that it belongs to, by its number there.
    pub fn owner(&self, owners: &Owners) -> Option<usize> {
        owners.of(self.priority, self.groups())
    }

    fn priority(&self) -> u32 {
        priority::known(self.priority)
    }

    /// As a member of its groups, with what it ran and waited over such a time.
    pub fn member(&self, figures: &Figures, elapsed_ns: u64) -> Member<'_> {
        let runnable_ns = figures.gotten_ns.saturating_add(figures.waited_ns.unwrap_or(0));
        Member {
            domain: None,
            groups: self.groups(),
            weight: priority::weight(self.priority()).into(),
            activity: runnable_ns as f64 / elapsed_ns.max(1) as f64,
        }
    }

    /// What it got.
    pub fn time(&self, figures: Figures, elapsed_ns: u64) -> TimeMeasure {
        let gotten_ns = self.gotten_ns.min(elapsed_ns);
        let time = TimeMeasure { gotten_ns, switches: self.runs, ..TimeMeasure::default() };
        let (waited_ns, waits) = match (self.waits_told, figures.waits) {
            (true, Some(mut waits)) => {
                // Only those of them are known that are no vCPUs either.
                waits.worst.iter_mut().for_each(|worst| worst.ran.clear());
                (figures.waited_ns.unwrap_or(0), Waits::of(waits.histogram, waits.worst))
            }
            _ => (0, Waits::default()),
        };
        let waited_ns = waited_ns.min(elapsed_ns - gotten_ns);
        let blocked_ns = elapsed_ns - gotten_ns - waited_ns;
        TimeMeasure { waited_ns, blocked_ns, waits, ..time }
    }
}

/// Threads of the rest of the host that are held alike.
pub(crate) struct Rest {
    pub name: String,
    pub weight: u32,
    pub ungrouped: bool,
    /// The groups around them, the innermost first.
    pub around: Vec<Group>,
    pub tasks: HostTasks,
    pub times: Vec<TimeMeasure>,
    pub loads: Vec<Load>,
    pub pins: Vec<Option<CpuSet>>,
}

/// What holds such threads, in the order in which they are shown.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Held {
    /// In no group, or one that hardly used anything, as of which each has the usual weight: each by itself, the less
    /// urgent first.
    Alone { urgency: u32, kernel: bool },
    /// A group where there are vCPUs too: likewise, beside them.
    Beside { group: u64, urgency: u32 },
    /// A group of their own.
    Group(u64),
}

/// Who is no vCPU as domains: of each group one, and of those in none one for threads that are equally urgent; and who
/// goes on with what others did. `figures` are in the order of their indices.
pub(crate) fn rest_of_the_host(
    others: impl Iterator<Item = OtherThread>,
    figures: &[Figures],
    groups: &Groups,
    elapsed_ns: u64,
) -> (Vec<Rest>, GoneOn) {
    let others: Vec<_> = others.filter(|other| other.gotten_ns > 0).collect();
    let mut used_ns: BTreeMap<u64, u64> = BTreeMap::new();
    for other in &others {
        if let Some(group) = other.groups().first() {
            let used_ns = used_ns.entry(group.id).or_default();
            *used_ns = used_ns.saturating_add(other.gotten_ns);
        }
    }
    let least_ns = elapsed_ns / 1000 * priority::LEAST_PERMILLE;
    let mut alike: BTreeMap<Held, Vec<OtherThread>> = BTreeMap::new();
    for other in others {
        let urgency = u32::MAX - other.priority();
        let held = match other.groups().first() {
            Some(group) if groups.has_vcpus(group) => Held::Beside { group: group.id, urgency },
            Some(group) if used_ns[&group.id] >= least_ns => Held::Group(group.id),
            // The niceness of a thread counts within its group.
            Some(_) => Held::Alone { urgency: u32::MAX - priority::NICE_USUAL, kernel: false },
            None => Held::Alone { urgency, kernel: other.is_of_kernel() },
        };
        alike.entry(held).or_default().push(other);
    }
    let (mut rest, mut gone_on) = (vec![], GoneOn::new());
    for (held, mut threads) in alike {
        while !threads.is_empty() {
            let some = threads.drain(..threads.len().min(priority::MAX_THREADS)).collect();
            let mut one = one_domain(held, some, figures, groups, elapsed_ns);
            if matches!(held, Held::Group(_)) {
                one.go_on(elapsed_ns, &mut gone_on);
            }
            rest.push(one);
        }
    }
    (rest, gone_on)
}

impl Rest {
    /// Who comes after another goes on with what that one did. The kernel takes a thread that ends out of its group's
    /// load at once, and one that begins for busy; vCPUs that sleep for good would be in the average for a while, and
    /// leave each of many threads that live for a moment a part of the group's weight.
    fn go_on(&mut self, elapsed_ns: u64, gone_on: &mut GoneOn) {
        let (times, loads) = (std::mem::take(&mut self.times), std::mem::take(&mut self.loads));
        let pins = std::mem::take(&mut self.pins);
        let mut threads: Vec<_> = times
            .into_iter()
            .zip(loads)
            .zip(pins)
            .map(|((time, load), pin)| (time, load, pin))
            .collect();
        threads.sort_by_key(|(_, load, _)| load.first_ns());
        let mut alike: Vec<(TimeMeasure, Load, Option<CpuSet>)> = vec![];
        for (time, load, pin) in threads {
            let before = |it: &&mut (TimeMeasure, Load, Option<CpuSet>)| {
                it.2 == pin && load.comes_after(&it.1)
            };
            match alike.iter_mut().find(before) {
                Some((before_time, before, _)) => {
                    let number = load.number;
                    gone_on.insert(number, (before.number, before.go_on(load)));
                    add(before_time, &time);
                    let awake_ns = before_time.gotten_ns.saturating_add(before_time.waited_ns);
                    before_time.blocked_ns = elapsed_ns.saturating_sub(awake_ns);
                }
                None => alike.push((time, load, pin)),
            }
        }
        for (time, load, pin) in alike {
            self.times.push(time);
            self.loads.push(load);
            self.pins.push(pin);
        }
    }
}

/// Adds what another got, and how it waited; of two waits that are as long the first is the worst.
pub(crate) fn add(total: &mut TimeMeasure, other: &TimeMeasure) {
    let histogram = merged(&total.waits.histogram, &other.waits.histogram, u64::saturating_add);
    let worst = [&total.waits.worst, &other.waits.worst].into_iter().flatten();
    let worst =
        worst.reduce(|one, other| if other.length_ns > one.length_ns { other } else { one });
    total.waits = Waits::of(histogram, worst.cloned());
    total.add_sums(other);
}

fn one_domain(
    held: Held,
    threads: Vec<OtherThread>,
    figures: &[Figures],
    groups: &Groups,
    elapsed_ns: u64,
) -> Rest {
    let of = |other: &OtherThread| figures.get(other.index as usize).cloned().unwrap_or_default();
    let busiest = threads.iter().max_by_key(|other| other.gotten_ns);
    let busiest = busiest.map_or("", |other| &other.name);
    let chain = threads.first().map_or(&[][..], OtherThread::groups);
    let around = match held {
        Held::Alone { .. } => &[],
        Held::Beside { .. } => chain,
        Held::Group(_) => chain.get(1..).unwrap_or_default(),
    }
    .to_vec();
    let weights =
        threads.iter().map(|other| groups.of_thread(&other.member(&of(other), elapsed_ns)));
    let tasks = match held {
        Held::Alone { urgency, kernel } => HostTasks { priority: u32::MAX - urgency, kernel },
        Held::Beside { urgency, .. } => HostTasks { priority: u32::MAX - urgency, kernel: false },
        Held::Group(_) => HostTasks { priority: priority::NICE_USUAL, kernel: false },
    };
    let name = priority::rest_name(&tasks);
    let (name, weight) = match held {
        Held::Alone { .. } => (name, f64::from(priority::weight(tasks.priority)) * groups.unit()),
        Held::Beside { .. } => {
            (format!("{name}, beside vCPUs"), weights.sum::<f64>() / threads.len() as f64)
        }
        Held::Group(_) => {
            (format!("{name}, group of {busiest}"), groups.weight(chain).unwrap_or(1.0))
        }
    };
    let pins = threads.iter().map(|other| other.placement.as_ref()?.pcpus.clone()).collect();
    let (times, loads) =
        threads.into_iter().map(|other| (other.time(of(&other), elapsed_ns), other.load)).unzip();
    Rest {
        name,
        weight: weight.round() as u32,
        ungrouped: !matches!(held, Held::Group(_)),
        around,
        tasks,
        times,
        loads,
        pins,
    }
}
