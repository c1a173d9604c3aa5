"""Units without inputs that replay a list of tokens, and sinks.

One kernel serves all generators; they differ in what happens between two tokens:

=========  ==================================================================
``WORK``   ``add(times[i])``, then emit now
``JUMP``   ``up(times[i])`` as work (the pace stays), then emit now
``PACED``  ``up(times[i])`` as waiting (the pace follows), then emit now
``STEP``   emit one cycle ahead, then ``add(1)`` (selector sources)
``COUNT``  emit with requested time ``i``; the clock stands (metadata sources)
=========  ==================================================================

Parameters: mode, number of tokens, first token in the slot arena, tail, then ``times``.
"""

from __future__ import annotations

from typing import Final

from stepsim.kernels.jit import kernel
from stepsim.kernels.layout import Status
from stepsim.kernels.queues import (
    await_token,
    emit_copy,
    head,
    room,
    take,
    work,
)

__all__ = ["COUNT", "JUMP", "PACED", "STEP", "WORK", "step_consumer", "step_source"]

WORK: Final = 0
JUMP: Final = 1
PACED: Final = 2
STEP: Final = 3
COUNT: Final = 4

_DONE = int(Status.DONE)


@kernel
def step_source(un, C, S, P, W, g, F):
    par = un.par
    mode = P[par]
    count = P[par + 1]
    first = P[par + 2]
    c = P[un.out0]
    ch = C[c]
    while un.a < count:
        i = un.a
        status = room(un, ch, c, S, F, g)
        if status != 0:
            return status
        when = 0
        if mode == WORK:
            work(un, P[par + 4 + i])
        elif mode == JUMP or mode == PACED:
            t = P[par + 4 + i]
            if t > un.clk:
                work(un, t - un.clk)
            if mode == PACED and t > un.h:
                un.h = t
        elif mode == STEP:
            when = un.clk + 1
        else:
            when = i
        token = S[first + i]
        emit_copy(un, ch, S, W, g, when, token.level, token)
        if mode == STEP:
            work(un, 1)
        un.fires += 1
        un.a += 1
    work(un, P[par + 3])
    return _DONE


@kernel
def step_consumer(un, C, S, P, W, g, F):
    """Parameters: cycles before the token is removed, cycles after."""
    c = P[un.in0]
    ch = C[c]
    hold = P[un.par]
    pause = P[un.par + 1]
    while True:
        status = await_token(un, ch, c, g)
        if status != 0:
            return status
        head(un, ch, S)
        un.fires += 1
        work(un, hold)
        take(un, ch, S, F, W, g)
        work(un, pause)
