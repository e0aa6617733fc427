// SPDX-License-Identifier: GPL-2.0-only
//! The state of a claim, and whether other seeds might make it another: seeds are drawn again and again, each as often as
//! it comes (bootstrap; Efron, Annals of Statistics 7(1), 1979), and what does not come out alike of nearly all drawings
//! is undecided. A seed counts for all variants at once: whoever is compared has met the same load.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

use crate::claim::{Published, Verdict, judge};
use crate::file::Claim;
use crate::outcome::{Runs, State};

/// Drawings. The same every time, so that the same runs give the same verdicts.
const DRAWINGS: usize = 400;
const SEED: u64 = 1;

/// Of [`DRAWINGS`], in percent, so many agree on what is decided.
const AGREE_PERCENT: usize = 95;

/// Fewer seeds than this say nothing of how far seeds are apart: then the medians decide alone.
const FEW: usize = 5;

/// Judges a claim by the medians over all seeds, and says whether that is decided.
pub(crate) fn state_of(
    claim: &Claim,
    measured: &Runs<'_>,
    published: &[Published<'_>],
) -> (State, Verdict) {
    let verdict = judge(&claim.test, measured, published);
    let same = |seeds: Vec<usize>| {
        judge(&claim.test, &measured.with(seeds), published).holds == verdict.holds
    };
    let state = match (verdict.holds, &claim.known) {
        _ if !is_decided(measured.seeds.len(), same) => State::Undecided,
        (true, None) => State::Holds,
        (false, None) => State::Fails,
        (false, Some(_)) => State::Known,
        (true, Some(_)) => State::Turned,
    };
    (state, verdict)
}

/// Whether nearly all drawings of so many seeds, by their places, give the `same`.
fn is_decided(seeds: usize, same: impl Fn(Vec<usize>) -> bool) -> bool {
    if seeds < FEW {
        return true;
    }
    let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
    let mut draw = || (0..seeds).map(|_| (random.next_u64() % seeds as u64) as usize).collect();
    let agree = (0..DRAWINGS).filter(|_| same(draw())).count();
    agree * 100 >= AGREE_PERCENT * DRAWINGS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Spread;

    /// Whether it is decided that the median of these is below 10.
    fn decided(values: &[f64]) -> bool {
        let median = |seeds: Vec<usize>| {
            let drawn: Vec<_> = seeds.into_iter().map(|seed| values[seed]).collect();
            Spread::of(&drawn).map_or(f64::NAN, |spread| spread.median)
        };
        let all = median((0..values.len()).collect()) < 10.0;
        is_decided(values.len(), |seeds| (median(seeds) < 10.0) == all)
    }

    #[test]
    fn what_seeds_agree_on_is_decided() {
        assert!(decided(&[9.0; 10]));
        assert!(decided(&[11.0; 10]));
        // One of ten beyond: it would have to be drawn five times of ten, which one in 600 drawings does.
        assert!(decided(&[9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 11.0]));
    }

    #[test]
    fn what_seeds_do_not_agree_on_is_undecided() {
        assert!(!decided(&[9.0, 11.0, 9.0, 11.0, 9.0, 11.0, 9.0, 11.0, 9.0, 9.0]));
        // Three of ten beyond: drawn five times of ten or more in 15 % of drawings.
        assert!(!decided(&[9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 11.0, 11.0, 11.0]));
    }

    #[test]
    fn few_seeds_say_nothing_of_their_spread() {
        assert!(decided(&[9.0, 11.0]));
        assert!(decided(&[9.0, 11.0, 9.0, 11.0]));
    }
}
