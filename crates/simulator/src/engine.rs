// SPDX-License-Identifier: GPL-2.0-only
//! The C boundary of the engine: the structs of `policy/engine/state.h` and of `host.c`, and the calls of `host.c`
//! and `others.c`.

use std::ffi::c_void;
use std::ptr::null;

use steelyard_policy::{Parameters, Settings, ffi, twin};

use crate::numbers::{DomainNumber, Number, PcpuNumber, QueueNumber, VcpuNumber};
use crate::run_queue::Waiting;
use crate::topology::LEVELS;

/// `enum engine_status`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Status {
    #[default]
    Blocked,
    Waiting,
    Running,
}

/// `struct engine_vcpu`
#[derive(Default)]
#[repr(C)]
pub(crate) struct Vcpu {
    pub state: ffi::Vcpu,
    pub key: u64,
    pub since_ns: u64,
    pub parked_ns: u64,
    pub status: Status,
    pub domain: DomainNumber,
    pub queue: QueueNumber,
    pub ran_on: PcpuNumber,
    move_to: PcpuNumber,
    pub queued: bool,
    pub parked: bool,
    requeue: bool,
    pub woken: bool,
    saving: bool,
    unplaced: bool,
}

impl Vcpu {
    /// Of this domain, of which the engine knows nothing yet; blocked since then.
    pub fn of(domain: DomainNumber, since_ns: u64) -> Vcpu {
        let (queue, ran_on) = (Number::NONE, Number::NONE);
        Vcpu { domain, queue, ran_on, since_ns, ..Vcpu::default() }
    }
}

/// `struct simulated_domain`
#[derive(Default)]
#[repr(C)]
pub(crate) struct Domain {
    pub state: ffi::Domain,
    pub resets: u64,
    /// Times that a sibling that spins summoned one of its vCPUs.
    pub summoned: u64,
    pub first_vcpu: VcpuNumber,
    pub end_vcpu: VcpuNumber,
}

/// `SY_QUEUE_GROUPS` and `SY_GROUP_WORDS`
const GROUPS: usize = 16;
const GROUP_WORDS: usize = 20;

/// `struct simulated_queue`
#[repr(C)]
pub(crate) struct Queue {
    pub state: ffi::Queue,
    groups: [[u64; GROUP_WORDS]; GROUPS],
    balance: [u64; 6],
    pub first_pcpu: PcpuNumber,
    pub end_pcpu: PcpuNumber,
    occupied: u32,
    pub waiting: *const Waiting<VcpuNumber>,
    pub members: *const VcpuNumber,
    pub waiting_count: u32,
    pub members_count: u32,
}

impl Queue {
    /// Of these pCPUs, empty.
    pub fn of(pcpus: &std::ops::Range<PcpuNumber>) -> Queue {
        Queue {
            state: ffi::Queue::default(),
            groups: [[0; GROUP_WORDS]; GROUPS],
            balance: [0; 6],
            first_pcpu: pcpus.start,
            end_pcpu: pcpus.end,
            occupied: 0,
            waiting: null(),
            members: null(),
            waiting_count: 0,
            members_count: 0,
        }
    }
}

/// `struct simulated_pcpu`
#[derive(Default)]
#[repr(C)]
pub(crate) struct Pcpu {
    pub state: ffi::Pcpu,
    charged_ns: u64,
    tick_ns: u64,
    turn_end_ns: u64,
    turn_left_ns: u64,
    pub current: VcpuNumber,
    queue: QueueNumber,
    paused: VcpuNumber,
    vcpus: u32,
    pub interrupted: bool,
    pub occupied: bool,
    online: bool,
    lesser: bool,
    tick_missed: bool,
}

/// `ENGINE_OTHER_SLICE_NS`
pub(crate) const OTHER_SLICE_NS: u64 = 3_000_000;

/// `struct engine_line`
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Line {
    pub time_ns: u64,
}

/// `struct engine_other`
#[derive(Default)]
#[repr(C)]
pub(crate) struct Other {
    pub time_ns: u64,
    pub line: u32,
    is_known: bool,
}

impl Other {
    /// Into the line of this number.
    pub fn join(&mut self, from: &Line, to: &Line, line: u32, weight: u64) {
        // SAFETY: it changes the first argument and keeps nothing.
        unsafe { simulated_other_joins(self, from, to, line, weight) }
    }
}

/// `struct engine_turns`
#[derive(Default)]
#[repr(C)]
pub(crate) struct Turns {
    ahead_ns: u64,
    changed_ns: u64,
    run: u32,
    yields: u32,
}

