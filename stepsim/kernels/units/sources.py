"""Units without inputs that replay a list of tokens, and sinks.

One kernel serves all generators; they differ in what happens between two tokens:

=========  ==================================================================
``WORK``   ``add(times[i])``, then emit now
``JUMP``   ``up(times[i])`` as work (the pace stays), then emit now
``PACED``  ``up(times[i])`` as waiting (the pace follows), then emit now
``STEP``   emit one cycle ahead, then ``add(1)`` (selector sources)
``COUNT``  emit with requested time ``i``; the clock stands (metadata sources)
=========  ==================================================================

``first`` is the place of the ``count`` tokens among those of all sources; ``tail`` is work after
the last.
"""

from __future__ import annotations

from typing import Final

from stepsim.kernels.arena import copy_payload, retain
from stepsim.kernels.declaration import declare
from stepsim.kernels.layout import Cause, Status
from stepsim.kernels.queues import (
    await_token,
    emit,
    head,
    room,
    take_shown_later,
    work,
)
from stepsim.kernels.recording.journal import note_pace

WORK: Final = 0
JUMP: Final = 1
PACED: Final = 2
STEP: Final = 3
COUNT: Final = 4


SOURCE, _source = declare(
    "source",
    outputs=("out",),
    parameters=("mode", "count", "first", "tail", "*times"),
    words=("position",),
)


@SOURCE
def step_source(un, state):
    its = _source(un, state)
    while un.position < its.count:
        i = un.position
        if un.pc == 0:
            if its.mode == WORK:
                work(un, state.parameters[its.times + i])
            elif its.mode == JUMP or its.mode == PACED:
                t = state.parameters[its.times + i]
                if t > un.clk:
                    work(un, t - un.clk)
                if its.mode == PACED and t > un.h:
                    note_pace(state, Cause.PACE_SCHEDULE, its.out, un.h, t)
                    un.h = t
            un.pc = 1
        status = room(un, state, its.out)
        if status != 0:
            return status
        when = 0
        if its.mode == STEP:
            when = un.clk + 1
        elif its.mode == COUNT:
            when = i
        given = state.tokens[its.first + i]
        form = state.slots[given.form]
        token = emit(un, state, its.out, when, form.level)
        copy_payload(form, token)
        token.value = given.value
        retain(state, token)
        if its.mode == STEP:
            work(un, 1)
        un.fires += 1
        un.position += 1
        un.pc = 0
    work(un, its.tail)
    return Status.DONE


CONSUMER, _consumer = declare(
    "consumer",
    inputs=("data",),
    parameters=("hold", "pause"),
)


@CONSUMER
def step_consumer(un, state):
    """Every token is held for ``hold`` cycles; ``pause`` cycles later the next one is looked at."""
    its = _consumer(un, state)
    while True:
        status = await_token(un, state, its.data)
        if status != 0:
            return status
        token = head(un, state, its.data)
        un.fires += 1
        work(un, its.hold)
        take_shown_later(un, state, its.data, token)
        work(un, its.pause)
