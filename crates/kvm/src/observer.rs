// SPDX-License-Identifier: GPL-2.0-only
//! Measures threads named as vCPU threads are, under any scheduler.

use std::mem::MaybeUninit;
use std::ptr;

use libbpf_rs::OpenObject;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use serde::Serialize;

use crate::KvmError;
use crate::skeleton::observer::types::{bss, data, thread};
use crate::skeleton::observer::{ObserverSkel, ObserverSkelBuilder};
use crate::status::now_ns;

/// A running measurement.
pub struct Observer {
    skeleton: ObserverSkel<'static>,
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

impl Observer {
    /// Watches from now on; what it watches counts from [`Observer::begin`] on.
    ///
    /// # Errors
    /// [`KvmError::Refused`].
    pub fn attach() -> Result<Observer, KvmError> {
        let storage: &'static mut MaybeUninit<OpenObject> =
            Box::leak(Box::new(MaybeUninit::uninit()));
        let open = ObserverSkelBuilder::default()
            .open(storage)
            .map_err(|error| KvmError::Refused("open the observer", error))?;
        let mut skeleton =
            open.load().map_err(|error| KvmError::Refused("load the observer", error))?;
        skeleton.attach().map_err(|error| KvmError::Refused("attach the observer", error))?;
        Ok(Observer { skeleton })
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
        // SAFETY: memory of plain numbers that the program changes.
        let state: bss = unsafe { ptr::read_volatile(ptr::from_ref(state)) };
        let threads = state.threads.iter().filter(|thread| thread.pid != 0);
        let threads = threads.map(|thread| finish(thread, state.from_ns, until_ns)).collect();
        (until_ns - state.from_ns, threads)
    }
}

/// Adds the status that lasts until the end.
fn finish(thread: &thread, from_ns: u64, until_ns: u64) -> Threads {
    let last_ns = until_ns.saturating_sub(thread.since_ns.max(from_ns));
    let lasts = |status| if thread.status == status { last_ns } else { 0 };
    Threads {
        process: thread.process,
        tid: thread.pid,
        gotten_ns: thread.gotten_ns + lasts(3),
        waited_ns: thread.waited_ns + lasts(2),
        blocked_ns: thread.blocked_ns + lasts(1),
        worst_wait_ns: thread.worst_wait_ns.max(lasts(2)),
        switches: thread.switches,
        migrations: thread.migrations,
    }
}
