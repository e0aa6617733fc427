// SPDX-License-Identifier: GPL-2.0-only
//! The C boundary: the structs of `policy/vocabulary.h` and the functions of `policy/steelyard.h`.
//!
//! Contract of every function here, which makes them safe to call: it reads and writes only the
//! objects it is given, keeps no pointer, and is defined for every value of its arguments. The
//! comments on each function are in `policy/steelyard.h`, the order of the calls at its head.

use std::ffi::c_char;

include!(concat!(env!("OUT_DIR"), "/facts.rs"));

/// A fact that C has told (`policy/facts.h`).
///
/// # Panics
/// At compile time, if it has not.
#[doc(hidden)]
pub const fn find(facts: &[(&str, usize)], name: &str) -> usize {
    let mut at = 0;
    while at < facts.len() {
        if same(facts[at].0.as_bytes(), name.as_bytes()) {
            return facts[at].1;
        }
        at += 1;
    }
    panic!("C has not told this fact");
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// Does not compile unless the struct lies in memory as its twin in C does, by what C has told: its size, and each of
/// these fields, which C may know by a longer name.
#[doc(hidden)]
#[macro_export]
macro_rules! twin {
    ($facts:expr, $name:ident, $c:literal: $($field:ident $(= $path:literal)?),* $(,)?) => {
        const _: () = {
            assert!(size_of::<$name>() == $crate::ffi::find($facts, $c), "another size than in C");
            $(assert!(
                std::mem::offset_of!($name, $field)
                    == $crate::ffi::find($facts, $crate::twin!(@ $c, $field $(, $path)?)),
                "another place than in C"
            );)*
        };
    };
    (@ $c:literal, $field:ident) => { concat!($c, ".", stringify!($field)) };
    (@ $c:literal, $field:ident, $path:literal) => { concat!($c, ".", $path) };
}

/// A fact of the core by its name, for constants.
///
/// # Panics
/// At compile time, if there is none of this name.
#[doc(hidden)]
pub const fn fact(name: &str) -> u64 {
    find(FACTS, name) as u64
}

/// From what to what a setting goes, by the name that scenarios write: the least and the most, constants of
/// `policy/settings.h`.
#[macro_export]
macro_rules! setting_range {
    ($name:literal) => {
        ($crate::ffi::fact(concat!($name, " least")), $crate::ffi::fact(concat!($name, " most")))
    };
}

/// Room for parameters.
pub const PARAMETER_WORDS: usize = find(FACTS, "SY_PARAMETER_WORDS");
/// Governors of the core.
pub const GOVERNORS: usize = find(FACTS, "SY_GOVERNORS");
/// Room for the parameters of a governor.
pub const GOVERNOR_PARAMETER_WORDS: usize = find(FACTS, "SY_GOVERNOR_PARAMETER_WORDS");
/// Most vintages of a discipline.
pub const VINTAGES: usize = find(FACTS, "SY_VINTAGES");

/// A discipline and governors with their parameters: `struct sy_policy`.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// `enum sy_discipline`.
    pub discipline: u64,
    /// Bits of `enum sy_governor_kind`.
    pub governors: u64,
    pub(crate) parameter: [u64; PARAMETER_WORDS],
    pub(crate) governor_parameter: [[u64; GOVERNOR_PARAMETER_WORDS]; GOVERNORS],
}

/// What an administrator asks for a domain; zero stands for "not asked": `struct sy_settings`. Ranges and names are in
/// `policy/settings.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// 1..65535; 0: 256.
    pub weight: u64,
    /// Percent of one pCPU; 0: no cap.
    pub cap_percent: u64,
    /// CPU time of its cap that it may save for later; 0: what the policy says.
    pub cap_burst_ns: u64,
    /// The longest it wants to run at a time.
    pub slice_ns: u64,
    /// `sedf`: the period of each vCPU's reservation.
    pub period_ns: u64,
    /// `sedf`: the time reserved in each period.
    pub reserved_ns: u64,
    /// `sedf`: 1 if spare time may be used as well.
    pub extra_time: u64,
    /// `boost-credit`: the most that a vCPU of it saves.
    pub boost_limit_ns: u64,
    /// `boost-credit`: what it is given of a pCPU, in percent, instead of by weight.
    pub boost_percent: u64,
    /// `load-weight`: CPU time that its work asks for, in percent of one pCPU; 0: not declared.
    pub load_percent: u64,
    /// `fair`: 1 if each vCPU has the whole weight for itself.
    pub ungrouped: u64,
}

