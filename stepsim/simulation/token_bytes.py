"""How large the tokens of a run are, with what they refer to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stepsim.kernels.layout import Payload

if TYPE_CHECKING:
    from stepsim.simulation.image_run import ImageRun

__all__ = ["largest_tokens"]

_REFERENCES = (Payload.BUFFER, Payload.TUPLE)


def largest_tokens(run: ImageRun) -> NDArray[np.int64]:
    """Bytes of the largest token of every FIFO; 0 where there was none.

    A tile has rows x columns x element size, a selector a byte for each flag. A reference counts
    with the buffer or tuple behind it, which stays in memory while the token waits. The run has
    kept all tokens.
    """
    slots, known = run.execution.slots, dict[int, int]()

    def behind(first: int) -> int:
        if first not in known:
            cells = slots[first + 1 : first + 1 + int(slots[first]["rows"])]
            known[first] = int(sizes(cells).sum())
        return known[first]

    def sizes(tokens: NDArray[np.void]) -> NDArray[np.int64]:
        bits = tokens["rows"].astype(np.int64) * tokens["cols"] * tokens["bits"]
        found: NDArray[np.int64] = -(-bits // 8)
        for place in np.flatnonzero(np.isin(tokens["kind"], _REFERENCES)).tolist():
            found[place] = behind(int(tokens[place]["value"]))
        return found

    fifos = range(len(run.execution.channels))
    return np.array([int(sizes(run.tokens(fifo)).max(initial=0)) for fifo in fifos], np.int64)
