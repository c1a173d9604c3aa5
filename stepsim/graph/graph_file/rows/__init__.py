"""The table of operators: every operator of the format that stepsim can read and write."""

from __future__ import annotations

from typing import Final

from stepsim.graph.graph_file.rows import compute, distribution, offchip, shape, since_2026
from stepsim.graph.graph_file.rows.row import Row

ROWS: Final[dict[str, Row]] = {
    **offchip.ROWS, **compute.ROWS, **shape.ROWS, **since_2026.ROWS, **distribution.ROWS,
}  # fmt: skip

UNITS: Final[dict[str, str]] = {unit: name for name, row in ROWS.items() for unit in row.units}
"""Operator of the format by the kind of unit that it is written for."""
