"""Segments of the past of the published model: what was issued when, and the clocks before it.

Segment ``s`` is ``LENGTH`` cycles from ``START`` with ``REQUESTS`` in each; the walk starts at
channel ``OFFSET``. In a *mapped* segment ``clocks_of(HELD)`` are the clocks of the channels at its
start, and those of the next number at its end or a little later. Segments of few requests are
*walked*, in the clocks that are there: of them, the start of every request is kept, from ``FIRST``
on; in mapped ones that is -1. Between segments ports change what they issue: (port, more requests
per cycle) in a log, of which the first ``MARK`` entries lie before the segment.

All are rings. Before their oldest part is overwritten, accesses that began in it must not need it
any more: either every clock is by now later than any request of that part was served, or what is
known of them is written down in their ports.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from stepsim.kernels.build.jit import inlined, kernel
from stepsim.kernels.layout import INFINITY
from stepsim.kernels.memory.table import (
    CLOCKS,
    LOG,
    LOG_MASK,
    LOGGED,
    RATE,
    RING_MASK,
    SEGMENT_WORDS,
    SEGMENTS,
    SLOT,
    SLOT_MASK,
    TREE,
    TREE_PORTS,
)

START: Final = 0
LENGTH: Final = 1
OFFSET: Final = 2
REQUESTS: Final = 3
MARK: Final = 4
HELD: Final = 5  # number of the clocks at the start
FIRST: Final = 6
BEFORE: Final = 7  # largest clock at the start of a walked segment
ALL: Final = 9  # starts that are kept of the segments before
TOP: Final = 8  # largest clock of the clocks of this number; -1 until it is asked for


@inlined
def segment_of(state, s):
    """Where the words of segment ``s`` are."""
    words = state.memory_table
    return words[SEGMENTS] + (s & words[RING_MASK]) * SEGMENT_WORDS


@inlined
def clocks_of(state, slot):
    """Where the clocks of a number are."""
    words = state.memory_table
    return words[CLOCKS] + (slot & words[SLOT_MASK]) * state.globals[0].memory_channels


@kernel
def _largest(state, clocks):
    words = state.memory_table
    first = np.uint64(clocks)
    top = 0
    for c in range(np.uint64(state.globals[0].memory_channels)):
        top = max(top, words[first + c])
    return top


@inlined
def top_of(state, slot):
    """The largest of the clocks of a number."""
    words = state.memory_table
    known = segment_of(state, slot) + TOP
    if words[known] < 0:
        words[known] = _largest(state, clocks_of(state, slot))
    return words[known]


@inlined
def top_before(state, segment):
    """The largest clock at the start of a segment."""
    words = state.memory_table
    if words[segment + FIRST] >= 0:
        return words[segment + BEFORE]
    return top_of(state, words[segment + HELD])


@kernel
def least_clock(state):
    """The smallest clock at present."""
    words = state.memory_table
    first = np.uint64(clocks_of(state, words[SLOT]))
    least = INFINITY
    for c in range(np.uint64(state.globals[0].memory_channels)):
        least = min(least, words[first + c])
    return least


@inlined
def change(state, port, more):
    """``port`` issues ``more`` requests per cycle from here on."""
    words = state.memory_table
    entry = words[LOG] + 2 * (words[LOGGED] & words[LOG_MASK])
    words[entry] = port
    words[entry + 1] = more
    words[LOGGED] += 1
    words[RATE] += more
    i = port + 1
    while i <= words[TREE_PORTS]:
        words[words[TREE] + i] += more
        i += i & -i


@inlined
def place_of(state, port):
    """Requests that other ports issue before ``port`` in a cycle: those with smaller numbers."""
    words = state.memory_table
    place = 0
    i = port
    while i > 0:
        place += words[words[TREE] + i]
        i -= i & -i
    return place
