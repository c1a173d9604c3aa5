"""The routing indices of many runs of one program, checked together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from stepsim.arguments import shown
from stepsim.errors import ArgError
from stepsim.graph.ops.arrays import IntArray
from stepsim.graph.ops.routing.routing_table import (
    Routing,
    as_index_array,
    check_bindings,
    check_indices,
)

if TYPE_CHECKING:
    from stepsim.graph.programs.program import Program


def check_many_bindings(program: Program, bindings: object) -> tuple[int, dict[Routing, IntArray]]:
    """The number of runs in these bindings, and indices ``[runs, rows, k]`` of every routing.

    The bindings are either one mapping for each run, or one mapping of arrays ``[runs, rows, k]``.
    They are checked together; errors in a run are worded as in :func:`check_bindings`.

    Raises
    ------
    ArgError
        As there; or the bindings have another type, are empty, or differ in the number of runs.
    """
    where = f"program '{program.name}': bindings"
    if isinstance(bindings, Mapping):
        columns = _stacked_columns(program, bindings, where)
        runs = len(next(iter(columns.values())))
    elif isinstance(bindings, Iterable) and not isinstance(bindings, str | bytes | np.ndarray):
        bindings = list(bindings)
        runs = len(bindings)
        if not runs:
            raise ArgError(f"{where} is empty; expected a mapping {{routing: array}} for each run")
        found = _gathered_columns(program, bindings)
        if found is None:
            # One of them differs from the others, and may be wrong.
            each = [_check_numbered(program, one, i) for i, one in enumerate(bindings)]
            common = [table for table in each[0] if all(table in one for one in each)]
            return runs, {table: np.stack([one[table] for one in each]) for table in common}
        columns = found
    else:
        raise ArgError(
            f"{where} must be a list of mappings {{routing: array [rows, k]}}, or one mapping "
            f"{{routing: array [runs, rows, k]}}, found {shown(bindings)}"
        )
    # A copy, so that the checked arrays are those that run even if the caller changes its own.
    wrong = np.concatenate([_misfits(table, array) for table, array in columns.items()])
    if wrong.size:
        first = int(wrong.min())
        _check_numbered(program, {table: array[first] for table, array in columns.items()}, first)
    known = {table: table.indices for table in program.routings if table.indices is not None}
    fixed = {
        table: np.broadcast_to(indices, (runs, *indices.shape)) for table, indices in known.items()
    }
    checked = {
        table: array.astype(np.int64, order="C", copy=False) for table, array in columns.items()
    }
    # Routings that are neither given to a run nor built into the program.
    check_bindings(program, {table: array[0] for table, array in columns.items()})
    return runs, fixed | checked


def _check_numbered(
    program: Program, bindings: Mapping[Any, Any] | None, number: int
) -> dict[Routing, IntArray]:
    try:
        return check_bindings(program, bindings)
    except ArgError as error:
        raise ArgError(f"bindings[{number}]: {error}") from error


def _stacked_columns(
    program: Program, bindings: Mapping[Any, Any], where: str
) -> dict[Routing, np.ndarray[Any, Any]]:
    """Arrays ``[runs, rows, k]``, checked for their shapes and types."""
    columns: dict[Routing, np.ndarray[Any, Any]] = {}
    for table, indices in bindings.items():
        if not any(table is known for known in program.routings):
            check_bindings(program, {table: indices})
        array = _stacked(table, indices)
        if array.shape == (table.rows, table.k):
            raise ArgError(
                f"{where}: the index array of {table!r} has shape {array.shape}, expected (runs, "
                f"{table.rows}, {table.k}); for one run use st.simulate, or pass array[None]"
            )
        if array.shape in ((0,), (0, table.rows, table.k)):
            raise ArgError(f"{where}: the index array of {table!r} has no runs; pass at least one")
        if array.shape[1:] != (table.rows, table.k) or array.ndim != 3:
            raise ArgError(
                f"{where}: the index array of {table!r} has shape {array.shape}, expected (runs, "
                f"{table.rows}, {table.k}); give a list of mappings for arrays [rows, k]"
            )
        if array.dtype.kind not in "iu":
            raise ArgError(f"{where}: {table!r}: indices must be integers, found {array.dtype}")
        columns[table] = np.array(array, order="C")
    lengths = {len(array) for array in columns.values()}
    if len(lengths) > 1:
        found = ", ".join(f"{len(array)} of {table!r}" for table, array in columns.items())
        raise ArgError(f"{where}: the arrays differ in the number of runs: {found}")
    if not columns:
        raise ArgError(f"{where} is empty; expected an array [runs, rows, k] for each routing")
    return columns


def _stacked(table: Routing, indices: Any) -> np.ndarray[Any, Any]:
    """The bindings of all runs as one array; ArgError names the first wrong run."""
    try:
        return as_index_array(indices, repr(table))
    except ArgError:
        for number, one in enumerate(indices):
            try:
                check_indices(table, one)
            except ArgError as error:
                raise ArgError(f"bindings[{number}]: {error}") from error
        raise


def _gathered_columns(
    program: Program, bindings: Sequence[Any]
) -> dict[Routing, np.ndarray[Any, Any]] | None:
    """One array ``[runs, rows, k]`` for each routing that all runs give; None unless all runs give
    the same ones as arrays of integers of the right shape."""
    first = bindings[0]
    if not all(isinstance(one, Mapping) and one.keys() == first.keys() for one in bindings):
        return None
    columns: dict[Routing, np.ndarray[Any, Any]] = {}
    for table in first:
        if not any(table is known for known in program.routings):
            return None
        try:
            arrays = [np.asarray(one[table]) for one in bindings]
        except ValueError:
            return None
        shapes = {array.shape for array in arrays}
        if shapes != {(table.rows, table.k)} or {a.dtype.kind for a in arrays} - {"i", "u"}:
            return None
        columns[table] = np.stack(arrays)
        if columns[table].dtype.kind not in "iu":  # signed and unsigned ones have no common type
            return None
    return columns or None


def _misfits(table: Routing, indices: np.ndarray[Any, Any]) -> IntArray:
    """Runs whose indices are out of range or name an expert twice in a row."""
    if table.k == 1:
        return np.flatnonzero(((indices < 0) | (indices >= table.experts)).any(axis=(1, 2)))
    ordered = np.sort(indices, axis=2)
    bad = (ordered[:, :, 0] < 0) | (ordered[:, :, -1] >= table.experts)
    bad |= (ordered[:, :, 1:] == ordered[:, :, :-1]).any(axis=2)
    return np.flatnonzero(bad.any(axis=1))
