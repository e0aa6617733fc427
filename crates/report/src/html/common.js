// SPDX-License-Identifier: GPL-2.0-only
// What the charts of every page have in common: data, colours, units, and when they are drawn.
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);

// Policies have Okabe and Ito's colours, the light ones darkened until each stands out 3 : 1 on both cards;
// domains Paul Tol's light ones, on which one can write: people with any colour vision can tell them apart.
// Where there are more things than colours, hatches go on; lines differ in dashes and symbols too.
const COLOURS = ["#0072b2", "#c77f00", "#009e73", "#cc79a7", "#3a96d0", "#d55e00", "#948a00"];
const DOMAINS =
  ["#77aadd", "#ee8866", "#eedd88", "#ffaabb", "#44bb99", "#bbcc33", "#99ddff", "#aaaa00"];
const DASHES = ["", "8 4", "2 3", "8 3 2 3", "14 5", "14 4 2 4"];
const colour = (index) => COLOURS[index % COLOURS.length];
const dash = (index) => DASHES[index % DASHES.length];
const symbol = (index) => draw.SYMBOLS[index % draw.SYMBOLS.length];
// Which hatch the thing `index` has, where there are `colours` colours.
const hatch = (index, colours) => Math.floor(index / colours.length) % draw.HATCHES;

const plain = (value) => {
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e7 || size < 1e-4)) return value.toExponential(2);
  return Number(value.toPrecision(4)).toLocaleString("en", { maximumFractionDigits: 8 });
};
const UNITS = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]];
const time = (ns) => {
  if (ns === 0) return "0";
  const [unit, scale] = UNITS.find(([, scale]) => ns >= scale) ?? UNITS[3];
  return `${Number((ns / scale).toPrecision(4))} ${unit}`;
};
const nanoseconds = { ns: 1, us: 1e3, "µs": 1e3, ms: 1e6, s: 1e9 };

// A spread as a table has it: the median, and the rest if seeds differ.
const spread_text = (spread, format) => {
  if (!spread) return "–";
  const all = [spread.least, spread.greatest].map(format).join("..");
  return format(spread.median) + (spread.greatest > spread.least ? ` (${all})` : "");
};

// The first section is drawn at once, the others when they come near the window or are printed. `set_up` makes of
// a section what draws it.
function draw_sections(set_up) {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const theme = document.getElementById("theme");
  const waiting = new Set(document.querySelectorAll("section.input"));
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
    if (waiting.delete(section)) set_up(section)();
  };
  const colour_all = () => {
    const wanted = theme.value === "auto" ? (dark.matches ? "dark" : "light") : theme.value;
    document.documentElement.dataset.theme = wanted;
  };
  theme.addEventListener("change", colour_all);
  dark.addEventListener("change", colour_all);
  colour_all();
  const [first, ...others] = waiting;
  if (first) show(first);
  for (const section of others) near.observe(section);
  addEventListener("beforeprint", () => [...waiting].forEach(show));
}
