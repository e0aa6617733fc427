// SPDX-License-Identifier: GPL-2.0-only
//! Searches for the settings that serve somebody's goals best (crate `steelyard-tune`).

use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use rayon::ThreadPool;
use steelyard_advise::Toolstack;
use steelyard_boundary::input::Input;
use steelyard_boundary::output::{Output, Stream};
use steelyard_experiment::Spread;
use steelyard_goal::{Direction, Goal, Host, Keep};
use steelyard_policy::Policy;
use steelyard_report::{ReplayError, factor};
use steelyard_scenario::{Diagnostic, LabelledPolicy, Loaded, Source, did_you_mean, policy};
use steelyard_simulator::Simulation;
use steelyard_simulator::config::Setup;
use steelyard_simulator::measure::Run;
use steelyard_tune::{Bench, Figures, Header, Outcome, Part, Question, State, Vary, Written, tune};

use crate::simulator::{Simulator, own, own_label};
use crate::{FIRST_SEED, RunError, Watch};

/// More settings are not tried: they are held in memory.
pub const MOST_SETTINGS: u32 = 5000;
/// Seeds of each setting in the search, where the command line asks for no other number.
const SEARCH_SEEDS: u32 = 3;
/// Seeds of the verdict at least.
const VERDICT_SEEDS: u32 = 10;
/// Seed of the search itself: what it draws is its own affair.
const SEED: u64 = 1;

/// What is asked, in somebody's words.
#[derive(Clone, Copy, Debug)]
pub struct Search<'a> {
    /// Figures to become as small as they can.
    pub minimise: &'a [String],
    /// And as great.
    pub maximise: &'a [String],
    /// What must hold.
    pub keep: &'a [String],
    /// What may be changed, by the names in [`Vary::ALL`].
    pub vary: &'a [String],
    /// Policies to choose from; none: all.
    pub policies: &'a [String],
    /// How many settings to try.
    pub settings: u32,
    /// Seeds of each.
    pub seeds: Option<u32>,
    /// File to keep the search in, and to go on from.
    pub state: Option<&'a Output>,
}

/// Searches; `path` is what people call the input.
///
/// # Errors
/// What is asked has no meaning here, the state cannot be read or written, or whoever watches wants an end.
pub fn search(
    path: &str,
    input: &Loaded,
    asked: &Search,
    pool: &ThreadPool,
    watch: &dyn Watch,
) -> Result<Outcome, RunError> {
    let now = own(input)?;
    let words = words(input, &now.policy)?;
    let (goals, keeps) = goals(asked, &Host { domains: &input.setup.domains, run: &words })?;
    let vary = vary(asked.vary)?;
    let policies = policies(asked, &vary)?;
    let simulator = Simulator { pool, watch, name: &input.name };
    let errors = errors(input, now, &goals, &simulator)?;
    let label = own_label(input, now);
    let question = Question {
        setup: &input.setup,
        policy: &now.policy,
        label: &label,
        input: path,
        toolstack: Toolstack::of(now.policy.discipline().name),
        goals: &goals,
        keeps: &keeps,
        vary: &vary,
        policies: &policies,
        settings: asked.settings as usize,
        seed: SEED,
        errors: errors.as_deref(),
    };
    let seeds = asked.seeds.unwrap_or(SEARCH_SEEDS);
    let times = Times::of(input);
    let header = Header::new(&question, seeds, times.search_ns);
    // Whatever ends the process, what was written can be read.
    let never = AtomicBool::new(false);
    let kept = asked.state.map(|output| Kept::open(output, &header, &never)).transpose()?;
    let mut bench = Simulated { simulator, seeds: seeds.into(), times, kept, left: 0 };
    bench.begin(asked.settings);
    let outcome = tune(&question, &mut bench)?;
    if let Some(Kept { stream, path, .. }) = bench.kept.take() {
        stream.finish().map_err(|error| RunError::write(path, error))?;
    }
    Ok(outcome)
}

/// A run that has not begun, by which goals are read. What workloads say of themselves nobody recorded.
fn words(input: &Loaded, policy: &Policy) -> Result<Run, RunError> {
    let mut run = Simulation::new(&input.setup, policy, FIRST_SEED)
        .map_err(|error| Diagnostic::of_file(&input.name, error.to_string()))?
        .measure();
    if input.recorded.is_some() {
        run.domains.iter_mut().for_each(|domain| domain.tasks.clear());
    }
    Ok(run)
}

