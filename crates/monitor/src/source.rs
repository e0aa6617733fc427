// SPDX-License-Identifier: GPL-2.0-only
//! Where snapshots come from.

use std::error;
use std::fmt;
use std::fs::File;
use std::io::BufReader;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::interval::ProcessTimes;
use crate::linux::{LinuxError, LinuxSource};
use crate::metrics::Counter;
use crate::simulation::SimulationSource;
use crate::xen::{XenError, XenSource};
use steelyard_recording::Recording;
use steelyard_recording::Snapshot;

/// Nobody waits longer for the next snapshot of a recording.
const LONGEST_S: f64 = 3600.0;

/// A source of snapshots.
pub enum Source {
    /// This host; a snapshot shows it as it is when it is asked for.
    Linux(Box<LinuxSource>),
    /// The same of Xen's dom0.
    Xen(Box<XenSource>),
    /// A simulation, whose time goes as snapshots are asked for.
    Simulation(Box<SimulationSource>),
    /// A recording, which can be looked at in any order, and the number of the next snapshot.
    Recording(Recording<BufReader<File>>, usize),
}

impl Source {
    /// The next snapshot; none at the end, and none of a simulation that is asked to stop.
    ///
    /// # Errors
    /// Those of a live source.
    pub fn sample(&mut self, asked: &AtomicBool) -> Result<Option<Snapshot>, SourceError> {
        match self {
            Source::Linux(host) => Ok(Some(host.sample().map_err(SourceError::Linux)?)),
            Source::Xen(host) => Ok(Some(host.sample().map_err(SourceError::Xen)?)),
            Source::Simulation(simulation) => Ok(simulation.sample_unless(asked)),
            Source::Recording(recording, next) => {
                let snapshot = recording.snapshot(*next);
                *next += usize::from(snapshot.is_some());
                Ok(snapshot)
            }
        }
    }

    /// CPU time of whole processes up to the last snapshot, where it sees them.
    pub fn processes(&self) -> ProcessTimes {
        match self {
            Source::Linux(host) => host.processes(),
            Source::Xen(_) | Source::Simulation(_) | Source::Recording(..) => ProcessTimes::new(),
        }
    }

    /// What a scheduler of this project has decided here, where one schedules.
    pub fn counters(&self) -> Vec<Counter> {
        match self {
            Source::Linux(host) => host.counters(),
            Source::Xen(_) | Source::Simulation(_) | Source::Recording(..) => vec![],
        }
    }

    /// vCPUs that it does not tell of, because there are too many.
    pub fn left_out(&self) -> usize {
        match self {
            Source::Linux(host) => host.left_out(),
            Source::Xen(_) | Source::Simulation(_) | Source::Recording(..) => 0,
        }
    }

    /// Whether it is a host as it is now.
    pub fn is_live(&self) -> bool {
        matches!(self, Source::Linux(_) | Source::Xen(_))
    }

    /// Whether states and pCPUs of vCPUs are wanted, where that is a question of cost.
    pub fn set_states(&mut self, wanted: bool) {
        if let Source::Linux(host) = self {
            host.set_states(wanted);
        }
    }

    /// All runs of who is no vCPU are wanted, too, where it is a question of cost.
    pub fn tell_others(&mut self) {
        if let Source::Linux(host) = self {
            host.tell_others();
        }
    }

    /// Whether single runs and waits are wanted, where it is a question of memory.
    pub fn set_segments(&mut self, wanted: bool) {
        match self {
            Source::Linux(host) => host.set_segments(wanted),
            Source::Xen(host) => host.set_segments(wanted),
            Source::Simulation(_) | Source::Recording(..) => {}
        }
    }

    /// To be called now and then by whoever waits for long: see [`LinuxSource::attend`],
    /// [`XenSource::attend`].
    pub fn attend(&mut self) {
        match self {
            Source::Linux(host) => host.attend(),
            Source::Xen(host) => host.attend(),
            Source::Simulation(_) | Source::Recording(..) => {}
        }
    }

    /// How long to wait from the one snapshot to the next: a live host's interval, or, of what has
    /// no clock of its own, the time between the two at this speed (none: no wait).
    pub fn pause(&self, interval: Duration, between_ns: u64, speed: Option<f64>) -> Duration {
        match (self, speed) {
            (Source::Linux(_) | Source::Xen(_), _) => interval,
            (_, Some(speed)) => at_speed(between_ns, speed),
            (_, None) => Duration::ZERO,
        }
    }
}

/// How long this lasts at so many times the speed, which is above 0.
pub(crate) fn at_speed(between_ns: u64, speed: f64) -> Duration {
    Duration::from_secs_f64((between_ns as f64 / 1e9 / speed).min(LONGEST_S))
}

/// Why a live source cannot be watched any more.
#[derive(Debug)]
pub enum SourceError {
    /// A Linux host.
    Linux(LinuxError),
    /// Xen.
    Xen(XenError),
}

impl fmt::Display for SourceError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SourceError::Linux(error) => error.fmt(formatter),
            SourceError::Xen(error) => error.fmt(formatter),
        }
    }
}

impl error::Error for SourceError {}
