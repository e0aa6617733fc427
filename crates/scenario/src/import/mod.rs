// SPDX-License-Identifier: GPL-2.0-only
//! From other files to scenarios. Each format is a module that reads it into what this one writes
//! down as TOML.
//!
//! To add one: a module here, a variant of [`Format`] with how to recognise it, an arm in
//! [`scenario`].

mod host;
pub(crate) mod libvirt;
mod perf;
mod perfetto;
mod pins;
mod xapi;
mod xl;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;

use flate2::read::MultiGzDecoder;
use steelyard_boundary::input::Input;
use steelyard_boundary::text::{escaped, is_harmful, told};
use steelyard_recording::{
    Ending, History, RecordingError, Snapshot, TraceEventsError, XentraceError, XentraceFile,
    XentraceSurvey, is_xentrace, qemu, read_trace_events,
};
use steelyard_simulator::config::HostTasks;
use steelyard_simulator::limits;
use steelyard_simulator::units::{CpuSet, MAX_PCPU, Nanoseconds};
use toml_edit::Value;

use crate::diagnostic::{Diagnostic, Source, open, read_text, unreadable};
use crate::host::{self as description, HostDescription, beside};
use crate::import::pins::Pins;
use crate::known::KnownXen;
use crate::load::Recordings;
use crate::recording::{Recording, Snapshots, is_replaced};
use crate::settings::DomainSettings;

pub(crate) const KNOWN_FORMATS: &str = "known are scenarios (.toml), recordings (of `steelyard record`, \
     `perf script` text, plain or zstd, xentrace's files, Perfetto's traces and those for it), libvirt domain XML (.xml), Xen's xl.cfg (.cfg), what \
     `xe vm-param-list` prints and what `steelyard describe` writes";

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Scenario,
    /// Of `steelyard record`.
    Steelyard,
    /// Text of `perf script`.
    Perf,
    /// Of Perfetto.
    Perfetto,
    /// Of `xentrace`.
    Xentrace,
    /// A trace for Perfetto that this project wrote.
    TraceEvents,
    Libvirt,
    Xl,
    /// Of `xe vm-param-list`.
    Xapi,
    /// Of `steelyard describe`.
    Host,
}

impl Format {
    /// Whether it is no recording.
    fn describes(self) -> bool {
        use Format::{Host, Libvirt, Scenario, Xapi, Xl};
        matches!(self, Scenario | Libvirt | Xl | Xapi | Host)
    }

    /// Whether the description of the recorded host tells what such a recording does not.
    fn wants_host(self) -> bool {
        matches!(self, Format::Perf | Format::Perfetto | Format::Xentrace)
    }
}

/// Where what a recording does not say of its host is looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Aside<'a> {
    /// In the file of that name beside the recording, if there is one.
    Beside,
    /// In this file.
    File(&'a Path),
    /// Nowhere.
    Nowhere,
}

