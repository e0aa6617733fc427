// SPDX-License-Identifier: GPL-2.0-only
//! `steelyard tune`: the settings that serve somebody's goals best (crate `steelyard-tune`).

use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use steelyard_advise::Toolstack;
use steelyard_boundary::input::Input;
use steelyard_boundary::output::{Output, Stream, WriteFile};
use steelyard_boundary::text::told;
use steelyard_experiment::Spread;
use steelyard_goal::{Direction, Goal, Keep};
use steelyard_policy::Policy;
use steelyard_report::{Comparison, PolicySummary, ReplayError, factor};
use steelyard_scenario::{Diagnostic, LabelledPolicy, Loaded, load, policy};
use steelyard_simulator::Simulation;
use steelyard_simulator::config::Setup;
use steelyard_simulator::measure::Run;
use steelyard_tune::{
    Bench, Figures, Header, Outcome, Part, Question, State, Vary, Written, text, tune, write_csv,
    write_page,
};

use crate::arguments::Tune;
use crate::compare::{FIRST_SEED, pool, within_memory};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::simulate::{Simulator, options, own, own_label};
use crate::terminal;

/// Seeds of each setting in the search, where the command line asks for no other number.
const SEARCH_SEEDS: u32 = 3;
/// Seeds of the verdict at least.
const VERDICT_SEEDS: u32 = 10;
/// Seed of the search itself: what it draws is its own affair.
const SEED: u64 = 1;

pub fn run(arguments: &Tune, interrupt: &Interrupt) -> Result<(), Failure> {
    let input = load(&arguments.input, &options(&arguments.simulated))?;
    let files = Files::new(arguments, &input)?;
    let now = own(&input)?;
    let (goals, keeps) = goals(arguments, &words(&input, &now.policy)?)?;
    let vary = vary(&arguments.vary);
    let policies = policies(arguments, &vary)?;
    let pool = pool(within_memory(arguments.simulated.threads, std::slice::from_ref(&input)))?;
    let simulator = Simulator { pool, bar: terminal::bar(), name: &input.name };
    interrupt.set_bar(&simulator.bar);
    let errors = errors(&input, now, &goals, &simulator)?;
    let label = own_label(&input, now);
    let question = Question {
        setup: &input.setup,
        policy: &now.policy,
        label: &label,
        input: &arguments.input.to_string_lossy(),
        toolstack: Toolstack::of(now.policy.discipline().name),
        goals: &goals,
        keeps: &keeps,
        vary: &vary,
        policies: &policies,
        settings: arguments.settings as usize,
        seed: SEED,
        errors: errors.as_deref(),
    };
    let outcome = search(arguments, &input, &question, &files, simulator)?;
    files.write(&outcome, &told(&arguments.input).to_string(), interrupt)?;
    print(&outcome, &told(&arguments.input).to_string(), arguments)
}

/// Searches, and keeps the search in its file.
fn search(
    arguments: &Tune,
    input: &Loaded,
    question: &Question,
    files: &Files,
    simulator: Simulator,
) -> Result<Outcome, Failure> {
    let seeds = arguments.simulated.seeds.map_or(SEARCH_SEEDS, u32::from);
    let times = Times::of(input);
    let header = Header::new(question, seeds, times.search_ns);
    // Whatever ends the process, what was written can be read.
    let never = AtomicBool::new(false);
    let kept =
        files.state.as_ref().map(|output| Kept::open(output, &header, &never)).transpose()?;
    let mut bench = Simulated { simulator, seeds: seeds.into(), times, kept };
    bench.begin(arguments.settings);
    let outcome = tune(question, &mut bench)?;
    if let Some(Kept { stream, path, .. }) = bench.kept.take() {
        stream.finish().map_err(|error| Failure::write(path, error))?;
    }
    bench.simulator.bar.finish_and_clear();
    Ok(outcome)
}

/// What is written; it was looked at before the work, and nothing was changed.
struct Files {
    state: Option<Output>,
    csv: Option<Output>,
    page: Option<Output>,
    plan: Option<Output>,
}

