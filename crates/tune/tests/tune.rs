// SPDX-License-Identifier: GPL-2.0-only
//! Searches on hosts with something to gain and without: what is proposed is a gain for whoever tries it anew, keeps
//! what is to be kept, and is the same however the search came about.

// What is searched is looked at outside the test functions too.
#![allow(clippy::unwrap_used)]

use steelyard_advise::Toolstack;
use steelyard_goal::{Direction, Goal, Host, Keep};
use steelyard_policy::Policy;
use steelyard_scenario::{Loaded, Options, load_text};
use steelyard_simulator::Simulation;
use steelyard_simulator::config::Setup;
use steelyard_simulator::measure::Run;
use steelyard_tune::{
    Bench, Figures, Header, Outcome, Part, Question, State, Vary, Written, text, tune, write_csv,
    write_page,
};

const SEEDS: u64 = 2;

/// One pCPU: `report` computes for 27 ms and sleeps, two others never sleep. In 2 s there are seeds with which it never
/// waits.
const LATE: &str = r#"
    name = "late"
    length = "10 s"
    [[domain]]
    name = "report"
    [[domain.task]]
    workload.busy = { compute = "27 ms", sleep = "100 ms", jitter_percent = 20 }
    [[domain]]
    name = "batch"
    count = 2
    [[domain.task]]
    workload.busy = { compute = "5 ms" }
    [[policy]]
    policy = "credit"
"#;

/// A pCPU for each: nobody ever waits.
const ALONE: &str = r#"
    name = "alone"
    length = "1 s"
    [host]
    cores_per_socket = 2
    [[domain]]
    name = "one"
    pin = ["0"]
    [[domain.task]]
    workload.busy = { compute = "5 ms", sleep = "5 ms" }
    [[domain]]
    name = "other"
    pin = ["1"]
    [[domain.task]]
    workload.busy = { compute = "5 ms", sleep = "5 ms" }
    [[policy]]
    policy = "credit"
"#;

/// What is asked of it.
#[derive(Clone)]
struct Asked<'a> {
    scenario: &'a str,
    minimise: &'a [&'a str],
    maximise: &'a [&'a str],
    keep: &'a [&'a str],
    vary: &'a [Vary],
    settings: usize,
}

/// Simulates one after the other, and remembers what was noted, as a file would.
#[derive(Default)]
struct Memory {
    length_ns: u64,
    known: State,
    noted: Vec<u8>,
    simulated: usize,
}

impl Bench for Memory {
    type Error = String;

    fn simulate(
        &mut self,
        hosts: &[(&Setup, &Policy)],
        part: Part,
    ) -> Result<Vec<Vec<Run>>, String> {
        self.simulated += hosts.len();
        let seeds = if part == Part::Search { 1..=SEEDS } else { 11..=15 };
        let host = |&(setup, policy): &(&Setup, &Policy)| {
            seeds.clone().map(|seed| run(setup, policy, seed, self.length_ns)).collect()
        };
        Ok(hosts.iter().map(host).collect())
    }

    fn recall(&mut self, setting: &Written) -> Option<Figures> {
        self.known.recall(setting).cloned()
    }

    fn note(&mut self, setting: &Written, figures: &Figures) -> Result<(), String> {
        State::line(setting, figures, &mut self.noted).map_err(|error| error.to_string())
    }
}

fn run(setup: &Setup, policy: &Policy, seed: u64, length_ns: u64) -> Run {
    let mut simulation = Simulation::new(setup, policy, seed).unwrap();
    simulation.run_until(length_ns);
    simulation.measure()
}

fn load(scenario: &str, set: &[String]) -> Loaded {
    let options = Options { set: set.to_vec(), ..Options::default() };
    load_text("test", scenario, &options).unwrap()
}

/// The outcome, the file of the search, and how many hosts were simulated, going on from a file if there is one.
fn searched(asked: &Asked, state: Option<&str>) -> (Outcome, String, usize) {
    let input = load(asked.scenario, &[]);
    let policy = &input.policies[0].policy;
    let words = Simulation::new(&input.setup, policy, 1).unwrap().measure();
    let host = Host { domains: &input.setup.domains, run: &words };
    let keeps: Vec<_> = asked.keep.iter().map(|text| Keep::parse(text, &host).unwrap()).collect();
    let goals = [(Direction::Minimise, asked.minimise), (Direction::Maximise, asked.maximise)];
    let goals =
        goals.into_iter().flat_map(|(way, texts)| texts.iter().map(move |text| (way, text)));
    let goals: Vec<_> = goals.map(|(way, text)| Goal::parse(way, text, &host).unwrap()).collect();
    let question = Question {
        setup: &input.setup,
        policy,
        label: "credit",
        input: "test.toml",
        toolstack: Toolstack::Xl,
        goals: &goals,
        keeps: &keeps,
        vary: asked.vary,
        policies: &[],
        settings: asked.settings,
        seed: 1,
        errors: None,
    };
    let header = Header::new(&question, SEEDS as u32, input.length.0);
    let known = state.map_or_else(State::default, |state| {
        State::read("state", &mut state.as_bytes(), &header).unwrap()
    });
    let mut memory = Memory { length_ns: input.length.0, known, ..Memory::default() };
    let outcome = tune(&question, &mut memory).unwrap();
    let mut file = vec![];
    State::default().write(&header, &mut file).unwrap();
    file.extend(memory.noted);
    (outcome, String::from_utf8(file).unwrap(), memory.simulated)
}

