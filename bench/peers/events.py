"""The network on an event queue in plain Python: a heap of times, and units as generators.

A unit yields the time at which it goes on. A FIFO has the cycles in which its tokens can be seen
and in which its slots are free again; a unit that finds neither sleeps until the other end adds
one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from heapq import heappop, heappush

from bench.peers.description import Description, Unit

__all__ = ["simulate"]

_Process = Generator[int, None, None]
_ASLEEP = -1


class _Simulator:
    def __init__(self) -> None:
        self.now = 0
        self.events: list[tuple[int, int, _Process]] = []
        self.count = 0
        self.running: _Process

    def wake(self, process: _Process, when: int) -> None:
        self.count += 1
        heappush(self.events, (when, self.count, process))

    def run(self) -> int:
        """Time of the last event."""
        events = self.events
        while events:
            self.now, _, process = heappop(events)
            self.running = process
            when = next(process, _ASLEEP)
            if when != _ASLEEP:
                self.wake(process, when)
        return self.now


class _Cells:
    """Cycles from which cells can be used, and the one process that may wait for a cell."""

    def __init__(self, simulator: _Simulator, free: int = 0) -> None:
        self.simulator = simulator
        self.times = deque([0] * free)
        self.waiting: _Process | None = None

    def add(self) -> None:
        """One more, from the next cycle on."""
        when = self.simulator.now + 1
        self.times.append(when)
        if self.waiting is not None:
            self.simulator.wake(self.waiting, when)
            self.waiting = None

    def get(self) -> _Process:
        if not self.times:
            self.waiting = self.simulator.running
            yield _ASLEEP
        when = self.times.popleft()
        if when > self.simulator.now:
            yield when


class _Fifo:
    def __init__(self, simulator: _Simulator, depth: int) -> None:
        self.tokens = _Cells(simulator)
        self.slots = _Cells(simulator, depth)


def _source(simulator: _Simulator, unit: Unit, fifos: list[_Fifo]) -> _Process:
    out = fifos[unit.outputs[0]]
    for _ in range(unit.tokens):
        yield from out.slots.get()
        out.tokens.add()
        yield simulator.now + 1


def _stage(simulator: _Simulator, unit: Unit, fifos: list[_Fifo]) -> _Process:
    inputs = [fifos[c] for c in unit.inputs]
    outputs = [fifos[c] for c in unit.outputs]
    takes_first = unit.kind in ("flatten", "broadcast")
    while True:
        for fifo in inputs:
            yield from fifo.tokens.get()
        if takes_first:
            for fifo in inputs:
                fifo.slots.add()
        if unit.cycles:
            yield simulator.now + unit.cycles
        for fifo in outputs:
            yield from fifo.slots.get()
        for fifo in outputs:
            fifo.tokens.add()
        if not takes_first:
            for fifo in inputs:
                fifo.slots.add()


def _sink(simulator: _Simulator, unit: Unit, fifos: list[_Fifo]) -> _Process:
    data = fifos[unit.inputs[0]]
    while True:
        yield from data.tokens.get()
        data.slots.add()
        yield simulator.now + 1


def simulate(network: Description) -> int:
    """Cycles of a run."""
    simulator = _Simulator()
    fifos = [_Fifo(simulator, depth) for depth in network.depths]
    for unit in network.units:
        make = {"source": _source, "sink": _sink}.get(unit.kind, _stage)
        simulator.wake(make(simulator, unit, fifos), 0)
    return simulator.run()
