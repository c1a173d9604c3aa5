"""Apply the function of a unit to the tiles of one firing."""

from __future__ import annotations

import numpy as np

from stepsim.kernels.arena import allocate, copy_payload
from stepsim.kernels.build.jit import apart, inlined, kernel
from stepsim.kernels.functions.records import (
    BY_RULE,
    KEPT_COMPUTE,
    KEPT_FLOPS,
    KEPT_OPERANDS,
    KEPT_SIMPLE,
    KEPT_STORE,
    OPERAND_WORDS,
    RECORD_RESULTS,
    RESULT_WORDS,
    RULE_WORDS,
    Valid,
    Value,
)
from stepsim.kernels.functions.shapes import measure
from stepsim.kernels.functions.tiles import (
    ceil_div,
    fill_tile,
    load_cycles,
    shape_key,
    tile_bytes,
)
from stepsim.kernels.layout import INFINITY, MAX_ADDRESS, TUPLE_RD, Abort, Payload
from stepsim.kernels.queues import abort


@inlined
def bind(un, state, i, slot):
    """The tile in ``slot`` is operand ``i`` of this firing."""
    state.scratch[un.scratch + KEPT_OPERANDS + OPERAND_WORDS * i] = slot


@kernel
def spread(un, state, first, count, operands):
    """Put the members of tuples in their place among the operands from ``first`` on.

    ``count`` of them are bound; with the members of all tuples there must be ``operands``. False
    when there are not.
    """
    scratch = state.scratch
    base = un.scratch + KEPT_OPERANDS
    i = first
    end = first + count
    while i < end:
        x = state.slots[scratch[base + OPERAND_WORDS * i]]
        if x.kind != Payload.TUPLE:
            i += 1
            continue
        block = x.value
        members = np.int64(state.slots[block].rows)
        if end + members - 1 > operands:
            abort(un, Abort.PAYLOAD, Payload.TUPLE, Payload.TILE)
            return False
        for j in range(end - 1, i, -1):
            moved = scratch[base + OPERAND_WORDS * j]
            scratch[base + OPERAND_WORDS * (j + members - 1)] = moved
        for j in range(members):
            scratch[base + OPERAND_WORDS * (i + j)] = block + 1 + j
        end += members - 1
    if end < operands:
        last = state.slots[scratch[base + OPERAND_WORDS * (end - 1)]]
        abort(un, Abort.PAYLOAD, last.kind, Payload.TUPLE)
        return False
    return True


@inlined
def operand_load(un, state, i):
    """Cycles to load operand ``i`` from on-chip memory, if it lies there. After :func:`apply`."""
    place = un.scratch + KEPT_OPERANDS + OPERAND_WORDS * i
    x = state.slots[state.scratch[place]]
    return state.scratch[place + 2] if x.rd != 0 else np.int64(0)


@inlined
def compute_cycles(un, state):
    """Cycles of the firing that :func:`apply` evaluated."""
    return state.scratch[un.scratch + KEPT_COMPUTE]


@inlined
def store_cycles(un, state):
    """Cycles to store its results in on-chip memory."""
    return state.scratch[un.scratch + KEPT_STORE]


@inlined
def _operand(un, state, i):
    return state.slots[state.scratch[un.scratch + KEPT_OPERANDS + OPERAND_WORDS * i]]


@kernel
def _valid_rows(un, state, function, rule, rows):
    # Valid rows of a result of ``rows`` rows, by a rule that looks at valid rows or numbers; -1
    # when the unit has failed.
    parameters = state.parameters
    kind = parameters[rule]
    at = function + parameters[rule + 1]
    count = parameters[rule + 2]
    if kind == Valid.MAX:
        most = np.int64(0)
        for i in range(count):
            x = _operand(un, state, parameters[at + i])
            if x.rows == rows:
                most = max(most, np.int64(x.off))
        return most
    x = _operand(un, state, parameters[at])
    if kind == Valid.VALUE:
        if x.value < 0 or x.value > rows:
            abort(un, Abort.OFFSET_RANGE, x.value, rows)
            return -1
        return x.value
    if kind == Valid.SLICE:
        return min(max(np.int64(x.off) - parameters[at + 1], 0), rows)
    total = np.int64(x.off)
    if kind == Valid.SUM:
        for i in range(1, count):
            total += _operand(un, state, parameters[at + i]).off
    else:
        y = _operand(un, state, parameters[at + 1])
        if kind == Valid.PACKED:
            if y.off > 0 and y.off < y.rows:
                abort(un, Abort.PARTLY_VALID, y.off, y.rows)
                return -1
            total += y.off
        else:
            total += y.rows
    if total > rows:
        abort(un, Abort.NO_ROOM, x.off, rows)
        return -1
    return total


