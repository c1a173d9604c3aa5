// The page of one run.
"use strict";

Report.pages.run = (data) => {
  const { row, why } = data;
  const limitText = { hbm_bandwidth: "off-chip bandwidth", hbm_latency: "off-chip latency", hbm_port: "one port of the off-chip memory", compute: "compute", onchip_bandwidth: "on-chip bandwidth", token_rate: "tokens per cycle", busiest_operator: "work of one operator", link: "one link of the network" };
  if (data.units.columns.wait_network) Report.causes.splice(2, 0, ["wait_network", "waits for the network"]);
  overview();
  limits();
  if (why?.suggestions?.length) suggestions();
  roofline();
  const graph = data.units.rows ? Report.graph(data) : null;
  stalls();
  time();
  if (data.path ?? why?.path) path();
  if (data.network) network();
  if (graph) graphSection();
  tables();
  provenance();

  function overview() {
    const verdict = why?.verdict ?? data.verdict;
    const tiles = [
      ["status", row.status], ["cycles", Report.plain(row.cycles)], ["off-chip traffic", Report.withUnit(row.offchip_bytes, "bytes")],
      ["bandwidth utilization", Report.percent(row.bandwidth_utilization), row.peak_bandwidth ? `of ${Report.withUnit(row.peak_bandwidth, "bytes/cycle")}` : ""],
      ["FLOPs", Report.withUnit(row.flops, "FLOPs"), row.padded_flops ? `${Report.percent(row.padded_flops / row.flops)} on padding` : ""],
      ["compute utilization", Report.percent(row.compute_utilization), row.allocated_flops_per_cycle ? `of ${Report.withUnit(row.allocated_flops_per_cycle, "FLOPs/cycle")}` : ""],
      ["on-chip memory", Report.withUnit(row.onchip_bytes, "bytes"), row.onchip_peak_bytes ? `peak ${Report.withUnit(row.onchip_peak_bytes, "bytes")}` : ""],
      ["energy", data.energy ? Report.withUnit(row.energy_joules, "J") : undefined, data.energy],
      ["operators, FIFOs", `${Report.plain(data.units.rows)}, ${Report.plain(data.fifos.rows)}`],
    ].filter(([, value]) => value !== undefined && value !== "–");
    Report.section("verdict", "Verdict",
      Report.el("p", { class: `verdict ${row.status === "ok" ? "" : "bad"}` }, verdict.sentence),
      why ? null : Report.el("p", { class: "hint" }, "This follows from the totals. ", Report.el("code", {}, "stepsim why"), " proves by reruns what bounds it and what a change would gain; ", Report.el("code", {}, "stepsim run --why --out RUN.parquet"), " keeps that for this page."),
      data.diagnosis ? Report.el("pre", {}, data.diagnosis) : null,
      Report.el("dl", { class: "tiles" }, tiles.map(([name, value, more]) => Report.el("div", {}, Report.el("dt", {}, name), Report.el("dd", {}, value, more ? Report.el("small", {}, more) : null)))));
  }

  function limits() {
    const bounds = why?.speed_of_light?.resources ?? data.bounds;
    if (!bounds?.length) return;
    const line = (one) => {
      const fill = Report.el("i", { class: "used" });
      fill.style.width = `${100 * Math.min(1, one.share)}%`;
      return Report.el("tr", {}, Report.el("th", { scope: "row" }, limitText[one.kind] ?? Report.heading(one.kind), one.target ? Report.el("small", {}, one.target) : null),
        Report.el("td", { class: "wide" }, Report.el("span", { class: "bar", "aria-hidden": "true" }, fill)), Report.el("td", { class: "number" }, Report.percent(one.share)),
        Report.el("td", { class: "number" }, Report.withUnit(one.used, one.unit)), Report.el("td", { class: "number" }, Report.withUnit(one.peak, one.unit)), Report.el("td", { class: "number" }, Report.plain(one.bound)));
    };
    const most = Math.max(...bounds.map((one) => one.bound));
    Report.section("limits", "Speed of light",
      Report.el("p", {}, `The cycles that each resource alone would need. The run took ${Report.plain(row.cycles)} cycles, ${most ? `${(row.cycles / most).toFixed(2)} times the largest bound` : "and no bound is known"}.`),
      Report.el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "speed of light" }, Report.el("table", { class: "sol" },
        Report.el("thead", {}, Report.el("tr", {}, ["resource", "share of the run", "", "used", "possible", "cycles alone"].map((text, index) => Report.el("th", { scope: "col", class: index > 1 ? "number" : "" }, text)))),
        Report.el("tbody", {}, bounds.map(line)))));
  }

  function suggestions() {
    const columns = [
      { key: "change", label: "change", kind: "text" },
      { key: "cycles", label: "cycles", kind: "number", format: (v) => Report.plain(v) }, { key: "gain_cycles", label: "fewer", unit: "cycles", kind: "number", format: (v) => Report.plain(v) },
      { key: "gain", label: "gain", kind: "number", format: Report.percent }, { key: "description", label: "how", kind: "text" },
    ];
    const values = Object.fromEntries(columns.map(({ key }) => [key, why.suggestions.map((one) => one[key] ?? null)]));
    Report.section("changes", "What to change", Report.el("p", {}, "Each change was simulated."), Report.table("changes and what they gain", columns, values, why.suggestions.length));
  }

  function roofline() {
    const { unit, intensity, speed, without } = data.roofline;
    if (!unit.length && !row.flops) return;
    const { names: family, of_unit: of, kinds: operators } = data.groups, peak = row.peak_bandwidth, most = row.allocated_flops_per_cycle;
    const build = () => {
      const groups = new Map();
      unit.forEach((u, index) => groups.set(of[u], [...(groups.get(of[u]) ?? []), index]));
      const marks = ["circle", "square", "diamond", "triangle-up", "x", "star", "pentagon", "cross"];
      const dots = [...groups].map(([group, list], number) => ({
        type: "scatter", mode: "markers", name: Report.safe(family[group]), x: list.map((i) => intensity[i]), y: list.map((i) => speed[i]),
        marker: { size: 7, opacity: 0.75, symbol: marks[number % marks.length] },
        text: list.map((i) => `${Report.safe(data.units.columns.name[unit[i]])} (${Report.safe(operators[group])})<br>${Report.withUnit(intensity[i])} FLOPs/byte, ${Report.withUnit(speed[i], "FLOPs/cycle")}`), hovertemplate: "%{text}<extra></extra>",
      }));
      const whole = row.flops && row.offchip_bytes ? [row.flops / row.offchip_bytes, row.flops / row.cycles] : null;
      const xs = [...intensity, ...(whole ? [whole[0]] : [])].filter((v) => v > 0);
      // Where the compute of all is not known, that of one operator ends the slope.
      const roof = most || row.compute_bw || null, knee = peak && roof ? roof / peak : null;
      const low = Math.min(...xs, knee ?? Infinity) / 3, high = Math.max(...xs, knee ?? 0) * 3;
      if (whole) dots.unshift({ type: "scatter", mode: "markers+text", name: "the run", x: [whole[0]], y: [whole[1]], text: ["the run"], textposition: "bottom center", marker: { size: 20, symbol: "star-open", color: Report.color("output"), line: { width: 2 } }, hovertemplate: `the run<br>${Report.withUnit(whole[0])} FLOPs/byte, ${Report.withUnit(whole[1], "FLOPs/cycle")}<extra></extra>` });
      if (peak) dots.push({ type: "scatter", mode: "lines", name: "off-chip bandwidth", x: [low, knee ?? high], y: [low * peak, (knee ?? high) * peak], line: { color: Report.color("memory"), width: 2 }, hovertemplate: `${Report.withUnit(peak, "bytes/cycle")}<extra></extra>` });
      if (most) dots.push({ type: "scatter", mode: "lines", name: "compute of all operators", x: [knee ?? low, high], y: [most, most], line: { color: Report.color("busy"), width: 2 }, hovertemplate: `${Report.withUnit(most, "FLOPs/cycle")}<extra></extra>` });
      if (row.compute_bw) dots.push({ type: "scatter", mode: "lines", name: "compute of one operator", x: [low, high], y: [row.compute_bw, row.compute_bw], line: { color: Report.color("busy"), width: 1.5, dash: "dot" }, hovertemplate: `${Report.withUnit(row.compute_bw, "FLOPs/cycle")}<extra></extra>` });
      return { data: dots, layout: { xaxis: { type: "log", title: { text: "FLOPs per off-chip byte" }, nticks: 6, exponentformat: "SI" }, yaxis: { type: "log", title: { text: "FLOPs per cycle" }, nticks: 4, exponentformat: "SI" }, hovermode: "closest" } };
    };
    const chart = Report.chart("roofline: FLOPs per cycle against FLOPs per off-chip byte, of operators and of the run", build, { id: "roofline-chart", class: "tall" });
    Report.section("roofline", "Roofline", Report.el("p", {}, "Operators that compute, over the off-chip bytes that they load or that reach them through operators that compute nothing; their speed is that from their first token to their last.",
      without ? ` ${Report.plain(without)} operators work on what others computed only; they have no such bytes and are not shown.` : ""), chart.area);
  }

  function stalls() {
    Report.section("stalls", "Stalls",
      Report.el("p", {}, "What operators did with the cycles of the run, by stage. Experts, regions and lanes are one operator, whose shares are means over those that had any work, with the least, the median and the most of one. What waits longest comes first."),
      Report.causeLegend(), Report.el("div", { id: "stall-tree" }, Report.stallTree(data.stalls, showOperator, show)));
  }

  function time() {
    const parts = [], shown = data.activity, { names: family, counts } = data.groups;
    const scale = Report.scale("cycles", row.cycles), times = (list) => list.map((t) => t / scale.divisor);
    if (data.timeline) parts.push(timeline(scale, times));
    else parts.push(Report.el("p", { class: "hint" }, "Bandwidth, outstanding requests and queueing over time were not recorded; ", Report.el("code", {}, "stepsim run --record --out RUN.parquet"), " does that."));
    if (shown.group.length) {
      const labels = shown.group.map((f) => clip(counts[f] > 1 ? `${family[f]} × ${counts[f]}` : family[f], 34));
      const bins = shown.share[0].map((_, bin) => (bin + 0.5) * shown.width);
      const build = () => ({
        data: [Report.heat(times(bins), shown.group.map((_, i) => i), shown.share.map((list) => list.map((v) => (v ? 100 * v : null))), {
          title: "active units", suffix: " %",
          trace: { zmin: 0, zmax: 100, text: shown.share.map((list, i) => list.map((v) => `${Report.safe(labels[i])}: ${Report.percent(v)} of its units are active`)), hovertemplate: `%{text}<br>at %{x:,.4~g} ${scale.name}<extra></extra>` },
        })],
        layout: { margin: { l: 60, r: 10, t: 30, b: 45 }, xaxis: { title: { text: `time (${scale.name})` }, range: times([0, row.cycles]) }, yaxis: { autorange: "reversed", tickvals: shown.group.map((_, i) => i), ticktext: labels.map(Report.safe), showgrid: false } },
      });
      const chart = Report.chart("share of each operator's units between their first and last token, over time", build, { id: "activity-chart" });
      chart.area.style.height = `${90 + 19 * labels.length}px`;
      parts.push(Report.el("h3", {}, "Units that had their first token and not yet their last"), shown.left_out ? Report.el("p", { class: "hint" }, `${shown.left_out} operators that were active for the shortest time are not shown.`) : null, chart.area);
    }
    Report.section("time", "Over time", parts);
  }

  function timeline(scale, times) {
    const { columns, facts, rows } = data.timeline, begin = columns.begin ?? Array.from({ length: rows }, (_, i) => i * row.cycles / rows);
    const numbers = Object.keys(columns).filter((name) => facts[name].kind === "number" && !["begin", "end", "bin"].includes(name) && columns[name].some((v) => v !== null));
    const parts = numbers.filter((name) => name.startsWith("units_"));
    // The same as a share of the peak says more.
    const panels = numbers.filter((name) => !parts.includes(name) && !(name === "offchip_bytes_per_cycle" && numbers.includes("offchip_share"))).map((name) => [name]);
    if (parts.length) panels.push(parts);
    const colors = { units_working: "busy", units_waiting_input: "input", units_waiting_output: "output", units_waiting_memory: "memory", units_waiting_network: "network" };
    const build = () => {
      const layout = { legend: { orientation: "h", y: -60 / (90 + 110 * panels.length), yanchor: "top" }, xaxis: { title: { text: `time (${scale.name})` }, range: times([0, row.cycles]), anchor: `y${panels.length > 1 ? panels.length : ""}` }, hovermode: "x unified", margin: { l: 60, r: 20, t: 30, b: 45 } };
      const lines = panels.flatMap((names, index) => {
        const own = Report.scale(facts[names[0]].unit, Math.max(0, ...names.flatMap((name) => columns[name].map((v) => v ?? 0))));
        const title = names.length > 1 ? "units" : Report.heading(names[0]), key = `y${index ? index + 1 : ""}`;
        layout[`yaxis${index ? index + 1 : ""}`] = { domain: [1 - (index + 0.88) / panels.length, 1 - index / panels.length], title: { text: `${title.replace(/ (?=\S+$)/, "<br>")}${own.name === title ? "" : `<br>(${own.name})`}`, font: { size: 11 } }, rangemode: "tozero", nticks: 4 };
        return names.map((name) => ({
          type: "scatter", mode: "lines", name: Report.heading(name), showlegend: names.length > 1, x: times(begin), y: columns[name].map((v) => (v === null ? null : v / own.divisor)), yaxis: key,
          line: { shape: "hv", width: 1.2, color: colors[name] ? Report.color(colors[name]) : Report.color("accent") }, fill: names.length > 1 ? "tonexty" : "tozeroy", stackgroup: names.length > 1 ? "units" : undefined,
        }));
      });
      return { data: lines, layout };
    };
    const chart = Report.chart(`over time: ${numbers.map(Report.heading).join(", ")}`, build, { id: "timeline-chart" });
    chart.area.style.height = `${120 + 110 * panels.length}px`;
    return chart.area;
  }

  function clip(text, most) { return text.length > most ? `${text.slice(0, most - 1)}…` : text; }

  function path() {
    const parts = data.path ?? why.path, whole = parts.reduce((sum, one) => sum + one.cycles, 0);
    const columns = [
      { key: "operator", label: "operator", kind: "text" }, { key: "cause", label: "cause", kind: "text" },
      { key: "cycles", label: "cycles", kind: "number", format: (v) => Report.plain(v) }, { key: "share", label: "share", kind: "number", format: Report.percent },
      ...(data.path ? [{ key: "segments", label: "segments", kind: "number", format: (v) => Report.plain(v) }] : []),
    ];
    const values = Object.fromEntries(columns.map(({ key }) => [key, parts.map((one) => (key === "share" ? one.cycles / (whole || 1) : one[key]))]));
    Report.section("path", "Critical path",
      Report.el("p", {}, "What determined the last event, followed back to the beginning: the parts add up to the cycles of the run."),
      Report.table("critical path by operator and cause", columns, values, parts.length, { id: "path-table", filter: "Filter", hint: "operator, cause, cycles>100" }));
  }

  function network() {
    const { links } = data, share = links.columns.link_share ? "link_share" : "link_utilization";
    Report.section("network", "Network", Report.network(data, show),
      Report.table("links", Report.columnsOf(links, Object.keys(links.columns).filter((name) => !["link", "from_place", "to_place"].includes(name))), links.columns, links.rows, {
        id: "link-table", filter: "Filter links", hint: `name, or ${share}>0.5`, sort: [share, true],
      }));
  }

  function graphSection() {
    Report.section("graph", "Graph", Report.el("p", {}, "A box is an operator, with all its lanes, or a call with its parts; its bar shows what they did with their time. A click shows details, a double click or + shows the lanes, arrow keys move. Edges are the FIFOs, with shape and elements of their stream. Operators whose labels begin alike have a frame."),
      graph.tools, graph.found, graph.legend, graph.area);
    graph.start();
  }

  function tables() {
    const { units, fifos } = data, names = units.columns.name, unitName = (unit) => names[unit];
    const ends = { producer: unitName, consumer: unitName };
    Report.section("fifos", "FIFOs", Report.el("p", { class: "hint" }, "Words must be in the name of the FIFO, its producer or its consumer; conditions such as ", Report.el("code", {}, "producer_wait>1000"), " or ", Report.el("code", {}, "depth<4"), " hold for a column."),
      Report.table("FIFOs", Report.columnsOf(fifos, Object.keys(fifos.columns).filter((name) => name !== "fifo"), ends), fifos.columns, fifos.rows, {
        id: "fifo-table", filter: "Filter FIFOs", hint: "name, or producer_wait>1000", sort: ["producer_wait", true], pick: { producer: show, consumer: show },
      }));
    Report.section("units", "Operators",
      Report.table("operators", Report.columnsOf(units, Object.keys(units.columns).filter((name) => !["unit", "final_clock"].includes(name))), units.columns, units.rows, {
        id: "unit-table", filter: "Filter operators", hint: "name, or busy>1000", sort: ["busy", true], pick: { name: show },
      }));
  }

  function showOperator(box) {
    graph.openFamily(box);
  }

  /** A unit, by its number or its name. */
  function show(one) {
    const unit = typeof one === "number" ? one : data.units.columns.name.indexOf(one);
    document.getElementById("graph").scrollIntoView({ block: "start" });
    graph.open(unit);
  }

  function provenance() {
    const shown = ["workload", "program", "model", "config", "counting", "machine", "trace", "layer", "step", "window", "batch", "lengths", "program_hash", "image_hash", "stepsim_version", "model_version", "wall_seconds", "engine_steps"];
    const nested = ["parameters", "machine_json", "provenance", "routing", "kv_lengths", "model_json"];
    const facts = [["file", data.file], ...shown.filter((name) => row[name] !== null && row[name] !== undefined).map((name) => [Report.heading(name), Report.withUnit(row[name], data.facts[name]?.unit === "seconds" ? "seconds" : "")])];
    Report.section("provenance", "Provenance",
      Report.el("dl", { class: "facts" }, facts.flatMap(([name, value]) => [Report.el("dt", {}, name), Report.el("dd", {}, value)])),
      nested.filter((name) => row[name]).map((name) => Report.el("details", {}, Report.el("summary", {}, `▸ ${Report.heading(name.replace("_json", ""))}`), Report.el("pre", {}, JSON.stringify(row[name], null, 2)))));
  }
};
