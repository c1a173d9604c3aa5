"""Patterns of addresses, in bytes, for streams of requests."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stepsim.arguments import Range
from stepsim.errors import ArgError

_MASK = (1 << 64) - 1
_COUNT = Range(1 << 40, "how many", low=0)
_BYTES = Range(1 << 62, "bytes")


def sequential(count: int, step: int, base: int = 0) -> NDArray[np.int64]:
    """Every ``step`` bytes from ``base`` on. [count]

    Raises
    ------
    ArgError : a count below 0, or a step below 1.
    """
    count, step = _COUNT.checked("count", count), _BYTES.checked("step", step)
    return base + np.arange(count, dtype=np.int64) * step


def tiles(
    rows: int, row_bytes: int, pitch: int, across: int, down: int, step: int, base: int = 0
) -> NDArray[np.int64]:
    """Tiles of a matrix of ``pitch`` bytes per row, from left to right, then down.

    A tile is ``rows`` runs of ``row_bytes``, which are requested every ``step`` bytes; ``across``
    tiles lie next to each other and ``down`` below each other. [down * across * rows * runs]

    Raises
    ------
    ArgError : a number of tiles or rows below 0, or a step below 1.
    """
    rows, across, down = (
        _COUNT.checked(name, value)
        for name, value in (("rows", rows), ("across", across), ("down", down))
    )
    step = _BYTES.checked("step", step)
    place = np.arange(down * rows, dtype=np.int64).reshape(down, 1, rows, 1) * pitch
    place = place + np.arange(across, dtype=np.int64).reshape(1, across, 1, 1) * row_bytes
    return (base + place + np.arange(0, row_bytes, step, dtype=np.int64)).ravel()


def random_blocks(
    count: int, step: int, block: int, footprint: int, seed: int = 1, stream: int = 0, base: int = 0
) -> NDArray[np.int64]:
    """Blocks of ``block`` bytes at random places within ``footprint`` bytes. [count]

    The place of block ``j`` is :func:`splitmix` of the seed at ``stream * 2**32 + j``.

    Raises
    ------
    ArgError : the block is not a multiple of the step, or is larger than the footprint.
    """
    count, step = _COUNT.checked("count", count), _BYTES.checked("step", step)
    if block < step or block % step:
        raise ArgError(f"block: expected a multiple of step ({step}), found {block}")
    if footprint < block:
        raise ArgError(f"footprint: expected {block} bytes, one block, or more, found {footprint}")
    i = np.arange(count, dtype=np.int64)
    each = block // step
    drawn = splitmix(seed, np.uint64(stream << 32) + (i // each).astype(np.uint64))
    return base + (drawn % np.uint64(footprint // block)).astype(np.int64) * block + i % each * step


def splitmix(seed: int, places: ArrayLike) -> NDArray[np.uint64]:
    """Output of splitmix64 at places of its sequence (Steele, Lea and Flood, OOPSLA 2014)."""
    k = np.asarray(places, np.uint64)
    with np.errstate(over="ignore"):
        z = np.uint64(seed & _MASK) + (k + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found: NDArray[np.uint64] = z ^ (z >> np.uint64(31))
    return found
