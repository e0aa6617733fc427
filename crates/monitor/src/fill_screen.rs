// SPDX-License-Identifier: GPL-2.0-only
//! Fills a terminal with a [`Screen`] and feeds it from a source. Whatever ends it, a panic too, the
//! terminal is as it was before.

use std::env;
use std::io;
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{error, fmt};

use ratatui::crossterm::event::{
    self, DisableMouseCapture, EnableMouseCapture, Event, KeyEventKind,
};
use ratatui::crossterm::execute;

use crate::interval::Interval;
use crate::screen::{Action, Looks, Screen};
use crate::source::{Source, SourceError};
use steelyard_recording::Snapshot;

/// A signal is heeded within this time.
const ATTENTION: Duration = Duration::from_millis(50);
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(60);
/// Speeds of recordings.
const SLOWEST: f64 = 1.0 / 64.0;
const FASTEST: f64 = 1024.0;
/// How soon the second look comes: the first screen is not to wait for a whole interval.
const FIRST: Duration = Duration::from_millis(100);

/// Shows a source until the person quits, or `asked` is set.
///
/// # Errors
/// [`ScreenError`].
pub fn fill_screen(
    source: Source,
    interval: Duration,
    speed: f64,
    asked: &AtomicBool,
) -> Result<(), ScreenError> {
    // Looked at before, so that its errors are seen.
    let mut feed = Feed::new(source, interval, speed)?;
    let hook = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        release_mouse();
        hook(info);
    }));
    let mut terminal = ratatui::try_init()?;
    let result = execute!(io::stdout(), EnableMouseCapture)
        .map_err(ScreenError::from)
        .and_then(|()| run(&mut terminal, &mut feed, asked));
    release_mouse();
    ratatui::restore();
    result
}

/// If that fails there is no terminal any more.
fn release_mouse() {
    let _ = execute!(io::stdout(), DisableMouseCapture);
}

fn run(
    terminal: &mut ratatui::DefaultTerminal,
    feed: &mut Feed,
    asked: &AtomicBool,
) -> Result<(), ScreenError> {
    let mut screen = Screen::new(Looks::of_terminal());
    while !asked.load(Ordering::Relaxed) {
        if feed.is_due() {
            feed.source.set_states(screen.shows_states());
            if let Some(interval) = feed.advance()? {
                screen.show(interval);
            }
        }
        screen.set_status(feed.paused, feed.status());
        terminal.draw(|frame| screen.draw(frame))?;
        // Nothing is drawn before something has changed.
        while !asked.load(Ordering::Relaxed) && !feed.is_due() {
            feed.source.attend();
            if !event::poll(feed.left().min(ATTENTION))? {
                continue;
            }
            let action = match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => screen.key(key),
                Event::Mouse(mouse) => {
                    screen.mouse(mouse);
                    Action::Draw
                }
                Event::Resize(..) => Action::Draw,
                _ => continue,
            };
            let moved = match action {
                Action::Quit => return Ok(()),
                Action::Draw => None,
                Action::Pause => {
                    feed.paused = !feed.paused;
                    feed.due = Instant::now();
                    None
                }
                Action::Step(intervals) => feed.step(intervals)?,
                Action::First => feed.step(isize::MIN)?,
                Action::Last => feed.step(isize::MAX)?,
                Action::Faster => feed.go_faster(true),
                Action::Slower => feed.go_faster(false),
            };
            if let Some(interval) = moved {
                screen.show(interval);
            }
            break;
        }
    }
    Ok(())
}

/// A source, and how fast it goes.
struct Feed {
    source: Source,
    interval: Duration,
    speed: f64,
    paused: bool,
    due: Instant,
    last: Option<Snapshot>,
    ended: bool,
}

impl Feed {
    fn new(mut source: Source, interval: Duration, speed: f64) -> Result<Feed, ScreenError> {
        source.set_states(false);
        let last = source.sample()?;
        let wait = if source.is_live() { FIRST } else { Duration::ZERO };
        let due = Instant::now() + wait.min(interval);
        Ok(Feed { source, interval, speed, paused: false, due, last, ended: false })
    }

