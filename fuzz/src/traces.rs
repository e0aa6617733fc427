// SPDX-License-Identifier: GPL-2.0-only
//! Traces: of Perfetto, of xentrace, and in the Trace Event Format.

use std::fmt::Write as _;
use std::io::Write as _;
use std::num::NonZeroU64;

use arbitrary::{Arbitrary, Unstructured};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use steelyard_recording::{Xentrace, XentraceFile, XentraceSurvey, read_trace_events};

use crate::recordings::import;
use crate::values::{Number, Word};

/// Any bytes as a trace of Perfetto.
pub fn perfetto(bytes: &[u8]) {
    import("fuzz.pftrace", bytes);
}

/// A packet of Perfetto. Numbers of fields: `crates/scenario/src/import/perfetto.rs`.
#[derive(Arbitrary, Debug)]
enum Packet {
    Switches {
        cpu: Number,
        events: Vec<(Number, Word, Number, Number, Word, Number)>,
    },
    Wakes {
        cpu: Number,
        events: Vec<(Number, Word, Number, bool)>,
    },
    Compact {
        cpu: Number,
        switches: Vec<(Number, Number, Number, u8)>,
        wakes: Vec<(Number, Number, u8)>,
        names: Vec<Word>,
    },
    Tree {
        processes: Vec<(Number, Vec<Word>)>,
        threads: Vec<(Number, Word, Number)>,
    },
    Packed {
        packets: Vec<Packet>,
        zeros: Option<u16>,
    },
    Field {
        tag: u8,
        content: Vec<u8>,
    },
}

