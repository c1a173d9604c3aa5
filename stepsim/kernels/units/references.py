"""Units of the public simulator of 2026 that change levels: PromoteOuter, RepeatRef, TakeLast."""

from __future__ import annotations

from stepsim.kernels.arena import release
from stepsim.kernels.declaration import declare
from stepsim.kernels.layout import Abort
from stepsim.kernels.queues import (
    abort,
    await_token,
    block_on_input,
    closure,
    closure_ends,
    grab,
    has_token,
    head,
    is_closed,
    send_copy,
    send_move,
    take,
    take_token,
    work,
)

PROMOTE_OUTER, _promote_outer = declare(
    "promote_outer",
    inputs=("data",),
    outputs=("out",),
    private=("token",),
)


@PROMOTE_OUTER
def step_promote_outer(un, state):
    """A token is withheld until its successor, or the end of the stream, is seen."""
    its = _promote_outer(un, state)
    x = state.slots[its.token]
    while True:
        if un.pc == 0:
            status = take_token(un, state, its.data, x)
            if status != 0:
                return status
            un.pc = 1
        if un.pc == 1:
            if has_token(state, its.data):
                head(un, state, its.data)
            elif not is_closed(state, its.data):
                return block_on_input(un, state, its.data)
            else:
                closure(un, state, its.data)
                x.level += 1
            un.pc = 2
        status = send_move(un, state, its.out, 0, x.level, x)
        if status != 0:
            return status
        work(un, 1)
        un.pc = 0


REPEAT_REF, _repeat_ref = declare(
    "repeat_ref",
    inputs=("data", "reference"),
    outputs=("out",),
    parameters=("rank", "new_dims"),
    words=("level",),
    private=("token",),
)


@REPEAT_REF
def step_repeat_ref(un, state):
    """One copy for each stop of at least ``rank`` of the reference, which is ``new_dims`` deeper.

    Resume points: 0 take the data, 1 take the reference, 2 send.
    """
    its = _repeat_ref(un, state)
    x = state.slots[its.token]
    while True:
        if un.pc == 0:
            status = await_token(un, state, its.data)
            if status != 0:
                return status
            head(un, state, its.data)
            grab(un, state, its.data, x)
            un.pc = 1
        if un.pc == 1:
            if not has_token(state, its.reference):
                if not is_closed(state, its.reference):
                    return block_on_input(un, state, its.reference)
                closure_ends(un, state, its.reference)
                return abort(un, Abort.REFERENCE_CLOSED, its.reference, 0)
            level = head(un, state, its.reference).level
            un.fires += 1
            take(un, state, its.reference)
            if level < its.rank:
                continue
            un.level = level - its.rank
            if un.level >= its.new_dims and un.level != x.level + its.new_dims:
                return abort(un, Abort.LEVEL_NOT_ALLOWED, level, x.level + its.new_dims + its.rank)
            un.pc = 2
        status = send_copy(un, state, its.out, 0, un.level, x)
        if status != 0:
            return status
        if un.level >= its.new_dims:
            release(state, x)
            un.pc = 0
        else:
            un.pc = 1


TAKE_LAST, _take_last = declare(
    "take_last",
    inputs=("data",),
    outputs=("out",),
    private=("token",),
)


@TAKE_LAST
def step_take_last(un, state):
    """Tokens with a stop pass as they are, plain ones are dropped."""
    its = _take_last(un, state)
    x = state.slots[its.token]
    while True:
        if un.pc == 0:
            status = take_token(un, state, its.data, x)
            if status != 0:
                return status
            if x.level == 0:
                release(state, x)
                continue
            un.pc = 1
        status = send_move(un, state, its.out, 0, x.level, x)
        if status != 0:
            return status
        un.pc = 0
