// Charts of plotly in the colors of the page, drawn anew when these change.
"use strict";

Report.charts = [];
Report.palette = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6BB1", "#7F7F7F"];

/** Names of users in labels of plotly, which reads some markup. */
Report.safe = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

/** A chart; `build` gives its traces and layout, and `description` says in words what it shows. */
Report.chart = (description, build, options = {}) => {
  const area = Report.el("div", { class: `chart ${options.class ?? ""}`, role: "img", "aria-label": description, id: options.id ?? null });
  const one = { area, build, ready: false };
  Report.charts.push(one);
  return { area, draw: () => drawChart(one) };
};

Report.redrawCharts = () => Report.charts.forEach(drawChart);

function drawChart(one) {
  const ink = Report.color("ink"), line = Report.color("line"), card = Report.color("card");
  const { data, layout } = one.build();
  const axis = { gridcolor: line, zerolinecolor: line, linecolor: line, tickcolor: line, automargin: true };
  const whole = {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: ink, size: 12.5, family: "system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif" },
    margin: { l: 60, r: 20, t: 20, b: 50 }, hoverlabel: { bgcolor: card, bordercolor: line, font: { color: ink }, align: "left" },
    legend: { orientation: "h", y: -0.18, font: { size: 12 } }, colorway: Report.palette, ...layout,
  };
  for (const name of Object.keys(whole)) if (/^[xy]axis\d*$/.test(name)) whole[name] = { ...axis, ...whole[name] };
  whole.xaxis ??= axis;
  whole.yaxis ??= axis;
  Plotly.react(one.area, data, whole, { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] });
}

/** Heat map of `rows` x `columns` with hover texts; more is bluer. */
Report.heat = (columns, rows, z, options) => ({
  type: "heatmap", x: columns, y: rows, z, xgap: options.gap ?? 0, ygap: options.gap ?? 1, hoverongaps: false,
  colorscale: [[0, Report.color("soft")], [1, Report.color("memory")]],
  colorbar: { title: { text: options.title, side: "right" }, thickness: 12, outlinewidth: 0, ticksuffix: options.suffix ?? "" },
  ...options.trace,
});

/** `cycles`, `traffic (MB)` or `cycles (thousands)`. */
Report.axisTitle = (label, unit) => {
  if (!unit || unit === label || label.endsWith(` ${unit}`)) return label;
  const [size, ...rest] = unit.split(" "), own = rest.join(" ");
  return own && (own === label || label.endsWith(` ${own}`)) ? `${label} (${size}s)` : `${label} (${unit})`;
};

/** Texts in the cells of a heat map, black or white, whichever differs more from the cell. */
Report.cellTexts = (columns, rows, z, texts) => {
  const all = z.flat().filter((v) => v !== null), least = Math.min(...all), span = Math.max(...all) - least;
  const [low, high] = ["soft", "memory"].map((name) => Report.color(name).match(/[\d.]+/g).slice(0, 3).map(Number));
  const inkOf = (v) => {
    const share = span ? (v - least) / span : 0.5, linear = low.map((c, i) => ((c + share * (high[i] - c)) / 255) ** 2.2);
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] > 0.18 ? "#000" : "#fff";
  };
  const cells = rows.flatMap((row, r) => columns.map((column, c) => ({ row, column, v: z[r][c], text: texts[r][c] }))).filter((one) => one.v !== null);
  return { type: "scatter", mode: "text", hoverinfo: "skip", showlegend: false, x: cells.map((one) => one.column), y: cells.map((one) => one.row), text: cells.map((one) => one.text), textfont: { color: cells.map((one) => inkOf(one.v)) } };
};
