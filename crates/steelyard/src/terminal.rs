// SPDX-License-Identifier: GPL-2.0-only
//! What people see: colours where they are wanted, widths, progress. Nothing that others wrote steers
//! their terminal: whatever comes here goes through [`steelyard_boundary::text`].

use std::env;
use std::ffi::OsString;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use steelyard_boundary::text::{LONGEST_MESSAGE, harmless_lines, json, short, styled, told};
use steelyard_run::{Ended, Watch};

use crate::arguments::Arguments;
use crate::failure::Failure;
use crate::interrupt::Interrupt;

const ERROR: Style = AnsiColor::Red.on_default().bold();

/// Columns to fill where there is no terminal.
const DEFAULT_WIDTH: usize = 100;

/// Columns of the terminal, at the end of a pipe too.
pub fn width() -> usize {
    terminal_size::terminal_size().map_or(DEFAULT_WIDTH, |(columns, _)| columns.0.into())
}

/// Prints text in our styles; its colours are taken out unless they are wanted.
pub fn print(text: &str) -> Result<(), Failure> {
    print_own(&styled(text))
}

/// Prints text of which all is this program's own: scripts have tabs.
pub fn print_own(text: &str) -> Result<(), Failure> {
    output(anstream::stdout().lock().write_all(text.as_bytes()))
}

/// Prints JSON.
pub fn print_json(text: &str) -> Result<(), Failure> {
    output(io::stdout().lock().write_all(json(text).as_bytes()))
}

/// Prints what goes into a file: as it is, unless it goes to a terminal.
pub fn print_file(text: &str) -> Result<(), Failure> {
    match io::stdout().is_terminal() {
        true => print(&text.replace('\t', "    ").replace("\r\n", "\n")),
        false => output(io::stdout().lock().write_all(text.as_bytes())),
    }
}

/// The outcome of writing to standard output. Who closes a pipe early, as `head` does, has what they
/// want.
pub fn output(result: io::Result<()>) -> Result<(), Failure> {
    match result.and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::Output(error)),
        _ => Ok(()),
    }
}

/// An error for the person.
pub fn error(message: &str) {
    say(&format!("{ERROR}error:{ERROR:#} {}", harmless_message(message)));
}

/// A remark for the person.
pub fn note(text: &str) {
    say(&harmless_message(text));
}

/// If they cannot be reached there is nobody to tell.
fn say(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

fn harmless_message(text: &str) -> String {
    harmless_lines(&short(text, LONGEST_MESSAGE)).into_owned()
}

/// What clap has to say, of a wrong command line or because help is wanted, and the exit code.
pub fn usage(error: clap::Error) -> ExitCode {
    // It quotes arguments as they are. Those that could do harm, or are long, are wrong in the same way
    // when they cannot and are not.
    let told = env::args_os().map(|argument| OsString::from(told(&argument).to_string()));
    let (error, text) = match Arguments::try_parse_from(told) {
        Err(again) if again.kind() == error.kind() => {
            let text = again.render().ansi().to_string();
            (again, styled(&text).into_owned())
        }
        _ => {
            let text = harmless_message(&error.render().to_string());
            (error, text)
        }
    };
    // As in `say`.
    let _ = match error.use_stderr() {
        true => anstream::stderr().lock().write_all(text.as_bytes()),
        false => anstream::stdout().lock().write_all(text.as_bytes()),
    };
    ExitCode::from(error.exit_code() as u8)
}

/// A progress bar on standard error, if that is a terminal.
pub struct Bar(ProgressBar);

impl Bar {
    /// One that is cleared when a signal ends the process.
    pub fn new(interrupt: &Interrupt) -> Bar {
        let bar = ProgressBar::new(1);
        bar.enable_steady_tick(Duration::from_millis(100));
        interrupt.set_bar(&bar);
        Bar(bar)
    }

    /// It says what is done from now on, of which nobody knows how long it takes.
    pub fn set_unmeasured(&self, message: &'static str) {
        self.0.set_style(style("{msg} {spinner}"));
        self.0.set_message(message);
    }

    /// Takes it from the screen.
    pub fn clear(&self) {
        self.0.finish_and_clear();
    }
}

impl Watch for Bar {
    fn begin(&self, what: &'static str, work: Option<u64>) {
        let Some(work) = work else { return self.set_unmeasured(what) };
        self.0.set_style(style("{msg} [{bar:32}] {percent:>3} %, {eta} left"));
        self.0.reset();
        self.0.set_length(work);
        self.0.set_message(what);
    }

    /// A signal ends the process.
    fn done(&self, work: u64) -> Result<(), Ended> {
        self.0.inc(work);
        Ok(())
    }
}

fn style(template: &str) -> ProgressStyle {
    // A wrong template is seen at once.
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ")
}
