"""Tokens that cross a network on chip or one of chips: its two ends as units, and the network event
by event.

On a chip, every router input and every output is a set of cycles that are taken; every event
carries all that decides its place among events of one cycle. Between chips, a link is busy or not,
and has a queue.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from stepsim.lowering.network import Carriage, ChipLinks
from tests.oracle.fabric import Steps, Token, Unit
from tests.oracle.payloads import nbytes

__all__ = ["CARRIERS", "Crossing", "Mesh"]


class _Number(NamedTuple):
    """The order of packets: creation, how often events of that cycle had been served before, route,
    and place among the packets of the route."""

    create: int
    later: int
    route: int
    place: int


class Mesh:
    """The network of a run."""

    def __init__(self, carriage: Carriage) -> None:
        self.its = carriage
        self.events: list[tuple[int, _Number, int, int]] = []
        self.paths: dict[_Number, Sequence[int]] = {}
        self.flits: dict[_Number, int] = {}
        self.booked: dict[tuple[_Number, int], int] = defaultdict(int)
        self.taken: dict[tuple[str, int], set[int]] = defaultdict(set)
        self.free: dict[int, int] = defaultdict(int)
        self.packets: dict[int, list[_Number]] = defaultdict(list)
        self.arrival: dict[_Number, int] = {}
        self.trees: dict[_Number, tuple[Sequence[int], Sequence[int]]] = {}
        self.cycle = self.times_served = 0

    @property
    def next_time(self) -> int | None:
        """The time of the next event."""
        return self.events[0][0] if self.events else None

    def create(self, route: int, path: Sequence[int], now: int, size: int) -> None:
        assert now >= self.cycle
        later = self.times_served if now == self.cycle else 0
        number = _Number(now, later, route, len(self.packets[route]))
        self.packets[route].append(number)
        self.paths[number] = path
        self.flits[number] = max(1, -(-size // self.its.flit_bytes))
        heapq.heappush(self.events, (now, number, -1, 0))

    def create_for_all(
        self, route: int, path: Sequence[int], before: Sequence[int], ends: Sequence[int],
        now: int, size: int,
    ) -> None:  # fmt: skip
        """A packet for the readers at the ``ends`` of a tree, whose routes follow its own."""
        self.create(route, path, now, size)
        number = self.packets[route][-1]
        self.trees[number] = before, ends
        for reader in range(len(ends)):
            self.packets[route + 1 + reader].append(number._replace(route=route + 1 + reader))

    def arrived(self, route: int, count: int) -> int | None:
        """When a packet of a route arrived, counted from 0; None when that is not known yet."""
        return self.arrival.get(self.packets[route][count])

    def knows(self, route: int, count: int) -> bool:
        """Whether `arrived` knows."""
        return self.arrived(route, count) is not None

    def event(self) -> None:
        """Serve all events of the next cycle; what units send because of them comes after these."""
        cycle = self.events[0][0]
        self.times_served = self.times_served + 1 if cycle == self.cycle else 1
        self.cycle = cycle
        while self.next_time == cycle:
            self._next()

    def _next(self) -> None:
        its = self.its
        time, number, segment, hop = heapq.heappop(self.events)
        path, flits = self.paths[number], self.flits[number]
        if hop == 0:
            go = max(time, self.free[path[0]])
            self.free[path[0]] = go + flits
            for s in range(-(-flits // its.quantum)):
                start = go + s * its.quantum + its.inject + its.router
                heapq.heappush(self.events, (start, number, s, 1))
            return
        n = min(its.quantum, flits - segment * its.quantum)
        if number in self.trees:
            self._branch(time, number, segment, hop, n)
            return
        inside, outside = self.taken["in", path[hop - 1]], self.taken["out", path[hop]]
        c = max(time, self.booked[number, hop])
        while any(cycle in inside or cycle in outside for cycle in range(c, c + n)):
            c += 1
        inside.update(range(c, c + n))
        outside.update(range(c, c + n))
        self.booked[number, hop] = c + n
        if hop + 1 < len(path):
            heapq.heappush(self.events, (c + its.wire + its.router, number, segment, hop + 1))
        elif (segment + 1) * its.quantum >= flits:
            self.arrival[number] = c + its.wire + n - 1

    def _branch(self, time: int, number: _Number, segment: int, hop: int, n: int) -> None:
        """A segment leaves the router behind the port ``hop`` - 1 by all of its outputs there."""
        its, path, (before, ends) = self.its, self.paths[number], self.trees[number]
        feeding = hop - 1
        outputs = [k for k, at in enumerate(before) if at == feeding]
        taken = [self.taken["in", path[feeding]], *(self.taken["out", path[k]] for k in outputs)]
        c = max(time, self.booked[number, hop])
        while any(cycle in one for one in taken for cycle in range(c, c + n)):
            c += 1
        for one in taken:
            one.update(range(c, c + n))
        self.booked[number, hop] = c + n
        for k in outputs:
            if k in before:
                later = c + its.wire + its.router
                heapq.heappush(self.events, (later, number, segment, k + 1))
            elif (segment + 1) * its.quantum >= self.flits[number]:
                for reader, end in enumerate(ends):
                    if end == k:
                        own = self.packets[number.route + 1 + reader][number.place]
                        self.arrival[own] = c + its.wire + n - 1


class Crossing:
    """The links between the chips of a run: messages come, links are free again."""

    def __init__(self, links: ChipLinks) -> None:
        self.its = links
        self.events: list[tuple[int, int, int, int, str, int]] = []
        self.scheduled = 0
        self.busy: dict[int, bool] = defaultdict(bool)
        self.queue: dict[int, deque[int]] = defaultdict(deque)
        self.messages: list[_Message] = []
        self.routes: dict[int, list[int]] = defaultdict(list)

    @property
    def next_time(self) -> int | None:
        """The time of the next event."""
        return self.events[0][0] if self.events else None

    def create(self, route: int, path: Sequence[int], now: int, size: int) -> None:
        number = len(self.messages)
        place = len(self.routes[route])
        self.messages.append(_Message(route, now, list(path), size))
        self.routes[route].append(number)
        # Before all that was scheduled for this time.
        heapq.heappush(self.events, (now, 0, route, place, "reaches", number))

    def arrived(self, route: int, count: int) -> int | None:
        """When a message of a route arrived, counted from 0; None when that is not known yet."""
        return self.messages[self.routes[route][count]].arrival

    def knows(self, route: int, count: int) -> bool:
        """Whether `arrived` knows."""
        return self.arrived(route, count) is not None

    def event(self) -> None:
        """Serve all events of the next cycle; what units send because of them comes after these."""
        cycle = self.next_time
        while self.next_time == cycle:
            self._next()

    def _next(self) -> None:
        now, *_, what, number = heapq.heappop(self.events)
        if what == "is free":
            self.busy[number] = False
            if self.queue[number]:
                self._start(number, self.queue[number].popleft(), now)
            return
        message = self.messages[number]
        if not message.path:
            message.arrival = now
            return
        link = message.path.pop(0)
        message.came.append(now)
        if self.busy[link]:
            self.queue[link].append(number)
        else:
            self._start(link, number, now)

    def _start(self, link: int, number: int, now: int) -> None:
        self.busy[link] = True
        send = self.messages[number].size / self.its.rate[link]
        self.messages[number].sent.append((link, now, now + int(send)))
        self._schedule(now + int(self.its.latency[link] + send), "reaches", number)
        self._schedule(now + int(send), "is free", link)

    def _schedule(self, time: int, what: str, number: int) -> None:
        heapq.heappush(self.events, (time, 1, self.scheduled, 0, what, number))
        self.scheduled += 1


@dataclass
class _Message:
    route: int
    created: int
    path: list[int]
    size: int
    arrival: int | None = None
    came: list[int] = field(default_factory=list)
    sent: list[tuple[int, int, int]] = field(default_factory=list)
    """Link, begin and end of the time for which it sends."""


def send_packet(u: Unit) -> Steps:
    while isinstance(token := (yield from u.head(u.ins[0])), Token):
        yield from u.emit(u.outs[0], token.payload, token.level)
        u.carries.create(u.p["route"], u.p["path"], u.clk, nbytes(token.payload))
        yield from u.take(u.ins[0])


def multicast_packet(u: Unit) -> Steps:
    while isinstance(token := (yield from u.head(u.ins[0])), Token):
        for out in u.outs:
            yield from u.reserve(out)
        now = u.clk
        u.carries.create_for_all(
            u.p["route"], u.p["path"], u.p["before"], u.p["ends"], now, nbytes(token.payload)
        )
        for out in u.outs:
            yield from u.emit(out, token.payload, token.level, t=now)
        yield from u.take(u.ins[0])


def receive_packet(u: Unit) -> Steps:
    mesh, route, count = u.carries, u.p["route"], 0
    while isinstance(token := (yield from u.head(u.ins[0])), Token):
        while (arrival := mesh.arrived(route, count)) is None:
            yield partial(mesh.knows, route, count)
        u.arrive(arrival - 1)
        yield from u.emit(u.outs[0], token.payload, token.level)
        yield from u.take(u.ins[0])
        count += 1


CARRIERS = {
    "SendPacket": send_packet,
    "MulticastPacket": multicast_packet,
    "ReceivePacket": receive_packet,
    "SendMessage": send_packet,
    "ReceiveMessage": receive_packet,
}
