"""Schedulers that reserve room for all of a request when they admit it: static batches and Orca.

Prompts are computed whole, in one step. Nothing is preempted, as room is there to the end.

Orca (OSDI 2022, algorithm 1) chooses anew for every iteration: all requests that run, then those
that wait, in order of arrival, while the batch has a place and there are slots for the tokens that
the request can have at most. A request that does not fit holds up those behind it. Taken where the
paper is silent: one worker, so that an iteration ends before the next is chosen; slots are counted
in blocks (with a block of one token they are those of the paper); the most tokens of a request are
those of its prompt and the outputs that it will have, as a server knows ``max_tokens``; iterations
have no limit of tokens.

Static batches are what Orca is compared with there: requests are admitted when all of the batch
before are finished. Taken where the paper is silent: the same reservation; a finished request is
not computed any more, and its tokens count from the step that yields them, but its place and its
blocks are free only with those of the whole batch.
"""

from __future__ import annotations

from stepsim.kernels.build.jit import apart, kernel
from stepsim.kernels.serving.batch import grant, run_first
from stepsim.kernels.serving.pool import begin_table, take_blocks
from stepsim.kernels.serving.queues import first_waiting, remove_first


@kernel
def _admit_reserving(state):
    # Admit from the head of the queue what has room for its longest sequence.
    g = state.engine[0]
    while g.waiting > 0 and g.running < g.seqs:
        r = first_waiting(state)
        request = state.requests[r]
        begin_table(state, r, 0)
        if not take_blocks(state, r, request.stop):
            break
        remove_first(state)
        run_first(state, r, request.carried, 0)
        grant(state, r, request.known - request.done)


@kernel
def _run_all(state):
    g = state.engine[0]
    for k in range(g.running):
        r = state.running[k]
        if state.end[r] < 0:
            request = state.requests[r]
            grant(state, r, request.known - request.done)


@apart
def schedule_static(state):
    """Batch after batch: requests are admitted when all of the batch before are finished."""
    if state.engine[0].running > 0:
        _run_all(state)
    else:
        _admit_reserving(state)


@apart
def schedule_orca(state):
    """Iteration after iteration: every step admits what has room, in order of arrival."""
    _run_all(state)
    _admit_reserving(state)