    fn is_due(&self) -> bool {
        !self.paused && !self.ended && self.left().is_zero()
    }

    fn left(&self) -> Duration {
        match self.paused || self.ended {
            true => ATTENTION,
            false => self.due.saturating_duration_since(Instant::now()),
        }
    }

    /// Goes on to the next snapshot.
    fn advance(&mut self) -> Result<Option<Interval>, ScreenError> {
        let Some(now) = self.source.sample()? else {
            self.ended = true;
            return Ok(None);
        };
        let interval = self.last.as_ref().map(|last| Interval::between(last, &now));
        let between_ns = interval.as_ref().map_or(0, |interval| interval.length_ns);
        self.due = Instant::now() + self.source.pause(self.interval, between_ns, Some(self.speed));
        self.last = Some(now);
        Ok(interval)
    }

    /// Goes so many intervals on or, in a recording, back.
    fn step(&mut self, intervals: isize) -> Result<Option<Interval>, ScreenError> {
        let Source::Recording(recording, next) = &mut self.source else {
            self.paused = true;
            return if intervals == 1 { self.advance() } else { Ok(None) };
        };
        self.paused = true;
        self.ended = false;
        // The snapshot at the beginning of the interval; `next` comes after that at its end.
        let last = recording.len().saturating_sub(2);
        let from = next.saturating_sub(2).saturating_add_signed(intervals).min(last);
        self.last = recording.snapshot(from);
        *next = from + 1;
        self.advance()
    }

    /// Twice or half as fast, or as often.
    fn go_faster(&mut self, faster: bool) -> Option<Interval> {
        if self.source.is_live() {
            let interval = if faster { self.interval / 2 } else { self.interval * 2 };
            self.interval = interval.clamp(SHORTEST, LONGEST);
            self.due = self.due.min(Instant::now() + self.interval);
        } else {
            let speed = if faster { self.speed * 2.0 } else { self.speed / 2.0 };
            self.speed = speed.clamp(SLOWEST, FASTEST);
            self.due = Instant::now();
        }
        None
    }

    fn status(&self) -> String {
        let ended = if self.ended { ", at its end" } else { "" };
        match &self.source {
            Source::Linux(_) | Source::Xen(_) => format!("every {:?}", self.interval),
            Source::Simulation(_) => format!("{} times as fast{ended}", self.speed),
            Source::Recording(recording, next) => {
                format!("{next} of {}, {} times as fast{ended}", recording.len(), self.speed)
            }
        }
    }
}

impl Looks {
    /// What the environment says of the terminal.
    fn of_terminal() -> Looks {
        let variable = |name| env::var(name).ok().filter(|value| !value.is_empty());
        // The first that is set counts, as for any program.
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(variable);
        let locale = locale.unwrap_or_default().to_lowercase();
        let utf8 = locale.contains("utf-8") || locale.contains("utf8");
        let plain = matches!(variable("TERM").as_deref(), Some("linux" | "dumb" | "vt100"));
        Looks { blocks: utf8 && !plain, color: variable("NO_COLOR").is_none() }
    }
}

/// Why a screen cannot be shown.
#[derive(Debug)]
pub enum ScreenError {
    /// The source.
    Source(SourceError),
    /// The terminal.
    Terminal(io::Error),
}

impl From<SourceError> for ScreenError {
    fn from(error: SourceError) -> Self {
        ScreenError::Source(error)
    }
}

impl From<io::Error> for ScreenError {
    fn from(error: io::Error) -> Self {
        ScreenError::Terminal(error)
    }
}

impl fmt::Display for ScreenError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScreenError::Source(error) => error.fmt(formatter),
            ScreenError::Terminal(error) => write!(formatter, "the terminal: {error}"),
        }
    }
}

impl error::Error for ScreenError {}
