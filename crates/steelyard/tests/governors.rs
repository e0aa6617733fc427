// SPDX-License-Identifier: GPL-2.0-only
//! The pages of governors say what the core says, and the scenarios of their pictures run.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use steelyard_policy::{Parameter, governors};
use steelyard_scenario::{Options, load};
use steelyard_simulator::units::Nanoseconds;

fn page(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/governors").join(name)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What tells of governors one by one tells of each of them.
#[test]
fn tables_have_every_governor() {
    let mut missing = vec![];
    for table in ["README.md", "docs/scenario.md", "docs/xen.md", "docs/kvm.md"] {
        let text = read(&page("../..").join(table));
        for governor in governors() {
            let starts = [format!("| `{}` |", governor.name), format!("| [`{}`](", governor.name)];
            let told = text.lines().any(|line| starts.iter().any(|start| line.starts_with(start)));
            if !told {
                missing.push(format!("{table} has no row of {}", governor.name));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

fn default(parameter: &Parameter) -> String {
    match parameter.unit {
        "ns" if parameter.defaults[0] > 0 => Nanoseconds(parameter.defaults[0]).to_string(),
        _ => parameter.format(parameter.defaults[0]),
    }
}

#[test]
fn pages_have_the_parameters_of_the_core() {
    for governor in governors() {
        let path = page(&format!("{}.md", governor.name));
        let text = read(&path);
        let table = text.split_once("<!-- parameters: ").unwrap_or_else(|| {
            panic!("{} has no `<!-- parameters: ` mark, as the others have", path.display())
        });
        let table = table.1.split("<!-- end of parameters -->").next().unwrap();
        let rows: Vec<_> = table.lines().filter(|line| line.starts_with("| `")).collect();
        let way_out = "experiments/write-pages target/debug/steelyard writes it anew";
        let names: Vec<_> = governor.parameters.iter().map(|parameter| parameter.name).collect();
        assert_eq!(rows.len(), names.len(), "{}: {names:?}: {way_out}", path.display());
        for (row, parameter) in rows.iter().zip(&governor.parameters) {
            let begin = format!("| `{}` | {} |", parameter.name, default(parameter));
            let end = format!("| {} | {} |", parameter.help, parameter.source);
            assert!(
                row.starts_with(&begin) && row.ends_with(&end),
                "{}: {way_out}\n{row}\n{begin} ... {end}",
                path.display()
            );
        }
    }
}

#[test]
fn scenarios_of_pictures_have_two_policies() {
    for governor in governors() {
        let path = page(&format!("{}.toml", governor.name));
        let input = load(&path, &Options::default()).unwrap_or_else(|error| panic!("{error}"));
        let [before, after] = &input.policies[..] else { panic!("{}", path.display()) };
        assert!(before.policy.governors().next().is_none(), "{}", before.label);
        assert!(after.policy.governors().any(|g| g.name == governor.name), "{}", after.label);
        assert!(
            page(&format!("{}.svg", governor.name)).exists(),
            "docs/governors/draw target/debug/steelyard {} draws it, once it stands in PICTURES there",
            governor.name
        );
    }
}
