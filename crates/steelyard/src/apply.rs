// SPDX-License-Identifier: GPL-2.0-only
//! `steelyard apply` and `steelyard undo`: a plan for a host that its own scheduler schedules.

use steelyard_apply::{ApplyError, Host, Others, Plan, State, Step, steps};

use crate::arguments::{Apply, PlannedHost, Undo};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::terminal;

const APPLY: &str = "apply this plan";

pub fn apply(arguments: &Apply, interrupt: &Interrupt) -> Result<(), Failure> {
    let plan = Plan::read(&arguments.plan)?;
    let host = host(&arguments.host);
    if arguments.dry_run {
        let steps = steps(&plan, &host).map_err(|error| failure(APPLY, error))?;
        let applied = State::open(&host).map(|state| state.map(|state| state.read()));
        if matches!(applied, Ok(Some(Ok(Some(_))))) {
            terminal::note(
                "what a plan or a governor changed before still stands: `steelyard undo` first",
            );
        }
        return terminal::print(&steps.iter().map(described).collect::<String>());
    }
    let steps = interrupt.while_writing(|asked| {
        steelyard_apply::apply(&plan, &host, asked).map_err(|error| {
            // The exit code alone would say that somebody wanted to stop.
            if let Some(stopped) = interrupt.asked() {
                terminal::note(&error.to_string());
                return stopped;
            }
            failure(APPLY, error)
        })
    })?;
    terminal::print(&steps.iter().map(described).collect::<String>())?;
    terminal::note(match steps.is_empty() {
        true => "all is so already: nothing was changed",
        false => "done; `steelyard undo` takes it back",
    });
    Ok(())
}

/// What is done, in words, and the command.
pub fn described(Step { about, change }: &Step) -> String {
    let command = change.knob.command(&change.new);
    match change.old == change.new {
        true => format!("# {}: {about}: is so already\n", change.domain),
        false => {
            let old = if change.old.is_empty() { "nothing" } else { &change.old };
            format!("# {}: {about}; was {old}\n{command}\n", change.domain)
        }
    }
}

pub fn undo(arguments: &Undo, interrupt: &Interrupt) -> Result<(), Failure> {
    let others = match (arguments.force, arguments.keep) {
        (true, _) => Others::Overrule,
        (_, true) => Others::Forget,
        _ => Others::Leave,
    };
    let host = host(&arguments.host);
    // Once begun it is done: half of it would help nobody.
    let mut undone = vec![];
    let result = interrupt.while_writing(|_| {
        undone = steelyard_apply::undo(&host, others)
            .map_err(|error| failure("take back what was applied", error))?;
        Ok(())
    });
    terminal::print(&undone.iter().map(|undone| format!("{undone}\n")).collect::<String>())?;
    result?;
    if undone.is_empty() {
        terminal::note("nothing is applied");
    }
    let left =
        undone.iter().filter(|undone| undone.is_left() && !(arguments.keep && undone.is_changed()));
    match left.count() {
        0 => Ok(()),
        left => Err(Failure::System {
            what: "take back all",
            error: format!(
                "{left} of {} are left\n  help: `steelyard undo` tries again; what somebody else has changed since \
                 `--force` takes back too, `--keep` leaves for good",
                undone.len()
            ),
        }),
    }
}

pub fn host(PlannedHost { proc, groups, run, state }: &PlannedHost) -> Host {
    let (proc, groups, run, state) = (proc.clone(), groups.clone(), run.clone(), state.clone());
    Host { proc, groups, run, state }
}

fn failure(what: &'static str, error: ApplyError) -> Failure {
    match error {
        ApplyError::Refused(diagnostic) => Failure::Input(diagnostic),
        error => Failure::System { what, error: error.to_string() },
    }
}
