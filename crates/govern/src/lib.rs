// SPDX-License-Identifier: GPL-2.0-only
//! The slow governors of the policy core, load-weight and app-slice, steering from user space a host that its own
//! scheduler schedules: a look at every interval, which they judge, and what they want is set as `steelyard apply`
//! sets it, within limits, with a journal, and taken back at the end.

mod governed;
mod limits;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{error, fmt, thread};

use steelyard_apply::{
    ApplyError, Change, FailedChange, Host, Knob, Ledger, Others, Plan, StateError, Step, Undone,
    steps, usual_slice_ns,
};
use steelyard_boundary::text::told;
use steelyard_monitor::{LinuxError, LinuxSource, XenError, XenSource};
use steelyard_policy::{Policy, Sample};
use steelyard_recording::{Domain, Packets, Snapshot};
use steelyard_scenario::{Diagnostic, Source};
use toml_edit::Value;

pub use governed::{Governed, Measured, Wanted};
pub use limits::{Limits, Pace};

/// The discipline that stands for the host's own, by its system.
const OF_LINUX: &str = "fair@eevdf";
const OF_XEN: &str = "credit2";
/// Xen's domain that works for all others, and why it is let alone.
const DOM0: u64 = 0;
const OF_DOM0: &str =
    "it does the input and output of all others, and the more they ask for the less it would get";
/// The usual weight.
const USUAL: u64 = 256;
/// Whether somebody wants to stop is asked so often.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// Which governor, within what, for how long.
#[derive(Clone, Debug)]
pub struct Order {
    /// `load-weight` or `app-slice`.
    pub governor: String,
    /// Changes to its parameters, each NAME=VALUE.
    pub set: Vec<(String, String)>,
    /// What is allowed.
    pub limits: Limits,
    /// Whether it only says what it would do.
    pub dry_run: bool,
    /// How long; none: until somebody wants to stop.
    pub length: Option<Duration>,
}

/// What happened.
#[derive(Debug)]
pub enum Event {
    /// A knob was turned; of a dry run, would be.
    Turned(Step),
    /// One could not be, and its domain is left alone from now on.
    Left(Change, FailedChange),
    /// A domain is not governed.
    NotGoverned(String, String),
    /// There are changes for which the minute has no room: this many domains wait.
    Paced(usize),
    /// Taken back at the end.
    Undone(Undone),
}

/// Why a host is not governed.
#[derive(Debug)]
pub enum GovernError {
    /// What was asked for cannot be had here.
    Refused(Box<Diagnostic>),
    /// Linux cannot be looked at.
    Linux(LinuxError),
    /// Nor can Xen.
    Xen(XenError),
    /// Nothing can be changed here.
    Apply(ApplyError),
}

impl fmt::Display for GovernError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GovernError::Refused(diagnostic) => diagnostic.fmt(formatter),
            GovernError::Linux(error) => error.fmt(formatter),
            GovernError::Xen(error) => error.fmt(formatter),
            GovernError::Apply(error) => error.fmt(formatter),
        }
    }
}

impl error::Error for GovernError {}

impl From<LinuxError> for GovernError {
    fn from(error: LinuxError) -> Self {
        GovernError::Linux(error)
    }
}

impl From<XenError> for GovernError {
    fn from(error: XenError) -> Self {
        GovernError::Xen(error)
    }
}

impl From<ApplyError> for GovernError {
    fn from(error: ApplyError) -> Self {
        GovernError::Apply(error)
    }
}

impl From<StateError> for GovernError {
    fn from(error: StateError) -> Self {
        GovernError::Apply(error.into())
    }
}

impl From<Diagnostic> for GovernError {
    fn from(error: Diagnostic) -> Self {
        GovernError::Refused(Box::new(error))
    }
}

/// The host that is looked at.
enum Looked {
    Linux(Box<LinuxSource>),
    Xen(Box<XenSource>),
}

impl Looked {
    fn sample(&mut self) -> Result<Snapshot, GovernError> {
        Ok(match self {
            Looked::Linux(source) => source.sample()?,
            Looked::Xen(source) => source.sample()?,
        })
    }
}

