// SPDX-License-Identifier: GPL-2.0-only
//! Watches threads named as vCPU threads are, under any scheduler: sums, for tests, or each single run
//! and wait, for monitors. Nothing of it stays when its process ends, in whatever way.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::Read;
use std::mem::MaybeUninit;
use std::path::Path;
use std::ptr;
use std::rc::Rc;

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{DataSec, Var, VarSecInfo};
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Iter, MapCore, MapFlags, OpenObject, RingBuffer, RingBufferBuilder, set_print};
use serde::Serialize;

use crate::KvmError;
use crate::check::privileged;
use crate::skeleton::observer::types::{bss, data, thread};
use crate::skeleton::observer::{ObserverSkel, ObserverSkelBuilder};
use crate::status::now_ns;

/// As in bpf/observer.h.
const WAITED: u32 = u32::MAX;
const BLOCKED: u32 = 1;
const WAITING: u32 = 2;
const RUNNING: u32 = 3;
const WOKEN_BYTES: usize = 16;
/// Room for single runs and waits until they are fetched, of 32 bytes each: per pCPU, and of all at
/// least and at most. It is mapped twice into this process.
const RING_BYTES: usize = 512 << 10;
const LEAST_RING_BYTES: usize = 2 << 20;
const MOST_RING_BYTES: usize = 8 << 20;
/// A thread changes rarely while it is read; never so often one after the other.
const ATTEMPTS: usize = 3;

/// A running measurement.
pub struct Observer {
    skeleton: ObserverSkel<'static>,
    /// Where single runs and waits are told of, and those that were fetched.
    ring: Option<(RingBuffer<'static>, Rc<RefCell<Vec<Event>>>)>,
}

/// One thread over the time of the measurement: gotten + waited + blocked = that time.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Threads {
    pub process: i32,
    pub tid: i32,
    pub gotten_ns: u64,
    pub waited_ns: u64,
    pub blocked_ns: u64,
    pub worst_wait_ns: u64,
    pub switches: u64,
    pub migrations: u64,
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// It runs.
    Running,
    /// It is runnable and does not run.
    Waiting,
    /// It has nothing to do.
    Blocked,
}

/// What a thread got since the observer saw it first, what it does at the moment included. Times of
/// day are those of the monotonic clock.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct ThreadFigures {
    pub doing: Doing,
    /// Since when.
    pub since_ns: u64,
    /// Where it runs or ran last; none: it has not run yet.
    pub pcpu: Option<u32>,
    pub gotten_ns: u64,
    pub waited_ns: u64,
    pub switches: u64,
    pub migrations: u64,
    pub preemptions: u64,
    /// The kernel's number for how urgent it is: 100 is niceness -20, what is below real-time.
    pub priority: u32,
    /// When it ran last.
    pub placement: ThreadPlacement,
}

/// How a thread is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadPlacement {
    /// Names its control group; none: it is in the root.
    pub group: Option<u64>,
    /// Which of the first 64 CPUs it may use; none: not known.
    pub allowed: Option<u64>,
}

/// A control group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadGroup {
    /// The one around it; none: the root.
    pub parent: Option<u64>,
    /// 1024 being the usual one.
    pub shares: u64,
}

enum Event {
    Ended(Told),
    Woken(Woken),
}

/// Somebody was woken, on the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Woken {
    /// When.
    pub time_ns: u64,
    /// Number of the thread.
    pub tid: i32,
    /// Whose work woke it; none: an interrupt, or it is not known.
    pub waker: Option<i32>,
}

/// A single run or wait that ended, on the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    /// Number of the thread.
    pub tid: i32,
    /// Where it ran; none: it waited.
    pub pcpu: Option<u32>,
    /// Beginning.
    pub start_ns: u64,
    /// End.
    pub end_ns: u64,
    /// Of a thread that is not watched.
    pub other: Option<Other>,
}

/// Who ran and is not watched.
#[derive(Clone, Copy, Debug)]
pub struct Other {
    /// Its name, zeros at the end.
    pub name: [u8; 16],
    /// The kernel's number for how urgent it is: 100 is niceness -20, what is below real-time.
    pub priority: u32,
    /// It could have run on.
    pub goes_on: bool,
    /// How it is held.
    pub placement: ThreadPlacement,
}

impl Observer {
    /// Watches from now on; what it watches counts from [`Observer::begin`] on.
    ///
    /// # Errors
    /// [`KvmError::Refused`].
    pub fn attach() -> Result<Observer, KvmError> {
        Observer::load(None)
    }

