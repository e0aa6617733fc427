// SPDX-License-Identifier: GPL-2.0-only
//! What could be changed on a host, and the host with that changed.

use steelyard_policy::{Policy, disciplines, published};
use steelyard_report::time;
use steelyard_simulator::config::{Domain, Setup};
use steelyard_simulator::limits;
use steelyard_simulator::measure::Run;
use steelyard_simulator::units::Nanoseconds;
use steelyard_simulator::workload::Workload;

use crate::{Hurt, Question, Toolstack, harm, mean};

/// A single change. Domains by their index in the setup.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Change {
    /// Another scheduler, by the name of its policy.
    Scheduler { policy: String },
    /// Another weight of a domain.
    Weight { domain: usize, was: u32, weight: u32 },
    /// Another cap of a domain; 0: none.
    Cap { domain: usize, cap_percent: u32 },
    /// A domain may use all pCPUs.
    Unpin { domain: usize },
    /// A domain asks for slices of this length.
    Slice { domain: usize, slice: Nanoseconds },
    /// The scheduler's own slice, a parameter of its policy.
    HostSlice { parameter: &'static str, slice: Nanoseconds },
    /// Fewer vCPUs of a domain.
    Vcpus { domain: usize, vcpus: u32 },
}

/// A host with a change, or with several.
#[derive(Clone)]
pub struct Trial {
    /// The last one.
    pub change: Change,
    /// Those before it.
    pub earlier: Vec<Change>,
    pub setup: Setup,
    pub policy: Policy,
}

/// So many of those that are hurt, and of those who ran meanwhile for each, are looked at.
const VICTIMS: usize = 4;
const CULPRITS: usize = 3;
/// Weights of who is hurt are raised by these, those of others lowered.
const WEIGHT_FACTORS: [u32; 3] = [2, 4, 8];
/// Who spends so much of its CPU time spinning is hurt by its own width.
const SPINS: f64 = 0.05;
/// Slices that are tried where they are shorter than what is there.
const SLICES: [Nanoseconds; 2] = [Nanoseconds::from_ms(5), Nanoseconds::from_ms(1)];

impl Change {
    /// Whether it is the same change but for how far it goes.
    pub fn is_like(&self, other: &Change) -> bool {
        use Change::{Cap, HostSlice, Scheduler, Slice, Unpin, Vcpus, Weight};
        match (self, other) {
            (Scheduler { .. }, Scheduler { .. }) | (HostSlice { .. }, HostSlice { .. }) => true,
            (Weight { domain: a, .. }, Weight { domain: b, .. })
            | (Cap { domain: a, .. }, Cap { domain: b, .. })
            | (Unpin { domain: a }, Unpin { domain: b })
            | (Slice { domain: a, .. }, Slice { domain: b, .. })
            | (Vcpus { domain: a, .. }, Vcpus { domain: b, .. }) => a == b,
            _ => false,
        }
    }

    /// Of two like ones.
    pub fn is_smaller_than(&self, other: &Change) -> bool {
        use Change::{Cap, HostSlice, Slice, Vcpus, Weight};
        match (self, other) {
            (Weight { was, weight: a, .. }, Weight { weight: b, .. }) => {
                a.abs_diff(*was) < b.abs_diff(*was)
            }
            (Slice { slice: a, .. }, Slice { slice: b, .. })
            | (HostSlice { slice: a, .. }, HostSlice { slice: b, .. }) => a > b,
            (Vcpus { vcpus: a, .. }, Vcpus { vcpus: b, .. })
            | (Cap { cap_percent: a, .. }, Cap { cap_percent: b, .. }) => a > b && *b != 0,
            _ => false,
        }
    }

    /// Whether it does away with a setting that other domains do not have.
    pub fn undoes(&self, setup: &Setup) -> bool {
        match self {
            Change::Unpin { .. } | Change::Cap { cap_percent: 0, .. } => true,
            Change::Weight { weight, .. } => *weight == usual_weight(setup),
            // More than can run at a time is of no use, and hurts who shares a lock.
            Change::Vcpus { domain, .. } => setup.domains[*domain].vcpus > setup.host.pcpus(),
            _ => false,
        }
    }