const ALL: [Vary; 3] = [Vary::Policy, Vary::Parameters, Vary::Weight];

fn late() -> Asked<'static> {
    Asked {
        scenario: LATE,
        minimise: &["report: wait p99"],
        maximise: &[],
        keep: &["batch*: share >= 80 % of entitled"],
        vary: &ALL,
        settings: 80,
    }
}

/// The changes as `--set` takes them, out of the command that looks at a proposal again.
fn again(command: &str) -> (Vec<String>, Policy) {
    let words: Vec<_> = command.split(' ').collect();
    let after = |option: &str| {
        let pairs = words.windows(2).filter(|pair| pair[0] == option);
        pairs.map(|pair| pair[1].to_owned()).collect::<Vec<_>>()
    };
    let (domains, parameters): (Vec<_>, Vec<_>) =
        after("--set").into_iter().partition(|set| set.starts_with("domain."));
    let policy = steelyard_scenario::policy(&after("--policy")[0], &parameters).unwrap();
    (domains, policy)
}

#[test]
fn a_proposal_is_a_gain_for_whoever_tries_it() {
    let (outcome, _, _) = searched(&late(), None);
    let best = &outcome.proposals[0];
    assert!(best.goals[0].holds && best.keeps[0].holds, "{best:?}");
    let (set, policy) = again(&best.compare);
    let before = load(LATE, &[]);
    let after = load(LATE, &set);
    for seed in 100..105 {
        let now = run(&before.setup, &before.policies[0].policy, seed, before.length.0);
        let then = run(&after.setup, &policy, seed, before.length.0);
        let p99_ns = |run: &Run| run.domains[0].time.waits.p99_ns;
        assert!(p99_ns(&then) < p99_ns(&now), "{} in {seed}", best.compare);
        for batch in 1..=2 {
            let due = now.domains[batch].entitlement_percent;
            assert!(then.domains[batch].share_percent >= 0.75 * due, "{}", best.compare);
        }
    }
    // Each change that is left is worth something, the first one most.
    assert!(!best.changes.is_empty());
    let lost: Vec<f64> = best.changes.iter().map(|change| change.without.lost).collect();
    assert!(lost.iter().all(|&lost| lost > 0.05) && lost.is_sorted_by(|a, b| a >= b), "{lost:?}");
}

#[test]
fn what_is_to_be_kept_is_kept() {
    // Whatever is done for `report`, this leaves it no more than what it has.
    let keep: &[&str] = &["report: share <= 100 % of now", "batch*: share >= 97 % of now"];
    let asked = Asked { minimise: &[], maximise: &["report: share"], keep, ..late() };
    let (outcome, _, _) = searched(&asked, None);
    assert!(outcome.proposals.is_empty(), "{:?}", outcome.proposals);
    // And this cannot be kept by anybody, the host as it is among them.
    let asked = Asked { keep: &["report: share >= 99 %"], ..late() };
    let (outcome, _, _) = searched(&asked, None);
    assert_eq!((outcome.keeping, outcome.proposals.len()), (0, 0));
    assert!(text(&outcome, "test", false).contains("no setting keeps what is to be kept"));
}

#[test]
fn where_nobody_waits_there_is_nothing_to_gain() {
    let asked = Asked { scenario: ALONE, minimise: &["one: wait p99"], keep: &[], ..late() };
    let (outcome, _, _) = searched(&asked, None);
    assert!(outcome.proposals.is_empty(), "{:?}", outcome.proposals);
    assert!(text(&outcome, "test", false).contains("Nothing to gain"));
}

#[test]
fn of_two_goals_there_is_a_front() {
    let asked = Asked { maximise: &["batch*: share"], keep: &[], settings: 120, ..late() };
    let (outcome, _, _) = searched(&asked, None);
    assert!(!outcome.proposals.is_empty());
    assert!(outcome.proposals.iter().all(|it| it.goals.iter().any(|goal| goal.holds)));
    // By the rows of the search: none on the front is better than another in both.
    let mut csv = vec![];
    write_csv(&outcome, &mut csv).unwrap();
    let mut reader = csv::Reader::from_reader(&csv[..]);
    let header = reader.headers().unwrap().clone();
    let column = |name: &str| header.iter().position(|it| it == name).unwrap();
    let (wait, share, front) = (
        column("report: wait p99, median, ns"),
        column("batch*: share, median, percent"),
        column("front"),
    );
    let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), outcome.tried);
    assert!(column("credit.slice_ns") > 0 && column("domain.report.weight") > 0);
    let figure = |row: &csv::StringRecord, at: usize| row[at].parse::<f64>().unwrap();
    for best in rows.iter().filter(|row| &row[front] == "yes") {
        let beaten = rows.iter().any(|row| {
            figure(row, wait) < figure(best, wait) && figure(row, share) > figure(best, share)
        });
        assert!(!beaten, "{best:?}");
    }
}

