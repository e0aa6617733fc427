// SPDX-License-Identifier: GPL-2.0-only
// Draws charts as SVG. A chart is panels side by side, a legend above them, and a table behind them.
//
// A panel has two axes and marks in the axes' numbers; on an axis of names number n is the middle of name n.
// Every mark with `says` can be pointed at, and reached with the arrow keys. Colours of text and lines
// come from the style sheet, so that light, dark and paper need no drawing anew. Nothing moves by itself.
"use strict";
const draw = (() => {
  const node = (name, attributes, ...children) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) {
      if (value !== undefined && value !== null) made.setAttribute(key, value);
    }
    made.append(...children);
    return made;
  };
  const html = (name, attributes, ...children) => {
    const made = Object.assign(document.createElement(name), attributes);
    made.append(...children);
    return made;
  };

  // Widths in pixels: of text, of what surrounds the axes.
  const pen = document.createElement("canvas").getContext("2d");
  const width_of = (text) => {
    pen.font = "13px system-ui, sans-serif";
    return pen.measureText(text).width;
  };
  const LINE = 18;
  const LONGEST_NAME = 190;
  // Names that begin alike differ at the end: what is left out is of the middle.
  const shortened = (text, room) => {
    if (width_of(text) <= room) return text;
    const without = (left_out) => {
      const begin = Math.ceil((text.length - left_out) / 2);
      return `${text.slice(0, begin)}…${text.slice(begin + left_out)}`;
    };
    let left_out = 1;
    while (left_out < text.length - 1 && width_of(without(left_out)) > room) left_out += 1;
    return without(left_out);
  };

  // Lines over a colour, for more things than there are colours.
  const HATCHES = ["", "M0 8L8 0", "M0 0L8 8M0 8L8 0", "M4 0V8", "M0 4H8", "M4 0V8M0 4H8", "M0 0L8 8"];
  const hatches = node("svg", { width: 0, height: 0, "aria-hidden": "true", class: "hatches" },
    ...HATCHES.slice(1).map((path, index) =>
      node("pattern", { id: `hatch-${index + 1}`, width: 8, height: 8, patternUnits: "userSpaceOnUse" },
        node("path", { d: path }))));
  document.body.prepend(hatches);

  const SYMBOLS = ["circle", "square", "triangle", "cross", "diamond", "star", "bar"];
  const OUTLINES = {
    circle: "M-4 0A4 4 0 1 0 4 0A4 4 0 1 0 -4 0Z",
    square: "M-4 -4H4V4H-4Z",
    triangle: "M0 -5L5 4H-5Z",
    cross: "M-2 -5H2V-2H5V2H2V5H-2V2H-5V-2H-2Z",
    diamond: "M0 -6L6 0L0 6L-6 0Z",
    star: "M0 -6L2 -2L6 0L2 2L0 6L-2 2L-6 0L-2 -2Z",
    bar: "M-6 -2H6V2H-6Z",
  };
  const symbol = (mark, x, y) =>
    node("path", {
      d: OUTLINES[mark.symbol ?? "circle"],
      transform: `translate(${x} ${y})${mark.size ? ` scale(${mark.size})` : ""}`,
      class: mark.color ? undefined : "plain",
      fill: mark.color && !mark.open ? mark.color : undefined,
      stroke: mark.color && mark.open ? mark.color : undefined,
      ...(mark.open ? { "fill-opacity": 0, "stroke-width": 1.6 } : {}),
    });

  // Where to write a number on an axis.
  function ticks_of(axis, from, to, room) {
    if (axis.names) return axis.names.map((_, index) => index);
    const most = Math.max(3, Math.floor(room));
    if (axis.log) {
      const decades = [];
      for (let power = Math.floor(from); power <= to + 1e-9; power += 1) decades.push(power);
      const all = decades.length > 2 ? decades
        : decades.flatMap((power) => [1, 2, 5].map((times) => power + Math.log10(times)));
      const shown = all.filter((at) => at >= from - 1e-9 && at <= to + 1e-9);
      const each = Math.ceil(shown.length / most);
      return shown.filter((_, index) => index % each === 0);
    }
    const rough = (to - from) / most;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((times) => times * power >= rough) * power;
    const ticks = [];
    for (let count = Math.ceil(from / step - 1e-9); count * step <= to + step * 1e-9; count += 1) {
      ticks.push(count * step);
    }
    return ticks;
  }

  // The numbers of an axis from which to which, of logarithms their exponents.
  function range_of(axis, values) {
    if (axis.names) return [-0.5, axis.names.length - 0.5];
    if (axis.range) return axis.range;
    let known = values.filter((value) => Number.isFinite(value));
    if (axis.log) known = known.filter((value) => value > 0).map(Math.log10);
    // Where bars begin.
    const base = axis.zero ? 0 : axis.least > 0 ? Math.log10(axis.least) : undefined;
    if (base !== undefined) known.push(base);
    let [least, greatest] = [Math.min(...known), Math.max(...known)];
    if (!known.length) [least, greatest] = [0, 1];
    const edge = 0.04 * (greatest - least) || Math.abs(greatest) / 10 || 1;
    return [least === base ? base : least - edge, greatest + edge];
  }

  const format_of = (axis) => (at) =>
    axis.names ? axis.names[at] : (axis.format ?? plain)(axis.log ? 10 ** at : at);

  // A panel's axes and where they lie; `x` and `y` turn numbers into pixels.
  function frame(panel, width) {
    const { x: across, y: up, marks } = panel;
    const all = (axis) => marks.flatMap((mark) =>
      mark.points ? mark.points.map((point) => point?.[axis === "x" ? 0 : 1])
        : [mark[axis], mark[`${axis}0`], mark[`${axis}1`]]);
    const [x_from, x_to] = range_of(across, all("x"));
    const [y_from, y_to] = range_of(up, all("y"));
    const top = panel.title ? 26 : 14;
    const height = panel.height ?? top + 50 + 26 * (up.names?.length ?? 12);
    const y_ticks = ticks_of(up, y_from, y_to, height / 45);
    const y_labels = y_ticks.map(format_of(up));
    const widest = Math.max(...y_labels.map(width_of), 0);
    const left = Math.min(widest, LONGEST_NAME, width / 2.5) + 12 + (up.title ? 22 : 0);
    const room = width - left - 14;
    const x_ticks = ticks_of(across, x_from, x_to, room / 75);
    const x_labels = x_ticks.map(format_of(across));
    const longest = Math.max(...x_labels.map(width_of), 0);
    // Names that are too long for their place stand aslant.
    const aslant = Boolean(across.names) && longest > room / across.names.length - 6;
    const below = aslant ? 12 + Math.min(longest, LONGEST_NAME) * 0.5 + LINE : 12 + LINE;
    const bottom = below + (across.title ? LINE : 0);
    const [inner_top, inner_bottom] = [top, Math.max(height - bottom, top + 40)];
    const place = (axis, from, to, start, end) => (value) => {
      // What is nothing is at the edge of a logarithmic axis.
      const at = axis.log ? Math.max(Math.log10(value), from) : value;
      return start + ((at - from) / (to - from)) * (end - start);
    };
    const upside = up.down || up.names ? [inner_top, inner_bottom] : [inner_bottom, inner_top];
    return {
      x: place(across, x_from, x_to, left, width - 14),
      y: place(up, y_from, y_to, ...upside),
      x_ticks, x_labels, y_ticks, y_labels, left, right: width - 14, top: inner_top, bottom: inner_bottom,
      height: inner_bottom + bottom, aslant,
      from: x_from, to: x_to,
    };
  }

  function axes(panel, f, width) {
    const value = (axis, at) => (axis.log ? 10 ** at : at);
    const parts = [];
    f.x_ticks.forEach((at, index) => {
      const x = f.x(value(panel.x, at));
      if (!panel.x.names) parts.push(node("path", { class: "grid", d: `M${x} ${f.top}V${f.bottom}` }));
      const whole = f.x_labels[index];
      const text = f.aslant ? shortened(whole, LONGEST_NAME) : whole;
      const turned = f.aslant
        ? { "text-anchor": "end", transform: `translate(${x + 4} ${f.bottom + 14}) rotate(-30)` }
        : { "text-anchor": "middle", x, y: f.bottom + LINE };
      parts.push(node("text", turned, text, ...(text === whole ? [] : [node("title", {}, whole)])));
    });
    f.y_ticks.forEach((at, index) => {
      const y = f.y(value(panel.y, at));
      if (!panel.y.names) parts.push(node("path", { class: "grid", d: `M${f.left} ${y}H${f.right}` }));
      const whole = f.y_labels[index];
      const text = shortened(whole, Math.min(LONGEST_NAME, width / 2.5));
      parts.push(node("text", { "text-anchor": "end", x: f.left - 7, y: y + 4 }, text,
        ...(text === whole ? [] : [node("title", {}, whole)])));
    });
    parts.push(node("path", { class: "axis", d: `M${f.left} ${f.top}V${f.bottom}H${f.right}` }));
    if (panel.x.title) {
      parts.push(node("text", { "text-anchor": "middle", x: (f.left + f.right) / 2, y: f.height - 5 },
        panel.x.title));
    }
    if (panel.y.title) {
      const middle = (f.top + f.bottom) / 2;
      parts.push(node("text", { "text-anchor": "middle", transform: `translate(14 ${middle}) rotate(-90)` },
        panel.y.title));
    }
    if (panel.title) parts.push(node("text", { class: "name", x: 2, y: 14 }, shortened(panel.title, width)));
    return parts;
  }

  function rectangle(mark, f, name) {
    const [x0, x1] = [f.x(mark.x0), f.x(mark.x1)].map((x) => Math.min(Math.max(x, f.left), f.right));
    const [y0, y1] = [f.y(mark.y0), f.y(mark.y1)];
    const box = {
      x: Math.min(x0, x1), y: Math.min(y0, y1), width: Math.abs(x1 - x0), height: Math.abs(y1 - y0),
    };
    const parts = [node("rect", { ...box, fill: mark.color, class: mark.color ? "bar" : "bar many" })];
    if (mark.hatch) parts.push(node("rect", { ...box, class: "hatch", fill: `url(#hatch-${mark.hatch})` }));
    if (mark.text && width_of(mark.text) + 8 < box.width && box.height > 13) {
      parts.push(node("text", {
        class: "inside", "text-anchor": "middle", x: box.x + box.width / 2, y: box.y + box.height / 2 + 4,
      }, mark.text));
    }
    if (mark.shade) parts[0].setAttribute("class", "shade");
    return node("g", name, ...parts);
  }

  function line(mark, f) {
    let path = "";
    let last = null;
    for (const point of mark.points) {
      if (!point || point[1] === null || point[1] === undefined) {
        last = null;
        continue;
      }
      const [x, y] = [f.x(point[0]), f.y(point[1])];
      if (!last) path += `M${x} ${y}`;
      else if (mark.step === "middle") path += `H${(last[0] + x) / 2}V${y}H${x}`;
      else if (mark.step === "late") path += `H${x}V${y}`;
      else if (mark.step === "early") path += `V${y}H${x}`;
      else path += `L${x} ${y}`;
      last = [x, y];
    }
    return node("path", { d: path, class: mark.color ? "line" : "line plain", stroke: mark.color,
      "stroke-dasharray": mark.dash });
  }

  function whisker(mark, f) {
    const upright = mark.y0 !== undefined;
    const at = upright ? f.x(mark.x) : f.y(mark.y);
    const [from, to] = upright ? [f.y(mark.y0), f.y(mark.y1)] : [f.x(mark.x0), f.x(mark.x1)];
    const d = upright
      ? `M${at - 3} ${from}h6M${at} ${from}V${to}M${at - 3} ${to}h6`
      : `M${from} ${at - 3}v6M${from} ${at}H${to}M${to} ${at - 3}v6`;
    return node("path", { class: "whisker", d });
  }

  function picture(panel, width, says) {
    const f = frame(panel, width);
    const marks = panel.marks.map((mark) => {
      const name = mark.says ? { class: "mark", "data-says": says.push(mark.says) - 1 } : {};
      if (mark.points) return line(mark, f);
      if (mark.whisker) return whisker(mark, f);
      if (mark.label) {
        const x = Math.min(Math.max(f.x(mark.x), f.left + 60), f.right - 60);
        return node("text", { "text-anchor": "middle", x, y: f.top - 3 }, mark.label);
      }
      if (mark.x0 !== undefined) return rectangle(mark, f, name);
      return node("g", name, symbol(mark, f.x(mark.x), f.y(mark.y)));
    });
    const svg = node("svg", { viewBox: `0 0 ${width} ${f.height}`, role: "presentation" },
      ...axes(panel, f, width), ...marks);
    return { svg, frame: f };
  }

  function key(entry) {
    const swatch = node("svg", { viewBox: "0 0 28 14", width: 28, height: 14, "aria-hidden": "true" });
    if (entry.line) {
      swatch.append(node("path", { d: "M0 7H28", class: "line", stroke: entry.color, "stroke-dasharray": entry.dash }));
    }
    if (entry.symbol) swatch.append(symbol(entry, 14, 7));
    if (!entry.line && !entry.symbol) {
      const box = { x: 4, y: 1, width: 20, height: 12 };
      swatch.append(node("rect", { ...box, fill: entry.color, class: entry.color ? "bar" : "bar many" }));
      if (entry.hatch) swatch.append(node("rect", { ...box, fill: `url(#hatch-${entry.hatch})` }));
    }
    return html("li", {}, swatch, entry.name);
  }

  function fill_table(element) {
    const details = element.parentElement.querySelector("details.behind");
    if (!details?.open || !element.chart?.table) return;
    const { head, rows } = element.chart.table;
    const cells = (kind, row) =>
      row.map((cell, index) => html(index === 0 ? "th" : kind, { scope: kind === "th" ? "col" : "row" }, cell));
    details.querySelector("table").replaceChildren(
      html("thead", {}, html("tr", {}, ...cells("th", head))),
      html("tbody", {}, ...rows.map((row) => html("tr", {}, ...cells("td", row)))));
  }

  // Shows what is known of a mark beside it, where a screen reader finds it too.
  function point_at(element, mark) {
    element.querySelector(".mark.pointed")?.classList.remove("pointed");
    const tip = element.querySelector(".tip");
    tip.hidden = !mark;
    if (!mark) return;
    mark.classList.add("pointed");
    element.pointed = Number(mark.dataset.says);
    tip.textContent = element.says[element.pointed];
    const [outer, box] = [element.getBoundingClientRect(), mark.getBoundingClientRect()];
    const x = box.x + box.width / 2 - outer.x;
    tip.style.left = `${Math.min(Math.max(x - tip.offsetWidth / 2, 0), outer.width - tip.offsetWidth)}px`;
    const above = box.y - outer.y - tip.offsetHeight - 6;
    tip.style.top = `${above > -30 ? above : box.bottom - outer.y + 6}px`;
  }

  const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity };
  function listen(element) {
    element.addEventListener("pointerover", (event) => point_at(element, event.target.closest(".mark")));
    element.addEventListener("pointerleave", () => point_at(element, null));
    element.addEventListener("blur", () => point_at(element, null));
    element.addEventListener("keydown", (event) => {
      if (event.key === "Escape") return point_at(element, null);
      const step = STEPS[event.key];
      if (step === undefined || event.ctrlKey || event.altKey || event.metaKey || !element.says.length) return;
      event.preventDefault();
      const next = element.pointed === undefined ? 0 : element.pointed + step;
      const within = Math.min(Math.max(next, 0), element.says.length - 1);
      point_at(element, element.querySelector(`[data-says="${within}"]`));
    });
    const details = element.parentElement.querySelector("details.behind");
    details?.addEventListener("toggle", () => fill_table(element));
    widths.observe(element);
  }

  // A frame later: what is drawn may bring a scroll bar, which changes widths again.
  const widths = new ResizeObserver((entries) => requestAnimationFrame(() => {
    for (const { target } of entries) {
      if (target.clientWidth && target.clientWidth !== target.drawn) render(target);
    }
  }));

  function render(element) {
    const { panels, legend } = element.chart;
    const narrow = (element.drawn = element.clientWidth) < 700;
    const columns = narrow ? 1 : Math.min(panels.length, 3);
    const width = Math.max((element.clientWidth || 1000) / columns - (columns > 1 ? 16 : 0), 220);
    element.says = [];
    element.pointed = undefined;
    const drawn = panels.map((panel) => picture(panel, width, element.says));
    element.frame = drawn[0].frame;
    const grid = html("div", { className: "panels" }, ...drawn.map(({ svg }) => svg));
    grid.style.gridTemplateColumns = `repeat(${columns}, minmax(0, 1fr))`;
    const tip = html("div", { className: "tip", hidden: true });
    tip.setAttribute("role", "status");
    const keys = legend?.length ? [html("ul", { className: "legend" }, ...legend.map(key))] : [];
    element.replaceChildren(...keys, grid, tip);
  }

  // `chart`: panels, legend, table.
  function draw(element, chart) {
    const known = element.chart;
    element.chart = chart;
    if (!known) listen(element);
    render(element);
    fill_table(element);
  }
  draw.SYMBOLS = SYMBOLS;
  draw.HATCHES = HATCHES.length;
  return draw;
})();