impl<'a> Aside<'a> {
    /// As somebody asked for.
    pub fn of(file: Option<&'a Path>) -> Aside<'a> {
        file.map_or(Aside::Beside, Aside::File)
    }

    fn read(self, recording: &Path, format: Format) -> Result<Option<HostDescription>, Diagnostic> {
        match self {
            Aside::File(file) if format.wants_host() => HostDescription::read(file).map(Some),
            Aside::File(file) => {
                let message = "no description of a host is needed for what is read here";
                Err(Diagnostic::of_file(file.display().to_string(), message).with_help(
                    "only recordings of perf, Perfetto and xentrace want one: leave `--host` out",
                ))
            }
            Aside::Beside if format.wants_host() && beside(recording).is_file() => {
                HostDescription::read(&beside(recording)).map(Some)
            }
            Aside::Beside | Aside::Nowhere => Ok(None),
        }
    }
}

impl Format {
    /// Recognises a file by its content where that is distinct, else by the end of its name.
    fn of(path: &Path, head: &[u8]) -> Result<Format, Diagnostic> {
        let wrong = |message: &str, help: &str| {
            Err(Diagnostic::of_file(path.display().to_string(), message).with_help(help))
        };
        if head.starts_with(&ZSTD_MAGIC) {
            return Ok(Format::Perf);
        }
        if steelyard_recording::looks_like(head) {
            return Ok(Format::Steelyard);
        }
        if head.starts_with(&GZIP_MAGIC) || head.trim_ascii_start().starts_with(b"{") {
            return Ok(Format::TraceEvents);
        }
        if is_xentrace(head) {
            return Ok(Format::Xentrace);
        }
        if description::looks_like(head) {
            return Ok(Format::Host);
        }
        if perfetto::looks_like(path, head) {
            return Ok(Format::Perfetto);
        }
        if head.starts_with(b"PERFILE2") {
            return wrong(
                "this is perf's binary file",
                "make text of it: perf script --ns -F comm,pid,tid,cpu,time,event,trace -i FILE > FILE.txt",
            );
        }
        if head.trim_ascii().is_empty() {
            return wrong("the file is empty", KNOWN_FORMATS);
        }
        if head.contains(&0) {
            return wrong("the file is binary, no text", KNOWN_FORMATS);
        }
        if xapi::looks_like(head) {
            return Ok(Format::Xapi);
        }
        let extension = path.extension().and_then(|extension| extension.to_str());
        match extension {
            Some("toml") => Ok(Format::Scenario),
            Some("xml") => Ok(Format::Libvirt),
            Some("cfg" | "xl") => Ok(Format::Xl),
            Some("txt" | "perf") => Ok(Format::Perf),
            _ if head.trim_ascii_start().starts_with(b"<") => Ok(Format::Libvirt),
            _ if perf::looks_like(head) => Ok(Format::Perf),
            // Xen asks for no particular name.
            None => Ok(Format::Xl),
            Some(_) => wrong("the format of this file is not known", KNOWN_FORMATS),
        }
    }
}

/// A recording, a VM description, or all descriptions in a directory, as the text of a scenario, with comments, to look at and edit.
/// Recordings in it are named relative to their directory. `host` is the description of a recording's host, if it is not
/// the one beside it.
///
/// # Errors
/// What cannot be read, and where it stands.
pub fn import(path: &Path, host: Option<&Path>) -> Result<String, Diagnostic> {
    let mut recordings = Recordings::default();
    let text = match path.is_dir() {
        true => whole_host(path)?,
        false => scenario(path, open(path)?, &mut recordings, Aside::of(host))?,
    };
    used(host, &recordings)?;
    Ok(text)
}

/// Refuses the description of a host of which nothing that was read is a recording.
pub(crate) fn used(host: Option<&Path>, recordings: &Recordings) -> Result<(), Diagnostic> {
    let Some(host) = host.filter(|_| recordings.is_empty()) else { return Ok(()) };
    let message = "no recording is read that this description of a host could be of";
    Err(Diagnostic::of_file(host.display().to_string(), message).with_help("leave `--host` out"))
}

/// The same from what is already open, or in memory; of `path` only the name counts.
///
/// # Errors
/// As those of [`import`].
pub fn import_from(path: &Path, file: impl BufRead + Seek) -> Result<String, Diagnostic> {
    scenario(path, Input::new(file), &mut Recordings::default(), Aside::Nowhere)
}

/// Opens a file if it holds the snapshots of `steelyard record`, to be looked at in any order.
///
/// # Errors
/// What cannot be read.
pub fn open_recording(path: &Path) -> Result<Option<BufReader<File>>, Diagnostic> {
    let mut file = open(path)?;
    let head = file.fill_buf().map_err(|error| unreadable(path, &error))?;
    let is_recording = Format::of(path, head)? == Format::Steelyard;
    Ok(is_recording.then(|| file.into_inner()))
}

/// What is wrong with such a file.
pub fn recording_error(path: &Path, error: RecordingError) -> Diagnostic {
    match error {
        RecordingError::Io(error) => unreadable(path, &error),
        other => Diagnostic::of_file(path.display().to_string(), other.to_string()),
    }
}

/// The text of the scenario that a file holds or becomes.
pub(crate) fn scenario(
    path: &Path,
    mut file: Input<impl BufRead + Seek>,
    recordings: &mut Recordings,
    aside: Aside<'_>,
) -> Result<String, Diagnostic> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let head = file.fill_buf().map_err(|error| unreadable(path, &error))?;
    let format = Format::of(path, head)?;
    match format {
        Format::Libvirt | Format::Xl | Format::Xapi => {
            let tool = match format {
                Format::Libvirt => "libvirt reads",
                Format::Xl => "xl reads",
                _ => "xe printed",
            };
            let machines = machines(format, &read_text(path, file)?)?;
            let called = match &machines[..] {
                [one] => one.name.clone(),
                _ => stem(&name).to_owned(),
            };
            Ok(described(&format!("{}, which {tool}", comment(&name)), &called, &machines))
        }
        Format::Scenario => read_text(path, file).map(|source| source.text),
        Format::Host => host::scenario(&name, &HostDescription::parse(&read_text(path, file)?)?),
        Format::Steelyard
        | Format::Perf
        | Format::Perfetto
        | Format::Xentrace
        | Format::TraceEvents => {
            let recording = Arc::new(read_recording(path, file, format, aside)?);
            let text = of_recording(&name, format, &recording).ok_or_else(|| {
                let message = "an empty recording: nothing but the idle threads ran";
                Diagnostic::of_file(path.display().to_string(), message)
            })?;
            recordings.insert(path.to_owned(), recording);
            Ok(text)
        }
    }
}

