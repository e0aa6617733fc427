// SPDX-License-Identifier: GPL-2.0-only
//! Xen's dom0 as a source, whatever schedules it: times and states as the hypervisor counts them, weights
//! and caps of Credit and Credit2, and of Steelyard's own scheduler what it says of itself. Single runs
//! and waits come from `xentrace`, where it can be run.

mod control;
mod tracer;

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, OpenOptions};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{error, fmt, io};

use steelyard_recording::{
    Domain, Figures, Host, PolicyState, Snapshot, State, Structure, Tally, ThreadEvents, Vcpu,
    Xentrace, placed,
};
use steelyard_simulator::measure::Segment;

use control::{Control, DomainInfo, Machine, Texts, VcpuInfo};
use tracer::Tracer;

/// Name, weight and cap of a domain are looked at anew every so many samples.
const LOOK_EVERY: u64 = 10;
/// Of a scheduler that has none.
const USUAL_WEIGHT: u32 = 256;
/// Records come up to so much later than they are made; sooner they cannot.
const LATEST_NS: u64 = 100_000_000;
const SOONEST_NS: u64 = 1_000_000;
/// `xentrace` writes a round at once: after so long without any it sleeps.
const QUIET: Duration = Duration::from_millis(2);

/// Xen, seen from dom0.
pub struct XenSource {
    proc: PathBuf,
    began: Instant,
    began_unix_ns: u64,
    samples: u64,
    name: String,
    version: String,
    control: Control,
    machine: Machine,
    store: Option<Texts>,
    /// Steelyard's scheduler, if that is the one: what it says, and its policy.
    steelyard: Option<(Texts, String)>,
    /// Or why there is none.
    trace: Result<Trace, String>,
    domains: BTreeMap<u32, Known>,
    structure: Option<Arc<Structure>>,
}

/// A domain, as it was told last.
struct Known {
    domain: Domain,
    info: DomainInfo,
    vcpus: Vec<VcpuInfo>,
}

impl XenSource {
    /// Whether this is Xen's dom0.
    pub fn is_here(proc: &Path) -> bool {
        fs::read_to_string(proc.join("xen/capabilities"))
            .is_ok_and(|capabilities| capabilities.contains("control_d"))
    }

    /// The host whose dom0's `/proc` this is.
    ///
    /// # Errors
    /// [`XenError`].
    pub fn new(proc: impl Into<PathBuf>) -> Result<XenSource, XenError> {
        let proc = proc.into();
        OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/xen/privcmd")
            .map_err(XenError::NoAccess)?;
        let version = |part: &str| {
            let text = fs::read_to_string(format!("/sys/hypervisor/version/{part}"));
            text.map(|text| text.trim().to_owned()).unwrap_or_default()
        };
        let release = format!("{}.{}", version("major"), version("minor"));
        let control = Control::open(&release)
            .map_err(|error| XenError::NoLibrary { release: release.clone(), error })?;
        let machine = control.machine().ok_or(XenError::NoAnswer)?;
        let steelyard = Texts::hypfs().and_then(|hypfs| {
            let policy = hypfs.read("/steelyard/policy")?;
            Some((hypfs, policy.trim().to_owned()))
        });
        let began_unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(XenSource {
            began: Instant::now(),
            began_unix_ns: began_unix.as_nanos() as u64,
            samples: 0,
            name: fs::read_to_string(proc.join("sys/kernel/hostname"))
                .map_or_else(|_| "this host".to_owned(), |name| name.trim().to_owned()),
            version: release + &version("extra"),
            trace: Err("xentrace was not started".to_owned()),
            proc,
            control,
            machine,
            store: Texts::store(),
            steelyard,
            domains: BTreeMap::new(),
            structure: None,
        })
    }

    /// Starts `xentrace`. Why it cannot be is said by what is not seen.
    pub fn observe(&mut self) {
        self.trace = Trace::start(&self.proc, &self.machine);
    }

