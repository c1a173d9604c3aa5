"""Whether producers park at full FIFOs: only where paces can move a clock.

Parking (:mod:`stepsim.kernels.parking`) changes paces, and these decide two things: what a unit
that looks for arrivals finds, and when the end of a stream is noticed. Without a unit of the first
sort only ends are left. A consumer that has taken the last token of a stream sees its end at once
if the pace of the producer has not risen above the clock at which it sent that token. This holds by
induction for units that have taken the last token of every input when they send their last one. An
accumulation whose last group is incomplete has not: the run then begins again with producers that
park, as after a failure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stepsim.kernels import Parks
from stepsim.lowering.network import UnitSpec

_SENDS_LAST: Final = frozenset(
    {
        "Accum", "At", "BinaryMap", "BinaryMapAccum", "Broadcast", "Bufferize", "Consumer",
        "Flatten", "Gen", "Hold", "MetadataGen", "NaryMap", "OffChipLoad", "OffChipStore", "Paced",
        "Promote", "RandomOffChipLoad", "RandomOffChipStore", "RepeatStatic", "Scan", "SelectGen",
        "Src", "Streamify", "UnaryMap", "Zip",
    }
)  # fmt: skip
"""Operators that have no outputs, or take nothing after they have sent their last token."""


def parking_of(specs: Sequence[UnitSpec], channels: int, always: bool) -> NDArray[np.int64]:
    """How producers park at every FIFO, a number of :class:`Parks`."""
    if not always and all(spec.op in _SENDS_LAST for spec in specs):
        return np.full(channels, int(Parks.NEVER))
    parks = np.full(channels, int(Parks.TAKES))
    for spec in specs:
        if spec.op == "EagerMerge":
            parks[list(spec.inputs)] = Parks.MERGES
        elif spec.op == "Reassemble":
            parks[list(spec.inputs[:-1])] = Parks.PROBES
    return parks
