"""Values of an operator graph, computed by numpy.

Every operand is a strided view over the dims of its operator, so that a sum of products is one
``einsum`` and everything else broadcasts. Values are real numbers in float32 or float64, whatever
scalar types the tensors have: nothing is quantized.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from stepsim.arguments import shown
from stepsim.design.operators.expressions import products_of, value_of
from stepsim.design.operators.given import numbers_of
from stepsim.design.operators.routed_values import ROUTED_VALUES
from stepsim.design.operators.selections import CHOSEN, check_chosen, is_rank
from stepsim.design.operators.structured import parts_of
from stepsim.design.operators.types import Index, Op, Operand, Tensor
from stepsim.errors import CompileError, did_you_mean

if TYPE_CHECKING:
    from stepsim.design.operators.graph import OperatorGraph

Array: TypeAlias = NDArray[np.floating[Any]]

_REDUCED: Mapping[str, Callable[..., Array]] = {"sum": np.sum, "max": np.max}
_MOST_AT_ONCE = 1 << 26
"""Points of a loop nest that are computed at a time where no einsum does it."""


def evaluate(
    graph: OperatorGraph, values: Mapping[str, Any], dtype: Any = np.float32
) -> dict[str, Array]:
    """Values of all tensors of a graph.

    Parameters
    ----------
    values : arrays of inputs, weights and states by name; axes of size 1 may be more or fewer than
        those of the tensor. Indices of a gather are whole numbers.
    dtype : float32 or float64, in which everything is computed.

    Raises
    ------
    CompileError : an array is missing, unknown, or of another shape; indices, given or computed,
        are out of range; or an operator is opaque.
    """
    scalar = _scalar(dtype)
    given = graph.with_role("input", "weight", "state")
    names = [tensor.name for tensor in given]
    for name in values:
        if name not in names:
            near = did_you_mean(name, names)
            raise CompileError(
                f"{graph.name}: no input, weight or state is called {shown(name)}{near}"
            )
    found = {t.name: _given(graph, t, values, scalar) for t in given}
    producers = {op.output.tensor: op for op in graph.ops}
    with np.errstate(all="ignore"):
        for op in graph.ops:
            tensor = graph.tensors[op.output.tensor]
            made = np.empty(tensor.shape, scalar)
            target = _view(made, op.output, op, [d.name for d in op.dims if d.kind == "parallel"])
            inputs = [found[operand.tensor] for operand in op.inputs]
            if op.body == CHOSEN and not is_rank(producers.get(op.inputs[0].tensor)):
                numbers, positions = (
                    _broadcast(inputs[i], op.inputs[i], op, op.sizes) for i in (0, 1)
                )
                check_chosen(op, numbers, positions)
            _KINDS[op.kind](op, inputs, target)
            found[tensor.name] = made
    return found


def _scalar(dtype: Any) -> np.dtype[Any]:
    """One of the two types that everything is computed in."""
    scalar: np.dtype[Any] | None = None
    with suppress(TypeError, ValueError, RecursionError):
        scalar = np.dtype(dtype)
    if scalar is None or scalar not in (np.dtype(np.float32), np.dtype(np.float64)):
        found = shown(dtype) if scalar is None else scalar
        raise CompileError(f"evaluate: dtype must be float32 or float64, found {found}")
    return scalar


def folded_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """A shape without its axes of size 1."""
    return tuple(size for size in shape if size != 1)


def _given(
    graph: OperatorGraph, tensor: Tensor, values: Mapping[str, Any], scalar: np.dtype[Any]
) -> Array:
    if tensor.name not in values:
        raise CompileError(f"{graph.name}: values of {tensor} are missing; give an array")
    array = numbers_of(f"{graph.name}: values of {tensor}", values[tensor.name])
    if folded_shape(array.shape) != folded_shape(tensor.shape):
        raise CompileError(
            f"{graph.name}: values of {tensor} have shape {array.shape}; give {tensor.shape}"
        )
    return np.ascontiguousarray(array, scalar).reshape(tensor.shape)


def _strides(array: Array, access: Sequence[Index], dims: Sequence[str]) -> list[int]:
    return [
        sum(
            index.coefficient(dim) * stride
            for index, stride in zip(access, array.strides, strict=True)
        )
        for dim in dims
    ]


def _view(
    array: Array,
    operand: Operand,
    op: Op,
    dims: Sequence[str],
    sizes: Mapping[str, int] | None = None,
    first: Mapping[str, int] | None = None,
) -> Array:
    """The array at the positions of an operand, an axis for each of the dims.

    ``sizes`` are those of the dims, without which they are those of the operator; ``first`` is
    where a dim starts.
    """
    sizes = op.sizes if sizes is None else sizes
    start = tuple(
        index.offset + sum(n * (first or {}).get(dim, 0) for dim, n in index.terms)
        for index in operand.access
    )
    places: tuple[Any, ...] = (*(slice(at, None) for at in start), ...)
    begin = array[places]
    shape = [sizes[dim] for dim in dims]
    # Bounds of every access were checked when the graph was made.
    return as_strided(begin, shape, _strides(array, operand.access, dims))


def _broadcast(array: Array, operand: Operand, op: Op, sizes: Mapping[str, int]) -> Array:
    """The operand with an axis for each dim of the operator, of size 1 where it does not move."""
    moving = set(operand.dims)
    shown = {dim: size if dim in moving else 1 for dim, size in sizes.items()}
    return _view(array, operand, op, [dim.name for dim in op.dims], shown)


def _generic(op: Op, inputs: Sequence[Array], target: Array) -> None:
    assert op.body is not None
    if op.combine == "sum":
        product = products_of(op.body)
        if product is not None and len(product[1]) > 0:
            _contract(op, product, inputs, target)
            return
    axes = tuple(i for i, dim in enumerate(op.dims) if dim.kind == "reduction")
    views = [_broadcast(x, at, op, op.sizes) for x, at in zip(inputs, op.inputs, strict=True)]
    full = tuple(dim.size for dim in op.dims)
    if op.combine is None:
        target[...] = value_of(op.body, views, target.dtype.type)
        return
    if prod(full) <= _MOST_AT_ONCE or not target.ndim:
        value = np.broadcast_to(value_of(op.body, views, target.dtype.type), full)
        target[...] = _REDUCED[op.combine](value, axis=axes)
        return
    # A slab of the first parallel dim at a time, to bound the memory.
    along = next(i for i, dim in enumerate(op.dims) if dim.kind == "parallel")
    for i in range(full[along]):
        slabs = [view if view.shape[along] == 1 else view.take([i], along) for view in views]
        shape = (*full[:along], 1, *full[along + 1 :])
        value = np.broadcast_to(value_of(op.body, slabs, target.dtype.type), shape)
        target[i] = _REDUCED[op.combine](value, axis=axes)[0]


def _contract(
    op: Op, product: tuple[float, tuple[int, ...]], inputs: Sequence[Array], target: Array
) -> None:
    numbers = {dim.name: i for i, dim in enumerate(op.dims)}
    factor, slots = product
    operands: list[Any] = []
    read: set[str] = set()
    for slot in slots:
        dims = op.inputs[slot].dims
        operands += [_view(inputs[slot], op.inputs[slot], op, dims), [numbers[d] for d in dims]]
        read.update(dims)
    sizes = op.sizes
    # Dims that no operand moves along: results repeat, sums are multiplied.
    factor *= prod(sizes[dim] for dim in op.reductions if dim not in read)
    parallel = [dim.name for dim in op.dims if dim.kind == "parallel"]
    kept = [dim for dim in parallel if dim in read]
    value = np.einsum(*operands, [numbers[dim] for dim in kept], optimize=len(slots) > 1)
    if factor != 1.0:
        value = value * target.dtype.type(factor)
    shape = [sizes[dim] if dim in read else 1 for dim in parallel]
    target[...] = value.reshape(shape)


def _rotary(op: Op, inputs: Sequence[Array], target: Array) -> None:
    dims = [dim.name for dim in op.dims]
    x, cos, sin = (
        np.broadcast_to(_broadcast(array, at, op, op.sizes), [dim.size for dim in op.dims])
        for array, at in zip(inputs, op.inputs, strict=True)
    )
    target[...] = turned(x, cos, sin, dims.index(op.attributes["turn"]))


def turned(x: Any, cos: Any, sin: Any, axis: int) -> Any:
    """Pairs along an axis turned by angles: (a, b) becomes (a cos - b sin, b cos + a sin)."""
    other = np.flip(x, axis).copy()
    first = [slice(None)] * x.ndim
    first[axis] = slice(0, 1)
    other[tuple(first)] *= -1
    return x * cos + other * sin


def _causal_mask(op: Op, inputs: Sequence[Array], target: Array) -> None:
    dims = [dim.name for dim in op.dims]
    scores = _broadcast(inputs[0], op.inputs[0], op, op.sizes)

    def position(dim: str | None) -> Any:
        if dim is None:
            return 0
        shape = [op.sizes[dim] if name == dim else 1 for name in dims]
        return np.arange(op.sizes[dim]).reshape(shape)

    last = op.attributes["start"] + position(op.attributes["query"])
    key = position(op.attributes["key"])
    seen = key <= last
    if op.attributes["window"] is not None:
        seen = seen & (key > last - op.attributes["window"])
    target[...] = np.where(seen, scores, target.dtype.type(-np.inf))


def _parts(op: Op, inputs: Sequence[Array], target: Array) -> None:
    dims = [dim.name for dim in op.dims]
    if op.kind == "pad":
        target[...] = float(op.attributes["fill"])
    for slot, (array, operand) in enumerate(zip(inputs, op.inputs, strict=True)):
        parts = parts_of(op, slot)
        sizes = op.sizes | {dim: end - start for dim, (start, end) in parts.items()}
        first = {dim: start for dim, (start, _) in parts.items()}
        part = tuple(slice(*parts[dim]) if dim in parts else slice(None) for dim in dims)
        target[part] = _view(array, operand, op, dims, sizes, first)


def _scan(op: Op, inputs: Sequence[Array], target: Array) -> None:
    axis = [dim.name for dim in op.dims].index(op.attributes["along"])
    x = np.broadcast_to(_broadcast(inputs[0], op.inputs[0], op, op.sizes), target.shape)
    np.cumsum(x, axis, out=target)


def _gather(op: Op, inputs: Sequence[Array], target: Array) -> None:
    table, numbers = inputs
    axis = op.attributes["axis"]
    size = table.shape[axis]
    indices = _broadcast(numbers, op.inputs[1], op, op.sizes)
    whole = indices.astype(np.int64)
    wrong = (whole != indices) | (whole < 0) | (whole >= size)
    if wrong.any():
        raise CompileError(
            f"{op.title()}: index {indices[wrong][0]:g} of '{op.inputs[1].tensor}' is not a row of "
            f"'{op.inputs[0].tensor}', which has {size}"
        )
    places: list[Any] = []
    for i, index in enumerate(op.inputs[0].access):
        position: Any = index.offset
        for dim, n in index.terms:
            shape = [op.sizes[dim] if d.name == dim else 1 for d in op.dims]
            position = position + n * np.arange(op.sizes[dim]).reshape(shape)
        places.append(whole if i == axis else position)
    target[...] = table[tuple(places)]


def _opaque(op: Op, inputs: Sequence[Array], target: Array) -> None:
    raise CompileError(
        f"{op.title()}: '{op.attributes['target']}' is opaque, so its values are unknown; "
        "build it from operators to evaluate the graph"
    )


def _routed(op: Op, inputs: Sequence[Array], target: Array) -> None:
    ROUTED_VALUES[op.kind](op, inputs, target)


_KINDS = {
    "generic": _generic,
    "rotary": _rotary,
    "causal_mask": _causal_mask,
    "concat": _parts,
    "pad": _parts,
    "scan": _scan,
    "gather": _gather,
    "opaque": _opaque,
    **dict.fromkeys(ROUTED_VALUES, _routed),
}