    /// Whether snapshots have single runs and waits where they can be seen, or their sums only.
    pub fn set_segments(&mut self, wanted: bool) {
        if let Ok(trace) = &mut self.trace {
            trace.keeps = wanted;
        }
    }

    /// To be called now and then if there is no sample for a second or more: there is room for so
    /// many records only.
    pub fn attend(&mut self) {
        let (Ok(trace), Some(structure)) = (&mut self.trace, &self.structure) else { return };
        match trace.fetch(self.began) {
            Ok(()) => trace.tally_up(structure),
            Err(reason) => {
                self.trace = Err(reason);
                // It is described anew.
                self.structure = None;
            }
        }
    }

    /// The next snapshot: now.
    ///
    /// # Errors
    /// [`XenError::NoAnswer`].
    pub fn sample(&mut self) -> Result<Snapshot, XenError> {
        // dom0 at least is there.
        let infos = self.control.domains().filter(|infos| !infos.is_empty());
        let infos = infos.ok_or(XenError::NoAnswer)?;
        let time_ns = self.began.elapsed().as_nanos() as u64;
        let idle_ns = self.control.idle_ns(self.machine.pcpus).ok_or(XenError::NoAnswer)?;
        // Numbers beyond those of pCPUs that are there may be possible, and have not been idle yet.
        let there = idle_ns.iter().rposition(|&idle_ns| idle_ns > 0).map_or(0, |last| last + 1);
        let pcpus = there.max(self.machine.pcpus_online as usize).min(idle_ns.len());
        let mut changed = self.update(&infos);
        let of_domain = |known: &Known| {
            let paused = known.info.paused;
            known.vcpus.iter().map(move |&told| figures(told, paused)).collect::<Vec<_>>()
        };
        let mut vcpus: Vec<_> = self.domains.values().flat_map(of_domain).collect();
        if let Ok(trace) = &mut self.trace {
            let fetched = trace.fetch(self.began);
            changed |= fetched.is_err() || trace.begins_to_lose();
            if let Err(reason) = fetched {
                self.trace = Err(reason);
            }
        }
        let known =
            self.structure.take().filter(|known| !changed && known.host.pcpus as usize == pcpus);
        let structure = known.unwrap_or_else(|| Arc::new(self.describe(pcpus as u32)));
        self.structure = Some(structure.clone());
        self.add_policy(&mut vcpus);
        let is_capped = |known: &Known| known.domain.cap_percent > 0 && !known.info.paused;
        let capped = self.domains.iter().filter(|(_, known)| is_capped(known)).map(|(&id, _)| id);
        let segments = match &mut self.trace {
            Ok(trace) => {
                trace.xentrace.set_parked(capped.collect());
                trace.add_waits(&structure, &mut vcpus)
            }
            Err(_) => vec![],
        };
        self.samples += 1;
        let idle_ns = idle_ns[..pcpus].to_vec();
        let lost = self.trace.as_ref().map_or(0, |trace| trace.xentrace.lost());
        let (others, threads) = (vec![], ThreadEvents::default());
        Ok(Snapshot { structure, time_ns, idle_ns, vcpus, segments, others, threads, lost })
    }

    /// Brings what is known of these domains, which are all, up to date: whether any came, went or
    /// changed.
    fn update(&mut self, infos: &[DomainInfo]) -> bool {
        let mut before = std::mem::take(&mut self.domains);
        let mut changed = false;
        for &info in infos {
            let last = before.remove(&info.id);
            let (last_info, last_vcpus, last_domain) = match last {
                Some(last) => (Some(last.info), last.vcpus, Some(last.domain)),
                None => (None, vec![], None),
            };
            // Blocked then and now, and nobody ran in between: each vCPU is as it was.
            let vcpus = match last_info == Some(info) && info.blocked {
                true => last_vcpus,
                false => {
                    let ask = |vcpu| self.control.vcpu(info.id, vcpu);
                    (0..info.vcpus).map(ask).collect::<Option<_>>().unwrap_or_default()
                }
            };
            // It is being built, or has ended since the list was made.
            if vcpus.is_empty() {
                changed |= last_domain.is_some();
                continue;
            }
            // Who builds it unpauses it when its name and weight are set.
            let due = (self.samples + u64::from(info.id)).is_multiple_of(LOOK_EVERY)
                || last_info.is_none_or(|last| last.paused != info.paused);
            let domain = match last_domain {
                Some(last_domain) if !due => last_domain,
                last_domain => {
                    let domain = self.look(info, last_domain.as_ref());
                    changed |= last_domain.as_ref() != Some(&domain);
                    domain
                }
            };
            self.domains.insert(info.id, Known { domain, info, vcpus });
        }
        changed || !before.is_empty()
    }