const SETTINGS: usize = size_of::<Settings>() / size_of::<u64>();

impl Settings {
    /// What holds of a domain for which nobody asks anything.
    pub fn usual() -> Settings {
        let mut usual = Settings::default();
        for (field, setting) in usual.fields().iter_mut().zip(crate::settings()) {
            *field = setting.defaults[0];
        }
        usual
    }

    /// In the order of [`crate::settings`].
    pub fn fields(&mut self) -> &mut [u64; SETTINGS] {
        // SAFETY: all its fields are u64, and nothing is between them.
        unsafe { &mut *(&raw mut *self).cast() }
    }
}

/// What the host measured of a domain since the sample before: `struct sy_sample`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// How long that is.
    pub interval_ns: u64,
    /// CPU time of its vCPUs together.
    pub gotten_ns: u64,
    /// Time that they were runnable, not running and not parked, together.
    pub waited_ns: u64,
    /// Received from the network.
    pub packets: u64,
    /// That ended, parked or not; counted only if [`sy_late_ns`] is not [`crate::FOREVER`].
    pub waits: u64,
    /// Those longer than [`sy_late_ns`].
    pub late_waits: u64,
    /// CPU time of the work that arrived, served or not, as far as somebody tells.
    pub offered_ns: u64,
    /// How long ago it was told, 1 at least; 0: never.
    pub offered_age_ns: u64,
}

macro_rules! state {
    ($c:literal $(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident : $type:ty),* } $($word:ident[$words:expr])*) => {
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
            $($word: [u64; $words],)*
        }

        impl Default for $name {
            fn default() -> Self {
                $name { $($field: Default::default(),)* $($word: [0; $words],)* }
            }
        }

        twin!(FACTS, $name, $c: $($field,)* $($word),*);
    };
}

state! {
    "sy_vcpu"
    /// `struct sy_vcpu`.
    Vcpu {
        /// The discipline's part of [`sy_vcpu_timer_ns`]; 0: never.
        timer_ns: u64,
        /// pCPU it runs on or last ran on; written by the host.
        pcpu: u32,
        /// 1: running or waiting; written by the host.
        runnable: u32,
        /// Number in its domain; written by the host before init.
        index: u32,
        /// 1: its domain may only be read now; written by the host.
        apart: u32,
        /// 1: comes first in its queue until it starts.
        first: u32,
        /// Time that it may still run in the highest priority.
        boost_ns: u64,
        /// Period, slice and whether spare time may be used: asked for it alone.
        asked: [u64; 3]
    } state[find(FACTS, "SY_VCPU_WORDS")] governor[find(FACTS, "SY_GOVERNORS_VCPU_WORDS")]
}
state! {
    "sy_domain"
    /// `struct sy_domain`.
    Domain {
        /// Unique on the host, above 0; written by the host before init.
        id: u64,
        /// What was asked for, in range.
        settings: Settings,
        /// In effect, 1..65535.
        weight: u64,
        /// In effect; 0: the discipline's own.
        slice_ns: u64,
        /// Time between ticks while a vCPU of it runs, if shorter than [`sy_tick_ns`]; 0: that.
        tick_ns: u64,
        /// Time between two accountings of each of its vCPUs, if shorter than [`sy_account_ns`]; 0: that.
        account_ns: u64,
        /// Number of vCPUs.
        vcpus: u64,
        /// When the host must call [`sy_domain_timer`]; 0: never.
        timer_ns: u64
    } group[1] state[find(FACTS, "SY_DOMAIN_WORDS")] governor[find(FACTS, "SY_GOVERNORS_DOMAIN_WORDS")]
}
state! {
    "sy_governor"
    /// `struct sy_governor`.
    Governor {
        /// After REWEIGH: ids of the domains for [`sy_reweigh`], or 0.
        reweigh: [u64; 2]
    } governor[find(FACTS, "SY_GOVERNORS_HOST_WORDS")]
}
state! {
    "sy_queue"
    /// `struct sy_queue`.
    Queue {
        /// pCPUs that the queue serves; written by the host.
        pcpus: u32,
        /// vCPUs that wait in it, the running ones not counted; written by the host.
        queued: u32
    } state[find(FACTS, "SY_QUEUE_WORDS")] governor[find(FACTS, "SY_GOVERNORS_QUEUE_WORDS")]
}
state! {
    "sy_pcpu"
    /// `struct sy_pcpu`.
    Pcpu {
        /// Its number.
        id: u32,
        /// 1 while a vCPU runs there; written by the host.
        busy: u32,
        /// When the vCPU that runs there started; written by the host.
        started_ns: u64
    } state[find(FACTS, "SY_PCPU_WORDS")]
}
state! {
    "sy_accounting"
    /// `struct sy_accounting`.
    Accounting {
        /// pCPUs of the host.
        pcpus: u64
    } state[find(FACTS, "SY_ACCOUNTING_WORDS")]
}

