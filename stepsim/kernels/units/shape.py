"""Units that only change stop levels: Flatten, Promote, Reshape, RepeatStatic, ExpandRef."""

from __future__ import annotations

from stepsim.kernels.build.jit import inlined
from stepsim.kernels.declaration import declare
from stepsim.kernels.layout import Abort, Payload, Status
from stepsim.kernels.queues import (
    abort,
    await_token,
    block_on_input,
    closure,
    closure_ends,
    emit_copy,
    grab,
    has_token,
    head,
    head_slot,
    is_closed,
    room,
    send_copy,
    send_move,
    take,
    take_later,
    take_shown,
    take_token,
    work,
)

FLATTEN, _flatten = declare(
    "flatten",
    inputs=("data",),
    outputs=("out",),
    parameters=("lo", "hi"),
    private=("token",),
)


@FLATTEN
def step_flatten(un, state):
    """Dims ``lo`` to ``hi`` become one."""
    its = _flatten(un, state)
    x = state.slots[its.token]
    while True:
        if un.pc == 0:
            status = take_token(un, state, its.data, x)
            if status != 0:
                return status
            if x.level > its.hi:
                x.level -= its.hi - its.lo
            elif x.level > its.lo:
                x.level = its.lo
            un.pc = 1
        status = send_move(un, state, its.out, 0, x.level, x)
        if status != 0:
            return status
        un.pc = 0


PROMOTE, _promote = declare(
    "promote",
    inputs=("data",),
    outputs=("out",),
    parameters=("position",),
    private=("token",),
)


@PROMOTE
def step_promote(un, state):
    """``position`` is that of the new unit dim."""
    its = _promote(un, state)
    x = state.slots[its.token]
    while True:
        if un.pc == 0:
            status = take_token(un, state, its.data, x)
            if status != 0:
                return status
            if x.level > 0:
                if its.position <= x.level:
                    x.level += 1
            elif its.position == 0:
                x.level = 1
            un.pc = 1
        status = send_move(un, state, its.out, 0, x.level, x)
        if status != 0:
            return status
        un.pc = 0


RESHAPE, _reshape = declare(
    "reshape",
    inputs=("data",),
    outputs=("*out",),
    parameters=("dim", "chunk", "has_pad", "input_rank", "outer"),
    words=("filled", "pads", "last_level", "input_ended", "half"),
    private=("token", "pad", "mask"),
)


@inlined
def _send_mask(un, state, its, level, real):
    # The Boolean tile for a token that has been sent; ``half`` as long as there is no room for it.
    mask = state.slots[its.mask]
    mask.kind = Payload.TILE
    mask.rows = 1
    mask.cols = 1
    mask.off = 1
    mask.bits = 8
    mask.rd = 0
    mask.value = real
    un.half = 1
    status = send_move(un, state, state.parameters[its.out + 1], 0, level, mask)
    if status == 0:
        un.half = 0
    return status


@RESHAPE
def step_reshape(un, state):
    """Dim ``dim`` is split into chunks of ``chunk`` elements.

    A second output (ReshapePadStream) gets a mask: true for every token of the data, false for
    every pad. ``half``: the data is sent, its mask not yet.

    Resume points: 0 take, 1 look ahead, 2 send, 3 send ``pads`` pads of which the last has level
    ``last_level``.
    """
    its = _reshape(un, state)
    x = state.slots[its.token]
    pad = state.slots[its.pad]
    out = state.parameters[its.out]
    while True:
        if un.pc == 0:
            if not has_token(state, its.data):
                if not is_closed(state, its.data):
                    return block_on_input(un, state, its.data)
                if un.input_ended != 0 or its.dim > 0 or un.filled == 0:
                    closure_ends(un, state, its.data)
                    return Status.DONE
                if its.has_pad == 0 or its.input_rank != 0:
                    closure_ends(un, state, its.data)
                    return abort(un, Abort.NEEDS_PAD, un.filled, its.chunk)
                closure(un, state, its.data)
                un.input_ended = 1
                un.pads = its.chunk - un.filled
                un.last_level = 2 if its.outer != 0 else 1
                un.pc = 3
            else:
                head(un, state, its.data)
                un.fires += 1
                grab(un, state, its.data, x)
                un.pads = 0
                un.pc = 2
                if its.dim > 0:
                    if x.level >= its.dim:
                        un.filled += 1
                        if un.filled == its.chunk:
                            un.filled = 0
                            x.level += 1
                elif un.filled + 1 < its.chunk:
                    if x.level == 0:
                        un.filled += 1
                    else:
                        un.pads = its.chunk - un.filled - 1
                        un.last_level = x.level + 1
                        un.filled = 0
                        x.level = 0
                else:
                    un.filled = 0
                    if x.level > 0 or its.outer == 0:
                        x.level += 1
                    else:
                        un.pc = 1
        if un.pc == 1:
            if has_token(state, its.data):
                head(un, state, its.data)
                x.level = 1
            elif not is_closed(state, its.data):
                return block_on_input(un, state, its.data)
            else:
                closure(un, state, its.data)
                x.level = 2
            un.pc = 2
        if un.pc == 2:
            if un.half == 0:
                status = send_move(un, state, out, 0, x.level, x)
                if status != 0:
                    return status
            if un.nout > 1:
                status = _send_mask(un, state, its, x.level, 1)
                if status != 0:
                    return status
            un.pc = 3
        if un.pads > 0 and its.has_pad == 0:
            return abort(un, Abort.NEEDS_PAD, its.chunk - un.pads, its.chunk)
        while un.pads > 0:
            level = un.last_level if un.pads == 1 else 0
            if un.half == 0:
                status = send_copy(un, state, out, 0, level, pad)
                if status != 0:
                    return status
            if un.nout > 1:
                status = _send_mask(un, state, its, level, 0)
                if status != 0:
                    return status
            un.pads -= 1
        un.pc = 0


