// SPDX-License-Identifier: GPL-2.0-only
//! `steelyard kvm`: a policy schedules the vCPUs of this Linux host. Every build knows the command, and one without the
//! feature says what it lacks.

use std::path::PathBuf;

use clap::Subcommand;
use steelyard_scenario::{LOADS, SETTINGS};

use crate::arguments::Offering;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::{asked, policies};

#[cfg(feature = "kvm")]
mod scheduler;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Schedule the vCPUs of this host by a policy, until Ctrl-C.
    ///
    /// Every thread that runs a vCPU of KVM is scheduled by the policy; its process is the domain,
    /// whose weight and cap are those of its control groups, `cpu.weight` and `cpu.max`, unless its
    /// metadata in libvirt or `steelyard kvm set` ask for something else. Other tasks take turns with
    /// the vCPUs. When this ends, in whatever way, the kernel schedules by itself again.
    Run {
        /// Policy, such as credit2, credit@xen-4.20 or credit2+load-weight.
        // Governors may be added to these.
        #[arg(short, long, value_name = "P", hide_possible_values = true,
            value_parser = Offering(|| policies::names().collect()))]
        policy: String,
        /// Change a parameter of the policy, as of `compare`; may be given several times.
        ///
        /// The key is DISCIPLINE.NAME or GOVERNOR.NAME, such as credit2.run_max_ns=5000000;
        /// `steelyard policies` lists them.
        #[arg(long, value_name = "KEY=VALUE")]
        set: Vec<String>,
        /// What `set` and `change` keep; it need not be there.
        #[arg(long, value_name = "FILE", default_value = SETTINGS)]
        settings: PathBuf,
        /// What load VMs are offered, for `load-weight`: a line `VM PERCENT` for each, in percent of one CPU, written anew
        /// before it is too old; it need not be there.
        #[arg(long, value_name = "FILE", default_value = LOADS)]
        loads: PathBuf,
        /// Print what libbpf and the kernel's verifier say.
        #[arg(short, long)]
        verbose: bool,
        /// Lose tasks of this name, to see that the kernel puts an end to it.
        #[cfg(feature = "faults")]
        #[arg(long, value_name = "NAME", default_value = "")]
        lose: String,
    },
    /// Say whether `run` would work on this kernel and machine, and change nothing.
    ///
    /// The kernel's verifier is asked as well. The exit code is 1 if something stands in the way.
    Check {
        /// Policy, as of `run`.
        #[arg(short, long, value_name = "P", default_value = "credit2", hide_possible_values = true,
            value_parser = Offering(|| policies::names().collect()))]
        policy: String,
    },
    /// Ask for something for a domain, or show what is asked.
    ///
    /// It is kept in a file, and the running scheduler follows within a second, as does each that is
    /// started later. It goes before what control groups and libvirt say.
    #[command(after_help = "Examples:\n  steelyard kvm set web weight=512 slice=\"5 ms\"\n  \
        steelyard kvm set web sedf.period=\"20 ms\" sedf.slice=\"5 ms\"\n  \
        steelyard kvm set web slice=")]
    Set {
        /// Name of the VM, as `status` shows it; none: show what is asked for all.
        domain: Option<String>,
        #[arg(value_name = "NAME=[VALUE]", help = asked::HELP, long_help = asked::long_help())]
        asked: Vec<String>,
        /// Where that is kept, as of `run`.
        #[arg(long, value_name = "FILE", default_value = SETTINGS)]
        settings: PathBuf,
    },
    /// Change the policy or its parameters while it runs, or show what is asked of it.
    ///
    /// It is kept in the file of `set`, and goes before `--policy` and `--set` of `run`. The running scheduler
    /// follows within a second. Parameters that are numbers change at once. For another discipline, other
    /// governors, choices or queues the next program is made ready, and the kernel schedules by itself for the moment
    /// from the end of the one to the beginning of the other.
    #[command(after_help = "Examples:\n  steelyard kvm change credit2.run_max_ns=5000000\n  \
        steelyard kvm change policy=credit2+load-weight load-weight.interval_ns=5000000000\n  \
        steelyard kvm change policy=")]
    Change {
        /// Another policy, or a parameter as of `run --set`; without a value: as it was started. None: show what is
        /// asked.
        #[arg(value_name = "policy|KEY=[VALUE]")]
        asked: Vec<String>,
        /// Where that is kept, as of `run`.
        #[arg(long, value_name = "FILE", default_value = SETTINGS)]
        settings: PathBuf,
    },
    /// Show what each domain and vCPU has got from the running policy.
    Status {
        /// For programs: described in docs/kvm.md.
        #[arg(long)]
        json: bool,
        /// Instead: what the scheduler has decided, how often.
        #[arg(long, conflicts_with = "json")]
        counters: bool,
    },
}

const WHAT: &str = "schedule the vCPUs of this host";

#[cfg(feature = "kvm")]
pub fn run(command: &Command, interrupt: &Interrupt) -> Result<(), Failure> {
    scheduler::run(command, interrupt)
}

#[cfg(not(feature = "kvm"))]
pub fn run(_: &Command, _: &Interrupt) -> Result<(), Failure> {
    Err(Failure::System {
        what: WHAT,
        error: "this steelyard was built without it: see docs/kvm.md, or install the package, which has it".to_owned(),
    })
}
