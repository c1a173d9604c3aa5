"""Limits on the size of a sweep, checked before time or memory is spent on it."""

from __future__ import annotations

from typing import Final

from stepsim.errors import SweepError

MOST_POINTS: Final = 100_000
MOST_TRACES: Final = 1_000_000
MOST_RUNS: Final = 10_000_000
MOST_VALUES: Final = 1_000_000
"""Limit on the values of a list, a range or an array in a specification."""
MOST_DRAWN: Final = 1 << 32
"""Choices of experts in all synthetic tables together; planning draws each of them once."""


class TooMany:
    """A placeholder for too many values to list; messages show their number."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __repr__(self) -> str:
        return f"{self._count:,} values, more than the {MOST_VALUES:,} that a list may have"


def check_size(key: str, count: int, most: int, what: str, cure: str) -> None:
    """Refuse a sweep that is too large.

    Raises
    ------
    SweepError
        There are more than ``most``.
    """
    if count > most:
        raise SweepError(f"{key}: {count:,} {what}, expected at most {most:,}; {cure}")
