// SPDX-License-Identifier: GPL-2.0-only
//! What comes out of experiments: the files, the tables, and what each state of a claim looks like.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::sync::atomic::AtomicBool;

use steelyard_boundary::output::Output;
use steelyard_experiment::{Reproduction, Settled, State};
use steelyard_report::{
    REPRODUCTION_FILES, Style, reproduction_table, write_reproduction, write_reproduction_json,
};

#[test]
fn json_holds_all() {
    let reproduction = common::reproduction();
    let mut json = vec![];
    write_reproduction_json(&reproduction, &mut json).unwrap();
    let read: Reproduction = serde_json::from_slice(&json).unwrap();
    assert_eq!(read, reproduction);
}

#[test]
fn states_are_told_apart() {
    let reproduction = common::reproduction();
    let states: Vec<_> = reproduction.experiments[0].claims.iter().map(|c| c.state).collect();
    assert_eq!(states, [State::Holds, State::Fails, State::Known, State::Turned, State::Undecided]);
    let unexpected: Vec<_> = reproduction.unexpected().map(|(_, claim)| claim.state).collect();
    assert_eq!(unexpected, [State::Fails, State::Turned]);
    let statements = &reproduction.experiments[0].statements;
    let settled: Vec<_> = statements.iter().map(|s| s.settled).collect();
    assert_eq!(
        settled,
        [
            Settled::Holds,
            Settled::DoesNotHold,
            Settled::Followed,
            Settled::Differs,
            Settled::NoClaimYet,
            Settled::NotReproducible,
            Settled::Undecided,
        ]
    );
    assert_eq!(statements[0].values, [30.0, 40.0]);
    assert_eq!(statements[1].claims, [1, 2]);
    for width in [40, 80, 200] {
        let text = reproduction_table(&reproduction, Style { width, color: false });
        assert!(!text.contains('\x1b'));
        let longest = text.lines().map(|line| line.trim_end().chars().count()).max().unwrap();
        assert!(width < 80 || longest <= width.max(100), "{longest} in\n{text}");
        if width == 200 {
            for piece in [
                "does not hold (known)",
                "holds (not expected)",
                "weights | work",
                "Xen of nowhere",
                "43.2 %",
                "31.4 ms",
                "does not run it",
                "not reproducible here",
                "undecided",
                "(ours)",
            ] {
                assert!(text.contains(piece), "`{piece}` is missing in\n{text}");
            }
        }
    }
}

#[test]
fn files_are_whole_and_names_stay_names() {
    let directory = tempfile::tempdir().unwrap();
    let reproduction = common::reproduction();
    let output = Output::directory(directory.path(), &REPRODUCTION_FILES, &[]).unwrap();
    write_reproduction(&output, &reproduction, &AtomicBool::new(false)).unwrap();
    let text = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
    let svg = text("matrix.svg");
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
    assert!(svg.contains("nobody waits &lt;for&gt; it"));
    assert!(!text("report.html").contains("<img src=x"));
    let tables = text("tables.md");
    let columns = |line: &str| line.replace("\\|", "").matches('|').count();
    for table in tables.split("\n\n").filter(|part| part.starts_with('|')) {
        let mut lines = table.lines().map(columns);
        let first = lines.next().unwrap();
        assert!(lines.all(|count| count == first), "{table}");
    }
}

#[test]
fn an_interrupt_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let reproduction = common::reproduction();
    let output = Output::directory(directory.path(), &REPRODUCTION_FILES, &[]).unwrap();
    write_reproduction(&output, &reproduction, &AtomicBool::new(true)).unwrap_err();
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}
