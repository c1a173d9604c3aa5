"""Services of the oracle as the package has them."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepsim.serving import (
    CompiledTime,
    Engine,
    JumpingClock,
    LinearSteps,
    Outcomes,
    Requests,
    SchedulerRules,
    TickingClock,
    TokenIds,
)
from tests.oracle.scheduler import Rules
from tests.oracle.service import Case


def requests_of(case: Case) -> Requests:
    """The requests of a case that was not served yet."""
    numbers: dict[Any, int] = {}
    texts = [[numbers.setdefault(token, len(numbers)) for token in r.tokens] for r in case.requests]
    rows = case.requests
    return Requests.of(
        [r.prompt for r in rows], [r.output for r in rows], arrival_ns=[r.arrival for r in rows],
        priority=[r.priority for r in rows], after=[r.after for r in rows],
        think_ns=[r.think for r in rows],
        prefix=TokenIds(np.cumsum([0, *map(len, texts)]), np.concatenate(texts)),
        source="random",
    )  # fmt: skip


def rules_of(rules: Rules) -> SchedulerRules:
    """The same rules, with the names of the package."""
    return SchedulerRules(
        scheduler=rules.scheduler, policy=rules.policy, max_num_batched_tokens=rules.budget,
        max_num_seqs=rules.seqs, max_num_active_seqs=None, block_size=rules.block_size,
        num_blocks=rules.num_blocks,
        max_model_len=None if rules.max_model_len == 1 << 30 else rules.max_model_len,
        enable_chunked_prefill=rules.chunked, enable_prefix_caching=rules.caching,
        long_prefill_token_threshold=rules.threshold,
        long_prefill_token_threshold_adaptive=rules.adaptive, threshold_alone=rules.alone,
        scheduler_reserve_full_isl=rules.reserve, watermark=rules.watermark,
        prefill_schedule_interval=rules.interval, gpu_memory_utilization=1.0, pool=rules.pool,
    )  # fmt: skip


def time_of(case: Case) -> LinearSteps:
    """The time of its steps."""
    step, token, context = case.terms
    return LinearSteps(step_ns=step, token_ns=token, decode_context_ns=context)


def engine_of(case: Case, time: CompiledTime | None) -> Engine:
    """An engine that serves a case that was not served yet."""
    outcomes = Outcomes(requests_of(case), rules_of(case.rules), allows_misfits=True)
    clock = JumpingClock(case.host) if case.tick == 1 else TickingClock(case.tick)
    return Engine(outcomes, time=time, clock=clock, logs=True)
