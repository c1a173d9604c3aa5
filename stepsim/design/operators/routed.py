"""Rows that a routing chooses: which tensors of an operator graph have them, and along which axis.

How many rows an expert gets is known in a run. Tensors with such rows are as large as the declared
maximum, and only operators that treat all rows the same may use them (:func:`routed_rows`):

* ``dispatch``: (x, routing). ``output[e, r]`` is the r-th of the rows of ``x`` that the routing
  sends to expert ``e``; ``attributes`` name the dims ``expert`` and ``row``. The size of ``row`` is
  the declared maximum.
* ``choose``: (scores, routing). ``output[s, k]`` is the score of row ``s`` for its k-th expert.
* ``combine``: (weights, routing, rows of expert 0, rows of expert 1, ...). The results of the
  experts of each row, times its weights, added up.

A routing is an input of whole numbers ``[rows, k]``, which is bound to a run and never streamed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from stepsim.errors import CompileError

if TYPE_CHECKING:
    from stepsim.design.operators.graph import OperatorGraph
    from stepsim.design.operators.types import Op, Operand

ROUTED: Final = ("dispatch", "choose", "combine")
"""Kinds of operators that read a routing, as operand 1."""


@dataclass(frozen=True, slots=True)
class RoutedRows:
    """Rows of a tensor that a routing chooses.

    Attributes
    ----------
    routing : name of the routing.
    expert : whose rows they are; None in the result of a dispatch, whose first axis says it.
    axis : of the tensor, along which the rows lie.
    most : declared maximum.
    """

    routing: str
    expert: int | None
    axis: int
    most: int

    def __str__(self) -> str:
        whose = "each expert" if self.expert is None else f"expert {self.expert}"
        return f"rows of {whose} by '{self.routing}', at most {self.most}"


def routing_of(op: Op) -> str:
    """The routing that an operator of :data:`ROUTED` reads."""
    return op.inputs[1].tensor


def expert_slots(op: Op) -> range:
    """Operands of a combination that are rows of experts, expert 0 first."""
    return range(2, len(op.inputs))


def bounds_of(graph: OperatorGraph, routing: str) -> tuple[int, int]:
    """Experts of a routing, and the declared maximum of rows of each."""
    experts, most = 0, graph.tensors[routing].shape[0]
    for op in graph.ops:
        if op.kind in ROUTED and routing_of(op) == routing:
            experts = _experts(op)
            if op.kind == "dispatch":
                most = min(most, op.sizes[op.attributes["row"]])
    return experts, most


def routed_rows(graph: OperatorGraph) -> dict[str, RoutedRows]:
    """Tensors whose rows a routing chooses, by name.

    Raises
    ------
    CompileError : an operator mixes such rows with others, adds them up, moves them to another
        place, or is of a kind that does not treat all rows the same.
    """
    return _Rows(graph).found


def dynamic_dims(graph: OperatorGraph) -> dict[str, str]:
    """The dim of each operator that runs over rows of one expert, by name of the operator."""
    return _Rows(graph).dims


def check_routed(graph: OperatorGraph) -> None:
    """Refuse a graph whose operators of routed rows are not well formed; see `routed_rows`."""
    if any(op.kind in ROUTED for op in graph.ops):
        _Rows(graph)


class _Rows:
    """Routed rows, followed from dispatch to combine."""

    def __init__(self, graph: OperatorGraph) -> None:
        self.graph = graph
        self.found: dict[str, RoutedRows] = {}
        self.dims: dict[str, str] = {}
        for op in graph.ops:
            if op.kind in ROUTED:
                _check_operands(graph, op)
            if op.kind == "dispatch":
                most = op.sizes[op.attributes["row"]]
                self.found[op.output.tensor] = RoutedRows(routing_of(op), None, 1, most)
            elif op.kind == "combine":
                self._combined(op)
            else:
                self._through(op)
        for tensor in graph.with_role("output"):
            if tensor.name in self.found:
                raise CompileError(
                    f"operator graph '{graph.name}': output '{tensor.name}' has "
                    f"{self.found[tensor.name]}; combine the experts' rows before they are stored"
                )

    def _combined(self, op: Op) -> None:
        for expert, slot in enumerate(expert_slots(op)):
            name = op.inputs[slot].tensor
            rows = self.found.get(name)
            if rows is None or (rows.routing, rows.expert) != (routing_of(op), expert):
                has = "all its rows" if rows is None else str(rows)
                op.refuse(
                    f"operand {slot}, '{name}', has {has}, expected rows of expert {expert} by "
                    f"'{routing_of(op)}'", "give the results of the experts in their order",
                )  # fmt: skip
        for operand in (op.inputs[0], op.inputs[1]):
            if operand.tensor in self.found:
                op.refuse(f"'{operand.tensor}' has {self.found[operand.tensor]}",
                        "give a tensor with all rows")  # fmt: skip

    def _through(self, op: Op) -> None:
        """An operator of which some operands have routed rows: the result has the same."""
        read = [(at, self._of(op, at)) for at in op.inputs if at.tensor in self.found]
        if not read:
            return
        if op.kind != "generic":
            name = read[0][0].tensor
            op.refuse(
                f"{op.kind} reads '{name}', which has {self.found[name]}",
                "only generic operators and combine do",
            )  # fmt: skip
        rows, dim = read[0][1]
        for operand, other in read[1:]:
            if other != (rows, dim):
                op.refuse(
                    f"'{read[0][0].tensor}' has {rows} along {dim}, '{operand.tensor}' has "
                    f"{other[0]} along {other[1]}", "compute with rows of one expert at a time",
                )  # fmt: skip
        for operand in op.inputs:
            if operand.tensor not in self.found and dim in operand.dims:
                op.refuse(
                    f"'{operand.tensor}' has all its rows, but is read along {dim}, which runs "
                    f"over {rows}", "dispatch it by the same routing",
                )  # fmt: skip
        axes = [axis for axis, index in enumerate(op.output.access) if index.coefficient(dim)]
        if len(axes) != 1 or op.output.access[axes[0]].dim != dim:
            op.refuse(f"{op.output} merges or adds up {rows}", "keep rows in an axis of their own")
        if len(op.output.access) < 2:
            op.refuse(
                f"{op.output} is a number for each of {rows}, found no columns",
                "reduce rows before dispatch or after combine",
            )  # fmt: skip
        self.dims[op.name] = dim
        self.found[op.output.tensor] = RoutedRows(rows.routing, rows.expert, axes[0], rows.most)

    def _of(self, op: Op, operand: Operand) -> tuple[RoutedRows, str]:
        """Whose rows an operand has, and the dim along which it reads them."""
        rows = self.found[operand.tensor]
        dim = operand.access[rows.axis].dim
        if dim is None or op.sizes[dim] != rows.most:
            op.refuse(
                f"{operand} does not read {rows} from the first to the last along one dim",
                "do not slice, merge or split the axis of routed rows",
            )  # fmt: skip
        if rows.expert is not None:
            return RoutedRows(rows.routing, rows.expert, 0, rows.most), dim
        expert = operand.access[0]
        if expert.terms:
            op.refuse(f"{operand} reads rows of several experts", "select one expert")
        return RoutedRows(rows.routing, expert.offset, 0, rows.most), dim


_PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "dispatch": (".n", ".."),
    "choose": ("s.", "sk"),
    "combine": ("sk", ".."),
}
"""For the first two operands, an axis each: "." where the routing says the position, else a dim."""


def _check_operands(graph: OperatorGraph, op: Op) -> None:
    """Shapes and positions of an operator of :data:`ROUTED`."""
    routing = graph.tensors[routing_of(op)]
    if len(routing.shape) != 2 or routing.role != "input":
        op.refuse(f"the routing is {routing}", "give an input of whole numbers [rows, k]")
    rows, k = routing.shape
    experts = _experts(op)
    if k > experts:
        op.refuse(f"each row of '{routing.name}' goes to {k} of {experts} experts",
                "give as many experts at least")  # fmt: skip
    shapes: dict[str, tuple[int | None, ...]] = {
        "dispatch": (rows, None), "choose": (rows, experts), "combine": (rows, k),
    }  # fmt: skip
    first = graph.tensors[op.inputs[0].tensor]
    wanted = shapes[op.kind]
    if len(first.shape) != 2 or any(
        w not in (None, size) for w, size in zip(wanted, first.shape, strict=True)
    ):
        sizes = "x".join("any" if w is None else str(w) for w in wanted)
        op.refuse(f"operand 0 is {first}, expected {sizes} by {routing}", "check the shapes")
    for slot, operand in enumerate(op.inputs):
        places = _PLACES[op.kind][slot] if slot < 2 else ".n"
        for place, index in zip(places, operand.access, strict=True):
            fits = index == type(index)() if place == "." else index.dim is not None
            if not fits:
                op.refuse(f"{operand} is read in parts", "read it whole; copy views before")
    if op.kind != "dispatch":
        row, slot_dim = op.attributes["row"], op.attributes["slot"]
        if (op.sizes[row], op.sizes[slot_dim]) != (rows, k):
            op.refuse(f"{row} and {slot_dim} do not run over {rows} rows of {k} experts",
                    f"use the sizes of '{routing.name}'")  # fmt: skip


def _experts(op: Op) -> int:
    if op.kind == "dispatch":
        return op.sizes[op.attributes["expert"]]
    return len(expert_slots(op)) if op.kind == "combine" else int(op.attributes["experts"])