/// Reads the recording that a scenario names.
pub(crate) fn recording(path: &Path, aside: Aside<'_>) -> Result<Recording, Diagnostic> {
    let mut file = open(path)?;
    let head = file.fill_buf().map_err(|error| unreadable(path, &error))?;
    let format = Format::of(path, head)?;
    read_recording(path, file, format, aside)
}

fn read_recording(
    path: &Path,
    file: Input<impl BufRead + Seek>,
    format: Format,
    aside: Aside<'_>,
) -> Result<Recording, Diagnostic> {
    let mut snapshots = Snapshots::default();
    let is_vcpu = |name: &str| qemu::vcpu_number(name).is_some();
    let over = |over| Diagnostic::of_budget(path.display().to_string(), over);
    let mut within = Ok(());
    let read = read_events(path, file, format, None, aside, |snapshot| {
        within = snapshots.add(snapshot);
        within.is_ok()
    });
    within.map_err(over)?;
    let (known, ending) = match read? {
        Read::Snapshots { known, ending } => (known, ending),
        Read::Events { history, skipped: None } => {
            return Recording::of_history(&history, |_| true, 0).map_err(over);
        }
        Read::Events { history, skipped: Some(skipped) } => {
            return Recording::of_history(&history, is_vcpu, skipped).map_err(over);
        }
    };
    let recording = snapshots.finish().map(|mut recording| {
        recording.known = known;
        if let Some(fault) = ending.fault() {
            let after_s = recording.elapsed_ns as f64 / 1e9;
            recording
                .assumed
                .insert(0, format!("No more than {after_s:.2} s of the file: {fault}."));
        }
        recording
    });
    recording.ok_or_else(|| {
        let message = "there are sums in this recording, no single runs and waits: no loads can be made of it";
        let help = "`steelyard record` says what it needs to see them on a host; or record with `perf sched record`, in \
                    Xen's dom0 with `xentrace -D -e 0x29000`";
        Diagnostic::of_file(path.display().to_string(), message).with_help(help)
    })
}

/// Time between the snapshots of what has none of its own.
const INTERVAL_NS: u64 = 1_000_000_000;

/// Whether a file is a recording, of any kind.
///
/// # Errors
/// It cannot be read, or nobody knows what it is.
pub fn is_recording(path: &Path) -> Result<bool, Diagnostic> {
    let mut file = open(path)?;
    let head = file.fill_buf().map_err(|error| unreadable(path, &error))?;
    let format = Format::of(path, head)?;
    Ok(!format.describes())
}

