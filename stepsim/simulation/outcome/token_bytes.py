"""The sizes of the tokens of a run, including the data they refer to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stepsim.dtypes import packed_bytes
from stepsim.graph import ElementType, IndexSelector, MultiHot, Tile, TupleType
from stepsim.kernels import Payload

if TYPE_CHECKING:
    from stepsim.simulation.running.image_run import ImageRun


def payload_of(element: ElementType) -> int | None:
    """Payload of a token of a stream; None where the run decides it."""
    if isinstance(element, Tile):
        if not element.is_static:
            return None
        return packed_bytes(int(element.rows) * int(element.cols), element.dtype.bits)
    if isinstance(element, TupleType):
        parts = [(payload_of(part), count) for part, count in element.counts.items()]
        known = [size * count for size, count in parts if size is not None]
        return sum(known) if len(known) == len(parts) else None
    # A byte for each flag; references and acknowledgments have no payload.
    return element.width if isinstance(element, MultiHot | IndexSelector) else 0


_REFERENCES = (Payload.BUFFER, Payload.TUPLE)


def largest_tokens(run: ImageRun) -> NDArray[np.int64]:
    """Bytes of the largest token of every FIFO; 0 where there was none.

    A tile has rows x columns x element size, a selector a byte for each flag. A reference counts
    with the buffer or tuple behind it, which stays in memory while the token waits. The run has
    kept all tokens.
    """
    slots = run.execution.slots
    fifos = range(len(run.execution.channels))
    return np.array(
        [int(token_sizes(slots, run.tokens(fifo)).max(initial=0)) for fifo in fifos], np.int64
    )


def token_sizes(
    slots: NDArray[np.void],
    tokens: NDArray[np.void],
    followed: Sequence[Payload] = _REFERENCES,
) -> NDArray[np.int64]:
    """Bytes of every one of these tokens of a run, which kept what is behind them.

    ``followed`` are the kinds of references that count with what is behind them; others are empty.
    """
    bits = tokens["rows"].astype(np.int64) * tokens["cols"] * tokens["bits"]
    found: NDArray[np.int64] = -(-bits // 8)
    refers = np.isin(tokens["kind"], followed)
    if refers.any():
        first, which = np.unique(tokens["value"][refers], return_inverse=True)
        found[refers] = _behind(slots, first.astype(np.int64), followed)[which]
    return found


def _behind(
    slots: NDArray[np.void], first: NDArray[np.int64], followed: Sequence[Payload]
) -> NDArray[np.int64]:
    """Bytes of the cells of buffers and tuples; all of one depth are looked at together."""
    counts = slots["rows"][first].astype(np.int64)
    ends = np.cumsum(counts)
    cells = np.arange(ends[-1]) + np.repeat(first + 1 - (ends - counts), counts)
    total = np.concatenate([[0], np.cumsum(token_sizes(slots, slots[cells], followed))])
    found: NDArray[np.int64] = total[ends] - total[ends - counts]
    return found
