"""The primitives every unit is written with: HEAD, TAKE, EMIT, RESERVE (STeP paper, section 4.3).

A FIFO has forward and return latency 1. ``un`` is the record of a unit, ``c`` the number of one of
its channels, ``state`` all arrays of the run.

Step functions first ask whether they can go on (:func:`has_token`, :func:`room`), and change
nothing when they cannot; a clock only moves once the token or slot is there. The result does not
depend on the order in which units run.
"""

from __future__ import annotations

import numpy as np

from stepsim.kernels.arena import copy_payload, grow_ring, release, retain
from stepsim.kernels.build.jit import cold, inlined
from stepsim.kernels.layout import Abort, Cause, Parks, Status
from stepsim.kernels.parking import let_go, may_go_on, raise_pace
from stepsim.kernels.recording.journal import is_full, note, note_late, note_pace


@inlined
def push(state, unit):
    """Put a unit on the work list."""
    shared = state.globals[0]
    state.work_list[shared.work_tail & shared.work_mask] = unit
    shared.work_tail += 1


@cold
def abort(un, reason, detail0, detail1):
    """The unit fails; its step function returns what this returns."""
    un.error = reason
    un.detail0 = detail0
    un.detail1 = detail1
    return Status.FAILED


@inlined
def work(un, cycles):
    """``add(n)``: the unit is busy; its pace does not move."""
    un.clk += cycles
    un.busy += cycles


@inlined
def has_token(state, c):
    ch = state.channels[c]
    return ch.removed != ch.sent


@inlined
def is_closed(state, c):
    """Whether the producer of channel ``c`` has ended; tokens may still be there."""
    return state.channels[c].closed != 0


@inlined
def block_on_input(un, state, c):
    """Sleep until channel ``c`` gets a token or closes."""
    ch = state.channels[c]
    ch.cwait = 1
    if ch.pwait != 0:
        let_go(state, ch)
    un.wait_channel = c
    return Status.WAIT_INPUT


@inlined
def await_change(state, c, i):
    """Have input ``i``, which is channel ``c``, listed when it gets a token or closes.

    For units that wait for any or all of many inputs: looking at each of them after every token
    would cost as much as there are inputs. The list is in the first words of the unit's scratch
    space, as many as it has inputs and one more; :func:`changed_input` takes from it.
    """
    ch = state.channels[c]
    ch.cwait = 2 + i
    if ch.pwait != 0:
        let_go(state, ch)


@inlined
def list_input(un, state, i):
    """List input ``i`` as changed."""
    count = state.scratch[un.scratch] + 1
    state.scratch[un.scratch] = count
    state.scratch[un.scratch + count] = i


@cold
def _list_change(state, ch):
    list_input(state.units[ch.consumer], state, ch.cwait - 2)


@inlined
def changed_input(un, state):
    """The input that was listed last, which leaves the list; -1 when there is none."""
    count = state.scratch[un.scratch]
    if count == 0:
        return -1
    state.scratch[un.scratch] = count - 1
    return state.scratch[un.scratch + count]


@inlined
def wake_consumer(state, ch):
    """Step the consumer of ``ch`` if it waits here."""
    if ch.cwait != 0:
        if ch.cwait != 1:
            _list_change(state, ch)
        ch.cwait = 0
        push(state, ch.consumer)


@inlined
def head_slot(state, c):
    """Slot of the first token of channel ``c``."""
    ch = state.channels[c]
    return ch.start + (ch.removed & ch.mask)


@inlined
def head(un, state, c):
    """HEAD: the clock moves to the first token, which stays. Needs :func:`has_token`."""
    ch = state.channels[c]
    token = state.slots[ch.start + (ch.removed & ch.mask)]
    gap = token.stamp - un.clk
    if gap > 0:
        un.clk = token.stamp
        if un.fires > 0:
            ch.wait_in += gap
        else:
            un.before += gap
        note(state, Cause.TOKEN, c, token.stamp, gap)
    note_pace(state, Cause.PACE_TOKEN, c, un.h, token.pub)
    if token.pub > un.h:
        raise_pace(un, state, token.pub)
    un.visible = un.clk
    return token


