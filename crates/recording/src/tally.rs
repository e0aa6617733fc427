// SPDX-License-Identifier: GPL-2.0-only
//! From single runs and waits to sums: what every source that sees single events makes its
//! [`Figures`] of.
//!
//! A [`Segment`] says that a vCPU ran or waited; blocked is what lies between. So a run that begins
//! where the last one ended began after a wait of no length, and who waits from where its run ended
//! was preempted.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use steelyard_simulator::measure::{Ran, Segment, WorstWait};
use steelyard_simulator::wait_bucket_ns;

use crate::snapshot::{Figures, OtherRun, State, Structure, Waits};

/// Runs that a pCPU remembers, to say who ran during a wait.
const REMEMBERED: usize = 64;
/// Who ran during a wait: as many are named.
const NAMED: usize = 8;

/// Adds segments up.
///
/// They come in order of their ends, with pCPUs below the host's number. Memory is bounded by who is there, and nothing is allocated for
/// a segment unless it is a longer wait than any before.
#[derive(Default)]
pub struct Tally {
    structure: Option<Arc<Structure>>,
    /// Of each domain, where its vCPUs are in `vcpus`.
    places: Vec<Vec<usize>>,
    vcpus: Vec<Sums>,
    /// Of the host.
    pcpus_known: u32,
    pcpus: Vec<VecDeque<Run>>,
    /// Buckets of all histograms.
    buckets: usize,
}

/// What is known of a vCPU.
#[derive(Default)]
struct Sums {
    runner: Option<Runner>,
    figures: Figures,
    waits: Waits,
    /// End of its last run.
    ran_until_ns: Option<u64>,
    /// Its last wait, if no run began since: from, to.
    waited: Option<(u64, u64)>,
    /// Beginning of the run that was counted last; it may still last.
    counted_run_ns: Option<u64>,
    /// Beginning of the wait whose preemption was counted last.
    counted_wait_ns: Option<u64>,
}

/// Who ran: a vCPU of the domain of this id, or somebody else.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Runner {
    domain: Option<u64>,
    name: Arc<str>,
    vcpu: u32,
}

struct Run {
    runner: Runner,
    start_ns: u64,
    end_ns: u64,
}

impl Tally {
    /// Who is there from now on, which comes before anything else: segments, and the figures, are in
    /// the order of this. Who was there before, by id, keeps what was counted.
    pub fn set_structure(&mut self, structure: &Arc<Structure>) {
        if self.structure.as_ref().is_some_and(|known| Arc::ptr_eq(known, structure)) {
            return;
        }
        let mut known = HashMap::new();
        let before = self.structure.iter().flat_map(|structure| &structure.domains);
        let before = before.flat_map(|domain| domain.vcpus.iter().map(|vcpu| (domain.id, vcpu.id)));
        // In the order of a structure they are in `vcpus` too.
        known.extend(before.zip(std::mem::take(&mut self.vcpus)));
        self.places.clear();
        for (index, domain) in structure.domains.iter().enumerate() {
            let name: Arc<str> = domain.name.as_str().into();
            for vcpu in &domain.vcpus {
                let sums = known.remove(&(domain.id, vcpu.id)).unwrap_or_default();
                self.place(index, domain.id, &name, sums);
            }
        }
        self.buckets = self.vcpus.iter().map(|sums| sums.waits.histogram.len()).sum();
        self.set_pcpus(structure.host.pcpus);
        self.structure = Some(structure.clone());
    }

    /// The host has so many pCPUs, instead of those of a structure.
    pub fn set_pcpus(&mut self, pcpus: u32) {
        self.pcpus_known = pcpus;
    }

    /// One more vCPU of the domain of this index and id, instead of those of a structure: for who learns
    /// one by one who is there. Nobody goes.
    pub fn join(&mut self, domain: usize, id: u64, name: &Arc<str>) {
        self.place(domain, id, name, Sums::default());
    }

    fn place(&mut self, domain: usize, id: u64, name: &Arc<str>, mut sums: Sums) {
        if self.places.len() <= domain {
            self.places.resize_with(domain + 1, Vec::new);
        }
        let places = &mut self.places[domain];
        let (domain, vcpu) = (Some(id), places.len() as u32);
        sums.runner = Some(Runner { domain, name: name.clone(), vcpu });
        places.push(self.vcpus.len());
        self.vcpus.push(sums);
    }

    /// The domain of this index is called otherwise from now on.
    pub fn rename(&mut self, domain: usize, name: &Arc<str>) {
        for &index in self.places.get(domain).into_iter().flatten() {
            if let Some(runner) = &mut self.vcpus[index].runner {
                runner.name = name.clone();
            }
        }
    }

