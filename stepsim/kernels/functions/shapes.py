"""What follows from the shapes of operands: checks, shapes of results, FLOPs and cycles."""

from __future__ import annotations

import numpy as np

from stepsim.kernels.build.jit import inlined, kernel
from stepsim.kernels.functions.records import (
    BY_RULE,
    KEPT_COMPUTE,
    KEPT_FLOPS,
    KEPT_OPERANDS,
    KEPT_SIMPLE,
    KEPT_STORE,
    NO_OPERAND,
    OPERAND_WORDS,
    RECORD_RESULTS,
    RESULT_WORDS,
    RULE_WORDS,
    Adopt,
    Side,
    Valid,
    Value,
)
from stepsim.kernels.functions.tiles import area, ceil_div, pack, shape_key, tile_bytes
from stepsim.kernels.layout import INFINITY, MAX_TILE_SIDE, Abort, Payload
from stepsim.kernels.queues import abort

_LIMIT = float(INFINITY)


@kernel
def polynomial(parameters, scratch, at, sides):
    # Value of the polynomial at ``at``, INFINITY when a product or sum does not fit, and the place
    # behind it. Products are followed in floating point too, so that none wraps around unseen.
    total = 0
    fits = True
    terms = parameters[at]
    at += 1
    for _ in range(terms):
        value = parameters[at]
        count = parameters[at + 1]
        at += 2
        magnitude = float(value)
        for i in range(count):
            side = scratch[sides + parameters[at + i]]
            magnitude *= side
            if abs(magnitude) >= _LIMIT:
                fits = False
            if fits:
                value *= side
        at += count
        if fits and abs(float(total) + magnitude) < _LIMIT:
            total += value
        else:
            fits = False
    return (total if fits else INFINITY), at


@inlined
def _operand(state, un, i):
    # The tile of operand ``i``.
    return state.slots[state.scratch[un.scratch + KEPT_OPERANDS + OPERAND_WORDS * i]]


@inlined
def _shape_of(scratch, sides, i):
    return pack(scratch[sides + 2 * i], scratch[sides + 2 * i + 1])


@inlined
def _fits(un, length):
    # Whether a number can be the side of a tile.
    if length < 0:
        abort(un, Abort.NEGATIVE, length, 0)
        return False
    if length > MAX_TILE_SIDE:
        abort(un, Abort.TILE_TOO_LARGE, length, MAX_TILE_SIDE)
        return False
    return True


@kernel
def _adopt(un, state, at, sides):
    # States without rows or columns count as having the shape that the elements give them.
    scratch = state.scratch
    count = state.parameters[at]
    at += 1
    for _ in range(count):
        place = sides + 2 * state.parameters[at]
        condition = state.parameters[at + 1]
        rows, at = polynomial(state.parameters, scratch, at + 2, sides)
        cols, at = polynomial(state.parameters, scratch, at, sides)
        no_rows = scratch[place] == 0
        no_cols = scratch[place + 1] == 0
        adopts = no_rows or no_cols
        if condition == Adopt.BOTH:
            adopts = no_rows and no_cols
        elif condition == Adopt.ROWS:
            adopts = no_rows
        elif condition == Adopt.COLS:
            adopts = no_cols
        if adopts:
            if not (_fits(un, rows) and _fits(un, cols)):
                return -1
            scratch[place] = rows
            scratch[place + 1] = cols
    return at


@kernel
def _check(un, state, at, sides):
    # The place behind a list of checks, or -1 when one fails.
    scratch = state.scratch
    count = state.parameters[at]
    at += 1
    for _ in range(count):
        side = state.parameters[at]
        expected, at = polynomial(state.parameters, scratch, at + 1, sides)
        found = scratch[sides + side]
        if found != expected:
            abort(un, Abort.INNER_DIMS, pack(side, found), expected)
            return -1
    return at


