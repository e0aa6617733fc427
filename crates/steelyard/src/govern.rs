// SPDX-License-Identifier: GPL-2.0-only
//! `steelyard govern`: a slow governor steers this host, which its own scheduler schedules.

use std::time::Duration;

use steelyard_apply::ApplyError;
use steelyard_boundary::text::told;
use steelyard_govern::{Event, GovernError, Limits, Order, govern};
use steelyard_scenario::Diagnostic;

use crate::apply::{described, host};
use crate::arguments::Govern;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::terminal;

pub fn run(arguments: &Govern, interrupt: &Interrupt) -> Result<(), Failure> {
    let Govern {
        governor, set, least_weight, most_weight, least_slice, changes_per_minute, ..
    } = arguments;
    if least_weight > most_weight {
        let message = format!("`{least_weight}` is more than the most, {most_weight}");
        return Err(Diagnostic::of_file("--least-weight", message).into());
    }
    let limits = Limits {
        weight: ((*least_weight).into(), (*most_weight).into()),
        least_slice_ns: least_slice.0,
        changes_per_minute: *changes_per_minute,
    };
    let order = Order {
        governor: governor.clone(),
        set: set.clone(),
        limits,
        dry_run: arguments.dry_run,
        length: arguments.length.map(|length| Duration::from_nanos(length.0)),
    };
    let (mut written, mut left) = (Ok(()), 0);
    let governed = interrupt.while_writing(|asked| {
        let tell = &mut |event: Event| {
            // Who does not read on is no reason to stop governing: it ends by a signal.
            let said = match event {
                Event::Turned(step) => terminal::print(&described(&step)),
                Event::Undone(undone) => {
                    left += usize::from(undone.is_left() && !undone.is_changed());
                    terminal::print(&format!("{undone}\n"))
                }
                other => {
                    terminal::note(&note(&other));
                    Ok(())
                }
            };
            if written.is_ok() {
                written = said;
            }
        };
        let result = govern(&order, &host(&arguments.host), asked, tell).map_err(failure);
        // Whoever asked it to end is served: that is no failure.
        Ok(result)
    });
    match governed {
        Ok(result) => result?,
        Err(Failure::Interrupted(_)) => {}
        Err(other) => return Err(other),
    }
    written?;
    match left {
        0 => Ok(()),
        left => Err(Failure::System {
            what: "take back all",
            error: format!("{left} changes are left\n  help: `steelyard undo` tries again"),
        }),
    }
}

fn note(event: &Event) -> String {
    match event {
        Event::Left(change, error) => format!(
            "{}: left alone from now on: {error}: {}",
            told(&change.domain),
            change.knob.command(&change.new)
        ),
        Event::NotGoverned(domain, why) => format!("{} is not governed: {why}", told(domain)),
        Event::Paced(domains) => {
            format!("{domains} more wait: so many changes a minute are allowed")
        }
        Event::Turned(_) | Event::Undone(_) => String::new(),
    }
}

fn failure(error: GovernError) -> Failure {
    match error {
        GovernError::Refused(diagnostic) | GovernError::Apply(ApplyError::Refused(diagnostic)) => {
            Failure::Input(diagnostic)
        }
        error => Failure::System { what: "govern this host", error: error.to_string() },
    }
}
