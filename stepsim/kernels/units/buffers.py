"""Bufferize, Streamify, DynStreamify: on-chip buffers are blocks of the slot arena.

Every buffered tile carries its level inside the buffer, so a linear read only replays it. Unit
outer dims are accepted, and a buffer of one tile is read with its own rank as level.
"""

from __future__ import annotations

from stepsim.kernels.arena import allocate, copy_payload, free_block
from stepsim.kernels.build.jit import inlined
from stepsim.kernels.declaration import declare
from stepsim.kernels.layout import Abort, Payload, Status
from stepsim.kernels.queues import (
    abort,
    await_token,
    block_on_input,
    closure,
    closure_ends,
    emit,
    emit_copy,
    has_token,
    head,
    head_slot,
    is_closed,
    room,
    take,
    take_later,
    work,
)
from stepsim.kernels.walks import walk_level, walk_place


@inlined
def _shape_block(state, block, count, rank):
    """Give every tile the level of its place in a rectangular buffer; False when it is not one.

    Dim ``k`` is the number of stops of at least ``k`` up to the first one above ``k``; the product
    of the dims must be the number of tiles. New levels wait in ``stamp``, which buffered tiles do
    not use, because the old ones are still read.
    """
    for i in range(count):
        state.slots[block + 1 + i].stamp = 0
    span = 1
    for k in range(rank):
        dim = 0
        for i in range(count):
            level = state.slots[block + 1 + i].level
            if level >= k:
                dim += 1
            if level > k:
                break
        span *= dim
        i = span - 1
        while i < count:
            state.slots[block + 1 + i].stamp = k + 1
            i += span
    for i in range(count):
        state.slots[block + 1 + i].level = state.slots[block + 1 + i].stamp
    return span == count


@inlined
def _grow_block(un, state):
    # A block of twice the length for the buffer that is being filled; False when the arena is full.
    order = un.order + 1
    fresh = allocate(state, order)
    if fresh < 0:
        return False
    for i in range(un.filled):
        copy_payload(state.slots[un.block + 1 + i], state.slots[fresh + 1 + i])
        state.slots[fresh + 1 + i].level = state.slots[un.block + 1 + i].level
    if un.block >= 0:
        free_block(state, un.block, un.order)
    un.block = fresh
    un.order = order
    return True


BUFFERIZE, _bufferize = declare(
    "bufferize",
    inputs=("data",),
    outputs=("out",),
    parameters=("rank",),
    words={"block": -1, "filled": 0, "order": 0, "level": 0},
)


@BUFFERIZE
def step_bufferize(un, state):
    """``block`` is -1 and ``order`` 0 while no block is held."""
    its = _bufferize(un, state)
    while True:
        if un.pc == 0:
            if not has_token(state, its.data):
                if is_closed(state, its.data):
                    if un.filled > 0:
                        closure_ends(un, state, its.data)
                        return abort(un, Abort.BUFFER_OPEN, un.filled, its.rank)
                    closure_ends(un, state, its.data)
                    return Status.DONE
                return block_on_input(un, state, its.data)
            if (un.block < 0 or un.filled + 1 >= (1 << un.order)) and not _grow_block(un, state):
                return Status.NO_SPACE
            x = head(un, state, its.data)
            if x.kind != Payload.TILE:
                return abort(un, Abort.PAYLOAD, x.kind, Payload.TILE)
            un.fires += 1
            cell = state.slots[un.block + 1 + un.filled]
            copy_payload(x, cell)
            cell.level = x.level
            un.filled += 1
            level = x.level
            take(un, state, its.data)
            if level < its.rank:
                work(un, 1)
                continue
            if not _shape_block(state, un.block, un.filled, its.rank):
                return abort(un, Abort.BUFFER_RAGGED, un.filled, its.rank)
            un.level = level - its.rank
            un.pc = 1
        status = room(un, state, its.out)
        if status != 0:
            return status
        header = state.slots[un.block]
        header.rows = un.filled
        header.off = 1
        header.level = un.order
        token = emit(un, state, its.out, 0, un.level)
        token.kind = Payload.BUFFER
        token.value = un.block
        token.rows = 0
        token.cols = 0
        token.off = 0
        token.bits = 0
        token.rd = 0
        un.block = -1
        un.filled = 0
        un.order = 0
        un.pc = 0


