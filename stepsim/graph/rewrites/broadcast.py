"""Broadcast inference: a stream with several readers needs one copy operator.

FIFOs are one-to-one, so every output read k >= 2 times gets one k-way Broadcast whose output j
goes to reader j, in the order in which the readers were created. Explicit broadcasts are unchanged.
Feedback placeholders are followed to their streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepsim.frozen import frozen
from stepsim.graph.stream import Stream

if TYPE_CHECKING:
    from stepsim.graph.operator import Operator
    from stepsim.graph.programs.program import Program


@frozen
class Reader:
    """One input of one operator."""

    operator: Operator
    position: int


def resolved(stream: Stream) -> Stream:
    """The stream itself, or the stream to which its feedback placeholder is connected."""
    while (behind := stream.producer.loops_back()) is not None:
        stream = behind
    return stream


def readers_by_output(program: Program) -> dict[tuple[int, int], list[Reader]]:
    """Readers of every (operator id, output), in creation order."""
    found: dict[tuple[int, int], list[Reader]] = {}
    for op in program.operators:
        for position, stream in enumerate(op.inputs):
            found.setdefault(resolved(stream).key, []).append(Reader(op, position))
    return found
