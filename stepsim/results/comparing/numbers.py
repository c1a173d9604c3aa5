"""A number of two runs: by how much it changed, and whether that is better, worse or noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal

from stepsim.results.columns import Direction

OF_CYCLES: Final = ("cycles", "cycles_median")
"""Metrics that the spread of an ensemble is about."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far a number may be from the one before: the larger of a share of it and an amount."""

    relative: float = 0.0
    absolute: float = 0.0

    def judge(
        self, before: float | None, after: float | None, better: Direction
    ) -> Literal["within", "better", "worse"]:
        """Whether a number changed by more than this, and to which side.

        A number that is known in one run alone, or finite there alone, is worse.
        """
        known = [value is not None and math.isfinite(value) for value in (before, after)]
        if before is None or after is None or not all(known):
            return "worse" if any(known) else "within"
        # As numbers are written: in floating point, 0.29 x 100 is less than 29.
        first, second = Fraction(str(before)), Fraction(str(after))
        apart = abs(second - first)
        if apart <= self.absolute or (first and float(apart / abs(first)) <= self.relative):
            return "within"
        return "better" if (second < first) == (better == "smaller") else "worse"

    def __str__(self) -> str:
        parts = [f"{self.relative:.4g}"] * bool(self.relative)
        parts += [f"{self.absolute:,g}"] * bool(self.absolute)
        return " or ".join(parts) or "0"


def ratio(before: float, after: float) -> float | None:
    """``after / before``; None where there is no such number."""
    return after / before if before else None


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean of numbers above 0."""
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def worsening(before: float, after: float, better: Direction | None) -> float:
    """How much worse a number became, on a scale on which twice and half are as far from equal.

    Where it is not known what is better, how much it changed.
    """
    if before == after:
        return 0.0
    both = before > 0 and after > 0
    growth = math.log(after / before) if both else math.copysign(math.inf, after - before)
    if better is None:
        return abs(growth)
    return growth if better == "smaller" else -growth


def within_spread(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool | None:
    """Whether the cycles of two rows differ within the spread of their ensembles.

    None where one of them has no ensemble.
    """
    p5, p95, low, high = (
        one.get(name) for one in (before, after) for name in ("cycles_p5", "cycles_p95")
    )
    if p5 is None or p95 is None or low is None or high is None:
        return None
    return bool(p5 <= high and low <= p95)
