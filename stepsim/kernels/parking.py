"""Producers that find a FIFO full at their pace, and park: when they go on.

The specification (timing of operators, [CANON-PARK]) says: a producer at pace ``h`` that needs a
slot freed at a pace after ``h + 1`` sleeps with its work already in its clock ``B``. It goes on at
the pace of the first of these: the clock of the consumer reaches ``B``; the consumer waits at this
FIFO, which is empty; the pace itself is ``B``; the consumer has returned. Only paces depend on it,
and by them what an EagerMerge or a Reassemble finds.

Other units see the clock that a unit had after its last primitive (``visible``); work that it has
done since is seen when the next primitive ends. When a clock was reached follows from the changes
of the unit's pace: between two changes the pace is one number. Units run ahead of each other, so
that a producer may ask for what is past. The last change is kept of every consumer, and a ring of
them of consumers that look for arrivals, for these run far ahead of inputs that they do not select.
If that does not reach back far enough, the run begins again with longer rings for all.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from stepsim.kernels.build.jit import apart, cold, inlined
from stepsim.kernels.layout import INFINITY, Cause, Parks, Status
from stepsim.kernels.recording.journal import note_pace

_SHIFT: Final = 2
PACE_WORDS: Final = 1 << _SHIFT
"""Words of a change: the pace before it, the clock before it, the clock after it, and a spare."""

LAST_ONLY: Final = 0
"""``log`` of a unit of which the last change of pace is kept, and no ring."""

_DUE: Final = -1
"""Time of a unit that was parked, when the pace has come to where its clock was."""
_MOST_CHANGES: Final = 1 << 30
"""Changes are counted up to here, and from half of it again: far more than are kept."""
_NOT_YET: Final = -1
_FORGOTTEN: Final = -2


@inlined
def _keep(un, state, clock):
    # The pace is about to change, in a primitive that ends at a clock.
    if un.log == LAST_ONLY:
        un.last_pace = un.h
        un.last_visible = un.visible
        un.last_clock = clock
    else:
        _keep_in_ring(un, state, clock)


@cold
def _keep_in_ring(un, state, clock):
    mask = state.globals[0].pace_mask
    at = ((un.log - 1) * (mask + 1) + (un.changes & mask)) << _SHIFT
    state.paces[at] = un.h
    state.paces[at + 1] = un.visible
    state.paces[at + 2] = clock
    un.changes += 1
    if un.changes == _MOST_CHANGES:
        un.changes = _MOST_CHANGES >> 1


@inlined
def raise_pace(un, state, pace):
    """The pace of a unit rises, at the end of a primitive that moved its clock to where it is."""
    if un.log >= LAST_ONLY:
        _keep(un, state, un.clk)
    un.h = pace


@inlined
def _reached(state, unit, clock, enough):
    """The pace at which a unit's clock reached ``clock``; any pace up to ``enough`` will do."""
    un = state.units[unit]
    if un.visible < clock:
        return _NOT_YET
    shared = state.globals[0]
    pace = un.h
    if un.log == LAST_ONLY:
        if pace <= enough or clock > un.last_clock:
            return pace
        before = un.last_pace
        if clock > un.last_visible:
            return min(pace, max(before, clock))
        return before if before <= enough else np.int64(_FORGOTTEN)
    k = un.changes - 1
    while pace > enough and k >= 0:
        if un.changes - k > shared.pace_mask + 1:
            return _FORGOTTEN
        at = ((un.log - 1) * (shared.pace_mask + 1) + (k & shared.pace_mask)) << _SHIFT
        if clock > state.paces[at + 2]:
            return pace
        before = state.paces[at]
        if clock > state.paces[at + 1]:
            return min(pace, max(before, clock))
        pace = before
        k -= 1
    return pace


@inlined
def _stands(ch):
    # The consumer waits for the next token of this FIFO and can do nothing else.
    return ch.cwait != 0 and ch.removed == ch.sent


@inlined
def may_go_on(un, state, c, clock, sends):
    """0 if a producer that came to FIFO ``c`` with its clock at ``clock`` and found it full goes on
    now, and its pace has been raised; else the status to return.

    The token that it ``sends`` is marked with the clock if its consumer probes the FIFO: in place
    of a release time, below 0.
    """
    ch = state.channels[c]
    old = state.slots[ch.start + ((ch.sent - ch.cap) & ch.mask)]
    freed = old.hrel
    pace = freed
    if freed < clock and old.rel <= clock:
        pace = _resumes_at(un, state, ch, clock, freed)
        if pace == _FORGOTTEN:
            return Status.NO_PACES
        if pace == _NOT_YET:
            un.evt = clock
            un.wait_channel = c
            if ch.pwait == 0:
                _park(un, state, ch)
            consumer = state.units[ch.consumer]
            consumer.watch = min(consumer.watch, clock)
            return Status.PARKED
        if ch.pwait == 2:
            _unpark(state, ch)
    if pace <= freed:
        note_pace(state, Cause.PACE_SLOT, c, un.h, freed)
        pace = freed
    elif pace == clock:
        note_pace(state, Cause.PACE_WORK, c, un.h, pace)
    else:
        note_pace(state, Cause.PACE_PARKED, c, un.h, pace)
    if un.log >= LAST_ONLY:
        _keep(un, state, max(clock, old.rel))
    un.h = pace
    if sends and ch.parks >= Parks.PROBES:
        token = state.slots[ch.start + (ch.sent & ch.mask)]
        token.hrel = -1 - clock
    return 0


