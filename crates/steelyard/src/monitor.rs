// SPDX-License-Identifier: GPL-2.0-only
//! `steelyard top` and `steelyard record`: who gets the CPUs of a host, and who waits.

use std::cell::Cell;
use std::env;
use std::fs::File;
use std::io::{self, BufReader, ErrorKind, IsTerminal, Write};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anstream::{AutoStream, ColorChoice};
use steelyard_boundary::output::{Output, Stream, scratch};
use steelyard_boundary::text::{self, told};
use steelyard_monitor::{
    Interval, LinuxSource, PerfettoTrace, ProcessTimes, ScreenError, Settings, SettingsError,
    SimulationSource, Source, XenSource, fill_screen,
};
use steelyard_recording::{Ending, Recorder, Recording, Snapshot};
use steelyard_scenario::{Diagnostic, Options, load, open_recording, recording_error};
use steelyard_simulator::Simulation;
use steelyard_simulator::units::Nanoseconds;

use crate::arguments::{Record, Top, Watched};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::terminal;

/// Seed of what is simulated: the first of `compare`.
const SEED: u64 = 1;
/// A signal is heeded within this time.
pub const ATTENTION: Duration = Duration::from_millis(50);

pub fn top(arguments: &Top, interrupt: &Interrupt) -> Result<(), Failure> {
    let Top { watched, replay, speed, batch, json, simple, csv, all } = arguments;
    let first = Cell::new(true);
    let print: &dyn Fn(&Interval) -> Result<String, Failure> = match (json, simple, csv) {
        (true, _, _) => &|interval| {
            let text = serde_json::to_string(interval);
            Ok(text.map_err(|error| Failure::Output(error.into()))? + "\n")
        },
        (_, true, _) => &|interval| Ok(interval.to_bars(terminal::width()) + "\n"),
        (_, _, true) => &|interval| Ok(interval.to_csv(first.replace(false))),
        _ => &|interval| Ok(interval.to_table(terminal::width(), *all) + "\n"),
    };
    if !json && !simple && !csv && batch.is_none() {
        check_terminal()?;
        let (of, replay) = (watched.clone(), replay.clone());
        let open = move || source(&of, replay.as_deref());
        let (every, speed) = (interval(watched), speed.unwrap_or(1.0));
        let color = AutoStream::choice(&io::stdout()) != ColorChoice::Never;
        let looks = (color, settings()?, *all);
        return interrupt.until_asked(|asked| fill_screen(open, every, speed, looks, asked));
    }
    let mut source = source(watched, replay.as_deref())?;
    let mut left = batch.map_or(u32::MAX, u32::from);
    let mut last: Option<(Snapshot, ProcessTimes)> = None;
    let mut due = Instant::now();
    // A signal ends it as it ends any command, but for a line half-written.
    let never = AtomicBool::new(false);
    while let Some(now) = source.sample(&never).map_err(watching)? {
        if last.is_none()
            && batch.is_some()
            && let Some(missing) = now.structure.host.missing_waits()
        {
            terminal::note(&text::told(missing).to_string());
        }
        let mut between_ns = 0;
        let processes = source.processes();
        if let Some((last, before)) = &last {
            between_ns = now.time_ns.saturating_sub(last.time_ns);
            let interval = Interval::between(last, &now).with_processes(before, &processes);
            let text = print(&interval)?;
            let text = if *json { text::json(&text) } else { text::harmless_lines(&text) };
            let written = interrupt.while_writing(|_| {
                let mut out = anstream::stdout().lock();
                Ok(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
            })?;
            match written {
                Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
                other => other.map_err(Failure::Output)?,
            }
            left -= 1;
            if left == 0 {
                return Ok(());
            }
        }
        due = after(due, source.pause(interval(watched), between_ns, *speed));
        wait_until(&mut source, due, &never);
        last = Some((now, processes));
    }
    Ok(())
}

/// Whether there is a terminal that can be filled.
fn check_terminal() -> Result<(), Failure> {
    let message = if !io::stdout().is_terminal() {
        "standard output is no terminal that could be filled"
    } else if env::var("TERM").is_ok_and(|term| term == "dumb") {
        "this terminal says that it is dumb: it cannot be filled"
    } else {
        return Ok(());
    };
    let help = "print with `--batch N`, `--json`, `--csv` or `--simple`";
    Err(Diagnostic::of_file("top", message).with_help(help).into())
}

/// What the person who runs this wants to see.
pub fn settings() -> Result<Settings, Failure> {
    let directory = |name: &str| env::var_os(name).map(PathBuf::from).filter(|it| it.is_absolute());
    let home = || Some(directory("HOME")?.join(".config"));
    let Some(directory) = directory("XDG_CONFIG_HOME").or_else(home) else {
        return Ok(Settings::default());
    };
    Settings::read(&directory.join("steelyard/top.toml")).map_err(|error| match error {
        SettingsError::Wrong(path, message) => {
            Diagnostic::of_file(path.display().to_string(), message).into()
        }
        other => Failure::System { what: "read settings", error: other.to_string() },
    })
}

pub fn record(arguments: &Record, interrupt: &Interrupt) -> Result<(), Failure> {
    let Record { watched, length, output: path } = arguments;
    let inputs: Vec<_> = watched.simulate.iter().cloned().collect();
    let output = Output::file(path, &inputs)?;
    let (mut source, recordings) = open(watched, *length)?;
    let output = output.beside(&recordings)?;
    let length_ns = length.map_or(u64::MAX, |length| length.0);
    source.tell_others();
    if source.is_live() {
        terminal::note("recording this host; Ctrl-C ends it");
    }
    // While nobody takes it, as of a FIFO, a signal is how that is ended.
    let failed = |error: io::Error| interrupt.asked().unwrap_or(Failure::write(path, error));
    // A signal is how it is ended.
    interrupt.until_asked(|asked| {
        let stream = output.stream(asked);
        let stream = stream.map_err(|error| interrupt.asked().unwrap_or(error.into()))?;
        let mut recorder = Recorder::new(stream);
        let mut due = Instant::now();
        let mut told = false;
        while let Some(snapshot) = source.sample(asked).map_err(watching)? {
            if !std::mem::replace(&mut told, true) {
                snapshot.structure.host.missing_waits().into_iter().for_each(|missing| {
                    terminal::note(&format!(
                        "no single waits are recorded, so `steelyard compare` will refuse this file; `steelyard top \
                         --replay` will read it. {}",
                        text::told(missing)
                    ));
                });
            }
            match recorder.record(&snapshot) {
                // Who closes a pipe early has what they want.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
                recorded => recorded.map_err(failed)?,
            }
            due = after(due, source.pause(interval(watched), 0, None));
            if snapshot.time_ns >= length_ns || !wait_until(&mut source, due, asked) {
                break;
            }
        }
        recorder.finish().and_then(Stream::finish).map_err(failed)
    })
}

pub fn convert(
    file: &Path,
    tsc_hz: Option<NonZeroU64>,
    host: Option<&Path>,
    output: &Path,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let recorded = output.extension().is_some_and(|extension| extension == "steelyard");
    let inputs: Vec<_> = [file].into_iter().chain(host).map(Path::to_owned).collect();
    let output = Output::file(output, &inputs)?;
    let mut read = Ok(Ending::Complete);
    let content = |writer: &mut dyn Write| {
        let mut result = Ok(());
        if recorded {
            let mut recorder = Recorder::new(writer);
            read = steelyard_scenario::snapshots(file, tsc_hz, host, |snapshot| {
                result = recorder.record(&snapshot);
                result.is_ok()
            });
            result?;
            recorder.finish()?;
        } else {
            let mut trace = PerfettoTrace::new(writer)?;
            read = steelyard_scenario::snapshots(file, tsc_hz, host, |snapshot| {
                result = trace.add(snapshot);
                result.is_ok()
            });
            result?;
            trace.finish()?.flush()?;
        }
        // What cannot be read leaves nothing behind.
        if read.is_err() { Err(ErrorKind::InvalidData.into()) } else { Ok(()) }
    };
    let written =
        interrupt.while_writing(|asked| Ok(output.write(&mut [Box::new(content)], asked)?));
    note(file, read?, "");
    written
}

/// Says that a file does not end as it should.
fn note(file: &Path, ending: Ending, more: &str) {
    if let Some(fault) = ending.fault() {
        terminal::note(&format!("{}: {fault}{more}", told(file)));
    }
}

/// What `top` shows.
fn source(watched: &Watched, replay: Option<&Path>) -> Result<Source, Failure> {
    match replay {
        Some(path) => recording(path),
        None => Ok(open(watched, None)?.0),
    }
}

fn interval(watched: &Watched) -> Duration {
    Duration::from_nanos(watched.interval.0)
}

/// When it is time again. What was missed, by a host that slept, is not made up for.
fn after(due: Instant, pause: Duration) -> Instant {
    (due + pause).max(Instant::now())
}

/// False if a signal came.
fn wait_until(source: &mut Source, due: Instant, asked: &AtomicBool) -> bool {
    while !asked.load(Ordering::Relaxed) {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        sleep(left.min(ATTENTION));
        source.attend();
    }
    false
}

/// What is to be watched, for so long if it is a simulation, and the recordings read for it.
pub fn open(
    watched: &Watched,
    length: Option<Nanoseconds>,
) -> Result<(Source, Vec<PathBuf>), Failure> {
    let Some(path) = &watched.simulate else {
        if XenSource::is_here(&watched.proc) {
            let mut host = XenSource::new(&watched.proc).map_err(watching)?;
            if !watched.no_waits {
                host.observe();
            }
            return Ok((Source::Xen(Box::new(host)), vec![]));
        }
        let mut host = LinuxSource::new(&watched.proc, &watched.groups).map_err(watching)?;
        // Another /proc has other threads.
        if !watched.no_waits && watched.proc == Path::new("/proc") {
            host.observe();
        }
        return Ok((Source::Linux(Box::new(host)), vec![]));
    };
    let options =
        Options { policies: watched.policy.iter().cloned().collect(), ..Options::default() };
    let input = load(path, &options)?;
    let Some(policy) = input.policies.first() else {
        let message = "the input names no policy: say which by `--policy`";
        return Err(Diagnostic::of_file(&input.name, message).into());
    };
    let simulation = Simulation::new(&input.setup, &policy.policy, SEED)
        .map_err(|error| Diagnostic::of_file(&input.name, error.to_string()))?;
    let end_ns = length.unwrap_or(input.length).0;
    let source = SimulationSource::new(simulation, &input.name, watched.interval.0, end_ns);
    Ok((Source::Simulation(Box::new(source)), input.recordings))
}

fn recording(path: &Path) -> Result<Source, Failure> {
    let recording = match open_recording(path)? {
        Some(file) => Recording::new(file).map_err(|error| recording_error(path, error))?,
        None => of_other(path)?,
    };
    note(path, recording.ending(), &format!("; {} samples can be read", recording.len()));
    Ok(Source::Recording(recording, 0))
}

/// What others recorded, as a recording in a file without a name.
fn of_other(path: &Path) -> Result<Recording<BufReader<File>>, Failure> {
    let failed = |error: io::Error| Failure::System {
        what: "write a temporary file",
        error: error.to_string(),
    };
    let (recorded, file) = scratch().map_err(failed)?;
    let mut recorder = Recorder::new(recorded);
    let mut recorded = Ok(());
    let ending = steelyard_scenario::snapshots(path, None, None, |snapshot| {
        recorded = recorder.record(&snapshot);
        recorded.is_ok()
    })?;
    note(path, ending, "");
    recorded.and_then(|()| recorder.finish()).map_err(failed)?;
    let recording = Recording::new(BufReader::new(file));
    Ok(recording.map_err(|error| recording_error(path, error))?)
}

impl From<ScreenError> for Failure {
    fn from(error: ScreenError) -> Failure {
        let what = match error {
            ScreenError::Source(_) | ScreenError::Stopped => return watching(error),
            ScreenError::Tape(_) => "keep what is shown in a temporary file",
            ScreenError::Terminal(_) => "fill the terminal",
        };
        Failure::System { what, error: error.to_string() }
    }
}

pub fn watching(error: impl std::fmt::Display) -> Failure {
    Failure::System { what: "watch this host", error: error.to_string() }
}
