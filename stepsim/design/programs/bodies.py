"""Functions of tiles for the bodies of kernels.

An operator at a tile is its expression over the dims of the tile: operands are seen with an axis
for each dim, in whatever layout their tiles have, and results are put back into the layout of the
output. Plain products of matrices take the functions of ``st.fn``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from stepsim.design.dataflow.graph import Kernel
from stepsim.design.operators.expressions import expression_text, value_of
from stepsim.design.operators.graph import Op, Operand
from stepsim.design.operators.values import turned
from stepsim.dtypes import dtype_of
from stepsim.graph import Function, Init, fn, function, neg_infinity, zero

Array = np.ndarray[Any, Any]

_COMBINED: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum": (np.add, np.sum),
    "max": (np.maximum, np.max),
}
"""Of two arrays, and along axes of one."""


def _sides(op: Op, operand: Operand) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Tiled dims along rows and along columns of a tile, the slowest first."""
    assert op.tiling is not None
    steps = op.tiling.tile
    axes: list[tuple[str, ...]] = [(), ()]
    for index in operand.access[-2:]:
        moving = [(abs(n), dim) for dim, n in index.terms if steps[dim] > 1]
        axes.append(tuple(dim for _, dim in sorted(moving, reverse=True)))
    return axes[-2], axes[-1]


class _Layout:
    """Tiles of the operands as arrays with an axis for each dim of the operator, and back."""

    def __init__(self, op: Op) -> None:
        assert op.tiling is not None
        self.op = op
        self.dims = tuple(dim.name for dim in op.dims)
        self.steps = op.tiling.tile
        self.inputs = [_sides(op, operand) for operand in op.inputs]
        self.output = _sides(op, op.output)
        self.reduced = tuple(i for i, dim in enumerate(op.dims) if dim.kind == "reduction")

    def spread(self, slot: int | None, tile: Array) -> Array:
        """The tile of an operand, or with None that of the output, with an axis for each dim."""
        rows, cols = self.output if slot is None else self.inputs[slot]
        moving = (*rows, *cols)
        seen = tile.reshape([self.steps[dim] for dim in moving])
        order = sorted(range(len(moving)), key=lambda i: self.dims.index(moving[i]))
        shape = [self.steps[dim] if dim in moving else 1 for dim in self.dims]
        return seen.transpose(order).reshape(shape)

    def gathered(self, value: Array) -> Array:
        """The tile of the output; reduction dims are gone or of size 1."""
        shape = [1 if dim.kind == "reduction" else self.steps[dim.name] for dim in self.op.dims]
        full = np.broadcast_to(value, shape)
        rows, cols = self.output
        moving = (*rows, *cols)
        order = [self.dims.index(dim) for dim in moving]
        rest = [i for i in range(len(self.dims)) if i not in order]
        sides = (prod(self.steps[d] for d in rows), prod(self.steps[d] for d in cols))
        return full.transpose([*rest, *order]).reshape(sides)

    def places(self, dim: str | None) -> Array:
        """Positions along a dim within a tile; 0 without one."""
        shape = [self.steps[name] if name == dim else 1 for name in self.dims]
        return np.arange(1 if dim is None else self.steps[dim]).reshape(shape)

    def all_points(self, value: Array) -> Array:
        return np.broadcast_to(value, [self.steps[dim] for dim in self.dims])


def _shape(kernel: Kernel, states: bool) -> str:
    tiles = ", ".join(f"{port.tile[0]} {port.tile[1]}" for port in kernel.inputs)
    out = f"{kernel.output.tile[0]} {kernel.output.tile[1]}"
    return f"{out}; {tiles} -> {out}" if states else f"{tiles} -> {out}"


def _name(op: Op) -> str:
    if op.kind != "generic" or op.body is None:
        return op.kind
    text = expression_text(op.body, [operand.tensor for operand in op.inputs])
    return f"{op.combine}({text})" if op.combine else text


def body_of(kernel: Kernel) -> Function:
    """The function of an operator without loops that add up."""
    op, layout = kernel.op, _Layout(kernel.op)
    compute = _rotary(op) if op.kind == "rotary" else _generic(op, layout)

    def values(*tiles: Array) -> Array:
        seen = [layout.spread(i, tile) for i, tile in enumerate(tiles)]
        return layout.gathered(compute(seen)).astype(tiles[0].dtype)

    return function(
        _name(op), _shape(kernel, states=False), kernel.flops_per_firing,
        int(kernel.flops_per_firing == 0), values, dtype=kernel.output.itensor.dtype,
    )  # fmt: skip


def state_body_of(kernel: Kernel) -> Function:
    """The function of an operator that adds up over loops: state and tiles to the next state."""
    op, layout = kernel.op, _Layout(kernel.op)
    assert op.combine is not None
    compute, combine = _generic(op, layout), _COMBINED[op.combine][0]

    def values(state: Array, *tiles: Array) -> Array:
        seen = [layout.spread(i, tile) for i, tile in enumerate(tiles)]
        found: Array = combine(state, layout.gathered(compute(seen)).astype(state.dtype))
        return found

    return function(
        _name(op), _shape(kernel, states=True), kernel.flops_per_firing, 0, values,
        dtype=kernel.output.itensor.dtype,
    )  # fmt: skip