impl Domain {
    /// A domain of this id, all else zero.
    pub fn of(id: u64) -> Self {
        Domain { id, ..Domain::default() }
    }
}

impl Vcpu {
    /// A vCPU that belongs to this pCPU, all else zero.
    pub fn on(pcpu: u32) -> Self {
        Vcpu { pcpu, ..Vcpu::default() }
    }
}

impl Queue {
    /// A queue of so many pCPUs, all else zero.
    pub fn of(pcpus: u32) -> Self {
        Queue { pcpus, ..Queue::default() }
    }
}

impl Pcpu {
    /// A pCPU of this number, all else zero.
    pub fn numbered(id: u32) -> Self {
        Pcpu { id, ..Pcpu::default() }
    }
}

#[repr(C)]
pub(crate) struct CParameter {
    pub name: *const c_char,
    pub unit: *const c_char,
    pub minimum: u64,
    pub maximum: u64,
    pub help: *const c_char,
    pub source: *const c_char,
    pub value: [u64; VINTAGES],
}

#[repr(C)]
pub(crate) struct CDescription {
    pub name: *const c_char,
    pub help: *const c_char,
    pub vintage: [*const c_char; VINTAGES],
    pub parameters: u64,
    pub parameter: *const CParameter,
    pub known: [*const c_char; VINTAGES],
    pub disciplines: u64,
    pub reason: *const c_char,
}

#[repr(C)]
pub(crate) struct CPublished {
    pub name: *const c_char,
    pub meaning: *const c_char,
}

twin!(FACTS, Parameters, "sy_policy":
    discipline, governors, parameter,
    governor_parameter);
twin!(FACTS, Settings, "sy_settings":
    weight, cap_percent, cap_burst_ns, slice_ns, period_ns,
    reserved_ns, extra_time, boost_limit_ns,
    boost_percent, load_percent, ungrouped);
twin!(FACTS, Sample, "sy_sample":
    interval_ns, gotten_ns, waited_ns,
    packets, waits, late_waits, offered_ns,
    offered_age_ns);
twin!(FACTS, CParameter, "sy_parameter":
    name, unit, minimum, maximum, help,
    source, value);
twin!(FACTS, CDescription, "sy_description":
    name, help, vintage, parameters,
    parameter, known, disciplines, reason);
twin!(FACTS, CPublished, "sy_published": name, meaning);

