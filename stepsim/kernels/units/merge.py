"""EagerMerge: the only unit whose result depends on arrival order.

The decision falls at a pace ``t``; it may be taken only after everything caused by events at a
smaller pace has been executed. The unit computes ``t``, asks the engine for a calendar entry by
returning ``WAIT_DECISION`` and is stepped again with ``pc = 1`` when its turn has come. While it
waits, a new token or closure on an open input wakes it and ``t`` is computed anew.
"""

from __future__ import annotations

from stepsim.kernels.declaration import declare
from stepsim.kernels.jit import inlined
from stepsim.kernels.layout import INFINITY, Abort, Payload, Status
from stepsim.kernels.queues import (
    abort,
    block_on_input,
    closure_ends,
    emit,
    has_token,
    is_closed,
    room,
    send_move,
    take_token,
    work,
)

__all__ = ["EAGER_MERGE"]


@inlined
def _plan(un, state, its):
    """When the decision falls: status WAIT_DECISION with ``evt`` set, or WAIT_INPUT, or DONE."""
    shared = state.globals[0]
    first = INFINITY
    settled_at = -1
    heads = 0
    unsettled = 0
    for i in range(un.nin):
        c = state.parameters[its.data + i]
        ch = state.channels[c]
        if has_token(state, c):
            token = state.slots[ch.start + (ch.removed & ch.mask)]
            heads += 1
            if token.stamp < first:
                first = token.stamp
            if token.pub > settled_at:
                settled_at = token.pub
        elif is_closed(state, c):
            closed_at = ch.hclose + 1 - shared.slack
            if closed_at > settled_at:
                settled_at = closed_at
        else:
            unsettled += 1
            block_on_input(un, state, c)
    if heads == 0:
        if unsettled > 0:
            return Status.WAIT_INPUT
        for i in range(un.nin):
            closure_ends(un, state, state.parameters[its.data + i])
        return Status.DONE
    t = first if first > un.clk else un.clk
    if unsettled == 0 and settled_at < t:
        t = settled_at
    if un.h > t:
        t = un.h
    un.evt = t
    return Status.WAIT_DECISION


@inlined
def _choose(un, state, its):
    """The published head with the smallest (stamp, input); the clocks move to the decision."""
    t = un.evt
    best = INFINITY
    chosen = 0
    for i in range(un.nin):
        ch = state.channels[state.parameters[its.data + i]]
        if has_token(state, state.parameters[its.data + i]):
            token = state.slots[ch.start + (ch.removed & ch.mask)]
            if token.pub <= t and token.stamp < best:
                best = token.stamp
                chosen = i
    gap = t - un.clk
    if gap > 0:
        un.clk = t
        if un.fires > 0:
            state.channels[state.parameters[its.data + chosen]].wait_in += gap
        else:
            un.before += gap
    un.h = t
    un.chosen = chosen


EAGER_MERGE, _eager_merge = declare(
    "eager_merge",
    inputs=("*data",),
    outputs=("out", "selector"),
    parameters=("rank", "*selectors"),
    words=("chosen",),
    private=("token",),
    selectors=("selectors",),
)


@EAGER_MERGE
def step_eager_merge(un, state):
    """``selectors`` are the numbers of the selectors that name one input each.

    Resume points: 0 plan, 1 decide, 2 send selector, 3 take a token, 4 send it.
    """
    its = _eager_merge(un, state)
    x = state.slots[its.token]
    while True:
        if un.pc == 0:
            return _plan(un, state, its)
        if un.pc == 1:
            _choose(un, state, its)
            un.pc = 2
        if un.pc == 2:
            status = room(un, state, its.selector)
            if status != 0:
                return status
            token = emit(un, state, its.selector, 0, 0)
            token.kind = Payload.SELECTOR
            token.value = state.parameters[its.selectors + un.chosen]
            token.rows = 1
            token.cols = un.nin
            token.off = 1
            token.bits = 8
            token.rd = 0
            un.pc = 3
        if un.pc == 3:
            c = state.parameters[its.data + un.chosen]
            status = take_token(un, state, c, x)
            if status != 0:
                return status
            un.pc = 4
        status = send_move(un, state, its.out, 0, x.level, x)
        if status != 0:
            return status
        if x.level > its.rank:
            return abort(un, Abort.LEVEL_NOT_ALLOWED, x.level, its.rank)
        if x.level == its.rank:
            un.pc = 0
        else:
            work(un, 1)
            un.pc = 3