@inlined
def take(un, state, c):
    """Remove the token that :func:`head` showed; its slot is free one cycle later.

    After :func:`work` since the last primitive, :func:`take_later` is the one to use.
    """
    ch = state.channels[c]
    _remove(un, state, ch, state.slots[ch.start + (ch.removed & ch.mask)])


@inlined
def take_shown(un, state, c, token):
    """As :func:`take`, of the ``token`` that :func:`head` returned, without looking it up.

    Not after :func:`room`, which may move the ring of a unit that feeds itself.
    """
    _remove(un, state, state.channels[c], token)


@inlined
def take_shown_later(un, state, c, token):
    """As :func:`take_shown`, after work."""
    un.visible = un.clk
    _remove(un, state, state.channels[c], token)


@inlined
def _remove(un, state, ch, token):
    token.rel = un.clk + 1
    token.hrel = un.h + 1
    ch.removed += 1
    release(state, token)
    if ch.pwait == 1:
        ch.pwait = 0
        push(state, ch.producer)


@inlined
def take_later(un, state, c):
    """As :func:`take`, after work."""
    un.visible = un.clk
    take(un, state, c)


@inlined
def grab(un, state, c, held):
    """TAKE the head into the private slot ``held``, level included."""
    ch = state.channels[c]
    _grab(un, state, ch, state.slots[ch.start + (ch.removed & ch.mask)], held)


@inlined
def _grab(un, state, ch, token, held):
    copy_payload(token, held)
    held.level = token.level
    retain(state, token)
    _remove(un, state, ch, token)


@inlined
def grab_later(un, state, c, token, held):
    """As :func:`grab`, after work, of the ``token`` that :func:`head` returned."""
    un.visible = un.clk
    _grab(un, state, state.channels[c], token, held)


@inlined
def await_token(un, state, c):
    """0 when ``c`` has a token; otherwise the status to return: the unit ends when ``c`` has
    ended, and sleeps when it has not."""
    ch = state.channels[c]
    if has_token(state, c):
        return 0
    if ch.closed != 0:
        closure_ends(un, state, c)
        return Status.DONE
    return block_on_input(un, state, c)


@inlined
def take_token(un, state, c, held):
    """TAKE the next token into the private slot ``held``: 0, or the status to return."""
    status = await_token(un, state, c)
    if status == 0:
        token = head(un, state, c)
        un.fires += 1
        _grab(un, state, state.channels[c], token, held)
    return status


@cold
def closure(un, state, c):
    """CLOSED in the middle of a unit's life: the clock moves to the producer's pace + 1."""
    ch = state.channels[c]
    shared = state.globals[0]
    t = ch.hclose + 1 - shared.slack
    gap = t - un.clk
    if gap > 0:
        un.clk = t
        if un.fires > 0:
            ch.wait_in += gap
        else:
            un.before += gap
        note(state, Cause.CLOSURE, c, t, gap)
    note_pace(state, Cause.PACE_CLOSURE, c, un.h, t)
    if t > un.h:
        raise_pace(un, state, t)
    un.visible = un.clk


@cold
def closure_ends(un, state, c):
    """CLOSED that ends the unit: the same clocks, accounted as time after its last token."""
    ch = state.channels[c]
    shared = state.globals[0]
    t = ch.hclose + 1 - shared.slack
    gap = t - un.clk
    if gap > 0:
        un.clk = t
        un.after += gap
        note(state, Cause.CLOSURE, c, t, gap)
    note_pace(state, Cause.PACE_CLOSURE, c, un.h, t)
    if t > un.h:
        raise_pace(un, state, t)
    un.visible = un.clk


@inlined
def room(un, state, c):
    """0 when a token can be sent on ``c`` now, else the status to return."""
    return room_after(un, state, c, 0)


