// SPDX-License-Identifier: GPL-2.0-only
//! The files of a comparison: what is in them, and that they appear whole or not at all.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use serde_json::Value;
use steelyard_boundary::output::Output;
use steelyard_report::{
    COMPARISON_FILES, Comparison, DomainSummary, ReadError, Results, Style, overview, table,
    write_all, write_csv, write_html, write_perfetto,
};
use steelyard_simulator::config::{Domain, Host, Setup};
use steelyard_simulator::measure::{DomainMeasure, Setting, Unhonoured};
use steelyard_simulator::units::Nanoseconds;
use steelyard_simulator::workload::{Busy, Workload};

fn no_interrupt() -> AtomicBool {
    AtomicBool::new(false)
}

#[test]
fn json_is_read_as_it_was_written() {
    let results = common::results();
    let mut json = vec![];
    results.write_json(&mut json).unwrap();
    assert_eq!(Results::read_json(&json[..]).unwrap(), results);
}

#[test]
fn other_json_is_refused_with_a_reason() {
    let read = |text: &str| Results::read_json(text.as_bytes());
    assert!(matches!(read("{}"), Err(ReadError::Json(_))));
    assert!(matches!(read("\u{1}"), Err(ReadError::Json(_))));
    let other = r#"{"format": "something", "version": 1}"#;
    assert!(matches!(read(other), Err(ReadError::Format(_))));
    let of = |version: u32| format!(r#"{{"format": "steelyard-results", "version": {version}}}"#);
    let newer = Results::VERSION + 1;
    let refused = read(&of(newer)).unwrap_err().to_string();
    assert!(refused.contains(&format!("version {newer}")), "{refused}");
    assert!(matches!(read(&of(Results::VERSION)), Err(ReadError::Json(_))));
}

#[test]
fn names_of_scenarios_are_unique() {
    let comparison = || common::comparison("twins");
    let results = Results::new(vec![comparison(), comparison(), comparison()]);
    let names: Vec<_> = results.comparisons.iter().map(|c| c.scenario.as_str()).collect();
    assert_eq!(names, ["twins", "twins (2)", "twins (3)"]);
}

#[test]
fn csv_has_each_figure_once() {
    let results = common::results();
    let mut text = vec![];
    write_csv(&results, &mut text).unwrap();
    let mut reader = csv::Reader::from_reader(&text[..]);
    let mut figures = BTreeMap::new();
    for row in reader.records() {
        let row: Vec<_> = row.unwrap().iter().map(str::to_owned).collect();
        let (key, value) = (row[..8].to_vec(), row[8].clone());
        assert!(figures.insert(key, value).is_none(), "twice: {row:?}");
    }
    for comparison in &results.comparisons {
        for run in &comparison.runs {
            let seed = run.seed.to_string();
            let value = |domain: &str, vcpu: &str, measure: &str, unit: &str| {
                let key =
                    [&comparison.scenario, &run.policy, &seed, domain, vcpu, "", measure, unit];
                figures[&key.map(str::to_owned).to_vec()].parse::<f64>().unwrap()
            };
            assert_eq!(value("", "", "fairness", ""), run.fairness);
            for domain in &run.domains {
                assert_eq!(value(&domain.name, "all", "share", "percent"), domain.share_percent);
                for (index, vcpu) in domain.vcpus.iter().enumerate() {
                    let waited = value(&domain.name, &index.to_string(), "waited", "ns");
                    assert_eq!(waited, vcpu.time.waited_ns as f64);
                }
            }
        }
    }
}

/// What <https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU> ("Trace
/// Event Format") asks of complete and metadata events, and that what is on a track follows one
/// another.
#[test]
fn the_trace_is_in_the_trace_event_format() {
    let results = common::results();
    let traces = common::traces(&results);
    let mut packed = vec![];
    write_perfetto(&results, &traces, &mut packed).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut text).unwrap();
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["displayTimeUnit"], "ns");

    let mut names = BTreeMap::new();
    let mut counters = BTreeMap::new();
    let mut tracks = BTreeSet::new();
    let mut ends = BTreeMap::<(u64, u64), u64>::new();
    let mut slices = 0;
    for event in json["traceEvents"].as_array().unwrap() {
        let pid = event["pid"].as_u64().unwrap();
        assert_ne!(pid, 0);
        // A counter is of a process.
        if event["ph"] == "C" {
            let name = event["name"].as_str().unwrap();
            let value = event["args"][name].as_u64().unwrap();
            assert!(event["ts"].is_number() && names.contains_key(&pid));
            assert!(counters.insert((pid, name.to_owned()), value).is_none());
            continue;
        }
        let tid = event["tid"].as_u64().unwrap();
        match (event["ph"].as_str().unwrap(), event["name"].as_str().unwrap()) {
            ("M", "process_name") => {
                let name = event["args"]["name"].as_str().unwrap().to_owned();
                assert!(names.insert(pid, name).is_none());
            }
            ("M", "thread_name") => {
                assert!(event["args"]["name"].is_string());
                assert!(tracks.insert((pid, tid)));
            }
            ("M", "process_sort_index" | "thread_sort_index") => {
                assert!(event["args"]["sort_index"].is_u64());
            }
            ("X", _) => {
                // A track is named before anything is on it.
                assert!(tracks.contains(&(pid, tid)) && tid != 0);
                let ns = |key: &str| (event[key].as_f64().unwrap() * 1e3).round() as u64;
                let (start, length) = (ns("ts"), ns("dur"));
                let end = ends.entry((pid, tid)).or_default();
                assert!(start >= *end, "slices overlap: {event}");
                *end = start + length;
                slices += 1;
            }
            (phase, name) => panic!("unexpected event {phase} {name}"),
        }
    }
    let distinct: BTreeSet<_> = names.values().collect();
    assert_eq!(distinct.len(), names.len(), "processes are told apart by name");
    // A run is on a track of its pCPU and on one of its vCPU, a wait on the latter only.
    let expected: usize = traces
        .iter()
        .flat_map(|trace| &trace.trace.segments)
        .map(|segment| if segment.pcpu.is_some() { 2 } else { 1 })
        .sum();
    assert_eq!(slices, expected);
    // Who ran has a weight and a cap.
    let entitled: BTreeSet<_> = counters.keys().map(|(pid, _)| pid).collect();
    assert!(!entitled.is_empty());
    for &pid in entitled {
        let value = |name: &str| counters.get(&(pid, name.to_owned()));
        assert!(value("weight").is_some_and(|&weight| weight > 0) && value("cap %").is_some());
    }
}

