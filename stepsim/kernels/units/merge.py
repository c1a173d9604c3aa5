"""EagerMerge: the only unit whose result depends on arrival order.

The decision falls at a pace ``t``; it may be taken only after everything caused by events at a
smaller pace has been executed. The unit computes ``t``, asks the engine for a calendar entry by
answering ``WAIT_DECISION`` and is stepped again with ``pc = 1`` when its turn has come. While it
waits, a new token or closure on an open input wakes it and ``t`` is computed anew.
"""

from __future__ import annotations

from stepsim.kernels.jit import kernel
from stepsim.kernels.layout import INFINITY, Abort, Payload, Status
from stepsim.kernels.queues import (
    abort,
    block_on_input,
    closure_ends,
    emit,
    has_token,
    room,
    send_move,
    take_token,
    work,
)

__all__ = ["step_eager_merge"]

_DONE = int(Status.DONE)
_WAIT_INPUT = int(Status.WAIT_INPUT)
_WAIT_DECISION = int(Status.WAIT_DECISION)
_SELECTOR = int(Payload.SELECTOR)
_LEVEL = int(Abort.LEVEL_NOT_ALLOWED)


@kernel
def _plan(un, C, S, P, g):
    """When the decision falls: status WAIT_DECISION with ``evt`` set, or WAIT_INPUT, or DONE."""
    first = INFINITY
    settled_at = -1
    heads = 0
    unsettled = 0
    for i in range(un.nin):
        c = P[un.in0 + i]
        ch = C[c]
        if has_token(ch):
            token = S[ch.start + (ch.removed & ch.mask)]
            heads += 1
            if token.stamp < first:
                first = token.stamp
            if token.pub > settled_at:
                settled_at = token.pub
        elif ch.closed != 0:
            closed_at = ch.hclose + 1 - g.slack
            if closed_at > settled_at:
                settled_at = closed_at
        else:
            unsettled += 1
            block_on_input(un, ch, c)
    if heads == 0:
        if unsettled > 0:
            return _WAIT_INPUT
        for i in range(un.nin):
            closure_ends(un, C[P[un.in0 + i]], g)
        return _DONE
    t = first if first > un.clk else un.clk
    if unsettled == 0 and settled_at < t:
        t = settled_at
    if un.h > t:
        t = un.h
    un.evt = t
    return _WAIT_DECISION


@kernel
def _choose(un, C, S, P):
    """The published head with the smallest (stamp, input); the clocks move to the decision."""
    t = un.evt
    best = INFINITY
    chosen = 0
    for i in range(un.nin):
        ch = C[P[un.in0 + i]]
        if has_token(ch):
            token = S[ch.start + (ch.removed & ch.mask)]
            if token.pub <= t and token.stamp < best:
                best = token.stamp
                chosen = i
    gap = t - un.clk
    if gap > 0:
        un.clk = t
        if un.fires > 0:
            C[P[un.in0 + chosen]].wait_in += gap
        else:
            un.before += gap
    un.h = t
    un.a = chosen


@kernel
def step_eager_merge(un, C, S, P, W, g, F):
    """Parameters: rank, then the selector id of every input. Outputs: data, selector.

    Resume points: 0 plan, 1 decide, 2 send selector, 3 take a token, 4 send it.
    """
    par = un.par
    rank = P[par]
    d = P[un.out0]
    q = P[un.out0 + 1]
    x = S[un.hand]
    while True:
        if un.pc == 0:
            return _plan(un, C, S, P, g)
        if un.pc == 1:
            _choose(un, C, S, P)
            un.pc = 2
        if un.pc == 2:
            status = room(un, C[q], q, S, F, g)
            if status != 0:
                return status
            token = emit(un, C[q], S, W, g, 0, 0)
            token.kind = _SELECTOR
            token.value = P[par + 1 + un.a]
            token.rows = 1
            token.cols = un.nin
            token.off = 1
            token.bits = 8
            token.rd = 0
            un.pc = 3
        if un.pc == 3:
            c = P[un.in0 + un.a]
            ch = C[c]
            status = take_token(un, ch, c, S, F, W, g, x)
            if status != 0:
                return status
            un.pc = 4
        status = send_move(un, C[d], d, S, F, W, g, 0, x.level, x)
        if status != 0:
            return status
        if x.level > rank:
            return abort(un, _LEVEL, x.level, rank)
        if x.level == rank:
            un.pc = 0
        else:
            work(un, 1)
            un.pc = 3
