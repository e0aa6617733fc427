// SPDX-License-Identifier: GPL-2.0-only
//! A simulation as a source: it is run from one snapshot to the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use steelyard_simulator::Simulation;
use steelyard_simulator::measure::{DomainMeasure, Run, VcpuMeasure};

use steelyard_recording::{
    Domain, Figures, Host, PolicyState, Snapshot, State, Structure, ThreadEvents, Vcpu, Waits,
};

/// A running simulation.
pub struct SimulationSource {
    simulation: Simulation,
    name: String,
    structure: Option<Arc<Structure>>,
    /// Where each vCPU of each domain ran last.
    ran_on: Vec<Vec<Option<u32>>>,
    interval_ns: u64,
    end_ns: u64,
    next_ns: u64,
}

impl SimulationSource {
    /// Snapshots from now on to `end_ns`, `interval_ns` apart. `name` is that of the scenario.
    pub fn new(
        mut simulation: Simulation,
        name: impl Into<String>,
        interval_ns: u64,
        end_ns: u64,
    ) -> SimulationSource {
        let next_ns = simulation.now_ns();
        simulation.trace(next_ns, u64::MAX);
        let interval_ns = interval_ns.max(1);
        SimulationSource {
            simulation,
            name: name.into(),
            structure: None,
            ran_on: vec![],
            interval_ns,
            end_ns,
            next_ns,
        }
    }

    /// The next snapshot; none at the end.
    pub fn sample(&mut self) -> Option<Snapshot> {
        self.sample_unless(&AtomicBool::new(false))
    }

    /// The same; none too once this is set.
    pub fn sample_unless(&mut self, asked: &AtomicBool) -> Option<Snapshot> {
        if self.next_ns > self.end_ns {
            return None;
        }
        let wanted = || if asked.load(Ordering::Relaxed) { Err(()) } else { Ok(()) };
        wanted().and_then(|()| self.simulation.run_watched(self.next_ns, |_| wanted())).ok()?;
        self.next_ns = match self.next_ns {
            // What is left at the end may be shorter.
            now_ns if now_ns < self.end_ns => (now_ns + self.interval_ns).min(self.end_ns),
            now_ns => now_ns.saturating_add(1),
        };
        let run = self.simulation.measure();
        let structure = self.structure.get_or_insert_with(|| Arc::new(structure(&self.name, &run)));
        let structure = structure.clone();
        let segments: Vec<_> = self.simulation.drain_segments().collect();
        let idle_ns = run.pcpus.iter().map(|pcpu| pcpu.idle_ns).collect();
        let mut vcpus: Vec<Vec<_>> = run
            .domains
            .into_iter()
            .map(|domain| domain.vcpus.into_iter().map(figures).collect())
            .collect();
        self.ran_on.resize_with(vcpus.len(), Vec::new);
        for (ran_on, vcpus) in self.ran_on.iter_mut().zip(&vcpus) {
            ran_on.resize(vcpus.len(), None);
        }
        let open: Vec<_> = self.simulation.open_segments().collect();
        for segment in segments.iter().chain(&open).filter(|segment| segment.pcpu.is_some()) {
            self.ran_on[segment.domain as usize][segment.vcpu as usize] = segment.pcpu;
        }
        for segment in &open {
            let state = if segment.pcpu.is_some() { State::Running } else { State::Waiting };
            vcpus[segment.domain as usize][segment.vcpu as usize].state = Some(state);
        }
        for (figures, ran_on) in vcpus.iter_mut().flatten().zip(self.ran_on.iter().flatten()) {
            figures.pcpu = *ran_on;
        }
        for (figures, standing) in vcpus.iter_mut().flatten().zip(self.simulation.standings()) {
            figures.policy = Some(PolicyState::from(standing));
        }
        Some(Snapshot {
            structure,
            time_ns: run.elapsed_ns,
            idle_ns,
            vcpus: vcpus.into_iter().flatten().collect(),
            segments,
            others: vec![],
            threads: ThreadEvents::default(),
            lost: 0,
        })
    }
}

fn structure(name: &str, run: &Run) -> Structure {
    let vcpu = |id: usize| Vcpu { id: id as u64, name: format!("vCPU {id}") };
    let domain = |(id, domain): (usize, &DomainMeasure)| Domain {
        id: id as u64,
        name: domain.name.clone(),
        weight: domain.weight,
        ungrouped: false,
        groups_around: None,
        cap_percent: domain.cap_percent,
        vcpus: (0..domain.vcpus.len()).map(vcpu).collect(),
    };
    Structure {
        host: Host {
            name: name.to_owned(),
            source: format!("simulation of {}", run.policy),
            pcpus: run.pcpus.len() as u32,
            began_unix_ns: None,
            unseen: vec![],
        },
        domains: run.domains.iter().enumerate().map(domain).collect(),
    }
}

fn figures(VcpuMeasure { time }: VcpuMeasure) -> Figures {
    Figures {
        // Unless it runs or waits.
        state: Some(State::Blocked),
        pcpu: None,
        gotten_ns: time.gotten_ns,
        waited_ns: Some(time.waited_ns),
        switches: Some(time.switches),
        migrations: Some(time.migrations),
        preemptions: Some(time.preemptions),
        waits: Some(Waits { histogram: time.waits.histogram, worst: time.waits.worst }),
        policy: None,
    }
}
