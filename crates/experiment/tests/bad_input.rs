// SPDX-License-Identifier: GPL-2.0-only
//! Experiments with mistakes: each gets one message with its place and what would be right.

use steelyard_experiment::{Experiment, Files, named, run, unwatched};

const EXPERIMENT: &str = r#"
title = "made up"
publication = "nowhere"
metric.share = { label = "share", domain = "guest", time = "share_percent" }
metric.events = { label = "events", domain = "guest", task = "sysbench-cpu", value = "events" }
[[variant]]
name = "weight {weight}"
scenario = "one"
policy = "credit2"
set = ["domain.guest.weight={weight}"]
each = { weight = [128, 256, 512] }
[[figure]]
name = "shares"
title = "Shares"
x_label = "weight"
x = [128, 256, 512]
metric = "share"
curve = [{ name = "guest", variant = "weight {x}" }]
[[claim]]
says = "more weight, more time"
of = ["more"]
test.increasing = { metric = "share", variants = ["weight 128", "weight 512"] }
"#;
const SCENARIO: &str = r#"
name = "one"
length = "100 ms"
[[domain]]
name = "guest"
[[domain.task]]
workload.sysbench-cpu = {}
[[domain]]
name = "other"
[[domain.task]]
workload.busy = {}
"#;
const TABLE: &str = "[[table]]\nfigure = \"shares\"\nsource = \"made up\"\n";
const LIST: &str = r#"
[[statement]]
name = "more"
source = "made up"
says = "more is more"
"#;
const OF_CURVE: &str = r#"
[[statement]]
name = "guest"
source = "made up"
says = "the guest's shares"
no_claim_yet = "none is needed"
figure = "shares"
curve = "guest"
"#;

fn read(experiment: &str, published: &str, calibration: &str) -> Result<Experiment, String> {
    let listed = if published.is_empty() && calibration.is_empty() { "" } else { OF_CURVE };
    read_list(experiment, &format!("{LIST}{listed}{published}"), calibration)
}

fn read_list(experiment: &str, published: &str, calibration: &str) -> Result<Experiment, String> {
    let texts = [
        ("experiment.toml", experiment),
        ("published.toml", published),
        ("calibration.toml", calibration),
        ("one.toml", SCENARIO),
    ];
    let files = Files { name: "made-up", texts: texts.into(), set: vec![] };
    Experiment::read(&files).map_err(|error| error.to_string())
}

/// The message about an experiment in which one piece was replaced.
#[track_caller]
fn message(from: &str, to: &str) -> String {
    assert!(EXPERIMENT.contains(from), "{from}");
    read(&EXPERIMENT.replacen(from, to, 1), "", "").expect_err(to)
}

#[track_caller]
fn shows(message: &str, pieces: &[&str]) {
    for piece in pieces {
        assert!(message.contains(piece), "`{piece}` is missing in:\n{message}");
    }
}

#[test]
fn what_fits_is_read() {
    let table = |x, values| format!("{TABLE}x = [{x}]\nvalues = {{ guest = [{values}] }}\n");
    let published = table("128, 512", "33, nan");
    let experiment = read(EXPERIMENT, &published, &table("256", "50")).unwrap();
    let names: Vec<_> = experiment.variants.iter().map(|variant| variant.name.as_str()).collect();
    assert_eq!(names, ["weight 128", "weight 256", "weight 512"]);
    assert_eq!(experiment.variants[2].setup.domains[0].weight, 512);
}

/// 512 events of 1 ms, half of a pCPU: it takes a second, and the run, which would take 9 s, ends when that is looked at.
#[test]
fn a_metric_may_end_its_run() {
    let figures = |ends_run: &str| {
        let experiment = EXPERIMENT
            .replace("value = \"events\" }", &format!("value = \"total time\"{ends_run} }}"));
        let texts = [
            ("experiment.toml", experiment.as_str()),
            ("published.toml", LIST),
            ("calibration.toml", ""),
            ("one.toml", &SCENARIO.replace("100 ms", "9 s").replacen("{}", "{ events = 512 }", 1)),
        ];
        let files = Files { name: "made-up", texts: texts.into(), set: vec![] };
        let experiment = Experiment::read(&files).unwrap_or_else(|error| panic!("{error}"));
        let outcome = run(&[experiment], 1, &unwatched).unwrap_or_else(|error| panic!("{error}"));
        let of_variant = |metric: &str| outcome[0].variants[1].metrics[metric][0].unwrap().median;
        (of_variant("share"), of_variant("events"))
    };
    let (whole, total_s) = figures("");
    assert!((0.9..1.2).contains(&total_s), "{total_s}");
    let (ended, same_s) = figures(", ends_run = true");
    assert_eq!(same_s, total_s);
    // 0.5 s of 9 and of 2.
    assert!((whole * 9.0 - ended * 2.0).abs() < 0.1 && whole > 5.0, "{whole} {ended}");
}

