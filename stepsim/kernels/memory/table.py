"""The table of the published model: where its parts lie, and what they hold at first.

``HEADER`` words by name, then

* for every number ``k`` below the requests of all bundles: the channel of request ``k`` of a cycle,
  counted from that of request 0 (triangular numbers modulo the channels), and how many earlier
  requests of the cycle it finds there (*turns*);
* a tree of the ports that issue, by which the place of a port in a cycle is found;

and from here on what need not be cleared for a run: a log of changes, segments, clocks of the
channels and starts of requests, four rings of which nothing is read before it is written; and the
maps of :mod:`stepsim.kernels.memory.maps`, which depend on the machine alone. These have to be zero
before the first run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from stepsim.kernels.memory.declaration import MemoryTable

# State of a run.
RATE: Final = 0  # requests per cycle at present
NEWEST: Final = 1  # segments so far
OLDEST: Final = 2  # first segment that is remembered
LOGGED: Final = 3  # changes so far
SLOT: Final = 17  # number of the clocks that hold now
STARTED: Final = 18  # starts so far
# Places and lengths of the parts.
WALK: Final = 4
TURNS: Final = 5
TREE: Final = 6
TREE_PORTS: Final = 7
LOG: Final = 8
LOG_MASK: Final = 9
SEGMENTS: Final = 10
RING_MASK: Final = 11
CLOCKS: Final = 12
MAPS: Final = 13
MAP_COUNT: Final = 14  # a power of two
MAP_WORDS: Final = 15
LEVELS: Final = 16  # powers of two whose map is kept: up to the longest period
SLOT_MASK: Final = 19
STARTS: Final = 20
STARTS_MASK: Final = 21
HEADER: Final = 22

SEGMENT_WORDS: Final = 10
MAP_HEAD: Final = 3

_SEGMENTS: Final = 512
_CLOCK_WORDS: Final = 1 << 16  # of the ring, with many channels at least for _LEAST_SLOTS
_LEAST_SLOTS: Final = 8
_STARTS: Final = 1 << 17
_MAP_WORDS: Final = 1 << 20  # of all maps, unless one alone is larger


def table_of(channels: int, bundles: Sequence[int]) -> MemoryTable:
    """The table for a number of channels and the bundle size of every port."""
    most = sum(bundles)
    k = np.arange(most + 1, dtype=np.int64)
    walk = (k * (k + 1) // 2) % channels
    parts = [walk, _turns(walk), np.zeros(len(bundles) + 1, np.int64)]
    header = np.zeros(HEADER, np.int64)
    at = HEADER
    for word, part in zip((WALK, TURNS, TREE), parts, strict=True):
        header[word] = at
        at += len(part)
    state = at
    ring = _SEGMENTS
    slots = _power_below(min(ring, max(_LEAST_SLOTS, _CLOCK_WORDS // channels)))
    starts = _power_below(max(_STARTS, channels))
    log = _power_below(8 * (len(bundles) + 1) + 4 * ring)
    levels = channels.bit_length()
    words = MAP_HEAD + 2 * levels + (levels + 1) * 4 * channels
    maps = max(1, _power_below(min(2 * (most + 1), max(1, _MAP_WORDS // words))))
    sizes = ((LOG, 2 * log), (SEGMENTS, ring * SEGMENT_WORDS), (CLOCKS, slots * channels))
    for word, size in (*sizes, (STARTS, starts), (MAPS, maps * words)):
        header[word] = at
        at += size
    header[TREE_PORTS] = len(bundles)
    header[LOG_MASK], header[RING_MASK] = log - 1, ring - 1
    header[SLOT_MASK], header[STARTS_MASK] = slots - 1, starts - 1
    header[MAP_COUNT], header[MAP_WORDS], header[LEVELS] = maps, words, levels
    return MemoryTable(np.concatenate([header, *parts]), cache=at - state)


def moved_tables(tables: Sequence[MemoryTable], first: int) -> tuple[list[np.ndarray], int, int]:
    """The words of the tables of several memories, to lie one behind the other from ``first`` on.

    Behind all of them come their rings, and maps that all of them share: these depend on the
    machine alone.

    Returns
    -------
    The words of each, the end of everything, and how much of it need not be cleared for a run.
    """
    maps = max(int(one.words[MAP_COUNT]) for one in tables)
    begin = first
    ring = first + sum(len(one.words) for one in tables)
    rings = [one.cache - int(one.words[MAP_COUNT] * one.words[MAP_WORDS]) for one in tables]
    shared = ring + sum(rings)
    moved = []
    for one, size in zip(tables, rings, strict=True):
        words = one.words.copy()
        for part in (LOG, SEGMENTS, CLOCKS, STARTS):
            words[part] += ring - begin - len(words)
        words[MAPS] = shared - begin
        words[MAP_COUNT] = maps
        moved.append(words)
        begin += len(words)
        ring += size
    end = shared + maps * int(tables[0].words[MAP_WORDS])
    return moved, end, end - begin


def _turns(walk: np.ndarray) -> np.ndarray:
    """How many earlier elements are equal, for every element."""
    order = np.argsort(walk, kind="stable")
    ranked = walk[order]
    first = np.searchsorted(ranked, ranked)
    turns = np.empty_like(walk)
    turns[order] = np.arange(len(walk)) - first
    return turns


def _power_below(number: int) -> int:
    """The largest power of two that is not larger."""
    return 1 << (number.bit_length() - 1)