fn variable(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn number(tag: u32, number: u64, out: &mut Vec<u8>) {
    variable(u64::from(tag) << 3, out);
    variable(number, out);
}

fn bytes(tag: u32, content: &[u8], out: &mut Vec<u8>) {
    variable(u64::from(tag) << 3 | 2, out);
    variable(content.len() as u64, out);
    out.extend(content);
}

fn message(tag: u32, write: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
    let mut content = vec![];
    write(&mut content);
    bytes(tag, &content, out);
}

fn column(tag: u32, numbers: impl Iterator<Item = u64>, out: &mut Vec<u8>) {
    message(tag, |out| numbers.for_each(|number| variable(number, out)), out);
}

impl Packet {
    fn write(&self, out: &mut Vec<u8>) {
        message(1, |out| self.content(out), out);
    }

    fn content(&self, out: &mut Vec<u8>) {
        match self {
            Packet::Switches { cpu, events } => message(
                1,
                |out| {
                    number(1, cpu.0, out);
                    for (time, from, from_pid, state, to, to_pid) in events {
                        message(
                            2,
                            |out| {
                                number(1, time.0, out);
                                message(
                                    4,
                                    |out| {
                                        bytes(1, from.0.as_bytes(), out);
                                        number(2, from_pid.0, out);
                                        number(4, state.0, out);
                                        bytes(5, to.0.as_bytes(), out);
                                        number(6, to_pid.0, out);
                                    },
                                    out,
                                );
                            },
                            out,
                        );
                    }
                },
                out,
            ),
            Packet::Wakes { cpu, events } => message(
                1,
                |out| {
                    number(1, cpu.0, out);
                    for (time, name, pid, waking) in events {
                        message(
                            2,
                            |out| {
                                number(1, time.0, out);
                                message(
                                    if *waking { 20 } else { 17 },
                                    |out| {
                                        bytes(1, name.0.as_bytes(), out);
                                        number(2, pid.0, out);
                                    },
                                    out,
                                );
                            },
                            out,
                        );
                    }
                },
                out,
            ),
            Packet::Compact { cpu, switches, wakes, names } => message(
                1,
                |out| {
                    number(1, cpu.0, out);
                    message(
                        4,
                        |out| {
                            column(1, switches.iter().map(|switch| switch.0.0), out);
                            column(2, switches.iter().map(|switch| switch.1.0), out);
                            column(3, switches.iter().map(|switch| switch.2.0), out);
                            names.iter().for_each(|name| bytes(5, name.0.as_bytes(), out));
                            column(6, switches.iter().map(|switch| switch.3.into()), out);
                            column(7, wakes.iter().map(|wake| wake.0.0), out);
                            column(8, wakes.iter().map(|wake| wake.1.0), out);
                            column(11, wakes.iter().map(|wake| wake.2.into()), out);
                        },
                        out,
                    );
                },
                out,
            ),
            Packet::Tree { processes, threads } => message(
                2,
                |out| {
                    for (pid, words) in processes {
                        message(
                            1,
                            |out| {
                                number(1, pid.0, out);
                                words.iter().for_each(|word| bytes(3, word.0.as_bytes(), out));
                            },
                            out,
                        );
                    }
                    for (tid, name, pid) in threads {
                        message(
                            2,
                            |out| {
                                number(1, tid.0, out);
                                bytes(2, name.0.as_bytes(), out);
                                number(3, pid.0, out);
                            },
                            out,
                        );
                    }
                },
                out,
            ),
            Packet::Packed { packets, zeros } => {
                let mut content = vec![];
                packets.iter().for_each(|packet| packet.write(&mut content));
                // Empty packets, which are nothing until they are unpacked.
                content.extend((0..zeros.unwrap_or(0)).flat_map(|_| [0x0a, 0]));
                let mut packed = ZlibEncoder::new(vec![], Compression::fast());
                packed.write_all(&content).expect("memory takes it");
                bytes(50, &packed.finish().expect("memory takes it"), out);
            }
            Packet::Field { tag, content } => bytes((*tag).into(), content, out),
        }
    }
}

/// Packets as Perfetto writes them, also packed, and packed again.
pub fn perfetto_packets(bytes: &[u8]) {
    let Ok(packets) = Vec::<Packet>::arbitrary_take_rest(Unstructured::new(bytes)) else { return };
    let mut trace = vec![];
    packets.iter().for_each(|packet| packet.write(&mut trace));
    perfetto(&trace);
}

/// Any bytes as a file of xentrace.
pub fn xentrace(bytes: &[u8]) {
    let Ok(survey) = XentraceSurvey::new(bytes) else { return };
    let tsc_hz = survey.tsc_hz.unwrap_or(NonZeroU64::MIN);
    let mut file = XentraceFile::new(bytes, &survey, tsc_hz, "host", 100_000_000);
    let mut last_ns = 0;
    while let Ok(Some(snapshot)) = file.snapshot() {
        assert!(snapshot.time_ns >= last_ns);
        last_ns = snapshot.time_ns;
    }
}

/// A record in the buffer of a pCPU.
#[derive(Arbitrary, Debug)]
enum Record {
    Change { domain: u8, vcpu: u8, from: u8, to: u8 },
    From { domain: u8, vcpu: u8, ran: Number },
    To { domain: u8, vcpu: u8 },
    Lost { records: Number, vcpu: u8 },
    Other { event: u32, words: [Number; 7], count: u8 },
}

impl Record {
    fn write(&self, tsc: Option<u64>, out: &mut Vec<u8>) {
        let who = |domain: u8, vcpu: u8| {
            let domain = if domain % 4 == 3 { 0x7fff } else { u32::from(domain % 4) };
            domain << 16 | u32::from(vcpu % 4)
        };
        let (event, words) = match self {
            &Record::Change { domain, vcpu, from, to } => {
                let event = 0x2_1001 | u32::from(from & 3) << 8 | u32::from(to & 3) << 4;
                (event, vec![who(domain, vcpu)])
            }
            &Record::From { domain, vcpu, ran } => {
                (0x2_800e, vec![who(domain, vcpu), ran.0 as u32, (ran.0 >> 32) as u32])
            }
            &Record::To { domain, vcpu } => (0x2_800f, vec![who(domain, vcpu), 0, 0, 0]),
            &Record::Lost { records, vcpu } => {
                (0x1_f001, vec![records.0 as u32, who(0, vcpu), 0, 0])
            }
            Record::Other { event, words, count } => {
                let words = words.iter().take(usize::from(count & 7)).map(|word| word.0 as u32);
                (event & 0x0fff_ffff, words.collect())
            }
        };
        let header = event | (words.len() as u32) << 28 | u32::from(tsc.is_some()) << 31;
        out.extend(header.to_le_bytes());
        out.extend(tsc.into_iter().flat_map(u64::to_le_bytes));
        out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    }
}

/// Windows of records as xentrace writes them; read as a file, and live in pieces.
pub fn xentrace_records(bytes: &[u8]) {
    type Window = (Number, Vec<(Option<Number>, Record)>);
    let mut bytes = Unstructured::new(bytes);
    let Ok(piece) = bytes.int_in_range(1..=64_usize) else { return };
    let Ok(windows) = Vec::<Window>::arbitrary_take_rest(bytes) else { return };
    let (mut file, mut tsc) = (vec![], 1_000_u64);
    for (pcpu, records) in &windows {
        let mut window = vec![];
        for (after, record) in records {
            tsc = tsc.wrapping_add(after.map_or(0, |after| after.0));
            record.write(after.map(|_| tsc), &mut window);
        }
        let head = [0x2001_f003, pcpu.0 as u32, window.len() as u32];
        file.extend(head.iter().flat_map(|word| word.to_le_bytes()));
        file.extend(window);
    }
    xentrace(&file);
    import("fuzz.xentrace", &file);
    let mut live = Xentrace::new(NonZeroU64::new(1_000_000_000).expect("it is not 0"));
    if file.chunks(piece).all(|piece| live.push(piece).is_ok()) {
        live.end();
        let mut last_ns = 0;
        for segment in live.ended(u64::MAX) {
            assert!(segment.start_ns <= segment.end_ns && last_ns <= segment.end_ns);
            last_ns = segment.end_ns;
        }
    }
}

/// Any lines of a trace for Perfetto.
pub fn events(lines: &[u8]) {
    let Ok(history) = read_trace_events(lines) else { return };
    let mut last_ns = 0;
    for snapshot in history.snapshots(history.length_ns / 8) {
        assert!(snapshot.time_ns >= last_ns);
        last_ns = snapshot.time_ns;
    }
}

/// An event in a line.
#[derive(Arbitrary, Debug)]
struct Event {
    kind: u8,
    pid: Number,
    tid: Number,
    name: Word,
    time: Time,
    length: Time,
    pcpu: Option<Number>,
}

#[derive(Arbitrary, Debug)]
enum Time {
    Whole(Number),
    Any(f64),
}

impl Time {
    fn us(&self) -> f64 {
        match self {
            Time::Whole(number) => number.0 as f64 / 8.0,
            Time::Any(us) => *us,
        }
    }
}

/// Lines as `convert` writes them, and not quite.
pub fn event_lines(bytes: &[u8]) {
    let Ok(all) = Vec::<Event>::arbitrary_take_rest(Unstructured::new(bytes)) else { return };
    let mut text = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n".to_owned();
    for Event { kind, pid, tid, name, time, length, pcpu } in &all {
        let (pid, tid, us, length) = (pid.0, tid.0, time.us(), length.us());
        let slice = |name: &str, kind: &str| {
            let mut event = serde_json::json!({"ph": "X", "name": name, "cat": kind, "pid": pid,
                "tid": tid, "ts": us, "dur": length, "args": {}});
            if let Some(pcpu) = pcpu {
                event["args"]["pCPU"] = pcpu.0.into();
            }
            event
        };
        let meta = |kind: &str| serde_json::json!({"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name.0}});
        let event = match kind % 8 {
            0 => meta("process_name"),
            1 => meta("thread_name"),
            2 | 3 => slice("running", "running"),
            4 => slice("waiting", "waiting"),
            5 => slice(&name.0, "other"),
            6 => slice(&name.0, "running"),
            _ => serde_json::json!({"ph": "C", "name": "weight", "pid": pid, "ts": us,
                "args": {"weight": length}}),
        };
        let _ = writeln!(text, "{event},");
    }
    text.push_str("]}\n");
    events(text.as_bytes());
}
