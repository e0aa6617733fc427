// SPDX-License-Identifier: GPL-2.0-only
//! Every policy with every seed on every input.

use rayon::ThreadPool;
use rayon::prelude::*;
use steelyard_report::{Comparison, PolicySummary, ReplayError, Results, RunTrace};
use steelyard_scenario::{Diagnostic, LabelledPolicy, Loaded};
use steelyard_simulator::Simulation;
use steelyard_simulator::config::Setup;
use steelyard_simulator::measure::Run;
use steelyard_simulator::units::Nanoseconds;

use crate::{FIRST_SEED, RunError, Watch, own};

/// Runs every policy with every seed on every input; `sources` are the names of their files, without directories.
///
/// # Errors
/// A host that cannot be simulated, or whoever watches wants an end.
pub fn compare(
    sources: &[String],
    inputs: &[Loaded],
    pool: &ThreadPool,
    watch: &dyn Watch,
) -> Result<Results, RunError> {
    let jobs = inputs.iter().enumerate().flat_map(|(number, input)| {
        every_run(number, input).chain(runs_as_recorded(number, input))
    });
    let runs = run_all(pool, watch, "Simulating", jobs.collect(), |job, mut simulation| Run {
        policy: job.policy.label.clone(),
        ..simulation.measure()
    })?;
    Ok(results(sources, inputs, runs))
}

/// The first seed of every policy once more, as far as needed to see its worst wait.
///
/// # Errors
/// As those of [`compare`].
pub fn trace_worst_waits(
    inputs: &[Loaded],
    results: &Results,
    pool: &ThreadPool,
    watch: &dyn Watch,
) -> Result<Vec<RunTrace>, RunError> {
    let compared = inputs.iter().zip(&results.comparisons).enumerate();
    let jobs = compared
        .flat_map(|(number, (input, measured))| around_worst_waits(number, input, measured));
    run_all(pool, watch, "Tracing the worst waits", jobs.collect(), |job, mut simulation| {
        RunTrace {
            comparison: job.comparison,
            policy: job.policy.label.clone(),
            seed: job.seed,
            trace: simulation.take_trace(),
        }
    })
}

/// One simulation.
struct Job<'a> {
    /// Index of the input.
    comparison: usize,
    input: &'a Loaded,
    setup: &'a Setup,
    policy: &'a LabelledPolicy,
    seed: u64,
    end_ns: u64,
    /// Beginning of what is traced, up to the end.
    trace_from_ns: Option<u64>,
}

/// By policy, then by seed.
fn every_run(comparison: usize, input: &Loaded) -> impl Iterator<Item = Job<'_>> {
    input.policies.iter().flat_map(move |policy| {
        seeds(input).map(move |seed| whole_run(comparison, input, &input.setup, policy, seed))
    })
}

/// By the host's own scheduler, where `every_run` is of a host that was changed.
fn runs_as_recorded(comparison: usize, input: &Loaded) -> impl Iterator<Item = Job<'_>> {
    let host = input.as_recorded.as_ref().zip(own(input).ok());
    host.into_iter().flat_map(move |(setup, policy)| {
        seeds(input).map(move |seed| whole_run(comparison, input, setup, policy, seed))
    })
}

fn whole_run<'a>(
    comparison: usize,
    input: &'a Loaded,
    setup: &'a Setup,
    policy: &'a LabelledPolicy,
    seed: u64,
) -> Job<'a> {
    Job { comparison, input, setup, policy, seed, end_ns: input.length.0, trace_from_ns: None }
}

fn seeds(input: &Loaded) -> impl Iterator<Item = u64> + use<> {
    (FIRST_SEED..).take(input.seeds as usize)
}

fn around_worst_waits<'a>(
    comparison: usize,
    input: &'a Loaded,
    measured: &Comparison,
) -> Vec<Job<'a>> {
    let job = |policy: &'a LabelledPolicy| {
        let run = measured.runs_of(&policy.label).find(|run| run.seed == FIRST_SEED)?;
        let (start_ns, end_ns) = window(run);
        Some(Job {
            comparison,
            input,
            setup: &input.setup,
            policy,
            seed: run.seed,
            end_ns,
            trace_from_ns: Some(start_ns),
        })
    };
    input.policies.iter().filter_map(job).collect()
}

