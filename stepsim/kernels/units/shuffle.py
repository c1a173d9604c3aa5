"""Shuffle of the public simulator of 2026: the items of a group, bucket by bucket."""

from __future__ import annotations

import numpy as np

from stepsim.kernels.arena import allocate, copy_payload, free_block
from stepsim.kernels.build.jit import inlined
from stepsim.kernels.declaration import declare
from stepsim.kernels.functions.tiles import ceil_div, tile_bytes, token_load
from stepsim.kernels.layout import Abort, Payload, Status
from stepsim.kernels.queues import (
    abort,
    block_on_input,
    closure_ends,
    emit,
    emit_copy,
    has_token,
    head,
    is_closed,
    room,
    room_after,
    take_later,
    work,
)
from stepsim.kernels.units.routing import read_selector


@inlined
def _grow_group(un, state):
    # Room for twice as many tiles of a group; False when the arena is full. ``stamp`` of a kept
    # tile is the place of its selector.
    order = un.order + 1 if un.block >= 0 else 0
    fresh = allocate(state, order)
    if fresh < 0:
        return False
    for i in range(un.filled):
        copy_payload(state.slots[un.block + i], state.slots[fresh + i])
        state.slots[fresh + i].level = state.slots[un.block + i].level
        state.slots[fresh + i].stamp = state.slots[un.block + i].stamp
    if un.block >= 0:
        free_block(state, un.block, un.order)
    un.block = fresh
    un.order = order
    return True


@inlined
def _is_selected(state, entry, bucket):
    found = False
    for k in range(state.parameters[entry]):
        found |= state.parameters[entry + 1 + k] == bucket
    return found


@inlined
def _next_of(un, state, first, bucket):
    # The first kept tile from ``first`` on that lies in a bucket; the number of tiles for none.
    i = first
    while i < un.filled and not _is_selected(state, state.slots[un.block + i].stamp, bucket):
        i += 1
    return i


SHUFFLE, _shuffle = declare(
    "shuffle",
    inputs=("data", "selector"),
    outputs=("out", "marker"),
    parameters=("rank", "write_back", "buckets", "*markers"),
    words={"entry": 0, "selector_level": 0, "block": -1, "order": 0, "filled": 0, "level": 0,
           "bucket": 0, "last_bucket": 0, "element": 0},
    selectors=("markers",),
)  # fmt: skip


@SHUFFLE
def step_shuffle(un, state):
    """``rank`` is that of a group: its items have one dim less.

    Resume points: 0 take a selector, 1 take the tiles of its item, 2 send the marker of a bucket,
    3 send its tiles.
    """
    its = _shuffle(un, state)
    shared = state.globals[0]
    while True:
        if un.pc == 0:
            if un.filled > 0 and not has_token(state, its.selector):
                if is_closed(state, its.selector):
                    closure_ends(un, state, its.selector)
                    return abort(un, Abort.BUFFER_OPEN, un.filled, its.rank)
            status = read_selector(un, state, its.selector, its.buckets)
            if status != 0:
                return status
            un.pc = 1
        if un.pc == 1:
            if not has_token(state, its.data):
                if is_closed(state, its.data):
                    closure_ends(un, state, its.data)
                    return abort(un, Abort.DATA_CLOSED, its.data, 0)
                return block_on_input(un, state, its.data)
            if (un.block < 0 or un.filled >= (1 << un.order)) and not _grow_group(un, state):
                return Status.NO_SPACE
            x = head(un, state, its.data)
            if x.kind != Payload.TILE:
                return abort(un, Abort.PAYLOAD, x.kind, Payload.TILE)
            level = np.int64(x.level)
            un.fires += 1
            work(un, token_load(state, x))
            if state.parameters[un.entry] > 0:
                work(un, ceil_div(tile_bytes(x), shared.onchip))
                cell = state.slots[un.block + un.filled]
                copy_payload(x, cell)
                cell.level = x.level
                cell.stamp = un.entry
                un.filled += 1
            take_later(un, state, its.data)
            if level < its.rank - 1:
                continue
            end = un.selector_level + its.rank - 1
            if level != end:
                return abort(un, Abort.LEVEL_NOT_ALLOWED, level, end)
            un.pc = 0
            if level < its.rank:
                continue
            un.level = level
            un.bucket = -1
            for b in range(its.buckets):
                if _next_of(un, state, 0, b) < un.filled:
                    if un.bucket < 0:
                        un.bucket = b
                    un.last_bucket = b
            if un.bucket < 0:
                return abort(un, Abort.EMPTY_SELECTION, 0, 0)
            un.pc = 2
        if un.pc == 2:
            status = room(un, state, its.marker)
            if status != 0:
                return status
            stop = un.level - (its.rank - 1) if un.bucket == un.last_bucket else 0
            token = emit(un, state, its.marker, 0, stop)
            token.kind = Payload.SELECTOR
            token.value = state.parameters[its.markers + un.bucket]
            token.rows = 1
            token.cols = its.buckets
            token.off = 1
            token.bits = 8
            token.rd = 0
            un.element = _next_of(un, state, 0, un.bucket)
            un.pc = 3
        while un.element < un.filled:
            cell = state.slots[un.block + un.element]
            cycles = ceil_div(tile_bytes(cell), shared.onchip)
            if its.write_back != 0:
                cycles *= 2
            status = room_after(un, state, its.out, cycles)
            if status != 0:
                return status
            work(un, cycles)
            following = _next_of(un, state, un.element + 1, un.bucket)
            if following < un.filled:
                stop = min(np.int64(cell.level), its.rank - 1)
            else:
                stop = un.level + 1 if un.bucket == un.last_bucket else its.rank
            token = emit_copy(un, state, its.out, 0, stop, cell)
            token.rd = its.write_back
            un.element = following
        if un.bucket == un.last_bucket:
            un.filled = 0
            un.pc = 0
        else:
            un.bucket += 1
            while _next_of(un, state, 0, un.bucket) >= un.filled:
                un.bucket += 1
            un.pc = 2
