// SPDX-License-Identifier: GPL-2.0-only
//! Reads goals and what is to be kept. Names of domains may have any character in them, so they are looked for from
//! the left among those that there are.

use std::ops::Range;

use steelyard_scenario::{Diagnostic, Source, did_you_mean};
use steelyard_simulator::config::Domain;

use crate::figure::{Figure, HostMetric, Metric, Of, TimeMetric};
use crate::keep::{Bound, Keep};
use crate::{Direction, Goal, Host};

/// Longer ones nobody writes.
const LONGEST: usize = 1000;
/// What stands for all virtual machines, and for the host; a domain of such a name goes by `nam*`.
const ALL: &str = "all";
const HOST: &str = "host";

pub fn goal(direction: Direction, text: &str, host: &Host<'_>) -> Result<Goal, Diagnostic> {
    let source = source(direction.option(), text)?;
    let (of, rest) = subject(&source, host)?;
    let figure = figure(&source, of, rest, host)?;
    Ok(Goal { direction, figure })
}

pub fn keep(text: &str, host: &Host<'_>) -> Result<Keep, Diagnostic> {
    let source = source("--keep", text)?;
    let (of, rest) = subject(&source, host)?;
    let sides = [">=", "<="].map(|sign| text[rest.clone()].find(sign));
    let (at, at_least) = match sides {
        [Some(at), None] => (at, true),
        [None, Some(at)] => (at, false),
        [Some(_), Some(_)] => {
            return Err(source.error(rest, "one bound at a time").with_help("give `--keep` twice"));
        }
        [None, None] => {
            let message = format!("`{}` has no bound", text[rest.clone()].trim());
            let help = "write METRIC >= VALUE, or <=, such as 'batch: share >= 80 % of entitled'";
            return Err(source.error(rest, message).with_help(help));
        }
    };
    let sign = rest.start + at;
    let figure = figure(&source, of, rest.start..sign, host)?;
    let place = text.len() - text[sign + 2..].trim_start().len()..text.len();
    let bound = bound(&source, &figure, place.clone())?;
    if at_least && figure.is_share() {
        can_be(&source, &figure, bound, place, host)?;
    }
    Ok(Keep { text: plain(text), figure, at_least, bound })
}

/// Whether vCPUs can be given as much CPU time as is wanted.
fn can_be(
    source: &Source,
    figure: &Figure,
    bound: Bound,
    place: Range<usize>,
    host: &Host<'_>,
) -> Result<(), Diagnostic> {
    let Bound::Value(percent) = bound else { return Ok(()) };
    let mut domains = figure.domains().iter().map(|&domain| &host.domains[domain]);
    match domains.find(|domain| percent > 100.0 * f64::from(domain.vcpus)) {
        Some(Domain { name, vcpus, .. }) => {
            let message = format!("`{name}` can have {} % at most", 100 * vcpus);
            let help = format!("100 % is one pCPU, and its vCPUs are {vcpus}");
            Err(source.error(place, message).with_help(help))
        }
        None => Ok(()),
    }
}

fn source(option: &str, text: &str) -> Result<Source, Diagnostic> {
    if text.len() > LONGEST {
        let message = format!("this is of {} bytes: at most {LONGEST}", text.len());
        return Err(Diagnostic::of_file(option, message).with_help("write DOMAIN: METRIC"));
    }
    Ok(Source::new(option, text))
}

/// Who is meant.
enum Whose {
    Host,
    Domains(Vec<usize>),
}

/// The domain or domains that it begins with, and where the rest stands.
fn subject(source: &Source, host: &Host<'_>) -> Result<(Whose, Range<usize>), Diagnostic> {
    let text = &source.text;
    let colons = || text.match_indices(':').map(|(at, _)| at);
    let Some(first) = colons().next() else {
        let message = format!("`{}` lacks a `:`", text.trim());
        let help = "write DOMAIN: METRIC, such as 'web: wait p99'";
        return Err(source.error(0..text.len(), message).with_help(help));
    };
    for at in colons() {
        if let Some(whose) = whose(text[..at].trim(), host) {
            return Ok((whose, at + 1..text.len()));
        }
    }
    let name = text[..first].trim();
    let names = || host.domains.iter().map(|domain| domain.name.as_str());
    let message = format!("there is no domain `{name}`{}", did_you_mean(name, names()));
    Err(source.error(0..first, message).with_known(names().chain([ALL, HOST])))
}

fn whose(name: &str, host: &Host<'_>) -> Option<Whose> {
    let chosen = |chosen: &dyn Fn(&Domain) -> bool| {
        let domains = host.domains.iter().enumerate();
        let chosen: Vec<_> =
            domains.filter(|(_, domain)| chosen(domain)).map(|(index, _)| index).collect();
        (!chosen.is_empty()).then_some(Whose::Domains(chosen))
    };
    match name {
        HOST => Some(Whose::Host),
        ALL => chosen(&Domain::is_vm),
        // Names may end with a `*` themselves.
        name => chosen(&|known| known.name == name).or_else(|| {
            let prefix = name.strip_suffix('*').filter(|prefix| !prefix.is_empty())?;
            chosen(&|known| known.name.starts_with(prefix))
        }),
    }
}