#[test]
fn an_unknown_experiment_gets_the_nearest_name() {
    let message = named("mcredit", &[]).unwrap_err().to_string();
    shows(&message, &["there is no experiment `mcredit`, did you mean `mcredit2`?", "`cosched`"]);
}

#[test]
fn changes_are_made_where_they_suit() {
    let read = |set: &[&str]| {
        let texts = [
            ("experiment.toml", EXPERIMENT),
            ("published.toml", LIST),
            ("calibration.toml", ""),
            ("one.toml", SCENARIO),
        ];
        let set = set.iter().map(|&change| change.to_owned()).collect();
        Experiment::read(&Files { name: "made-up", texts: texts.into(), set })
    };
    let changed = read(&["domain.other.weight=1024", "credit2.ratelimit_ns=5000000"]).unwrap();
    for (variant, plain) in changed.variants.iter().zip(&read(&[]).unwrap().variants) {
        assert_eq!(variant.setup.domains[1].weight, 1024);
        assert_eq!(variant.setup.domains[0].weight, plain.setup.domains[0].weight);
        assert_ne!(variant.policy, plain.policy);
    }
    // Of nobody's policy, of no scenario, and none.
    for change in ["credit.slice_ns=5000000", "domain.others.weight=1", "weight"] {
        let message = read(&["domain.other.weight=1024", change]).unwrap_err().to_string();
        shows(&message, &["--set", change.split('=').next().unwrap()]);
    }
}

#[test]
fn mistakes_have_their_place() {
    shows(
        &message("publication", "publikation"),
        &["`publikation`, did you mean `publication`?", "experiments/made-up/experiment.toml:3:1"],
    );
    shows(&message("\"one\"", "\"two\""), &["two.toml", "experiment.toml:8:1"]);
    shows(&message("credit2", "credit3"), &["unknown policy `credit3`", "experiment.toml:9:1"]);
    shows(&message("guest.weight=", "guest.wieght="), &["did you mean `weight`?", ":10:1"]);
    shows(&message("name = \"weight {weight}\"", "name = \"same\""), &["two variants", "`same`"]);
    shows(&message("metric = \"share\"", "metric = \"shares\""), &["did you mean `share`?"]);
    shows(&message("\"weight {x}\"", "\"weigth {x}\""), &["did you mean `weight 128`?", ":18"]);
    shows(&message("[\"weight 128\"", "[\"weight 12\""), &["did you mean `weight 128`?", ":22"]);
    shows(&message("[\"weight 128\", ", "["), &["at least two variants"]);
    shows(&message("domain = \"guest\"", "domain = \"guests\""), &["cannot be measured"]);
    shows(&message("time =", "host = \"fairness\", time ="), &["a metric is of the `host`"]);
    shows(&message("time =", "ends_run = true, time ="), &["only a `value`", "experiment.toml:4"]);
    shows(
        &message("time = \"share_percent\"", "time = \"share\""),
        &["unknown word `share`", ":4:"],
    );
    shows(&message("test.increasing", "test.rising"), &["unknown word `rising`", ":22"]);
}

#[test]
fn tables_fit_their_figures() {
    let refused = |table: &str| read(EXPERIMENT, &format!("{TABLE}{table}"), "").unwrap_err();
    shows(
        &refused("x = [100]\nvalues = { guest = [1] }"),
        &["`100` is no place", "published.toml"],
    );
    shows(&refused("x = [128]\nvalues = { gest = [1] }"), &["did you mean `guest`?"]);
    shows(&refused("x = [128]\nvalues = { guest = [1, 2] }"), &["2 values for 1 places"]);
}

