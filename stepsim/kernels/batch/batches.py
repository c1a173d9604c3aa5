"""Between the runs of a batch: put the state back to its beginning, and write down what came out.

All that a run changes lies in one piece of memory, which begins with the words of the image; the
parameters, of which only a few differ from run to run, the work list and the memory's table lie
elsewhere. What a run found in the arena beyond the image is zeroed, for the next run finds what the
first one found.
"""

from __future__ import annotations

from stepsim.kernels.build.jit import apart
from stepsim.kernels.layout import SLOT, Status

MEMORY_TAIL = 3
"""Cycles from the end of the last memory operator to the end of the memory node."""

_SLOT_WORDS = SLOT.itemsize // 8


@apart
def begin_run(state, batch):
    """Put the state of the batch to the beginning of the run at hand."""
    control = batch.control[0]
    shared = state.globals[0]
    arena_end = shared.arena_end
    used = shared.arena_top
    for i in range(control.fixed):
        batch.words[i] = batch.image[i]
    shared.arena_end = arena_end
    grown = control.fixed + (used - shared.arena_top) * _SLOT_WORDS
    for i in range(control.fixed, grown):
        batch.words[i] = 0
    for i in range(len(state.units)):
        state.work_list[i] = i
    for i in range(len(batch.memory_table)):
        state.memory_table[i] = batch.memory_table[i]
    count = len(batch.places)
    first = control.run * count
    for i in range(count):
        state.parameters[batch.places[i]] = batch.values[first + i]
    control.begun = 1
    # Short runs are mostly this.
    control.budget -= control.fixed >> 3


@apart
def note_effort(state, batch):
    """How far the run at hand is; its share of the time of the call is measured by it."""
    control = batch.control[0]
    shared = state.globals[0]
    effort = shared.steps + (shared.memory_steps >> 3) + (control.fixed >> 3)
    batch.totals[control.run].effort = effort


@apart
def end_run(state, batch, ended):
    """Write the totals of the run at hand; True if the caller is to look at it, else the next one
    is at hand."""
    control = batch.control[0]
    shared = state.globals[0]
    its = batch.totals[control.run]
    its.ended = ended
    last = 0
    last_memory = -1
    for i in range(len(state.units)):
        un = state.units[i]
        if un.state == Status.FAILED:
            its.failed += 1
        else:
            if un.state != Status.DONE:
                its.unfinished += 1
            last = max(last, un.clk)
            if un.port >= 0:
                last_memory = max(last_memory, un.clk)
        its.offchip_bytes += un.traffic
        its.memory_requests += un.requests
        its.flops += un.flops
    if last_memory >= 0:
        last = max(last, last_memory + MEMORY_TAIL)
    its.cycles = last
    for i in range(len(state.channels)):
        ch = state.channels[i]
        its.undelivered_tokens += ch.sent - ch.removed
    its.tokens = shared.tokens
    its.engine_steps = shared.steps
    if control.wants_units != 0:
        _write_units(state, batch)
    if control.every != 0 or its.failed > 0 or its.unfinished > 0:
        return True
    control.run += 1
    control.begun = 0
    return False


@apart
def _write_units(state, batch):
    control = batch.control[0]
    first = control.run * len(state.units)
    for i in range(len(state.units)):
        un = state.units[i]
        its = batch.units[first + i]
        its.state = un.state
        its.fires = un.fires
        its.clk = un.clk
        its.busy = un.busy
        its.memory = un.memory
        its.before = un.before
        its.after = un.after
        its.requests = un.requests
        its.traffic = un.traffic
        its.flops = un.flops
        its.longest = max(un.memory, 0)
        its.longest_at = -1
    for c in range(len(state.channels)):
        ch = state.channels[c]
        its = batch.units[first + ch.consumer]
        its.wait_in += ch.wait_in
        if ch.wait_in > its.longest:
            its.longest = ch.wait_in
            its.longest_at = 2 * c
        its = batch.units[first + ch.producer]
        its.wait_out += ch.wait_out
        if ch.wait_out > its.longest:
            its.longest = ch.wait_out
            its.longest_at = 2 * c + 1
