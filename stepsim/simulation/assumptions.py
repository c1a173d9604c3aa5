"""Check what the user assumed against the streams of a finished run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stepsim.errors import AssumptionError
from stepsim.functional.measure import sizes_of
from stepsim.functional.symbols import Symbols, broken_assumption
from stepsim.functional.values import Token
from stepsim.graph import Dim, Stream, Wiring
from stepsim.graph.operator import Bindings
from stepsim.kernels.driver import Execution

__all__ = ["check_assumptions", "fifos_to_keep"]


def _symbols(dims: Iterable[Dim]) -> set[Any]:
    found: set[Any] = set()
    for dim in dims:
        sizes = (dim.expr, dim.total, dim.bound) if dim.is_ragged else (dim.expr,)
        for size in sizes:
            if not isinstance(size, int):
                found |= size.free_symbols
    return found


def fifos_to_keep(wiring: Wiring) -> frozenset[int]:
    """FIFOs whose tokens tell whether the assumptions of the program hold."""
    assumed = _symbols(
        dim for stated in wiring.program.assumptions for dim in (stated.left, stated.right)
    )
    return frozenset(
        wiring.fifo_of(stream)
        for op in wiring.program.operators
        for stream in (*op.outputs, *op.inputs)
        if assumed & _symbols(stream.shape)
    )


def check_assumptions(
    wiring: Wiring, execution: Execution, indices: Bindings
) -> AssumptionError | None:
    """The first ``assume_equal`` or ``assume_shape`` that the measured dims contradict.

    Needs an execution that kept the tokens of :func:`fifos_to_keep`.
    """
    kept = fifos_to_keep(wiring)

    def measure(stream: Stream) -> tuple[list[list[int]], list[Token]] | None:
        number = wiring.fifo_of(stream)
        if number not in kept:
            return None
        record = execution.channels[number]
        first = int(record["start"])
        levels = execution.slots["level"][first : first + int(record["sent"])]
        return sizes_of(levels.tolist(), stream.rank), []

    symbols = Symbols(wiring.program, measure, indices)
    return broken_assumption(wiring.program.assumptions, symbols)[0]
