"""Ranges of the numbers that tune a program; beyond them a run could not count its cycles."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral

from stepsim.errors import ArgError

__all__ = ["COMPUTE_BW", "FIFO_DEPTH", "MAX_PIECES", "PAR_DISPATCH", "Range", "shown"]

MAX_PIECES = 2**40
"""Most pieces that a stream function may cut from one tile."""

_PRINTED_BITS = 256


@dataclass(frozen=True, slots=True)
class Range:
    """Whole numbers from 1 to ``high``; ``why`` says what they count."""

    high: int
    why: str

    def holds(self, value: object) -> bool:
        """True for an int in the range; bools and floats are none."""
        return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= self.high

    def checked(self, what: str, value: object) -> int:
        """``value`` as an int (numpy integers too); ArgError when it is not in the range."""
        number = int(value) if isinstance(value, Integral) else 0
        if isinstance(value, bool) or not self.holds(number):
            raise ArgError(self.refusal(what, value))
        return number

    def refusal(self, what: str, value: object) -> str:
        """What to say about a value that the range does not hold."""
        top = f"2**{self.high.bit_length() - 1}" if self.high > 4096 else f"{self.high}"
        return f"{what} must be an int from 1 to {top}, found {shown(value)} ({self.why})"


def shown(value: object) -> str:
    """``repr``, but ints too long for a message by their size."""
    if isinstance(value, int) and value.bit_length() > _PRINTED_BITS:
        return f"a number of {value.bit_length()} bits"
    return repr(value)


FIFO_DEPTH = Range(2**40, "elements that a FIFO can hold")
PAR_DISPATCH = Range(4096, "off-chip requests that one operator issues in one cycle")
COMPUTE_BW = Range(2**50, "FLOPs that one operator executes in a cycle")
