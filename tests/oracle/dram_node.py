"""Ports, arbiter and request path of the memory model ``dram``, one cycle per iteration.

Nothing is skipped and nothing is counted ahead: every port has the list of addresses of each of its
accesses, every stage of the path is a list of requests, and every channel of the DRAM ticks with
every clock. The channels are those of :mod:`tests.oracle.dram`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil, prod
from typing import Any

from stepsim.kernels.memory.dram_table import ARBITERS, DramTiming, PortAccess
from tests.oracle.dram import Dram
from tests.oracle.fabric import Steps, TooLong, Unit

__all__ = ["DramNode", "DramPort", "dram_access"]

_MOST_CLOCKS = 1_000_000
"""A cycle of a slow machine has any number of them, each of which is one tick here."""


def tiles_of(access: PortAccess) -> Iterator[int]:
    """The tiles that a port visits one after the other, for ever; not for random ports."""
    while True:
        if access.dims:
            yield from _walk(access)
        else:
            yield from range(access.extent)


def _walk(access: PortAccess) -> Iterator[int]:
    for number in range(prod(access.dims)):
        tile, left = 0, number
        for dim, stride in zip(reversed(access.dims), reversed(access.strides), strict=True):
            tile += left % dim * stride
            left //= dim
        yield tile


@dataclass
class _Request:
    address: int
    write: bool
    port: DramPort
    number: int
    left: list[int] = field(default_factory=list)  # addresses that were not sent yet


@dataclass
class DramPort:
    """A memory operator's port; ``number`` is that among all ports, reads first."""

    access: PortAccess
    request_bytes: int
    number: int = -1
    bundle: int = 1
    asks: deque[tuple[int, int]] = field(default_factory=deque)  # (clock, tile that is named)
    tiles: Iterator[int] = field(default_factory=lambda: iter(()))
    lists: deque[int] = field(default_factory=deque)  # requests of tiles made ahead
    todo: deque[int] = field(default_factory=deque)  # addresses to request
    last: int = -1
    asked: int = 0
    issued: int = 0
    arrived: dict[int, int] = field(default_factory=dict)  # when each request was back
    parts: dict[int, int] = field(default_factory=dict)  # accesses of it that are to come
    first_missing: int = 0
    came: dict[int, int] = field(default_factory=dict)  # when all up to a request were back
    begun: int | None = None
    need: int = 0
    done: int | None = None
    granted: int = 0

    def __post_init__(self) -> None:
        self.tiles = tiles_of(self.access)
        if self.access.ahead:
            for _ in range(self.access.total):
                self.lists.append(self._make(next(self.tiles)))

    def _named(self, index: int) -> int:
        """The tile that an index stands for."""
        its = self.access
        return list(_walk(its))[index % prod(its.dims)] if its.dims else index % its.extent

    def _make(self, tile: int) -> int:
        """Append the requests of a tile; how many there are."""
        its, size, before = self.access, self.request_bytes, len(self.todo)
        if its.stream and tile == 0:
            self.last = -1
        for row in range(its.rows):
            begin = (
                its.base
                + (tile // its.columns * its.rows + row) * its.pitch
                + tile % its.columns * its.row_bytes
            )
            for block in range(begin // size, (begin + its.row_bytes - 1) // size + 1):
                if its.stream and block * size == self.last:
                    continue
                self.last = block * size
                self.todo.append(block * size)
        return len(self.todo) - before

    def ask(self, clock: int, named: int) -> None:
        if self.access.ahead:
            self.need = self.lists.popleft()
        else:
            tile = self._named(named) if self.access.random else next(self.tiles)
            self.need = self._make(tile)
        self.asked += self.need
        self.begun = clock

    def wants(self, outstanding: int) -> bool:
        if not self.todo:
            return False
        if self.access.write:
            return self.issued < self.asked
        return (
            self.issued - self.asked < self.access.ahead
            and self.issued - self.first_missing < outstanding
        )

    def complete(self, cycle: int) -> None:
        assert self.begun is not None
        self.done = max(cycle, self.begun + ceil(self.need / self.bundle))
        self.begun = None

    def arrive(self, number: int, cycle: int, response: int) -> None:
        self.parts[number] -= 1
        if self.parts[number]:
            return
        self.arrived[number] = cycle
        while self.first_missing in self.arrived:
            self.came[self.first_missing] = cycle
            self.first_missing += 1
        if self.begun is not None and self.first_missing >= self.asked:
            # Where that was so before, the access is over already.
            self.complete(cycle + response)


class DramNode:
    """``clk`` is the cycle that :meth:`cycle` runs next."""

    def __init__(self, timing: DramTiming) -> None:
        self.spec, self.front = timing.spec, timing.front
        self.dram = Dram(timing.spec)
        self.clk = 0
        self.readers: list[DramPort] = []
        self.writers: list[DramPort] = []
        self.stages: list[list[_Request]] = [[] for _ in range(self.front.request_latency)]
        self.tags: list[tuple[DramPort, int]] = []
        self.pointer = self.front.first
        self.grants = 0

    def attach(self, access: PortAccess, bundle: int) -> DramPort:
        port = DramPort(access, self.front.request_bytes, bundle=bundle)
        (self.writers if access.write else self.readers).append(port)
        return port

    @property
    def ports(self) -> list[DramPort]:
        return self.readers + self.writers

    @property
    def pending(self) -> bool:
        """Whether an access is under way that can ever end."""
        if not any(port.asks or port.begun is not None for port in self.ports):
            return False
        return self.clk < 10**5

    def cycle(self) -> None:
        t, front = self.clk, self.front
        ports = self.ports
        if t == 0:
            self.pointer %= max(1, len(ports))
        for number, port in enumerate(ports):
            port.number = number
            while port.asks and port.asks[0][0] < t:
                self._begin(port, *port.asks.popleft())
        if t > 0:
            before = [len(stage) for stage in self.stages]
            self._offer((t - 1) * front.clocks // front.cycles)
            for i in range(len(self.stages) - 1, 0, -1):
                room = 2 * front.width - before[i]
                for _ in range(min(front.width, before[i - 1], room)):
                    self.stages[i].append(self.stages[i - 1].pop(0))
            self._arbitrate(2 * front.width - before[0], t)
            first = (t - 1) * front.clocks // front.cycles + 1
            last = t * front.clocks // front.cycles
            if last > _MOST_CLOCKS:
                raise TooLong(f"no end after {_MOST_CLOCKS} clocks of the DRAM")
            for clock in range(first, last + 1):
                for tag in self.dram.tick(clock):
                    port, number = self.tags[tag]
                    port.arrive(number, t, front.response_latency)
        self.clk += 1

    def _begin(self, port: DramPort, clock: int, named: int) -> None:
        port.ask(clock, named)
        if port.access.write:
            if port.issued == port.asked:
                port.complete(clock + 1)
        elif port.first_missing >= port.asked:
            came = port.came[port.asked - 1] + self.front.response_latency
            port.complete(max(came, clock + 1))

    def _offer(self, stamp: int) -> None:
        stage, left = self.stages[-1], self.front.width
        for request in list(stage):
            if left == 0:
                break
            while request.left and self._sent(request, stamp):
                del request.left[0]
            if not request.left:
                stage.remove(request)
                left -= 1
            elif self.front.head_of_line:
                break

    def _sent(self, request: _Request, stamp: int) -> bool:
        self.tags.append((request.port, request.number))
        return self.dram.send(stamp, request.left[0], request.write, len(self.tags) - 1)

    def _arbitrate(self, room: int, t: int) -> None:
        kind, ports = ARBITERS[self.front.arbiter], self.ports
        for _ in range(self.front.width):
            wanting = [p for p in ports if p.wants(self.front.outstanding)]
            if not wanting or (room <= 0 and kind != "rotating"):
                break
            if kind == "fair":
                chosen = min(wanting, key=lambda p: (p.granted, p.number))
            else:
                chosen = min(wanting, key=lambda p: (p.number - self.pointer) % len(ports))
                self.pointer = (chosen.number + 1) % len(ports)
            if room > 0:
                self._grant(chosen, t)
                room -= 1

    def _grant(self, port: DramPort, t: int) -> None:
        address = port.todo.popleft() + port.access.mark
        parts = [address + i * self.spec.access_bytes for i in range(self.front.parts)]
        self.stages[0].append(_Request(address, port.access.write, port, port.issued, parts))
        port.parts[port.issued] = self.front.parts
        port.issued += 1
        self.grants += 1
        port.granted = self.grants
        if port.access.write and port.begun is not None and port.issued == port.asked:
            port.complete(t)


def dram_access(u: Unit, named: int) -> Steps:
    """Ask for the next tile; the clock ends when all of it is there, or on its way."""
    port: Any = u.port
    start = u.clk
    port.asks.append((start, named))
    yield lambda: port.done is not None
    u.clk = max(u.clk, port.done)
    port.done = None
    u.h = u.clk
    u.note()
    u.account.memory += u.clk - start