fn output(directory: &Path) -> Output {
    Output::directory(directory, &COMPARISON_FILES, &[]).expect("a directory to write into")
}

#[test]
fn the_same_results_give_the_same_bytes() {
    let write = || {
        let directory = tempfile::tempdir().unwrap();
        let results = common::results();
        let traces = common::traces(&results);
        let output = output(directory.path());
        write_all(&output, &results, &traces, &no_interrupt()).unwrap();
        output.paths().iter().map(|path| fs::read(path).unwrap()).collect::<Vec<_>>()
    };
    assert!(write() == write());
}

#[test]
fn files_appear_whole_or_not_at_all() {
    let directory = tempfile::tempdir().unwrap();
    let results = common::results();
    let names = || {
        let entries = fs::read_dir(directory.path()).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect::<BTreeSet<_>>()
    };
    let output = output(directory.path());
    let error = write_all(&output, &results, &[], &AtomicBool::new(true)).unwrap_err();
    assert!(error.to_string().contains("interrupted"), "{error}");
    assert_eq!(names(), BTreeSet::new());

    write_all(&output, &results, &[], &no_interrupt()).unwrap();
    let paths = output.paths();
    let written: BTreeSet<_> =
        paths.iter().map(|path| path.file_name().unwrap().to_owned()).collect();
    assert_eq!(names(), written);
    let before = fs::read(&paths[0]).unwrap();

    // Given up in between, the files of before are still there.
    let other = Results::new(vec![]);
    write_all(&output, &other, &[], &AtomicBool::new(true)).unwrap_err();
    assert_eq!(fs::read(&paths[0]).unwrap(), before);
    assert_eq!(names(), written);
}