@kernel
def _side(un, state, at, sides, place):
    # Set a side of a result by the rule at ``at``: the place behind the rule, or -1.
    scratch = state.scratch
    kind = state.parameters[at]
    at += 1
    if kind == Side.POLYNOMIAL:
        length, at = polynomial(state.parameters, scratch, at, sides)
    else:
        count = state.parameters[at]
        at += 1
        widest = state.parameters[at]
        length = scratch[sides + widest]
        for i in range(1, count):
            side = state.parameters[at + i]
            other = scratch[sides + side]
            if length != other and other != 1:
                if length != 1:
                    first = _shape_of(scratch, sides, widest // 2)
                    abort(un, Abort.NOT_BROADCASTABLE, first, _shape_of(scratch, sides, side // 2))
                    return -1
                widest = side
                length = other
        at += count
    if not _fits(un, length):
        return -1
    scratch[place] = length
    return at


@inlined
def _counted(state, operands, function, rule, result):
    # Which operands' valid rows those of the result follow. Only tiles as high as it count.
    scratch = state.scratch
    first = NO_OPERAND
    second = NO_OPERAND
    kind = state.parameters[rule]
    if kind == Valid.FIRST or kind == Valid.MAX:
        at = function + state.parameters[rule + 1]
        for i in range(state.parameters[rule + 2]):
            place = state.parameters[at + i]
            if state.slots[scratch[operands + OPERAND_WORDS * place]].rows == scratch[result]:
                if first == NO_OPERAND:
                    first = place
                elif kind == Valid.MAX:
                    if second != NO_OPERAND:
                        first = BY_RULE
                    second = place
    elif kind != Valid.ROWS:
        first = BY_RULE
    scratch[result + 3] = first
    scratch[result + 4] = second


@kernel
def measure(un, state, function, compute_bandwidth):
    """Evaluate a function for the shapes of its operands; False when the unit has failed.

    What depends on shapes alone goes to the private words of the unit; what depends on valid rows
    and numbers is left to each firing.
    """
    parameters = state.parameters
    scratch = state.scratch
    onchip = state.globals[0].onchip
    operands = parameters[function]
    results = parameters[function + 2]
    operand_at = un.scratch + KEPT_OPERANDS
    result_at = operand_at + OPERAND_WORDS * operands
    sides = result_at + RESULT_WORDS * results
    for i in range(operands):
        x = _operand(state, un, i)
        if x.kind != Payload.TILE:
            abort(un, Abort.PAYLOAD, x.kind, Payload.TILE)
            return False
        scratch[operand_at + OPERAND_WORDS * i + 2] = ceil_div(tile_bytes(x), onchip)
        scratch[sides + 2 * i] = x.rows
        scratch[sides + 2 * i + 1] = x.cols
    at = _adopt(un, state, function + RECORD_RESULTS + RULE_WORDS * results, sides)
    if at < 0:
        return False
    at = _check(un, state, at, sides)
    if at < 0:
        return False
    pairs = parameters[at]
    at += 1
    for _ in range(pairs):
        first = _operand(state, un, parameters[at]).bits
        second = _operand(state, un, parameters[at + 1]).bits
        if first != second:
            abort(un, Abort.ELEMENT_WIDTH, first, second)
            return False
        at += 2
    store = 0
    for j in range(results):
        place = sides + 2 * (operands + j)
        kept = result_at + RESULT_WORDS * j
        at = _side(un, state, at, sides, place)
        if at < 0:
            return False
        at = _side(un, state, at, sides, place + 1)
        if at < 0:
            return False
        bits = -parameters[at]
        if bits <= 0:
            bits = np.int64(_operand(state, un, -bits).bits)
        at += 1
        scratch[kept] = scratch[place]
        scratch[kept + 1] = scratch[place + 1]
        scratch[kept + 2] = bits
        store += ceil_div(ceil_div(area(scratch[place], scratch[place + 1]) * bits, 8), onchip)
        rule = function + RECORD_RESULTS + RULE_WORDS * j
        _counted(state, operand_at, function, rule, kept)
    at = _check(un, state, at, sides)
    if at < 0:
        return False
    flops, at = polynomial(parameters, scratch, at, sides)
    cycles, at = polynomial(parameters, scratch, at, sides)
    if flops < 0 or cycles < 0:
        abort(un, Abort.NEGATIVE, min(flops, cycles), 1)
        return False
    if flops >= INFINITY or cycles >= INFINITY:
        abort(un, Abort.TOO_MUCH_WORK, un.fires, 0)
        return False
    if compute_bandwidth > 0:
        cycles += ceil_div(flops, compute_bandwidth)
    if cycles >= INFINITY:
        abort(un, Abort.TOO_MUCH_WORK, un.fires, 0)
        return False
    scratch[un.scratch + KEPT_FLOPS] = flops
    scratch[un.scratch + KEPT_COMPUTE] = cycles
    scratch[un.scratch + KEPT_STORE] = store
    rule = function + RECORD_RESULTS
    simple = results == 1 and scratch[result_at + 3] != BY_RULE
    simple = simple and parameters[rule + 3] == Value.NONE and parameters[rule + 7] < 0
    scratch[un.scratch + KEPT_SIMPLE] = simple
    for i in range(operands):
        scratch[operand_at + OPERAND_WORDS * i + 1] = shape_key(_operand(state, un, i))
    return True
