"""A layered drawing of a graph: where boxes lie, and where edges pass between them.

Edges that close a cycle lead upward, all others downward. Nodes get layers by longest paths, edges
that pass several layers get a bend in each, nodes of a layer are ordered by the median of their
neighbors, and moved toward it as far as the others allow (Sugiyama, Tagawa and Toda 1981).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

Point = tuple[float, float]

_SWEEPS = 12
"""Orders that are tried, downward and upward in turn; the one with fewest crossings is taken."""

_BEND = 12.0
"""Width that is kept free for an edge that passes a layer."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Positions in pixels, downward.

    Attributes
    ----------
    width, height : of the whole.
    centers : of the boxes.
    paths : points of every edge, from the lower side of its source to the upper one of its target;
        of one that leads upward, from the upper side to the lower.
    """

    width: float
    height: float
    centers: tuple[Point, ...]
    paths: tuple[tuple[Point, ...], ...]


def layered(
    sizes: Sequence[Point],
    edges: Sequence[tuple[int, int]],
    *,
    across: float,
    down: float,
    free: Sequence[float] | None = None,
) -> Layout:
    """Lay out boxes, so that every edge leads downward that closes no cycle.

    Parameters
    ----------
    sizes : width and height of each box.
    edges : number of the source and of the target, which are two boxes.
    across, down : least distance between boxes of a layer, and between layers.
    free : width that each box has for itself, if that is not its own.
    """
    upward = _closing(len(sizes), edges)
    turned = [edge[::-1] if i in upward else edge for i, edge in enumerate(edges)]
    levels = _levels(len(sizes), turned)
    widths = [width for width, _ in sizes] if free is None else list(free)
    chains: list[list[int]] = []
    for source, target in turned:
        chain = [source]
        for level in range(levels[source] + 1, levels[target]):
            levels.append(level)
            widths.append(_BEND)
            chain.append(len(levels) - 1)
        chains.append([*chain, target])
    before: list[list[int]] = [[] for _ in levels]
    after: list[list[int]] = [[] for _ in levels]
    for chain in chains:
        for upper, lower in pairwise(chain):
            before[lower].append(upper)
            after[upper].append(lower)
    layers = _ordered(levels, before, after)
    x = _placed(layers, widths, before, after, across)
    tall = [max((sizes[node][1] for node in row if node < len(sizes)), default=0) for row in layers]
    top, y = 0.0, []
    for height in tall:
        y.append(top + height / 2)
        top += height + down
    left = min((x[i] - widths[i] / 2 for i in range(len(x))), default=0.0)
    right = max((x[i] + widths[i] / 2 for i in range(len(x))), default=0.0)
    centers = [(x[i] - left, y[levels[i]]) for i in range(len(levels))]
    reached = _reached(chains, centers, sizes)
    paths = []
    for number, chain in enumerate(chains):
        bends = [
            point
            for node in chain[1:-1]
            for point in (
                (centers[node][0], centers[node][1] - tall[levels[node]] / 2),
                (centers[node][0], centers[node][1] + tall[levels[node]] / 2),
            )
        ]
        x0, y0 = centers[chain[0]]
        start = (x0, y0 + sizes[chain[0]][1] / 2)
        end = (reached[number], centers[chain[-1]][1] - sizes[chain[-1]][1] / 2)
        path = (start, *bends, end)
        paths.append(path[::-1] if number in upward else path)
    return Layout(right - left, max(0.0, top - down), tuple(centers[: len(sizes)]), tuple(paths))


def _reached(
    chains: Sequence[Sequence[int]], centers: Sequence[Point], sizes: Sequence[Point]
) -> list[float]:
    """Where edges reach the upper side of their target: spread in the order in which they come."""
    found = [0.0] * len(chains)
    arriving: dict[int, list[int]] = {}
    for number, chain in enumerate(chains):
        arriving.setdefault(chain[-1], []).append(number)
    for target, numbers in arriving.items():
        numbers.sort(key=lambda number: centers[chains[number][-2]][0])
        step = sizes[target][0] / len(numbers)
        first = centers[target][0] - sizes[target][0] / 2 + step / 2
        for place, number in enumerate(numbers):
            found[number] = first + place * step
    return found


def _closing(nodes: int, edges: Sequence[tuple[int, int]]) -> set[int]:
    """Numbers of the edges that lead back to where a walk along the others came from."""
    after: list[list[tuple[int, int]]] = [[] for _ in range(nodes)]
    fed = [False] * nodes
    for number, (source, target) in enumerate(edges):
        after[source].append((target, number))
        fed[target] = True
    found: set[int] = set()
    left = [iter(each) for each in after]
    seen, on_the_way = [False] * nodes, [False] * nodes
    for start in sorted(range(nodes), key=fed.__getitem__):
        way = [] if seen[start] else [start]
        while way:
            node = way[-1]
            seen[node] = on_the_way[node] = True
            target, number = next(left[node], (-1, 0))
            if target < 0:
                on_the_way[way.pop()] = False
            elif on_the_way[target]:
                found.add(number)
            elif not seen[target]:
                way.append(target)
    return found


def _levels(nodes: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Layers by longest paths; what has no source stands right above what it feeds."""
    after: list[list[int]] = [[] for _ in range(nodes)]
    missing = [0] * nodes
    for source, target in edges:
        after[source].append(target)
        missing[target] += 1
    sources = [node for node in range(nodes) if not missing[node]]
    levels = [0] * nodes
    ready = list(sources)
    while ready:
        node = ready.pop()
        for target in after[node]:
            levels[target] = max(levels[target], levels[node] + 1)
            missing[target] -= 1
            if not missing[target]:
                ready.append(target)
    for node in sources:
        if after[node]:
            levels[node] = min(levels[target] for target in after[node]) - 1
    return levels


