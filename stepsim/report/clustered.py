"""A layered drawing of a graph in which some boxes lie together, with a frame around them.

The inside of every cluster is laid out on its own, and then the clusters and the other boxes as if
each were one box; both by :mod:`stepsim.drawing.layers`. Edges enter a cluster at its top and leave
it at its bottom, and pass what lies between as they do anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stepsim.drawing import Layout, Point, layered

_ENTRY: Point = (14.0, 0.0)
"""Width of the place where an edge enters a cluster."""

_PAD = 10.0
_HEAD = 14.0
"""Room for the title of a cluster."""

_APART = 2.0
"""Least distance between the text of an edge and the side of a frame."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Where the frame of a cluster lies: its left and upper side, width and height in pixels."""

    cluster: int
    left: float
    top: float
    width: float
    height: float


def clustered(
    sizes: Sequence[Point],
    edges: Sequence[tuple[int, int]],
    clusters: Sequence[Sequence[int]],
    *,
    texts: Sequence[float],
    across: float,
    down: float,
) -> tuple[Layout, tuple[Frame, ...]]:
    """Lay out boxes as `layered` does, those of a cluster next to each other.

    A cluster that an edge leaves and to which a path leads back from outside gets no frame, as
    what is outside would have to lie both above and below it.

    Parameters
    ----------
    sizes, edges, across, down : as in `layered`.
    clusters : numbers of the boxes in each; no box is in two of them.
    texts : width of the text of each edge, which is above its end; no text lies across the side of
        a frame.
    """
    chosen = _acyclic(edges, clusters)
    owner = {node: one for one in chosen for node in clusters[one]}
    insides = {
        one: _Inside(clusters[one], owner, sizes, edges, texts, across, down) for one in chosen
    }
    outer: list[int] = []  # cluster -1 - one, or the number of a box
    place: dict[int, int] = {}
    for node in range(len(sizes)):
        key = -1 - owner[node] if node in owner else node
        if key not in place:
            place[key] = len(outer)
            outer.append(key)
    outside = [n for n, (a, b) in enumerate(edges) if owner.get(a, -1 - a) != owner.get(b, -1 - b)]

    def end(node: int) -> int:
        return place[-1 - owner[node] if node in owner else node]

    found = layered(
        [insides[-1 - key].size if key < 0 else sizes[key] for key in outer],
        [(end(edges[n][0]), end(edges[n][1])) for n in outside],
        across=across,
        down=down,
        free=[
            insides[-1 - key].size[0]
            if key < 0
            else _free(sizes[key][0], [texts[n] for n in outside if edges[n][1] == key], across)
            for key in outer
        ],
    )
    corners = {
        -1 - key: (x - insides[-1 - key].size[0] / 2, y - insides[-1 - key].size[1] / 2)
        for key, (x, y) in zip(outer, found.centers, strict=True)
        if key < 0
    }
    centers = [
        insides[owner[node]].center(node, corners[owner[node]])
        if node in owner
        else found.centers[place[node]]
        for node in range(len(sizes))
    ]
    paths: list[tuple[Point, ...]] = [()] * len(edges)
    for number, path in zip(outside, found.paths, strict=True):
        source, target = (owner.get(node) for node in edges[number])
        points = list(path)
        if source is not None:
            points[:1] = insides[source].path(number, corners[source])
        if target is not None:
            points[-1:] = insides[target].path(number, corners[target])
        paths[number] = tuple(points)
    for one, inside in insides.items():
        for number in inside.own:
            paths[number] = tuple(inside.path(number, corners[one]))
    frames = tuple(Frame(one, *corners[one], *insides[one].size) for one in chosen)
    return Layout(found.width, found.height, tuple(centers), tuple(paths)), frames


def _free(width: float, texts: Sequence[float], across: float) -> float:
    """The width of a box, or more where the texts above it would reach beyond the gaps."""
    if not texts:
        return width
    reach = width * (1 - 1 / len(texts)) + max(texts)
    return max(width, reach - 2 * (across - _APART))


