// SPDX-License-Identifier: GPL-2.0-only
//! What load the domains of a real host are offered, as a file says that somebody keeps writing: a line `DOMAIN PERCENT`
//! for each, in percent of one pCPU.

use std::collections::BTreeMap;

use steelyard_simulator::limits;

use crate::diagnostic::{Diagnostic, Source};

/// Where hosts look for it, unless they are told where.
pub const LOADS: &str = "/run/steelyard/loads";

/// Percent of one pCPU, by the names of domains.
pub type Loads = BTreeMap<String, u32>;

/// Reads such a text; empty lines and those that begin with `#` say nothing.
///
/// # Errors
/// A line is none of these.
pub fn parse_loads(source: &Source) -> Result<Loads, Diagnostic> {
    let mut loads = Loads::new();
    let mut end = 0;
    for line in source.text.split_inclusive('\n') {
        let start = end;
        end += line.len();
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |why: &str| source.error(start..end, why.to_owned());
        let (name, percent) = line
            .rsplit_once(char::is_whitespace)
            .ok_or_else(|| wrong("a line is `DOMAIN PERCENT`"))?;
        let most = limits::LOAD_PERCENT.most;
        let percent: u32 =
            percent.parse().ok().filter(|&percent| u64::from(percent) <= most).ok_or_else(
                || wrong(&format!("a load is a whole number of percent, 0 to {most}")),
            )?;
        if loads.insert(name.trim_end().to_owned(), percent).is_some() {
            return Err(wrong("it is the second line of this domain"));
        }
    }
    Ok(loads)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Loads, String> {
        parse_loads(&Source::new("loads", text)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_line_is_a_domain_and_its_load() {
        let loads = parse("# by a script\nweb 60\n\nmy other vm\t 250\r\nidle 0").unwrap();
        let expected = [("web", 60), ("my other vm", 250), ("idle", 0)];
        assert_eq!(loads, expected.map(|(name, load)| (name.to_owned(), load)).into());
        assert_eq!(parse("").unwrap(), Loads::new());
    }

    #[test]
    fn anything_else_is_refused_with_its_line() {
        for (text, words) in [
            ("web 60\nbatch", "loads:2"),
            ("web sixty", "whole number of percent, 0 to 409600"),
            ("web -1", "whole number of percent"),
            ("web 0.6", "whole number of percent"),
            ("web 409601", "whole number of percent"),
            ("web 60\nweb 70", "second line"),
        ] {
            let said = parse(text).unwrap_err();
            assert!(said.contains(words), "{said}");
        }
    }
}
