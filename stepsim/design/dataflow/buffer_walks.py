"""The reads of a converter's buffer: the drain nest as an affine walk over the fill nest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd, prod
from typing import TypeAlias

from stepsim.errors import CompileError
from stepsim.itensor import Converter, Loop

Walk = tuple[tuple[int, int], ...]
"""Trip count and step, in tiles of the buffer, of each loop that reads it."""


@dataclass(frozen=True)
class BufferPlan:
    """The buffers of a converter.

    Attributes
    ----------
    piece : rows and columns of the tiles in them: the largest that divide those of both streams.
    stages : loops that fill each buffer, and the walk that drains it. One, as a rule. Where a place
        along a dim is spread over several loops of the fill nest, and a loop of the drain nest is
        not aligned to them, no single walk is affine: a first buffer then puts the chunk in
        row-major order, from which every walk is.
    drain : loops of the output, those over the pieces of a tile innermost.
    """

    piece: tuple[int, int]
    stages: tuple[tuple[tuple[Loop, ...], Walk], ...]
    drain: tuple[Loop, ...]


def tile_of(element: Sequence[int]) -> tuple[int, int]:
    """Rows and columns of a token: the last two extents of its element."""
    rows, cols = (1, 1, *element)[-2:]
    return rows, cols


@lru_cache(maxsize=1024)
def planned(by: Converter) -> BufferPlan:
    """The buffers that a converter needs.

    Raises
    ------
    CompileError : its streams move backwards or by several dims at once.
    """
    source, target, rank = tile_of(by.src.element), tile_of(by.dst.element), by.src.rank
    # Windows that overlap begin inside of tiles, too.
    moves = [
        [loop.stride[axis] for loop in (*by.fill, *by.drain)] if axis >= 0 else []
        for axis in (rank - 2, rank - 1)
    ]
    piece = gcd(source[0], target[0], *moves[0]), gcd(source[1], target[1], *moves[1])
    fill = (*by.fill, *_pieces(source, piece, rank))
    drain = (*by.drain, *_pieces(target, piece, rank))
    walk = _walk(fill, drain)
    if walk is not None:
        return BufferPlan(piece, ((fill, walk),), drain)
    element = (*by.src.element[:-2], *piece[-min(2, rank) :])
    rows = tuple(
        Loop(size // e, tuple(e * (i == axis) for i in range(rank)))
        for axis, (size, e) in enumerate(zip(by.chunk, element, strict=True))
        if size > e
    )
    first, second = _walk(fill, rows), _walk(rows, drain)
    if first is None or second is None:
        raise CompileError(
            f"no affine walk of a buffer turns {by.src} into {by.dst}; choose tile sizes such that "
            "one divides the other"
        )
    return BufferPlan(piece, ((fill, first), (rows, second)), drain)


def _pieces(tile: tuple[int, int], piece: tuple[int, int], rank: int) -> list[Loop]:
    """Loops over the pieces of a tile, rows outside."""
    loops = []
    for axis, whole, part in zip((rank - 2, rank - 1), tile, piece, strict=True):
        if whole > part:
            loops.append(Loop(whole // part, tuple(part * (i == axis) for i in range(rank))))
    return loops


def _walk(fill: Sequence[Loop], drain: Sequence[Loop]) -> Walk | None:
    """The drain nest as steps in a buffer whose row-major order is the fill nest."""
    walk: list[tuple[int, int]] = []
    digits: dict[int, list[_Digit]] = {}
    for p, loop in enumerate(fill):
        if loop.dim is None or loop.stride[loop.dim] < 0:
            return None
        weight = prod(inner.trip for inner in fill[p + 1 :])
        digits.setdefault(loop.dim, []).append((loop.stride[loop.dim], loop.trip, weight))
    reached: dict[tuple[int, int], int] = {}
    for loop in drain:
        if loop.is_revisit:
            walk.append((loop.trip, 0))
            continue
        if loop.dim is None or loop.stride[loop.dim] < 0:
            return None
        own = sorted(digits.get(loop.dim, []))
        steps = _in_digits(loop.trip, loop.stride[loop.dim], own)
        if steps is None:
            return None
        for (trip, step), (unit, count, weight) in steps:
            walk.append((trip, step))
            # Loops that overlap must not carry from one loop of the fill nest to the next.
            far = reached.get((loop.dim, unit), 0) + (trip - 1) * (step // weight)
            if far >= count:
                return None
            reached[loop.dim, unit] = far
    return tuple(walk)


_Digit: TypeAlias = tuple[int, int, int]
"""A loop of the fill nest along a dim: its stride, its trip count, and the tiles in one turn."""


def _in_digits(
    trip: int, stride: int, digits: Sequence[_Digit]
) -> list[tuple[tuple[int, int], _Digit]] | None:
    """One loop along a dim as loops each within one loop of the fill nest, outermost first."""
    walk: list[tuple[tuple[int, int], _Digit]] = []
    for digit in digits:
        unit, count, weight = digit
        end = unit * count
        if stride >= end or trip == 1:
            continue
        if stride % unit:
            return None
        turns = trip if (trip - 1) * stride < end else end // stride
        if trip > turns and (end % stride or trip % turns):
            return None
        walk.insert(0, ((turns, stride // unit * weight), digit))
        trip, stride = trip // turns, stride * turns
    return walk if trip == 1 else None
