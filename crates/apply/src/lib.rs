// SPDX-License-Identifier: GPL-2.0-only
//! A plan, applied to a host that its own scheduler schedules, and taken back exactly: weights and caps of control
//! groups, slices and pins of threads, through libvirt where that manages the VM, through `xl` on Xen.
//!
//! All is checked before anything is changed ([`steps`]). Then what is to be changed, from what to what, is written
//! down ([`Journal`]), and changed step by step ([`apply`]). Whatever ends that, even a loss of power: [`undo`] gives
//! each knob its old value back, unless somebody else has turned it since.

mod change;
mod error;
mod group;
mod journal;
mod knob;
mod ledger;
mod libvirt;
mod plan;
mod program;
mod thread;
mod xen;

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

pub use change::{Change, Step, steps};
pub use error::{ApplyError, FailedChange, StateError};
pub use journal::{Journal, State};
pub use knob::{Knob, KnobError};
pub use ledger::Ledger;
pub use plan::Plan;
pub use program::run;
pub use thread::usual_slice_ns;
pub use xen::domains as xen_domains;

/// Where a host is looked at, and where its journal is.
#[derive(Clone, Debug)]
pub struct Host {
    /// Its `/proc`.
    pub proc: PathBuf,
    /// Its `/sys/fs/cgroup`.
    pub groups: PathBuf,
    /// Its `/run`.
    pub run: PathBuf,
    /// The directory of the journal.
    pub state: PathBuf,
}

impl Host {
    fn boot(&self) -> String {
        let boot = fs::read_to_string(self.proc.join("sys/kernel/random/boot_id"));
        boot.map(|boot| boot.trim().to_owned()).unwrap_or_default()
    }
}

/// Applies a plan: all of it, or nothing. What was to be changed, and was not so already.
///
/// # Errors
/// [`ApplyError`]. If not all could be taken back it says what, and the journal stays.
pub fn apply(plan: &Plan, host: &Host, asked: &AtomicBool) -> Result<Vec<Step>, ApplyError> {
    let state = State::make(host)?;
    if state.read()?.is_some() {
        return Err(StateError::Applied(state.journal_path()).into());
    }
    let mut steps = steps(plan, host)?;
    steps.retain(|step| step.change.old != step.change.new);
    if steps.is_empty() {
        return Ok(steps);
    }
    let changes: Vec<_> = steps.iter().map(|step| step.change.clone()).collect();
    let journal = Journal::new(host.boot(), changes);
    state.write(&journal)?;
    for (number, change) in journal.changes().iter().enumerate() {
        let made = match asked.load(Ordering::Relaxed) {
            true => Err(FailedChange::Stopped),
            false => make(change, host),
        };
        let Err(reason) = made else { continue };
        // One of which nobody knows whether it was made is taken back too.
        let untouched = matches!(reason, FailedChange::Stopped | FailedChange::Meanwhile(_));
        let mut made = journal.changes()[..number + usize::from(!untouched)].to_vec();
        if let (FailedChange::NotTaken(now), Some(last)) = (&reason, made.last_mut()) {
            // Nobody else made that of it.
            last.new.clone_from(now);
        }
        let made = Journal::new(journal.boot.clone(), made);
        let undone = take_back(&state, &made, host, Others::Leave)?;
        let left = undone.iter().filter(|undone| undone.is_left()).map(Undone::to_string).collect();
        let command = change.knob.command(&change.new);
        return Err(ApplyError::Failed { command, reason, left });
    }
    Ok(steps)
}

/// Makes a change, if all is as it was when it was looked at.
fn make(Change { knob, old, new, .. }: &Change, host: &Host) -> Result<(), FailedChange> {
    let now = |knob: &Knob| {
        let now = knob.read(host).map_err(FailedChange::Knob)?;
        Ok(now.unwrap_or_else(|| "nothing: it is gone".to_owned()))
    };
    let before = now(knob)?;
    if before != *old {
        return Err(FailedChange::Meanwhile(before));
    }
    knob.write(new).map_err(FailedChange::Knob)?;
    let after = now(knob)?;
    if after == *new { Ok(()) } else { Err(FailedChange::NotTaken(after)) }
}