    /// A domain that is being destroyed has no name any more: it keeps what it had.
    fn look(&self, info: DomainInfo, last: Option<&Domain>) -> Domain {
        let id = info.id;
        let name = self.store.as_ref().and_then(|it| it.read(&format!("/local/domain/{id}/name")));
        let name = name.or_else(|| Some(last?.name.clone()));
        let weight_and_cap = self.control.weight_and_cap(id);
        let vcpu = |vcpu: u32| Vcpu { id: vcpu.into(), name: format!("vCPU {vcpu}") };
        Domain {
            id: id.into(),
            name: name.unwrap_or_else(|| format!("domain {id}")),
            weight: weight_and_cap.map_or(USUAL_WEIGHT, |told| told.weight.into()),
            ungrouped: false,
            groups_around: None,
            cap_percent: weight_and_cap.map_or(0, |told| told.cap.into()),
            vcpus: (0..info.vcpus).map(vcpu).collect(),
        }
    }

    fn describe(&self, pcpus: u32) -> Structure {
        let mut unseen = vec![];
        match (&self.trace, &self.steelyard) {
            (Ok(trace), _) if trace.lost => {
                unseen.push("Some waits: Xen had no room for records of them.".to_owned());
            }
            (Ok(_), _) => {}
            (Err(reason), Some(_)) => {
                unseen.push(format!("Single waits, preemptions: {reason}."));
            }
            (Err(reason), None) => {
                let what = "Waits, blocked time, switches, migrations, preemptions";
                unseen.push(format!("{what}: {reason}."));
            }
        }
        let known = |id: &u32| self.control.weight_and_cap(*id).is_some();
        if !self.domains.keys().all(known) {
            unseen.push("Weights and caps: this scheduler has others, or none.".to_owned());
        }
        let scheduler = self.steelyard.as_ref().map(|(_, policy)| format!(", {policy}"));
        Structure {
            host: Host {
                name: self.name.clone(),
                source: format!("Xen {}{}", self.version, scheduler.unwrap_or_default()),
                pcpus,
                began_unix_ns: Some(self.began_unix_ns),
                unseen,
            },
            domains: self.domains.values().map(|known| known.domain.clone()).collect(),
        }
    }

    /// What Steelyard's scheduler says.
    fn add_policy(&self, vcpus: &mut [Figures]) {
        let Some((hypfs, _)) = &self.steelyard else { return };
        let text = hypfs.read("/steelyard/vcpus").unwrap_or_default();
        let told = read_statistics(&text);
        let ids = self.domains.values().flat_map(|known| {
            (0..known.info.vcpus).map(move |vcpu| (known.domain.id, u64::from(vcpu)))
        });
        for (figures, id) in vcpus.iter_mut().zip(ids) {
            let Some(told) = told.get(&id) else { continue };
            figures.waited_ns = Some(told.waited_ns);
            figures.switches = Some(told.switches);
            figures.migrations = Some(told.migrations);
            figures.policy = Some(told.policy.clone());
        }
    }
}

fn figures(told: VcpuInfo, paused: bool) -> Figures {
    let state = match told {
        VcpuInfo { running: 1.., .. } => State::Running,
        VcpuInfo { online: 1.., blocked: 0, .. } if !paused => State::Waiting,
        _ => State::Blocked,
    };
    Figures {
        state: Some(state),
        pcpu: Some(told.cpu),
        gotten_ns: told.cpu_time,
        ..Figures::default()
    }
}

