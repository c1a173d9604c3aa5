"""StaticStreamify: affine reads of buffers, nested in constant repeats."""

from __future__ import annotations

from stepsim.kernels.declaration import declare
from stepsim.kernels.layout import Abort
from stepsim.kernels.queues import abort, emit_copy, head_slot, room, take_later, work
from stepsim.kernels.units.buffers import await_buffer
from stepsim.kernels.walks import walk_level, walk_place

STATIC_STREAMIFY, _static_streamify = declare(
    "static_streamify",
    inputs=("buffers",),
    outputs=("out",),
    parameters=("rank", "reads", "tiles", "factor_count", "dim_count", "*numbers"),
    words=("element", "reading"),
)


@STATIC_STREAMIFY
def step_static_streamify(un, state):
    """``numbers`` are the repeat factors, then the dims and the strides of a walk of ``tiles``.

    Without dims a read is linear, over the buffer's own dims. ``reads`` is the product of the
    factors, ``reading`` counts them.

    Resume points: 0 see the buffer, 1 read.
    """
    its = _static_streamify(un, state)
    walk = its.numbers + its.factor_count
    while True:
        if un.pc == 0:
            status = await_buffer(un, state, its.buffers)
            if status != 0:
                return status
            un.pc = 1
        buffer = state.slots[head_slot(state, its.buffers)]
        block = buffer.value
        held = state.slots[block].rows
        count = its.tiles if its.dim_count > 0 else held
        while un.reading < its.reads:
            while un.element < count:
                place = un.element
                if its.dim_count > 0:
                    place = walk_place(state, un.element, walk, its.dim_count)
                    if place >= held:
                        return abort(un, Abort.BUFFER_RANGE, place, held)
                status = room(un, state, its.out)
                if status != 0:
                    return status
                cell = state.slots[block + 1 + place]
                level = cell.level
                if its.dim_count > 0:
                    level = walk_level(state, un.element, walk, its.dim_count)
                if un.element == count - 1:
                    level = its.rank + walk_level(state, un.reading, its.numbers, its.factor_count)
                    if un.reading == its.reads - 1:
                        level += buffer.level
                un.fires += 1
                emit_copy(un, state, its.out, 0, level, cell)
                work(un, 1)
                un.element += 1
            un.element = 0
            un.reading += 1
        un.reading = 0
        take_later(un, state, its.buffers)
        un.pc = 0
