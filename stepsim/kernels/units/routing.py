"""Partition, Reassemble, Broadcast, Parallelize."""

from __future__ import annotations

from stepsim.kernels.arena import copy_payload, release, retain
from stepsim.kernels.build.jit import inlined
from stepsim.kernels.declaration import declare
from stepsim.kernels.functions.tiles import ceil_div, load_cycles, token_bytes, token_load
from stepsim.kernels.layout import Abort, Cause, Payload, Status
from stepsim.kernels.parking import raise_pace
from stepsim.kernels.queues import (
    abort,
    await_change,
    await_token,
    block_on_input,
    changed_input,
    closure_ends,
    emit_reserved,
    grab_later,
    has_token,
    head,
    is_closed,
    room_after,
    send_copy,
    send_move,
    take_shown_later,
    take_token,
    wait_for_slot,
    work,
)
from stepsim.kernels.recording.journal import note, note_pace


@inlined
def read_selector(un, state, c, ports):
    """HEAD, load, TAKE of a selector: ``entry`` is its place in the selector table."""
    shared = state.globals[0]
    status = await_token(un, state, c)
    if status != 0:
        return status
    s = head(un, state, c)
    if s.kind != Payload.SELECTOR:
        return abort(un, Abort.PAYLOAD, s.kind, Payload.SELECTOR)
    if s.cols != ports:
        return abort(un, Abort.SELECTOR_WIDTH, s.cols, ports)
    un.entry = state.parameters[shared.selectors + s.value]
    un.selector_level = s.level
    work(un, load_cycles(s, shared.onchip))
    take_shown_later(un, state, c, s)
    return 0


@inlined
def _retag(x, wb):
    # Of a tuple only this token changes: others may refer to the same members. Buffers lie on chip
    # anyway.
    if x.kind != Payload.BUFFER and x.kind != Payload.ACK:
        x.rd = wb


PARTITION, _partition = declare(
    "partition",
    inputs=("data", "selector"),
    outputs=("*out",),
    parameters=("rank", "write_back", "drops_stops", "*switch_cycles"),
    words=("entry", "selector_level", "served", "chunk_ends"),
    private=("token",),
)


@PARTITION
def step_partition(un, state):
    """``switch_cycles`` are the costs of choosing each output.

    ``drops_stops``, of rank 0 only: a token that ends a dim which its selector does not end passes
    as a plain one.
    """
    its = _partition(un, state)
    shared = state.globals[0]
    x = state.slots[its.token]
    while True:
        if un.pc == 0:
            status = read_selector(un, state, its.selector, un.nout)
            if status != 0:
                return status
            un.pc = 1
        count = state.parameters[un.entry]
        if un.pc == 1:
            if not has_token(state, its.data):
                if is_closed(state, its.data):
                    closure_ends(un, state, its.data)
                    return abort(un, Abort.DATA_CLOSED, its.data, 0)
                return block_on_input(un, state, its.data)
            token = head(un, state, its.data)
            level = token.level
            end = un.selector_level + its.rank
            if level > 0:
                if un.selector_level > 0:
                    if level != end:
                        return abort(un, Abort.LEVEL_NOT_ALLOWED, level, end)
                elif level > its.rank and its.drops_stops == 0:
                    return abort(un, Abort.LEVEL_NOT_ALLOWED, level, its.rank)
            un.fires += 1
            cost = 0
            for k in range(count):
                cost = max(
                    cost, state.parameters[its.switch_cycles + state.parameters[un.entry + 1 + k]]
                )
            work(un, token_load(state, token))
            grab_later(un, state, its.data, token, x)
            if its.write_back != 0:
                cost += ceil_div(token_bytes(state, x), shared.onchip)
            work(un, cost)
            _retag(x, its.write_back)
            if level > 0 and (un.selector_level > 0 or its.drops_stops != 0):
                x.level = its.rank
            un.chunk_ends = 1 if (level > 0 or its.rank == 0) else 0
            if (
                level > 0
                and level != its.rank
                and not (un.selector_level > 0 and level == end)
                and its.drops_stops == 0
            ):
                un.chunk_ends = 0
            un.served = 0
            un.pc = 2
        while un.served < count:
            d = state.parameters[its.out + state.parameters[un.entry + 1 + un.served]]
            status = send_copy(un, state, d, 0, x.level, x)
            if status != 0:
                return status
            un.served += 1
        release(state, x)
        un.pc = 0 if un.chunk_ends != 0 else 1


