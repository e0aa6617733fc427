// SPDX-License-Identifier: GPL-2.0-only
//! The report in a real browser: it renders without an error, its charts show something, and it asks
//! nothing of the network.

// What the probe reports is looked into outside the test functions too.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::{env, fs};

use serde_json::Value;
use steelyard_boundary::output::Output;
use steelyard_report::{REPRODUCTION_FILES, Results, RunTrace, write_html, write_reproduction};

/// Collects every kind of complaint; goes before all else.
const LISTEN: &str = r#"<script>
const complaints = [];
addEventListener("error", (event) => complaints.push(`error: ${event.message}`), true);
addEventListener("unhandledrejection", (event) => complaints.push(`rejection: ${event.reason}`));
addEventListener("securitypolicyviolation", (event) =>
  complaints.push(`asked for ${event.blockedURI}: ${event.violatedDirective}`));
for (const kind of ["error", "warn"]) {
  console[kind] = (...words) => complaints.push(`console.${kind}: ${words.join(" ")}`);
}
</script>"#;

/// Says, once all is drawn, what there is to see; then uses the page as a person would.
const PROBE: &str = r#"<script>
addEventListener("load", async () => {
  const settle = () => new Promise((resolve) => setTimeout(resolve, 500));
  // A mark counts if it covers something.
  const marks = (chart) =>
    [...chart.querySelectorAll(".point path, path.js-line, .points path")].filter((path) => {
      const { width, height } = path.getBoundingClientRect();
      return width + height > 0;
    }).length;
  const charts = () =>
    Object.fromEntries([...document.querySelectorAll(".chart")].map((c) => [c.id, marks(c)]));
  const use = (element, value) => {
    element.value = value;
    element.dispatchEvent(new Event("change"));
  };
  for (const section of document.querySelectorAll("section")) {
    section.scrollIntoView();
    await settle();
  }
  scrollTo(0, 0);
  await settle();
  const seen = { charts: charts(), complaints };
  const first = document.querySelector(".timeline");
  if (first?.range) {
    const ranges = [first.range];
    for (const action of ["worst", "in", "left", "right", "out", "all"]) {
      first.querySelector(`[data-action=${action}]`).click();
      await settle();
      ranges.push(first.range);
    }
    seen.ranges = ranges;
    const area = first.querySelector(".nsewdrag");
    const { x, y, width, height } = area.getBoundingClientRect();
    area.dispatchEvent(new WheelEvent("wheel", {
      deltaY: -300, clientX: x + width / 2, clientY: y + height / 2, bubbles: true, cancelable: true,
    }));
    await settle();
    seen.wheel = first.range;
    const boxes = document.querySelectorAll(".policies input");
    boxes[0].click();
    await settle();
    seen.fewer = charts();
    boxes[0].click();
    use(document.querySelector(".domain"), 0);
    await settle();
    seen.other = charts();
  }
  use(document.getElementById("theme"), "dark");
  await settle();
  seen.dark = charts();
  seen.background = getComputedStyle(document.body).backgroundColor;
  seen.requests = performance.getEntriesByType("resource").map((entry) => entry.name);
  const pre = document.createElement("pre");
  pre.id = "seen";
  pre.textContent = JSON.stringify(seen);
  document.body.append(pre);
});
</script>"#;

/// Opens a report and returns what the probe saw.
fn open(name: &str, results: &Results, traces: &[RunTrace]) -> Value {
    let mut html = vec![];
    write_html(results, traces, &mut html).unwrap();
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("report.html"), &html).unwrap();
    open_page(&directory)
}

/// Opens the report in a directory.
fn open_page(directory: &Path) -> Value {
    let html = fs::read_to_string(directory.join("report.html")).unwrap();
    let probed = html.replacen("<head>", &format!("<head>{LISTEN}"), 1);
    // The end of the page, not the words "</body>" in a script.
    let end = probed.rfind("</body>").unwrap();
    let probed = format!("{}{PROBE}{}", &probed[..end], &probed[end..]);
    let page = directory.join("probed.html");
    fs::write(&page, probed).unwrap();

    let profile = tempfile::tempdir().unwrap();
    let chromium = env::var_os("CHROMIUM").unwrap_or_else(|| "chromium".into());
    let output = Command::new(&chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--window-size=1280,2000", "--virtual-time-budget=60000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap_or_else(|error| {
            panic!("{chromium:?}: {error}; `make test` installs it, CHROMIUM names another")
        });
    let dom = String::from_utf8_lossy(&output.stdout);
    let seen = dom
        .rsplit_once("<pre id=\"seen\">")
        .and_then(|(_, rest)| rest.split_once("</pre>"))
        .unwrap_or_else(|| {
            panic!("the page did not come up: {}", String::from_utf8_lossy(&output.stderr))
        })
        .0;
    let seen = seen.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&seen).unwrap()
}