    /// Buckets of all histograms, which is what grows.
    pub fn buckets(&self) -> usize {
        self.buckets
    }

    /// A run or wait that ended. One of a vCPU that is not in the structure counts for nobody.
    pub fn add(&mut self, segment: &Segment) {
        let Some(index) = self.index(segment) else { return };
        let length_ns = segment.end_ns.saturating_sub(segment.start_ns);
        let Some(pcpu) = segment.pcpu else {
            let sums = &mut self.vcpus[index];
            sums.begin_wait(segment.start_ns);
            let waited_ns = sums.figures.waited_ns.get_or_insert(0);
            *waited_ns = waited_ns.wrapping_add(length_ns);
            self.buckets += sums.end_wait(segment.start_ns, segment.end_ns);
            return;
        };
        self.begin_run(index, pcpu, segment.start_ns);
        let sums = &mut self.vcpus[index];
        sums.figures.gotten_ns = sums.figures.gotten_ns.wrapping_add(length_ns);
        sums.ran_until_ns = Some(segment.end_ns);
        if let Some(runner) = sums.runner.clone() {
            self.remember(pcpu, runner, segment.start_ns, segment.end_ns);
        }
    }

    /// A run of whoever is no vCPU that ended.
    pub fn add_other(&mut self, run: &OtherRun) {
        let runner = Runner { domain: None, name: run.name.clone(), vcpu: 0 };
        self.remember(run.pcpu, runner, run.start_ns, run.end_ns);
    }

    /// What each vCPU got up to now. `open` is what lasts: segments that end now, and will be added
    /// when they have ended. Who has none is blocked.
    pub fn figures(&mut self, open: &[Segment]) -> Vec<Figures> {
        // What each does, and for how long already.
        let mut lasting = vec![(State::Blocked, 0); self.vcpus.len()];
        for segment in open {
            let Some(index) = self.index(segment) else { continue };
            let length_ns = segment.end_ns.saturating_sub(segment.start_ns);
            lasting[index] = match segment.pcpu {
                Some(pcpu) => {
                    self.begin_run(index, pcpu, segment.start_ns);
                    (State::Running, length_ns)
                }
                None => {
                    self.vcpus[index].begin_wait(segment.start_ns);
                    (State::Waiting, length_ns)
                }
            };
        }
        for wait in open.iter().filter(|segment| segment.pcpu.is_none()) {
            let Some(index) = self.index(wait) else { continue };
            let sums = &mut self.vcpus[index];
            let length_ns = wait.end_ns.saturating_sub(wait.start_ns);
            if length_ns > sums.worst_ns() {
                sums.set_worst(wait.start_ns, length_ns);
                // Where it waits is not known: as a rule where it ran last.
                if let Some(pcpu) = sums.figures.pcpu {
                    self.describe_worst(index, pcpu, wait.start_ns, wait.end_ns, open);
                }
            }
        }
        let figures = self.places.iter().flatten().map(|&index| {
            let (sums, (state, length_ns)) = (&self.vcpus[index], lasting[index]);
            let open_ns = |of| if state == of { length_ns } else { 0 };
            Figures {
                state: Some(state),
                gotten_ns: sums.figures.gotten_ns.wrapping_add(open_ns(State::Running)),
                waited_ns: Some(
                    sums.figures.waited_ns.unwrap_or(0).wrapping_add(open_ns(State::Waiting)),
                ),
                switches: Some(sums.figures.switches.unwrap_or(0)),
                migrations: Some(sums.figures.migrations.unwrap_or(0)),
                preemptions: Some(sums.figures.preemptions.unwrap_or(0)),
                waits: Some(sums.waits.clone()),
                ..sums.figures.clone()
            }
        });
        figures.collect()
    }

    fn index(&self, segment: &Segment) -> Option<usize> {
        self.places.get(segment.domain as usize)?.get(segment.vcpu as usize).copied()
    }