/// A line of `/steelyard/vcpus`.
#[derive(Debug, PartialEq)]
struct Statistics {
    waited_ns: u64,
    switches: u64,
    migrations: u64,
    policy: PolicyState,
}

/// By domain and vCPU. The first line names the columns, of which there may be more than are known.
fn read_statistics(text: &str) -> HashMap<(u64, u64), Statistics> {
    const NAMES: [&str; 10] = [
        "domain",
        "vcpu",
        "waited_ns",
        "switches",
        "migrations",
        "weight_now",
        "slice_now_ns",
        "credit",
        "class",
        "boosted",
    ];
    let mut lines = text.lines();
    let head = lines.next().unwrap_or_default();
    let columns = NAMES.map(|name| head.split(' ').position(|column| column == name));
    let line = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let words = columns.map(|column| words.get(column?).copied());
        let [
            domain,
            vcpu,
            waited_ns,
            switches,
            migrations,
            weight,
            slice_ns,
            credit,
            class,
            boosted,
        ] = words;
        let number = |word: Option<&str>| word?.parse::<u64>().ok();
        let policy = PolicyState {
            weight: number(weight)?,
            slice_ns: number(slice_ns).filter(|&slice_ns| slice_ns > 0),
            credit: credit?.parse().ok()?,
            class: class.filter(|&class| class != "-").map(str::to_owned),
            boosted: boosted == Some("1"),
        };
        let statistics = Statistics {
            waited_ns: number(waited_ns)?,
            switches: number(switches)?,
            migrations: number(migrations)?,
            policy,
        };
        Some(((number(domain)?, number(vcpu)?), statistics))
    };
    lines.filter_map(line).collect()
}

/// Runs and waits as `xentrace` tells them.
struct Trace {
    tracer: Tracer,
    xentrace: Xentrace,
    tally: Tally,
    /// Xen's time when the source began.
    first_ns: Option<u64>,
    /// Xen had no room for some.
    lost: bool,
    /// Whether single runs and waits are kept, and those since the last snapshot, in Xen's numbers.
    keeps: bool,
    kept: Vec<Segment>,
}

impl Trace {
    fn start(proc: &Path, machine: &Machine) -> Result<Trace, String> {
        let tsc_hz = NonZeroU64::new(machine.tsc_hz).ok_or("Xen does not tell its frequency")?;
        Ok(Trace {
            tracer: Tracer::start(proc)?,
            xentrace: Xentrace::new(tsc_hz),
            tally: Tally::default(),
            first_ns: None,
            lost: false,
            keeps: true,
            kept: vec![],
        })
    }

    /// Reads what has come; otherwise says why no more will.
    fn fetch(&mut self, began: Instant) -> Result<(), String> {
        let (chunks, alive) = self.tracer.chunks();
        let (mut first_ns, mut last) = (None, None);
        for (at, bytes) in chunks {
            self.xentrace.push(&bytes).map_err(|error| error.to_string())?;
            let after_ns = at.saturating_duration_since(began).as_nanos() as u64;
            // What comes without delay tells best what its time is here.
            first_ns = first_ns.max(Some(self.xentrace.latest_ns().saturating_sub(after_ns)));
            last = Some(at);
        }
        if last.is_some_and(|last| last.elapsed() >= QUIET) {
            self.xentrace.settle();
        }
        // A clock that is set anew tears runs and waits apart: not for less than the delay.
        self.first_ns = match (self.first_ns, first_ns) {
            (Some(known), Some(now)) if now < known + SOONEST_NS && known < now + LATEST_NS => {
                Some(known)
            }
            (known, now) => now.or(known),
        };
        if alive { Ok(()) } else { Err(self.tracer.complaint()) }
    }

    fn begins_to_lose(&mut self) -> bool {
        let before = std::mem::replace(&mut self.lost, self.xentrace.lost() > 0);
        self.lost && !before
    }

