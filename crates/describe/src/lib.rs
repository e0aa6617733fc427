// SPDX-License-Identifier: GPL-2.0-only
//! A host at one moment, as it describes itself: virtual machines, control groups, niceness, pins, topology, and what
//! schedules. The form is that of [`steelyard_scenario::HostDescription`].
//!
//! Only what decides who runs is taken: of command lines the virtual machine's name, of libvirt's descriptions a few
//! elements, of other processes their names.

mod libvirt;
mod linux;
mod topology;
mod xen;

use std::path::PathBuf;
use std::{error, fmt, fs, io};

use steelyard_apply::KnobError;
use steelyard_boundary::text::told;
use steelyard_monitor::{LinuxError, XenSource};
use steelyard_scenario::HostDescription;

/// Where a host is looked at.
#[derive(Clone, Debug)]
pub struct Places {
    /// Its `/proc`.
    pub proc: PathBuf,
    /// Its `/sys/fs/cgroup`.
    pub groups: PathBuf,
    /// Its `/sys`.
    pub sys: PathBuf,
}

/// What was found, and what could not be.
#[derive(Debug)]
pub struct Described {
    /// The host.
    pub host: HostDescription,
    /// What is missing in it, and why, a sentence each.
    pub missing: Vec<String>,
}

/// Looks at a host.
///
/// # Errors
/// [`DescribeError`].
pub fn describe(places: &Places) -> Result<Described, DescribeError> {
    match XenSource::is_here(&places.proc) {
        true => xen::describe(places),
        false => linux::describe(places),
    }
}

/// Why a host could not be described.
#[derive(Debug)]
pub enum DescribeError {
    /// It cannot be looked at.
    Linux(LinuxError),
    /// A file of it.
    File(PathBuf, io::Error),
    /// A program that was asked.
    Program(KnobError),
    /// A program's answer, which nobody understands.
    Unclear(&'static str),
}

impl fmt::Display for DescribeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DescribeError::Linux(error) => error.fmt(formatter),
            DescribeError::File(path, error) => write!(formatter, "{}: {error}", told(path)),
            DescribeError::Program(error) => {
                write!(formatter, "{error}\n  help: run it as root")
            }
            DescribeError::Unclear(command) => {
                write!(formatter, "`{command}`: its answer is not understood")
            }
        }
    }
}

impl error::Error for DescribeError {}

impl From<LinuxError> for DescribeError {
    fn from(error: LinuxError) -> Self {
        DescribeError::Linux(error)
    }
}

impl From<KnobError> for DescribeError {
    fn from(error: KnobError) -> Self {
        DescribeError::Program(error)
    }
}

/// A line of a file of the kernel's.
fn line(path: PathBuf) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}
