// The network of a placed run or of one on several chips, with the heat of links and operators.
"use strict";

/** `showUnit` goes to the graph. */
Report.network = (data, showUnit) => {
  const { network, units } = data, { shares, names, about: abouts, where } = network;
  const one = where === "chips" ? "chip" : "place";
  const most = Math.max(0, ...shares), unitName = (unit) => units.columns.name[unit];
  const heat = (color, share, from) => `color-mix(in srgb, var(--${color}) ${Math.round(100 * Math.min(1, share))}%, var(--${from}))`;
  const clip = (text) => (text.length > 14 ? `${text.slice(0, 13)}…` : text);
  const [wide, high] = network.size;
  if (!wide) return Report.el("p", { class: "hint" }, "The network has too many places to be drawn; the table has its links.");

  // The busiest links are drawn last, on top.
  const order = network.links.map((_, index) => index).sort((a, b) => shares[a] - shares[b]);
  const lines = order.map((index) => {
    const [x1, y1, x2, y2] = network.links[index];
    const line = Report.svg("line", { class: "link", x1, y1, x2, y2 }, Report.svg("title", {}, `${names[index]}: busy ${Report.percent(shares[index])}, ${abouts[index]}`));
    line.style.stroke = heat("output", shares[index], "line");
    return line;
  });
  const figures = order.filter((index) => shares[index] >= 0.005).map((index) => {
    const [x1, y1, x2, y2, part] = network.links[index], across = Math.abs(x2 - x1) > Math.abs(y2 - y1);
    // Beside the link, on the side away from the one that leads back.
    const away = across ? [0, Math.sign(x2 - x1) * 11 + 4] : [Math.sign(y1 - y2) * 16, 4];
    return Report.svg("text", { class: "share", x: x1 + part * (x2 - x1) + away[0], y: y1 + part * (y2 - y1) + away[1] }, `${Math.round(100 * shares[index])}`);
  });
  const places = network.places.map((place) => {
    const [x, y] = place.at, [first, ...more] = place.units;
    const about = [place.name, ...place.units.map((unit) => `${unitName(unit)}: works ${Report.percent(units.columns.busy[unit] / (data.row.cycles || 1))}`), ...place.ports.map((port) => `memory port of ${port}`)].join("\n");
    const box = Report.svg("rect", { class: "place", x: x - 49, y: y - 25, width: 98, height: 50, rx: 5 }, Report.svg("title", {}, about));
    if (place.busy !== null) box.style.fill = heat("busy", 0.55 * place.busy, "card");
    const text = (dy, kind, said) => Report.svg("text", { x, y: y + dy, class: kind }, said);
    const parts = [box, text(-13, "sub", place.name + (place.ports.length ? " · memory" : ""))];
    if (first !== undefined) parts.push(text(2, "name", clip(more.length ? `${place.units.length} operators` : unitName(first))), text(17, "figure", Report.percent(place.busy)));
    const group = Report.svg("g", first === undefined ? {} : { class: "unit", tabindex: 0, role: "button", "aria-label": about }, ...parts);
    if (first !== undefined) {
      group.addEventListener("click", () => showUnit(first));
      group.addEventListener("keydown", (event) => { if (event.key === "Enter") showUnit(first); });
    }
    return group;
  });
  const ramp = (color, text) => {
    const bar = Report.el("span", { class: "ramp" });
    bar.style.setProperty("--ramp", `var(--${color})`);
    return Report.el("li", {}, "0 %", bar, "100 %", ` ${text}`);
  };
  const busiest = most ? `The busiest link is ${names[shares.indexOf(most)]}, busy ${Report.percent(most)} of the run.` : "No link was used.";
  return [
    Report.el("p", {}, `${busiest} Numbers beside links are the percentage of the cycles in which they were busy; a ${one} shows its operator, or how many it has, and how much of the run the busiest works. A click on a ${one} leads to the graph.`),
    Report.el("ul", { class: "legend" }, ramp("output", "of the cycles: a link is busy"), ramp("busy", `of the cycles: the busiest operator of a ${one} works`)),
    Report.el("div", { class: "network-view", tabindex: "0", role: "region", "aria-label": one === "chip" ? "network of chips" : "network on chip" }, Report.svg("svg", { viewBox: `0 0 ${wide} ${high}`, width: wide, height: high, role: "group", "aria-label": busiest }, ...lines, ...places, ...figures)),
  ];
};
