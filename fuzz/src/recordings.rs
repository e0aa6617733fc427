// SPDX-License-Identifier: GPL-2.0-only
//! Recordings: of `perf`, and our own, which come back as they were written.

use std::io::{Cursor, Write as _};
use std::path::Path;
use std::sync::Arc;

use arbitrary::{Arbitrary, Result, Unstructured};
use flate2::Compression;
use flate2::write::GzEncoder;
use steelyard_monitor::{Exposition, Interval, PerfettoTrace, ProcessTimes};
use steelyard_recording::{
    Domain, Ending, Figures, Group, Host, OtherRun, Placement, PolicyState, Recorder,
    RecordingError, Snapshot, State, Structure, ThreadEvents, Vcpu, Waits, Wake, Who, read,
};
use steelyard_report::{Change, Style, Windows, change_table};
use steelyard_scenario::import_from;
use steelyard_simulator::measure::Segment;

use crate::values::{Number, Word, chance};

/// Reads a recording of any kind for a scenario.
pub fn import(name: &str, bytes: impl AsRef<[u8]>) {
    if let Err(error) = import_from(Path::new(name), Cursor::new(bytes)) {
        assert!(!error.to_string().is_empty());
    }
}

/// Any bytes as text of `perf script`.
pub fn perf(bytes: &[u8]) {
    import("fuzz.txt", bytes);
}

/// What follows zstd's magic number.
pub fn zstd(bytes: &[u8]) {
    import("fuzz.zst", [&[0x28, 0xb5, 0x2f, 0xfd], bytes].concat());
}

/// Any lines in a recording of `steelyard record`.
pub fn steelyard(lines: &[u8]) {
    import("fuzz.steelyard", packed(lines));
}

/// In a gzip member.
pub fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(vec![], Compression::fast());
    packed.write_all(bytes).expect("memory takes it");
    packed.finish().expect("memory takes it")
}

/// A line of `perf script`.
#[derive(Arbitrary, Debug)]
struct Line {
    name: Word,
    pid: Option<Number>,
    tid: Number,
    cpu: Number,
    after_us: Number,
    event: Event,
}

#[derive(Arbitrary, Debug)]
enum Event {
    Switch { state: u8, name: Word, tid: Number, by_field: bool },
    Wake { name: Word, tid: Number, by_field: bool },
    Runtime { ns: Number },
    Other { text: Word },
}

/// Lines as `perf script` writes them, and not quite.
pub fn perf_lines(bytes: &[u8]) {
    let Ok(lines) = Vec::<Line>::arbitrary_take_rest(Unstructured::new(bytes)) else { return };
    let mut time_us = 5_000_000_u64;
    let mut text = vec![];
    for Line { name: Word(name), pid, tid: Number(tid), cpu, after_us, event } in &lines {
        time_us = time_us.wrapping_add(after_us.0);
        let (s, us) = (time_us / 1_000_000, time_us % 1_000_000);
        let pid = pid.map_or(String::new(), |Number(pid)| format!("{pid}/"));
        let _ = write!(text, " {name}  {pid}{tid}  [{:03}] {s}.{us:06}: ", cpu.0);
        let _ = match event {
            Event::Switch { state, name: Word(next), tid: Number(next_tid), by_field } => {
                let state = ["R", "S", "D", "R+", "Z", "I"][usize::from(state % 6)];
                if *by_field {
                    writeln!(
                        text,
                        "sched:sched_switch: prev_comm={name} prev_pid={tid} prev_prio=120 \
                         prev_state={state} ==> next_comm={next} next_pid={next_tid} next_prio=120"
                    )
                } else {
                    writeln!(
                        text,
                        "sched:sched_switch: {name}:{tid} [120] {state} ==> {next}:{next_tid} [120]"
                    )
                }
            }
            Event::Wake { name: Word(woken), tid: Number(tid), by_field: true } => {
                writeln!(text, "sched:sched_waking: comm={woken} pid={tid} prio=120 target_cpu=001")
            }
            Event::Wake { name: Word(woken), tid: Number(tid), by_field: false } => {
                writeln!(text, "sched:sched_wakeup: {woken}:{tid} [120] CPU:000")
            }
            Event::Runtime { ns: Number(ns) } => {
                writeln!(text, "sched:sched_stat_runtime: comm={name} pid={tid} runtime={ns} [ns]")
            }
            Event::Other { text: Word(other) } => writeln!(text, "{other}"),
        };
    }
    perf(&text);
}

