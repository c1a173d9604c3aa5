"""The description of a network that peers read: kinds, cycles of work, FIFOs; not of stepsim."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from stepsim.kernels import Execution
from stepsim.lowering import Network

__all__ = ["KINDS", "Description", "Unit", "describe"]

KINDS: Final = ("source", "map", "flatten", "broadcast", "join", "sink")
"""By number, as in network.hpp."""

_KIND_OF: Final = {
    "Gen": "source",
    "UnaryMap": "map",
    "Flatten": "flatten",
    "Broadcast": "broadcast",
    "BinaryMap": "join",
    "Consumer": "sink",
}


@dataclass(frozen=True, slots=True)
class Unit:
    """``cycles`` of work for each firing; ``tokens`` that a source sends."""

    kind: str
    cycles: int
    tokens: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Description:
    """Units joined by FIFOs of given depths, whose forward and return latency is one cycle."""

    units: tuple[Unit, ...]
    depths: tuple[int, ...]

    def text(self) -> str:
        """What the C++ peers read."""
        lines = [f"{len(self.units)} {len(self.depths)}", " ".join(map(str, self.depths))]
        for unit in self.units:
            head = (KINDS.index(unit.kind), unit.cycles, unit.tokens)
            ends = (len(unit.inputs), len(unit.outputs), *unit.inputs, *unit.outputs)
            lines.append(" ".join(map(str, (*head, *ends))))
        return "\n".join(lines) + "\n"


def describe(network: Network, run: Execution) -> Description:
    """The network, with the work of a firing as the engine's run of it has it."""
    units = []
    for spec, record in zip(network.units, run.units, strict=True):
        kind = _KIND_OF[spec.op]
        cycles, rest = divmod(int(record["busy"]), int(record["fires"]))
        if rest and kind not in ("source", "sink"):
            raise ValueError(f"{spec.op} '{spec.name}' does not work equally long for every token")
        tokens = len(spec.params["tokens"]) if kind == "source" else 0
        units.append(Unit(kind, cycles, tokens, spec.inputs, spec.outputs))
    depths = [channel.capacity for channel in network.channels]
    if None in depths:
        raise ValueError("the peers have bounded FIFOs only")
    return Description(tuple(units), tuple(int(np.int64(depth)) for depth in depths if depth))
