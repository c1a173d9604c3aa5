"""Check what the user assumed against the streams of a finished run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepsim.errors import AssumptionError
from stepsim.functional.measure import sizes_of
from stepsim.functional.symbols import Symbols, broken_assumption
from stepsim.functional.values import Token
from stepsim.graph import Stream, Wiring
from stepsim.kernels.driver import Execution

__all__ = ["check_assumptions"]


def check_assumptions(
    wiring: Wiring, execution: Execution, bindings: Mapping[Any, Any] | None
) -> AssumptionError | None:
    """The first ``assume_equal`` or ``assume_shape`` that the measured dims contradict.

    Needs an execution that kept its history.
    """

    def measure(stream: Stream) -> tuple[list[list[int]], list[Token]]:
        channel = execution.channels[wiring.channel_of(stream)]
        first = int(channel["start"])
        levels = execution.slots["level"][first : first + int(channel["sent"])]
        return sizes_of(levels.tolist(), stream.rank), []

    symbols = Symbols(wiring.program, measure, dict(bindings or {}))
    return broken_assumption(wiring.program.assumptions, symbols)[0]