    /// Adds up the runs and waits that ended.
    fn tally_up(&mut self, structure: &Arc<Structure>) {
        self.tally.set_structure(structure);
        let first_ns = self.first_ns.unwrap_or(0);
        let ended = self.xentrace.ended(u64::MAX);
        for segment in ended.iter().filter_map(|&segment| placed(structure, segment, first_ns)) {
            self.tally.add(&segment);
        }
        if self.keeps {
            self.kept.extend(ended);
        }
    }

    /// The runs and waits that ended, and what they add up to, up to where the trace is complete. The
    /// hypervisor's own count of the time that each vCPU got stays: it misses nothing.
    fn add_waits(&mut self, structure: &Arc<Structure>, vcpus: &mut [Figures]) -> Vec<Segment> {
        self.tally_up(structure);
        let first_ns = self.first_ns.unwrap_or(0);
        let kept = self.kept.drain(..);
        let segments = kept.filter_map(|segment| placed(structure, segment, first_ns)).collect();
        let lasting = self.xentrace.lasting(self.xentrace.now_ns());
        let lasting: Vec<Segment> =
            lasting.filter_map(|segment| placed(structure, segment, first_ns)).collect();
        for (figures, tallied) in vcpus.iter_mut().zip(self.tally.figures(&lasting)) {
            figures.waited_ns = tallied.waited_ns;
            figures.switches = tallied.switches;
            figures.migrations = tallied.migrations;
            figures.preemptions = tallied.preemptions;
            figures.waits = tallied.waits;
        }
        segments
    }
}

/// Why this host cannot be watched.
#[derive(Debug)]
pub enum XenError {
    /// The hypervisor cannot be reached.
    NoAccess(io::Error),
    /// The library for this hypervisor.
    NoLibrary {
        /// Of Xen.
        release: String,
        /// The loader's words.
        error: String,
    },
    /// It refuses.
    NoAnswer,
}

impl fmt::Display for XenError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            XenError::NoAccess(error) => {
                write!(formatter, "/dev/xen/privcmd: {error}; Xen's domains are shown to root only")
            }
            XenError::NoLibrary { release, error } => write!(
                formatter,
                "{error}; install the tools of Xen {release} (in Debian xen-utils-{release})"
            ),
            XenError::NoAnswer => formatter.write_str("the hypervisor does not answer this domain"),
        }
    }
}

impl error::Error for XenError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_read_by_the_names_of_their_columns() {
        let text = "domain vcpu pcpu weight weight_now slice_now_ns cap_percent gotten_ns waited_ns \
                    worst_wait_ns switches migrations resets credit class boosted\n\
                    0 0 1 256 256 0 0 900 100 50 7 2 0 -4000 - 0\n\
                    3 1 0 256 512 3000000 40 800 200 60 8 3 1 9 BOOST 1\n\
                    4 0 0 256\n";
        let told = read_statistics(text);
        assert_eq!(told.len(), 2);
        let first = &told[&(0, 0)];
        assert_eq!((first.waited_ns, first.switches, first.migrations), (100, 7, 2));
        assert_eq!((first.policy.credit, first.policy.slice_ns), (-4000, None));
        assert_eq!((first.policy.class.as_deref(), first.policy.boosted), (None, false));
        let second = &told[&(3, 1)];
        assert_eq!((second.policy.weight, second.policy.slice_ns), (512, Some(3_000_000)));
        assert_eq!((second.policy.class.as_deref(), second.policy.boosted), (Some("BOOST"), true));
        assert!(read_statistics("").is_empty());
    }

    #[test]
    fn states_are_told_apart() {
        let state = |online, blocked, running, paused| {
            figures(VcpuInfo { online, blocked, running, ..VcpuInfo::default() }, paused).state
        };
        assert_eq!(state(1, 0, 1, false), Some(State::Running));
        assert_eq!(state(1, 0, 0, false), Some(State::Waiting));
        for blocked in [state(1, 1, 0, false), state(0, 0, 0, false), state(1, 0, 0, true)] {
            assert_eq!(blocked, Some(State::Blocked));
        }
    }
}