@kernel
def _arithmetic(kind, a, b, c):
    # A number made of others; -1 when it is below 0 or above the largest one.
    if kind == Value.PLUS or kind == Value.ADD:
        return a + b if a <= MAX_ADDRESS - b else np.int64(-1)
    if kind == Value.MINUS or kind == Value.SUB:
        return a - b if a >= b else np.int64(-1)
    if kind == Value.TIMES or kind == Value.MUL:
        return a * b if a == 0 or b <= MAX_ADDRESS // a else np.int64(-1)
    if kind == Value.DIVIDED:
        return a // b
    if kind == Value.MAX:
        return max(a, b)
    if kind == Value.MIN:
        return min(a, b)
    if kind == Value.EQ:
        return np.int64(a == b)
    if kind == Value.NE:
        return np.int64(a != b)
    if kind == Value.LT:
        return np.int64(a < b)
    if kind == Value.LE:
        return np.int64(a <= b)
    return b if a != 0 else c


@kernel
def _number(un, state, rule, y):
    # Set the number in a 1x1 result; False when the unit has failed.
    parameters = state.parameters
    kind = parameters[rule + 3]
    a = parameters[rule + 4]
    if kind == Value.CONSTANT:
        y.value = a
        return True
    x = _operand(un, state, a)
    if kind == Value.KEEP:
        y.value = x.value
        return True
    b = parameters[rule + 5]
    if kind == Value.EQUAL:
        y.value = np.int64(x.value == b)
        return True
    if kind != Value.ADDRESS:
        other = b if kind <= Value.DIVIDED else np.int64(_operand(un, state, b).value)
        chosen = np.int64(0)
        if kind == Value.SELECT:
            chosen = np.int64(_operand(un, state, parameters[rule + 6]).value)
        made = _arithmetic(kind, np.int64(x.value), other, chosen)
        if made < 0:
            abort(un, Abort.NUMBER_RANGE, x.value, other)
            return False
        y.value = made
        return True
    length = _operand(un, state, b).value
    stride = parameters[rule + 6]
    if length < 1:
        abort(un, Abort.NO_LAST_TILE, length, 0)
        return False
    if x.value > (MAX_ADDRESS - length) // stride:
        abort(un, Abort.ADDRESS_RANGE, x.value, stride)
        return False
    y.value = x.value * stride + length - 1
    return True


@inlined
def recurs(un, state, operands):
    """Whether the operands have the shapes of the last firing and nothing else matters.

    The firing then needs no :func:`apply`: :func:`repeat` makes its result.
    """
    scratch = state.scratch
    same = scratch[un.scratch + KEPT_SIMPLE] != 0
    for i in range(operands):
        place = un.scratch + KEPT_OPERANDS + OPERAND_WORDS * i
        same = same and scratch[place + 1] == shape_key(state.slots[scratch[place]])
    return same


@inlined
def more_flops(un, state):
    """FLOPs of the unit with those of this firing; -1 when they are too many to count."""
    flops = un.flops + state.scratch[un.scratch + KEPT_FLOPS]
    if flops >= INFINITY or un.clk + state.scratch[un.scratch + KEPT_COMPUTE] >= INFINITY:
        abort(un, Abort.TOO_MUCH_WORK, un.fires, 0)
        return -1
    return flops


