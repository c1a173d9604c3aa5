"""Headline numbers: each a function of the named points that it is computed from."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stepsim.errors import did_you_mean

_LISTED = 40
"""Largest number of names that a message lists."""


class MissingNumber(LookupError):
    """A point is not among the rows, or has no such value."""


class UnknownName(MissingNumber):
    """A name that does not occur in any row; the text lists the known names."""


class Numbers:
    """Values of points by name: ours, or with ``prefix="published_"`` the published ones."""

    def __init__(self, rows: Iterable[Mapping[str, Any]], prefix: str = "") -> None:
        self._rows = {str(row["point_id"]): row for row in rows}
        self._prefix = prefix

    def of(self, point: str, column: str) -> float:
        """A value.

        Raises
        ------
        UnknownName : there is no such point, or no such column.
        MissingNumber : the value is missing, for example because the run failed.
        """
        if point not in self._rows:
            raise UnknownName(_unknown("point", point, self._rows))
        row = self._rows[point]
        if not self._prefix and column not in row:
            raise UnknownName(_unknown(f"column of {point}", column, row))
        value = row.get(self._prefix + column)
        if value is None:
            raise MissingNumber(f"{point}: {column}")
        return float(value)

    def cycles(self, point: str) -> float:
        return self.of(point, "cycles")

    def onchip(self, point: str) -> float:
        return self.of(point, "onchip_bytes")

    def speedup(self, over: str, point: str) -> float:
        """Cycles of ``over`` divided by those of ``point``."""
        return self.cycles(over) / self.cycles(point)

    def saving(self, over: str, point: str, column: str = "onchip_bytes") -> float:
        """Bytes of ``over`` divided by those of ``point``."""
        return self.of(over, column) / self.of(point, column)

    def hardware(self, prefix: str = "") -> tuple[list[float], list[float]]:
        """Simulated and hardware cycles of the points with a prefix that have hardware cycles."""
        known = [
            name
            for name, row in self._rows.items()
            if name.startswith(prefix) and row.get("hdl_cycles") is not None
        ]
        if len(known) < 2:
            raise MissingNumber("hardware cycles")
        return [self.cycles(name) for name in known], [
            float(self._rows[name]["hdl_cycles"]) for name in known
        ]


def _unknown(what: str, name: str, known: Iterable[str]) -> str:
    names = list(known)
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    listed = ", ".join(names[:_LISTED]) or "none"
    return f"no {what} is named '{name}'{did_you_mean(name, names)} Known are {listed}{more}"


@dataclass(frozen=True, slots=True)
class Headline:
    """A number of the paper.

    Attributes
    ----------
    figure, claim : the keys of its row in the table of headlines.
    value : computes one or more numbers from the points. Raises MissingNumber.
    excess : the numbers are percentages above 100; deviations are relative to the whole.
    note : why ours is not comparable.
    same_points : prefix of the names of its points, where the published value is recomputed over
        those with hardware cycles, since the value of the table covers more points.
    """

    figure: str
    claim: str
    unit: str
    value: Callable[[Numbers], tuple[float, ...]]
    excess: bool = False
    note: str = ""
    same_points: str = ""

    def deviation(self, ours: Sequence[float], theirs: Sequence[float]) -> float | None:
        """The largest relative difference; None when the numbers cannot be paired."""
        if len(ours) != len(theirs) or not ours:
            return None
        if self.excess:
            ours, theirs = [100 + a for a in ours], [100 + b for b in theirs]
        return max((a / b - 1 for a, b in zip(ours, theirs, strict=True)), key=abs)


def correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Pearson's correlation coefficient."""
    mean_a, mean_b = math.fsum(a) / len(a), math.fsum(b) / len(b)
    pairs = [(x - mean_a, y - mean_b) for x, y in zip(a, b, strict=True)]
    covariance = math.fsum(x * y for x, y in pairs)
    return covariance / math.sqrt(
        math.fsum(x * x for x, _ in pairs) * math.fsum(y * y for _, y in pairs)
    )


def mean_error(ours: Sequence[float], reference: Sequence[float]) -> float:
    """Mean of the absolute relative differences, a fraction."""
    return math.fsum(abs(a / b - 1) for a, b in zip(ours, reference, strict=True)) / len(ours)


def ratio(figure: str, claim: str, value: Callable[[Numbers], float], **more: Any) -> Headline:
    """A single number, by default a ratio. ``more`` are fields of Headline."""
    unit = more.pop("unit", "x")
    return Headline(figure, claim, unit, lambda n: (value(n),), **more)


def excess(figure: str, claim: str, point: str, over: str, note: str = "") -> Headline:
    """Percentage by which ``point`` takes longer than ``over``."""
    return ratio(
        figure, claim, lambda n: 100 * (n.speedup(point, over) - 1),
        unit="%", excess=True, note=note,
    )  # fmt: skip


def share(figure: str, claim: str, column: str, point: str, over: str, note: str = "") -> Headline:
    """Percentage by which ``point`` is below ``over``."""
    return ratio(
        figure, claim, lambda n: 100 * (1 - n.of(point, column) / n.of(over, column)),
        unit="%", note=note,
    )  # fmt: skip
