"""Partition, Reassemble, Broadcast, Parallelize."""

from __future__ import annotations

from stepsim.kernels.arena import release
from stepsim.kernels.functions import ceil_div, load_cycles, tile_bytes
from stepsim.kernels.jit import kernel
from stepsim.kernels.layout import Abort, Payload
from stepsim.kernels.queues import (
    abort,
    await_token,
    block_on_input,
    closure_ends,
    emit_copy,
    grab,
    has_token,
    head,
    room,
    send_copy,
    send_move,
    take,
    take_token,
    wait_for_slot,
    work,
)

__all__ = ["step_broadcast", "step_parallelize", "step_partition", "step_reassemble"]

_SELECTOR = int(Payload.SELECTOR)
_BUFFER = int(Payload.BUFFER)
_TUPLE = int(Payload.TUPLE)
_PAYLOAD = int(Abort.PAYLOAD)
_DATA_CLOSED = int(Abort.DATA_CLOSED)
_LEVEL = int(Abort.LEVEL_NOT_ALLOWED)
_EMPTY = int(Abort.EMPTY_SELECTION)
_WIDTH = int(Abort.SELECTOR_WIDTH)


@kernel
def _read_selector(un, ch, c, S, P, W, g, F, ports):
    # HEAD, load, TAKE of a selector: ``a`` = entry in the selector table, ``b`` = its level.
    status = await_token(un, ch, c, g)
    if status != 0:
        return status
    s = head(un, ch, S)
    if s.kind != _SELECTOR:
        return abort(un, _PAYLOAD, s.kind, _SELECTOR)
    if s.cols != ports:
        return abort(un, _WIDTH, s.cols, ports)
    un.a = P[g.selectors + s.value]
    un.b = s.level
    work(un, load_cycles(s, g.onchip))
    take(un, ch, S, F, W, g)
    return 0


@kernel
def _retag(x, wb):
    if x.kind != _BUFFER and x.kind != _TUPLE:
        x.rd = wb


@kernel
def step_partition(un, C, S, P, W, g, F):
    """Parameters: rank, wb, then the switch cost of every output. Inputs: data, selector."""
    par = un.par
    rank = P[par]
    wb = P[par + 1]
    c = P[un.in0]
    q = P[un.in0 + 1]
    ch = C[c]
    x = S[un.hand]
    while True:
        if un.pc == 0:
            status = _read_selector(un, C[q], q, S, P, W, g, F, un.nout)
            if status != 0:
                return status
            un.pc = 1
        count = P[un.a]
        if un.pc == 1:
            if not has_token(ch):
                if ch.closed != 0:
                    closure_ends(un, ch, g)
                    return abort(un, _DATA_CLOSED, c, 0)
                return block_on_input(un, ch, c)
            token = head(un, ch, S)
            level = token.level
            end = un.b + rank
            if level > 0:
                if un.b > 0:
                    if level != end:
                        return abort(un, _LEVEL, level, end)
                elif level > rank:
                    return abort(un, _LEVEL, level, rank)
            un.fires += 1
            cost = 0
            for k in range(count):
                cost = max(cost, P[par + 2 + P[un.a + 1 + k]])
            work(un, load_cycles(token, g.onchip))
            grab(un, ch, S, F, W, g, x)
            if wb != 0:
                cost += ceil_div(tile_bytes(x), g.onchip)
            work(un, cost)
            _retag(x, wb)
            if level > 0 and un.b > 0:
                x.level = rank
            un.d = 1 if (level > 0 or rank == 0) else 0
            if level > 0 and level != rank and not (un.b > 0 and level == end):
                un.d = 0
            un.c = 0
            un.pc = 2
        while un.c < count:
            d = P[un.out0 + P[un.a + 1 + un.c]]
            out = C[d]
            status = send_copy(un, out, d, S, F, W, g, 0, x.level, x)
            if status != 0:
                return status
            un.c += 1
        release(S, F, g, x)
        un.pc = 0 if un.d != 0 else 1


@kernel
def _sort_by_arrival(X, first, count):
    # Stable insertion sort of the (arrival, input) pairs at ``first``.
    for i in range(1, count):
        arrival = X[first + 2 * i]
        index = X[first + 2 * i + 1]
        j = i
        while j > 0 and X[first + 2 * (j - 1)] > arrival:
            X[first + 2 * j] = X[first + 2 * (j - 1)]
            X[first + 2 * j + 1] = X[first + 2 * (j - 1) + 1]
            j -= 1
        X[first + 2 * j] = arrival
        X[first + 2 * j + 1] = index


