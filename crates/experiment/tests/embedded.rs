// SPDX-License-Identifier: GPL-2.0-only
//! The experiments that are shipped: each can be read, everything that it measures is there, and its
//! claims are in the state that it says.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use steelyard_experiment::{
    Experiment, Reproduction, SYSTEMS, State, named, names, run, unwatched,
};

fn of(name: &str) -> Experiment {
    named(name, &[]).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn there_is_one_for_each_publication() {
    assert_eq!(names(), ["app-slice", "boost-credit", "cosched", "load-weight", "mcredit2"]);
    let mut published: Vec<_> = SYSTEMS.iter().filter_map(|system| system.experiment).collect();
    published.sort_unstable();
    assert_eq!(published, names());
    assert_eq!(SEEDS.map(|(name, _)| name).to_vec(), names());
}

/// What was set stands where the list says: the file is there, and has each single word that is named.
#[test]
fn what_was_set_is_where_the_list_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for experiment in names().into_iter().map(of) {
        for statement in &experiment.statements {
            let Some(here) = &statement.here else { continue };
            let Some((file, what)) = here.split_once(": ") else { panic!("{here}: of what file?") };
            let text = fs::read_to_string(root.join(file))
                .unwrap_or_else(|error| panic!("{}: {file}: {error}", experiment.name));
            for word in what.split(", ").filter(|word| !word.contains(' ')) {
                let word = word.trim_end_matches("()");
                assert!(text.contains(word), "{}: {file} has no `{word}`", experiment.name);
            }
        }
    }
}

/// What was not published can be set otherwise, each time in some variant.
#[test]
fn free_parameters_can_be_set() {
    for experiment in names().into_iter().map(of) {
        for free in experiment.free() {
            assert!(!free.settings.is_empty(), "{}: {}", experiment.name, free.says);
            for set in &free.settings {
                named(&experiment.name, set).unwrap_or_else(|error| panic!("{error}"));
            }
        }
    }
}

/// Seeds of each: the ten of `steelyard reproduce`, or fewer where that takes long, or gives the same states. With five of
/// app-slice one claim that holds is undecided, and no other state of one that holds is another.
const SEEDS: [(&str, u64); 5] =
    [("app-slice", 5), ("boost-credit", 10), ("cosched", 3), ("load-weight", 3), ("mcredit2", 5)];

#[test]
fn claims_are_in_the_state_that_is_written_down() {
    let outcomes: Vec<_> = SEEDS
        .into_iter()
        .flat_map(|(name, seeds)| {
            run(&[of(name).of_claims()], seeds, &unwatched)
                .unwrap_or_else(|error| panic!("{error}"))
        })
        .collect();
    for outcome in &outcomes {
        let unmeasured: BTreeSet<_> = outcome
            .claims
            .iter()
            // There is no ratio to nothing.
            .filter(|claim| claim.measured.iter().any(|m| m.value.is_none() && m.what != "ratio"))
            .map(|claim| &claim.says)
            .collect();
        assert!(unmeasured.is_empty(), "{}: nothing measured for {unmeasured:#?}", outcome.name);
    }
    let reproduction = Reproduction::new(10, outcomes);
    let unexpected: Vec<_> = reproduction
        .unexpected()
        .map(|(outcome, claim)| {
            let is = if claim.state == State::Fails { "does not hold" } else { "holds" };
            format!("{}: {is}: {}: {:?}", outcome.name, claim.says, claim.measured)
        })
        .collect();
    assert!(unexpected.is_empty(), "{}", unexpected.join("\n"));
}

#[test]
fn figures_and_matrix_are_measured() {
    let outcomes = run(&names().into_iter().map(of).collect::<Vec<_>>(), 1, &unwatched)
        .unwrap_or_else(|error| panic!("{error}"));
    for outcome in &outcomes {
        for figure in &outcome.figures {
            let points = figure.curves.iter().flat_map(|curve| &curve.points);
            let missing = points.filter(|point| point.measured.is_none()).count();
            assert_eq!(missing, 0, "{}: points of {} not measured", outcome.name, figure.name);
        }
        let matrix = outcome.matrix.as_ref();
        let cells = matrix.map(|matrix| matrix.systems.as_slice()).unwrap_or_default();
        assert_eq!(cells.len(), SYSTEMS.len(), "{}", outcome.name);
        for cell in cells {
            assert!(cell.without.is_some() != cell.effect.is_some(), "{}: {cell:?}", outcome.name);
        }
    }
}

#[test]
fn results_do_not_depend_on_threads() {
    let experiment = [of("mcredit2").of_claims()];
    let [one, three] = [1, 3].map(|threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let run = || run(&experiment, 2, &unwatched);
        pool.map(|pool| pool.install(run)).unwrap_or_else(|error| panic!("{error}"))
    });
    assert!(one.is_ok() && one == three);
}
