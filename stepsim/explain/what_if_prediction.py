"""What the critical path of a run says that a change will bring, to be held against the rerun.

The path stays where it is in this reckoning, and its segments get shorter by what the change
relaxes; work gets shorter only down to what else the operator has to do. No run is predicted to be
shorter than its longest operator works, or than the memory takes for all requests. A change that
moves the path to other operators brings less than predicted, one that shortens what lies beside it
may bring more, and this is what the error of a prediction tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from stepsim.explain.what_if_changes import Change
from stepsim.lowering import TimingParams
from stepsim.simulation.lone_access import lone_access

__all__ = ["Segment", "Work", "predicted_cycles"]

Segment = tuple[str, str, str | None, int]
"""Operator, cause, FIFO and cycles of a segment of a critical path."""

_MODEL_WITHOUT_LIMIT = "uncontended"


class Work(NamedTuple):
    """Cycles that an operator works, and would work with on-chip bandwidth, compute, and both of
    them without limit."""

    busy: int
    compute: int
    onchip: int
    neither: int

    def after(self, factor: float, onchip: float) -> float:
        """Cycles with so many times the compute and the on-chip bandwidth.

        Exact where either of them is without limit. In between, firings that differ in what
        decides how long they take are not told apart.
        """
        floor = max(self.neither, self.compute / factor, self.onchip / onchip)
        mixed = self.busy - max(self.compute, self.onchip)
        return floor + max(0, mixed) / max(factor, onchip)


def predicted_cycles(
    segments: Iterable[Segment],
    change: Change,
    before: TimingParams,
    after: TimingParams,
    works: Mapping[str, Work],
    requests: int = 0,
) -> int | None:
    """Cycles of the run if its critical path stays and its segments shrink.

    Parameters
    ----------
    segments : of the path; those that agree in all but cycles may be added up.
    before, after : timing without and with the change.
    works : of every operator of the run.
    requests : of all operators to the memory.

    Returns
    -------
    None where the path cannot tell, as of another routing, of a wider memory port, or of other
    rules of operators or memory.
    """
    if change.bindings is not None or change.fifo_depth is not None or change.par_dispatch:
        return None
    if "fifo.depth" in change.overrides or after.model != before.model:
        return None
    queue = _rate(before) / _rate(after)
    if after.memory_model != before.memory_model:
        if after.memory_model != _MODEL_WITHOUT_LIMIT:
            return None
        queue = 0.0
    latency = lone_access(after, 1, 1) / lone_access(before, 1, 1)
    wider = after.onchip_bytes_per_cycle / before.onchip_bytes_per_cycle
    working = {
        name: work.after(change.compute.get(name, 1.0), wider) for name, work in works.items()
    }
    total = 0.0
    for operator, cause, fifo, cycles in segments:
        share = 1.0
        if cause == "hbm queue":
            share = queue
        elif cause == "hbm latency":
            share = latency
        elif cause == "work" and operator in works and works[operator].busy:
            share = working[operator] / works[operator].busy
        elif cause == "slot hop" and fifo in change.fifo_depths:
            share = 0.0
        total += share * cycles
    return round(max(total, _bus(requests, after), *working.values()))


def _bus(requests: int, timing: TimingParams) -> int:
    """Cycles from the first to the last request of the channels, if they never rest."""
    if not requests or timing.memory_model == _MODEL_WITHOUT_LIMIT:
        return 0
    return (-(-requests // timing.hbm_channels) - 1) * timing.hbm_interval + 1


def _rate(timing: TimingParams) -> float:
    """Requests per cycle of all channels."""
    return timing.hbm_channels / timing.hbm_interval
