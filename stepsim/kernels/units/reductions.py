"""BinaryMapAccum, Accum and Scan: inputs are freed before the result is sent.

The private slots are the accumulator, the result that waits to be sent and the initial accumulator.
The final firing charges the store of the *initial* accumulator, as the published simulator does;
Scan charges the store of each state.
"""

from __future__ import annotations

from stepsim.kernels.arena import copy_payload
from stepsim.kernels.declaration import declare
from stepsim.kernels.functions.dispatch import accumulate, map_accumulate
from stepsim.kernels.functions.tiles import ceil_div, load_cycles, tile_bytes
from stepsim.kernels.jit import inlined
from stepsim.kernels.layout import Abort, Status
from stepsim.kernels.queues import (
    abort,
    await_token,
    head,
    send_move,
    take,
    work,
)
from stepsim.kernels.units.maps import ready_pair

__all__ = ["ACCUM", "MAP_ACCUM", "SCAN"]


@inlined
def _reduce(un, state, its, level, load, compute, scan):
    # The roofline of one firing, and what becomes of the new state in ``result``.
    shared = state.globals[0]
    result = state.slots[its.result]
    initial = state.slots[its.initial]
    cycles = max(load, compute)
    ends = level >= its.rank
    if scan or ends:
        if its.write_back != 0:
            stored = result if scan else initial
            cycles = max(cycles, ceil_div(tile_bytes(stored), shared.onchip))
        result.level = level if scan else level - its.rank
        un.pc = 1
    copy_payload(initial if ends else result, state.slots[its.accumulator])
    un.fires += 1
    work(un, cycles)


@inlined
def _send_result(un, state, its):
    result = state.slots[its.result]
    status = send_move(un, state, its.out, 0, result.level, result)
    if status == 0:
        un.pc = 0
    return status


@inlined
def _accumulate_all(un, state, its, scan):
    # With ``scan`` every state is sent, with the level of its input.
    shared = state.globals[0]
    while True:
        if un.pc == 1:
            status = _send_result(un, state, its)
            if status != 0:
                return status
        status = await_token(un, state, its.data)
        if status != 0:
            return status
        x = head(un, state, its.data)
        level = x.level
        compute = accumulate(un, its, x, state.slots[its.accumulator], state.slots[its.result])
        if compute < 0:
            return Status.FAILED
        _reduce(un, state, its, level, load_cycles(x, shared.onchip), compute, scan)
        take(un, state, its.data)


MAP_ACCUM, _map_accum = declare(
    "map_accum",
    inputs=("first", "second"),
    outputs=("out",),
    parameters=("function", "compute_bandwidth", "write_back", "transposed", "rank", "result_bits"),
    private=("accumulator", "result", "initial"),
)


@MAP_ACCUM
def step_map_accum(un, state):
    its = _map_accum(un, state)
    shared = state.globals[0]
    while True:
        if un.pc == 1:
            status = _send_result(un, state, its)
            if status != 0:
                return status
        status = ready_pair(un, state, its.first, its.second)
        if status != 0:
            return status
        x1 = head(un, state, its.first)
        x2 = head(un, state, its.second)
        if x1.level != x2.level:
            return abort(un, Abort.LEVELS_DIFFER, x1.level, x2.level)
        level = x1.level
        compute = map_accumulate(
            un, its, x1, x2, state.slots[its.accumulator], state.slots[its.result]
        )
        if compute < 0:
            return Status.FAILED
        load = load_cycles(x1, shared.onchip) + load_cycles(x2, shared.onchip)
        _reduce(un, state, its, level, load, compute, False)
        take(un, state, its.first)
        take(un, state, its.second)


ACCUM, _accum = declare(
    "accum",
    inputs=("data",),
    outputs=("out",),
    parameters=("function", "compute_bandwidth", "write_back", "transposed", "rank"),
    private=("accumulator", "result", "initial"),
)


@ACCUM
def step_accum(un, state):
    return _accumulate_all(un, state, _accum(un, state), False)


SCAN, _scan = declare(
    "scan",
    inputs=("data",),
    outputs=("out",),
    parameters=("function", "compute_bandwidth", "write_back", "transposed", "rank"),
    private=("accumulator", "result", "initial"),
)


@SCAN
def step_scan(un, state):
    return _accumulate_all(un, state, _scan(un, state), True)
