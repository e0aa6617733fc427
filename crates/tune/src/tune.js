// SPDX-License-Identifier: GPL-2.0-only
// Draws what a search has tried with plotly.js.
"use strict";
(() => {
  const { goals, dimensions, rows, changes } = data;
  const disciplines = [...new Set(rows.map((row) => row.policy.split(/[@+]/)[0]))];
  const unit = (goal) => (goal.unit ? `, ${goal.unit}` : "");
  const axis = (goal) => {
    const values = rows.map((row) => row.goals[goals.indexOf(goal)]);
    const wide = values.every((value) => value === null || value > 0);
    return {
      title: { text: escape(goal.text + unit(goal)) },
      type: wide ? "log" : "linear",
      ...(wide ? { tickformat: "~g" } : {}),
    };
  };

  // One trace for each discipline: what keeps all is filled.
  const points = (x, y, shown) =>
    disciplines.map((name, number) => {
      const own = rows.map((_, index) => index).filter((index) =>
        shown(index) && rows[index].policy.split(/[@+]/)[0] === name);
      return {
        type: "scatter",
        mode: "markers",
        name: escape(name),
        x: own.map(x),
        y: own.map(y),
        text: own.map((index) => `setting ${index}: ${escape(rows[index].policy)}`),
        marker: {
          color: colour(number),
          size: 8,
          symbol: own.map((index) => {
            const symbol = SYMBOLS[number % SYMBOLS.length];
            return rows[index].keeps ? symbol : `${symbol}-open`;
          }),
          line: { width: 1, color: colour(number) },
        },
        hovertemplate: "%{text}<br>%{x:.4~g}, %{y:.4~g}<extra></extra>",
      };
    });
  const alone = (name, x, y, more) => ({
    type: "scatter", name, x, y, hovertemplate: `${name}: %{x:.4~g}, %{y:.4~g}<extra></extra>`, ...more,
  });

  function tried(element) {
    const one = goals.length < 2;
    const x = one ? (index) => index : (index) => rows[index].goals[0];
    const y = one ? (index) => rows[index].goals[0] : (index) => rows[index].goals[1];
    const front = rows.map((_, index) => index).filter((index) => rows[index].front)
      .sort((a, b) => x(a) - x(b));
    draw(element, [
      ...points(x, y, () => true),
      alone("front", front.map(x), front.map(y), {
        mode: one ? "markers" : "lines",
        marker: { symbol: "star-open", size: 16, color: variable("--text") },
        line: { color: variable("--text"), width: 1.5, shape: goals[0].maximise ? "vh" : "hv" },
      }),
      alone("as it is", [x(0)], [y(0)], {
        mode: "markers", marker: { symbol: "x-thin-open", size: 14, color: variable("--text"), line: { width: 3 } },
      }),
    ], {
      height: 460,
      showlegend: true,
      xaxis: one ? { title: { text: "setting" } } : axis(goals[0]),
      yaxis: axis(one ? goals[0] : goals[1]),
    });
  }

  function matters(element) {
    const shown = [...changes].reverse();
    draw(element, [{
      type: "bar",
      orientation: "h",
      x: shown.map(([, lost]) => lost),
      y: shown.map(([name]) => escape(name)),
      marker: { color: colour(0) },
      hovertemplate: "%{y}: %{x:.3~g} %<extra></extra>",
    }], {
      height: 120 + 34 * shown.length,
      xaxis: { title: { text: "lost without it, percent of the gain" }, range: [0, 100] },
      yaxis: { type: "category" },
    });
  }

  function closely(element, dimension) {
    const value = (index) => {
      const text = rows[index].values[dimension];
      return text === null || !/^[0-9]+$/.test(text) ? text : Number(text);
    };
    const known = (index) => rows[index].values[dimension] !== null;
    const some = rows.map((_, index) => index).filter(known);
    const numbers = some.every((index) => typeof value(index) === "number");
    const wide = numbers && some.every((index) => value(index) > 0);
    draw(element, points(value, (index) => rows[index].goals[0], known), {
      height: 420,
      showlegend: true,
      xaxis: {
        title: { text: escape(dimensions[dimension] ?? "") },
        type: wide ? "log" : numbers ? "linear" : "category",
        ...(wide ? { tickformat: "~g" } : {}),
      },
      yaxis: axis(goals[0]),
    });
  }

  draw_sections((section) => {
    const select = section.querySelector(".dimension");
    const first = changes.length ? dimensions.indexOf(changes[0][0]) : 0;
    if (dimensions.length) select.value = String(Math.max(first, 0));
    const one = () => closely(document.getElementById("closely"), Number(select.value));
    select.addEventListener("change", one);
    return () => {
      tried(document.getElementById("tried"));
      matters(document.getElementById("changes"));
      one();
    };
  });
})();
