// SPDX-License-Identifier: GPL-2.0-only
//! Every scenario that is shipped loads.

use std::path::Path;

use steelyard_policy::Parameter;
use steelyard_scenario::{Options, load, load_text, schema};
use steelyard_simulator::units::Nanoseconds;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

#[test]
fn shipped_scenarios_load() {
    let mut names = vec![];
    for entry in std::fs::read_dir(root().join("scenarios")).unwrap() {
        let path = entry.unwrap().path();
        let loaded = load(&path, &Options::default()).unwrap_or_else(|error| panic!("{error}"));
        assert!(path.ends_with(format!("{}.toml", loaded.name)), "{path:?}");
        names.push((loaded.name, loaded.setup.domains.len(), loaded.setup.host.pcpus()));
    }
    names.sort();
    let expected = [("first-look", 8, 4), ("mcredit2-reference", 9, 8), ("scale", 2048, 1024)];
    assert_eq!(names, expected.map(|(name, domains, pcpus)| (name.to_owned(), domains, pcpus)));
}

/// Those of the published experiments too: what is no scenario lies beside them under fixed names.
#[test]
fn scenarios_of_experiments_load() {
    let mut loaded = 0;
    let folders = std::fs::read_dir(root().join("experiments")).unwrap();
    for folder in folders.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap();
            let is_toml = path.extension().is_some_and(|extension| extension == "toml");
            if !is_toml || ["experiment", "published", "calibration", "measured"].contains(&name) {
                continue;
            }
            load(&path, &Options::default()).unwrap_or_else(|error| panic!("{error}"));
            loaded += 1;
        }
    }
    assert!(loaded >= 2, "{loaded}");
}

#[test]
fn the_example_in_docs_loads() {
    let document = std::fs::read_to_string(root().join("docs/scenario.md")).unwrap();
    let (_, example) = document.split_once("```toml\n").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    let loaded = load_text("docs/scenario.md", example, &Options::default())
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((loaded.setup.domains.len(), loaded.policies.len()), (9, 2));
}

#[test]
fn the_schema_in_docs_is_that_of_the_types() {
    let path = root().join("docs/scenario.schema.json");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, schema()).unwrap();
    }
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text == schema(), "run `UPDATE=1 cargo test -p steelyard-scenario`");
}

/// Of `policy/settings.h`: a row of the table.
fn row(setting: &Parameter) -> String {
    let value = |value| match setting.unit {
        "ns" => Nanoseconds(value).to_string(),
        _ => setting.format(value),
    };
    let range = match setting.maximum {
        _ if setting.unit.contains('|') => setting.unit.replace('|', ", "),
        steelyard_policy::FOREVER => format!("from {}", value(setting.minimum)),
        most => format!("{} to {}", value(setting.minimum), value(most)),
    };
    format!("| `{}` | {range} | {} | {} |\n", setting.name, setting.help, setting.source)
}

#[test]
fn the_settings_in_docs_are_those_of_the_core() {
    let rows: String = steelyard_policy::settings().iter().map(row).collect();
    let table =
        format!("\n| Key | Values | Meaning | Heeded by |\n| --- | --- | --- | --- |\n{rows}\n");
    let path = root().join("docs/scenario.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once("<!-- settings:").unwrap();
    let (mark, rest) = rest.split_once("-->\n").unwrap();
    let (kept, after) = rest.split_once("<!-- end of settings -->").unwrap();
    if std::env::var_os("UPDATE").is_some() {
        let new =
            format!("{before}<!-- settings:{mark}-->\n{table}<!-- end of settings -->{after}");
        std::fs::write(&path, new).unwrap();
        return;
    }
    assert!(kept == table, "run `UPDATE=1 cargo test -p steelyard-scenario`");
}

/// A scenario that asks for it at the end of its range is read, beyond it is not.
#[test]
fn scenarios_may_ask_for_each_setting_within_its_range() {
    for setting in steelyard_policy::settings() {
        let value = |number: u64| match setting.unit {
            "ns" => format!("\"{number} ns\""),
            _ => setting.format(number),
        };
        let asks = |number: u64| {
            let key = match setting.name {
                // These go with others.
                "sedf.period" => {
                    format!("sedf = {{ period = {}, slice = \"5 us\" }}", value(number))
                }
                "sedf.slice" => {
                    format!("sedf = {{ period = \"10 s\", slice = {} }}", value(number))
                }
                "boost.ratio_percent" => {
                    format!("boost = {{ limit = \"1 ms\", ratio_percent = {} }}", value(number))
                }
                name => format!("{name} = {}", value(number)),
            };
            let text = format!(
                "name = \"settings\"\n[host]\nsockets = 4\ncores_per_socket = 1024\n[[domain]]\nname = \"a\"\n{key}\n"
            );
            load_text("settings.toml", &text, &Options::default())
        };
        assert!(
            asks(setting.minimum).is_ok(),
            "{}: {:?}",
            setting.name,
            asks(setting.minimum).err()
        );
        if setting.maximum < steelyard_policy::FOREVER {
            assert!(asks(setting.maximum).is_ok(), "{}", setting.name);
        }
        if !setting.unit.contains('|') && setting.maximum < steelyard_policy::FOREVER {
            assert!(asks(setting.maximum + 1).is_err(), "{}", setting.name);
        }
        if setting.minimum > 0 {
            assert!(asks(setting.minimum - 1).is_err(), "{}", setting.name);
        }
    }
}
