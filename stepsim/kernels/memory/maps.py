"""What cycles of equal numbers of requests do to the channels, as max-plus maps.

A cycle ``t`` in which ``a > 0`` requests reach a channel takes its clock to ``max(free, t + 1) + a
* interval``, that is from ``free`` to ``max(free + work, t + idle)`` with ``work = a * interval``
and ``idle = 1 + work``; without requests, ``work`` is 0 and ``idle`` infinitely early. Maps of this
form stay such when one follows another: ``work + work'``, ``max(idle + work', n + idle')`` when the
second starts ``n`` cycles after the first. With ``R`` requests per cycle, the maps of ``1, 2, 4,
...`` cycles follow by doubling, and those of any number by its binary digits. The walk over the
channels repeats after a *period* of ``channels / gcd(channels, R (R + 1) / 2)`` cycles; ``k`` of
them are the map ``k * work``, ``idle + (k - 1) * max(period, work)``.

A map holds the channels in the order in which the walk meets them from request 0 of its first
cycle: channel ``c`` is at ``c - offset``. Every row is there twice, one behind the other, so that
all channels are read in one sweep from ``channels - offset`` on. Indices of sweeps are unsigned:
signed ones are asked whether they count from the end, and the loop then takes eight times as long.

The maps of one ``R`` are made on first use, and kept until another ``R`` needs their room.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from stepsim.kernels.build.jit import inlined, kernel
from stepsim.kernels.layout import INFINITY
from stepsim.kernels.memory.accesses import gcd
from stepsim.kernels.memory.table import (
    LEVELS,
    MAP_COUNT,
    MAP_HEAD,
    MAP_WORDS,
    MAPS,
    WALK,
)

PERIOD: Final = 1
_READY: Final = 2  # levels that are there; the period counts as the last one
_REQUESTS: Final = 0


@inlined
def walked(state, k):
    """How far request ``k`` of a cycle is from request 0, in channels."""
    return state.memory_table[state.memory_table[WALK] + k]


@inlined
def map_of(state, requests):
    """Where the maps for ``requests`` per cycle are."""
    words = state.memory_table
    steps = words[MAPS] + (requests & (words[MAP_COUNT] - 1)) * words[MAP_WORDS]
    if words[steps] != requests:
        _one_cycle(state, steps, requests)
    return steps


@inlined
def _row(state, steps, level):
    # ``2 * channels`` words of work, then as many of idle.
    words = state.memory_table
    return steps + MAP_HEAD + 2 * words[LEVELS] + level * 4 * state.globals[0].memory_channels


@inlined
def _least_word(steps, level):
    return steps + MAP_HEAD + 2 * level


@inlined
def _shift_word(steps, level):
    return steps + MAP_HEAD + 2 * level + 1


@kernel
def _one_cycle(state, steps, requests):
    # Level 0 of the maps for ``requests`` per cycle.
    shared = state.globals[0]
    words = state.memory_table
    channels = shared.memory_channels
    words[steps + _REQUESTS] = requests
    words[steps + PERIOD] = channels // gcd(channels, walked(state, requests))
    words[steps + _READY] = 1
    row = _row(state, steps, 0)
    for c in range(channels):
        words[row + c] = 0
    for k in range(requests):
        words[row + walked(state, k)] += shared.memory_interval
    shared.memory_steps += requests
    idle = row + 2 * channels
    for c in range(channels):
        words[idle + c] = words[row + c] + 1 if words[row + c] > 0 else -INFINITY
    words[_least_word(steps, 0)] = _finished(state, row)
    words[_shift_word(steps, 0)] = walked(state, requests)


@inlined
def _finished(state, row):
    # Copy the channels of a row behind themselves; the least work of a channel.
    words = state.memory_table
    channels = np.uint64(state.globals[0].memory_channels)
    work = np.uint64(row)
    idle = work + channels + channels
    least = INFINITY
    for c in range(channels):
        least = min(least, words[work + c])
        words[work + channels + c] = words[work + c]
        words[idle + channels + c] = words[idle + c]
    return least


@kernel
def _join(state, first, offset, cycles, second, result):
    # The row ``result``: ``first``, of ``cycles`` cycles and an advance by ``offset``, and then
    # ``second``. It may be ``first`` itself.
    words = state.memory_table
    channels = state.globals[0].memory_channels
    all_channels = np.uint64(channels)
    before = np.uint64(first)
    behind = np.uint64(second + channels - offset)
    joined = np.uint64(result)
    to_idle = all_channels + all_channels
    for c in range(all_channels):
        work = words[behind + c]
        idle = max(words[before + to_idle + c] + work, words[behind + to_idle + c] + cycles)
        words[joined + c] = words[before + c] + work
        words[joined + to_idle + c] = idle
    return _finished(state, result)


@kernel
def _double(state, steps, level):
    # Make the levels up to ``level``.
    words = state.memory_table
    channels = state.globals[0].memory_channels
    for j in range(words[steps + _READY], level + 1):
        half = _row(state, steps, j - 1)
        shift = words[_shift_word(steps, j - 1)]
        least = _join(state, half, shift, 1 << (j - 1), half, _row(state, steps, j))
        words[_least_word(steps, j)] = least
        words[_shift_word(steps, j)] = (2 * shift) % channels
        words[steps + _READY] = j + 1


@kernel
def _make_period(state, steps):
    # The map of a period, by its binary digits, behind all levels.
    words = state.memory_table
    channels = state.globals[0].memory_channels
    period = words[steps + PERIOD]
    _double(state, steps, words[LEVELS] - 1)
    whole = _row(state, steps, words[LEVELS])
    cycles = 0
    offset = 0
    for level in range(words[LEVELS]):
        if (period >> level) & 1 == 0:
            continue
        row = _row(state, steps, level)
        if cycles == 0:
            for c in range(4 * channels):
                words[whole + c] = words[row + c]
        else:
            _join(state, whole, offset, cycles, row, whole)
        cycles += 1 << level
        offset = (offset + words[_shift_word(steps, level)]) % channels
    words[steps + _READY] = words[LEVELS] + 1


@inlined
def _level(state, steps, level):
    if state.memory_table[steps + _READY] <= level:
        _double(state, steps, level)
    return _row(state, steps, level)


@inlined
def _period(state, steps):
    levels = state.memory_table[LEVELS]
    if state.memory_table[steps + _READY] <= levels:
        _make_period(state, steps)
    return _row(state, steps, levels)


@inlined
def least_after(state, steps, cycles):
    """Least work that a channel gets in ``cycles`` cycles, a power of two; of a shorter time where
    no map of as long a one is kept."""
    words = state.memory_table
    level = 0
    while (2 << level) <= cycles and level < words[LEVELS] - 1:
        level += 1
    _level(state, steps, level)
    return words[_least_word(steps, level)]


@inlined
def _apply(state, row, offset, t, source, target):
    # One map, from cycle ``t``, on the clocks of all channels.
    words = state.memory_table
    channels = state.globals[0].memory_channels
    work = np.uint64(row + channels - offset)
    idle = np.uint64(row + 3 * channels - offset)
    before = np.uint64(source)
    after = np.uint64(target)
    for c in range(np.uint64(channels)):
        words[after + c] = max(words[before + c] + words[work + c], words[idle + c] + t)


@inlined
def _apply_periods(state, row, count, period, offset, t, source, target):
    # ``count`` periods, from cycle ``t``.
    words = state.memory_table
    channels = state.globals[0].memory_channels
    works = np.uint64(row + channels - offset)
    idles = np.uint64(row + 3 * channels - offset)
    before = np.uint64(source)
    after = np.uint64(target)
    for c in range(np.uint64(channels)):
        work = words[works + c]
        busy = words[before + c] + count * work
        idle = words[idles + c] + t + (count - 1) * max(period, work)
        words[after + c] = max(busy, idle)


@inlined
def pass_cycles(state, steps, cycles, offset, t, source, target):
    """Take the clocks at ``source`` over ``cycles`` cycles from ``t`` to those at ``target``; the
    offset behind them."""
    words = state.memory_table
    channels = state.globals[0].memory_channels
    period = words[steps + PERIOD]
    if cycles >= period:
        count = cycles // period
        row = _period(state, steps)
        _apply_periods(state, row, count, period, offset, t, source, target)
        source = target
        t += count * period
        cycles -= count * period
    level = 0
    while cycles > 0:
        if cycles & 1 != 0:
            _apply(state, _level(state, steps, level), offset, t, source, target)
            source = target
            t += 1 << level
            offset += words[_shift_word(steps, level)]
            if offset >= channels:
                offset -= channels
        cycles >>= 1
        level += 1
    return offset


@inlined
def clock_of(state, steps, clocks, offset, t, cycles, c):
    """The clock of channel ``c`` after ``cycles`` cycles from ``t``, of those at ``clocks``."""
    words = state.memory_table
    channels = state.globals[0].memory_channels
    free = words[clocks + c]
    period = words[steps + PERIOD]
    place = c - offset
    if place < 0:
        place += channels
    if cycles >= period:
        count = cycles // period
        row = _period(state, steps) + place
        work = words[row]
        idle = words[row + 2 * channels] + t + (count - 1) * max(period, work)
        free = max(free + count * work, idle)
        t += count * period
        cycles -= count * period
    level = 0
    while cycles > 0:
        if cycles & 1 != 0:
            row = _level(state, steps, level) + place
            free = max(free + words[row], words[row + 2 * channels] + t)
            t += 1 << level
            place -= words[_shift_word(steps, level)]
            if place < 0:
                place += channels
        cycles >>= 1
        level += 1
    return free
