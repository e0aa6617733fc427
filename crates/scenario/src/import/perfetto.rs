// SPDX-License-Identifier: GPL-2.0-only
//! Traces of Perfetto (`.perfetto-trace`, `.pftrace`) with the scheduler's events of a Linux kernel:
//! `sched_switch` and `sched_waking`, each by itself or in the compact form. Fields and numbers are
//! those of `protos/perfetto/trace` in Perfetto's sources: `trace_packet.proto`,
//! `ftrace/ftrace_event_bundle.proto`, `ftrace/ftrace_event.proto`, `ftrace/sched.proto` and
//! `ps/process_tree.proto`.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::read::ZlibDecoder;
use steelyard_boundary::input::{Input, OverBudget, over_budget, within_memory};
use steelyard_recording::{History, qemu};
use steelyard_simulator::units::MAX_PCPU;

use crate::diagnostic::{Diagnostic, unreadable};
use crate::follower::Follower;
use crate::host::HostDescription;

/// Longer packets are refused, packed or not. Perfetto's own are a thousand times shorter.
const LONGEST_PACKET: u64 = 8 << 20;

// What holds others is gone through, field by field, and only what it holds is decoded, one at a time: a
// message of two bytes may be empty, and as a struct is a hundred times as long.

/// Fields of a packet.
const PACKET_FTRACE_EVENTS: u64 = 1;
const PACKET_PROCESS_TREE: u64 = 2;
const PACKET_COMPRESSED_PACKETS: u64 = 50;
/// Fields of a bundle: events of one CPU.
const BUNDLE_CPU: u64 = 1;
const BUNDLE_EVENT: u64 = 2;
const BUNDLE_COMPACT_SCHED: u64 = 4;
/// Fields of a process tree.
const TREE_PROCESSES: u64 = 1;
const TREE_THREADS: u64 = 2;

/// What is wanted of a message. Numbers of fields stand in `field`; what is left out is 0 or empty.
trait Message<'a>: Default {
    fn field(&mut self, number: u64, value: Value<'a>) -> Result<(), Wrong>;

    fn decode(bytes: &'a [u8]) -> Result<Self, Wrong> {
        let mut message = Self::default();
        for field in Fields(bytes) {
            let (number, value) = field?;
            message.field(number, value)?;
        }
        Ok(message)
    }
}

#[derive(Default)]
struct Event<'a> {
    timestamp: u64,
    sched_switch: Option<Switch<'a>>,
    sched_wakeup: Option<Wake<'a>>,
    sched_waking: Option<Wake<'a>>,
    flags: u64,
}

impl<'a> Message<'a> for Event<'a> {
    fn field(&mut self, number: u64, value: Value<'a>) -> Result<(), Wrong> {
        match number {
            1 => self.timestamp = value.number()?,
            4 => self.sched_switch = Some(Switch::decode(value.bytes()?)?),
            5 => self.flags = value.number()?,
            17 => self.sched_wakeup = Some(Wake::decode(value.bytes()?)?),
            20 => self.sched_waking = Some(Wake::decode(value.bytes()?)?),
            _ => {}
        }
        Ok(())
    }
}

#[derive(Default)]
struct Switch<'a> {
    prev_comm: &'a str,
    prev_pid: i32,
    prev_state: i64,
    next_comm: &'a str,
    next_pid: i32,
    next_prio: Option<i32>,
}

impl<'a> Message<'a> for Switch<'a> {
    fn field(&mut self, number: u64, value: Value<'a>) -> Result<(), Wrong> {
        match number {
            1 => self.prev_comm = value.text()?,
            2 => self.prev_pid = value.number()? as i32,
            4 => self.prev_state = value.number()? as i64,
            5 => self.next_comm = value.text()?,
            6 => self.next_pid = value.number()? as i32,
            7 => self.next_prio = Some(value.number()? as i32),
            _ => {}
        }
        Ok(())
    }
}

#[derive(Default)]
struct Wake<'a> {
    comm: &'a str,
    pid: i32,
}

impl<'a> Message<'a> for Wake<'a> {
    fn field(&mut self, number: u64, value: Value<'a>) -> Result<(), Wrong> {
        match number {
            1 => self.comm = value.text()?,
            2 => self.pid = value.number()? as i32,
            _ => {}
        }
        Ok(())
    }
}

