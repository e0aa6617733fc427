// SPDX-License-Identifier: GPL-2.0-only
//! The terminal while a program fills it. Whatever ends that, it is as it was before: the program's own
//! end, a panic in any thread, any signal but SIGKILL, of which no process learns.

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::mem::ManuallyDrop;
use std::os::fd::AsFd;
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Once, OnceLock};
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::Command;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, DisableMouseCapture, EnableMouseCapture, Event};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Signal, kill_current_process_group};
use rustix::stdio::stdout;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::{
    SIGABRT, SIGALRM, SIGBUS, SIGFPE, SIGILL, SIGIO, SIGPROF, SIGSEGV, SIGSYS, SIGTRAP, SIGUSR1,
    SIGUSR2, SIGVTALRM, SIGXCPU, SIGXFSZ,
};
use signal_hook::low_level::emulate_default_handler;
use signal_hook_registry::register_signal_unchecked;

static FILLED: AtomicBool = AtomicBool::new(false);
static HOOKS: Once = Once::new();
static BEFORE: OnceLock<Before> = OnceLock::new();

/// Signals that end a process unless it says otherwise. Those that ask it to end (SIGHUP, SIGINT, SIGQUIT,
/// SIGTERM) are heeded by whoever fills the screen.
const DEADLY: [i32; 15] = [
    SIGABRT, SIGALRM, SIGBUS, SIGFPE, SIGILL, SIGIO, SIGPROF, SIGSEGV, SIGSYS, SIGTRAP, SIGUSR1,
    SIGUSR2, SIGVTALRM, SIGXCPU, SIGXFSZ,
];
/// What came is read within this time.
const GLANCE: Duration = Duration::from_millis(1);
const GONE: PollFlags = PollFlags::HUP.union(PollFlags::ERR).union(PollFlags::NVAL);

/// The terminal before it was filled: all that a signal handler needs.
struct Before {
    /// Where keys come from.
    keys: File,
    modes: Termios,
    /// What leads back to what was shown.
    back: String,
}

/// The terminal, given back when this is dropped.
pub struct FullScreen {
    /// Its own end would print to a standard error that may be gone, which panics.
    terminal: ManuallyDrop<Terminal<CrosstermBackend<BufWriter<Filled>>>>,
    before: &'static Before,
}

impl FullScreen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// Those of the terminal.
    pub fn enter() -> io::Result<FullScreen> {
        let before = match BEFORE.get() {
            Some(before) => before,
            None => {
                let now = Before::now()?;
                BEFORE.get_or_init(|| now)
            }
        };
        HOOKS.call_once(give_back_at_the_end);
        let terminal = Terminal::new(CrosstermBackend::new(BufWriter::new(Filled)))?;
        FILLED.store(true, Ordering::SeqCst);
        let mut screen = FullScreen { terminal: ManuallyDrop::new(terminal), before };
        let mut raw = before.modes.clone();
        raw.make_raw();
        tcsetattr(&before.keys, OptionalActions::Now, &raw)?;
        execute!(Filled, EnterAlternateScreen, EnableMouseCapture)?;
        screen.terminal.clear()?;
        Ok(screen)
    }

    /// Shows what this draws.
    ///
    /// # Errors
    /// Those of the terminal.
    pub fn draw(&mut self, draw: impl FnOnce(&mut ratatui::Frame)) -> io::Result<()> {
        self.terminal.draw(draw).map(drop)
    }

    /// The next event, if one comes within this time.
    ///
    /// # Errors
    /// Those of the terminal, and that it is gone.
    pub fn event(&self, wait: Duration) -> io::Result<Option<Event>> {
        let mut keys = [PollFd::new(&self.before.keys, PollFlags::IN)];
        let wait = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() };
        match poll(&mut keys, Some(&wait)) {
            // Another size, perhaps.
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if keys[0].revents().intersects(GONE) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // It may go now: what reads it looks at the time, but does not look at all if there is none.
        if event::poll(GLANCE)? { event::read().map(Some) } else { Ok(None) }
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

    /// Takes the terminal anew, of which somebody else may have made something else meanwhile.
    ///
    /// # Errors
    /// Those of the terminal.
    pub fn again(self) -> io::Result<FullScreen> {
        drop(self);
        FullScreen::enter()
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        give_back();
    }
}

impl Before {
    fn now() -> io::Result<Before> {
        let keys = match io::stdin().is_terminal() {
            true => io::stdin().as_fd().try_clone_to_owned()?.into(),
            false => File::open("/dev/tty").map_err(|error| {
                io::Error::new(error.kind(), format!("no keys can be read from /dev/tty: {error}"))
            })?,
        };
        let mut back = String::new();
        let written = DisableMouseCapture
            .write_ansi(&mut back)
            .and_then(|()| LeaveAlternateScreen.write_ansi(&mut back))
            .and_then(|()| Show.write_ansi(&mut back));
        written.map_err(|fmt::Error| io::ErrorKind::Other)?;
        Ok(Before { modes: tcgetattr(&keys)?, keys, back })
    }
}

/// Standard output as long as it is filled: what another thread still draws is nothing to show then.
struct Filled;

impl Write for Filled {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match FILLED.load(Ordering::SeqCst) {
            true => Ok(retry_on_intr(|| rustix::io::write(stdout(), bytes))?),
            false => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whoever ends the process makes the terminal as it was; whether it was filled. It may be called by a
/// signal handler: it takes no lock and no memory.
pub fn give_back() -> bool {
    let filled = FILLED.swap(false, Ordering::SeqCst);
    if let (true, Some(before)) = (filled, BEFORE.get()) {
        let mut left = before.back.as_bytes();
        while !left.is_empty() {
            match retry_on_intr(|| rustix::io::write(stdout(), left)) {
                Ok(written) => left = &left[written..],
                // There is no terminal any more.
                Err(_) => break,
            }
        }
        let _ = tcsetattr(&before.keys, OptionalActions::Now, &before.modes);
    }
    filled
}

/// Whether nobody sits before standard output any more.
pub fn is_gone() -> bool {
    let mut screen = [PollFd::from_borrowed_fd(stdout(), PollFlags::OUT)];
    let polled = poll(&mut screen, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    polled.is_ok() && screen[0].revents().intersects(GONE)
}

fn give_back_at_the_end() {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        give_back();
        hook(info);
    }));
    for signal in DEADLY {
        let end = move || {
            give_back();
            // If it does not end the process, nothing does.
            let _ = emulate_default_handler(signal);
        };
        // SAFETY: `end` is async-signal-safe, see `give_back`; `emulate_default_handler` says so of
        // itself. It does not return, so that no fault is met again.
        let registered = unsafe { register_signal_unchecked(signal, end) };
        // A signal that this system does not have ends nothing.
        drop(registered);
    }
}
