"""Tables of a sweep: the identity of a run, the parameters of its workload, and its measures.

Rows depend on the specification and the versions only: wall times are kept elsewhere. Values that
do not apply are null.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow as pa

from stepsim.results import COLUMNS, MEASURES, SCHEMA_VERSION, STALLS_SCHEMA, schema
from stepsim.typed import typed

SWEEP_SCHEMA_VERSION: Final = SCHEMA_VERSION

TABLES: Final = ("failures", "units", "runs")
"""Tables in the order of writing: runs last, because its presence marks the others as complete."""

_IDENTITY: Final = (
    "run", "point", "workload", "workload_digest", "model", "model_json", "parameters", "origins",
    "config", "counting", "machine", "machine_json", "trace", "trace_id", "layer", "step",
    "window", "replicate", "place", "lengths", "lengths_id", "lengths_step", "lengths_window",
    "batch",
)  # fmt: skip
_VERSIONS: Final = ("stepsim_version", "model_version", "versions")
_ALWAYS: Final = (
    "run", "point", "workload", "parameters", "origins", "counting", "machine", "machine_json",
    "status", "stage", "error", "message", "program_hash", "image_hash", *_VERSIONS,
)  # fmt: skip

FAILURES_SCHEMA: Final = schema(
    "sweep.failures", [*_IDENTITY, "stage", "error", "message", "fix", *_VERSIONS], _ALWAYS
)
"""Columns of the runs of a sweep that failed."""

UNIT_ROWS_SCHEMA: Final = pa.schema(
    [COLUMNS["run"].with_nullable(False), *STALLS_SCHEMA],
    metadata={"schema": "stepsim.sweep.units", "schema_version": SWEEP_SCHEMA_VERSION},
)
"""Columns of the units of all runs of a sweep."""


@typed
def runs_schema(parameters: Mapping[str, pa.Field]) -> pa.Schema:
    """Columns of the runs of a workload with these parameters."""
    own: Iterable[pa.Field] = [f for name, f in parameters.items() if name not in _IDENTITY]
    return schema(
        "sweep.runs",
        [
            *_IDENTITY,
            *own,
            "regions_built",
            "active_experts",
            "max_load",
            "fifo_depths",
            "status",
            *MEASURES,
            "program_hash",
            "image_hash",
            *_VERSIONS,
        ],
        _ALWAYS,
    )
