// SPDX-License-Identifier: GPL-2.0-only
// Draws what a search has tried.
"use strict";
(() => {
  const { goals, dimensions, rows, changes } = data;
  const discipline = (row) => row.policy.split(/[@+]/)[0];
  const disciplines = [...new Set(rows.map(discipline))];
  const unit = (goal) => (goal.unit ? `, ${goal.unit}` : "");
  const axis = (title, values) =>
    ({ title, log: values.every((value) => value === null || value > 0) });
  const axis_of = (goal) => axis(goal.text + unit(goal), rows.map((row) => row.goals[goals.indexOf(goal)]));
  const known = (value) => value !== null && value !== undefined;
  const shown = (value) => (known(value) ? (typeof value === "number" ? plain(value) : value) : "–");
  const holds = (row) => (row.keeps ? "yes" : "no");

  // A point for each setting of which both are known: what keeps all is filled.
  const points = (x, y) =>
    rows.map((row, index) => ({ row, index })).filter(({ index }) => known(x(index)) && known(y(index)))
      .map(({ row, index }) => {
        const number = disciplines.indexOf(discipline(row));
        return {
          x: x(index), y: y(index), symbol: symbol(number), color: colour(number), open: !row.keeps,
          says: `setting ${index}, ${row.policy}: ${shown(x(index))}, ${shown(y(index))}`,
        };
      });
  const legend = disciplines.map((name, number) =>
    ({ name, symbol: symbol(number), color: colour(number) }));

  function tried(element) {
    const one = goals.length < 2;
    const x = one ? (index) => index : (index) => rows[index].goals[0];
    const y = (index) => rows[index].goals[one ? 0 : 1];
    const front = rows.map((_, index) => index).filter((index) => rows[index].front)
      .sort((a, b) => x(a) - x(b));
    const best = one
      ? front.map((index) => ({ x: x(index), y: y(index), symbol: "star", size: 1.6, says: `best: setting ${index}` }))
      : [{ points: front.map((index) => [x(index), y(index)]), step: goals[0].maximise ? "early" : "late" }];
    const now = { x: x(0), y: y(0), symbol: "cross", size: 1.5, says: "as it is" };
    draw(element, {
      panels: [{
        height: 460,
        x: one ? { title: "setting", zero: true } : axis_of(goals[0]),
        y: axis_of(goals[one ? 0 : 1]),
        marks: [...best.filter((mark) => mark.points), ...points(x, y), ...best.filter((mark) => !mark.points),
          ...(known(now.x) && known(now.y) ? [now] : [])],
      }],
      legend: [...legend, one ? { name: "front", symbol: "star" } : { name: "front", line: true },
        { name: "as it is", symbol: "cross" }],
      table: {
        head: ["Setting", "Policy", ...goals.map((goal) => goal.text + unit(goal)), "Keeps all", "Front"],
        rows: rows.map((row, index) =>
          [String(index), row.policy, ...row.goals.map(shown), holds(row), row.front ? "yes" : "no"]),
      },
    });
  }

  function matters(element) {
    draw(element, {
      panels: [{
        x: { title: "lost without it, percent of the gain", range: [0, 100] },
        y: { names: changes.map(([name]) => name) },
        marks: changes.map(([name, lost], row) =>
          ({ x0: 0, x1: lost, y0: row - 0.38, y1: row + 0.38, color: colour(0), says: `${name}: ${plain(lost)} %` })),
      }],
      table: {
        head: ["Change", "Lost without it"],
        rows: changes.map(([name, lost]) => [name, `${plain(lost)} %`]),
      },
    });
  }

  function closely(element, dimension) {
    const texts = rows.map((row) => row.values[dimension] ?? null);
    const numbers = texts.every((text) => text === null || /^[0-9]+$/.test(text));
    const names = [...new Set(texts.filter(known))];
    const value = (index) =>
      !known(texts[index]) ? null : numbers ? Number(texts[index]) : names.indexOf(texts[index]);
    const title = dimensions[dimension] ?? "";
    const some = rows.map((_, index) => index).filter((index) => known(texts[index]));
    draw(element, {
      panels: [{
        height: 420,
        x: numbers ? axis(title, some.map(value)) : { title, names },
        y: axis_of(goals[0]),
        marks: points(value, (index) => rows[index].goals[0]),
      }],
      legend,
      table: {
        head: ["Setting", title, goals[0].text + unit(goals[0]), "Keeps all"],
        rows: some.map((index) =>
          [String(index), texts[index], shown(rows[index].goals[0]), holds(rows[index])]),
      },
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
