"""A memory without contention: every access takes its bundles plus the fixed latency.

``f = s + ceil(n / bundle) + D + 2``, the closed form of a lone port. Comparing a run with it shows
how much of the time is contention.
"""

from __future__ import annotations

from typing import Final

from stepsim.kernels.calendar import schedule
from stepsim.kernels.memory.declaration import MemoryModel

UNCONTENDED: Final = MemoryModel(
    "uncontended", "gives every operator a memory of its own", shared=False
)


@UNCONTENDED.issue
def issue(state, port, clock, requests):
    shared = state.globals[0]
    record = state.ports[port]
    bundles = (requests + record.bundle - 1) // record.bundle
    shared.memory_requests += requests
    schedule(state, record.unit, clock + bundles + shared.memory_delay + 2)
