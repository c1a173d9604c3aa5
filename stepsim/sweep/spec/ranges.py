"""Ranges of axes: ``{from: 4, to: 64, step: 4}`` and ``{from: 2, to: 64, factor: 2}``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic_core import PydanticCustomError

from stepsim.shown import shown
from stepsim.wording import STATED

_KEYS: Final = {"from", "to", "step", "factor"}
_MOST = 10_000
_SLACK = 1e-9
"""Tolerance, as a fraction of a step: 0.1, 0.2 and so on reach 1.0 although they are rounded."""


def listed_range(value: Any) -> Any:
    """The values of a range as a list; anything but a mapping is returned as it is.

    Integers stay integers. The end is part of the range where a step reaches it.

    Raises
    ------
    PydanticCustomError
        The mapping is not a range, or the range is empty or too large.
    """
    if not isinstance(value, Mapping):
        return value
    how = [key for key in ("step", "factor") if key in value]
    numbers = all(
        isinstance(one, int | float) and not isinstance(one, bool) and abs(one) < math.inf
        for one in value.values()
    )
    if not {"from", "to"} <= value.keys() <= _KEYS or len(how) > 1 or not numbers:
        raise _wrong("expected a list, or numbers from, to, and step or factor", value)
    try:
        return _values(value, how)
    except OverflowError:  # of a float, and where a number of values is infinite
        raise _wrong(
            f"expected at most {_MOST:,} values, and from and to whose ratio and difference are "
            "below 1e308",
            value,
        ) from None


def _values(value: Mapping[str, Any], how: Sequence[str]) -> list[int | float]:
    """The values of a range of numbers."""
    first, last = value["from"], value["to"]
    if how == ["factor"]:
        by = value["factor"]
        if not (by > 1 and 0 < first <= last):
            raise _wrong("expected 0 < from <= to and a factor above 1", value)
        count = math.floor(math.log(last / first) / math.log(by) + _SLACK) + 1
    else:
        by = value.get("step", 1)
        if not (by > 0 and first <= last):
            raise _wrong("expected from <= to and a step above 0", value)
        count = math.floor((last - first) / by + _SLACK) + 1
    if count > _MOST:
        raise _wrong(f"expected at most {_MOST:,} values, found {count:,}", value)
    if how == ["factor"]:
        return [_rounded(first * by**i, value) for i in range(count)]
    return [_rounded(first + by * i, value) for i in range(count)]


def _rounded(number: float, given: Mapping[str, Any]) -> int | float:
    """The value without binary rounding noise; an int if all given numbers are."""
    return (
        number if all(isinstance(one, int) for one in given.values()) else float(f"{number:.12g}")
    )


def _wrong(what: str, value: Mapping[str, Any]) -> PydanticCustomError:
    given = ", ".join(f"{key}: {shown(one, str)}" for key, one in value.items())
    # It takes every brace for one of a name, also doubled ones.
    found = {"what": what, "shown": f"{{{given}}}"}
    return PydanticCustomError(STATED, "{what}, found {shown}", found)