#[test]
fn nothing_is_checked_by_what_it_was_fitted_on() {
    let table = format!("{TABLE}x = [128]\nvalues = {{ guest = [20] }}\n");
    shows(&read(EXPERIMENT, &table, &table).unwrap_err(), &["fitted on a check"]);
    let claim = EXPERIMENT.replacen(
        "test.increasing = { metric = \"share\", variants = [\"weight 128\", \"weight 512\"] }",
        "test.bounds = { metric = \"share\", variant = \"weight 128\", at_least = 1 }",
        1,
    );
    assert!(read(&claim, "", "").is_ok());
    shows(&read(&claim, "", &table).unwrap_err(), &["checks nothing"]);
    // Two values, one of which was not fitted on, are a check; two that were are none.
    assert!(read(EXPERIMENT, "", &table).is_ok());
    let both = format!("{TABLE}x = [128, 512]\nvalues = {{ guest = [20, 67] }}\n");
    shows(&read(EXPERIMENT, "", &both).unwrap_err(), &["checks nothing"]);
}

#[test]
fn fitted_parameters_are_what_they_are_said_to_be() {
    let with = |key: &str, value: &str, figure: &str| {
        let parameter = format!(
            "[[parameter]]\nscenarios = [\"one\"]\nkey = \"{key}\"\nvalue = \"{value}\"\n\
             fitted_on = \"{figure}\"\n"
        );
        read(EXPERIMENT, "", &format!("{parameter}{TABLE}x = [128]\nvalues = {{ guest = [20] }}\n"))
    };
    assert!(with("domain.guest.weight", "256", "shares").is_ok());
    shows(&with("domain.guest.weight", "512", "shares").unwrap_err(), &["another value"]);
    shows(&with("domain.gest.weight", "256", "shares").unwrap_err(), &["did you mean `guest`?"]);
    shows(&with("domain.guest.weight", "256", "share").unwrap_err(), &["did you mean `shares`?"]);
}

#[test]
fn everything_that_was_published_is_listed() {
    let refused = |list: &str| read_list(EXPERIMENT, list, "").unwrap_err();
    shows(&refused(&LIST.replace("\"more\"", "\"mroe\"")), &["did you mean `mroe`?", ":21:"]);
    shows(&refused(&format!("{LIST}{LIST}")), &["there are two of this name", "published.toml:8:"]);
    let unclaimed = LIST.replace("\"more\"", "\"other\"");
    shows(&refused(&format!("{LIST}{unclaimed}")), &["`other`: it has one of: a claim"]);
    let with = |line: &str| refused(&format!("{LIST}{line}"));
    shows(&with("no_claim_yet = \"none\"\n"), &["`more`: it has one of"]);
    shows(&with("differs = \"slower\"\n"), &["`here` is missing"]);
    shows(&with("figure = \"shares\"\n"), &["come together"]);
    shows(&with("figure = \"shares\"\ncurve = \"guest\"\n"), &["no table has values"]);
    let table = format!("{TABLE}x = [128]\nvalues = {{ guest = [33] }}\n");
    shows(&with(&table), &["no statement has the values of `guest` of `shares`"]);
    let claim = |from: &str, to: &str| {
        read_list(&EXPERIMENT.replacen(from, to, 1), LIST, "").expect_err(to)
    };
    shows(&claim("of = [\"more\"]\n", ""), &["`ours` is of none"]);
    shows(&claim("[[claim]]", "[[ours]]"), &["`ours` is of none"]);
}

#[test]
fn what_real_hosts_gave_is_of_known_things() {
    let lab = SCENARIO.to_owned() + "[[policy]]\npolicy = \"credit\"\n";
    let read = |machine: &str, policy: &str, domain: &str| {
        let measured = format!(
            "[[machine]]\nname = \"Xen\"\nof = \"4\"\ndate = \"today\"\n[[measured]]\nmachine = \"{machine}\"\n\
             policy = \"{policy}\"\ndomain = \"{domain}\"\nshare_percent = 1\nworst_wait_ms = 2\n"
        );
        let texts = [
            ("experiment.toml", EXPERIMENT),
            ("published.toml", LIST),
            ("calibration.toml", ""),
            ("one.toml", SCENARIO),
            ("lab.toml", &lab),
            ("measured.toml", &measured),
        ];
        let files = Files { name: "made-up", texts: texts.into(), set: vec![] };
        Experiment::read(&files).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(read("Xen", "credit@xen-4.20", "guest"), Ok(()));
    for (machine, policy, domain, words) in [
        ("Zen", "credit@xen-4.20", "guest", "unknown machine `Zen`, did you mean `Xen`?"),
        ("Xen", "credit2", "guest", "unknown policy `credit2`"),
        ("Xen", "credit@xen-4.20", "gest", "unknown domain `gest`, did you mean `guest`?"),
    ] {
        let message = read(machine, policy, domain).expect_err(words);
        assert!(message.contains(words) && message.contains("measured.toml"), "{message}");
    }
}
