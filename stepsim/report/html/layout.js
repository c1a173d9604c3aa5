// Layered layout of a directed graph: layers from top to bottom, few crossings, straight chains.
"use strict";

/**
 * sizes: [{ w, h }]; edges: [[from, to]]. Returns { x, y: centers, paths: points per edge, width, height }.
 * An edge over several layers goes through places of its own in those between.
 */
Report.layout = (sizes, edges, gap = { x: 26, y: 46 }) => {
  const count = sizes.length;
  const turned = acyclic(count, edges);
  const layer = layersOf(count, turned);
  const width = sizes.map((s) => s.w), next = [], previous = [], at = [...layer];
  for (let node = 0; node < count; node++) { next.push([]); previous.push([]); }
  const link = (a, b) => { next[a].push(b); previous[b].push(a); };
  const routes = turned.map(([from, to]) => {
    const route = [from];
    for (let level = layer[from] + 1; level < layer[to]; level++) {
      const place = at.length;
      at.push(level); width.push(10); next.push([]); previous.push([]);
      link(route.at(-1), place);
      route.push(place);
    }
    link(route.at(-1), to);
    return [...route, to];
  });

  const rows = Array.from({ length: Math.max(0, ...layer) + 1 }, () => []);
  for (const node of firstOrder(at, next, previous)) rows[at[node]].push(node);
  order(rows, next, previous, at.length);
  const x = columns(rows, next, previous, width, gap.x, at.length);

  const y = [], heights = rows.map((row) => Math.max(12, ...row.filter((n) => n < count).map((n) => sizes[n].h)));
  let top = 16;
  rows.forEach((row, level) => {
    for (const node of row) y[node] = top + heights[level] / 2;
    top += heights[level] + gap.y;
  });
  const left = Math.min(...x.map((v, n) => v - width[n] / 2)) - 20;
  for (let node = 0; node < x.length; node++) x[node] -= left;
  const paths = routes.map((route, index) => {
    const [from, to] = turned[index];
    const points = route.map((node) => [x[node], y[node]]);
    points[0] = [x[from], y[from] + sizes[from].h / 2];
    points[points.length - 1] = [x[to], y[to] - sizes[to].h / 2];
    return turned[index][2] ? points.reverse() : points;
  });
  return { x, y, paths, width: Math.max(...x.map((v, n) => v + width[n] / 2)) + 20, height: top };
};

/** The edges without cycles: some are turned, and say so as their third element. */
function acyclic(count, edges) {
  const out = Array.from({ length: count }, () => []);
  edges.forEach(([from, to], index) => out[from].push([to, index]));
  const state = new Uint8Array(count), back = new Set(), incoming = new Int32Array(count);
  for (const [, to] of edges) incoming[to]++;
  const starts = [...Array(count).keys()].sort((a, b) => (incoming[a] > 0) - (incoming[b] > 0) || a - b);
  for (const start of starts) {
    if (state[start]) continue;
    const stack = [[start, 0]];
    state[start] = 1;
    while (stack.length) {
      const top = stack.at(-1), [node, tried] = top;
      if (tried === out[node].length) { state[node] = 2; stack.pop(); continue; }
      top[1]++;
      const [to, index] = out[node][tried];
      if (state[to] === 1) back.add(index);
      else if (!state[to]) { state[to] = 1; stack.push([to, 0]); }
    }
  }
  return edges.map(([from, to], index) => (back.has(index) ? [to, from, true] : [from, to, false]));
}

/** Longest path from the sources; sources stand right above what they feed. */
function layersOf(count, edges) {
  const layer = new Array(count).fill(0), incoming = new Array(count).fill(0);
  const out = Array.from({ length: count }, () => []);
  for (const [from, to] of edges) { out[from].push(to); incoming[to]++; }
  const isSource = incoming.map((n) => n === 0), ready = [];
  incoming.forEach((n, node) => { if (!n) ready.push(node); });
  while (ready.length) {
    const node = ready.pop();
    for (const to of out[node]) {
      layer[to] = Math.max(layer[to], layer[node] + 1);
      if (!--incoming[to]) ready.push(to);
    }
  }
  for (let node = 0; node < count; node++) {
    if (isSource[node] && out[node].length) layer[node] = Math.min(...out[node].map((to) => layer[to])) - 1;
  }
  return layer;
}

function firstOrder(at, next, previous) {
  const seen = new Uint8Array(at.length), found = [];
  const roots = at.map((_, node) => node).filter((node) => !previous[node].length);
  for (const root of [...roots, ...at.keys()]) {
    const stack = [root];
    while (stack.length) {
      const node = stack.pop();
      if (seen[node]) continue;
      seen[node] = 1;
      found.push(node);
      stack.push(...[...next[node]].reverse());
    }
  }
  return found;
}

/** Sweeps down and up; each row is sorted by the mean place of its neighbors in the row before. */
function order(rows, next, previous, count) {
  const place = new Float64Array(count);
  const number = (row) => row.forEach((node, index) => { place[node] = index - row.length / 2; });
  rows.forEach(number);
  const sort = (row, neighbors) => {
    const mean = new Map(row.map((node) => {
      const own = neighbors[node];
      return [node, own.length ? own.reduce((sum, n) => sum + place[n], 0) / own.length : place[node]];
    }));
    row.sort((a, b) => mean.get(a) - mean.get(b));
    number(row);
  };
  for (let sweep = 0; sweep < 10; sweep++) {
    for (let level = 1; level < rows.length; level++) sort(rows[level], previous);
    for (let level = rows.length - 2; level >= 0; level--) sort(rows[level], next);
  }
}

/** Centers: each node as near to the mean of its neighbors as the others in its row let it. */
function columns(rows, next, previous, width, gap, count) {
  const x = new Array(count).fill(0);
  const need = (a, b) => (width[a] + width[b]) / 2 + gap;
  for (const row of rows) row.forEach((node, index) => { x[node] = index ? x[row[index - 1]] + need(row[index - 1], node) : 0; });
  for (const row of rows) {
    const middle = row.length ? (x[row[0]] + x[row.at(-1)]) / 2 : 0;
    for (const node of row) x[node] -= middle;
  }
  const settle = (row, neighbors) => {
    const wanted = row.map((node) => {
      const own = neighbors(node);
      return own.length ? own.reduce((sum, n) => sum + x[n], 0) / own.length : x[node];
    });
    const right = [...wanted], left = [...wanted];
    for (let i = 1; i < row.length; i++) right[i] = Math.max(right[i], right[i - 1] + need(row[i - 1], row[i]));
    for (let i = row.length - 2; i >= 0; i--) left[i] = Math.min(left[i], left[i + 1] - need(row[i], row[i + 1]));
    row.forEach((node, i) => { x[node] = (right[i] + left[i]) / 2; });
  };
  for (let pass = 0; pass < 12; pass++) {
    for (const row of rows) settle(row, (n) => previous[n]);
    for (const row of [...rows].reverse()) settle(row, (n) => next[n]);
    for (const row of rows) settle(row, (n) => [...previous[n], ...next[n]]);
  }
  return x;
}
