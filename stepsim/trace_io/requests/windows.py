"""Windows of a trace: consecutive requests as one batch, chosen by the spread of their lengths.

The STeP paper (B.3) takes batches of decode requests from the first 5,000 requests of the Azure
conversation trace: windows of 16, 64 and 80 consecutive requests that begin at every other request,
in classes by the sample standard deviation (divisor n - 1) of their lengths:

======== ============================================================================
class    windows, and their order
======== ============================================================================
``low``  the tenth with the lowest deviation, lowest first
``med``  the tenth whose deviation is nearest to that of all requests, nearest first
``high`` the tenth with the highest deviation, highest first
======== ============================================================================

Ties are in the order of the windows. Requests count from 1. The paper chose windows of a class by
hand: `window_at` makes any window from its first request, and `nearest_windows` orders windows by
how close their deviation is to a given one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from stepsim.errors import ArgError
from stepsim.typed import typed

WindowClass = Literal["low", "med", "high"]
"""The classes by deviation."""

_CHUNK_ELEMENTS = 1 << 22


@dataclass(frozen=True)
class Window:
    """Requests ``first`` to ``last``, both included and counted from 1.

    Attributes:
        stdev: sample standard deviation of their lengths, in tokens.
    """

    first: int
    last: int
    stdev: float

    @typed
    def name(self, prefix: str) -> str:
        """The name of a file for it: prefix_stdev<deviation, rounded down>_<first>_<last>."""
        return f"{prefix}_stdev{int(self.stdev):04d}_{self.first:04d}_{self.last:04d}"

    @typed
    def lengths(self, lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The part of the trace's ``lengths`` that the window covers."""
        return lengths[self.first - 1 : self.last]


def window_stdevs(lengths: npt.NDArray[np.int64], size: int, *, stride: int = 2) -> list[Window]:
    """All windows of ``size`` requests that begin at request 1, 1 + stride, 1 + 2 stride ...

    Raises:
        ArgError: not 2 <= size <= requests, or ``stride`` is not positive.
    """
    _check_size(lengths, size)
    if stride < 1:
        raise ArgError(f"windows: stride is {stride}, expected at least 1")
    views = np.lib.stride_tricks.sliding_window_view(lengths, size)[::stride]
    rows = max(1, _CHUNK_ELEMENTS // size)
    stdevs = np.concatenate(
        [views[start : start + rows].std(axis=1, ddof=1) for start in range(0, len(views), rows)]
    )
    return [
        Window(1 + index * stride, index * stride + size, float(stdev))
        for index, stdev in enumerate(stdevs)
    ]


@typed
def window_at(lengths: npt.NDArray[np.int64], size: int, first: int) -> Window:
    """The window of ``size`` requests that begins with request ``first``, counted from 1.

    Raises:
        ArgError: not 2 <= size <= requests, or fewer than ``size`` requests follow from ``first``
            on.
    """
    _check_size(lengths, size)
    last = first + size - 1
    if not 1 <= first <= last <= len(lengths):
        raise ArgError(
            f"windows: a window of {size} requests begins at {first}, expected "
            f"1..{len(lengths) - size + 1}, since the trace has {len(lengths)} requests"
        )
    return Window(first, last, float(lengths[first - 1 : last].std(ddof=1)))


@typed
def nearest_windows(windows: Iterable[Window], stdev: float) -> list[Window]:
    """The windows ordered by how near their deviation is to ``stdev``, nearest first.

    Raises:
        ArgError: ``stdev`` is negative or not finite.
    """
    if not 0 <= stdev < math.inf:
        raise ArgError(f"windows: the requested deviation is {stdev}, expected a number from 0")
    return sorted(windows, key=lambda window: abs(window.stdev - stdev))


@typed
def select_windows(
    lengths: npt.NDArray[np.int64],
    size: int,
    *,
    by: str = "stdev",
    requests: int | None = 5000,
    stride: int = 2,
    share: float = 0.1,
) -> dict[WindowClass, list[Window]]:
    """The windows of each class, in the order of the class.

    Args:
        lengths: int64 [requests], lengths in order of arrival.
        size: requests per window.
        by: the measure; only ``stdev`` is available.
        requests: how many requests from the start to consider; None: all.
        stride: requests from the start of a window to that of the next.
        share: part of the windows in each class, rounded down but at least one window.

    Raises:
        ArgError: an argument is out of range.
    """
    if by != "stdev":
        raise ArgError(f"windows: by is {by!r}, expected 'stdev', the only measure available")
    if not 0 < share <= 1:
        raise ArgError(f"windows: share is {share}, expected above 0 and at most 1")
    if requests is not None and requests < 1:
        raise ArgError(f"windows: requests is {requests}, expected at least 1 or None for all")
    used = np.asarray(lengths, dtype=np.int64)[:requests]
    windows = window_stdevs(used, size, stride=stride)
    whole = float(used.std(ddof=1))
    count = max(1, int(len(windows) * share))
    return {
        "low": sorted(windows, key=lambda window: window.stdev)[:count],
        "med": nearest_windows(windows, whole)[:count],
        "high": sorted(windows, key=lambda window: -window.stdev)[:count],
    }


def disjoint(windows: Iterable[Window], count: int) -> list[Window]:
    """The first ``count`` windows that share no request with one taken before.

    Raises:
        ArgError: ``count`` is not positive.
    """
    if count < 1:
        raise ArgError(f"windows: count is {count}, expected at least 1")
    taken: list[Window] = []
    for window in windows:
        if all(window.last < other.first or window.first > other.last for other in taken):
            taken.append(window)
            if len(taken) == count:
                break
    return taken


def _check_size(lengths: npt.NDArray[np.int64], size: int) -> None:
    if not 2 <= size <= len(lengths):
        raise ArgError(
            f"windows: size is {size}, expected at least 2 and at most {len(lengths)}, the number "
            "of requests in use; choose another size, or use more requests"
        )
