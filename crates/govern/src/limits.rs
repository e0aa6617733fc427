// SPDX-License-Identifier: GPL-2.0-only
//! What an administrator allows: weights and slices from here to there, and so many changes a minute.

use std::collections::VecDeque;

use crate::Wanted;

const MINUTE_NS: u64 = 60_000_000_000;

/// What is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Least and most weight, 256 being the usual one.
    pub weight: (u64, u64),
    /// Shortest slice.
    pub least_slice_ns: u64,
    /// Domains that are changed within any minute, at most.
    pub changes_per_minute: u32,
}

impl Limits {
    /// The nearest that is allowed.
    #[must_use]
    pub fn allowed(&self, wanted: Wanted) -> Wanted {
        let (least, most) = self.weight;
        let slice_ns = match wanted.slice_ns {
            0 => 0,
            // Whole microseconds can be asked for.
            ns => ns.max(self.least_slice_ns) / 1000 * 1000,
        };
        Wanted { weight: wanted.weight.max(least).min(most), slice_ns }
    }
}

/// When domains were changed in the last minute.
#[derive(Debug, Default)]
pub struct Pace(VecDeque<u64>);

impl Pace {
    /// How many may be changed at this time.
    pub fn room(&mut self, limits: &Limits, now_ns: u64) -> usize {
        while self.0.front().is_some_and(|&at_ns| at_ns + MINUTE_NS <= now_ns) {
            self.0.pop_front();
        }
        (limits.changes_per_minute as usize).saturating_sub(self.0.len())
    }

    /// One was changed.
    pub fn add(&mut self, now_ns: u64) {
        self.0.push_back(now_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits =
        Limits { weight: (64, 1024), least_slice_ns: 500_000, changes_per_minute: 2 };

    #[test]
    fn nothing_beyond_the_limits_is_allowed() {
        let allowed = |weight, slice_ns| {
            let Wanted { weight, slice_ns } = LIMITS.allowed(Wanted { weight, slice_ns });
            (weight, slice_ns)
        };
        assert_eq!(allowed(1, 0), (64, 0));
        assert_eq!(allowed(65_535, 1), (1024, 500_000));
        assert_eq!(allowed(300, 1_200_999), (300, 1_200_000));
    }

    #[test]
    fn a_minute_has_room_for_so_many() {
        let mut pace = Pace::default();
        pace.add(1);
        assert_eq!(pace.room(&LIMITS, 2), 1);
        pace.add(10);
        assert_eq!(pace.room(&LIMITS, MINUTE_NS), 0);
        assert_eq!(pace.room(&LIMITS, MINUTE_NS + 1), 1);
        assert_eq!(pace.room(&LIMITS, MINUTE_NS + 10), 2);
    }
}
