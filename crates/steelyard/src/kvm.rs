// SPDX-License-Identifier: GPL-2.0-only
//! `steelyard kvm`: a policy schedules the vCPUs of this Linux host.

use std::sync::atomic::Ordering;

use clap::Subcommand;
use sd_notify::{NotifyState, notify};
use steelyard_kvm::{Finding, KvmError, Options, Scheduler, check, status};

use crate::arguments::Offering;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::{policies, terminal};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Schedule the vCPUs of this host by a policy, until Ctrl-C.
    ///
    /// Every thread that runs a vCPU of KVM is scheduled by the policy; its process is the domain,
    /// whose weight and cap are those of its control groups, `cpu.weight` and `cpu.max`. Other tasks
    /// take turns with the vCPUs. When this ends, in whatever way, the kernel schedules by itself
    /// again.
    Run {
        /// Policy, such as credit2, credit@xen-4.20 or credit2+load-weight; all but sedf.
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
    /// Show what each domain and vCPU has got from the running policy.
    Status {
        /// For programs: described in docs/kvm.md.
        #[arg(long)]
        json: bool,
    },
}

pub fn run(command: &Command, interrupt: &Interrupt) -> Result<(), Failure> {
    match command {
        Command::Run {
            policy,
            set,
            verbose,
            #[cfg(feature = "faults")]
            lose,
        } => {
            let policy = steelyard_scenario::policy(policy, set)?;
            let options = Options {
                verbose: *verbose,
                #[cfg(feature = "faults")]
                lose: lose.clone(),
            };
            // A signal is how it is ended.
            interrupt.until_asked(|asked| {
                loop {
                    let mut scheduler = Scheduler::start(&policy, &options).map_err(failure)?;
                    terminal::note(&format!(
                        "{policy} schedules the vCPUs of this host; Ctrl-C ends it"
                    ));
                    tell_systemd(NotifyState::Ready);
                    let look = || {
                        tell_systemd(NotifyState::Watchdog);
                        asked.load(Ordering::Relaxed)
                    };
                    match scheduler.wait(look) {
                        Err(error) if error.asks_for_restart() => {
                            terminal::note(&format!("{error}; it begins anew"));
                        }
                        ended => return ended.map_err(failure),
                    }
                }
            })
        }
        Command::Check { policy } => {
            let findings = check(&steelyard_scenario::policy(policy, &[])?);
            let line = |finding: &Finding| match finding {
                Finding::Good(what) => format!("good   {what}\n"),
                Finding::Lacks(what) => format!("lacks  {what}\n"),
                Finding::Bad(what, error) => format!("BAD    {what}: {error}\n"),
            };
            terminal::print(&findings.iter().map(line).collect::<String>())?;
            let bad = findings.into_iter().find_map(|finding| match finding {
                Finding::Bad(_, error) => Some(error),
                _ => None,
            });
            bad.map_or(Ok(()), |error| Err(failure(error)))
        }
        Command::Status { json } => {
            let status = status().map_err(failure)?;
            if !*json {
                return terminal::print(&status.to_table());
            }
            let text = serde_json::to_string_pretty(&status)
                .map_err(|error| Failure::Output(error.into()))?;
            terminal::print_json(&(text + "\n"))
        }
    }
}

/// Where it runs as a service (`service/steelyard-kvm.service`): that it has begun, and that it goes on.
fn tell_systemd(state: NotifyState<'_>) {
    // Who cannot be told will see to it.
    let _ = notify(&[state]);
}

fn failure(error: KvmError) -> Failure {
    Failure::System { what: "schedule the vCPUs of this host", error: error.to_string() }
}
