// SPDX-License-Identifier: GPL-2.0-only
// Redraws the publications' figures: what was measured as lines or bars, what was published as diamonds in
// the same colour. The tables behind them are in the page.
"use strict";
(() => {
  // Marks of a curve whose points stand at `xs`; bars have `width`, lines none.
  function marks_of(figure, curve, number, xs, width, format) {
    const color = colour(number);
    const bars = width > 0;
    const known = curve.points.map((point, index) => ({ ...point, x: xs[index], at: figure.x[index] }));
    const measured = known.filter((point) => point.measured);
    const says = (point) =>
      `${curve.name}, ${point.at}: measured ${spread_text(point.measured, format)}`;
    const line = known.map((point) => (point.measured ? [point.x, point.measured.median] : null));
    const least = figure.logarithmic ? figure.least : 0;
    return [
      ...(bars ? [] : [{ points: line, color, dash: dash(number) }]),
      ...measured.map((point) => bars
        ? {
            x0: point.x - width / 2, x1: point.x + width / 2, y0: least, y1: point.measured.median, color,
            hatch: hatch(number, COLOURS), says: says(point),
          }
        : { x: point.x, y: point.measured.median, symbol: symbol(number), size: 0.9, color, says: says(point) }),
      ...measured.filter(({ measured: { least, greatest } }) => greatest > least).map((point) =>
        ({ whisker: true, x: point.x, y0: point.measured.least, y1: point.measured.greatest })),
      ...known.filter((point) => point.published !== null && point.published !== undefined).map((point) => ({
        x: point.x, y: point.published, symbol: "diamond", color, open: point.calibrated,
        says: `${curve.name}, ${point.at}: published ${format(point.published)}` +
          (point.calibrated ? ", fitted on" : ""),
      })),
    ];
  }

  function draw_figure(element, figure) {
    const unit = figure.unit === "1" ? "" : figure.unit;
    const words = typeof figure.x[0] === "string";
    const width = words ? 0.8 / figure.curves.length : 0;
    const format = (value) => plain(value) + (unit ? ` ${unit}` : "");
    const values = figure.curves.flatMap((curve) =>
      curve.points.flatMap((point) => [point.measured?.least, point.published]));
    // Bars on a logarithmic axis begin at the power of ten below the least of them.
    const smallest = Math.min(...values.filter((value) => value > 0));
    const least = words ? 10 ** (Math.ceil(Math.log10(smallest)) - 1) : undefined;
    const marks = figure.curves.flatMap((curve, number) => {
      const xs = figure.x.map((x, index) => (words ? index - 0.4 + (number + 0.5) * width : x));
      return marks_of({ ...figure, least }, curve, number, xs, 0.94 * width, format);
    });
    const published = figure.curves.some((curve) => curve.points.some((point) => point.published !== null));
    const look = (number) => words
      ? { hatch: hatch(number, COLOURS) }
      : { line: true, symbol: symbol(number), dash: dash(number) };
    draw(element, {
      panels: [{
        height: 420,
        x: { title: figure.x_label, names: words ? figure.x : undefined },
        y: {
          title: figure.y_label + (unit ? `, ${unit}` : ""),
          log: figure.logarithmic,
          zero: !figure.logarithmic,
          least: figure.logarithmic ? least : undefined,
        },
        marks,
      }],
      legend: [
        ...figure.curves.map((curve, number) => ({ name: curve.name, color: colour(number), ...look(number) })),
        ...(published ? [{ name: "published", symbol: "diamond" }] : []),
      ],
    });
  }

  draw_sections((section) => () => {
    const index = Number(section.dataset.experiment);
    if (Number.isNaN(index)) return;
    data.experiments[index].figures.forEach((figure, number) => {
      draw_figure(document.getElementById(`figure-${index}-${number}`), figure);
    });
  });
})();
