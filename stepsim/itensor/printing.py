"""Algorithm 1 of the StreamTensor paper as printed there: a baseline, not the algorithm in use.

It scans data dims instead of loops, on the types as written. For a third of all pairs it asks for
more than the least buffer, and for irregular tilings it can give less than is needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from stepsim.itensor.itensor_type import ITensor
from stepsim.typed import typed


@dataclass(frozen=True)
class PrintedChunk:
    """The chunk given by the printed algorithm.

    Attributes
    ----------
    chunk
        Extent along every data dim.
    before_loop
        Number of shared loops: the buffer is inside these loops.
    """

    chunk: tuple[int, ...]
    before_loop: int

    @property
    def cells(self) -> int:
        """Elements in one half of the buffer."""
        return math.prod(self.chunk)


@typed
def printed(src: ITensor, dst: ITensor) -> PrintedChunk:
    """Algorithm 1 as printed: stops at the first data dim that is driven differently."""
    return _scan(src, dst, constants=False)


@typed
def printed_with_constants(src: ITensor, dst: ITensor) -> PrintedChunk:
    """Algorithm 1 with the branch missing in its listing: equal constant offsets do not stop it."""
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
    """The loop that equals the offset, with coefficient 1 and no constant; None if there is
    none."""
    coefficients, const = it.map.results[dim]
    driving = [p for p, c in enumerate(coefficients) if c]
    if const or len(driving) != 1 or coefficients[driving[0]] != 1:
        return None
    return driving[0]


def _constant(it: ITensor, dim: int) -> int | None:
    """The offset if no loop changes it."""
    coefficients, const = it.map.results[dim]
    return None if any(coefficients) else const