impl Turns {
    /// For how long at most the vCPUs have the pCPU; 0: those that wait have it.
    pub fn vcpus_turn_ns(&self, waits: bool, goes_on: bool, now: u64) -> u64 {
        // SAFETY: it only reads.
        unsafe { simulated_vcpus_turn_ns(self, waits, goes_on, now) }
    }

    /// When the task that runs there makes room for a vCPU that waits; 0: it does not.
    pub fn yields_at(&self, now: u64) -> u64 {
        // SAFETY: it only reads.
        unsafe { simulated_other_yields_at(self, now) }
    }

    pub fn start(&mut self, line: &mut Line, other: &Other, is_kernel: bool, now: u64) {
        // SAFETY: it changes the first two and keeps nothing.
        unsafe { simulated_other_starts(self, line, other, is_kernel, now) }
    }

    pub fn stop(&mut self, other: &mut Other, weight: u64, now: u64) {
        // SAFETY: the same.
        unsafe { simulated_other_stops(self, other, weight, now) }
    }
}

/// Whether the pCPU chooses again for a task that has woken and waits in its line.
pub(crate) fn other_interrupts(pcpu: &Pcpu) -> bool {
    // SAFETY: it only reads.
    unsafe { simulated_other_interrupts(pcpu) }
}

/// `struct simulated_host`
#[repr(C)]
pub(crate) struct Host {
    accounting: ffi::Accounting,
    governor: ffi::Governor,
    pub began_ns: u64,
    pub pcpus: u32,
    pub level_pcpus: [u32; LEVELS],
    pub queues: u32,
    online: u32,
    rotor: u32,
    /// Of the call that is made.
    pub policy: *const Parameters,
    pub simulation: *mut c_void,
    pub tables: Tables,
}

/// `struct simulated_tables`: where everything is, and how far apart in bytes; these do not move once the host has begun.
#[repr(C)]
pub(crate) struct Tables {
    pub vcpus: *mut c_void,
    pub domains: *mut c_void,
    pub queues: *mut c_void,
    pub pcpus: *mut c_void,
    pub vcpu_bytes: u32,
    pub domain_bytes: u32,
    pub queue_bytes: u32,
    pub pcpu_bytes: u32,
    pub sets: *const u64,
    pub idle: *const u64,
    pub waited: *mut u64,
    pub lesser: *mut u64,
    pub words: u32,
    pub account_count: u32,
    pub account_order: *const DomainNumber,
}

impl Default for Host {
    fn default() -> Host {
        use std::ptr::null_mut;
        Host {
            accounting: ffi::Accounting::default(),
            governor: ffi::Governor::default(),
            began_ns: 0,
            pcpus: 0,
            level_pcpus: [1; LEVELS],
            queues: 0,
            online: 0,
            rotor: 0,
            policy: null(),
            simulation: null_mut(),
            tables: Tables {
                vcpus: null_mut(),
                domains: null_mut(),
                queues: null_mut(),
                pcpus: null_mut(),
                vcpu_bytes: 0,
                domain_bytes: 0,
                queue_bytes: 0,
                pcpu_bytes: 0,
                sets: null(),
                idle: null(),
                waited: null_mut(),
                lesser: null_mut(),
                words: 0,
                account_count: 0,
                account_order: null(),
            },
        }
    }
}

include!(concat!(env!("OUT_DIR"), "/facts.rs"));
twin!(FACTS, Line, "engine_line": time_ns);
twin!(FACTS, Other, "engine_other": time_ns, line, is_known);
twin!(FACTS, Turns, "engine_turns": ahead_ns, changed_ns, run, yields);
type WaitingVcpu = Waiting<VcpuNumber>;
twin!(FACTS, WaitingVcpu, "waiting": key, who = "vcpu");
twin!(FACTS, Vcpu, "engine_vcpu": state, key, since_ns, parked_ns, status, domain, queue, ran_on, move_to, queued, parked,
    requeue, woken, saving, unplaced);
twin!(FACTS, Domain, "simulated_domain": state = "engine.state", resets = "engine.resets", summoned = "engine.summoned", first_vcpu, end_vcpu);
twin!(FACTS, Queue, "simulated_queue": state = "engine.state", balance = "engine.balance", first_pcpu = "engine.first_pcpu",
    end_pcpu = "engine.end_pcpu", occupied = "engine.occupied", waiting, members, waiting_count, members_count);
twin!(FACTS, Pcpu, "simulated_pcpu": state = "engine.state", charged_ns = "engine.charged_ns",
    tick_ns = "engine.tick_ns", turn_end_ns = "engine.turn_end_ns", turn_left_ns = "engine.turn_left_ns",
    current = "engine.current", queue = "engine.queue", paused = "engine.paused", vcpus = "engine.vcpus",
    interrupted = "engine.interrupted", occupied = "engine.occupied", online = "engine.online",
    lesser = "engine.lesser", tick_missed = "engine.tick_missed");
