// SPDX-License-Identifier: GPL-2.0-only
//! `steelyard compare BEFORE AFTER`: two recordings of a host, held against each other as they are. Nothing
//! is simulated.

use std::path::Path;

use steelyard_boundary::text::told;
use steelyard_report::{Change, Style, Windows, change_table};
use steelyard_scenario::{Diagnostic, is_recording, snapshots};

use crate::arguments::Compare;
use crate::failure::Failure;
use crate::terminal;

/// The two recordings that are to be held against each other, if that is what is asked for: where nobody says
/// how to simulate them.
pub fn wanted(arguments: &Compare) -> Result<Option<(&Path, &Path)>, Failure> {
    let [before, after] = &arguments.inputs[..] else { return Ok(None) };
    let simulated = &arguments.simulated;
    let says_how = !arguments.policies.is_empty()
        || simulated.own.is_some()
        || simulated.seeds.is_some()
        || !simulated.set.is_empty();
    if says_how || !is_recording(before)? || !is_recording(after)? {
        return Ok(None);
    }
    if let Some(out) = &arguments.out {
        let message = "two recordings are held against each other without a simulation: there are no files of it";
        let help = "leave `--out` out, or say by `--policy` what to simulate each recording under";
        return Err(Diagnostic::of_file(told(out).to_string(), message).with_help(help).into());
    }
    Ok(Some((before, after)))
}

pub fn run((before, after): (&Path, &Path), arguments: &Compare) -> Result<(), Failure> {
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let host = arguments.simulated.host.as_deref();
    let first = read(before, host)?;
    let second = read(after, host)?;
    let change = Change::between((&name(before), &first), (&name(after), &second));
    if arguments.json {
        let text = serde_json::to_string(&change);
        return terminal::print_json(
            &(text.map_err(|error| Failure::Output(error.into()))? + "\n"),
        );
    }
    let style = Style { width: terminal::width(), color: true };
    terminal::print(&change_table(&change, arguments.all, style))
}

fn read(path: &Path, host: Option<&Path>) -> Result<Windows, Failure> {
    let mut windows = Windows::default();
    let mut added = Ok(());
    snapshots(path, None, host, |snapshot| {
        added = windows.add(&snapshot);
        added.is_ok()
    })?;
    let windows = added.and_then(|()| windows.finish());
    Ok(windows
        .map_err(|error| Diagnostic::of_file(path.display().to_string(), error.to_string()))?)
}
