// SPDX-License-Identifier: GPL-2.0-only
//! What can be turned on a stock host, one value each: read, written, and as the command that a person would
//! type.

use std::path::PathBuf;
use std::{error, fmt, io};

use serde::{Deserialize, Serialize};
use steelyard_boundary::text::told;
use steelyard_simulator::units::CpuSet;

use crate::Host;
use crate::group::GroupFile;
use crate::program::{line, quoted};
use crate::thread::{self, Thread};
use crate::{libvirt, xen};

/// Something that has a value. It also says whose it is, so that nobody else's is taken for it later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Knob {
    /// A file of a control group.
    Group(GroupFile),
    /// A thread's slice in ns; 0: the kernel's own.
    Slice(Thread),
    /// The pCPUs that a thread may use.
    Pins(Thread),
    /// A setting of libvirt's.
    Libvirt(libvirt::Setting),
    /// A setting of Xen's.
    Xen(xen::Setting),
}

/// Why a knob could not be read or turned.
#[derive(Debug)]
pub enum KnobError {
    /// A file.
    File(PathBuf, io::Error),
    /// A thread of this number.
    Thread(u32, io::Error),
    /// The kernel knows no slices of threads.
    NoSlices,
    /// A program that was asked.
    Program {
        /// Whether there is no such program.
        missing: bool,
        /// The program and its arguments.
        command: String,
        /// What it said.
        reason: String,
    },
}

impl fmt::Display for KnobError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KnobError::File(path, error) => write!(formatter, "{}: {error}", told(path)),
            KnobError::Thread(tid, error) => write!(formatter, "thread {tid}: {error}"),
            KnobError::NoSlices => {
                formatter.write_str("this kernel knows no slices of threads (Linux 6.12 does)")
            }
            KnobError::Program { command, reason, .. } => {
                write!(formatter, "`{}`: {}", told(command), told(reason))
            }
        }
    }
}

impl error::Error for KnobError {}

impl KnobError {
    /// Whether a program was to be asked that is not there.
    #[must_use]
    pub fn is_missing_program(&self) -> bool {
        matches!(self, KnobError::Program { missing: true, .. })
    }
}

impl Knob {
    /// Its value; none if whose it was is gone.
    pub(crate) fn read(&self, host: &Host) -> Result<Option<String>, KnobError> {
        let there = match self {
            Knob::Group(file) => file
                .is_there(&host.groups)
                .map_err(|error| KnobError::File(file.directory.clone(), error))?,
            Knob::Slice(thread) | Knob::Pins(thread) => {
                thread.is_there(&host.proc).map_err(|error| of(thread, error))?
            }
            // They are asked below.
            Knob::Libvirt(_) | Knob::Xen(_) => true,
        };
        if !there {
            return Ok(None);
        }
        match self {
            Knob::Group(file) => {
                file.read().map(Some).map_err(|error| KnobError::File(file.path(), error))
            }
            Knob::Slice(thread) => {
                let usual_ns = thread::usual_slice_ns().ok_or(KnobError::NoSlices)?;
                let slice_ns = thread.slice_ns(usual_ns);
                slice_ns.map(|ns| Some(ns.to_string())).map_err(|error| of(thread, error))
            }
            Knob::Pins(thread) => {
                let pins = thread.pins().map_err(|error| of(thread, error))?;
                Ok(Some(pins.to_string()))
            }
            Knob::Libvirt(setting) => setting.read(),
            Knob::Xen(setting) => setting.read(),
        }
    }

    pub(crate) fn write(&self, value: &str) -> Result<(), KnobError> {
        // What is no value was refused long before.
        let wrong = || io::Error::from(io::ErrorKind::InvalidInput);
        match self {
            Knob::Group(file) => {
                file.write(value).map_err(|error| KnobError::File(file.path(), error))
            }
            Knob::Slice(thread) => {
                let slice_ns = value.parse().map_err(|_| of(thread, wrong()))?;
                thread.set_slice_ns(slice_ns).map_err(|error| of(thread, error))
            }
            Knob::Pins(thread) => {
                let pins = value.parse().map_err(|_| of(thread, wrong()))?;
                thread.set_pins(&pins).map_err(|error| of(thread, error))
            }
            Knob::Libvirt(setting) => setting.write(value),
            Knob::Xen(setting) => setting.write(value),
        }
    }

    /// Whether it can have this value: a journal may say anything.
    pub(crate) fn is_sound(&self, value: &str) -> bool {
        match self {
            Knob::Group(file) => file.is_sound(value),
            Knob::Slice(_) => value.parse::<u64>().is_ok(),
            Knob::Pins(_) => value.parse::<CpuSet>().is_ok(),
            Knob::Libvirt(setting) => setting.is_sound(value),
            Knob::Xen(setting) => setting.is_sound(value),
        }
    }

    /// Whether it is the same after the host was started anew.
    pub(crate) fn outlives_the_host(&self) -> bool {
        matches!(self, Knob::Libvirt(_))
    }

    /// What a person would type to give it a value.
    #[must_use]
    pub fn command(&self, value: &str) -> String {
        match self {
            Knob::Group(file) => {
                let path = file.path().to_string_lossy().into_owned();
                format!("echo {} > {}", quoted(value), quoted(&path))
            }
            Knob::Slice(Thread { tid, .. }) => {
                let tid = tid.to_string();
                line("chrt", &["--other", "--sched-runtime", value, "--pid", "0", &tid])
            }
            Knob::Pins(Thread { tid, .. }) => {
                line("taskset", &["--cpu-list", "--pid", value, &tid.to_string()])
            }
            Knob::Libvirt(setting) => setting.command(value),
            Knob::Xen(setting) => setting.command(value),
        }
    }
}

fn of(thread: &Thread, error: io::Error) -> KnobError {
    KnobError::Thread(thread.tid, error)
}
