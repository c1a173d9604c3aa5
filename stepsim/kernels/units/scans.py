"""Further forms of Scan, and reductions that show more or less than their states.

A second function of a unit has a memory of its own, ``second_scratch`` words behind that of the
first; the unit points at one of the two while it evaluates a function.
"""

from __future__ import annotations

import numpy as np

from stepsim.kernels.arena import allocate, copy_payload, free_block
from stepsim.kernels.build.jit import inlined, kernel
from stepsim.kernels.declaration import declare
from stepsim.kernels.functions.apply import apply, bind, compute_cycles, make_tuple, spread
from stepsim.kernels.functions.tiles import area, ceil_div, tile_bytes, token_load
from stepsim.kernels.layout import Abort, Payload, Status
from stepsim.kernels.queues import (
    abort,
    await_token,
    block_on_input,
    closure_ends,
    emit,
    emit_move,
    has_token,
    head,
    head_slot,
    is_closed,
    room,
    take,
    take_later,
    work,
)
from stepsim.kernels.units.maps import ready_all
from stepsim.kernels.units.reductions import REDUCTION, fold

_SECOND = (
    "second", "second_operands", "second_results", "second_tiles", "second_scratch",
)  # fmt: skip
"""Parameters of a second function: its record, numbers of operands (0 without one) and
results, first slot of the results, place of its memory behind that of the first function."""


@kernel
def _apply_second(un, state, its, bound):
    # Cycles of the second function, of which ``bound`` operands are bound in the memory that the
    # unit points at; -1 after a failure.
    if not spread(un, state, 0, bound, its.second_operands):
        return -1
    applied = apply(
        un, state, its.second, its.second_operands, its.second_results, its.second_tiles,
        its.compute_bandwidth, its.write_back,
    )  # fmt: skip
    return compute_cycles(un, state) if applied else -1


@kernel
def _stores(state, first, count):
    # Cycles to store some tiles, one after the other.
    cycles = np.int64(0)
    for i in range(count):
        cycles += ceil_div(tile_bytes(state.slots[first + i]), state.globals[0].onchip)
    return cycles


@kernel
def _send(un, state, out, first, count, tuple_slot, level):
    # Send a tile, or some as a tuple: 0, or the status to return.
    status = room(un, state, out)
    if status != 0:
        return status
    y = first
    if count > 1:
        y = tuple_slot
        if not make_tuple(state, first, count, state.slots[y]):
            return Status.NO_SPACE
    emit_move(un, state, out, 0, level, state.slots[y])
    return 0


@inlined
def _element(un, state, its, channel, x):
    # Bind the head of a channel as the element of the function; False after a failure.
    bind(un, state, its.states, head_slot(state, channel))
    if x.kind == Payload.TUPLE or its.operands != its.states + 1:
        return spread(un, state, its.states, 1, its.operands)
    return True


SCAN_FORMS, _scan_forms = declare(
    "scan_forms",
    inputs=("*data",),
    outputs=("*outs",),
    parameters=(*REDUCTION, *_SECOND, "exclusive", "counted"),
    words=("level", "opened", "seen", "wanted"),
    private=("tuple",),
)


@inlined
def _open_group(un, state, its, counter):
    # TAKE the length of the group that begins: 0, or the status to return.
    if not has_token(state, counter):
        if not is_closed(state, counter):
            return block_on_input(un, state, counter)
        closure_ends(un, state, counter)
        return abort(un, Abort.ONE_INPUT_CLOSED, counter, state.parameters[its.data])
    n = head(un, state, counter)
    if n.kind != Payload.TILE:
        return abort(un, Abort.PAYLOAD, n.kind, Payload.TILE)
    un.wanted = n.value
    un.opened = 1
    un.seen = 0
    take(un, state, counter)
    return 0


@SCAN_FORMS
def step_scan_forms(un, state):
    """Exclusive scans, scans of two streams, of two outputs, and of counted groups.

    Resume points: 1 send the first output, 2 the second. States change when all is sent, for an
    output may be the one before the element.
    """
    its = _scan_forms(un, state)
    count = np.int64(un.nin) - its.counted
    first = state.parameters[its.data]
    prior = its.tiles + its.states
    while True:
        if un.pc > 0:
            shown = prior if its.exclusive != 0 else its.tiles
            members = its.states
            if its.second_operands > 0:
                shown = its.second_tiles
                members = its.second_results
            if un.pc == 1:
                out = state.parameters[its.outs]
                status = _send(un, state, out, shown, members, its.tuple, un.level)
                if status != 0:
                    return status
                un.pc = 2
            if un.nout > 1:
                out = state.parameters[its.outs + 1]
                status = _send(un, state, out, prior, its.states, its.tuple, un.level)
                if status != 0:
                    return status
            source = its.tiles + 2 * its.states if un.level >= its.rank else its.tiles
            for i in range(its.states):
                copy_payload(state.slots[source + i], state.slots[prior + i])
            un.pc = 0
        status = ready_all(un, state, its.data, count)
        if status != 0:
            return status
        x = head(un, state, first)
        level = np.int64(x.level)
        load = token_load(state, x)
        if count > 1:
            y = head(un, state, state.parameters[its.data + 1])
            if y.level != level:
                return abort(un, Abort.LEVELS_DIFFER, level, y.level)
            load += token_load(state, y)
        if its.counted != 0:
            if un.opened == 0:
                status = _open_group(un, state, its, state.parameters[its.data + count])
                if status != 0:
                    return status
            un.seen += 1
            if level >= its.rank:
                if un.seen != un.wanted:
                    return abort(un, Abort.GROUP_LENGTH, un.seen, un.wanted)
                un.opened = 0
        if not _element(un, state, its, first, x):
            return Status.FAILED
        if not fold(un, state, its):
            return Status.FAILED
        cycles = compute_cycles(un, state)
        shown = prior if its.exclusive != 0 else its.tiles
        members = its.states
        if its.second_operands > 0:
            un.scratch += its.second_scratch
            bind(un, state, 0, head_slot(state, state.parameters[its.data + 1]))
            for i in range(its.states):
                bind(un, state, 1 + i, shown + i)
            more = _apply_second(un, state, its, 1 + its.states)
            un.scratch -= its.second_scratch
            if more < 0:
                return Status.FAILED
            cycles += more
            shown = its.second_tiles
            members = its.second_results
        cycles = max(cycles, load)
        if its.write_back != 0:
            cycles = max(cycles, _stores(state, shown, members))
        un.level = level
        un.fires += 1
        work(un, cycles)
        for i in range(count):
            take_later(un, state, state.parameters[its.data + i])
        un.pc = 1


