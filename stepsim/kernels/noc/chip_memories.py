"""The memories of several chips: one of each, which knows nothing of the others.

Each has its own ports, channels and table, in parts of the arrays of the run that lie one behind
the other. A memory is only advanced to where an access on it may be complete: until then nothing
that happens on its chip or elsewhere depends on it, and nothing that happens before that can add a
request that it had to know of. Of a memory with addresses that is the next cycle in which anything
happens in it. What happens first on any chip is found in a tree.

Words of the table of a run, in front of the tables of the chips: ``HEADER`` by name, then ``_EACH``
for every chip, the chip of every port, and the tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stepsim.kernels.build.jit import inlined, kernel
from stepsim.kernels.calendar import next_unit
from stepsim.kernels.layout import INFINITY, State
from stepsim.kernels.memory.bounded import BOUNDED
from stepsim.kernels.memory.declaration import MemoryTable
from stepsim.kernels.memory.dispatch import advance as advance_memory, issue as issue_at_memory
from stepsim.kernels.memory.dram import DRAM
from stepsim.kernels.memory.interleaved import INTERLEAVED
from stepsim.kernels.memory.published import PUBLISHED
from stepsim.kernels.memory.table import moved_tables
from stepsim.kernels.memory.uncontended import UNCONTENDED
from stepsim.kernels.noc.messages import (
    await_message,
    next_message_time,
    serve_messages,
    serve_what_is_left,
)
from stepsim.kernels.parking import is_due
from stepsim.kernels.recording.journal import is_full

OF_CHIPS: Final = (INTERLEAVED.name, PUBLISHED.name, UNCONTENDED.name, DRAM.name, BOUNDED.name)
"""Memory models that several chips can have, the one that no machine names last."""

_OF_PORT: Final = 0  # place of the chip of every port
_TREE: Final = 1
_LEAVES: Final = 2  # of the tree, a power of two
_HEADER: Final = 3

_FIRST: Final = 0  # port
_PORTS: Final = 1
_TABLE: Final = 2  # place of its table
_END: Final = 3
_WORDS: Final = 4  # of that which a run begins with
_NOW: Final = 5
_ACTIVE: Final = 6
_PENDING: Final = 7
_OFFSET: Final = 8
_EACH: Final = 9


def tables_of_chips(model: str, tables: Sequence[MemoryTable], ports: Sequence[int]) -> MemoryTable:
    """The table of a run on several chips.

    Parameters
    ----------
    model : name of the memory model.
    tables : of every chip.
    ports : number of ports of every chip; those of the first chip come first.
    """
    chips = len(tables)
    leaves = 1
    while leaves < chips:
        leaves *= 2
    of_port = _HEADER + _EACH * chips
    tree = of_port + sum(ports)
    first = tree + 2 * leaves
    head = np.zeros(first, np.int64)
    head[:_HEADER] = of_port, tree, leaves
    head[of_port:tree] = np.repeat(np.arange(chips), ports)
    head[tree:] = INFINITY
    if model == PUBLISHED.name:
        parts, end, cache = moved_tables(tables, first)
        ends = np.full(chips, end)
    else:
        # Where their cache is follows from their words.
        parts = [np.append(one.words, np.zeros(one.cache, np.int64)) for one in tables]
        cache, ends = 0, first + np.cumsum([len(part) for part in parts])
    each = head[_HEADER:of_port].reshape(chips, _EACH)
    sizes = [len(part) for part in parts]
    each[:, _PORTS] = ports
    each[:, _FIRST] = np.cumsum(ports) - ports
    each[:, _TABLE] = first + np.cumsum(sizes) - sizes
    each[:, _END] = ends
    each[:, _WORDS] = [len(one.words) for one in tables]
    return MemoryTable(np.concatenate([head, *parts]), cache)


def table_places(words: NDArray[np.int64], chips: int) -> list[int]:
    """Where the table of every chip begins in the table of a run on several."""
    return [int(words[_HEADER + _EACH * chip + _TABLE]) for chip in range(chips)]


@inlined
def _chip(chip):
    return _HEADER + _EACH * chip


@inlined
def _memory_of(state, chip):
    # The state of a run with the memory of one chip alone, at whose time it is.
    shared = state.globals[0]
    words = state.memory_table
    at = _chip(chip)
    shared.memory_now = words[at + _NOW]
    shared.memory_active = words[at + _ACTIVE]
    shared.memory_pending = words[at + _PENDING]
    shared.memory_offset = words[at + _OFFSET]
    shared.memory_words = words[at + _WORDS]
    first = words[at + _FIRST]
    end = first + words[at + _PORTS]
    channels = shared.memory_channels
    return State(
        state.units, state.channels, state.slots, state.tokens, state.parameters, state.scratch,
        state.work_list, state.free_lists, state.calendar, state.ports[first:end],
        state.pending[first:end], state.active[first:end],
        state.free_at[chip * channels : (chip + 1) * channels],
        state.memory_table[words[at + _TABLE] : words[at + _END]], state.paces, state.globals,
    )  # fmt: skip


@inlined
def _keep(state, chip):
    # Write down where the memory of a chip is.
    shared = state.globals[0]
    words = state.memory_table
    at = _chip(chip)
    words[at + _NOW] = shared.memory_now
    words[at + _ACTIVE] = shared.memory_active
    words[at + _PENDING] = shared.memory_pending
    words[at + _OFFSET] = shared.memory_offset


@inlined
def _last_bundle(port):
    # The cycle in which the last bundle of an access is issued, at the earliest.
    if port.left == 0:
        return port.due - 1
    if port.left <= port.bundle:
        return port.due
    return port.due + (port.left - 1) // port.bundle


@inlined
def last_bundle_of(clock, requests, bundle):
    """The cycle before which an access that is issued at ``clock`` is not complete."""
    return clock + 1 + (requests - 1) // bundle


@inlined
def next_cycle_of(clock, requests, bundle):
    """As ``last_bundle_of``, of a memory that may have the data before it is asked for them."""
    return clock + 1


@kernel
def first_end(memory):
    """The first cycle in which the last bundle of an access may be issued."""
    shared = memory.globals[0]
    found = INFINITY
    for i in range(shared.memory_pending):
        found = min(found, _last_bundle(memory.ports[memory.pending[i]]))
    for i in range(shared.memory_active):
        found = min(found, _last_bundle(memory.ports[memory.active[i]]))
    return found


@kernel
def _set_end(state, chip, cycle):
    words = state.memory_table
    tree = words[_TREE]
    i = words[_LEAVES] + chip
    words[tree + i] = cycle
    while i > 1:
        i >>= 1
        least = min(words[tree + 2 * i], words[tree + 2 * i + 1])
        if words[tree + i] == least:
            break
        words[tree + i] = least


@inlined
def _first_chip(state):
    words = state.memory_table
    tree = words[_TREE]
    i = np.int64(1)
    while i < words[_LEAVES]:
        i *= 2
        if words[tree + i] > words[tree + i + 1]:
            i += 1
    return i - words[_LEAVES]


@inlined
def _first_cycle(state):
    return state.memory_table[state.memory_table[_TREE] + 1]


@inlined
def issue(state, port, clock, requests):
    """As ``issue`` of the memory; a unit without a port waits for a message of a route, which is
    given as ``requests``."""
    if port < 0:
        await_message(state, requests, clock)
        return
    words = state.memory_table
    chip = words[words[_OF_PORT] + port]
    own = port - words[_chip(chip) + _FIRST]
    memory = _memory_of(state, chip)
    issue_at_memory(memory, own, clock, requests)
    _keep(state, chip)
    begun = memory.ports[own]
    last = last_bundle_of(clock, requests, begun.bundle)
    if last < words[words[_TREE] + words[_LEAVES] + chip]:
        _set_end(state, chip, last)


@inlined
def advance(state, limit):
    """As ``advance`` of the memory; in every cycle, the memories come first."""
    shared = state.globals[0]
    serve_what_is_left(state)
    while not is_full(state):
        time = next_message_time(state)
        limit_of_memories = min(limit, time)
        while True:
            cycle = _first_cycle(state)
            if cycle > limit_of_memories or cycle == INFINITY:
                break
            chip = _first_chip(state)
            memory = _memory_of(state, chip)
            advance_memory(memory, cycle)
            _keep(state, chip)
            _set_end(state, chip, first_end(memory))
            if shared.calendar_length > 0:
                limit_of_memories = min(limit_of_memories, state.units[next_unit(state)].evt)
        if shared.calendar_length > 0:
            limit = min(limit, state.units[next_unit(state)].evt)
        if time > limit or time == INFINITY or is_due(state, time):
            break
        serve_messages(state, time)
        if shared.calendar_length > 0:
            limit = min(limit, state.units[next_unit(state)].evt)
