"""Building and running workloads on data."""

from __future__ import annotations

from typing import Any

from stepsim import Result, simulate
from stepsim.graph.metrics import BoundMetrics
from stepsim.workloads import Built, Data, Workload

__all__ = ["exact", "run"]


def run(workload: Workload, data: Data, **options: Any) -> tuple[Built, Result]:
    """The built program and its run on the data."""
    built = workload.build(data)
    return built, simulate(built.program, bindings=built.bindings(data), **options)


def exact(built: Built, data: Data, counting: str = "executed") -> BoundMetrics:
    """What the graph says of a run of these data."""
    return built.program.metrics(counting=counting).bind(built.symbols(data))
