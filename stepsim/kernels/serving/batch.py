"""The batch at hand: what schedulers do with running requests, whatever their rules are."""

from __future__ import annotations

from stepsim.kernels.build.jit import inlined, kernel
from stepsim.kernels.serving.pool import label_blocks, release_table, take_blocks
from stepsim.kernels.serving.queues import is_before, wait_again


@inlined
def grant(state, r, tokens):
    """Have the step compute so many tokens of a request."""
    g = state.engine[0]
    state.entry_request[g.entries] = r
    state.entry_new[g.entries] = tokens
    g.entries += 1


@kernel
def run_first(state, r, start, cached):
    """Put a request behind the running ones, with so many tokens that need not be computed.

    Of these, ``cached`` were found among the blocks.
    """
    g = state.engine[0]
    request = state.requests[r]
    state.running[g.running] = r
    g.running += 1
    request.done = start
    state.admitted[2 * g.admitted] = r
    state.admitted[2 * g.admitted + 1] = cached
    g.admitted += 1
    g.cached += cached
    state.hits[r] += cached
    if state.scheduled[r] < 0:
        state.scheduled[r] = g.now
        state.hit[r] = cached
    elif state.preemptions[r] > 0 and request.carried == 0:
        state.recomputed[r] += request.known - start


@inlined
def extend(state, r, tokens):
    """Have a running request hold blocks for so many tokens; whether there are enough."""
    g = state.engine[0]
    request = state.requests[r]
    if min(tokens, g.max_len) > request.held * g.block and not take_blocks(state, r, tokens):
        return False
    if tokens >= request.index_at:
        label_blocks(state, r, tokens)
    return True


@kernel
def _withdraw(state, r):
    # The tokens granted to a request, which are not computed after all.
    g = state.engine[0]
    tokens = 0
    kept = 0
    for k in range(g.entries):
        if state.entry_request[k] == r:
            tokens = state.entry_new[k]
        else:
            state.entry_request[kept] = state.entry_request[k]
            state.entry_new[kept] = state.entry_new[k]
            kept += 1
    g.entries = kept
    return tokens


@kernel
def preempt(state, position):
    """Have a running request lose its blocks and wait again; the tokens that it was granted."""
    g = state.engine[0]
    r = state.running[position]
    request = state.requests[r]
    g.running -= 1
    for k in range(position, g.running):
        state.running[k] = state.running[k + 1]
    tokens = 0
    if g.by_priority != 0:  # otherwise it stands behind all that have tokens
        tokens = _withdraw(state, r)
    release_table(state, r)
    request.done = 0
    request.carried = 0
    wait_again(state, r)
    state.preempted[g.preempted] = r
    g.preempted += 1
    state.preemptions[r] += 1
    return tokens


@kernel
def victim(state):
    """The place of the running request that loses its blocks next."""
    g = state.engine[0]
    last = g.running - 1
    if g.by_priority != 0:
        for k in range(g.running - 1):
            if is_before(state, state.running[last], state.running[k]):
                last = k
    return last
