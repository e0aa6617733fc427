// SPDX-License-Identifier: GPL-2.0-only
//! A recording cut into windows of equal length: what each domain got and waited for in each of them. They
//! are what a bootstrap draws from.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use steelyard_recording::{Open, Snapshot, Structure, qemu};
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
    names: HashMap<String, usize>,
    pub(crate) domains: Vec<DomainWindows>,
    open: Open,
    pcpus: u32,
    /// Whether it tells of single runs and waits.
    single: bool,
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
        for segment in &snapshot.segments {
            self.place(segment, true);
        }
        if !snapshot.others.is_empty() {
            let rest = self.domain(REST_NAME, true)?;
            for other in &snapshot.others {
                self.spread(rest, (other.start_ns, other.end_ns), |it| &mut it.gotten_ns);
            }
        }
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

    /// Adds a run, or a wait, which `ended` or lasts.
    fn place(&mut self, segment: &Segment, ended: bool) {
        let Some(&place) = self.places.get(segment.domain as usize) else { return };
        let began_ns = self.began_ns.unwrap_or(0);
        let Segment { vcpu, pcpu, start_ns, end_ns, .. } = *segment;
        if end_ns <= began_ns {
            return;
        }
        self.single = true;
        let id = self.structure.as_ref().map_or(0, |it| it.domains[segment.domain as usize].id);
        if pcpu.is_some() {
            // What began without a wait had one of no length.
            if self.waited_until_ns.remove(&(id, vcpu)) != Some(start_ns) && start_ns >= began_ns {
                self.count_wait(place, start_ns - began_ns, 0);
            }
            self.spread(place, (start_ns, end_ns), |it| &mut it.gotten_ns);
            return;
        }
        self.spread(place, (start_ns, end_ns), |it| &mut it.waited_ns);
        let length_ns = end_ns.saturating_sub(start_ns.max(began_ns));
        let window = self.window(place, end_ns - began_ns - 1);
        window.worst_ns = window.worst_ns.max(length_ns);
        if ended {
            self.waited_until_ns.insert((id, vcpu), end_ns);
            self.count_wait(place, end_ns - began_ns - 1, length_ns);
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