REPEAT, _repeat = declare(
    "repeat",
    inputs=("data",),
    outputs=("out",),
    parameters=("copies", "paced", "factor_count", "*factors"),
    words=("position",),
)


@REPEAT
def step_repeat(un, state):
    """RepeatStatic: ``copies`` is the product of the ``factors``, outermost first.

    The offsets of the copies ride on the delayed clock; ``paced`` units (of the public simulator
    of 2026) work for one cycle after each copy instead.

    Resume points: 0 see the token, 1 send copies.
    """
    its = _repeat(un, state)
    while True:
        if un.pc == 0:
            status = await_token(un, state, its.data)
            if status != 0:
                return status
            head(un, state, its.data)
            un.pc = 1
        x = state.slots[head_slot(state, its.data)]
        while un.position < its.copies:
            status = room(un, state, its.out)
            if status != 0:
                return status
            level = 0
            span = 1
            k = its.factor_count - 1
            while k >= 0:
                span *= state.parameters[its.factors + k]
                if (un.position + 1) % span != 0:
                    break
                level += 1
                k -= 1
            if un.position == its.copies - 1:
                level = x.level + its.factor_count
            un.fires += 1
            if its.paced != 0:
                emit_copy(un, state, its.out, 0, level, x)
                work(un, 1)
            else:
                emit_copy(un, state, its.out, un.clk + un.position, level, x)
            un.position += 1
        un.position = 0
        if its.paced == 0:
            work(un, its.copies)
        take_later(un, state, its.data)
        un.pc = 0


EXPAND_REF, _expand_ref = declare(
    "expand_ref",
    inputs=("data", "reference"),
    outputs=("out",),
    parameters=("inner_dims", "whole"),
    words=("level",),
)


@EXPAND_REF
def step_expand_ref(un, state):
    """``inner_dims`` counts the unit dims inside; ``level`` is that of the reference.

    ``whole``: they are all dims of the data, whose one token stands for the whole reference.
    """
    its = _expand_ref(un, state)
    while True:
        status = await_token(un, state, its.data)
        if status != 0:
            return status
        x = head(un, state, its.data)
        if un.pc == 0:
            if x.level == 0 and its.inner_dims != 1 and its.whole == 0:
                return abort(un, Abort.LEVEL_NOT_ALLOWED, 0, its.inner_dims)
            if not has_token(state, its.reference):
                if not is_closed(state, its.reference):
                    return block_on_input(un, state, its.reference)
                if x.level > 0 and its.whole == 0:
                    closure_ends(un, state, its.reference)
                    return abort(un, Abort.REFERENCE_CLOSED, its.reference, 0)
                closure(un, state, its.reference)
                take(un, state, its.data)
                return Status.DONE
            y = head(un, state, its.reference)
            un.level = y.level
            un.fires += 1
            take_shown(un, state, its.reference, y)
            if x.level == 0 and un.level > 0 and its.whole == 0:
                return abort(un, Abort.LEVEL_NOT_ALLOWED, un.level, 0)
            un.pc = 1
        status = send_copy(un, state, its.out, 0, un.level, x)
        if status != 0:
            return status
        if x.level > 0 and un.level >= its.inner_dims and its.whole == 0:
            take(un, state, its.data)
        un.pc = 0