/// What to do about knobs that somebody else has turned since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// Leave them, and keep them in mind.
    Leave,
    /// Leave them for good.
    Forget,
    /// Give them their old value too.
    Overrule,
}

/// What became of a change that was to be taken back.
#[derive(Debug)]
pub struct Undone {
    /// The change.
    pub change: Change,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of it.
#[derive(Debug)]
pub enum Outcome {
    /// It has its old value again.
    Restored,
    /// It has had it already.
    AsBefore,
    /// Whose it was is gone.
    Gone,
    /// Somebody gave it this value, which it keeps.
    Changed(String),
    /// It could not be done.
    Failed(FailedChange),
}

impl Undone {
    /// Whether it is still to be taken back.
    #[must_use]
    pub fn is_left(&self) -> bool {
        self.is_changed() || matches!(self.outcome, Outcome::Failed(_))
    }

    /// Whether somebody else has changed it since, and it stays so.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        matches!(self.outcome, Outcome::Changed(_))
    }
}

impl std::fmt::Display for Undone {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Change { domain, knob, old, new } = &self.change;
        write!(formatter, "{domain}: ")?;
        match &self.outcome {
            Outcome::Restored => formatter.write_str("done")?,
            Outcome::AsBefore => formatter.write_str("is so already")?,
            Outcome::Gone => formatter.write_str("has ended since, and its value with it")?,
            Outcome::Changed(now) => {
                write!(formatter, "left, somebody has changed `{new}` to `{now}` since")?;
            }
            Outcome::Failed(error) => write!(formatter, "not done, {error}")?,
        }
        write!(formatter, ": {}", knob.command(old))
    }
}

/// Takes back what was applied last, last things first. Nothing, if nothing was.
///
/// # Errors
/// [`ApplyError::State`]. What could not be taken back is no error, but said, and stays in the journal.
pub fn undo(host: &Host, others: Others) -> Result<Vec<Undone>, ApplyError> {
    let Some(state) = State::open(host)? else { return Ok(vec![]) };
    let Some(journal) = state.read()? else { return Ok(vec![]) };
    Ok(take_back(&state, &journal, host, others)?)
}

fn take_back(
    state: &State,
    journal: &Journal,
    host: &Host,
    others: Others,
) -> Result<Vec<Undone>, StateError> {
    let same_boot = journal.boot == host.boot();
    let undone: Vec<_> = journal
        .changes()
        .iter()
        .rev()
        .map(|change| {
            let there = same_boot || change.knob.outlives_the_host();
            let outcome = if there { restore(change, host, others) } else { Outcome::Gone };
            Undone { change: change.clone(), outcome }
        })
        .collect();
    let forgotten = |undone: &Undone| others == Others::Forget && undone.is_changed();
    let left = undone.iter().rev().filter(|undone| undone.is_left() && !forgotten(undone));
    let left: Vec<_> = left.map(|undone| undone.change.clone()).collect();
    match left.is_empty() {
        true => state.clear()?,
        false => state.write(&Journal::new(journal.boot.clone(), left))?,
    }
    Ok(undone)
}

fn restore(Change { knob, old, new, .. }: &Change, host: &Host, others: Others) -> Outcome {
    let now = match knob.read(host) {
        Ok(Some(now)) => now,
        Ok(None) => return Outcome::Gone,
        Err(error) => return Outcome::Failed(FailedChange::Knob(error)),
    };
    if now == *old {
        return Outcome::AsBefore;
    }
    if now != *new && others != Others::Overrule {
        return Outcome::Changed(now);
    }
    if let Err(error) = knob.write(old) {
        return Outcome::Failed(FailedChange::Knob(error));
    }
    match knob.read(host) {
        Ok(Some(now)) if now == *old => Outcome::Restored,
        Ok(Some(now)) => Outcome::Failed(FailedChange::NotTaken(now)),
        Ok(None) => Outcome::Gone,
        Err(error) => Outcome::Failed(FailedChange::Knob(error)),
    }
}
