// SPDX-License-Identifier: GPL-2.0-only
//! The terminal while a program fills it. Whatever ends that, a panic too, it is as it was before.

use std::fs::File;
use std::io::{self, IsTerminal, Stdout};
use std::os::fd::AsFd;
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, DisableMouseCapture, EnableMouseCapture, Event};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Signal, kill_current_process_group};

static FILLED: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();

/// The terminal, given back when this is dropped.
pub struct FullScreen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    /// Where keys come from, if that is not standard input.
    keys: Option<File>,
}

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
        let keys = match io::stdin().is_terminal() {
            true => None,
            false => Some(File::open("/dev/tty")?),
        };
        enable_raw_mode()?;
        FILLED.store(true, Ordering::Relaxed);
        let mut screen = FullScreen { terminal, keys };
        execute!(io::stdout(), EnterAlternateScreen, EnableMouseCapture)?;
        screen.terminal.clear()?;
        Ok(screen)
    }

    /// To draw on.
    pub fn terminal(&mut self) -> &mut Terminal<CrosstermBackend<Stdout>> {
        &mut self.terminal
    }

    /// The next event, if one comes within this time.
    ///
    /// # Errors
    /// Those of the terminal, and that it is gone: crossterm would wait for it for ever.
    pub fn event(&self, wait: Duration) -> io::Result<Option<Event>> {
        let stdin = io::stdin();
        let keys = self.keys.as_ref().map_or(stdin.as_fd(), AsFd::as_fd);
        let mut keys = [PollFd::from_borrowed_fd(keys, PollFlags::IN)];
        let wait = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() };
        match poll(&mut keys, Some(&wait)) {
            // Another size, perhaps.
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        if keys[0].revents().intersects(gone) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if event::poll(Duration::ZERO)? { event::read().map(Some) } else { Ok(None) }
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

/// Whoever ends the process makes the terminal as it was; whether it was filled.
pub fn give_back() -> bool {
    let filled = FILLED.swap(false, Ordering::Relaxed);
    if filled {
        // If it fails there is no terminal any more.
        let _ = execute!(io::stdout(), DisableMouseCapture, LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
    filled
}