fn goals(asked: &Search, host: &Host<'_>) -> Result<(Vec<Goal>, Vec<Keep>), RunError> {
    let twice = |text: &&String| asked.minimise.iter().any(|other| other.trim() == text.trim());
    if let Some(text) = asked.maximise.iter().find(twice) {
        let both =
            Source::new("--maximise", text).error(0..text.len(), "this is to be minimised, too");
        return Err(both.with_help("leave one of the two out").into());
    }
    let minimise = asked.minimise.iter().map(|text| (Direction::Minimise, text));
    let maximise = asked.maximise.iter().map(|text| (Direction::Maximise, text));
    let goals = minimise.chain(maximise).map(|(way, text)| Goal::parse(way, text, host));
    let keeps = asked.keep.iter().map(|text| Keep::parse(text, host));
    Ok((goals.collect::<Result<_, _>>()?, keeps.collect::<Result<_, _>>()?))
}

fn policies(asked: &Search, vary: &[Vary]) -> Result<Vec<Policy>, RunError> {
    if !asked.policies.is_empty() && !vary.contains(&Vary::Policy) {
        let message = "nothing is chosen from these: `policy` is not among what is varied";
        return Err(Diagnostic::of_file("--policy", message)
            .with_help("add it to `--vary`")
            .into());
    }
    let policies = asked.policies.iter().map(|name| policy(name, &[]));
    Ok(policies.collect::<Result<_, _>>()?)
}

/// In the order of [`Vary::ALL`].
fn vary(names: &[String]) -> Result<Vec<Vary>, Diagnostic> {
    let known = Vary::ALL.map(|(name, _)| name);
    if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
        let message = format!("nothing is called `{name}`{}", did_you_mean(name, known));
        let source = Source::new("--vary", name);
        return Err(source.error(0..name.len(), message).with_known(known));
    }
    let asked = Vary::ALL.into_iter().filter(|(name, _)| names.iter().any(|it| it == name));
    Ok(asked.map(|(_, vary)| vary).collect())
}

/// By what factor replays of the host as it is are off from what was recorded, for each goal: as in a comparison, for
/// this figure, or that of the 99th percentiles in the median, if that is greater. None if nothing was recorded.
fn errors(
    input: &Loaded,
    now: &LabelledPolicy,
    goals: &[Goal],
    simulator: &Simulator,
) -> Result<Option<Vec<f64>>, RunError> {
    let Some(recorded) = &input.recorded else { return Ok(None) };
    let Some(own) = &input.own else { return Ok(Some(vec![f64::INFINITY; goals.len()])) };
    simulator.watch.begin("Replaying", Some(VERDICT_SEEDS.into()));
    let seeds = FIRST_SEED..FIRST_SEED + u64::from(VERDICT_SEEDS);
    let setup = input.as_recorded.as_ref().unwrap_or(&input.setup);
    let host = [(setup, &now.policy)];
    let runs = simulator.run(&host, seeds, |simulation| {
        simulation.run_watched(input.length.0, |_| simulator.watch.wanted())?;
        Ok(Run { policy: now.label.clone(), ..simulation.measure() })
    })?;
    let runs = runs.into_iter().next().unwrap_or_default();
    let replays: Vec<&Run> = runs.iter().collect();
    let usual = ReplayError::of(recorded, &replays, &own.label, own.assumed);
    let usual = usual.map_or(f64::INFINITY, |error| error.p99_median_factor);
    // What is recorded may be in another order, and lack somebody.
    let same = |name: &str| recorded.domains.iter().find(|domain| domain.name == name);
    let domains: Option<Vec<_>> =
        setup.domains.iter().map(|domain| same(&domain.name).cloned()).collect();
    let recorded = domains.map(|domains| Run { domains, ..recorded.clone() });
    let of_goal = |goal: &Goal| {
        let replayed: Option<Vec<f64>> = runs.iter().map(|run| goal.value(run)).collect();
        let off = factor(goal.value(recorded.as_ref()?)?, Spread::of(&replayed?)?.median);
        Some(off.max(usual))
    };
    Ok(Some(goals.iter().map(|goal| of_goal(goal).unwrap_or(f64::INFINITY)).collect()))
}

/// What is simulated for the search, and for the verdict: of a recording the earlier half and the later, of a scenario
/// all of it both times.
#[derive(Clone, Copy)]
struct Times {
    search_ns: u64,
    verdict_from_ns: u64,
    end_ns: u64,
}

