// SPDX-License-Identifier: GPL-2.0-only
//! What can be looked at in any order: a recording, or a simulation, which is recorded as it goes so
//! that it can be gone back to.

use std::fs::File;
use std::io::{self, BufReader};

use steelyard_recording::{Recorder, Recording, Snapshot};

use crate::interval::Interval;
use crate::simulation::SimulationSource;

/// A recording and a place in it.
pub(crate) struct Tape {
    recording: Option<Recording<BufReader<File>>>,
    simulated: Option<Simulated>,
    /// The number of the snapshot at the end of the interval that is shown; 0: there is none yet.
    at: usize,
    /// The snapshot of this number, looked at last.
    last: Option<(usize, Snapshot)>,
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
        Tape { recording: Some(recording), simulated: None, at: 0, last: None }
    }

    pub fn of_simulation(simulation: Box<SimulationSource>) -> io::Result<Tape> {
        let named = tempfile::NamedTempFile::new()?;
        // Another place in the same file.
        let file = named.reopen()?;
        let recorder = Recorder::new(named.into_file());
        let simulated = Simulated { simulation, recorder, file, length: 0 };
        Ok(Tape { recording: None, simulated: Some(simulated), at: 0, last: None })
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

    /// Goes so many intervals on or back, as far as there are some; none if it did not move.
    pub fn step(&mut self, intervals: isize) -> io::Result<Option<Interval>> {
        let target = match (&self.simulated, intervals) {
            // Its end is not known: the newest that was seen.
            (Some(simulated), isize::MAX) => simulated.length.saturating_sub(1),
            (Some(_), _) => self.at.saturating_add_signed(intervals),
            (None, _) => self.at.saturating_add_signed(intervals).min(self.length().max(1) - 1),
        };
        let target = target.max(1);
        if target == self.at {
            return Ok(None);
        }
        let Some(from) = self.snapshot(target - 1)? else { return Ok(None) };
        let Some(to) = self.snapshot(target)? else { return Ok(None) };
        let interval = Interval::between(&from, &to);
        self.at = target;
        self.last = Some((target, to));
        Ok(Some(interval))
    }

    fn snapshot(&mut self, number: usize) -> io::Result<Option<Snapshot>> {
        if let Some((_, last)) = self.last.as_ref().filter(|(last, _)| *last == number) {
            return Ok(Some(last.clone()));
        }
        if let Some(Simulated { simulation, recorder, file, length }) = &mut self.simulated {
            while *length <= number {
                let Some(snapshot) = simulation.sample() else { return Ok(None) };
                recorder.record(&snapshot)?;
                *length += 1;
                if *length > number {
                    return Ok(Some(snapshot));
                }
            }
            if self.recording.as_ref().is_none_or(|recording| recording.len() <= number) {
                let mut file = file.try_clone()?;
                io::Seek::rewind(&mut file)?;
                let recording = Recording::new(BufReader::new(file)).map_err(io::Error::other)?;
                self.recording = Some(recording);
            }
        }
        Ok(self.recording.as_mut().and_then(|recording| recording.snapshot(number)))
    }
}
