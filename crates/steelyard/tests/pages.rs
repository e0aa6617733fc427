// SPDX-License-Identifier: GPL-2.0-only
//! What the pages say is so: README's first commands run, every command line of every page is one that this program
//! takes, the screen in README is the one that the monitor draws, and links lead somewhere.

#![allow(clippy::unwrap_used)]

use std::collections::HashSet;
use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Parser;
use steelyard::Arguments;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The pages that a reader is sent to, those of the list of all, with their text.
fn pages() -> Vec<(PathBuf, String)> {
    let list = repository().join("docs/SUMMARY.md");
    let text = fs::read_to_string(&list).unwrap();
    let links = links(&text).map(|(_, link)| repository().join("docs").join(link));
    let pages = links.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let pages: Vec<_> = pages.chain([list.clone()]).collect();
    pages.into_iter().map(|path| (path.clone(), fs::read_to_string(&path).unwrap())).collect()
}

/// The links of a page, by number of line.
fn links(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = (1..).zip(text.lines());
    numbered.flat_map(|(number, line)| {
        let links = line.split("](").skip(1).map(|rest| rest.split(')').next().unwrap_or(rest));
        links.map(move |link| (number, link))
    })
}

/// What stands in a page's blocks of code, by the word behind the mark, line by line.
fn blocks(text: &str) -> Vec<(&str, &str)> {
    let mut within = None;
    let mut lines = vec![];
    for line in text.lines() {
        match (line.strip_prefix("```"), within) {
            (Some(_), Some(_)) => within = None,
            (Some(language), None) => within = Some(language),
            (None, Some(language)) => lines.push((language, line)),
            (None, None) => {}
        }
    }
    lines
}

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
            // What it prints, and lists of folders, have its name too; `kvm` is a feature.
            let told = ["text", "toml"].contains(&language) || rest.starts_with(' ');
            if told || arguments.is_empty() || (arguments[0] == "kvm" && !cfg!(feature = "kvm")) {
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

#[test]
fn the_screen_of_the_readme_is_one_that_is_drawn() {
    let readme = fs::read_to_string(repository().join("README.md")).unwrap();
    let screen = repository().join("crates/monitor/tests/data/domains.screen");
    let screen = fs::read_to_string(screen).unwrap();
    assert!(readme.contains(&format!("```text\n{}\n```", screen.trim_end())), "{screen}");
}

/// The blocks of `sh` but the first, which builds: as they stand, on shorter runs of the same inputs.
#[test]
fn the_first_commands_of_the_readme_run() {
    let directory = tempfile::tempdir().unwrap();
    let at = |file: &str| directory.path().join(file);
    let readme = fs::read_to_string(repository().join("README.md")).unwrap();
    let commands: String =
        readme.split("```sh\n").skip(2).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(commands.lines().filter(|line| line.starts_with("steelyard ")).count(), 6);
    fs::create_dir(at("scenarios")).unwrap();
    let scenario = fs::read_to_string(repository().join("scenarios/first-look.toml")).unwrap();
    let shorter = scenario.replacen("length = \"10 s\"", "length = \"300 ms\"", 1);
    assert_ne!(scenario, shorter);
    fs::write(at("scenarios/first-look.toml"), shorter).unwrap();
    symlink(repository().join("recordings"), at("recordings")).unwrap();
    // `top` fills a screen until somebody types q; a recording is compared for a moment of it.
    let steelyard = env!("CARGO_BIN_EXE_steelyard");
    let script = format!(
        "#!/bin/sh\ncase \"$1 $2\" in\n\
         top*) exec {steelyard} \"$@\" --batch 1 --interval 10ms --no-waits ;;\n\
         \"compare recordings\"*) exec {steelyard} \"$@\" --seeds 1 --set \"length=200 ms\" ;;\n\
         *) exec {steelyard} \"$@\" ;;\nesac\n"
    );
    fs::create_dir(at("bin")).unwrap();
    fs::write(at("bin/steelyard"), script).unwrap();
    fs::set_permissions(at("bin/steelyard"), Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", at("bin").display(), env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.args(["-exc", &commands]).current_dir(directory.path()).env("PATH", path);
    let output = shell.output().unwrap();
    let (told, errors) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{told}\n{errors}");
    for words in ["pCPU", "vm-web", "credit2@xen-4.20", "claims"] {
        assert!(told.contains(words), "{words}: {told}\n{errors}");
    }
    assert!(at("report/report.html").exists());
}
