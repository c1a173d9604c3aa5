"""The compiled schedulers step by step, for loops in Python."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from stepsim.errors import ArgError
from stepsim.serving.requests.requests import Requests
from stepsim.serving.scheduling.engine import Engine
from stepsim.serving.scheduling.interface import Batch
from stepsim.serving.scheduling.outcomes import Outcomes
from stepsim.serving.scheduling.settings import SchedulerRules

_LONG_AGO: Final = -(1 << 61)


class CompiledScheduler:
    """A compiled scheduler behind the interface of all schedulers."""

    def __init__(self, requests: Requests, rules: SchedulerRules) -> None:
        """Take requests that will arrive.

        Raises:
            ArgError: a request is longer than allowed, or than the blocks.
        """
        outcomes = Outcomes(requests, rules, keeps_tokens=False, follows=False)
        self._engine = Engine(outcomes, due=np.zeros(0, np.int64), keeps_rows=False)
        self._arrivals = _LONG_AGO
        self._is_begun = False

    def arrive(self, request: int) -> None:
        """Put a request at its place among those that wait."""
        # They arrive in the order of the calls, whatever the time is.
        self._engine.push(request, self._arrivals)
        self._arrivals += 1

    def schedule(self, now_ns: int) -> Batch:
        """The next step; an empty batch if nothing can run.

        Raises:
            ArgError: the step before was not completed.
        """
        if self._is_begun:
            raise ArgError("schedule: the step before is not complete; call complete first")
        engine = self._engine
        self._is_begun = engine.begin_step(now_ns)
        if not self._is_begun:
            nothing = np.zeros(0, np.int64)
            return Batch(nothing, nothing, nothing, np.zeros(0, np.bool_))
        batch = engine.batch
        return Batch(batch.request.copy(), batch.new.copy(), batch.before.copy(), batch.emits)

    def complete(self, end_ns: int) -> NDArray[np.int64]:
        """End the step that was scheduled last; the requests that are finished, in order.

        Raises:
            ArgError: no step was scheduled, or it ends before it begins.
        """
        engine = self._engine
        if not self._is_begun or end_ns < engine.now_ns:
            what = (
                "no step was scheduled" if not self._is_begun else "the step ends before it began"
            )
            raise ArgError(f"complete: {what}; call it once after each schedule, with a later time")
        self._is_begun = False
        engine.end_step(end_ns - engine.now_ns)
        return engine.finished

    @property
    def running(self) -> int:
        """Number of requests that have blocks."""
        return self._engine.running

    @property
    def waiting(self) -> int:
        """Number of requests that have arrived and are not running."""
        return self._engine.waiting

    @property
    def free_blocks(self) -> int:
        """Number of blocks that could be taken now."""
        return self._engine.free_blocks
