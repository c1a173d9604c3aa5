"""Packets in segments of flits, each of which reserves an input and an output of every router.

A segment of n flits needs the input of a router that it comes from and the output that it goes to
in the same n cycles, the first that are free in both from its arrival on. Events are in the order
of time, packet and segment.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from stepsim.kernels.build.by_reference import by_reference
from stepsim.kernels.build.entry_point import cached_entry
from stepsim.kernels.build.jit import apart, inlined
from stepsim.kernels.noc.calendars import (
    EACH_CALENDAR,
    NOTHING,
    has_spare,
    new_calendars,
    reserve,
    with_more_intervals,
)
from stepsim.kernels.noc.heap import drop_key, push_key


class LinkTraffic(NamedTuple):
    """Packets on a network, and what became of them. Times are cycles.

    The event of a packet at its source has the number of the packet in ``event``; those of its
    segments follow. A calendar has the number of a port, those of the inputs behind those of all
    outputs.

    Attributes
    ----------
    words : router, wire, inject, quantum, bits of the number of an event, then state of the loop.
    create, flits : of every packet; ``create`` of those that wait is written. [packets]
    begin : first place of each path in ``path``, and the end of the last. [packets + 1]
    path : ports: injection, links, ejection.
    event : number of the first event of every packet. [packets]
    packet : of every event. [events]
    roots : packets that wait for no other, by ``create``.
    waiting, delay : of every packet: others that it waits for, cycles after them. [packets]
    child_begin, child : packets that wait for a packet.
    hop : next hop of the segment of every event. [events]
    booked : end of the packet's last segment, at every place of ``path``.
    free : first cycle in which the injection port is free. [ports]
    intervals : of the calendars of all ports, as outputs and as inputs.
    heap : keys of events.
    inject, arrival : of every packet: first flit leaves the source, last one is there. Written.
    waited : cycles that segments waited for each port. [ports] Written.
    """

    words: Any
    create: Any
    flits: Any
    begin: Any
    path: Any
    event: Any
    packet: Any
    roots: Any
    waiting: Any
    delay: Any
    child_begin: Any
    child: Any
    hop: Any
    booked: Any
    free: Any
    intervals: Any
    heap: Any
    inject: Any
    arrival: Any
    waited: Any


_ROUTER: Final = 0
_WIRE: Final = 1
_INJECT: Final = 2
_QUANTUM: Final = 3
_BITS: Final = 4
_PORTS: Final = 5
_SIZE: Final = 6  # of the heap
_NEXT: Final = 7  # of the roots
_SPARE: Final = 8  # first spare interval
_HOPS: Final = 9  # segments times hops that are done
_ROOTS: Final = 10
_WORDS: Final = 11

_INT: Final = np.dtype(np.int64)
_LAYOUT: Final = LinkTraffic(*[_INT] * len(LinkTraffic._fields))


def new_link_traffic(
    create: Any, flits: Any, begin: Any, path: Any, waiting: Any, delay: Any, child_begin: Any,
    child: Any, *, ports: int, router: int, wire: int, inject: int, quantum: int,
) -> LinkTraffic:  # fmt: skip
    """Packets before the first cycle, sorted by ``create``; arrays are of int64."""
    packets = len(create)
    segments = -(-flits // quantum)
    event = np.cumsum(segments + 1) - (segments + 1)
    events = int((segments + 1).sum())
    words = np.zeros(_WORDS, np.int64)
    words[: _PORTS + 1] = router, wire, inject, quantum, max(1, events.bit_length()), ports
    words[_SPARE] = NOTHING
    roots = np.flatnonzero(waiting == 0)
    words[_ROOTS] = len(roots)
    return LinkTraffic(
        words, create.copy(), flits, begin, path, event,
        packet=np.repeat(np.arange(packets), segments + 1),
        roots=roots, waiting=waiting.copy(), delay=delay,
        child_begin=child_begin, child=child, hop=np.zeros(events, np.int64),
        booked=np.zeros(len(path), np.int64), free=np.zeros(ports, np.int64),
        intervals=new_calendars(2 * ports), heap=np.empty(events, np.int64),
        inject=np.full(packets, -1, np.int64), arrival=np.full(packets, -1, np.int64),
        waited=np.zeros(ports, np.int64),
    )  # fmt: skip


def run_link_traffic(traffic: LinkTraffic) -> int:
    """Run until every packet has arrived; returns the hops of segments that were booked."""
    while run_link(traffic) < 0:
        intervals, first = with_more_intervals(traffic.intervals, traffic.words[_SPARE])
        traffic.words[_SPARE] = first
        traffic = traffic._replace(intervals=intervals)
    return int(traffic.words[_HOPS])


@inlined
def _release(state, packet, size):
    # Those that waited for the packet alone come to be created.
    for at in range(state.child_begin[packet], state.child_begin[packet + 1]):
        other = state.child[at]
        ready = state.arrival[packet] + state.delay[other]
        if ready > state.create[other]:
            state.create[other] = ready
        state.waiting[other] -= 1
        if state.waiting[other] == 0:
            key = (state.create[other] << state.words[_BITS]) | state.event[other]
            size = push_key(state.heap, size, key)
    return size


@apart
def _run(state):
    words = state.words
    router = words[_ROUTER]
    wire = words[_WIRE]
    quantum = words[_QUANTUM]
    bits = words[_BITS]
    inputs = words[_PORTS]
    mask = (1 << bits) - 1
    size = words[_SIZE]
    position = words[_NEXT]
    spare = words[_SPARE]
    hops = words[_HOPS]
    heap = state.heap
    intervals = state.intervals
    roots = words[_ROOTS]
    root_key = 0
    if position < roots:
        root = state.roots[position]
        root_key = (state.create[root] << bits) | state.event[root]
    while size > 0 or position < roots:
        # A booking takes an interval of each of two calendars.
        if not has_spare(intervals, spare, 2):
            words[_SIZE] = size
            words[_NEXT] = position
            words[_SPARE] = spare
            words[_HOPS] = hops
            return -1
        if position < roots and (size == 0 or root_key < heap[0]):
            key = root_key
            position += 1
            if position < roots:
                root = state.roots[position]
                root_key = (state.create[root] << bits) | state.event[root]
        else:
            key = heap[0]
            size = drop_key(heap, size)
        time = key >> bits
        event = key & mask
        i = state.packet[event]
        begin = state.begin[i]
        segment = event - state.event[i] - 1
        if segment < 0:
            port = state.path[begin]
            go = max(time, state.free[port])
            state.free[port] = go + state.flits[i]
            state.waited[port] += go - time
            state.inject[i] = go
            state.hop[event + 1] = 1
            size = push_key(heap, size, ((go + words[_INJECT] + router) << bits) | (event + 1))
            continue
        hops += 1
        j = state.hop[event]
        left = state.flits[i] - segment * quantum
        n = min(quantum, left)
        if j == 1 and left > quantum:
            state.hop[event + 1] = 1
            size = push_key(heap, size, ((time + quantum) << bits) | (event + 1))
        port = state.path[begin + j]
        inside = EACH_CALENDAR * (inputs + state.path[begin + j - 1])
        ready = max(time, state.booked[begin + j])
        c, spare = reserve(intervals, inside, EACH_CALENDAR * port, ready, n, time, spare)
        state.booked[begin + j] = c + n
        state.waited[port] += c - time
        if begin + j + 1 < state.begin[i + 1]:
            state.hop[event] = j + 1
            size = push_key(heap, size, ((c + wire + router) << bits) | event)
        elif left <= quantum:
            state.arrival[i] = c + wire + n - 1
            size = _release(state, i, size)
    words[_HOPS] = hops
    return 0


def _entry(traffic):
    """Run until every packet has arrived, 0, or until more intervals are needed, -1."""
    return _run(by_reference(traffic))


run_link: Any = cached_entry(_entry, _LAYOUT, what="engine of networks, model link")
