// SPDX-License-Identifier: GPL-2.0-only
//! How far replays of a recording are off: the recorded host's own scheduler is replayed, and what
//! comes out is held against what was recorded. Nothing smaller can be said of another policy.

use serde::{Deserialize, Serialize};
use steelyard_simulator::measure::{DomainMeasure, Run};

use crate::format;

/// Domains that used less of a pCPU, in percent, do not count in the sums.
const LEAST_SHARE_PERCENT: f64 = 3.0;
/// Shorter waits count as this long: less is beyond what a recording and a model of costs tell.
const LEAST_WAIT_NS: f64 = 100_000.0;
/// What is asked of a replay: shares in points of a pCPU, in the mean and at worst; factors of the 99th
/// percentile of waits, in the median and at worst.
const GOALS: [f64; 4] = [2.0, 5.0, 1.25, 2.0];

/// What the replay of a recorded host's own scheduler shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplayError {
    /// Label of the policy that stands for that scheduler.
    pub policy: String,
    /// Whether neither the recording nor the command line says that it is this one.
    pub assumed: bool,
    /// Of domains that count: difference of share, in percent of a pCPU, in the mean and at worst.
    pub share_mean_points: f64,
    /// At worst.
    pub share_worst_points: f64,
    /// Of the same: factor between the 99th percentiles of waits, at least 1, in the median.
    pub p99_median_factor: f64,
    /// At worst.
    pub p99_worst_factor: f64,
    /// Each domain.
    pub domains: Vec<DomainError>,
}

/// One domain, as recorded and as replayed, the latter the median over seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DomainError {
    /// Name.
    pub name: String,
    /// Whether its waits were recorded.
    pub waits_recorded: bool,
    /// What was recorded.
    pub recorded: Replayed,
    /// What its own scheduler does with it here.
    pub replayed: Replayed,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Replayed {
    /// In percent of one pCPU.
    pub share_percent: f64,
    /// Likewise.
    pub waited_percent: f64,
    /// 99th percentile of waits.
    pub wait_p99_ns: f64,
    /// The longest.
    pub worst_wait_ns: f64,
}

impl ReplayError {
    /// Of what was recorded and replays of it by this policy; none if there are none of all that was recorded.
    pub fn of(recorded: &Run, runs: &[&Run], policy: &str, assumed: bool) -> Option<ReplayError> {
        let mut domains = vec![];
        for domain in &recorded.domains {
            let same = |run: &&'_ Run| run.domains.iter().position(|it| it.name == domain.name);
            let replays: Vec<Replayed> = runs
                .iter()
                .filter_map(|run| Some(Replayed::of(&run.domains[same(run)?], run.elapsed_ns)))
                .collect();
            domains.push(DomainError {
                name: domain.name.clone(),
                waits_recorded: domain.time.waits.count > 0,
                recorded: Replayed::of(domain, recorded.elapsed_ns),
                replayed: Replayed::median(&replays)?,
            });
        }
        let counted = || domains.iter().filter(|domain| domain.counts());
        let points: Vec<f64> = counted().map(DomainError::share_points).collect();
        let factors: Vec<f64> =
            counted().filter(|it| it.waits_recorded).map(DomainError::p99_factor).collect();
        let greatest = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
        Some(ReplayError {
            policy: policy.to_owned(),
            assumed,
            share_mean_points: points.iter().sum::<f64>() / points.len().max(1) as f64,
            share_worst_points: greatest(&points),
            p99_median_factor: median(factors.clone()).unwrap_or(1.0),
            p99_worst_factor: greatest(&factors).max(1.0),
            domains,
        })
    }

    /// In a sentence.
    pub fn short(&self) -> String {
        let ReplayError { policy, share_mean_points, share_worst_points, .. } = self;
        let ReplayError { p99_median_factor, p99_worst_factor, .. } = self;
        format!(
            "Replays by the host's own {policy}{} are off by {share_mean_points:.1} points of share ({share_worst_points:.1} \
             at worst), a factor of {p99_median_factor:.2} in p99 ({p99_worst_factor:.2}): {} what is asked ({}). \
             Less is no difference.",
            if self.assumed { " (assumed)" } else { "" },
            if self.within_goals() { "within" } else { "MORE than" },
            GOALS.map(|goal| goal.to_string()).join(", "),
        )
    }

    /// Whether that is no more than what is asked of a replay.
    pub fn within_goals(&self) -> bool {
        let reached = [
            self.share_mean_points,
            self.share_worst_points,
            self.p99_median_factor,
            self.p99_worst_factor,
        ];
        reached.iter().zip(GOALS).all(|(value, goal)| *value <= goal)
    }

