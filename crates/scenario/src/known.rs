// SPDX-License-Identifier: GPL-2.0-only
//! What the description of a host says of the threads and domains of a recording.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use steelyard_boundary::text::told;
use steelyard_recording::{Placement, Snapshot, Structure, ThreadEvents, Who, qemu};
use steelyard_simulator::units::CpuSet;

use crate::diagnostic::Diagnostic;
use crate::host::{DescribedDomain, HostDescription, Thread};
use crate::priority;

/// A description, by numbers of threads.
pub(crate) struct Known<'a> {
    description: &'a HostDescription,
    threads: HashMap<u32, &'a Thread>,
    domains: BTreeMap<u32, &'a DescribedDomain>,
}

/// How threads of a recording are held, as far as it is known.
#[derive(Default)]
pub(crate) struct Placements {
    pub all: Vec<Placement>,
    /// Those of which the description tells, by themselves or by their process.
    described: usize,
    /// Of which it tells by themselves.
    met: usize,
    unknown_ns: u64,
}

impl<'a> Known<'a> {
    pub fn of(description: &'a HostDescription) -> Known<'a> {
        let threads = description.thread.iter().map(|thread| (thread.id, thread));
        Known { description, threads: threads.collect(), domains: description.running() }
    }

    /// The thread of this number, if it is the same: numbers are given again.
    fn thread(&self, tid: u32, name: &str) -> Option<&'a Thread> {
        self.threads.get(&tid).copied().filter(|thread| thread.name == name)
    }

    /// The process of a thread.
    pub fn process(&self, tid: u32, name: &str) -> Option<u32> {
        self.thread(tid, name).map(Thread::process)
    }

    /// What a process is called of which no thread of this number ran.
    pub fn name(&self, pid: u32) -> Option<&'a str> {
        self.threads.get(&pid).map(|thread| thread.name.as_str())
    }

    /// The domain that a process is.
    pub fn domain(&self, pid: u32) -> Option<&'a DescribedDomain> {
        self.domains.get(&pid).copied()
    }

    /// How many groups are around the one that is a virtual machine's own, if that can be told.
    pub fn groups_around(&self, pid: u32) -> Option<u32> {
        let vcpu = |thread: &&&Thread| {
            thread.process() == pid && qemu::vcpu_number(&thread.name).is_some()
        };
        self.description.groups_around(self.threads.values().find(vcpu)?.group)
    }

    /// Says how a thread is held, of the first of these processes that is known; `priority` is what the recording says
    /// of it.
    pub fn place(
        &self,
        placements: &mut Placements,
        who: Who,
        (tid, name, gotten_ns): (u32, &str, u64),
        mut processes: impl Iterator<Item = u32>,
        priority: Option<u32>,
    ) -> Placement {
        // Of others than virtual machines only the first thread is told of.
        let of_process = || processes.find_map(|pid| self.threads.get(&pid).copied());
        let met = self.thread(tid, name);
        placements.met += usize::from(met.is_some());
        let thread = met.or_else(of_process);
        match thread {
            Some(_) => placements.described += 1,
            None => placements.unknown_ns = placements.unknown_ns.saturating_add(gotten_ns),
        }
        let priority = priority.or(thread.map(Thread::priority));
        let urgent = priority::known(priority) < priority::NICE_LEAST;
        let group = thread.and_then(|thread| thread.group).filter(|_| !urgent);
        let groups = self.description.chain(group);
        let pcpus = thread.and_then(|thread| thread.pcpus.clone());
        Placement { who, priority, groups, pcpus }
    }

    /// What is known of a recording of Linux by this, and what is not, a sentence each.
    ///
    /// # Errors
    /// None of its threads, or of its virtual machines, is one of the recording's (`machines` are the processes of those):
    /// it is of another host, or of another time.
    pub fn told(
        &self,
        recording: &str,
        placements: &Placements,
        machines: &[u32],
        length_ns: u64,
    ) -> Result<(Vec<String>, Vec<String>), Diagnostic> {
        let of_others = !self.domains.is_empty()
            && !machines.is_empty()
            && machines.iter().all(|pid| self.domain(*pid).is_none());
        if placements.met == 0 || of_others {
            let message = format!(
                "the description of the host {} tells of other VMs or threads than were recorded",
                told(&self.description.host.name)
            );
            return Err(Diagnostic::of_file(recording, message).with_help(
                "describe the host while you record it, not after VMs were started anew; or take the description away",
            ));
        }
        let known = vec![format!(
            "By the description of {}: control groups, niceness and pins of {} threads, {}; {}.",
            told(&self.description.host.name),
            placements.described,
            match self.domains.len() {
                1 => "name and cap of 1 VM".to_owned(),
                vms => format!("names and caps of {vms} VMs"),
            },
            told(&self.description.host.system)
        )];
        let mut unseen = vec![];
        if placements.unknown_ns > 0 {
            unseen.push(format!(
                "Threads of which the host's description does not tell: in no control group; they used {:.2} % of a CPU.",
                100.0 * placements.unknown_ns as f64 / length_ns.max(1) as f64
            ));
        }
        if let Some(scheduler) = &self.description.host.scheduler {
            unseen.push(format!(
                "The policy: a scheduler called {} was loaded; `--own` says which policy comes nearest.",
                told(scheduler)
            ));
        }
        Ok((known, unseen))
    }

    /// What recorded, with what was recorded, if that says which scheduler it was.
    pub fn source(&self, source: &str) -> String {
        let host = &self.description.host;
        match (&host.scheduler, self.description.is_xen()) {
            (Some(scheduler), true) => format!("{source} of {} {scheduler}", host.system),
            (None, false) => format!("{source} of {}", host.system),
            _ => source.to_owned(),
        }
    }
}