    /// Watches from now on, single runs and waits too, which [`Observer::fetch`] must fetch.
    ///
    /// # Errors
    /// [`KvmError::NoBtf`], [`KvmError::NoPrivilege`], [`KvmError::Refused`].
    pub fn attach_telling() -> Result<Observer, KvmError> {
        set_print(None);
        if !Path::new("/sys/kernel/btf/vmlinux").exists() {
            return Err(KvmError::NoBtf);
        }
        let pcpus = libbpf_rs::num_possible_cpus().unwrap_or(1);
        let bytes = RING_BYTES.saturating_mul(pcpus).clamp(LEAST_RING_BYTES, MOST_RING_BYTES);
        let mut observer = Observer::load(Some(bytes.next_power_of_two() as u32)).map_err(
            |error| match privileged() {
                true => error,
                false => KvmError::NoPrivilege,
            },
        )?;
        let told = Rc::new(RefCell::new(vec![]));
        let to = told.clone();
        let mut builder = RingBufferBuilder::new();
        let failed = |error| KvmError::Refused("map the ring of the observer", error);
        let fetch = move |bytes: &[u8]| {
            to.borrow_mut().extend(read_event(bytes));
            0
        };
        builder.add(&observer.skeleton.maps.segments, fetch).map_err(failed)?;
        let ring = builder.build().map_err(failed)?;
        observer.ring = Some((ring, told));
        observer.find()?;
        Ok(observer)
    }

