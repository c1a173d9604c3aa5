"""A memory without contention: every access takes its bundles plus the fixed latency.

``f = s + ceil(n / bundle) + D + 2``, the closed form of a lone port. Comparing a run with it shows
how much of the time is contention.
"""

from __future__ import annotations

from stepsim.kernels.calendar import schedule
from stepsim.kernels.jit import kernel

__all__ = ["issue"]


@kernel
def issue(U, H, M, g, port, clock, requests):
    record = M[port]
    bundles = (requests + record.bundle - 1) // record.bundle
    g.mem_requests += requests
    schedule(U, H, g, record.unit, clock + bundles + g.mem_delay + 2)
