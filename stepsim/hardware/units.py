"""Kinds of hardware units, the FIFOs between them, and the messages that refer to stored groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import stepsim.kernels
from stepsim.arguments import Range

SIDE: Final = 16
"""Rows and columns of a hardware tile."""

KINDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({
    "wire": (),
    "fork": (),
    "map": ("interval", "latency"),
    "sum": ("rank",),
    "promote": ("rank",),
    "repeat": ("times",),
    "accumulator": ("rank",),
    "buffer": ("rank",),
    "reader": ("port", "start"),
    "writer": ("port", "last"),
    "printer": ("last",),
    "source": (),
    "sink": ("start", "period", "last"),
})  # fmt: skip
"""Kinds of units, and the integer values that describe each."""

STOPS: Final = Range(62, "dims that a message ends", low=0)
"""Range of the stop of a message."""


@dataclass(frozen=True, slots=True)
class Fifo:
    """A FIFO, written by one unit and read by one.

    Attributes
    ----------
    name : unique in its network.
    depth : messages that it holds; None: that of the machine.
    holds : kind of its messages: tiles, references to stored groups, or responses of the memory.
    """

    name: str
    depth: int | None = None
    holds: str = "tile"


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit.

    Attributes
    ----------
    name : unique in its network.
    kind : one of :data:`KINDS`.
    inputs, outputs : names of FIFOs, in the order that the kind gives them.
    values : its integers by name; absent ones are the machine's, or do not apply.
    dims : of a reader, the sizes of the stream, outermost first.
    base : of a reader or writer, the byte address of its first entry; None: the machine's.
    messages, times : of a source, the messages and the first cycle in which each is offered.
    function : of a map, what it computes, for tables; ``product`` marks units of the product rate.
    """

    name: str
    kind: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    values: Mapping[str, int] = field(default_factory=dict)
    dims: tuple[int, ...] = ()
    base: int | None = None
    messages: tuple[int, ...] = ()
    times: tuple[int, ...] = ()
    function: str = ""


def reference(number: int, release: int, stop: int) -> int:
    """A message that refers to a stored group, for sources of a test bench.

    Parameters
    ----------
    number : which group, from 0.
    release : 1 if it is the last reference to the group, else 0.
    stop : how many dims the reference ends.
    """
    number = Range((1 << 20) - 1, "stored groups", low=0).checked("reference: number", number)
    release = Range(1, "0 or 1", low=0).checked("reference: release", release)
    return int(stepsim.kernels.reference(number, release, STOPS.checked("reference: stop", stop)))