@inlined
def repeat(un, state, operands, write_back, y):
    """Fill ``y`` with the result of a firing that :func:`recurs`."""
    scratch = state.scratch
    kept = un.scratch + KEPT_OPERANDS + OPERAND_WORDS * operands
    rows = scratch[kept]
    valid = rows
    first = scratch[kept + 3]
    if first >= 0:
        valid = np.int64(_operand(un, state, first).off)
        second = scratch[kept + 4]
        if second >= 0:
            valid = max(valid, np.int64(_operand(un, state, second).off))
    fill_tile(y, rows, scratch[kept + 1], valid, scratch[kept + 2])
    y.rd = write_back


@inlined
def last_of_one(un, state, its):
    """The last firing of a function of one operand, to be kept in registers.

    Key of the operand (0 when a like operand does not make it recur), cycles to load it, those to
    compute and store, FLOPs, and the result: rows, columns, bits, whether its valid rows are those
    of the operand.
    """
    scratch = state.scratch
    base = un.scratch
    at = base + KEPT_OPERANDS
    result = at + OPERAND_WORDS
    recurring = scratch[base + KEPT_SIMPLE] != 0 and its.operands == 1
    cycles = scratch[base + KEPT_COMPUTE]
    if its.write_back != 0:
        cycles = max(cycles, scratch[base + KEPT_STORE])
    return (
        scratch[at + 1] if recurring else np.int64(0),
        scratch[at + 2],
        cycles,
        scratch[base + KEPT_FLOPS],
        scratch[result],
        scratch[result + 1],
        scratch[result + 2],
        scratch[result + 3] >= 0,
    )


@apart
def apply(un, state, function, operands, results, tiles, compute_bandwidth, write_back):
    """Fill ``results`` slots from ``tiles`` on and count the FLOPs; False when the unit has failed.

    Shapes and cost are evaluated only when they differ from those of the last firing.
    """
    scratch = state.scratch
    base = un.scratch + KEPT_OPERANDS
    same = True
    for i in range(operands):
        place = base + OPERAND_WORDS * i
        if scratch[place + 1] != shape_key(state.slots[scratch[place]]):
            same = False
    if not same and not measure(un, state, function, compute_bandwidth):
        return False
    kept = base + OPERAND_WORDS * operands
    rule = function + RECORD_RESULTS
    for j in range(results):
        y = state.slots[tiles + j]
        rows = scratch[kept]
        valid = rows
        first = scratch[kept + 3]
        second = scratch[kept + 4]
        if first >= 0:
            valid = np.int64(_operand(un, state, first).off)
            if second >= 0:
                valid = max(valid, np.int64(_operand(un, state, second).off))
        elif first == BY_RULE:
            valid = _valid_rows(un, state, function, rule, rows)
            if valid < 0:
                return False
        fill_tile(y, rows, scratch[kept + 1], valid, scratch[kept + 2])
        if state.parameters[rule + 3] != Value.NONE and not _number(un, state, rule, y):
            return False
        place_of = state.parameters[rule + 7]
        y.rd = write_back if place_of < 0 else _operand(un, state, place_of).rd
        kept += RESULT_WORDS
        rule += RULE_WORDS
    flops = more_flops(un, state)
    if flops < 0:
        return False
    un.flops = flops
    return True


@kernel
def make_tuple(state, first, count, y):
    """Make ``y`` a tuple of copies of ``count`` tiles; False when the arena is full."""
    order = 0
    while (1 << order) < count + 1:
        order += 1
    block = allocate(state, order)
    if block < 0:
        return False
    onchip = state.globals[0].onchip
    header = state.slots[block]
    header.rows = count
    header.off = 1
    header.level = order
    header.pub = 0
    header.rel = 0
    header.hrel = 0
    for i in range(count):
        x = state.slots[first + i]
        header.pub += tile_bytes(x)
        header.rel += load_cycles(x, onchip)
        header.hrel += ceil_div(tile_bytes(x), onchip)
        copy_payload(x, state.slots[block + 1 + i])
    y.kind = Payload.TUPLE
    y.value = block
    y.rows = 0
    y.cols = 0
    y.off = 0
    y.bits = 0
    y.rd = TUPLE_RD
    return True