    /// A host with it; none if the policy cannot be.
    fn made(&self, mut setup: Setup, mut policy: Policy) -> Option<(Setup, Policy)> {
        match self {
            Change::Scheduler { policy: name } => policy = Policy::named(name).ok()?,
            Change::Weight { domain, weight, .. } => setup.domains[*domain].weight = *weight,
            Change::Cap { domain, cap_percent } => {
                setup.domains[*domain].cap_percent = *cap_percent;
            }
            Change::Unpin { domain } => {
                setup.domains[*domain].pin.clear();
                setup.domains[*domain].pin_soft.clear();
            }
            Change::Slice { domain, slice } => setup.domains[*domain].slice = Some(*slice),
            Change::HostSlice { parameter, slice } => {
                policy.set(parameter, &slice.0.to_string()).ok()?;
            }
            Change::Vcpus { domain, vcpus } => {
                let domain = &mut setup.domains[*domain];
                domain.vcpus = *vcpus;
                for pins in [&mut domain.pin, &mut domain.pin_soft] {
                    if pins.len() > 1 {
                        pins.truncate(*vcpus as usize);
                    }
                }
            }
        }
        Some((setup, policy))
    }

    /// For a person.
    pub fn describe(&self, question: &Question) -> String {
        let domain = |index: &usize| &question.setup.domains[*index];
        match self {
            Change::Scheduler { policy } => format!("the scheduler {policy}"),
            Change::Weight { domain: index, was, weight } => {
                format!("weight of {} {was} -> {weight}", domain(index).name)
            }
            Change::Cap { domain: index, cap_percent } => {
                let Domain { name, cap_percent: old, .. } = domain(index);
                match (old, cap_percent) {
                    (_, 0) => format!("no cap for {name}, which has one of {old} %"),
                    (0, _) => format!("a cap of {cap_percent} % for {name}"),
                    _ => format!("cap of {name} {old} -> {cap_percent} %"),
                }
            }
            Change::Unpin { domain: index } => {
                let Domain { name, pin, .. } = domain(index);
                let pins: Vec<_> = pin.iter().map(ToString::to_string).collect();
                format!("no pins for {name}, which may use pCPU {} only", pins.join(" / "))
            }
            Change::Slice { domain: index, slice } => {
                format!("slices of {} for {}", time(slice.0 as f64), domain(index).name)
            }
            Change::HostSlice { parameter, slice } => {
                let old = question.policy.value(parameter).unwrap_or_default() as f64;
                format!("slices of the scheduler {} -> {}", time(old), time(slice.0 as f64))
            }
            Change::Vcpus { domain: index, vcpus } => {
                let Domain { name, vcpus: old, .. } = domain(index);
                format!("vCPUs of {name} {old} -> {vcpus}")
            }
        }
    }
}

impl Trial {
    /// All changes, in their order.
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        self.earlier.iter().chain([&self.change])
    }

    /// Whether it is among them, but for how far it goes.
    pub fn has_like(&self, change: &Change) -> bool {
        self.changes().any(|other| other.is_like(change))
    }

    /// The host with one more; none if the policy cannot be.
    pub fn with(&self, change: &Change) -> Option<Trial> {
        let (setup, policy) = change.made(self.setup.clone(), self.policy.clone())?;
        let earlier = self.changes().cloned().collect();
        Some(Trial { change: change.clone(), earlier, setup, policy })
    }
}

/// All that is worth a trial: about those who are hurt and those who ran meanwhile.
pub fn trials(question: &Question, hurt: &[Hurt], now: &[Run]) -> Vec<Trial> {
    let setup = question.setup;
    let number = |name: &str| setup.domains.iter().position(|domain| domain.name == name);
    let victims: Vec<_> =
        hurt.iter().filter_map(|hurt| number(&hurt.domain)).take(VICTIMS).collect();
    let mut culprits: Vec<usize> = vec![];
    for hurt in hurt.iter().take(VICTIMS) {
        let names = hurt.meanwhile.iter().map(|(name, _)| name);
        let others = names.filter_map(|name| number(name));
        let others = others.filter(|other| question.is_vm(*other) && !victims.contains(other));
        culprits.extend(others.take(CULPRITS));
    }
    culprits.sort_unstable();
    culprits.dedup();

    let mut changes = vec![];
    for &domain in &victims {
        relieve(question, domain, &mut changes);
    }
    for &domain in &culprits {
        restrain(question, domain, &mut changes);
    }
    for &domain in victims.iter().chain(&culprits) {
        narrow(setup, domain, now, &mut changes);
    }
    changes.extend(host_slices(question));
    changes.extend(schedulers(question));
    let trial = |change: Change| {
        let (setup, policy) = change.made(setup.clone(), question.policy.clone())?;
        Some(Trial { change, earlier: vec![], setup, policy })
    };
    changes.into_iter().filter_map(trial).collect()
}

/// The weight in the middle of all.
fn usual_weight(setup: &Setup) -> u32 {
    let vms = setup.domains.iter().filter(|domain| domain.is_vm());
    let mut weights: Vec<_> = vms.map(|domain| domain.weight).collect();
    weights.sort_unstable();
    weights.get(weights.len() / 2).copied().unwrap_or_default()
}

