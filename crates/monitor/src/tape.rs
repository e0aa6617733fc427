// SPDX-License-Identifier: GPL-2.0-only
//! What can be looked at in any order: a recording, or a simulation, which is recorded as it goes so
//! that it can be gone back to.

use std::fs::File;
use std::io::{self, BufReader, Seek};

use steelyard_boundary::output::scratch;
use steelyard_recording::{Recorder, Recording, Snapshot};

use crate::interval::{Interval, Past};
use crate::screen::{HISTORY, SEGMENTS};
use crate::simulation::SimulationSource;

/// A recording and a place in it.
pub(crate) struct Tape {
    recording: Option<Recording<BufReader<File>>>,
    simulated: Option<Simulated>,
    /// The number of the snapshot at the end of the interval that is shown; 0: there is none yet.
    at: usize,
    /// The two snapshots that were simulated last, and their numbers: nobody reads them back.
    newest: [Option<(usize, Snapshot)>; 2],
}

/// A simulation and the recording of it, in a file without a name.
struct Simulated {
    simulation: Box<SimulationSource>,
    recorder: Recorder<File>,
    file: File,
    length: usize,
}

impl Tape {
    pub fn of_recording(recording: Recording<BufReader<File>>) -> Tape {
        Tape { recording: Some(recording), simulated: None, at: 0, newest: [None, None] }
    }

    pub fn of_simulation(simulation: Box<SimulationSource>) -> io::Result<Tape> {
        let (recorded, file) = scratch()?;
        let recorder = Recorder::new(recorded);
        let simulated = Simulated { simulation, recorder, file, length: 0 };
        Ok(Tape { recording: None, simulated: Some(simulated), at: 0, newest: [None, None] })
    }

    /// The number of the interval's last snapshot, from 1 on, and how many there are so far.
    pub fn position(&self) -> (usize, usize) {
        (self.at + 1, self.length())
    }

    fn length(&self) -> usize {
        match (&self.simulated, &self.recording) {
            (Some(simulated), _) => simulated.length,
            (None, Some(recording)) => recording.len(),
            (None, None) => 0,
        }
    }

    /// Goes so many intervals on or back, as far as there are some: to an interval, none if it did not
    /// move; after a jump also what was before it, the newest first, as much as a screen keeps.
    pub fn step(&mut self, intervals: isize) -> io::Result<(Option<Interval>, Vec<Past>)> {
        let target = match (&self.simulated, intervals) {
            // Its end is not known: the newest that was seen.
            (Some(simulated), isize::MAX) => simulated.length.saturating_sub(1),
            _ => self.at.saturating_add_signed(intervals),
        };
        let target = target.min(self.simulate(target)?.saturating_sub(1)).max(1);
        if target == self.at {
            return Ok((None, vec![]));
        }
        let Some(mut from) = self.snapshot(target - 1)? else { return Ok((None, vec![])) };
        let Some(to) = self.snapshot(target)? else { return Ok((None, vec![])) };
        let jumped = target.abs_diff(self.at) > 1;
        self.at = target;
        let interval = Interval::between(&from, &to);
        let mut before = vec![];
        let mut events = interval.timeline.len();
        for number in (0..target - 1).rev().take(if jumped { HISTORY - 1 } else { 0 }) {
            let to = from;
            events += to.segments.len() + to.others.len();
            if events > SEGMENTS {
                break;
            }
            match self.snapshot(number)? {
                Some(snapshot) => from = snapshot,
                None => break,
            }
            before.push(Past::between(&from, &to));
        }
        Ok((Some(interval), before))
    }

    /// Simulates until there is a snapshot of this number or an end; how many there are then.
    fn simulate(&mut self, number: usize) -> io::Result<usize> {
        if let Some(Simulated { simulation, recorder, length, .. }) = &mut self.simulated {
            while *length <= number {
                let Some(snapshot) = simulation.sample() else { break };
                recorder.record(&snapshot)?;
                *length += 1;
                self.newest.swap(0, 1);
                self.newest[1] = Some((*length - 1, snapshot));
            }
        }
        Ok(self.length())
    }

    fn snapshot(&mut self, number: usize) -> io::Result<Option<Snapshot>> {
        let newest = self.newest.iter().flatten().find(|(newest, _)| *newest == number);
        if let Some((_, snapshot)) = newest {
            return Ok(Some(snapshot.clone()));
        }
        if let Some(Simulated { file, .. }) = &self.simulated
            && self.recording.as_ref().is_none_or(|recording| recording.len() <= number)
        {
            let mut file = file.try_clone()?;
            file.rewind()?;
            let recording = Recording::new(BufReader::new(file)).map_err(io::Error::other)?;
            self.recording = Some(recording);
        }
        Ok(self.recording.as_mut().and_then(|recording| recording.snapshot(number)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use steelyard_policy::Policy;
    use steelyard_simulator::Simulation;
    use steelyard_simulator::config::{Domain, Host, Setup};
    use steelyard_simulator::workload::Busy;

    use super::*;

    const INTERVAL_NS: u64 = 20_000_000;

    #[test]
    fn after_a_jump_what_was_before_is_there_too() {
        let setup = Setup {
            host: Host::with_pcpus(1),
            domains: vec![Domain::new("busy", 2).with_task(2, Busy::default())],
        };
        let simulation = Simulation::new(&setup, &Policy::named("credit2").unwrap(), 1).unwrap();
        let source = SimulationSource::new(simulation, "small", INTERVAL_NS, 600 * INTERVAL_NS);
        let mut tape = Tape::of_simulation(Box::new(source)).unwrap();
        // So many steps, then so far, with so much before that.
        for (steps, at, before) in [
            (1, 1, 0),
            (10, 11, 10),
            (1, 12, 0),
            (-10, 2, 1),
            (isize::MIN, 1, 0),
            (isize::MAX, 12, 11),
            (500, 512, HISTORY - 1),
        ] {
            let (interval, past) = tape.step(steps).unwrap();
            assert_eq!(interval.unwrap().time_ns, at * INTERVAL_NS);
            assert_eq!(past.len(), before);
            for (number, past) in (1..at).rev().zip(past) {
                let within = (number - 1) * INTERVAL_NS..=number * INTERVAL_NS;
                assert!(past.timeline.segments.iter().all(|it| within.contains(&it.end_ns)));
                assert_eq!(past.pcpus_busy_percent.len(), 1);
            }
        }
    }
}