/// Reads a recording of any kind as snapshots, until `each` says false; how it ends. `tsc_hz` is the
/// frequency of the time stamp counter, for one that does not tell it and needs it; `host` the description of its host,
/// if it is not the one beside it.
///
/// # Errors
/// What cannot be read, and where it stands.
pub fn snapshots(
    path: &Path,
    tsc_hz: Option<NonZeroU64>,
    host: Option<&Path>,
    mut each: impl FnMut(Snapshot) -> bool,
) -> Result<Ending, Diagnostic> {
    let mut file = open(path)?;
    let head = file.fill_buf().map_err(|error| unreadable(path, &error))?;
    let format = Format::of(path, head)?;
    match read_events(path, file, format, tsc_hz, Aside::of(host), &mut each)? {
        Read::Snapshots { ending, .. } => Ok(ending),
        Read::Events { history, .. } => {
            let mut snapshots = history.snapshots(INTERVAL_NS);
            while snapshots.next().is_some_and(&mut each) {}
            Ok(Ending::Complete)
        }
    }
}

/// What was read.
enum Read {
    /// Snapshots, one after the other, up to this end.
    Snapshots {
        ending: Ending,
        /// What a description of the host told.
        known: Vec<String>,
    },
    /// Single events of a whole file.
    Events {
        history: History,
        /// Of a kernel's events: how many were not needed. There processes are domains.
        skipped: Option<u64>,
    },
}

/// Reads a recording of any kind: as snapshots, where it holds some, else as events.
fn read_events(
    path: &Path,
    mut file: Input<impl BufRead + Seek>,
    format: Format,
    tsc_hz: Option<NonZeroU64>,
    aside: Aside<'_>,
    mut each: impl FnMut(Snapshot) -> bool,
) -> Result<Read, Diagnostic> {
    let name = path.display().to_string();
    let host = aside.read(path, format)?;
    let wrong = |error: &dyn std::fmt::Display| Diagnostic::of_file(&name, error.to_string());
    match format {
        Format::Steelyard => {
            let ending = steelyard_recording::read(file, &mut each)
                .map_err(|error| recording_error(path, error))?;
            Ok(Read::Snapshots { ending, known: vec![] })
        }
        Format::Xentrace => {
            // Who is there is known at the end.
            let damaged = |error| match error {
                XentraceError::Unreadable(error) => unreadable(path, &error),
                other => wrong(&other),
            };
            let survey = XentraceSurvey::new(&mut file).map_err(damaged)?;
            file.seek(SeekFrom::Start(0)).map_err(|error| unreadable(path, &error))?;
            let tsc_hz = tsc_hz.or(survey.tsc_hz).ok_or_else(|| {
                wrong(&"it does not tell the frequency of the time stamp counter").with_help(
                    "say it to `steelyard convert --tsc-hz HZ` (`xl dmesg` has it in MHz: `Detected ... \
                     processor`), or record with `xentrace -e 0x29000`",
                )
            })?;
            let mut trace = XentraceFile::new(file, &survey, tsc_hz, &name, INTERVAL_NS);
            trace.set_parked(host.as_ref().map(HostDescription::parked).unwrap_or_default());
            let mut known = host.as_ref().map(KnownXen::of);
            while let Some(mut snapshot) = trace.snapshot().map_err(damaged)? {
                if let Some(known) = &mut known {
                    known.tell(&mut snapshot);
                }
                if !each(snapshot) {
                    break;
                }
            }
            let mut known = known.map_or(Ok(vec![]), |known| known.told(&name))?;
            known.extend(survey.decided());
            Ok(Read::Snapshots { ending: survey.ending, known })
        }
        Format::Perf => {
            let (history, skipped) = perf::read(path, file, host.as_ref())?;
            Ok(Read::Events { history, skipped: Some(skipped) })
        }
        Format::Perfetto => {
            let (history, skipped) = perfetto::read(path, file, host.as_ref())?;
            Ok(Read::Events { history, skipped: Some(skipped) })
        }
        Format::TraceEvents => {
            let packed = file.fill_buf().is_ok_and(|head| head.starts_with(&GZIP_MAGIC));
            let history = if packed {
                let budget = file.budget();
                read_trace_events(BufReader::new(budget.unpacked(MultiGzDecoder::new(file))))
            } else {
                read_trace_events(file)
            };
            let history = history.map_err(|error| match error {
                TraceEventsError::Io(error) => unreadable(path, &error),
                other => wrong(&other),
            })?;
            Ok(Read::Events { history, skipped: None })
        }
        Format::Scenario | Format::Libvirt | Format::Xl | Format::Xapi | Format::Host => {
            Err(wrong(&"this is no recording").with_help(KNOWN_FORMATS))
        }
    }
}

