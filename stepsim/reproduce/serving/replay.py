"""Recorded runs by the scheduler of the package, with its block pool of that name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stepsim.errors import TraceError
from stepsim.reproduce.serving.recorded import Case
from stepsim.serving import (
    Engine,
    Outcomes,
    RequestTimes,
    SchedulerSettings,
    TickingClock,
)

CLOCK: Final = TickingClock()
"""The clock of the recorded runs, but for the time of the first look."""


@dataclass(frozen=True, eq=False)
class Replay:
    """What became of a run.

    Attributes
    ----------
    outcomes : of the requests.
    rows : of the steps.
    clock_ns : when the service was done.
    """

    outcomes: Outcomes
    rows: NDArray[Any]
    clock_ns: int

    def totals(self) -> dict[str, int]:
        """Sums over the run, by the names of the recorded runs."""
        found = self.outcomes
        return {
            "prefix_hit_tokens": int(found.cached_tokens.sum()),
            "lower_tier_hit_tokens": 0,
            "requested_prompt_tokens": int(found.requests.prompt_tokens.sum()),
            "generated_tokens": int(found.generated.sum()),
            "preemptions": int(found.preemptions.sum()),
            "recomputed_tokens": int(found.recomputed_tokens.sum()),
            "steps": len(self.rows),
        }

    def times(self) -> RequestTimes:
        """The times of the requests and their tokens, in the order of the requests."""
        found = self.outcomes
        tokens, begin = found.token_ns, found.token_begin
        gaps = np.diff(tokens, prepend=0)
        return RequestTimes.from_ns(
            start_ns=found.arrival_ns,
            ttft_ns=found.first_token_ns - found.arrival_ns,
            gap_ns=np.delete(gaps, begin[:-1]),
            gaps_from=begin - np.arange(len(begin)),
            prompt_tokens=found.requests.prompt_tokens,
            output_tokens=found.generated,
        )


def replay(case: Case) -> Replay:
    """Run a case.

    Raises
    ------
    TraceError : the run does not end, as its settings leave a request waiting forever.
    """
    one = case.instance
    threshold = one.get("long_prefill_token_threshold", 0)
    settings = SchedulerSettings(
        pool="recorded",
        num_blocks=case.blocks,
        block_size=case.block_tokens,
        max_num_seqs=one["max_num_seqs"],
        max_num_batched_tokens=one["max_num_batched_tokens"],
        enable_chunked_prefill=one.get("chunked_prefill", True),
        enable_prefix_caching=one.get("prefix_caching", True),
        scheduler_reserve_full_isl=one.get("reserve_full_isl", True),
        long_prefill_token_threshold=threshold,
        threshold_alone=True if threshold else None,
    )
    clock = TickingClock(CLOCK.tick_ns, case.settings.get("log_interval_ns", CLOCK.log_ns))
    outcomes = Outcomes(case.requests(), settings.completed())
    engine = Engine(outcomes, time=case.steps().compiled(), clock=clock)
    engine.run()
    if (outcomes.end_ns < 0).any():
        raise TraceError(
            f"{case.name}: {int((outcomes.end_ns < 0).sum())} requests are never finished, "
            "expected all; check the settings of the case"
        )
    return Replay(outcomes, engine.take_rows(), engine.now_ns + late_ns(case))


def late_ns(case: Case) -> int:
    """Time from the last token until the service is done: the last of several devices looks before
    the first one has completed the last step, and again after a tick."""
    return CLOCK.tick_ns if case.profile.tp > 1 else 0
