"""Times of arrival, counted from the first request."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from stepsim.errors import TraceError


class Arrivals:
    """Turns ticks into seconds after the first request, and refuses times that go back.

    Args:
        path: the file, for messages.
        ticks_per_second: unit of the ticks.
    """

    def __init__(self, path: Path, ticks_per_second: int) -> None:
        self._path = path
        self._ticks_per_second = ticks_per_second
        self._first: float | None = None
        self._last = 0.0

    def seconds(
        self, ticks: npt.NDArray[np.int64] | npt.NDArray[np.float64], lines: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float64]:
        """Seconds of the next requests; ``lines`` are their line numbers.

        Raises:
            TraceError: a time is earlier than that of the previous request.
        """
        if self._first is None:
            self._first = ticks[0]
        # Integers are subtracted as integers: nanoseconds since 1970 do not fit a float.
        times = (ticks - self._first) / self._ticks_per_second
        back = np.flatnonzero(np.diff(times, prepend=self._last) < 0)
        if back.size:
            at = int(back[0])
            before = self._last if at == 0 else times[at - 1]
            raise TraceError(
                f"{self._path}: line {lines[at]}: the request arrives {before - times[at]:.6f} s "
                "before that of the line before, expected the order of arrival; sort the file by "
                "time"
            )
        self._last = float(times[-1])
        return np.asarray(times, dtype=np.float64)
