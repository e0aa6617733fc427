// SPDX-License-Identifier: GPL-2.0-only
//! `steelyard describe`: this host at one moment, for a recording of it or as a scenario's beginning.

use steelyard_boundary::output::Output;
use steelyard_describe::{Places, describe};

use crate::arguments::Describe;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::terminal;

const WHAT: &str = "describe this host";

pub fn run(arguments: &Describe, interrupt: &Interrupt) -> Result<(), Failure> {
    let Describe { output, proc, groups, sys } = arguments;
    let output = output.as_ref().map(|output| Output::file(output, &[])).transpose()?;
    let places = Places { proc: proc.clone(), groups: groups.clone(), sys: sys.clone() };
    let described = describe(&places)
        .map_err(|error| Failure::System { what: WHAT, error: error.to_string() })?;
    let text = described.host.text().map_err(|error| Failure::System { what: WHAT, error })?;
    for missing in &described.missing {
        terminal::note(&format!("not described: {missing}"));
    }
    let Some(output) = output else {
        return terminal::print_file(&text);
    };
    interrupt.while_writing(|asked| {
        Ok(output.write(&mut [Box::new(|file| file.write_all(text.as_bytes()))], asked)?)
    })?;
    let running = described.host.domain.iter().filter(|domain| domain.id.is_some()).count();
    let threads = described.host.thread.len();
    // Xen has none to tell of.
    let threads = if threads > 0 { format!("; threads told of: {threads}") } else { String::new() };
    terminal::note(&format!("virtual machines that run: {running}{threads}"));
    Ok(())
}
