"""The published points: settings and values of the shipped table, and recorded traces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepsim.reproduce.published import table_rows
from tests.shared import TRACES


@dataclass(frozen=True)
class Point:
    """One published run: settings by column name, and the cycles it took.

    Attributes
    ----------
    published : cycles of the published run, which is not deterministic.
    canonical : cycles under the canonical rules.
    """

    name: str
    row: dict[str, str]
    published: int
    canonical: int

    @property
    def batch(self) -> int:
        """Requests or rows; micro-batches are added up."""
        return sum(int(part) for part in self.row["batch"].split("+"))

    @property
    def tile(self) -> int | str:
        text = self.row["tile_N"]
        return text if text == "dynamic" else int(text)

    def number(self, column: str) -> int | None:
        """An integer column, None where the point has no value."""
        text = self.row[column]
        return int(text) if text else None

    @property
    def trace(self) -> Path:
        """The input trace; a note on how much of it is used follows the name in the table."""
        return TRACES / self.row["trace_file"].split(" ")[0]


@cache
def values() -> dict[str, dict[str, str]]:
    """Settings and values of every point by its name, cycles known or not."""
    return {row["point_id"]: row for row in table_rows("point")}


@cache
def all_points() -> tuple[Point, ...]:
    """Every point with canonical cycles."""
    return tuple(
        Point(name, row, int(row["cycles"]), int(row["canonical_cycles"]))
        for name, row in values().items()
        if row["canonical_cycles"]
    )


def points(choose: Callable[[Point], bool]) -> Any:
    """Parametrize a test over the chosen points."""
    chosen = [p for p in all_points() if choose(p)]
    return pytest.mark.parametrize("point", chosen, ids=[p.name for p in chosen])


@cache
def routing_indices(path: Path) -> np.ndarray[Any, Any]:
    """A recorded routing ``[batch, K]``."""
    with np.load(path) as file:
        indices: np.ndarray[Any, Any] = file["data"]
        return indices


@cache
def kv_lengths(path: Path) -> np.ndarray[Any, Any]:
    """Recorded KV-cache lengths ``[requests]``."""
    lengths: np.ndarray[Any, Any] = np.load(path)
    return lengths
