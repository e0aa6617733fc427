// SPDX-License-Identifier: GPL-2.0-only
//! Fills a terminal with a [`Screen`] and feeds it from a source, which is asked in a thread of its
//! own: keys are answered whatever the source does.

use std::collections::VecDeque;
use std::env;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{error, fmt};

use ratatui::crossterm::event::{Event, KeyEventKind};
use ratatui::crossterm::style::force_color_output;
use signal_hook::consts::{SIGCONT, SIGTSTP};

use crate::full_screen::{FullScreen, is_gone};
use crate::interval::{Interval, Past, ProcessTimes};
use crate::screen::{Action, Looks, Screen};
use crate::settings::Settings;
use crate::source::{Source, SourceError, at_speed};
use crate::tape::Tape;
use steelyard_boundary::output::{Output, WriteFile};
use steelyard_boundary::text::told;
use steelyard_recording::Snapshot;

/// A signal is heeded within this time.
const ATTENTION: Duration = Duration::from_millis(50);
/// An answer is seen within this time, if it comes soon.
const SOON: Duration = Duration::from_millis(200);
const GLANCE: Duration = Duration::from_millis(5);
/// From then on it is said that there is none.
const PATIENCE: Duration = Duration::from_secs(2);
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(60);
/// Speeds of recordings.
const SLOWEST: f64 = 1.0 / 64.0;
const FASTEST: f64 = 1024.0;
/// How often a live source is attended to that nobody asks.
const ATTEND: Duration = Duration::from_millis(500);
/// How soon the second look comes: the first screen is not to wait for a whole interval.
const FIRST: Duration = Duration::from_millis(100);

/// Shows what `open` opens until the person quits, or `asked` is set; with colours or not, as the settings say, and
/// whether who is no virtual machine is shown too.
///
/// # Errors
/// Those of `open`, and [`ScreenError`].
pub fn fill_screen<E: From<ScreenError> + Send + 'static>(
    open: impl FnOnce() -> Result<Source, E> + Send + 'static,
    interval: Duration,
    speed: f64,
    looks: (bool, Settings, bool),
    asked: &AtomicBool,
) -> Result<(), E> {
    let (color, settings, all) = looks;
    let (to_feed, requests) = channel();
    let (to_screen, answers) = channel();
    // It may never answer again: nobody waits for its end.
    thread::spawn(move || feed(open, &requests, &to_screen));
    // What is wrong from the beginning is said on the terminal as it is.
    let seekable = loop {
        match answers.recv_timeout(ATTENTION) {
            Ok(Answer::Opened { seekable }) => break seekable,
            Ok(Answer::NotOpened(error)) => return Err(error),
            Ok(Answer::Moved(_)) => {}
            Ok(Answer::Failed(error)) => return Err(error.into()),
            Err(RecvTimeoutError::Timeout) if asked.load(Ordering::Relaxed) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(ScreenError::Stopped.into()),
        }
    };
    let wait = if seekable { Duration::ZERO } else { FIRST.min(interval) };
    let clock = Clock {
        seekable,
        interval,
        speed,
        paused: false,
        back: false,
        ended: false,
        due: Instant::now() + wait,
        asked: None,
        steps: VecDeque::new(),
        position: (0, 0),
    };
    force_color_output(color);
    let screen = Screen::new(Looks::of_terminal(color), settings, all);
    match show(clock, screen, &to_feed, &answers, asked) {
        // As if somebody had closed it: there is nobody to tell.
        Err(ScreenError::Terminal(_)) if is_gone() => Ok(()),
        shown => Ok(shown?),
    }
}

fn show<E>(
    mut clock: Clock,
    mut screen: Screen,
    to_feed: &Sender<Request>,
    answers: &Receiver<Answer<E>>,
    asked: &AtomicBool,
) -> Result<(), ScreenError> {
    let suspended = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGTSTP, suspended.clone())?;
    let continued = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGCONT, continued.clone())?;
    let mut full_screen = FullScreen::enter()?;
    let (mut status, mut changed) = (String::new(), true);
    while !asked.load(Ordering::Relaxed) {
        match answers.try_recv() {
            Ok(Answer::Moved(moved)) => {
                if let (Some(interval), before) = clock.answered(moved) {
                    screen.show(interval);
                    screen.recall(before);
                }
                changed = true;
            }
            Ok(Answer::Failed(error)) => return Err(error),
            // It was opened before.
            Ok(Answer::Opened { .. } | Answer::NotOpened(_)) => {}
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => return Err(ScreenError::Stopped),
        }
        if let Some(steps) = clock.next() {
            let request = Request { steps, states: screen.shows_states() };
            to_feed.send(request).map_err(|_| ScreenError::Stopped)?;
        }
        let now = clock.status();
        if changed || now != status {
            screen.set_status(clock.paused, now.clone());
            full_screen.draw(|frame| screen.draw(frame))?;
            (status, changed) = (now, false);
        }
        if suspended.swap(false, Ordering::Relaxed) {
            full_screen = full_screen.suspend()?;
            continued.store(false, Ordering::Relaxed);
            changed = true;
        }
        if continued.swap(false, Ordering::Relaxed) {
            full_screen = full_screen.again()?;
            changed = true;
        }
        let mut wait = clock.left();
        while let Some(event) = full_screen.event(wait)? {
            let action = match event {
                Event::Key(key) if key.kind != KeyEventKind::Release => screen.key(key),
                Event::Mouse(mouse) => {
                    screen.mouse(mouse);
                    Action::Draw
                }
                _ => Action::Draw,
            };
            match action {
                Action::Quit => return Ok(()),
                Action::Write => {
                    let remark = write_shown(&screen, asked);
                    screen.say(remark);
                }
                Action::Keep => screen.say(keep(&screen)),
                Action::Suspend => suspended.store(true, Ordering::Relaxed),
                action => clock.act(action),
            }
            changed = true;
            // What was typed at once is drawn at once.
            wait = Duration::ZERO;
        }
    }
    Ok(())
}

