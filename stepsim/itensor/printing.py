"""Algorithm 1 of the StreamTensor paper as it is printed: a baseline, not what is used.

It scans data dims instead of loops, on the types as written. It asks for more than the least buffer
in a third of all pairs, and for irregular tilings it can give less than is needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from stepsim.itensor.itensor_type import ITensor

__all__ = ["PrintedChunk", "printed", "printed_with_constants"]


@dataclass(frozen=True)
class PrintedChunk:
    """A chunk as the printed algorithm gives it.

    Attributes
    ----------
    chunk
        Extent along every data dim.
    before_loop
        Number of shared loops: the buffer is inside of these.
    """

    chunk: tuple[int, ...]
    before_loop: int

    @property
    def cells(self) -> int:
        """Elements in one half of the buffer."""
        return math.prod(self.chunk)


def printed(src: ITensor, dst: ITensor) -> PrintedChunk:
    """Algorithm 1 as printed: stops at the first data dim that is not driven alike."""
    return _scan(src, dst, constants=False)


def printed_with_constants(src: ITensor, dst: ITensor) -> PrintedChunk:
    """Algorithm 1 with the branch that its listing lost: equal constant offsets do not stop it."""
    return _scan(src, dst, constants=True)


def _scan(src: ITensor, dst: ITensor, *, constants: bool) -> PrintedChunk:
    chunk: list[int] = []
    positions: list[int] = []
    loops = 0
    for i in range(src.rank):
        if src.element[i] != dst.element[i]:
            break
        driver, constant = _driver(src, i), _constant(src, i)
        if driver is not None and driver == _driver(dst, i):
            positions.append(driver)
            loops += 1
        elif constants and constant is not None and constant == _constant(dst, i):
            positions.append(-1)
        else:
            break
        chunk.append(src.element[i])
    while any(position >= loops for position in positions):
        chunk.pop()
        loops -= positions.pop() >= 0
    return PrintedChunk((*chunk, *src.shape[len(chunk) :]), loops)


def _driver(it: ITensor, dim: int) -> int | None:
    """The loop that alone, with coefficient 1 and no constant, is the offset."""
    coefficients, const = it.map.results[dim]
    driving = [p for p, c in enumerate(coefficients) if c]
    if const or len(driving) != 1 or coefficients[driving[0]] != 1:
        return None
    return driving[0]


def _constant(it: ITensor, dim: int) -> int | None:
    """The offset where no loop moves it."""
    coefficients, const = it.map.results[dim]
    return None if any(coefficients) else const
