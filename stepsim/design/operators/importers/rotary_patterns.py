"""Rotary embeddings as models write them out."""

from __future__ import annotations

from collections.abc import Iterator

from stepsim.design.operators.importers.values import Value, made, same


def _products(value: Value, function: str) -> Iterator[tuple[Value, Value, Value, Value]]:
    """``a, b, c, d`` of ``a * b + c * d`` (or ``-``), in all orders that mean the same."""
    if value.op != "elementwise" or value.attributes["function"] != function:
        return
    sides = [value.inputs, value.inputs[::-1]] if function == "add" else [value.inputs]
    for left, right in sides:
        if any(x.op != "elementwise" or x.attributes["function"] != "mul" for x in (left, right)):
            continue
        for a, b in (left.inputs, left.inputs[::-1]):
            for c, d in (right.inputs, right.inputs[::-1]):
                yield a, b, c, d


def _part(value: Value, start: int, step: int) -> Value | None:
    """What a value is half of: its columns from ``start``, ``step`` apart."""
    if value.op != "slice":
        return None
    x = value.inputs[0]
    at = value.attributes
    width = x.shape[-1]
    wanted = range(start, start + width // 2) if step == 1 else range(start, width, step)
    along = at["axis"] == len(x.shape) - 1 and width % 2 == 0
    return x if along and range(at["start"], at["stop"], at["step"]) == wanted else None


def _column(value: Value, position: int) -> Value | None:
    """``x`` of ``x.reshape(..., d / 2, 2)[..., position]``."""
    if value.op != "reshape" or value.inputs[0].op != "slice":
        return None
    at, pairs = value.inputs[0].attributes, value.inputs[0].inputs[0]
    last = at["axis"] == len(pairs.shape) - 1 and pairs.shape[-1] == 2
    if not last or at["start"] != position or pairs.op != "reshape":
        return None
    x = pairs.inputs[0]
    return x if x.shape == (*pairs.shape[:-2], 2 * pairs.shape[-2]) else None


def _rotary(x: Value, cos: Value, sin: Value, of: Value, pairs: str) -> Value | None:
    widths = (x.shape[-1], x.shape[-1] // 2)
    fits = all(len(t.shape) <= len(x.shape) and t.shape[-1:] in ((widths[0],), (widths[1],))
               for t in (cos, sin))  # fmt: skip
    if not fits or x.shape != of.shape:
        return None
    return made("rotary", (x, cos, sin), x.shape, of.place, pairs=pairs)


def rotated_half(value: Value) -> Value | None:
    """``x * cos + concat(-x[half:], x[:half]) * sin``."""
    for x, cos, turned, sin in _products(value, "add"):
        if turned.op != "concat" or len(turned.inputs) != 2:
            continue
        if turned.attributes["axis"] != len(turned.shape) - 1:
            continue
        minus, front = turned.inputs
        if minus.op != "elementwise" or minus.attributes["function"] != "neg":
            continue
        back, half = minus.inputs[0], x.shape[-1] // 2
        if _part(back, half, 1) is x and _part(front, 0, 1) is x:
            return _rotary(x, cos, sin, value, "half")
    return None


def _turned(first: Value, second: Value, parts: tuple[tuple[int, int], ...] | None,
            of: Value) -> tuple[Value, Value, Value] | None:  # fmt: skip
    """``x, cos, sin`` of ``a cos - b sin`` and ``b cos + a sin``; a and b are parts of x."""
    for a, cos, b, sin in _products(first, "sub"):
        xs: list[Value | None]
        if parts is None:
            xs = [_column(a, 0), _column(b, 1)]
        else:
            xs = [_part(y, start, step) for y, (start, step) in zip((a, b), parts, strict=True)]
        x = xs[0]
        if x is None or xs[1] is not x:
            continue
        for b2, cos2, a2, sin2 in _products(second, "add"):
            pairs = ((a, a2), (b, b2), (cos, cos2), (sin, sin2))
            if all(same(one, other) for one, other in pairs):
                return x, cos, sin
    return None


def two_halves(value: Value) -> Value | None:
    """``concat(a * cos - b * sin, b * cos + a * sin)`` of the halves of x."""
    if value.op != "concat" or len(value.inputs) != 2:
        return None
    if value.attributes["axis"] != len(value.shape) - 1:
        return None
    half = value.shape[-1] // 2
    found = _turned(*value.inputs, ((0, 1), (half, 1)), value)
    return None if found is None else _rotary(*found, value, "half")


def interleaved(value: Value) -> Value | None:
    """``stack(a * cos - b * sin, b * cos + a * sin)`` of even and odd columns, flattened."""
    if value.op != "reshape" or value.inputs[0].op != "concat":
        return None
    stacked = value.inputs[0]
    if stacked.attributes["axis"] != len(stacked.shape) - 1 or len(stacked.inputs) != 2:
        return None
    if value.shape != (*stacked.shape[:-2], 2 * stacked.shape[-2]):
        return None
    if any(part.op != "reshape" or part.shape[-1] != 1 for part in stacked.inputs):
        return None
    first, second = (part.inputs[0] for part in stacked.inputs)
    for parts in (((0, 2), (1, 2)), None):
        found = _turned(first, second, parts, value)
        if found is not None:
            return _rotary(*found, value, "interleaved")
    return None
