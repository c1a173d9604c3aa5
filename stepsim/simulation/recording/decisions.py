"""Read the order decisions of a timing run, for the evaluation of values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stepsim.functional import Decisions
from stepsim.graph import EagerMerge, Reassemble, Wiring

if TYPE_CHECKING:
    from stepsim.simulation.running.image_run import ImageRun


def decisions_of(wiring: Wiring, run: ImageRun, program_hash: str) -> Decisions:
    """Decisions of a run that kept all tokens."""

    def selected(fifo: int) -> list[tuple[int, ...]]:
        return [run.image.selectors[value][1] for value in run.tokens(fifo)["value"]]

    merges: dict[int, tuple[int, ...]] = {}
    joins: dict[int, tuple[tuple[int, ...], ...]] = {}
    for unit in wiring.units:
        op = unit.operator
        if isinstance(op, EagerMerge):
            merges[op.id] = tuple(chosen[0] for chosen in selected(unit.outputs[1]))
        elif isinstance(op, Reassemble):
            arrivals = [_arrivals(run.tokens(c), op.rank) for c in unit.inputs[:-1]]
            joins[op.id] = _orders(selected(unit.inputs[-1]), arrivals)
    return Decisions(merges, joins, program_hash)


def _arrivals(tokens: NDArray[np.void], rank: int) -> list[int]:
    """Stamp of the first token of every chunk."""
    if rank == 0 or not len(tokens):
        return [int(stamp) for stamp in tokens["stamp"]]
    first = np.concatenate(([True], tokens["level"][:-1] >= rank))
    return [int(stamp) for stamp in tokens["stamp"][first]]


def _orders(
    selectors: list[tuple[int, ...]], arrivals: list[list[int]]
) -> tuple[tuple[int, ...], ...]:
    """Per selector its inputs by arrival of their next chunk; the lower index wins a tie."""
    used = [0] * len(arrivals)
    orders: list[tuple[int, ...]] = []
    for chosen in selectors:
        stamps = {index: arrivals[index][used[index]] for index in chosen}
        orders.append(tuple(sorted(chosen, key=lambda index: (stamps[index], index))))
        for index in chosen:
            used[index] += 1
    return tuple(orders)
