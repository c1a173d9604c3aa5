"""Operators of PyTorch that read or write some rows of a tensor: caches and tables."""

from __future__ import annotations

from collections.abc import Sequence

from stepsim.design.operators.importers import selection, values as of
from stepsim.design.operators.importers.values import Place, Unsupported, Value


def ends(x: Value, axis: int, start: int | None, stop: int | None) -> tuple[int, int]:
    """Where a slice begins and ends, as whole numbers from 0."""
    kept = range(x.shape[axis])[start:stop]
    return kept.start, kept.stop


def slice_scatter(
    x: Value, new: Value, axis: int = 0, start: int | None = None, stop: int | None = None,
    step: int = 1, *, at: Place,
) -> Value:  # fmt: skip
    if step != 1:
        raise Unsupported(f"it writes every {step} rows; only adjacent rows are supported")
    return of.replaced_rows(x, new, axis, *ends(x, axis, start, stop), at)


def select_scatter(x: Value, new: Value, axis: int, position: int, *, at: Place) -> Value:
    first = position % x.shape[axis]
    return of.replaced_rows(x, of.unsqueeze(new, axis, at), axis, first, first + 1, at)


def index_copy(x: Value, axis: int, positions: Value, new: Value, *, at: Place) -> Value:
    first, last = _neighbors(positions, axis, x)
    return of.replaced_rows(x, new, axis, first, last, at)


def _neighbors(positions: Value, axis: int, x: Value) -> tuple[int, int]:
    """Where known positions that are neighbors begin and end."""
    if not positions.is_constant:
        raise Unsupported(
            "positions that are an input or computed from one; compute them in the module from "
            "numbers (torch.arange(start, stop)), as addresses are fixed when the graph is made"
        )
    rows = positions.array.reshape(-1)
    first = int(rows[0])
    if rows.tolist() != list(range(first, first + len(rows))) or first < 0:
        raise Unsupported("positions that are not adjacent")
    if first + len(rows) > x.shape[axis]:
        raise Unsupported(f"positions up to {first + len(rows)} of {x.shape[axis]}")
    return first, first + len(rows)


def index_put(
    x: Value, indices: Sequence[Value | None], new: Value, accumulate: bool = False, *, at: Place
) -> Value:
    given = [axis for axis, index in enumerate(indices) if index is not None]
    if accumulate or len(given) != 1:
        raise Unsupported("it adds up, or writes along several axes at once")
    axis = given[0]
    index = indices[axis]
    assert index is not None
    if len(index.shape) != 1:
        raise Unsupported("positions of several axes")
    first, last = _neighbors(index, axis, x)
    shape = (*x.shape[:axis], last - first, *x.shape[axis + 1 :])
    return of.replaced_rows(x, of.expand(new, shape, at), axis, first, last, at)


def index(x: Value, indices: Sequence[Value | None], *, at: Place) -> Value:
    given = [axis for axis, one in enumerate(indices) if one is not None]
    given_rows = indices[given[0]]
    assert given_rows is not None
    is_mask = given_rows.is_constant and given_rows.array.dtype == bool
    if len(given) > 1 or is_mask or given_rows.attributes.get("dtype") == "bool":
        raise Unsupported("positions along several axes, or by bools; give numbers along one axis")
    return selection.take(x, given[0], given_rows, at)


def index_select(x: Value, axis: int, positions: Value, *, at: Place) -> Value:
    indices: list[Value | None] = [None] * (axis % len(x.shape))
    return index(x, [*indices, positions], at=at)
