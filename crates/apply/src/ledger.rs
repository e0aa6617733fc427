// SPDX-License-Identifier: GPL-2.0-only
//! Changes that go on: knobs that are turned again and again, and are given back the value that they had at first.
//!
//! Before knobs are turned the journal tells of it beside all that was done before, one change after the other: whether
//! a crash comes before, between or after them, going backwards leads to the first value. What has been done since is
//! one change from the first value to the last.

use crate::change::Change;
use crate::error::{ApplyError, FailedChange, StateError};
use crate::knob::Knob;
use crate::{Host, Journal, Others, State, Undone, make, take_back};

/// The journal of changes that go on, locked.
#[derive(Debug)]
pub struct Ledger {
    state: State,
    host: Host,
    boot: String,
    /// From each knob's first value to its last.
    made: Vec<Change>,
}

impl Ledger {
    /// An empty one.
    ///
    /// # Errors
    /// Something is applied already, or the journal cannot be kept.
    pub fn open(host: &Host) -> Result<Ledger, ApplyError> {
        let state = State::make(host)?;
        if state.read()?.is_some() {
            return Err(StateError::Applied(state.journal_path()).into());
        }
        Ok(Ledger { state, host: host.clone(), boot: host.boot(), made: vec![] })
    }

    /// The value that a knob had at first, if it was turned and has another now.
    #[must_use]
    pub fn first(&self, knob: &Knob) -> Option<&str> {
        self.made.iter().find(|made| made.knob == *knob).map(|made| made.old.as_str())
    }

    /// All that is not as it was at first.
    #[must_use]
    pub fn made(&self) -> &[Change] {
        &self.made
    }

    /// Turns knobs; what of each failed. Then it is as it was, as far as can be told.
    ///
    /// # Errors
    /// The journal cannot be written: nothing was turned.
    pub fn turn(&mut self, changes: Vec<Change>) -> Result<Vec<Option<FailedChange>>, StateError> {
        if changes.is_empty() {
            return Ok(vec![]);
        }
        let all = [self.made.as_slice(), &changes].concat();
        self.state.write(&Journal::new(self.boot.clone(), all))?;
        let mut told = vec![];
        for change in changes {
            let outcome = make(&change, &self.host);
            match &outcome {
                Ok(()) => self.add(change.clone()),
                // Nobody else made that of it.
                Err(FailedChange::NotTaken(now)) => {
                    self.add(Change { new: now.clone(), ..change.clone() });
                }
                // Whether it was made nobody knows: it is taken back as if it was.
                Err(FailedChange::Knob(_)) => self.made.push(change.clone()),
                Err(FailedChange::Meanwhile(_) | FailedChange::Stopped) => {}
            }
            told.push(outcome.err());
        }
        Ok(told)
    }

    fn add(&mut self, change: Change) {
        match self.made.iter_mut().rev().find(|made| made.knob == change.knob) {
            Some(made) => made.new = change.new,
            None => self.made.push(change),
        }
        self.made.retain(|made| made.old != made.new);
    }

    /// Gives every knob its first value back.
    ///
    /// # Errors
    /// The journal cannot be written. What could not be taken back is no error, but said.
    pub fn end(self, others: Others) -> Result<Vec<Undone>, StateError> {
        take_back(&self.state, &Journal::new(self.boot.clone(), self.made), &self.host, others)
    }
}
