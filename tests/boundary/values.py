"""Values that nobody passes on purpose."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np

__all__ = ["VALUES"]

_DEEP = 20_000
"""Lists in lists: far more than Python follows by recursion."""

_HUGE = 10**5000
"""More digits than Python writes out."""


def _nested() -> Any:
    found: list[Any] = []
    for _ in range(_DEEP):
        found = [found]
    return found


VALUES: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "True": lambda: True,
    "-1": lambda: -1,
    "2.5": lambda: 2.5,
    "nan": lambda: math.nan,
    "inf": lambda: math.inf,
    "2**62": lambda: 2**62,
    "10**5000": lambda: _HUGE,
    "a huge Decimal": lambda: Decimal("1e999999999"),
    "1j": lambda: 1j,
    "no text": lambda: "",
    "text": lambda: "x",
    "text with a zero": lambda: "a\0b",
    "half a character": lambda: "\ud800",
    "bytes": lambda: b"x",
    "no list": list,
    "no mapping": dict,
    "[None]": lambda: [None],
    "[1, [2]]": lambda: [1, [2]],
    "[10**5000]": lambda: [_HUGE],
    "a deep list": _nested,
    "{'x': 10**5000}": lambda: {"x": _HUGE},
    "{'x': a deep list}": lambda: {"x": _nested()},
    "array": lambda: np.array([[1.5]]),
    "object": object,
    "type": lambda: Exception,
}
