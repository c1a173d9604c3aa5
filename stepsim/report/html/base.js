// What all parts of a report share: its data, elements, numbers with units, the theme.
// Texts are only ever set as text, so that no name of a user becomes markup.
"use strict";

const Report = { data: JSON.parse(document.getElementById("document").textContent), pages: {} };

Report.el = (tag, attributes = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.flat().filter((one) => one !== null && one !== undefined).map((one) => (one instanceof Node ? one : String(one))));
  return made;
};

Report.svg = (tag, attributes = {}, ...children) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
};

/** A section with a heading, listed in the head of the page. */
Report.section = (id, title, ...children) => {
  const heading = Report.el("h2", { id: `${id}-title` }, title);
  const made = Report.el("section", { id, "aria-labelledby": `${id}-title` }, heading, ...children);
  document.getElementById("main").append(made);
  document.getElementById("sections").append(Report.el("a", { href: `#${id}` }, title));
  return made;
};

Report.say = (text) => { document.getElementById("said").textContent = text; };

// Numbers ---------------------------------------------------------------------------------------

const PREFIXES = { bytes: ["B", "kB", "MB", "GB", "TB", "PB"], FLOPs: ["FLOPs", "kFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs"] };
const PARTS = { J: ["J", "mJ", "\u00b5J", "nJ", "pJ"] };
const WORDS = ["", "thousand ", "million ", "billion ", "trillion ", "quadrillion "];

/** Divisor and name of the unit in which numbers up to `most` are short. */
Report.scale = (unit, most) => {
  if (unit === "fraction") return { divisor: 0.01, name: "%" };
  if (PARTS[unit] && most && Math.abs(most) < 1) {
    const part = Math.min(PARTS[unit].length - 1, Math.ceil(-Math.log10(Math.abs(most)) / 3));
    return { divisor: 1000 ** -part, name: PARTS[unit][part] };
  }
  const power = Math.abs(most) >= 1e4 ? Math.min(5, Math.floor(Math.log10(Math.abs(most)) / 3)) : 0;
  const [first, ...rest] = (unit || "").split("/");
  const per = rest.length ? `/${rest.join("/")}` : "";
  const name = PREFIXES[first] ? PREFIXES[first][power] + per : `${WORDS[power]}${unit || ""}`.trim();
  return { divisor: 1000 ** power, name };
};

Report.plain = (value, digits = 4) => {
  if (value === null || value === undefined) return "not known";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value)) return value.toLocaleString("en-US");
  return value.toLocaleString("en-US", { maximumSignificantDigits: Math.abs(value) >= 1000 ? 7 : digits });
};

/** A number in a unit in which it is short: 991.4 MB, 95.2 %, 1,017,241 cycles. */
Report.withUnit = (value, unit) => {
  if (value === null || value === undefined) return "not known";
  if (typeof value !== "number") return String(value);
  if (unit === "cycles") return `${Report.plain(Math.round(value * 10) / 10)} cycles`;
  const { divisor, name } = Report.scale(unit, value);
  const text = (value / divisor).toLocaleString("en-US", { maximumSignificantDigits: 4 });
  return name ? `${text} ${name}` : text;
};

Report.percent = (share) => (share === null || share === undefined ? "–" : `${(100 * share).toFixed(1)} %`);

Report.heading = (column) => column.replaceAll("_", " ");

Report.quantile = (sorted, q) => {
  const at = (sorted.length - 1) * q, low = Math.floor(at);
  return low + 1 < sorted.length ? sorted[low] + (at - low) * (sorted[low + 1] - sorted[low]) : sorted[low];
};

// Controls --------------------------------------------------------------------------------------

/** A labelled choice; `options` are values, or pairs of value and text. */
Report.choice = (label, options, chosen, change) => {
  const select = Report.el("select", { "aria-label": label, onchange: () => change(select.value) });
  for (const one of options) {
    const [value, text] = Array.isArray(one) ? one : [one, one];
    select.append(Report.el("option", { value, selected: value === chosen }, text));
  }
  return Report.el("label", {}, label, select);
};

Report.tip = (text, event) => {
  const tip = document.getElementById("tip");
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  const box = tip.getBoundingClientRect();
  const x = Math.min(event.clientX + 14, innerWidth - box.width - 8);
  const y = event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 10 : event.clientY + 18;
  tip.style.left = `${Math.max(4, x)}px`;
  tip.style.top = `${Math.max(4, y)}px`;
};

// Theme -----------------------------------------------------------------------------------------

Report.isDark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};

/** The color behind a custom property, as the plotting library needs it. */
Report.color = (name) => {
  const probe = Report.el("span");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
};

Report.startTheme = () => {
  const button = document.getElementById("theme"), root = document.documentElement;
  const showTheme = () => {
    const dark = Report.isDark();
    button.textContent = dark ? "Light" : "Dark";
    button.setAttribute("aria-label", dark ? "Switch to light colors" : "Switch to dark colors");
    button.setAttribute("aria-pressed", String(dark));
    Report.redrawCharts();
  };
  button.addEventListener("click", () => {
    root.dataset.theme = Report.isDark() ? "light" : "dark";
    try { localStorage.setItem("stepsim-theme", root.dataset.theme); } catch { /* not kept */ }
    showTheme();
  });
  try {
    const kept = localStorage.getItem("stepsim-theme");
    if (kept) root.dataset.theme = kept;
  } catch { /* files may have no storage */ }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showTheme);
  showTheme();
};
