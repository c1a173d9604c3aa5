"""Chips on one network, plainly: objects, a heap of events, and the collectives' steps."""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


def bytes_per_ns(bandwidth: float) -> float:
    """GiB/s in bytes per ns."""
    return bandwidth * 2**30 / 1e9


class Clock:
    """Events by time, and those of one time in the order of scheduling."""

    def __init__(self) -> None:
        self.now = 0
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._scheduled = 0

    def at(self, time: int, what: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (time, self._scheduled, what))
        self._scheduled += 1

    def run(self) -> int:
        while self._heap:
            self.now, _, what = heapq.heappop(self._heap)
            what()
        return self.now


@dataclass
class Link:
    busy: bool = False
    waiting: deque[Any] = field(default_factory=deque)


class Network:
    """Chips in one dimension, with links that take one message at a time."""

    def __init__(
        self, clock: Clock, topology: str, count: int, bandwidth: float, latency: float
    ) -> None:
        self.clock = clock
        self.topology, self.count = topology, count
        self.rate, self.latency = bytes_per_ns(bandwidth), latency
        self.links: dict[tuple[int, int], Link] = defaultdict(Link)

    def path(self, source: int, destination: int) -> list[int]:
        if self.topology == "fully-connected":
            return [source, destination]
        if self.topology == "switch":
            return [source, self.count, destination]
        clockwise = (destination - source) % self.count
        step = -1 if self.count - clockwise < clockwise else 1
        found = [source]
        while found[-1] != destination:
            found.append((found[-1] + step) % self.count)
        return found

    def send(self, source: int, destination: int, size: int, arrived: Callable[[], None]) -> None:
        self._enter(self.path(source, destination), size, arrived)

    def _enter(self, path: list[int], size: int, arrived: Callable[[], None]) -> None:
        link = self.links[path[0], path[1]]
        link.waiting.append((path, size, arrived))
        if not link.busy:
            self._start(link)

    def _start(self, link: Link) -> None:
        path, size, arrived = link.waiting.popleft()
        link.busy = True
        now = self.clock.now

        def arrive() -> None:
            if len(path) == 2:
                arrived()
            else:
                self._enter(path[1:], size, arrived)

        def release() -> None:
            link.busy = False
            if link.waiting:
                self._start(link)

        self.clock.at(now + int(self.latency + size / self.rate), arrive)
        self.clock.at(now + int(size / self.rate), release)


def arrivals(
    topology: str, count: int, bandwidth: float, latency: float,
    messages: list[tuple[int, int, int, int]],
) -> tuple[list[int], int]:  # fmt: skip
    """Arrivals of messages (time, source, destination, bytes), and the last event."""
    clock = Clock()
    network = Network(clock, topology, count, bandwidth, latency)
    found = [-1] * len(messages)

    def sender(index: int) -> Callable[[], None]:
        _, source, destination, size = messages[index]

        def arrived() -> None:
            found[index] = clock.now

        return lambda: network.send(source, destination, size, arrived)

    first = [i for i, message in enumerate(messages) if message[0] == 0]
    for i in range(len(messages)):
        if i not in first:
            clock.at(messages[i][0], sender(i))
    # Those at time 0 are on their way before the loop, yet what they schedule comes later.
    later, clock._heap = clock._heap, []
    heapq.heapify(later)
    clock._heap = later
    for i in first:
        sender(i)()
    last = clock.run()
    return found, last


@dataclass
class Sent:
    """A message of a collective."""

    chunk: int
    source: int
    destination: int
    size: int
    sent: int
    arrived: int = -1
    received: int = -1


