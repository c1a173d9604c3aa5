"""Curves of many points, thinned for a picture without a visible change."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Values: TypeAlias = NDArray[Any]

_HALF = 1000


def by_column(x: Values, y: Values, columns: int, first: float, after: float) -> Values:
    """The points of a line that change a picture of so many columns of pixels, by number.

    In each column these are the first, the least, the largest and the last one, as in the
    aggregation M4 (Jugel et al., VLDB 2014): what is drawn is the same, pixel by pixel.

    Parameters
    ----------
    x, y : the line; ``x`` ascends.
    columns : columns of the picture, from ``first`` to ``after``.
    """
    if len(x) <= 4 * columns:
        return np.arange(len(x))
    width = max(after - first, 1e-300) / columns
    column = np.clip((x - first) / width, 0, columns - 1).astype(np.int64)
    begins = np.flatnonzero(np.diff(column, prepend=-1))
    ends = np.append(begins[1:], len(x)) - 1
    counts = ends - begins + 1
    kept = [begins, ends]
    for extreme in (np.minimum, np.maximum):
        found = np.flatnonzero(y == np.repeat(extreme.reduceat(y, begins), counts))
        kept.append(found[np.unique(column[found], return_index=True)[1]])
    return np.unique(np.concatenate(kept))


def by_rank(count: int) -> Values:
    """Ranks that draw a distribution: all of 2,000 values; of more, 1,000 evenly up to the 99th
    percentile, and 1,000 above it."""
    if count <= 2 * _HALF:
        return np.arange(count)
    top = count - 1 - count // 100
    spaced = (np.linspace(0, top, _HALF), np.linspace(top, count - 1, _HALF))
    return np.unique(np.concatenate(spaced).round().astype(np.int64))


def total(lines: list[tuple[Values, Values]]) -> tuple[Values, Values]:
    """The sum of lines that keep a value until the next one, and are 0 before their first."""
    if len(lines) == 1:
        return lines[0]
    at = np.concatenate([x for x, _ in lines])
    change = np.concatenate([np.diff(y, prepend=0) for _, y in lines])
    order = np.argsort(at, kind="stable")
    at, value = at[order], np.cumsum(change[order])
    last = np.append(at[1:] != at[:-1], True)
    return at[last], value[last]
