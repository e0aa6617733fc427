// SPDX-License-Identifier: GPL-2.0-only
//! What differs between two recordings of a host, one before and one after something was changed, and how
//! much of that may be chance: windows of each are drawn again and again (bootstrap), and what does not keep
//! its sign in nearly all drawings is no difference.

use std::collections::BTreeMap;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use serde::Serialize;
use steelyard_simulator::quantile_ns;

use crate::windows::{DomainWindows, Window, Windows};

/// Drawings, and the part of them that is left out at each end: a table has dozens of figures.
pub(crate) const DRAWINGS: usize = 2000;
const LEFT_OUT: f64 = 0.005;
pub(crate) const KEPT_PERCENT: f64 = 100.0 - 200.0 * LEFT_OUT;
/// The same recordings give the same intervals.
const SEED: u64 = 1;
/// Added to waits before they are divided: a microsecond here or there is no difference.
const GRAIN_NS: f64 = 1e3;

/// What a change brought.
#[derive(Clone, Debug, Serialize)]
pub struct Change {
    /// The recording before it.
    pub before: Side,
    /// And after.
    pub after: Side,
    /// Who is in both: virtual machines, those that got most before first, then the rest of the host.
    pub domains: Vec<DomainChange>,
    /// Names of who is in the first alone.
    pub only_before: Vec<String>,
    /// In the second alone.
    pub only_after: Vec<String>,
}

/// A recording.
#[derive(Clone, Debug, Serialize)]
pub struct Side {
    /// Name of the file.
    pub source: String,
    /// Its length.
    pub length_ns: u64,
    /// pCPUs of the host.
    pub pcpus: u32,
    /// Windows that are drawn from.
    pub windows: usize,
    /// Length of each.
    pub window_ns: u64,
}

/// What differs for a domain.
#[derive(Clone, Debug, Serialize)]
pub struct DomainChange {
    /// Name.
    pub name: String,
    /// It is all that ran beside virtual machines: only its share is known.
    pub rest_of_host: bool,
    /// CPU time in percent of one pCPU; the change in points.
    pub share_percent: Changed,
    /// Time waited, likewise.
    pub waited_percent: Option<Changed>,
    /// 99th percentile of waits; the change as a factor.
    pub wait_p99_ns: Option<Changed>,
    /// The longest, likewise.
    pub worst_wait_ns: Option<Changed>,
}

/// A figure before and after.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Changed {
    /// As recorded.
    pub before: f64,
    /// As recorded.
    pub after: f64,
    /// The change, as far as it can be told.
    pub change: Interval,
    /// Whether it is more than chance.
    pub certain: bool,
}

/// Nearly all drawings are within.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Least.
    pub least: f64,
    /// Greatest.
    pub greatest: f64,
}

impl Change {
    /// Between two recordings, by what their files are called.
    #[must_use]
    pub fn between(before: (&str, &Windows), after: (&str, &Windows)) -> Change {
        let side = |(source, windows): (&str, &Windows)| Side {
            source: source.to_owned(),
            length_ns: windows.length_ns(),
            pcpus: windows.pcpus(),
            windows: windows.count(),
            window_ns: windows.window_ns(),
        };
        let of = |windows: &'_ Windows, name: &str| {
            windows.domains.iter().position(|domain| domain.name == name)
        };
        let only = |here: &Windows, there: &Windows| {
            let names = here.domains.iter().map(|domain| domain.name.clone());
            names.filter(|name| of(there, name).is_none()).collect()
        };
        let drawings = Drawings::of(before.1.count(), after.1.count());
        let mut domains: Vec<DomainChange> = before
            .1
            .domains
            .iter()
            .filter_map(|domain| {
                let same = &after.1.domains[of(after.1, &domain.name)?];
                let window_ns = (before.1.window_ns(), after.1.window_ns());
                Some(changed(domain, same, window_ns, &drawings))
            })
            .collect();
        domains.sort_by(|a, b| {
            let by_share = b.share_percent.before.total_cmp(&a.share_percent.before);
            a.rest_of_host.cmp(&b.rest_of_host).then(by_share)
        });
        Change {
            before: side(before),
            after: side(after),
            domains,
            only_before: only(before.1, after.1),
            only_after: only(after.1, before.1),
        }
    }
}

/// Which windows are drawn, the same for all domains.
struct Drawings {
    before: Vec<Vec<usize>>,
    after: Vec<Vec<usize>>,
}