@inlined
def _sort_by_arrival(state, first, count):
    # Shell sort of the (arrival, input) pairs at ``first``; of up to 4, one stable insertion sort.
    gap = 1
    while 3 * gap + 1 < count:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, count):
            arrival = state.scratch[first + 2 * i]
            index = state.scratch[first + 2 * i + 1]
            j = i
            while j >= gap:
                before = first + 2 * (j - gap)
                earlier = state.scratch[before]
                if earlier < arrival or (earlier == arrival and state.scratch[before + 1] < index):
                    break
                state.scratch[first + 2 * j] = earlier
                state.scratch[first + 2 * j + 1] = state.scratch[before + 1]
                j -= gap
            state.scratch[first + 2 * j] = arrival
            state.scratch[first + 2 * j + 1] = index
        gap //= 3


@inlined
def _await_heads(un, state, its):
    """Have every selected input that has no head listed when it gets one; 0, or a failure."""
    un.missing = 0
    for k in range(state.parameters[un.entry]):
        v = state.parameters[un.entry + 1 + k]
        c = state.parameters[its.data + v]
        if not has_token(state, c):
            if is_closed(state, c):
                return abort(un, Abort.DATA_CLOSED, c, 0)
            await_change(state, c, v)
            un.missing += 1
    return 0


@inlined
def _count_heads(un, state, its):
    """0 once every selected input has a head, else the status to return."""
    closed = un.nin
    while True:
        v = changed_input(un, state)
        if v < 0:
            break
        un.missing -= 1
        if not has_token(state, state.parameters[its.data + v]):
            closed = min(closed, v)
    if closed < un.nin:
        return abort(un, Abort.DATA_CLOSED, state.parameters[its.data + closed], 0)
    return 0 if un.missing == 0 else Status.WAIT_INPUT


@inlined
def _order_heads(un, state, its, order):
    """Put the selected inputs in ``order``; the pace moves to the last publication, the clock to
    when all heads are found."""
    count = state.parameters[un.entry]
    latest = -1
    slowest = 0
    found = -1
    spun = 0
    cause = Cause.DECISION
    for k in range(count):
        v = state.parameters[un.entry + 1 + k]
        c = state.parameters[its.data + v]
        ch = state.channels[c]
        token = state.slots[ch.start + (ch.removed & ch.mask)]
        state.scratch[order + 2 * k] = token.stamp
        state.scratch[order + 2 * k + 1] = v
        if token.pub > latest:
            latest = token.pub
            slowest = c
        # A head whose producer parked is found when the clock has come to the mark.
        if token.pub > found:
            found = token.pub
            spun = c
            cause = Cause.DECISION
        if -token.hrel > un.clk + 1 and -token.hrel > found:
            found = -token.hrel
            spun = c
            cause = Cause.MARK
    gap = found - un.clk
    if gap > 0:
        un.clk = found
        if un.fires > 0:
            state.channels[spun].wait_in += gap
        else:
            un.before += gap
        note(state, cause, spun, found, gap)
    note_pace(state, Cause.PACE_TOKEN, slowest, un.h, latest)
    if latest > un.h:
        raise_pace(un, state, latest)
    un.visible = un.clk
    _sort_by_arrival(state, order, count)


REASSEMBLE, _reassemble = declare(
    "reassemble",
    inputs=("*data", "selector"),
    outputs=("out",),
    parameters=("rank", "write_back", "*switch_cycles"),
    words=("entry", "selector_level", "served", "chunk_ends", "missing"),
    private=("token",),
    scratch_per_input=3,
)


