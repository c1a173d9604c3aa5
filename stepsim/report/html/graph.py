"""Where the page of a run draws its operators and what flows between them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stepsim.layered import Point, layered
from stepsim.report.html.groups import Groups

_BOX = (168.0, 46.0)
"""Width and height of an operator whose lanes are not shown, pixels."""

_ACROSS, _DOWN = 26.0, 46.0


def graph_document(groups: Groups, fifos: Iterable[tuple[int, int]]) -> dict[str, Any]:
    """Boxes of the operators and edges between them, in pixels.

    ``fifos`` are the numbers of their producing and consuming units. The page makes room where the
    lanes of an operator are shown.
    """
    ends = ((groups.of_unit[producer], groups.of_unit[consumer]) for producer, consumer in fifos)
    edges = list(dict.fromkeys((a, b) for a, b in ends if a != b))
    found = layered([_BOX] * len(groups.names), edges, across=_ACROSS, down=_DOWN)
    return {
        "box": _rounded(_BOX),
        "size": _rounded((found.width, found.height)),
        "centers": [_rounded(point) for point in found.centers],
        "edges": edges,
        "paths": [[_rounded(point) for point in path] for path in found.paths],
    }


def _rounded(point: Point) -> list[float]:
    return [round(value, 1) for value in point]
