"""The least buffer between two streams by enumeration, the reference for the rules.

A cut point is a pair of prefixes of both streams with the same cells, none of which is sent or read
later. The cells between two consecutive cut points must be buffered. Every token is enumerated, so
this is for streams of up to a few million cells.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepsim.errors import ITensorError
from stepsim.itensor.converters import require_one_tensor
from stepsim.itensor.itensor_type import ITensor
from stepsim.typed import typed

_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class CutPoints:
    """All cut points of two streams over one tensor.

    Attributes
    ----------
    cells
        Elements that have been sent and read at every cut point after the start, increasing.
    """

    cells: tuple[int, ...]

    @property
    def segments(self) -> tuple[int, ...]:
        """Elements between consecutive cut points."""
        return tuple(b - a for a, b in zip((0, *self.cells), self.cells, strict=False))

    @property
    def min_cells(self) -> int:
        """The least half of a ping-pong buffer whose halves may have any sizes."""
        return max(self.segments)

    @property
    def min_uniform_cells(self) -> int:
        """The least half if every iteration of the shared loops handles equally many elements."""
        whole = self.cells[-1]
        cuts = set(self.cells)
        return next(
            size
            for size in range(1, whole + 1)
            if whole % size == 0 and all(n in cuts for n in range(size, whole + 1, size))
        )


@typed
def cut_points(src: ITensor, dst: ITensor) -> CutPoints:
    """Enumerate the cut points of two streams.

    Raises
    ------
    ITensorError
        The streams do not send the same elements of one tensor.
    """
    sent, read = _both(src, dst)
    closed = sent.closed_prefixes(), read.closed_prefixes()
    read_last = np.maximum.accumulate(read.last[np.argsort(sent.last, kind="stable")])
    # Prefixes of equal size are equal if all cells that the source has sent are read by then.
    return CutPoints(
        tuple(
            size
            for size in sorted(closed[0].keys() & closed[1].keys())
            if read_last[size - 1] < closed[1][size]
        )
    )


@typed
def min_cells(src: ITensor, dst: ITensor) -> int:
    """See :attr:`CutPoints.min_cells`; raises as :func:`cut_points`."""
    return cut_points(src, dst).min_cells


@typed
def min_uniform_cells(src: ITensor, dst: ITensor) -> int:
    """See :attr:`CutPoints.min_uniform_cells`; raises as :func:`cut_points`."""
    return cut_points(src, dst).min_uniform_cells


@typed
def live_lower_bound(src: ITensor, dst: ITensor) -> int:
    """Elements that any buffer must hold at some time: sent, but not yet read.

    The source sends as late as the target allows, which is optimal at every moment. This is a bound
    for circular buffers that free single elements, not a design.

    Raises
    ------
    ITensorError
        The streams do not send the same elements of one tensor.
    """
    sent, read = _both(src, dst)
    needed = np.maximum.accumulate(sent.first[read.cells].max(axis=1)) + 1
    arrived = np.searchsorted(np.sort(sent.first), needed)
    done = np.searchsorted(np.sort(read.last), np.arange(dst.tokens))
    return int((arrived - done).max())


@dataclass(frozen=True)
class _Stamps:
    """For every element sent, its first and last token; and for every token, its elements."""

    first: _Numbers
    last: _Numbers
    cells: _Numbers
    tokens: int

    def closed_prefixes(self) -> dict[int, int]:
        """Prefixes whose elements are not sent again: number of elements -> number of tokens."""
        first, ended = (
            np.cumsum(np.bincount(stamps, minlength=self.tokens))
            for stamps in (self.first, self.last)
        )
        ends = np.flatnonzero(first == ended)
        return dict(zip(first[ends].tolist(), (ends + 1).tolist(), strict=True))


def _both(src: ITensor, dst: ITensor) -> tuple[_Stamps, _Stamps]:
    require_one_tensor(src, dst)
    tables = [_table(it) for it in (src, dst)]
    sent = [np.unique(table) for table in tables]
    if not np.array_equal(sent[0], sent[1]):
        raise ITensorError(
            f"{src} and {dst} do not send the same elements: {sent[0].size} and {sent[1].size} "
            f"of {src.cells}; cut points need a source and a target of one tensor"
        )
    found = []
    for table in tables:
        cells = np.searchsorted(sent[0], table)
        stamps = np.repeat(np.arange(len(cells)), cells.shape[1])
        first, last = (np.empty(sent[0].size, dtype=np.int64) for _ in range(2))
        # If an index occurs several times, the last value wins.
        last[cells.ravel()] = stamps
        first[cells.ravel()[::-1]] = stamps[::-1]
        found.append(_Stamps(first, last, cells, len(cells)))
    return found[0], found[1]


def _table(it: ITensor) -> _Numbers:
    """Number of every element of every token in the tensor, [tokens, elements of a token]."""
    strides = np.array([int(np.prod(it.shape[i + 1 :])) for i in range(it.rank)], dtype=np.int64)
    inside = np.indices(it.element).reshape(it.rank, it.token_cells)
    return (it.offsets() @ strides)[:, None] + (strides @ inside)[None, :]
