// SPDX-License-Identifier: GPL-2.0-only
//! Whose work woke whom, from a kernel's events that do not say it.
//!
//! An event that somebody was woken names who ran there. That one's work was the cause, or an interrupt that came
//! meanwhile: a timer, a device. Interrupts come whoever runs. So a thread is taken to wake another by its work if the
//! other was woken there so much more often while it ran than while it did not that most of these wakes are its own.

use std::collections::{BTreeMap, HashMap};

/// Somebody was woken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Woken {
    pub time_ns: u64,
    pub woken: u32,
    /// Who ran there; 0: nobody.
    pub running: u32,
    pub cpu: u32,
    /// Whether that one's work was the cause, if it is told.
    pub by_work: Option<bool>,
}

/// A thread's wakes while another ran are its work's if there are so many times as many as there would be of
/// interrupts: then most are.
const FACTOR: f64 = 2.0;
/// And besides so many of those.
const CHANCE: f64 = 1.0;

/// Who is woken, and who ran there.
type Pair = (u32, u32);

/// Which of these wakes were by the work of who ran. `ran_ns` is how long a thread did on a CPU, `length_ns` how long
/// all of them were looked at.
pub(crate) fn by_work(
    wakes: &[Woken],
    ran_ns: &HashMap<(u32, u32), u64>,
    length_ns: u64,
) -> Vec<bool> {
    // Of who is woken on a CPU: how often in all, and while whom.
    let mut here: BTreeMap<(u32, u32), (u64, BTreeMap<u32, u64>)> = BTreeMap::new();
    for wake in wakes {
        let (all, while_ran) = here.entry((wake.woken, wake.cpu)).or_default();
        *all += 1;
        if wake.running != 0 {
            *while_ran.entry(wake.running).or_default() += 1;
        }
    }
    // How often in all while whom, and how often by interrupts there.
    let mut pairs: HashMap<Pair, (f64, f64)> = HashMap::new();
    for (&(woken, cpu), (all, while_ran)) in &here {
        for (&running, &count) in while_ran {
            let (counted, by_chance) = pairs.entry((woken, running)).or_default();
            let ran_ns = ran_ns.get(&(running, cpu)).copied().unwrap_or(0).min(length_ns);
            let rest_ns = (length_ns - ran_ns).max(1);
            *counted += count as f64;
            *by_chance += (all - count) as f64 * ran_ns as f64 / rest_ns as f64;
        }
    }
    let causes = |wake: &Woken| {
        let (count, by_chance) =
            pairs.get(&(wake.woken, wake.running)).copied().unwrap_or_default();
        count >= FACTOR * (by_chance + CHANCE)
    };
    wakes
        .iter()
        .map(|wake| wake.running != 0 && wake.by_work.unwrap_or_else(|| causes(wake)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKER: u32 = 1;
    const OTHER: u32 = 2;
    const SLEEPER: u32 = 3;

    /// The sleeper is woken on CPU 0 so often while each of these runs, who ran for so long of 100 ns there.
    fn while_running(counts: &[(u32, usize, u64)]) -> Vec<bool> {
        let wakes: Vec<Woken> = counts
            .iter()
            .flat_map(|&(running, count, _)| vec![running; count])
            .map(|running| Woken { time_ns: 0, woken: SLEEPER, running, cpu: 0, by_work: None })
            .collect();
        let ran_ns = counts.iter().map(|&(running, _, ran_ns)| ((running, 0), ran_ns)).collect();
        let by_work = by_work(&wakes, &ran_ns, 100);
        let mut first = 0;
        counts
            .iter()
            .map(|&(_, count, _)| {
                first += count;
                by_work[first - 1]
            })
            .collect()
    }

    #[test]
    fn timers_fire_whoever_runs() {
        // Ten wakes per 10 ns whoever runs.
        assert_eq!(while_running(&[(WORKER, 50, 50), (OTHER, 30, 30), (0, 20, 20)]), [false; 3]);
        // Even if one runs nearly always.
        assert_eq!(while_running(&[(WORKER, 95, 95), (0, 5, 5)]), [false; 2]);
    }

    #[test]
    fn whose_work_wakes_is_known_by_how_often() {
        // 40 in 20 ns of the worker's, 20 in the other 80: of the 40 some 5 by interrupts.
        assert_eq!(
            while_running(&[(WORKER, 40, 20), (OTHER, 15, 60), (0, 5, 20)]),
            [true, false, false]
        );
        // All of them; of one alone nothing is known.
        assert_eq!(while_running(&[(WORKER, 9, 50)]), [true]);
        assert_eq!(while_running(&[(WORKER, 1, 50)]), [false]);
    }

    #[test]
    fn what_is_told_counts() {
        let wake = |by_work| Woken { time_ns: 0, woken: SLEEPER, running: WORKER, cpu: 0, by_work };
        let wakes = [wake(Some(true)), wake(Some(false)), wake(None)];
        assert_eq!(by_work(&wakes, &HashMap::new(), 100), [true, false, true]);
        let nobody = Woken { running: 0, ..wake(Some(true)) };
        assert_eq!(by_work(&[nobody], &HashMap::new(), 100), [false]);
    }
}
