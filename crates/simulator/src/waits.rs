// SPDX-License-Identifier: GPL-2.0-only
//! Times as they are measured one by one: histograms of bounded size, and the longest wait.

use std::sync::OnceLock;

use hdrhistogram::Histogram;

use crate::measure::{Ran, Waits, WorstWait};

/// Times are told apart from 512 ns up to an hour, to 1 %.
const SHORTEST_NS: u64 = 512;
const LONGEST_NS: u64 = 3_600_000_000_000;

/// A histogram of times, empty; about 13 KB whatever is recorded.
pub(crate) fn histogram() -> Histogram<u32> {
    let histogram = Histogram::new_with_bounds(SHORTEST_NS, LONGEST_NS, 2);
    // Cannot fail: the bounds are constants that the library accepts.
    histogram.unwrap_or_else(|_| unreachable!("constant bounds are valid"))
}

/// How much memory one takes.
pub(crate) fn histogram_bytes() -> usize {
    static EMPTY: OnceLock<usize> = OnceLock::new();
    *EMPTY.get_or_init(|| histogram().distinct_values() * size_of::<u32>())
}

/// Upper bound of the bucket into which a [`WaitRecorder`] counts a wait, in ns.
pub fn wait_bucket_ns(length_ns: u64) -> u64 {
    static EMPTY: OnceLock<Histogram<u32>> = OnceLock::new();
    EMPTY.get_or_init(histogram).highest_equivalent(length_ns.min(LONGEST_NS))
}

/// Upper bound of the bucket with this quantile, of upper bounds and how many fell into each; none if
/// nothing did.
pub fn quantile_ns(histogram: &[(u64, u64)], per_mille: u64) -> Option<u64> {
    let all: u128 = histogram.iter().map(|&(_, count)| u128::from(count)).sum();
    let rank = all * u128::from(per_mille);
    let mut below = 0;
    let bucket = histogram.iter().find(|&&(_, count)| {
        below += u128::from(count) * 1000;
        below >= rank
    });
    bucket.map(|&(bound_ns, _)| bound_ns)
}

/// Waits that come into the histogram together: it is far away where there are many.
const RECENT: usize = 8;

/// The waits of one vCPU, or of several.
#[derive(Clone)]
pub struct WaitRecorder {
    worst_ns: u64,
    recent_count: usize,
    recent_ns: [u64; RECENT],
    histogram: Histogram<u32>,
    worst: Option<WorstWait>,
}

impl Default for WaitRecorder {
    fn default() -> Self {
        WaitRecorder {
            worst_ns: 0,
            recent_count: 0,
            recent_ns: [0; RECENT],
            histogram: histogram(),
            worst: None,
        }
    }
}

fn count(histogram: &mut Histogram<u32>, lengths_ns: &[u64]) {
    for &length_ns in lengths_ns {
        histogram.saturating_record(length_ns.min(LONGEST_NS));
    }
}

impl WaitRecorder {
    /// Counts a wait. True if it is the longest so far: then [`WaitRecorder::set_worst`] follows.
    #[inline]
    #[must_use]
    pub fn record(&mut self, length_ns: u64) -> bool {
        self.recent_ns[self.recent_count] = length_ns;
        self.recent_count += 1;
        if self.recent_count == RECENT {
            count(&mut self.histogram, &self.recent_ns);
            self.recent_count = 0;
        }
        length_ns > self.worst_ns
    }

    /// The recent ones too.
    fn all(&self) -> Histogram<u32> {
        let mut all = self.histogram.clone();
        count(&mut all, &self.recent_ns[..self.recent_count]);
        all
    }

    /// How many waits there were so far.
    pub fn count(&self) -> u64 {
        self.histogram.len() + self.recent_count as u64
    }

    /// Length of the longest wait so far.
    pub fn worst_ns(&self) -> u64 {
        self.worst_ns
    }

    /// Describes the longest wait.
    pub fn set_worst(&mut self, vcpu: u32, start_ns: u64, length_ns: u64, ran: Vec<Ran>) {
        self.worst_ns = length_ns;
        self.worst = Some(WorstWait { vcpu, start_ns, length_ns, ran });
    }

    /// Adds the waits of another.
    pub fn add(&mut self, other: &WaitRecorder) {
        // Cannot fail: all histograms here have the same bounds.
        let _ = self.histogram.add(&other.histogram);
        count(&mut self.histogram, &other.recent_ns[..other.recent_count]);
        if other.worst_ns > self.worst_ns {
            self.worst_ns = other.worst_ns;
            self.worst.clone_from(&other.worst);
        }
    }

    /// What is reported.
    pub fn measure(&self) -> Waits {
        let histogram = self.all();
        let quantile = |quantile| {
            // The library answers with the upper end of the bucket, which may lie above the
            // longest wait or, for waits of no length, above 0.
            histogram.value_at_quantile(quantile).min(self.worst_ns)
        };
        Waits {
            count: self.count(),
            p50_ns: quantile(0.5),
            p90_ns: quantile(0.9),
            p99_ns: quantile(0.99),
            p999_ns: quantile(0.999),
            worst: self.worst.clone(),
            histogram: histogram
                .iter_recorded()
                .map(|bucket| (bucket.value_iterated_to(), u64::from(bucket.count_at_value())))
                .collect(),
        }
    }
}

