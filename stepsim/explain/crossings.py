"""The packets of a recorded run of a placed program, or the messages between chips: when they were
created, what they waited for.

A packet crosses its route in the time that it takes alone, and in the waits of its last segment for
ports; the two together lead from its creation to its arrival. A message waits for links.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from stepsim.lowering import MULTICAST, RECEIVE, RECEIVE_MESSAGE, SEND, SEND_MESSAGE
from stepsim.simulation import ImageRun, Record


class Crossing(NamedTuple):
    """One packet or message.

    Attributes
    ----------
    sender, begin : unit that sent it, and when.
    fifo : in which it is received.
    waits : for ports of its route: number of the route or the tree, number of the port on it, begin
        and end, in the order of time.
    """

    sender: int
    begin: int
    fifo: int
    waits: list[tuple[int, int, int, int]]


class Crossings:
    """All packets of a run, by the unit that received them and the end of its wait."""

    def __init__(self, run: ImageRun, record: Record) -> None:
        ops, execution = run.image.unit_ops, run.execution
        self._record = record
        self._fifos = {int(unit): fifo for fifo, unit in enumerate(record.producers)}
        # Routes are numbered in the order of the units that send; behind a tree come its readers.
        routes: dict[int, tuple[int, int]] = {}  # and the sender, by the FIFO under way
        count = 0
        for unit, op in enumerate(ops):
            if op in (SEND, MULTICAST, SEND_MESSAGE):
                count += op == MULTICAST
                first, outputs = (int(execution.units[unit][name]) for name in ("out0", "nout"))
                for fifo in execution.params[first : first + outputs].tolist():
                    routes[fifo] = count, unit
                    count += 1
        self._routes = {
            unit: routes[int(execution.params[int(execution.units[unit]["in0"])])]
            for unit, op in enumerate(ops)
            if op in (RECEIVE, RECEIVE_MESSAGE)
        }

    def of(self, receiver: int, end: int) -> Crossing:
        """The packet for which a unit waited until it sent it on, a cycle before its arrival."""
        route, sender = self._routes[receiver]
        number = self._numbers[route, end + 2]
        waits = self._record.port_waits[self._bounds[number] : self._bounds[number + 1]]
        begin = int(self._record.crossings["begin"][number])
        columns = (waits[name].tolist() for name in ("route", "hop", "begin", "end"))
        return Crossing(sender, begin, self._fifos[receiver], list(zip(*columns, strict=True)))

    @cached_property
    def _numbers(self) -> dict[tuple[int, int], int]:
        """Number of every packet by its route and the cycle behind its arrival; of messages that
        arrive in one cycle the first, for which its unit waits."""
        found = self._record.crossings
        numbers = np.argsort(found["begin"], kind="stable")[::-1]
        keys = zip(found["route"][numbers].tolist(), found["end"][numbers].tolist(), strict=True)
        return dict(zip(keys, numbers.tolist(), strict=True))

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
