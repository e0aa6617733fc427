// SPDX-License-Identifier: GPL-2.0-only
//! `steelyard xen`: what Steelyard's scheduler in Xen can be asked for beyond the weights and caps of `xl`, and what it is
//! told. Both go through hypfs, by `xenhypfs` in dom0; the hypervisor keeps what it is asked.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use clap::Subcommand;
use steelyard_apply::{KnobError, xen_domains};
use steelyard_policy::{Parameter, Policy, Settings, settings};
use steelyard_scenario::{DomainSettings, LOADS, Source, did_you_mean, parse_loads};
use steelyard_simulator::units::Nanoseconds;

use crate::arguments::interval;
use crate::asked;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::terminal;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Ask for something for a domain, or show what is asked.
    ///
    /// It holds at once, and until the domain ends; `xl` and domain configurations set weights and caps as well.
    #[command(after_help = "Examples:\n  steelyard xen set web weight=512 slice=\"5 ms\"\n  \
        steelyard xen set web sedf.period=\"20 ms\" sedf.slice=\"5 ms\"\n  \
        steelyard xen set web slice=")]
    Set {
        /// Name of the domain, as `xl list` shows it; none: show what is asked for all.
        domain: Option<String>,
        #[arg(value_name = "NAME=[VALUE]", help = asked::HELP, long_help = asked::long_help())]
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
    /// Tell the scheduler what each domain receives from the network, and what load it is offered, until Ctrl-C.
    ///
    /// Packets pass through dom0, where Xen does not see them; `app-slice` is the governor that wants them. What load a
    /// domain is offered a file says, for `load-weight`.
    Feed {
        /// Time from one look to the next, such as 500ms: no more than that from one judgement to the next.
        #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = interval)]
        interval: Nanoseconds,
        /// A line `DOMAIN PERCENT` for each domain, in percent of one CPU; told each time that it was written anew.
        #[arg(long, value_name = "FILE", default_value = LOADS)]
        loads: PathBuf,
        /// Another /sys.
        #[arg(long, value_name = "DIR", default_value = "/sys", hide = true)]
        sys: PathBuf,
    },
}

pub fn run(command: &Command, interrupt: &Interrupt) -> Result<(), Failure> {
    let policy = read("policy")?;
    match command {
        Command::Set { domain, asked } => set(policy.trim(), domain.as_deref(), asked),
        Command::Parameters { changed } => parameters(policy.trim(), changed),
        Command::Feed { interval, loads, sys } => {
            // The scheduler has a place for what one of its governors wants.
            let mut feeder = Feeder {
                sys: read(PACKETS).is_ok().then_some(sys),
                loads: read(LOADS_LEAF).is_ok().then_some(loads),
                ..Feeder::default()
            };
            if feeder.sys.is_none() && feeder.loads.is_none() {
                let error = format!("{} wants neither packets nor loads", policy.trim());
                return Err(Failure::System { what: WHAT, error });
            }
            let interval = Duration::from_nanos(interval.0);
            interrupt.until_asked(|asked| feeder.feed(interval, asked));
            Ok(())
        }
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
    asked::settle("xen set", asked, &mut wanted)?;
    for change in changes(id, &before, &wanted) {
        write("settings", &change)?;
    }
    asked::tell_unheeded(policy, &wanted.iter().map(|(setting, _)| setting).collect::<Vec<_>>());
    Ok(())
}

const OTHERWISE: &str = "the usual weight holds, and no cap";

/// What is to be written for this domain to be asked for the one instead of the other.
fn changes(id: u32, before: &DomainSettings, wanted: &DomainSettings) -> Vec<String> {
    let usual = Settings::usual();
    let mut all = [usual, before.over(usual), wanted.over(usual)];
    let change = |(place, setting): (usize, &Parameter)| {
        let [usual, before, wanted] = all.each_mut().map(|settings| settings.fields()[place]);
        let name = setting.name;
        match wanted {
            same if same == before => None,
            none if none == usual => Some(format!("{id} {name}")),
            value => Some(format!("{id} {name} {value}")),
        }
    };
    settings().iter().enumerate().filter_map(change).collect()
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

const PACKETS: &str = "packets";
const LOADS_LEAF: &str = "loads";
/// So soon it ends when it is asked to.
const ATTENTION: Duration = Duration::from_millis(50);

/// What tells the scheduler what only dom0 knows.
#[derive(Default)]
struct Feeder<'a> {
    /// Where packets are counted, and what was told of them.
    sys: Option<&'a Path>,
    packets: BTreeMap<u32, u64>,
    /// The file of loads, and when that was written of which was told.
    loads: Option<&'a Path>,
    written: Option<SystemTime>,
    /// Domains of which was said that nothing can be told.
    refused: BTreeSet<u32>,
}

impl Feeder<'_> {
    fn feed(&mut self, interval: Duration, asked: &AtomicBool) {
        while !asked.load(Ordering::Relaxed) {
            let due = Instant::now() + interval;
            self.tell_packets();
            self.tell_loads();
            while !asked.load(Ordering::Relaxed) && Instant::now() < due {
                thread::sleep(ATTENTION.min(due.saturating_duration_since(Instant::now())));
            }
        }
    }

    fn tell_packets(&mut self) {
        let Some(sys) = self.sys else { return };
        let now = received(sys);
        for (&id, &packets) in &now {
            if self.packets.get(&id) != Some(&packets) {
                self.tell(PACKETS, id, packets);
            }
        }
        self.packets = now;
    }

    /// If the file was written since: what is not told again gets old.
    fn tell_loads(&mut self) {
        let Some(path) = self.loads else { return };
        let written = path.metadata().and_then(|file| file.modified()).ok();
        if written == self.written || written.is_none() {
            return;
        }
        self.written = written;
        let loads = Source::read_trusted(path).and_then(|source| parse_loads(&source));
        let ids = xen_domains();
        let (loads, ids) = match (loads, ids) {
            (Ok(loads), Ok(ids)) => (loads, ids),
            (Err(error), _) => return terminal::note(&error.to_string()),
            (_, Err(error)) => return terminal::note(&error.to_string()),
        };
        for (name, id) in ids {
            if let Some(&percent) = loads.get(&name) {
                self.tell(LOADS_LEAF, id, percent.into());
            }
        }
    }

    fn tell(&mut self, leaf: &str, id: u32, number: u64) {
        // It has ended a moment ago, or another scheduler has it.
        if let Err(error) = write(leaf, &format!("{id} {number}"))
            && self.refused.insert(id)
        {
            let why = error.message().unwrap_or_default();
            terminal::note(&format!("domain {id} is not told of: {why}"));
        }
    }
}

/// Packets that each domain has received by now: what dom0 has sent through its interfaces, `vifDOMAIN.NUMBER` and,
/// where QEMU has one beside it, `vifDOMAIN.NUMBER-emu`.
fn received(sys: &Path) -> BTreeMap<u32, u64> {
    let mut received = BTreeMap::new();
    for entry in fs::read_dir(sys.join("class/net")).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let id = name
            .to_str()
            .and_then(|name| name.strip_prefix("vif")?.split_once('.')?.0.parse().ok());
        let packets = fs::read_to_string(entry.path().join("statistics/tx_packets"));
        let packets = packets.ok().and_then(|text| text.trim().parse::<u64>().ok());
        if let (Some(id), Some(packets)) = (id, packets) {
            let sum: &mut u64 = received.entry(id).or_default();
            *sum = sum.saturating_add(packets);
        }
    }
    received
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