/// The virtual machines that a text describes, at least one.
fn machines(format: Format, source: &Source) -> Result<Vec<VirtualMachine>, Diagnostic> {
    match format {
        Format::Libvirt => Ok(vec![libvirt::parse(source)?]),
        Format::Xapi => xapi::parse(source),
        _ => Ok(vec![xl::parse(source)?]),
    }
}

/// Descriptions that are read of a directory at most.
const MOST_DESCRIPTIONS: usize = 4096;

/// All descriptions of virtual machines that lie in a directory, as one scenario.
fn whole_host(directory: &Path) -> Result<String, Diagnostic> {
    let failed = |error: std::io::Error| unreadable(directory, &error);
    let mut paths = vec![];
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        let may_be = matches!(extension, Some("xml" | "cfg" | "xl" | "txt")) || extension.is_none();
        if may_be && path.is_file() {
            paths.push(path);
        }
    }
    let wrong = |message: String| Diagnostic::of_file(directory.display().to_string(), message);
    if paths.len() > MOST_DESCRIPTIONS {
        return Err(wrong(format!("more than {MOST_DESCRIPTIONS} files in a directory")));
    }
    paths.sort();
    let mut all: Vec<VirtualMachine> = vec![];
    for path in &paths {
        let mut file = open(path)?;
        let head = file.fill_buf().map_err(|error| unreadable(path, &error))?;
        // Whatever else lies there.
        let Ok(format @ (Format::Libvirt | Format::Xl | Format::Xapi)) = Format::of(path, head)
        else {
            continue;
        };
        for machine in machines(format, &read_text(path, file)?)? {
            if all.iter().any(|known| known.name == machine.name) {
                let message = format!("a second `{}`: names must differ", told(&machine.name));
                return Err(Diagnostic::of_file(path.display().to_string(), message));
            }
            all.push(machine);
        }
    }
    if all.is_empty() {
        return Err(wrong("no description of a virtual machine lies in this directory".to_owned())
            .with_help("libvirt's lie in /etc/libvirt/qemu, as NAME.xml; xl's where you keep them, as NAME.cfg"));
    }
    let name = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    let name = name.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let of = format!("the {} virtual machines described in {}", all.len(), comment(&name));
    Ok(described(&of, if name.is_empty() { "host" } else { &name }, &all))
}

/// The name of a file without its endings.
fn stem(file: &str) -> &str {
    file.split('.').next().filter(|stem| !stem.is_empty()).unwrap_or(file)
}

/// A virtual machine as libvirt, xl or xapi describe it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct VirtualMachine {
    name: String,
    vcpus: u32,
    weight: u32,
    cap_percent: u32,
    /// Whether each vCPU has the weight for itself.
    ungrouped: bool,
    /// What else an administrator asks for, before what stands above.
    asked: DomainSettings,
    /// By number of the vCPU; none: all pCPUs.
    pin: Vec<Option<Pins>>,
    pin_soft: Vec<Option<Pins>>,
    /// What was translated, and how.
    notes: Vec<String>,
    /// What was not, though it decides who runs; what weighs most first.
    left_out: Vec<String>,
}

/// The machine that descriptions need at least, as far as one can tell: nodes are taken to be sockets.
struct LeastHost {
    pcpus: u32,
    /// 0: none is named.
    nodes: u32,
}