/// Columns; a time is what passed since the one before.
#[derive(Default)]
struct CompactSched<'a> {
    switch_timestamp: Vec<u64>,
    switch_prev_state: Vec<i64>,
    switch_next_pid: Vec<i32>,
    switch_next_prio: Vec<i32>,
    intern_table: Vec<&'a str>,
    switch_next_comm_index: Vec<u32>,
    waking_timestamp: Vec<u64>,
    waking_pid: Vec<i32>,
    waking_comm_index: Vec<u32>,
    waking_flags: Vec<u64>,
}

impl<'a> Message<'a> for CompactSched<'a> {
    fn field(&mut self, number: u64, value: Value<'a>) -> Result<(), Wrong> {
        match number {
            1 => value.numbers(|number| self.switch_timestamp.push(number)),
            2 => value.numbers(|number| self.switch_prev_state.push(number as i64)),
            3 => value.numbers(|number| self.switch_next_pid.push(number as i32)),
            4 => value.numbers(|number| self.switch_next_prio.push(number as i32)),
            5 => {
                self.intern_table.push(value.text()?);
                Ok(())
            }
            6 => value.numbers(|number| self.switch_next_comm_index.push(number as u32)),
            7 => value.numbers(|number| self.waking_timestamp.push(number)),
            8 => value.numbers(|number| self.waking_pid.push(number as i32)),
            11 => value.numbers(|number| self.waking_comm_index.push(number as u32)),
            12 => value.numbers(|number| self.waking_flags.push(number)),
            _ => Ok(()),
        }
    }
}

#[derive(Default)]
struct Process<'a> {
    pid: i32,
    cmdline: Vec<&'a str>,
}

impl<'a> Message<'a> for Process<'a> {
    fn field(&mut self, number: u64, value: Value<'a>) -> Result<(), Wrong> {
        match number {
            1 => self.pid = value.number()? as i32,
            3 => self.cmdline.push(value.text()?),
            _ => {}
        }
        Ok(())
    }
}

#[derive(Default)]
struct Thread<'a> {
    tid: i32,
    name: &'a str,
    tgid: i32,
}

impl<'a> Message<'a> for Thread<'a> {
    fn field(&mut self, number: u64, value: Value<'a>) -> Result<(), Wrong> {
        match number {
            1 => self.tid = value.number()? as i32,
            2 => self.name = value.text()?,
            3 => self.tgid = value.number()? as i32,
            _ => {}
        }
        Ok(())
    }
}

/// What a CPU did.
#[derive(Clone, Copy)]
enum Scheduled {
    /// Who ran, if the event says so, could go on or not; who runs now.
    Switch {
        previous: Option<u32>,
        runnable: bool,
        next: u32,
        /// Of who runs now.
        priority: Option<i32>,
    },
    Wake {
        tid: u32,
        by: By,
    },
}

/// Who wakes a thread.
#[derive(Clone, Copy)]
enum By {
    /// Who runs there, or an interrupt, with these flags; 0 if none are told.
    Running { flags: u64 },
    /// It may be another CPU than that on which it began.
    Unknown,
}

/// Of the flags of an event: it was in an interrupt (TRACE_FLAG_HARDIRQ, _SOFTIRQ, _NMI of the kernel).
const IN_INTERRUPT: u64 = 0x08 | 0x10 | 0x40;

/// With its time and CPU.
type Timed = (u64, u32, Scheduled);

#[derive(Default)]
struct Reader {
    events: Vec<Timed>,
    names: HashMap<u32, String>,
    /// Process of each thread.
    processes: HashMap<u32, u32>,
    /// Names of virtual machines, by process.
    guests: HashMap<u32, String>,
    /// Bytes of all names.
    names_length: usize,
    skipped: u64,
}

/// Whether a file that begins so, called so, is such a trace.
pub(crate) fn looks_like(path: &Path, head: &[u8]) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    matches!(extension, Some("perfetto-trace" | "pftrace"))
        || head.first() == Some(&PACKET) && head.contains(&0)
}

/// Field 1 of a trace, with a length.
const PACKET: u8 = 0x0a;

