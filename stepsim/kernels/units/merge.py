"""EagerMerge: the only unit whose result depends on arrival order.

The decision falls at a pace ``t``; it may be taken only after everything caused by events at a
smaller pace has been executed. The unit computes ``t``, asks the engine for a calendar entry by
returning ``WAIT_DECISION`` and is stepped again with ``pc = 1`` when its turn has come. While it
waits, a new token or closure on an open input wakes it and ``t`` is computed anew.

A token costs the logarithm of the number of inputs. Inputs that change are listed by who changes
them, and the first head is on top of a tournament: leaf ``n + i`` of ``n`` inputs is the head of
input ``i``, node ``k`` the first of nodes ``2 k`` and ``2 k + 1``. A node is a stamp and an input.
"""

from __future__ import annotations

from typing import Final

from stepsim.kernels.build.jit import inlined
from stepsim.kernels.declaration import declare
from stepsim.kernels.layout import INFINITY, Abort, Cause, Payload, Status
from stepsim.kernels.parking import raise_pace
from stepsim.kernels.queues import (
    abort,
    await_change,
    changed_input,
    closure_ends,
    emit,
    has_token,
    is_closed,
    list_input,
    room,
    send_move,
    take_token,
    work,
)
from stepsim.kernels.recording.flag import is_recording
from stepsim.kernels.recording.journal import note, note_pace

_PUBLISHED: Final = 0
_CLOSED: Final = 1
_MARKED: Final = 2
"""What settles an input: the publication of a head, the end of its producer, or a mark."""


@inlined
def _node(un, k):
    # Behind the list of changed inputs; the root has number 1.
    return un.scratch + un.nin + 2 * k - 1


@inlined
def _start(un, state):
    # Every input is looked at.
    for k in range(1, 2 * un.nin):
        state.scratch[_node(un, k)] = INFINITY
    for i in range(un.nin):
        list_input(un, state, i)
    un.unsettled = un.nin


@inlined
def _enter(un, state, i, stamp):
    """The head of input ``i`` has this stamp, INFINITY for none."""
    k = un.nin + i
    tree = _node(un, 0)  # read once, for the compiler cannot know that it stays
    node = tree + 2 * k
    state.scratch[node] = stamp
    state.scratch[node + 1] = i
    while k > 1:
        other = tree + 2 * (k ^ 1)
        rival = state.scratch[other]
        beaten = state.scratch[other + 1]
        if rival < stamp or (rival == stamp and beaten < i):
            stamp = rival
            i = beaten
        k >>= 1
        node = tree + 2 * k
        if state.scratch[node] == stamp and state.scratch[node + 1] == i:
            break
        state.scratch[node] = stamp
        state.scratch[node + 1] = i


@inlined
def _note_settled(un, state, what, c, when):
    # In a run that is recorded the unit remembers which publication or closure is the latest.
    if is_recording(state):
        if when > un.settled_at:
            un.settled_by = 4 * c + what


@inlined
def _note_choice(un, state, its, chosen, t):
    # The clock moves to the stamp of the chosen head, or to when the last input was settled. The
    # pace moves along, also to where the clock stood.
    if is_recording(state):
        c = state.parameters[its.data + chosen]
        place = un.settled_by >> 2
        what = un.settled_by & 3
        gap = t - un.clk
        if max(un.clk, state.scratch[_node(un, 1)]) == t:
            if gap > 0:
                note(state, Cause.TOKEN, c, t, gap)
            note_pace(state, Cause.PACE_CLOCK, c, un.h, t)
        elif what == _PUBLISHED:
            if gap > 0:
                note(state, Cause.DECISION, place, t, gap)
            note_pace(state, Cause.PACE_TOKEN, place, un.h, t)
        elif what == _MARKED:
            if gap > 0:
                note(state, Cause.MARK, place, t, gap)
            note_pace(state, Cause.PACE_MARK, place, un.h, t)
        else:
            if gap > 0:
                note(state, Cause.CLOSURE, place, t, gap)
            note_pace(state, Cause.PACE_CLOSURE, place, un.h, t)


@inlined
def _look(un, state, its):
    """Enter the heads and closures of the inputs that have changed."""
    shared = state.globals[0]
    while True:
        i = changed_input(un, state)
        if i < 0:
            break
        c = state.parameters[its.data + i]
        ch = state.channels[c]
        stamp = INFINITY
        if has_token(state, c):
            token = state.slots[ch.start + (ch.removed & ch.mask)]
            stamp = token.stamp
            un.unsettled -= 1
            found = token.pub
            what = _PUBLISHED
            if -token.hrel > found:
                found = -token.hrel
                what = _MARKED
            _note_settled(un, state, what, c, found)
            un.settled_at = max(un.settled_at, found)
        elif is_closed(state, c):
            un.unsettled -= 1
            _note_settled(un, state, _CLOSED, c, ch.hclose + 1 - shared.slack)
            un.settled_at = max(un.settled_at, ch.hclose + 1 - shared.slack)
        else:
            await_change(state, c, i)
            ch.looked = un.clk
        _enter(un, state, i, stamp)


@inlined
def _plan(un, state, its):
    """When the decision falls: status WAIT_DECISION with ``evt`` set, or WAIT_INPUT, or DONE.

    ``settled_at`` is the latest publication or closure that the unit has ever looked at. Only those
    of present heads and of closed inputs matter, but the others are never later than the pace,
    before which no decision falls anyway.
    """
    first = state.scratch[_node(un, 1)]
    if first == INFINITY:
        if un.unsettled > 0:
            return Status.WAIT_INPUT
        for i in range(un.nin):
            closure_ends(un, state, state.parameters[its.data + i])
        return Status.DONE
    t = first if first > un.clk else un.clk
    if un.unsettled == 0 and un.settled_at < t:
        t = un.settled_at
    if un.h > t:
        t = un.h
    un.evt = t
    return Status.WAIT_DECISION


@inlined
def _choose(un, state, its):
    """The published head with the smallest (stamp, input); the clocks move to the decision.

    The first of all heads has been published. If the decision falls when its stamp is reached,
    heads that came since have a smaller stamp or are later; otherwise every input was settled, and
    no head can have come.
    """
    t = un.evt
    chosen = state.scratch[_node(un, 1) + 1]
    _note_choice(un, state, its, chosen, t)
    gap = t - un.clk
    if gap > 0:
        un.clk = t
        if un.fires > 0:
            state.channels[state.parameters[its.data + chosen]].wait_in += gap
        else:
            un.before += gap
    if t > un.h:
        raise_pace(un, state, t)
    un.visible = un.clk
    un.chosen = chosen


EAGER_MERGE, _eager_merge = declare(
    "eager_merge",
    inputs=("*data",),
    outputs=("out", "selector"),
    parameters=("rank", "*selectors"),
    words={"chosen": 0, "unsettled": -1, "settled_at": -1, "settled_by": 0},
    private=("token",),
    selectors=("selectors",),
    scratch_per_input=5,
)


@EAGER_MERGE
def step_eager_merge(un, state):
    """``selectors`` are the numbers of the selectors that name one input each.

    Resume points: 0 plan, 1 decide, 2 send selector, 3 take a token, 4 send it.
    """
    its = _eager_merge(un, state)
    x = state.slots[its.token]
    while True:
        if un.pc <= 1:
            if un.unsettled < 0:
                _start(un, state)
            _look(un, state, its)
            if un.pc == 0:
                return _plan(un, state, its)
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
            un.unsettled += 1
            list_input(un, state, un.chosen)
            un.pc = 0
        else:
            work(un, 1)
            un.pc = 3
