// SPDX-License-Identifier: GPL-2.0-only
//! `steelyard xen`: what Steelyard's scheduler in Xen can be asked for beyond the weights and caps of `xl`. It is asked
//! through hypfs, by `xenhypfs` in dom0, and keeps what it is asked itself.

use std::collections::BTreeMap;

use clap::Subcommand;
use steelyard_apply::{KnobError, xen_domains};
use steelyard_policy::{Policy, Settings, settings};
use steelyard_scenario::{DomainSettings, Source, did_you_mean};

use crate::asked;
use crate::failure::Failure;
use crate::terminal;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Ask for something for a domain, or show what is asked.
    ///
    /// It holds at once, and until the domain ends; `xl` and domain configurations set weights and caps as well.
    ///
    /// Settings: weight, cap_percent, slice, sedf.period, sedf.slice, sedf.extra_time, boost.limit,
    /// boost.ratio_percent, ungrouped. Times have a unit, such as "5 ms".
    #[command(after_help = "Examples:\n  steelyard xen set web weight=512 slice=\"5 ms\"\n  \
        steelyard xen set web sedf.period=\"20 ms\" sedf.slice=\"5 ms\"\n  \
        steelyard xen set web slice=")]
    Set {
        /// Name of the domain, as `xl list` shows it; none: show what is asked for all.
        domain: Option<String>,
        /// What to ask for; without a value: no longer. None: show what is asked.
        #[arg(value_name = "NAME=[VALUE]")]
        asked: Vec<String>,
    },
    /// Show the parameters of the policy that runs, or change some.
    ///
    /// They change at once, and until the host is started anew. `steelyard policies` says what each does.
    #[command(after_help = "Examples:\n  steelyard xen parameters\n  \
        steelyard xen parameters credit2.run_max_ns=5000000 load-weight.interval_ns=5000000000")]
    Parameters {
        /// What to change; none: show all.
        #[arg(value_name = "KEY=VALUE")]
        changed: Vec<String>,
    },
}

pub fn run(command: &Command) -> Result<(), Failure> {
    let policy = read("policy")?;
    match command {
        Command::Set { domain, asked } => set(policy.trim(), domain.as_deref(), asked),
        Command::Parameters { changed } => parameters(policy.trim(), changed),
    }
}

/// Asks for something for a domain, or shows what is asked.
fn set(policy: &str, domain: Option<&str>, asked: &[String]) -> Result<(), Failure> {
    let ids: BTreeMap<_, _> = xen_domains().map_err(failure)?.into_iter().collect();
    let known = settings_by_id(&read("settings")?);
    let asked_for = |id| DomainSettings::of(known.get(id).copied().unwrap_or_else(Settings::usual));
    let Some(name) = domain else {
        let all = ids.iter().map(|(name, id)| (name.clone(), asked_for(id))).collect();
        return asked::show(&all, None, OTHERWISE);
    };
    let Some(&id) = ids.get(name) else {
        let near = did_you_mean(name, ids.keys().map(String::as_str));
        let wrong = format!("there is no domain `{name}`{near}");
        return Err(Source::new("xen set", name).error(0..name.len(), wrong).into());
    };
    let before = asked_for(&id);
    if asked.is_empty() {
        return asked::show(&[(name.to_owned(), before)].into(), None, OTHERWISE);
    }
    let mut wanted = before.clone();
    asked::each("xen set", asked, |name, value| match value {
        "" => wanted.unset(name),
        value => wanted.set(name, value),
    })?;
    let all = asked.join(" ");
    wanted.check().map_err(|why| Source::new("xen set", &all).error(0..all.len(), why))?;
    for change in changes(id, &before, &wanted) {
        write("settings", &change)?;
    }
    asked::tell_unheeded(policy, &wanted.iter().map(|(setting, _)| setting).collect::<Vec<_>>());
    Ok(())
}

const OTHERWISE: &str = "every domain has the usual weight and no cap";

/// What is to be written for this domain to be asked for the one instead of the other.
fn changes(id: u32, before: &DomainSettings, wanted: &DomainSettings) -> Vec<String> {
    let mut usual = Settings::usual();
    let (mut before, mut wanted) = (before.over(usual), wanted.over(usual));
    let values = before.fields().iter().zip(wanted.fields().iter()).zip(usual.fields().iter());
    let changed =
        settings().iter().zip(values).filter(|(_, ((before, wanted), _))| before != wanted);
    let line =
        |(setting, ((_, wanted), usual)): (&steelyard_policy::Parameter, ((_, &u64), &u64))| {
            if wanted == usual {
                format!("{id} {}", setting.name)
            } else {
                format!("{id} {} {wanted}", setting.name)
            }
        };
    changed.map(line).collect()
}

/// Lines of `DOMAIN SETTING VALUE`; settings that are not known here are of a newer scheduler.
fn settings_by_id(text: &str) -> BTreeMap<u32, Settings> {
    let mut known = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<_> = line.split(' ').collect();
        let &[id, name, value] = words.as_slice() else { continue };
        let place = settings().iter().position(|setting| setting.name == name);
        let (Ok(id), Some(place), Ok(value)) = (id.parse(), place, value.parse()) else { continue };
        known.entry(id).or_insert_with(Settings::usual).fields()[place] = value;
    }
    known
}

/// Shows the parameters, or changes some.
fn parameters(policy: &str, changed: &[String]) -> Result<(), Failure> {
    let mut policy = Policy::named(policy).map_err(|error| Failure::System {
        what: WHAT,
        error: format!("{error}: it is of another release"),
    })?;
    let discipline = policy.discipline().name;
    if changed.is_empty() {
        let mut lines = String::new();
        for (name, parameter, _) in policy.values() {
            let told = read(&format!("parameters/{name}"))?;
            let value = told.trim();
            let value = value.parse().map_or(value.to_owned(), |value| parameter.format(value));
            let key = if name.contains('.') { name } else { format!("{discipline}.{name}") };
            lines += &format!("{key:<40} {value}\n");
        }
        return terminal::print(&lines);
    }
    let mut names = vec![];
    asked::each("xen parameters", changed, |key, value| {
        let own = key.strip_prefix(discipline).and_then(|key| key.strip_prefix('.'));
        let name = own.unwrap_or(key);
        policy.set(name, value).map_err(|error| error.to_string())?;
        names.push(name.to_owned());
        Ok(())
    })?;
    for name in names {
        let value = policy.value(&name).unwrap_or_default();
        write(&format!("parameters/{name}"), &value.to_string())?;
    }
    Ok(())
}

const WHAT: &str = "ask Steelyard's scheduler in Xen";

fn read(leaf: &str) -> Result<String, Failure> {
    steelyard_apply::run("xenhypfs", &["cat", &format!("/steelyard/{leaf}")], "").map_err(failure)
}

fn write(leaf: &str, text: &str) -> Result<(), Failure> {
    let arguments = ["write", &format!("/steelyard/{leaf}"), text];
    steelyard_apply::run("xenhypfs", &arguments, "").map(drop).map_err(failure)
}

fn failure(error: KnobError) -> Failure {
    Failure::System { what: WHAT, error: error.to_string() }
}