/// A trace covers no more than this, and no more switches than about so many: it is to be looked at.
const MOST_TRACED_NS: u64 = 1_000_000_000;
const MOST_TRACED_SWITCHES: u64 = 50_000;

/// The time around the worst wait of a run, from beginning to end: with the wait in the middle, or,
/// if it does not fit, with its end. Waits for a CPU come before those for a cap or reservation.
fn window(run: &Run) -> (u64, u64) {
    let vcpus = run.domains.iter().flat_map(|domain| &domain.vcpus);
    let worst = vcpus
        .filter_map(|vcpu| Some((vcpu.time.parked_ns == 0, vcpu.time.waits.worst.as_ref()?)))
        .max_by_key(|(unparked, wait)| (*unparked, wait.length_ns))
        .map(|(_, wait)| wait.clone())
        .unwrap_or_default();
    let switches_ns = u128::from(run.elapsed_ns) * u128::from(MOST_TRACED_SWITCHES)
        / u128::from(run.scheduling_events.switches.max(1));
    let length_ns = switches_ns.min(MOST_TRACED_NS.min(run.elapsed_ns).into()) as u64;
    let shown_ns = worst.length_ns.min(length_ns / 10 * 9);
    let end_ns = (worst.start_ns + worst.length_ns)
        .saturating_add((length_ns - shown_ns) / 2)
        .clamp(length_ns, run.elapsed_ns);
    (end_ns - length_ns, end_ns)
}

/// Runs all jobs, with the results in their order.
fn run_all<'a, T: Send>(
    pool: &ThreadPool,
    watch: &dyn Watch,
    what: &'static str,
    jobs: Vec<Job<'a>>,
    result: impl Fn(&Job<'a>, Simulation) -> T + Sync,
) -> Result<Vec<T>, RunError> {
    watch.begin(what, Some(jobs.iter().map(Job::work).sum()));
    pool.install(|| {
        jobs.par_iter().with_max_len(1).map(|job| Ok(result(job, job.simulate(watch)?))).collect()
    })
}

impl Job<'_> {
    /// What it costs, for the progress bar.
    fn work(&self) -> u64 {
        let events = self.setup.estimated_events(Nanoseconds(self.end_ns));
        u64::try_from(events).unwrap_or(u64::MAX / 2).max(1)
    }

    fn simulate(&self, watch: &dyn Watch) -> Result<Simulation, RunError> {
        let mut simulation = Simulation::new(self.setup, &self.policy.policy, self.seed)
            .map_err(|error| Diagnostic::of_file(&self.input.name, error.to_string()))?;
        if let Some(start_ns) = self.trace_from_ns {
            simulation.trace(start_ns, self.end_ns);
        }
        let work = self.work();
        let mut done = 0;
        simulation.run_watched(self.end_ns, |now_ns| {
            let part = u128::from(work) * u128::from(now_ns) / u128::from(self.end_ns.max(1));
            let before = std::mem::replace(&mut done, part as u64);
            watch.done(done - before)
        })?;
        watch.done(work - done)?;
        Ok(simulation)
    }
}

