"""The times of a graph of waits, found anew when what lies between them takes less time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from stepsim.kernels.build.entry_point import cached_entry


class TimedWaits(NamedTuple):
    """Waits in the order of time, as columns ``[waits]``; all times are in cycles.

    A wait ends when the unit has worked since its previous wait and made the access that it waits
    for, and not before what it waits for of another unit.

    Attributes
    ----------
    previous : the wait of the same unit before; -1 for none.
    work : of the unit since then.
    access : what an access takes until the memory has all of its requests.
    service : how long the access keeps the memory from the accesses of others.
    after : from the memory's last request to the end of the access.
    peer : the last wait of the other unit before what is waited for; -1 for none.
    other : from then, or from the start of the run, to the end of the wait; below 0 for no other.
    end : when the wait ends; written.
    """

    previous: Any
    work: Any
    access: Any
    service: Any
    after: Any
    peer: Any
    other: Any
    end: Any


_LAYOUT = TimedWaits(
    previous=np.dtype(np.int64), work=np.dtype(np.float64), access=np.dtype(np.float64),
    service=np.dtype(np.float64), after=np.dtype(np.float64), peer=np.dtype(np.int64),
    other=np.dtype(np.float64), end=np.dtype(np.float64),
)  # fmt: skip


def _entry(waits):  # type: ignore[no-untyped-def]
    """Write the end of every wait; returns how many there are."""
    idle = 0.0
    for i in range(len(waits.end)):
        time = waits.work[i]
        if waits.previous[i] >= 0:
            time += waits.end[waits.previous[i]]
        served = time + waits.access[i]
        if waits.service[i] > 0.0:
            idle = max(idle, time) + waits.service[i]
            served = max(served, idle)
        time = served + waits.after[i]
        if waits.other[i] >= 0.0:
            other = waits.other[i]
            if waits.peer[i] >= 0:
                other += waits.end[waits.peer[i]]
            time = max(time, other)
        waits.end[i] = time
    return len(waits.end)


retime: Any = cached_entry(_entry, _LAYOUT, what="timing of recorded waits")
