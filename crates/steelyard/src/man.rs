// SPDX-License-Identifier: GPL-2.0-only
//! Manual pages, from the definition of the command line.

use clap::CommandFactory;
use clap_mangen::Man;
use steelyard_scenario::Diagnostic;

use crate::arguments::Arguments;
use crate::failure::Failure;
use crate::terminal;

/// Prints the page of a command, or of the whole program.
pub fn run(name: Option<&str>) -> Result<(), Failure> {
    let mut program = Arguments::command();
    program.build();
    let page = match name {
        None => program,
        Some(name) => program
            .get_subcommands()
            .find(|command| command.get_name() == name)
            .cloned()
            .ok_or_else(|| {
                Diagnostic::of_file("man".to_owned(), format!("no command is called `{name}`"))
            })?,
    };
    let mut text = vec![];
    // As the page is called: `man steelyard-compare`.
    let called = name.map_or("steelyard".to_owned(), |name| format!("steelyard-{name}"));
    Man::new(page)
        .title(called)
        .section("1")
        .manual("Steelyard")
        .source(concat!("steelyard ", env!("CARGO_PKG_VERSION")))
        .render(&mut text)
        .map_err(Failure::Output)?;
    terminal::print_own(&String::from_utf8_lossy(&text))
}
