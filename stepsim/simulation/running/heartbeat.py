"""Progress of a run, from the counters that the engine shows when it pauses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stepsim.errors import StepSimError
from stepsim.graph import Program
from stepsim.simulation.running.limits import Progress

__all__ = ["expected_traffic", "heartbeat"]


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
    """Off-chip bytes of a run with these routing indices; None when the graph does not tell."""
    try:
        return int(program.metrics(counting="paper").bind(indices).off_chip_traffic)
    except (StepSimError, TypeError):
        return None
