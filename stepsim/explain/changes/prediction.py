"""What the recorded waits of a run say that a change will bring, to be held against the rerun.

All waits are timed anew with what the change relaxes: work gets shorter down to what else the
operator has to do, accesses by what the memory gives, and the waits for slots of deeper FIFOs are
gone. The longest chain of waits is the critical path with the change, wherever it is now. No run is
predicted to be shorter than its longest operator works, or than the memory takes for all requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from stepsim.explain.changes.candidates import Change
from stepsim.explain.wait_graph import WITHOUT_LIMIT, WaitGraph
from stepsim.lowering import TimingParams

__all__ = ["Work", "predicted_cycles"]


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
    waits: WaitGraph,
    change: Change,
    after: TimingParams,
    works: Mapping[str, Work],
    requests: int = 0,
) -> int | None:
    """Cycles of the run if its waits end by the same causes as without the change.

    Parameters
    ----------
    waits : of the run.
    after : timing with the change.
    works : of every operator of the run, in its order.
    requests : of all operators to the memory.

    Returns
    -------
    None where the waits cannot tell, as of another routing, of a wider memory port, or of other
    rules of operators or memory.
    """
    before = waits.timing
    if change.bindings is not None or change.fifo_depth is not None or change.par_dispatch:
        return None
    if "fifo.depth" in change.overrides or after.model != before.model:
        return None
    if after.memory_model not in (before.memory_model, WITHOUT_LIMIT):
        return None
    if before.dram is not None:
        return None  # what an access takes depends on all others, by rows and queues
    wider = after.onchip_bytes_per_cycle / before.onchip_bytes_per_cycle
    working = {
        name: work.after(change.compute.get(name, 1.0), wider) for name, work in works.items()
    }
    factors = [working[name] / work.busy if work.busy else 1.0 for name, work in works.items()]
    length = waits.cycles(np.array(factors, np.float64), change.fifo_depths, after)
    return round(max(length, _bus(requests, after), *working.values()))


def _bus(requests: int, timing: TimingParams) -> int:
    """Cycles from the first to the last request of the channels, if they never rest."""
    if not requests or timing.memory_model == WITHOUT_LIMIT:
        return 0
    return (-(-requests // timing.hbm_channels) - 1) * timing.hbm_interval + 1
