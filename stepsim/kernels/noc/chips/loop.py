"""The loop of a network of chips: event by event, until none is to come."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepsim.kernels.build.by_reference import by_reference
from stepsim.kernels.build.entry_point import cached_entry
from stepsim.kernels.build.jit import apart, kernel
from stepsim.kernels.noc.chips.events import first_time, pop, schedule
from stepsim.kernels.noc.chips.layout import CHIPS, Happening
from stepsim.kernels.noc.chips.links import enter, release
from stepsim.kernels.noc.chips.parts import arrive, begin, end_delays, receive


@kernel
def _begin(state):
    # Messages of time 0 are on their way before the loop, but later ones are scheduled first.
    run = state.run[0]
    if run.collective != 0:
        for node in range(run.chips):
            begin(state, node, 0, 0)
        return
    for k in range(run.messages):
        if state.messages[k].sent > 0:
            schedule(state, state.messages[k].sent, Happening.ENTER, k)
    for k in range(run.messages):
        if state.messages[k].sent == 0:
            enter(state, k, 0)


@apart
def _run(state):
    run = state.run[0]
    _begin(state)
    now = np.int64(0)
    while run.events > 0:
        now = first_time(state)
        code = pop(state)
        kind = code & 3
        number = code >> 2
        if kind == Happening.ENTER:
            message = state.messages[number]
            if message.place != message.destination:
                enter(state, number, now)
            else:
                message.arrived = now
                if run.collective != 0:
                    arrive(state, number, now)
        elif kind == Happening.RELEASE:
            release(state, number, now)
        elif kind == Happening.DELAY:
            end_delays(state, number, now)
        else:
            receive(state, number, now)
    run.last = now
    return run.messages


def _entry(state):
    """Send everything; returns the number of messages."""
    return _run(by_reference(state))


run_chips: Any = cached_entry(_entry, CHIPS, what="engine of networks of chips")
