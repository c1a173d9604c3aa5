"""Units that distribute tokens over lanes and collect them in a fixed order.

StaticReassemble, ContextDeinterleave and ContextInterleave of the public simulator of 2026.
"""

from __future__ import annotations

from stepsim.kernels.arena import allocate
from stepsim.kernels.build.jit import inlined
from stepsim.kernels.declaration import declare
from stepsim.kernels.layout import Abort, Status
from stepsim.kernels.queues import (
    abort,
    block_on_input,
    closure_ends,
    grab,
    has_token,
    head,
    is_closed,
    send_move,
    take_token,
)

STATIC_REASSEMBLE, _static_reassemble = declare(
    "static_reassemble",
    inputs=("*data",),
    outputs=("out",),
    parameters=("rank", "*switch_cycles"),
    words=("turn",),
    private=("token",),
)


@STATIC_REASSEMBLE
def step_static_reassemble(un, state):
    """The mirror image of Parallelize: it ends with the input whose turn it is."""
    its = _static_reassemble(un, state)
    x = state.slots[its.token]
    while True:
        if un.pc == 0:
            status = take_token(un, state, state.parameters[its.data + un.turn], x)
            if status != 0:
                return status
            un.pc = 1
        later = un.clk + state.parameters[its.switch_cycles + un.turn]
        status = send_move(un, state, its.out, later, x.level, x)
        if status != 0:
            return status
        if x.level > its.rank:
            return abort(un, Abort.LEVEL_NOT_ALLOWED, x.level, its.rank)
        if x.level == its.rank:
            un.turn = un.turn + 1 if un.turn + 1 < un.nin else 0
        un.pc = 0


@inlined
def _group_of(un, state, lanes):
    # The place of the first token of the group that is being collected, or -1 without room for it.
    if un.block < 0:
        order = 0
        while (1 << order) < lanes:
            order += 1
        un.block = allocate(state, order)
    return un.block


DEINTERLEAVE, _deinterleave = declare(
    "deinterleave",
    inputs=("data",),
    outputs=("*lane",),
    words={"block": -1, "filled": 0, "served": 0},
)


@DEINTERLEAVE
def step_deinterleave(un, state):
    """Groups of one token for each lane; only the last one may carry a stop, which all get."""
    its = _deinterleave(un, state)
    if _group_of(un, state, un.nout) < 0:
        return Status.NO_SPACE
    last = state.slots[un.block + un.nout - 1]
    while True:
        while un.filled < un.nout:
            if not has_token(state, its.data):
                if not is_closed(state, its.data):
                    return block_on_input(un, state, its.data)
                closure_ends(un, state, its.data)
                if un.filled > 0:
                    return abort(un, Abort.GROUP_OPEN, un.filled, un.nout)
                return Status.DONE
            token = head(un, state, its.data)
            level = token.level
            un.fires += 1
            grab(un, state, its.data, state.slots[un.block + un.filled])
            un.filled += 1
            if level > 0 and un.filled < un.nout:
                return abort(un, Abort.LEVEL_NOT_ALLOWED, level, 0)
        while un.served < un.nout:
            x = state.slots[un.block + un.served]
            lane = state.parameters[its.lane + un.served]
            status = send_move(un, state, lane, 0, last.level, x)
            if status != 0:
                return status
            un.served += 1
        un.filled = 0
        un.served = 0


INTERLEAVE, _interleave = declare(
    "interleave",
    inputs=("*lane",),
    outputs=("out",),
    words={"block": -1, "filled": 0, "served": 0},
)


@INTERLEAVE
def step_interleave(un, state):
    """One token from each lane in ascending order; the last one keeps their common stop."""
    its = _interleave(un, state)
    if _group_of(un, state, un.nin) < 0:
        return Status.NO_SPACE
    last = state.slots[un.block + un.nin - 1]
    while True:
        while un.filled < un.nin:
            lane = state.parameters[its.lane + un.filled]
            if not has_token(state, lane):
                if not is_closed(state, lane):
                    return block_on_input(un, state, lane)
                closure_ends(un, state, lane)
                if un.filled > 0:
                    return abort(un, Abort.ONE_INPUT_CLOSED, lane, state.parameters[its.lane])
                return Status.DONE
            token = head(un, state, lane)
            level = token.level
            if un.filled == un.nin - 1:
                un.fires += 1
            grab(un, state, lane, state.slots[un.block + un.filled])
            un.filled += 1
            first = state.slots[un.block]
            if level != first.level:
                return abort(un, Abort.LEVELS_DIFFER, first.level, level)
        while un.served < un.nin:
            x = state.slots[un.block + un.served]
            level = last.level if un.served == un.nin - 1 else 0
            status = send_move(un, state, its.out, 0, level, x)
            if status != 0:
                return status
            un.served += 1
        un.filled = 0
        un.served = 0