/// Writes what is shown to a file in the current directory; what became of it.
fn write_shown(screen: &Screen, asked: &AtomicBool) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let name = format!("steelyard-top-{now}.csv");
    let text = screen.to_csv();
    let content: WriteFile = Box::new(|file| file.write_all(text.as_bytes()));
    let written =
        Output::file(Path::new(&name), &[]).and_then(|output| output.write(&mut [content], asked));
    match written {
        Ok(()) => format!("wrote {name}"),
        Err(error) => format!("not written: {error}"),
    }
}

/// Keeps the columns; what became of it.
fn keep(screen: &Screen) -> String {
    match screen.settings().write() {
        Ok(Some(path)) => format!("kept in {}", told(path)),
        Ok(None) => "not kept: there is no home directory".to_owned(),
        Err(error) => format!("not kept: {error}"),
    }
}

/// When what is asked of the source.
struct Clock {
    /// It can be looked at in any order and has a time of its own.
    seekable: bool,
    interval: Duration,
    speed: f64,
    paused: bool,
    back: bool,
    ended: bool,
    due: Instant,
    /// Since when an answer is waited for.
    asked: Option<Instant>,
    /// Steps that a person wants to go, one after the other.
    steps: VecDeque<isize>,
    /// Snapshot and how many there are.
    position: (usize, usize),
}

impl Clock {
    /// How many steps to ask for now.
    fn next(&mut self) -> Option<isize> {
        let now = Instant::now();
        if self.asked.is_some() {
            return None;
        }
        let steps = match self.steps.pop_front() {
            Some(steps) => steps,
            None if self.paused || self.ended || now < self.due => return None,
            None if self.back => -1,
            None => 1,
        };
        self.asked = Some(now);
        self.due = now + self.interval;
        Some(steps)
    }

    fn answered(&mut self, (there, position): Moved) -> Place {
        let interval = &there.0;
        self.asked = None;
        self.position = position;
        if self.seekable {
            self.ended = interval.is_none();
            let between_ns = interval.as_ref().map_or(0, |interval| interval.length_ns);
            self.due = Instant::now() + at_speed(between_ns, self.speed);
        }
        there
    }

    /// Until something is to be done.
    fn left(&self) -> Duration {
        match self.asked.map(|asked| asked.elapsed()) {
            Some(elapsed) if elapsed < SOON => GLANCE,
            Some(_) => ATTENTION,
            None if !self.steps.is_empty() => Duration::ZERO,
            None if self.paused || self.ended => ATTENTION,
            None => self.due.saturating_duration_since(Instant::now()).min(ATTENTION),
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Pause => {
                self.paused = !self.paused;
                self.due = Instant::now();
            }
            Action::Step(steps) if self.seekable || steps == 1 => {
                self.paused = true;
                self.ended = false;
                self.steps.push_back(steps);
            }
            Action::Turn if self.seekable => {
                self.back = !self.back;
                self.ended = false;
            }
            Action::Faster | Action::Slower => self.change_speed(action == Action::Faster),
            _ => {}
        }
    }

    /// Twice or half as fast, or as often.
    fn change_speed(&mut self, faster: bool) {
        if self.seekable {
            let speed = if faster { self.speed * 2.0 } else { self.speed / 2.0 };
            self.speed = speed.clamp(SLOWEST, FASTEST);
            self.due = Instant::now();
        } else {
            let interval = if faster { self.interval / 2 } else { self.interval * 2 };
            self.interval = interval.clamp(SHORTEST, LONGEST);
            self.due = self.due.min(Instant::now() + self.interval);
        }
    }

