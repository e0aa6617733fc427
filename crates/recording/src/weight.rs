// SPDX-License-Identifier: GPL-2.0-only
//! What is called a weight of 256, the usual one, elsewhere.

/// The weight of a domain for which nobody chose one.
pub const USUAL: u64 = 256;

/// Whose numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// `cpu.weight` of control groups of version 2; also libvirt's `cpu_shares` there.
    Group,
    /// `cpu.shares` of control groups of version 1; also libvirt's `cpu_shares` there.
    Shares,
    /// Xen's Credit and Credit2.
    Xen,
}

impl Scale {
    /// What stands for the usual weight, the least and the most.
    pub const fn figures(self) -> (u64, u64, u64) {
        match self {
            // Linux, Documentation/admin-guide/cgroup-v2.rst.
            Scale::Group => (100, 1, 10_000),
            // Linux, kernel/sched/sched.h: MIN_SHARES, MAX_SHARES.
            Scale::Shares => (1024, 2, 262_144),
            Scale::Xen => (USUAL, 1, 65_535),
        }
    }

    /// The file in which a control group says how much of its quota it may save, in us.
    pub const fn burst_file(self) -> &'static str {
        match self {
            Scale::Shares => "cpu.cfs_burst_us",
            Scale::Group | Scale::Xen => "cpu.max.burst",
        }
    }

    /// The nearest number; none if there is none that is so small or large.
    pub fn of_weight(self, weight: u32) -> Option<u64> {
        let (usual, least, most) = self.figures();
        let number = (u64::from(weight) * usual + USUAL / 2) / USUAL;
        (least..=most).contains(&number).then_some(number)
    }

    /// What a number stands for, rounded down, but not to nothing.
    pub fn weight(self, number: u64) -> u64 {
        let (usual, _, most) = self.figures();
        (number.min(most) * USUAL / usual).max(1)
    }

    /// The least and the most weight that can be said.
    pub fn range(self) -> (u32, u32) {
        let weights = 1..=65_535_u32;
        let can = |weight: &u32| self.of_weight(*weight).is_some();
        (weights.clone().find(can).unwrap_or(1), weights.rev().find(can).unwrap_or(65_535))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_nearest_of_each_scale() {
        // weight, cpu.weight, cpu.shares, Xen's
        for (weight, group, shares, xen) in [
            (256, Some(100), Some(1024), Some(256)),
            (512, Some(200), Some(2048), Some(512)),
            (300, Some(117), Some(1200), Some(300)),
            (1, None, Some(4), Some(1)),
            (2, Some(1), Some(8), Some(2)),
            (25_601, Some(10_000), Some(102_404), Some(25_601)),
            (25_602, None, Some(102_408), Some(25_602)),
            (65_535, None, Some(262_140), Some(65_535)),
        ] {
            assert_eq!(Scale::Group.of_weight(weight), group, "{weight}");
            assert_eq!(Scale::Shares.of_weight(weight), shares, "{weight}");
            assert_eq!(Scale::Xen.of_weight(weight), xen, "{weight}");
        }
        assert_eq!(Scale::Group.range(), (2, 25_601));
        assert_eq!((Scale::Group.weight(100), Scale::Group.weight(1)), (256, 2));
        assert_eq!((Scale::Shares.weight(1024), Scale::Shares.weight(2)), (256, 1));
    }
}
