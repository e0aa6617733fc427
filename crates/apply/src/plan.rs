// SPDX-License-Identifier: GPL-2.0-only
//! What is wanted: a small TOML file in the words of scenarios.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Deserialize;
use steelyard_boundary::text::{LONGEST, is_harmful};
use steelyard_scenario::{Diagnostic, Source, locate, parse};
use steelyard_simulator::limits;
use steelyard_simulator::units::{CpuSet, Nanoseconds};

/// What Linux makes of any slice (kernel/sched/syscalls.c, `__setparam_fair`): refused rather than cut.
const SLICE_NS: (u64, u64) = (100_000, 100_000_000);
/// Periods of a quota (kernel/sched/core.c, `tg_set_cfs_bandwidth`).
const PERIOD_NS: (u64, u64) = (1_000_000, 1_000_000_000);

/// A plan of the right form.
#[derive(Clone, Debug)]
pub struct Plan {
    source: Source,
    pub(crate) domains: Vec<Wanted>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    domain: Vec<Wanted>,
}

/// What is wanted of a domain; what is none stays as it is.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    pub name: String,
    pub weight: Option<u32>,
    /// Percent of one pCPU; 0: no limit.
    pub cap_percent: Option<u32>,
    pub cap_period: Option<Nanoseconds>,
    pub slice: Option<Nanoseconds>,
    /// One set for all vCPUs, or one for each.
    pub pin: Option<Vec<CpuSet>>,
}

impl Plan {
    /// Reads a file.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn read(path: &Path) -> Result<Plan, Diagnostic> {
        Plan::parse(Source::read(path)?)
    }

    /// Reads a text.
    ///
    /// # Errors
    /// As those of [`Plan::read`].
    pub fn parse(source: Source) -> Result<Plan, Diagnostic> {
        let File { domain: domains } = parse(&source)?;
        let plan = Plan { source, domains };
        let mut names = BTreeSet::new();
        for (index, wanted) in plan.domains.iter().enumerate() {
            plan.check(index, wanted)?;
            if !names.insert(&wanted.name) {
                let message = format!("there is another domain `{}` in this plan", wanted.name);
                return Err(plan.error(index, "name", message));
            }
        }
        match plan.domains.is_empty() {
            true => Err(Diagnostic::of_file(&plan.source.name, "this plan names no domain")),
            false => Ok(plan),
        }
    }

    fn check(&self, index: usize, wanted: &Wanted) -> Result<(), Diagnostic> {
        let Wanted { name, weight, cap_percent, cap_period, slice, pin } = wanted;
        let wrong = |key: &str, problem: String| self.error(index, key, problem);
        let unusable = name.is_empty()
            || name.chars().count() > LONGEST
            || name.starts_with('-')
            || name.contains(is_harmful);
        if unusable {
            let message = "no name that a domain can be called by: it is empty, too long, begins \
                           with `-`, or has characters that cannot be seen";
            return Err(wrong("name", message.to_owned()));
        }
        if let Some(weight) = weight {
            limits::WEIGHT.check((*weight).into()).map_err(|problem| wrong("weight", problem))?;
        }
        if let Some(cap) = cap_percent {
            let checked = limits::CAP_PERCENT.check((*cap).into());
            checked.map_err(|problem| wrong("cap_percent", problem))?;
        }
        for (key, time, (least, most)) in
            [("slice", slice, SLICE_NS), ("cap_period", cap_period, PERIOD_NS)]
        {
            let Some(Nanoseconds(ns)) = time else { continue };
            if !(least..=most).contains(ns) || !ns.is_multiple_of(1000) {
                let (least, most) = (Nanoseconds(least), Nanoseconds(most));
                let message =
                    format!("`{}` is not {least} to {most}, in whole us", Nanoseconds(*ns));
                return Err(wrong(key, message));
            }
        }
        if cap_period.is_some() && cap_percent.is_none_or(|cap| cap == 0) {
            let message = "a period without a cap".to_owned();
            return Err(wrong("cap_period", message).with_help("add `cap_percent`"));
        }
        if pin.as_ref().is_some_and(Vec::is_empty) {
            let message = "no pCPUs".to_owned();
            let help = "one set for all its vCPUs, or one for each: [\"0-3\"]";
            return Err(wrong("pin", message).with_help(help));
        }
        if weight.is_none() && cap_percent.is_none() && slice.is_none() && pin.is_none() {
            let message = format!("nothing is wanted of `{name}`");
            let help = "known here: `weight`, `cap_percent`, `cap_period`, `slice`, `pin`";
            return Err(wrong("name", message).with_help(help));
        }
        Ok(())
    }

    /// An error about a key of a domain.
    pub(crate) fn error(&self, index: usize, key: &str, message: impl Into<String>) -> Diagnostic {
        let path = ["domain", &index.to_string(), key].map(str::to_owned);
        self.source.error(locate(&self.source, &path), message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        Plan::parse(Source::new("plan.toml", text)).unwrap_err().to_string()
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let domain = |keys: &str| format!("[[domain]]\nname = \"web\"\n{keys}\n");
        for (text, place, words) in [
            (domain("wieght = 1"), "plan.toml:3:1", "did you mean `weight`?"),
            (domain("weight = 0"), "plan.toml:3:1", "`0` is out of range: 1 to 65535"),
            (domain("weight = -1"), "plan.toml:3:10", "-1"),
            (domain("cap_percent = 409601"), "plan.toml:3:1", "out of range"),
            (domain("slice = \"1 s\""), "plan.toml:3:1", "100 us to 100 ms"),
            (domain("slice = 3"), "plan.toml:3:9", "with its unit"),
            (domain("cap_period = \"10 ms\""), "plan.toml:3:1", "a period without a cap"),
            (domain("pin = []"), "plan.toml:3:1", "no pCPUs"),
            (domain("pin = [\"3-1\"]"), "plan.toml:3:7", "no set of pCPUs"),
            (domain(""), "plan.toml:2:1", "nothing is wanted of `web`"),
            (domain("weight = 1").repeat(2), "plan.toml:5:1", "another domain `web`"),
            (domain("weight = 1").replace("web", "-h"), "plan.toml:2:1", "no name"),
            ("domain = []".to_owned(), "plan.toml", "names no domain"),
            (String::new(), "plan.toml", "missing key `domain`"),
        ] {
            let told = refusal(&text);
            assert!(told.contains(place) && told.contains(words), "{text}: {told}");
        }
    }

    #[test]
    fn what_is_right_is_read() {
        let text = "[[domain]]\nname = \"web\"\nweight = 512\ncap_percent = 150\n\
                    cap_period = \"20 ms\"\nslice = \"3 ms\"\npin = [\"0-1\", \"2\"]\n";
        let plan = Plan::parse(Source::new("plan.toml", text)).unwrap();
        let wanted = &plan.domains[0];
        assert_eq!((wanted.weight, wanted.cap_percent), (Some(512), Some(150)));
        assert_eq!(wanted.slice, Some(Nanoseconds::from_ms(3)));
        assert_eq!(wanted.pin.as_ref().unwrap().len(), 2);
    }
}
