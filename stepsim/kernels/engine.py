"""The event loop: run units until nothing can run, then serve the earliest order-sensitive event.

Units that only send and receive are pure functions of what they receive; they run in any order,
each as far as it can go. When none can run, every unit waits for another one, for a memory
completion or for an arrival decision. The memory is then advanced up to the smallest of those
times, everything due at it is handled, and the units run again. Times here are *pace* times:
whatever a unit does after an event at ``t`` is published at ``t + 1`` or later.
"""

from __future__ import annotations

from typing import Any

from stepsim.kernels.calendar import next_unit, pop_unit, schedule
from stepsim.kernels.jit import cached_entry, kernel
from stepsim.kernels.layout import INFINITY, Kind, RunState, Status
from stepsim.kernels.memory.ports import advance, issue
from stepsim.kernels.queues import push
from stepsim.kernels.units import (
    buffers,
    flatmaps,
    maps,
    merge,
    offchip,
    reductions,
    routing,
    shape,
)
from stepsim.kernels.units.sources import step_consumer, step_source

__all__ = ["run"]

_DONE = int(Status.DONE)
_FAILED = int(Status.FAILED)
_NO_SPACE = int(Status.NO_SPACE)
_WAIT_MEMORY = int(Status.WAIT_MEMORY)
_WAIT_DECISION = int(Status.WAIT_DECISION)

# One name per unit kind, in the order of the enumeration: constants to the compiler.
(
    _SOURCE,
    _CONSUMER,
    _UNARY_MAP,
    _BINARY_MAP,
    _MAP_ACCUM,
    _ACCUM,
    _SCAN,
    _ZIP,
    _RETILE,
    _EXPERT_ADDR,
    _CACHE_READ_ADDR,
    _LAST_TILE,
    _FLAT_MAP,
    _EXPAND_REF,
    _REPEAT,
    _FLATTEN,
    _PROMOTE,
    _RESHAPE,
    _PARTITION,
    _REASSEMBLE,
    _EAGER_MERGE,
    _BROADCAST,
    _PARALLELIZE,
    _BUFFERIZE,
    _STREAMIFY,
    _DYN_STREAMIFY,
    _LOAD,
    _RANDOM_LOAD,
    _STORE,
    _RANDOM_STORE,
) = (int(kind) for kind in Kind)

_FINISHED = int(RunState.FINISHED)
_PAUSED = int(RunState.PAUSED)
_SPACE = int(RunState.NO_SPACE)
_CYCLE_LIMIT = int(RunState.CYCLE_LIMIT)
_STEP_LIMIT = int(RunState.STEP_LIMIT)


@kernel
def _step(kind, un, C, S, P, W, g, F, X):
    # A chain of comparisons with constants: the compiler makes it a jump table.
    if kind == _SOURCE:
        return step_source(un, C, S, P, W, g, F)
    if kind == _CONSUMER:
        return step_consumer(un, C, S, P, W, g, F)
    if kind == _UNARY_MAP:
        return maps.step_unary_map(un, C, S, P, W, g, F)
    if kind == _BINARY_MAP:
        return maps.step_binary_map(un, C, S, P, W, g, F)
    if kind == _MAP_ACCUM:
        return reductions.step_map_accum(un, C, S, P, W, g, F)
    if kind == _ACCUM:
        return reductions.step_accum(un, C, S, P, W, g, F, False)
    if kind == _SCAN:
        return reductions.step_accum(un, C, S, P, W, g, F, True)
    if kind == _ZIP:
        return maps.step_zip(un, C, S, P, W, g, F)
    if kind == _RETILE:
        return flatmaps.step_retile(un, C, S, P, W, g, F)
    if kind == _EXPERT_ADDR:
        return flatmaps.step_expert_addr(un, C, S, P, W, g, F)
    if kind == _CACHE_READ_ADDR:
        return flatmaps.step_cache_read_addr(un, C, S, P, W, g, F)
    if kind == _LAST_TILE:
        return flatmaps.step_last_tile(un, C, S, P, W, g, F)
    if kind == _FLAT_MAP:
        return flatmaps.step_flat_map(un, C, S, P, W, g, F)
    if kind == _EXPAND_REF:
        return shape.step_expand_ref(un, C, S, P, W, g, F)
    if kind == _REPEAT:
        return shape.step_repeat(un, C, S, P, W, g, F)
    if kind == _FLATTEN:
        return shape.step_flatten(un, C, S, P, W, g, F)
    if kind == _PROMOTE:
        return shape.step_promote(un, C, S, P, W, g, F)
    if kind == _RESHAPE:
        return shape.step_reshape(un, C, S, P, W, g, F)
    if kind == _PARTITION:
        return routing.step_partition(un, C, S, P, W, g, F)
    if kind == _REASSEMBLE:
        return routing.step_reassemble(un, C, S, P, W, g, F, X)
    if kind == _EAGER_MERGE:
        return merge.step_eager_merge(un, C, S, P, W, g, F)
    if kind == _BROADCAST:
        return routing.step_broadcast(un, C, S, P, W, g, F)
    if kind == _PARALLELIZE:
        return routing.step_parallelize(un, C, S, P, W, g, F)
    if kind == _BUFFERIZE:
        return buffers.step_bufferize(un, C, S, P, W, g, F)
    if kind == _STREAMIFY:
        return buffers.step_streamify(un, C, S, P, W, g, F)
    if kind == _DYN_STREAMIFY:
        return buffers.step_dyn_streamify(un, C, S, P, W, g, F)
    if kind == _LOAD:
        return offchip.step_load(un, C, S, P, W, g, F)
    if kind == _RANDOM_LOAD:
        return offchip.step_random_load(un, C, S, P, W, g, F)
    if kind == _STORE:
        return offchip.step_store(un, C, S, P, W, g, F)
    if kind == _RANDOM_STORE:
        return offchip.step_random_store(un, C, S, P, W, g, F)
    return _FAILED


