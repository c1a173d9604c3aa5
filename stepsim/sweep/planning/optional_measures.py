"""Measures that only runs of some sweeps have: energy, the spread of an ensemble, and bounds.

Tables of other sweeps have no columns for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import pyarrow as pa

from stepsim.results import COLUMNS, ENERGY, SERVING, SPREAD
from stepsim.sweep.spec.specification import SweepSpec

_TABLE = "machine.energy."

BOUND: Final = ("resource_kind", "resource_target", "bound_cycles")
"""The largest bound of a run, which is no metric: it says what bounds the run."""


def optional_measures(spec: SweepSpec, machines: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """The optional measures that runs of a specification have.

    Parameters
    ----------
    machines : values of the machines of its design points, as returned by `Machine.to_dict`.
    """
    if spec.service is not None:
        return tuple(name for name in SERVING if spec.metrics is None or name in spec.metrics)
    keys = [
        *spec.parameters,
        *spec.grid,
        *spec.replicates,
        *(key for point in spec.points for key in point),
    ]
    energy = any("energy" in machine for machine in machines)
    energy = energy or any(key.startswith(_TABLE) for key in keys)
    found = [name for name in ENERGY * energy if spec.metrics is None or name in spec.metrics]
    # What further runs are made for is kept whatever the metrics are.
    return (*found, *SPREAD * (spec.ensemble is not None), *BOUND * spec.bounds)


def measure_problems(spec: SweepSpec, measures: Iterable[str]) -> list[str]:
    """Problems with requested metrics that no run can have, in sentences."""
    problems = []
    absent = [name for name in spec.metrics or () if name not in measures]
    if spec.service is not None:
        if absent:
            problems.append(
                f"metrics: services have no {', '.join(absent)}; choose among {', '.join(SERVING)}"
            )
        return problems
    if lost := [name for name in absent if name in SERVING]:
        problems.append(
            f"metrics: only services have {', '.join(lost)}; give the key service in place of "
            "workload, or leave them out"
        )
    if lost := [name for name in absent if name in ENERGY]:
        problems.append(
            f"metrics: no machine of the sweep has a table of energies, which {', '.join(lost)} "
            "needs; add a section energy to it, or leave them out"
        )
    if lost := [name for name in absent if name in SPREAD]:
        problems.append(
            f"metrics: {', '.join(lost)} needs an ensemble; add the key ensemble, or leave them out"
        )
    return problems


def measure_columns(measures: Iterable[str]) -> dict[str, pa.Field]:
    """Columns of optional measures, by name."""
    return {name: COLUMNS[name] for name in measures}