/// Any snapshots are written and read, cut off and joined; shown, exposed and converted.
pub fn snapshots(bytes: &[u8]) {
    let mut bytes = Unstructured::new(bytes);
    let Ok((snapshots, cut)) =
        any_snapshots(&mut bytes).and_then(|snapshots| Ok((snapshots, bytes.arbitrary::<u16>()?)))
    else {
        return;
    };
    let file = recorded(&snapshots);
    let (first, ending) = unpacked(&file).expect("it was just written");
    assert_eq!(ending, Ending::Complete);
    assert_eq!(first.len(), snapshots.len());
    for (read, written) in first.iter().zip(&snapshots) {
        let sums = |snapshot: &Snapshot| Snapshot {
            segments: vec![],
            others: vec![],
            threads: ThreadEvents::default(),
            ..snapshot.clone()
        };
        assert_eq!(sums(read), sums(written));
        assert_eq!(read.segments.len(), written.segments.len());
        assert_eq!(read.others.len(), written.others.len());
        assert_eq!(read.threads.wakes.len(), written.threads.wakes.len());
        assert_eq!(read.threads.placements, written.threads.placements);
    }
    // Single runs and waits are kept in units; what was read lies on them.
    let (again, _) = unpacked(&recorded(&first)).expect("it was just written");
    assert_eq!(sorted(again), sorted(first.clone()));

    let end = usize::from(cut) % (file.len() + 1);
    match unpacked(&file[..end]) {
        Ok((read, ending)) => {
            assert_eq!(read, first[..read.len()]);
            assert_ne!(ending, Ending::Damaged);
        }
        Err(RecordingError::Empty) => {}
        Err(error) => panic!("{error}"),
    }
    let (twice, _) = unpacked(&[&file[..], &file].concat()).expect("two recordings");
    assert_eq!(twice, [&first[..], &first].concat());

    let mut trace = PerfettoTrace::new(vec![]).expect("memory takes it");
    let mut exposition = Exposition::default();
    let mut windows = Windows::default();
    let mut last: Option<Snapshot> = None;
    for snapshot in first {
        windows.add(&snapshot).expect("so many domains there are not");
        let mut text = String::new();
        exposition.write(&snapshot, &ProcessTimes::new(), &[], 0, &mut text);
        check_exposition(&text);
        if let Some(last) = &last {
            Interval::between(last, &snapshot).to_table(80, true);
        }
        trace.add(snapshot.clone()).expect("memory takes it");
        last = Some(snapshot);
    }
    if let Ok(windows) = windows.finish() {
        let change = Change::between(("a", &windows), ("a", &windows));
        assert!(!change_table(&change, true, Style { width: 80, color: false }).is_empty());
    }
    import("fuzz.json.gz", trace.finish().expect("memory takes it"));
    import("fuzz.steelyard", file);
}

fn recorded(snapshots: &[Snapshot]) -> Vec<u8> {
    let mut recorder = Recorder::new(vec![]);
    for snapshot in snapshots {
        recorder.record(snapshot).expect("memory takes it");
    }
    recorder.finish().expect("memory takes it")
}

fn unpacked(bytes: &[u8]) -> std::result::Result<(Vec<Snapshot>, Ending), RecordingError> {
    let mut snapshots = vec![];
    let ending = read(Cursor::new(bytes), |snapshot| {
        snapshots.push(snapshot);
        true
    })?;
    Ok((snapshots, ending))
}

/// Those that end at the same time are in any order.
fn sorted(mut snapshots: Vec<Snapshot>) -> Vec<Snapshot> {
    for snapshot in &mut snapshots {
        let key = |it: &Segment| (it.end_ns, it.domain, it.vcpu, it.start_ns, it.pcpu);
        snapshot.segments.sort_by_key(key);
        snapshot.others.sort_by_key(|run| (run.end_ns, run.start_ns, run.pcpu, run.name.clone()));
    }
    snapshots
}

fn any_snapshots(bytes: &mut Unstructured<'_>) -> Result<Vec<Snapshot>> {
    let mut structure = Arc::new(structure(bytes)?);
    let mut snapshots = vec![];
    let mut time_ns = 0_u64;
    for _ in 0..bytes.int_in_range(1..=4)? {
        if chance(bytes, 1, 4)? {
            structure = Arc::new(self::structure(bytes)?);
        }
        time_ns = time_ns.wrapping_add(bytes.arbitrary::<Number>()?.0);
        snapshots.push(snapshot(bytes, &structure, time_ns)?);
    }
    Ok(snapshots)
}