    /// A run begins, or is told of for the second time.
    fn begin_run(&mut self, index: usize, pcpu: u32, start_ns: u64) {
        let sums = &mut self.vcpus[index];
        if sums.counted_run_ns == Some(start_ns) && sums.ran_until_ns < Some(start_ns) {
            return;
        }
        sums.counted_run_ns = Some(start_ns);
        let figures = &mut sums.figures;
        *figures.switches.get_or_insert(0) += 1;
        if figures.pcpu.is_some_and(|last| last != pcpu) {
            *figures.migrations.get_or_insert(0) += 1;
        }
        figures.pcpu = Some(pcpu);
        match sums.waited.take() {
            Some((from_ns, to_ns)) if to_ns == start_ns => {
                let worst = sums.waits.worst.as_ref();
                if worst.is_some_and(|worst| worst.start_ns == from_ns) {
                    self.describe_worst(index, pcpu, from_ns, to_ns, &[]);
                }
            }
            _ => {
                sums.begin_wait(start_ns);
                self.buckets += sums.end_wait(start_ns, start_ns);
                sums.waited = None;
            }
        }
    }

    /// Says of the longest wait who ran meanwhile on this pCPU, what lasts included.
    #[cold]
    fn describe_worst(
        &mut self,
        index: usize,
        pcpu: u32,
        start_ns: u64,
        end_ns: u64,
        open: &[Segment],
    ) {
        let past = self.pcpus.get(pcpu as usize).into_iter().flatten().rev();
        let past = past.take_while(|run| run.end_ns > start_ns);
        let past = past.map(|run| (&run.runner, run.start_ns, run.end_ns));
        let here = open.iter().filter(|segment| segment.pcpu == Some(pcpu));
        let here = here.filter_map(|segment| {
            let runner = self.vcpus[self.index(segment)?].runner.as_ref()?;
            Some((runner, segment.start_ns, segment.end_ns))
        });
        let own = self.vcpus[index].runner.as_ref();
        let mut ran: Vec<(&Runner, u64)> = vec![];
        for (runner, from_ns, to_ns) in past.chain(here) {
            let ran_ns = to_ns.min(end_ns).saturating_sub(from_ns.max(start_ns));
            if ran_ns == 0 || Some(runner) == own {
                continue;
            }
            match ran.iter_mut().find(|(known, _)| *known == runner) {
                Some((_, sum_ns)) => *sum_ns = sum_ns.saturating_add(ran_ns),
                None => ran.push((runner, ran_ns)),
            }
        }
        ran.sort_by_key(|&(_, ran_ns)| Reverse(ran_ns));
        let named = ran.into_iter().take(NAMED).map(|(runner, ran_ns)| Ran {
            domain: runner.name.as_ref().to_owned(),
            vcpu: runner.vcpu,
            ran_ns,
        });
        let named = named.collect();
        if let Some(worst) = &mut self.vcpus[index].waits.worst {
            worst.ran = named;
        }
    }

    fn remember(&mut self, pcpu: u32, runner: Runner, start_ns: u64, end_ns: u64) {
        if pcpu >= self.pcpus_known {
            return;
        }
        let pcpu = pcpu as usize;
        if self.pcpus.len() <= pcpu {
            self.pcpus.resize_with(pcpu + 1, || VecDeque::with_capacity(REMEMBERED));
        }
        let runs = &mut self.pcpus[pcpu];
        if runs.len() == REMEMBERED {
            runs.pop_front();
        }
        runs.push_back(Run { runner, start_ns, end_ns });
    }
}

impl Sums {
    fn worst_ns(&self) -> u64 {
        self.waits.worst.as_ref().map_or(0, |worst| worst.length_ns)
    }

    fn set_worst(&mut self, start_ns: u64, length_ns: u64) {
        let vcpu = self.runner.as_ref().map_or(0, |runner| runner.vcpu);
        self.waits.worst = Some(WorstWait { vcpu, start_ns, length_ns, ran: vec![] });
    }

    /// A wait begins, or is told of for the second time.
    fn begin_wait(&mut self, start_ns: u64) {
        if self.ran_until_ns == Some(start_ns) && self.counted_wait_ns != Some(start_ns) {
            self.counted_wait_ns = Some(start_ns);
            *self.figures.preemptions.get_or_insert(0) += 1;
        }
    }

    /// How many more buckets there are then.
    fn end_wait(&mut self, start_ns: u64, end_ns: u64) -> usize {
        let length_ns = end_ns.saturating_sub(start_ns);
        let bucket_ns = wait_bucket_ns(length_ns);
        let histogram = &mut self.waits.histogram;
        let before = histogram.len();
        match histogram.binary_search_by_key(&bucket_ns, |&(bound, _)| bound) {
            Ok(index) => histogram[index].1 += 1,
            Err(index) => histogram.insert(index, (bucket_ns, 1)),
        }
        let more = histogram.len() - before;
        if length_ns > self.worst_ns() {
            self.set_worst(start_ns, length_ns);
        }
        self.waited = Some((start_ns, end_ns));
        more
    }
}
