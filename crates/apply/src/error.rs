// SPDX-License-Identifier: GPL-2.0-only
//! Why something was not done.

use std::path::PathBuf;
use std::{error, fmt, io};

use steelyard_boundary::text::told;
use steelyard_monitor::LinuxError;
use steelyard_scenario::Diagnostic;

use crate::knob::KnobError;

/// Why a plan was not applied, or nothing taken back.
#[derive(Debug)]
pub enum ApplyError {
    /// The plan, or what the host cannot do of it: nothing was changed.
    Refused(Box<Diagnostic>),
    /// The host cannot be looked at.
    Host(LinuxError),
    /// The directory or the journal in it.
    State(StateError),
    /// A change went wrong.
    Failed {
        /// Which, as a command.
        command: String,
        /// Why.
        reason: FailedChange,
        /// What of it and of all before it could not be taken back, a line each.
        left: Vec<String>,
    },
}

/// Why a change went wrong.
#[derive(Debug)]
pub enum FailedChange {
    /// It could not be made, or not looked at.
    Knob(KnobError),
    /// Somebody else changed it since it was looked at first.
    Meanwhile(String),
    /// It was made, and something else came of it.
    NotTaken(String),
    /// Somebody wanted to stop before it was made.
    Stopped,
}

/// What is wrong with the state directory or the journal.
#[derive(Debug)]
pub enum StateError {
    /// Something that the system refused.
    System(PathBuf, io::Error),
    /// Somebody else may have put it there.
    Untrusted(PathBuf, &'static str),
    /// It is no journal.
    Damaged(PathBuf, String),
    /// Another `apply` or `undo` is at work.
    Busy(PathBuf),
    /// There is a journal already.
    Applied(PathBuf),
}

impl fmt::Display for ApplyError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ApplyError::Refused(diagnostic) => diagnostic.fmt(formatter),
            ApplyError::Host(error) => error.fmt(formatter),
            ApplyError::State(error) => error.fmt(formatter),
            ApplyError::Failed { command, reason, left } => {
                write!(formatter, "{}: {reason}", told(command))?;
                match left.is_empty() {
                    true => formatter.write_str("\n  all that was changed before is as it was"),
                    false => write!(
                        formatter,
                        "\n  could not be taken back:\n    {}\n  help: `steelyard undo` tries again",
                        left.join("\n    ")
                    ),
                }
            }
        }
    }
}

impl fmt::Display for FailedChange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FailedChange::Knob(error) => error.fmt(formatter),
            FailedChange::Meanwhile(now) => {
                write!(formatter, "somebody changed it meanwhile: it is `{}` now", told(now))
            }
            FailedChange::NotTaken(now) => {
                write!(formatter, "the host made `{}` of it", told(now))
            }
            FailedChange::Stopped => formatter.write_str("not done: stopped"),
        }
    }
}

impl fmt::Display for StateError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StateError::System(path, error) => {
                write!(formatter, "{}: {error}", told(path))?;
                match error.kind() {
                    io::ErrorKind::PermissionDenied => {
                        formatter.write_str("\n  help: run it as root")
                    }
                    _ => Ok(()),
                }
            }
            StateError::Untrusted(path, why) => write!(
                formatter,
                "{}: {why}: what is in it may be somebody else's\n  help: look at it, and remove it",
                told(path)
            ),
            StateError::Damaged(path, why) => write!(
                formatter,
                "{}: this is no journal of `steelyard apply`: {}\n  help: look at it: it names what was \
                 changed, and the values before",
                told(path),
                told(why)
            ),
            StateError::Busy(path) => write!(
                formatter,
                "another `steelyard apply`, `govern` or `undo` is at work ({})\n  help: wait until it is done",
                told(path)
            ),
            StateError::Applied(path) => write!(
                formatter,
                "what a plan or a governor changed before still stands ({})\n  help: `steelyard undo` takes it \
                 back; then try again",
                told(path)
            ),
        }
    }
}

impl error::Error for ApplyError {}
impl error::Error for StateError {}

impl From<Diagnostic> for ApplyError {
    fn from(diagnostic: Diagnostic) -> Self {
        ApplyError::Refused(Box::new(diagnostic))
    }
}

impl From<LinuxError> for ApplyError {
    fn from(error: LinuxError) -> Self {
        ApplyError::Host(error)
    }
}

impl From<StateError> for ApplyError {
    fn from(error: StateError) -> Self {
        ApplyError::State(error)
    }
}