/// Tells of the domains in a recording of Xen.
pub(crate) struct KnownXen<'a> {
    known: Known<'a>,
    /// As it came, and as it is told.
    last: Option<(Arc<Structure>, Arc<Structure>)>,
    met: usize,
}

impl<'a> KnownXen<'a> {
    pub fn of(description: &'a HostDescription) -> KnownXen<'a> {
        KnownXen { known: Known::of(description), last: None, met: 0 }
    }

    /// Tells of those in a snapshot.
    pub fn tell(&mut self, snapshot: &mut Snapshot) {
        if let Some((_, told)) =
            self.last.as_ref().filter(|(came, _)| Arc::ptr_eq(came, &snapshot.structure))
        {
            snapshot.structure = told.clone();
            return;
        }
        let came = snapshot.structure.clone();
        let mut structure = Structure::clone(&came);
        structure.host.source = self.known.source(&structure.host.source);
        structure.host.unseen.retain(|sentence| !sentence.starts_with("Names, weights and caps"));
        let mut unknown = vec![];
        for (index, domain) in (0..).zip(&mut structure.domains) {
            let described = u32::try_from(domain.id).ok().and_then(|id| self.known.domain(id));
            let Some(described) = described else {
                unknown.push(domain.name.clone());
                continue;
            };
            self.met += 1;
            domain.name.clone_from(&described.name);
            domain.weight = described.weight.unwrap_or(domain.weight);
            domain.cap_percent = described.cap_percent.unwrap_or(domain.cap_percent);
            let vcpus = (0..).zip(&domain.vcpus).zip(&described.pin);
            let placed = vcpus.map(|((vcpu, _), pin)| Placement {
                who: Who::Vcpu(index, vcpu),
                priority: None,
                groups: vec![],
                pcpus: Some(pin.clone()),
            });
            let ThreadEvents { placements, .. } = &mut snapshot.threads;
            placements.extend(placed);
        }
        if !unknown.is_empty() {
            structure.host.unseen.push(format!(
                "Names, weights and caps of {}: the host's description does not tell of them.",
                unknown.iter().map(|name| told(name).to_string()).collect::<Vec<_>>().join(", ")
            ));
        }
        snapshot.structure = structure.into();
        self.last = Some((came, snapshot.structure.clone()));
    }

    /// What is known of a recording by this.
    ///
    /// # Errors
    /// None of its domains was recorded.
    pub fn told(&self, recording: &str) -> Result<Vec<String>, Diagnostic> {
        let host = &self.known.description.host;
        if self.met == 0 {
            let message = format!(
                "the description of the host {} tells of other domains than were recorded",
                told(&host.name)
            );
            let help = "describe the host while you record it; or take the description away";
            return Err(Diagnostic::of_file(recording, message).with_help(help));
        }
        Ok(vec![format!(
            "By the description of {}: names, weights, caps and pins of domains; {}{}.",
            told(&host.name),
            told(&host.system),
            host.scheduler.as_ref().map_or(String::new(), |it| format!(", {}", told(it)))
        )])
    }
}

/// A set of pCPUs, if it is not all that there are.
pub(crate) fn less_than_all(pin: &CpuSet, pcpus: u32) -> bool {
    (0..pcpus).any(|pcpu| pin.iter().all(|it| it != pcpu))
}
