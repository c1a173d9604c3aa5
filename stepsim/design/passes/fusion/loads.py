"""The tiles that a load reads from off chip, and the buffer from which a kernel gets its own.

A load keeps on chip what is read again, in a buffer of limited size. Windows that overlap are such
reads: a load brings the rows that the inner loops of the kernel reach, once for each turn of the
loops around them, and windows are read from the buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from stepsim.itensor import Converter, ITensor, Loop, NormalForm, converter


def kept(stream: ITensor, most_bytes: int) -> tuple[ITensor, Converter]:
    """The walk of a load and its converter, with the least traffic for a buffer of so many bytes.

    Parameters
    ----------
    stream : what the kernel reads, in its order, with repeats.
    most_bytes : of both halves of the buffer.
    """
    once = _without_revisits(stream)
    if not _is_in_windows(once):
        found = converter(once, stream)
        return (once, found) if found.bytes <= most_bytes else again(stream)
    ways = [_rows(stream, outer) for outer in range(len(stream.normal_form().loops))]
    fitting = [way for way in ways if way[1].bytes <= most_bytes]
    return min([*fitting, again(stream)], key=lambda way: (_traffic(way), way[1].bytes))


def again(stream: ITensor) -> tuple[ITensor, Converter]:
    """The walk of a load that keeps nothing but a tile, and loads the others again.

    Windows that begin inside of tiles come in pieces, which a buffer of one tile joins.
    """
    if _piece(stream) == stream.element:
        return stream, converter(stream, stream)
    return _rows(stream, len(stream.normal_form().loops))


def _traffic(way: tuple[ITensor, Converter]) -> int:
    walk, _ = way
    return walk.tokens * walk.token_cells


def _piece(stream: ITensor) -> tuple[int, ...]:
    """The tile of a grid on which all offsets are."""
    return tuple(
        gcd(cells, *(loop.stride[axis] for loop in stream.normal_form().loops))
        for axis, cells in enumerate(stream.element)
    )


def _is_in_windows(once: ITensor) -> bool:
    """Whether tiles overlap, or do not lie on a grid."""
    return once.tokens * once.token_cells > once.cells or _piece(once) != once.element


def _rows(stream: ITensor, outer: int) -> tuple[ITensor, Converter]:
    """A load of what the loops inside the first ``outer`` ones reach, row after row."""
    loops = stream.normal_form().loops
    around, inside = loops[:outer], loops[outer:]
    extent = [
        cells + sum((loop.trip - 1) * loop.stride[axis] for loop in inside)
        for axis, cells in enumerate(stream.element)
    ]
    tile = [
        _side(stream, axis, size, cells, around, inside)
        for axis, (size, cells) in enumerate(zip(extent, stream.element, strict=True))
    ]
    fill = tuple(
        Loop(size // step, tuple(step * (i == axis) for i in range(stream.rank)))
        for axis, (size, step) in enumerate(zip(extent, tile, strict=True))
        if size > step
    )
    form = NormalForm(tuple(tile), (0,) * stream.rank, (*around, *fill))
    walk = ITensor.of_normal_form(form, stream.dtype)
    return walk, Converter(
        walk, stream, "prefix" if outer else "whole", tuple(extent), around, fill, inside
    )


def _side(
    stream: ITensor, axis: int, size: int, cells: int, around: Sequence[Loop],
    inside: Sequence[Loop],
) -> int:  # fmt: skip
    """Extent of the tiles of a load along an axis: those of the kernel, or all between windows."""
    moves = [loop.stride[axis] for loop in (*around, *inside) if loop.stride[axis]]
    if axis < stream.rank - 2 or moves in ([], [cells]):
        return cells
    return gcd(size, *(loop.stride[axis] for loop in around))


def _without_revisits(stream: ITensor) -> ITensor:
    form = stream.normal_form()
    moving = tuple(loop for loop in form.loops if not loop.is_revisit)
    return ITensor.of_normal_form(NormalForm(form.element, form.constants, moving), stream.dtype)