/// Governs until somebody wants to stop, or the time is over, and takes all back.
///
/// # Errors
/// [`GovernError`]. What was turned by then is taken back first.
pub fn govern(
    order: &Order,
    host: &Host,
    asked: &AtomicBool,
    tell: &mut dyn FnMut(Event),
) -> Result<(), GovernError> {
    let is_xen = XenSource::is_here(&host.proc);
    let policy = policy(order, is_xen)?;
    let mut looked = match is_xen {
        true => Looked::Xen(Box::new(XenSource::new(&host.proc)?)),
        false => {
            let mut source = LinuxSource::new(&host.proc, &host.groups)?;
            source.set_states(false);
            Looked::Linux(Box::new(source))
        }
    };
    let first = looked.sample()?;
    let pcpus = first.structure.host.pcpus.into();
    let ledger = if order.dry_run { None } else { Some(Ledger::open(host)?) };
    let mut steering = Steering {
        order,
        host,
        is_xen,
        governed: Governed::new(policy, pcpus),
        ledger,
        packets: Packets::default(),
        domains: BTreeMap::new(),
        pace: Pace::default(),
        began: Instant::now(),
        looked_ns: 0,
    };
    let result = steering.run(&mut looked, asked, tell);
    if let Some(ledger) = steering.ledger {
        // What somebody else has changed since is theirs.
        for undone in ledger.end(Others::Forget)? {
            tell(Event::Undone(undone));
        }
    }
    result
}

/// The governor with its parameters, on the discipline that is nearest to the host's own.
fn policy(order: &Order, is_xen: bool) -> Result<Policy, GovernError> {
    let refused = |message: String, help: &str| {
        Err(Diagnostic::of_file("govern", message).with_help(help).into())
    };
    let governor = order.governor.as_str();
    let slices = governor == "app-slice";
    if slices && is_xen {
        return refused(
            "Xen's schedulers have no slice of a domain".to_owned(),
            "build Xen with this project's scheduler (docs/xen.md), or govern by load-weight",
        );
    }
    let discipline = if is_xen { OF_XEN } else { OF_LINUX };
    let wrong =
        |error: steelyard_policy::PolicyError| Diagnostic::of_file("--set", error.to_string());
    let mut policy = Policy::named(&format!("{discipline}+{governor}")).map_err(wrong)?;
    if slices {
        let Some(usual_ns) = usual_slice_ns() else {
            return refused(
                "this kernel knows no slices of threads".to_owned(),
                "take Linux 6.12 or newer, or govern by load-weight",
            );
        };
        // The core scales it by the number of pCPUs, as Linux does its own.
        policy.set("base_slice_ns", &usual_ns.to_string()).map_err(wrong)?;
        policy.set("scaling", "none").map_err(wrong)?;
    }
    for (name, value) in &order.set {
        policy.set(&format!("{governor}.{name}"), value).map_err(wrong)?;
    }
    if policy.value("app-slice.slice") == Some(1) {
        return refused(
            "slices are found by single waits, which are not seen here".to_owned(),
            "leave `--set slice=found` out, or run the policy itself: steelyard kvm run",
        );
    }
    Ok(policy)
}

/// A domain that is there.
struct Known {
    name: String,
    is_new: bool,
    gotten_ns: u64,
    waited_ns: u64,
    packets: u64,
    /// As its administrator asked; none: it is not governed.
    asked: Option<u64>,
    now: Wanted,
}

struct Steering<'a> {
    order: &'a Order,
    host: &'a Host,
    is_xen: bool,
    governed: Governed,
    ledger: Option<Ledger>,
    packets: Packets,
    domains: BTreeMap<u64, Known>,
    pace: Pace,
    began: Instant,
    looked_ns: u64,
}

