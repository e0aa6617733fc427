// SPDX-License-Identifier: GPL-2.0-only
//! Goals and bounds on figures that are worked out by hand, and what is said of those that cannot be.

use steelyard_goal::{Bound, Direction, Goal, Host, Keep};
use steelyard_simulator::config::{Domain, HostTasks};
use steelyard_simulator::measure::{
    DomainMeasure, PcpuMeasure, Run, SchedulingEvents, TaskMeasure, TaskValue, TimeMeasure, Waits,
};

const MS: u64 = 1_000_000;

/// 10 s of two pCPUs. `web` got 2 s of the 2.5 s that it is entitled to, its p99 is 4 ms; `batch` got 9 of 10 s, its
/// p99 is 30 ms; only `web` has a workload that tells something.
fn run() -> Run {
    let domain = |name: &str, gotten_ms: u64, entitlement_percent, p99_ms: u64| DomainMeasure {
        name: name.to_owned(),
        weight: 256,
        cap_percent: 0,
        share_percent: gotten_ms as f64 / 100.0,
        entitlement_percent,
        time: TimeMeasure {
            gotten_ns: gotten_ms * MS,
            switches: 50,
            waits: Waits { p99_ns: p99_ms * MS, ..Waits::default() },
            ..TimeMeasure::default()
        },
        vcpus: vec![],
        tasks: vec![],
        unhonoured: vec![],
    };
    let mut web = domain("web", 2_000, 25.0, 4);
    let value = |value| TaskValue {
        name: "response p99".to_owned(),
        unit: "ms".to_owned(),
        more_is_better: Some(false),
        value: Some(value),
    };
    web.tasks = vec![
        TaskMeasure { name: "pages".to_owned(), values: vec![value(7.0)] },
        TaskMeasure { name: "images".to_owned(), values: vec![value(9.0)] },
    ];
    Run {
        policy: String::new(),
        seed: 1,
        elapsed_ns: 10_000 * MS,
        scheduling_events: SchedulingEvents { switches: 70, ..SchedulingEvents::default() },
        guest_steps: 0,
        fairness: 0.75,
        pcpus: vec![PcpuMeasure { idle_ns: 500 * MS, switches: 0 }; 2],
        domains: vec![web, domain("batch", 9_000, 100.0, 30), domain("b:c *", 100, 0.0, 1)],
    }
}

/// Of these `b:c *` is no virtual machine.
fn domains() -> Vec<Domain> {
    let mut domains: Vec<_> =
        run().domains.iter().map(|it| Domain::new(it.name.clone(), 1)).collect();
    domains[2].host_tasks = Some(HostTasks { priority: 120, kernel: false });
    domains
}

fn minimise(text: &str) -> Result<Goal, String> {
    Goal::parse(Direction::Minimise, text, &Host { domains: &domains(), run: &run() })
        .map_err(|error| error.to_string())
}

fn keep(text: &str) -> Result<Keep, String> {
    Keep::parse(text, &Host { domains: &domains(), run: &run() }).map_err(|error| error.to_string())
}

#[test]
fn goals_by_hand() {
    for (text, value, unit) in [
        ("web: wait p99", 4e6, "ns"),
        ("  web :wait   p99 ", 4e6, "ns"),
        ("web: share", 20.0, "percent"),
        ("web: switches", 5.0, "1/s"),
        ("web: response p99", 9.0, "ms"),
        ("b:c *: share", 1.0, "percent"),
        // The worst of them.
        ("all: wait p99", 30e6, "ns"),
        ("b*: wait p99", 30e6, "ns"),
        ("host: fairness", 0.75, ""),
        ("host: idle", 10.0, "percent"),
        ("host: switches", 7.0, "1/s"),
    ] {
        let goal = minimise(text).unwrap();
        assert_eq!((goal.value(&run()), goal.figure.unit()), (Some(value), unit), "{text}");
    }
    let least =
        Goal::parse(Direction::Maximise, "all: share", &Host { domains: &domains(), run: &run() })
            .unwrap();
    assert_eq!(least.value(&run()), Some(20.0));
    assert!(least.prefers(2.0, 1.0) && !minimise("web: share").unwrap().prefers(2.0, 1.0));
    assert_eq!(minimise(" web:  wait p99").unwrap().figure.to_string(), "web: wait p99");
}

#[test]
fn a_workload_that_measured_nothing_is_not_known() {
    let goal = minimise("web: response p99").unwrap();
    let mut run = run();
    run.domains[0].tasks[1].values[0].value = None;
    assert_eq!(goal.value(&run), None);
}

