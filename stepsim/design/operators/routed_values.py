"""Values of operators that read a routing, computed by numpy.

Rows that an expert does not have are NaN, so that none of them can pass for a result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stepsim.design.operators.given import numbers_of
from stepsim.design.operators.routed import expert_slots, routing_of
from stepsim.errors import CompileError

if TYPE_CHECKING:
    from stepsim.design.operators.types import Op

Array: TypeAlias = NDArray[Any]


def indices_of(routing: str, given: Any, experts: int, where: str) -> NDArray[np.int64]:
    """The experts of each row, as whole numbers ``[rows, k]``.

    Raises
    ------
    CompileError : an entry is not a whole number, not an expert, or occurs twice in a row.
    """
    array = numbers_of(f"{where}: experts of '{routing}'", given)
    with np.errstate(invalid="ignore"):
        whole = array.astype(np.int64)
    wrong = np.argwhere((whole != array) | (whole < 0) | (whole >= experts))
    if wrong.size:
        row, slot = (int(i) for i in wrong[0])
        raise CompileError(
            f"{where}: row {row}, slot {slot} of '{routing}' is {array[row, slot]:g}, which is not "
            f"an expert; use whole numbers from 0 to {experts - 1}"
        )
    ordered = np.sort(whole, axis=1)
    twice = np.argwhere(ordered[:, 1:] == ordered[:, :-1])
    if twice.size:
        row = int(twice[0][0])
        raise CompileError(
            f"{where}: row {row} of '{routing}' names an expert twice, {whole[row].tolist()}; "
            "give distinct experts"
        )
    return whole


def shaped(routing: str, given: Any, shape: tuple[int, ...], where: str) -> Array:
    """Indices in the shape of a routing, whose axes of size 1 may be missing.

    Raises
    ------
    CompileError : they are of another shape.
    """
    array = numbers_of(f"{where}: experts of '{routing}'", given)
    if [n for n in array.shape if n > 1] != [n for n in shape if n > 1]:
        raise CompileError(f"{where}: '{routing}' has shape {array.shape}, expected {shape}")
    return array.reshape(shape)


def check_counts(routing: str, counts: Sequence[int], most: int, where: str) -> None:
    """Refuse a routing that sends an expert more rows than the declared maximum.

    Raises
    ------
    CompileError : it does; names the expert, its rows and the maximum.
    """
    for expert, count in enumerate(counts):
        if count > most:
            raise CompileError(
                f"{where}: '{routing}' sends {count} rows to expert {expert}, but at most {most} "
                "are declared; compile with a larger max_rows, or drop rows of that expert"
            )


def rows_of(indices: NDArray[np.int64], expert: int) -> NDArray[np.intp]:
    """Rows that go to an expert, in their order."""
    return np.flatnonzero((indices == expert).any(axis=1))


def _dispatch(op: Op, inputs: Sequence[Array], target: Array) -> None:
    x, routing = inputs
    experts, most = op.sizes[op.attributes["expert"]], op.sizes[op.attributes["row"]]
    indices = indices_of(routing_of(op), routing, experts, op.title())
    counts = np.bincount(indices.ravel(), minlength=experts)
    check_counts(routing_of(op), counts.tolist(), most, op.title())
    target[...] = np.nan
    for expert in range(experts):
        rows = rows_of(indices, expert)
        target[expert, : len(rows)] = x[rows]


def _choose(op: Op, inputs: Sequence[Array], target: Array) -> None:
    scores, routing = inputs
    indices = indices_of(routing_of(op), routing, op.attributes["experts"], op.title())
    target[...] = np.take_along_axis(scores, indices, axis=1)


def _combine(op: Op, inputs: Sequence[Array], target: Array) -> None:
    weights, routing = inputs[:2]
    slots = expert_slots(op)
    indices = indices_of(routing_of(op), routing, len(slots), op.title())
    target[...] = 0
    for expert, slot in enumerate(slots):
        rows = rows_of(indices, expert)
        factors = weights[rows][indices[rows] == expert]
        target[rows] += factors[:, None] * inputs[slot][: len(rows)]


ROUTED_VALUES: Final[Mapping[str, Callable[[Op, Sequence[Array], Array], None]]] = {
    "dispatch": _dispatch, "choose": _choose, "combine": _combine,
}  # fmt: skip
