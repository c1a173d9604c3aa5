"""The scheduler of Sarathi-Serve: tokens of running requests first, then chunks of prompts.

A batch without stalls (OSDI 2024, algorithm 3): every request that generates gets its token, also
beyond the budget of tokens. What is left of the budget goes to prompts that were begun, then to new
ones while they have room; a chunk is what is left of the prompt, or of the budget. Taken where the
paper is silent: requests are in order of arrival; a new one has room if there are blocks for all
its known tokens, which it then holds; a request without a block for its next token has the last
running one lose its blocks and compute its tokens again, and in such a step none is admitted, both
as in vLLM; the budget is given, not found from a limit of the time between tokens.
"""

from __future__ import annotations

from stepsim.kernels.build.jit import apart, inlined, kernel
from stepsim.kernels.serving.batch import extend, grant, preempt, run_first, victim
from stepsim.kernels.serving.pool import begin_table, take_blocks
from stepsim.kernels.serving.queues import first_waiting, remove_first


@inlined
def _generates(request):
    return request.partial == 0 and request.done > 0


@kernel
def _generate(state):
    # The tokens of the requests that generate, and how many.
    g = state.engine[0]
    position = 0
    while position < g.running:
        r = state.running[position]
        request = state.requests[r]
        if _generates(request):
            while not extend(state, r, request.done + 1):
                place = victim(state)
                preempt(state, place)
                if place == position:
                    return
            grant(state, r, 1)
        position += 1


@apart
def schedule_sarathi(state):
    """Choose the batch of the next step."""
    g = state.engine[0]
    _generate(state)
    left = g.budget - g.entries
    for k in range(g.running):
        if left <= 0:
            return
        r = state.running[k]
        request = state.requests[r]
        if not _generates(request):
            tokens = min(request.known - request.done, left)
            grant(state, r, tokens)
            left -= tokens
    if g.preempted > 0:
        return
    while left > 0 and g.waiting > 0 and g.running < g.seqs:
        r = first_waiting(state)
        request = state.requests[r]
        begin_table(state, r, 0)
        if not take_blocks(state, r, request.known):
            return
        remove_first(state)
        run_first(state, r, request.carried, 0)
        tokens = min(request.known - request.done, left)
        grant(state, r, tokens)
        left -= tokens