fn results(sources: &[String], inputs: &[Loaded], runs: Vec<Run>) -> Results {
    let mut runs = runs.into_iter();
    let comparisons = sources.iter().zip(inputs).map(|(source, input)| {
        let recorded = input.recorded.as_ref();
        let policies = recorded
            .map(|_| PolicySummary::recorded())
            .into_iter()
            .chain(input.policies.iter().map(|p| PolicySummary::new(&p.label, &p.policy)))
            .collect();
        let mut comparison = Comparison::new(
            &input.name,
            source.clone(),
            input.length.0,
            seeds(input).collect(),
            &input.setup,
            policies,
        );
        let count = input.policies.len() * input.seeds as usize;
        comparison.runs.extend(recorded.cloned().into_iter().chain(runs.by_ref().take(count)));
        comparison.assumed.clone_from(&input.assumed);
        comparison.described.clone_from(&input.known);
        let as_recorded: Vec<Run> =
            runs.by_ref().take(runs_as_recorded(0, input).count()).collect();
        comparison.replay_error = recorded.zip(input.own.as_ref()).and_then(|(recorded, own)| {
            let replays: Vec<&Run> = match input.as_recorded {
                Some(_) => as_recorded.iter().collect(),
                None => comparison.runs_of(&own.label).collect(),
            };
            ReplayError::of(recorded, &replays, &own.label, own.assumed)
        });
        comparison
    });
    Results::new(comparisons.collect())
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use steelyard_scenario::{Options, load_text};
    use steelyard_simulator::measure::{
        DomainMeasure, SchedulingEvents, TimeMeasure, VcpuMeasure, WorstWait,
    };

    use super::*;
    use crate::within_memory;

    /// A run of domains with one vCPU each, given by time parked, and start and length of the worst
    /// wait.
    fn run(elapsed_ns: u64, switches: u64, waits: &[(u64, u64, u64)]) -> Run {
        let domain = |&(parked_ns, start_ns, length_ns): &(u64, u64, u64)| {
            let mut time = TimeMeasure { parked_ns, ..TimeMeasure::default() };
            time.waits.worst = Some(WorstWait { start_ns, length_ns, ..WorstWait::default() });
            DomainMeasure {
                name: String::new(),
                weight: 256,
                cap_percent: 0,
                share_percent: 0.0,
                entitlement_percent: 0.0,
                time: time.clone(),
                vcpus: vec![VcpuMeasure { time }],
                tasks: vec![],
                unhonoured: vec![],
            }
        };
        Run {
            policy: String::new(),
            seed: FIRST_SEED,
            elapsed_ns,
            scheduling_events: SchedulingEvents { switches, ..SchedulingEvents::default() },
            guest_steps: 0,
            fairness: 1.0,
            pcpus: vec![],
            domains: waits.iter().map(domain).collect(),
        }
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn a_window_lies_in_the_run_and_shows_the_wait() {
        for elapsed_ns in [1, 7, MS, 900 * MS, 1_000 * MS, 60_000 * MS] {
            for switches in [0, 1, 10_000, 1_000_000_000] {
                for start_ns in [0, elapsed_ns / 2, elapsed_ns - 1] {
                    for length_ns in [1, (elapsed_ns - start_ns) / 2, elapsed_ns - start_ns] {
                        let run = run(elapsed_ns, switches, &[(0, start_ns, length_ns)]);
                        let (from_ns, to_ns) = window(&run);
                        assert!(from_ns <= to_ns && to_ns <= elapsed_ns);
                        let traced_ns = to_ns - from_ns;
                        assert!(traced_ns <= MOST_TRACED_NS);
                        assert!(to_ns >= start_ns + length_ns, "its end is shown");
                        if length_ns <= traced_ns / 10 * 9 {
                            assert!(from_ns <= start_ns, "it is shown as a whole");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn large_runs_are_not_all_at_once() {
        let input = |vcpus: u32| {
            let text = format!("name = 'x'\n[[domain]]\nname = 'a'\ncount = 10\nvcpus = {vcpus}\n");
            load_text("x", &text, &Options::default()).unwrap()
        };
        let wanted = NonZeroUsize::new(64);
        assert_eq!(within_memory(wanted, &[input(1)]), wanted);
        // 10,240 vCPUs take some 140 MiB.
        let at_once = within_memory(wanted, &[input(1), input(1024)]).map(usize::from);
        assert!(matches!(at_once, Some(2..=4)), "{at_once:?}");
    }

    #[test]
    fn steps_change_nothing() {
        let scenario = r#"
            name = "steps"
            length = "777777777 ns"
            [[domain]]
            name = "a"
            count = 3
            [[domain.task]]
            workload.busy = { compute = "3 ms", sleep = "2 ms", jitter_percent = 30 }
        "#;
        let input = load_text("steps", scenario, &Options::default()).unwrap();
        for job in every_run(0, &input) {
            let mut whole = Simulation::new(&input.setup, &job.policy.policy, job.seed).unwrap();
            whole.run_until(job.end_ns);
            let mut in_steps = job.simulate(&()).unwrap();
            assert_eq!(in_steps.measure(), whole.measure());
        }
    }

    #[test]
    fn waits_for_a_cpu_come_before_those_for_a_cap() {
        let waits = [(500 * MS, 1_000 * MS, 300 * MS), (0, 20_000 * MS, 40 * MS), (0, 0, 10 * MS)];
        assert_eq!(window(&run(60_000 * MS, 1, &waits)), (19_520 * MS, 20_520 * MS));
        assert_eq!(window(&run(60_000 * MS, 1, &waits[..1])), (650 * MS, 1_650 * MS));
        assert_eq!(window(&run(60_000 * MS, 1, &[])), (0, 1_000 * MS));
    }
}