#[test]
fn the_table_shows_policies_side_by_side_within_its_width() {
    let results = common::simulated();
    for width in [60, 100, 160] {
        let text = table(&results, Style { width, color: false });
        for line in text.lines() {
            assert!(line.chars().count() <= width, "{} > {width}: {line}", line.chars().count());
        }
        for policy in &results.comparisons[0].policies {
            for part in policy.label.split('@') {
                assert!(text.contains(part), "{part}");
            }
        }
        assert!(!text.contains('\x1b'));
        // Figures of the fastest policy for the web server, and of the slowest.
        assert!(text.contains("*1.60 ms") && text.contains("40.0 ms"), "{text}");
        // Three busy domains are one section.
        assert!(text.contains("busy-1 .. busy-3 (3 domains)"));
    }
    assert!(table(&results, Style { width: 100, color: true }).contains('\x1b'));
}

#[test]
fn names_cannot_steer_the_terminal() {
    let nasty = "\u{1b}[2Jweb\r\n\u{7}";
    let mut comparison = common::comparison(nasty);
    comparison.source = nasty.to_owned();
    comparison.domains[1].name = nasty.to_owned();
    for run in &mut comparison.runs {
        run.domains[1].name = nasty.to_owned();
        for domain in &mut run.domains {
            for value in domain.tasks.iter_mut().flat_map(|task| &mut task.values) {
                value.name += nasty;
                value.unit += nasty;
            }
            for ran in domain.time.waits.worst.iter_mut().flat_map(|worst| &mut worst.ran) {
                ran.domain = nasty.to_owned();
            }
        }
    }
    let text = table(&Results::new(vec![comparison]), Style { width: 100, color: false });
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
}

#[test]
fn the_table_leaves_out_what_says_little() {
    let text = table(&common::simulated(), Style { width: 100, color: false });
    assert!(text.contains("response time p99") && !text.contains("response time mean"));
    assert!(!text.contains("packets"), "nothing was measured under any policy");
    // Of a recording every row tells what was recorded: what workloads say of themselves nobody did.
    let text = table(&common::results(), Style { width: 100, color: false });
    assert!(text.contains("wait p99") && !text.contains("response time"));
}

#[test]
fn an_overview_fits_on_a_screen() {
    for (results, recorded) in [(common::results(), true), (common::simulated(), false)] {
        for width in [60, 80, 160] {
            let text = overview(&results, Style { width, color: false });
            for (screen, comparison) in
                text.split("\n\n").collect::<Vec<_>>().chunks(2).zip(&results.comparisons)
            {
                let lines: Vec<&str> = screen.iter().flat_map(|part| part.lines()).collect();
                assert!(
                    lines.len() < 23 && lines.iter().all(|it| it.chars().count() <= width),
                    "{text}"
                );
                assert!(lines[0].contains(&comparison.scenario));
                assert_eq!(
                    lines.iter().any(|it| it.trim_start().starts_with("recorded   ")),
                    recorded,
                    "{text}"
                );
            }
            assert!(text.contains("busy-1 ..") && text.contains("Every figure: --all"));
        }
    }
    // Not all of many domains fit, and it says so.
    let mut many = common::comparison("many");
    let (domain, measures) = (many.domains[1].clone(), many.runs.clone());
    for number in 0..40 {
        let name = format!("more-{number}");
        many.domains.push(DomainSummary { name: name.clone(), like: 5 + number, ..domain.clone() });
        for (run, before) in many.runs.iter_mut().zip(&measures) {
            run.domains.push(DomainMeasure { name: name.clone(), ..before.domains[1].clone() });
        }
    }
    many.policies.remove(0);
    let text = overview(&Results::new(vec![many]), Style { width: 80, color: false });
    assert!(text.lines().count() <= 23 && text.contains("domains more: --all)"), "{text}");
    let rows =
        text.lines().filter(|line| line.starts_with("more-") || line.starts_with("web")).count();
    let more =
        text.lines().find_map(|line| line.strip_prefix('(')?.split(' ').next()?.parse().ok());
    // dom0, web and the busy ones are three rows of five domains.
    assert_eq!(more, Some(45 - 5 - (rows - 1)), "{text}");
}

