// SPDX-License-Identifier: GPL-2.0-only
//! What `steelyard kvm` does, where it was built for it.

use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::Ordering;

use rustix::fs::{FlockOperation, flock};
use sd_notify::{NotifyState, notify};
use steelyard_boundary::output::Output;
use steelyard_kvm::{Finding, KvmError, Options, Scheduler, check, status};
use steelyard_policy::Parameter;
use steelyard_scenario::{Diagnostic, HostSettings, Source, read_settings, write_settings};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::kvm::{Command, WHAT};
use crate::{asked, terminal};

pub fn run(command: &Command, interrupt: &Interrupt) -> Result<(), Failure> {
    match command {
        Command::Run {
            policy,
            set,
            settings,
            loads,
            verbose,
            #[cfg(feature = "faults")]
            lose,
        } => {
            let policy = steelyard_scenario::policy(policy, set)?;
            let options = Options {
                verbose: *verbose,
                settings: settings.clone(),
                loads: loads.clone(),
                #[cfg(feature = "faults")]
                lose: lose.clone(),
            };
            // What was asked of a run before may be forgotten. A file that cannot be read is told by who follows it.
            let known = known_settings(settings).unwrap_or_default().policy;
            let path = settings.display();
            for (key, value) in known.iter() {
                terminal::note(&format!(
                    "{key} is {value}, as {path} says: `steelyard kvm change {key}=` ends that"
                ));
            }
            // A signal is how it is ended.
            interrupt.until_asked(|asked| {
                loop {
                    let mut scheduler =
                        Scheduler::start(&policy, &options, terminal::note).map_err(failure)?;
                    tell_systemd(NotifyState::Ready);
                    let look = || {
                        tell_systemd(NotifyState::Watchdog);
                        asked.load(Ordering::Relaxed)
                    };
                    match scheduler.wait(look, terminal::note) {
                        Err(error) if error.asks_for_restart() => {
                            terminal::note(&format!("{error}; it begins anew"));
                        }
                        Err(error) => {
                            tell_dump(&error);
                            return Err(failure(error));
                        }
                        Ok(()) => return Ok(()),
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
        Command::Set { domain, asked, settings } => {
            set(domain.as_deref(), asked, settings, interrupt)
        }
        Command::Change { asked, settings } => change(asked, settings, interrupt),
        Command::Status { json, counters } => {
            let status = status().map_err(failure)?;
            if *counters {
                return terminal::print(&status.to_counters());
            }
            if !*json {
                return terminal::print(&status.to_table());
            }
            let text = serde_json::to_string_pretty(&status)
                .map_err(|error| Failure::Output(error.into()))?;
            terminal::print_json(&(text + "\n"))
        }
    }
}

/// Asks for something for a domain, or shows what is asked.
fn set(
    domain: Option<&str>,
    asked: &[String],
    path: &Path,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    if asked.is_empty() {
        let known = known_settings(path)?;
        let otherwise = "control groups and libvirt's metadata say what holds";
        return asked::show(&known.domains, domain, otherwise);
    }
    let domain = domain.unwrap_or_default();
    let mut set = vec![];
    edit(path, interrupt, |all| {
        let wanted = all.domains.entry(domain.to_owned()).or_default();
        asked::settle("kvm set", asked, wanted)?;
        set = wanted.iter().map(|(setting, _)| setting).collect();
        Ok(())
    })?;
    tell_effect(domain, &set);
    Ok(())
}

/// Asks something of the policy, or shows what is asked.
fn change(asked: &[String], path: &Path, interrupt: &Interrupt) -> Result<(), Failure> {
    if asked.is_empty() {
        let known = known_settings(path)?.policy;
        let lines = known.iter().map(|(key, value)| format!("{key:<40} {value}\n"));
        return asked::print(&lines.collect::<String>(), "how it was started says what runs");
    }
    edit(path, interrupt, |all| {
        asked::each("kvm change", asked, |key, value| match value {
            "" => all.policy.unset(key),
            value => all.policy.set(key, value),
        })
    })?;
    if matches!(status(), Err(KvmError::NotRunning)) {
        tell_idle();
    }
    Ok(())
}

/// Changes the file of what is asked for.
fn edit(
    path: &Path,
    interrupt: &Interrupt,
    change: impl FnOnce(&mut HostSettings) -> Result<(), Diagnostic>,
) -> Result<(), Failure> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name().and_then(OsStr::to_str))
    else {
        return Err(Source::new("--settings", "").error(0..0, "this is no file").into());
    };
    let output = Output::directory(directory, &[name], &[])?;
    // Two at a time would lose what one of them asks for; where there is no directory yet, there is nothing to lose.
    let lock = File::open(directory);
    let _ = lock.as_ref().map(|file| flock(file, FlockOperation::LockExclusive));
    let mut all = known_settings(path)?;
    change(&mut all)?;
    let text = write_settings(&all);
    interrupt.until_asked(|interrupted| {
        output.write(&mut [Box::new(|file| file.write_all(text.as_bytes()))], interrupted)
    })?;
    Ok(())
}

/// Nothing if the file is not there.
fn known_settings(path: &Path) -> Result<HostSettings, Failure> {
    if !path.exists() {
        return Ok(HostSettings::default());
    }
    Ok(read_settings(path)?)
}

fn tell_idle() {
    terminal::note("`steelyard kvm run` will follow it: none is running here");
}

/// What comes of it now.
fn tell_effect(domain: &str, set: &[&Parameter]) {
    let status = match status() {
        Ok(status) => status,
        Err(KvmError::NotRunning) => {
            return tell_idle();
        }
        // Nothing more is known.
        Err(_) => return,
    };
    if !status.domains.iter().any(|it| it.name == domain) {
        terminal::note(&format!("no VM of the name `{domain}` runs a vCPU here now"));
    }
    asked::tell_unheeded(&status.policy, set);
}

/// Where it runs as a service (`service/steelyard-kvm.service`): that it has begun, and that it goes on.
fn tell_systemd(state: NotifyState<'_>) {
    // Who cannot be told will see to it.
    let _ = notify(&[state]);
}

/// What the kernel wrote down at the end, which is long: before the one line that says why.
fn tell_dump(error: &KvmError) {
    if let KvmError::Ejected { dump, .. } = error {
        dump.lines().for_each(terminal::note);
    }
}

fn failure(error: KvmError) -> Failure {
    Failure::System { what: WHAT, error: error.to_string() }
}
