"""The primitives every unit is written with: HEAD, TAKE, EMIT, RESERVE (STeP paper, section 4.3).

A FIFO has forward and return latency 1. ``un`` and ``ch`` are records, ``S`` the slots, ``F`` the
free lists of the arena, ``W`` the work list, ``g`` the globals.

Step functions first ask whether they can go on (:func:`has_token`, :func:`room`), and change
nothing when they cannot; a clock only moves once the token or slot is there. The result does not
depend on the order in which units run.
"""

from __future__ import annotations

from stepsim.kernels.arena import copy_payload, grow_ring, release, retain
from stepsim.kernels.jit import kernel
from stepsim.kernels.layout import Abort, Status

__all__ = [
    "abort",
    "await_token",
    "block_on_input",
    "closure",
    "closure_ends",
    "emit",
    "emit_copy",
    "emit_move",
    "grab",
    "has_token",
    "head",
    "push",
    "room",
    "send_copy",
    "send_move",
    "take",
    "take_token",
    "wait_for_slot",
    "work",
]

_WAIT_INPUT = int(Status.WAIT_INPUT)
_WAIT_OUTPUT = int(Status.WAIT_OUTPUT)
_DONE = int(Status.DONE)
_FAILED = int(Status.FAILED)
_NO_SPACE = int(Status.NO_SPACE)
_GONE = int(Abort.CONSUMER_GONE)


@kernel
def push(W, g, unit):
    """Put a unit on the work list."""
    W[g.qtail & g.qmask] = unit
    g.qtail += 1


@kernel
def abort(un, reason, detail0, detail1):
    """The unit fails; answers the status to return."""
    un.error = reason
    un.detail0 = detail0
    un.detail1 = detail1
    return _FAILED


@kernel
def work(un, cycles):
    """``add(n)``: the unit is busy; its pace does not move."""
    un.clk += cycles
    un.busy += cycles


@kernel
def has_token(ch):
    return ch.removed != ch.sent


@kernel
def block_on_input(un, ch, c):
    """Sleep until channel ``c`` gets a token or closes."""
    ch.cwait = 1
    un.wait_channel = c
    return _WAIT_INPUT


@kernel
def head(un, ch, S):
    """HEAD: the clock moves to the first token, which stays. Needs :func:`has_token`."""
    token = S[ch.start + (ch.removed & ch.mask)]
    gap = token.stamp - un.clk
    if gap > 0:
        un.clk = token.stamp
        if un.fires > 0:
            ch.wait_in += gap
        else:
            un.before += gap
    if token.pub > un.h:
        un.h = token.pub
    return token


@kernel
def take(un, ch, S, F, W, g):
    """Remove the token that :func:`head` showed; its slot is free one cycle later."""
    token = S[ch.start + (ch.removed & ch.mask)]
    token.rel = un.clk + 1
    token.hrel = un.h + 1
    ch.removed += 1
    release(S, F, g, token)
    if ch.pwait != 0:
        ch.pwait = 0
        push(W, g, ch.producer)


@kernel
def grab(un, ch, S, F, W, g, held):
    """TAKE the head into the private slot ``held``, level included."""
    token = S[ch.start + (ch.removed & ch.mask)]
    copy_payload(token, held)
    held.level = token.level
    retain(S, token)
    take(un, ch, S, F, W, g)


@kernel
def await_token(un, ch, c, g):
    """0 when ``ch`` has a token; otherwise the status to return: the unit ends when ``ch`` has
    ended, and sleeps when it has not."""
    if has_token(ch):
        return 0
    if ch.closed != 0:
        closure_ends(un, ch, g)
        return _DONE
    return block_on_input(un, ch, c)


@kernel
def take_token(un, ch, c, S, F, W, g, held):
    """TAKE the next token into the private slot ``held``: 0, or the status to return."""
    status = await_token(un, ch, c, g)
    if status == 0:
        head(un, ch, S)
        un.fires += 1
        grab(un, ch, S, F, W, g, held)
    return status


@kernel
def closure(un, ch, g):
    """CLOSED in the middle of a unit's life: the clock moves to the producer's pace + 1."""
    t = ch.hclose + 1 - g.slack
    gap = t - un.clk
    if gap > 0:
        un.clk = t
        if un.fires > 0:
            ch.wait_in += gap
        else:
            un.before += gap
    if t > un.h:
        un.h = t


@kernel
def closure_ends(un, ch, g):
    """CLOSED that ends the unit: the same clocks, accounted as time after its last token."""
    t = ch.hclose + 1 - g.slack
    gap = t - un.clk
    if gap > 0:
        un.clk = t
        un.after += gap
    if t > un.h:
        un.h = t


@kernel
def room(un, ch, c, S, F, g):
    """0 when a token can be sent on ``c`` now, else the status to return.

    A consumer that has ended frees no more slots: tokens that still fit are sent, whatever the
    order in which units run.
    """
    if ch.sent - ch.removed >= ch.cap:
        if ch.gone != 0:
            return abort(un, _GONE, c, 0)
        ch.pwait = 1
        un.wait_channel = c
        return _WAIT_OUTPUT
    if ch.sent >= ch.grow_at and not grow_ring(S, F, g, ch):
        return _NO_SPACE
    return 0


@kernel
def wait_for_slot(un, ch, S):
    """The clock part of RESERVE: wait until the slot of token ``sent - C`` has been freed."""
    if ch.sent >= ch.cap:
        old = S[ch.start + ((ch.sent - ch.cap) & ch.mask)]
        gap = old.rel - un.clk
        if gap > 0:
            un.clk = old.rel
            ch.wait_out += gap
        if old.hrel > un.h:
            un.h = old.hrel


@kernel
def emit(un, ch, S, W, g, when, level):
    """EMIT with requested time ``when`` (0 for "now"); the caller fills in the payload.

    Needs :func:`room`. The forward latency is a floor: a later ``when`` is kept as it is.
    """
    wait_for_slot(un, ch, S)
    token = S[ch.start + (ch.sent & ch.mask)]
    stamp = un.clk + 1
    token.stamp = when if when > stamp else stamp
    token.pub = un.h + 1
    token.level = level
    ch.sent += 1
    g.tokens += 1
    if ch.cwait != 0:
        ch.cwait = 0
        push(W, g, ch.consumer)
    return token


@kernel
def emit_move(un, ch, S, W, g, when, level, held):
    """EMIT the private token ``held``, which is given away."""
    token = emit(un, ch, S, W, g, when, level)
    copy_payload(held, token)
    return token


@kernel
def emit_copy(un, ch, S, W, g, when, level, source):
    """EMIT a copy of the payload of ``source``."""
    token = emit(un, ch, S, W, g, when, level)
    copy_payload(source, token)
    retain(S, token)
    return token


@kernel
def send_move(un, ch, c, S, F, W, g, when, level, held):
    """Wait for room and :func:`emit_move`: 0, or the status to return."""
    status = room(un, ch, c, S, F, g)
    if status == 0:
        emit_move(un, ch, S, W, g, when, level, held)
    return status


@kernel
def send_copy(un, ch, c, S, F, W, g, when, level, source):
    """Wait for room and :func:`emit_copy`: 0, or the status to return."""
    status = room(un, ch, c, S, F, g)
    if status == 0:
        emit_copy(un, ch, S, W, g, when, level, source)
    return status
