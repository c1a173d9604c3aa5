"""The clock of the hardware level: in every cycle the units that can act, then the memory.

A unit is looked at only if it acted in the cycle before, one of its FIFOs changed, or its alarm
rings: its decision depends on nothing else. A cycle in which no unit is looked at and the memory
has nothing to do is left out. Both change nothing, and `every` does without either.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stepsim.kernels.build.entry_point import cached_entry
from stepsim.kernels.build.jit import inlined, kernel
from stepsim.kernels.hardware.buffers import step_buffer
from stepsim.kernels.hardware.fifos import commit, wake
from stepsim.kernels.hardware.layout import (
    EVENT_WORDS,
    FIFO,
    GLOBAL,
    NEVER,
    UNIT,
    Acted,
    Hardware,
    Kind,
    Outcome,
)
from stepsim.kernels.hardware.memory_path import (
    step_admission,
    step_arbiter,
    step_deal,
    step_memory,
    step_table,
)
from stepsim.kernels.hardware.offchip import (
    step_printer,
    step_reader,
    step_sink,
    step_source,
    step_writer,
)
from stepsim.kernels.hardware.streams import (
    step_accumulator,
    step_fork,
    step_map,
    step_promote,
    step_repeat,
    step_sum,
    step_wire,
)


@kernel
def _step(un, state):
    """One cycle of a unit."""
    kind = un.kind
    if kind == Kind.WIRE:
        return step_wire(un, state)
    if kind == Kind.BUFFER:
        return step_buffer(un, state)
    if kind == Kind.MAP:
        return step_map(un, state)
    if kind == Kind.SUM:
        return step_sum(un, state)
    if kind == Kind.REPEAT:
        return step_repeat(un, state)
    if kind == Kind.ACCUMULATOR:
        return step_accumulator(un, state)
    if kind == Kind.READER:
        return step_reader(un, state)
    if kind == Kind.ARBITER:
        return step_arbiter(un, state)
    if kind == Kind.ADMISSION:
        return step_admission(un, state)
    if kind == Kind.TABLE:
        return step_table(un, state)
    if kind == Kind.DEAL:
        return step_deal(un, state)
    if kind == Kind.FORK:
        return step_fork(un, state)
    if kind == Kind.PROMOTE:
        return step_promote(un, state)
    if kind == Kind.WRITER:
        return step_writer(un, state)
    if kind == Kind.PRINTER:
        return step_printer(un, state)
    if kind == Kind.SOURCE:
        return step_source(un, state)
    return step_sink(un, state)


@inlined
def _counts_itself(kind):
    """Whether a firing is not any cycle in which the unit acts."""
    return (
        kind == Kind.BUFFER or (kind >= Kind.READER and kind <= Kind.PRINTER) or kind == Kind.SINK
    )


@kernel
def _ring(state):
    """Wake the units whose alarm rings in this cycle, and find the next alarm."""
    g = state.globals[0]
    first = NEVER
    for u in range(len(state.units)):
        un = state.units[u]
        if un.alarm == g.cycle:
            un.alarm = NEVER
            if un.woken < g.cycle:
                un.woken = g.cycle
                state.work[g.side * len(state.units) + g.woken] = u
                g.woken += 1
        first = min(first, un.alarm)
    g.alarm = first


def _entry(state):
    """Run until the end, a limit, a pause or a full list of events; returns an :class:`Outcome`.

    Everything is in the arrays: the call can simply be made again.
    """
    g = state.globals[0]
    most = EVENT_WORDS * (2 * len(state.fifos) + 4 + g.channels)
    while True:
        if g.cycle >= g.limit:
            return Outcome.LIMIT
        if g.cycle >= g.pause:
            return Outcome.PAUSED
        if g.tracing != 0 and g.events + most > len(state.events):
            return Outcome.FULL
        if g.alarm <= g.cycle:
            _ring(state)
        side = g.side * len(state.units)
        looked = g.woken
        if g.every != 0:
            looked = len(state.units)
        g.woken = 0
        g.ticks += 1
        g.looks += looked
        spun = False
        active = False
        for i in range(looked):
            u = i if g.every != 0 else state.work[side + i]
            un = state.units[u]
            acted = _step(un, state)
            if acted == Acted.MISMATCH:
                active = True
                if g.unit < 0 or u < g.unit:
                    g.unit = u
            if acted == Acted.WORKED:
                active = True
                if not _counts_itself(un.kind):
                    un.fired += 1
                    if un.first < 0:
                        un.first = g.cycle
                    un.latest = g.cycle
            elif acted == Acted.SPUN:
                spun = True
            if g.late != 0:
                g.late = 0
                acted = Acted.WAITS
            if acted == Acted.WAITS:
                active = True
            if acted != Acted.NOTHING:
                wake(state, u)
        if g.send >= 0:
            if state.fifos[g.send].held > 0 or g.returned_held > 0 or g.due <= g.cycle:
                if step_memory(state) != Acted.NOTHING:
                    active = True
                if g.late != 0:
                    g.late = 0
                    active = True
        if active:
            g.progress = g.cycle
        commit(state)
        g.side = 1 - g.side
        if g.unit >= 0:
            return Outcome.MISMATCH
        if g.sinks == 0:
            return Outcome.DONE
        following = g.cycle + 1
        if not active:
            event = min(g.alarm, g.due)
            if event >= NEVER and (not spun or g.cycle - g.progress > g.ports):
                return Outcome.IDLE if g.sinks < 0 else Outcome.STALL
            if not spun and g.every == 0:
                following = max(following, min(event, min(g.limit, g.pause)))
        g.cycle = following


LAYOUT = Hardware(
    units=UNIT, fifos=FIFO, globals=GLOBAL, lists=np.dtype(np.int64), rings=np.dtype(np.int64),
    words=np.dtype(np.int64), work=np.dtype(np.int64), events=np.dtype(np.int64),
    dram=np.dtype(np.int64),
)  # fmt: skip

run_hardware: Any = cached_entry(_entry, LAYOUT, what="engine of the hardware level")
