// SPDX-License-Identifier: GPL-2.0-only
//! `steelyard import`: a recording or VM description as a scenario to look at and edit.

use std::path::{Path, PathBuf};

use steelyard_boundary::output::Output;

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::terminal;

pub fn run(
    file: &Path,
    host: Option<&Path>,
    output: Option<&Path>,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let read: Vec<PathBuf> = [Some(file), host].into_iter().flatten().map(Path::to_owned).collect();
    let output = output.map(|output| Output::file(output, &read)).transpose()?;
    let scenario = steelyard_scenario::import(file, host)?;
    let Some(output) = output else {
        return terminal::print_file(&scenario);
    };
    interrupt.while_writing(|asked| {
        Ok(output.write(&mut [Box::new(|file| file.write_all(scenario.as_bytes()))], asked)?)
    })
}