twin!(FACTS, Host, "simulated_host": accounting = "engine.accounting", governor = "engine.governor",
    began_ns = "engine.began_ns", pcpus = "engine.pcpus", level_pcpus = "engine.level_pcpus", queues = "engine.queues",
    online = "engine.online", rotor = "engine.rotor", policy, simulation, tables);
twin!(FACTS, Tables, "simulated_tables": vcpus, domains, queues, pcpus, vcpu_bytes, domain_bytes, queue_bytes,
    pcpu_bytes, sets, idle, waited, lesser, words, account_count, account_order);

/// Where the engine looks for `allowed` and `preferred` of a vCPU, in bytes.
pub(crate) const VCPU_ALLOWED: usize = ffi::find(FACTS, "simulated_vcpu.allowed");
pub(crate) const VCPU_PREFERRED: usize = ffi::find(FACTS, "simulated_vcpu.preferred");

/// `struct simulated_calls`: what the simulator calls, of one discipline. Contract of each: `host` is that of a
/// `Simulation` with `policy`, of that discipline, `simulation` and `tables` set, and every number is of something that
/// is there. It calls back (`simulation/host.rs`), keeps no pointer, and is defined for every time.
#[repr(C)]
pub(crate) struct Calls {
    pub begin: unsafe extern "C" fn(*mut Host),
    pub queue_end: unsafe extern "C" fn(*mut Host, first: PcpuNumber) -> PcpuNumber,
    pub queue_begin: unsafe extern "C" fn(*mut Host, QueueNumber),
    pub group_begin: unsafe extern "C" fn(
        *mut Host,
        group: *mut Domain,
        around: *mut Domain,
        id: u64,
        &Settings,
        now: u64,
    ),
    pub domain_begin: unsafe extern "C" fn(
        *mut Host,
        DomainNumber,
        group: *mut Domain,
        &Settings,
        vcpus: u64,
        now: u64,
    ),
    pub vcpu_begin:
        unsafe extern "C" fn(*mut Host, VcpuNumber, DomainNumber, index: u32, PcpuNumber, now: u64),
    pub wake: unsafe extern "C" fn(*mut Host, VcpuNumber, now: u64),
    pub block: unsafe extern "C" fn(*mut Host, PcpuNumber, now: u64),
    pub spin: unsafe extern "C" fn(*mut Host, PcpuNumber, now: u64),
    pub interrupt_pcpu: unsafe extern "C" fn(*mut Host, PcpuNumber),
    pub choose: unsafe extern "C" fn(*mut Host, PcpuNumber, now: u64) -> u64,
    pub occupy: unsafe extern "C" fn(*mut Host, PcpuNumber, now: u64),
    pub balance_queue: unsafe extern "C" fn(*mut Host, QueueNumber, now: u64),
    pub tick_of: unsafe extern "C" fn(*mut Host, PcpuNumber, now: u64),
    pub vcpu_timer_of: unsafe extern "C" fn(*mut Host, VcpuNumber, now: u64),
    pub domain_timer_of: unsafe extern "C" fn(*mut Host, DomainNumber, now: u64),
    pub account: unsafe extern "C" fn(*mut Host, now: u64),
    pub sample_all: unsafe extern "C" fn(*mut Host, now: u64),
}

twin!(FACTS, Calls, "simulated_calls": begin, queue_end, queue_begin, group_begin, domain_begin, vcpu_begin, wake, block, spin, interrupt_pcpu,
    choose, occupy, balance_queue, tick_of, vcpu_timer_of, domain_timer_of, account, sample_all);

include!(concat!(env!("OUT_DIR"), "/calls.rs"));

/// Those of the discipline of this policy.
pub(crate) fn calls(policy: &Parameters) -> &'static Calls {
    CALLS[policy.discipline()]
}

// Contract of each: it changes what it is given to change, keeps no pointer, and is defined for every time.
unsafe extern "C" {
    fn simulated_vcpus_turn_ns(turns: &Turns, waits: bool, goes_on: bool, now: u64) -> u64;
    fn simulated_other_interrupts(pcpu: &Pcpu) -> bool;
    fn simulated_other_yields_at(turns: &Turns, now: u64) -> u64;
    fn simulated_other_starts(
        turns: &mut Turns,
        line: &mut Line,
        other: &Other,
        is_kernel: bool,
        now: u64,
    );
    fn simulated_other_stops(turns: &mut Turns, other: &mut Other, weight: u64, now: u64);
    fn simulated_other_joins(other: &mut Other, from: &Line, to: &Line, line: u32, weight: u64);
}