impl LeastHost {
    fn of(machines: &[VirtualMachine]) -> LeastHost {
        let pins = || machines.iter().flat_map(|it| it.pin.iter().chain(&it.pin_soft)).flatten();
        let nodes = pins().map(Pins::least_nodes).max().unwrap_or(0);
        let of_machine = |machine: &VirtualMachine| {
            machine.cap_percent.div_ceil(100).max(machine.vcpus.min(MAX_CORES))
        };
        let pcpus = pins().map(Pins::least_pcpus).chain(machines.iter().map(of_machine));
        let pcpus = pcpus.max().unwrap_or(1);
        if nodes < 2 {
            return LeastHost { pcpus, nodes };
        }
        // A socket has so many at most, and so has a host.
        let nodes = nodes.max(pcpus.div_ceil(MAX_CORES));
        let each = pcpus.div_ceil(nodes).min((MAX_PCPU + 1) / nodes);
        LeastHost { pcpus: each * nodes, nodes }
    }

    fn set(&self, pins: &Pins) -> Option<CpuSet> {
        pins.on(self.pcpus, self.pcpus / self.nodes.max(1))
    }

    fn write(&self, text: &mut String) {
        if self.nodes < 2 {
            return write_host(text, self.pcpus);
        }
        let each = self.pcpus / self.nodes;
        let _ = writeln!(
            text,
            "# The files name NUMA nodes: each is taken to be a socket of {each} pCPU{}.\n\
             [host]\nsockets = {}\ncores_per_socket = {each}",
            if each == 1 { "" } else { "s" },
            self.nodes
        );
    }
}

/// A scenario of described machines.
fn described(from: &str, name: &str, machines: &[VirtualMachine]) -> String {
    let host = LeastHost::of(machines);
    let mut text = format!(
        "# From {from}.\n\
         name = {}\n\
         length = \"10 s\"\n\n\
         # Nothing there says on what host: say so here, and add what else runs on it.\n",
        quoted(name)
    );
    host.write(&mut text);
    for machine in machines {
        machine.write(&host, &mut text);
    }
    text
}

impl VirtualMachine {
    /// One of which nothing else is known.
    fn new(name: &str, vcpus: u32) -> VirtualMachine {
        VirtualMachine {
            name: name.to_owned(),
            vcpus,
            weight: 256,
            cap_percent: 0,
            ungrouped: false,
            asked: DomainSettings::default(),
            pin: vec![],
            pin_soft: vec![],
            notes: vec![],
            left_out: vec![],
        }
    }

    fn write(&self, host: &LeastHost, text: &mut String) {
        let _ =
            writeln!(text, "\n[[domain]]\nname = {}\nvcpus = {}", quoted(&self.name), self.vcpus);
        let (asked, not_taken) = self.asked.in_scenario();
        for what in self.left_out.iter().chain(&not_taken) {
            let _ = writeln!(text, "# Left out: {}.", comment(what));
        }
        for note in &self.notes {
            let _ = writeln!(text, "# {}", comment(note));
        }
        text.push_str(&asked);
        if self.weight != 256 && !self.asked.has("weight") {
            let _ = writeln!(text, "weight = {}", self.weight);
        }
        if self.ungrouped && !self.asked.has("ungrouped") {
            text.push_str("ungrouped = true\n");
        }
        if self.cap_percent != 0 && !self.asked.has("cap_percent") {
            let _ = writeln!(text, "cap_percent = {}", self.cap_percent);
        }
        for (key, pins) in [("pin", &self.pin), ("pin_soft", &self.pin_soft)] {
            if pins.iter().all(Option::is_none) {
                continue;
            }
            let all: CpuSet = (0..host.pcpus).collect();
            let set = |pins: &Option<Pins>| match pins {
                None => Some(all.clone()),
                Some(pins) => host.set(pins),
            };
            let sets: Vec<Option<CpuSet>> = pins.iter().map(set).collect();
            if sets.contains(&None) {
                let _ = writeln!(text, "# Left out: pins of which nothing is left on this host.");
            }
            let sets = sets.into_iter().map(|set| set.unwrap_or_else(|| all.clone()));
            let sets: Vec<CpuSet> = sets.collect();
            let mut sets: Vec<String> = sets.iter().map(|set| quoted(&set.to_string())).collect();
            if sets.iter().all(|set| *set == sets[0]) {
                sets.truncate(1);
            }
            let _ = writeln!(text, "{key} = [{}]", sets.join(", "));
        }
        let _ = writeln!(
            text,
            "# What runs in it nothing says either: here every vCPU computes all the time.\n\
             [[domain.task]]\nthreads = {}\nworkload.busy = {{ compute = \"10 ms\" }}",
            self.vcpus
        );
    }
}