fn assert_quiet(seen: &Value) {
    assert_eq!(seen["complaints"], Value::Array(vec![]));
    assert_eq!(seen["requests"], Value::Array(vec![]));
}

fn marks(seen: &Value, state: &str, chart: &str) -> u64 {
    seen[state][chart].as_u64().unwrap_or_else(|| panic!("no chart {chart} in {seen}"))
}

#[test]
fn the_report_renders_and_can_be_used() {
    let results = common::results();
    let seen = open("report", &results, &common::traces(&results));
    assert_quiet(&seen);
    for state in ["charts", "dark"] {
        for input in 0..results.comparisons.len() {
            let policies = results.comparisons[input].policies.len() as u64;
            // Three groups of domains, a bar and a diamond each.
            assert_eq!(marks(&seen, state, &format!("shares-{input}")), 3 * 2 * policies);
            for chart in ["waits", "worst", "workload", "timeline"] {
                let ids = match chart {
                    "timeline" => {
                        vec![format!("timeline-{input}-0"), format!("timeline-{input}-1")]
                    }
                    _ => vec![format!("{chart}-{input}")],
                };
                for id in ids {
                    let least =
                        if state == "dark" && chart == "workload" { 0 } else { policies - 1 };
                    assert!(marks(&seen, state, &id) >= least, "{id}: {seen}");
                }
            }
        }
    }
    assert!(marks(&seen, "fewer", "shares-0") < marks(&seen, "charts", "shares-0"));

    // Buttons and wheel lead somewhere, "all" back.
    let ranges: Vec<(f64, f64)> = serde_json::from_value(seen["ranges"].clone()).unwrap();
    let length = |(from, to): (f64, f64)| to - from;
    let (all, worst, nearer) = (ranges[0], ranges[1], ranges[2]);
    assert!(length(worst) < length(all) && length(nearer) < length(worst), "{ranges:?}");
    assert!(ranges[3].0 < nearer.0 && ranges[4] == nearer, "{ranges:?}");
    assert!(length(ranges[5]) > length(nearer) && ranges[6] == all, "{ranges:?}");
    let wheel: (f64, f64) = serde_json::from_value(seen["wheel"].clone()).unwrap();
    assert!(length(wheel) < length(all), "{wheel:?}");

    assert_eq!(seen["background"], "rgb(20, 23, 27)");
}

#[test]
fn the_report_of_experiments_renders() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("experiments");
    let reproduction = common::reproduction();
    let output = Output::directory(&directory, &REPRODUCTION_FILES, &[]).unwrap();
    write_reproduction(&output, &reproduction, &AtomicBool::new(false)).unwrap();
    let seen = open_page(&directory);
    assert_quiet(&seen);
    for state in ["charts", "dark"] {
        // Three bars and two published values; then two curves of a line, three points and a
        // published one.
        assert!(marks(&seen, state, "figure-0-0") >= 5, "{seen}");
        assert!(marks(&seen, state, "figure-0-1") >= 6, "{seen}");
    }
    assert_eq!(seen["background"], "rgb(20, 23, 27)");
}

#[test]
fn names_cannot_break_out_of_the_report() {
    let nasty = "</script><script>console.error('broken out')</script><img src=x onerror=alert(1)>";
    let mut comparison = common::comparison(nasty);
    comparison.source = nasty.to_owned();
    comparison.domains[1].name = nasty.to_owned();
    for run in &mut comparison.runs {
        run.domains[1].name = nasty.to_owned();
        for task in run.domains.iter_mut().flat_map(|domain| &mut domain.tasks) {
            task.name = nasty.to_owned();
            for value in &mut task.values {
                value.name += nasty;
                value.unit += nasty;
            }
        }
    }
    let results = Results::new(vec![comparison]);
    let seen = open("nasty", &results, &common::traces(&results));
    assert_quiet(&seen);
    assert!(marks(&seen, "charts", "shares-0") > 0);
}

#[test]
fn a_report_of_little_still_renders() {
    let mut comparison = common::comparison("little");
    for run in &mut comparison.runs {
        for domain in &mut run.domains {
            domain.time.waits = Default::default();
            domain.tasks.clear();
        }
    }
    assert_quiet(&open("little", &Results::new(vec![comparison]), &[]));
    assert_quiet(&open("nothing", &Results::new(vec![]), &[]));
}
