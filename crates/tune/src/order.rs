// SPDX-License-Identifier: GPL-2.0-only
//! Which of many tried settings are better: those that keep what is to be kept come before others, and among them those
//! that none betters in all goals, spread out, as NSGA-II orders them (K. Deb, A. Pratap, S. Agarwal, T. Meyarivan: A
//! fast and elitist multiobjective genetic algorithm, IEEE Transactions on Evolutionary Computation 6(2), 2002).

/// What counts of a setting.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// By how much it breaks what is to be kept; 0 if it does not, infinite where something was not measured.
    pub violation: f64,
    /// For each goal, less being better.
    pub losses: Vec<f64>,
}

impl Score {
    /// Whether it is at least as good in all goals and better in one.
    fn dominates(&self, other: &Score) -> bool {
        let mut pairs = self.losses.iter().zip(&other.losses);
        let better = self.losses.iter().zip(&other.losses).any(|(a, b)| a < b);
        better && pairs.all(|(a, b)| a <= b)
    }
}

/// The numbers of all scores, best first. Of equal ones the earlier comes first.
pub fn order(scores: &[Score]) -> Vec<usize> {
    let (mut left, mut broken): (Vec<usize>, Vec<usize>) =
        (0..scores.len()).partition(|&it| scores[it].violation == 0.0);
    let mut ordered = vec![];
    while !left.is_empty() {
        let front = front(scores, &left);
        left.retain(|it| !front.contains(it));
        ordered.extend(spread_out(scores, front));
    }
    broken.sort_by(|&a, &b| scores[a].violation.total_cmp(&scores[b].violation));
    ordered.extend(broken);
    ordered
}

/// Those that none of these dominates; of some that are equal in all goals the first.
pub fn front(scores: &[Score], among: &[usize]) -> Vec<usize> {
    let beaten = |&one: &usize| {
        among.iter().any(|&other| {
            let equal = scores[other].losses == scores[one].losses;
            scores[other].dominates(&scores[one]) || (equal && other < one)
        })
    };
    among.iter().copied().filter(|one| !beaten(one)).collect()
}

/// Who has the most room around it first: by Deb's crowding distance.
fn spread_out(scores: &[Score], front: Vec<usize>) -> Vec<usize> {
    let goals = front.first().map_or(0, |&it| scores[it].losses.len());
    let mut room = vec![0.0; front.len()];
    for goal in 0..goals {
        let loss = |place: usize| scores[front[place]].losses[goal];
        let mut places: Vec<usize> = (0..front.len()).collect();
        places.sort_by(|&a, &b| loss(a).total_cmp(&loss(b)));
        let (first, last) = (places[0], places[places.len() - 1]);
        let range = loss(last) - loss(first);
        for window in places.windows(3) {
            let between = (loss(window[2]) - loss(window[0])) / range;
            // In a front without a range all are equal in this goal.
            room[window[1]] += if range > 0.0 { between } else { 0.0 };
        }
        room[first] = f64::INFINITY;
        room[last] = f64::INFINITY;
    }
    let mut places: Vec<usize> = (0..front.len()).collect();
    places.sort_by(|&a, &b| room[b].total_cmp(&room[a]));
    places.into_iter().map(|place| front[place]).collect()
}

/// Of a front the one that is nearest to the best in each goal, each goal counted from its best to its worst in the
/// front.
pub fn compromise(scores: &[Score], front: &[usize]) -> Option<usize> {
    let goals = front.first().map_or(0, |&it| scores[it].losses.len());
    let ranges: Vec<(f64, f64)> = (0..goals)
        .map(|goal| {
            let losses = front.iter().map(|&it| scores[it].losses[goal]);
            losses.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), it| (a.min(it), b.max(it)))
        })
        .collect();
    let distance = |one: usize| -> f64 {
        let parts = scores[one].losses.iter().zip(&ranges);
        let part = |(loss, (best, worst)): (&f64, &(f64, f64))| match worst > best {
            true => ((loss - best) / (worst - best)).powi(2),
            false => 0.0,
        };
        parts.map(part).sum()
    };
    front.iter().copied().min_by(|&a, &b| distance(a).total_cmp(&distance(b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(violation: f64, losses: &[f64]) -> Score {
        Score { violation, losses: losses.to_vec() }
    }

    #[test]
    fn one_goal_is_an_order_and_what_breaks_comes_last() {
        let scores = [
            score(0.0, &[3.0]),
            score(0.5, &[0.0]),
            score(0.0, &[1.0]),
            score(f64::INFINITY, &[0.0]),
            score(0.1, &[9.0]),
            score(0.0, &[1.0]),
        ];
        assert_eq!(order(&scores), [2, 5, 0, 4, 1, 3]);
    }

    #[test]
    fn fronts_by_hand() {
        // The first front is 0, 1, 3 and 4; in it 3 has more room than 1 (1.25 against 0.75). 2 is behind 1, 5 behind all.
        let points = [[0.0, 8.0], [1.0, 6.0], [2.0, 7.0], [4.0, 4.0], [8.0, 0.0], [9.0, 9.0]];
        let scores: Vec<_> = points.iter().map(|losses| score(0.0, losses)).collect();
        assert_eq!(order(&scores), [0, 4, 3, 1, 2, 5]);
        let all: Vec<_> = (0..scores.len()).collect();
        assert_eq!(front(&scores, &all), [0, 1, 3, 4]);
        // From (0, 0): 1, 0.578, 0.5, 1.
        assert_eq!(compromise(&scores, &[0, 1, 3, 4]), Some(3));
        assert_eq!(compromise(&scores, &[]), None);
    }

    #[test]
    fn every_score_has_a_place() {
        // Points of a lattice, many of them equal.
        let scores: Vec<_> = (0..200_u32)
            .map(|n| {
                let at = |k: u32| f64::from(n.wrapping_mul(2_654_435_761) >> k & 7);
                score(if n % 5 == 0 { at(9) } else { 0.0 }, &[at(3), at(17), at(25)])
            })
            .collect();
        let ordered = order(&scores);
        let mut sorted = ordered.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..200));
        // Nobody comes before whom it is dominated by.
        for (place, &later) in ordered.iter().enumerate() {
            for &earlier in &ordered[..place] {
                let both_keep = scores[later].violation == 0.0;
                assert!(!(both_keep && scores[later].dominates(&scores[earlier])));
                assert!(scores[earlier].violation <= scores[later].violation);
            }
        }
    }
}
