"""BinaryMapAccum, Accum and Scan: inputs are freed before the result is sent.

The slots from ``tiles`` on are the states that were made last, the accumulators and the initial
states, ``states`` of each. The final firing charges the store of the *initial* accumulators, as the
published simulator does; Scan charges the store of each state.
"""

from __future__ import annotations

from stepsim.kernels.arena import copy_payload
from stepsim.kernels.build.jit import inlined
from stepsim.kernels.declaration import declare
from stepsim.kernels.functions.apply import (
    apply,
    bind,
    compute_cycles,
    make_tuple,
    more_flops,
    operand_load,
    recurs,
    repeat,
    spread,
    store_cycles,
)
from stepsim.kernels.functions.tiles import token_load, tuple_load
from stepsim.kernels.layout import Abort, Payload, Status
from stepsim.kernels.queues import (
    abort,
    await_token,
    emit_move,
    head,
    head_slot,
    room,
    take,
    take_later,
    take_shown_later,
    work,
)
from stepsim.kernels.units.maps import bind_pair, ready_pair

REDUCTION = (
    "function",
    "operands",
    "states",
    "tiles",
    "compute_bandwidth",
    "write_back",
    "rank",
    "initial_store",
)
"""Parameters of every reduction: record of the function, its operands and states, first of the
slots above, FLOPs per cycle, whether results go to on-chip memory, dims that are reduced, cycles to
store the initial states."""


@inlined
def fold(un, state, its):
    """New states of the elements that are bound behind the states; False after a failure."""
    for i in range(its.states):
        bind(un, state, i, its.tiles + its.states + i)
    if its.states == 1 and recurs(un, state, its.operands):
        flops = more_flops(un, state)
        if flops < 0:
            return False
        un.flops = flops
        repeat(un, state, its.operands, its.write_back, state.slots[its.tiles])
        return True
    return apply(
        un, state, its.function, its.operands, its.states, its.tiles, its.compute_bandwidth,
        its.write_back,
    )  # fmt: skip


@inlined
def _reduce(un, state, its, level, load, scan):
    # The roofline of one firing, and what becomes of the new states.
    cycles = max(load, compute_cycles(un, state))
    ends = level >= its.rank
    un.is_open = 0 if scan or ends else 1
    if scan or ends:
        if its.write_back != 0:
            cycles = max(cycles, store_cycles(un, state) if scan else its.initial_store)
        state.slots[its.tiles].level = level if scan else level - its.rank
        un.pc = 1
    source = its.tiles + 2 * its.states if ends else its.tiles
    for i in range(its.states):
        copy_payload(state.slots[source + i], state.slots[its.tiles + its.states + i])
    un.fires += 1
    work(un, cycles)


@inlined
def _ended(un, state, status):
    # A unit that ends in the middle of a group has taken tokens since it sent its last one, which
    # only runs in which producers park may have (stepsim.lowering.parking).
    if status == Status.DONE and un.is_open != 0 and state.globals[0].parks == 0:
        return Status.NO_PACES
    return status


@inlined
def _send_result(un, state, its):
    status = room(un, state, its.out)
    if status != 0:
        return status
    result = state.slots[its.tiles]
    y = result
    if its.states > 1:
        y = state.slots[its.tuple]
        if not make_tuple(state, its.tiles, its.states, y):
            return Status.NO_SPACE
    emit_move(un, state, its.out, 0, result.level, y)
    un.pc = 0
    return 0


@inlined
def _accumulate_all(un, state, its, scan):
    # With ``scan`` every state is sent, with the level of its input.
    while True:
        if un.pc == 1:
            status = _send_result(un, state, its)
            if status != 0:
                return status
        status = await_token(un, state, its.data)
        if status != 0:
            return _ended(un, state, status)
        x = head(un, state, its.data)
        level = x.level
        bind(un, state, its.states, head_slot(state, its.data))
        spreads = x.kind == Payload.TUPLE or its.operands != its.states + 1
        if spreads and not spread(un, state, its.states, 1, its.operands):
            return Status.FAILED
        if not fold(un, state, its):
            return Status.FAILED
        load = tuple_load(state, x) if spreads else operand_load(un, state, its.states)
        _reduce(un, state, its, level, load, scan)
        take_shown_later(un, state, its.data, x)


MAP_ACCUM, _map_accum = declare(
    "map_accum",
    inputs=("first", "second"),
    outputs=("out",),
    parameters=REDUCTION,
    words=("is_open",),
    private=("tuple",),
)


@MAP_ACCUM
def step_map_accum(un, state):
    its = _map_accum(un, state)
    while True:
        if un.pc == 1:
            status = _send_result(un, state, its)
            if status != 0:
                return status
        status = ready_pair(un, state, its.first, its.second)
        if status != 0:
            return _ended(un, state, status)
        x1 = head(un, state, its.first)
        x2 = head(un, state, its.second)
        if x1.level != x2.level:
            return abort(un, Abort.LEVELS_DIFFER, x1.level, x2.level)
        level = x1.level
        bind_pair(un, state, its, its.states)
        tuples = x1.kind == Payload.TUPLE or x2.kind == Payload.TUPLE
        spreads = tuples or its.operands != its.states + 2
        if spreads and not spread(un, state, its.states, 2, its.operands):
            return Status.FAILED
        if not fold(un, state, its):
            return Status.FAILED
        if spreads:
            load = token_load(state, x1) + token_load(state, x2)
        else:
            load = operand_load(un, state, its.states) + operand_load(un, state, its.states + 1)
        _reduce(un, state, its, level, load, False)
        take_later(un, state, its.first)
        take(un, state, its.second)


ACCUM, _accum = declare(
    "accum",
    inputs=("data",),
    outputs=("out",),
    parameters=REDUCTION,
    words=("is_open",),
    private=("tuple",),
)


@ACCUM
def step_accum(un, state):
    return _accumulate_all(un, state, _accum(un, state), False)


SCAN, _scan = declare(
    "scan",
    inputs=("data",),
    outputs=("out",),
    parameters=REDUCTION,
    words=("is_open",),
    private=("tuple",),
)


@SCAN
def step_scan(un, state):
    return _accumulate_all(un, state, _scan(un, state), True)
