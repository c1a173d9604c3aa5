// The page of a sweep: design points by two costs, over two axes, over traces, and by layer.
"use strict";

Report.pages.sweep = (data) => {
  const { runs, axes, metrics, designs } = data, axisNames = Object.keys(axes), metricNames = Object.keys(metrics);
  const isTraced = Object.keys(data.traces).length > 0;
  const rowsOf = designs.map(() => []);
  runs.design.forEach((design, row) => rowsOf[design].push(row));
  const larger = (metric) => metric.endsWith("_utilization");
  const label = (metric) => `${Report.heading(metric)}${data.counting.length && counted(metric) ? ` (${data.counting.join(", ")})` : ""}`;
  const options = metricNames.map((name) => [name, label(name)]);
  const usual = (name, other) => (metricNames.includes(name) ? name : metricNames[other] ?? metricNames[0]);
  const violating = designs.map((_, design) => design).filter((design) => data.violated[design].length);
  const statistics = { mean: "mean", "0.5": "median", "0.95": "95th percentile", "0.99": "99th percentile", "1": "largest" };

  overview();
  if (metricNames.length) {
    pareto();
    if (violating.length < designs.length || !designs.length) {
      if (axisNames.length > 1) heat();
      percentiles();
      best();
    }
    designTable();
  }
  if (data.failed) failures();
  provenance();

  function counted(metric) { return /bytes|flops|utilization/.test(metric) && !["bus_bytes"].includes(metric); }

  /** The design points to compare by these metrics, and their rows over the same traces: `stepsim sweep pareto` chooses likewise. */
  function compared(wanted) {
    const key = [...new Set(wanted.map((m) => data.measured[m]))].sort((a, b) => a - b).join(" "), { designs: kept, traces: common } = data.compared[key];
    const have = new Map(kept.map((design) => [design, new Map(rowsOf[design].map((row) => [runs.trace[row], row]))]));
    return { kept, common, rows: (design) => common.map((trace) => have.get(design).get(trace)), left: designs.length - kept.length - violating.length };
  }

  /** Statistics over the same traces of design points that violate a constraint, if they finished these. */
  function infeasible(found, x, y, which) {
    return violating.map((design) => {
      const own = new Map(rowsOf[design].map((row) => [runs.trace[row], row])), traces = found.kept.length ? found.common : [...own.keys()], rows = traces.map((trace) => own.get(trace));
      const of = (metric) => (rows.some((row) => row === undefined || runs[metric][row] === null) ? null : statistic(rows.map((row) => runs[metric][row]), which));
      return { design, x: of(x), y: of(y) };
    }).filter((p) => p.x !== null && p.y !== null);
  }

  function statistic(values, which) {
    if (!values.length) return null;
    if (which === "mean") return values.reduce((a, b) => a + b, 0) / values.length;
    return Report.quantile([...values].sort((a, b) => a - b), Number(which));
  }

  function overText(found) {
    const lost = found.left ? `${Report.plain(found.left)} design points that lost too many runs are left out.` : "";
    const left = violating.length ? `${lost} ${Report.plain(violating.length)} design points that violate a constraint are not compared.`.trim() : lost;
    if (!isTraced || !found.common.length) return left;
    const over = found.common.length === data.trace_count ? `Over all ${Report.plain(data.trace_count)} traces.` : `Over ${Report.plain(found.common.length)} of ${Report.plain(data.trace_count)} traces, those that all design points shown finished.`;
    return `${over} ${left}`.trim();
  }

  function overview() {
    const parts = [
      ["design points", Report.plain(designs.length)], ...(isTraced ? [["traces", Report.plain(data.trace_count)]] : []), ["runs shown", Report.plain(runs.design.length)],
      ["failed", Report.plain(data.failed)], ["not done yet", Report.plain(data.missing)], ["axes", axisNames.join(", ") || "none"],
      ...(data.constraints.length ? [["constraints", data.constraints.join("; ")], ["violate a constraint", Report.plain(violating.length)]] : []),
    ];
    const found = metricNames.includes("cycles") && runs.design.length ? compared(["cycles"]) : null;
    let sentence = runs.design.length ? "" : data.failed ? `No run succeeded: ${Report.plain(data.failed)} failed, as listed below.` : "No run is done yet.";
    if (violating.length && violating.length === designs.length) sentence = "Every design point violates a constraint.";
    else if (found?.common.length) {
      const means = found.kept.map((d) => [statistic(found.rows(d).map((row) => runs.cycles[row]), "mean"), d]).sort((a, b) => a[0] - b[0]);
      sentence = `Fastest on average: ${designs[means[0][1]]}, ${Report.withUnit(Math.round(means[0][0]), "cycles")}`
        + (means.length > 1 ? `; slowest: ${designs[means.at(-1)[1]]}, ${(means.at(-1)[0] / means[0][0]).toFixed(2)} times as long.` : ".");
    }
    Report.section("overview", "Overview", Report.el("p", { class: `verdict ${runs.design.length ? "" : "bad"}` }, sentence),
      data.trace_step > 1 ? Report.el("p", { class: "hint" }, `This page holds every ${data.trace_step}th trace, as it would be too large with all of them.`) : null,
      Report.el("dl", { class: "tiles" }, parts.map(([name, value]) => Report.el("div", {}, Report.el("dt", {}, name), Report.el("dd", {}, value)))));
  }

  /** A logarithmic axis for values that span more than a decade, otherwise one from 0. */
  const axisOf = (values) => (Math.min(...values) > 0 && Math.max(...values) >= 10 * Math.min(...values) ? { type: "log", nticks: 6, exponentformat: "SI" } : { rangemode: "tozero" });

  function pareto() {
    let x = usual("onchip_bytes", 1), y = usual("cycles", 0), color = axisNames[0] ?? "", which = "mean";
    const note = Report.el("p", { class: "hint" }), list = Report.el("div");
    const about = (p) => `${Report.safe(designs[p.design])}<br>${label(x)}: ${Report.withUnit(p.x, metrics[x].unit)}<br>${label(y)}: ${Report.withUnit(p.y, metrics[y].unit)}`;
    const build = () => {
      const found = compared([x, y]), { points, front } = frontier(found, x, y, which), outside = infeasible(found, x, y, which), all = [...points, ...outside];
      const sx = Report.scale(metrics[x].unit, Math.max(...all.map((p) => p.x))), sy = Report.scale(metrics[y].unit, Math.max(...all.map((p) => p.y)));
      note.textContent = overText(found);
      const groups = new Map();
      for (const point of points) {
        const key = color ? String(axes[color][point.design]) : "design points";
        groups.set(key, [...(groups.get(key) ?? []), point]);
      }
      const line = { type: "scatter", mode: "lines", name: "Pareto front", line: { shape: larger(x) ? "vh" : "hv", color: Report.color("muted"), width: 1.5 }, x: front.map((p) => p.x / sx.divisor), y: front.map((p) => p.y / sy.divisor), hoverinfo: "skip" };
      const dots = [...groups].map(([key, list]) => ({
        type: "scatter", mode: "markers", name: Report.safe(color ? `${color}=${key}` : key), x: list.map((p) => p.x / sx.divisor), y: list.map((p) => p.y / sy.divisor),
        marker: { size: list.map((p) => (p.best ? 12 : 8)), opacity: list.map((p) => (p.best ? 1 : 0.55)), line: { width: list.map((p) => (p.best ? 1.5 : 0)), color: Report.color("ink") } },
        text: list.map((p) => `${about(p)}${p.best ? "<br>Pareto-optimal" : ""}`), hovertemplate: "%{text}<extra></extra>",
      }));
      const crosses = outside.length ? [{
        type: "scatter", mode: "markers", name: "violates a constraint", x: outside.map((p) => p.x / sx.divisor), y: outside.map((p) => p.y / sy.divisor), marker: { size: 8, symbol: "x-thin", line: { width: 1.5, color: Report.color("muted") } },
        text: outside.map((p) => `${about(p)}${data.violated[p.design].map((c) => `<br>violates ${Report.safe(c)}`).join("")}`), hovertemplate: "%{text}<extra></extra>",
      }] : [];
      return { data: [...crosses, line, ...dots], layout: { hovermode: "closest", xaxis: { title: { text: Report.axisTitle(`${statistics[which]} ${label(x)}`, sx.name) }, ...axisOf(all.map((p) => p.x)) }, yaxis: { title: { text: Report.axisTitle(`${statistics[which]} ${label(y)}`, sy.name) }, ...axisOf(all.map((p) => p.y)) } } };
    };
    const chart = Report.chart("design points by two metrics, with the Pareto front", build, { id: "pareto-chart", class: "tall" });
    const update = () => { chart.draw(); drawList(); };
    function drawList() {
      const found = compared([x, y]), { front } = frontier(found, x, y, which);
      list.replaceChildren(Report.el("h3", {}, "On the front"), Report.table("Pareto-optimal design points", [
        { key: "design", label: "design point", kind: "text" },
        { key: "x", label: label(x), unit: metrics[x].unit, kind: "number", format: (v) => Report.plain(v) }, { key: "y", label: label(y), unit: metrics[y].unit, kind: "number", format: (v) => Report.plain(v) },
      ], { design: front.map((p) => designs[p.design]), x: front.map((p) => p.x), y: front.map((p) => p.y) }, front.length));
    }
    Report.section("pareto", "Pareto front", Report.el("div", { class: "tools" },
      Report.choice("x", options, x, (v) => { x = v; update(); }), Report.choice("y", options, y, (v) => { y = v; update(); }),
      Report.choice("of the traces", Object.entries(statistics), which, (v) => { which = v; update(); }),
      axisNames.length ? Report.choice("color", axisNames, color, (v) => { color = v; update(); }) : null), chart.area, note, list);
    drawList();
  }

  /** Points with both statistics; on the front are those that no other beats in both. */
  function frontier(found, x, y, which) {
    const points = found.kept.map((design) => {
      const rows = found.rows(design);
      return { design, x: statistic(rows.map((row) => runs[x][row]), which), y: statistic(rows.map((row) => runs[y][row]), which) };
    }).filter((p) => p.x !== null && p.y !== null);
    const sx = larger(x) ? -1 : 1, sy = larger(y) ? -1 : 1;
    const order = [...points].sort((a, b) => sx * (a.x - b.x) || sy * (a.y - b.y)), front = [];
    for (const point of order) {
      const last = front.at(-1);
      if (!last || sy * point.y < sy * last.y || (point.x === last.x && point.y === last.y)) { point.best = true; front.push(point); }
    }
    return { points, front };
  }

  function heat() {
    let [x, y] = axisNames, metric = usual("cycles", 0), which = "mean", rest = "best";
    const note = Report.el("p", { class: "hint" });
    const values = (axis) => [...new Set(axes[axis])].sort((a, b) => (typeof a === "number" && typeof b === "number" ? a - b : typeof a === "number" ? -1 : typeof b === "number" ? 1 : a.localeCompare(b, "en", { numeric: true })));
    const build = () => {
      const found = compared([metric]), columns = values(x), rows = values(y), unit = metrics[metric].unit;
      note.textContent = overText(found) + (axisNames.length > 2 ? ` Over the other axes it is the ${rest === "best" ? "best" : "mean"} of the design points.` : "");
      const cells = rows.map(() => columns.map(() => []));
      for (const design of found.kept) {
        const value = statistic(found.rows(design).map((row) => runs[metric][row]), which);
        if (value !== null) cells[rows.indexOf(axes[y][design])][columns.indexOf(axes[x][design])].push([value, design]);
      }
      const chosen = cells.map((row) => row.map((list) => {
        if (!list.length) return null;
        if (rest === "mean") return [list.reduce((sum, [v]) => sum + v, 0) / list.length, null];
        return list.reduce((a, b) => ((larger(metric) ? b[0] > a[0] : b[0] < a[0]) ? b : a));
      }));
      const all = chosen.flat().filter(Boolean).map(([v]) => v), scale = Report.scale(unit, Math.max(...all));
      const short = (v) => (v / scale.divisor).toLocaleString("en-US", { maximumSignificantDigits: scale.divisor === 1 && v >= 1000 ? Math.ceil(Math.log10(v + 1)) : 4 });
      const text = chosen.map((row) => row.map((one) => (one ? short(one[0]) : "")));
      const hover = chosen.map((row, r) => row.map((one, c) => (one ? `${Report.safe(`${y}=${rows[r]} ${x}=${columns[c]}`)}<br>${Report.withUnit(one[0], unit)}${one[1] === null ? "" : `<br>${Report.safe(designs[one[1]])}`}` : "")));
      const across = columns.map((_, i) => i), down = rows.map((_, i) => i), z = chosen.map((row) => row.map((one) => (one ? one[0] / scale.divisor : null)));
      return {
        data: [Report.heat(across, down, z, { gap: 2, title: Report.axisTitle(label(metric), scale.name), trace: { customdata: hover, hovertemplate: "%{customdata}<extra></extra>" } }), Report.cellTexts(across, down, z, text)],
        layout: { xaxis: { title: { text: Report.safe(x) }, tickvals: columns.map((_, i) => i), ticktext: columns.map(Report.safe), showgrid: false }, yaxis: { title: { text: Report.safe(y) }, tickvals: rows.map((_, i) => i), ticktext: rows.map(Report.safe), showgrid: false } },
      };
    };
    const chart = Report.chart("a metric over two axes of the sweep", build, { id: "heat-chart" });
    Report.section("heat", "Over two axes", Report.el("div", { class: "tools" },
      Report.choice("columns", axisNames, x, (v) => { x = v; chart.draw(); }), Report.choice("rows", axisNames, y, (v) => { y = v; chart.draw(); }),
      Report.choice("metric", options, metric, (v) => { metric = v; chart.draw(); }), Report.choice("of the traces", Object.entries(statistics), which, (v) => { which = v; chart.draw(); }),
      axisNames.length > 2 ? Report.choice("other axes", [["best", "best"], ["mean", "mean"]], rest, (v) => { rest = v; chart.draw(); }) : null), chart.area, note);
  }

  function percentiles() {
    let metric = usual("cycles", 0);
    const most = 40, note = Report.el("p", { class: "hint" });
    const build = () => {
      const found = compared([metric]), unit = metrics[metric].unit;
      const list = found.kept.map((design) => {
        const sorted = found.rows(design).map((row) => runs[metric][row]).sort((a, b) => a - b);
        return sorted.length ? { design, p: [0, 0.05, 0.5, 0.95, 0.99, 1].map((q) => Report.quantile(sorted, q)) } : null;
      }).filter(Boolean).sort((a, b) => (larger(metric) ? b.p[2] - a.p[2] : a.p[2] - b.p[2]));
      const shown = list.slice(0, most), scale = Report.scale(unit, Math.max(...shown.map((one) => one.p[5])));
      note.textContent = `${overText(found)}${list.length > most ? ` Shown are the ${most} design points with the best median.` : ""}`;
      const rows = shown.map((_, i) => i), of = (q) => shown.map((one) => one.p[q] / scale.divisor);
      const texts = shown.map((one) => `${Report.safe(designs[one.design])}<br>${["least", "5th percentile", "median", "95th percentile", "99th percentile", "largest"].map((t, i) => `${t}: ${Report.withUnit(one.p[i], unit)}`).join("<br>")}`);
      const range = (from, to, width, name) => ({ type: "scatter", mode: "lines", name, hoverinfo: "skip", line: { width, color: Report.color("memory") }, opacity: width > 3 ? 0.45 : 0.8, x: rows.flatMap((i) => [of(from)[i], of(to)[i], null]), y: rows.flatMap((i) => [i, i, null]) });
      return {
        data: [range(0, 5, 1.5, "least to largest"), range(1, 3, 7, "5th to 95th percentile"),
          { type: "scatter", mode: "markers", name: "median", x: of(2), y: rows, marker: { size: 9, color: Report.color("output") }, text: texts, hovertemplate: "%{text}<extra></extra>" },
          { type: "scatter", mode: "markers", name: "99th percentile", x: of(4), y: rows, marker: { size: 8, symbol: "line-ns-open", color: Report.color("ink") }, text: texts, hovertemplate: "%{text}<extra></extra>" }],
        layout: { hovermode: "closest", xaxis: { title: { text: Report.axisTitle(label(metric), scale.name) } }, yaxis: { autorange: "reversed", tickvals: rows, ticktext: shown.map((one) => Report.safe(designs[one.design])), showgrid: false }, margin: { l: 60, r: 20, t: 10, b: 50 }, legend: { orientation: "h", y: 1.02, yanchor: "bottom" } },
      };
    };
    const chart = Report.chart("percentiles of a metric over the traces, by design point", build, { id: "percentile-chart" });
    chart.area.style.height = `${150 + 22 * Math.min(most, designs.length)}px`;
    Report.section("percentiles", "Over traces", Report.el("div", { class: "tools" }, Report.choice("metric", options, metric, (v) => { metric = v; chart.draw(); })), chart.area, note);
  }

  function best() {
    const keys = Object.keys(data.traces).filter((name) => !name.endsWith("_id"));
    const ways = [["layer"], ["step"], ["layer", "step"], ["window"], ["trace"], ["lengths"], ["lengths_step"]].filter((way) => way.every((name) => keys.includes(name)));
    if (!ways.length) return;
    let way = 0, metric = usual("cycles", 0);
    const area = Report.el("div", { id: "best-table" }), note = Report.el("p", { class: "hint" });
    function draw() {
      const found = compared([metric]), names = ways[way], sign = larger(metric) ? -1 : 1, groups = new Map();
      for (const trace of found.common) {
        const key = JSON.stringify(names.map((name) => data.traces[name][trace]));
        groups.set(key, [...(groups.get(key) ?? []), trace]);
      }
      const byTrace = new Map(found.kept.map((design) => [design, new Map(found.rows(design).map((row, i) => [found.common[i], runs[metric][row]]))]));
      const mean = (design, traces) => traces.reduce((sum, t) => sum + byTrace.get(design).get(t), 0) / traces.length;
      const top = (traces) => found.kept.map((design) => [mean(design, traces), design]).reduce((a, b) => (sign * b[0] < sign * a[0] ? b : a));
      if (!found.common.length) return;
      const [, overall] = top(found.common), keysOf = [...groups.keys()], winners = [...groups.values()].map(top);
      const gains = [...groups.values()].map((traces, i) => sign * (mean(overall, traces) - winners[i][0]) / mean(overall, traces));
      const values = { design: winners.map(([, d]) => designs[d]), value: winners.map(([v]) => v), runs: [...groups.values()].map((t) => t.length), gain: gains };
      names.forEach((name, i) => { values[name] = keysOf.map((key) => JSON.parse(key)[i]); });
      note.textContent = `Best over all traces: ${designs[overall]}. The gain is that of the best design point of a row over it.`;
      area.replaceChildren(Report.table("best design points", [
        ...names.map((name) => ({ key: name, label: Report.heading(name), kind: typeof values[name][0] === "number" ? "number" : "text" })),
        { key: "design", label: "best design point", kind: "text" }, { key: "value", label: `mean ${label(metric)}`, unit: metrics[metric].unit, kind: "number", format: (v) => Report.plain(v) },
        { key: "gain", label: "gain over the best of all", kind: "number", format: Report.percent }, { key: "runs", label: "traces", kind: "number" },
      ], values, keysOf.length, { filter: "Filter", hint: "layer=3, or part of a design point" }));
    }
    Report.section("best", "Best design", Report.el("div", { class: "tools" },
      Report.choice("for each", ways.map((names, i) => [String(i), names.map(Report.heading).join(", ")]), "0", (v) => { way = Number(v); draw(); }),
      Report.choice("metric", options, metric, (v) => { metric = v; draw(); })), note, area);
    draw();
  }

  function designTable() {
    let metric = usual("cycles", 0);
    const area = Report.el("div", { id: "design-table" });
    function draw() {
      const stats = ["mean", "0.5", "0.95", "0.99", "1"], unit = metrics[metric].unit, values = { design: designs, runs: rowsOf.map((own) => own.length) };
      for (const which of stats) values[which] = rowsOf.map((own) => statistic(own.map((row) => runs[metric][row]).filter((v) => v !== null), which));
      for (const axis of axisNames) values[`axis ${axis}`] = axes[axis];
      if (data.constraints.length) values.violates = data.violated.map((own) => own.join("; "));
      area.replaceChildren(Report.table("design points", [
        ...(axisNames.length ? axisNames.map((axis) => ({ key: `axis ${axis}`, label: axis, kind: axes[axis].every((v) => typeof v === "number") ? "number" : "text" })) : [{ key: "design", label: "design point", kind: "text" }]),
        ...stats.map((which) => ({ key: which, label: statistics[which], unit, kind: "number", format: (v) => (unit === "fraction" ? Report.percent(v) : Report.plain(v)) })), { key: "runs", label: "runs", kind: "number" },
        ...(data.constraints.length ? [{ key: "violates", label: "violates", kind: "text" }] : []),
      ], values, designs.length, { filter: "Filter design points", hint: "tile=32", sort: ["mean", larger(metric)] }));
    }
    Report.section("designs", "Design points", Report.el("p", { class: "hint" }, "Over all runs of each design point that succeeded."), Report.el("div", { class: "tools" }, Report.choice("metric", options, metric, (v) => { metric = v; draw(); })), area);
    draw();
  }

  function failures() {
    const { failures: table } = data;
    Report.section("failures", "Failures", table.rows < data.failed ? Report.el("p", {}, `The first ${Report.plain(table.rows)} of ${Report.plain(data.failed)}.`) : null,
      Report.table("runs that failed", Report.columnsOf(table, Object.keys(table.columns)), table.columns, table.rows, { filter: "Filter failures" }));
  }

  function provenance() {
    const list = (found) => Object.entries(found).flatMap(([name, value]) => [Report.el("dt", {}, name), Report.el("dd", {}, typeof value === "object" ? JSON.stringify(value) : String(value))]);
    Report.section("provenance", "Provenance", Report.el("h3", {}, "Versions"), Report.el("dl", { class: "facts" }, list(data.versions)),
      Report.el("details", { open: true }, Report.el("summary", {}, "▸ specification"), Report.el("pre", {}, JSON.stringify(data.spec, null, 2))));
  }
};
