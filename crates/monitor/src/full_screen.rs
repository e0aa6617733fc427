// SPDX-License-Identifier: GPL-2.0-only
//! The terminal while a program fills it. Whatever ends that, a panic too, it is as it was before.

use std::io::{self, Stdout};
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{DisableMouseCapture, EnableMouseCapture};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use rustix::process::{Signal, kill_current_process_group};

static FILLED: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();

/// The terminal, given back when this is dropped.
pub struct FullScreen(Terminal<CrosstermBackend<Stdout>>);

impl FullScreen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// Those of the terminal.
    pub fn enter() -> io::Result<FullScreen> {
        HOOK.call_once(|| {
            let hook = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                give_back();
                hook(info);
            }));
        });
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        enable_raw_mode()?;
        FILLED.store(true, Ordering::Relaxed);
        let mut screen = FullScreen(terminal);
        execute!(io::stdout(), EnterAlternateScreen, EnableMouseCapture)?;
        screen.0.clear()?;
        Ok(screen)
    }

    /// To draw on.
    pub fn terminal(&mut self) -> &mut Terminal<CrosstermBackend<Stdout>> {
        &mut self.0
    }

    /// Gives the terminal back and stops, all that belongs to the same job of a shell, until the
    /// shell lets it go on.
    ///
    /// # Errors
    /// Those of the terminal.
    pub fn suspend(self) -> io::Result<FullScreen> {
        drop(self);
        kill_current_process_group(Signal::STOP)?;
        FullScreen::enter()
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        give_back();
    }
}

/// If it fails there is no terminal any more.
fn give_back() {
    if FILLED.swap(false, Ordering::Relaxed) {
        let _ = execute!(io::stdout(), DisableMouseCapture, LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}
