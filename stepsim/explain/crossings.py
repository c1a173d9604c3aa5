"""The packets of a recorded run of a placed program: when they were created, what they waited for.

A packet crosses its route in the time that it takes alone, and in the waits of its last segment for
ports; the two together lead from its creation to its arrival.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from stepsim.lowering import RECEIVE, SEND
from stepsim.simulation import ImageRun, Record


class Crossing(NamedTuple):
    """One packet.

    Attributes
    ----------
    sender, begin : unit that sent it, and when.
    fifo : in which it is received.
    waits : for ports of its route: number of the port on it, begin and end, in the order of time.
    """

    route: int
    sender: int
    begin: int
    fifo: int
    waits: list[tuple[int, int, int]]


class Crossings:
    """All packets of a run, by the unit that received them and the end of its wait."""

    def __init__(self, run: ImageRun, record: Record) -> None:
        ops = run.image.unit_ops
        self._record = record
        self._senders = [unit for unit, op in enumerate(ops) if op == SEND]
        self._routes = {
            unit: route
            for route, unit in enumerate(unit for unit, op in enumerate(ops) if op == RECEIVE)
        }
        self._fifos = {int(unit): fifo for fifo, unit in enumerate(record.producers)}

    def of(self, receiver: int, end: int) -> Crossing:
        """The packet for which a unit waited until it sent it on, a cycle before its arrival."""
        route = self._routes[receiver]
        number = self._numbers[route, end + 2]
        waits = self._record.port_waits[self._bounds[number] : self._bounds[number + 1]]
        begin = int(self._record.crossings["begin"][number])
        rows = zip(*(waits[name].tolist() for name in ("hop", "begin", "end")), strict=True)
        return Crossing(route, self._senders[route], begin, self._fifos[receiver], list(rows))

    @cached_property
    def _numbers(self) -> dict[tuple[int, int], int]:
        """Number of every packet by its route and the cycle behind its arrival."""
        found = self._record.crossings
        keys = zip(found["route"].tolist(), found["end"].tolist(), strict=True)
        return {key: number for number, key in enumerate(keys)}

    @cached_property
    def _bounds(self) -> list[int]:
        count = len(self._record.crossings)
        owner = self._record.port_waits["crossing"]
        bounds: list[int] = np.searchsorted(owner, np.arange(count + 1)).tolist()
        return bounds


PortName = Callable[[int, int], str]
"""Words for a port, by the number of a route and that of the port on it."""


def by_number(route: int, hop: int) -> str:
    """A port of a network of which only the units are known."""
    return f"port {hop} of route {route}"