@REASSEMBLE
def step_reassemble(un, state):
    """``switch_cycles`` are the costs of choosing each input; ``served`` counts the chunks of the
    current selector, which are served by arrival."""
    its = _reassemble(un, state)
    shared = state.globals[0]
    ports = un.nin - 1
    order = un.scratch + un.nin  # behind the list of inputs that changed
    x = state.slots[its.token]
    while True:
        if un.pc == 0:
            status = read_selector(un, state, its.selector, ports)
            if status != 0:
                return status
            if state.parameters[un.entry] == 0:
                return abort(un, Abort.EMPTY_SELECTION, 0, 0)
            status = _await_heads(un, state, its)
            if status != 0:
                return status
            un.pc = 1
        count = state.parameters[un.entry]
        if un.pc == 1:
            status = _count_heads(un, state, its)
            if status != 0:
                return status
            _order_heads(un, state, its, order)
            un.served = 0
            un.pc = 2
        if un.pc == 2:
            v = state.scratch[order + 2 * un.served + 1]
            c = state.parameters[its.data + v]
            if not has_token(state, c):
                if is_closed(state, c):
                    closure_ends(un, state, c)
                    return abort(un, Abort.DATA_CLOSED, c, 0)
                return block_on_input(un, state, c)
            token = head(un, state, c)
            un.fires += 1
            ready = (
                state.scratch[order + 2 * un.served]
                + state.parameters[its.switch_cycles + v]
                + token_load(state, token)
            )
            if ready > un.clk:
                work(un, ready - un.clk)
            grab_later(un, state, c, token, x)
            if its.write_back != 0:
                work(un, ceil_div(token_bytes(state, x), shared.onchip))
            _retag(x, its.write_back)
            un.chunk_ends = 1 if (its.rank == 0 or x.level >= its.rank) else 0
            if un.chunk_ends != 0:
                if un.served == count - 1:
                    x.level += un.selector_level + 1
                elif its.rank == 0:
                    x.level = 0
            un.pc = 3
        status = send_move(un, state, its.out, 0, x.level, x)
        if status != 0:
            return status
        un.pc = 2
        if un.chunk_ends != 0:
            un.served += 1
            if un.served == count:
                un.pc = 0


BROADCAST, _broadcast = declare(
    "broadcast",
    inputs=("data",),
    outputs=("*out",),
    words=("reserved",),
    private=("token",),
)


@BROADCAST
def step_broadcast(un, state):
    """Copies leave together, once every output has a free slot."""
    its = _broadcast(un, state)
    x = state.slots[its.token]
    while True:
        if un.pc == 0:
            status = take_token(un, state, its.data, x)
            if status != 0:
                return status
            un.reserved = 0
            un.pc = 1
        while un.reserved < un.nout:
            d = state.parameters[its.out + un.reserved]
            status = room_after(un, state, d, 0, False)
            if status != 0:
                return status
            wait_for_slot(un, state, d)
            un.reserved += 1
        for j in range(un.nout):
            copy_payload(x, emit_reserved(un, state, state.parameters[its.out + j], 0, x.level))
            retain(state, x)
        release(state, x)
        un.pc = 0


PARALLELIZE, _parallelize = declare(
    "parallelize",
    inputs=("data",),
    outputs=("*out",),
    parameters=("rank", "*switch_cycles"),
    words=("turn",),
    private=("token",),
)


@PARALLELIZE
def step_parallelize(un, state):
    """Static round robin; ``switch_cycles`` are the costs of choosing each output."""
    its = _parallelize(un, state)
    x = state.slots[its.token]
    while True:
        if un.pc == 0:
            status = take_token(un, state, its.data, x)
            if status != 0:
                return status
            un.pc = 1
        d = state.parameters[its.out + un.turn]
        status = send_move(
            un, state, d, un.clk + state.parameters[its.switch_cycles + un.turn], x.level, x
        )
        if status != 0:
            return status
        if x.level > its.rank:
            return abort(un, Abort.LEVEL_NOT_ALLOWED, x.level, its.rank)
        if x.level == its.rank:
            un.turn = un.turn + 1 if un.turn + 1 < un.nout else 0
        un.pc = 0
