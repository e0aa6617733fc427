// SPDX-License-Identifier: GPL-2.0-only
//! Whatever domains are called and however many there are, Prometheus can read what is told of them: an
//! OpenMetrics 1.0 text with no series twice, and no longer than is said.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use proptest::prelude::*;
use steelyard_boundary::text::is_harmful;
use steelyard_monitor::{Exposition, ProcessTimes};
use steelyard_recording::{
    Domain, Figures, Host, PolicyState, Snapshot, Structure, ThreadEvents, Vcpu, Waits,
};

/// What is said in docs/monitor.md.
const LONGEST: usize = 12 << 20;

/// Reads strictly what the specification allows; the value of each series by its name and labels.
fn parsed(text: &str) -> Result<HashMap<String, f64>, String> {
    let Some(body) = text.strip_suffix("# EOF\n") else { return Err("no end".to_owned()) };
    let (mut series, mut families) = (HashMap::new(), HashSet::new());
    let (mut family, mut kind) = ("", "");
    // Of a histogram: whose it is, the last bound and count.
    let mut buckets: Option<(String, f64, f64)> = None;
    for line in body.lines() {
        let wrong = |what: &str| Err(format!("{what}: {line}"));
        if line.contains(is_harmful) {
            return wrong("harmful");
        }
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            let (what, name, rest) = (words.next(), words.next(), words.next());
            let (Some(what), Some(name), Some(rest)) = (what, name, rest) else {
                return wrong("half a comment");
            };
            match what {
                "HELP" if families.insert(name) => family = name,
                "TYPE" if name == family => kind = rest,
                "UNIT" if name == family && name.ends_with(&format!("_{rest}")) => {}
                _ => return wrong("a comment of another family"),
            }
            continue;
        }
        let Some((key, value)) = line.rsplit_once(' ') else { return wrong("no value") };
        let Ok(value) = value.parse::<f64>() else { return wrong("no number") };
        let name = key.split('{').next().unwrap_or_default();
        let labels = labels(&key[name.len()..]).ok_or_else(|| format!("labels: {line}"))?;
        let suffix = name.strip_prefix(family);
        match (kind, suffix) {
            ("counter", Some("_total")) | ("gauge", Some("")) => {}
            ("histogram", Some("_bucket")) => {
                let Some((of, le)) = key.split_once(",le=\"") else { return wrong("no bound") };
                let Ok(bound) = le.trim_end_matches("\"}").parse::<f64>() else {
                    return wrong("no bound");
                };
                if let Some((whose, before, count)) = &buckets
                    && whose == of
                    && (bound <= *before || value < *count)
                {
                    return wrong("buckets fall");
                }
                buckets = Some((of.to_owned(), bound, value));
            }
            ("histogram", Some("_count")) => {
                if !buckets
                    .as_ref()
                    .is_some_and(|(_, bound, count)| *bound == f64::INFINITY && *count == value)
                {
                    return wrong("another count than of all buckets");
                }
            }
            ("histogram", Some("_sum")) => {}
            _ => return wrong("of no family"),
        }
        if labels.iter().map(|(name, _)| name).collect::<HashSet<_>>().len() < labels.len() {
            return wrong("a label twice");
        }
        if series.insert(key.to_owned(), value).is_some() {
            return wrong("a series twice");
        }
    }
    Ok(series)
}

/// `{a="b",c="d"}`, or nothing.
fn labels(text: &str) -> Option<Vec<(String, String)>> {
    if text.is_empty() {
        return Some(vec![]);
    }
    let mut rest = text.strip_prefix('{')?;
    let mut labels = vec![];
    loop {
        let (name, value) = rest.split_once("=\"")?;
        let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
        if name.is_empty() || !name.chars().all(is_name) {
            return None;
        }
        let mut unescaped = String::new();
        let mut chars = value.char_indices();
        let end = loop {
            match chars.next()? {
                (at, '"') => break at,
                (_, '\\') => unescaped.push(match chars.next()?.1 {
                    'n' => '\n',
                    c @ ('"' | '\\') => c,
                    _ => return None,
                }),
                (_, c) => unescaped.push(c),
            }
        };
        labels.push((name.to_owned(), unescaped));
        rest = match &value[end + 1..] {
            "}" => return Some(labels),
            more => more.strip_prefix(',')?,
        };
    }
}