impl Steering<'_> {
    fn now_ns(&self) -> u64 {
        // 0 would be no look.
        self.began.elapsed().as_nanos() as u64 + 1
    }

    fn run(
        &mut self,
        looked: &mut Looked,
        asked: &AtomicBool,
        tell: &mut dyn FnMut(Event),
    ) -> Result<(), GovernError> {
        let interval = Duration::from_nanos(self.governed.interval_ns());
        let mut next = self.began;
        loop {
            while Instant::now() < next {
                let over = self.order.length.is_some_and(|length| self.began.elapsed() >= length);
                if asked.load(Ordering::Relaxed) || over {
                    return Ok(());
                }
                thread::sleep(ASK_EVERY.min(next.saturating_duration_since(Instant::now())));
            }
            let snapshot = looked.sample()?;
            self.look(&snapshot, tell)?;
            // Who is late goes on from now.
            next = (next + interval).max(Instant::now());
        }
    }

    /// Looks at everybody, and turns what the governors want.
    fn look(
        &mut self,
        snapshot: &Snapshot,
        tell: &mut dyn FnMut(Event),
    ) -> Result<(), GovernError> {
        let now_ns = self.now_ns();
        let interval_ns = now_ns - self.looked_ns;
        self.looked_ns = now_ns;
        self.packets.begin();
        let mut figures = snapshot.vcpus.iter();
        let mut measured = BTreeMap::new();
        let mut there = BTreeMap::new();
        for domain in &snapshot.structure.domains {
            let (mut gotten_ns, mut waited_ns) = (0_u64, Some(0_u64));
            for figures in figures.by_ref().take(domain.vcpus.len()) {
                gotten_ns = gotten_ns.saturating_add(figures.gotten_ns);
                waited_ns = waited_ns.zip(figures.waited_ns).map(|(a, b)| a.saturating_add(b));
            }
            self.must_know_waits(waited_ns)?;
            let waited_ns = waited_ns.unwrap_or(0);
            let packets = self.packets.received(domain.id as i32);
            let mut known = match self.domains.remove(&domain.id) {
                Some(known) => known,
                None => self.meet(domain, tell),
            };
            // What somebody did before the first look was in no interval.
            if let (Some(weight), false) = (known.asked, known.is_new) {
                let sample = Sample {
                    interval_ns,
                    gotten_ns: gotten_ns.saturating_sub(known.gotten_ns),
                    waited_ns: waited_ns.saturating_sub(known.waited_ns),
                    packets: packets.saturating_sub(known.packets),
                    ..Sample::default()
                };
                let (cap_percent, vcpus) = (domain.cap_percent.into(), domain.vcpus.len() as u64);
                measured.insert(domain.id, Measured { sample, weight, cap_percent, vcpus });
            }
            known.is_new = false;
            (known.gotten_ns, known.waited_ns, known.packets) = (gotten_ns, waited_ns, packets);
            there.insert(domain.id, known);
        }
        self.domains = there;
        let wanted = self.governed.look(now_ns, &measured);
        self.turn(now_ns, &wanted, tell)
    }

    fn must_know_waits(&self, waited_ns: Option<u64>) -> Result<(), GovernError> {
        let wants =
            self.order.set.iter().any(|(name, value)| name == "workload" && value == "demand");
        match (wants, waited_ns) {
            (true, None) => {
                Err(Diagnostic::of_file("--set", "this host does not tell how long vCPUs wait")
                    .with_help("leave `workload=demand` out")
                    .into())
            }
            _ => Ok(()),
        }
    }

    /// A domain is seen for the first time: its weight as it is now is the one asked for.
    fn meet(&self, domain: &Domain, tell: &mut dyn FnMut(Event)) -> Known {
        let mut known = Known {
            name: domain.name.clone(),
            is_new: true,
            gotten_ns: 0,
            waited_ns: 0,
            packets: 0,
            asked: Some(u64::from(domain.weight).max(1)),
            now: Wanted { weight: domain.weight.into(), slice_ns: 0 },
        };
        if self.is_xen && domain.id == DOM0 {
            known.asked = None;
            tell(Event::NotGoverned(known.name.clone(), OF_DOM0.to_owned()));
            return known;
        }
        let probe = match self.order.governor.as_str() {
            "app-slice" => {
                format!("slice = \"{} us\"", self.order.limits.least_slice_ns.div_ceil(1000))
            }
            _ => format!("weight = {USUAL}"),
        };
        match self.steps(&[(&known.name, probe)]) {
            Ok(steps) if self.order.governor != "app-slice" => {
                // What stands for the usual weight there tells the scale.
                let number = |text: &str| text.parse::<u64>().ok();
                let scale = steps.first().and_then(|Step { change, .. }| {
                    Some((number(&change.old)?, number(&change.new)?))
                });
                known.asked = scale.map(|(old, usual)| (old * USUAL / usual.max(1)).max(1));
                known.now.weight = known.asked.unwrap_or(USUAL);
            }
            Ok(_) => {}
            Err(error) => {
                known.asked = None;
                tell(Event::NotGoverned(known.name.clone(), error.to_string()));
            }
        }
        known
    }

    /// What `steelyard apply` would do of a plan, now: a domain's next start is none of a governor's business.
    fn steps(&self, domains: &[(&str, String)]) -> Result<Vec<Step>, ApplyError> {
        let table = |(name, what): &(&str, String)| {
            format!("[[domain]]\nname = {}\n{what}\n", Value::from(*name))
        };
        let text: String = domains.iter().map(table).collect();
        let mut steps = steps(&Plan::parse(Source::new("govern", text))?, self.host)?;
        steps.retain(|Step { change, .. }| !matches!(&change.knob, Knob::Libvirt(it) if it.config));
        Ok(steps)
    }

    fn turn(
        &mut self,
        now_ns: u64,
        wanted: &BTreeMap<u64, Wanted>,
        tell: &mut dyn FnMut(Event),
    ) -> Result<(), GovernError> {
        let allowed = wanted.iter().map(|(id, wanted)| (*id, self.order.limits.allowed(*wanted)));
        let mut due: Vec<(u64, Wanted)> =
            allowed.filter(|(id, wanted)| self.domains[id].now != *wanted).collect();
        // Whoever is farthest from what it should have comes first.
        let distance = |(id, wanted): &(u64, Wanted)| {
            let now = self.domains[id].now;
            let ratio = |a: u64, b: u64| 1000 * a.max(b) / a.min(b).max(1);
            std::cmp::Reverse(
                ratio(wanted.weight, now.weight) + ratio(wanted.slice_ns, now.slice_ns),
            )
        };
        due.sort_by_cached_key(distance);
        let room = self.pace.room(&self.order.limits, now_ns);
        if due.len() > room {
            tell(Event::Paced(due.len() - room));
        }
        for (id, wanted) in due.into_iter().take(room) {
            let steps = match self.steps_to(id, wanted) {
                Ok(steps) => steps,
                Err(error) => {
                    self.leave(id, error.to_string(), tell);
                    continue;
                }
            };
            if !steps.is_empty() {
                self.pace.add(now_ns);
            }
            if let Some(known) = self.domains.get_mut(&id) {
                known.now = wanted;
            }
            let Some(ledger) = &mut self.ledger else {
                steps.into_iter().for_each(|step| tell(Event::Turned(step)));
                continue;
            };
            let outcomes = ledger.turn(steps.iter().map(|step| step.change.clone()).collect())?;
            for (step, failed) in steps.into_iter().zip(outcomes) {
                let Some(error) = failed else {
                    tell(Event::Turned(step));
                    continue;
                };
                if let Some(known) = self.domains.get_mut(&id) {
                    known.asked = None;
                }
                tell(Event::Left(step.change, error));
            }
        }
        Ok(())
    }

    fn leave(&mut self, id: u64, why: String, tell: &mut dyn FnMut(Event)) {
        if let Some(known) = self.domains.get_mut(&id) {
            known.asked = None;
            tell(Event::NotGoverned(known.name.clone(), why));
        }
    }

    /// What makes a domain what is wanted of it, without what is so already.
    fn steps_to(&self, id: u64, wanted: Wanted) -> Result<Vec<Step>, ApplyError> {
        let name = self.domains[&id].name.as_str();
        let what = match (self.order.governor.as_str(), wanted.slice_ns) {
            ("app-slice", 0) => return Ok(self.first_slices(name)),
            ("app-slice", ns) => format!("slice = \"{} us\"", ns / 1000),
            _ => format!("weight = {}", wanted.weight),
        };
        let mut steps = self.steps(&[(name, what)])?;
        steps.retain(|step| step.change.old != step.change.new);
        Ok(steps)
    }

    /// Back to the slices that a domain's threads had at first.
    fn first_slices(&self, name: &str) -> Vec<Step> {
        let made = self.ledger.iter().flat_map(Ledger::made);
        let slices = made.filter(|made| made.domain == name && matches!(made.knob, Knob::Slice(_)));
        let back = |made: &Change| Step {
            about: format!("{}: the slice that it had", told(name)),
            change: Change { old: made.new.clone(), new: made.old.clone(), ..made.clone() },
        };
        slices.map(back).collect()
    }
}