@inlined
def await_buffer(un, state, c):
    """HEAD of a buffer, once for all reads of it: 0, or the status to return.

    A HEAD after work would show other units the end of that work too early.
    """
    status = await_token(un, state, c)
    if status == 0:
        kind = head(un, state, c).kind
        if kind != Payload.BUFFER:
            return abort(un, Abort.PAYLOAD, kind, Payload.BUFFER)
    return status


STREAMIFY, _streamify = declare(
    "streamify",
    inputs=("buffers",),
    outputs=("out",),
    parameters=("rank", "factor_count", "*factors"),
    words=("element", "reading", "factor"),
)


@STREAMIFY
def step_streamify(un, state):
    """``factors`` are innermost last and run from the back, in turn; ``reading`` counts the reads
    of the current factor.

    Resume points: 0 see the buffer, 1 read.
    """
    its = _streamify(un, state)
    turns = its.factor_count if its.factor_count > 0 else 1
    while True:
        if un.pc == 0:
            status = await_buffer(un, state, its.buffers)
            if status != 0:
                return status
            un.pc = 1
        buffer = state.slots[head_slot(state, its.buffers)]
        block = buffer.value
        count = state.slots[block].rows
        while un.factor < turns:
            reads = 1
            if its.factor_count > 0:
                reads = state.parameters[its.factors + its.factor_count - 1 - un.factor]
            while un.reading < reads:
                while un.element < count:
                    status = room(un, state, its.out)
                    if status != 0:
                        return status
                    cell = state.slots[block + 1 + un.element]
                    level = cell.level
                    if level == its.rank:
                        if its.factor_count == 0:
                            level = its.rank + buffer.level
                        elif un.reading == reads - 1:
                            level = its.rank + buffer.level + 1 + un.factor
                    un.fires += 1
                    emit_copy(un, state, its.out, 0, level, cell)
                    work(un, 1)
                    un.element += 1
                un.element = 0
                un.reading += 1
            un.reading = 0
            un.factor += 1
        un.factor = 0
        take_later(un, state, its.buffers)
        un.pc = 0


DYN_STREAMIFY, _dyn_streamify = declare(
    "dyn_streamify",
    inputs=("buffers", "reference"),
    outputs=("out",),
    parameters=("rank", "repeat_rank", "tiles", "dim_count", "*walk"),
    words=("element", "level"),
)


@DYN_STREAMIFY
def step_dyn_streamify(un, state):
    """``repeat_rank`` is the highest repeated rank; ``level`` is that of the reference.

    A read goes over the dims and strides of a walk of ``tiles``, or is linear without dims; its
    last element has level ``rank``.

    Resume points: 0 see the buffer, 1 take the reference, 2 read.
    """
    its = _dyn_streamify(un, state)
    while True:
        if un.pc == 0:
            status = await_buffer(un, state, its.buffers)
            if status != 0:
                return status
            un.pc = 1
        buffer = state.slots[head_slot(state, its.buffers)]
        if un.pc == 1:
            if not has_token(state, its.reference):
                if not is_closed(state, its.reference):
                    return block_on_input(un, state, its.reference)
                if buffer.level == 0:
                    closure_ends(un, state, its.reference)
                    return Status.DONE
                closure(un, state, its.reference)
                take(un, state, its.buffers)
                un.pc = 0
                continue
            y = head(un, state, its.reference)
            un.level = y.level
            take(un, state, its.reference)
            if buffer.level == 0 and un.level > 0:
                return abort(un, Abort.LEVEL_NOT_ALLOWED, un.level, 0)
            un.element = 0
            un.pc = 2
        block = buffer.value
        held = state.slots[block].rows
        count = its.tiles if its.dim_count > 0 else held
        while un.element < count:
            place = un.element
            if its.dim_count > 0:
                place = walk_place(state, un.element, its.walk, its.dim_count)
                if place >= held:
                    return abort(un, Abort.BUFFER_RANGE, place, held)
            status = room(un, state, its.out)
            if status != 0:
                return status
            cell = state.slots[block + 1 + place]
            level = cell.level
            if its.dim_count > 0:
                level = walk_level(state, un.element, its.walk, its.dim_count)
            if level == its.rank:
                level += un.level
            un.fires += 1
            emit_copy(un, state, its.out, 0, level, cell)
            work(un, 1)
            un.element += 1
        un.pc = 1
        if buffer.level > 0 and un.level >= its.repeat_rank + 1:
            take_later(un, state, its.buffers)
            un.pc = 0
