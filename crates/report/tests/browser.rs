// SPDX-License-Identifier: GPL-2.0-only
//! The report in a real browser: it renders without an error, its charts show something, each has its table and
//! can be read and used without a mouse, and it asks nothing of the network.

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
  const settle = () => new Promise((resolve) => setTimeout(resolve, 200));
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  // A mark counts if it covers something.
  const marks = (chart) =>
    all(".mark", chart).filter((mark) => {
      const { width, height } = mark.getBoundingClientRect();
      return width + height > 0;
    }).length;
  const charts = () => Object.fromEntries(all(".chart").map((chart) => [chart.id, marks(chart)]));
  const use = (element, value) => {
    element.value = value;
    element.dispatchEvent(new Event("change"));
  };
  const press = (element, key) =>
    element.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  // Relative luminance and contrast as WCAG 2.2 defines them.
  const canvas = document.createElement("canvas").getContext("2d");
  const luminance = (colour) => {
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((value) =>
      value / 255 <= 0.03928 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [less, more] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (more + 0.05) / (less + 0.05);
  };
  const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue(name);
  const contrasts = () => {
    const words = ["--text", "--faint", "--accent"].flatMap((text) =>
      ["--page", "--card", "--best"].map((on) => contrast(variable(text), variable(on))));
    return {
      words: Math.min(...words, ...DOMAINS.map((domain) => contrast('#14171b', domain))),
      marks: Math.min(...COLOURS.map((policy) => contrast(policy, variable("--card")))),
    };
  };
  for (const section of all("section")) {
    section.scrollIntoView();
    await settle();
  }
  scrollTo(0, 0);
  // On a busy machine this browser's clock outruns its frames, and what comes near the window is not seen to: paper
  // has all that is missing.
  dispatchEvent(new Event("beforeprint"));
  await settle();
  const seen = { charts: charts(), complaints, contrast: { light: contrasts() } };

  // Rows of the table behind each chart that is shown.
  const details = all(".chart").filter((chart) => !chart.hidden)
    .map((chart) => [chart.id, chart.closest("figure").querySelector("details")]);
  await Promise.all(details.map(([, each]) => new Promise((opened) => {
    each.addEventListener("toggle", opened, { once: true });
    each.open = true;
  })));
  seen.tables = Object.fromEntries(details.map(([id, each]) => [id, all("tbody tr", each).length]));
  for (const [, each] of details) each.open = false;
  // What a legend covers: text of the chart below it.
  const overlap = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  seen.covered = all(".chart").flatMap((chart) => {
    const legend = chart.querySelector(".legend")?.getBoundingClientRect();
    return legend ? all(".panels text", chart).filter((text) => overlap(legend, text.getBoundingClientRect())) : [];
  }).map((text) => text.textContent);
  // Arrow keys lead through a chart, and what they lead to is told.
  seen.keys = all(".chart").filter((chart) => chart.says?.length > 1).map((chart) => {
    chart.focus();
    const told = [];
    for (const key of ["ArrowRight", "ArrowRight", "End", "Home"]) {
      press(chart, key);
      told.push(chart.querySelector(".tip:not([hidden])")?.textContent);
    }
    press(chart, "Escape");
    return {
      focused: document.activeElement === chart, told,
      wanted: [chart.says[0], chart.says[1], chart.says.at(-1), chart.says[0]],
      shown: all(".tip:not([hidden])", chart).length,
    };
  });
  // A number that is none is in an attribute of something that cannot be drawn.
  seen.broken = all(".chart svg *").flatMap((element) => [...element.attributes])
    .filter(({ value }) => /NaN|Infinity|undefined/.test(value)).map(({ name, value }) => `${name}=${value}`);
  seen.moving = document.getAnimations().length;

  const first = document.querySelector(".timeline");
  if (first?.range) {
    const ranges = [first.range];
    for (const action of ["worst", "in", "left", "right", "out", "all"]) {
      first.querySelector(`[data-action=${action}]`).click();
      await settle();
      ranges.push(first.range);
    }
    seen.ranges = ranges;
    const area = first.querySelector(".chart");
    const { x, y, width, height } = area.getBoundingClientRect();
    const middle = { clientX: x + width / 2, clientY: y + height / 2, bubbles: true, cancelable: true };
    const wheel = (ctrlKey) => area.dispatchEvent(new WheelEvent("wheel", { ...middle, deltaY: -300, ctrlKey }));
    seen.scrolls = wheel(false) && first.range[1] === ranges[0][1];
    seen.stays = wheel(true);
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
  seen.contrast.dark = contrasts();
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

/// It complains of nothing, fetches nothing, and who sees little, or has no mouse, has all of it.
fn assert_good(seen: &Value) {
    for none in ["complaints", "requests", "covered", "broken"] {
        assert_eq!(seen[none], Value::Array(vec![]), "{none}");
    }
    // WCAG 2.2, level AA: 4.5 : 1 for words (1.4.3), 3 : 1 for what a chart is drawn with (1.4.11).
    for theme in ["light", "dark"] {
        let least = |of: &str| seen["contrast"][theme][of].as_f64().unwrap();
        assert!(least("words") >= 4.5 && least("marks") >= 3.0, "{}", seen["contrast"]);
    }
    for (chart, rows) in seen["tables"].as_object().unwrap() {
        assert!(rows.as_u64() > Some(0), "{chart} has no table: {}", seen["tables"]);
    }
    for chart in seen["keys"].as_array().unwrap() {
        assert_eq!(chart["focused"], true);
        assert_eq!((&chart["told"], &chart["shown"]), (&chart["wanted"], &Value::from(0)));
    }
    assert_eq!(seen["moving"], 0);
}

fn marks(seen: &Value, state: &str, chart: &str) -> u64 {
    seen[state][chart].as_u64().unwrap_or_else(|| panic!("no chart {chart} in {seen}"))
}

#[test]
fn the_report_renders_and_can_be_used() {
    let results = common::results();
    let seen = open("report", &results, &common::traces(&results));
    assert_good(&seen);
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
    // Without Ctrl the wheel is the page's.
    assert_eq!((&seen["scrolls"], &seen["stays"]), (&Value::Bool(true), &Value::Bool(false)));
    assert_eq!(seen["tables"].as_object().unwrap().len(), 2 * 6);
    assert_eq!(seen["keys"].as_array().unwrap().len(), 2 * 6);

    assert_eq!(seen["background"], "rgb(20, 23, 27)");
}

#[test]
fn the_report_of_experiments_renders() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("experiments");
    let reproduction = common::reproduction();
    let output = Output::directory(&directory, &REPRODUCTION_FILES, &[]).unwrap();
    write_reproduction(&output, &reproduction, &AtomicBool::new(false)).unwrap();
    let seen = open_page(&directory);
    assert_good(&seen);
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
    assert_good(&seen);
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
    assert_good(&open("little", &Results::new(vec![comparison]), &[]));
    assert_good(&open("nothing", &Results::new(vec![]), &[]));
}