def _generic(op: Op, layout: _Layout) -> Any:
    def compute(seen: Sequence[Array]) -> Array:
        assert op.body is not None
        with np.errstate(all="ignore"):
            value = value_of(op.body, seen, seen[0].dtype.type)
            if op.combine is None:
                return np.asarray(value)
            full = layout.all_points(np.asarray(value))
            found: Array = _COMBINED[op.combine][1](full, axis=layout.reduced, keepdims=True)
            return found

    return compute


def _rotary(op: Op) -> Any:
    turn = [dim.name for dim in op.dims].index(op.attributes["turn"])

    def compute(seen: Sequence[Array]) -> Any:
        x, cos, sin = seen
        return turned(x, cos, sin, turn)

    return compute


def scan_of(kernel: Kernel) -> Function:
    """The function of a scan: the tile of sums before and a tile to the tile of sums with it."""
    op, layout = kernel.op, _Layout(kernel.op)
    axis = layout.dims.index(op.attributes["along"])

    def values(state: Array, tile: Array) -> Array:
        before = np.take(layout.spread(None, state), [-1], axis)
        sums = np.cumsum(layout.all_points(layout.spread(0, tile)), axis) + before
        return layout.gathered(sums).astype(state.dtype)

    return function(
        "scan", _shape(kernel, states=True), kernel.flops_per_firing, 0, values,
        dtype=kernel.output.itensor.dtype,
    )  # fmt: skip


def fill_of(kernel: Kernel) -> Function:
    """The function of a tile of padding, of a number that nothing depends on."""
    rows, cols = kernel.output.tile
    fill = float(kernel.op.attributes["fill"])
    return function(
        "fill", f"1 1 -> {rows} {cols}", 0, 1, lambda _: np.full((rows, cols), fill),
        kind="address", dtype=kernel.output.itensor.dtype,
    )  # fmt: skip


def relayout_of(kernel: Kernel, slot: int) -> Function | None:
    """The function that puts a tile of an operand into the layout of the output; None: it is."""
    layout = _Layout(kernel.op)
    if layout.inputs[slot] == layout.output:
        return None
    (rows, cols), out = kernel.inputs[slot].tile, kernel.output.tile
    return function(
        "relayout", f"{rows} {cols} -> {out[0]} {out[1]}", 0, 1,
        lambda tile: layout.gathered(layout.spread(slot, tile)),
        dtype=kernel.output.itensor.dtype,
    )  # fmt: skip


def mask_of(kernel: Kernel) -> Function:
    """The function of a causal mask: scores, and the positions of the first query and key."""
    op, layout = kernel.op, _Layout(kernel.op)
    window = op.attributes["window"]

    def values(scores: Array, query: Array, key: Array) -> Array:
        last = int(query[0, 0]) + layout.places(op.attributes["query"])
        keys = int(key[0, 0]) + layout.places(op.attributes["key"])
        seen = keys <= last
        if window is not None:
            seen = np.logical_and(seen, keys > last - window)
        found = np.where(seen, layout.spread(0, scores), scores.dtype.type(-np.inf))
        return layout.gathered(found)

    (tile,), out = (port.tile for port in kernel.inputs), kernel.output.tile
    return function(
        "causal_mask", f"{tile[0]} {tile[1]}, 1 1, 1 1 -> {out[0]} {out[1]}", 0, 1, values,
        kind=("number", "address", "address"), dtype=kernel.output.itensor.dtype,
    )  # fmt: skip


def matmul_of(kernel: Kernel) -> tuple[Function, bool] | None:
    """The product of ``st.fn`` that an operator is at a tile, and whether operands are swapped.

    None where it is another contraction, or operands and result have types that ``st.fn`` does not
    multiply: the second operand may be narrower than the first, which has that of the result.
    """
    op = kernel.op
    if not op.is_matmul:
        return None
    (o_rows, o_cols), sides = _sides(op, op.output), [_sides(op, x) for x in op.inputs]
    types = [port.itensor.dtype for port in kernel.inputs]
    products = {
        (False, False): fn.matmul, (False, True): fn.matmul_t,
        (True, False): fn.t_matmul, (True, True): fn.t_matmul_t,
    }  # fmt: skip
    for swapped in (False, True):
        first, second = (1, 0) if swapped else (0, 1)
        if types[first] != kernel.output.itensor.dtype:
            continue
        if types[second] != types[first] and not _narrower(types[second], types[first]):
            continue
        for (t1, t2), product in products.items():
            a = sides[first][::-1] if t1 else sides[first]
            b = sides[second][::-1] if t2 else sides[second]
            inner = a[1] == b[0] and len(a[1]) <= 1 and set(a[1]) <= set(op.reductions)
            if inner and a[0] == o_rows and b[1] == o_cols and not set(a[0]) & set(b[1]):
                return product, swapped
    return None


def _narrower(one: str, other: str) -> bool:
    return dtype_of(one).bits < dtype_of(other).bits


def folding_of(kernel: Kernel) -> Function:
    """Partial results of one more loop put together; its FLOPs are counted where they are made."""
    op = kernel.op
    assert op.combine is not None
    combine = _COMBINED[op.combine][0]
    rows, cols = kernel.output.tile
    side = f"{rows} {cols}"
    return function(
        f"partial {op.combine}", f"{side}; {side} -> {side}", 0, 1,
        lambda state, part: combine(state, part), dtype=kernel.output.itensor.dtype,
    )  # fmt: skip


def start_of(kernel: Kernel) -> Init:
    """The state before the first tile."""
    tile, dtype = kernel.output.tile, kernel.output.itensor.dtype
    return neg_infinity(tile, dtype) if kernel.op.combine == "max" else zero(tile, dtype)