impl Drawings {
    fn of(before: usize, after: usize) -> Drawings {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
        let mut draw = |count: usize| {
            // The rest of a division of 64 bits by a few dozen is as good as even.
            let one = |_| (random.next_u64() % count.max(1) as u64) as usize;
            (0..count).map(one).collect::<Vec<_>>()
        };
        let (mut first, mut second) = (vec![], vec![]);
        for _ in 0..DRAWINGS {
            first.push(draw(before));
            second.push(draw(after));
        }
        Drawings { before: first, after: second }
    }
}

/// Sums over windows.
#[derive(Clone, Copy)]
struct Sums {
    share_percent: f64,
    waited_percent: f64,
    p99_ns: f64,
    worst_ns: f64,
}

impl Sums {
    fn of<'a>(windows: impl Iterator<Item = &'a Window>, window_ns: u64) -> Sums {
        let (mut count, mut gotten_ns, mut waited_ns, mut worst_ns) = (0_u64, 0.0, 0.0, 0);
        let mut waits: BTreeMap<u64, u64> = BTreeMap::new();
        for window in windows {
            count += 1;
            gotten_ns += window.gotten_ns as f64;
            waited_ns += window.waited_ns as f64;
            worst_ns = worst_ns.max(window.worst_ns);
            for (&bound_ns, number) in &window.waits {
                *waits.entry(bound_ns).or_default() += number;
            }
        }
        let waits: Vec<(u64, u64)> = waits.into_iter().collect();
        let length_ns = (count.max(1) as f64) * window_ns.max(1) as f64;
        Sums {
            share_percent: 100.0 * gotten_ns / length_ns,
            waited_percent: 100.0 * waited_ns / length_ns,
            p99_ns: quantile_ns(&waits, 990).unwrap_or(0) as f64,
            worst_ns: worst_ns as f64,
        }
    }
}

fn changed(
    before: &DomainWindows,
    after: &DomainWindows,
    window_ns: (u64, u64),
    drawings: &Drawings,
) -> DomainChange {
    let whole =
        (Sums::of(before.windows.iter(), window_ns.0), Sums::of(after.windows.iter(), window_ns.1));
    let drawn: Vec<(Sums, Sums)> = drawings
        .before
        .iter()
        .zip(&drawings.after)
        .map(|(first, second)| {
            let first = first.iter().map(|&index| &before.windows[index]);
            let second = second.iter().map(|&index| &after.windows[index]);
            (Sums::of(first, window_ns.0), Sums::of(second, window_ns.1))
        })
        .collect();
    let points =
        |of: fn(&Sums) -> f64| figure(&whole, &drawn, of, |before, after| after - before, 0.0);
    let factor = |of: fn(&Sums) -> f64| {
        let ratio = |before: f64, after: f64| (after + GRAIN_NS) / (before + GRAIN_NS);
        figure(&whole, &drawn, of, ratio, 1.0)
    };
    let rest_of_host = before.rest_of_host || after.rest_of_host;
    let of_machine = |changed: Changed| (!rest_of_host).then_some(changed);
    DomainChange {
        name: before.name.clone(),
        rest_of_host,
        share_percent: points(|sums| sums.share_percent),
        waited_percent: of_machine(points(|sums| sums.waited_percent)),
        wait_p99_ns: of_machine(factor(|sums| sums.p99_ns)),
        worst_wait_ns: of_machine(factor(|sums| sums.worst_ns)),
    }
}

/// A figure of all windows and of those drawn; `same` is what `between` gives of equal ones.
fn figure(
    whole: &(Sums, Sums),
    drawn: &[(Sums, Sums)],
    of: fn(&Sums) -> f64,
    between: fn(f64, f64) -> f64,
    same: f64,
) -> Changed {
    let mut changes: Vec<f64> =
        drawn.iter().map(|(first, second)| between(of(first), of(second))).collect();
    changes.sort_by(f64::total_cmp);
    let out = (changes.len() as f64 * LEFT_OUT) as usize;
    let change = Interval { least: changes[out], greatest: changes[changes.len() - 1 - out] };
    Changed {
        before: of(&whole.0),
        after: of(&whole.1),
        change,
        certain: change.least > same || change.greatest < same,
    }
}

#[cfg(test)]
#[path = "change_tests.rs"]
mod tests;
