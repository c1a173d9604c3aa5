"""Record the order decisions of a timing run, for the evaluation of values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepsim.errors import EvaluationError
from stepsim.functional import Decisions
from stepsim.graph import Program, Wiring
from stepsim.graph.ops.routing import EagerMerge, Reassemble
from stepsim.kernels.driver import Execution, execute
from stepsim.kernels.layout import Status
from stepsim.lowering import Image, build_image, lower
from stepsim.machine import Machine, load_machine

__all__ = ["decisions_of", "record_decisions"]


def record_decisions(
    program: Program,
    *,
    machine: Machine | str = "sda-1024",
    bindings: Mapping[Any, Any] | None = None,
    fifo_depth: int | None = None,
) -> Decisions:
    """Simulate a finished program and note who came first, wherever that was open.

    Parameters are those of :func:`stepsim.simulation.simulate`. All tokens of the run are kept in
    memory.

    Raises
    ------
    EvaluationError
        The run failed or got stuck; ``simulate`` tells why.
    """
    target = machine if isinstance(machine, Machine) else load_machine(machine)
    wiring, network = lower(program, target, bindings, fifo_depth)
    image = build_image(network)
    execution = execute(image, history=True)
    failed = int((execution.units["state"] == Status.FAILED).sum())
    if failed or not execution.finished:
        state = f"{failed} failed units" if failed else "a deadlock"
        raise EvaluationError(
            f"program '{program.name}': the timing run ended with {state}, so that its decisions "
            "are incomplete. See the diagnosis of stepsim.simulate(program)"
        )
    return decisions_of(wiring, image, execution)


def decisions_of(wiring: Wiring, image: Image, execution: Execution) -> Decisions:
    """Decisions of a run that kept its history."""

    def tokens(channel: int) -> NDArray[np.void]:
        record = execution.channels[channel]
        begin = int(record["start"])
        return execution.slots[begin : begin + int(record["sent"])]

    def selected(channel: int) -> list[tuple[int, ...]]:
        return [image.selectors[value][1] for value in tokens(channel)["value"]]

    merges: dict[int, tuple[int, ...]] = {}
    joins: dict[int, tuple[tuple[int, ...], ...]] = {}
    for unit in wiring.units:
        op = unit.operator
        if isinstance(op, EagerMerge):
            merges[op.id] = tuple(chosen[0] for chosen in selected(unit.outputs[1]))
        elif isinstance(op, Reassemble):
            arrivals = [_arrivals(tokens(c), op.rank) for c in unit.inputs[:-1]]
            joins[op.id] = _orders(selected(unit.inputs[-1]), arrivals)
    return Decisions(merges, joins, wiring.program.fingerprint())


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
