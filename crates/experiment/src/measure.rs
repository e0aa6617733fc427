// SPDX-License-Identifier: GPL-2.0-only
//! From runs to the figures that claims speak of.

use serde::{Deserialize, Serialize};
use steelyard_simulator::Simulation;
use steelyard_simulator::measure::{DomainMeasure, Run, TaskMeasure as TaskFigures};

use crate::experiment::matches;
use crate::file::{HostMeasure, Metric, Over, TimeMeasure};

/// A figure over seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The middle one; of an even number the mean of both.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The greatest.
    pub greatest: f64,
}

impl Spread {
    /// Of at least one value.
    pub fn of(values: &[f64]) -> Option<Spread> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (&least, &greatest) = (sorted.first()?, sorted.last()?);
        let middle = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            0 => (sorted[middle - 1] + sorted[middle]) / 2.0,
            _ => sorted[middle],
        };
        Some(Spread { median, least, greatest })
    }
}

/// The multiples of `every_ns` before the end.
pub(crate) fn steps(every_ns: u64, end_ns: u64) -> impl Iterator<Item = u64> {
    (1..).map(move |number| number * every_ns).take_while(move |&step| step < end_ns)
}

impl Metric {
    /// Its figures in one run, measured at the ends of the parts of its time, `snapshots`: one, or
    /// of a series one per interval. None where there is nothing to measure.
    pub(crate) fn evaluate(&self, snapshots: &[Run]) -> Vec<Option<f64>> {
        let at = |time_ns: u64| snapshots.iter().find(|run| run.elapsed_ns == time_ns);
        let Some(end) = snapshots.last() else { return vec![] };
        match self.every {
            None => {
                let before = (self.from.0 > 0).then(|| at(self.from.0));
                vec![match before {
                    Some(None) => None,
                    before => self.between(before.flatten(), end),
                }]
            }
            Some(every) => (1..=end.elapsed_ns / every.0)
                .map(|number| {
                    let before = if number == 1 { None } else { Some(at((number - 1) * every.0)?) };
                    self.between(before, at(number * every.0)?)
                })
                .collect(),
        }
    }

    /// Whether there are such tasks, and each has such a value by now.
    pub(crate) fn is_known(&self, simulation: &Simulation) -> bool {
        let pattern = self.domain.as_deref().unwrap_or_default();
        let tasks = simulation.tasks().filter(|(domain, _)| matches(pattern, domain));
        let tasks = tasks.flat_map(|(_, tasks)| tasks);
        let mut tasks = tasks.filter(|task| Some(&task.name) == self.task.as_ref()).peekable();
        let value = self.value.as_deref().unwrap_or_default();
        tasks.peek().is_some() && tasks.all(|task| figure(&task, value).is_some())
    }

    /// The times at which a run must be measured, its end not counted.
    pub(crate) fn stops(&self, length_ns: u64) -> impl Iterator<Item = u64> + use<> {
        let every = self.every.map_or(length_ns, |every| every.0);
        let from = self.from.0;
        steps(every, length_ns).chain((from > 0 && from < length_ns).then_some(from))
    }

    /// Its unit, as far as it is not the workload's.
    pub(crate) fn unit(&self, run: &Run) -> Option<String> {
        let own = match (self.host, self.time) {
            (Some(HostMeasure::IdlePercent), _) => "percent",
            (Some(HostMeasure::Fairness), _) => "",
            (Some(HostMeasure::SwitchesPerS), _) => "1/s",
            (
                _,
                Some(
                    TimeMeasure::SharePercent
                    | TimeMeasure::SpunPercent
                    | TimeMeasure::WaitedPercent,
                ),
            ) => "percent",
            (_, Some(TimeMeasure::WorstWaitMs | TimeMeasure::WaitP99Ms)) => "ms",
            (None, None) => {
                let tasks = self.domains(run).flat_map(|domain| &domain.tasks);
                let mut values = tasks
                    .filter(|task| Some(&task.name) == self.task.as_ref())
                    .flat_map(|task| &task.values);
                return Some(
                    values.find(|value| Some(&value.name) == self.value.as_ref())?.unit.clone(),
                );
            }
        };
        Some(own.to_owned())
    }

    fn domains<'a>(&'a self, run: &'a Run) -> impl Iterator<Item = &'a DomainMeasure> {
        let pattern = self.domain.as_deref().unwrap_or_default();
        run.domains.iter().filter(move |domain| matches(pattern, &domain.name))
    }

