// SPDX-License-Identifier: GPL-2.0-only
//! What happened between two snapshots: what screens, tables and programs are shown. Serialised, an
//! [`Interval`] is a line of `steelyard top --json` (described in `docs/monitor.md`).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::Serialize;
use steelyard_simulator::measure::{DomainMeasure, TimeMeasure, VcpuMeasure, Waits as Measured};
use steelyard_simulator::measure::{Segment, WorstWait};
use steelyard_simulator::{Usable, entitle, quantile_ns};

use steelyard_recording::{
    Domain, Figures, Host, OtherRun, PolicyState, Snapshot, State, Structure, merged, qemu, weight,
};

/// The host over an interval.
#[derive(Clone, Debug, Serialize)]
pub struct Interval {
    /// The host.
    pub host: Host,
    /// Its end, since the source began.
    pub time_ns: u64,
    /// Its length.
    pub length_ns: u64,
    /// How busy each pCPU was, in percent.
    pub pcpus_busy_percent: Vec<f64>,
    /// What ran beside virtual machines, in percent of one pCPU.
    pub rest_percent: f64,
    /// The domains that were there at its end, then those that were not any more.
    pub domains: Vec<DomainInterval>,
    /// Single runs and waits that ended within it.
    #[serde(skip)]
    pub timeline: Arc<Timeline>,
}

/// Single runs and waits, where the source sees them.
#[derive(Debug)]
pub struct Timeline {
    /// Who the indices of `segments` are.
    pub structure: Arc<Structure>,
    /// As in the snapshot.
    pub segments: Vec<Segment>,
    /// As in the snapshot.
    pub others: Vec<OtherRun>,
}

/// What is kept of an interval that is over.
#[derive(Debug)]
pub struct Past {
    /// As of the interval.
    pub pcpus_busy_percent: Vec<f64>,
    /// As of the interval.
    pub timeline: Arc<Timeline>,
}

impl Past {
    /// Of the interval from one snapshot to a later one.
    pub fn between(from: &Snapshot, to: &Snapshot) -> Past {
        let length_ns = to.time_ns.saturating_sub(from.time_ns);
        let idle = from.idle_ns.iter().zip(&to.idle_ns);
        let busy = idle.map(|(last, now)| 100.0 - percent(now.saturating_sub(*last), length_ns));
        Past {
            // The kernel's ticks and the clock do not go together to the last.
            pcpus_busy_percent: busy.map(|busy| busy.clamp(0.0, 100.0)).collect(),
            timeline: Arc::new(Timeline {
                structure: to.structure.clone(),
                segments: to.segments.clone(),
                others: to.others.clone(),
            }),
        }
    }
}

/// A domain over an interval.
#[derive(Clone, Debug, Serialize)]
pub struct DomainInterval {
    /// As in the snapshot.
    pub id: u64,
    /// Name.
    pub name: String,
    /// Whether it is a virtual machine; in recordings of a kernel other processes are domains too.
    pub virtual_machine: bool,
    /// Weight; none: not known.
    pub weight: Option<u32>,
    /// Most CPU time, in percent of one pCPU; 0: no limit; none: not known.
    pub cap_percent: Option<u32>,
    /// What weighted max-min fairness gives it of what virtual machines can get, in percent of one pCPU.
    pub entitlement_percent: f64,
    /// Of its emulator's and its input and output's threads, in percent of one pCPU; none: not seen.
    pub emulator_percent: Option<f64>,
    /// CPU time gotten by all its vCPUs since the source began to count.
    pub gotten_ns: u64,
    /// It began within the interval, or was seen in it first.
    pub began: bool,
    /// It ended within the interval.
    pub ended: bool,
    /// Of all its vCPUs.
    #[serde(flatten)]
    pub rates: Rates,
    /// Each vCPU.
    pub vcpus: Vec<VcpuInterval>,
    /// All of these were there before.
    #[serde(skip)]
    complete: bool,
}

/// CPU time of whole processes by the number of the domain that each is, up to a snapshot: vCPUs, emulator,
/// input and output.
pub type ProcessTimes = HashMap<u64, u64>;

/// A vCPU over an interval.
#[derive(Clone, Debug, Serialize)]
pub struct VcpuInterval {
    /// As in the snapshot.
    pub id: u64,
    /// Name.
    pub name: String,
    /// CPU time gotten since the source began to count.
    pub gotten_ns: u64,
    /// What it does at the end.
    pub state: Option<State>,
    /// Where it runs or ran last.
    pub pcpu: Option<u32>,
    /// What a policy says of it at the end, where one of this project's schedules.
    pub policy: Option<PolicyState>,
    /// Its figures.
    #[serde(flatten)]
    pub rates: Rates,
}

