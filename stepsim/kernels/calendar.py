"""The calendar: units waiting for a memory completion or an arrival decision, ordered by time.

An indexed binary heap of unit numbers; the key is ``(unit.evt, unit number)``, so equal times are
served in unit order. Each unit has at most one entry, and its time can be moved either way.
"""

from __future__ import annotations

from stepsim.kernels.build.jit import apart, inlined


@inlined
def _before(state, a, b):
    ta = state.units[a].evt
    tb = state.units[b].evt
    return ta < tb or (ta == tb and a < b)


@inlined
def _sift_up(state, i):
    unit = state.calendar[i]
    while i > 0:
        up = (i - 1) >> 1
        if not _before(state, unit, state.calendar[up]):
            break
        state.calendar[i] = state.calendar[up]
        state.units[state.calendar[i]].hpos = i
        i = up
    state.calendar[i] = unit
    state.units[unit].hpos = i


@inlined
def _sift_down(state, n, i):
    unit = state.calendar[i]
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        if child + 1 < n and _before(state, state.calendar[child + 1], state.calendar[child]):
            child += 1
        if not _before(state, state.calendar[child], unit):
            break
        state.calendar[i] = state.calendar[child]
        state.units[state.calendar[i]].hpos = i
        i = child
    state.calendar[i] = unit
    state.units[unit].hpos = i


@apart
def schedule(state, unit, time):
    """Enter ``unit`` at ``time``, or move its entry there."""
    shared = state.globals[0]
    record = state.units[unit]
    record.evt = time
    if record.hpos < 0:
        state.calendar[shared.calendar_length] = unit
        shared.calendar_length += 1
        _sift_up(state, shared.calendar_length - 1)
    else:
        _sift_up(state, record.hpos)
        _sift_down(state, shared.calendar_length, record.hpos)


@inlined
def next_unit(state):
    """The unit that is due first. Needs ``calendar_length > 0``."""
    return state.calendar[0]


@inlined
def pop_unit(state):
    """Remove and return the unit that is due first."""
    shared = state.globals[0]
    unit = state.calendar[0]
    state.units[unit].hpos = -1
    shared.calendar_length -= 1
    if shared.calendar_length > 0:
        state.calendar[0] = state.calendar[shared.calendar_length]
        _sift_down(state, shared.calendar_length, 0)
    return unit
