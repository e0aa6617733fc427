// SPDX-License-Identifier: GPL-2.0-only
//! A simulation as a source: it is run from one snapshot to the next.

use std::sync::Arc;

use steelyard_simulator::Simulation;
use steelyard_simulator::measure::{DomainMeasure, Run, VcpuMeasure};

use steelyard_recording::{Domain, Figures, Host, Snapshot, Structure, Vcpu, Waits};

/// A running simulation.
pub struct SimulationSource {
    simulation: Simulation,
    name: String,
    structure: Option<Arc<Structure>>,
    interval_ns: u64,
    end_ns: u64,
    next_ns: u64,
}

impl SimulationSource {
    /// Snapshots from now on to `end_ns`, `interval_ns` apart. `name` is that of the scenario.
    pub fn new(
        simulation: Simulation,
        name: impl Into<String>,
        interval_ns: u64,
        end_ns: u64,
    ) -> SimulationSource {
        let next_ns = simulation.now_ns();
        let interval_ns = interval_ns.max(1);
        SimulationSource {
            simulation,
            name: name.into(),
            structure: None,
            interval_ns,
            end_ns,
            next_ns,
        }
    }

    /// The next snapshot; none at the end.
    pub fn sample(&mut self) -> Option<Snapshot> {
        if self.next_ns > self.end_ns {
            return None;
        }
        self.simulation.run_until(self.next_ns);
        self.next_ns = match self.next_ns {
            // What is left at the end may be shorter.
            now_ns if now_ns < self.end_ns => (now_ns + self.interval_ns).min(self.end_ns),
            now_ns => now_ns.saturating_add(1),
        };
        let run = self.simulation.measure();
        let structure = self.structure.get_or_insert_with(|| Arc::new(structure(&self.name, &run)));
        Some(Snapshot {
            structure: structure.clone(),
            time_ns: run.elapsed_ns,
            idle_ns: run.pcpus.iter().map(|pcpu| pcpu.idle_ns).collect(),
            vcpus: run.domains.into_iter().flat_map(|domain| domain.vcpus).map(figures).collect(),
            segments: vec![],
            others: vec![],
        })
    }
}

fn structure(name: &str, run: &Run) -> Structure {
    let vcpu = |id: usize| Vcpu { id: id as u64, name: format!("vCPU {id}") };
    let domain = |(id, domain): (usize, &DomainMeasure)| Domain {
        id: id as u64,
        name: domain.name.clone(),
        weight: domain.weight,
        cap_percent: domain.cap_percent,
        vcpus: (0..domain.vcpus.len()).map(vcpu).collect(),
    };
    Structure {
        host: Host {
            name: name.to_owned(),
            source: format!("simulation of {}", run.policy),
            pcpus: run.pcpus.len() as u32,
            began_unix_ns: None,
            unseen: vec!["What a vCPU does at the moment of a snapshot, and where.".to_owned()],
        },
        domains: run.domains.iter().enumerate().map(domain).collect(),
    }
}

fn figures(VcpuMeasure { time }: VcpuMeasure) -> Figures {
    Figures {
        state: None,
        pcpu: None,
        gotten_ns: time.gotten_ns,
        waited_ns: time.waited_ns,
        switches: time.switches,
        migrations: Some(time.migrations),
        preemptions: Some(time.preemptions),
        waits: Some(Waits { histogram: time.waits.histogram, worst: time.waits.worst }),
        policy: None,
    }
}