    fn status(&self) -> String {
        let mut words = vec![];
        let waited = self.asked.map_or(Duration::ZERO, |asked| asked.elapsed());
        if waited >= PATIENCE {
            words.push(format!("no answer for {} s", waited.as_secs()));
        }
        if !self.seekable {
            words.push(format!("every {:?}", self.interval));
        } else if self.position.1 > 0 {
            let (at, length) = self.position;
            words.push(format!("{at} of {length}, {} times as fast", self.speed));
            if self.back {
                words.push("backwards".to_owned());
            }
            if self.ended {
                words.push(format!("at its {}", if self.back { "beginning" } else { "end" }));
            }
        }
        words.join(", ")
    }
}

/// To go so many intervals on.
struct Request {
    steps: isize,
    /// States and pCPUs of vCPUs are shown.
    states: bool,
}

/// The interval, if there is another now, and what was before it, if that was not shown.
type Place = (Option<Interval>, Vec<Past>);
/// And where that is.
type Moved = (Place, (usize, usize));

enum Answer<E> {
    Opened { seekable: bool },
    NotOpened(E),
    Moved(Moved),
    Failed(ScreenError),
}

/// Answers requests until nobody has any.
fn feed<E>(
    open: impl FnOnce() -> Result<Source, E>,
    requests: &Receiver<Request>,
    to_screen: &Sender<Answer<E>>,
) {
    // If nobody listens any more, nobody asks either.
    let answer = |answer| drop(to_screen.send(answer));
    let mut feed = match open().map(Feed::new) {
        Ok(Ok(feed)) => feed,
        Ok(Err(error)) => return answer(Answer::Failed(error)),
        Err(error) => return answer(Answer::NotOpened(error)),
    };
    answer(Answer::Opened { seekable: matches!(feed, Feed::Tape(_)) });
    loop {
        let request = match requests.recv_timeout(ATTEND) {
            Ok(request) => request,
            Err(RecvTimeoutError::Timeout) => {
                feed.attend();
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        };
        match feed.step(&request) {
            Ok(moved) => answer(Answer::Moved(moved)),
            Err(error) => return answer(Answer::Failed(error)),
        }
    }
}

// There is one of them.
#[allow(clippy::large_enum_variant)]
enum Feed {
    /// And the snapshot before.
    Live(Source, Option<(Snapshot, ProcessTimes)>),
    Tape(Tape),
}

impl Feed {
    fn new(source: Source) -> Result<Feed, ScreenError> {
        match source {
            Source::Recording(recording, _) => Ok(Feed::Tape(Tape::of_recording(recording))),
            Source::Simulation(simulation) => {
                let tape = Tape::of_simulation(simulation);
                tape.map(Feed::Tape).map_err(ScreenError::Tape)
            }
            mut live => {
                live.set_states(false);
                let last = live.sample(&AtomicBool::new(false)).map_err(ScreenError::Source)?;
                let processes = live.processes();
                Ok(Feed::Live(live, last.map(|last| (last, processes))))
            }
        }
    }

    fn attend(&mut self) {
        if let Feed::Live(source, _) = self {
            source.attend();
        }
    }

    fn step(&mut self, request: &Request) -> Result<Moved, ScreenError> {
        match self {
            Feed::Tape(tape) => {
                let place = tape.step(request.steps).map_err(ScreenError::Tape)?;
                Ok((place, tape.position()))
            }
            Feed::Live(source, last) => {
                source.set_states(request.states);
                let now = source.sample(&AtomicBool::new(false)).map_err(ScreenError::Source)?;
                let now = now.map(|now| (now, source.processes()));
                let interval = last.as_ref().zip(now.as_ref()).map(|(last, now)| {
                    Interval::between(&last.0, &now.0).with_processes(&last.1, &now.1)
                });
                *last = now;
                Ok(((interval, vec![]), (0, 0)))
            }
        }
    }
}

impl Looks {
    /// What the environment says of the terminal.
    fn of_terminal(color: bool) -> Looks {
        let variable = |name| env::var(name).ok().filter(|value| !value.is_empty());
        // The first that is set counts, as for any program.
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(variable);
        let locale = locale.unwrap_or_default().to_lowercase();
        let utf8 = locale.contains("utf-8") || locale.contains("utf8");
        let plain = matches!(variable("TERM").as_deref(), Some("linux" | "vt100"));
        Looks { blocks: utf8 && !plain, color }
    }
}

/// Why a screen cannot be shown.
#[derive(Debug)]
pub enum ScreenError {
    /// A live source fails.
    Source(SourceError),
    /// What is kept of a recording or a simulation cannot be written or read.
    Tape(io::Error),
    /// The thread of the source ended: a bug, of which it said more.
    Stopped,
    /// The terminal.
    Terminal(io::Error),
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
            ScreenError::Stopped => formatter.write_str("the source ended unexpectedly"),
            ScreenError::Tape(error) | ScreenError::Terminal(error) => error.fmt(formatter),
        }
    }
}

impl error::Error for ScreenError {}
