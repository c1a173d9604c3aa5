"""Memories whose ports have a bounded number of requests under way: ``hbm.port.outstanding``.

A request of a port is under way from the cycle in which it is accepted to that of its response. Of
an access, request ``i`` is accepted in the cycle after the responses of all requests up to ``i -
outstanding`` have come, at the earliest: the places of a port are given back in the order in which
they were taken, as in the memory model ``dram``. A port that has no place for a whole bundle issues
what it has places for. Distribution, channels and arbitration are those of the model that the
machine names.

When a request is accepted depends on the responses of earlier ones, so that every request is run
one by one; cycles in which no port can issue are not visited. The requests of a port alone are
accepted in turns, and their times follow from :func:`issuing_cycles`. All of it is an engine of its
own, so that runs without a bound are those of the common engine.

``memory_table`` holds the model and the bound, and for every port its position among the channels
and the requests issued of its access. Behind them, as a cache that is written before it is read,
lies a ring of ``outstanding`` words for every port: the cycle by which a request and all before it
have come back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stepsim.kernels.build.jit import inlined, kernel
from stepsim.kernels.calendar import schedule
from stepsim.kernels.layout import INFINITY
from stepsim.kernels.memory.accesses import (
    activate,
    complete,
    enter,
    next_to_begin,
    one_begins,
)
from stepsim.kernels.memory.declaration import MemoryModel, MemoryTable
from stepsim.kernels.memory.interleaved import INTERLEAVED, first_channel
from stepsim.kernels.memory.published import PUBLISHED
from stepsim.kernels.memory.uncontended import UNCONTENDED

BOUNDED: Final = MemoryModel(
    "bounded", "bounds the requests of a port that are under way", apart=True, listed=False
)
"""Stands in for a model of ``CAN_BE_BOUNDED`` where the machine states a bound."""

CAN_BE_BOUNDED: Final = (INTERLEAVED.name, PUBLISHED.name, UNCONTENDED.name)
"""Models by their number in the table; a model with addresses has a bound of its own."""

_INTERLEAVED: Final = 0
_ALONE: Final = 2

_MODEL: Final = 0
_BOUND: Final = 1
_HEADER: Final = 2
POSITIONS: Final = _HEADER
"""Where the positions of the ports begin in the table."""


def bounded_table(
    model: str, channels: int, bundles: Sequence[int], outstanding: int
) -> MemoryTable:
    """The table of a run with a bound, for the bundle size of every port."""
    positions = [first_channel(port, channels) for port in range(len(bundles))]
    header = [CAN_BE_BOUNDED.index(model), outstanding]
    words = np.array([*header, *positions, *[0] * len(bundles)], np.int64)
    return MemoryTable(words, cache=len(bundles) * outstanding)


def window_of(bundle: NDArray[np.int64], outstanding: int | None, delay: int) -> NDArray[np.int64]:
    """Requests after which lone ports wait for the first of them; INFINITY if they never wait.

    Parameters
    ----------
    bundle : requests that each port may issue per cycle.
    outstanding : bound, None for none.
    delay : cycles from the start of a request to its response.
    """
    waits = np.zeros(len(bundle), bool)
    if outstanding is not None:
        waits = outstanding < bundle * turn_of(delay)
    return np.where(waits, outstanding or 1, INFINITY)


def turn_of(delay: int) -> int:
    """Cycles from the acceptance of a request to the first one that may take its place."""
    return delay + 2


@inlined
def issuing_cycles(requests, bundle, window, turn):
    """Cycles from the first request that a lone port issues to the last one, both included."""
    last = requests - 1
    return last // window * turn + last % window // bundle + 1


@BOUNDED.issue
def issue(state, port, clock, requests):
    words = state.memory_table
    if words[_MODEL] != _ALONE:
        enter(state, port, clock, requests)
        return
    shared = state.globals[0]
    record = state.ports[port]
    turn = shared.memory_delay + 2
    window = words[_BOUND]
    if window >= record.bundle * turn:
        window = INFINITY
    shared.memory_requests += requests
    cycles = issuing_cycles(requests, record.bundle, window, turn)
    schedule(state, record.unit, clock + cycles + shared.memory_delay + 2)


@inlined
def _issued(state, p):
    # Where the number of requests is that port ``p`` has issued of its access.
    return _HEADER + ((state.globals[0].memory_words - _HEADER) >> 1) + p


@inlined
def _ring(state, p):
    return state.globals[0].memory_words + p * state.memory_table[_BOUND]


@kernel
def _issue_bundle(state, p, t, sent):
    # The requests that port ``p`` issues in cycle ``t``, behind ``sent`` ones of other ports; how
    # many there are now. The port is due again when it has the next place.
    shared = state.globals[0]
    words = state.memory_table
    port = state.ports[p]
    channels = shared.memory_channels
    bound = words[_BOUND]
    ring = _ring(state, p)
    issued = words[_issued(state, p)]
    place = ring + issued % bound
    most = min(port.bundle, port.left)
    count = 0
    while count < most and (issued < bound or words[place] < t):
        if words[_MODEL] == _INTERLEAVED:
            channel = words[_HEADER + p]
            words[_HEADER + p] = channel + 1 if channel + 1 < channels else 0
        else:
            channel = (shared.memory_offset + sent * (sent + 1) // 2) % channels
        start = max(state.free_at[channel], t + 1)
        state.free_at[channel] = start + shared.memory_interval
        port.vmax = max(port.vmax, start + shared.memory_delay)
        words[place] = port.vmax
        place += 1
        if place == ring + bound:
            place = ring
        issued += 1
        sent += 1
        count += 1
    words[_issued(state, p)] = issued
    port.left -= count
    port.due = t + 1
    if issued >= bound:
        port.due = max(port.due, words[place] + 1)
    return sent


@kernel
def _run_cycle(state, t, limit):
    # Cycle ``t`` of the ports that are due in it; the new ``limit``.
    shared = state.globals[0]
    sent = 0
    kept = 0
    for i in range(shared.memory_active):
        p = state.active[i]
        port = state.ports[p]
        if port.due <= t:
            sent = _issue_bundle(state, p, t, sent)
        if port.left > 0:
            state.active[kept] = p
            kept += 1
        else:
            limit = min(limit, complete(state, p, port.vmax))
    shared.memory_active = kept
    shared.memory_offset = (shared.memory_offset + sent * (sent + 1) // 2) % shared.memory_channels
    shared.memory_steps += sent
    return limit


@inlined
def _next_cycle(state, t, limit):
    # The first cycle from ``t`` on in which a port issues; after ``limit`` when there is none.
    shared = state.globals[0]
    first = limit + 1
    if shared.memory_pending > 0:
        first = min(first, state.ports[state.pending[0]].due)
    for i in range(shared.memory_active):
        first = min(first, state.ports[state.active[i]].due)
    return max(first, t)


@BOUNDED.advance
def advance(state, limit):
    """Run all cycles up to ``limit``, or up to the first completion created on the way."""
    shared = state.globals[0]
    t = shared.memory_now
    while True:
        first = _next_cycle(state, t, limit)
        if first > limit:
            break
        t = first
        while one_begins(state, t):
            p = next_to_begin(state)
            state.ports[p].due = t
            state.memory_table[_issued(state, p)] = 0
            activate(state, p)
        limit = _run_cycle(state, t, limit)
        t += 1
    shared.memory_now = t