fn snapshot(domains: Vec<(u64, String, usize)>, pcpus: usize, number: u64) -> Snapshot {
    let domains: Vec<_> = domains
        .into_iter()
        .map(|(id, name, vcpus)| {
            let vcpu = |id| Vcpu { id, name: String::new() };
            Domain {
                id,
                name,
                weight: u32::MAX,
                ungrouped: false,
                groups_around: None,
                cap_percent: 1,
                vcpus: (0..vcpus as u64).map(vcpu).collect(),
            }
        })
        .collect();
    let figures = Figures {
        gotten_ns: number,
        waited_ns: Some(number),
        switches: Some(number),
        migrations: Some(number),
        preemptions: Some(number),
        waits: Some(Waits { histogram: vec![(1, number), (u64::MAX, number)], worst: None }),
        policy: Some(PolicyState {
            weight: number,
            slice_ns: Some(number),
            ..PolicyState::default()
        }),
        ..Figures::default()
    };
    let vcpus = domains.iter().map(|domain| domain.vcpus.len()).sum();
    let host = Host {
        name: String::new(),
        source: String::new(),
        pcpus: pcpus as u32,
        began_unix_ns: None,
        unseen: vec![],
    };
    Snapshot {
        structure: Arc::new(Structure { host, domains }),
        time_ns: 0,
        idle_ns: vec![number; pcpus],
        vcpus: vec![figures; vcpus],
        segments: vec![],
        others: vec![],
        threads: ThreadEvents::default(),
        lost: number,
    }
}

fn exposed(snapshot: &Snapshot) -> String {
    let mut text = String::new();
    Exposition::default().write(snapshot, &ProcessTimes::new(), &[], 7, &mut text);
    text
}

/// Names that come near each other, and any.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "x{0,1}( \\([0-3](\\.[0-2])?\\)){0,2}",
        "[x\"\\\\\n]{0,70}",
        "x{60,70}",
        any::<String>(),
    ]
}

proptest! {
    #[test]
    fn any_names_make_series_that_differ(
        domains in proptest::collection::vec((0_u64..4, name(), 0_usize..3), 0..12),
        number in prop_oneof![0_u64..1000, Just(u64::MAX)],
    ) {
        let count = domains.len();
        let vcpus: usize = domains.iter().map(|(_, _, vcpus)| vcpus).sum();
        let series = parsed(&exposed(&snapshot(domains, 2, number)));
        prop_assert!(series.is_ok(), "{series:?}");
        let series = series.unwrap();
        let of = |name: &str| series.keys().filter(|key| key.starts_with(name)).count();
        prop_assert_eq!(of("steelyard_domain_weight{"), count);
        prop_assert_eq!(of("steelyard_vcpu_run_seconds_total"), vcpus);
        prop_assert_eq!(series["steelyard_domains_left_out"], 0.0);
        prop_assert_eq!(series["steelyard_vcpus_left_out"], 7.0);
    }
}

#[test]
fn those_who_call_themselves_after_others_change_no_series() {
    let named = |names: &[(u64, &str)]| {
        let domains = names.iter().map(|&(id, name)| (id, name.to_owned(), 1)).collect();
        parsed(&exposed(&snapshot(domains, 1, 1))).unwrap()
    };
    // The third would be called as the first is.
    let series = named(&[(7, "x (9)"), (8, "x"), (9, "x")]);
    for name in ["x (9)", "x", "x (9.1)"] {
        assert!(
            series.contains_key(&format!("steelyard_domain_weight{{domain=\"{name}\"}}")),
            "{series:?}"
        );
    }
}

#[test]
fn however_many_there_are_it_has_an_end() {
    // The longest that can be told of all there may be, and more than are told.
    for (domains, vcpus, name) in
        [(1024, 8, 1000), (1500, 16, 1000), (3, 100_000, 120_000), (9000, 1, 1)]
    {
        let name = "\\".repeat(name);
        let all = (0..domains).map(|id| (u64::MAX - id, name.clone(), vcpus)).collect();
        let text = exposed(&snapshot(all, 10_000, u64::MAX));
        assert!(text.len() <= LONGEST, "{} bytes of {domains} domains", text.len());
        println!("{domains} domains of {vcpus} vCPUs: {} bytes", text.len());
        let series = parsed(&text).unwrap();
        let told = series.keys().filter(|key| key.starts_with("steelyard_vcpu_run")).count();
        let all = domains as f64 * vcpus as f64;
        assert_eq!(series["steelyard_vcpus_left_out"], all - told as f64 + 7.0);
        assert_eq!(series["steelyard_domains_left_out"], (domains.max(1024) - 1024) as f64);
    }
}