    fn between(&self, before: Option<&Run>, end: &Run) -> Option<f64> {
        if let Some(measure) = self.host {
            return Some(of_host(measure, end));
        }
        let mut values = vec![];
        for domain in self.domains(end) {
            let earlier = before
                .and_then(|run| run.domains.iter().find(|earlier| earlier.name == domain.name));
            match self.time {
                Some(measure) => {
                    let elapsed_ns = end.elapsed_ns - before.map_or(0, |run| run.elapsed_ns);
                    values.push(of_domain(measure, domain, earlier, elapsed_ns));
                }
                // What one of them could not measure is not known of all.
                None => values.extend(self.of_tasks(domain, end, earlier.zip(before))?),
            }
        }
        let sum = || values.iter().sum::<f64>();
        if values.is_empty() {
            return None;
        }
        Some(match self.over {
            Over::Sum => sum(),
            Over::Mean => sum() / values.len() as f64,
            Over::Max => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            Over::Min => values.iter().copied().fold(f64::INFINITY, f64::min),
        })
    }
}

impl Metric {
    /// The figures that the domain's tasks report; where one has nothing to measure, none.
    fn of_tasks(
        &self,
        domain: &DomainMeasure,
        end: &Run,
        before: Option<(&DomainMeasure, &Run)>,
    ) -> Option<Vec<f64>> {
        let tasks = domain.tasks.iter().enumerate();
        let named = tasks.filter(|(_, task)| Some(&task.name) == self.task.as_ref());
        let mut values = vec![];
        for (index, task) in named {
            let value = self.value.as_deref().unwrap_or_default();
            let end_s = end.elapsed_ns as f64 / 1e9;
            let later = figure(task, value)?;
            let Some((earlier, run)) = before else {
                values.push(later);
                continue;
            };
            let begin_s = run.elapsed_ns as f64 / 1e9;
            let earlier = earlier.tasks.get(index)?;
            // Of nothing there is no mean yet, and what was not counted weighs nothing.
            let before = figure(earlier, value).unwrap_or(0.0);
            let (weight, weight_before) = match &self.per {
                Some(rate) => (figure(task, rate)? * end_s, figure(earlier, rate)? * begin_s),
                // A rate is itself a mean over time.
                None => (end_s, begin_s),
            };
            let gained = weight - weight_before;
            let mean = (gained > 0.0).then(|| (later * weight - before * weight_before) / gained);
            values.push(mean?);
        }
        Some(values)
    }
}

fn figure(task: &TaskFigures, name: &str) -> Option<f64> {
    task.values.iter().find(|value| value.name == name)?.value
}

pub(crate) fn of_host(measure: HostMeasure, run: &Run) -> f64 {
    let elapsed_ns = run.elapsed_ns.max(1) as f64;
    match measure {
        HostMeasure::IdlePercent => {
            100.0 * run.pcpus.iter().map(|pcpu| pcpu.idle_ns).sum::<u64>() as f64 / elapsed_ns
        }
        HostMeasure::Fairness => run.fairness,
        HostMeasure::SwitchesPerS => run.scheduling_events.switches as f64 / elapsed_ns * 1e9,
    }
}

fn of_domain(
    measure: TimeMeasure,
    domain: &DomainMeasure,
    earlier: Option<&DomainMeasure>,
    elapsed_ns: u64,
) -> f64 {
    let percent = |ns: u64| 100.0 * ns as f64 / elapsed_ns.max(1) as f64;
    let waits = &domain.time.waits;
    match measure {
        TimeMeasure::SharePercent => {
            percent(domain.time.gotten_ns - earlier.map_or(0, |earlier| earlier.time.gotten_ns))
        }
        TimeMeasure::WorstWaitMs => {
            waits.worst.as_ref().map_or(0.0, |wait| wait.length_ns as f64 / 1e6)
        }
        TimeMeasure::WaitP99Ms => waits.p99_ns as f64 / 1e6,
        TimeMeasure::WaitedPercent => percent(domain.time.waited_ns),
        TimeMeasure::SpunPercent => percent(domain.time.spun_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(Spread::of(&[]), None);
        let spread = |median, least, greatest| Some(Spread { median, least, greatest });
        assert_eq!(Spread::of(&[3.0]), spread(3.0, 3.0, 3.0));
        assert_eq!(Spread::of(&[9.0, 1.0, 2.0]), spread(2.0, 1.0, 9.0));
        assert_eq!(Spread::of(&[4.0, 1.0, 9.0, 2.0]), spread(3.0, 1.0, 9.0));
    }
}
