// SPDX-License-Identifier: GPL-2.0-only
//! What the pages say is so: every command line of every page is one that this program takes, the screen in README is the
//! one that the monitor draws, links lead somewhere, and the list of pages has all. `documents.rs` runs the commands.

#![allow(clippy::unwrap_used)]

mod markdown;

use std::collections::HashSet;
use std::fs;
use std::process::Command;

use clap::{CommandFactory, Parser};
use markdown::{blocks, links, pages, repository};
use steelyard::Arguments;

/// The words of a command line up to where the shell would go on to something else.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for character in line.chars() {
        let begins = words.last().unwrap().is_empty();
        match (quote, character) {
            (Some(end), _) if character == end => quote = None,
            (None, '\'' | '"') => quote = Some(character),
            (None, '|' | '>' | '&' | ';') => break,
            (None, '#') if begins => break,
            (None, ' ') if begins => {}
            (None, ' ') => words.push(String::new()),
            _ => words.last_mut().unwrap().push(character),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn command_lines_of_pages_are_understood() {
    let mut seen = 0;
    for (path, text) in pages() {
        for (language, line) in blocks(&text) {
            let line = line.trim_start().trim_start_matches("sudo ");
            let Some(rest) = line.strip_prefix("steelyard ") else { continue };
            let arguments = words(rest);
            // What it prints, and lists of folders, have its name too.
            let told = ["text", "toml"].contains(&language) || rest.starts_with(' ');
            if told || arguments.is_empty() {
                continue;
            }
            seen += 1;
            // In `[NAME...]` a page says what may follow.
            let real = arguments.iter().filter(|word| !word.contains("..."));
            let line = std::iter::once("steelyard".to_owned()).chain(real.cloned());
            if let Err(error) = Arguments::try_parse_from(line) {
                assert!(!error.use_stderr(), "{}: {rest}\n{error}", path.display());
            }
        }
    }
    assert!(seen > 50, "{seen}");
}

/// What they are decides whether a test runs them: `documents.rs` runs `sh`, `sh lab` it leaves alone.
#[test]
fn blocks_say_what_they_are() {
    for (path, text) in pages() {
        for (language, line) in blocks(&text) {
            let known = ["python", "sh", "sh lab", "text", "toml"].contains(&language);
            assert!(known, "{}: `{language}` before: {line}", path.display());
        }
    }
}

/// A heading's name in links, as the sites do it that show Markdown.
fn anchor(heading: &str) -> String {
    let plain = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
    plain.chars().filter(|c| c.is_alphanumeric() || *c == '-' || *c == '_').collect()
}

#[test]
fn links_lead_somewhere() {
    let anchors = |text: &str| -> HashSet<String> {
        text.lines().filter(|line| line.starts_with('#')).map(anchor).collect()
    };
    let mut broken = vec![];
    for (path, text) in pages() {
        for (line, link) in links(&text) {
            if link.contains("://") || link.contains(char::is_whitespace) {
                continue;
            }
            let (file, within) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => path.clone(),
                file => path.parent().unwrap().join(file),
            };
            let leads = match within {
                "" => target.exists(),
                within => fs::read_to_string(&target).is_ok_and(|it| anchors(&it).contains(within)),
            };
            if !leads {
                broken.push(format!("{}:{line}: {link}", path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "lead nowhere:\n{}", broken.join("\n"));
}

#[test]
fn the_list_of_pages_has_all() {
    let listed: HashSet<_> =
        pages().into_iter().map(|(path, _)| path.canonicalize().unwrap()).collect();
    let experiments = fs::read_dir(repository().join("experiments")).unwrap();
    let mut folders: Vec<_> = experiments.map(|entry| entry.unwrap().path()).collect();
    folders.extend(
        ["", "docs", "docs/governors", "docs/papers", "recordings", "xen"]
            .map(|folder| repository().join(folder)),
    );
    let mut seen = 0;
    for folder in folders.iter().filter(|folder| folder.is_dir()) {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.extension().is_some_and(|extension| extension == "md") {
                seen += 1;
                assert!(listed.contains(&path), "docs/SUMMARY.md lacks {}", path.display());
            }
        }
    }
    assert!(seen > 40, "{seen}");
}

/// Pages that `experiments/write-pages` writes.
fn is_as_written(page: &str, parts: &[String]) {
    let text = fs::read_to_string(repository().join(page)).unwrap();
    for part in parts {
        let told = "write it anew: experiments/write-pages target/debug/steelyard";
        assert!(text.contains(part.trim()), "{page} is not what the program says, {told}\n{part}");
    }
}

fn told(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_steelyard")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_option_is_on_its_page() {
    let program = Arguments::command();
    let own = program.get_subcommands().map(|command| vec![command.get_name()]);
    let nested = program.get_subcommands().flat_map(|command| {
        command.get_subcommands().map(|below| vec![command.get_name(), below.get_name()])
    });
    // An option of the feature `faults` is for tests alone.
    let known = |words: &Vec<&str>| cfg!(not(feature = "faults")) || words[..] != ["kvm", "run"];
    let helps: Vec<_> = own
        .chain(nested)
        .filter(known)
        .map(|words| told(&[&words[..], &["--help"]].concat()))
        .collect();
    assert!(helps.len() > 20, "{}", helps.len());
    is_as_written("docs/options.md", &helps);
}

#[test]
fn every_policy_is_on_its_page() {
    let parts: Vec<serde_json::Value> =
        serde_json::from_str(&told(&["policies", "--json"])).unwrap();
    let mut lines = vec![];
    for part in &parts {
        lines.push(format!("## {}", part["name"].as_str().unwrap()));
        for parameter in part["parameters"].as_array().unwrap() {
            let field = |name: &str| parameter[name].as_str().unwrap().replace('|', "\\|");
            lines.push(format!("| `{}` |", field("name")));
            lines.push(format!("| {} | {} |", field("help"), field("source")));
        }
    }
    assert!(lines.len() > 100, "{}", lines.len());
    is_as_written("docs/policies.md", &lines);
}

#[test]
fn the_screen_of_the_readme_is_one_that_is_drawn() {
    let readme = fs::read_to_string(repository().join("README.md")).unwrap();
    let screen = repository().join("crates/monitor/tests/data/domains.screen");
    let screen = fs::read_to_string(screen).unwrap();
    assert!(readme.contains(&format!("```text\n{}\n```", screen.trim_end())), "{screen}");
}