class Collective:
    """One collective on all nodes."""

    def __init__(
        self, network: Network, kind: str, algorithm: str, size: int, splits: int,
        endpoint: int, memory: float,
    ) -> None:  # fmt: skip
        n = network.count
        chunk = size // splits
        if kind != "all_gather" and n > chunk:
            chunk = n
            size = splits * chunk
        self.chunk, self.chunks = chunk, -(-size // chunk)
        self.network, self.clock = network, network.clock
        self.kind, self.algorithm = kind, algorithm
        self.endpoint, self.memory = endpoint, memory
        self.messages: list[Sent] = []
        self.there: dict[Any, deque[Sent]] = defaultdict(deque)
        self.posted: dict[Any, deque[tuple[Part, Sent | None]]] = defaultdict(deque)
        self.finish = [-1] * n
        self.delays: list[dict[int, list[Callable[[], None]]]] = [{} for _ in range(n)]
        for node in range(n):
            self.begin(node, 0)
        self.last = self.clock.run()

    def begin(self, node: int, number: int) -> None:
        if number == self.chunks:
            self.finish[node] = self.clock.now
        else:
            Part(self, node, number).start()

    def delay(self, node: int, cycles: int, what: Callable[[], None]) -> None:
        time = self.clock.now + cycles
        mine = self.delays[node]
        if time in mine:
            mine[time].append(what)
            return
        mine[time] = [what]

        def run() -> None:
            for each in mine[time]:  # those that are added meanwhile too
                each()
            del mine[time]

        self.clock.at(time, run)

    def reduction(self, size: int) -> int:
        return 3 * int(size / (self.memory * 1e9) * 1e9)

    def send(self, message: Sent) -> None:
        self.messages.append(message)
        key = (message.chunk, message.source, message.destination, message.size)

        def arrived() -> None:
            message.arrived = self.clock.now
            if self.posted[key]:
                part = self.posted[key].popleft()
                message.received = self.clock.now
                part.receive()
            else:
                self.there[key].append(message)

        self.network.send(message.source, message.destination, message.size, arrived)

    def post(self, part: Part, source: int, size: int) -> None:
        key = (part.number, source, part.node, size)
        if self.there[key]:
            message = self.there[key].popleft()
            message.received = self.clock.now
            self.clock.at(self.clock.now, part.receive)
        else:
            self.posted[key].append(part)


class Part:
    """A chunk on a node."""

    def __init__(self, whole: Collective, node: int, number: int) -> None:
        n = whole.network.count
        kind, algorithm = whole.kind, whole.algorithm
        self.whole, self.node, self.number, self.n = whole, node, number, n
        self.zero = self.nz = self.free = self.received = 0
        self.toggle = False
        self.queue: deque[tuple[int, int, int]] = deque()
        if algorithm == "halving_doubling":
            g = n.bit_length() - 1
            self.parallel, self.most = 1, g - 1
            self.left = 2 * g if kind == "all_reduce" else g
            gather = kind == "all_gather"
            self.m = whole.chunk if gather else whole.chunk // 2
            self.off, self.factor = (n // 2, 0.5) if gather else (1, 2.0)
            self.partner()
            return
        self.m = whole.chunk if kind == "all_gather" else whole.chunk // n
        self.dst, self.src = (node + 1) % n, (node - 1) % n
        self.most = n - 1
        self.parallel = n - 1 if algorithm == "direct" else 1
        self.left = n - 1
        if kind == "all_reduce":
            self.left = 2 * (n - 1)
        elif kind == "all_to_all" and algorithm == "ring":
            self.left = n * (n - 1) // 2

    def partner(self) -> None:
        even = self.off == 0 or self.node // self.off % 2 == 0
        self.dst = self.src = (self.node + (self.off if even else -self.off)) % self.n

    def start(self) -> None:
        for _ in range(self.parallel):
            self.insert()

    def insert(self) -> None:
        kind = self.whole.kind
        if self.zero == 0 and self.nz == 0:
            self.zero, self.nz = self.parallel, self.most
            self.toggle = not self.toggle
        if self.zero > 0:
            self.zero -= 1
            reduces = False
        else:
            self.nz -= 1
            reduces = kind == "reduce_scatter" or (kind == "all_reduce" and self.toggle)
        size = self.m
        self.queue.append((size, self.src, self.dst))
        whole, node = self.whole, self.node

        def reduce() -> None:
            whole.delay(node, whole.reduction(size), self.general)

        whole.delay(node, whole.endpoint, reduce if reduces else self.general)
        self.update()

    def update(self) -> None:
        n = self.n
        if self.whole.algorithm == "direct":
            self.dst, self.src = (self.dst + 1) % n, (self.src - 1) % n
            if self.dst == self.node:
                self.dst = (self.dst + 1) % n
            if self.src == self.node:
                self.src = (self.src - 1) % n
        elif self.whole.algorithm == "halving_doubling":
            self.off, self.m = int(self.off * self.factor), int(self.m / self.factor)
            if self.whole.kind == "all_reduce" and self.off == n:
                self.factor = 0.5
                self.off, self.m = int(self.off * self.factor), int(self.m / self.factor)
            self.partner()

    def general(self) -> None:
        self.free += 1
        n, whole = self.n, self.whole
        if whole.algorithm == "direct" and whole.kind == "all_reduce" and self.left <= n - 1:
            if self.received < n - 1:
                return
            for _ in range(self.parallel):
                self.ready()
        else:
            self.ready()
        if self.left == 0 and self.free == self.parallel:
            whole.begin(self.node, self.number + 1)

    def ready(self) -> None:
        if not (self.queue and self.left > 0 and self.free > 0):
            return
        size, source, destination = self.queue.popleft()
        self.whole.send(Sent(self.number, self.node, destination, size, self.whole.clock.now))
        self.whole.post(self, source, size)
        self.left -= 1
        self.free -= 1

    def receive(self) -> None:
        self.received += 1
        self.insert()
