"""FlatMap units: one token in, a burst of tokens out; the input slot is freed before the burst."""

from __future__ import annotations

from typing import Final

from stepsim.kernels.declaration import declare
from stepsim.kernels.jit import inlined
from stepsim.kernels.layout import MAX_ADDRESS, Abort, Payload, Status
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
    work,
)

__all__ = [
    "CACHE_READ_ADDR",
    "EXPERT_ADDR",
    "FLAT_MAP",
    "LAST_TILE",
    "RETILE",
    "SIDE_COLS",
    "SIDE_ROWS",
    "SIDE_VALID",
]

SIDE_ROWS: Final = -1
"""Stands for the rows of the input tile among the dims of a generic FlatMap."""
SIDE_COLS: Final = -2
SIDE_VALID: Final = -3


@inlined
def _address(y, value):
    y.kind = Payload.TILE
    y.rows = 1
    y.cols = 1
    y.off = 1
    y.bits = 64
    y.rd = 0
    y.value = value


RETILE, _retile = declare(
    "retile",
    inputs=("data",),
    outputs=("out",),
    parameters=("split_row", "drop_padding"),
    words=("piece",),
    private=("tile", "sent"),
)


@RETILE
def step_retile(un, state):
    """RetileStreamify."""
    its = _retile(un, state)
    x = state.slots[its.tile]
    y = state.slots[its.sent]
    while True:
        if un.pc == 0:
            status = await_token(un, state, its.data)
            if status != 0:
                return status
            if head(un, state, its.data).kind != Payload.TILE:
                return abort(un, Abort.PAYLOAD, head(un, state, its.data).kind, 0)
            grab(un, state, its.data, x)
            un.fires += 1
            un.piece = 1
            un.pc = 1
        if its.split_row != 0:
            pieces = x.rows
            width = x.cols
        else:
            pieces = x.cols
            width = x.rows
        while un.piece <= pieces:
            status = room(un, state, its.out)
            if status != 0:
                return status
            i = un.piece
            ends = its.drop_padding != 0 and i == x.off
            y.kind = Payload.TILE
            y.rows = 1
            y.cols = width
            y.off = 1 if i <= x.off else 0
            y.bits = x.bits
            y.rd = x.rd
            y.value = 0
            emit_move(un, state, its.out, 0, x.level if (i == pieces or ends) else 0, y)
            un.piece = pieces + 1 if ends else i + 1
        un.pc = 0


EXPERT_ADDR, _expert_addr = declare(
    "expert_addr",
    inputs=("selector",),
    outputs=("out",),
    parameters=("tiles_per_expert", "base"),
    words=("position", "expert"),
    private=("address",),
)


@EXPERT_ADDR
def step_expert_addr(un, state):
    its = _expert_addr(un, state)
    shared = state.globals[0]
    y = state.slots[its.address]
    while True:
        if un.pc == 0:
            status = await_token(un, state, its.selector)
            if status != 0:
                return status
            x = head(un, state, its.selector)
            if x.kind != Payload.SELECTOR:
                return abort(un, Abort.PAYLOAD, x.kind, 0)
            level = x.level
            entry = state.parameters[shared.selectors + x.value]
            un.fires += 1
            take(un, state, its.selector)
            if level > 0:
                return abort(un, Abort.LEVEL_NOT_ALLOWED, level, 0)
            if state.parameters[entry] != 1:
                return abort(un, Abort.NOT_ONE_HOT, state.parameters[entry], 0)
            un.expert = state.parameters[entry + 1]
            un.position = 0
            un.pc = 1
        while un.position < its.tiles_per_expert:
            status = room(un, state, its.out)
            if status != 0:
                return status
            _address(y, its.base + un.expert * its.tiles_per_expert + un.position)
            emit_move(un, state, its.out, 0, 1 if un.position < its.tiles_per_expert - 1 else 2, y)
            un.position += 1
        un.pc = 0


CACHE_READ_ADDR, _cache_read_addr = declare(
    "cache_read_addr",
    inputs=("row", "length"),
    outputs=("out",),
    parameters=("stride",),
    words=("position", "first_row", "level", "tiles", "begin"),
    private=("address",),
)


