// SPDX-License-Identifier: GPL-2.0-only
//! The command `steelyard` (described in `docs/command.md`): what is asked for, and the exit code. A
//! library, so that its command line can be fuzzed.

mod advise;
mod apply;
mod arguments;
mod asked;
mod change;
mod compare;
mod describe;
mod export;
mod failure;
mod govern;
mod import;
mod interrupt;
mod kvm;
mod man;
mod monitor;
mod policies;
mod reproduce;
mod terminal;
mod tune;
mod xen;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

pub use crate::arguments::Arguments;

use crate::arguments::Command;
use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// The whole program.
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return terminal::usage(error),
    };
    arguments.color.write_global();
    match run(&arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(message) = failure.message() {
                terminal::error(&message);
            }
            ExitCode::from(failure.exit_code())
        }
    }
}

fn run(command: &Command) -> Result<(), Failure> {
    let interrupt = Interrupt::watch()?;
    match command {
        Command::Advise(arguments) => advise::run(arguments, &interrupt),
        Command::Compare(arguments) => compare::run(arguments, &interrupt),
        Command::Reproduce(arguments) => reproduce::run(arguments, &interrupt),
        Command::Policies { name, json } => policies::run(name.as_deref(), *json),
        Command::Import { file, host, output } => {
            import::run(file, host.as_deref(), output.as_deref(), &interrupt)
        }
        Command::Kvm { command } => kvm::run(command, &interrupt),
        Command::Xen { command } => xen::run(command, &interrupt),
        Command::Describe(arguments) => describe::run(arguments, &interrupt),
        Command::Apply(arguments) => apply::apply(arguments, &interrupt),
        Command::Govern(arguments) => govern::run(arguments, &interrupt),
        Command::Undo(arguments) => apply::undo(arguments, &interrupt),
        Command::Tune(arguments) => tune::run(arguments, &interrupt),
        Command::Top(arguments) => monitor::top(arguments, &interrupt),
        Command::Record(arguments) => monitor::record(arguments, &interrupt),
        Command::Convert { file, tsc_hz, host, output } => {
            monitor::convert(file, *tsc_hz, host.as_deref(), output, &interrupt)
        }
        Command::Export(arguments) => export::run(arguments, &interrupt),
        Command::Schema => terminal::print(&steelyard_scenario::schema()),
        Command::Completions { shell } => {
            let mut script = vec![];
            clap_complete::generate(*shell, &mut Arguments::command(), "steelyard", &mut script);
            terminal::print_own(&String::from_utf8_lossy(&script))
        }
        Command::Man { command } => man::run(command.as_deref()),
    }
}
