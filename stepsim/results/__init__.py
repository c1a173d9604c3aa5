"""Results of runs as Arrow tables."""

from __future__ import annotations

from stepsim.results.columns import COLUMNS, MEASURES, SCHEMA_VERSION
from stepsim.results.diagnosis import Diagnosis, Failure, Wait
from stepsim.results.result import Result, utilization
from stepsim.results.schema import FIFOS_SCHEMA, RUN_SCHEMA, UNITS_SCHEMA

__all__ = [
    "COLUMNS",
    "FIFOS_SCHEMA",
    "MEASURES",
    "RUN_SCHEMA",
    "SCHEMA_VERSION",
    "UNITS_SCHEMA",
    "Diagnosis",
    "Failure",
    "Result",
    "Wait",
    "utilization",
]
