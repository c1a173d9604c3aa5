"""Which tiles lie in on-chip memory: those that are put there, and moved on from there.

Of a FIFO this is a flag, or of one that carries tuples the flags of their parts. Flags of tuples
are kept as tuples, which share what is equal: a few nested ones have millions of members.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stepsim.graph import (
    Buffer,
    Compute,
    ElementType,
    LinearLoad,
    RandomLoad,
    TupleType,
    Wiring,
    Zip,
)
from stepsim.kernels import Payload
from stepsim.simulation.outcome.token_bytes import payload_of, token_sizes

Lies: TypeAlias = "bool | tuple[Lies, ...]"
"""Whether a tile lies on chip; of a tuple, of each of its parts."""


def puts_on_chip(operator: Any) -> bool:
    """Whether the tiles that it makes are in on-chip memory, from which they are loaded."""
    loads = isinstance(operator, LinearLoad | RandomLoad)
    return loads or bool(getattr(operator, "write_back", False))


def carries_buffers(wiring: Wiring, fifos: Iterable[int]) -> bool:
    """Whether one of the FIFOs has references to buffers."""
    return any(isinstance(wiring.fifos[fifo].stream.type, Buffer) for fifo in fifos)


def lies_on_chip(wiring: Wiring) -> list[Lies]:
    """Of every FIFO, what of its tokens lies in on-chip memory."""
    lies: list[Lies] = [False] * len(wiring.fifos)
    passing = []
    for unit in wiring.units:
        if puts_on_chip(unit.operator):
            for fifo in unit.outputs:
                lies[fifo] = True
        elif not isinstance(unit.operator, Compute) and not carries_buffers(wiring, unit.inputs):
            passing.append(unit)
    again = True
    while again:
        again = False
        for unit in passing:
            parts = tuple(lies[fifo] for fifo in unit.inputs)
            passed: Lies = False
            if isinstance(unit.operator, Zip):
                passed = _uniform(parts)
            else:
                for one in parts:
                    passed = _joined(passed, one)
            for fifo in unit.outputs:
                found = _joined(lies[fifo], passed)
                again |= found != lies[fifo]
                lies[fifo] = found
    return lies


def static_bytes(element: ElementType, lies: Lies) -> int:
    """On-chip bytes of a token of a type whose payload is known."""
    known: dict[tuple[int, int], int] = {}

    def counted(element: ElementType, lies: Lies) -> int:
        if isinstance(lies, bool):
            return (payload_of(element) or 0) * lies
        assert isinstance(element, TupleType)
        key = id(element), id(lies)
        if key not in known:
            known[key] = sum(map(counted, element.parts, lies))
        return known[key]

    return counted(element, lies)


def measured_bytes(slots: NDArray[np.void], tokens: NDArray[np.void], lies: Lies) -> int:
    """On-chip bytes of tokens that a run has kept."""
    if isinstance(lies, bool):
        return int(token_sizes(slots, tokens, (Payload.TUPLE,)).sum()) if lies else 0
    first = tokens["value"].astype(np.int64) + 1
    return sum(measured_bytes(slots, slots[first + place], one) for place, one in enumerate(lies))


def _uniform(parts: tuple[Lies, ...]) -> Lies:
    """The flags of a tuple; one flag if all parts have it."""
    first = parts[0]
    alike = isinstance(first, bool) and all(one is first for one in parts)
    return first if alike else parts


def _joined(one: Lies, other: Lies) -> Lies:
    """What lies on chip of tokens that come from both."""
    if isinstance(one, bool) or isinstance(other, bool):
        known = one if isinstance(other, bool) else other
        return True if one is True or other is True else known
    return _uniform(tuple(map(_joined, one, other)))