/// What somebody got. Percentages are of one pCPU. What is none the source cannot see.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Rates {
    /// Running.
    pub gotten_percent: f64,
    /// Runnable, not running.
    pub waited_percent: Option<f64>,
    /// Nothing to do.
    pub blocked_percent: Option<f64>,
    /// Starts on a pCPU.
    pub switches_per_s: Option<f64>,
    /// Starts on another pCPU than before.
    pub migrations_per_s: Option<f64>,
    /// Losses of a pCPU while it could have gone on.
    pub preemptions_per_s: Option<f64>,
    /// Half of the waits that ended were no longer; none if none ended.
    pub wait_p50_ns: Option<u64>,
    /// 99 % of the waits that ended were no longer.
    pub wait_p99_ns: Option<u64>,
    /// Waits that ended: upper bound of a bucket in ns, how many.
    pub waits: Option<Vec<(u64, u64)>>,
    /// The longest single wait since the source began to count.
    pub worst_wait: Option<WorstWait>,
}

impl Timeline {
    /// How many runs and waits there are in it.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.segments.len() + self.others.len()
    }
}

impl Interval {
    /// From one snapshot to a later one. Of who was not there before nothing is known yet: a vCPU
    /// may be older than the moment when a source saw it first.
    pub fn between(from: &Snapshot, to: &Snapshot) -> Interval {
        let length_ns = to.time_ns.saturating_sub(from.time_ns);
        let same = Arc::ptr_eq(&from.structure, &to.structure);
        let before: HashMap<(u64, u64), &Figures> =
            if same { HashMap::new() } else { vcpus_of(from).collect() };
        let mut figures = to.vcpus.iter().enumerate();
        let knows = Knows::of(&to.structure);
        let domains = to.structure.domains.iter().map(|domain| {
            let mut complete = true;
            let vcpus = domain.vcpus.iter().zip(figures.by_ref()).map(|(vcpu, (index, now))| {
                let last = match same {
                    true => from.vcpus.get(index),
                    false => before.get(&(domain.id, vcpu.id)).copied(),
                };
                complete &= last.is_some();
                VcpuInterval {
                    id: vcpu.id,
                    name: vcpu.name.clone(),
                    gotten_ns: now.gotten_ns,
                    state: now.state,
                    pcpu: now.pcpu,
                    policy: now.policy.clone(),
                    rates: Rates::between(last, now, length_ns),
                }
            });
            let vcpus = vcpus.collect();
            DomainInterval { complete, ..DomainInterval::new(domain, vcpus, &knows) }
        });
        let mut domains: Vec<_> = domains.collect();
        if !same {
            let ids = |structure: &Structure| -> HashSet<u64> {
                structure.domains.iter().map(|domain| domain.id).collect()
            };
            let (before, now) = (ids(&from.structure), ids(&to.structure));
            for domain in &mut domains {
                domain.began = !before.contains(&domain.id);
            }
            let gone = from.structure.domains.iter().filter(|domain| !now.contains(&domain.id));
            domains.extend(gone.map(|domain| DomainInterval {
                ended: true,
                ..DomainInterval::new(domain, vec![], &Knows::of(&from.structure))
            }));
        }
        let Past { pcpus_busy_percent, timeline } = Past::between(from, to);
        let mut interval = Interval {
            host: to.structure.host.clone(),
            time_ns: to.time_ns,
            length_ns,
            pcpus_busy_percent,
            rest_percent: 0.0,
            domains,
            timeline,
        };
        interval.divide();
        interval
    }

    /// The same with what else belongs to virtual machines, where its source sees it: their processes' times
    /// at its beginning and its end.
    #[must_use]
    pub fn with_processes(mut self, from: &ProcessTimes, to: &ProcessTimes) -> Interval {
        for domain in self.domains.iter_mut().filter(|domain| domain.complete) {
            let Some((from_ns, to_ns)) = from.get(&domain.id).zip(to.get(&domain.id)) else {
                continue;
            };
            let all = percent(to_ns.saturating_sub(*from_ns), self.length_ns);
            domain.emulator_percent = Some((all - domain.rates.gotten_percent).max(0.0));
        }
        self.divide();
        self
    }

    /// What is left beside virtual machines, and what each is entitled to of what they can get.
    fn divide(&mut self) {
        let busy: f64 = self.pcpus_busy_percent.iter().sum();
        let machines = self.domains.iter().filter(|domain| domain.virtual_machine);
        let of_machines: f64 = machines
            .clone()
            .map(|domain| domain.rates.gotten_percent + domain.emulator_percent.unwrap_or(0.0))
            .sum();
        self.rest_percent = (busy - of_machines).max(0.0);
        // Emulators run for machines, but not as their vCPUs.
        let emulators: f64 = machines.filter_map(|domain| domain.emulator_percent).sum();
        let taken = self.rest_percent + emulators;
        entitle_all(&mut self.domains, self.host.pcpus, taken);
    }

