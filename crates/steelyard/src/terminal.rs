// SPDX-License-Identifier: GPL-2.0-only
//! What people see: colours where they are wanted, widths, progress.

use std::io::{self, ErrorKind, Write};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressStyle};

use crate::failure::Failure;

const ERROR: Style = AnsiColor::Red.on_default().bold();

/// Columns to fill where there is no terminal.
const DEFAULT_WIDTH: usize = 100;

/// Columns of the terminal, at the end of a pipe too.
pub fn width() -> usize {
    terminal_size::terminal_size().map_or(DEFAULT_WIDTH, |(columns, _)| columns.0.into())
}

/// Prints text; its colours are taken out unless they are wanted.
pub fn print(text: &str) -> Result<(), Failure> {
    output(anstream::stdout().lock().write_all(text.as_bytes()))
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
    note(&format!("{ERROR}error:{ERROR:#} {message}"));
}

/// A remark for the person. If they cannot be reached there is nobody to tell.
pub fn note(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

/// A progress bar on standard error, if that is a terminal.
pub fn bar() -> ProgressBar {
    let bar = ProgressBar::new(1).with_style(style("{msg} [{bar:32}] {percent:>3} %, {eta} left"));
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

/// The bar says what is done from now on, of which nobody knows how long it takes.
pub fn set_unmeasured(bar: &ProgressBar, message: &'static str) {
    bar.set_style(style("{msg} {spinner}"));
    bar.set_message(message);
}

fn style(template: &str) -> ProgressStyle {
    // A wrong template is seen at once.
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ")
}
