"""FlatmapFilterRowStreamify of the public simulator of 2026: the rows that a mask selects."""

from __future__ import annotations

from stepsim.kernels.build.jit import inlined
from stepsim.kernels.declaration import declare
from stepsim.kernels.layout import Abort, Payload, Status
from stepsim.kernels.queues import (
    abort,
    await_token,
    block_on_input,
    closure_ends,
    emit_move,
    grab,
    has_token,
    head,
    is_closed,
    room,
    take,
)

FILTER_ROWS, _filter_rows = declare(
    "filter_rows",
    inputs=("*data",),
    outputs=("out",),
    words=("count", "position", "level"),
    private=("tile", "row"),
)


@inlined
def _read_mask(un, state, c, rows):
    # The mask for a tile of some rows: ``count`` of them are selected. A Boolean tile is true or
    # false for all its rows.
    if not has_token(state, c):
        if not is_closed(state, c):
            return block_on_input(un, state, c)
        closure_ends(un, state, c)
        return abort(un, Abort.ONE_INPUT_CLOSED, c, state.parameters[un.in0])
    m = head(un, state, c)
    level = m.level
    if m.kind == Payload.SELECTOR:
        flags = m.cols
        un.count = state.parameters[state.parameters[state.globals[0].selectors + m.value]]
    elif m.kind == Payload.TILE:
        flags = m.rows
        un.count = m.rows if m.value != 0 else 0
    else:
        return abort(un, Abort.PAYLOAD, m.kind, 0)
    un.fires += 1
    take(un, state, c)
    if level != un.level:
        return abort(un, Abort.LEVELS_DIFFER, un.level, level)
    if flags != rows:
        return abort(un, Abort.MASK_ROWS, flags, rows)
    return 0


@FILTER_ROWS
def step_filter_rows(un, state):
    """The second input, if there is one, is the mask. Resume points: 0 tile, 1 mask, 2 rows."""
    its = _filter_rows(un, state)
    data = state.parameters[its.data]
    x = state.slots[its.tile]
    y = state.slots[its.row]
    while True:
        if un.pc == 0:
            if un.nin == 1:
                status = await_token(un, state, data)
                if status != 0:
                    return status
            elif not has_token(state, data):
                mask = state.parameters[its.data + 1]
                if not is_closed(state, data):
                    return block_on_input(un, state, data)
                closure_ends(un, state, data)
                if has_token(state, mask):
                    head(un, state, mask)
                    return abort(un, Abort.ONE_INPUT_CLOSED, data, mask)
                if not is_closed(state, mask):
                    return block_on_input(un, state, mask)
                closure_ends(un, state, mask)
                return Status.DONE
            token = head(un, state, data)
            if token.kind != Payload.TILE:
                return abort(un, Abort.PAYLOAD, token.kind, 0)
            un.level = token.level
            grab(un, state, data, x)
            un.pc = 1
        if un.pc == 1:
            if un.nin == 1:
                un.fires += 1
                un.count = x.rows
            else:
                status = _read_mask(un, state, state.parameters[its.data + 1], x.rows)
                if status != 0:
                    return status
            if un.count == 0 and un.level > 0:
                return abort(un, Abort.EMPTY_INNER, 0, 0)
            un.position = 0
            un.pc = 2
        while un.position < un.count:
            status = room(un, state, its.out)
            if status != 0:
                return status
            y.kind = Payload.TILE
            y.rows = 1
            y.cols = x.cols
            y.off = 1
            y.bits = x.bits
            y.rd = x.rd
            y.value = 0
            un.position += 1
            emit_move(un, state, its.out, 0, un.level if un.position == un.count else 0, y)
        un.pc = 0
