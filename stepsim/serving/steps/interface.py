"""What a step model is to the rest of a service."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from stepsim.serving.scheduling.interface import Batch


@dataclass(frozen=True, slots=True)
class StepTime:
    """How long a step takes, and why.

    Attributes
    ----------
    ns : its duration.
    cycles : the same in cycles of the machine; None for models without one.
    offchip_bytes : traffic off chip; None if it is not modeled.
    bound : the resource that limits the step; empty if that is not known.
    how : how the time came about, such as ``exact``, ``estimated``, ``linear`` or ``table``.
    """

    ns: int
    cycles: int | None = None
    offchip_bytes: int | None = None
    bound: str = ""
    how: str = ""


class StepModel(Protocol):
    """The time of steps. Nothing else in a service knows what a step costs."""

    def time(self, step: int, batch: Batch) -> StepTime:
        """The time of step number ``step``, which computes a batch that is not empty."""
        ...