@kernel
def _end(un, C, P, W, g, status):
    # A unit that ended closes its outputs at its pace and leaves its inputs.
    un.state = status
    for j in range(un.nout):
        ch = C[P[un.out0 + j]]
        ch.closed = 1
        ch.hclose = un.h
        if ch.cwait != 0:
            ch.cwait = 0
            push(W, g, ch.consumer)
    for j in range(un.nin):
        ch = C[P[un.in0 + j]]
        ch.gone = 1
        if ch.pwait != 0:
            ch.pwait = 0
            push(W, g, ch.producer)


@kernel
def _run_ready(U, C, S, P, X, W, F, H, M, Q, g):
    # Step every unit on the work list; a RunState when the caller is needed, -1 when none is left.
    while g.qhead != g.qtail:
        u = W[g.qhead & g.qmask]
        un = U[u]
        g.qhead += 1
        if un.state == _DONE or un.state == _FAILED or un.state == _WAIT_MEMORY:
            continue
        fires = un.fires
        status = _step(un.kind, un, C, S, P, W, g, F, X)
        g.steps += un.fires - fires
        un.state = status
        if status == _WAIT_MEMORY:
            issue(U, H, M, Q, g, un.port, un.clk, un.need)
        elif status == _WAIT_DECISION:
            schedule(U, H, g, u, un.evt)
        elif status == _DONE or status == _FAILED:
            _end(un, C, P, W, g, status)
        elif status == _NO_SPACE:
            push(W, g, u)
            return _SPACE
        if un.clk > g.max_cycles:
            return _CYCLE_LIMIT
        if g.steps >= g.pause_at:
            return _STEP_LIMIT if g.steps >= g.limit_steps else _PAUSED
    return -1


@kernel
def _serve(U, W, H, g):
    # Wake every unit that is due at the earliest time of the calendar.
    now = U[next_unit(H)].evt
    g.now = now
    while g.heap_len > 0 and U[next_unit(H)].evt == now:
        u = pop_unit(U, H, g)
        un = U[u]
        if un.kind == _EAGER_MERGE:
            un.pc = 1
        else:
            un.memory += now - un.clk
            un.clk = now
            un.h = now
        un.state = 0
        push(W, g, u)


def _run(U, C, S, P, X, W, F, H, M, Q, A, B, T, G):
    """Run until the end, a limit, a pause or a full arena; answers a :class:`RunState`.

    U units, C channels, S slots, P parameters, X scratch, W work list, F free lists of the arena,
    H calendar, M memory ports, Q pending and A active ports, B channel clocks, T memory tables,
    G globals (one record). Everything is in the arrays: the call can simply be made again.
    """
    g = G[0]
    while True:
        state = _run_ready(U, C, S, P, X, W, F, H, M, Q, g)
        if state >= 0:
            return state
        before = g.mem_inner
        limit = U[next_unit(H)].evt if g.heap_len > 0 else INFINITY
        advance(U, H, M, Q, A, B, T, g, limit)
        if g.heap_len == 0:
            return _FINISHED
        if U[next_unit(H)].evt > g.max_cycles:
            return _CYCLE_LIMIT
        _serve(U, W, H, g)
        # Memory work counts towards the pause, so that the caller hears from long waits too.
        g.pause_at -= (g.mem_inner - before) >> 3


run: Any = cached_entry(_run)