#[test]
fn a_search_goes_on_as_if_it_had_not_ended() {
    let (whole, file, simulated) = searched(&late(), None);
    let json = |outcome: &Outcome| serde_json::to_string(outcome).unwrap();
    // Killed in the midst of lines, between them, and after the last one.
    let lines: Vec<usize> = file.match_indices('\n').map(|(at, _)| at + 1).collect();
    for end in [lines[0], lines[1] + 7, lines[30], lines[60] - 1, file.len()] {
        let (outcome, again, fewer) = searched(&late(), Some(&file[..end]));
        assert_eq!(json(&outcome), json(&whole), "after {end} bytes");
        // What was known is noted too, as the command expects it.
        assert_eq!(again, file, "after {end} bytes");
        assert!(end < lines[1] || fewer < simulated, "{fewer} of {simulated} after {end} bytes");
    }
    // Fewer settings begin the same way.
    let (_, shorter, _) = searched(&Asked { settings: 50, ..late() }, None);
    let begin = |file: &str| file.split('\n').take(51).collect::<Vec<_>>().join("\n");
    assert_eq!(begin(&shorter), begin(&file));
}

#[test]
fn a_state_that_is_not_of_this_search_is_refused() {
    let asked = Asked { settings: 5, ..late() };
    let (_, file, _) = searched(&asked, None);
    let input = load(LATE, &[]);
    let words = Simulation::new(&input.setup, &input.policies[0].policy, 1).unwrap().measure();
    let host = Host { domains: &input.setup.domains, run: &words };
    let goals = [Goal::parse(Direction::Minimise, "report: wait p99", &host).unwrap()];
    let keeps = [Keep::parse("batch*: share >= 80 % of entitled", &host).unwrap()];
    let mut question = Question {
        setup: &input.setup,
        policy: &input.policies[0].policy,
        label: "",
        input: "",
        toolstack: Toolstack::Xl,
        goals: &goals,
        keeps: &keeps,
        vary: &ALL,
        policies: &[],
        settings: 5,
        seed: 1,
        errors: None,
    };
    let parse = |file: &str, header: &Header| {
        State::read("state", &mut file.as_bytes(), header).map_err(|error| error.to_string())
    };
    let header = Header::new(&question, SEEDS as u32, input.length.0);
    assert!(parse(&file, &header).unwrap().len() >= 5);
    assert!(parse("", &header).unwrap_err().contains("no state"), "an empty file is not one");
    let second = file.split('\n').nth(1).unwrap();
    for (bad, says) in [
        (file.replacen("steelyard tune", "other", 1), "they differ in format"),
        (file.replacen("batch*", "batch", 1), "they differ in what is to be kept"),
        (file.replacen("\"seeds\":2", "\"seeds\":3", 1), "they differ in number of seeds"),
        (format!("{file}{{}}\n"), "no setting and its figures"),
        (format!("{file}{}\n", "[".repeat(100_000)), "no setting and its figures"),
        (format!("{file}{second}\n"), "there twice"),
        (file.replacen("{\"goals\":[[", "{\"goals\":[[1.0,", 1), "of other goals or seeds"),
        ("what\n".to_owned(), "no state"),
    ] {
        let error = parse(&bad, &header).unwrap_err();
        assert!(error.contains(says), "{error}");
    }
    question.goals = &[];
    let other = Header::new(&question, SEEDS as u32, input.length.0);
    assert!(parse(&file, &other).unwrap_err().contains("they differ in goals"));
    let other = Policy::named("credit2").unwrap();
    question.goals = &goals;
    question.policy = &other;
    let other = Header::new(&question, SEEDS as u32, input.length.0);
    assert!(
        parse(&file, &other).unwrap_err().contains("they differ in host, scheduler or recording")
    );
}

#[test]
fn the_text_fits_a_screen_and_the_page_has_all_of_it() {
    let (outcome, _, _) = searched(&late(), None);
    let shown = text(&outcome, "test.toml", false);
    assert!(shown.lines().count() <= 24, "{shown}");
    let best = &outcome.proposals[0];
    assert!(shown.contains(&best.compare) && shown.contains("report: wait p99"), "{shown}");
    let mut page = vec![];
    write_page(&outcome, "<test>", &mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert!(page.contains("&lt;test&gt;") && !page.contains("<test>"));
    assert!(page.contains(&best.policy) && page.contains("\"goals\":["));
}