impl Files {
    fn new(arguments: &Tune, input: &Loaded) -> Result<Files, Failure> {
        let mut read = input.recordings.clone();
        read.push(arguments.input.clone());
        let file = |path: &Option<PathBuf>| {
            path.as_ref().map(|path| Output::file(path, &read)).transpose()
        };
        Ok(Files {
            state: file(&arguments.state)?,
            csv: file(&arguments.csv)?,
            page: file(&arguments.page)?,
            plan: file(&arguments.plan)?,
        })
    }

    /// All but the state, which was written as the search went on.
    fn write(&self, outcome: &Outcome, input: &str, interrupt: &Interrupt) -> Result<(), Failure> {
        let plan = outcome.proposals.first().and_then(|best| best.plan.as_deref());
        let mut files: Vec<(&Output, WriteFile)> = vec![];
        files.extend(self.csv.iter().map(|to| (to, contents(|file| write_csv(outcome, file)))));
        files.extend(
            self.page.iter().map(|to| (to, contents(|file| write_page(outcome, input, file)))),
        );
        files.extend(
            self.plan
                .iter()
                .zip(plan)
                .map(|(to, plan)| (to, contents(|file| file.write_all(plan.as_bytes())))),
        );
        let paths: Vec<_> = files.iter().flat_map(|(to, _)| to.paths()).collect();
        interrupt.while_writing(|asked| {
            for (to, contents) in &mut files {
                to.write(std::slice::from_mut(contents), asked)?;
            }
            Ok(())
        })?;
        for path in paths {
            terminal::note(&format!("wrote {}", told(path)));
        }
        if self.plan.is_some() && plan.is_none() {
            terminal::note(
                "no plan was written: no gain changes weights, caps or slices of domains",
            );
        }
        Ok(())
    }
}

/// Closures need to be told that they take any writer.
fn contents<'a>(write: impl FnMut(&mut dyn Write) -> std::io::Result<()> + 'a) -> WriteFile<'a> {
    Box::new(write)
}

fn print(outcome: &Outcome, input: &str, arguments: &Tune) -> Result<(), Failure> {
    if !arguments.json {
        return terminal::print(&text(outcome, input, arguments.all));
    }
    let text = serde_json::to_string_pretty(outcome)
        .map_err(|error| Failure::System { what: "write JSON", error: error.to_string() })?;
    terminal::print_json(&format!("{text}\n"))
}

/// A run that has not begun, by which goals are read. What workloads say of themselves nobody recorded.
fn words(input: &Loaded, policy: &Policy) -> Result<Run, Failure> {
    let mut run = Simulation::new(&input.setup, policy, FIRST_SEED)
        .map_err(|error| Diagnostic::of_file(&input.name, error.to_string()))?
        .measure();
    if input.recorded.is_some() {
        run.domains.iter_mut().for_each(|domain| domain.tasks.clear());
    }
    Ok(run)
}

fn goals(arguments: &Tune, words: &Run) -> Result<(Vec<Goal>, Vec<Keep>), Failure> {
    let minimise = arguments.minimise.iter().map(|text| (Direction::Minimise, text));
    let maximise = arguments.maximise.iter().map(|text| (Direction::Maximise, text));
    let goals = minimise.chain(maximise).map(|(way, text)| Goal::parse(way, text, words));
    let keeps = arguments.keep.iter().map(|text| Keep::parse(text, words));
    Ok((goals.collect::<Result<_, _>>()?, keeps.collect::<Result<_, _>>()?))
}

fn policies(arguments: &Tune, vary: &[Vary]) -> Result<Vec<Policy>, Failure> {
    if !arguments.policies.is_empty() && !vary.contains(&Vary::Policy) {
        let message = "nothing is chosen from these: `policy` is not among what is varied";
        return Err(Diagnostic::of_file("--policy", message)
            .with_help("add it to `--vary`")
            .into());
    }
    let policies = arguments.policies.iter().map(|name| policy(name, &[]));
    Ok(policies.collect::<Result<_, _>>()?)
}

fn vary(names: &[String]) -> Vec<Vary> {
    let all = Vary::ALL.into_iter();
    all.filter(|(name, _)| names.iter().any(|it| it == name)).map(|(_, vary)| vary).collect()
}

