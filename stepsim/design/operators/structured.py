"""Operators that are not an expression at each point, and the costs of all operators.

* ``rotary``: (x, cos, sin). ``attributes["turn"]`` names a dim of size 2; the values at its two
  places, a and b, become ``a cos - b sin`` and ``b cos + a sin``.
* ``causal_mask``: (scores). Scores become minus infinity where the position of dim ``key`` is
  behind ``start`` plus that of dim ``query`` or, with ``window``, that many before it.
* ``concat``: any number of inputs, along dim ``dim``; input i has the places from ``offsets[i]`` on
  up to the next offset, and its access starts at 0 there.
* ``pad``: (x). ``inside`` names, for each padded dim, the first place of the input and the place
  behind its last one; everywhere else the result is ``fill``. The access starts at 0 there.
* ``scan``: (x). Sums along dim ``along``, each with what came before it.
* ``gather``: (table, indices). Axis ``axis`` of the table is where the indices say.
* ``opaque``: nothing is known but the name ``target`` and the declared ``flops``; it needs all of
  its inputs, over reduction dims of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from stepsim.arguments import is_whole
from stepsim.design.operators.expressions import flops_of_expression, function_of
from stepsim.errors import CompileError
from stepsim.graph import rotary

if TYPE_CHECKING:
    from stepsim.design.operators.types import Op

COMBINES: Final[Mapping[str, str]] = {"sum": "add", "max": "max"}
"""The function of ``st.fn`` behind each way to combine."""


@dataclass(frozen=True, slots=True)
class Structured:
    """The requirements of a kind of structured operator.

    Attributes
    ----------
    inputs : how many it reads; None is any number from 1.
    attributes : what each must be, and the words for it.
    flops : FLOPs of one operator.
    reduces : whether it may have reduction dims.
    """

    inputs: int | None
    attributes: Mapping[str, tuple[Callable[[Op, Any], bool], str]]
    flops: Callable[[Op], int]
    reduces: bool = False


def _dim(op: Op, value: Any) -> bool:
    return value in op.sizes


def _dim_or_none(op: Op, value: Any) -> bool:
    return value is None or value in op.sizes


def _count(op: Op, value: Any) -> bool:
    return is_whole(value) and value >= 0


def _window(op: Op, value: Any) -> bool:
    return value is None or (is_whole(value) and value >= 1)


def _offsets(op: Op, value: Any) -> bool:
    return (
        isinstance(value, (tuple, list))
        and len(value) == len(op.inputs)
        and all(map(is_whole, value))
        and value[0] == 0
        and list(value) == sorted(set(value))
    )


def _inside(op: Op, value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and set(value) <= set(op.sizes)
        and all(
            isinstance(part, (tuple, list))
            and len(part) == 2
            and all(map(is_whole, part))
            and 0 <= part[0] < part[1] <= op.sizes[dim]
            for dim, part in value.items()
        )
    )


def _number(op: Op, value: Any) -> bool:
    # JSON has no infinity, so that it is a text.
    return value in ("inf", "-inf") or (isinstance(value, float) and math.isfinite(value))


def _axis(op: Op, value: Any) -> bool:
    return is_whole(value) and 0 <= value < len(op.inputs[0].access)


def _rotary_flops(op: Op) -> int:
    per_pair = int(rotary().flops.at({"m": 1, "h": 1}))
    return per_pair * op.iterations // 2


def _none(op: Op) -> int:
    return 0


def _additions(op: Op) -> int:
    return int(function_of("add").flops.at({"m": 1, "n": 1})) * op.iterations


def _weighted_sum(op: Op) -> int:
    product, total = (int(function_of(name).flops.at({"m": 1, "n": 1})) for name in ("mul", "add"))
    return (product + total) * op.iterations


STRUCTURED: Final[Mapping[str, Structured]] = {
    "rotary": Structured(
        3, {"turn": (lambda op, v: op.sizes.get(v) == 2, "a dim of size 2")}, _rotary_flops
    ),
    "causal_mask": Structured(
        1,
        {
            "query": (_dim_or_none, "a dim or None"),
            "key": (_dim, "a dim"),
            "start": (_count, "an int from 0"),
            "window": (_window, "an int from 1 or None"),
        },
        _none,
    ),
    "concat": Structured(
        None,
        {
            "dim": (_dim, "a dim"),
            "offsets": (_offsets, "one rising int for each input, from 0"),
        },
        _none,
    ),
    "pad": Structured(
        1,
        {
            "inside": (_inside, "first place and end of the input, by dim"),
            "fill": (_number, "a float, 'inf' or '-inf'"),
        },
        _none,
    ),
    "scan": Structured(1, {"along": (_dim, "a dim")}, _additions),
    "gather": Structured(2, {"axis": (_axis, "an axis of the table")}, _none),
    "opaque": Structured(
        None,
        {
            "target": (lambda op, v: isinstance(v, str), "a name"),
            "flops": (_count, "an int from 0"),
        },
        lambda op: int(op.attributes["flops"]),
        reduces=True,
    ),
    "dispatch": Structured(2, {"expert": (_dim, "a dim"), "row": (_dim, "a dim")}, _none),
    "choose": Structured(
        2,
        {
            "row": (_dim, "a dim"),
            "slot": (_dim, "a dim"),
            "experts": (lambda op, v: is_whole(v) and v >= 1, "an int from 1"),
        },
        _none,
    ),
    "combine": Structured(
        None, {"row": (_dim, "a dim"), "slot": (_dim, "a dim")}, _weighted_sum, reduces=True
    ),
}  # fmt: skip
"""Kinds of operators other than ``generic``."""


def concat_ends(op: Op) -> tuple[int, ...]:
    """Where each input of a concat ends along its dim."""
    return (*op.attributes["offsets"][1:], op.sizes[op.attributes["dim"]])


def parts_of(op: Op, slot: int) -> dict[str, tuple[int, int]]:
    """Dims along which an operand is only a part of the result: its first place and its end."""
    if op.kind == "concat":
        return {op.attributes["dim"]: (op.attributes["offsets"][slot], concat_ends(op)[slot])}
    if op.kind == "pad":
        return {dim: (first, end) for dim, (first, end) in op.attributes["inside"].items()}
    return {}


def flops_of(op: Op) -> int:
    """FLOPs of an operator: those of body and combination at each point, or those of its kind.

    Raises
    ------
    CompileError : there is no such kind.
    """
    if op.kind == "generic":
        if op.body is None:
            raise CompileError(f"{op.title()}: a generic operator needs a body")
        weight = 0
        if op.combine is not None:
            weight = int(function_of(COMBINES[op.combine]).flops.at({"m": 1, "n": 1}))
        return op.iterations * (flops_of_expression(op.body) + weight)
    return STRUCTURED[op.kind].flops(op)
