"""The engine's memory kernel alone, driven by a small event loop in Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numba

from stepsim.kernels.calendar import pop_unit
from stepsim.kernels.driver import state_of
from stepsim.kernels.layout import INFINITY
from stepsim.kernels.memory.dispatch import advance, issue
from stepsim.lowering import Network, build_image
from tests.oracle.build import NetBuilder
from tests.oracle.memory_scenarios import Scenario

__all__ = ["MemoryHarness", "run_scenario"]


# Kernels are compiled to be called by kernels; these are called from Python.
@numba.njit
def _issue(state, port, clock, requests):
    issue(state, port, clock, requests)


@numba.njit
def _advance(state, limit):
    advance(state, limit)


@numba.njit
def _pop(state):
    return pop_unit(state)


class MemoryHarness:
    """The arrays of the memory model, as the driver makes them, and its two functions.

    Ports are those of the memory operators of ``network``, loads before stores. The cache of the
    model is that of another run of the same ports, ``used``, as that left it.
    """

    def __init__(self, network: Network, used: MemoryHarness | None = None) -> None:
        image = build_image(network)
        self.state = state_of(image, len(image.slots))
        self.g: Any = self.state.globals[0]
        if used is not None:
            words = int(self.g.memory_words)
            self.state.memory_table[words:] = used.state.memory_table[words:]
        self.port_of = {int(port["unit"]): p for p, port in enumerate(self.state.ports)}

    def issue(self, port: int, clock: int, requests: int) -> None:
        _issue(self.state, port, clock, requests)

    def completions(self, cut: Callable[[int], int] = lambda now: INFINITY) -> Iterator[Any]:
        """Yield (clock, ports completed at it); issue what follows before asking for more.

        ``cut(now)`` bounds how far one call of ``advance`` may go.
        """
        now = 0
        units, heap = self.state.units, self.state.calendar
        while True:
            due = int(units[heap[0]].evt) if self.g.calendar_length else INFINITY
            limit = min(due, max(cut(now), now))
            _advance(self.state, limit)
            if self.g.calendar_length == 0:
                if self.g.memory_active == 0 and self.g.memory_pending == 0:
                    return
                now = limit + 1
                continue
            due = int(units[heap[0]].evt)
            if due > limit:
                now = limit + 1
                continue
            now = due
            ended = []
            while self.g.calendar_length and units[heap[0]].evt == now:
                ended.append(self.port_of[int(_pop(self.state))])
            yield now, ended


class _Store:
    """A store behind a FIFO of ``depth``: stamps of what it was sent, clocks of what it took."""

    def __init__(self, port: int, depth: int, requests: Sequence[int]) -> None:
        self.port, self.depth, self.requests = port, depth, requests
        self.stamps: list[int] = []
        self.finishes: list[int] = []
        self.busy = False

    def start(self, harness: MemoryHarness) -> None:
        """Begin with the next tile, if there is one and the store is free."""
        k = len(self.finishes)
        if not self.busy and k < len(self.stamps):
            clock = max([self.stamps[k], *self.finishes[-1:]])
            harness.issue(self.port, clock, self.requests[k])
            self.busy = True

    def send_clock(self, clock: int) -> int | None:
        """When a token can be sent that is ready at ``clock``; None while the FIFO is full."""
        k = len(self.stamps)
        if k < self.depth:
            return clock
        if k - self.depth >= len(self.finishes):
            return None
        return max(clock, self.finishes[k - self.depth] + 1)


def run_scenario(scenario: Scenario) -> tuple[list[list[int]], list[list[int]]]:
    """Finish clocks of every load and of every store, in port order."""
    b = NetBuilder(scenario.timing)
    for i, load in enumerate(scenario.loads):
        b.unit(f"load{i}", "OffChipLoad", [], [f"c{i}"], tile=[1, 1], bpe=2, view=[1], par=load.par)
    stores: dict[int, _Store] = {}
    for i, load in enumerate(scenario.loads):
        if load.store:
            b.unit(f"store{i}", "OffChipStore", [f"c{i}"], [], tile=[1, 1], par=load.store.par)
            port = len(scenario.loads) + len(stores)
            stores[i] = _Store(port, load.store.depth, load.requests)
        else:
            b.unit(f"end{i}", "Consumer", [f"c{i}"], [])
    harness = MemoryHarness(b.network())
    load_of_store = {store.port: i for i, store in stores.items()}
    finishes: list[list[int]] = [[] for _ in scenario.loads]
    blocked: set[int] = set()

    def go_on(i: int, clock: int) -> None:
        """Load ``i`` sends the tile it has just fetched and begins with the next."""
        if i in stores:
            sent = stores[i].send_clock(clock)
            if sent is None:
                blocked.add(i)
                return
            blocked.discard(i)
            stores[i].stamps.append(sent + 1)
            stores[i].start(harness)
            clock = sent
        if len(finishes[i]) < len(scenario.loads[i].requests):
            harness.issue(i, clock, scenario.loads[i].requests[len(finishes[i])])

    for i, load in enumerate(scenario.loads):
        harness.issue(i, load.start, load.requests[0])
    for now, ended in harness.completions():
        for port in ended:
            if port in load_of_store:
                i = load_of_store[port]
                stores[i].finishes.append(now)
                stores[i].busy = False
                stores[i].start(harness)
                if i in blocked:
                    go_on(i, finishes[i][-1])
            else:
                finishes[port].append(now)
                go_on(port, now)
    return finishes, [store.finishes for store in stores.values()]