    /// With a ring of so many bytes if it is to tell of single runs and waits.
    fn load(ring_bytes: Option<u32>) -> Result<Observer, KvmError> {
        let storage: &'static mut MaybeUninit<OpenObject> =
            Box::leak(Box::new(MaybeUninit::uninit()));
        let refused = |what| move |error| KvmError::Refused(what, error);
        let mut open =
            ObserverSkelBuilder::default().open(storage).map_err(refused("open the observer"))?;
        let tells = ring_bytes.is_some();
        if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
            constants.tells = tells;
            if let Some(bytes) = preempt_count_from_queue().filter(|_| tells) {
                constants.preempt_count_known = true;
                constants.preempt_count_from_queue = bytes;
            }
        }
        if let Some(bytes) = ring_bytes {
            let sized = open.maps.segments.set_max_entries(bytes);
            sized.map_err(refused("make room for the observer"))?;
            if let Some(state) = open.maps.bss_data.as_deref_mut() {
                state.from_ns = 1;
            }
        }
        for program in [
            &mut open.progs.observer_migrate,
            &mut open.progs.observer_rename,
            &mut open.progs.observer_find,
            &mut open.progs.observer_waking,
            &mut open.progs.observer_new,
        ] {
            program.set_autoload(tells);
        }
        let mut skeleton = open.load().map_err(refused("load the observer"))?;
        skeleton.attach().map_err(refused("attach the observer"))?;
        Ok(Observer { skeleton, ring: None })
    }

    /// The measurement begins; when that is.
    pub fn begin(&mut self) -> u64 {
        let now_ns = now_ns();
        if let Some(state) = self.skeleton.maps.bss_data.as_deref_mut() {
            let state: &mut bss = state;
            // SAFETY: a field of memory that the program reads.
            unsafe { ptr::write_volatile(&raw mut state.from_ns, now_ns) };
        }
        now_ns
    }

    /// The measurement ends; what there was, and for how long.
    pub fn end(&mut self) -> (u64, Vec<Threads>) {
        let until_ns = now_ns();
        if let Some(state) = self.skeleton.maps.data_data.as_deref_mut() {
            let state: &mut data = state;
            // SAFETY: a field of memory that the program reads.
            unsafe { ptr::write_volatile(&raw mut state.until_ns, until_ns) };
        }
        let Some(state) = self.skeleton.maps.bss_data.as_deref() else { return (0, vec![]) };
        let from_ns = state.from_ns;
        let mut threads = vec![];
        self.each_thread(|_| true, |thread| threads.push(finish(thread, from_ns, until_ns)));
        (until_ns - from_ns, threads)
    }

    /// Finds threads to which nothing has happened since they have their names.
    ///
    /// # Errors
    /// [`KvmError::Refused`].
    pub fn find(&mut self) -> Result<(), KvmError> {
        let Some(link) = &self.skeleton.links.observer_find else { return Ok(()) };
        let failed = |error| KvmError::Refused("list the threads", error);
        let mut walk = Iter::new(link).map_err(failed)?;
        // It tells nothing: to read it is to run it.
        walk.read(&mut [0; 8]).map_err(|error| failed(error.into()))?;
        Ok(())
    }

    /// Tells from now on of all runs of who is not watched, too, not only of those where a thread waits.
    pub fn tell_others(&mut self) {
        if let Some(state) = self.skeleton.maps.bss_data.as_deref_mut() {
            let state: &mut bss = state;
            // SAFETY: a field of memory that the program reads.
            unsafe { ptr::write_volatile(&raw mut state.tells_others, 1) };
        }
    }

    /// What each thread got up to now, by its number.
    pub fn threads(&self, now_ns: u64, figures: &mut HashMap<i32, ThreadFigures>) {
        figures.clear();
        self.each_thread(is_whole, |thread| {
            figures.extend(to_figures(thread, now_ns).map(|of_thread| (thread.tid, of_thread)));
        });
    }

    /// The control groups in which threads were when they were last looked for, by their names.
    pub fn groups(&self) -> HashMap<u64, ThreadGroup> {
        let groups = &self.skeleton.maps.groups;
        let read = groups.keys().filter_map(|key| {
            let value = groups.lookup(&key, MapFlags::ANY).ok()??;
            let (name, _) = key.split_first_chunk()?;
            let (parent, value) = value.split_first_chunk()?;
            let (shares, _) = value.split_first_chunk()?;
            let parent = Some(u64::from_ne_bytes(*parent)).filter(|&parent| parent != 0);
            let shares = u64::from_ne_bytes(*shares);
            Some((u64::from_ne_bytes(*name), ThreadGroup { parent, shares }))
        });
        read.collect()
    }

    /// Fetches what was told since the last time, by and large in order: runs and waits of their ends.
    pub fn fetch(&mut self, told: &mut Vec<Told>, woken: &mut Vec<Woken>) {
        let Some((ring, fetched)) = &self.ring else { return };
        // It fails only if the callback does.
        let _ = ring.consume();
        for event in fetched.borrow_mut().drain(..) {
            match event {
                Event::Ended(one) => told.push(one),
                Event::Woken(one) => woken.push(one),
            }
        }
    }

    /// How many runs and waits there was no room for, so far, and how many events of threads.
    pub fn lost(&self) -> (u64, u64) {
        let Some(state) = self.skeleton.maps.bss_data.as_deref() else { return (0, 0) };
        // SAFETY: numbers that the program changes.
        unsafe {
            (
                ptr::read_volatile(&raw const state.lost),
                ptr::read_volatile(&raw const state.unwatched),
            )
        }
    }

    /// Who is watched, read again if it changes meanwhile.
    fn each_thread(&self, is_whole: fn(&thread) -> bool, mut each: impl FnMut(&thread)) {
        let Some(state) = self.skeleton.maps.bss_data.as_deref() else { return };
        for place in &state.threads {
            // SAFETY: a number that the program changes.
            let tid = || unsafe { ptr::read_volatile(&raw const place.tid) };
            // SAFETY: numbers that the program changes: any bytes are a thread.
            let thread = || unsafe { ptr::read_volatile(place) };
            if tid() > 0 {
                let mut read = thread();
                for _ in 1..ATTEMPTS {
                    if is_whole(&read) {
                        break;
                    }
                    read = thread();
                }
                // Whose place is given up meanwhile is gone.
                if read.tid > 0 && tid() == read.tid {
                    each(&read);
                }
            }
        }
    }
}

/// How far a CPU's `preempt_count` (from 6.2 to 6.14 of x86: what holds it) lies behind its run queue, if each is a
/// variable of the CPU's own.
fn preempt_count_from_queue() -> Option<i64> {
    let kernel = Btf::from_vmlinux().ok()?;
    let section = kernel.type_by_name::<DataSec<'_>>(".data..percpu")?;
    let offset = |name: &str| {
        let named = |at: &VarSecInfo| {
            let variable = kernel.type_by_id::<Var<'_>>(at.ty);
            variable.is_some_and(|variable| variable.name().is_some_and(|known| known == name))
        };
        section.iter().find(named).map(|at| i64::from(at.offset))
    };
    let count = offset("__preempt_count").or_else(|| offset("pcpu_hot"))?;
    Some(count - offset("runqueues")?)
}