    /// In a few sentences.
    pub fn verdict(&self) -> Vec<String> {
        let ReplayError { policy, share_mean_points, share_worst_points, .. } = self;
        let ReplayError { p99_median_factor, p99_worst_factor, .. } = self;
        let [mean, worst, median, most] = GOALS;
        vec![
            format!(
                "The recorded host's own scheduler, {policy}{}, is replayed and held against what was recorded.",
                if self.assumed { " (assumed: `--own` says another)" } else { "" },
            ),
            format!(
                "Domains above {LEAST_SHARE_PERCENT} % of a pCPU: shares are off by {share_mean_points:.1} points \
                 in the mean, {share_worst_points:.1} at worst; the p99 of waits by a factor of \
                 {p99_median_factor:.2} in the median, {p99_worst_factor:.2} at worst.",
            ),
            format!(
                "That is {} what is asked of a replay ({mean} and {worst} points, factors of {median} and {most}). \
                 What differs by less than a domain's own error is no difference.",
                if self.within_goals() { "within" } else { "MORE than" },
            ),
        ]
    }

    /// Whether this domain's figures count.
    pub fn counts(&self, name: &str) -> bool {
        self.domains.iter().any(|domain| domain.name == name && domain.counts())
    }

    /// A line for each domain that counts, those that got most first.
    pub fn lines(&self) -> Vec<String> {
        let mut domains: Vec<_> = self.domains.iter().filter(|domain| domain.counts()).collect();
        domains.sort_by(|a, b| b.recorded.share_percent.total_cmp(&a.recorded.share_percent));
        domains.into_iter().map(DomainError::line).collect()
    }
}

impl DomainError {
    fn counts(&self) -> bool {
        self.recorded.share_percent > LEAST_SHARE_PERCENT
    }

    fn share_points(&self) -> f64 {
        (self.replayed.share_percent - self.recorded.share_percent).abs()
    }

    fn p99_factor(&self) -> f64 {
        factor(
            self.recorded.wait_p99_ns.max(LEAST_WAIT_NS),
            self.replayed.wait_p99_ns.max(LEAST_WAIT_NS),
        )
    }

    fn line(&self) -> String {
        let DomainError { name, recorded, replayed, waits_recorded } = self;
        let percent = |value| format::with_unit(value, "percent");
        if !waits_recorded {
            let (recorded, replayed) = (recorded.share_percent, replayed.share_percent);
            return format!(
                "{name}: share {} recorded, {} replayed",
                percent(recorded),
                percent(replayed)
            );
        }
        format!(
            "{name}: share {} recorded, {} replayed; waited {}, {}; wait p99 {}, {}; worst wait {}, {}",
            percent(recorded.share_percent),
            percent(replayed.share_percent),
            percent(recorded.waited_percent),
            percent(replayed.waited_percent),
            format::time(recorded.wait_p99_ns),
            format::time(replayed.wait_p99_ns),
            format::time(recorded.worst_wait_ns),
            format::time(replayed.worst_wait_ns),
        )
    }
}

impl Replayed {
    fn of(domain: &DomainMeasure, elapsed_ns: u64) -> Replayed {
        let waits = &domain.time.waits;
        Replayed {
            share_percent: domain.share_percent,
            waited_percent: 100.0 * domain.time.waited_ns as f64 / elapsed_ns.max(1) as f64,
            wait_p99_ns: waits.p99_ns as f64,
            worst_wait_ns: waits.worst.as_ref().map_or(0, |worst| worst.length_ns) as f64,
        }
    }

    fn median(all: &[Replayed]) -> Option<Replayed> {
        let of = |value: fn(&Replayed) -> f64| median(all.iter().map(value).collect());
        Some(Replayed {
            share_percent: of(|it| it.share_percent)?,
            waited_percent: of(|it| it.waited_percent)?,
            wait_p99_ns: of(|it| it.wait_p99_ns)?,
            worst_wait_ns: of(|it| it.worst_wait_ns)?,
        })
    }
}

