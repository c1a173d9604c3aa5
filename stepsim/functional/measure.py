"""Measured dims: the sizes that the levels of a finished stream spell out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Sizes = list[int]
"""One size for every subtensor that contains the dim, in stream order."""


def sizes_of(levels: Sequence[int] | NDArray[np.integer], rank: int) -> list[Sizes]:
    """Sizes of every dim of a rank-N stream, outermost first.

    Dim k is counted between two stops above k; the outermost dim has one size.
    """
    array = np.asarray(levels, np.int64)
    found: list[Sizes] = []
    for dim in range(rank, -1, -1):
        if dim == rank:
            found.append([int((array >= dim).sum())])
            continue
        ends = np.flatnonzero(array > dim)
        counted = np.cumsum(array >= dim)[ends]
        found.append([int(n) for n in np.diff(counted, prepend=0)])
    return found


def collapsed(sizes: Sizes) -> int | tuple[int, ...]:
    """One int when all sizes are equal, else all of them."""
    return sizes[0] if sizes and min(sizes) == max(sizes) else tuple(sizes)


def regular_dims(levels: Sequence[int], rank: int) -> tuple[int, ...] | None:
    """The dims of a stream of some elements, outermost first; None when one has several sizes."""
    sizes = [set(found) for found in sizes_of(levels, rank)]
    return None if any(len(one) > 1 for one in sizes) else tuple(one.pop() for one in sizes)
