"""BinaryMapAccum, Accum and Scan: inputs are freed before the result is sent.

The accumulator is the private slot ``hand``, the result waiting to be sent ``hand + 1``, the
initial accumulator ``hand + 2``. The final firing charges the store of the *initial* accumulator,
as the published simulator does; Scan charges the store of each state.

Parameters: fn, bw, wb, transposed, rank.
"""

from __future__ import annotations

from stepsim.kernels.arena import copy_payload
from stepsim.kernels.functions import accumulate, ceil_div, load_cycles, map_accumulate, tile_bytes
from stepsim.kernels.jit import kernel
from stepsim.kernels.layout import Abort, Status
from stepsim.kernels.queues import (
    abort,
    await_token,
    emit_move,
    head,
    room,
    take,
    work,
)
from stepsim.kernels.units.maps import ready_pair

__all__ = ["step_accum", "step_map_accum", "step_scan"]

_DONE = int(Status.DONE)
_FAILED = int(Status.FAILED)
_LEVELS = int(Abort.LEVELS_DIFFER)


@kernel
def _reduce(un, S, level, rank, wb, load, comp, g):
    # The roofline of one firing, and what becomes of the new state in ``hand + 1``.
    cycles = max(load, comp)
    if level >= rank:
        if wb != 0:
            cycles = max(cycles, ceil_div(tile_bytes(S[un.hand + 2]), g.onchip))
        S[un.hand + 1].level = level - rank
        copy_payload(S[un.hand + 2], S[un.hand])
        un.pc = 1
    else:
        copy_payload(S[un.hand + 1], S[un.hand])
    un.fires += 1
    work(un, cycles)


@kernel
def _send_result(un, out, d, S, W, g, F):
    status = room(un, out, d, S, F, g)
    if status == 0:
        result = S[un.hand + 1]
        emit_move(un, out, S, W, g, 0, result.level, result)
        un.pc = 0
    return status


@kernel
def step_map_accum(un, C, S, P, W, g, F):
    par = un.par
    fn = P[par]
    bw = P[par + 1]
    wb = P[par + 2]
    transposed = P[par + 3]
    rank = P[par + 4]
    c1 = P[un.in0]
    c2 = P[un.in0 + 1]
    d = P[un.out0]
    ch1 = C[c1]
    ch2 = C[c2]
    out = C[d]
    while True:
        if un.pc == 1:
            status = _send_result(un, out, d, S, W, g, F)
            if status != 0:
                return status
        status = ready_pair(un, C, S, c1, c2, g)
        if status != 0:
            return status
        x1 = head(un, ch1, S)
        x2 = head(un, ch2, S)
        if x1.level != x2.level:
            return abort(un, _LEVELS, x1.level, x2.level)
        level = x1.level
        comp = map_accumulate(un, fn, transposed, bw, x1, x2, S[un.hand], S[un.hand + 1], wb)
        if comp < 0:
            return _FAILED
        load = load_cycles(x1, g.onchip) + load_cycles(x2, g.onchip)
        _reduce(un, S, level, rank, wb, load, comp, g)
        take(un, ch1, S, F, W, g)
        take(un, ch2, S, F, W, g)


@kernel
def step_accum(un, C, S, P, W, g, F):
    par = un.par
    fn = P[par]
    bw = P[par + 1]
    wb = P[par + 2]
    rank = P[par + 4]
    c = P[un.in0]
    d = P[un.out0]
    ch = C[c]
    out = C[d]
    while True:
        if un.pc == 1:
            status = _send_result(un, out, d, S, W, g, F)
            if status != 0:
                return status
        status = await_token(un, ch, c, g)
        if status != 0:
            return status
        x = head(un, ch, S)
        level = x.level
        comp = accumulate(un, fn, bw, x, S[un.hand], S[un.hand + 1], wb)
        if comp < 0:
            return _FAILED
        _reduce(un, S, level, rank, wb, load_cycles(x, g.onchip), comp, g)
        take(un, ch, S, F, W, g)


@kernel
def step_scan(un, C, S, P, W, g, F):
    par = un.par
    fn = P[par]
    bw = P[par + 1]
    wb = P[par + 2]
    rank = P[par + 4]
    c = P[un.in0]
    d = P[un.out0]
    ch = C[c]
    out = C[d]
    while True:
        if un.pc == 1:
            status = _send_result(un, out, d, S, W, g, F)
            if status != 0:
                return status
        status = await_token(un, ch, c, g)
        if status != 0:
            return status
        x = head(un, ch, S)
        state = S[un.hand + 1]
        comp = accumulate(un, fn, bw, x, S[un.hand], state, wb)
        if comp < 0:
            return _FAILED
        cycles = max(load_cycles(x, g.onchip), comp)
        if wb != 0:
            cycles = max(cycles, ceil_div(tile_bytes(state), g.onchip))
        un.fires += 1
        work(un, cycles)
        state.level = x.level
        if x.level >= rank:
            copy_payload(S[un.hand + 2], S[un.hand])
        else:
            copy_payload(state, S[un.hand])
        take(un, ch, S, F, W, g)
        un.pc = 1