/// The weight for a value that is not one of 1..65535, with a note if it had to be changed.
fn clamp_weight(weight: u64, notes: &mut Vec<String>) -> u32 {
    let clamped = weight.clamp(limits::WEIGHT.least, limits::WEIGHT.most);
    if clamped != weight {
        notes.push(format!("A weight of {weight} is out of range: {clamped} is the nearest."));
    }
    clamped as u32
}

/// Runs of a recording, with as many seeds: what differs between them no replay can tell.
const SEEDS: u32 = 5;
/// Part of a sleep by which a seed may move its end: the replayed phases are one case of many.
const JITTER_PERCENT: u32 = 5;

fn of_recording(file: &str, format: Format, recording: &Recording) -> Option<String> {
    if recording.processes.is_empty() {
        return None;
    }
    let percent = |ns: u64| 100.0 * ns as f64 / recording.elapsed_ns as f64;
    let mut text = format!("# From the recording {}: ", comment(file));
    let of_kernel = matches!(format, Format::Perf | Format::Perfetto);
    text.push_str(match of_kernel {
        false => "each domain with its vCPUs.\n",
        true => {
            "each virtual machine, and each other process that used at least\n\
             # 0.5 % of a CPU, is a domain, and each of its threads a vCPU: those that QEMU calls `CPU n/KVM` or\n\
             # `CPU n/TCG` first, then its emulator, input and output, and the kernel's helpers. All other\n\
             # threads are the rest of the host.\n"
        }
    });
    text.push_str(
        "# Every vCPU replays for how long it ran and slept; how long it waits is up to the policy. A seed makes\n\
         # each sleep a little longer or shorter.\n",
    );
    for known in &recording.known {
        let _ = writeln!(text, "# Known: {}", comment(known));
    }
    for assumed in &recording.assumed {
        let _ = writeln!(text, "# Assumed: {}", comment(assumed));
    }
    if of_kernel {
        let _ = writeln!(text, "# Left out: {} events of other kinds.", recording.skipped);
    }
    let name = stem(file);
    let length = Nanoseconds(recording.elapsed_ns).to_string();
    let _ =
        write!(text, "name = {}\nlength = {}\nseeds = {SEEDS}\n\n", quoted(name), quoted(&length));
    write_host(&mut text, recording.pcpus.len() as u32);
    if is_replaced(&recording.source) {
        text.push_str("others = \"beside\"\n");
    }
    text.push_str(
        "# What switches cost is in the recorded run times.\n\
         costs = { context_switch = \"0 ns\", interrupt = \"0 ns\", vm_exit = \"0 ns\", cache_refill = \"0 ns\", \
         migration = \"0 ns\", cache_migration = \"0 ns\", socket_migration = \"0 ns\" }\n",
    );
    let group_name = |id: u64| {
        let number = recording.groups.iter().position(|group| group.id == id).unwrap_or_default();
        quoted(&format!("group-{}", number + 1))
    };
    for group in &recording.groups {
        let _ = writeln!(
            text,
            "[[host.group]]\nname = {}\nweight = {}",
            group_name(group.id),
            u64::from(group.weight).clamp(limits::WEIGHT.least, limits::WEIGHT.most)
        );
        if let Some(around) = group.around {
            let _ = writeln!(text, "group = {}", group_name(around));
        }
    }
    // Virtual machines are what is asked about.
    let mut processes: Vec<_> = recording.processes.iter().collect();
    processes.sort_by_key(|(_, process)| process.vcpus == 0);
    for (id, process) in processes {
        let threads = process.times.len();
        let (name, gotten) = (comment(&process.name), percent(process.gotten_ns()));
        let vcpus = match of_kernel {
            true => format!(", {} of its {threads} threads are vCPUs", process.vcpus),
            false => String::new(),
        };
        let _ = writeln!(
            text,
            "\n# {name}: {gotten:.1} % of a CPU{vcpus}.\n\
             [[domain]]\nname = {}\nvcpus = {threads}",
            quoted(&process.name),
        );
        if process.weight != 256 {
            let _ = writeln!(
                text,
                "weight = {}",
                u64::from(process.weight).clamp(limits::WEIGHT.least, limits::WEIGHT.most)
            );
        }
        if process.ungrouped {
            text.push_str("ungrouped = true\n");
        }
        if let Some(group) = process.group(&recording.groups) {
            let _ = writeln!(text, "group = {}", group_name(group.id));
        }
        if let Some(HostTasks { priority, kernel }) = &process.tasks {
            let kernel = if *kernel { ", kernel = true" } else { "" };
            let _ = writeln!(text, "host_tasks = {{ priority = {priority}{kernel} }}");
        }
        if process.cap_percent != 0 {
            let _ = writeln!(text, "cap_percent = {}", process.cap_percent);
        }
        write_pins(&mut text, &process.pins, recording.pcpus.len() as u32);
        let _ = writeln!(
            text,
            "[[domain.task]]\nthreads = {threads}\n\
             workload.replay = {{ recording = {}, process = {id}, jitter_percent = {JITTER_PERCENT} }}",
            quoted(file),
        );
    }
    Some(text)
}