/// Reads a trace, with the number of its events that were not needed.
pub(crate) fn read(
    path: &Path,
    mut file: Input<impl BufRead>,
    known: Option<&HostDescription>,
) -> Result<(History, u64), Diagnostic> {
    let name = path.display().to_string();
    let budget = file.budget();
    let mut reader = Reader::default();
    let mut number = 0;
    let read = each_packet(&mut file, &mut number, |packet| {
        for field in Fields(packet) {
            if let (PACKET_COMPRESSED_PACKETS, Value::Bytes(packed)) = field? {
                let unpacked = budget.unpacked(ZlibDecoder::new(packed));
                let mut unpacked = BufReader::with_capacity(1 << 16, unpacked);
                each_packet(&mut unpacked, &mut 0, |packet| reader.packet(packet)).map_err(
                    |error| match error {
                        Wrong::Unreadable(error) if over_budget(&error).is_none() => {
                            Wrong::Packet("cannot be unpacked")
                        }
                        other => other,
                    },
                )?;
            }
        }
        reader.packet(packet)
    });
    match read {
        Ok(()) => reader.finish(&name, known),
        Err(Wrong::Unreadable(error)) => Err(unreadable(path, &error)),
        Err(Wrong::Over(over)) => Err(Diagnostic::of_budget(name, over)),
        Err(Wrong::Packet(problem)) => {
            Err(Diagnostic::of_file(name, format!("packet {number} of this trace {problem}")))
        }
    }
}

/// Why reading ends before the end.
enum Wrong {
    Unreadable(io::Error),
    Over(OverBudget),
    Packet(&'static str),
}

impl From<io::Error> for Wrong {
    fn from(error: io::Error) -> Wrong {
        Wrong::Unreadable(error)
    }
}

impl From<OverBudget> for Wrong {
    fn from(over: OverBudget) -> Wrong {
        Wrong::Over(over)
    }
}

/// Reads packet by packet; `number` counts them.
fn each_packet(
    trace: &mut impl BufRead,
    number: &mut u64,
    mut each: impl FnMut(&[u8]) -> Result<(), Wrong>,
) -> Result<(), Wrong> {
    let mut bytes = vec![];
    loop {
        *number += 1;
        let tag = match trace.fill_buf()?.first() {
            Some(&tag) => tag,
            None => return Ok(()),
        };
        trace.consume(1);
        let length = match varint(trace)? {
            Some(length) if tag == PACKET && length <= LONGEST_PACKET => length,
            _ => return Err(Wrong::Packet("is none that Perfetto writes")),
        };
        bytes.clear();
        if (trace.by_ref().take(length).read_to_end(&mut bytes)? as u64) < length {
            return Err(Wrong::Packet("has no end: the file was cut off"));
        }
        each(&bytes)?;
    }
}

/// A number, seven bits a byte; none if it is none.
fn varint(bytes: &mut impl Read) -> io::Result<Option<u64>> {
    let mut number = 0;
    for shift in (0..70).step_by(7) {
        let mut byte = [0];
        if bytes.read(&mut byte)? == 0 {
            return Ok(None);
        }
        // Of the tenth byte one bit is left.
        number |= u64::from(byte[0] & 0x7f) << shift;
        if byte[0] < 0x80 {
            return Ok(Some(number));
        }
    }
    Ok(None)
}

/// The fields of a message that lie in these bytes: their numbers, and what is in them.
struct Fields<'a>(&'a [u8]);

enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Something else than such a field holds.
const NO_MESSAGE: Wrong = Wrong::Packet("holds what is no message");

impl<'a> Value<'a> {
    fn number(self) -> Result<u64, Wrong> {
        match self {
            Value::Number(number) => Ok(number),
            Value::Bytes(_) => Err(NO_MESSAGE),
        }
    }

    fn bytes(self) -> Result<&'a [u8], Wrong> {
        match self {
            Value::Bytes(bytes) => Ok(bytes),
            Value::Number(_) => Err(NO_MESSAGE),
        }
    }

    fn text(self) -> Result<&'a str, Wrong> {
        str::from_utf8(self.bytes()?).map_err(|_| NO_MESSAGE)
    }

    /// Of a column: one by one, or all after each other.
    fn numbers(self, mut each: impl FnMut(u64)) -> Result<(), Wrong> {
        match self {
            Value::Number(number) => each(number),
            Value::Bytes(mut bytes) => {
                while !bytes.is_empty() {
                    each(varint(&mut bytes)?.ok_or(NO_MESSAGE)?);
                }
            }
        }
        Ok(())
    }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Option<(u64, Value<'a>)> {
        let key = varint(&mut self.0).ok()??;
        let length = match key & 7 {
            0 => return Some((key >> 3, Value::Number(varint(&mut self.0).ok()??))),
            1 => 8,
            2 => varint(&mut self.0).ok()??,
            5 => 4,
            _ => return None,
        };
        let (bytes, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some((key >> 3, Value::Bytes(bytes)))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), Wrong>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field.ok_or(NO_MESSAGE))
    }
}

