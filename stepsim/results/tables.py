"""The tables of a run, made from its columns on first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from stepsim.arrow import pa
from stepsim.results import schemas
from stepsim.results.arrays import arrow_table
from stepsim.results.columns import COLUMNS, ENERGY

Columns = Mapping[str, Any]


class Tables:
    """The units and FIFOs of a run as columns by name, and as Arrow tables.

    Most runs are read only for their totals; they need neither the names of thousands of units nor
    Arrow.

    Parameters
    ----------
    units, fifos : functions that give the columns of `UNITS_SCHEMA` and `FIFOS_SCHEMA`.
    """

    def __init__(self, units: Callable[[], Columns], fifos: Callable[[], Columns]) -> None:
        self._units = units
        self._fifos = fifos

    @cached_property
    def unit_columns(self) -> Columns:
        """The stall breakdown of every unit, by column; the arrays are read-only."""
        columns = self._units()
        for column in columns.values():
            # The Arrow table shares this memory.
            if isinstance(column, np.ndarray):
                column.setflags(write=False)
        return columns

    @cached_property
    def units(self) -> pa.Table:
        """The same as an Arrow table."""
        columns = self.unit_columns
        known = schemas.ENERGY_UNITS_SCHEMA if ENERGY[0] in columns else schemas.UNITS_SCHEMA
        if "chip" in columns:
            # Of programs on several chips; the others have no such column.
            known = known.append(COLUMNS["chip"].with_nullable(False))
        return arrow_table(columns, known)

    @cached_property
    def fifos(self) -> pa.Table:
        """Tokens and waits of every FIFO, as an Arrow table."""
        return arrow_table(self._fifos(), schemas.FIFOS_SCHEMA)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tables):
            return NotImplemented
        return bool(self.units == other.units and self.fifos == other.fifos)

    __hash__ = None  # type: ignore[assignment]

    def __getstate__(self) -> dict[str, Any]:
        return {"_units": self._units, "_fifos": self._fifos}
