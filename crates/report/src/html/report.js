// SPDX-License-Identifier: GPL-2.0-only
// Draws the charts of the report, from the JSON of charts.rs.
"use strict";
(() => {
  // Words in place of a chart that would be empty, or none.
  const say = (element, text) => {
    element.hidden = Boolean(text);
    const figure = element.parentElement;
    figure.querySelector(".behind").hidden = Boolean(text);
    figure.querySelector(".empty").textContent = text;
  };

  const style = (policy) => ({ color: colour(policy), hatch: hatch(policy, COLOURS) });
  const percent = (value) => `${plain(value)} %`;

  function shares(element, input, policies) {
    const width = 0.8 / Math.max(policies.length, 1);
    const marks = [];
    input.groups.forEach((group, number) => {
      policies.forEach((policy, place) => {
        const x0 = number - 0.4 + place * width;
        const name = `${group.title} under ${input.policies[policy]}`;
        const share = group.share[policy];
        if (share) {
          const says = `${name}: ${spread_text(share, plain)} % of a pCPU`;
          marks.push({ x0, x1: x0 + 0.94 * width, y0: 0, y1: share.median, ...style(policy), says });
          if (share.greatest > share.least) {
            marks.push({ whisker: true, x: x0 + width / 2, y0: share.least, y1: share.greatest });
          }
        }
        const entitled = group.entitlement[policy]?.median;
        if (entitled !== undefined) {
          const says = `${name}: entitled to ${percent(entitled)}`;
          marks.push({ x: x0 + width / 2, y: entitled, symbol: "diamond", size: 0.9, says });
        }
      });
    });
    const cell = (group, policy) =>
      `${spread_text(group.share[policy], percent)}; entitled to ${spread_text(group.entitlement[policy], percent)}`;
    draw(element, {
      panels: [{
        height: 360,
        x: { names: input.groups.map((group) => group.title) },
        y: { title: "CPU time, % of one pCPU", zero: true },
        marks,
      }],
      legend: [
        ...policies.map((policy) => ({ name: input.policies[policy], ...style(policy) })),
        { name: "entitlement", symbol: "diamond", size: 0.9 },
      ],
      table: {
        head: ["Domain", ...policies.map((policy) => input.policies[policy])],
        rows: input.groups.map((group) => [group.title, ...policies.map((policy) => cell(group, policy))]),
      },
    });
  }

  // A figure of a workload with the unit that people use.
  function format_of(figure) {
    const scale = nanoseconds[figure.unit];
    if (scale) return (value) => time(value * scale);
    const unit = figure.unit === "1" ? "" : ` ${figure.unit}`;
    return (value) => plain(value) + unit;
  }

  function workload(element, input, policies, group) {
    // Of what was recorded a workload says nothing.
    const told = policies.filter((policy) => group.workload.some((figure) => figure.values[policy]));
    if (told.length === 0) {
      return say(element, "Its workload reports no figures of its own; see how long it waited.");
    }
    say(element, "");
    const names = told.map((policy) => input.policies[policy]);
    const panels = group.workload.map((figure) => {
      const format = format_of(figure);
      const unit = nanoseconds[figure.unit] || figure.unit === "1" ? "" : `, ${figure.unit}`;
      const arrow = { true: " → better", false: " ← better", null: "" }[figure.more_is_better];
      const marks = told.flatMap((policy, row) => {
        const spread = figure.values[policy];
        if (!spread) return [];
        const says = `${figure.label} under ${input.policies[policy]}: ${spread_text(spread, format)}`;
        const bar = { x0: 0, x1: spread.median, y0: row - 0.38, y1: row + 0.38, ...style(policy), says };
        const whisker = { whisker: true, y: row, x0: spread.least, x1: spread.greatest };
        return spread.greatest > spread.least ? [bar, whisker] : [bar];
      });
      return {
        title: figure.label + unit + arrow,
        x: { zero: true, format: nanoseconds[figure.unit] ? format : plain },
        y: { names },
        marks,
      };
    });
    const cells = (figure) =>
      told.map((policy) => spread_text(figure.values[policy], format_of(figure)));
    const table = {
      head: ["Figure", ...names],
      rows: group.workload.map((figure) => [figure.label, ...cells(figure)]),
    };
    draw(element, { panels, table });
  }

  function waits(element, input, policies, group) {
    const shown = policies.filter((policy) => group.histograms[policy].length > 0);
    if (shown.length === 0) {
      return say(element, "It never waited.");
    }
    say(element, "");
    const look = (policy) => ({ color: colour(policy), dash: dash(policy) });
    const marks = shown.flatMap((policy) => {
      const histogram = group.histograms[policy];
      const points = histogram.filter(([, part]) => part > 0).map(([x, y]) => ({
        x, y, symbol: symbol(policy), size: 0.7, color: colour(policy),
        says: `${input.policies[policy]}: ${percent(y)} of waits are up to ${time(x)} long`,
      }));
      // Nothing is not on a logarithmic axis: the line breaks.
      const line = histogram.map(([upper, part]) => (part > 0 ? [upper, part] : null));
      return [{ points: line, step: "middle", ...look(policy) }, ...points];
    });
    const steps = shown.map((policy) => new Map(group.histograms[policy]));
    const lengths = [...new Set(steps.flatMap((step) => [...step.keys()]))].sort((a, b) => a - b);
    draw(element, {
      panels: [{
        height: 380,
        x: { log: true, title: "length of a wait", format: time },
        y: { log: true, title: "% of waits" },
        marks,
      }],
      legend: shown.map((policy) =>
        ({ name: input.policies[policy], line: true, symbol: symbol(policy), ...look(policy) })),
      table: {
        head: ["Waits up to", ...shown.map((policy) => input.policies[policy])],
        rows: lengths.map((length) => [time(length), ...steps.map((step) => percent(step.get(length) ?? 0))]),
      },
    });
  }

  // Domains have a colour each as long as the colours last; then domains that are alike share one.
  const paint = (input, domain) => {
    const index = input.domains.length > DOMAINS.length ? input.domains[domain][1] : domain;
    return { color: DOMAINS[index % DOMAINS.length], hatch: hatch(index, DOMAINS) };
  };

  // Bars of who ran within a wait, one after the other.
  function ran_meanwhile(input, wait, row, legend) {
    let from = 0;
    const bars = wait.ran.map(([vcpu, domain, ran]) => [vcpu, input.domains[domain][0], paint(input, domain), ran]);
    if (wait.others_ns > 0) bars.push(["others", "others", {}, wait.others_ns]);
    return bars.map(([vcpu, domain, look, ran]) => {
      legend.set(domain, { name: domain, ...look });
      const says = `${vcpu} ran ${time(ran)} while ${wait.name} waited`;
      const bar = { x0: from, x1: from + ran, y0: row - 0.38, y1: row + 0.38, text: vcpu, ...look, says };
      from += ran;
      return bar;
    });
  }

  function worst(element, input, policies, group) {
    const shown = policies.filter((policy) => group.worst[policy]?.length_ns > 0);
    if (shown.length === 0) {
      return say(element, "It never waited.");
    }
    say(element, "");
    const names = shown.map((policy) => input.policies[policy]);
    const legend = new Map();
    const bars = shown.flatMap((policy, row) => ran_meanwhile(input, group.worst[policy], row, legend));
    const lengths = shown.map((policy, y) => {
      const wait = group.worst[policy];
      const says = `${names[y]}: ${wait.name} waited ${time(wait.length_ns)} from ${time(wait.start_ns)} on`;
      return { x: wait.length_ns, y, symbol: "diamond", says };
    });
    const others = (wait) =>
      [...wait.ran.map(([vcpu, , ran]) => `${vcpu} ${time(ran)}`),
        ...(wait.others_ns > 0 ? [`others ${time(wait.others_ns)}`] : [])].join(", ");
    const rows = shown.map((policy, row) => {
      const wait = group.worst[policy];
      return [names[row], wait.name, time(wait.length_ns), time(wait.start_ns), others(wait)];
    });
    draw(element, {
      panels: [{
        height: 380,
        x: { title: "CPU time within the wait", zero: true, format: time },
        y: { names },
        marks: [...bars, ...lengths],
      }],
      legend: [...legend.values(), { name: "length of the wait", symbol: "diamond" }],
      table: { head: ["Policy", "Who waited", "How long", "From", "Who ran meanwhile"], rows },
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
  const milliseconds = (ns) => `${(ns / 1e6).toLocaleString("en", { maximumFractionDigits: 4 })} ms`;

  // What is shown of [from, to] as marks and as a legend.
  function runs_of(input, shown, from, to, rows, pixels) {
    const legend = new Map();
    const marks = [];
    for (const bar of visible(shown, from, to, pixels)) {
      if (bar.pcpu >= rows) continue;
      const many = bar.domain === null;
      const name = many ? "several short runs" : input.domains[bar.domain][0];
      const look = many ? {} : paint(input, bar.domain);
      legend.set(many ? Infinity : bar.domain, { name, ...look });
      const text = many ? "" : `${name}/${bar.vcpu}`;
      const who = many ? `${bar.runs} run${bar.runs === 1 ? "" : "s"}` : text;
      marks.push({
        x0: bar.start, x1: bar.start + bar.length, y0: bar.pcpu - 0.42, y1: bar.pcpu + 0.42, text, ...look,
        says: `pCPU ${bar.pcpu}: ${who}, ${time(bar.length)} from ${milliseconds(bar.start)} on`,
      });
    }
    const wait = shown.worst;
    if (wait && wait.start_ns <= to && wait.start_ns + wait.length_ns >= from) {
      marks.push(
        { x0: wait.start_ns, x1: wait.start_ns + wait.length_ns, y0: -0.5, y1: rows - 0.5, shade: true },
        { x: wait.start_ns + wait.length_ns / 2, label: `${wait.name} waits ${time(wait.length_ns)}` },
      );
    }
    return { marks, legend: [...legend.entries()].sort(([a], [b]) => a - b).map(([, entry]) => entry) };
  }

  // How long each vCPU ran on each pCPU within [from, to].
  function times_of(input, shown, from, to, rows) {
    const times = new Map();
    for (const [pcpu, domain, vcpu, offset, length] of shown.segments) {
      const start = shown.start_ns + offset;
      const within = Math.min(start + length, to) - Math.max(start, from);
      if (within <= 0) continue;
      const name = `${input.domains[domain][0]}/${vcpu}`;
      if (!times.has(name)) times.set(name, new Array(input.pcpus).fill(0));
      times.get(name)[pcpu] += within;
    }
    const of_pcpus = (all) => all.slice(0, rows).map((ns) => (ns ? time(ns) : "–"));
    return {
      head: ["vCPU", "all", ...Array.from({ length: rows }, (_, pcpu) => `pCPU ${pcpu}`)],
      rows: [...times].map(([name, all]) => [name, time(all.reduce((a, b) => a + b)), ...of_pcpus(all)]),
    };
  }

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
    const { marks, legend } = runs_of(input, shown, from, to, rows, element.clientWidth || 1000);
    const pcpus = Array.from({ length: rows }, (_, pcpu) => String(pcpu));
    draw(element, {
      panels: [{
        height: 70 + 26 * rows,
        x: { range: [from, to], format: milliseconds },
        y: { names: pcpus, title: "pCPU" },
        marks,
      }],
      legend,
      table: times_of(input, shown, from, to, rows),
    });
    if (!figure.listening) listen(figure, element);
  }

  // Dragging moves, the wheel with Ctrl zooms around the pointer: without it the page scrolls on.
  function listen(figure, element) {
    figure.listening = true;
    const time_at = (event) => {
      const { left, right, from, to } = element.frame;
      const x = event.clientX - element.getBoundingClientRect().x;
      return from + ((x - left) / (right - left)) * (to - from);
    };
    let held = null;
    element.addEventListener("pointerdown", (event) => {
      held = time_at(event);
      element.setPointerCapture(event.pointerId);
    });
    element.addEventListener("pointermove", (event) => {
      if (held === null || !(event.buttons & 1)) return;
      const by = held - time_at(event);
      figure.go(figure.range[0] + by, figure.range[1] + by);
    });
    element.addEventListener("pointerup", () => { held = null; });
    element.addEventListener("dblclick", () => figure.go(0, Infinity));
    element.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      const [from, to] = figure.range;
      const [at, by] = [time_at(event), 1.3 ** Math.sign(event.deltaY)];
      figure.go(at - (at - from) * by, at + (to - at) * by);
    }, { passive: false });
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
    // Who hardly runs differs by chance, and people ask for virtual machines.
    const counts = (group) =>
      !group.rest_of_host && group.workload.length > 0 && group.share.some((share) => share?.median >= 3);
    const interesting = input.groups
      .map((group, number) => [counts(group) ? ratio(group) : 0, number])
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
