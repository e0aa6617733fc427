// SPDX-License-Identifier: GPL-2.0-only
//! A thread's slice and the pCPUs that it may use, by system calls.

use std::path::Path;
use std::{fs, io, mem, thread};

use rustix::process::Pid;
use rustix::thread::{CpuSet as Mask, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};
use steelyard_simulator::units::CpuSet;

/// A thread, and no other that has its number later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thread {
    /// Its process.
    pub pid: u32,
    /// Its own number.
    pub tid: u32,
    /// When it began, in ticks since the host was started.
    pub began: u64,
}

/// `struct sched_attr` of `linux/sched/types.h`, the first version: what came later concerns no slice.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

const OTHER: u32 = 0;
const BATCH: u32 = 3;
const LEAST_NICE: i32 = 19;

impl Thread {
    /// The thread of these numbers; none if there is none.
    pub fn find(proc: &Path, pid: u32, tid: u32) -> io::Result<Option<Thread>> {
        let stat = match fs::read_to_string(proc.join(format!("{pid}/task/{tid}/stat"))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound || is_gone(&error) => {
                return Ok(None);
            }
            stat => stat?,
        };
        // Its name, in brackets, may have brackets and blanks in it. The third word follows.
        let began = stat.rsplit_once(") ").and_then(|(_, words)| words.split(' ').nth(19));
        match began.and_then(|began| began.parse().ok()) {
            Some(began) => Ok(Some(Thread { pid, tid, began })),
            None => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Whether it is there still.
    pub fn is_there(&self, proc: &Path) -> io::Result<bool> {
        Ok(Thread::find(proc, self.pid, self.tid)?.as_ref() == Some(self))
    }

    /// The slice that it asked for in ns, 0 if it has the kernel's own.
    pub fn slice_ns(&self, usual_ns: u64) -> io::Result<u64> {
        let slice_ns = self.attributes()?.runtime;
        Ok(if slice_ns == usual_ns { 0 } else { slice_ns })
    }

    /// Asks for a slice, 0 for the kernel's own.
    pub fn set_slice_ns(&self, slice_ns: u64) -> io::Result<()> {
        set(self.tid, Attributes { runtime: slice_ns, ..self.attributes()? })
    }

    fn attributes(&self) -> io::Result<Attributes> {
        let attributes = get(self.tid)?;
        match attributes.policy {
            OTHER | BATCH => Ok(attributes),
            policy => Err(io::Error::other(format!(
                "it is of scheduling policy {policy}: slices are of SCHED_OTHER and SCHED_BATCH"
            ))),
        }
    }

    /// The pCPUs that it may use.
    pub fn pins(&self) -> io::Result<CpuSet> {
        let mask = sched_getaffinity(self.pid())?;
        Ok((0..Mask::MAX_CPU).filter(|&pcpu| mask.is_set(pcpu)).map(|pcpu| pcpu as u32).collect())
    }

    /// Sets them.
    pub fn set_pins(&self, pins: &CpuSet) -> io::Result<()> {
        let mut mask = Mask::new();
        for pcpu in pins.iter().map(|pcpu| pcpu as usize) {
            if pcpu >= Mask::MAX_CPU {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            mask.set(pcpu);
        }
        Ok(sched_setaffinity(self.pid(), &mask)?)
    }

    /// Of a number that is none, this thread's: who asked saw its files.
    fn pid(&self) -> Option<Pid> {
        Pid::from_raw(self.tid as i32)
    }
}

/// It ended while its file was being read.
fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

/// The slice of a thread that asked for none; none on a kernel without slices of their own.
pub fn usual_slice_ns() -> Option<u64> {
    const ASKED_NS: u64 = 7_000_000;
    // A thread that is there for it alone.
    let asked = thread::spawn(|| {
        let attributes = Attributes { policy: OTHER, nice: LEAST_NICE, ..Attributes::default() };
        set(0, Attributes { runtime: ASKED_NS, ..attributes }).ok()?;
        let heeded = get(0).ok()?.runtime == ASKED_NS;
        set(0, attributes).ok()?;
        get(0).ok().map(|attributes| attributes.runtime).filter(|_| heeded)
    });
    asked.join().ok()?
}

/// 0 is the calling thread.
fn get(tid: u32) -> io::Result<Attributes> {
    let mut attributes = Attributes::default();
    let size = mem::size_of::<Attributes>();
    // SAFETY: the kernel writes at most `size` bytes, which are there, and reads nothing else.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &raw mut attributes, size, 0) };
    if result == 0 { Ok(attributes) } else { Err(io::Error::last_os_error()) }
}

fn set(tid: u32, attributes: Attributes) -> io::Result<()> {
    let size = mem::size_of::<Attributes>() as u32;
    let attributes = Attributes { size, ..attributes };
    // SAFETY: the kernel reads `size` bytes, which are there, and writes nothing but, if it does not know
    // that size, its own into the first word.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw const attributes, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_the_slice_that_it_was_given() {
        // An older kernel keeps none.
        let Some(usual_ns) = usual_slice_ns() else { return };
        let asked = thread::spawn(move || {
            let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
            let own = Thread::find(Path::new("/proc"), std::process::id(), tid).unwrap().unwrap();
            assert!(own.is_there(Path::new("/proc")).unwrap());
            assert_eq!(own.slice_ns(usual_ns).unwrap(), 0);
            own.set_slice_ns(5_000_000).unwrap();
            assert_eq!(own.slice_ns(usual_ns).unwrap(), 5_000_000);
            own.set_slice_ns(0).unwrap();
            assert_eq!(own.slice_ns(usual_ns).unwrap(), 0);
            let pins = own.pins().unwrap();
            let first: CpuSet = pins.iter().take(1).collect();
            own.set_pins(&first).unwrap();
            assert_eq!(own.pins().unwrap(), first);
            own.set_pins(&pins).unwrap();
            assert_eq!(own.pins().unwrap(), pins);
            let other = Thread { began: own.began + 1, ..own };
            assert!(!other.is_there(Path::new("/proc")).unwrap());
        });
        asked.join().unwrap();
    }
}