fn structure(bytes: &mut Unstructured<'_>) -> Result<Structure> {
    let mut domains = vec![];
    for _ in 0..bytes.int_in_range(0..=3)? {
        let mut vcpus = vec![];
        for id in 0..bytes.int_in_range(0..=3)? {
            vcpus.push(Vcpu { id, name: bytes.arbitrary::<Word>()?.0 });
        }
        domains.push(Domain {
            id: bytes.arbitrary::<Number>()?.0,
            name: bytes.arbitrary::<Word>()?.0,
            weight: bytes.arbitrary::<Number>()?.0 as u32,
            ungrouped: bytes.arbitrary()?,
            groups_around: bytes.arbitrary()?,
            cap_percent: bytes.arbitrary::<Number>()?.0 as u32,
            vcpus,
        });
    }
    Ok(Structure {
        host: Host {
            name: bytes.arbitrary::<Word>()?.0,
            source: bytes.arbitrary::<Word>()?.0,
            pcpus: bytes.int_in_range(1..=3)?,
            began_unix_ns: bytes.arbitrary::<Option<Number>>()?.map(|number| number.0),
            unseen: vec![],
        },
        domains,
    })
}

fn snapshot(
    bytes: &mut Unstructured<'_>,
    structure: &Arc<Structure>,
    time_ns: u64,
) -> Result<Snapshot> {
    let number = |bytes: &mut Unstructured<'_>| bytes.arbitrary::<Number>().map(|it| it.0);
    let mut idle_ns = vec![];
    for _ in 0..structure.host.pcpus {
        idle_ns.push(number(bytes)?);
    }
    let (mut vcpus, mut segments, mut others) = (vec![], vec![], vec![]);
    let times = |bytes: &mut Unstructured<'_>| -> Result<(u64, u64)> {
        let end_ns = if chance(bytes, 7, 8)? { time_ns } else { number(bytes)? };
        Ok((end_ns.saturating_sub(number(bytes)?), end_ns))
    };
    let pcpu = |bytes: &mut Unstructured<'_>| bytes.int_in_range(0..=structure.host.pcpus - 1);
    for (domain, vcpu) in structure
        .domains
        .iter()
        .zip(0..)
        .flat_map(|(it, domain)| (0..it.vcpus.len() as u32).map(move |vcpu| (domain, vcpu)))
    {
        vcpus.push(figures(bytes)?);
        while chance(bytes, 1, 2)? {
            let (start_ns, end_ns) = times(bytes)?;
            let pcpu = if bytes.arbitrary()? { Some(pcpu(bytes)?) } else { None };
            segments.push(Segment { domain, vcpu, pcpu, start_ns, end_ns });
        }
    }
    while chance(bytes, 1, 4)? {
        let (start_ns, end_ns) = times(bytes)?;
        let pcpu = pcpu(bytes)?;
        let name = bytes.arbitrary::<Word>()?.0.into();
        let (thread, priority) = (bytes.arbitrary()?, bytes.arbitrary()?);
        let waited = bytes.arbitrary()?;
        others.push(OtherRun { name, thread, priority, waited, pcpu, start_ns, end_ns });
    }
    let threads = thread_events(bytes, structure, time_ns)?;
    let (structure, lost) = (structure.clone(), number(bytes)?);
    Ok(Snapshot { structure, time_ns, idle_ns, vcpus, segments, others, threads, lost })
}

