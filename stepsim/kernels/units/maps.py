"""Maps and Zip: one result per token; inputs are freed once it is accepted.

Inputs are looked at before there is room for the result, for a pair that does not fit is an error
even if there never will be: a deadlock must not hide it. A unit that finds no room looks again when
it is woken, and does not count its work twice.
"""

from __future__ import annotations

import numpy as np

from stepsim.kernels.arena import allocate, copy_payload, retain
from stepsim.kernels.build.jit import cold, inlined, kernel
from stepsim.kernels.declaration import declare
from stepsim.kernels.functions.apply import (
    apply,
    bind,
    compute_cycles,
    last_of_one,
    make_tuple,
    more_flops,
    operand_load,
    recurs,
    repeat,
    spread,
    store_cycles,
)
from stepsim.kernels.functions.tiles import (
    ceil_div,
    fill_tile,
    shape_key,
    tile_bytes,
    token_bytes,
    token_load,
)
from stepsim.kernels.layout import INFINITY, TUPLE_RD, Abort, Payload, Status
from stepsim.kernels.queues import (
    abort,
    await_token,
    block_on_input,
    closure,
    closure_ends,
    emit,
    emit_move,
    has_token,
    head,
    head_slot,
    is_closed,
    room,
    room_after,
    take,
    work,
)


@cold
def _see(un, state, c):
    """HEAD of an input that has a token or has ended, before the unit waits for another one."""
    if has_token(state, c):
        head(un, state, c)
    else:
        closure_ends(un, state, c)


@inlined
def ready_pair(un, state, c1, c2):
    """Status of a firing that needs one token of each of two inputs; 0 when both are there."""
    got1 = has_token(state, c1)
    if not got1 and not is_closed(state, c1):
        return block_on_input(un, state, c1)
    got2 = has_token(state, c2)
    if not got2 and not is_closed(state, c2):
        if got1:
            head(un, state, c1)
        else:
            closure_ends(un, state, c1)
        return block_on_input(un, state, c2)
    if got1 and got2:
        return 0
    if not got1 and not got2:
        closure_ends(un, state, c1)
        closure_ends(un, state, c2)
        return Status.DONE
    if got1:
        head(un, state, c1)
        closure_ends(un, state, c2)
        return abort(un, Abort.ONE_INPUT_CLOSED, c2, c1)
    closure_ends(un, state, c1)
    head(un, state, c2)
    return abort(un, Abort.ONE_INPUT_CLOSED, c1, c2)


@inlined
def bind_pair(un, state, its, i):
    """The heads of both inputs are operands ``i`` and ``i + 1``."""
    bind(un, state, i, head_slot(state, its.first))
    bind(un, state, i + 1, head_slot(state, its.second))


_FUNCTION = ("function", "operands", "results", "tiles", "compute_bandwidth", "write_back")
"""Parameters of every map: record of the function, its operands and results, first slot of the
results, FLOPs per cycle, whether results go to on-chip memory."""


@inlined
def _send_repeated(un, state, its, operands, level, load):
    # All of a firing like the last one but for its takes: 0, or the status to return.
    flops = more_flops(un, state)
    if flops < 0:
        return Status.FAILED
    cycles = max(load, compute_cycles(un, state))
    if its.write_back != 0:
        cycles = max(cycles, store_cycles(un, state))
    status = room_after(un, state, its.out, cycles)
    if status != 0:
        return status
    un.flops = flops
    un.fires += 1
    work(un, cycles)
    repeat(un, state, operands, its.write_back, emit(un, state, its.out, 0, level))
    return 0


@kernel
def _fire(un, state, its, inputs, level, load):
    # All of a firing of any kind but for its takes: 0, or the status to return.
    if not spread(un, state, 0, inputs, its.operands):
        return Status.FAILED
    spent = un.flops
    if not apply(
        un, state, its.function, its.operands, its.results, its.tiles, its.compute_bandwidth,
        its.write_back,
    ):  # fmt: skip
        return Status.FAILED
    cycles = max(load, compute_cycles(un, state))
    if its.write_back != 0:
        cycles = max(cycles, store_cycles(un, state))
    status = room_after(un, state, its.out, cycles)
    if status == 0 and its.results > 1:
        if not make_tuple(state, its.tiles, its.results, state.slots[its.tuple]):
            status = Status.NO_SPACE
    if status != 0:
        un.flops = spent
        return status
    un.fires += 1
    work(un, cycles)
    y = state.slots[its.tuple if its.results > 1 else its.tiles]
    emit_move(un, state, its.out, 0, level, y)
    return 0


UNARY_MAP, _unary_map = declare(
    "unary_map",
    inputs=("data",),
    outputs=("out",),
    parameters=_FUNCTION,
    private=("tuple",),
)


@UNARY_MAP
def step_unary_map(un, state):
    """One operand, or the members of a tuple."""
    its = _unary_map(un, state)
    key, loading, work_cycles, flops, rows, cols, bits, follows = last_of_one(un, state, its)
    while True:
        status = await_token(un, state, its.data)
        if status != 0:
            return status
        x = head(un, state, its.data)
        if shape_key(x) == key:
            total = un.flops + flops
            cycles = work_cycles
            if x.rd != 0 and loading > cycles:
                cycles = loading
            if total >= INFINITY or un.clk + cycles >= INFINITY:
                return abort(un, Abort.TOO_MUCH_WORK, un.fires, 0)
            status = room_after(un, state, its.out, cycles)
            if status != 0:
                return status
            un.flops = total
            un.fires += 1
            work(un, cycles)
            y = emit(un, state, its.out, 0, x.level)
            fill_tile(y, rows, cols, x.off if follows else rows, bits)
            y.rd = its.write_back
        else:
            bind(un, state, 0, head_slot(state, its.data))
            status = _fire(un, state, its, 1, x.level, token_load(state, x))
            if status != 0:
                return status
            key, loading, work_cycles, flops, rows, cols, bits, follows = last_of_one(
                un, state, its
            )
        take(un, state, its.data)


