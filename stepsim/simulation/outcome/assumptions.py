"""Check what the user assumed against the streams of a finished run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stepsim.errors import AssumptionError
from stepsim.functional import Sizes, Symbols, Token, broken_assumption, sizes_of, streams_of
from stepsim.graph import Bindings, Dim, Program, Stream, Wiring
from stepsim.kernels import Execution


class AssumptionCheck:
    """Checks whether the assumptions of a program hold in a run.

    Attributes
    ----------
    keep : FIFOs whose tokens the execution has to keep.
    """

    def __init__(self, wiring: Wiring) -> None:
        self._assumptions = wiring.program.assumptions
        self._streams = _deciding(wiring.program)
        self._fifos = {id(stream): wiring.fifo_of(stream) for stream in self._streams}
        self.keep = frozenset(self._fifos.values())

    def error(self, execution: Execution, indices: Bindings) -> AssumptionError | None:
        """The first ``assume_equal`` or ``assume_shape`` that the measured dims contradict."""
        channels, levels = execution.channels, execution.slots["level"]

        def measure(stream: Stream) -> tuple[list[Sizes], list[Token]]:
            record = channels[self._fifos[id(stream)]]
            first = int(record["start"])
            return sizes_of(levels[first : first + int(record["sent"])], stream.rank), []

        symbols = Symbols(self._streams, measure, indices)
        return broken_assumption(self._assumptions, symbols)[0]


def _deciding(program: Program) -> list[Stream]:
    """Streams that give every symbol of the assumptions its value, in order.

    The first stream whose outermost dim is the symbol settles it. Inner dims of an empty stream
    have no size, so that streams with the symbol further inside leave it open.
    """
    sides = [dim for stated in program.assumptions for dim in (stated.left, stated.right)]
    unsettled = {s for size in _sizes(sides) if not isinstance(size, int) for s in size.symbols()}
    found = []
    for stream in streams_of(program):
        if unsettled & _own(stream.shape):
            found.append(stream)
            unsettled -= _own(stream.shape[:1])
    return found


def _own(dims: Iterable[Dim]) -> set[Any]:
    """Symbols that are a size of these dims as they stand."""
    return {size for size in _sizes(dims) if not isinstance(size, int) and size.is_symbol}


def _sizes(dims: Iterable[Dim]) -> list[Any]:
    return [
        size
        for dim in dims
        for size in ((dim.size, dim.sum, dim.most) if dim.is_ragged else (dim.size,))
    ]