@kernel
def _await_heads(un, C, S, P, X):
    # 0 once every selected input has a head: clock and pace move to the last publication.
    count = P[un.a]
    latest = -1
    slowest = 0
    missing = 0
    for k in range(count):
        v = P[un.a + 1 + k]
        c = P[un.in0 + v]
        ch = C[c]
        if not has_token(ch):
            if ch.closed != 0:
                return abort(un, _DATA_CLOSED, c, 0)
            missing = block_on_input(un, ch, c)
            continue
        token = S[ch.start + (ch.removed & ch.mask)]
        X[un.scratch + 2 * k] = token.stamp
        X[un.scratch + 2 * k + 1] = v
        if token.pub > latest:
            latest = token.pub
            slowest = c
    if missing != 0:
        return missing
    gap = latest - un.clk
    if gap > 0:
        un.clk = latest
        if un.fires > 0:
            C[slowest].wait_in += gap
        else:
            un.before += gap
    if latest > un.h:
        un.h = latest
    _sort_by_arrival(X, un.scratch, count)
    return 0


@kernel
def step_reassemble(un, C, S, P, W, g, F, X):
    """Parameters: rank, wb, then the switch cost of every input. Inputs: data 0..N-1, selector.

    ``a``/``b`` selector entry and level, ``c`` position in the serving order, ``d`` chunk ends.
    """
    par = un.par
    rank = P[par]
    wb = P[par + 1]
    ports = un.nin - 1
    q = P[un.in0 + ports]
    d = P[un.out0]
    out = C[d]
    x = S[un.hand]
    while True:
        if un.pc == 0:
            status = _read_selector(un, C[q], q, S, P, W, g, F, ports)
            if status != 0:
                return status
            if P[un.a] == 0:
                return abort(un, _EMPTY, 0, 0)
            un.pc = 1
        count = P[un.a]
        if un.pc == 1:
            status = _await_heads(un, C, S, P, X)
            if status != 0:
                return status
            un.c = 0
            un.pc = 2
        if un.pc == 2:
            v = X[un.scratch + 2 * un.c + 1]
            c = P[un.in0 + v]
            ch = C[c]
            if not has_token(ch):
                if ch.closed != 0:
                    closure_ends(un, ch, g)
                    return abort(un, _DATA_CLOSED, c, 0)
                return block_on_input(un, ch, c)
            token = head(un, ch, S)
            un.fires += 1
            ready = X[un.scratch + 2 * un.c] + P[par + 2 + v] + load_cycles(token, g.onchip)
            if ready > un.clk:
                work(un, ready - un.clk)
            grab(un, ch, S, F, W, g, x)
            if wb != 0:
                work(un, ceil_div(tile_bytes(x), g.onchip))
            _retag(x, wb)
            un.d = 1 if (rank == 0 or x.level >= rank) else 0
            if un.d != 0:
                if un.c == count - 1:
                    x.level += un.b + 1
                elif rank == 0:
                    x.level = 0
            un.pc = 3
        status = send_move(un, out, d, S, F, W, g, 0, x.level, x)
        if status != 0:
            return status
        un.pc = 2
        if un.d != 0:
            un.c += 1
            if un.c == count:
                un.pc = 0


@kernel
def step_broadcast(un, C, S, P, W, g, F):
    """Copies leave together, once every output has a free slot."""
    c = P[un.in0]
    ch = C[c]
    x = S[un.hand]
    while True:
        if un.pc == 0:
            status = take_token(un, ch, c, S, F, W, g, x)
            if status != 0:
                return status
            un.a = 0
            un.pc = 1
        while un.a < un.nout:
            d = P[un.out0 + un.a]
            status = room(un, C[d], d, S, F, g)
            if status != 0:
                return status
            wait_for_slot(un, C[d], S)
            un.a += 1
        for j in range(un.nout):
            emit_copy(un, C[P[un.out0 + j]], S, W, g, 0, x.level, x)
        release(S, F, g, x)
        un.pc = 0


@kernel
def step_parallelize(un, C, S, P, W, g, F):
    """Static round robin. Parameters: rank, then the switch cost of every output."""
    rank = P[un.par]
    c = P[un.in0]
    ch = C[c]
    x = S[un.hand]
    while True:
        if un.pc == 0:
            status = take_token(un, ch, c, S, F, W, g, x)
            if status != 0:
                return status
            un.pc = 1
        d = P[un.out0 + un.a]
        out = C[d]
        status = send_move(un, out, d, S, F, W, g, un.clk + P[un.par + 1 + un.a], x.level, x)
        if status != 0:
            return status
        if x.level > rank:
            return abort(un, _LEVEL, x.level, rank)
        if x.level == rank:
            un.a = un.a + 1 if un.a + 1 < un.nout else 0
        un.pc = 0
