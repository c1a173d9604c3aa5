"""The files that stepsim writes and reads again, and the versions that they carry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from stepsim._version import MODEL_VERSION
from stepsim.design.operators import json_file
from stepsim.design.plan import document
from stepsim.noc import placement
from stepsim.pytest_plugin import baselines
from stepsim.results import OUTLINE_VERSION, SCHEMA_VERSION
from stepsim.simulation.programs import fix_file
from stepsim.trace_io.schema import REQUESTS_SCHEMA_VERSION, SCHEMA_VERSION as ROUTING_VERSION

VERSIONS: Final[Mapping[str, str]] = {
    "tables of runs, sweeps, services and networks": SCHEMA_VERSION,
    "outlines of programs in them": str(OUTLINE_VERSION),
    "simulated times": str(MODEL_VERSION),
    "routing traces": str(ROUTING_VERSION),
    "request traces": str(REQUESTS_SCHEMA_VERSION),
    "plans": document.FORMAT,
    "operator graphs": json_file._FORMAT,
    "placements": placement.FORMAT,
    "fixes and FIFO depths": fix_file.FORMAT,
    "baselines of tests": str(baselines._FORMAT),
}
"""By what is in a file; a version rises when files of the one before would be misread."""
