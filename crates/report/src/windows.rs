// SPDX-License-Identifier: GPL-2.0-only
//! A recording cut into windows of equal length: what each domain got and waited for in each of them. They
//! are what a bootstrap draws from.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use steelyard_recording::{Group, Open, Owners, Snapshot, Structure, Wake, Who, qemu};
use steelyard_simulator::measure::Segment;
use steelyard_simulator::wait_bucket_ns;

use crate::results::REST;

/// There are at most so many windows: then each two become one.
const MOST_WINDOWS: usize = 64;
/// And at least so many: of fewer nobody can tell how much they differ by chance.
const LEAST_WINDOWS: usize = 16;
const FIRST_WINDOW_NS: u64 = 50_000_000;
/// Domains that are told apart.
const MOST_DOMAINS: usize = 4096;
/// What ran beside virtual machines is one domain.
const REST_NAME: &str = "rest of the host";

/// A recording, as it is read.
#[derive(Default)]
pub struct Windows {
    began_ns: Option<u64>,
    end_ns: u64,
    window_ns: u64,
    structure: Option<Arc<Structure>>,
    /// Of each domain of the structure, its place in `domains`.
    places: Vec<usize>,
    /// By number of the domain and of its vCPU: when its last wait ended.
    waited_until_ns: HashMap<(u64, u32), u64>,
    /// Threads that are no vCPUs and of which it is told how they are held, by number.
    others: HashMap<u32, OtherThread>,
    owners: Owners,
    names: HashMap<String, usize>,
    pub(crate) domains: Vec<DomainWindows>,
    open: Open,
    pcpus: u32,
    /// Whether it tells of single runs and waits.
    single: bool,
}

/// A thread that is no vCPU.
#[derive(Default)]
struct OtherThread {
    groups: Vec<Group>,
    /// When its last run ended, and when it was last woken.
    ran_until_ns: Option<u64>,
    woken_ns: Option<u64>,
}

/// One domain.
pub(crate) struct DomainWindows {
    pub name: String,
    /// It is what ran beside virtual machines: of its waits not all are known.
    pub rest_of_host: bool,
    pub windows: Vec<Window>,
}

/// What a domain got in a window.
#[derive(Clone, Default)]
pub(crate) struct Window {
    pub gotten_ns: u64,
    pub waited_ns: u64,
    /// Upper bound of a bucket and how many of the waits that ended fell into it.
    pub waits: BTreeMap<u64, u64>,
    pub worst_ns: u64,
}

impl Window {
    fn add(&mut self, other: &Window) {
        self.gotten_ns = self.gotten_ns.saturating_add(other.gotten_ns);
        self.waited_ns = self.waited_ns.saturating_add(other.waited_ns);
        self.worst_ns = self.worst_ns.max(other.worst_ns);
        for (&bound_ns, count) in &other.waits {
            *self.waits.entry(bound_ns).or_default() += count;
        }
    }
}

impl Windows {
    /// The recording goes on by this.
    ///
    /// # Errors
    /// There are too many domains.
    pub fn add(&mut self, snapshot: &Snapshot) -> Result<(), WindowsError> {
        if self.window_ns == 0 {
            self.window_ns = FIRST_WINDOW_NS;
        }
        self.began_ns.get_or_insert(snapshot.time_ns);
        self.end_ns = self.end_ns.max(snapshot.time_ns);
        self.set_structure(&snapshot.structure)?;
        self.set_placements(snapshot);
        for segment in &snapshot.segments {
            self.place(segment, true);
        }
        self.add_others(snapshot)?;
        self.open.add(snapshot);
        Ok(())
    }

    /// The recording is over: what lasts ends.
    ///
    /// # Errors
    /// It does not tell of single waits, or is too short.
    pub fn finish(mut self) -> Result<Windows, WindowsError> {
        for segment in self.open.segments() {
            self.place(&segment, false);
        }
        if !self.single {
            return Err(WindowsError::NoWaits);
        }
        self.reach(self.length_ns().saturating_sub(1));
        // The last one is not full.
        let full = self.count();
        if full < LEAST_WINDOWS {
            return Err(WindowsError::TooShort);
        }
        for domain in &mut self.domains {
            domain.windows.resize(full, Window::default());
        }
        Ok(self)
    }

