"""The table of operators: every operator of the format that stepsim can read and write."""

from __future__ import annotations

from typing import Final

from stepsim.graph.graph_file import (
    rows_2026,
    rows_compute,
    rows_distribution,
    rows_offchip,
    rows_shape,
)
from stepsim.graph.graph_file.row import Row

ROWS: Final[dict[str, Row]] = {
    **rows_offchip.ROWS, **rows_compute.ROWS, **rows_shape.ROWS, **rows_2026.ROWS,
    **rows_distribution.ROWS,
}  # fmt: skip

UNITS: Final[dict[str, str]] = {unit: name for name, row in ROWS.items() for unit in row.units}
"""Operator of the format by the kind of unit that it is written for."""
