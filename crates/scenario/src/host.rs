// SPDX-License-Identifier: GPL-2.0-only
//! What `steelyard describe` writes of a host, as it was at one moment: who is there, how each is held, and what
//! schedules. It lies beside a recording that cannot tell that, and is a scenario's beginning by itself. The form is
//! described in `docs/describe.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;
use std::iter;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use steelyard_boundary::text::{LONGEST, told};
use steelyard_recording::{Group, group_path};
use steelyard_simulator::limits;
use steelyard_simulator::units::CpuSet;

use crate::diagnostic::{Diagnostic, Source, open, read_text, unreadable};
use crate::document::{locate, parse};
use crate::priority;

/// Version of the form.
const VERSION: u32 = 1;
/// The key that says so is what such a file begins with.
const MARK: &str = "steelyard_host";
/// And this is how the name of one ends that lies beside a recording.
const ENDING: &str = ".host.toml";

/// A host.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HostDescription {
    /// Version of the form.
    pub steelyard_host: u32,
    /// The machine and what schedules it.
    pub host: Machine,
    /// Control groups that somebody is in, each after the one around it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub group: Vec<ControlGroup>,
    /// Virtual machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub domain: Vec<DescribedDomain>,
    /// Threads, on Linux: all of virtual machines, and of other processes the first, if something holds it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thread: Vec<Thread>,
}

/// A machine and what schedules it.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// "Linux 6.18.1", "Xen 4.20.0".
    pub system: String,
    /// Xen's scheduler, or that of Linux's sched_ext, if one is loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// pCPUs that are online.
    pub pcpus: CpuSet,
    /// Sockets; with the two below 1, 1 and 1 where the pCPUs' numbers do not follow each other so.
    pub sockets: u32,
    /// Cores of each.
    pub cores_per_socket: u32,
    /// Hardware threads of each.
    pub threads_per_core: u32,
}

/// A control group, or a session that the kernel takes for one (autogroup).
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ControlGroup {
    /// Its path, or the session's name.
    pub name: String,
    /// 256 being the usual one.
    pub weight: u32,
    /// Quota in percent of a pCPU; 0: none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cap_percent: u32,
    /// The one that it is in, by its place in the list from 0 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<u32>,
}

/// A virtual machine.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DescribedDomain {
    /// Name.
    pub name: String,
    /// Its process on Linux, its number on Xen; none: it does not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u32>,
    /// 256 being the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// In percent of a pCPU; 0: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap_percent: Option<u32>,
    /// Whether no group holds its vCPUs together.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ungrouped: bool,
    /// vCPUs.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub vcpus: u32,
    /// Where each may run, if not anywhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pin: Vec<CpuSet>,
    /// Where each had better run, if not anywhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pin_soft: Vec<CpuSet>,
    /// What libvirt says of it, as far as it decides who runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xml: Option<String>,
}

/// How a thread is held.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Thread {
    /// Its number.
    pub id: u32,
    /// Its process, if that has another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<u32>,
    /// Its name.
    pub name: String,
    /// Niceness.
    #[serde(default, skip_serializing_if = "is_zero_signed")]
    pub nice: i32,
    /// Scheduling policy (`fifo`, `rr`, `deadline`, `batch`, `idle`, `ext`), if not the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Where it may run, if not anywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pcpus: Option<CpuSet>,
    /// Its control group, by its place in the list from 0 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u32>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn is_zero_signed(number: &i32) -> bool {
    *number == 0
}

/// Whether a file that begins so is such a description.
pub(crate) fn looks_like(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head);
    let mut lines = text.lines().map(str::trim).filter(|it| !it.is_empty() && !it.starts_with('#'));
    let first = lines.next().and_then(|line| line.strip_prefix(MARK));
    first.is_some_and(|rest| rest.trim_start().starts_with('='))
}

/// Where the description of a recorded host is looked for: `night.perf.txt` has it in `night.host.toml`.
#[must_use]
pub fn beside(recording: &Path) -> PathBuf {
    let name = recording.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.split('.').next().filter(|stem| !stem.is_empty()).unwrap_or(&name);
    recording.with_file_name(format!("{stem}{ENDING}"))
}

