// Tables that sort and filter. Headers are buttons, so that Enter and Space sort.
"use strict";

const ROWS_AT_ONCE = 100;

/**
 * columns: [{ key, label, unit, kind, title, format }], values: { key: array }.
 * options: { id, filter: label of the filter, hint, sort: [key, descending], pick: (row) => ..., pickKey }.
 */
Report.table = (caption, columns, values, count, options = {}) => {
  let order = Array.from({ length: count }, (_, row) => row);
  let sorted = options.sort ?? null, shown = ROWS_AT_ONCE, words = "";
  const body = Report.el("tbody"), status = Report.el("span", { class: "muted", role: "status" }), wrong = Report.el("span", { class: "bad", role: "alert" });
  const more = Report.el("button", { type: "button", onclick: () => { shown += 5 * ROWS_AT_ONCE; draw(); } });

  const heads = columns.map((column) => {
    const button = Report.el("button", { type: "button", title: column.title || null, onclick: () => sortBy(column) }, column.label);
    return Report.el("th", { scope: "col", class: column.kind, "aria-sort": "none" }, button, column.unit ? Report.el("small", {}, column.unit) : null);
  });

  const text = (row, column) => {
    const value = values[column.key][row];
    return value === null || value === undefined ? "" : String(column.format ? column.format(value, row) : value);
  };

  function sortBy(column) {
    const descending = sorted?.[0] === column.key ? !sorted[1] : column.kind === "number";
    sorted = [column.key, descending];
    shown = ROWS_AT_ONCE;
    draw();
    Report.say(`sorted by ${column.label}, ${descending ? "largest first" : "smallest first"}`);
  }

  function compare(one, other) {
    const [key, descending] = sorted, column = columns.find((c) => c.key === key);
    const a = values[key][one], b = values[key][other];
    if (a === null || b === null) return (a === null) - (b === null) || one - other;  // unknown ones last
    const found = column.kind === "number" ? a - b
      : text(one, column).localeCompare(text(other, column), "en", { numeric: true });
    return (descending ? -found : found) || one - other;
  }

  const COMPARE = { "<": (a, b) => a < b, ">": (a, b) => a > b, "<=": (a, b) => a <= b, ">=": (a, b) => a >= b, "=": (a, b) => a === b, "==": (a, b) => a === b, "!=": (a, b) => a !== b };
  const SIGN = "(<=|>=|==|!=|<|>|=)";
  const nameOf = (column) => column.label.toLowerCase().replaceAll(" ", "_");

  /** The terms of a filter: `producer wait > 1,000` is one. */
  function termsOf(text) {
    let line = text.toLowerCase();
    for (const column of columns.filter((c) => c.label.includes(" "))) {
      const label = column.label.toLowerCase();
      for (let at = line.indexOf(label); at >= 0; at = line.indexOf(label, at + 1)) {
        if (/^\s*[<>=!]/.test(line.slice(at + label.length))) line = line.slice(0, at) + nameOf(column) + line.slice(at + label.length);
      }
    }
    return line.replaceAll(new RegExp(`\\s*${SIGN}\\s*`, "g"), "$1").split(/\s+/).filter(Boolean);
  }

  function numberOf(text) {
    const plain = text.replace(/%$/, "").replaceAll(/(?<=\d)[,_](?=\d{3})/g, "");
    return plain === "" ? NaN : Number(plain) / (text.endsWith("%") ? 100 : 1);
  }

  /** `word` is in some text of the row, or `column>5` holds. Anything else is reported. */
  function test(word, unknown) {
    const parts = new RegExp(`^([^<>=!]+)${SIGN}(.+)$`).exec(word);
    const column = parts && columns.find((c) => [c.key.toLowerCase(), nameOf(c)].includes(parts[1]));
    if (column) {
      const holds = COMPARE[parts[2]], bound = column.kind === "number" ? numberOf(parts[3]) : parts[3];
      if (column.kind === "number" && Number.isFinite(bound)) return (row) => values[column.key][row] !== null && holds(values[column.key][row], bound);
      if (column.kind !== "number" && /=/.test(parts[2]) && !/[<>]/.test(parts[2])) return (row) => holds(text(row, column).toLowerCase(), bound);
      unknown.push(column.kind === "number" ? `${word}: expected a number after ${parts[2]}` : `${word}: ${column.label} is a text, which = and != compare`);
      return () => true;
    }
    const texts = columns.filter((c) => c.kind !== "number"), holds = (row) => texts.some((c) => text(row, c).toLowerCase().includes(word));
    if (parts && !order.some(holds)) {
      unknown.push(`${word}: there is no column ${parts[1]}, expected one of ${columns.map(nameOf).join(", ")}`);
      return () => true;
    }
    return holds;
  }

  function draw() {
    const unknown = [];
    order = Array.from({ length: count }, (_, row) => row);
    const tests = termsOf(words).map((word) => test(word, unknown));
    order = order.filter((row) => tests.every((holds) => holds(row)));
    if (sorted) order.sort(compare);
    heads.forEach((head, index) => head.setAttribute("aria-sort",
      sorted?.[0] !== columns[index].key ? "none" : sorted[1] ? "descending" : "ascending"));
    body.replaceChildren(...order.slice(0, shown).map(rowOf));
    status.textContent = order.length === count ? `${Report.plain(count)} rows` : `${Report.plain(order.length)} of ${Report.plain(count)} rows`;
    wrong.textContent = unknown.length ? `Not used: ${unknown.join(". ")}.` : "";
    more.hidden = order.length <= shown;
    more.textContent = `Show more rows (${Report.plain(order.length - shown)} left)`;
  }

  function rowOf(row) {
    return Report.el("tr", {}, columns.map((column) => {
      const content = text(row, column), pick = options.pick?.[column.key];
      return Report.el("td", { class: column.kind }, pick && content
        ? Report.el("button", { type: "button", class: "link", onclick: () => pick(values[column.key][row]) }, content)
        : content);
    }));
  }

  draw();
  const filter = Report.el("input", { type: "search", placeholder: options.hint || "", oninput: () => { words = filter.value; shown = ROWS_AT_ONCE; draw(); } });
  const tools = options.filter ? Report.el("div", { class: "tools" }, Report.el("label", {}, options.filter, filter), status, wrong) : null;
  const table = Report.el("table", {}, Report.el("caption", { class: "unseen" }, caption), Report.el("thead", {}, Report.el("tr", {}, heads)), body);
  const scroll = Report.el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, table);
  return Report.el("div", { id: options.id || null }, tools, scroll, more);
};

/** Columns of a table of the document that hold anything, by the facts that come with it. */
Report.columnsOf = (table, names, formats = {}) => names.filter((name) => table.facts[name] && table.columns[name].some((value) => value !== null)).map((name) => {
  const facts = table.facts[name];
  const number = facts.kind === "number";
  const format = formats[name] ?? (number ? (v) => (facts.unit === "fraction" ? Report.percent(v) : Report.plain(v)) : null);
  return { key: name, label: Report.heading(name), unit: facts.unit === "fraction" ? "" : facts.unit, kind: formats[name] ? "text" : number ? "number" : "text", title: facts.definition, format };
});