// SAFETY: the types above have the layout of their C twins (else this would not compile), and
// the functions keep the contract at the head of this file.
#[allow(missing_docs)]
unsafe extern "C" {
    pub(crate) safe fn sy_describe(discipline: u64) -> *const CDescription;
    pub(crate) safe fn sy_describe_governor(governor: u64) -> *const CDescription;
    pub(crate) safe fn sy_describe_settings() -> *const CDescription;
    pub(crate) safe fn sy_describe_counts() -> *const CDescription;
    pub(crate) safe fn sy_describe_published(number: u64) -> *const CPublished;
    pub(crate) safe fn sy_class_name(number: u32) -> *const c_char;

    pub safe fn sy_scope(policy: &Parameters) -> u32;
    pub safe fn sy_queue_pcpus_max(policy: &Parameters) -> u64;
    pub safe fn sy_tick_ns(policy: &Parameters) -> u64;
    pub safe fn sy_account_ns(policy: &Parameters) -> u64;
    pub safe fn sy_cap_period_ns(policy: &Parameters) -> u64;
    pub safe fn sy_reserves(policy: &Parameters) -> bool;
    pub safe fn sy_accounting_init(policy: &Parameters, accounting: &mut Accounting, pcpus: u64);
    pub safe fn sy_queue_init(policy: &Parameters, queue: &mut Queue, pcpus: u64);
    pub safe fn sy_domain_init(
        policy: &Parameters,
        domain: &mut Domain,
        settings: &Settings,
        vcpus: u64,
        now: u64,
    );
    pub safe fn sy_vcpu_init(policy: &Parameters, domain: &mut Domain, vcpu: &mut Vcpu, now: u64);
    pub safe fn sy_join(
        policy: &Parameters,
        queue: &mut Queue,
        domain: &mut Domain,
        vcpu: &mut Vcpu,
        now: u64,
    ) -> u32;
    pub safe fn sy_leave(
        policy: &Parameters,
        queue: &mut Queue,
        domain: &mut Domain,
        vcpu: &mut Vcpu,
        now: u64,
    ) -> u32;
    pub safe fn sy_survey_begin(policy: &Parameters, queue: &mut Queue);
    pub safe fn sy_survey_vcpu(
        policy: &Parameters,
        queue: &mut Queue,
        domain: &mut Domain,
        vcpu: &mut Vcpu,
    );
    pub safe fn sy_wake(
        policy: &Parameters,
        queue: &mut Queue,
        domain: &mut Domain,
        vcpu: &mut Vcpu,
        now: u64,
    ) -> u32;
    pub safe fn sy_steps(policy: &Parameters, vcpu: &Vcpu) -> u32;
    pub safe fn sy_block(
        policy: &Parameters,
        queue: &mut Queue,
        domain: &mut Domain,
        vcpu: &mut Vcpu,
        now: u64,
    ) -> u32;
    pub safe fn sy_yield(
        policy: &Parameters,
        queue: &mut Queue,
        domain: &mut Domain,
        vcpu: &mut Vcpu,
        now: u64,
    ) -> u32;
    pub safe fn sy_spin(policy: &Parameters, domain: &mut Domain, vcpu: &mut Vcpu, now: u64)
    -> u32;
    pub safe fn sy_rank(
        policy: &Parameters,
        queue: &Queue,
        domain: &Domain,
        vcpu: &mut Vcpu,
        facts: u32,
        waited_ns: u64,
        now: u64,
    ) -> u64;
    pub safe fn sy_summon(
        policy: &Parameters,
        queue: &Queue,
        domain: &mut Domain,
        vcpu: &mut Vcpu,
        now: u64,
    ) -> u32;
    pub safe fn sy_spun(
        policy: &Parameters,
        queue: &mut Queue,
        domain: &mut Domain,
        vcpu: &mut Vcpu,
        summoned: u32,
        now: u64,
    ) -> u32;
    pub safe fn sy_charge(
        policy: &Parameters,
        queue: &mut Queue,
        domain: &mut Domain,
        vcpu: &mut Vcpu,
        ran_ns: u64,
        now: u64,
    ) -> u32;
    pub safe fn sy_vcpu_timer_ns(policy: &Parameters, vcpu: &Vcpu) -> u64;
    pub safe fn sy_vcpu_timer(
        policy: &Parameters,
        queue: &mut Queue,
        domain: &mut Domain,
        vcpu: &mut Vcpu,
        now: u64,
    ) -> u32;
    pub safe fn sy_domain_timer(policy: &Parameters, domain: &mut Domain, now: u64) -> u32;
    pub safe fn sy_key(
        policy: &Parameters,
        queue: &mut Queue,
        domain: &mut Domain,
        vcpu: &mut Vcpu,
        now: u64,
    ) -> u64;
    pub safe fn sy_lead(
        policy: &Parameters,
        queue: &Queue,
        pcpu: &Pcpu,
        vcpu: &Vcpu,
        running: &Vcpu,
        now: u64,
    ) -> i64;
    pub safe fn sy_consider(
        policy: &Parameters,
        queue: &Queue,
        pcpu: &Pcpu,
        best: Option<&Vcpu>,
        candidate: &Vcpu,
        now: u64,
    ) -> u32;
    pub safe fn sy_look_further(
        policy: &Parameters,
        pcpu: &mut Pcpu,
        best: Option<&Vcpu>,
        now: u64,
    ) -> bool;
    pub safe fn sy_steal(
        policy: &Parameters,
        pcpu: &Pcpu,
        best: Option<&Vcpu>,
        from: &Queue,
        candidate: &Vcpu,
        now: u64,
    ) -> u32;
    pub safe fn sy_reset_due(
        policy: &Parameters,
        queue: &Queue,
        vcpu: &Vcpu,
        next: Option<&Vcpu>,
    ) -> u64;
    pub safe fn sy_reset(
        policy: &Parameters,
        queue: &mut Queue,
        governor: &mut Governor,
        domain: &mut Domain,
        units: u64,
        now: u64,
    ) -> u32;
    pub safe fn sy_reweigh(policy: &Parameters, governor: &mut Governor, domain: &mut Domain);
    pub safe fn sy_domain_change(
        policy: &Parameters,
        governor: &mut Governor,
        domain: &mut Domain,
        settings: &Settings,
    );
    pub safe fn sy_vcpu_destroy(
        policy: &Parameters,
        accounting: &mut Accounting,
        domain: &mut Domain,
        vcpu: &mut Vcpu,
    );
    pub safe fn sy_start(
        policy: &Parameters,
        queue: &mut Queue,
        pcpu: &mut Pcpu,
        domain: &mut Domain,
        vcpu: &mut Vcpu,
        now: u64,
    ) -> u32;
    pub safe fn sy_slice(
        policy: &Parameters,
        queue: &mut Queue,
        pcpu: &Pcpu,
        domain: &Domain,
        vcpu: &Vcpu,
        next: Option<&Vcpu>,
        now: u64,
    ) -> u64;
    pub safe fn sy_tick(
        policy: &Parameters,
        accounting: &mut Accounting,
        queue: &mut Queue,
        pcpu: &mut Pcpu,
        domain: &mut Domain,
        vcpu: &mut Vcpu,
        now: u64,
    ) -> u32;
    pub safe fn sy_account_begin(policy: &Parameters, accounting: &mut Accounting, now: u64);
    pub safe fn sy_account_domain(
        policy: &Parameters,
        accounting: &mut Accounting,
        domain: &mut Domain,
    ) -> u32;
    pub safe fn sy_account_vcpu(
        policy: &Parameters,
        accounting: &mut Accounting,
        domain: &mut Domain,
        vcpu: &mut Vcpu,
    ) -> u32;
    pub safe fn sy_account_end(policy: &Parameters, accounting: &mut Accounting);
    pub safe fn sy_sample_ns(policy: &Parameters) -> u64;
    pub safe fn sy_late_ns(policy: &Parameters) -> u64;
    pub safe fn sy_wants_packets(policy: &Parameters) -> bool;
    /// Whether a sample must tell of the load that is offered.
    pub safe fn sy_wants_offered(policy: &Parameters) -> bool;
    pub safe fn sy_sample_begin(policy: &Parameters, governor: &mut Governor, pcpus: u64, now: u64);
    pub safe fn sy_sample_domain(
        policy: &Parameters,
        governor: &mut Governor,
        domain: &mut Domain,
        sample: &Sample,
    );
    pub safe fn sy_sample_settle(
        policy: &Parameters,
        governor: &mut Governor,
        domain: &mut Domain,
    ) -> u32;
    pub safe fn sy_load(policy: &Parameters, queue: &mut Queue, now: u64) -> u64;
    pub safe fn sy_balance_gain(
        policy: &Parameters,
        from: &Queue,
        to: &mut Queue,
        domain: &Domain,
        vcpu: &Vcpu,
        now: u64,
    ) -> i64;
    pub safe fn sy_credit(policy: &Parameters, queue: &Queue, vcpu: &Vcpu) -> i64;
    pub safe fn sy_class(policy: &Parameters, vcpu: &Vcpu) -> u32;
    pub safe fn sy_boosted(policy: &Parameters, vcpu: &Vcpu) -> bool;
}