/// A `struct woken`, `struct segment` or `struct other_run`, told apart by their length.
fn read_event(bytes: &[u8]) -> Option<Event> {
    if bytes.len() > WOKEN_BYTES {
        return read_told(bytes).map(Event::Ended);
    }
    let (time_ns, bytes) = bytes.split_first_chunk()?;
    let (tid, bytes) = bytes.split_first_chunk()?;
    let (waker, _) = bytes.split_first_chunk()?;
    Some(Event::Woken(Woken {
        time_ns: u64::from_ne_bytes(*time_ns),
        tid: i32::from_ne_bytes(*tid),
        waker: Some(i32::from_ne_bytes(*waker)).filter(|&waker| waker != 0),
    }))
}

fn read_told(bytes: &[u8]) -> Option<Told> {
    let (start_ns, bytes) = bytes.split_first_chunk()?;
    let (end_ns, bytes) = bytes.split_first_chunk()?;
    let (tid, bytes) = bytes.split_first_chunk()?;
    let (cpu, bytes) = bytes.split_first_chunk()?;
    let cpu = u32::from_ne_bytes(*cpu);
    Some(Told {
        tid: i32::from_ne_bytes(*tid),
        pcpu: (cpu != WAITED).then_some(cpu),
        start_ns: u64::from_ne_bytes(*start_ns),
        end_ns: u64::from_ne_bytes(*end_ns),
        other: read_other(bytes),
    })
}

fn read_other(bytes: &[u8]) -> Option<Other> {
    let (name, bytes) = bytes.split_first_chunk()?;
    let (priority, bytes) = bytes.split_first_chunk()?;
    let (goes_on, bytes) = bytes.split_first_chunk()?;
    let (group, bytes) = bytes.split_first_chunk()?;
    let (allowed, _) = bytes.split_first_chunk()?;
    let number = |bytes: &[u8; 4]| u32::from_ne_bytes(*bytes);
    Some(Other {
        name: *name,
        priority: number(priority),
        goes_on: number(goes_on) != 0,
        placement: to_placement(u64::from_ne_bytes(*group), u64::from_ne_bytes(*allowed)),
    })
}

fn to_placement(group: u64, allowed: u64) -> ThreadPlacement {
    let known = |number: u64| Some(number).filter(|&number| number != 0);
    ThreadPlacement { group: known(group), allowed: known(allowed) }
}

/// Whether it was not changed while it was read: then its times add up.
fn is_whole(thread: &thread) -> bool {
    let sums = [thread.gotten_ns, thread.waited_ns, thread.blocked_ns];
    sums.into_iter().fold(thread.seen_ns, u64::wrapping_add) == thread.since_ns
}

/// With what it does up to now; none if nothing is known yet.
fn to_figures(thread: &thread, now_ns: u64) -> Option<ThreadFigures> {
    let lasts_ns = now_ns.saturating_sub(thread.since_ns);
    let lasts = |status| if thread.status == status { lasts_ns } else { 0 };
    let doing = match thread.status {
        RUNNING => Doing::Running,
        WAITING => Doing::Waiting,
        BLOCKED => Doing::Blocked,
        _ => return None,
    };
    Some(ThreadFigures {
        doing,
        since_ns: thread.since_ns,
        pcpu: thread.cpu.checked_sub(1),
        gotten_ns: thread.gotten_ns + lasts(RUNNING),
        waited_ns: thread.waited_ns + lasts(WAITING),
        switches: thread.switches,
        migrations: thread.migrations,
        preemptions: thread.preemptions,
        priority: thread.priority,
        placement: to_placement(thread.placement.group, thread.placement.allowed),
    })
}

/// Adds the status that lasts until the end.
fn finish(thread: &thread, from_ns: u64, until_ns: u64) -> Threads {
    let last_ns = until_ns.saturating_sub(thread.since_ns.max(from_ns));
    let lasts = |status| if thread.status == status { last_ns } else { 0 };
    Threads {
        process: thread.process,
        tid: thread.tid,
        gotten_ns: thread.gotten_ns + lasts(RUNNING),
        waited_ns: thread.waited_ns + lasts(WAITING),
        blocked_ns: thread.blocked_ns + lasts(BLOCKED),
        worst_wait_ns: thread.worst_wait_ns.max(lasts(WAITING)),
        switches: thread.switches,
        migrations: thread.migrations,
    }
}