/// How many times the one is the other, at least 1.
pub fn factor(one: f64, other: f64) -> f64 {
    let (least, greatest) = (one.min(other), one.max(other));
    if greatest <= 0.0 { 1.0 } else { greatest / least.max(f64::MIN_POSITIVE) }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        1 => Some(values[middle]),
        _ if values.is_empty() => None,
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use steelyard_simulator::config::{Domain, Host, Setup};
    use steelyard_simulator::measure::{TimeMeasure, WorstWait};

    use super::*;
    use crate::results::{Comparison, PolicySummary};
    use crate::summary::summarise;

    const S: u64 = 1_000_000_000;
    const MS: u64 = 1_000_000;

    /// 10 s of domains with these shares in percent, p99 in ms and worst wait.
    fn run(policy: &str, seed: u64, domains: &[(&str, f64, f64)]) -> Run {
        let domain = |&(name, share_percent, p99_ms): &(&str, f64, f64)| {
            let gotten_ns = (share_percent / 100.0 * 10.0 * S as f64) as u64;
            let mut time = TimeMeasure { gotten_ns, ..TimeMeasure::default() };
            time.waited_ns = S;
            time.blocked_ns = 9 * S - gotten_ns.min(9 * S);
            time.waits.count = 100;
            time.waits.p99_ns = (p99_ms * MS as f64) as u64;
            let length_ns = 2 * time.waits.p99_ns;
            time.waits.worst = Some(WorstWait { length_ns, ..WorstWait::default() });
            DomainMeasure {
                name: name.to_owned(),
                weight: 256,
                cap_percent: 0,
                share_percent,
                entitlement_percent: share_percent,
                time,
                vcpus: vec![],
                tasks: vec![],
                unhonoured: vec![],
            }
        };
        Run {
            policy: policy.to_owned(),
            seed,
            elapsed_ns: 10 * S,
            scheduling_events: Default::default(),
            guest_steps: 0,
            fairness: 1.0,
            pcpus: vec![],
            domains: domains.iter().map(domain).collect(),
        }
    }

    /// A recording, replayed by its own scheduler and by another, whose p99 for `web` is this, in two seeds.
    fn comparison(other_ms: [f64; 2]) -> Comparison {
        let domains = vec![Domain::new("web", 1), Domain { weight: 2, ..Domain::new("batch", 1) }];
        let setup = Setup { host: Host::default(), domains };
        let summary = |label: &str| PolicySummary {
            label: label.to_owned(),
            policy: None,
            parameters: vec![],
            known: vec![],
        };
        let policies = vec![PolicySummary::recorded(), summary("own"), summary("other")];
        let mut comparison = Comparison::new("x", "x", 10 * S, vec![1, 2], &setup, policies);
        comparison.runs = vec![
            run("recorded", 0, &[("web", 20.0, 4.0), ("batch", 60.0, 10.0), ("tiny", 1.0, 1.0)]),
            run("own", 1, &[("web", 22.0, 5.0), ("batch", 57.0, 8.0), ("tiny", 1.0, 90.0)]),
            run("own", 2, &[("web", 24.0, 7.0), ("batch", 57.0, 8.0), ("tiny", 1.0, 90.0)]),
            run(
                "other",
                1,
                &[("web", 22.0, other_ms[0]), ("batch", 57.0, 8.0), ("tiny", 1.0, 1.0)],
            ),
            run(
                "other",
                2,
                &[("web", 22.0, other_ms[1]), ("batch", 57.0, 8.0), ("tiny", 1.0, 1.0)],
            ),
        ];
        let replays: Vec<&Run> = comparison.runs_of("own").collect();
        comparison.replay_error = ReplayError::of(&comparison.runs[0], &replays, "own", false);
        comparison
    }

    #[test]
    fn the_error_by_hand() {
        // web is 3 points off (23 by the median of two), batch 3; factors 6 / 4 and 10 / 8.
        let error = comparison([1.0, 1.0]).replay_error.unwrap();
        assert_eq!((error.share_mean_points, error.share_worst_points), (3.0, 3.0));
        assert_eq!((error.p99_median_factor, error.p99_worst_factor), (1.375, 1.5));
        assert_eq!(error.lines().len(), 2, "tiny does not count");
        assert!(error.verdict()[2].contains("MORE than"));
    }

    #[test]
    fn nobody_wins_inside_the_error() {
        // web: 6 ms of the own scheduler's; the error is a factor of 1.5.
        let verdict = |other_ms| {
            let verdicts = summarise(&comparison(other_ms)).verdicts;
            verdicts.into_iter().find(|verdict| verdict.starts_with("web")).unwrap()
        };
        assert!(verdict([4.2, 4.4]).contains("no policy differs"), "{}", verdict([4.2, 4.4]));
        assert!(verdict([2.0, 2.2]).contains("other serves it best"), "{}", verdict([2.0, 2.2]));
        // Three times as good in the median, but not in every seed.
        assert!(verdict([0.1, 5.5]).contains("no policy differs"), "{}", verdict([0.1, 5.5]));
    }

    #[test]
    fn nobody_wins_where_the_error_is_not_known() {
        let mut comparison = comparison([0.1, 0.1]);
        comparison.replay_error = None;
        let summary = summarise(&comparison);
        assert!(summary.verdicts.is_empty() && summary.replay[0].contains("`--own"));
        let cells = summary.sections.iter().flat_map(|section| &section.rows);
        assert!(!cells.flat_map(|row| &row.cells).any(|cell| cell.best));
    }
}
