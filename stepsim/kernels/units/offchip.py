"""Off-chip operators: one tile at a time through a port (STeP paper, sections 3.2.1 and 4.3).

An access is asked for by returning ``WAIT_MEMORY`` with the number of requests in ``need``; the
engine hands it to the memory model and steps the unit again, with both clocks at the completion,
when all responses are back. ``pc`` says what comes next.
"""

from __future__ import annotations

from stepsim.kernels.build.jit import inlined
from stepsim.kernels.declaration import declare
from stepsim.kernels.functions.tiles import ceil_div
from stepsim.kernels.layout import Abort, Payload, Status
from stepsim.kernels.queues import (
    abort,
    await_token,
    emit,
    head,
    room,
    take,
    take_shown,
)
from stepsim.kernels.units.maps import ready_pair
from stepsim.kernels.walks import walk_level


@inlined
def _tile_requests(rows, cols, bits, request_bytes):
    """Requests of one tile; every row is rounded up on its own."""
    return rows * ceil_div(cols * bits, 8 * request_bytes)


@inlined
def _access(un, state, rows, cols, bits):
    # Ask for one tile; False when it needs no request.
    shared = state.globals[0]
    n = _tile_requests(rows, cols, bits, shared.request_bytes)
    un.need = n
    un.requests += n
    un.traffic += ceil_div(rows * cols * bits, 8)
    return n > 0


@inlined
def _send_tile(un, state, c, level, rows, cols, bits):
    token = emit(un, state, c, 0, level)
    token.kind = Payload.TILE
    token.rows = rows
    token.cols = cols
    token.off = rows
    token.bits = bits
    token.rd = 1
    token.value = 0


@inlined
def _await_trigger(un, state, c, trigger_rank):
    # TAKE references up to the next one of stop ``trigger_rank`` or more; 0, or what to return.
    while True:
        status = await_token(un, state, c)
        if status != 0:
            return status
        token = head(un, state, c)
        un.level = token.level - trigger_rank
        take_shown(un, state, c, token)
        if un.level >= 0:
            return 0


LOAD, _load = declare(
    "load",
    inputs=("*reference",),
    outputs=("out",),
    parameters=(
        "rows", "cols", "element_bits", "transposed", "trigger_rank", "top_level", "tiles",
        "dim_count", "*dims",
    ),
    words=("position", "level", "started"),
    port="read",
)  # fmt: skip


@LOAD
def step_load(un, state):
    """Linear load, driven by a reference stream when there is an input.

    ``tiles`` and ``dims`` are those of a view; ``level`` is that of the reference above
    ``trigger_rank``. Resume points: 0 next view, 1 next tile, 2 tile arrived.
    """
    its = _load(un, state)
    while True:
        if un.pc == 0:
            if un.nin > 0:
                c = state.parameters[its.reference]
                status = _await_trigger(un, state, c, its.trigger_rank)
                if status != 0:
                    return status
            elif un.started != 0:
                return Status.DONE
            un.started = 1
            un.position = 0
            un.pc = 1
        if un.pc == 1:
            if un.position >= its.tiles:
                un.pc = 0
                continue
            un.fires += 1
            un.pc = 2
            if _access(un, state, its.rows, its.cols, its.element_bits):
                return Status.WAIT_MEMORY
            un.position = its.tiles
            un.pc = 0
            continue
        status = room(un, state, its.out)
        if status != 0:
            return status
        level = walk_level(state, un.position, its.dims, its.dim_count)
        if level == its.dim_count:
            level = its.top_level + un.level
        rows, cols = its.rows, its.cols
        if its.transposed != 0:
            rows, cols = cols, rows
        _send_tile(un, state, its.out, level, rows, cols, its.element_bits)
        un.position += 1
        un.pc = 1


BYPASS_LOAD, _bypass_load = declare(
    "bypass_load",
    inputs=("*reference",),
    outputs=("out",),
    parameters=(
        "rows", "cols", "element_bits", "trigger_rank", "top_level", "tiles", "dim_count", "*dims",
    ),
    words=("position", "level", "started"),
)  # fmt: skip


