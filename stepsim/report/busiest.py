"""The units of a run that worked longest."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BusyUnit", "busiest_units"]


@dataclass(frozen=True, slots=True)
class BusyUnit:
    """One unit's account: cycles that add up to the run, and the peer it waited for longest."""

    name: str
    operator: str
    busy: int
    wait_memory: int
    wait_input: int
    wait_output: int
    before: int
    after: int
    longest_wait: str | None


def busiest_units(units: pa.Table, count: int = 5) -> tuple[BusyUnit, ...]:
    """The ``count`` units of a result that worked longest; ties go by position."""
    rows = units.select([field.name for field in fields(BusyUnit)]).to_pylist()
    rows.sort(key=lambda row: -row["busy"])
    return tuple(BusyUnit(**row) for row in rows[:count])