#[test]
fn bounds_by_hand() {
    let now = run();
    let mut then = run();
    then.domains[0].time.gotten_ns = 1_000 * MS;
    for (text, bound, value, shortfall) in [
        ("web: share >= 15 %", Bound::Value(15.0), 10.0, 5.0 / 15.0),
        ("web: share >= 10", Bound::Value(10.0), 10.0, 0.0),
        ("web: share >= 80 % of entitled", Bound::OfEntitled(80.0), 40.0, 0.5),
        ("web: share >= 40 % of now", Bound::OfNow(40.0), 50.0, 0.0),
        ("web: wait p99 <= 2 ms", Bound::Value(2e6), 4e6, 1.0),
        ("web: wait p99<=0.005s", Bound::Value(5e6), 4e6, 0.0),
        ("web: response p99 <= 6000 us", Bound::Value(6.0), 9.0, 0.5),
        ("web: switches <= 4 /s", Bound::Value(4.0), 5.0, 0.25),
        ("host: fairness >= 1", Bound::Value(1.0), 0.75, 0.25),
        // Of several the one that is nearest to breaking it.
        ("all: wait p99 <= 20 ms", Bound::Value(20e6), 30e6, 0.5),
        // Who is entitled to nothing has it.
        ("b:c *: share >= 100 % of entitled", Bound::OfEntitled(100.0), 100.0, 0.0),
    ] {
        let keep = keep(text).unwrap();
        assert_eq!(keep.bound, bound, "{text}");
        assert_eq!(keep.value(&then, &now), Some(value), "{text}");
        assert!((keep.shortfall(value) - shortfall).abs() < 1e-12, "{text}");
    }
    // More than nothing is no part of it.
    let most = keep("b:c *: share <= 100 % of entitled").unwrap();
    assert_eq!(most.value(&then, &now), None);
    assert_eq!(
        keep("web: share  >= 80 %  of entitled").unwrap().to_string(),
        "web: share >= 80 % of entitled"
    );
}

#[test]
fn what_cannot_be_is_told_with_its_place() {
    let cases = [
        ("wait p99", "lacks a `:`", "1", "such as 'web: wait p99'"),
        (
            "wbe: wait p99",
            "no domain `wbe`, did you mean `web`?",
            "1",
            "`web`, `batch`, `b:c *`, `all`, `host`",
        ),
        ("z*: wait p99", "no domain `z*`", "1", "known:"),
        (
            "web: wiat p99",
            "unknown metric `wiat p99`, did you mean `wait p99`?",
            "5",
            "`response p99`",
        ),
        ("web:", "no metric is named", "5", "known: `share`"),
        ("batch: response p99", "unknown metric `response p99`", "7", "`worst wait`"),
        ("host: share", "unknown metric `share`", "6", "known: `fairness`, `idle`, `switches`"),
        ("", "lacks a `:`", "1", "write DOMAIN: METRIC"),
    ];
    for (text, says, column, help) in cases {
        let error = minimise(text).unwrap_err();
        assert!(error.contains(says) && error.contains(help), "{error}");
        assert!(error.contains(&format!("--> --minimise:1:{column}\n")), "{error}");
    }
    let cases = [
        ("web: share", "has no bound", "5", "METRIC >= VALUE"),
        ("web: share > 5 %", "has no bound", "5", "METRIC >= VALUE"),
        ("web: share >= 5 % <= 7 %", "one bound at a time", "5", "twice"),
        ("web: share >= much", "`much` is no number", "15", "80 %"),
        ("web: share >= -5 %", "is no number", "15", "80 %"),
        ("web: share >= 1.2.3 %", "is no number", "15", "80 %"),
        ("web: share >=", "`` is no number", "14", "80 %"),
        (
            "web: share >= 5 ms",
            "`ms` is no unit of `web: share`",
            "15",
            "`%`, `% of now`, `% of entitled`",
        ),
        ("web: share >= 101 %", "`web` can have 100 % at most", "15", "its vCPUs are 1"),
        ("all: share >= 101 %", "`web` can have 100 % at most", "15", "one pCPU"),
        ("web: wait p99 <= 5", "`5` lacks a unit", "18", "`ms`"),
        ("web: wait p99 <= 5 %", "`%` is no unit", "18", "`ms`"),
        (
            "web: wait p99 <= 5 % of entitled",
            "nothing that a domain is entitled to",
            "18",
            "of now",
        ),
    ];
    for (text, says, column, help) in cases {
        let error = keep(text).unwrap_err();
        assert!(error.contains(says) && error.contains(help), "{error}");
        assert!(error.contains(&format!("--> --keep:1:{column}\n")), "{error}");
    }
    assert!(minimise(&"x".repeat(2000)).unwrap_err().contains("2000 bytes"));
}

#[test]
fn no_text_steers_a_terminal() {
    let error = minimise("\x1b[2J: wait p99").unwrap_err();
    assert!(!error.contains('\x1b'), "{error:?}");
}
