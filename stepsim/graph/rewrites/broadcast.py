"""Broadcast inference: a stream with several readers needs one copy operator.

FIFOs are one-to-one, so every output read k >= 2 times gets one k-way Broadcast whose output j
goes to reader j, in the order in which the readers were created. Explicit broadcasts are unchanged.
Feedback placeholders are followed to their streams. Of a stream with several readers on another
chip, one copy goes to that chip and is copied again there.
"""

from __future__ import annotations

from collections.abc import Sequence
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


def chip_of_copy(readers: Sequence[Reader], chip: int) -> int:
    """The chip of the operator that copies a stream from a chip for its readers.

    It is that of the producer, or that of the readers where they are all on one other chip.
    """
    chips = {reader.operator.chip for reader in readers}
    return chips.pop() if len(chips) == 1 else chip


def by_chip(readers: Sequence[Reader], chip: int) -> list[list[Reader]]:
    """The readers that get one output each of a copy operator on a chip, by output.

    Those on its own chip get theirs directly, those on another chip one together.
    """
    groups: list[list[Reader]] = []
    there: dict[int, list[Reader]] = {}
    for reader in readers:
        if reader.operator.chip == chip:
            groups.append([reader])
        elif reader.operator.chip in there:
            there[reader.operator.chip].append(reader)
        else:
            there[reader.operator.chip] = group = [reader]
            groups.append(group)
    return groups
