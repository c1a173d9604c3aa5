"""The scheduler of vLLM, version 1 of its engine: running requests first, then waiting ones.

The token budget of a step is given to the running requests in their order, whether they compute a
prompt or a token, and what is left to the queue. A running request without a block for its tokens
has the last one, or the least urgent one, lose its blocks and compute its tokens again later.
"""

from __future__ import annotations

from stepsim.kernels.build.jit import apart, inlined, kernel
from stepsim.kernels.serving.batch import extend, grant, preempt, run_first, victim
from stepsim.kernels.serving.pool import (
    begin_table,
    blocks_for,
    found,
    label_blocks,
    take_blocks,
)
from stepsim.kernels.serving.queues import first_waiting, remove_first


@kernel
def _prefills_are_held(state):
    # Whether prefills wait for a step of their cadence.
    g = state.engine[0]
    if g.interval <= 1 or g.saturated != 0 or g.executed + 1 - g.last_prefill >= g.interval:
        return False
    for k in range(g.running):
        if state.requests[state.running[k]].partial == 0:
            return True
    return False


@inlined
def _cap(g):
    # Most tokens of one request in this step; 0: no limit.
    eligible = g.running + g.waiting
    if g.threshold == 0 or (eligible <= 1 and g.threshold_alone == 0):
        return 0
    if g.adaptive != 0:
        return max(g.threshold, g.budget // eligible)
    return g.threshold


@kernel
def _cached_blocks(state, r):
    # Leading blocks of a waiting request that are found; they are noted in its table, and nothing
    # else changes. At least one token is left to compute.
    g = state.engine[0]
    request = state.requests[r]
    if g.caching == 0 or request.labels == 0:
        return 0
    most = min((request.known - 1) // g.block, request.labels)
    for k in range(most):
        block = found(state, state.labels[request.label + k])
        if block < 0:
            return k
        state.tables[request.table + k] = block
    return most


@inlined
def _missing(state, r, tokens, hits, idle, margin):
    # Blocks that are missing for so many tokens, below 0 if some are left.
    g = state.engine[0]
    return max(blocks_for(g, tokens) - hits, 0) + idle + margin - g.free


@kernel
def _may_admit(state, r, hits, tokens):
    # Whether the blocks of a waiting request fit, for the tokens with those of this step.
    g = state.engine[0]
    request = state.requests[r]
    idle = 0
    for k in range(hits):
        if state.blocks[state.tables[request.table + k]].users == 0:
            idle += 1
    margin = g.watermark if g.running > 0 else 0
    if g.reserve != 0:
        missing = _missing(state, r, max(request.known, tokens), hits, idle, margin)
        if missing > 0:
            g.blocked = r
            g.deficit = missing
            return False
    return _missing(state, r, tokens, hits, idle, margin) <= 0


@kernel
def _admit_waiting(state, left, cap, held):
    # Part B. Whether a prefill was begun that another step continues, or that needed this one.
    g = state.engine[0]
    carried = False
    while left > 0 and g.waiting > 0 and g.running < g.seqs:
        r = first_waiting(state)
        request = state.requests[r]
        # A block that is freed or labeled makes up for one that was missing, nothing else does.
        if g.blocked == r and g.deficit > 0 and g.running > 0:
            break
        hits = _cached_blocks(state, r)
        cached = hits * g.block
        start = max(cached, request.carried)
        tokens = request.known - start
        if held and start < request.known - 1:
            break
        if 0 < cap < tokens:
            tokens = cap
        if g.chunked == 0 and tokens > left:
            break
        tokens = min(tokens, left)
        if not _may_admit(state, r, hits, start + tokens):
            break
        g.blocked = -1
        begin_table(state, r, hits)
        take_blocks(state, r, start + tokens)
        label_blocks(state, r, start + tokens)
        remove_first(state)
        run_first(state, r, start, cached)
        grant(state, r, tokens)
        left -= tokens
        if start < request.known - 1:
            carried = True
    return carried


@apart
def schedule_vllm(state):
    """Choose the batch of the next step."""
    g = state.engine[0]
    cap = _cap(g)
    held = _prefills_are_held(state)
    left = g.budget
    carried = False
    position = 0
    while position < g.running and left > 0:
        r = state.running[position]
        request = state.requests[r]
        tokens = request.known - request.done
        if held and request.partial != 0:
            position += 1
            continue
        if tokens > 1:
            if 0 < cap < tokens:
                tokens = cap
            tokens = min(tokens, left)
        tokens = min(tokens, g.max_len - request.done - 1)
        if tokens <= 0:
            position += 1
            continue
        fits = extend(state, r, request.done + tokens)
        while not fits:
            place = victim(state)
            left += preempt(state, place)
            if place == position:
                break
            if place < position:
                position -= 1
            fits = extend(state, r, request.done + tokens)
        if fits:
            grant(state, r, tokens)
            left -= tokens
            carried = carried or request.partial != 0
            position += 1
        elif g.by_priority == 0:
            break
    if g.preempted == 0:
        if _admit_waiting(state, left, cap, held):
            carried = True
        if not held:
            g.saturated = 1 if g.waiting > 0 else 0
    if g.entries > 0:
        g.executed += 1
    if carried:
        g.last_prefill = g.executed
