"""The arrays of a run at the hardware level, made from a network and a machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stepsim.errors import GraphError
from stepsim.hardware.machine import Machine
from stepsim.hardware.network import Network
from stepsim.hardware.units import Unit
from stepsim.kernels import (
    ADDRESS_BITS,
    EVENT_WORDS,
    LAYOUT,
    NEVER,
    DramSpec,
    Hardware,
    Kind,
    Policy,
    buffer_words,
    dram_words,
)

_KINDS: Final = {
    "wire": Kind.WIRE, "fork": Kind.FORK, "map": Kind.MAP, "sum": Kind.SUM,
    "promote": Kind.PROMOTE, "repeat": Kind.REPEAT, "accumulator": Kind.ACCUMULATOR,
    "buffer": Kind.BUFFER, "reader": Kind.READER, "writer": Kind.WRITER, "printer": Kind.PRINTER,
    "source": Kind.SOURCE, "sink": Kind.SINK, "arbiter": Kind.ARBITER,
    "admission": Kind.ADMISSION, "table": Kind.TABLE, "deal": Kind.DEAL,
}  # fmt: skip

_POLICIES: Final = {
    "rotating": Policy.ROTATING, "on-grant": Policy.ON_GRANT, "fair": Policy.FAIR,
}  # fmt: skip

_MOST_MESSAGES: Final = 1 << 27
"""Largest total number of messages in all FIFOs of a run."""

_TRACE_EVENTS: Final = 1 << 15
"""Events of a traced run between two checks by the host."""


@dataclass(frozen=True, slots=True)
class PlacedFifo:
    """A FIFO of a run.

    Attributes
    ----------
    holds : tile, reference, request, response (address and port) or block (address only).
    shown : part of tables and events; not the list of reads in flight.
    """

    name: str
    depth: int
    holds: str
    latency: int = 1
    shown: bool = True


@dataclass(slots=True)
class Image:
    """The initial state of a run, with the names of everything that it counts.

    Attributes
    ----------
    names, kinds : of every unit, those of the memory path after those of the network.
    readers : FIFOs that readers put their entries into.
    grants : FIFO of granted requests, -1 without memory.
    """

    state: Hardware
    names: list[str]
    kinds: list[str]
    functions: list[str]
    fifos: list[PlacedFifo]
    readers: list[int]
    grants: int


@dataclass(slots=True)
class _Parts:
    """The data collected before the arrays are made."""

    machine: Machine
    fifos: list[PlacedFifo] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    units: list[Unit] = field(default_factory=list)
    lists: list[int] = field(default_factory=list)
    words: list[NDArray[np.int64]] = field(default_factory=list)
    word_count: int = 0

    def fifo(self, name: str, depth: int, holds: str, **more: Any) -> str:
        self.numbers[name] = len(self.fifos)
        self.fifos.append(PlacedFifo(name, depth, holds, **more))
        return name

    def listed(self, values: Iterable[int]) -> int:
        begin = len(self.lists)
        self.lists.extend(values)
        return begin

    def private(self, values: NDArray[np.int64]) -> int:
        begin = self.word_count
        self.words.append(values)
        self.word_count += len(values)
        return begin


def build_image(
    network: Network, machine: Machine, *, every: bool = False, trace: bool = False
) -> Image:
    """Lay out a network for the engine of the hardware level.

    Parameters
    ----------
    every : visit every unit in every cycle and skip none: slower, with the same result.
    trace : record events.

    Raises
    ------
    GraphError : a FIFO without reader; ports with gaps; a pointer beyond the ports; a stream that
        the addresses of a port do not reach, or whose last entry would never be released; FIFOs
        that are too large in total.
    """
    network.check()
    parts = _Parts(machine)
    latencies = _latencies(network, machine)
    for fifo in network.fifos:
        latency = latencies.get(fifo.name, 1)
        # A pipeline of some stages holds a message in each of them.
        depth = (fifo.depth or machine.fifo_depth) + latency - 1
        parts.fifo(fifo.name, depth, "block" if fifo.holds == "response" else fifo.holds,
                   latency=latency)  # fmt: skip
    parts.units.extend(network.units)
    g: Any = np.zeros(1, LAYOUT.globals).view(np.recarray)
    g.limit, g.pause, g.every, g.tracing = NEVER, NEVER, every, trace
    g.progress = g.unit = -1
    g.due = NEVER
    g.send = g.pop = g.flight = -1
    dram = np.zeros(1, np.int64)
    if network.ports:
        dram = _add_memory(parts, network, g[0])

    messages = sum(placed.depth for placed in parts.fifos)
    if messages > _MOST_MESSAGES:
        largest = max(parts.fifos, key=lambda placed: placed.depth)
        raise GraphError(
            f"network {network.name!r}: its FIFOs hold {messages} messages in total, more than "
            f"{_MOST_MESSAGES}; the largest is {largest.name!r} with {largest.depth}, where the "
            "latency of a map counts as depth"
        )
    units: Any = np.zeros(len(parts.units), LAYOUT.units).view(np.recarray)
    fifos: Any = np.zeros(len(parts.fifos), LAYOUT.fifos).view(np.recarray)
    for i, placed in enumerate(parts.fifos):
        fifos[i].depth, fifos[i].latency = placed.depth, placed.latency
    fifos.ring = np.concatenate([[0], np.cumsum(fifos.depth)[:-1]])
    fifos.writer = fifos.reader = fifos.first = -1
    for u, unit in enumerate(parts.units):
        _fill_unit(units[u], unit, parts)
        for name in unit.inputs:
            fifos[parts.numbers[name]].reader = u
        for name in unit.outputs:
            fifos[parts.numbers[name]].writer = u
    g.alarm = min(int(units.alarm.min()), NEVER)
    finals = int((units.final >= 0).sum())
    g.sinks = finals or -1
    g.woken = len(units)
    work = np.zeros(2 * len(units) + 2 * len(fifos), np.int64)
    work[: len(units)] = np.arange(len(units))
    least = EVENT_WORDS * (2 * len(fifos) + 4 + int(g[0].channels))
    state = Hardware(
        units=_typed(units, LAYOUT.units), fifos=_typed(fifos, LAYOUT.fifos),
        globals=_typed(g, LAYOUT.globals), lists=np.array(parts.lists or [0], np.int64),
        rings=np.zeros(2 * int(fifos.depth.sum()), np.int64),
        words=np.concatenate([*parts.words, np.zeros(1, np.int64)]), work=work,
        events=np.zeros(least + EVENT_WORDS * _TRACE_EVENTS if trace else 1, np.int64), dram=dram,
    )  # fmt: skip
    return Image(
        state,
        [unit.name for unit in parts.units],
        [unit.kind for unit in parts.units],
        [unit.function for unit in parts.units],
        parts.fifos,
        [parts.numbers[unit.outputs[0]] for unit in parts.units if unit.kind == "reader"],
        parts.numbers["arb.out"] if network.ports else -1,
    )


def _typed(array: Any, dtype: Any) -> Any:
    return np.ndarray.__new__(np.recarray, (len(array),), dtype, array)


def _latencies(network: Network, machine: Machine) -> dict[str, int]:
    """Latencies of the outputs of maps that take more than a cycle."""
    latencies = {}
    for unit in network.units:
        if unit.kind == "map":
            rate = machine.product if unit.function == "product" else machine.elementwise
            latencies[unit.outputs[0]] = unit.values.get("latency", rate.latency)
    return latencies


def _fill_unit(un: Any, unit: Unit, parts: _Parts) -> None:
    """The record of a unit; FIFOs are listed in the order of its inputs and outputs."""
    machine, values = parts.machine, unit.values
    un.kind = _KINDS[unit.kind]
    un.in0, un.inputs = parts.listed(parts.numbers[f] for f in unit.inputs), len(unit.inputs)
    un.out0, un.outputs = parts.listed(parts.numbers[f] for f in unit.outputs), len(unit.outputs)
    un.woken, un.alarm = 0, NEVER
    un.first = un.latest = un.final = un.spare = un.current = un.before = un.load = -1
    un.release = -1
    un.rank = values.get("rank", 0)
    un.times = values.get("times", 1)
    un.start = values.get("start", 0)
    un.period = values.get("period", 1)
    un.final = values.get("last", -1)
    un.port = values.get("port", -1)
    if unit.kind == "map":
        rate = machine.product if unit.function == "product" else machine.elementwise
        un.times = values.get("interval", rate.interval)
    elif unit.kind in ("reader", "writer"):
        un.entry, un.block = machine.entry_bytes, machine.memory.request_bytes
        origin = unit.base if unit.base is not None else machine.memory.base_step * int(un.port)
        length = prod(unit.dims) if unit.dims else 0
        _check_stream(unit, machine, origin, length)
        un.origin, un.length = origin, length
        un.times = len(unit.dims)
        un.table = parts.listed(reversed(unit.dims))
    elif unit.kind == "source":
        un.length = len(unit.messages)
        un.table = parts.listed((*unit.messages, *unit.times))
    elif unit.kind == "buffer":
        its = machine.buffer
        un.block, un.length, un.entry = its.sets, its.frames, its.references
        words = np.full(buffer_words(its.sets, its.frames, its.references), -1, np.int64)
        words[: its.sets] = 1
        un.table = parts.private(words)
        un.start = its.wake_cycle
    if un.start > 0 and unit.kind in ("reader", "buffer"):
        un.alarm = un.start


def _check_stream(unit: Unit, machine: Machine, origin: int, length: int) -> None:
    """Reject entries that addresses do not reach, and a last entry that is never released."""
    entry, block = machine.entry_bytes, machine.memory.request_bytes
    who = f"{unit.kind} {unit.name!r}"
    if origin + entry * max(1, length) > 1 << ADDRESS_BITS:
        raise GraphError(
            f"{who}: {max(1, length)} entries of {entry} bytes from address {origin} on end beyond "
            f"2**{ADDRESS_BITS}, the addresses of a memory port; load less, or start lower"
        )
    if unit.kind == "reader":
        requests = (entry * length - 1) // block
        if requests == 0 or requests * block < entry * (length - 1):
            raise GraphError(
                f"{who}: the last of its {length} entries of {entry} bytes starts in the last "
                f"block of {block} bytes, which a reader never requests, so that the run would not "
                f"end; give memory.request_bytes less than {entry}"
            )


def _add_memory(parts: _Parts, network: Network, g: Any) -> NDArray[np.int64]:
    """Add the units and FIFOs of the memory path; the words of the DRAM."""
    its = parts.machine.memory
    depth = parts.machine.fifo_depth
    ports = sorted(
        (u for u in network.units if u.kind in ("reader", "writer")), key=lambda u: u.values["port"]
    )
    first, second, requests = [], [], []
    for i, unit in enumerate(ports):
        requests.append(f"req{i}")
        request = parts.fifo(f"req{i}", depth, "request")
        parts.units[parts.units.index(unit)] = _with_output(unit, request)
    grants = parts.fifo("arb.out", depth, "request")
    order = parts.fifo("order.in", depth + its.request_delay, "request",
                       latency=1 + its.request_delay)  # fmt: skip
    send = parts.fifo("send", depth, "request")
    flight = parts.fifo("in flight", its.in_flight, "request", shown=False)
    pop = parts.fifo("pop", depth + its.return_delay, "response", latency=1 + its.return_delay)
    ordered = parts.fifo("order.out", depth, "response")
    response = parts.fifo("arb.resp", depth, "response")
    for i, unit in enumerate(ports):
        is_reader = unit.kind == "reader"
        first.append(parts.fifo(f"buf{i}", its.first_depth, "block") if is_reader else "")
        second.append(parts.fifo(f"world{i}", its.second_depth, "block") if is_reader else "")

    parts.units.append(Unit("arbiter", "arbiter", tuple(requests), (grants,)))
    parts.units.append(Unit(f"{grants} > {order}", "wire", (grants,), (order,)))
    parts.units.append(Unit("admission", "admission", (order,), (send, flight)))
    parts.units.append(Unit("table", "table", (pop, flight), (ordered,)))
    parts.units.append(Unit(f"{ordered} > {response}", "wire", (ordered,), (response,)))
    # Distributed by port; a writer gets no response, so any FIFO can take its place.
    anyone = next((name for name in first if name), response)
    parts.units.append(Unit("deal", "deal", (response,), tuple(name or anyone for name in first)))
    for i, unit in enumerate(ports):
        if unit.kind == "reader":
            into = f"{unit.name}.resp"
            parts.units.append(Unit(f"{first[i]} > {second[i]}", "wire", (first[i],), (second[i],)))
            parts.units.append(Unit(f"{second[i]} > {into}", "wire", (second[i],), (into,)))

    numbers = parts.numbers
    if its.pointer >= len(ports):
        raise GraphError(
            f"network {network.name!r}: memory.pointer must be one of its {len(ports)} ports, "
            f"from 0 to {len(ports) - 1}; found {its.pointer}"
        )
    g.ports, g.pointer = len(ports), its.pointer
    g.policy = _POLICIES[its.arbiter]
    g.requests = parts.listed(
        [numbers[f"req{i}"] for i in range(len(ports))]
        + [numbers[name] if name else -1 for name in second]
    )
    g.send, g.pop, g.flight = numbers[send], numbers[pop], numbers[flight]
    g.places = its.table
    g.table = parts.private(np.zeros(its.in_flight, np.int64))
    g.returned_size = its.in_flight
    g.returned = parts.private(np.zeros(its.in_flight, np.int64))
    spec = DramSpec(**parts.machine.dram.numbers())
    ratio = parts.machine.dram_clocks_per_cycle
    g.up, g.down = ratio.numerator, ratio.denominator
    g.channels = spec.channels
    g.channel_due = parts.private(np.full(spec.channels, NEVER, np.int64))
    return dram_words(spec, its.in_flight)


def _with_output(unit: Unit, fifo: str) -> Unit:
    """A reader or writer with the FIFO of its requests, and a reader with that of its responses."""
    inputs = (f"{unit.name}.resp",) if unit.kind == "reader" else unit.inputs
    return Unit(
        unit.name, unit.kind, inputs, (*unit.outputs, fifo), unit.values, unit.dims, unit.base
    )
