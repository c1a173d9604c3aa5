// The tree of stalls: stages, operators, causes. What is inside a node is made when it is opened.
"use strict";

Report.causes = [
  ["busy", "works"], ["wait_memory", "waits for memory"], ["wait_input", "waits for tokens"],
  ["wait_output", "waits for room"], ["before", "before its first token"], ["after", "after its last token"],
];
Report.causeText = (cause) => Report.causes.find(([one]) => one === cause)[1];

Report.causeLegend = () => Report.el("ul", { class: "legend" }, [...Report.causes.slice(0, -2), ["idle", "before the first token, after the last"]]
  .map(([cause, text]) => Report.el("li", {}, Report.el("i", { class: cause }), text)));

/** A bar of causes; `cycles` maps causes to cycles of `whole`. */
Report.causeBar = (cycles, whole) => Report.el("span", { class: "bar", "aria-hidden": "true" }, Report.causes
  .filter(([cause]) => cycles[cause])
  .map(([cause]) => {
    const part = Report.el("i", { class: cause });
    part.style.width = `${100 * cycles[cause] / whole}%`;
    return part;
  }));

/** `showOperator` and `showUnit` go to the graph. */
Report.stallTree = (stalls, showOperator, showUnit) => {
  const columns = { work: "busy", memory: "wait_memory", network: "wait_network", input: "wait_input", output: "wait_output", before: "before", after: "after" };
  const percent = (cycles) => (stalls.cycles ? (100 * cycles / stalls.cycles).toFixed(1) : "0.0");
  const sum = (list, of) => list.reduce((total, one) => total + of(one), 0);
  const longestFirst = (list, of) => [...list].sort((a, b) => of(b) - of(a));

  const stages = new Map();
  for (const one of stalls.operators) stages.set(one.stage, [...(stages.get(one.stage) ?? []), one]);
  return longestFirst(stages, ([, list]) => sum(list, (one) => one.stalled.total)).map(([name, list]) => stage(name, list));

  function line(label, bar, figures) {
    return [Report.el("span", {}, label), bar, Report.el("span", { class: "muted" }, figures)];
  }

  function node(parts, makeInner, open) {
    const made = Report.el("details", { class: "node" }, Report.el("summary", {}, parts));
    const fill = () => { if (made.children.length === 1) made.append(...makeInner()); };
    made.addEventListener("toggle", fill);
    if (open) { fill(); made.open = true; }
    return made;
  }

  function barOf(operators) {
    const cycles = {};
    for (const one of operators) for (const { cause, cycles: spent } of one.causes) cycles[columns[cause]] = (cycles[columns[cause]] ?? 0) + spent.total;
    return Report.causeBar(cycles, stalls.cycles * sum(operators, (one) => one.active) || 1);
  }

  function waiting(operators) {
    const active = sum(operators, (one) => one.active);
    return active ? `waits ${percent(sum(operators, (one) => one.stalled.total) / active)} %` : "no work";
  }

  function stage(name, list) {
    const count = list.length === 1 ? "1 operator" : `${list.length} operators`;
    return node(line(name, barOf(list), `${count}, ${waiting(list)}`), () => some(longestFirst(list, (one) => one.stalled.total)), true);
  }

  /** Few operators at first, as a program may have thousands without lanes. */
  function some(list, most = 40) {
    if (list.length <= most + 5) return list.map(operator);
    const more = Report.el("button", { type: "button", onclick: () => more.replaceWith(...some(list.slice(most), 5 * most)) }, `Show more (${list.length - most} left)`);
    return [...list.slice(0, most).map(operator), more];
  }

  function operator(one) {
    const plain = one.operator === one.kind ? one.operator : `${one.operator} (${one.kind})`;
    const lanes = one.lanes === 1 ? "" : one.active === one.lanes ? `${one.lanes} lanes, ` : `${one.active} of ${one.lanes} lanes, `;
    const link = () => Report.el("div", { class: "leaf" }, Report.el("button", { type: "button", class: "link", onclick: () => showOperator(one.box) }, "Show in the graph"));
    return node(line(plain, barOf([one]), `${lanes}${waiting([one])}`), () => [...one.causes.map((each) => cause(one, each)), link()], false);
  }

  function cause(one, { cause: kind, peer, cycles }) {
    const column = columns[kind], of = { input: "tokens of", output: "room at" }[kind];
    const label = peer ? `waits for ${of} ${peer}` : Report.causeText(column);
    const mean = `${percent(cycles.total / one.active)} %`;
    const figures = one.active === 1 ? [mean] : [`mean ${mean}, least ${percent(cycles.least)}, median ${percent(cycles.median)}, most ${percent(cycles.most)} (`,
      Report.el("button", { type: "button", class: "link", onclick: () => showUnit(cycles.slowest) }, cycles.slowest), ")"];
    return Report.el("div", { class: "leaf" }, line(label, Report.causeBar({ [column]: cycles.total }, stalls.cycles * one.active || 1), figures));
  }
};
