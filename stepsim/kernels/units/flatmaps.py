"""FlatMap units: one token in, a burst of tokens out; the input slot is freed before the burst."""

from __future__ import annotations

from typing import Final

from stepsim.kernels.build.jit import inlined, kernel
from stepsim.kernels.declaration import declare
from stepsim.kernels.functions.shapes import polynomial
from stepsim.kernels.functions.tiles import ceil_div
from stepsim.kernels.layout import INFINITY, MAX_ADDRESS, MAX_TILE_SIDE, Abort, Payload, Status
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
    room_after,
    take,
    take_shown,
    work,
)


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
    parameters=("split_row", "drop_padding", "chunk", "upright"),
    words=("piece",),
    private=("tile", "sent"),
)


@RETILE
def step_retile(un, state):
    """RetileStreamify: pieces of ``chunk`` rows or columns, the last one with what is left.

    ``upright`` columns have all rows of the tile; others, of one column each, are laid out as rows.
    ``piece`` is the number of rows or columns that lie before the piece.
    """
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
            un.piece = 0
            un.pc = 1
        whole = x.rows if its.split_row != 0 else x.cols
        while un.piece < whole:
            status = room(un, state, its.out)
            if status != 0:
                return status
            length = min(its.chunk, whole - un.piece)
            behind = un.piece + length
            ends = its.drop_padding != 0 and un.piece < x.off and x.off <= behind
            y.kind = Payload.TILE
            if its.upright != 0:
                y.rows = x.rows
                y.cols = length
                y.off = x.off
                ends = False
            else:
                y.rows = length
                y.cols = x.cols if its.split_row != 0 else x.rows
                y.off = min(max(x.off - un.piece, 0), length)
            y.bits = x.bits
            y.rd = x.rd
            y.value = 0
            emit_move(un, state, its.out, 0, x.level if (behind == whole or ends) else 0, y)
            un.piece = whole if ends else behind
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
                take_shown(un, state, its.row, x)
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
            take_shown(un, state, its.length, x)
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
            take_shown(un, state, its.tiles, x)
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


SIDES: Final = 4
"""What sizes of pieces are made of: rows, columns and valid rows of the tile, and a length."""

MAX_LENGTH: Final = 1 << 20
"""Most pieces along a dim whose size is data; as many as a tile has rows."""

FLAT_MAP, _flat_map = declare(
    "flat_map",
    inputs=("*data",),
    outputs=("out",),
    parameters=("cycles", "size_count", "*sizes"),
    words=("position", "pieces", "length"),
    private=("tile", "piece"),
)


@kernel
def _piece_sizes(un, state, at, count, x):
    # The sizes behind ``at``, each a divisor and a polynomial in rows, columns, valid rows and
    # length, into the words behind these four; the number of pieces, or -1 when a side is too long.
    scratch = state.scratch
    sides = un.scratch
    scratch[sides] = x.rows
    scratch[sides + 1] = x.cols
    scratch[sides + 2] = x.off
    scratch[sides + 3] = un.length
    pieces = 1
    for k in range(count):
        divisor = state.parameters[at]
        size, at = polynomial(state.parameters, scratch, at + 1, sides)
        size = ceil_div(size, divisor)
        scratch[sides + SIDES + k] = size
        if k >= 2:
            if size > 0 and pieces >= INFINITY // size:
                abort(un, Abort.TOO_MANY_PIECES, size, INFINITY // pieces)
                return -1
            pieces *= size
        elif size > MAX_TILE_SIDE:
            abort(un, Abort.TILE_TOO_LARGE, size, MAX_TILE_SIDE)
            return -1
    return pieces


@FLAT_MAP
def step_flat_map(un, state):
    """Generic FlatMap: pieces of ``sizes`` rows, columns and dims, each after ``cycles`` cycles.

    A second input has a ``length`` for every tile. Resume points: 0 tile, 2 length, 1 pieces.
    """
    its = _flat_map(un, state)
    data = state.parameters[its.data]
    sizes = un.scratch + SIDES
    x = state.slots[its.tile]
    y = state.slots[its.piece]
    while True:
        if un.pc == 0:
            if un.nin == 1 or has_token(state, data) or not is_closed(state, data):
                status = await_token(un, state, data)
                if status != 0:
                    return status
            else:
                lengths = state.parameters[its.data + 1]
                closure_ends(un, state, data)
                if has_token(state, lengths):
                    head(un, state, lengths)
                    return abort(un, Abort.ONE_INPUT_CLOSED, data, lengths)
                if not is_closed(state, lengths):
                    return block_on_input(un, state, lengths)
                closure_ends(un, state, lengths)
                return Status.DONE
            if head(un, state, data).kind != Payload.TILE:
                return abort(un, Abort.PAYLOAD, head(un, state, data).kind, 0)
            grab(un, state, data, x)
            un.pc = 2
        if un.pc == 2:
            if un.nin > 1:
                lengths = state.parameters[its.data + 1]
                if not has_token(state, lengths):
                    if not is_closed(state, lengths):
                        return block_on_input(un, state, lengths)
                    closure_ends(un, state, lengths)
                    return abort(un, Abort.ONE_INPUT_CLOSED, lengths, data)
                token = head(un, state, lengths)
                level = token.level
                un.length = token.value
                un.fires += 1
                take(un, state, lengths)
                if level != x.level:
                    return abort(un, Abort.LEVELS_DIFFER, x.level, level)
                if un.length > MAX_LENGTH:
                    return abort(un, Abort.TOO_MANY_PIECES, un.length, MAX_LENGTH)
            else:
                un.fires += 1
            pieces = _piece_sizes(un, state, its.sizes, its.size_count, x)
            if pieces < 0:
                return Status.FAILED
            if pieces == 0:
                return abort(un, Abort.EMPTY_INNER, pieces, 0)
            un.position = 0
            un.pieces = pieces
            un.pc = 1
        while un.position < un.pieces:
            status = room_after(un, state, its.out, its.cycles)
            if status != 0:
                return status
            level = 0
            span = 1
            k = its.size_count - 1
            while k > 2:
                span *= state.scratch[sizes + k]
                if (un.position + 1) % span != 0:
                    break
                level += 1
                k -= 1
            if un.position == un.pieces - 1:
                level = its.size_count - 3 + x.level
            y.kind = Payload.TILE
            y.rows = state.scratch[sizes]
            y.cols = state.scratch[sizes + 1]
            y.off = y.rows
            y.bits = x.bits
            y.rd = x.rd
            y.value = 0
            work(un, its.cycles)
            emit_move(un, state, its.out, 0, level, y)
            un.position += 1
        un.pc = 0
