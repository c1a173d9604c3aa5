"""Rows and entries that whole numbers choose: gather, scatter, the largest values.

Numbers that are known choose slices. Numbers that a run computes are compared with every position:
an address off chip is part of a program and cannot depend on them.
"""

from __future__ import annotations

import numpy as np

from stepsim.design.operators.importers import values as of
from stepsim.design.operators.importers.values import Place, Unsupported, Value, values_before
from stepsim.dtypes import DType

_VIEWS = ("reshape", "permute", "slice", "expand")
_COUNTED = ("rank", "ranked")
"""Operators whose results are compared with positions, and are never negative."""
_WHOLE = {scalar.text for scalar in DType if not scalar.is_arithmetic}
"""Scalar types of whole numbers that programs cannot load."""
_GIVEN = ("input", "weight", "state", "constant")
"""Tensors that lie off chip before a run."""
_MOST_SLICES = 16
"""Runs of adjacent known positions that are read as slices of their own."""


def take(x: Value, axis: int, indices: Value, place: Place) -> Value:
    """Positions of an axis by whole numbers, whose axes take its place."""
    axis = of.axis_of(axis, len(x.shape))
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    if indices.is_constant:
        runs = _runs(indices, x.shape[axis])
        if len(runs) <= _MOST_SLICES:
            parts = [of.slice_of(x, axis, first, end, 1, place) for first, end in runs]
            return of.reshape(of.concat(parts, axis, place), shape, place)
    if axis == 0 and len(x.shape) == 2 and x.op in _GIVEN and _base(indices).op in _GIVEN:
        return of.embedding(x, indices, place)
    indices = _loaded(indices, x.shape[axis], place)
    return of.made("take", (x, indices), shape, place, axis=axis)


def _loaded(indices: Value, size: int, place: Place) -> Value:
    """Positions counted from 0, of a type that loads have; those that a run computes may count
    from the end.
    """
    if not indices.is_constant:
        _check_computed(indices)
        if _base(indices).op in _COUNTED:
            return indices
        zero, end = of.constant(0.0), of.constant(float(size))
        negative = of.elementwise("lt", (indices, zero), place)
        from_end = of.elementwise("add", (indices, end), place)
        return of.elementwise("where", (negative, from_end, indices), place)
    if not np.size(indices.array):
        return indices
    given = [_counted(position, size) for position in np.ravel(indices.array).tolist()]
    return of.constant(np.array(given, np.float32).reshape(indices.shape), place)


def _check_computed(indices: Value) -> None:
    """Refuse numbers that are made of an input of whole numbers, which no program loads."""
    for value in values_before([indices]):
        scalar = value.attributes.get("dtype")
        if value.op in ("input", "state") and scalar in _WHOLE:
            raise Unsupported(
                f"numbers that depend on the input '{value.attributes['name']}' of {scalar}, which "
                "programs do not load; pass floating-point numbers and compare them with all "
                "positions, as in (numbers[..., None] == torch.arange(n).float()).float() @ x, "
                "compute them in the model (topk, argmax), or make them part of it (a buffer, an "
                "initializer)"
            )


def _counted(position: int, size: int) -> int:
    """The position counted from 0."""
    if not -size <= position < size:
        raise Unsupported(f"position {position} of an axis of {size}")
    return int(position) % size


def _base(x: Value) -> Value:
    """The value that another is a view of."""
    while x.op in _VIEWS:
        x = x.inputs[0]
    return x


def _runs(positions: Value, size: int) -> list[tuple[int, int]]:
    """Beginning and end of every run of adjacent positions."""
    runs: list[tuple[int, int]] = []
    for given in np.ravel(positions.array).tolist():
        at = _counted(given, size)
        if runs and runs[-1][1] == at:
            runs[-1] = runs[-1][0], at + 1
        else:
            runs.append((at, at + 1))
    return runs


def gather(x: Value, axis: int, indices: Value, place: Place) -> Value:
    """``x[.., indices[.., j, ..], ..]``, with as many axes as the indices."""
    axis = of.axis_of(axis, len(x.shape))
    for other, size in enumerate(indices.shape):
        if other != axis:
            x = of.slice_of(x, other, 0, size, 1, place)
    indices = _loaded(indices, x.shape[axis], place)
    return of.made("gather", (x, indices), indices.shape, place, axis=axis)


def scatter(x: Value, axis: int, indices: Value, source: Value, add: bool, place: Place) -> Value:
    """The value with a source written to, or added at, positions of an axis."""
    axis = of.axis_of(axis, len(x.shape))
    own = [size for other, size in enumerate(x.shape) if other != axis]
    if [size for other, size in enumerate(indices.shape) if other != axis] != own:
        raise Unsupported(
            f"indices of shape {indices.shape} for a value of {x.shape}; give indices for all of "
            "the other axes"
        )
    if not source.shape:
        source = of.expand(source, indices.shape, place)
    for other, size in enumerate(indices.shape):
        source = of.slice_of(source, other, 0, size, 1, place)
    indices = _loaded(indices, x.shape[axis], place)
    found = of.made("scatter", (source, indices), x.shape, place, axis=axis)
    if x.number == 0.0:
        return found
    if add:
        return of.elementwise("add", (x, found), place)
    ones = of.constant(np.ones(indices.shape, np.float32), place)
    hits = of.made("scatter", (ones, indices), x.shape, place, axis=axis)
    kept = of.elementwise("eq", (hits, of.constant(0.0)), place)
    return of.elementwise("where", (kept, x, found), place)


def add_rows(x: Value, axis: int, indices: Value, source: Value, place: Place) -> Value:
    """The value with each position of an axis of a source added at the one that ``indices`` say."""
    axis = of.axis_of(axis, len(x.shape))
    if len(indices.shape) != 1:
        raise Unsupported(f"indices of shape {indices.shape}; give one axis of them")
    indices = _loaded(indices, x.shape[axis], place)
    made = of.made("add_rows", (source, indices), x.shape, place, axis=axis)
    return made if x.number == 0.0 else of.elementwise("add", (x, made), place)


def largest(
    x: Value, count: int, axis: int, place: Place, least: bool = False
) -> tuple[Value, Value]:
    """The largest values of an axis in falling order, or the least in rising, and their places."""
    axis = of.axis_of(axis, len(x.shape))
    if not 1 <= count <= x.shape[axis]:
        raise Unsupported(f"the {count} largest of an axis of {x.shape[axis]}")
    rank = of.made("rank", (x,), x.shape, place, axis=axis, least=least)
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    return (
        of.made("ranked", (x, rank), shape, place, axis=axis, count=count),
        of.made("ranked", (rank,), shape, place, axis=axis, count=count),
    )


def one_hot(indices: Value, count: int, place: Place) -> Value:
    """An axis of so many places, with 1 where the indices say and 0 elsewhere."""
    if not 1 <= count <= of.MOST_POSITIONS:
        raise Unsupported(f"{count} classes; known are 1 to 2**24")
    _check_computed(indices)
    places = of.constant(np.arange(count, dtype=np.float32), place)
    return of.elementwise("eq", (of.unsqueeze(indices, -1, place), places), place)
