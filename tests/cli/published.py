"""The published points that are run through the command line."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest

__all__ = ["KV", "ROUTING", "canonical_cycles", "needs_shared", "truth"]

SHARED = Path(os.environ.get("STEPSIM_SHARED", Path(__file__).parents[3] / "shared"))
KV = SHARED / "data" / "traces" / "azure_trace"
ROUTING = SHARED / "data" / "traces" / "expert_routing"

needs_shared = pytest.mark.skipif(
    not (KV.is_dir() and ROUTING.is_dir()),
    reason=f"no shared data in {SHARED} (set STEPSIM_SHARED)",
)


def canonical_cycles(point: str) -> int:
    """Cycles of a point under the canonical rules."""
    return int(_row("canonical_cycles.csv", point)["canonical_cycles"])


def truth(point: str) -> dict[str, str]:
    """Published settings and values of a point."""
    return _row("ground_truth.csv", point)


def _row(file: str, point: str) -> dict[str, str]:
    with (SHARED / "data" / file).open(newline="") as lines:
        return next(row for row in csv.DictReader(lines) if row["point_id"] == point)
