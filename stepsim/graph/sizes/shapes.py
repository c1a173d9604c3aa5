"""Shapes: the dims of a stream, outermost first."""

from __future__ import annotations

import math
from collections.abc import Sequence

from stepsim.graph.sizes.dims import Dim, Kind, namer_of
from stepsim.graph.sizes.sizes import Size, product


def cardinality(shape: Sequence[Dim]) -> Size:
    """Number of elements of a stream: total of the innermost ragged dim times the dims inside
    it."""
    sizes: list[Size] = []
    for dim in reversed(shape):
        if dim.kind is Kind.RG:
            sizes.append(dim.sum)
            break
        sizes.append(dim.size)
    return product(sizes)


def flatten_dims(dims: Sequence[Dim], *, outermost: bool, why: str) -> Dim:
    """The dim that replaces ``dims`` (outermost first). ``outermost``: there are no dims outside
    them.

    With ragged operands the result is a new ragged dim whose total is exact, or, if it has no
    outer positions left, the dynamic-regular total itself.
    """
    keep = [d for d in dims if not d.is_one()]
    if len(keep) == 1 and not (outermost and keep[0].is_ragged):
        return keep[0]
    if not any(d.is_ragged for d in dims):
        return Dim(product(d.size for d in dims))
    total = cardinality(dims)
    if outermost:
        return Dim(total, Kind.DR)
    return namer_of(*dims).ragged(
        "d", why, total=total, bound=math.prod(d.most for d in dims),
        static=all(d.static for d in dims),
    )  # fmt: skip


def format_dims(dims: Sequence[Dim]) -> str:
    """``[n0, ~len, 4]``."""
    return "[" + ", ".join(str(d) for d in dims) + "]"
