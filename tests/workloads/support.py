"""Building and running workloads on data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepsim import Result, simulate
from stepsim.graph.metrics import BoundMetrics
from stepsim.workloads import Built, Data, Workload, fields_of

__all__ = ["exact", "kinds_per_step", "run", "used"]


def run(workload: Workload, data: Data, **options: Any) -> tuple[Built, Result]:
    """The built program and its run on the data."""
    built = workload.build(data)
    return built, simulate(built.program, bindings=built.bindings(data), **options)


def used(
    workload: type[Workload], usual: Mapping[str, Any], changes: Mapping[str, Any]
) -> dict[str, Any]:
    """Parameters with changes, without usual ones that the changes leave without effect."""
    known = fields_of(workload)
    kept = {name: value for name, value in usual.items() if not known[name].unused(changes)}
    return {**kept, **changes}


def exact(built: Built, data: Data, counting: str = "executed") -> BoundMetrics:
    """What the graph says of a run of these data."""
    return built.program.metrics(counting=counting).bind(built.symbols(data))


def kinds_per_step(wiring: Any) -> list[str]:
    """Unit kinds with runs of the same kind collapsed."""
    found: list[str] = []
    for unit in wiring.units:
        if not found or found[-1] != unit.kind:
            found.append(unit.kind)
    return found