/// Where vCPUs may run, if there is one that may not do so anywhere.
fn write_pins(text: &mut String, pins: &[Option<CpuSet>], pcpus: u32) {
    let all: CpuSet = (0..pcpus).collect();
    let there = |pin: &CpuSet| pin.iter().filter(|&pcpu| pcpu < pcpus).collect::<CpuSet>();
    let pins = pins.iter().map(|pin| pin.as_ref().map(there));
    // Who may run on none of those that are there is told nonsense of.
    let pins = pins.map(|pin| pin.filter(|pin| pin.iter().next().is_some()));
    let pins: Vec<CpuSet> = pins.map(|pin| pin.unwrap_or_else(|| all.clone())).collect();
    if pins.iter().all(|pin| *pin == all) {
        return;
    }
    let alike = pins.iter().all(|pin| *pin == pins[0]);
    let said = if alike { &pins[..1] } else { &pins[..] };
    let said: Vec<String> = said.iter().map(|pin| quoted(&pin.to_string())).collect();
    let _ = writeln!(text, "pin = [{}]", said.join(", "));
}

/// Cores of a socket at most.
const MAX_CORES: u32 = 1024;

fn write_host(text: &mut String, pcpus: u32) {
    let sockets = pcpus.div_ceil(MAX_CORES);
    text.push_str("[host]\n");
    if sockets > 1 {
        let _ = writeln!(text, "sockets = {sockets}");
    }
    let _ = writeln!(text, "cores_per_socket = {}", pcpus.div_ceil(sockets));
}

/// Text as a string of TOML, which whoever looks at it sees as it is.
fn quoted(text: &str) -> String {
    if !text.contains(is_harmful) {
        return Value::from(text).to_string();
    }
    let unwanted = |c| matches!(c, '"' | '\\') || is_harmful(c);
    let text = escaped(text, unwanted, |c, out| match c {
        '"' | '\\' => out.extend(['\\', c]),
        c => out.push_str(&format!("\\U{:08X}", u32::from(c))),
    });
    format!("\"{text}\"")
}

/// Text as it may stand in a comment.
fn comment(text: &str) -> String {
    told(text).to_string()
}

/// A whole number in an attribute, an element or an assignment.
fn whole_number(
    source: &Source,
    bytes: std::ops::Range<usize>,
    text: &str,
    what: &str,
    range: std::ops::RangeInclusive<i64>,
) -> Result<i64, Diagnostic> {
    let text = text.trim();
    match text.parse() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => Err(source.error(
            bytes,
            format!(
                "`{text}` is no {what}: a whole number from {} to {}",
                range.start(),
                range.end()
            ),
        )),
    }
}
