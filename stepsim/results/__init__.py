"""Results of runs as Arrow tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepsim.results import schema
from stepsim.results.columns import COLUMNS, MEASURES, SCHEMA_VERSION
from stepsim.results.diagnosis import ENDED, Diagnosis, Failure, Wait
from stepsim.results.result import Result, utilization
from stepsim.results.tables import Tables

if TYPE_CHECKING:
    from stepsim.results.schema import FIFOS_SCHEMA, RUN_SCHEMA, STALLS_SCHEMA, UNITS_SCHEMA

__all__ = [
    "COLUMNS",
    "ENDED",
    "FIFOS_SCHEMA",
    "MEASURES",
    "RUN_SCHEMA",
    "SCHEMA_VERSION",
    "STALLS_SCHEMA",
    "UNITS_SCHEMA",
    "Diagnosis",
    "Failure",
    "Result",
    "Tables",
    "Wait",
    "utilization",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(schema, name)
