"""A step: what it computes in all, how long it takes, and what its end does to requests."""

from __future__ import annotations

from stepsim.kernels.build.jit import apart, inlined, kernel
from stepsim.kernels.serving.layout import LOG_HEAD, NO_TIME, SchedulingPolicy
from stepsim.kernels.serving.pool import release_table
from stepsim.kernels.serving.queues import arrive_later


@inlined
def begin_batch(g):
    """Forget the step before."""
    g.entries = 0
    g.cached = 0
    g.preempted = 0
    g.admitted = 0
    g.finished = 0


@apart
def measure_batch(state):
    """Have the requests of a batch compute their tokens, and sum up what the step computes."""
    g = state.engine[0]
    new = context = prefill = prefill_context = decodes = decode_context = emitted = most = 0
    least = NO_TIME
    for k in range(g.entries):
        r = state.entry_request[k]
        request = state.requests[r]
        tokens = state.entry_new[k]
        before = request.done
        state.entry_before[k] = before
        request.done = before + tokens
        emits = 1 if before + tokens >= request.known else 0
        request.partial = 1 - emits
        state.entry_emits[k] = emits
        emitted += emits
        if request.spoke == 0:
            state.chunk[r] = g.now
        new += tokens
        context += before
        if tokens > 1:
            prefill += tokens
            prefill_context += before
        else:
            decodes += 1
            decode_context += before
            least = min(least, before)
            most = max(most, before)
    g.new = new
    g.context = context
    g.prefill = prefill
    g.prefill_context = prefill_context
    g.decodes = decodes
    g.decode_context = decode_context
    g.decode_least = least
    g.decode_most = most
    g.emitted = emitted
    g.running_then = g.running
    g.waiting_then = g.waiting
    g.free_then = g.free


@kernel
def _finish(state, r, time):
    g = state.engine[0]
    state.end[r] = time
    state.finished[g.finished] = r
    g.finished += 1
    g.unfinished -= 1
    state.requests[r].partial = 0
    follower = state.child[r]
    while follower >= 0:
        state.arrival[follower] = max(state.arrival[follower], time + state.think[follower])
        arrive_later(state, follower)
        follower = state.sibling[follower]


@kernel
def _leave_running(state):
    # Finished requests go, and the others keep their order.
    g = state.engine[0]
    kept = 0
    for k in range(g.running):
        r = state.running[k]
        if state.end[r] < 0:
            state.running[kept] = r
            kept += 1
    g.running = kept


@kernel
def _leave_together(state):
    # The batch of a static scheduler gives its blocks back when all of it is finished.
    g = state.engine[0]
    for k in range(g.running):
        if state.end[state.running[k]] < 0:
            return
    for k in range(g.running):
        release_table(state, state.running[k])
    g.running = 0


@apart
def complete_batch(state):
    """End the step at hand: its tokens are there, and finished requests leave."""
    g = state.engine[0]
    time = g.now + g.length
    for k in range(g.entries):
        if state.entry_emits[k] == 0:
            continue
        r = state.entry_request[k]
        request = state.requests[r]
        request.known += 1
        if request.spoke == 0:
            request.spoke = 1
            state.first[r] = time
        if g.keeps_tokens != 0:
            state.token[request.stamp] = time
            request.stamp += 1
        if request.known >= request.stop:
            if g.policy != SchedulingPolicy.STATIC:
                release_table(state, r)
            _finish(state, r, time)
    if g.finished > 0:
        if g.policy == SchedulingPolicy.STATIC:
            _leave_together(state)
        else:
            _leave_running(state)


@kernel
def keep_row(state):
    """Note the step at hand, for which there is room."""
    g = state.engine[0]
    row = state.rows[g.rows]
    g.rows += 1
    row.start = g.now
    row.length = g.length
    row.entries = g.entries
    row.new = g.new
    row.context = g.context
    row.prefill = g.prefill
    row.prefill_context = g.prefill_context
    row.decodes = g.decodes
    row.decode_context = g.decode_context
    row.emitted = g.emitted
    row.cached = g.cached
    row.admitted = g.admitted
    row.preempted = g.preempted
    row.finished = g.finished
    row.running = g.running_then
    row.waiting = g.waiting_then
    row.free_blocks = g.free_then


@kernel
def _keep_words(log, at, words, count):
    for k in range(count):
        log[at + k] = words[k]
    return at + count


@apart
def keep_log(state):
    """Note who was granted, preempted, admitted and finished in the step at hand."""
    g = state.engine[0]
    log = state.log
    first = g.log
    at = _keep_words(log, first + LOG_HEAD, state.entry_request, g.entries)
    at = _keep_words(log, at, state.entry_new, g.entries)
    at = _keep_words(log, at, state.preempted, g.preempted)
    at = _keep_words(log, at, state.admitted, 2 * g.admitted)
    at = _keep_words(log, at, state.finished, g.finished)
    log[first] = at - first
    log[first + 1] = g.now
    log[first + 2] = g.entries
    log[first + 3] = g.preempted
    log[first + 4] = g.admitted
    log[first + 5] = g.finished
    log[first + 6] = g.free_then
    log[first + 7] = g.free
    log[first + 8] = g.running
    log[first + 9] = g.waiting
    g.log = at
