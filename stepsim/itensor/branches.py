"""Splitting and merging streams: fork, join, chunk and concat."""

from __future__ import annotations

import math
from collections.abc import Sequence

from stepsim.errors import ITensorError
from stepsim.itensor.differences import difference
from stepsim.itensor.itensor_type import ITensor
from stepsim.itensor.normal_form import Loop, NormalForm, normal_form
from stepsim.typed import typed

_MOST_COPIES = 1_000_000


@typed
def fork(it: ITensor, copies: int) -> tuple[ITensor, ...]:
    """The stream for each of its readers, as every stream has one reader.

    Raises
    ------
    ITensorError
        The number of copies is below 1, or more than a million.
    """
    if not 1 <= copies <= _MOST_COPIES:
        raise ITensorError(f"fork {it}: {copies} copies, expected 1 to {_MOST_COPIES:,}")
    return (it,) * copies


@typed
def join(parts: Sequence[ITensor], axis: int) -> ITensor:
    """Take a token of each stream in turn; the parts are adjacent along a data dim.

    Raises
    ------
    ITensorError
        There are no parts, their tokens differ, or the data dim does not exist.
    """
    return concat(parts, axis, loop=len(parts[0].loops) if parts else 0)


@typed
def concat(parts: Sequence[ITensor], axis: int, loop: int = 0) -> ITensor:
    """One stream of parts that are adjacent along a data dim.

    Parameters
    ----------
    parts
        Streams with the same tokens, each over its part.
    axis
        Data dim along which the parts lie.
    loop
        Position of the loop over the parts among their loops as written: 0, outermost, sends one
        part after the other; after the last loop, a token of each in turn.

    Raises
    ------
    ITensorError
        There are no parts, their tokens differ, or the data dim or position does not
        exist.
    """
    if not parts:
        raise ITensorError("concat: expected at least one stream, found none")
    first = parts[0]
    _require_dim("concat", first, axis)
    if not 0 <= loop <= len(first.loops):
        raise ITensorError(
            f"concat {first}: loop {loop}, expected 0 (outermost) to {len(first.loops)} (innermost)"
        )
    for number, part in enumerate(parts):
        found = difference(first, part)
        if found is not None:
            raise ITensorError(
                f"concat: parts 0 and {number} do not have the same tokens, and no loop nest sends "
                f"parts that differ; join them in memory instead\n{found}"
            )
    over = Loop(len(parts), _along(first, axis, first.shape[axis]))
    loops = (*first.loops[:loop], over, *first.loops[loop:])
    constants = first.normal_form().constants
    return ITensor.of_normal_form(
        NormalForm(first.element, constants, loops), first.dtype, first.depth
    )


@typed
def chunk(it: ITensor, parts: int, axis: int) -> tuple[ITensor, ...]:
    """The streams of equal parts along a data dim, with the order of tokens preserved.

    Raises
    ------
    ITensorError
        The data dim does not exist or is not a multiple of the parts, a token spans two
        parts, or the border of the parts is not a border of the loops.
    """
    _require_dim("chunk", it, axis)
    if parts < 1 or it.shape[axis] % parts:
        raise ITensorError(
            f"chunk {it}: data dim {axis} has extent {it.shape[axis]}, which {parts} parts do not "
            "divide"
        )
    form = it.normal_form()
    loops = list(form.loops)
    extent = it.shape[axis]
    left = parts
    while left > 1:
        at = max(range(len(loops)), key=lambda p: loops[p].stride[axis], default=0)
        outer = loops[at] if loops else Loop(1, (0,) * it.rank)
        turns = math.gcd(outer.trip, left)
        over_all = outer.dim == axis and outer.trip * outer.stride[axis] == extent
        if turns == 1 or not over_all:
            raise ITensorError(
                f"chunk {it}: no loop goes once over {parts} parts of {it.shape[axis] // parts} "
                f"along data dim {axis}; tile it so that a loop takes each part in turn\n{it!r}"
            )
        inner = outer.trip // turns
        loops[at : at + 1] = [Loop(inner, outer.stride)] if inner > 1 else []
        extent //= turns
        left //= turns
    part = ITensor.of_normal_form(
        normal_form(form.element, form.constants, loops), it.dtype, it.depth
    )
    return (part,) * parts


def _require_dim(what: str, it: ITensor, axis: int) -> None:
    if not 0 <= axis < it.rank:
        raise ITensorError(f"{what} {it}: data dim {axis}, expected 0 to {it.rank - 1}")


def _along(it: ITensor, axis: int, stride: int) -> tuple[int, ...]:
    return tuple(stride if i == axis else 0 for i in range(it.rank))