@inlined
def room_after(un, state, c, cycles, sends=True):
    """0 when a token can be sent on ``c`` after ``cycles`` of work, else the status to return.

    Without ``sends`` the slot is only reserved.

    A consumer that has ended frees no more slots: tokens that still fit are sent, whatever the
    order in which units run.
    """
    ch = state.channels[c]
    if ch.sent - ch.removed >= ch.cap:
        if ch.gone == 0:
            ch.pwait = 1
            un.wait_channel = c
            return Status.WAIT_OUTPUT
    elif ch.sent < ch.look_at:
        return 0
    else:
        # Most that park go on when the slot is freed, and nobody looks at their clocks.
        old = state.slots[ch.start + ((ch.sent - ch.cap) & ch.mask)]
        if ch.sent < ch.grow_at:
            if old.hrel <= un.h + 1:
                return 0
            if ch.parks == Parks.TAKES and (
                old.hrel >= un.clk + cycles or old.rel > un.clk + cycles
            ):
                return 0
    return _look_closer(un, state, c, un.clk + cycles, sends)


@cold
def _look_closer(un, state, c, clock, sends):
    # One function for all that is rare: of several, every sender would prepare the results.
    ch = state.channels[c]
    if ch.sent - ch.removed >= ch.cap:
        return abort(un, Abort.CONSUMER_GONE, c, 0)
    if ch.sent >= ch.grow_at and (not grow_ring(state, ch) or is_full(state)):
        return Status.NO_SPACE
    if ch.parks == Parks.NEVER or ch.sent < ch.cap:
        return 0
    old = state.slots[ch.start + ((ch.sent - ch.cap) & ch.mask)]
    if old.hrel <= un.h + 1:
        return 0
    return may_go_on(un, state, c, clock, sends)


@inlined
def wait_for_slot(un, state, c):
    """The clock part of RESERVE: wait until the slot of token ``sent - C`` has been freed."""
    ch = state.channels[c]
    if ch.sent >= ch.cap:
        old = state.slots[ch.start + ((ch.sent - ch.cap) & ch.mask)]
        gap = old.rel - un.clk
        if gap > 0:
            un.clk = old.rel
            ch.wait_out += gap
            note(state, Cause.SLOT, c, old.rel, gap)
        if old.hrel > un.h:
            note_pace(state, Cause.PACE_SLOT, c, un.h, old.hrel)
            raise_pace(un, state, old.hrel)
    un.visible = un.clk


@inlined
def emit(un, state, c, when, level):
    """EMIT with requested time ``when`` (0 for "now"); the caller fills in the payload.

    Needs :func:`room`. The forward latency is a floor: a later ``when`` is kept as it is.
    """
    wait_for_slot(un, state, c)
    return emit_reserved(un, state, c, when, level)


@inlined
def emit_reserved(un, state, c, when, level):
    """As :func:`emit`, after :func:`wait_for_slot` for this token."""
    ch = state.channels[c]
    shared = state.globals[0]
    token = state.slots[ch.start + (ch.sent & ch.mask)]
    stamp = un.clk + 1
    # Neither is negative: compared as such, nothing is left of it where the token leaves now.
    token.stamp = when if np.uint64(when) > np.uint64(stamp) else stamp
    note_late(state, c, un.clk, when)
    token.pub = un.h + 1
    token.level = level
    ch.sent += 1
    shared.tokens += 1
    wake_consumer(state, ch)
    return token


@inlined
def emit_move(un, state, c, when, level, held):
    """EMIT the private token ``held``, which is given away."""
    token = emit(un, state, c, when, level)
    copy_payload(held, token)
    return token


@inlined
def emit_copy(un, state, c, when, level, source):
    """EMIT a copy of the payload of ``source``."""
    token = emit(un, state, c, when, level)
    copy_payload(source, token)
    retain(state, token)
    return token


@inlined
def send_move(un, state, c, when, level, held):
    """Wait for room and :func:`emit_move`: 0, or the status to return."""
    status = room(un, state, c)
    if status == 0:
        emit_move(un, state, c, when, level, held)
    return status


@inlined
def send_copy(un, state, c, when, level, source):
    """Wait for room and :func:`emit_copy`: 0, or the status to return."""
    status = room(un, state, c)
    if status == 0:
        emit_copy(un, state, c, when, level, source)
    return status