fn thread_events(
    bytes: &mut Unstructured<'_>,
    structure: &Structure,
    time_ns: u64,
) -> Result<ThreadEvents> {
    let all: Vec<Who> = structure
        .domains
        .iter()
        .zip(0..)
        .flat_map(|(it, domain)| (0..it.vcpus.len() as u32).map(move |vcpu| (domain, vcpu)))
        .map(|(domain, vcpu)| Who::Vcpu(domain, vcpu))
        .collect();
    let who = |bytes: &mut Unstructured<'_>| match all.is_empty() || chance(bytes, 1, 3)? {
        true => Ok(Who::Other(bytes.arbitrary()?)),
        false => bytes.choose(&all).copied(),
    };
    let mut threads = ThreadEvents::default();
    while chance(bytes, 1, 2)? {
        let time_ns = time_ns.saturating_sub(bytes.arbitrary::<Number>()?.0);
        let waker = if bytes.arbitrary()? { Some(who(bytes)?) } else { None };
        threads.wakes.push(Wake { time_ns, waker, woken: who(bytes)? });
    }
    while chance(bytes, 1, 3)? {
        let mut groups = vec![];
        while chance(bytes, 1, 2)? {
            let weight = bytes.arbitrary::<Number>()?.0 as u32;
            groups.push(Group { id: bytes.int_in_range(0..=3)?, weight });
        }
        let pcpus = if bytes.arbitrary()? { Some(bytes.int_in_range(0..=5)?) } else { None };
        let pcpus = pcpus.map(|pcpu| [pcpu].into_iter().collect());
        let priority = bytes.arbitrary()?;
        threads.placements.push(Placement { who: who(bytes)?, priority, groups, pcpus });
    }
    Ok(threads)
}

fn figures(bytes: &mut Unstructured<'_>) -> Result<Figures> {
    let number = |bytes: &mut Unstructured<'_>| -> Result<Option<u64>> {
        Ok(bytes.arbitrary::<Option<Number>>()?.map(|it| it.0))
    };
    let states = [
        None,
        Some(State::Running),
        Some(State::Waiting),
        Some(State::Runnable),
        Some(State::Blocked),
    ];
    let mut waits = Waits::default();
    let mut bound_ns = 0_u64;
    while chance(bytes, 1, 2)? {
        bound_ns = bound_ns.saturating_add(bytes.arbitrary::<Number>()?.0);
        let count = bytes.arbitrary::<Number>()?.0.max(1);
        if waits.histogram.last().is_none_or(|&(last_ns, _)| last_ns < bound_ns) {
            waits.histogram.push((bound_ns, count));
        }
    }
    let policy = if bytes.arbitrary()? {
        Some(PolicyState {
            weight: bytes.arbitrary::<Number>()?.0,
            slice_ns: number(bytes)?,
            credit: bytes.arbitrary()?,
            class: bytes.arbitrary::<Option<Word>>()?.map(|word| word.0),
            boosted: bytes.arbitrary()?,
        })
    } else {
        None
    };
    Ok(Figures {
        state: *bytes.choose(&states)?,
        pcpu: number(bytes)?.map(|pcpu| pcpu as u32),
        gotten_ns: bytes.arbitrary::<Number>()?.0,
        waited_ns: number(bytes)?,
        switches: number(bytes)?,
        migrations: number(bytes)?,
        preemptions: number(bytes)?,
        waits: bytes.arbitrary::<bool>()?.then_some(waits),
        policy,
    })
}

/// What OpenMetrics 1.0 asks of every exposition: families that are told once and of one piece, no
/// series twice, values that are numbers, an end.
fn check_exposition(text: &str) {
    let mut families = std::collections::HashSet::new();
    let mut series = std::collections::HashSet::new();
    let mut family = String::new();
    let body = text.strip_suffix("# EOF\n").expect("an end");
    assert!(body.is_empty() || body.ends_with('\n'));
    for line in body.split_terminator('\n') {
        if let Some(told) = line.strip_prefix("# ") {
            let (kind, told) = told.split_once(' ').expect("a kind");
            let (name, _) = told.split_once(' ').expect("a name");
            if name != family {
                assert_eq!(kind, "HELP", "{line:?}");
                assert!(families.insert(name.to_owned()), "{name} is told twice");
                family = name.to_owned();
            }
            continue;
        }
        assert!(line.starts_with(&family), "{line:?} in {family}");
        let (name, value) = split_sample(line);
        assert!(series.insert(name.to_owned()), "{name:?} is there twice");
        assert!(value.parse::<f64>().is_ok_and(f64::is_finite), "{line:?}");
    }
}

/// Name with labels, and value. In a label's value a backslash escapes a quote, itself or a newline's n.
fn split_sample(line: &str) -> (&str, &str) {
    let mut quoted = false;
    let mut characters = line.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => quoted = !quoted,
            '\\' if quoted => {
                let next = characters.next();
                assert!(matches!(next, Some((_, '\\' | '"' | 'n'))), "{line:?}");
            }
            ' ' if !quoted => return (&line[..at], &line[at + 1..]),
            _ => {}
        }
    }
    panic!("no value: {line:?}");
}
