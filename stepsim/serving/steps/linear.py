"""A step time that is linear in what the step computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from stepsim.arguments import shown
from stepsim.errors import ArgError
from stepsim.serving.scheduling.engine import CompiledTime
from stepsim.serving.scheduling.interface import Batch
from stepsim.serving.steps.interface import StepTime
from stepsim.typed import typed_class

_PS = 1000


@typed_class
@dataclass(frozen=True, kw_only=True)
class LinearSteps:
    """The time of a step in ns is a sum of terms, rounded down. Each is kept to the ps.

    Attributes
    ----------
    step_ns : for the step.
    token_ns : for every token that it computes.
    decode_context_ns : for every earlier token of requests that compute one token.
    prefill_context_ns : for every earlier token of requests that compute more than one.
    request_ns : for every request.

    Raises
    ------
    ArgError : a term is negative or not finite, or all of them are 0.
    """

    how: ClassVar[str] = "linear"

    step_ns: float = 0
    token_ns: float = 0
    decode_context_ns: float = 0
    prefill_context_ns: float = 0
    request_ns: float = 0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 <= value < 1 << 50:
                raise ArgError(f"{name} must be at least 0 and below 2**50, found {shown(value)}")
        if self.step_ns + self.token_ns + self.request_ns <= 0:
            raise ArgError(
                "steps take no time: expected step_ns, token_ns or request_ns above 0, found 0"
            )

    @property
    def _ps(self) -> tuple[int, ...]:
        return tuple(round(value * _PS) for value in vars(self).values())

    def time(self, step: int, batch: Batch) -> StepTime:
        """The time of a batch; the number of the step does not matter."""
        of_step, token, decode, prefill, request = self._ps
        alone = batch.new == 1
        ps = (
            of_step + token * int(batch.new.sum()) + decode * int(batch.before[alone].sum())
            + prefill * int(batch.before[~alone].sum()) + request * len(batch.new)
        )  # fmt: skip
        return StepTime(ps // _PS, how=self.how)

    def compiled(self) -> CompiledTime:
        """The same for the compiled loop."""
        return CompiledTime("linear", np.array(self._ps, np.int64), np.zeros(1))
