// SPDX-License-Identifier: GPL-2.0-only
//! Named streams of randomness: what one thread draws depends on the seed and on its own name, not
//! on who else is there.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

/// One stream.
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// The stream of this name under this seed. The name is a path: domain, task, thread.
    pub fn named(seed: u64, path: &[&str]) -> Self {
        // FNV-1a, with a byte that no UTF-8 text holds between the parts.
        let mut hash = 0xcbf2_9ce4_8422_2325u64 ^ seed;
        for byte in path.iter().flat_map(|part| part.bytes().chain([0xff])) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
        Random(Xoshiro256PlusPlus::seed_from_u64(hash))
    }

    /// Uniform over 0..bound; 0 for a bound of 0. Bias below 2^-32 for the times drawn here.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Uniform within so many percent around the middle.
    pub fn jitter(&mut self, middle: u64, percent: u32) -> u64 {
        let half = (u128::from(middle) * u128::from(percent.min(100)) / 100) as u64;
        if half == 0 { middle } else { middle - half + self.below(2 * half + 1) }
    }

    /// Exponential with this mean; the same on every machine.
    pub fn exponential(&mut self, mean: u64) -> u64 {
        // 53 random bits in (0, 1].
        let uniform = ((self.0.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        (-libm::log(uniform) * mean as f64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_by_name_and_repeat() {
        let draw = |seed, path: &[&str]| Random::named(seed, path).below(u64::MAX);
        assert_eq!(draw(1, &["a", "b"]), draw(1, &["a", "b"]));
        assert_ne!(draw(1, &["a", "b"]), draw(1, &["ab"]));
        assert_ne!(draw(1, &["a"]), draw(2, &["a"]));
    }

    #[test]
    fn exponential_has_its_mean() {
        let mut random = Random::named(7, &["test"]);
        let mean = (0..100_000).map(|_| random.exponential(1_000_000)).sum::<u64>() / 100_000;
        assert!((990_000..1_010_000).contains(&mean), "{mean}");
        assert!((0..1000).all(|_| (90..=110).contains(&random.jitter(100, 10))));
    }
}
