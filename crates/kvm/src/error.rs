// SPDX-License-Identifier: GPL-2.0-only
//! Why the host does not run.

use std::fmt;

/// Why there is no scheduler, or no longer. Each is one line that says what to do about it, if
/// anything can be done.
#[derive(Debug)]
pub enum KvmError {
    /// The kernel was built without `CONFIG_SCHED_CLASS_EXT`.
    NoSchedExt,
    /// The kernel was built with `CONFIG_PREEMPT_RT`.
    Realtime,
    /// The kernel was built without `CONFIG_DEBUG_INFO_BTF`.
    NoBtf,
    /// The kernel lacks functions, or does not offer them to BPF programs.
    NoFunction(Vec<&'static str>),
    /// Not root, or a container that may not load BPF programs.
    NoPrivilege,
    /// There is another sched_ext scheduler, of this name.
    Busy(String),
    /// More pCPUs than the program's tables hold.
    TooManyPcpus(usize),
    /// The kernel refused the program; what libbpf or the kernel said.
    Refused(&'static str, libbpf_rs::Error),
    /// The kernel has put an end to it and schedules by itself again.
    Ejected {
        /// The kernel's kind of reason.
        kind: u32,
        /// What the kernel asks for, if anything: `enum scx_exit_code`.
        code: i64,
        /// The kernel's reason.
        reason: String,
        /// More of it.
        message: String,
        /// What the kernel wrote down of the host then, in lines; empty if nothing was wrong.
        dump: String,
    },
    /// Privilege could not be given up.
    Privileged(caps::errors::CapsError),
    /// `status` finds no running scheduler.
    NotRunning,
    /// The kernel's verifier is still at it.
    Loading,
}

impl fmt::Display for KvmError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KvmError::NoSchedExt => write!(
                formatter,
                "this kernel has no sched_ext (CONFIG_SCHED_CLASS_EXT): Linux 6.12 or newer has, \
                 where the distribution turned it on"
            ),
            KvmError::NoBtf => write!(
                formatter,
                "this kernel does not describe its types (CONFIG_DEBUG_INFO_BTF): there is no \
                 /sys/kernel/btf/vmlinux"
            ),
            KvmError::NoFunction(names) => write!(
                formatter,
                "this kernel does not offer to BPF programs: {}",
                names.join(", ")
            ),
            KvmError::Realtime => write!(
                formatter,
                "this kernel is built for real time (CONFIG_PREEMPT_RT): it lets no BPF program have \
                 timers; boot one that is not"
            ),
            KvmError::NoPrivilege => {
                write!(formatter, "loading a scheduler needs root (CAP_BPF and CAP_SYS_ADMIN)")
            }
            KvmError::Busy(name) => {
                write!(formatter, "another sched_ext scheduler is running: {name}")
            }
            KvmError::TooManyPcpus(most) => {
                write!(formatter, "this host has more than {most} CPUs")
            }
            KvmError::Refused(what, error) => {
                write!(formatter, "the kernel did not {what}: {error}")
            }
            KvmError::Ejected { kind, reason, message, .. } => {
                write!(formatter, "the kernel schedules by itself again: {reason} ({kind})")?;
                if !message.is_empty() {
                    write!(formatter, ": {message}")?;
                }
                Ok(())
            }
            KvmError::Privileged(error) => {
                write!(formatter, "capabilities cannot be raised or given up: {error}")
            }
            KvmError::NotRunning => write!(formatter, "no `steelyard kvm run` is running here"),
            KvmError::Loading => {
                write!(
                    formatter,
                    "`steelyard kvm run` is still loading its program: ask again when it has said that it schedules"
                )
            }
        }
    }
}

impl KvmError {
    /// Whether the kernel put an end to a scheduler that it wants to begin anew, since CPUs have come or gone.
    pub fn asks_for_restart(&self) -> bool {
        /// `SCX_ECODE_ACT_RESTART` of the kernel.
        const RESTART: i64 = 1 << 48;
        matches!(self, KvmError::Ejected { code, .. } if code & RESTART != 0)
    }
}

impl std::error::Error for KvmError {}