    /// When it began, since the source began.
    pub fn start_ns(&self) -> u64 {
        self.time_ns.saturating_sub(self.length_ns)
    }

    /// Mean over the pCPUs.
    pub fn busy_percent(&self) -> f64 {
        mean(self.pcpus_busy_percent.iter().copied())
    }
}

/// How sentences begin that say that weights or caps are not seen, of all domains.
const NO_WEIGHTS: [&str; 2] = ["Weights and caps:", "Names, weights and caps"];
const NO_CAPS: &str = "Control groups, caps";

/// What a source tells of its domains.
struct Knows {
    weights: bool,
    caps: bool,
    /// Threads by their names: only who has one that is called as a vCPU is a virtual machine.
    names: bool,
}

impl Knows {
    fn of(structure: &Structure) -> Knows {
        let unseen = |begin: &str| structure.host.unseen.iter().any(|it| it.starts_with(begin));
        let weights = !NO_WEIGHTS.iter().any(|begin| unseen(begin));
        let names = structure.domains.iter().any(has_vcpu);
        Knows { weights, caps: weights && !unseen(NO_CAPS), names }
    }
}

/// Whether a thread of it is called as QEMU calls those of vCPUs.
fn has_vcpu(domain: &Domain) -> bool {
    domain.vcpus.iter().any(|vcpu| qemu::vcpu_number(&vcpu.name).is_some())
}

/// What no figure tells whether a source could see it.
pub(crate) fn knows_weights(structure: &Structure) -> (bool, bool) {
    let Knows { weights, caps, .. } = Knows::of(structure);
    (weights, caps)
}

impl DomainInterval {
    fn new(domain: &Domain, vcpus: Vec<VcpuInterval>, knows: &Knows) -> DomainInterval {
        DomainInterval {
            id: domain.id,
            name: domain.name.clone(),
            virtual_machine: !knows.names || has_vcpu(domain),
            weight: knows.weights.then_some(domain.weight),
            cap_percent: knows.caps.then_some(domain.cap_percent),
            entitlement_percent: 0.0,
            emulator_percent: None,
            gotten_ns: vcpus.iter().fold(0, |sum, vcpu| vcpu.gotten_ns.saturating_add(sum)),
            began: false,
            ended: false,
            rates: Rates::together(vcpus.iter().map(|vcpu| &vcpu.rates)),
            vcpus,
            complete: false,
        }
    }

    /// CPU time per vCPU, in percent.
    pub fn average_percent(&self) -> f64 {
        mean(self.vcpus.iter().map(|vcpu| vcpu.rates.gotten_percent))
    }

    /// What a policy says of its vCPUs, if that is the same for all of which it says anything.
    pub(crate) fn of_policy<T: PartialEq>(&self, of: fn(&PolicyState) -> Option<T>) -> Option<T> {
        let mut all = self.vcpus.iter().filter_map(|vcpu| vcpu.policy.as_ref()).map(of);
        let first = all.next()??;
        all.all(|other| other.as_ref() == Some(&first)).then_some(first)
    }
}

impl Rates {
    fn between(last: Option<&Figures>, now: &Figures, length_ns: u64) -> Rates {
        let last = last.unwrap_or(now);
        let gotten_ns = now.gotten_ns.saturating_sub(last.gotten_ns);
        let waited_ns = now.waited_ns.map(|now| now.saturating_sub(last.waited_ns.unwrap_or(now)));
        let blocked_ns = waited_ns
            .map(|waited_ns| length_ns.saturating_sub(gotten_ns).saturating_sub(waited_ns));
        let per_s =
            |last: u64, now: u64| now.saturating_sub(last) as f64 * 1e9 / length_ns.max(1) as f64;
        let optional =
            |last: Option<u64>, now: Option<u64>| now.map(|now| per_s(last.unwrap_or(now), now));
        let waits = now.waits.as_ref().map(|now| {
            let last = last.waits.as_ref().map_or(&[][..], |last| &last.histogram);
            merged(last, &now.histogram, |last, now| now.saturating_sub(last))
        });
        Rates {
            gotten_percent: percent(gotten_ns, length_ns),
            waited_percent: waited_ns.map(|ns| percent(ns, length_ns)),
            blocked_percent: blocked_ns.map(|ns| percent(ns, length_ns)),
            switches_per_s: optional(last.switches, now.switches),
            migrations_per_s: optional(last.migrations, now.migrations),
            preemptions_per_s: optional(last.preemptions, now.preemptions),
            worst_wait: now.waits.as_ref().and_then(|now| now.worst.clone()),
            ..Rates::default()
        }
        .with_waits(waits)
    }