impl Times {
    fn of(input: &Loaded) -> Times {
        let end_ns = input.length.0;
        match input.recorded {
            Some(_) => Times { search_ns: end_ns / 2, verdict_from_ns: end_ns / 2, end_ns },
            None => Times { search_ns: end_ns, verdict_from_ns: 0, end_ns },
        }
    }
}

/// Simulates, and keeps what it was told to keep.
struct Simulated<'a> {
    simulator: Simulator<'a>,
    /// Of each setting in the search.
    seeds: u64,
    times: Times,
    kept: Option<Kept<'a>>,
    /// Runs that are left of the search.
    left: u64,
}

impl Simulated<'_> {
    fn begin(&mut self, settings: u32) {
        let known = self.kept.as_ref().map_or(0, |kept| kept.known.len() as u64);
        self.left = (u64::from(settings).saturating_sub(known) + 1) * self.seeds;
        self.simulator.watch.begin("Searching", Some(self.left));
    }

    fn seeds(&self, part: Part) -> Range<u64> {
        let first_unseen = FIRST_SEED + self.seeds;
        match part {
            Part::Search => FIRST_SEED..first_unseen,
            Part::Verdict => first_unseen..first_unseen + self.seeds.max(VERDICT_SEEDS.into()),
        }
    }
}

impl Bench for Simulated<'_> {
    type Error = RunError;

    fn simulate(
        &mut self,
        hosts: &[(&Setup, &Policy)],
        part: Part,
    ) -> Result<Vec<Vec<Run>>, RunError> {
        let Times { search_ns, verdict_from_ns, end_ns } = self.times;
        // Which changes matter is found by settings more than were asked for.
        if part == Part::Verdict || self.left == 0 {
            self.simulator.watch.begin("Judging", None);
        }
        self.left = self.left.saturating_sub(hosts.len() as u64 * self.seeds);
        let wanted = |_| self.simulator.watch.wanted();
        self.simulator.run(hosts, self.seeds(part), |simulation| match part {
            Part::Search => {
                simulation.run_watched(search_ns, wanted)?;
                Ok(small(simulation.measure()))
            }
            Part::Verdict => {
                simulation.run_watched(verdict_from_ns, wanted)?;
                let seen = (verdict_from_ns > 0).then(|| simulation.measure());
                simulation.run_watched(end_ns, wanted)?;
                Ok(small(match seen {
                    Some(seen) => simulation.measure_since(&seen),
                    None => simulation.measure(),
                }))
            }
        })
    }

    fn recall(&mut self, setting: &Written) -> Option<Figures> {
        self.kept.as_ref()?.known.recall(setting).cloned()
    }

    fn note(&mut self, setting: &Written, figures: &Figures) -> Result<(), RunError> {
        let Some(kept) = &mut self.kept else { return Ok(()) };
        if kept.known.recall(setting).is_some() {
            return Ok(());
        }
        let written = State::line(setting, figures, &mut kept.stream);
        written
            .and_then(|()| kept.stream.flush())
            .map_err(|error| RunError::write(kept.path, error))
    }
}

/// Without what no goal asks for, since many runs are held at a time.
fn small(mut run: Run) -> Run {
    for domain in &mut run.domains {
        domain.vcpus = vec![];
        domain.time.waits.histogram = vec![];
    }
    run
}

/// The state of the search in a file: what it said, and what is written of it as the search goes on.
struct Kept<'a> {
    path: &'a Path,
    known: State,
    stream: Stream<'a>,
}

impl<'a> Kept<'a> {
    fn open(
        output: &'a Output,
        header: &Header,
        asked: &'a AtomicBool,
    ) -> Result<Kept<'a>, RunError> {
        let path = output.paths()[0].as_path();
        let known = match path.is_file() {
            true => {
                let name = path.display().to_string();
                let failed = |error| Diagnostic::of_file(&name, format!("cannot be read: {error}"));
                State::read(&name, &mut Input::open(path).map_err(failed)?, header)?
            }
            false => State::default(),
        };
        let mut stream = output.stream(asked)?;
        let mut text = vec![];
        let written = known.write(header, &mut text).and_then(|()| stream.write_all(&text));
        written.and_then(|()| stream.flush()).map_err(|error| RunError::write(path, error))?;
        Ok(Kept { path, known, stream })
    }
}
