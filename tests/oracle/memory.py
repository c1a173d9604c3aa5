"""The off-chip memory node, one cycle per iteration, its channels, and the memory operators.

The arbiter is the literal loop: take at most one response per channel and forward it, take at most
one bundle per port and send its requests to channels. The published model scatters the requests of
a cycle by triangular steps from where the last cycle ended; the interleaved model sends request
``i`` of a port, counted over the whole run, to channel ``first + i``, where ``first`` is the number
of channels times the fraction of ``port * 0.618...``, rounded down; the uncontended model has a
channel for every request. Cycles may be left out only while no request is pending.

With a bound of the requests under way, a port passes on what it may issue in a cycle as long as
there are fewer than that from its oldest one without a response on, those included that came back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil

from stepsim.lowering.network import TimingParams
from tests.oracle.dram_node import DramNode, DramPort, dram_access
from tests.oracle.fabric import CLOSED, Abort, Steps, Unit
from tests.oracle.payloads import ceil_div, linear_levels, tile
from tests.oracle.units_basic import head_all

__all__ = [
    "MEMORY", "READERS", "WRITERS", "ChipMemories", "MemoryNode", "Port", "access", "request_count",
]  # fmt: skip

READERS = frozenset({"OffChipLoad", "DynOffChipLoad", "RandomOffChipLoad"})
WRITERS = frozenset({"OffChipStore", "RandomOffChipStore"})


@dataclass
class Port:
    """A memory operator's links to the node: bundles out, responses back, both unbounded."""

    bundles: deque[tuple[int, int]] = field(default_factory=deque)  # (stamp, requests)
    responses: deque[int] = field(default_factory=deque)  # stamps
    outstanding: int = 0
    sent: int = 0  # requests that the node has passed on to channels
    most: int = 0  # requests that the operator issues per cycle
    answered: deque[bool] = field(default_factory=deque)  # from the oldest one without a response

    def may_issue(self, t: int, bound: int | None) -> int:
        """How many requests are passed on in cycle ``t``; they are taken out of the bundles."""
        if bound is None:
            return self.bundles.popleft()[1] if self.bundles and self.bundles[0][0] <= t else 0
        room = min(self.most, bound - len(self.answered))
        count = 0
        while count < room and self.bundles and self.bundles[0][0] <= t:
            stamp, size = self.bundles.popleft()
            taken = min(size, room - count)
            if taken < size:
                self.bundles.appendleft((stamp, size - taken))
            count += taken
        return count

    def answer(self, number: int) -> None:
        """Request ``number`` of all came back."""
        self.answered[number - (self.sent - len(self.answered))] = True
        while self.answered and self.answered[0]:
            self.answered.popleft()


@dataclass
class _MemoryChannel:
    """A unit of its own: TAKE a request, respond after startup + latency, stay busy an interval."""

    clk: int = 0
    responses: deque[tuple[int, Port, int]] = field(default_factory=deque)
    """(stamp, requester, number of the request of it)"""

    def serve(self, stamp: int, requester: Port, timing: TimingParams) -> None:
        self.clk = max(self.clk, stamp)
        response = self.clk + timing.hbm_startup + timing.hbm_latency
        self.responses.append((max(response, self.clk + 1), requester, requester.sent))
        requester.sent += 1
        requester.answered.append(False)
        self.clk += timing.hbm_interval


_GOLDEN = 2654435769  # golden section of 2**32


class MemoryNode:
    """Arbiter and channels. ``clk`` is the cycle that :meth:`cycle` runs next."""

    def __init__(self, timing: TimingParams) -> None:
        self.timing = timing
        self.clk = 0
        self.offset = 0
        self.readers: list[Port] = []
        self.writers: list[Port] = []
        self.channels = [_MemoryChannel() for _ in range(timing.hbm_channels)]

    def attach(self, op: str) -> Port:
        """Register an operator; readers and writers are numbered in order of registration."""
        port = Port()
        (self.readers if op in READERS else self.writers).append(port)
        return port

    @property
    def pending(self) -> bool:
        return any(port.outstanding > 0 for port in self.readers + self.writers)

    def cycle(self) -> None:
        """One iteration: requests and responses, then the clock."""
        t, model = self.clk, self.timing.memory_model
        requests: list[tuple[int, Port]] = []
        for number, port in enumerate(self.readers + self.writers):
            # Places that are given back in this cycle are taken in the next one.
            requests += [(number, port)] * port.may_issue(t, self.timing.outstanding)
        for channel in self.channels:
            if channel.responses and channel.responses[0][0] <= t:
                _, port, number = channel.responses.popleft()
                port.responses.append(t + 1)
                port.outstanding -= 1
                port.answer(number)
        if model == "uncontended":
            self.channels = [channel for channel in self.channels if channel.responses]
            self.channels += [_MemoryChannel() for _ in requests]
            chosen: Iterator[int] = iter(range(-len(requests), 0))
        else:
            chosen = (self._interleaved if model == "interleaved" else self._published)(requests)
        n = len(self.channels)
        for place, (_, port) in zip(chosen, requests, strict=True):
            self.channels[place % n].serve(t + 1, port, self.timing)
        self.clk += 1

    def _published(self, requests: list[tuple[int, Port]]) -> Iterator[int]:
        for i in range(len(requests)):
            self.offset += i
            yield self.offset
        self.offset += len(requests)

    def _interleaved(self, requests: list[tuple[int, Port]]) -> Iterator[int]:
        for number, port in requests:
            first = number * _GOLDEN % 2**32 * len(self.channels) // 2**32
            yield first + port.sent  # which the channel counts


