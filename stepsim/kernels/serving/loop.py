"""The loop of a service: arrivals, a batch, its time, and again.

It returns to its caller whenever it needs something, and goes on where it was; see
:class:`~stepsim.kernels.serving.layout.ServiceStatus`.
"""

from __future__ import annotations

from typing import Any

from stepsim.kernels.build.by_reference import by_reference
from stepsim.kernels.build.entry_point import cached_entry
from stepsim.kernels.build.jit import apart, inlined, kernel
from stepsim.kernels.serving.layout import (
    LOG_HEAD,
    NO_TIME,
    SERVICE,
    Phase,
    SchedulingPolicy,
    ServiceStatus,
    TimeModel,
)
from stepsim.kernels.serving.linear import linear_time
from stepsim.kernels.serving.queues import admit_arrivals, next_arrival
from stepsim.kernels.serving.recalled import recalled_time
from stepsim.kernels.serving.reserving import schedule_orca, schedule_static
from stepsim.kernels.serving.sarathi import schedule_sarathi
from stepsim.kernels.serving.steps import (
    begin_batch,
    complete_batch,
    keep_log,
    keep_row,
    measure_batch,
)
from stepsim.kernels.serving.table import table_time
from stepsim.kernels.serving.vllm import schedule_vllm


@kernel
def _schedule(state):
    g = state.engine[0]
    begin_batch(g)
    if g.policy == SchedulingPolicy.VLLM:
        schedule_vllm(state)
    elif g.policy == SchedulingPolicy.STATIC:
        schedule_static(state)
    elif g.policy == SchedulingPolicy.ORCA:
        schedule_orca(state)
    else:
        schedule_sarathi(state)
    measure_batch(state)


@inlined
def _is_full(state):
    g = state.engine[0]
    if g.rows >= g.row_room:
        return True
    return g.log_room > 0 and g.log + LOG_HEAD + 7 * g.seqs > g.log_room


@kernel
def _after_idle(g, arrival):
    # When a service without work finds a request that arrives then.
    missing = max(0, arrival - g.now)
    return g.now + (missing + g.tick - 1) // g.tick * g.tick


@kernel
def _end_step(state):
    g = state.engine[0]
    complete_batch(state)
    g.steps += 1
    keep_row(state)
    if g.log_room > 0:
        keep_log(state)
    g.now += g.length + g.host
    g.phase = Phase.BETWEEN


@kernel
def _pairs(state):
    # Pairs of a new token and one that it attends to, itself included, as without a window.
    pairs = 0
    for k in range(state.engine[0].entries):
        new = state.entry_new[k]
        pairs += new * state.entry_before[k] + new * (new + 1) // 2
    return pairs


@kernel
def _step_time(state):
    g = state.engine[0]
    if g.time_model == TimeModel.LINEAR:
        return linear_time(state)
    if g.time_model == TimeModel.RECALLED:
        return recalled_time(
            state.time_words, state.time_reals, g.entries, g.new, g.decode_context, _pairs(state)
        )
    return table_time(
        state.time_words, state.time_reals, g.new, g.entries, g.prefill, g.prefill_context,
        g.decodes, g.decode_context, g.decode_least, g.decode_most,
    )  # fmt: skip


@apart
def _run(state):
    g = state.engine[0]
    while True:
        if g.phase == Phase.COMPUTING:
            _end_step(state)
            if g.stops_at_finish != 0 and g.finished > 0:
                return ServiceStatus.FINISHED
        admit_arrivals(state)
        arrival = next_arrival(state)
        if g.unfinished == 0:
            if arrival == NO_TIME:
                return ServiceStatus.DONE if g.until == NO_TIME else ServiceStatus.UNTIL
            start = _after_idle(g, arrival)
            if start >= g.until:
                return ServiceStatus.UNTIL
            g.now = start
            continue
        if g.now >= g.until:
            return ServiceStatus.UNTIL
        if _is_full(state):
            return ServiceStatus.FULL
        _schedule(state)
        g.length = g.empty
        if g.entries == 0:
            is_blocked = g.preempted == 0
            if is_blocked and arrival == NO_TIME and g.until == NO_TIME:
                _end_step(state)
                return ServiceStatus.STUCK
            if g.empty > 0 or not is_blocked:
                _end_step(state)
                continue
            start = _after_idle(g, arrival) if arrival < NO_TIME else NO_TIME
            if start >= g.until:
                return ServiceStatus.UNTIL
            g.now = start
            continue
        g.phase = Phase.COMPUTING
        if g.time_model == TimeModel.EXTERNAL:
            return ServiceStatus.NEEDS_TIME
        g.length = _step_time(state)


def _entry(state):
    """Run until the caller is needed; returns a :class:`ServiceStatus`."""
    return _run(by_reference(state))


run_service: Any = cached_entry(_entry, SERVICE, what="engine of services under load")
