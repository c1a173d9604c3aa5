// The page of a service, or of several: latencies, what the engines did over time, where time went.
"use strict";

Report.pages.service = (data) => {
  const { services, names } = data, several = services.length > 1;
  const LATENCIES = ["ttft", "tpot", "itl", "e2el"], STATISTICS = [["mean", "mean"], ["median", "median"], ["p90", "p90"], ["p95", "p95"], ["p99", "p99"]];
  const PARTS = { prefill: "input", decode: "memory", tokens: "accent" };
  const STAGES = { queueing: "idle", prefill: "input", decode: "memory", recomputation: "output", "not scheduled": "bad", "between steps": "muted" };
  const KIND_COLORS = ["input", "output", "memory"];

  summary();
  distributions();
  if (several) comparison();
  let chosen = services[0], part = chosen.all;
  const redrawn = [];
  overTime();
  steps();
  where();
  slowest();
  provenance();

  function timeScale(ns) { return ns >= 1e9 ? { divisor: 1e9, name: "s" } : ns >= 1e6 ? { divisor: 1e6, name: "ms" } : ns >= 1e3 ? { divisor: 1e3, name: "µs" } : { divisor: 1, name: "ns" }; }
  function duration(ns) { const { divisor, name } = timeScale(ns); return `${Report.plain(ns / divisor)} ${name}`; }
  function ms(value) { return value === null || value === undefined ? "–" : value.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 }); }
  function sentence(text) { return `${text.charAt(0).toUpperCase()}${text.slice(1).replace(/[.;]?$/, ".")}`; }
  function lineColor(index) { return Report.palette[index % Report.palette.length]; }

  function summary() {
    const table = Report.el("table", { id: "latency-table" },
      Report.el("caption", { class: "unseen" }, "latencies in ms"),
      Report.el("thead", {}, Report.el("tr", {}, several ? Report.el("th", { scope: "col" }, "service") : null, Report.el("th", { scope: "col" }, "latency (ms)"), STATISTICS.map(([, text]) => Report.el("th", { scope: "col", class: "number" }, text)))),
      Report.el("tbody", {}, LATENCIES.flatMap((name) => services.map((one) => Report.el("tr", {},
        several ? Report.el("td", {}, one.name) : null,
        Report.el("th", { scope: "row", title: one.facts[`${name}_mean_ms`]?.definition }, names[name]),
        STATISTICS.map(([key]) => Report.el("td", { class: "number" }, ms(one.metrics[`${name}_${key}_ms`]))))))));
    Report.section("summary", "Summary", services.flatMap(head), Report.el("h3", {}, "Latencies"), Report.el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "latencies" }, table));
  }

  function head(one) {
    const { metrics, slo } = one, tile = (name, value, more) => [name, value, more];
    const met = slo && metrics.good_share !== undefined ? metrics.good_share >= slo.share : null;
    const sentence = one.status !== "ok" ? `The service was stopped at a limit with ${Report.plain(metrics.completed)} of ${Report.plain(one.requests)} requests finished.`
      : `${Report.plain(metrics.completed)} requests in ${duration(1e9 * metrics.duration_s)}.${met === null ? "" : ` ${Report.percent(metrics.good_share)} of them meet the SLO, which asks for ${Report.percent(slo.share)}: it is ${met ? "met" : "missed"}.`}`;
    const tiles = [
      tile("request throughput", Report.withUnit(metrics.request_throughput, "requests/s")),
      tile("output throughput", Report.withUnit(metrics.output_throughput, "tokens/s")),
      tile("throughput with prompts", Report.withUnit(metrics.total_throughput, "tokens/s")),
      slo ? tile("goodput", Report.withUnit(metrics.goodput, "requests/s"), limitsOf(slo)) : null,
      tile("steps", Report.plain(metrics.served_steps), `engines busy ${Report.percent(one.all.busy / ((one.span[1] - one.span[0]) * one.all.engines))} of the time`),
      tile("preemptions", Report.plain(metrics.served_preemptions)),
      tile("tokens from the prefix cache", Report.plain(metrics.hit_tokens)),
      one.all.engines > 1 ? tile("replicas", Report.plain(one.all.engines)) : null,
    ].filter((found) => found && found[1] !== "not known");
    return [several ? Report.el("h3", {}, one.name) : null, Report.el("p", { class: `verdict ${met === false || one.status !== "ok" ? "bad" : ""}` }, sentence),
      Report.el("dl", { class: "tiles" }, tiles.map(([name, value, more]) => Report.el("div", {}, Report.el("dt", {}, name), Report.el("dd", {}, value, more ? Report.el("small", {}, more) : null))))];
  }

  function limitsOf(slo) { return ["ttft", "tpot", "e2el"].filter((name) => slo[name] !== undefined).map((name) => `${name.toUpperCase()} ≤ ${Report.plain(slo[name])} ms`).join(", "); }

  function distributions() {
    const shown = ["ttft", "tpot", "e2el"].filter((name) => services.some((one) => one.cdf[name].count));
    const charts = shown.map((name) => {
      const build = () => {
        const lines = services.map((one, index) => ({ type: "scatter", mode: "lines", name: Report.safe(one.name), showlegend: several, x: one.cdf[name].at, y: one.cdf[name].share.map((v) => 100 * v),
          line: { shape: "hv", width: 2, color: lineColor(index) }, hovertemplate: `%{y:.4~g} % take at most %{x:,.4~g} ms<extra>${Report.safe(several ? one.name : "")}</extra>` }));
        const all = services.flatMap((one) => one.cdf[name].at), least = Math.min(...all), most = Math.max(...all), log = least > 0 && most / least > 30;
        const limits = [...new Set(services.map((one) => one.slo?.[name]).filter((v) => v !== undefined))];
        // A limit far to the right would press the curves into a corner.
        const near = limits.filter((v) => v < 3 * most && v > least / 3), far = limits.filter((v) => !near.includes(v));
        const place = (v) => (log ? Math.log10(v) : v);
        const shapes = near.map((v) => ({ type: "line", x0: v, x1: v, yref: "paper", y0: 0, y1: 1, line: { color: Report.color("bad"), width: 1.5, dash: "dash" } }));
        const annotations = [...near.map((v) => ({ x: place(v), y: 0.02, yref: "paper", yanchor: "bottom", xanchor: v > (log ? Math.sqrt(least * most) : (least + most) / 2) ? "right" : "left", text: `SLO ${Report.plain(v)} ms`, showarrow: false, font: { color: Report.color("bad") } })),
          ...(far.length ? [{ x: 0.99, xref: "paper", y: 0.02, yref: "paper", yanchor: "bottom", xanchor: "right", text: `SLO ${far.map((v) => `${Report.plain(v)} ms`).join(", ")}: outside of the picture`, showarrow: false, font: { color: Report.color("bad") } }] : [])];
        return { data: lines, layout: { shapes, annotations, hovermode: "closest", xaxis: { type: log ? "log" : "linear", title: { text: `${names[name]}, ms` }, rangemode: log ? "normal" : "tozero", ...(log ? { dtick: most / least < 100 ? "D2" : 1, tickformat: "~g" } : {}) }, yaxis: { range: [0, 101], ticksuffix: " %", dtick: 25 }, margin: { l: 60, r: 20, t: 15, b: 50 }, legend: { orientation: "h", y: 1.02, yanchor: "bottom" } } };
      };
      const chart = Report.chart(`distribution of the ${names[name]}`, build, { id: `cdf-${name}` });
      chart.area.style.height = "330px";
      return chart.area;
    });
    Report.section("latencies", "Latencies", Report.el("p", {}, "The share of finished requests whose latency is at most so long."), Report.el("div", { class: "beside" }, charts));
  }

  function comparison() {
    const parts = data.compared.flatMap((one) => {
      const title = Report.el("h3", {}, `${one.name} against ${services[0].name}`);
      if (one.missing) return [title, Report.el("p", {}, sentence(one.missing))];
      const differences = one.latencies, values = Object.fromEntries(["name", "before", "after", "change"].map((key) => [key, differences.map((d) => d[key])]));
      values.interval = differences.map((d) => `${ms(d.low)} to ${ms(d.high)}`);
      values.clear = differences.map((d) => (d.low > 0 || d.high < 0 ? "" : "may be chance"));
      const changed = Object.entries(one.changed);
      return [title, Report.el("p", {}, changed.length ? "What differs: " : "Nothing differs.", changed.map(([name, [a, b]], i) => [i ? "; " : "", Report.el("code", {}, `${name}: ${a ?? "not given"} → ${b ?? "not given"}`)]).flat()),
        Report.table(`latencies of ${one.name} against ${services[0].name}`, [
          { key: "name", label: "latency", kind: "text", format: (v) => Report.heading(v.replace(/_ms$/, "")).toUpperCase().replace(/ (MEAN|MEDIAN|P99)/, (t) => t.toLowerCase()) }, { key: "before", label: services[0].name, unit: "ms", kind: "number", format: ms }, { key: "after", label: one.name, unit: "ms", kind: "number", format: ms },
          { key: "change", label: "difference", unit: "ms", kind: "number", format: (v) => `${v > 0 ? "+" : ""}${ms(v)}` }, { key: "interval", label: "95 % interval", unit: "ms", kind: "number" }, { key: "clear", label: "", kind: "text" },
        ], values, differences.length)];
    });
    Report.section("compared", "Comparison", Report.el("p", {}, "Latencies of the requests that both services have finished, request by request. Intervals are of draws of blocks of consecutive requests."), parts);
  }

  function redraw() { redrawn.forEach((draw) => draw()); }

  /** Charts of the chosen service and replica, drawn anew when another is chosen. */
  function chartOf(description, build, id, height) {
    const chart = Report.chart(description, build, { id });
    chart.area.style.height = `${height}px`;
    redrawn.push(chart.draw);
    return chart.area;
  }

  function choices() {
    const area = Report.el("div", { class: "tools" }), replicas = Report.el("span");
    const offer = () => replicas.replaceChildren(...(chosen.replicas.length ? [Report.choice("replica", [["all", "all together"], ...chosen.replicas.map((_, i) => [String(i), String(i)])], "all", (v) => { part = v === "all" ? chosen.all : chosen.replicas[Number(v)]; redraw(); })] : []));
    if (several) area.append(Report.choice("service", services.map((one, i) => [String(i), one.name]), "0", (v) => { chosen = services[Number(v)]; part = chosen.all; offer(); redraw(); }));
    area.append(replicas);
    offer();
    return several || services.some((one) => one.replicas.length) ? area : null;
  }

  function overTime() {
    const build = () => {
      const span = chosen.span[1] - chosen.span[0], scale = timeScale(span), times = (list) => list.map((t) => t / scale.divisor), curves = part.curves;
      const panels = [
        [["running", curves.running, "busy", "requests<br>running"]], [["waiting", curves.waiting, "output", "requests<br>waiting"]],
        curves.used_blocks ? [["KV blocks held", curves.used_blocks, "accent", "KV blocks<br>held"]] : [["free KV blocks", curves.free_blocks, "accent", "free<br>KV blocks"]],
        [["step", part.lengths, "muted", ""]],
      ];
      const count = panels.length + 1, layout = { hovermode: "x", margin: { l: 70, r: 20, t: 10, b: 45 }, xaxis: { title: { text: `time (${scale.name})` }, range: [0, span / scale.divisor], anchor: `y${count}` }, legend: { orientation: "h", y: -0.07, yanchor: "top" }, shapes: [], annotations: [] };
      const axisAt = (index, title, more = {}) => { layout[`yaxis${index ? index + 1 : ""}`] = { domain: [1 - (index + 0.86) / count, 1 - index / count], title: { text: title, font: { size: 11 } }, rangemode: "tozero", nticks: 4, ...more }; };
      const lines = panels.flatMap((list, index) => list.map(([name, curve, color, title]) => {
        const step = name === "step", most = Math.max(0, ...curve.value), own = step ? timeScale(most) : Report.scale("", most);
        axisAt(index, step ? `step length<br>(${own.name})` : `${title}${own.name ? `<br>(${own.name}s)` : ""}`);
        return { type: "scatter", mode: step ? "markers" : "lines", name, showlegend: false, x: times(curve.at), y: curve.value.map((v) => v / own.divisor), yaxis: `y${index ? index + 1 : ""}`,
          line: { shape: "hv", width: 1.3, color: Report.color(color) }, marker: { size: 2.5, color: Report.color("ink"), opacity: 0.55 }, fill: step ? undefined : "tozeroy", hovertemplate: `%{y:,.4~g}${step ? ` ${own.name}` : ""}<extra>${name}</extra>` };
      }));
      const blocks = chosen.blocks && curves.used_blocks ? chosen.blocks * part.engines : null, most = Math.max(0, ...(curves.used_blocks?.value ?? []));
      if (blocks && most > blocks / 3) {
        const own = Report.scale("", most);
        layout.shapes.push({ type: "line", xref: "paper", x0: 0, x1: 1, yref: "y3", y0: blocks / own.divisor, y1: blocks / own.divisor, line: { color: Report.color("bad"), width: 1.2, dash: "dash" } });
        layout.yaxis3.range = [0, 1.08 * blocks / own.divisor];
      }
      const bins = part.over_time, centers = Object.values(bins.tokens)[0].map((_, i) => ((i + 0.5) * bins.width) / scale.divisor);
      const rate = Object.values(bins.tokens).map((list) => list.map((v) => (v / bins.width) * 1e9)), top = Report.scale("tokens/s", Math.max(...rate[0].map((_, i) => rate.reduce((sum, list) => sum + list[i], 0))));
      axisAt(count - 1, `tokens computed<br>(${top.name})`);
      Object.keys(bins.tokens).forEach((name, i) => lines.push({ type: "scatter", mode: "lines", name: name === "tokens" ? "tokens of steps" : `${name} tokens`, showlegend: name !== "tokens", stackgroup: "tokens", x: centers, y: rate[i].map((v) => v / top.divisor), yaxis: `y${count}`, line: { width: 0.5, shape: "hvh", color: Report.color(PARTS[name]) }, hovertemplate: `%{y:,.4~g} ${top.name}<extra>${name}</extra>` }));
      return { data: lines, layout };
    };
    const area = chartOf("requests running and waiting, KV blocks held, lengths of steps and computed tokens over time", build, "time-chart", 760);
    const hint = Report.el("p", { class: "hint" });
    const say = () => {
      const limit = chosen.blocks ? ` The KV cache has ${Report.plain(chosen.blocks * part.engines)} blocks.` : " The number of KV blocks in all is not known.";
      hint.textContent = `Requests and blocks are those after each choice of the scheduler.${limit} Of more points than a picture can show, the first, least, largest and last of each of ${Report.plain(part.columns)} columns of time are drawn.${part.over_time.tokens.decode ? " Decode tokens yield the next token of a request; prefill tokens are those of prompts, and what is computed again after a preemption." : ""}`;
    };
    redrawn.push(say);
    say();
    Report.section("time", "Over time", choices(), area, hint);
  }

  function bars(list, whole, colorOf) {
    return Report.el("span", { class: "bar", "aria-hidden": "true" }, list.map(([name, value]) => {
      const piece = Report.el("i");
      piece.style.width = `${(100 * value) / (whole || 1)}%`;
      piece.style.background = `var(--${colorOf(name)})`;
      return piece;
    }));
  }

  function steps() {
    const tables = Report.el("div"), note = Report.el("p", { class: "hint" });
    const numbersOf = (list, keys) => Object.fromEntries(keys.map((key) => [key, list.map((one) => (key === "share" ? one.ns / (part.busy || 1) : one[key]))]));
    const shares = (caption, label, list) => Report.table(caption, [
      { key: "name", label, kind: "text", format: (v) => v || "not known" }, { key: "steps", label: "steps", kind: "number", format: (v) => Report.plain(v) },
      { key: "ns", label: "time", kind: "number", format: duration }, { key: "share", label: "share of the time of steps", kind: "number", format: Report.percent },
    ], numbersOf(list, ["name", "steps", "ns", "share"]), list.length);
    const draw = () => {
      const found = [];
      if (part.kinds) {
        const own = part.kinds.filter((one) => one.steps);
        found.push(Report.table("steps by what they compute", [
          { key: "name", label: "steps with", kind: "text" }, { key: "steps", label: "steps", kind: "number", format: (v) => Report.plain(v) },
          { key: "ns", label: "time", kind: "number", format: duration }, { key: "share", label: "share of the time of steps", kind: "number", format: Report.percent },
          { key: "median_ns", label: "median", kind: "number", format: duration }, { key: "longest_ns", label: "longest", kind: "number", format: duration },
          { key: "prefill", label: "prefill tokens", kind: "number", format: (v) => Report.plain(v) }, { key: "decode", label: "decode tokens", kind: "number", format: (v) => Report.plain(v) },
        ], numbersOf(own, ["name", "steps", "ns", "share", "median_ns", "longest_ns", "prefill", "decode"]), own.length));
      } else found.push(Report.el("p", {}, "Which tokens of a step are of decodes is not known: the times of tokens are not those of steps."));
      if (part.bounds.some((one) => one.name)) found.push(Report.el("h3", {}, "What limits the steps"), shares("steps by the resource that limits them", "limited by", part.bounds));
      found.push(Report.el("h3", {}, "How their times came about"), shares("steps by how their time came about", "times", part.how));
      tables.replaceChildren(...found);
      note.textContent = part.dots ? `${part.dots.stride > 1 ? `One of ${Report.plain(part.dots.stride)} steps is shown. ` : ""}A dot is a step.` : "";
    };
    redrawn.push(draw);
    const dots = () => {
      const { kind, new_tokens: tokens, length_ns: lengths, batch_requests: requests, context_tokens: context } = part.dots ?? { kind: [], new_tokens: [], length_ns: [], batch_requests: [], context_tokens: [] };
      const own = timeScale(Math.max(0, ...lengths)), log = Math.max(...tokens, 1) / Math.max(1, Math.min(...tokens, Infinity)) > 30;
      const logY = Math.max(...lengths, 1) / Math.max(1, Math.min(...lengths, Infinity)) > 30;
      const groups = data.kinds.map((name, k) => {
        const rows = kind.map((one, i) => (one === k ? i : -1)).filter((i) => i >= 0);
        return { type: "scatter", mode: "markers", name, x: rows.map((i) => tokens[i]), y: rows.map((i) => lengths[i] / own.divisor), marker: { size: 5, opacity: 0.55, color: Report.color(KIND_COLORS[k]) },
          text: rows.map((i) => `${Report.plain(tokens[i])} new tokens of ${Report.plain(requests[i])} requests<br>${Report.plain(context[i])} tokens before them<br>${duration(lengths[i])}`), hovertemplate: "%{text}<extra></extra>" };
      }).filter((one) => one.x.length);
      return { data: groups, layout: { hovermode: "closest", xaxis: { type: log ? "log" : "linear", title: { text: "new tokens of a step" }, rangemode: log ? "normal" : "tozero", ...(log ? { dtick: 1 } : {}) }, yaxis: { type: logY ? "log" : "linear", title: { text: `length (${own.name})` }, rangemode: logY ? "normal" : "tozero", tickformat: "~g" }, legend: { orientation: "h", y: -0.2 }, margin: { l: 60, r: 20, t: 20, b: 50 } } };
    };
    const charts = [chartOf("length of steps over their new tokens", dots, "steps-chart", 400)];
    if (services.some((one) => Object.keys(one.all.over_time.bounds).length)) {
      const order = [...new Set(services.flatMap((one) => one.all.bounds.map((b) => b.name)))].filter(Boolean);
      charts.push(chartOf("share of time in steps limited by each resource, over time", () => {
        const { width, bounds } = part.over_time, scale = timeScale(chosen.span[1] - chosen.span[0]);
        return { data: order.filter((name) => bounds[name]).map((name) => ({ type: "bar", name: Report.safe(name), x: bounds[name].map((_, i) => ((i + 0.5) * width) / scale.divisor), y: bounds[name].map((v) => (100 * v) / width / part.engines), marker: { color: lineColor(order.indexOf(name)) }, hovertemplate: `%{y:.3~g} %<extra>${Report.safe(name)}</extra>` })),
          layout: { barmode: "stack", bargap: 0, hovermode: "x", xaxis: { title: { text: `time (${scale.name})` }, range: [0, (chosen.span[1] - chosen.span[0]) / scale.divisor] }, yaxis: { title: { text: "time in steps limited by" }, ticksuffix: " %", range: [0, 101] }, showlegend: true, legend: { orientation: "h", y: -0.2 }, margin: { l: 60, r: 20, t: 20, b: 50 } } };
      }, "bounds-chart", 400));
    }
    draw();
    Report.section("steps", "Steps", Report.el("div", { class: "beside" }, charts), note, tables);
  }

  function where() {
    const parts = services.flatMap((one) => {
      const title = several ? [Report.el("h3", {}, one.name)] : [];
      if (one.why.missing) return [...title, Report.el("p", {}, `${sentence(one.why.missing)} `, Report.el("code", {}, "stepsim why DIR"), " explains what can be.")];
      return [...title, ...one.why.times.map((time) => {
        const stages = [...new Set(time.parts.map((p) => p.stage))].map((stage) => [stage, time.parts.filter((p) => p.stage === stage).reduce((sum, p) => sum + p.ns, 0)]);
        const rows = stages.flatMap(([stage, ns]) => {
          const inner = time.parts.filter((p) => p.stage === stage && p.bound);
          return [Report.el("tr", {}, Report.el("th", { scope: "row" }, stage), Report.el("td", { class: "wide" }, bars([[stage, ns]], time.ns, (s) => STAGES[s] ?? "accent")), Report.el("td", { class: "number" }, `${ms(ns / 1e6)} ms`), Report.el("td", { class: "number" }, Report.percent(ns / (time.ns || 1)))),
            ...inner.map((p) => Report.el("tr", {}, Report.el("td", { class: "muted inner" }, p.bound), Report.el("td", { class: "wide" }, bars([[stage, p.ns]], time.ns, (s) => STAGES[s] ?? "accent")), Report.el("td", { class: "number muted" }, `${ms(p.ns / 1e6)} ms`), Report.el("td", { class: "number muted" }, Report.percent(p.ns / (time.ns || 1)))))];
        });
        return Report.el("div", { class: "explained" }, Report.el("h3", {}, `${time.title}: ${ms(time.ns / 1e6)} ms`), bars(stages, time.ns, (s) => STAGES[s] ?? "accent"),
          Report.el("table", { class: "sol" }, Report.el("caption", { class: "unseen" }, time.title), Report.el("tbody", {}, rows)));
      })];
    });
    Report.section("where", "Where the time went", Report.el("p", {}, "Every ns of a latency has one cause, and the parts add up. Within steps they are by the resource that limits the step, where the step model knows it."), Report.el("div", { class: "beside wide" }, parts));
  }

  function slowest() {
    const area = Report.el("div");
    const draw = () => {
      const table = chosen.slowest, columns = Report.columnsOf(table, Object.keys(table.columns)).map((column) => (/_ns$/.test(column.key) ? { ...column, label: column.label.replace(/ ns$/, ""), unit: column.key === "arrival_ns" ? "s" : "ms", format: (v) => ms(v / (column.key === "arrival_ns" ? 1e9 : 1e6)) } : column));
      area.replaceChildren(Report.table("requests with the largest latency", columns, table.columns, table.rows, { id: "slowest-table", filter: "Filter requests", hint: "preemptions>0" }));
    };
    redrawn.push(draw);
    draw();
    Report.section("requests", "Slowest requests", Report.el("p", { class: "hint" }, "The requests with the largest latencies, at most 200."), area);
  }

  function provenance() {
    const list = (found) => Object.entries(found).flatMap(([name, value]) => [Report.el("dt", {}, name), Report.el("dd", {}, typeof value === "object" ? JSON.stringify(value) : String(value))]);
    Report.section("provenance", "Provenance", services.flatMap((one) => [several ? Report.el("h3", {}, one.name) : null,
      Report.el("dl", { class: "facts" }, list(one.settings)),
      one.estimators.length ? Report.el("details", { open: true }, Report.el("summary", {}, "▸ error of estimated steps, by replica"), Report.el("pre", {}, JSON.stringify(one.estimators, null, 2))) : null,
      one.machine ? Report.el("details", {}, Report.el("summary", {}, "▸ machine"), Report.el("pre", {}, JSON.stringify(one.machine, null, 2))) : null,
      Report.el("dl", { class: "facts" }, list(one.versions))]));
  }
};
