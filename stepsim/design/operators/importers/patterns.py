"""Patterns that models spell out and the operator graph has as single operators.

Each pattern takes a value whose inputs were rewritten before and gives another one or None. What
is not found is recorded as it stands, which computes the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from stepsim.design.operators.importers.masks import MINUS_INFINITY, causal, hidden_by
from stepsim.design.operators.importers.rotary_patterns import interleaved, rotated_half, two_halves
from stepsim.design.operators.importers.values import (
    Value,
    constant,
    elementwise,
    made,
    values_before,
)
from stepsim.errors import CompileError

_ERF = ("aten.erf.default", "Erf")
"""The error function, which is supported only inside GELU."""

Pattern: TypeAlias = Callable[[Value], Value | None]


def rewritten(outputs: Sequence[Value]) -> list[Value]:
    """The same outputs, of values in which all patterns are replaced."""
    found: dict[int, Value] = {}
    for value in list(values_before(outputs)):
        inputs = tuple(found[id(x)] for x in value.inputs)
        new = value
        if any(a is not b for a, b in zip(inputs, value.inputs, strict=True)):
            new = Value(value.op, inputs, value.shape, value.attributes, value.place, value.array)
        for pattern in _PATTERNS:
            new = pattern(new) or new
        found[id(value)] = new
    return [found[id(value)] for value in outputs]


def function_of(value: Value) -> str | None:
    return value.attributes["function"] if value.op == "elementwise" else None


def _with_number(value: Value, function: str) -> tuple[Value, float] | None:
    """The other operand and the number of a function of both, in any order."""
    if function_of(value) != function:
        return None
    for x, y in (value.inputs, value.inputs[::-1]):
        number = y.number
        if number is not None and not x.is_constant:
            return x, number
    return None


def _scaled(value: Value) -> tuple[Value, float]:
    """A value as another one times a number."""
    found = _with_number(value, "mul")
    if found is None and function_of(value) == "div":
        number = value.inputs[1].number
        if number:
            found = value.inputs[0], 1 / number
    if found is None:
        return value, 1.0
    inner, factor = _scaled(found[0])
    return inner, factor * found[1]


def _factors(value: Value) -> Iterator[Value]:
    """The factors of a value that is a product."""
    if function_of(value) == "mul":
        for x in value.inputs:
            yield from _factors(x)
    elif function_of(value) == "div" and value.inputs[1].number:
        yield from _factors(value.inputs[0])
        yield constant(1 / (value.inputs[1].number or 1.0))
    else:
        yield value


def _squared(value: Value) -> Value | None:
    if function_of(value) == "square":
        return value.inputs[0]
    both = function_of(value) == "mul" and value.inputs[0] is value.inputs[1]
    return value.inputs[0] if both else None


def _root_mean_square(value: Value) -> tuple[Value, float] | None:
    """``x`` and ``eps`` of ``mean(x * x) + eps`` along the last axis."""
    found = _with_number(value, "add")
    if found is None:
        return None
    mean, eps = found
    if mean.op != "mean" or not mean.attributes["keepdim"]:
        return None
    squares = mean.inputs[0]
    x = _squared(squares)
    return None if x is None or mean.attributes["axes"] != (len(x.shape) - 1,) else (x, eps)


def _bare_rms_norm(value: Value) -> Value | None:
    """``x * rsqrt(mean(x * x) + eps)``, or a division by the root."""
    pairs: list[tuple[Value, Value]] = []
    if function_of(value) == "mul":
        for x, y in (value.inputs, value.inputs[::-1]):
            if function_of(y) in ("rsqrt", "reciprocal"):
                inner = y.inputs[0]
                if function_of(y) == "rsqrt":
                    pairs.append((x, inner))
                elif function_of(inner) == "sqrt":
                    pairs.append((x, inner.inputs[0]))
    elif function_of(value) == "div" and function_of(value.inputs[1]) == "sqrt":
        pairs.append((value.inputs[0], value.inputs[1].inputs[0]))
    for x, root in pairs:
        found = _root_mean_square(root)
        if found is not None and found[0] is x:
            return made("rms_norm", (x,), x.shape, value.place, eps=found[1], unit_offset=False)
    return None


def _gain_of_rms_norm(value: Value) -> Value | None:
    """The weight that a bare norm is multiplied by."""
    if function_of(value) != "mul":
        return None
    for norm, w in (value.inputs, value.inputs[::-1]):
        if norm.op == "rms_norm" and len(norm.inputs) == 1 and w.shape == norm.shape[-1:]:
            return made("rms_norm", (*norm.inputs, w), norm.shape, value.place, **norm.attributes)
    return None


def _unit_offset(value: Value) -> Value | None:
    """A weight of ``1 + w``."""
    if value.op != "rms_norm" or len(value.inputs) != 2 or value.attributes["unit_offset"]:
        return None
    found = _with_number(value.inputs[1], "add")
    if found is None or found[1] != 1.0 or found[0].shape != value.inputs[1].shape:
        return None
    attributes = {**value.attributes, "unit_offset": True}
    return made("rms_norm", (value.inputs[0], found[0]), value.shape, value.place, **attributes)


def _silu(value: Value) -> Value | None:
    if function_of(value) != "mul":
        return None
    for x, y in (value.inputs, value.inputs[::-1]):
        if function_of(y) == "sigmoid" and y.inputs[0] is x:
            return elementwise("silu", (x,), value.place)
    return None


def _gelu(value: Value) -> Value | None:
    """``x / 2 * (1 + erf(x / sqrt(2)))``, and the form by tanh."""
    if function_of(value) != "mul":
        return None
    factors = list(_factors(value))
    numbers = [factor.number for factor in factors if factor.number is not None]
    rest = [factor for factor in factors if factor.number is None]
    if not math.isclose(math.prod(numbers), 0.5, rel_tol=1e-6) or len(rest) != 2:
        return None
    for x, y in (rest, rest[::-1]):
        found = _with_number(y, "add")
        if found is None or found[1] != 1.0:
            continue
        if function_of(found[0]) == "tanh" and _tanh_argument(found[0].inputs[0], x):
            return elementwise("gelu_tanh", (x,), value.place)
        if found[0].op == "unknown" and found[0].attributes["target"] in _ERF:
            inner, factor = _scaled(found[0].inputs[0])
            if inner is x and math.isclose(factor, math.sqrt(0.5), rel_tol=1e-5):
                return elementwise("gelu", (x,), value.place)
    return None


def _tanh_argument(value: Value, x: Value) -> bool:
    """Whether it is ``sqrt(2 / pi) * (x + 0.044715 * x ** 3)``."""
    total, factor = _scaled(value)
    if function_of(total) != "add" or not math.isclose(
        factor, math.sqrt(2 / math.pi), rel_tol=1e-5
    ):
        return False
    for one, cube in (total.inputs, total.inputs[::-1]):
        power, weight = _scaled(cube)
        parts = [_squared(part) or part for part in _factors(power)]
        whole = sum(2 if _squared(part) else 1 for part in _factors(power))
        if one is x and math.isclose(weight, 0.044715, rel_tol=1e-4) and whole == 3:
            return all(part is x for part in parts)
    return False


def _mask(value: Value, most: float = -math.inf) -> Value | None:
    """Scores hidden by numbers that are known: minus infinity, or numbers up to another one."""
    if len(value.shape) < 2:
        return None
    if function_of(value) == "add":
        for x, mask in (value.inputs, value.inputs[::-1]):
            if mask.is_constant and x.shape == value.shape:
                hidden = hidden_by(mask.array, most)
                if hidden is not None:
                    return _hidden(x, hidden, value, most)
    if function_of(value) == "where" and value.inputs[0].is_constant:
        seen = np.asarray(value.inputs[0].array, bool)
        for x, fill, hidden in (
            (value.inputs[1], value.inputs[2], ~seen),
            (value.inputs[2], value.inputs[1], seen),
        ):
            number = fill.number
            if number is not None and number <= most and x.shape == value.shape:
                return _hidden(x, hidden, value, most)
    return None


def _masked_softmax(value: Value) -> Value | None:
    """A softmax of scores that the lowest numbers hide, which become minus infinity in it."""
    if value.op != "softmax" or value.attributes["axis"] % len(value.shape) != len(value.shape) - 1:
        return None
    scores = _masked_scores(value.inputs[0])
    if scores is value.inputs[0]:
        return None
    return made("softmax", (scores,), value.shape, value.place, **value.attributes)


def _masked_scores(value: Value) -> Value:
    """Scores of a softmax with their masks, possibly several, replaced."""
    found = _mask(value, MINUS_INFINITY)
    if found is not None:
        return found
    if function_of(value) == "add":
        inputs = [_masked_scores(x) if x.shape == value.shape else x for x in value.inputs]
        if any(a is not b for a, b in zip(inputs, value.inputs, strict=True)):
            return elementwise("add", inputs, value.place)
    return value


def _hidden(
    x: Value, hidden: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], of: Value, most: float
) -> Value | None:
    if not hidden.any():
        return x
    if most > -np.inf and _hides_a_row(hidden):
        return None  # the lowest numbers leave such a row its values
    found = causal(~hidden, *x.shape[-2:]) if hidden.ndim > 1 else None
    if found is not None:
        return made("causal_mask", (x,), x.shape, of.place, **found._asdict())
    added = constant(np.where(hidden, -np.inf, 0.0).astype(np.float32), of.place)
    return made("elementwise", (x, added), x.shape, of.place, function="add")


def _hides_a_row(hidden: Any) -> bool:
    return bool(np.all(hidden, axis=-1).any())


def _no_mask(value: Value) -> Value | None:
    """A softmax of scores that a mask of zeros is added to."""
    if value.op != "softmax" or function_of(value.inputs[0]) != "add":
        return None
    for x, zeros in (value.inputs[0].inputs, value.inputs[0].inputs[::-1]):
        if zeros.number == 0.0 and x.shape == value.shape:
            return made("softmax", (x,), value.shape, value.place, **value.attributes)
    return None


def _guarded(value: Value) -> Value | None:
    """A softmax behind a guard that sets rows of minus infinity to 0, if no row is all minus
    infinity."""
    if function_of(value) != "where" or value.inputs[0].op != "unknown":
        return None
    test, zero, x = value.inputs
    if test.attributes["target"] != "IsNaN" or test.inputs != (x,) or zero.number != 0.0:
        return None
    if x.op != "softmax":
        return None
    scores = x.inputs[0]
    if function_of(scores) == "add":
        masks = [y for y in scores.inputs if y.is_constant]
        hidden = [y for y in masks if np.any(np.all(np.asarray(y.array) == -np.inf, axis=-1))]
        return None if hidden else x
    # Under a causal mask every query sees a key; products are finite.
    return x if scores.op in ("causal_mask", "matmul") else None


def _masked_attention(value: Value) -> Value | None:
    """Attention under a mask that is known."""
    if value.op != "sdpa" or len(value.inputs) != 4 or not value.inputs[3].is_constant:
        return None
    mask = np.asarray(value.inputs[3].array)
    hidden = ~mask if mask.dtype == np.bool_ else hidden_by(mask)
    if hidden is None:
        if mask.any():
            return None
        hidden = mask.astype(bool)
    q, k, v, _ = value.inputs
    if _hides_a_row(hidden):
        if mask.dtype != np.bool_ and np.all(np.isfinite(mask)):
            return None  # the lowest numbers leave such a row its values
        raise CompileError(
            f"{value.place}: sdpa: its mask hides all keys from a query, for which PyTorch gives "
            "zeros and a softmax no numbers; let every query see a key"
        )
    attributes = dict(value.attributes)
    inputs: tuple[Value, ...] = (q, k, v)
    if hidden.any():
        found = causal(~hidden, q.shape[-2], k.shape[-2]) if hidden.ndim > 1 else None
        if found is not None:
            attributes |= {"causal": True, **found._asdict()}
        else:
            added = np.where(hidden, -np.inf, 0.0).astype(np.float32)
            if mask.dtype != np.bool_:
                return None
            inputs = (*inputs, constant(added, value.inputs[3].place))
    return made("sdpa", inputs, value.shape, value.place, **attributes)


_PATTERNS: tuple[Pattern, ...] = (
    _bare_rms_norm, _gain_of_rms_norm, _unit_offset, _silu, _gelu, _mask, _masked_softmax,
    _masked_attention, _no_mask, _guarded, rotated_half, two_halves, interleaved,
)  # fmt: skip