/// What may help a domain that is hurt.
fn relieve(question: &Question, domain: usize, changes: &mut Vec<Change>) {
    let Domain { weight, cap_percent, pin, slice, .. } = &question.setup.domains[domain];
    let usual = Some(usual_weight(question.setup)).filter(|usual| usual > weight);
    let raised = WEIGHT_FACTORS.iter().map(|factor| weight.saturating_mul(*factor)).chain(usual);
    let raised = raised.filter(|&new| u64::from(new) <= limits::WEIGHT.most);
    changes.extend(raised.map(|new| Change::Weight { domain, was: *weight, weight: new }));
    if *cap_percent > 0 {
        changes.push(Change::Cap { domain, cap_percent: 0 });
    }
    if !pin.is_empty() {
        changes.push(Change::Unpin { domain });
    }
    // Of the kernel's schedulers, which have slices for each, only this asks for less and gets it sooner.
    if question.toolstack == Toolstack::Libvirt {
        let shorter = SLICES.iter().filter(|new| slice.is_none_or(|old| **new < old));
        changes.extend(shorter.map(|&slice| Change::Slice { domain, slice }));
    }
}

/// What may keep a domain from hurting others.
fn restrain(question: &Question, domain: usize, changes: &mut Vec<Change>) {
    let setup = question.setup;
    let Domain { weight, cap_percent, pin, .. } = &setup.domains[domain];
    let usual = Some(usual_weight(setup)).filter(|usual| usual < weight);
    let lowered = WEIGHT_FACTORS.iter().map(|factor| weight / factor).chain(usual);
    let lowered = lowered.filter(|&new| new > 0);
    changes.extend(lowered.map(|new| Change::Weight { domain, was: *weight, weight: new }));
    let part = 100 * setup.host.pcpus() / setup.domains.len().max(1) as u32;
    if part > 0 && (*cap_percent == 0 || part < *cap_percent) {
        changes.push(Change::Cap { domain, cap_percent: part });
    }
    if !pin.is_empty() {
        changes.push(Change::Unpin { domain });
    }
}

/// Fewer vCPUs for a domain that has no use for so many, or more than the host has pCPUs, or that spins: as many as it
/// has use for, as there are pCPUs, as would be its part of those if all were alike. Recorded threads keep theirs.
fn narrow(setup: &Setup, domain: usize, now: &[Run], changes: &mut Vec<Change>) {
    let Domain { vcpus, task, .. } = &setup.domains[domain];
    if task.iter().any(|task| matches!(task.workload, Workload::Replay(_))) {
        return;
    }
    let used = mean(now, |run| harm::useful_percent(run, domain)) / 100.0;
    let spins = |run: &Run| {
        let time = &run.domains[domain].time;
        time.spun_ns as f64 / time.gotten_ns.max(1) as f64
    };
    let unused = used.ceil() as u32 * 2 <= *vcpus;
    if !unused && *vcpus <= setup.host.pcpus() && mean(now, spins) < SPINS {
        return;
    }
    let part = setup.host.pcpus().div_ceil(setup.domains.len().max(1) as u32);
    let mut fewer = vec![setup.host.pcpus(), used.ceil() as u32, vcpus / 2, part];
    fewer.retain(|fewer| (1..*vcpus).contains(fewer));
    fewer.sort_unstable();
    fewer.dedup();
    changes.extend(fewer.into_iter().map(|vcpus| Change::Vcpus { domain, vcpus }));
}

/// Shorter slices for all, by the parameter that the scheduler has for that.
fn host_slices(question: &Question) -> Vec<Change> {
    let parameter = match question.policy.discipline().name {
        "credit" => "slice_ns",
        "fair" => "base_slice_ns",
        _ => return vec![],
    };
    let Some(old_ns) = question.policy.value(parameter) else { return vec![] };
    let shorter = SLICES.into_iter().filter(|slice| slice.0 < old_ns);
    shorter.map(|slice| Change::HostSlice { parameter, slice }).collect()
}

/// Every other scheduler: the newest of each discipline, and those that were published.
fn schedulers(question: &Question) -> Vec<Change> {
    let newest = disciplines().iter().map(|known| known.name);
    let names = newest.chain(published().iter().map(|(name, _)| *name));
    let others = names.filter(|name| {
        Policy::named(name).is_ok_and(|other| other.parameters() != question.policy.parameters())
    });
    others.map(|name| Change::Scheduler { policy: name.to_owned() }).collect()
}