def _ordered(levels: list[int], before: list[list[int]], after: list[list[int]]) -> list[list[int]]:
    """Nodes of every layer from left to right."""
    layers: list[list[int]] = [[] for _ in range(max(levels, default=-1) + 1)]
    for node, level in enumerate(levels):
        layers[level].append(node)
    best, fewest = [row[:] for row in layers], _crossings(layers, after)
    for sweep in range(_SWEEPS):
        downward = sweep % 2 == 0
        near = before if downward else after
        for row in layers if downward else reversed(layers):
            place = {node: i for one in layers for i, node in enumerate(one)}
            row.sort(
                key=lambda node, place=place, near=near: (  # type: ignore[misc]
                    median(place[other] for other in near[node]) if near[node] else place[node]
                )
            )
        found = _crossings(layers, after)
        if found < fewest:
            best, fewest = [row[:] for row in layers], found
    return best


def _crossings(layers: list[list[int]], after: list[list[int]]) -> int:
    place = {node: i for row in layers for i, node in enumerate(row)}
    total = 0
    for row in layers:
        ends = [place[to] for node in row for to in sorted(after[node], key=place.__getitem__)]
        total += sum(ends[i] > ends[j] for i in range(len(ends)) for j in range(i + 1, len(ends)))
    return total


def _placed(
    layers: list[list[int]],
    widths: list[float],
    before: list[list[int]],
    after: list[list[int]],
    across: float,
) -> list[float]:
    """Middles of all nodes: toward the median of their neighbors, without overlaps."""
    x = [0.0] * len(widths)
    gap = [[(widths[a] + widths[b]) / 2 + across for a, b in pairwise(row)] for row in layers]
    for row, gaps in zip(layers, gap, strict=True):
        for node, other, distance in zip(row, row[1:], gaps, strict=False):
            x[other] = x[node] + distance
    for sweep in range(2 * _SWEEPS):
        near = (before, after)[sweep % 2]
        steps = list(zip(layers, gap, strict=True))
        for row, gaps in steps if sweep % 2 == 0 else reversed(steps):
            wanted = [
                median(x[other] for other in near[node]) if near[node] else x[node] for node in row
            ]
            for node, value in zip(row, _apart(wanted, gaps), strict=True):
                x[node] = value
    return x


def _apart(wanted: list[float], gaps: list[float]) -> list[float]:
    """The positions next to those that are wanted, by least squares, with these distances.

    Without the distances they must not decrease, so that runs of them that do are averaged.
    """
    offsets = [0.0]
    for distance in gaps:
        offsets.append(offsets[-1] + distance)
    pools: list[tuple[float, int]] = []
    for value, offset in zip(wanted, offsets, strict=False):
        mean, count = value - offset, 1
        while pools and pools[-1][0] > mean:
            other, members = pools.pop()
            mean = (mean * count + other * members) / (count + members)
            count += members
        pools.append((mean, count))
    flat = [mean for mean, count in pools for _ in range(count)]
    return [mean + offset for mean, offset in zip(flat, offsets, strict=False)]