    fn with_waits(self, waits: Option<Vec<(u64, u64)>>) -> Rates {
        // The upper bound of a bucket may lie above the longest wait.
        let longest_ns = self.worst_wait.as_ref().map_or(u64::MAX, |worst| worst.length_ns);
        let quantile = |per_mille| Some(quantile_ns(waits.as_deref()?, per_mille)?.min(longest_ns));
        Rates { wait_p50_ns: quantile(500), wait_p99_ns: quantile(990), waits, ..self }
    }

    /// Sums; of waits all, of worst waits the worst.
    fn together<'a>(all: impl Iterator<Item = &'a Rates>) -> Rates {
        let sum = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
        let mut waits = None;
        let together = all.fold(Rates::default(), |mut sums, one| {
            sums.gotten_percent += one.gotten_percent;
            sums.waited_percent = sum(sums.waited_percent, one.waited_percent);
            sums.blocked_percent = sum(sums.blocked_percent, one.blocked_percent);
            sums.switches_per_s = sum(sums.switches_per_s, one.switches_per_s);
            sums.migrations_per_s = sum(sums.migrations_per_s, one.migrations_per_s);
            sums.preemptions_per_s = sum(sums.preemptions_per_s, one.preemptions_per_s);
            if let Some(more) = &one.waits {
                waits = Some(merged(waits.as_deref().unwrap_or(&[]), more, u64::saturating_add));
            }
            let length = |worst: &Option<WorstWait>| worst.as_ref().map(|worst| worst.length_ns);
            if length(&one.worst_wait) > length(&sums.worst_wait) {
                sums.worst_wait.clone_from(&one.worst_wait);
            }
            sums
        });
        together.with_waits(waits)
    }
}

/// As the simulator entitles domains. Who is no virtual machine has what it took, which is among `taken`: before
/// all others, in percent of one pCPU.
fn entitle_all(domains: &mut [DomainInterval], pcpus: u32, taken: f64) {
    let time = |gotten: f64, waited: f64, blocked: f64| {
        // Percent become ns of an interval of this length.
        let ns = |percent: f64| (percent * 1e7) as u64;
        let (gotten_ns, waited_ns, blocked_ns) = (ns(gotten), ns(waited), ns(blocked));
        let waits = Measured::default();
        VcpuMeasure {
            time: TimeMeasure { gotten_ns, waited_ns, blocked_ns, waits, ..TimeMeasure::default() },
        }
    };
    let measure = |weight, share_percent, vcpus| DomainMeasure {
        name: String::new(),
        weight,
        cap_percent: 0,
        share_percent,
        entitlement_percent: 0.0,
        time: TimeMeasure::default(),
        vcpus,
        tasks: vec![],
        unhonoured: vec![],
    };
    let usable = |percent| Usable { percent, ..Usable::default() };
    // A pCPU at a time, with more weight than all others together can have.
    let parts = (0..pcpus).map(|pcpu| (taken - 100.0 * f64::from(pcpu)).clamp(0.0, 100.0));
    let parts = parts.filter(|part| *part > 0.0).map(|part| time(part, 0.0, 100.0 - part));
    let mut measures = vec![measure(u32::MAX, taken, parts.collect())];
    let mut limits = vec![usable(100.0 * f64::from(pcpus))];
    for domain in domains.iter_mut() {
        domain.entitlement_percent = domain.rates.gotten_percent;
        if !domain.virtual_machine {
            continue;
        }
        let vcpus = domain.vcpus.iter().map(|VcpuInterval { rates, .. }| {
            let [waited, blocked] =
                [rates.waited_percent, rates.blocked_percent].map(|it| it.unwrap_or(0.0));
            time(rates.gotten_percent, waited, blocked)
        });
        let weight = domain.weight.unwrap_or(weight::USUAL as u32);
        measures.push(measure(weight, domain.rates.gotten_percent, vcpus.collect()));
        let vcpus = 100.0 * domain.vcpus.len() as f64;
        limits.push(usable(match domain.cap_percent {
            None | Some(0) => vcpus,
            Some(cap) => vcpus.min(f64::from(cap)),
        }));
    }
    entitle(&mut measures, &limits, pcpus);
    let machines = domains.iter_mut().filter(|domain| domain.virtual_machine);
    for (domain, measure) in machines.zip(&measures[1..]) {
        domain.entitlement_percent = measure.entitlement_percent;
    }
}

fn vcpus_of(snapshot: &Snapshot) -> impl Iterator<Item = ((u64, u64), &Figures)> {
    let domains = snapshot.structure.domains.iter();
    let ids = domains.flat_map(|domain| domain.vcpus.iter().map(move |vcpu| (domain.id, vcpu.id)));
    ids.zip(&snapshot.vcpus)
}

fn percent(part_ns: u64, whole_ns: u64) -> f64 {
    100.0 * part_ns as f64 / whole_ns.max(1) as f64
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1) as f64;
    values.sum::<f64>() / count
}