class _Inside:
    """The layout of one cluster, with a place for every edge that enters it and one below all."""

    def __init__(
        self,
        nodes: Sequence[int],
        owner: dict[int, int],
        sizes: Sequence[Point],
        edges: Sequence[tuple[int, int]],
        texts: Sequence[float],
        across: float,
        down: float,
    ) -> None:
        cluster = owner[nodes[0]]
        self._place = {node: i for i, node in enumerate(nodes)}
        self.own = [
            n for n, (a, b) in enumerate(edges) if owner.get(a) == cluster == owner.get(b)
        ]  # fmt: skip
        entering = [n for n, (a, b) in enumerate(edges) if owner.get(b) == cluster != owner.get(a)]
        leaving = [n for n, (a, b) in enumerate(edges) if owner.get(a) == cluster != owner.get(b)]
        own = [sizes[node] for node in nodes]
        top, bottom, first = len(own), len(own) + 1, len(own) + 2
        boxes = [*own, (1.0, 0.0), (max(1, len(leaving)) * _ENTRY[0], 0.0)]
        boxes += [_ENTRY] * len(entering)
        links = [(self._place[edges[n][0]], self._place[edges[n][1]]) for n in self.own]
        links += [(first + i, self._place[edges[n][1]]) for i, n in enumerate(entering)]
        links += [(self._place[edges[n][0]], bottom) for n in leaving]
        numbers = [*self.own, *entering, *leaving]
        # What fixes the first and the last layer is not drawn.
        fed, read = {b for _, b in links}, {a for a, _ in links}
        links += [(top, node) for node in range(first, first + len(entering))]
        links += [(top, node) for node in range(len(own)) if node not in fed]
        links += [(node, bottom) for node in range(len(own)) if node not in read]
        found = layered(boxes, links, across=across, down=down)
        self._centers = found.centers
        self._paths = dict(zip(numbers, found.paths, strict=False))
        ends = [(self._paths[n][-1][0], texts[n] / 2) for n in (*self.own, *entering)]
        right = max([found.width + _PAD, *(x + half + _APART for x, half in ends)])
        self._left = max([_PAD, *(half + _APART - x for x, half in ends)])
        # Without the layer of what was only needed to fix the first one.
        self._top = _PAD + _HEAD - down * (0.5 if not entering else 1.0)
        self.size = (right + self._left, found.height + self._top + _PAD - down * 0.5)

    def center(self, node: int, corner: Point) -> Point:
        """Where a box lies if the cluster has its corner there."""
        return self._moved(self._centers[self._place[node]], corner)

    def path(self, edge: int, corner: Point) -> list[Point]:
        """The part of an edge inside the cluster."""
        return [self._moved(point, corner) for point in self._paths[edge]]

    def _moved(self, point: Point, corner: Point) -> Point:
        return point[0] + corner[0] + self._left, point[1] + corner[1] + self._top


def _acyclic(edges: Sequence[tuple[int, int]], clusters: Sequence[Sequence[int]]) -> list[int]:
    """The clusters to which no path from outside leads back."""
    chosen = list(range(len(clusters)))
    while True:
        owner = {node: -1 - one for one in chosen for node in clusters[one]}
        after: dict[int, set[int]] = {}
        for source, target in edges:
            a, b = owner.get(source, source), owner.get(target, target)
            if a != b:
                after.setdefault(a, set()).add(b)
        closed = next((one for one in chosen if _returns(-1 - one, after)), None)
        if closed is None:
            return chosen
        chosen.remove(closed)


def _returns(start: int, after: dict[int, set[int]]) -> bool:
    seen: set[int] = set()
    left = [start]
    while left:
        for node in after.get(left.pop(), ()):
            if node == start:
                return True
            if node not in seen:
                seen.add(node)
                left.append(node)
    return False
