"""Progress of a run, from the counters that the engine shows when it pauses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stepsim.errors import StepSimError
from stepsim.frozen import frozen
from stepsim.graph import Program


@frozen
class Progress:
    """Progress of a running simulation.

    Attributes
    ----------
    cycle : simulated time reached.
    steps : unit firings so far.
    steps_per_second : rate so far.
    fraction : fraction of the run that is done, in 0..1; None if unknown.
    eta_seconds : estimate of the time left, None if unknown.
    """

    cycle: int
    steps: int
    steps_per_second: float
    fraction: float | None
    eta_seconds: float | None


def heartbeat(
    progress: Callable[[Progress], None] | None, expected: Callable[[], int | None]
) -> Callable[[Any, Any, float], None] | None:
    """What :func:`stepsim.kernels.driver.execute` calls at a pause; None without ``progress``.

    ``expected`` returns the off-chip bytes of the whole run, which the done part is measured by.
    """
    if progress is None:
        return None
    total: list[int | None] = []

    def beat(g: Any, units: Any, seconds: float) -> None:
        if not total:
            total.append(expected())
        steps = int(g.steps)
        fraction = eta = None
        if total[0]:
            fraction = min(int(units["traffic"].sum()) / total[0], 1.0)
            if fraction > 0:
                eta = seconds * (1 - fraction) / fraction
        progress(Progress(int(g.now), steps, steps / max(seconds, 1e-9), fraction, eta))

    return beat


def expected_traffic(program: Program, indices: Mapping[Any, Any]) -> int | None:
    """Off-chip bytes of a run with these routing indices; None if they depend on the run."""
    try:
        return int(program.metrics(counting="paper").bind(indices).off_chip_traffic)
    except (StepSimError, TypeError):
        return None