#[test]
fn verdicts_say_who_serves_best_and_why() {
    let text = table(&common::simulated(), Style { width: 1000, color: false });
    let verdict = |of: &str| {
        let start = format!("- {of}: ");
        text.lines().find_map(|line| line.strip_prefix(&start)).unwrap().to_owned()
    };
    let web = verdict("web");
    assert!(
        web.starts_with("credit2@xen-4.20 serves it best (response time p99 1.60 ms)"),
        "{web}"
    );
    assert!(web.contains("credit@xen-4.5 worst (40.0 ms): web/"), "{web}");
    assert!(web.contains(" once waited 65.6 ms, while busy-1/0 ran 32.8 ms of it"), "{web}");
    let busy = verdict("busy-1 .. busy-3 (3 domains)");
    assert!(busy.starts_with("credit2@xen-4.20 serves it best (work done 49.8 %)"), "{busy}");
    assert!(busy.contains("worst (45.0 %): the latter gave it 47.8 % of a pCPU instead"), "{busy}");
    // Its workload has nothing to say: what counts is how long it waits.
    assert!(verdict("Domain-0").contains("(wait p99 983 µs)"));
}

/// The policy that served the web server best let a capped domain run on, and another starved a vCPU:
/// neither is best at anything then, the table marks them, and lines say why.
#[test]
fn who_did_not_do_what_was_asked_is_never_best() {
    let mut results = common::simulated();
    results.comparisons.truncate(1);
    for run in &mut results.comparisons[0].runs {
        let web = &mut run.domains[1];
        if run.policy == "credit2@xen-4.20" {
            web.unhonoured.push(Unhonoured {
                setting: Setting::Cap,
                heeded: false,
                asked_percent: 20.0,
                got_percent: 46.0,
            });
        } else if run.policy == "fair@eevdf" {
            let worst = web.time.waits.worst.as_mut().unwrap();
            worst.length_ns = common::LENGTH_NS;
        }
    }
    let text = table(&results, Style { width: 1000, color: false });
    let lines: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("- ")).collect();
    let told = "credit2@xen-4.20 did not honour the cap of web: web ran 46.0 % of a pCPU where 20.0 % \
                are its cap; credit2@xen-4.20 knows no caps";
    assert!(lines.contains(&told), "{lines:#?}");
    assert!(lines.contains(&"fair@eevdf starved web/0: it waited 10.0 s without a break"));
    for faulty in ["credit2@xen-4.20", "fair@eevdf"] {
        assert!(!text.contains(&format!("{faulty} serves it best")), "{text}");
    }
    assert!(text.contains(" serves it best"), "the others are compared");
    assert!(text.contains("†credit2") && text.contains("†fair") && !text.contains("†sedf"));
    let mut html = vec![];
    write_html(&results, &[], &mut html).unwrap();
    let html = String::from_utf8(html).unwrap();
    assert!(html.contains(&format!("<li>{told}</li>")));
    assert!(html.contains("†credit2@xen-4.20"));
    // All of that is in results.json, and what is known of the policies.
    let mut json = vec![];
    results.write_json(&mut json).unwrap();
    assert_eq!(Results::read_json(&json[..]).unwrap(), results);
    let text = String::from_utf8(json).unwrap();
    assert!(text.contains(r#""unhonoured":[{"setting":"cap","heeded":false,"asked_percent":20.0"#));
    assert!(text.contains(r#""known":[{"of":"sedf@xen-4.2","text":"a vCPU stays on its pCPU"#));
}

#[test]
fn domains_are_alike_if_they_differ_in_nothing_but_their_name() {
    let busy = |name: &str, compute_ms| {
        let compute = Nanoseconds::from_ms(compute_ms);
        let workload = Workload::Busy(Busy { compute, ..Busy::default() });
        Domain::new(name, 1).with_task(1, workload)
    };
    let mut weighted = busy("weighted", 5);
    weighted.weight = 512;
    let domains = vec![busy("a", 5), busy("b", 6), busy("c", 5), weighted, busy("e", 6)];
    let setup = Setup { host: Host::with_pcpus(1), domains };
    let comparison = Comparison::new("", "", 1, vec![1], &setup, vec![]);
    let like: Vec<_> = comparison.domains.iter().map(|domain| domain.like).collect();
    assert_eq!(like, [0, 1, 0, 3, 1]);
}
