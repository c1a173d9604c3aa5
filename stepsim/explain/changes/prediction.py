"""The gain of a change predicted from the recorded waits of a run, for comparison with the rerun.

All waits are retimed under the change: work shrinks until something else in the operator limits it,
accesses take what the changed memory needs, and waits for slots of deeper FIFOs disappear. The
longest chain of waits is then the critical path with the change. The prediction is never shorter
than the work of the busiest operator, or than the memory needs for all requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from stepsim.explain.changes.candidates import Change
from stepsim.explain.wait_graph import WITHOUT_LIMIT, WaitGraph
from stepsim.lowering import TimingParams


class Work(NamedTuple):
    """Cycles that an operator works now, and would with on-chip bandwidth, compute, and both
    unlimited."""

    busy: int
    compute: int
    onchip: int
    neither: int

    def after(self, factor: float, onchip: float) -> float:
        """Cycles with these multiples of the compute and the on-chip bandwidth.

        Exact if either of them is unlimited. In between, firings limited by different resources are
        not distinguished.
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
    """Cycles of the run if its waits end for the same causes as without the change.

    Parameters
    ----------
    waits : waits of the run.
    after : timing with the change.
    works : work of every operator of the run, in order.
    requests : number of requests of all operators to the memory, of several the busiest one.

    Returns
    -------
    None if the waits cannot predict it, as with another routing, a wider memory port, or other
    rules of operators or memory.
    """
    before = waits.timing
    if change.bindings is not None or change.fifo_depth is not None or change.par_dispatch:
        return None
    of_network = any(key.startswith(("noc.", "chips.")) for key in change.overrides)
    if change.place is not None or of_network:
        return None  # when packets arrive depends on all others
    if "fifo.depth" in change.overrides or after.model != before.model:
        return None
    if after.memory_model not in (before.memory_model, WITHOUT_LIMIT):
        return None
    if before.chips > 1 and waits.changes_rate(after):
        return None  # requests of the memories of several chips do not wait for each other
    if before.dram is not None:
        return None  # the time of an access depends on all others, through rows and queues
    if before.outstanding is not None or after.outstanding is not None:
        return None  # when a request is issued depends on the responses of earlier ones
    wider = after.onchip_bytes_per_cycle / before.onchip_bytes_per_cycle
    working = {
        name: work.after(change.compute.get(name, 1.0), wider) for name, work in works.items()
    }
    factors = [working[name] / work.busy if work.busy else 1.0 for name, work in works.items()]
    length = waits.cycles(np.array(factors, np.float64), change.fifo_depths, after)
    return round(max(length, _bus(requests, after), *working.values()))


def _bus(requests: int, timing: TimingParams) -> int:
    """Cycles from the first to the last request of the channels, if they are never idle."""
    if not requests or timing.memory_model == WITHOUT_LIMIT:
        return 0
    return (-(-requests // timing.hbm_channels) - 1) * timing.hbm_interval + 1
