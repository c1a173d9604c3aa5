"""Tensors off chip: the user's inputs, cut into tiles, and the results of stores.

Loads see the tensors as they were before the run. A program cannot order a load after a store, so
any other rule would make values depend on time.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from stepsim.arguments import counted, shown
from stepsim.errors import EvaluationError
from stepsim.functional.measure import regular_dims
from stepsim.functional.network import Node
from stepsim.functional.values import Array, Token, numpy_dtype, rounded
from stepsim.graph import (
    DType,
    LinearLoad,
    LinearStore,
    Operator,
    Program,
    RandomLoad,
    RandomStore,
    TensorSpec,
    Tile,
)

_Access = LinearLoad | RandomLoad | RandomStore


class Grid:
    """A tensor as a row-major grid of tiles."""

    def __init__(self, array: Array, rows: int, cols: int, block: tuple[int, int] = (1, 1)) -> None:
        self._block = block
        lead = math.prod(array.shape[:-2])
        self._cells = array.reshape(
            lead, array.shape[-2] // rows, rows, array.shape[-1] // cols, cols
        )
        self._below = (
            int(self._cells.shape[1] * self._cells.shape[3]),
            int(self._cells.shape[3]),
        )

    def __len__(self) -> int:
        return int(self._cells.shape[0]) * self._below[0]

    def tile(self, index: int) -> Array:
        """View of one tile."""
        lead, rest = divmod(index, self._below[0])
        down, across = self._block
        which, inside = divmod(rest, down * across)
        row, col = divmod(which, self._below[1] // across)
        row, col = row * down + inside // across, col * across + inside % across
        return self._cells[lead, row, :, col]


class Tensors:
    """The tensors of one run.

    ``given`` maps an operator, a TensorSpec, the name of a spec or the label of an operator to an
    array. Without an entry, the array that the program was built with is used; the target of a
    random store starts from zeros. ``scalar`` replaces the floating-point types of the program.
    """

    def __init__(
        self, program: Program, given: Mapping[Any, Any], scalar: DType | None = None
    ) -> None:
        self._scalar = scalar
        self._users = [op for op in program.operators if isinstance(op, _Access)]
        self._given = dict(given)
        self._arrays: dict[Hashable, Array] = {}
        self._written: dict[Hashable, dict[int, tuple[RandomStore, Array]]] = {}
        self._check_keys()
        missing: list[str] = []
        owners: dict[Hashable, _Access] = {}
        for op in self._users:
            key = _identity(op.tensor)
            found, is_given = self._lookup(op)
            if found is None or (key in owners and not is_given):
                continue
            array = _checked(op, found, scalar or op.tensor.dtype)
            if key in owners and not np.array_equal(array, self._arrays[key], equal_nan=True):
                raise EvaluationError(
                    f"tensors: {owners[key].title()} and {op.title()} read one tensor, "
                    f"{op.tensor}, and were given different arrays. Give one array, or make them "
                    "specs of different names"
                )
            if is_given:
                owners[key] = op
            self._arrays[key] = array
        for op in self._users:
            if _identity(op.tensor) in self._arrays:
                continue
            if isinstance(op, RandomStore):
                self._arrays[_identity(op.tensor)] = _zeros(op)
            else:
                missing.append(f"\n  - {op.tensor} of {op.title()} ({op.source})")
        if missing:
            raise EvaluationError(
                f"program '{program.name}': {counted(len(missing), 'tensor')} "
                f"{'has' if len(missing) == 1 else 'have'} no values. Pass "
                f"tensors={{name or load: array}}{''.join(missing)}"
            )

    def _names(self, op: _Access) -> tuple[Any, ...]:
        """Keys for the tensor of an operator, most specific first."""
        return tuple(k for k in (op, op.tensor, op.tensor.name, op.label) if k is not None)

    def _lookup(self, op: _Access) -> tuple[Any, bool]:
        """The array of an operator, and whether it was given."""
        for name in self._names(op):
            if name in self._given:
                return self._given[name], True
        return op.tensor.data, False

    def _check_keys(self) -> None:
        known = {name for op in self._users for name in self._names(op)}
        for key in self._given:
            if isinstance(key, TensorSpec) and key.name is None:
                same = {_identity(op.tensor) for op in self._users if op.tensor == key}
                if len(same) > 1:
                    raise EvaluationError(
                        f"tensors: {key} matches {len(same)} tensors of the program. Give them "
                        "names (spec(..., name=)), or use the load operators as keys"
                    )
            if key not in known:
                names = sorted({name for name in known if isinstance(name, str)})
                what = key.title() if isinstance(key, Operator) else shown(key)
                raise EvaluationError(
                    f"tensors: {what} names no tensor of the program. Known names are "
                    f"{', '.join(names) or 'none; use the load operators as keys'}"
                )

    def grid(self, op: _Access) -> Grid:
        """The tensor of an operator in tiles of its size."""
        return _grid(op, self._arrays[_identity(op.tensor)])

    def write(self, op: RandomStore, address: int, data: Array, node: Node) -> None:
        """Record a tile; later tiles of an operator overwrite earlier ones."""
        tiles = self._written.setdefault(_identity(op.tensor), {})
        held = tiles.get(address)
        if held is not None and held[0] is not op and not np.array_equal(held[1], data):
            node.fail(
                f"tile {address} of {op.tensor} is also written by {held[0].title()}, with other "
                "values; the result would depend on time",
                "give each store its own tensor or its own addresses",
            )
        tiles[address] = (op, data)

    def updated(self, op: RandomStore) -> Array:
        """The target tensor of a store after the run."""
        key = _identity(op.tensor)
        array = self._arrays[key].copy()
        for address, (writer, data) in self._written.get(key, {}).items():
            _grid(writer, array).tile(address)[...] = data
        return array.astype(numpy_dtype(self._scalar or op.tensor.dtype))


def _grid(op: _Access, array: Array) -> Grid:
    """An array in tiles as an operator numbers them."""
    block = (1, 1) if isinstance(op, LinearLoad) else op.block
    return Grid(array, int(op.tile.rows), int(op.tile.cols), block)


def _zeros(op: RandomStore) -> Array:
    try:
        return np.zeros(op.tensor.shape, np.float32)
    except (MemoryError, ValueError) as error:  # numpy counts no more than 2**63 bytes
        size = 4 * math.prod(op.tensor.shape)
        raise EvaluationError(
            f"{op.title()}: the values of {op.tensor} take {size:,} bytes, "
            "which do not fit the memory of this machine. Make the tensor smaller"
        ) from error


def _identity(tensor: TensorSpec) -> Hashable:
    """Tensors with a name are the same when spec and name agree; unnamed ones are only equal to
    themselves."""
    return tensor if tensor.name is not None else id(tensor)


def _checked(op: _Access, given: Any, dtype: DType) -> Array:
    try:
        array = np.asarray(given)
    except (TypeError, ValueError, OverflowError, RecursionError):
        array = np.array(None)
    if array.dtype == object:
        raise EvaluationError(
            f"{op.title()}: the array for {op.tensor} must hold real numbers, found {shown(given)} "
            f"({op.source})"
        )
    if array.shape != op.tensor.shape:
        raise EvaluationError(
            f"{op.title()}: the array for {op.tensor} has shape {array.shape}, expected "
            f"{op.tensor.shape} ({op.source})"
        )
    if array.dtype.kind in "SUMmc":
        raise EvaluationError(
            f"{op.title()}: the array for {op.tensor} holds {array.dtype}, expected real numbers "
            f"({op.source})"
        )
    return rounded(np.ascontiguousarray(array, np.float32), dtype)


def assembled(op: LinearStore, tokens: list[Token], scalar: DType | None = None) -> Array:
    """The tensor formed by the tiles of a stream.

    A rank-0 stream stacks its tiles: ``[D_0 * rows, cols]``; with more dims the two inner ones form
    a grid: leading dims ``++ [D_1 * rows, D_0 * cols]``. A stream with a ragged dim has no such
    tensor, whatever the sizes in a run: its tiles are stacked in order. ``blocks`` are put together
    to tiles before.
    """
    stream = op.inputs[0]
    tile = stream.type
    assert isinstance(tile, Tile)
    rows, cols, shape = int(tile.rows), int(tile.cols), stream.shape
    kind = numpy_dtype(scalar or tile.dtype)
    levels, arrays = [t.level for t in tokens], [t.payload.data for t in tokens]
    if op.blocks:
        down, across = int(shape[-2]), int(shape[-1])
        rows, cols, shape = rows * down, cols * across, shape[:-2]
        count = down * across
        levels = [level - 2 for level in levels[count - 1 :: count]]
        arrays = [
            np.block([arrays[i + across * r : i + across * (r + 1)] for r in range(down)])
            for i in range(0, len(arrays), count)
        ]
    rank = len(shape) - 1
    stacked = rank == 0 or any(d.is_ragged for d in shape)
    if not tokens:
        inner = [int(d) if d.is_static else 0 for d in shape[1:]]
        lead, last = ([0], cols) if stacked else ([0, *inner[:-1]], inner[-1] * cols)
        lead[-1] *= rows
        return np.zeros((*lead, last), kind)
    data = np.stack(arrays).astype(kind)
    if stacked:
        return data.reshape(len(arrays) * rows, cols)
    dims = regular_dims(levels, rank)
    assert dims is not None
    grid = data.reshape(*dims, rows, cols)
    grid = np.moveaxis(grid, -2, -3)
    return grid.reshape(*dims[:-2], dims[-2] * rows, dims[-1] * cols)
