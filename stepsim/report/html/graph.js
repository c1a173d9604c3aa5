// The graph of operators: a box for each, which opens to its lanes; details on hover and click.
// The units that are the lanes of one operator are called its family here.
"use strict";

const CELL = 17, MARGIN = 18;

Report.graph = (data) => {
  const { units, fifos, groups: families, graph: drawn } = data, length = data.row.cycles || 1;
  const names = units.columns.name, opened = new Set();
  let colored = "cause", picked = null, zoom = 1, size = { width: 1, height: 1, beyond: 0 };
  const inputs = names.map(() => []), outputs = names.map(() => []);
  for (let fifo = 0; fifo < fifos.rows; fifo++) {
    outputs[fifos.columns.producer[fifo]].push(fifo);
    inputs[fifos.columns.consumer[fifo]].push(fifo);
  }

  const cycles = (members) => Object.fromEntries(Report.causes.map(([cause]) => [cause, members.reduce((sum, u) => sum + units.columns[cause][u], 0)]));
  const isSingle = (family) => families.members[family].length === 1;
  const familyText = (family) => (families.counts[family] > 1 ? `${families.names[family]} × ${families.counts[family]}` : families.names[family]);
  const inside = (family) => (families.counts[family] > 1 ? "lanes" : "parts");

  // Drawing -------------------------------------------------------------------------------------

  const svg = Report.svg("svg", { role: "group", "aria-label": "graph of operators; arrow keys move, Enter shows details, plus shows the lanes" });
  const view = Report.el("div", { class: "graph-view" }, svg);
  const panel = Report.el("aside", { class: "panel", "aria-label": "details", "aria-live": "polite" }, Report.el("p", { class: "muted" }, "Choose an operator to see what it did and what it waited for."));
  const legend = Report.el("div");

  function sizeOf(family) {
    const [w, h] = drawn.boxes[family];
    if (!opened.has(family)) return { w, h };
    const across = Math.ceil(Math.sqrt(families.members[family].length * 2));
    const down = Math.ceil(families.members[family].length / across);
    return { w: Math.max(w, across * CELL + 14), h: Math.max(h, 34 + down * CELL), across };
  }

  function draw() {
    const sizes = families.names.map((_, family) => sizeOf(family));
    const place = roomier(sizes);
    size = place;
    const arrow = Report.svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 9, markerHeight: 9, markerUnits: "userSpaceOnUse", orient: "auto-start-reverse" }, Report.svg("path", { d: "M0 0L8 4L0 8z", class: "arrow" }));
    const edges = place.paths.map((points, index) => Report.svg("path", { d: curve(points), class: "edge", "marker-end": "url(#arrow)", "data-from": drawn.edges[index][0], "data-to": drawn.edges[index][1] }));
    const boxes = sizes.map((s, family) => boxOf(family, place.centers[family][0] - s.w / 2, place.centers[family][1] - s.h / 2, s));
    const frames = place.frames.flatMap(([title, x, y, width, height]) => [Report.svg("rect", { class: "frame", x, y, width, height, rx: 8 }), textAt(x + 8, y + 14, title, "frame-title")]);
    const texts = place.texts.flatMap(([x, y, text, wide]) => [Report.svg("rect", { class: "behind", x: x - wide / 2, y: y - 5.5, width: wide, height: 11, rx: 2 }), middled(x, y + 3, text)]);
    svg.replaceChildren(Report.svg("defs", {}, arrow), ...frames, ...edges, ...boxes, ...texts);
    setZoom(zoom);
    paint();
    mark();
  }

  /** The drawing, in which all that lies beyond the middle of an open box makes room for it. */
  function roomier(sizes) {
    const moves = [0, 1].map((axis) => {
      const more = new Map();
      for (const family of opened) {
        const at = drawn.centers[family][axis], wide = axis ? sizes[family].h : sizes[family].w;
        more.set(at, Math.max(more.get(at) ?? 0, wide - drawn.boxes[family][axis]));
      }
      return (value) => [...more].reduce((sum, [at, room]) => sum + (value > at ? room : value === at ? room / 2 : 0), value);
    });
    const moved = (point) => point.map((value, axis) => moves[axis](value)), centers = drawn.centers.map(moved);
    // An edge ends on its boxes, where it does when they are closed.
    const end = ([x, y], family) => {
      const [cx, cy] = drawn.centers[family], [nx, ny] = centers[family];
      return [nx + x - cx, ny + Math.sign(y - cy) * sizes[family].h / 2];
    };
    const paths = drawn.paths.map((path, index) => [
      end(path[0], drawn.edges[index][0]), ...path.slice(1, -1).map(moved), end(path.at(-1), drawn.edges[index][1])]);
    const [width, height] = drawn.size.map((value, axis) => moves[axis](value));
    const texts = drawn.texts.map(([x, y, text, wide]) => [...moved([x, y]), text, wide]);
    const frames = drawn.frames.map(([title, left, top, wide, tall]) => {
      const [x0, y0] = moved([left, top]), [x1, y1] = moved([left + wide, top + tall]);
      return [title, x0, y0, x1 - x0, y1 - y0];
    });
    // Texts of edges may be wider than the boxes.
    const beyond = Math.max(0, ...texts.flatMap(([x, , , wide]) => [wide / 2 - x, x + wide / 2 - width]));
    return { centers, paths, texts, frames, beyond, width: width + 2 * (MARGIN + beyond), height: height + 2 * MARGIN };
  }

  function curve(points) {
    let path = `M${points[0].map(Math.round)}`;
    for (let i = 1; i < points.length; i++) {
      const [a, b] = [points[i - 1], points[i]], middle = (a[1] + b[1]) / 2;
      path += `C${[a[0], middle, b[0], middle, b[0], b[1]].map(Math.round)}`;
    }
    return path;
  }

  function boxOf(family, x, y, s) {
    const members = families.members[family], whole = cycles(members), total = length * members.length;
    const box = Report.svg("g", { class: `unit ${stuck(members)}`, id: `family-${family}`, transform: `translate(${Math.round(x)} ${Math.round(y)})`, role: "button", tabindex: "-1",
      "aria-label": `${familyText(family)}, ${families.kinds[family]}, works ${Report.percent(whole.busy / total)}` });
    if (!isSingle(family)) box.setAttribute("aria-expanded", String(opened.has(family)));
    box.append(Report.svg("rect", { class: "box", width: s.w, height: s.h, rx: 6 }));
    const [title, ...details] = drawn.lines[family];
    box.append(textAt(8, 15, title, "name"), ...(opened.has(family) ? [] : details.map((line, index) => textAt(8, 28 + 13 * index, line, "sub"))));
    if (opened.has(family)) members.forEach((unit, index) => box.append(cellOf(unit, 7 + (index % s.across) * CELL, 26 + Math.floor(index / s.across) * CELL)));
    else barAt(box, whole, total, s);
    box.addEventListener("click", () => choose({ family, unit: isSingle(family) ? members[0] : null }));
    box.addEventListener("dblclick", () => toggle(family));
    hover(box, () => `${summary(familyText(family), families.kinds[family], whole, total)}\n\n${drawn.about[family]}`);
    return box;
  }

  function barAt(box, whole, total, s) {
    let from = 8;
    for (const [cause] of Report.causes) {
      const wide = (s.w - 16) * whole[cause] / total;
      if (wide > 0.2) box.append(Report.svg("rect", { class: cause, x: from, y: s.h - 11, width: wide, height: 5 }));
      from += wide;
    }
  }

  function cellOf(unit, x, y) {
    const cell = Report.svg("g", { class: `unit cell ${stuck([unit])}`, id: `unit-${unit}`, role: "button", tabindex: "-1", "aria-label": names[unit], transform: `translate(${x} ${y})` },
      Report.svg("rect", { class: "box", width: CELL - 3, height: CELL - 3, rx: 2 }));
    cell.addEventListener("click", (event) => { event.stopPropagation(); choose({ family: families.of_unit[unit], unit }); });
    cell.addEventListener("dblclick", (event) => event.stopPropagation());
    hover(cell, () => summary(names[unit], units.columns.operator[unit], cycles([unit]), length));
    return cell;
  }

  // Of a run that did not end well, units that were not done.
  const stuck = (members) => (data.row.status !== "ok" && members.some((u) => units.columns.state[u] !== "done") ? "stuck" : "");
  const middled = (x, y, text) => { const made = textAt(x, y, text, "flow"); made.setAttribute("text-anchor", "middle"); return made; };
  const textAt = (x, y, text, kind = "") => { const made = Report.svg("text", { x, y, class: kind }); made.textContent = text; return made; };
  const summary = (name, operator, whole, total) => `${name} (${operator})\n${Report.causes.filter(([c]) => whole[c]).map(([c, text]) => `${text}: ${Report.percent(whole[c] / total)}`).join("\n")}`;

  function hover(node, text) {
    node.addEventListener("mousemove", (event) => { event.stopPropagation(); Report.tip(text(), event); });
    node.addEventListener("mouseleave", () => Report.tip(""));
  }

  // Colors --------------------------------------------------------------------------------------

  function paint() {
    svg.querySelectorAll(".unit").forEach((node) => {
      const [kind, number] = node.id.split("-"), members = kind === "unit" ? [Number(number)] : families.members[number];
      const whole = cycles(members), total = length * members.length, box = node.querySelector(".box");
      if (kind === "family" && opened.has(Number(number))) { box.style.fill = "var(--soft)"; return; }
      box.style.fill = fillOf(whole, total, kind === "unit");
    });
    legend.replaceChildren(colored === "cause" ? Report.causeLegend() : rampLegend());
  }

  function fillOf(whole, total, strong) {
    if (colored === "cause") {
      const [most] = Report.causes.map(([cause]) => cause).filter((c) => c !== "before" && c !== "after").sort((a, b) => whole[b] - whole[a]);
      const share = whole[most] / total;
      return `color-mix(in srgb, var(--${short(most)}) ${Math.round((strong ? 100 : 45) * Math.min(1, 0.15 + share))}%, var(--card))`;
    }
    return `color-mix(in srgb, var(--${colored === "waits" ? "output" : short(colored)}) ${Math.round(85 * Math.min(1, shareOf(whole) / total))}%, var(--card))`;
  }

  const shareOf = (whole) => (colored === "waits" ? whole.wait_memory + (whole.wait_network ?? 0) + whole.wait_input + whole.wait_output : whole[colored]);
  const short = (cause) => cause.replace("wait_", "");

  function rampLegend() {
    const ramp = Report.el("span", { class: "ramp" });
    ramp.style.setProperty("--ramp", `var(--${colored === "waits" ? "output" : short(colored)})`);
    return Report.el("p", { class: "legend" }, Report.el("span", {}, "0 %", ramp, "100 % of the run"));
  }

  // Choosing ------------------------------------------------------------------------------------

  function choose(one) {
    picked = one;
    mark();
    panel.replaceChildren(...(one.unit === null ? familyDetails(one.family) : unitDetails(one.unit)));
    panel.scrollTop = 0;
  }

  function nodeOf(unit) {
    const family = families.of_unit[unit];
    return document.getElementById(opened.has(family) ? `unit-${unit}` : `family-${family}`);
  }

  function mark() {
    svg.querySelectorAll(".picked, .near").forEach((node) => node.classList.remove("picked", "near"));
    const own = picked ? (picked.unit === null ? svg.querySelector(`#family-${picked.family}`) : nodeOf(picked.unit)) : svg.querySelector(".unit");
    svg.querySelectorAll('[tabindex="0"]').forEach((node) => node.setAttribute("tabindex", "-1"));
    own?.setAttribute("tabindex", "0");
    if (!picked) return;
    own.classList.add("picked");
    svg.querySelectorAll(".edge").forEach((edge) => edge.classList.toggle("near", [edge.dataset.from, edge.dataset.to].includes(String(picked.family))));
    if (picked.unit !== null) for (const peer of peersOf(picked.unit)) nodeOf(peer)?.classList.add("near");
  }

  const peersOf = (unit) => [...inputs[unit].map((f) => fifos.columns.producer[f]), ...outputs[unit].map((f) => fifos.columns.consumer[f])];

  function breakdown(whole, total) {
    return [Report.causeBar(whole, total), Report.el("dl", {}, Report.causes.flatMap(([cause, text]) => [
      Report.el("dt", {}, text), Report.el("dd", {}, `${Report.percent(whole[cause] / total)}`)]))];
  }

  function unitDetails(unit) {
    const facts = units.facts, first = ["state", "firings", "flops", "offchip_bytes", "requests", "longest_wait", "longest_wait_cycles"];
    const others = Object.keys(units.columns).filter((name) => !first.includes(name) && !["unit", "name", "operator", "final_clock", ...Report.causes.map(([c]) => c)].includes(name));
    return [
      Report.el("h3", {}, names[unit]), Report.el("p", { class: "muted" }, units.columns.operator[unit]),
      ...breakdown(cycles([unit]), length),
      Report.el("dl", {}, [...first, ...others].filter((name) => facts[name] && units.columns[name][unit] !== null).flatMap((name) => [
        Report.el("dt", { title: facts[name].definition }, Report.heading(name)), Report.el("dd", {}, Report.withUnit(units.columns[name][unit], facts[name].unit))])),
      ...ends("Receives from", inputs[unit], "producer", "consumer_wait", "waits"),
      ...ends("Sends to", outputs[unit], "consumer", "producer_wait", "waits for room"),
    ];
  }

  function ends(title, list, peer, wait, word) {
    if (!list.length) return [];
    const most = 40, item = (fifo) => {
      const other = fifos.columns[peer][fifo], depth = fifos.columns.depth?.[fifo];
      return Report.el("li", {}, Report.el("button", { type: "button", class: "link", onclick: () => open(other) }, names[other]),
        `, ${Report.plain(fifos.columns.sent[fifo])} tokens, depth ${depth ?? "unbounded"}, ${word} ${Report.percent(fifos.columns[wait][fifo] / length)}`);
    };
    return [Report.el("h3", {}, title), Report.el("ul", {}, list.slice(0, most).map(item), list.length > most ? Report.el("li", { class: "muted" }, `${list.length - most} more, see the table of FIFOs`) : null)];
  }

  function familyDetails(family) {
    const members = families.members[family], whole = cycles(members), total = length * members.length;
    const spread = Report.causes.filter(([c]) => whole[c]).flatMap(([cause, text]) => {
      const sorted = members.map((u) => units.columns[cause][u] / length).sort((a, b) => a - b);
      return [Report.el("dt", {}, text), Report.el("dd", {}, [0, 0.5, 1].map((q) => Report.percent(Report.quantile(sorted, q))).join(" · "))];
    });
    const waits = (u) => units.columns.wait_memory[u] + (units.columns.wait_network?.[u] ?? 0) + units.columns.wait_output[u] + units.columns.busy[u];
    const top = [...members].sort((a, b) => waits(b) - waits(a)).slice(0, 12);
    return [
      Report.el("h3", {}, familyText(family)), Report.el("p", { class: "muted" }, `${families.kinds[family]}; mean over ${members.length} ${inside(family)}`),
      ...breakdown(whole, total),
      Report.el("p", {}, Report.el("button", { type: "button", onclick: () => toggle(family) }, `${opened.has(family) ? "Hide" : "Show"} the ${inside(family)}`)),
      Report.el("h3", {}, "Least · median · most"), Report.el("dl", {}, spread),
      Report.el("h3", {}, "Longest at work or held up"), Report.el("ul", {}, top.map((unit) => Report.el("li", {}, Report.el("button", { type: "button", class: "link", onclick: () => open(unit) }, names[unit])))),
    ];
  }

  function toggle(family) {
    if (isSingle(family)) return;
    if (!opened.delete(family)) opened.add(family);
    draw();
    if (picked?.family === family) choose({ family, unit: null });
    reveal(document.getElementById(`family-${family}`), false);
  }

  /** Show a unit: its family opens. */
  function open(unit, focus = true) {
    const family = families.of_unit[unit];
    if (!isSingle(family) && !opened.has(family)) { opened.add(family); draw(); }
    choose({ family, unit });
    reveal(nodeOf(unit), focus);
  }

  function openFamily(family) {
    choose({ family, unit: isSingle(family) ? families.members[family][0] : null });
    reveal(document.getElementById(`family-${family}`), true);
    document.getElementById("graph").scrollIntoView({ block: "start" });
  }

  function reveal(node, focus) {
    const own = node.getBoundingClientRect(), all = view.getBoundingClientRect();
    view.scrollLeft += own.left + own.width / 2 - all.left - all.width / 2;
    view.scrollTop += own.top + own.height / 2 - all.top - all.height / 2;
    if (focus) node.focus({ preventScroll: true });
  }

  // Keys and tools ------------------------------------------------------------------------------

  svg.addEventListener("keydown", (event) => {
    const node = event.target.closest(".unit");
    if (!node) return;
    const [kind, text] = node.id.split("-"), number = Number(text);
    const family = kind === "family" ? number : families.of_unit[number];
    const acts = {
      Enter: () => choose({ family, unit: kind === "unit" ? number : isSingle(family) ? families.members[family][0] : null }),
      " ": () => acts.Enter(), "+": () => { if (!opened.has(family)) toggle(family); focusOn(`family-${family}`); },
      "-": () => { if (opened.has(family)) toggle(family); focusOn(`family-${family}`); },
      ArrowDown: () => step(node, 0, 1), ArrowUp: () => step(node, 0, -1), ArrowLeft: () => step(node, -1, 0), ArrowRight: () => step(node, 1, 0),
    };
    if (!acts[event.key]) return;
    event.preventDefault();
    acts[event.key]();
  });

  function focusOn(id) {
    svg.querySelectorAll('[tabindex="0"]').forEach((node) => node.setAttribute("tabindex", "-1"));
    const node = document.getElementById(id);
    node.setAttribute("tabindex", "0");
    reveal(node, true);
  }

  /** The nearest box or cell in a direction. */
  function step(node, dx, dy) {
    const at = middle(node), found = [...svg.querySelectorAll(".unit")].filter((other) => other !== node && !other.contains(node)).map((other) => {
      const [x, y] = middle(other), along = (x - at[0]) * dx + (y - at[1]) * dy, aside = Math.abs((x - at[0]) * dy) + Math.abs((y - at[1]) * dx);
      return { other, along, cost: along + 2.5 * aside };
    }).filter((one) => one.along > 1).sort((a, b) => a.cost - b.cost);
    if (found.length) focusOn(found[0].other.id);
  }

  const middle = (node) => { const box = node.getBoundingClientRect(); return [box.left + box.width / 2, box.top + box.height / 2]; };

  function setZoom(to) {
    zoom = Math.min(3, Math.max(0.05, to));
    svg.setAttribute("viewBox", `${-MARGIN - size.beyond} ${-MARGIN} ${Math.ceil(size.width)} ${Math.ceil(size.height)}`);
    svg.setAttribute("width", size.width * zoom);
    svg.setAttribute("height", size.height * zoom);
  }

  const found = Report.el("ul", { class: "found", "aria-label": "units found" });
  const search = Report.el("input", { type: "search", id: "graph-search", placeholder: "name or operator", oninput: look });
  search.addEventListener("keydown", (event) => { if (event.key === "Enter") found.querySelector("button")?.click(); });
  function look() {
    const word = search.value.trim().toLowerCase(), most = 30;
    const hits = word ? names.map((_, unit) => unit).filter((unit) => names[unit].toLowerCase().includes(word) || units.columns.operator[unit].toLowerCase().includes(word)) : [];
    found.replaceChildren(...hits.slice(0, most).map((unit) => Report.el("li", {}, Report.el("button", { type: "button", onclick: () => open(unit) }, names[unit]))),
      ...(hits.length > most ? [Report.el("li", { class: "muted" }, `${hits.length - most} more`)] : []));
    Report.say(word ? `${hits.length} units found` : "");
  }

  const colors = [["cause", "what takes most of its time"], ["waits", "share of all waits"], ...Report.causes.slice(0, -2).map(([c, t]) => [c, `share: ${t}`])];
  const tools = Report.el("div", { class: "tools" }, Report.el("label", {}, "Search", search),
    Report.choice("Color", colors, colored, (value) => { colored = value; paint(); }),
    Report.el("span", {}, [["Zoom in", "+", 1.25], ["Zoom out", "–", 0.8]].map(([title, text, by]) => Report.el("button", { type: "button", title, "aria-label": title, onclick: () => setZoom(zoom * by) }, text)), " ",
      Report.el("button", { type: "button", onclick: fit }, "Fit"), " ", Report.el("button", { type: "button", onclick: () => { opened.clear(); draw(); } }, "Hide all lanes")));

  /** All of it where that can be read, else as large as the width lets it be. */
  function start() {
    const wide = Math.min(1.1, (view.clientWidth - 20) / size.width), whole = Math.min(wide, (view.clientHeight - 8) / size.height);
    setZoom(whole >= 0.6 ? whole : Math.max(0.75, wide));
    reveal(svg.querySelector(".unit"), false);
  }

  function fit() { setZoom(Math.min(1.4, (view.clientWidth - 20) / size.width, (view.clientHeight - 8) / size.height)); }

  draw();
  return { tools, found, legend, area: Report.el("div", { class: "graph-area" }, view, panel), open, openFamily, start };
};
