// SPDX-License-Identifier: GPL-2.0-only
//! Every scenario that is shipped loads.

use std::path::Path;

use steelyard_scenario::{Options, load, load_text, schema};

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
