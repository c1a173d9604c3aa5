"""Recorded inputs of others: the shared data folder, or for traces what `stepsim data` fetched.

The shared folder is ``$STEPSIM_SHARED``, by default ``shared`` next to the repository. Tests that
need it have the marker ``recorded``, which is all that chooses them: `make test` leaves them out,
`make test-recorded` runs them. They get it from `recorded` and the ``needs_...`` here, or by taking
a fixture whose name begins with ``recorded_``.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stepsim.data import data_folder, datasets, is_fetched

__all__ = [
    "DATA",
    "FIXTURES",
    "NOC_CASES",
    "NO_TRACES",
    "RAMULATOR",
    "REFERENCE_CASES",
    "SCHEDULER_CASES",
    "SERVING_METRICS",
    "SERVING_RUNS",
    "STREAMTENSOR_CASES",
    "TRACES",
    "needs_data",
    "needs_traces",
    "recorded",
]

SHARED = Path(os.environ.get("STEPSIM_SHARED", Path(__file__).resolve().parents[2] / "shared"))
DATA = SHARED / "data"
"""Everything that was collected: published numbers, cases, traces."""

RAMULATOR = Path(os.environ.get("STEPSIM_RAMULATOR", DATA / "ramulator2"))
"""Recorded runs of Ramulator 2.0: every ``.csv`` with the columns of its grids is replayed."""

REFERENCE_CASES = Path(os.environ.get("STEPSIM_REFERENCE_CASES", DATA / "reference"))
"""Graph files that the public simulator has timed, with ``cases.csv``: every row is replayed."""

STREAMTENSOR_CASES = Path(os.environ.get("STEPSIM_STREAMTENSOR_CASES", DATA / "streamtensor"))
"""Cases of typed streams and dataflow designs with expected values, found independently."""

SERVING_METRICS = Path(os.environ.get("STEPSIM_SERVING_METRICS", DATA / "serving" / "metrics"))
"""Cases of vLLM's benchmark: metrics, arrivals and lengths; every ``.jsonl`` is replayed."""

SERVING_RUNS = Path(os.environ.get("STEPSIM_SERVING_RUNS", DATA / "serving" / "runs"))
"""Recorded runs of a serving simulator on profiled tables, and of real GPUs beside them."""
SCHEDULER_CASES = Path(os.environ.get("STEPSIM_SERVING_SCHEDULER", DATA / "serving" / "scheduler"))
"""Decisions of vLLM's scheduler: every case of every ``.jsonl`` is replayed."""

NOC_CASES = Path(os.environ.get("STEPSIM_NOC_CASES", DATA / "noc" / "cases"))
"""Cases of networks: every file is replayed."""

FIXTURES = "recorded_"
"""How the names of fixtures begin that read recorded traces."""


def _traces() -> Path:
    shared = DATA / "traces"
    fetched = not shared.is_dir() and all(map(is_fetched, datasets().values()))
    return data_folder() / "traces" if fetched else shared


TRACES = _traces()
"""The recorded traces, all of them; the folder does not exist when they are not at hand."""

NO_TRACES = f"no shared traces in {TRACES}; set STEPSIM_SHARED, or run: stepsim data fetch all"


def recorded(path: Path, reason: str | None = None) -> pytest.MarkDecorator:
    """Mark tests that need a recorded file or folder; they are skipped where it is absent."""
    return pytest.mark.recorded(path, reason or f"no shared data: {path}; set STEPSIM_SHARED")


needs_data = recorded(DATA / "ground_truth.csv")

needs_traces = recorded(TRACES, NO_TRACES)