impl Waits {
    /// What is reported of a histogram of so many waits, and the longest of them.
    pub fn of(histogram: Vec<(u64, u64)>, worst: Option<WorstWait>) -> Waits {
        let worst_ns = worst.as_ref().map_or(0, |worst| worst.length_ns);
        let count = histogram.iter().fold(0, |sum: u64, &(_, count)| sum.saturating_add(count));
        let quantile = |per_mille| {
            quantile_ns(&histogram, per_mille).map_or(0, |bound_ns| bound_ns.min(worst_ns))
        };
        Waits {
            count,
            p50_ns: quantile(500),
            p90_ns: quantile(900),
            p99_ns: quantile(990),
            p999_ns: quantile(999),
            worst,
            histogram,
        }
    }

    /// Those that ended after an earlier measure, which was at this time. Where the longest of all had come by then,
    /// only the bucket of the longest one since is known.
    pub(crate) fn since(&self, earlier: &Waits, begin_ns: u64) -> Waits {
        let mut before = earlier.histogram.iter().copied().peekable();
        let mut histogram = vec![];
        for &(bound_ns, count) in &self.histogram {
            let counted = before.next_if(|&(other_ns, _)| other_ns == bound_ns);
            let count = count - counted.map_or(0, |(_, count)| count);
            if count > 0 {
                histogram.push((bound_ns, count));
            }
        }
        let worst = if self.worst == earlier.worst {
            histogram.last().map(|&(length_ns, _)| WorstWait {
                start_ns: begin_ns,
                length_ns: self.worst.as_ref().map_or(0, |all| all.length_ns.min(length_ns)),
                ..WorstWait::default()
            })
        } else {
            self.worst.clone()
        };
        Waits::of(histogram, worst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bucket_is_that_of_the_recorder() {
        let powers = (0..64).map(|power| 1_u64 << power);
        for length_ns in powers.flat_map(|n| [n - 1, n, n + 1, n / 3 * 2]).chain([
            LONGEST_NS,
            LONGEST_NS + 1,
            LONGEST_NS / 100 * 101,
            u64::MAX,
        ]) {
            let mut waits = WaitRecorder::default();
            let _ = waits.record(length_ns);
            assert_eq!(waits.measure().histogram, [(wait_bucket_ns(length_ns), 1)], "{length_ns}");
        }
    }

    #[test]
    fn a_histogram_tells_what_its_recorder_tells() {
        let mut waits = WaitRecorder::default();
        let mut length_ns = 1_u64;
        for number in 0..5000 {
            length_ns = (length_ns * 48_271) % 2_147_483_647;
            let measure = waits.measure();
            if number % 500 == 0 {
                assert_eq!(Waits::of(measure.histogram.clone(), measure.worst.clone()), measure);
            }
            if waits.record(length_ns) {
                waits.set_worst(0, number, length_ns, vec![]);
            }
        }
    }

    #[test]
    fn later_waits_are_told_apart() {
        let mut waits = WaitRecorder::default();
        let record = |waits: &mut WaitRecorder, length_ns| {
            if waits.record(length_ns) {
                waits.set_worst(0, 7, length_ns, vec![]);
            }
        };
        [1_000, 9_000_000].iter().for_each(|&ns| record(&mut waits, ns));
        let earlier = waits.measure();
        [1_000, 1_000, 2_000_000].iter().for_each(|&ns| record(&mut waits, ns));
        let later = waits.measure().since(&earlier, 50);
        assert_eq!(later.histogram, [(wait_bucket_ns(1_000), 2), (wait_bucket_ns(2_000_000), 1)]);
        assert_eq!((later.count, later.p50_ns), (3, wait_bucket_ns(1_000)));
        // The longest of all came before.
        let worst = later.worst.unwrap();
        assert_eq!((worst.start_ns, worst.length_ns), (50, wait_bucket_ns(2_000_000)));
        record(&mut waits, 10_000_000);
        let worst = waits.measure().since(&earlier, 50).worst.unwrap();
        assert_eq!((worst.start_ns, worst.length_ns), (7, 10_000_000));
        assert_eq!(earlier.since(&earlier, 50), Waits::default());
    }

    #[test]
    fn percentiles_are_within_a_percent() {
        let mut waits = WaitRecorder::default();
        for millisecond in 1..=1000u64 {
            let length_ns = millisecond * 1_000_000;
            assert!(waits.record(length_ns));
            waits.set_worst(0, 0, length_ns, vec![]);
        }
        let measure = waits.measure();
        assert_eq!(measure.count, 1000);
        assert!(measure.p50_ns.abs_diff(500_000_000) < 5_000_000, "{}", measure.p50_ns);
        assert!(measure.p99_ns.abs_diff(990_000_000) < 9_900_000, "{}", measure.p99_ns);
        assert_eq!(measure.worst.map(|worst| worst.length_ns), Some(1_000_000_000));
        assert_eq!(measure.histogram.iter().map(|&(_, count)| count).sum::<u64>(), 1000);
    }
}