@inlined
def _resumes_at(un, state, ch, clock, freed):
    """The pace at which a producer goes on; any up to ``freed`` is as good."""
    if un.evt == _DUE:
        un.evt = 0
        return clock
    merges = ch.parks == Parks.MERGES
    if merges and ch.cwait > 1 and ch.looked < clock:
        return clock
    pace = _reached(state, ch.consumer, clock, freed)
    if pace == _NOT_YET:
        if ch.gone != 0:
            return freed
        if _stands(ch):
            return clock if merges else min(clock, state.units[ch.consumer].h)
        return np.int64(_NOT_YET)
    return min(pace, clock)


@inlined
def _park(un, state, ch):
    # Parked units are in a list from the end of the calendar downwards, in any order.
    shared = state.globals[0]
    ch.pwait = 2
    shared.parked += 1
    un.hpos = shared.calendar_end - shared.parked
    state.calendar[un.hpos] = ch.producer
    shared.parked_until = min(shared.parked_until, un.evt)


@inlined
def _unpark(state, ch):
    shared = state.globals[0]
    un = state.units[ch.producer]
    ch.pwait = 0
    last = state.calendar[shared.calendar_end - shared.parked]
    shared.parked -= 1
    state.calendar[un.hpos] = last
    state.units[last].hpos = un.hpos
    un.hpos = -1


@cold
def let_go(state, ch):
    """Step the producer that is parked at a FIFO: its consumer waits for the next token."""
    shared = state.globals[0]
    _unpark(state, ch)
    state.work_list[shared.work_tail & shared.work_mask] = ch.producer
    shared.work_tail += 1


@inlined
def next_parked(state, limit):
    """The least clock of parked units, to which the pace may come; INFINITY beyond ``limit``."""
    shared = state.globals[0]
    if shared.parked == 0 or shared.parked_until > limit:
        return INFINITY
    least = INFINITY
    for i in range(shared.calendar_end - shared.parked, shared.calendar_end):
        least = min(least, state.units[state.calendar[i]].evt)
    shared.parked_until = least
    return least if least <= limit else INFINITY


@inlined
def is_due(state, pace):
    """Whether parked units go on at a pace, when `next_parked` has found none that do so before.

    A carrier that does creates a packet in that very cycle, in front of the events of a network.
    """
    shared = state.globals[0]
    return shared.parked > 0 and shared.parked_until <= pace


@apart
def let_go_at(state, pace):
    """The pace has come to the clock of some parked units: step them."""
    shared = state.globals[0]
    i = shared.calendar_end - 1
    while i >= shared.calendar_end - shared.parked:
        un = state.units[state.calendar[i]]
        if un.evt == pace:
            un.evt = _DUE
            let_go(state, state.channels[un.wait_channel])
            i = shared.calendar_end  # another unit has taken its place
        i -= 1


@apart
def look_again(un, unit, state):
    """Step the producers parked at the inputs of a unit that may go on after what it did."""
    un.watch = INFINITY
    ended = un.state == Status.DONE or un.state == Status.FAILED
    if ended or un.nin <= state.globals[0].parked:
        _look_at_inputs(un, state)
    else:
        _look_at_parked(un, unit, state)


@inlined
def _look_at_inputs(un, state):
    for j in range(un.nin):
        ch = state.channels[state.parameters[un.in0 + j]]
        if ch.pwait == 2:
            clock = state.units[ch.producer].evt
            if un.visible >= clock or ch.gone != 0:
                let_go(state, ch)
            else:
                un.watch = min(un.watch, clock)


@inlined
def _look_at_parked(un, unit, state):
    shared = state.globals[0]
    i = shared.calendar_end - 1
    while i >= shared.calendar_end - shared.parked:
        producer = state.units[state.calendar[i]]
        i -= 1
        clock = producer.evt
        if clock <= un.visible or clock < un.watch:
            ch = state.channels[producer.wait_channel]
            if ch.consumer == unit:
                if clock <= un.visible:
                    let_go(state, ch)
                    i += 1  # another unit has taken its place
                else:
                    un.watch = clock