ROW_STAT, _row_stat = declare(
    "row_stat",
    inputs=("data",),
    outputs=("out",),
    parameters=(*REDUCTION, *_SECOND),
    words=("level",),
    private=("tuple",),
)


@ROW_STAT
def step_row_stat(un, state):
    """AccumRowStat: the last firing of a group applies the second function to the states."""
    its = _row_stat(un, state)
    held = its.tiles + its.states
    while True:
        if un.pc == 1:
            status = _send(
                un, state, its.out, its.second_tiles, its.second_results, its.tuple, un.level
            )
            if status != 0:
                return status
            un.pc = 0
        status = await_token(un, state, its.data)
        if status != 0:
            return status
        x = head(un, state, its.data)
        level = np.int64(x.level)
        load = token_load(state, x)
        if not _element(un, state, its, its.data, x):
            return Status.FAILED
        if not fold(un, state, its):
            return Status.FAILED
        cycles = compute_cycles(un, state)
        source = its.tiles
        if level >= its.rank:
            un.scratch += its.second_scratch
            for i in range(its.states):
                bind(un, state, i, its.tiles + i)
            more = _apply_second(un, state, its, its.states)
            un.scratch -= its.second_scratch
            if more < 0:
                return Status.FAILED
            cycles += more
            if its.write_back != 0:
                cycles = max(cycles, _stores(state, its.second_tiles, its.second_results))
            un.level = level - its.rank
            un.pc = 1
            source = its.tiles + 2 * its.states
        for i in range(its.states):
            copy_payload(state.slots[source + i], state.slots[held + i])
        un.fires += 1
        work(un, max(load, cycles))
        take_later(un, state, its.data)


ACCUM_BUFFER, _accum_buffer = declare(
    "accum_buffer",
    inputs=("data",),
    outputs=("out",),
    parameters=(*REDUCTION, "places", "dim_count", "*dims"),
    words={"block": -1, "order": 0, "place": 0, "level": 0},
)


@kernel
def _open_buffer(un, state, its):
    # A block of initial states, each with its level in the buffer; False when the arena is full.
    order = 0
    while (1 << order) < its.places + 1:
        order += 1
    block = allocate(state, order)
    if block < 0:
        return False
    initial = state.slots[its.tiles + 2 * its.states]
    for i in range(its.places):
        cell = state.slots[block + 1 + i]
        copy_payload(initial, cell)
        rest = i + 1
        cell.level = 0
        for k in range(its.dim_count):
            dim = state.parameters[its.dims + its.dim_count - 1 - k]
            if rest % dim != 0:
                break
            rest //= dim
            cell.level = k + 1
    un.block = block
    un.order = order
    un.place = 0
    return True


@ACCUM_BUFFER
def step_accum_buffer(un, state):
    """Elements go round the places of a buffer; ``place`` is the next one.

    Every firing loads and stores its place, whatever the unit writes back.
    """
    its = _accum_buffer(un, state)
    onchip = state.globals[0].onchip
    held = its.tiles + its.states
    while True:
        if un.pc == 1:
            status = room(un, state, its.out)
            if status != 0:
                return status
            header = state.slots[un.block]
            header.rows = its.places
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
            un.pc = 0
        status = await_token(un, state, its.data)
        if status != 0:
            if status == Status.DONE and un.block >= 0:
                free_block(state, un.block, un.order)
                un.block = -1
            return status
        if un.block < 0 and not _open_buffer(un, state, its):
            return Status.NO_SPACE
        x = head(un, state, its.data)
        level = np.int64(x.level)
        load = token_load(state, x)
        cell = state.slots[un.block + 1 + un.place]
        copy_payload(cell, state.slots[held])
        if not _element(un, state, its, its.data, x):
            return Status.FAILED
        if not fold(un, state, its):
            return Status.FAILED
        made = state.slots[its.tiles]
        store = ceil_div(tile_bytes(made), onchip)
        # A place without rows or columns has the size of the tile that arrives.
        old = store
        if area(cell.rows, cell.cols) > 0:
            old = ceil_div(tile_bytes(cell), onchip)
        copy_payload(made, cell)
        un.fires += 1
        work(un, max(max(old + load, compute_cycles(un, state)), store))
        take_later(un, state, its.data)
        un.place += 1
        if un.place == its.places:
            un.place = 0
        if level >= its.rank:
            un.level = level - its.rank
            un.pc = 1
