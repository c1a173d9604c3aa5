"""The common form of models between importer and builder: values of few kinds.

Files and programs say the same in many ways. A reader of each translates its operators into the
kinds below, whose names are those of :class:`~stepsim.design.GraphBuilder` and of ``st.fn``;
patterns are found and operators recorded once for all readers. A value knows its shape, so that
whatever is only asked of shapes is known when the model is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import prod
from typing import Any, NamedTuple

import numpy as np

from stepsim.errors import CompileError

WHOLE_TYPES: Mapping[str, str] = {
    "bool": "bool", "int8": "i8", "int32": "i32", "int64": "i64", "uint32": "u32", "uint64": "u64",
}  # fmt: skip
"""Scalar types of graphs for bools and whole numbers, by their names in numpy, PyTorch and ONNX.

A reader passes the name of any other on; it is refused where the graph would have such a tensor."""


MOST_POSITIONS = 1 << 24
"""Positions of an axis are numbers of f32, which are exact up to here."""


class Unsupported(Exception):
    """An operator with arguments that cannot be read; the text says why."""


class Place(NamedTuple):
    """A place in a model: module path and source line."""

    module: str = ""
    line: str = ""

    def __str__(self) -> str:
        return f"{self.module or 'the module itself'}{f' ({self.line})' if self.line else ''}"


_NOWHERE = Place()


@dataclass(eq=False, slots=True)
class Value:
    """One value of a model.

    Attributes
    ----------
    op : ``input``, ``weight``, ``state``, ``constant``, ``unknown``, or what the builder does.
    array : numbers of a constant, a weight or a state, float or whatever they were.
    """

    op: str
    inputs: tuple[Value, ...]
    shape: tuple[int, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    place: Place = _NOWHERE
    array: Any = None

    @property
    def is_constant(self) -> bool:
        return self.op == "constant"

    @property
    def number(self) -> float | None:
        """The number that all elements of a constant are; None where they differ."""
        if not self.is_constant or not np.size(self.array):
            return None
        first = np.ravel(self.array)[0]
        return float(first) if np.all(self.array == first) else None

    def __repr__(self) -> str:
        return f"<{self.op} {'x'.join(map(str, self.shape)) or 'scalar'}>"


def values_before(outputs: Sequence[Value]) -> Iterator[Value]:
    """All values that some are made of, each once and after its own inputs."""
    done: set[int] = set()
    stack = [(value, False) for value in reversed(outputs)]
    while stack:
        value, ready = stack.pop()
        if id(value) in done:
            continue
        if ready:
            done.add(id(value))
            yield value
            continue
        stack.append((value, True))
        stack += [(x, False) for x in reversed(value.inputs)]


def same(a: Value, b: Value) -> bool:
    """Whether two values are made in the same way of the same inputs."""
    if a is b:
        return True
    if a.is_constant and b.is_constant:
        return np.array_equal(a.array, b.array)
    return (
        a.op == b.op
        and bool(a.inputs)
        and a.shape == b.shape
        and len(a.inputs) == len(b.inputs)
        and a.attributes == b.attributes
        and all(same(x, y) for x, y in zip(a.inputs, b.inputs, strict=True))
    )


def made(
    op: str, inputs: Sequence[Value], shape: Sequence[int], place: Place, **attributes: Any
) -> Value:
    return Value(op, tuple(inputs), tuple(shape), attributes, place)


def constant(array: Any, place: Place = _NOWHERE) -> Value:
    """Numbers that are known when the model is read."""
    numbers = np.asarray(array)
    return Value("constant", (), numbers.shape, {}, place, numbers)


def unknown(
    target: str, inputs: Sequence[Value], shape: Sequence[int], place: Place, why: str = ""
) -> Value:
    """An operator unknown to the importer, to be listed or to become an opaque operator."""
    return made("unknown", inputs, shape, place, target=target, why=why)


def _refuse(place: Place, what: str) -> CompileError:
    return CompileError(f"{place}: {what}")


def axis_of(axis: int, rank: int) -> int:
    """The axis counted from the first; below 0 it is counted from the last.

    Raises ValueError if a value of so many axes does not have it.
    """
    if not -rank <= axis < rank:
        raise ValueError(f"there is no axis {axis} of {rank}")
    return int(axis) % rank


def axes_of(axes: Sequence[int], rank: int) -> list[int]:
    """As :func:`axis_of`, of several. Raises ValueError if one is named twice."""
    found = [axis_of(axis, rank) for axis in axes]
    if len(set(found)) != len(found):
        raise ValueError(f"axes {list(axes)} of {rank} name one twice")
    return found


def elementwise(function: str, inputs: Sequence[Value], place: Place) -> Value:
    """A function of ``st.fn``, of values that broadcast."""
    try:
        shape = np.broadcast_shapes(*(x.shape for x in inputs))
    except ValueError:
        shapes = " and ".join(str(x.shape) for x in inputs)
        raise _refuse(place, f"{function}: shapes {shapes} do not broadcast") from None
    return made("elementwise", inputs, shape, place, function=function)


def scaled(x: Value, factor: float, place: Place) -> Value:
    """The value times a number, of which 1 leaves it as it is."""
    return x if factor == 1 else elementwise("mul", (x, constant(float(factor))), place)


def power(x: Value, exponent: float | None, shown: object, place: Place) -> Value:
    """A power that is known; ``shown`` is the exponent as a message names it."""
    named = {2.0: "square", 0.5: "sqrt", -0.5: "rsqrt", -1.0: "reciprocal"}
    if exponent in named:
        return elementwise(named[exponent], (x,), place)
    if exponent == 3.0:
        return elementwise("mul", (elementwise("square", (x,), place), x), place)
    raise Unsupported(f"a power of {shown}; supported are 2, 3, 1/2, -1/2 and -1")


def clamp(x: Value, low: Value | None, high: Value | None, place: Place) -> Value:
    """At least the one and at most the other bound; None is no bound."""
    for function, bound in (("max", low), ("min", high)):
        if bound is not None:
            x = elementwise(function, (x, bound), place)
    return x


def matmul(x: Value, y: Value, place: Place) -> Value:
    if min(len(x.shape), len(y.shape)) < 1 or x.shape[-1] != y.shape[max(-2, -len(y.shape))]:
        raise _refuse(place, f"matmul: shapes {x.shape} and {y.shape} do not fit")
    lead = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    rows = x.shape[-2:-1]
    columns = y.shape[-1:] if len(y.shape) > 1 else ()
    return made("matmul", (x, y), (*lead, *rows, *columns), place)


def linear(x: Value, w: Value, bias: Value | None, place: Place) -> Value:
    """``x @ w.T + bias`` of a weight (out, in)."""
    inputs = (x, w) if bias is None else (x, w, bias)
    return made("linear", inputs, (*x.shape[:-1], w.shape[0]), place)


def reshape(x: Value, shape: Sequence[int], place: Place) -> Value:
    """Another shape of the same elements; one size may be -1."""
    sizes = [int(size) for size in shape]
    if sizes.count(-1) == 1:
        known = prod(size for size in sizes if size != -1)
        sizes[sizes.index(-1)] = prod(x.shape) // known if known else 0
    if prod(sizes) != prod(x.shape):
        raise _refuse(place, f"reshape: shape {x.shape} does not become {tuple(shape)}")
    if tuple(sizes) == x.shape:
        return x
    if x.op == "reshape":
        return reshape(x.inputs[0], sizes, place)
    return made("reshape", (x,), sizes, place)


def permute(x: Value, order: Sequence[int], place: Place) -> Value:
    axes = tuple(axes_of(order, len(x.shape)))
    if axes == tuple(range(len(x.shape))):
        return x
    return made("permute", (x,), [x.shape[axis] for axis in axes], place, order=axes)


def transpose(x: Value, first: int, second: int, place: Place) -> Value:
    order = list(range(len(x.shape)))
    order[first], order[second] = order[second], order[first]
    return permute(x, order, place)


def unsqueeze(x: Value, axis: int, place: Place) -> Value:
    at = axis_of(axis, len(x.shape) + 1)
    return reshape(x, (*x.shape[:at], 1, *x.shape[at:]), place)


def embedding(table: Value, indices: Value, place: Place) -> Value:
    """The rows of a matrix that whole numbers name."""
    return made("embedding", (indices, table), (*indices.shape, table.shape[1]), place)


def expand(x: Value, shape: Sequence[int], place: Place) -> Value:
    """Axes of size 1 repeated; -1 keeps a size."""
    lead = len(shape) - len(x.shape)
    own = (1,) * lead + x.shape
    sizes = tuple(old if size == -1 else int(size) for size, old in zip(shape, own, strict=True))
    if sizes == x.shape:
        return x
    return made("expand", (x,), sizes, place)


def slice_of(x: Value, axis: int, start: int, stop: int, step: int, place: Place) -> Value:
    """Positions of an axis; those of a concat are read from its parts."""
    axis = axis_of(axis, len(x.shape))
    kept = range(x.shape[axis])[start:stop:step]
    if kept == range(x.shape[axis]):
        return x
    if not len(kept) or step < 1:
        raise _refuse(
            place,
            f"slice {start}:{stop}:{step} of axis {axis} of shape {x.shape} is empty or runs "
            "backward; keep positions in their order",
        )
    if x.op == "concat" and x.attributes["axis"] == axis and step == 1:
        parts, at = [], 0
        for part in x.inputs:
            low, high = max(kept.start - at, 0), min(kept.stop - at, part.shape[axis])
            if low < high:
                parts.append(slice_of(part, axis, low, high, 1, place))
            at += part.shape[axis]
        return concat(parts, axis, place)
    shape = (*x.shape[:axis], len(kept), *x.shape[axis + 1 :])
    return made("slice", (x,), shape, place, axis=axis, start=kept.start, stop=kept.stop, step=step)


def split(x: Value, sizes: Sequence[int], axis: int, place: Place) -> tuple[Value, ...]:
    """Parts of these sizes, one after the other along an axis."""
    ends = accumulate(sizes)
    return tuple(
        slice_of(x, axis, end - size, end, 1, place) for size, end in zip(sizes, ends, strict=True)
    )


def select(x: Value, axis: int, position: int, place: Place) -> Value:
    axis = axis_of(axis, len(x.shape))
    at = position % x.shape[axis]
    one = slice_of(x, axis, at, at + 1, 1, place)
    return reshape(one, (*x.shape[:axis], *x.shape[axis + 1 :]), place)


def concat(parts: Sequence[Value], axis: int, place: Place) -> Value:
    """Values one after the other; a concat of concats is one."""
    axis = axis_of(axis, len(parts[0].shape))
    flat: list[Value] = []
    for part in parts:
        joined = part.op == "concat" and part.attributes["axis"] == axis
        flat += part.inputs if joined else (part,)
    if len(flat) == 1:
        return flat[0]
    size = sum(part.shape[axis] for part in flat)
    shape = (*flat[0].shape[:axis], size, *flat[0].shape[axis + 1 :])
    return made("concat", flat, shape, place, axis=axis)


def replaced_rows(x: Value, new: Value, axis: int, start: int, stop: int, place: Place) -> Value:
    """The value with other rows at some positions of an axis: how a cache is written."""
    axis = axis_of(axis, len(x.shape))
    size = x.shape[axis]
    parts = [new]
    if start > 0:
        parts.insert(0, slice_of(x, axis, 0, start, 1, place))
    if stop < size:
        parts.append(slice_of(x, axis, stop, size, 1, place))
    return concat(parts, axis, place)


def reduce(function: str, x: Value, axes: Sequence[int], keepdim: bool, place: Place) -> Value:
    """``sum``, ``mean`` or ``max`` along axes."""
    numbers = sorted(axes_of(axes, len(x.shape))) or list(range(len(x.shape)))
    kept = [
        1 if i in numbers else size for i, size in enumerate(x.shape) if keepdim or i not in numbers
    ]
    return made(function, (x,), kept, place, axes=tuple(numbers), keepdim=bool(keepdim))


def layer_norm(
    x: Value, w: Value | None, bias: Value | None, axes: int, eps: float, place: Place
) -> Value:
    """A norm over the last axes, of which several become one."""
    flat = _merged(x, axes, place)
    parts = [_merged(y, axes, place) for y in (w, bias) if y is not None]
    has = {"weight": w is not None, "bias": bias is not None}
    return reshape(made("layer_norm", [flat, *parts], flat.shape, place, eps=eps, **has),
                   x.shape, place)  # fmt: skip


def rms_norm(x: Value, w: Value | None, axes: int, eps: float, place: Place) -> Value:
    """As :func:`layer_norm`, by root mean squares."""
    flat = _merged(x, axes, place)
    inputs = [flat] if w is None else [flat, _merged(w, axes, place)]
    return reshape(
        made("rms_norm", inputs, flat.shape, place, eps=eps, unit_offset=False), x.shape, place
    )  # fmt: skip


def _merged(x: Value, axes: int, place: Place) -> Value:
    """The last axes as one."""
    if axes == 1:
        return x
    return reshape(x, (*x.shape[:-axes], prod(x.shape[-axes:])), place)
