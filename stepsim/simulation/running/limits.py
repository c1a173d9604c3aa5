"""Limits of a run."""

from __future__ import annotations

import math

from stepsim.arguments import is_number, is_whole, shown
from stepsim.errors import ArgError
from stepsim.frozen import frozen

_SECONDS = "max_wall_seconds"


@frozen
class Limits:
    """Limits of a run; one that reaches a limit ends with status "limit" and what is known so far.

    Attributes
    ----------
    max_cycles : simulated time.
    max_steps : unit firings.
    max_wall_seconds : time of the simulation, checked a few times per second.

    Raises
    ------
    ArgError : a limit is not a positive number, or one of cycles or steps is not whole.
    """

    max_cycles: int | None = None
    max_steps: int | None = None
    max_wall_seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("max_cycles", "max_steps", "max_wall_seconds"):
            value = getattr(self, name)
            if value is None:
                continue
            limit = _seconds(value) if name == _SECONDS else _count(value)
            if not 0 < limit < math.inf:
                kind = "finite" if name == _SECONDS else "whole"
                raise ArgError(f"limit {name} is {shown(value)}; expected a positive {kind} number")
            object.__setattr__(self, name, limit)


def _seconds(value: object) -> float:
    """NaN for what is no float, also for a fraction or int that rounds to none."""
    try:
        return float(value) if is_number(value) else math.nan  # type: ignore[arg-type]
    except OverflowError:
        return math.nan


def _count(value: object) -> float:
    return int(value) if is_whole(value) else math.nan  # type: ignore[call-overload]


def check_limits(where: str, limits: object) -> None:
    """Refuse values that are not limits."""
    if limits is not None and not isinstance(limits, Limits):
        raise ArgError(f"{where} limits must be Limits or None, found {shown(limits)}")