impl HostDescription {
    /// One of this version.
    #[must_use]
    pub fn new(host: Machine) -> HostDescription {
        HostDescription {
            steelyard_host: VERSION,
            host,
            group: vec![],
            domain: vec![],
            thread: vec![],
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn read(path: &Path) -> Result<HostDescription, Diagnostic> {
        let mut file = open(path)?;
        if !looks_like(file.fill_buf().map_err(|error| unreadable(path, &error))?) {
            let message = "this is no description of a host";
            return Err(Diagnostic::of_file(path.display().to_string(), message)
                .with_help("make one on the recorded host: steelyard describe -o FILE"));
        }
        HostDescription::parse(&read_text(path, file)?)
    }

    /// Reads a text.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn parse(source: &Source) -> Result<HostDescription, Diagnostic> {
        #[derive(Deserialize)]
        struct Version {
            steelyard_host: u32,
        }
        let wrong = |path: &[&str], message: String| {
            let path: Vec<String> = path.iter().map(|&part| part.to_owned()).collect();
            source.error(locate(source, &path), message)
        };
        let Version { steelyard_host } = parse(source)?;
        if steelyard_host != VERSION {
            let message = format!("version {steelyard_host} of this form: {VERSION} is known here");
            return Err(wrong(&[MARK], message));
        }
        let description: HostDescription = parse(source)?;
        description.check().map_err(|(path, message)| {
            wrong(&path.iter().map(String::as_str).collect::<Vec<_>>(), message)
        })?;
        Ok(description)
    }

    /// The path of what is wrong, and why.
    fn check(&self) -> Result<(), (Vec<String>, String)> {
        let at = |list: &str, index: usize, key: &str| {
            vec![list.to_owned(), index.to_string(), key.to_owned()]
        };
        let host = |key: &str| vec!["host".to_owned(), key.to_owned()];
        let Machine { sockets, cores_per_socket, threads_per_core, .. } = self.host;
        for (key, value, limit) in [
            ("sockets", sockets, limits::SOCKETS),
            ("cores_per_socket", cores_per_socket, limits::CORES),
            ("threads_per_core", threads_per_core, limits::CORE_THREADS),
        ] {
            limit.check(value.into()).map_err(|problem| (host(key), problem))?;
        }
        for (index, group) in self.group.iter().enumerate() {
            let weight = limits::WEIGHT.check(group.weight.into());
            weight.map_err(|problem| (at("group", index, "weight"), problem))?;
            if group.within.is_some_and(|within| within as usize >= index) {
                let message = "a group is within one that stands before it in the list".to_owned();
                return Err((at("group", index, "within"), message));
            }
        }
        let (mut names, mut ids) = (BTreeSet::new(), BTreeSet::new());
        for (index, domain) in self.domain.iter().enumerate() {
            let wrong = |key: &str, message: String| (at("domain", index, key), message);
            if domain.name.is_empty() || domain.name.chars().count() > LONGEST {
                return Err(wrong("name", "no name that a domain can be called by".to_owned()));
            }
            let twice = |what: &dyn std::fmt::Display| format!("another domain has `{what}` too");
            if !names.insert(&domain.name) {
                return Err(wrong("name", twice(&told(&domain.name))));
            }
            if let Some(id) = domain.id.filter(|id| !ids.insert(*id)) {
                return Err(wrong("id", twice(&id)));
            }
            if let Some(weight) = domain.weight {
                let weight = limits::WEIGHT.check(weight.into());
                weight.map_err(|problem| wrong("weight", problem))?;
            }
            if let Some(cap) = domain.cap_percent {
                let cap = limits::CAP_PERCENT.check(cap.into());
                cap.map_err(|problem| wrong("cap_percent", problem))?;
            }
            if domain.id.is_some() {
                let vcpus = limits::VCPUS.check(domain.vcpus.into());
                vcpus.map_err(|problem| wrong("vcpus", problem))?;
            }
            for (key, pins) in [("pin", &domain.pin), ("pin_soft", &domain.pin_soft)] {
                if !pins.is_empty() && pins.len() != domain.vcpus as usize {
                    let vcpus = domain.vcpus;
                    let message = format!("{} sets of pCPUs for {vcpus} vCPUs", pins.len());
                    return Err(wrong(key, message));
                }
            }
        }
        for (index, thread) in self.thread.iter().enumerate() {
            if !(-20..=19).contains(&thread.nice) {
                let message = format!("`{}` is not -20 to 19", thread.nice);
                return Err((at("thread", index, "nice"), message));
            }
            if thread.group.is_some_and(|group| group as usize >= self.group.len()) {
                let message = "there is no such group in the list".to_owned();
                return Err((at("thread", index, "group"), message));
            }
        }
        Ok(())
    }

    /// The text of a file.
    ///
    /// # Errors
    /// It cannot be said in TOML: a number beyond its range.
    pub fn text(&self) -> Result<String, String> {
        let body = toml_edit::ser::to_string_pretty(self).map_err(|error| error.to_string())?;
        Ok(format!(
            "# A host at one moment, by `steelyard describe`. Put it beside a recording of that host, with the\n\
             # recording's name up to the first dot: night.host.toml for night.perf.txt.\n{body}"
        ))
    }

    /// Whether it is Xen's.
    pub(crate) fn is_xen(&self) -> bool {
        self.host.system.starts_with("Xen ")
    }

    /// Domains of Xen whose vCPUs are offline in a trace when their cap keeps them off: under credit.
    pub(crate) fn parked(&self) -> BTreeSet<u32> {
        let is_credit = self.is_xen() && self.host.scheduler.as_deref() == Some("credit");
        let capped = self.domain.iter().filter(|domain| is_credit && domain.cap_percent > Some(0));
        capped.filter_map(|domain| domain.id).collect()
    }

    /// A group, by its place in the list, and those around it, the innermost first.
    fn from(&self, group: Option<u32>) -> impl Iterator<Item = (u32, &ControlGroup)> {
        let known = |place: u32| Some((place, self.group.get(place as usize)?));
        // Those around one stand earlier in the list, so that this ends.
        iter::successors(group.and_then(known), move |(_, group)| known(group.within?))
    }

    /// The same, as recordings tell them.
    pub(crate) fn chain(&self, group: Option<u32>) -> Vec<Group> {
        let told = |(place, group): (u32, &ControlGroup)| Group {
            id: u64::from(place) + 1,
            weight: group.weight,
        };
        self.from(group).map(told).collect()
    }

    /// How many groups are around the one that is a virtual machine's own, of which a vCPU is in this one.
    pub(crate) fn groups_around(&self, group: Option<u32>) -> Option<u32> {
        let (_, innermost) = self.from(group).next()?;
        let own = group_path::own(Path::new(&innermost.name))?;
        let is_other = |(_, group): &(u32, &ControlGroup)| Path::new(&group.name) != own;
        let from_own = self.from(group).skip_while(is_other).count();
        u32::try_from(from_own.checked_sub(1)?).ok()
    }

    /// The domains that run, by their numbers.
    pub(crate) fn running(&self) -> BTreeMap<u32, &DescribedDomain> {
        self.domain.iter().filter_map(|domain| Some((domain.id?, domain))).collect()
    }
}

impl Thread {
    /// Its process.
    pub(crate) fn process(&self) -> u32 {
        self.process.unwrap_or(self.id)
    }

    /// Whether it runs before all others.
    pub(crate) fn is_urgent(&self) -> bool {
        matches!(self.policy.as_deref(), Some("fifo" | "rr" | "deadline"))
    }

    /// Linux's number for how urgent it is.
    pub(crate) fn priority(&self) -> u32 {
        match (self.policy.as_deref(), self.is_urgent()) {
            (_, true) => 0,
            // SCHED_IDLE has a weight of 3, less than the least niceness: the nearest.
            (Some("idle"), _) => priority::NICE_MOST,
            _ => priority::NICE_USUAL.saturating_add_signed(self.nice),
        }
    }
}