impl Reader {
    fn packet(&mut self, packet: &[u8]) -> Result<(), Wrong> {
        for field in Fields(packet) {
            match field? {
                (PACKET_FTRACE_EVENTS, Value::Bytes(bundle)) => self.bundle(bundle)?,
                (PACKET_PROCESS_TREE, Value::Bytes(tree)) => self.tree(tree)?,
                _ => {}
            }
        }
        Ok(self.within_budget()?)
    }

    fn tree(&mut self, tree: &[u8]) -> Result<(), Wrong> {
        for field in Fields(tree) {
            match field? {
                (TREE_PROCESSES, Value::Bytes(process)) => {
                    let Process { pid, cmdline } = Process::decode(process)?;
                    if let Some(guest) = qemu::guest_name(cmdline.join("\0").as_bytes()) {
                        self.names_length += guest.len();
                        self.guests.insert(number(pid), guest);
                    }
                }
                (TREE_THREADS, Value::Bytes(thread)) => {
                    let Thread { tid, name, tgid } = Thread::decode(thread)?;
                    self.processes.insert(number(tid), number(tgid));
                    self.name(number(tid), name);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether what is known so far may be held.
    fn within_budget(&self) -> Result<(), OverBudget> {
        // A table is at least half full.
        let named = self.names.len() + self.processes.len() + self.guests.len();
        let tables = 2 * named * size_of::<(u32, String)>();
        within_memory(self.events.len() * size_of::<Timed>() + tables + self.names_length)
    }

    fn name(&mut self, tid: u32, name: &str) {
        if !name.is_empty() {
            let known = self.names.entry(tid).or_default();
            if known != name {
                self.names_length = self.names_length - known.len() + name.len();
                name.clone_into(known);
            }
        }
    }

    fn bundle(&mut self, bundle: &[u8]) -> Result<(), Wrong> {
        let mut cpu = 0;
        for field in Fields(bundle) {
            if let (BUNDLE_CPU, Value::Number(number)) = field? {
                cpu = number;
            }
        }
        let Some(cpu) = u32::try_from(cpu).ok().filter(|&cpu| cpu <= MAX_PCPU) else {
            return Ok(());
        };
        for field in Fields(bundle) {
            match field? {
                (BUNDLE_EVENT, Value::Bytes(event)) => self.event(cpu, Event::decode(event)?),
                (BUNDLE_COMPACT_SCHED, Value::Bytes(compact)) => {
                    self.compact(cpu, &CompactSched::decode(compact)?);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn event(&mut self, cpu: u32, event: Event<'_>) {
        let time = event.timestamp;
        if let Some(switch) = event.sched_switch {
            let (previous, next) = (number(switch.prev_pid), number(switch.next_pid));
            self.name(previous, switch.prev_comm);
            self.name(next, switch.next_comm);
            let runnable = is_runnable(switch.prev_state);
            let (previous, priority) = (Some(previous), switch.next_prio);
            let switch = Scheduled::Switch { previous, runnable, next, priority };
            self.events.push((time, cpu, switch));
        } else if let Some(wake) = event.sched_waking.as_ref().or(event.sched_wakeup.as_ref()) {
            let tid = number(wake.pid);
            self.name(tid, wake.comm);
            let flags = event.flags;
            let by = if event.sched_waking.is_some() { By::Running { flags } } else { By::Unknown };
            self.events.push((time, cpu, Scheduled::Wake { tid, by }));
        } else {
            self.skipped += 1;
        }
    }

    fn compact(&mut self, cpu: u32, compact: &CompactSched<'_>) {
        let comm = |index: &u32| compact.intern_table.get(*index as usize).copied();
        let mut time = 0_u64;
        let switches = compact.switch_timestamp.iter().zip(&compact.switch_prev_state);
        let switches = switches.zip(&compact.switch_next_pid);
        for (index, ((after, state), next)) in switches.enumerate() {
            time = time.wrapping_add(*after);
            let next = number(*next);
            if let Some(name) = compact.switch_next_comm_index.get(index).and_then(comm) {
                self.name(next, name);
            }
            let runnable = is_runnable(*state);
            let priority = compact.switch_next_prio.get(index).copied();
            self.events.push((
                time,
                cpu,
                Scheduled::Switch { previous: None, runnable, next, priority },
            ));
        }
        time = 0;
        let wakes = compact.waking_timestamp.iter().zip(&compact.waking_pid);
        for (index, (after, pid)) in wakes.enumerate() {
            time = time.wrapping_add(*after);
            let tid = number(*pid);
            if let Some(name) = compact.waking_comm_index.get(index).and_then(comm) {
                self.name(tid, name);
            }
            let flags = compact.waking_flags.get(index).copied().unwrap_or(0);
            let by = By::Running { flags };
            self.events.push((time, cpu, Scheduled::Wake { tid, by }));
        }
    }

    fn finish(
        mut self,
        name: &str,
        known: Option<&HostDescription>,
    ) -> Result<(History, u64), Diagnostic> {
        self.events.sort_by_key(|&(time, _, _)| time);
        let (first, last) = match (self.events.first(), self.events.last()) {
            (Some(&(first, ..)), Some(&(last, ..))) if first < last => (first, last),
            _ => {
                let message = "there are no scheduling events in this trace";
                return Err(Diagnostic::of_file(name, message).with_help(
                    "record with the data source linux.ftrace and the events sched/sched_switch and sched/sched_waking",
                ));
            }
        };
        // Older versions tell none, which is no flag.
        let told = self.events.iter().any(|(_, _, event)| {
            matches!(event, Scheduled::Wake { by: By::Running { flags: 1.. }, .. })
        });
        let mut follower = Follower::default();
        let mut running: HashMap<u32, u32> = HashMap::new();
        for (time, cpu, event) in self.events {
            follower.advance(time - first);
            match event {
                Scheduled::Switch { previous, runnable, next, priority } => {
                    if let Some(priority) = priority {
                        // Deadline tasks have a number below 0.
                        follower.priority(next, priority.try_into().ok());
                    }
                    let before = running.insert(cpu, next);
                    // In the compact form it is whoever came last; who that was at first is not told.
                    let previous = previous.or(before).unwrap_or(0);
                    follower.switches(cpu as usize, previous, runnable, next);
                }
                Scheduled::Wake { tid, by: By::Unknown } => _ = follower.wakes(tid),
                Scheduled::Wake { tid, by: By::Running { flags } } => {
                    let by_work = told.then_some(flags & IN_INTERRUPT == 0);
                    follower.wakes_by(tid, cpu as usize, by_work);
                }
            }
            follower.within_budget().map_err(|over| Diagnostic::of_budget(name, over))?;
        }
        follower.advance(last - first);
        for (tid, name) in &self.names {
            follower.name(*tid, name);
        }
        for (pid, guest) in &self.guests {
            follower.name(*pid, guest);
        }
        for (tid, process) in &self.processes {
            follower.belongs(*tid, *process);
        }
        Ok((follower.finish(name, "Perfetto", known)?, self.skipped))
    }
}

/// Of a process or thread; those of the kernel are not negative.
fn number(pid: i32) -> u32 {
    pid.max(0) as u32
}

/// 0, and preempted, which is a bit above those of the states in which a task sleeps.
fn is_runnable(state: i64) -> bool {
    state & 0xff == 0
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::ZlibEncoder;
    use prost::Message;
    use steelyard_simulator::measure::Segment;

    use super::*;

    const MS: u64 = 1_000_000;

    // As another library writes them.

    #[derive(Clone, PartialEq, Message)]
    struct Event {
        #[prost(uint64, tag = "1")]
        timestamp: u64,
        #[prost(message, optional, tag = "4")]
        sched_switch: Option<Switch>,
        #[prost(message, optional, tag = "17")]
        sched_wakeup: Option<Wake>,
        #[prost(message, optional, tag = "20")]
        sched_waking: Option<Wake>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct Switch {
        #[prost(string, tag = "1")]
        prev_comm: String,
        #[prost(int32, tag = "2")]
        prev_pid: i32,
        #[prost(int64, tag = "4")]
        prev_state: i64,
        #[prost(string, tag = "5")]
        next_comm: String,
        #[prost(int32, tag = "6")]
        next_pid: i32,
    }

    #[derive(Clone, PartialEq, Message)]
    struct Wake {
        #[prost(string, tag = "1")]
        comm: String,
        #[prost(int32, tag = "2")]
        pid: i32,
    }

    #[derive(Clone, PartialEq, Message)]
    struct CompactSched {
        #[prost(uint64, repeated, tag = "1")]
        switch_timestamp: Vec<u64>,
        #[prost(int64, repeated, tag = "2")]
        switch_prev_state: Vec<i64>,
        #[prost(int32, repeated, tag = "3")]
        switch_next_pid: Vec<i32>,
        #[prost(string, repeated, tag = "5")]
        intern_table: Vec<String>,
        #[prost(uint32, repeated, tag = "6")]
        switch_next_comm_index: Vec<u32>,
        #[prost(uint64, repeated, tag = "7")]
        waking_timestamp: Vec<u64>,
        #[prost(int32, repeated, tag = "8")]
        waking_pid: Vec<i32>,
        #[prost(uint32, repeated, tag = "11")]
        waking_comm_index: Vec<u32>,
        #[prost(uint32, repeated, tag = "12")]
        waking_common_flags: Vec<u32>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct Process {
        #[prost(int32, tag = "1")]
        pid: i32,
        #[prost(string, repeated, tag = "3")]
        cmdline: Vec<String>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct Thread {
        #[prost(int32, tag = "1")]
        tid: i32,
        #[prost(string, tag = "2")]
        name: String,
        #[prost(int32, tag = "3")]
        tgid: i32,
    }

    #[derive(Clone, PartialEq, Message)]
    struct Trace {
        #[prost(message, repeated, tag = "1")]
        packet: Vec<Packet>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct Packet {
        #[prost(message, optional, tag = "1")]
        ftrace_events: Option<Bundle>,
        #[prost(message, optional, tag = "2")]
        process_tree: Option<ProcessTree>,
        #[prost(bytes = "vec", optional, tag = "50")]
        compressed_packets: Option<Vec<u8>>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct Bundle {
        #[prost(uint32, tag = "1")]
        cpu: u32,
        #[prost(message, repeated, tag = "2")]
        event: Vec<Event>,
        #[prost(message, optional, tag = "4")]
        compact_sched: Option<CompactSched>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct ProcessTree {
        #[prost(message, repeated, tag = "1")]
        processes: Vec<Process>,
        #[prost(message, repeated, tag = "2")]
        threads: Vec<Thread>,
    }

    fn switch(prev: (&str, i32), prev_state: i64, next: (&str, i32)) -> Switch {
        Switch {
            prev_comm: prev.0.to_owned(),
            prev_pid: prev.1,
            prev_state,
            next_comm: next.0.to_owned(),
            next_pid: next.1,
        }
    }

    /// A vCPU runs 2 ms, sleeps 3 ms, waits 1 ms for another to end, and runs 4 ms.
    fn packets() -> (Packet, Packet, Packet) {
        let vcpu = ("CPU 0/KVM", 101);
        let event = |ms: u64| Event { timestamp: 1000 * MS + ms * MS, ..Event::default() };
        let switches = vec![
            Event { sched_switch: Some(switch(("swapper/0", 0), 0, vcpu)), ..event(0) },
            Event { sched_switch: Some(switch(vcpu, 1, ("other", 200))), ..event(2) },
            Event { sched_waking: Some(Wake { comm: vcpu.0.to_owned(), pid: vcpu.1 }), ..event(5) },
        ];
        let tree = ProcessTree {
            processes: vec![Process {
                pid: 100,
                cmdline: ["qemu", "-name", "guest=web"].map(str::to_owned).to_vec(),
            }],
            threads: vec![Thread { tid: 101, name: vcpu.0.to_owned(), tgid: 100 }],
        };
        let compact = CompactSched {
            switch_timestamp: vec![1006 * MS, 4 * MS],
            switch_prev_state: vec![0x100, 1],
            switch_next_pid: vec![101, 0],
            intern_table: vec![vcpu.0.to_owned(), "swapper/0".to_owned()],
            switch_next_comm_index: vec![0, 1],
            ..CompactSched::default()
        };
        let bundle = |event, compact_sched| Packet {
            ftrace_events: Some(Bundle { cpu: 0, event, compact_sched }),
            ..Packet::default()
        };
        let tree = Packet { process_tree: Some(tree), ..Packet::default() };
        (bundle(switches, None), bundle(vec![], Some(compact)), tree)
    }

    fn history(trace: &Trace) -> History {
        read(Path::new("x.pftrace"), Input::new(&trace.encode_to_vec()[..]), None).unwrap().0
    }

    #[test]
    fn who_ran_and_who_waited() {
        let (single, compact, tree) = packets();
        let history = history(&Trace { packet: vec![compact, single, tree] });
        let index = history.structure.domains.iter().position(|domain| domain.name == "web");
        let domain = index.unwrap() as u32;
        let own = |segment: &&Segment| segment.domain == domain;
        let own: Vec<_> = history.segments.iter().filter(own).copied().collect();
        let segment = |pcpu, start: u64, end: u64| Segment {
            domain,
            vcpu: 0,
            pcpu,
            start_ns: start * MS,
            end_ns: end * MS,
        };
        let expected = [segment(Some(0), 0, 2), segment(None, 5, 6), segment(Some(0), 6, 10)];
        assert_eq!(own, expected);
        assert_eq!(history.length_ns, 10 * MS);
        // The other one was preempted, and waits until the end.
        assert_eq!(history.open.len(), 1);
        assert_eq!(history.open[0].start_ns, 6 * MS);
    }

    #[test]
    fn flags_tell_interrupts_from_work() {
        // `other` wakes the vCPU at 5 ms; beside that an interrupt wakes somebody, so that flags are known to be told.
        let (single, compact, tree) = packets();
        let hard = IN_INTERRUPT as u32 & 0x1f;
        let wakes = |flags| {
            let mut single = single.clone();
            single.ftrace_events.iter_mut().for_each(|bundle| {
                bundle.event.retain(|event| event.sched_waking.is_none());
                bundle.compact_sched = Some(CompactSched {
                    waking_timestamp: vec![1004 * MS, MS],
                    waking_pid: vec![300, 101],
                    waking_common_flags: vec![hard, flags],
                    ..CompactSched::default()
                });
            });
            history(&Trace { packet: vec![compact.clone(), single, tree.clone()] }).wakes
        };
        let caused = wakes(0);
        assert_eq!(caused.len(), 1, "{caused:?}");
        assert!(caused[0].time_ns == 5 * MS && caused[0].waker != Some(caused[0].woken));
        assert_eq!(wakes(hard), []);
        // Where no flag is told one wake says nothing.
        let plain = history(&Trace { packet: vec![compact.clone(), single.clone(), tree.clone()] });
        assert_eq!(plain.wakes, []);
    }

    #[test]
    fn packed_packets_are_the_same() {
        let (single, compact, tree) = packets();
        let plain = Trace { packet: vec![single, compact, tree] };
        let mut packed = ZlibEncoder::new(vec![], Compression::fast());
        packed.write_all(&plain.encode_to_vec()).unwrap();
        let compressed_packets = Some(packed.finish().unwrap());
        let packed = Trace { packet: vec![Packet { compressed_packets, ..Packet::default() }] };
        assert_eq!(history(&packed), history(&plain));
    }

    #[test]
    fn cut_off_or_changed_anywhere_it_does_no_harm() {
        let (single, compact, tree) = packets();
        let bytes = Trace { packet: vec![single, compact, tree] }.encode_to_vec();
        for end in 0..bytes.len() {
            let cut = read(Path::new("x.pftrace"), Input::new(&bytes[..end]), None);
            assert!(cut.is_ok() || !cut.unwrap_err().to_string().is_empty());
            for value in [0, 1, 0x7f, 0xff] {
                let mut changed = bytes.clone();
                changed[end] = value;
                let _ = read(Path::new("x.pftrace"), Input::new(&changed[..]), None);
            }
        }
    }
}
