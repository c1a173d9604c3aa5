"""Checks of users' arguments: whole numbers in a range, lists of them, switches and names."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any, ParamSpec, TypeVar, cast

from stepsim.errors import ArgError
from stepsim.frozen import frozen
from stepsim.shown import shown as shown
from stepsim.typed import is_number as is_number

AUTO_DEPTH = "auto"
"""Given in place of a FIFO depth: a depth for each FIFO, with the fewest bytes in total."""

_LARGEST = 3.4028235e38


_P = ParamSpec("_P")
_R = TypeVar("_R")


def moved(**instead: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Refuse arguments that a function once had, with what to do instead, by name."""

    def wrap(function: Callable[_P, _R]) -> Callable[_P, _R]:
        @functools.wraps(function)
        def call(*args: _P.args, **given: _P.kwargs) -> _R:
            for name in given:
                if name in instead:
                    raise ArgError(
                        f"{function.__name__}: there is no argument {name!r} any more; "
                        f"{instead[name]}"
                    )
            return function(*args, **given)

        return call

    return wrap


def counted(count: int, noun: str) -> str:
    """``1 state`` or ``2 states``."""
    return f"{count} {noun}{'s' * (count != 1)}"


@frozen
class Range:
    """Whole numbers from ``low`` to ``high``; ``why`` says what they count."""

    high: int
    why: str
    low: int = 1

    def holds(self, value: object) -> bool:
        """True for an int in the range, including numpy integers but not bools or floats."""
        return is_whole(value) and self.low <= int(cast(Integral, value)) <= self.high

    def checked(self, what: str, value: object) -> int:
        """``value`` as an int (numpy integers too); ArgError when it is not in the range."""
        # Programs of thousands of operators are built in milliseconds: the usual case comes first.
        if type(value) is int and self.low <= value <= self.high:
            return value
        if not self.holds(value):
            raise ArgError(self.refusal(what, value))
        return int(cast(Integral, value))

    def list(self, what: str, values: object) -> tuple[int, ...]:
        """A sequence or one-dimensional array of such numbers; ArgError for anything else."""
        if type(values) is tuple and all(
            type(v) is int and self.low <= v <= self.high for v in values
        ):
            return values
        if not _is_list(values):
            raise ArgError(f"{what} must be a list of ints, found {shown(values)} ({self.why})")
        return tuple(self.checked(f"{what}[{i}]", v) for i, v in enumerate(cast(Any, values)))

    def pair(self, what: str, values: object) -> tuple[int, int]:
        """Two such numbers: rows and columns."""
        if type(values) is tuple and len(values) == 2:
            rows, cols = values
            if (
                type(rows) is type(cols) is int
                and self.low <= min(values) <= max(values) <= self.high
            ):
                return rows, cols
        if not _is_list(values) or len(cast(Any, values)) != 2:
            raise ArgError(f"{what} must be two ints (rows, columns), found {shown(values)}")
        rows, cols = self.list(what, values)
        return rows, cols

    def refusal(self, what: str, value: object) -> str:
        """The message about a value that is not in the range."""
        return (
            f"{what} must be an int from {self.low} to {_limit(self.high)}, found {shown(value)} "
            f"({self.why})"
        )


def _is_list(values: object) -> bool:
    """A sequence that is not text, or a one-dimensional array."""
    flat = isinstance(values, Sequence) and not isinstance(values, str | bytes)
    return flat or getattr(values, "ndim", None) == 1


def _limit(number: int) -> str:
    """A limit in a message: large powers of two, and numbers just below them, as powers."""
    for below in (0, 1):
        power = number + below
        if number > 4096 and power & (power - 1) == 0:
            return f"2**{power.bit_length() - 1}" + (" - 1" if below else "")
    return f"{number}"


def is_whole(value: object) -> bool:
    """Whether it is an int, including numpy integers but not bools."""
    return type(value) is int or (isinstance(value, Integral) and not isinstance(value, bool))


def is_depth_plan(value: object) -> bool:
    """Whether the value of a FIFO depth is a text that asks for one depth per FIFO, or a file."""
    return isinstance(value, str) and (
        value == AUTO_DEPTH or value.lower().endswith((".yaml", ".yml"))
    )


def scalar(what: str, value: object) -> float:
    """``value`` as a float that f32 can hold, infinities included; ArgError for anything else."""
    if not is_number(value):
        raise ArgError(f"{what} must be a number, found {shown(value)}")
    number = float(cast(Real, value))
    if _LARGEST < abs(number) < math.inf:
        raise ArgError(
            f"{what} must be a number that f32 can hold, found {shown(value)}; math.inf is infinity"
        )
    return number


def flag(what: str, value: object) -> bool:
    """``value`` as a bool; ArgError for anything else, numbers and texts included."""
    if value is True or value is False:
        return value
    of_numpy = getattr(getattr(value, "dtype", None), "kind", "") == "b"
    if not of_numpy or getattr(value, "ndim", None) != 0:
        raise ArgError(f"{what} must be True or False, found {shown(value)}")
    return bool(value)


def text_of(what: str, value: object) -> str:
    """``value`` as a text that can be encoded as UTF-8; ArgError for anything else."""
    if not isinstance(value, str):
        raise ArgError(f"{what} must be a string, found {shown(value)}")
    if value.isascii():
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ArgError(
            f"{what} must be a string that can be written as UTF-8, found {shown(value)}"
        ) from None
    return value


def label_of(what: str, value: object) -> str | None:
    """``value`` as a name for reports; ArgError unless it is a string or None."""
    if value is not None and not isinstance(value, str):
        raise ArgError(f"{what} must be a string or None, found {shown(value)}")
    return None if value is None else text_of(what, value)
