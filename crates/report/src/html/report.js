// SPDX-License-Identifier: GPL-2.0-only
// Draws the charts of the report with plotly.js, from the JSON of charts.rs.
"use strict";
(() => {
  // Words in place of a chart that would be empty, or none.
  const say = (element, text) => {
    element.hidden = Boolean(text);
    element.parentElement.querySelector(".empty").textContent = text;
  };

  const marker = (policy) => ({
    color: colour(policy),
    pattern: { shape: cycle(PATTERNS, policy, COLOURS), fgcolor: variable("--card"), solidity: 0.3 },
  });

  function shares(element, input, policies) {
    const names = input.groups.map((group) => escape(group.title));
    const bars = policies.map((policy) => {
      const spreads = input.groups.map((group) => group.share[policy]);
      return {
        type: "bar",
        name: escape(input.policies[policy]),
        x: names,
        y: spreads.map((s) => s?.median ?? null),
        error_y: { ...whiskers(spreads), visible: spreads.some((s) => s && s.greatest > s.least) },
        marker: marker(policy),
        offsetgroup: policy,
        hovertemplate: "%{x}<br>%{y:.1f} % of a pCPU<extra>%{fullData.name}</extra>",
      };
    });
    // A bar of no height with a diamond on it stands where the bar of its policy stands.
    const diamonds = policies.map((policy, place) => ({
      type: "scatter",
      mode: "markers",
      name: "entitlement",
      showlegend: place === 0,
      legendgroup: "entitlement",
      x: names,
      y: input.groups.map((group) => group.entitlement[policy]?.median ?? null),
      offsetgroup: policy,
      marker: {
        symbol: "diamond",
        size: 10,
        color: variable("--card"),
        line: { width: 2, color: variable("--text") },
      },
      hovertemplate: `%{x}<br>entitled to %{y:.1f} %<extra>${escape(input.policies[policy])}</extra>`,
    }));
    draw(element, [...bars, ...diamonds], {
      height: 360,
      barmode: "group",
      scattermode: "group",
      bargap: 0.25,
      scattergap: 0.25,
      xaxis: { type: "category" },
      yaxis: { title: { text: "CPU time, % of one pCPU" }, rangemode: "tozero" },
      showlegend: true,
    });
  }

  function workload(element, input, policies, group) {
    const figures = group.workload;
    if (figures.length === 0) {
      return say(element, "Its workload reports no figures of its own; see how long it waited.");
    }
    say(element, "");
    const columns = Math.min(figures.length, 3);
    const rows = Math.ceil(figures.length / columns);
    const names = policies.map((policy) => escape(input.policies[policy]));
    const more = {
      height: 60 + rows * (60 + 26 * policies.length),
      grid: { rows, columns, pattern: "independent", xgap: 0.12, ygap: 0.45 },
      annotations: [],
      showlegend: false,
      margin: { l: 60, r: 30, t: 34, b: 30 },
    };
    const traces = figures.map((figure, number) => {
      const suffix = number === 0 ? "" : number + 1;
      const scale = (nanoseconds[figure.unit] ?? 0) / 1e9;
      const spreads = policies.map((policy) => {
        const s = figure.values[policy];
        return s && scale
          ? { least: s.least * scale, median: s.median * scale, greatest: s.greatest * scale }
          : s;
      });
      const unit = scale ? "s" : figure.unit === "1" ? "" : figure.unit;
      const arrow = { true: " → better", false: " ← better", null: "" }[figure.more_is_better];
      more.annotations.push({
        text: `<b>${escape(figure.label)}</b>${unit && !scale ? `, ${escape(unit)}` : ""}${arrow}`,
        xref: `x${suffix} domain`,
        yref: `y${suffix} domain`,
        x: 0,
        y: 1,
        xanchor: "left",
        yanchor: "bottom",
        yshift: 4,
        showarrow: false,
      });
      const axis = { gridcolor: variable("--grid"), automargin: true };
      more[`xaxis${suffix}`] = {
        ...axis,
        rangemode: "tozero",
        tickformat: scale ? "~s" : "~g",
        ticksuffix: scale ? "s" : "",
        nticks: 5,
      };
      more[`yaxis${suffix}`] = {
        ...axis,
        type: "category",
        autorange: "reversed",
        showticklabels: number % columns === 0,
      };
      return {
        type: "bar",
        orientation: "h",
        x: spreads.map((s) => s?.median ?? null),
        y: names,
        error_x: { ...whiskers(spreads), visible: spreads.some((s) => s && s.greatest > s.least) },
        marker: {
          color: policies.map(colour),
          pattern: {
            shape: policies.map((policy) => cycle(PATTERNS, policy, COLOURS)),
            fgcolor: variable("--card"),
            solidity: 0.3,
          },
        },
        xaxis: `x${suffix}`,
        yaxis: `y${suffix}`,
        hovertemplate: `%{y}<br>%{x:.4~${scale ? "s" : "g"}}${scale ? "s" : ` ${escape(unit)}`}<extra></extra>`,
      };
    });
    draw(element, traces, more);
  }

  function waits(element, input, policies, group) {
    const traces = policies
      .filter((policy) => group.histograms[policy].length > 0)
      .map((policy) => ({
        type: "scatter",
        mode: "lines+markers",
        name: escape(input.policies[policy]),
        x: group.histograms[policy].map(([upper]) => upper / 1e9),
        // Nothing is not on a logarithmic axis: the line breaks.
        y: group.histograms[policy].map(([, percent]) => percent || null),
        line: { color: colour(policy), dash: DASHES[policy % DASHES.length], shape: "hvh", width: 2 },
        marker: { color: colour(policy), symbol: SYMBOLS[policy % SYMBOLS.length], size: 5 },
        hovertemplate: "up to %{x:.3~s}s: %{y:.3~g} % of waits<extra>%{fullData.name}</extra>",
      }));
    if (traces.length === 0) {
      return say(element, "It never waited.");
    }
    say(element, "");
    draw(element, traces, {
      height: 400,
      xaxis: { type: "log", title: { text: "length of a wait" }, tickformat: "~s", ticksuffix: "s", dtick: 1 },
      yaxis: { type: "log", title: { text: "% of waits" }, tickformat: "~g", dtick: 1 },
      legend: { orientation: "h", y: -0.22, yanchor: "top" },
    });
  }

  // Domains have a colour each as long as the colours last; then domains that are alike share one.
  const paint = (input, domain) => {
    const index = input.domains.length > DOMAINS.length ? input.domains[domain][1] : domain;
    const color = DOMAINS[index % DOMAINS.length];
    return { color, pattern: cycle(PATTERNS, index, DOMAINS) };
  };

  function worst(element, input, policies, group) {
    const shown = policies.filter((policy) => group.worst[policy]?.length_ns > 0);
    if (shown.length === 0) {
      return say(element, "It never waited.");
    }
    say(element, "");
    const name = (policy) => escape(input.policies[policy]);
    const bars = new Map();
    const bar = (key, style) => {
      if (!bars.has(key)) {
        bars.set(key, {
          type: "bar",
          orientation: "h",
          name: escape(key),
          x: [],
          y: [],
          marker: {
            color: style.color,
            pattern: { shape: style.pattern, fgcolor: variable("--card"), solidity: 0.3 },
            line: { color: variable("--card"), width: 1 },
          },
          text: [],
          textposition: "inside",
          textangle: 0,
          insidetextanchor: "middle",
          insidetextfont: { color: ON_DOMAINS },
          customdata: [],
          hovertemplate: "%{text} ran %{customdata}<extra>%{y}</extra>",
        });
      }
      return bars.get(key);
    };
    for (const policy of shown) {
      for (const [vcpu, domain, ran] of group.worst[policy].ran) {
        const trace = bar(input.domains[domain][0], paint(input, domain));
        trace.x.push(ran / 1e9);
        trace.y.push(name(policy));
        trace.text.push(escape(vcpu));
        trace.customdata.push(time(ran));
      }
      const others = group.worst[policy].others_ns;
      if (others > 0) {
        const trace = bar("others", { color: variable("--many"), pattern: "" });
        trace.x.push(others / 1e9);
        trace.y.push(name(policy));
        trace.text.push("others");
        trace.customdata.push(time(others));
      }
    }
    const lengths = {
      type: "scatter",
      mode: "markers",
      name: "length of the wait",
      x: shown.map((policy) => group.worst[policy].length_ns / 1e9),
      y: shown.map(name),
      customdata: shown.map((policy) => {
        const wait = group.worst[policy];
        return `${escape(wait.name)} waited ${time(wait.length_ns)} from ${time(wait.start_ns)} on`;
      }),
      marker: {
        symbol: "diamond",
        size: 11,
        color: variable("--card"),
        line: { width: 2, color: variable("--text") },
      },
      hovertemplate: "%{customdata}<extra>%{y}</extra>",
    };
    draw(element, [...bars.values(), lengths], {
      height: 400,
      barmode: "stack",
      uniformtext: { mode: "hide", minsize: 10 },
      xaxis: { title: { text: "CPU time within the wait" }, tickformat: "~s", ticksuffix: "s", rangemode: "tozero", nticks: 6 },
      yaxis: {
        type: "category",
        categoryorder: "array",
        categoryarray: shown.map(name),
        autorange: "reversed",
      },
      legend: { orientation: "h", y: -0.22, yanchor: "top", traceorder: "normal" },
    });
  }

  // What is at least a pixel or two wide in [from, to] ns; shorter runs that follow one another on a
  // pCPU become one bar, so that the number of bars depends on the screen and not on the run.
  function visible(timeline, from, to, pixels) {
    const least = (2 * (to - from)) / pixels;
    const bars = [];
    let many = null;
    const flush = () => {
      if (many) bars.push(many);
      many = null;
    };
    for (const [pcpu, domain, vcpu, offset, length] of timeline.segments) {
      const start = timeline.start_ns + offset;
      const end = start + length;
      if (end < from || start > to) continue;
      if (length >= least) {
        flush();
        bars.push({ pcpu, domain, vcpu, start, length, runs: 1 });
      } else if (many && many.pcpu === pcpu && start - (many.start + many.length) < least) {
        many.length = end - many.start;
        many.runs += 1;
      } else {
        flush();
        many = { pcpu, domain: null, start, length, runs: 1 };
      }
    }
    flush();
    return bars;
  }

  const MOST_ROWS = 64;

  function timeline(figure, input, policy, range) {
    const element = figure.querySelector(".chart");
    const shown = input.timelines.find((timeline) => timeline.policy === policy);
    const about = figure.querySelector(".window");
    figure.shown = shown;
    if (!shown || shown.segments.length === 0) {
      about.textContent = "";
      return say(element, "No trace of this policy.");
    }
    say(element, "");
    const [from, to] = range ?? [shown.start_ns, shown.end_ns];
    figure.range = [from, to];
    const rows = Math.min(input.pcpus, MOST_ROWS);
    about.textContent =
      `${time(shown.start_ns)} to ${time(shown.end_ns)} of ${time(input.length_ns)}` +
      (shown.whole ? "" : ", as much as the report holds; trace.json.gz has more") +
      (rows < input.pcpus ? `; the first ${rows} of ${input.pcpus} pCPUs` : "");
    const traces = new Map();
    for (const bar of visible(shown, from, to, element.clientWidth || 1000)) {
      if (bar.pcpu >= rows) continue;
      const key = bar.domain ?? -1;
      if (!traces.has(key)) {
        const style =
          bar.domain === null
            ? { color: variable("--many"), pattern: "" }
            : paint(input, bar.domain);
        traces.set(key, {
          type: "bar",
          orientation: "h",
          name: bar.domain === null ? "several short runs" : escape(input.domains[bar.domain][0]),
          base: [],
          x: [],
          y: [],
          text: [],
          customdata: [],
          width: 0.84,
          textposition: "inside",
          insidetextanchor: "middle",
          insidetextfont: { color: ON_DOMAINS },
          textangle: 0,
          constraintext: "none",
          marker: {
            color: style.color,
            pattern: { shape: style.pattern, fgcolor: variable("--card"), solidity: 0.3 },
            line: { color: variable("--card"), width: 0.5 },
          },
          hovertemplate: "%{customdata}<extra>pCPU %{y}</extra>",
        });
      }
      const trace = traces.get(key);
      const who =
        bar.domain === null
          ? `${bar.runs} run${bar.runs === 1 ? "" : "s"}`
          : `${escape(input.domains[bar.domain][0])}/${bar.vcpu}`;
      trace.base.push(bar.start / 1e6);
      trace.x.push(bar.length / 1e6);
      trace.y.push(bar.pcpu);
      // About seven pixels a letter.
      const room = ((bar.length / (to - from)) * (element.clientWidth || 1000)) / 7;
      trace.text.push(bar.domain !== null && room > who.length + 1 ? who : "");
      trace.customdata.push(`${who}<br>${time(bar.length)} from ${(bar.start / 1e6).toFixed(3)} ms on`);
    }
    const ordered = [...traces.entries()].sort(([a], [b]) => (a < 0) - (b < 0) || a - b);
    const wait = shown.worst;
    draw(
      element,
      ordered.map(([, trace]) => trace),
      {
        height: 110 + 26 * rows,
        barmode: "overlay",
        dragmode: "pan",
        showlegend: true,
        margin: { l: 70, r: 16, t: 26, b: 44 },
        xaxis: {
          range: [from / 1e6, to / 1e6],
          ticksuffix: " ms",
          separatethousands: true,
          nticks: 8,
        },
        yaxis: {
          title: { text: "pCPU" },
          range: [rows - 0.5, -0.5],
          dtick: Math.ceil(rows / 16),
          tick0: 0,
          fixedrange: true,
          showgrid: false,
          zeroline: false,
        },
        legend: { orientation: "h", y: 0, yref: "container", yanchor: "bottom" },
        shapes: wait
          ? [
              {
                type: "rect",
                layer: "below",
                xref: "x",
                yref: "paper",
                x0: wait.start_ns / 1e6,
                x1: (wait.start_ns + wait.length_ns) / 1e6,
                y0: 0,
                y1: 1,
                fillcolor: variable("--shade"),
                line: { width: 0 },
              },
            ]
          : [],
        annotations: wait
          ? [
              {
                text: `${escape(wait.name)} waits ${time(wait.length_ns)}`,
                x: (wait.start_ns + wait.length_ns / 2) / 1e6,
                xref: "x",
                y: 1,
                yref: "paper",
                yanchor: "bottom",
                showarrow: false,
              },
            ]
          : [],
      },
      { scrollZoom: true, doubleClick: false },
    );
    if (!figure.listening) {
      figure.listening = true;
      element.on("plotly_relayout", (event) => {
        const [from, to] = [event["xaxis.range[0]"], event["xaxis.range[1]"]];
        if (from !== undefined) figure.go(from * 1e6, to * 1e6);
      });
      element.on("plotly_doubleclick", () => figure.go(0, Infinity));
    }
  }

  // Where a button leads from [from, to].
  function moved(action, shown, [from, to]) {
    const length = to - from;
    const wait = shown.worst;
    switch (action) {
      case "left": return [from - length / 4, to - length / 4];
      case "right": return [from + length / 4, to + length / 4];
      case "in": return [from + length / 4, to - length / 4];
      case "out": return [from - length / 2, to + length / 2];
      case "worst":
        return wait
          ? [wait.start_ns - wait.length_ns / 5, wait.start_ns + wait.length_ns * 1.2]
          : [from, to];
      default: return [0, Infinity];
    }
  }

  function set_up(section) {
    const index = Number(section.dataset.input);
    const input = data.comparisons[index];
    const chart = (name) => document.getElementById(`${name}-${index}`);
    const boxes = [...section.querySelectorAll(".policies input")];
    const select = section.querySelector(".domain");
    const figures = [...section.querySelectorAll(".timeline")];
    section.querySelectorAll(".swatch").forEach((swatch) => {
      swatch.style.background = colour(Number(swatch.dataset.policy));
    });

    // What differs most between the policies is what people look for: there we begin.
    const ratio = (group) => {
      const longest = group.worst.map((wait) => wait?.length_ns ?? 0);
      return (Math.max(...longest) + 1e3) / (Math.min(...longest) + 1e3);
    };
    const interesting = input.groups
      .map((group, number) => [group.workload.length > 0 ? ratio(group) : 0, number])
      .sort(([a], [b]) => b - a)[0]?.[1];
    select.value = interesting ?? 0;

    const draw_charts = () => {
      const policies = boxes.filter((box) => box.checked).map((box) => Number(box.dataset.policy));
      const group = input.groups[Number(select.value)];
      shares(chart("shares"), input, policies);
      if (group) {
        workload(chart("workload"), input, policies, group);
        waits(chart("waits"), input, policies, group);
        worst(chart("worst"), input, policies, group);
      }
    };
    const draw_timelines = () => {
      for (const figure of figures) {
        timeline(figure, input, Number(figure.querySelector(".policy").value), figure.range);
      }
    };
    for (const box of boxes) box.addEventListener("change", draw_charts);
    select.addEventListener("change", draw_charts);

    // To begin with, the policies with the longest and the shortest worst wait.
    const traced = input.timelines
      .map((timeline) => [timeline.worst?.length_ns ?? 0, timeline.policy])
      .sort(([a], [b]) => b - a)
      .map(([, policy]) => policy);
    figures.forEach((figure, place) => {
      const choice = figure.querySelector(".policy");
      choice.value = traced.at(place === 0 ? 0 : -1) ?? place;
      const redraw = (range) => timeline(figure, input, Number(choice.value), range);
      figure.go = (from, to) => {
        const { start_ns, end_ns } = figure.shown;
        // Not less than a microsecond, nor more than there is.
        const length = Math.min(Math.max(to - from, 1e3), end_ns - start_ns);
        from = Math.min(Math.max(from, start_ns), end_ns - length);
        redraw([from, from + length]);
      };
      choice.addEventListener("change", () => redraw());
      figure.querySelector(".buttons").addEventListener("click", (event) => {
        const action = event.target.dataset.action;
        if (action && figure.shown) figure.go(...moved(action, figure.shown, figure.range));
      });
    });
    return () => {
      draw_charts();
      draw_timelines();
    };
  }

  draw_sections(set_up);
})();