    pub(crate) fn length_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.began_ns.unwrap_or(self.end_ns))
    }

    pub(crate) fn window_ns(&self) -> u64 {
        self.window_ns
    }

    pub(crate) fn pcpus(&self) -> u32 {
        self.pcpus
    }

    /// Once it is over.
    pub(crate) fn count(&self) -> usize {
        (self.length_ns() / self.window_ns.max(1)) as usize
    }

    fn set_structure(&mut self, structure: &Arc<Structure>) -> Result<(), WindowsError> {
        if self.structure.as_ref().is_some_and(|known| Arc::ptr_eq(known, structure)) {
            return Ok(());
        }
        self.pcpus = structure.host.pcpus;
        // Where threads are told by name, who has a vCPU is a virtual machine; elsewhere all domains are.
        let has_vcpu = |domain: &steelyard_recording::Domain| {
            domain.vcpus.iter().any(|vcpu| qemu::vcpu_number(&vcpu.name).is_some())
        };
        let named = structure.domains.iter().any(has_vcpu);
        self.places.clear();
        for domain in &structure.domains {
            let rest = domain.id >= REST.into() || (named && !has_vcpu(domain));
            let name = if rest { REST_NAME } else { &domain.name };
            let place = self.domain(name, rest)?;
            self.places.push(place);
        }
        self.structure = Some(structure.clone());
        Ok(())
    }

    /// Threads are held so from now on.
    fn set_placements(&mut self, snapshot: &Snapshot) {
        for placement in &snapshot.threads.placements {
            match placement.who {
                Who::Vcpu(domain, _) => {
                    let index = domain as usize;
                    let Some(&place) = self.places.get(index) else { continue };
                    if !self.domains[place].rest_of_host {
                        let domain = &snapshot.structure.domains[index];
                        self.owners.add(place, domain, &placement.groups);
                    }
                }
                // Who ends is moved to the root.
                Who::Other(_) if placement.groups.is_empty() => {}
                Who::Other(number) => {
                    self.others.entry(number).or_default().groups.clone_from(&placement.groups);
                }
            }
        }
    }

    /// Others ran: those of virtual machines are theirs, the others the rest of the host.
    fn add_others(&mut self, snapshot: &Snapshot) -> Result<(), WindowsError> {
        let mut wakes = snapshot.threads.wakes.iter().peekable();
        for run in &snapshot.others {
            while let Some(wake) = wakes.next_if(|wake| wake.time_ns <= run.start_ns) {
                self.wake(wake);
            }
            let (start_ns, end_ns) = (run.start_ns, run.end_ns);
            let other = self.others.get_mut(&run.thread);
            let owned = other.and_then(|it| Some((self.owners.of(run.priority, &it.groups)?, it)));
            let Some((place, other)) = owned else {
                let rest = self.domain(REST_NAME, true)?;
                self.spread(rest, (start_ns, end_ns), |it| &mut it.gotten_ns);
                continue;
            };
            // Since it was thrown out, or woken.
            let since_ns = match run.waited {
                true => other.ran_until_ns,
                false => other.woken_ns.filter(|&woken_ns| Some(woken_ns) >= other.ran_until_ns),
            };
            (other.ran_until_ns, other.woken_ns) = (Some(end_ns), None);
            if let Some(since_ns) = since_ns.filter(|&since_ns| since_ns <= start_ns) {
                self.waited(place, (since_ns, start_ns), true);
            }
            self.spread(place, (start_ns, end_ns), |it| &mut it.gotten_ns);
        }
        wakes.for_each(|wake| self.wake(wake));
        Ok(())
    }

    fn wake(&mut self, wake: &Wake) {
        if let Who::Other(number) = wake.woken
            && let Some(other) = self.others.get_mut(&number)
        {
            other.woken_ns = Some(wake.time_ns);
        }
    }

    fn domain(&mut self, name: &str, rest_of_host: bool) -> Result<usize, WindowsError> {
        if let Some(&place) = self.names.get(name) {
            return Ok(place);
        }
        let place = self.domains.len();
        if place == MOST_DOMAINS {
            return Err(WindowsError::TooMany);
        }
        self.names.insert(name.to_owned(), place);
        self.domains.push(DomainWindows { name: name.to_owned(), rest_of_host, windows: vec![] });
        Ok(place)
    }

    /// Adds a run of a vCPU, or a wait, which `ended` or lasts.
    fn place(&mut self, segment: &Segment, ended: bool) {
        let Some(&place) = self.places.get(segment.domain as usize) else { return };
        let began_ns = self.began_ns.unwrap_or(0);
        let Segment { vcpu, pcpu, start_ns, end_ns, .. } = *segment;
        if end_ns <= began_ns {
            return;
        }
        self.single = true;
        let id = self.structure.as_ref().map_or(0, |it| it.domains[segment.domain as usize].id);
        if pcpu.is_none() {
            self.waited(place, (start_ns, end_ns), ended);
            if ended {
                self.waited_until_ns.insert((id, vcpu), end_ns);
            }
            return;
        }
        // What began without a wait had one of no length.
        if self.waited_until_ns.remove(&(id, vcpu)) != Some(start_ns) && start_ns >= began_ns {
            self.count_wait(place, start_ns - began_ns, 0);
        }
        self.spread(place, (start_ns, end_ns), |it| &mut it.gotten_ns);
    }

    /// Somebody waited, who has a pCPU now if that `ended`.
    fn waited(&mut self, place: usize, (start_ns, end_ns): (u64, u64), ended: bool) {
        let began_ns = self.began_ns.unwrap_or(0);
        let Some(at_ns) = end_ns.checked_sub(began_ns) else { return };
        self.spread(place, (start_ns, end_ns), |it| &mut it.waited_ns);
        let length_ns = end_ns.saturating_sub(start_ns.max(began_ns));
        let at_ns = at_ns.saturating_sub(u64::from(length_ns > 0));
        let window = self.window(place, at_ns);
        window.worst_ns = window.worst_ns.max(length_ns);
        if ended {
            self.count_wait(place, at_ns, length_ns);
        }
    }

    /// Counts a wait that ended at a time since the recording began.
    fn count_wait(&mut self, place: usize, at_ns: u64, length_ns: u64) {
        let waits = &mut self.window(place, at_ns).waits;
        *waits.entry(wait_bucket_ns(length_ns)).or_default() += 1;
    }

    /// Adds a length of time to all windows that have a part of it.
    fn spread(
        &mut self,
        place: usize,
        (start_ns, end_ns): (u64, u64),
        of: fn(&mut Window) -> &mut u64,
    ) {
        let began_ns = self.began_ns.unwrap_or(0);
        let (mut at_ns, end_ns) =
            (start_ns.saturating_sub(began_ns), end_ns.saturating_sub(began_ns));
        if at_ns >= end_ns {
            return;
        }
        // Makes the windows as long as they need be.
        self.window(place, end_ns - 1);
        while at_ns < end_ns {
            let next_ns = (at_ns / self.window_ns).saturating_add(1).saturating_mul(self.window_ns);
            let until_ns = end_ns.min(next_ns);
            let sum_ns = of(self.window(place, at_ns));
            *sum_ns = sum_ns.saturating_add(until_ns - at_ns);
            at_ns = until_ns;
        }
    }

    /// Makes windows longer until there are not too many up to this time.
    fn reach(&mut self, at_ns: u64) {
        while at_ns / self.window_ns >= MOST_WINDOWS as u64 {
            self.window_ns *= 2;
            for domain in &mut self.domains {
                let pairs = domain.windows.chunks(2).map(|pair| {
                    let mut both = pair[0].clone();
                    pair.iter().skip(1).for_each(|second| both.add(second));
                    both
                });
                domain.windows = pairs.collect();
            }
        }
    }

    /// The window of a domain at a time since the recording began.
    fn window(&mut self, place: usize, at_ns: u64) -> &mut Window {
        self.reach(at_ns);
        let index = (at_ns / self.window_ns) as usize;
        let windows = &mut self.domains[place].windows;
        if windows.len() <= index {
            windows.resize(index + 1, Window::default());
        }
        &mut windows[index]
    }
}

/// Why two recordings cannot be held against each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowsError {
    /// There are sums in it.
    NoWaits,
    /// There are too few windows in it.
    TooShort,
    /// Of domains.
    TooMany,
}

impl fmt::Display for WindowsError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WindowsError::NoWaits => formatter.write_str(
                "there are no single waits in this recording, which is what is held against another",
            ),
            WindowsError::TooShort => write!(
                formatter,
                "this recording is shorter than {:.1} s: what differs by chance cannot be told",
                (LEAST_WINDOWS as u64 * FIRST_WINDOW_NS) as f64 / 1e9
            ),
            WindowsError::TooMany => {
                write!(formatter, "more than {MOST_DOMAINS} domains are in this recording")
            }
        }
    }
}

impl std::error::Error for WindowsError {}