class ChipMemories:
    """A memory node for each of several chips, all in the same cycle."""

    def __init__(self, timing: TimingParams, chips: int) -> None:
        dram = timing.dram
        self.nodes: list[MemoryNode | DramNode] = [
            MemoryNode(timing) if dram is None else DramNode(dram) for _ in range(chips)
        ]

    @property
    def clk(self) -> int:
        """The cycle that :meth:`cycle` runs next."""
        return self.nodes[0].clk

    @property
    def pending(self) -> bool:
        return any(node.pending for node in self.nodes)

    def cycle(self) -> None:
        """The same cycle of all nodes."""
        for node in self.nodes:
            node.cycle()


def request_count(rows: int, cols: int, bpe: float, request_bytes: int) -> int:
    """Requests of a tile: every row is rounded up to whole requests."""
    return rows * ceil_div(ceil(cols * bpe), request_bytes)


def access(u: Unit, n: int, named: int = 0) -> Steps:
    """Issue ``n`` requests in bundles of ``par``; the clock ends at the last response.

    ``named`` is the tile that an address names; only a memory with addresses looks at it.
    """
    if n == 0:
        return
    if isinstance(u.port, DramPort):
        yield from dram_access(u, named)
        return
    par, start, port = u.p["par"], u.clk, u.port
    for j in range(ceil_div(n, par)):
        port.bundles.append((max(start + j, start + 1), min(par, n - j * par)))
    port.outstanding += n
    port.most = par
    yield lambda: len(port.responses) == n
    for stamp in port.responses:
        u.clk = max(u.clk, stamp)
    port.responses.clear()
    u.h = u.clk
    u.note()
    u.account.memory += u.clk - start


def _declared(u: Unit) -> tuple[int, int]:
    rows, cols = u.p["tile"]
    return rows, cols


def _load_view(u: Unit, last_level: int, cap: int) -> Steps:
    """All tiles of the view; the last one gets ``last_level``, no level exceeds ``cap``.

    Requests are those of the tile as it is stored; a transposed one is delivered the other way
    round. A load that bypasses the memory asks for none.
    """
    rows, cols = _declared(u)
    n = request_count(rows, cols, u.p["bpe"], u.timing.request_bytes)
    if n == 0 and u.port is not None:
        return
    if u.p.get("transposed", False):
        rows, cols = cols, rows
    view = list(u.p["view"])
    for level in linear_levels(view):
        if u.port is not None:
            yield from access(u, n)
        shown = last_level if level == len(view) else min(level, cap)
        yield from u.emit(u.outs[0], tile(rows, cols, u.p["bpe"], 1, rows), shown)


def off_chip_load(u: Unit) -> Steps:
    rank = len(u.p["view"])
    cap = rank if u.p.get("lead", True) else rank - 1
    yield from _load_view(u, last_level=cap, cap=cap)


def dyn_off_chip_load(u: Unit) -> Steps:
    rank, trigger = len(u.p["view"]), u.p.get("trigger_rank", 0)
    triggered = False
    while (token := (yield from u.take(u.ins[0]))) is not CLOSED:
        if token.level >= trigger:
            triggered = True
            yield from _load_view(u, last_level=rank + token.level - trigger, cap=rank)
        elif not triggered:
            # The first firing still waits for the reference that triggers it.
            u.awaited.add(u.ins[0].name)


def random_off_chip_load(u: Unit) -> Steps:
    rows, cols = _declared(u)
    n = request_count(rows, cols, u.p["bpe"], u.timing.request_bytes)
    while (token := (yield from u.take(u.ins[0]))) is not CLOSED:
        yield from access(u, n, token.payload.get("value", 0))
        yield from u.emit(u.outs[0], tile(rows, cols, u.p["bpe"], 1, rows), token.level)


def _check_stored(u: Unit, shape: list[int], bpe: float, expected_bpe: float) -> None:
    if shape != list(_declared(u)) or bpe != expected_bpe:
        raise Abort(
            f"unit {u.name}: expected tiles {list(_declared(u))} of {expected_bpe} B elements, "
            f"found {shape} of {bpe} B; declare the tile that arrives"
        )


def off_chip_store(u: Unit) -> Steps:
    first_bpe: float | None = None
    while (token := (yield from u.head(u.ins[0]))) is not CLOSED:
        rows, cols, bpe, _, _ = token.payload["tile"]
        first_bpe = bpe if first_bpe is None else first_bpe
        _check_stored(u, [rows, cols], bpe, first_bpe)
        yield from access(u, request_count(rows, cols, bpe, u.timing.request_bytes))
        yield from u.take(u.ins[0])


def random_off_chip_store(u: Unit) -> Steps:
    while (pair := (yield from head_all(u, match_levels=False))) is not None:
        address, data = pair
        rows, cols, bpe, _, _ = data.payload["tile"]
        _check_stored(u, [rows, cols], bpe, bpe)
        n = request_count(rows, cols, bpe, u.timing.request_bytes)
        yield from access(u, n, address.payload.get("value", 0))
        level = address.level if u.p["ack_addr"] else data.level
        yield from u.emit(u.outs[0], {"ack": True}, level)
        yield from u.take(u.ins[0])
        yield from u.take(u.ins[1])


MEMORY = {
    "OffChipLoad": off_chip_load,
    "DynOffChipLoad": dyn_off_chip_load,
    "BypassLoad": off_chip_load,
    "DynBypassLoad": dyn_off_chip_load,
    "RandomOffChipLoad": random_off_chip_load,
    "OffChipStore": off_chip_store,
    "RandomOffChipStore": random_off_chip_store,
}
