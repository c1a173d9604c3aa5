"""Where recorded inputs are: the shared data folder, or for traces what `stepsim data` fetched.

The shared folder is ``$STEPSIM_SHARED``, by default ``shared`` next to the repository.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stepsim.data import data_folder, datasets, is_fetched

__all__ = [
    "DATA",
    "NO_TRACES",
    "RAMULATOR",
    "STREAMTENSOR_CASES",
    "TRACES",
    "needs_data",
    "needs_traces",
]

SHARED = Path(os.environ.get("STEPSIM_SHARED", Path(__file__).resolve().parents[2] / "shared"))
DATA = SHARED / "data"
"""Everything that was collected: published numbers, cases, traces."""

RAMULATOR = Path(os.environ.get("STEPSIM_RAMULATOR", DATA / "ramulator2"))
"""Recorded runs of Ramulator 2.0: every ``.csv`` with the columns of its grids is replayed."""

STREAMTENSOR_CASES = Path(os.environ.get("STEPSIM_STREAMTENSOR_CASES", DATA / "streamtensor"))
"""Cases of typed streams and dataflow designs with expected values, found independently."""


def _traces() -> Path:
    shared = DATA / "traces"
    fetched = not shared.is_dir() and all(map(is_fetched, datasets().values()))
    return data_folder() / "traces" if fetched else shared


TRACES = _traces()
"""The recorded traces, all of them; the folder does not exist when they are not at hand."""

needs_data = pytest.mark.skipif(
    not (DATA / "ground_truth.csv").is_file(),
    reason=f"no shared data in {DATA}; set STEPSIM_SHARED",
)

NO_TRACES = f"no shared traces in {TRACES}; set STEPSIM_SHARED, or run: stepsim data fetch all"

needs_traces = pytest.mark.skipif(not TRACES.is_dir(), reason=NO_TRACES)
