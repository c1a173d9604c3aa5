"""Inputs of an operator of ONNX, as those that write its operators read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from stepsim.design.operators.importers.values import Place, Unsupported, Value

Inputs: TypeAlias = Sequence[Value | None]
Attributes: TypeAlias = Mapping[str, Any]
Writer: TypeAlias = Callable[[Inputs, Attributes, Place], "Value | tuple[Value, ...]"]
"""Called with the inputs, None for those left out, the attributes, and the place."""

_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_OF_THE_TYPE_OF_INPUTS = ("elementwise", "reshape", "permute", "expand", "slice", "concat", "sum",
                          "max")  # fmt: skip


def whole_numbers(value: Value | None, what: str) -> list[int] | None:
    """Whole numbers that shape the graph; None where they are left out."""
    if value is None:
        return None
    if not value.is_constant:
        raise Unsupported(f"{what} that depend on an input; shapes are static")
    return [int(x) for x in np.ravel(value.array)]


def first_input(inputs: Inputs) -> Value:
    x = inputs[0]
    assert x is not None
    return x


def given_inputs(inputs: Inputs) -> list[Value]:
    return [x for x in inputs if x is not None]


def input_at(inputs: Inputs, number: int) -> Value | None:
    return inputs[number] if number < len(inputs) else None


def type_of(x: Value) -> str:
    """``bool``, ``whole`` or ``real``: what a value consists of."""
    if x.op == "constant":
        return {"b": "bool", "i": "whole", "u": "whole"}.get(x.array.dtype.kind, "real")
    if x.op == "input":
        scalar = x.attributes.get("dtype")
        return "real" if scalar is None else "bool" if scalar == "bool" else "whole"
    function = x.attributes.get("function")
    if function in _COMPARISONS:
        return "bool"
    if x.op in _OF_THE_TYPE_OF_INPUTS:
        kinds = {type_of(y) for y in (x.inputs[1:] if function == "where" else x.inputs)}
        return kinds.pop() if len(kinds) == 1 else "real"
    return "real"
