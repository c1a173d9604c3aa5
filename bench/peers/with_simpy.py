"""The network in SimPy: a process for every unit, and two stores for every FIFO.

One store has the tokens, the other, bounded by the depth, the free slots. Either holds the cycle
from which its item can be used, which is how a FIFO gets its forward and return latency.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import simpy

from bench.peers.description import Description, Unit

__all__ = ["simulate"]

_Process = Generator[Any, Any, None]


class _Fifo:
    def __init__(self, environment: simpy.Environment, depth: int) -> None:
        self.tokens = simpy.Store(environment)
        self.slots = simpy.Store(environment, capacity=depth)
        self.slots.items.extend([0] * depth)


def _get(environment: simpy.Environment, store: simpy.Store) -> _Process:
    when = yield store.get()
    if when > environment.now:
        yield environment.timeout(when - environment.now)


def _source(environment: simpy.Environment, unit: Unit, fifos: list[_Fifo]) -> _Process:
    out = fifos[unit.outputs[0]]
    for _ in range(unit.tokens):
        yield from _get(environment, out.slots)
        out.tokens.put(environment.now + 1)
        yield environment.timeout(1)


def _stage(environment: simpy.Environment, unit: Unit, fifos: list[_Fifo]) -> _Process:
    inputs = [fifos[c] for c in unit.inputs]
    outputs = [fifos[c] for c in unit.outputs]
    takes_first = unit.kind in ("flatten", "broadcast")
    while True:
        for fifo in inputs:
            yield from _get(environment, fifo.tokens)
        if takes_first:
            for fifo in inputs:
                fifo.slots.put(environment.now + 1)
        if unit.cycles:
            yield environment.timeout(unit.cycles)
        for fifo in outputs:
            yield from _get(environment, fifo.slots)
        for fifo in outputs:
            fifo.tokens.put(environment.now + 1)
        if not takes_first:
            for fifo in inputs:
                fifo.slots.put(environment.now + 1)


def _sink(environment: simpy.Environment, unit: Unit, fifos: list[_Fifo]) -> _Process:
    data = fifos[unit.inputs[0]]
    while True:
        yield from _get(environment, data.tokens)
        data.slots.put(environment.now + 1)
        yield environment.timeout(1)


def simulate(network: Description) -> int:
    """Cycles of a run."""
    environment = simpy.Environment()
    fifos = [_Fifo(environment, depth) for depth in network.depths]
    for unit in network.units:
        make = {"source": _source, "sink": _sink}.get(unit.kind, _stage)
        environment.process(make(environment, unit, fifos))
    environment.run()
    return int(environment.now)