/// By what factor replays of the host as it is are off from what was recorded, for each goal: as in a comparison, for
/// this figure, or that of the 99th percentiles in the median, if that is greater. None if nothing was recorded.
fn errors(
    input: &Loaded,
    now: &LabelledPolicy,
    goals: &[Goal],
    simulator: &Simulator,
) -> Result<Option<Vec<f64>>, Failure> {
    let Some(recorded) = &input.recorded else { return Ok(None) };
    let Some(own) = &input.own else { return Ok(Some(vec![f64::INFINITY; goals.len()])) };
    simulator.bar.set_message("Replaying");
    simulator.bar.set_length(VERDICT_SEEDS.into());
    let seeds = FIRST_SEED..FIRST_SEED + u64::from(VERDICT_SEEDS);
    let host = [(&input.setup, &now.policy)];
    let runs = simulator.run(&host, seeds.clone(), |simulation| {
        simulation.run_until(input.length.0);
        Run { policy: now.label.clone(), ..simulation.measure() }
    })?;
    let runs = runs.into_iter().next().unwrap_or_default();
    let policies = vec![PolicySummary::recorded(), PolicySummary::new(&now.label, &now.policy)];
    let source = String::new();
    let seeds = seeds.collect();
    let mut comparison =
        Comparison::new(&input.name, source, input.length.0, seeds, &input.setup, policies);
    comparison.runs = std::iter::once(recorded.clone()).chain(runs.iter().cloned()).collect();
    let usual = ReplayError::of(&comparison, &own.label, own.assumed);
    let usual = usual.map_or(f64::INFINITY, |error| error.p99_median_factor);
    // What is recorded may be in another order, and lack somebody.
    let same = |name: &str| recorded.domains.iter().find(|domain| domain.name == name);
    let domains: Option<Vec<_>> =
        input.setup.domains.iter().map(|domain| same(&domain.name).cloned()).collect();
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
}

impl Simulated<'_> {
    fn begin(&self, settings: u32) {
        let known = self.kept.as_ref().map_or(0, |kept| kept.known.len() as u64);
        let bar = &self.simulator.bar;
        bar.reset();
        bar.set_message("Searching");
        bar.set_length((u64::from(settings).saturating_sub(known) + 1) * self.seeds);
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
    type Error = Failure;

    fn simulate(
        &mut self,
        hosts: &[(&Setup, &Policy)],
        part: Part,
    ) -> Result<Vec<Vec<Run>>, Failure> {
        let Times { search_ns, verdict_from_ns, end_ns } = self.times;
        let bar = &self.simulator.bar;
        // Which changes matter is found by settings more than were asked for.
        if part == Part::Verdict || bar.length().is_some_and(|length| bar.position() >= length) {
            terminal::set_unmeasured(bar, "Judging");
        }
        self.simulator.run(hosts, self.seeds(part), |simulation| match part {
            Part::Search => {
                simulation.run_until(search_ns);
                small(simulation.measure())
            }
            Part::Verdict => {
                simulation.run_until(verdict_from_ns);
                let seen = (verdict_from_ns > 0).then(|| simulation.measure());
                simulation.run_until(end_ns);
                small(match seen {
                    Some(seen) => simulation.measure_since(&seen),
                    None => simulation.measure(),
                })
            }
        })
    }

    fn recall(&mut self, setting: &Written) -> Option<Figures> {
        self.kept.as_ref()?.known.recall(setting).cloned()
    }

    fn note(&mut self, setting: &Written, figures: &Figures) -> Result<(), Failure> {
        let Some(kept) = &mut self.kept else { return Ok(()) };
        if kept.known.recall(setting).is_some() {
            return Ok(());
        }
        let written = State::line(setting, figures, &mut kept.stream);
        written.and_then(|()| kept.stream.flush()).map_err(|error| Failure::write(kept.path, error))
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
    ) -> Result<Kept<'a>, Failure> {
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
        written.and_then(|()| stream.flush()).map_err(|error| Failure::write(path, error))?;
        Ok(Kept { path, known, stream })
    }
}
