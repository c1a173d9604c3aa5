"""The numbers of tokens whose rows come in pieces."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import numpy.typing as npt

from stepsim.errors import TraceError

__all__ = ["TokenOrder"]


class TokenOrder:
    """Numbers tokens within their step, and refuses rows that are out of order.

    Only the latest step of each key is remembered, so that memory does not grow with the trace.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._latest: dict[Hashable, tuple[int, int]] = {}

    def place(
        self,
        key: Hashable,
        step: int,
        count: int,
        numbers: npt.NDArray[np.int64] | None,
        rows: npt.NDArray[np.int64],
    ) -> int:
        """Index of the first of ``count`` tokens of (key, step).

        ``numbers`` are the tokens' own numbers, if they have some; ``rows`` are the rows of the
        source, for messages.

        Raises:
            TraceError: the step is before the latest of the key, or the numbers do not go on from
                those before.
        """
        last, following = self._latest.get(key, (-1, 0))
        if step < last:
            raise TraceError(
                f"{self._source}: row {int(rows[0])}: step {step} comes after step {last} of the "
                "same layer, expected the order of step and token; sort the file by (step, layer, "
                "token)"
            )
        expected = following if step == last else None
        first = expected or 0
        if numbers is not None:
            first = int(numbers[0]) if expected is None else expected
            wrong = numbers != first + np.arange(count)
            if wrong.any():
                at = int(np.argmax(wrong))
                raise TraceError(
                    f"{self._source}: row {int(rows[at])}: token is {int(numbers[at])}, expected "
                    f"{first + at}, the next of its layer and step; sort the file by (step, "
                    "layer, token), or leave the column out to take the rows as they are"
                )
        self._latest[key] = (step, first + count)
        return first
