"""Limits of a run and its progress reports."""

from __future__ import annotations

from dataclasses import dataclass

from stepsim.errors import ArgError

__all__ = ["Limits", "Progress"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a run; one that reaches a limit ends with status "limit" and what is known so far.

    Attributes
    ----------
    max_cycles : simulated time.
    max_steps : unit firings.
    max_wall_seconds : time of the simulation, checked a few times per second.
    """

    max_cycles: int | None = None
    max_steps: int | None = None
    max_wall_seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("max_cycles", "max_steps", "max_wall_seconds"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ArgError(f"limit {name} is {value}; expected a positive number")


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a running simulation.

    Attributes
    ----------
    cycle : simulated time reached.
    steps : unit firings so far.
    steps_per_second : rate so far.
    fraction : done part of the run in 0..1, None when it is unknown.
    eta_seconds : estimate of what is left, None when it is unknown.
    """

    cycle: int
    steps: int
    steps_per_second: float
    fraction: float | None
    eta_seconds: float | None