/// In one line, with single spaces.
fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn figure(
    source: &Source,
    whose: Whose,
    place: Range<usize>,
    host: &Host<'_>,
) -> Result<Figure, Diagnostic> {
    let metric = plain(&source.text[place.clone()]);
    let unknown = |known: Vec<&str>| {
        let message = match metric.as_str() {
            "" => "no metric is named".to_owned(),
            metric => {
                format!("unknown metric `{metric}`{}", did_you_mean(metric, known.iter().copied()))
            }
        };
        Err(source.error(place.clone(), message).with_known(known))
    };
    let text = plain(&source.text[..place.end]);
    match whose {
        Whose::Host => match HostMetric::ALL.iter().find(|(name, _)| *name == metric) {
            Some(&(_, metric)) => Ok(Figure { text, of: Of::Host(metric) }),
            None => unknown(HostMetric::ALL.map(|(name, _)| name).to_vec()),
        },
        Whose::Domains(domains) => {
            if let Some(&(_, metric)) = TimeMetric::ALL.iter().find(|(name, _)| *name == metric) {
                return Ok(Figure { text, of: Of::Domains(domains, Metric::Time(metric)) });
            }
            // Of workloads, what all of these domains can say.
            let units = |name: &str| -> Option<Vec<&str>> {
                domains.iter().map(|&domain| unit_of(host, domain, name)).collect()
            };
            if let Some(units) = units(&metric)
                && units.iter().all(|unit| *unit == units[0])
            {
                let unit = units[0].to_owned();
                let metric = Metric::Task { name: metric, unit };
                return Ok(Figure { text, of: Of::Domains(domains, metric) });
            }
            let mut known: Vec<_> = TimeMetric::ALL.map(|(name, _)| name).to_vec();
            for value in host.run.domains[domains[0]].tasks.iter().flat_map(|task| &task.values) {
                if units(&value.name).is_some() && !known.contains(&value.name.as_str()) {
                    known.push(&value.name);
                }
            }
            unknown(known)
        }
    }
}

/// The unit of what a domain's workloads call so.
fn unit_of<'a>(host: &'a Host<'_>, domain: usize, name: &str) -> Option<&'a str> {
    let mut values = host.run.domains[domain].tasks.iter().flat_map(|task| &task.values);
    values.find(|value| value.name == name).map(|value| value.unit.as_str())
}

fn bound(source: &Source, figure: &Figure, place: Range<usize>) -> Result<Bound, Diagnostic> {
    let word = &source.text[place.clone()];
    let digits = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
    let number = &word[..digits];
    let wrong = |message: String| source.error(place.clone(), message);
    let Some(number) = number.parse::<f64>().ok().filter(|number| number.is_finite()) else {
        let message = format!("`{}` is no number of 0 or more", word.trim());
        return Err(wrong(message).with_help("write a bound such as 80 % or 5 ms"));
    };
    let unit = plain(&word[digits..]);
    match unit.as_str() {
        "% of now" => return Ok(Bound::OfNow(number)),
        "% of entitled" if figure.is_share() => return Ok(Bound::OfEntitled(number)),
        "% of entitled" => {
            let message = format!("`{figure}` is nothing that a domain is entitled to");
            return Err(wrong(message).with_help("only `share` is; write `% of now`"));
        }
        _ => {}
    }
    match in_unit(number, &unit, figure.unit()) {
        Some(value) if value.is_finite() => Ok(Bound::Value(value)),
        _ => {
            let known = known_units(figure);
            let message = match unit.as_str() {
                "" => format!("`{number}` lacks a unit"),
                unit => format!("`{unit}` is no unit of `{figure}`"),
            };
            Err(wrong(message).with_known(known))
        }
    }
}

/// Nanoseconds in each unit of time.
const TIMES: [(&str, f64); 5] = [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];

fn in_unit(number: f64, written: &str, own: &str) -> Option<f64> {
    let time = |unit: &str| TIMES.iter().find(|(name, _)| *name == unit).map(|(_, ns)| ns);
    match (own, written) {
        (own, written) if own == written => Some(number),
        ("percent", "%") | ("% of a pCPU", "%") => Some(number),
        (own, "") if time(own).is_none() => Some(number),
        (own, written) if own.strip_prefix('1').is_some_and(|per| per == written) => Some(number),
        (own, written) => Some(number * time(written)? / time(own)?),
    }
}

fn known_units(figure: &Figure) -> Vec<&str> {
    let mut known = match figure.unit() {
        "percent" | "%" | "% of a pCPU" => vec!["%"],
        "1/s" => vec!["/s"],
        own if TIMES.iter().any(|(name, _)| *name == own) => {
            TIMES.iter().map(|(name, _)| *name).collect()
        }
        "" => vec![],
        own => vec![own],
    };
    known.push("% of now");
    if figure.is_share() {
        known.push("% of entitled");
    }
    known
}