BINARY_MAP, _binary_map = declare(
    "binary_map",
    inputs=("first", "second"),
    outputs=("out",),
    parameters=_FUNCTION,
    private=("tuple",),
)


@BINARY_MAP
def step_binary_map(un, state):
    """Two operands, or tuples of them."""
    its = _binary_map(un, state)
    while True:
        status = ready_pair(un, state, its.first, its.second)
        if status != 0:
            return status
        x1 = head(un, state, its.first)
        x2 = head(un, state, its.second)
        if x1.level != x2.level:
            return abort(un, Abort.LEVELS_DIFFER, x1.level, x2.level)
        bind_pair(un, state, its, 0)
        if its.operands == 2 and recurs(un, state, 2):
            load = operand_load(un, state, 0) + operand_load(un, state, 1)
            status = _send_repeated(un, state, its, 2, x1.level, load)
        else:
            load = token_load(state, x1) + token_load(state, x2)
            status = _fire(un, state, its, 2, x1.level, load)
        if status != 0:
            return status
        take(un, state, its.first)
        take(un, state, its.second)


NARY_MAP, _nary_map = declare(
    "nary_map",
    inputs=("*data",),
    outputs=("out",),
    parameters=_FUNCTION,
    private=("tuple",),
)


@kernel
def ready_all(un, state, first, count):
    """As :func:`ready_pair`, for the inputs in a list of the parameters."""
    tokens = 0
    for i in range(count):
        c = state.parameters[first + i]
        if has_token(state, c):
            tokens += 1
        elif not is_closed(state, c):
            for j in range(i):
                _see(un, state, state.parameters[first + j])
            return block_on_input(un, state, c)
    if tokens == count:
        return 0
    seen = 0
    ended = -1
    going = -1
    for i in range(count):
        c = state.parameters[first + i]
        if has_token(state, c):
            head(un, state, c)
            seen += 1
            going = c if going < 0 else going
        else:
            if seen < tokens:
                closure(un, state, c)
            else:
                closure_ends(un, state, c)
            ended = c if ended < 0 else ended
    if tokens == 0:
        return Status.DONE
    return abort(un, Abort.ONE_INPUT_CLOSED, ended, going)


@NARY_MAP
def step_nary_map(un, state):
    """Operands from three streams or more, each a tile or a tuple."""
    its = _nary_map(un, state)
    count = np.int64(un.nin)
    while True:
        status = ready_all(un, state, its.data, count)
        if status != 0:
            return status
        level = np.int64(-1)
        differs = np.int64(-1)
        load = np.int64(0)
        for i in range(count):
            c = state.parameters[its.data + i]
            x = head(un, state, c)
            if level < 0:
                level = np.int64(x.level)
            elif x.level != level and differs < 0:
                differs = np.int64(x.level)
            bind(un, state, i, head_slot(state, c))
            load += token_load(state, x)
        if differs >= 0:
            return abort(un, Abort.LEVELS_DIFFER, level, differs)
        status = _fire(un, state, its, count, level, load)
        if status != 0:
            return status
        for i in range(count):
            take(un, state, state.parameters[its.data + i])


@inlined
def _load_on_chip(state, x):
    # Cycles to read ``x`` once a routing operator has written it back.
    if x.kind == Payload.TUPLE:
        return state.slots[x.value].hrel
    return ceil_div(tile_bytes(x), state.globals[0].onchip)


ZIP, _zip = declare(
    "zip",
    inputs=("first", "second"),
    outputs=("out",),
    private=("pair",),
)


@ZIP
def step_zip(un, state):
    """Pairs of tokens of equal level; costs nothing."""
    its = _zip(un, state)
    y = state.slots[its.pair]
    while True:
        status = ready_pair(un, state, its.first, its.second)
        if status != 0:
            return status
        x1 = head(un, state, its.first)
        x2 = head(un, state, its.second)
        if x1.level != x2.level:
            return abort(un, Abort.LEVELS_DIFFER, x1.level, x2.level)
        status = room(un, state, its.out)
        if status != 0:
            return status
        first = allocate(state, 2)
        if first < 0:
            return Status.NO_SPACE
        header = state.slots[first]
        header.rows = 2
        header.off = 1
        header.level = 2
        header.pub = token_bytes(state, x1) + token_bytes(state, x2)
        header.rel = token_load(state, x1) + token_load(state, x2)
        header.hrel = _load_on_chip(state, x1) + _load_on_chip(state, x2)
        copy_payload(x1, state.slots[first + 1])
        copy_payload(x2, state.slots[first + 2])
        retain(state, x1)
        retain(state, x2)
        y.kind = Payload.TUPLE
        y.value = first
        y.rows = 0
        y.cols = 0
        y.off = 0
        y.bits = 0
        y.rd = TUPLE_RD
        un.fires += 1
        emit_move(un, state, its.out, 0, x1.level, y)
        take(un, state, its.first)
        take(un, state, its.second)
