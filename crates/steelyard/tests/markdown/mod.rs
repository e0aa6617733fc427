// SPDX-License-Identifier: GPL-2.0-only
//! The pages of the repository, and what stands in them.

#![allow(dead_code)] // Each test file uses its part.

use std::fs;
use std::path::{Path, PathBuf};

pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The pages that a reader is sent to, those of the list of all, with their text.
pub fn pages() -> Vec<(PathBuf, String)> {
    let list = repository().join("docs/SUMMARY.md");
    let text = fs::read_to_string(&list).unwrap();
    let links = links(&text).map(|(_, link)| repository().join("docs").join(link));
    let pages = links.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let pages: Vec<_> = pages.chain([list.clone()]).collect();
    pages.into_iter().map(|path| (path.clone(), fs::read_to_string(&path).unwrap())).collect()
}

/// The links of a page, by number of line.
pub fn links(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = (1..).zip(text.lines());
    numbered.flat_map(|(number, line)| {
        let links = line.split("](").skip(1).map(|rest| rest.split(')').next().unwrap_or(rest));
        links.map(move |link| (number, link))
    })
}

/// What stands in a page's blocks of code, by the word behind the mark, line by line.
pub fn blocks(text: &str) -> Vec<(&str, &str)> {
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