@CACHE_READ_ADDR
def step_cache_read_addr(un, state):
    """The burst is spread over future cycles; the clock stands."""
    its = _cache_read_addr(un, state)
    y = state.slots[its.address]
    while True:
        if un.pc == 0:
            if has_token(state, its.row):
                x = head(un, state, its.row)
                un.first_row = x.value
                un.level = x.level
                take(un, state, its.row)
                un.pc = 1
            elif not is_closed(state, its.row):
                return block_on_input(un, state, its.row)
            elif has_token(state, its.length):
                closure_ends(un, state, its.row)
                head(un, state, its.length)
                take(un, state, its.length)
                return abort(un, Abort.ONE_INPUT_CLOSED, its.row, its.length)
            elif not is_closed(state, its.length):
                return block_on_input(un, state, its.length)
            else:
                closure_ends(un, state, its.row)
                closure_ends(un, state, its.length)
                return Status.DONE
        if un.pc == 1:
            if not has_token(state, its.length):
                if is_closed(state, its.length):
                    closure_ends(un, state, its.length)
                    return abort(un, Abort.ONE_INPUT_CLOSED, its.length, its.row)
                return block_on_input(un, state, its.length)
            x = head(un, state, its.length)
            level = x.level
            un.tiles = x.value
            un.fires += 1
            take(un, state, its.length)
            if level != un.level:
                return abort(un, Abort.LEVELS_DIFFER, un.level, level)
            if un.tiles <= 0:
                return abort(un, Abort.EMPTY_INNER, un.tiles, 0)
            if un.first_row > (MAX_ADDRESS - un.tiles) // its.stride:
                return abort(un, Abort.ADDRESS_RANGE, un.first_row, its.stride)
            un.begin = un.clk
            un.position = 0
            un.pc = 2
        while un.position < un.tiles:
            status = room(un, state, its.out)
            if status != 0:
                return status
            _address(y, un.first_row * its.stride + un.position)
            emit_move(
                un,
                state,
                its.out,
                un.begin + un.position,
                0 if un.position < un.tiles - 1 else un.level + 1,
                y,
            )
            un.position += 1
        un.pc = 0


LAST_TILE, _last_tile = declare(
    "last_tile",
    inputs=("tiles",),
    outputs=("out",),
    parameters=("more", "last"),
    words=("position", "count", "level"),
    private=("flag",),
    selectors=("more", "last"),
)


@LAST_TILE
def step_last_tile(un, state):
    """FilterLastTile. ``more`` is the selector {1} of width 2, ``last`` the selector {0}."""
    its = _last_tile(un, state)
    y = state.slots[its.flag]
    while True:
        if un.pc == 0:
            status = await_token(un, state, its.tiles)
            if status != 0:
                return status
            x = head(un, state, its.tiles)
            un.count = x.value
            un.level = x.level
            un.fires += 1
            take(un, state, its.tiles)
            if un.count <= 0:
                return abort(un, Abort.EMPTY_INNER, un.count, 0)
            un.position = 1
            un.pc = 1
        while un.position <= un.count:
            status = room(un, state, its.out)
            if status != 0:
                return status
            ends = un.position == un.count
            y.kind = Payload.SELECTOR
            y.rows = 1
            y.cols = 2
            y.off = 1
            y.bits = 8
            y.rd = 0
            y.value = its.last if ends else its.more
            emit_move(un, state, its.out, 0, un.level + 1 if ends else 0, y)
            un.position += 1
        un.pc = 0


@inlined
def _side(x, size):
    if size == SIDE_ROWS:
        return x.rows
    if size == SIDE_COLS:
        return x.cols
    if size == SIDE_VALID:
        return x.off
    return size


FLAT_MAP, _flat_map = declare(
    "flat_map",
    inputs=("data",),
    outputs=("out",),
    parameters=("cycles", "rows", "cols", "dim_count", "*dims"),
    words=("position", "pieces"),
    private=("tile", "piece"),
    signed=("rows", "cols", "dims"),
)


@FLAT_MAP
def step_flat_map(un, state):
    """Generic FlatMap: ``dims`` pieces of ``rows`` x ``cols``, each after ``cycles`` cycles."""
    its = _flat_map(un, state)
    x = state.slots[its.tile]
    y = state.slots[its.piece]
    while True:
        if un.pc == 0:
            status = await_token(un, state, its.data)
            if status != 0:
                return status
            if head(un, state, its.data).kind != Payload.TILE:
                return abort(un, Abort.PAYLOAD, head(un, state, its.data).kind, 0)
            grab(un, state, its.data, x)
            un.fires += 1
            pieces = 1
            for k in range(its.dim_count):
                pieces *= _side(x, state.parameters[its.dims + k])
            if pieces <= 0:
                return abort(un, Abort.EMPTY_INNER, pieces, 0)
            un.position = 0
            un.pieces = pieces
            un.pc = 1
        while un.position < un.pieces:
            status = room(un, state, its.out)
            if status != 0:
                return status
            level = 0
            span = 1
            k = its.dim_count - 1
            while k > 0:
                span *= _side(x, state.parameters[its.dims + k])
                if (un.position + 1) % span != 0:
                    break
                level += 1
                k -= 1
            if un.position == un.pieces - 1:
                level = its.dim_count - 1 + x.level
            y.kind = Payload.TILE
            y.rows = _side(x, its.rows)
            y.cols = _side(x, its.cols)
            y.off = y.rows
            y.bits = x.bits
            y.rd = x.rd
            y.value = 0
            work(un, its.cycles)
            emit_move(un, state, its.out, 0, level, y)
            un.position += 1
        un.pc = 0
