// SPDX-License-Identifier: GPL-2.0-only
// What the charts of every page have in common: data, colours, units, axes, and when they are drawn.
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);

// Policies have Okabe and Ito's colours, domains Paul Tol's light ones, on which one can write:
// people with any colour vision can tell them apart. Where there are more things than colours,
// patterns go on; lines differ in dashes and symbols too.
const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b5a800"];
const DOMAINS =
  ["#77aadd", "#ee8866", "#eedd88", "#ffaabb", "#44bb99", "#bbcc33", "#99ddff", "#aaaa00"];
const ON_DOMAINS = "#14171b";
const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
const PATTERNS = ["", "/", "x", ".", "+", "-", "\\"];
const SYMBOLS = ["circle", "square", "triangle-up", "cross", "x", "star", "pentagon"];
const colour = (index) => COLOURS[index % COLOURS.length];
const cycle = (list, index, colours) => list[Math.floor(index / colours.length) % list.length];

const escape = (text) =>
  String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const variable = (name) =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const UNITS = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]];
const time = (ns) => {
  const [unit, scale] = UNITS.find(([, scale]) => ns >= scale) ?? UNITS[3];
  return `${Number((ns / scale).toPrecision(4))} ${unit}`;
};
const nanoseconds = { ns: 1, us: 1e3, "µs": 1e3, ms: 1e6, s: 1e9 };

const layout = (more) => {
  const axis = {
    gridcolor: variable("--grid"),
    zerolinecolor: variable("--line"),
    automargin: true,
    title: { font: { size: 13 }, standoff: 8 },
  };
  const both = (more) => ({ ...axis, ...more, title: { ...axis.title, ...more?.title } });
  const { xaxis, yaxis, ...rest } = more;
  return {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "inherit", size: 13, color: variable("--text") },
    margin: { l: 60, r: 16, t: 12, b: 44 },
    hoverlabel: { align: "left" },
    modebar: {
      bgcolor: "rgba(0,0,0,0)",
      color: variable("--many"),
      activecolor: variable("--text"),
    },
    // Above: names below an axis may be long, and slanted.
    legend: { orientation: "h", y: 1.02, yanchor: "bottom" },
    ...rest,
    xaxis: both(xaxis),
    yaxis: both(yaxis),
  };
};
const draw = (element, traces, more, config) =>
  Plotly.react(element, traces, layout(more), {
    displaylogo: false,
    responsive: true,
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
    ...config,
  });

const whiskers = (spreads) => ({
  type: "data",
  symmetric: false,
  array: spreads.map((s) => (s ? s.greatest - s.median : 0)),
  arrayminus: spreads.map((s) => (s ? s.median - s.least : 0)),
  thickness: 1.2,
  width: 3,
  color: variable("--text"),
});

// Sections are drawn when they come near the window, so that the first is there soon; all again when
// the colours change. `set_up` makes of a section what draws it.
function draw_sections(set_up) {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const theme = document.getElementById("theme");
  const sections = new Map();
  const near = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        if (isIntersecting) show(target);
      }
    },
    { rootMargin: "800px" },
  );
  const show = (section) => {
    near.unobserve(section);
    if (!sections.has(section)) sections.set(section, set_up(section));
    sections.get(section)();
  };
  const colour_all = () => {
    const wanted = theme.value === "auto" ? (dark.matches ? "dark" : "light") : theme.value;
    document.documentElement.dataset.theme = wanted;
    for (const redraw of sections.values()) redraw();
  };
  theme.addEventListener("change", colour_all);
  dark.addEventListener("change", colour_all);
  colour_all();
  const all = [...document.querySelectorAll("section.input")];
  for (const section of all) near.observe(section);
  addEventListener("beforeprint", () => all.filter((s) => !sections.has(s)).forEach(show));
}