@BYPASS_LOAD
def step_bypass_load(un, state):
    """A linear load that asks no memory: its tiles leave at once, as slots become free."""
    its = _bypass_load(un, state)
    while True:
        if un.pc == 0:
            if un.nin > 0:
                c = state.parameters[its.reference]
                status = _await_trigger(un, state, c, its.trigger_rank)
                if status != 0:
                    return status
            elif un.started != 0:
                return Status.DONE
            un.started = 1
            un.position = 0
            un.pc = 1
        while un.position < its.tiles:
            status = room(un, state, its.out)
            if status != 0:
                return status
            level = walk_level(state, un.position, its.dims, its.dim_count)
            if level == its.dim_count:
                level = its.top_level + un.level
            un.fires += 1
            _send_tile(un, state, its.out, level, its.rows, its.cols, its.element_bits)
            un.position += 1
        un.pc = 0


RANDOM_LOAD, _random_load = declare(
    "random_load",
    inputs=("address",),
    outputs=("out",),
    parameters=("rows", "cols", "element_bits"),
    words=("level", "tile_index"),
    port="read",
)


@RANDOM_LOAD
def step_random_load(un, state):
    """``level`` is that of the address, ``tile_index`` what it says."""
    its = _random_load(un, state)
    while True:
        if un.pc == 0:
            status = await_token(un, state, its.address)
            if status != 0:
                return status
            address = head(un, state, its.address)
            un.level = address.level
            un.tile_index = address.value
            un.fires += 1
            take_shown(un, state, its.address, address)
            un.pc = 1
            if _access(un, state, its.rows, its.cols, its.element_bits):
                return Status.WAIT_MEMORY
        status = room(un, state, its.out)
        if status != 0:
            return status
        _send_tile(un, state, its.out, un.level, its.rows, its.cols, its.element_bits)
        un.pc = 0


STORE, _store = declare(
    "store",
    inputs=("data",),
    parameters=("rows", "cols"),
    words=("element_bits",),
    port="write",
)


@STORE
def step_store(un, state):
    """Linear store. ``element_bits`` is that of the run, 0 before the first tile."""
    its = _store(un, state)
    while True:
        if un.pc == 0:
            status = await_token(un, state, its.data)
            if status != 0:
                return status
            x = head(un, state, its.data)
            if x.kind != Payload.TILE:
                return abort(un, Abort.PAYLOAD, x.kind, Payload.TILE)
            if x.rows != its.rows or x.cols != its.cols:
                return abort(un, Abort.TILE_SHAPE, x.rows, x.cols)
            if un.element_bits != 0 and x.bits != un.element_bits:
                return abort(un, Abort.ELEMENT_WIDTH, un.element_bits, x.bits)
            un.element_bits = x.bits
            un.fires += 1
            un.pc = 1
            if _access(un, state, its.rows, its.cols, un.element_bits):
                return Status.WAIT_MEMORY
        take(un, state, its.data)
        un.pc = 0


RANDOM_STORE, _random_store = declare(
    "random_store",
    inputs=("address", "data"),
    outputs=("out",),
    parameters=("rows", "cols", "level_from_address"),
    words=("level", "tile_index"),
    port="write",
)


@RANDOM_STORE
def step_random_store(un, state):
    """The acknowledgment has the level of the address or that of the data; ``tile_index`` is what
    the address says."""
    its = _random_store(un, state)
    while True:
        if un.pc == 0:
            status = ready_pair(un, state, its.address, its.data)
            if status != 0:
                return status
            x1 = head(un, state, its.address)
            x2 = head(un, state, its.data)
            if x2.kind != Payload.TILE:
                return abort(un, Abort.PAYLOAD, x2.kind, Payload.TILE)
            if x2.rows != its.rows or x2.cols != its.cols:
                return abort(un, Abort.TILE_SHAPE, x2.rows, x2.cols)
            un.level = x1.level if its.level_from_address != 0 else x2.level
            un.tile_index = x1.value
            un.fires += 1
            un.pc = 1
            if _access(un, state, its.rows, its.cols, x2.bits):
                return Status.WAIT_MEMORY
        status = room(un, state, its.out)
        if status != 0:
            return status
        token = emit(un, state, its.out, 0, un.level)
        token.kind = Payload.ACK
        token.value = 0
        token.rows = 0
        token.cols = 0
        token.off = 0
        token.bits = 0
        token.rd = 0
        take(un, state, its.address)
        take(un, state, its.data)
        un.pc = 0
