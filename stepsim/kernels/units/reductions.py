"""BinaryMapAccum, Accum and Scan: inputs are freed before the result is sent.

The accumulator is the private slot ``hand``, the result waiting to be sent ``hand + 1``, the
initial accumulator ``hand + 2``. The final firing charges the store of the *initial* accumulator,
as the published simulator does; Scan charges the store of each state.

Parameters: fn, bw, wb, transposed, rank, result bits (0: operands are equally wide).
"""

from __future__ import annotations

from stepsim.kernels.arena import copy_payload
from stepsim.kernels.functions import accumulate, ceil_div, load_cycles, map_accumulate, tile_bytes
from stepsim.kernels.jit import kernel
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

__all__ = ["step_accum", "step_map_accum"]

_FAILED = int(Status.FAILED)
_LEVELS = int(Abort.LEVELS_DIFFER)


@kernel
def _reduce(un, S, level, rank, wb, load, comp, scan, g):
    # The roofline of one firing, and what becomes of the new state in ``hand + 1``.
    result = S[un.hand + 1]
    initial = S[un.hand + 2]
    cycles = max(load, comp)
    ends = level >= rank
    if scan or ends:
        if wb != 0:
            stored = result if scan else initial
            cycles = max(cycles, ceil_div(tile_bytes(stored), g.onchip))
        result.level = level if scan else level - rank
        un.pc = 1
    copy_payload(initial if ends else result, S[un.hand])
    un.fires += 1
    work(un, cycles)


@kernel
def _send_result(un, out, d, S, W, g, F):
    result = S[un.hand + 1]
    status = send_move(un, out, d, S, F, W, g, 0, result.level, result)
    if status == 0:
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
    result_bits = P[par + 5]
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
        comp = map_accumulate(
            un, fn, transposed, result_bits, bw, x1, x2, S[un.hand], S[un.hand + 1], wb
        )
        if comp < 0:
            return _FAILED
        load = load_cycles(x1, g.onchip) + load_cycles(x2, g.onchip)
        _reduce(un, S, level, rank, wb, load, comp, False, g)
        take(un, ch1, S, F, W, g)
        take(un, ch2, S, F, W, g)


@kernel
def step_accum(un, C, S, P, W, g, F, scan):
    """Accum, or Scan when ``scan`` is set: every state is sent, with the level of its input."""
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
        _reduce(un, S, level, rank, wb, load_cycles(x, g.onchip), comp, scan, g)
        take(un, ch, S, F, W, g)
