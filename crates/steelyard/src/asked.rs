// SPDX-License-Identifier: GPL-2.0-only
//! What is asked of a scheduler that runs here, as `NAME=[VALUE]`: `steelyard kvm` and `steelyard xen`.

use steelyard_boundary::text::told;
use steelyard_policy::{Parameter, settings};
use steelyard_scenario::{Diagnostic, DomainSettings, SettingsOfDomains, Source};

use crate::failure::Failure;
use crate::terminal;

/// What `NAME=[VALUE]` is for.
pub const HELP: &str = "What to ask for; without a value: no longer. None: show what is asked";

/// The same, with all that can be asked for a domain.
pub fn long_help() -> String {
    let names: Vec<_> = settings().iter().map(|setting| setting.name).collect();
    let names = names.join(", ");
    format!("{HELP}.\n\nOf these: {names}. Times have a unit, such as \"5 ms\"")
}

/// Each of `NAME=[VALUE]`.
pub fn each(
    command: &str,
    asked: &[String],
    mut ask: impl FnMut(&str, &str) -> Result<(), String>,
) -> Result<(), Diagnostic> {
    for text in asked {
        let source = Source::new(command, text);
        let Some((name, value)) = text.split_once('=') else {
            let fault = source.error(0..text.len(), format!("`{text}` lacks a `=`"));
            return Err(fault.with_help("write NAME=VALUE, or NAME= to ask no longer"));
        };
        ask(name.trim(), value.trim()).map_err(|why| source.error(0..text.len(), why))?;
    }
    Ok(())
}

/// Asks for all of it for a domain, for which this is wanted by then.
pub fn settle(
    command: &str,
    asked: &[String],
    wanted: &mut DomainSettings,
) -> Result<(), Diagnostic> {
    each(command, asked, |name, value| match value {
        "" => wanted.unset(name),
        value => wanted.set(name, value),
    })?;
    let all = asked.join(" ");
    wanted.check().map_err(|why| Source::new(command, &all).error(0..all.len(), why))
}

/// What is asked for these domains, or only for one; `otherwise` is said where that is nothing.
pub fn show(
    domains: &SettingsOfDomains,
    only: Option<&str>,
    otherwise: &str,
) -> Result<(), Failure> {
    let shown = domains.iter().filter(|(name, _)| only.is_none_or(|only| only == *name));
    let lines = shown.flat_map(|(name, asked)| {
        asked.iter().map(move |(setting, value)| {
            format!("{:<16} {:<20} {value}\n", told(name), setting.name)
        })
    });
    print(&lines.collect::<String>(), otherwise)
}

/// Lines of what is asked, or `otherwise`.
pub fn print(lines: &str, otherwise: &str) -> Result<(), Failure> {
    if lines.is_empty() {
        terminal::note(&format!("nothing is asked for; {otherwise}"));
    }
    terminal::print(lines)
}

/// Which of these settings the policy that runs does not heed.
pub fn tell_unheeded(policy: &str, set: &[&Parameter]) {
    let Ok(policy) = steelyard_scenario::policy(policy, &[]) else { return };
    for setting in set {
        if !policy.heeds(setting) {
            let (name, source) = (setting.name, setting.source);
            terminal::note(&format!(
                "{policy} runs; `{name}` is heeded by: {source} (it is kept, and counts once such a policy runs)"
            ));
        }
    }
}
