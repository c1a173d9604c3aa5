"""The event loop: run units until nothing can run, then serve the earliest order-sensitive event.

Units that only send and receive are pure functions of what they receive; they run in any order,
each as far as it can go. When none can run, every unit waits for another one, for a memory
completion or for an arrival decision. The memory is then advanced up to the smallest of those
times, everything due at it is handled, and the units run again. Times here are *pace* times:
whatever a unit does after an event at ``t`` is published at ``t + 1`` or later.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stepsim.kernels.batch.batches import begin_run, end_run, note_effort
from stepsim.kernels.batch.layout import BATCH, TOTALS, UNIT_TOTALS, Batch
from stepsim.kernels.build.by_reference import by_reference
from stepsim.kernels.build.entry_point import cached_entry
from stepsim.kernels.build.jit import apart, inlined
from stepsim.kernels.calendar import next_unit, pop_unit, schedule
from stepsim.kernels.catalog import UNIT, step
from stepsim.kernels.layout import (
    CHANNEL,
    GLOBAL,
    INFINITY,
    PORT,
    SLOT,
    TOKEN,
    Cause,
    RunState,
    State,
    Status,
)
from stepsim.kernels.memory.dispatch import advance, issue
from stepsim.kernels.parking import let_go_at, look_again, next_parked, raise_pace
from stepsim.kernels.queues import push, wake_consumer
from stepsim.kernels.recording.journal import is_full, note_access, note_pace


@inlined
def _end(un, state, status):
    # A unit that ended closes its outputs at its pace and leaves its inputs.
    un.state = status
    for j in range(un.nout):
        ch = state.channels[state.parameters[un.out0 + j]]
        ch.closed = 1
        ch.hclose = un.h
        wake_consumer(state, ch)
    for j in range(un.nin):
        ch = state.channels[state.parameters[un.in0 + j]]
        ch.gone = 1
        if ch.pwait == 1:
            ch.pwait = 0
            push(state, ch.producer)
        elif ch.pwait == 2:
            un.watch = 0


@inlined
def _wake(un, state, unit, now):
    # A decision is taken by the unit itself; a completed access moves both clocks.
    if un.state == Status.WAIT_DECISION:
        un.pc = 1
    else:
        un.memory += now - un.clk
        note_access(state, unit, un.port, now, now - un.clk, un.need)
        note_pace(state, Cause.PACE_MEMORY, unit, un.h, now)
        un.clk = now
        raise_pace(un, state, now)
        un.visible = now
    un.state = Status.READY


@inlined
def _may_step(un):
    # Units that have ended stay on the work list; one that waits for the memory is not to be woken.
    return un.state != Status.DONE and un.state != Status.FAILED and un.state != Status.WAIT_MEMORY


@apart
def run_on(state):
    """Run until the end, a limit, a pause, or a full arena or journal; returns a :class:`RunState`.

    Everything is in the arrays of ``state``: the call can simply be made again.
    """
    shared = state.globals[0]
    # Steps are calls; the memory's loops are part of this function and keep arrays in registers.
    reference = by_reference(state)
    while True:
        # 1. Step every unit on the work list as far as it can go.
        while shared.work_head != shared.work_tail:
            if is_full(state):
                return RunState.NO_SPACE
            u = state.work_list[shared.work_head & shared.work_mask]
            un = state.units[u]
            shared.work_head += 1
            if not _may_step(un):
                continue
            fires = un.fires
            status = step(un, reference)
            shared.steps += un.fires - fires
            un.state = status
            if status == Status.WAIT_MEMORY:
                issue(state, un.port, un.clk, un.need)
            elif status == Status.WAIT_DECISION:
                schedule(reference, u, un.evt)
            elif status == Status.DONE:
                _end(un, state, status)
            elif status == Status.FAILED:
                if shared.parks == 0:
                    return RunState.NO_PACES
                _end(un, state, status)
            elif status == Status.NO_SPACE:
                push(state, u)
                return RunState.NO_SPACE
            elif status == Status.NO_PACES:
                return RunState.NO_PACES
            if un.visible >= un.watch:
                look_again(un, u, reference)
            if un.clk > shared.max_cycles:
                return RunState.CYCLE_LIMIT
            if shared.steps >= shared.limit_steps:
                return RunState.STEP_LIMIT
            if shared.steps >= shared.pause_at:
                return RunState.PAUSED
        # 2. Advance the memory up to the first entry of the calendar, or the first parked producer.
        before = shared.memory_steps
        limit = state.units[next_unit(state)].evt if shared.calendar_length > 0 else INFINITY
        parked = next_parked(state, limit)
        advance(state, min(limit, parked))
        if is_full(state):
            return RunState.NO_SPACE  # of what a network on chip notes
        # 3. End when nothing is due: every unit has ended or waits for another one.
        if shared.calendar_length == 0 and parked == INFINITY:
            return RunState.FINISHED
        now = state.units[next_unit(state)].evt if shared.calendar_length > 0 else INFINITY
        now = min(now, parked)
        if now > shared.max_cycles:
            return RunState.CYCLE_LIMIT
        # 4. Serve them: wake every unit that is due now.
        shared.now = now
        if now == parked:
            let_go_at(reference, now)
        while shared.calendar_length > 0 and state.units[next_unit(state)].evt == now:
            u = pop_unit(state)
            _wake(state.units[u], state, u, now)
            push(state, u)
        # 5. Count memory work towards the pause, so that the caller hears from long waits too.
        shared.pause_at -= (shared.memory_steps - before) >> 3


def _entry(state, batch):
    """Run what ``state`` holds, or the runs of ``batch`` one after the other; a :class:`RunState`.

    A batch returns ``FINISHED`` after its last run, ``STOPPED`` when the run at hand has ended and
    the caller is to look at it, ``PAUSED`` when its budget of work is used up. Then as with
    ``NO_SPACE`` the call can be made again.
    """
    control = batch.control[0]
    if control.runs == 0:
        return run_on(state)
    shared = state.globals[0]
    while control.run < control.runs:
        if control.begun == 0:
            begin_run(state, batch)
        ended = RunState.PAUSED
        if control.given_up == 0:
            shared.pause_at = shared.steps + control.budget
            ended = run_on(state)
            control.budget = shared.pause_at - shared.steps
            note_effort(state, batch)
            if ended in (RunState.NO_SPACE, RunState.PAUSED, RunState.NO_PACES):
                return ended
        control.given_up = 0
        if end_run(state, batch, ended):
            return RunState.STOPPED
        if control.budget <= 0:
            return RunState.PAUSED
    return RunState.FINISHED


_WORDS = np.dtype(np.int64)


def _records(dtype):
    return np.dtype((np.record, dtype))


LAYOUT = State(
    units=_records(UNIT),
    channels=_records(CHANNEL),
    slots=_records(SLOT),
    parameters=_WORDS,
    scratch=_WORDS,
    work_list=_WORDS,
    free_lists=_WORDS,
    calendar=_WORDS,
    ports=_records(PORT),
    pending=_WORDS,
    active=_WORDS,
    free_at=_WORDS,
    memory_table=_WORDS,
    paces=_WORDS,
    globals=_records(GLOBAL),
    tokens=_records(TOKEN),
)
"""The type of every array. Those that have this very type are known to be right soonest."""

BATCH_LAYOUT = Batch(
    image=_WORDS,
    words=_WORDS,
    places=_WORDS,
    values=_WORDS,
    memory_table=_WORDS,
    control=_records(BATCH),
    totals=_records(TOTALS),
    units=_records(UNIT_TOTALS),
)

run: Any = cached_entry(_entry, LAYOUT, BATCH_LAYOUT)
