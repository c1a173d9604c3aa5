"""The published points that are run through the command line."""

from __future__ import annotations

from stepsim.reproduce.published import table_rows
from tests.shared import TRACES, needs_traces

__all__ = ["KV", "ROUTING", "canonical_cycles", "needs_traces", "truth"]

KV = TRACES / "azure_trace"
ROUTING = TRACES / "expert_routing"


def canonical_cycles(point: str) -> int:
    """Cycles of a point under the canonical rules."""
    return int(truth(point)["canonical_cycles"])


def truth(point: str) -> dict[str, str]:
    """Published settings and values of a point."""
    return next(row for row in table_rows("point") if row["point_id"] == point)
