// SPDX-License-Identifier: GPL-2.0-only
// Redraws the publications' figures with plotly.js: what was measured as lines or bars, what was
// published as diamonds in the same colour.
"use strict";
(() => {
  const values = (curve, pick) => curve.points.map((point) => pick(point) ?? null);

  // Both kinds of a curve's points; `axis` and `place` are those of the curve.
  function traces(figure, curve, number, hovers) {
    const words = typeof figure.x[0] === "string";
    const spreads = curve.points.map((point) => point.measured);
    const shared = { x: figure.x, name: escape(curve.name), legendgroup: curve.name };
    const measured = {
      ...shared,
      ...(words
        ? { type: "bar", marker: { color: colour(number) }, offsetgroup: number }
        : {
            type: "scatter",
            mode: "lines+markers",
            line: { color: colour(number), dash: cycle(DASHES, number, COLOURS), width: 2 },
            marker: { color: colour(number), symbol: SYMBOLS[number % SYMBOLS.length], size: 6 },
          }),
      y: spreads.map((spread) => spread?.median ?? null),
      error_y: {
        ...whiskers(spreads),
        visible: spreads.some((spread) => spread && spread.greatest > spread.least),
        color: words ? variable("--text") : colour(number),
      },
      hovertemplate: `%{x}: %{y:.4~g} ${hovers}<extra>%{fullData.name}, measured</extra>`,
    };
    const published = {
      ...shared,
      type: "scatter",
      mode: "markers",
      offsetgroup: words ? number : undefined,
      name: `${escape(curve.name)}, published`,
      y: values(curve, (point) => point.published),
      marker: {
        symbol: curve.points.map((point) => (point.calibrated ? "diamond-open" : "diamond")),
        size: 11,
        color: colour(number),
        line: { width: 1.5, color: curve.points.map((point) => point.calibrated ? colour(number) : variable("--text")) },
      },
      hovertemplate: `%{x}: %{y:.4~g} ${hovers}<extra>%{fullData.name}</extra>`,
    };
    return published.y.some((y) => y !== null) ? [measured, published] : [measured];
  }

  function draw_figure(element, figure) {
    const unit = figure.unit === "1" ? "" : figure.unit;
    const words = typeof figure.x[0] === "string";
    const curves = figure.curves.flatMap((curve, number) => traces(figure, curve, number, unit));
    draw(element, curves, {
      height: 420,
      barmode: "group",
      // Diamonds stand on their bars, and lines where their numbers are.
      scattermode: words ? "group" : "overlay",
      bargap: 0.25,
      scattergap: 0.25,
      showlegend: true,
      legend: { orientation: "h", y: -0.18, yanchor: "top" },
      xaxis: { title: { text: escape(figure.x_label) }, type: words ? "category" : "linear" },
      yaxis: {
        title: { text: escape(figure.y_label + (unit ? `, ${unit}` : "")) },
        type: figure.logarithmic ? "log" : "linear",
        rangemode: figure.logarithmic ? "normal" : "tozero",
        ...(figure.logarithmic ? { dtick: 1, tickformat: "~g" } : {}),
      },
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
