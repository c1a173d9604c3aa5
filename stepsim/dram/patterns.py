"""Patterns of addresses, in bytes, for streams of requests."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stepsim.arguments import Range
from stepsim.dram.numbers import whole_array
from stepsim.errors import ArgError
from stepsim.typed import typed

_MASK = (1 << 64) - 1
_COUNT = Range(
    1 << 27, "an address takes 8 bytes in memory; make a longer pattern in parts, by base=", low=0
)
_BYTES = Range(1 << 62, "bytes")
_PLACE = Range(1 << 62, "bytes", low=0)
_STREAM = Range((1 << 32) - 1, "a number of a stream", low=0)
_SEED = Range(1 << 256, "a seed", low=-(1 << 256))


@typed
def sequential(count: int, step: int, base: int = 0) -> NDArray[np.int64]:
    """Every ``step`` bytes from ``base`` on. [count]

    Raises
    ------
    ArgError : a count below 0, or a step below 1.
    """
    count, step = _COUNT.checked("count", count), _BYTES.checked("step", step)
    base = _last_place("sequential", base, count * step)
    return base + np.arange(count, dtype=np.int64) * step


@typed
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
    row_bytes, pitch = _PLACE.checked("row_bytes", row_bytes), _PLACE.checked("pitch", pitch)
    _COUNT.checked("tiles: the number of addresses", down * across * rows * -(-row_bytes // step))
    base = _last_place("tiles", base, down * rows * pitch + across * row_bytes)
    place = np.arange(down * rows, dtype=np.int64).reshape(down, 1, rows, 1) * pitch
    place = place + np.arange(across, dtype=np.int64).reshape(1, across, 1, 1) * row_bytes
    return (base + place + np.arange(0, row_bytes, step, dtype=np.int64)).ravel()


@typed
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
    stream = _STREAM.checked("stream", stream)
    base = _last_place("random_blocks", base, footprint)
    i = np.arange(count, dtype=np.int64)
    each = block // step
    drawn = splitmix(seed, np.uint64(stream << 32) + (i // each).astype(np.uint64))
    return base + (drawn % np.uint64(footprint // block)).astype(np.int64) * block + i % each * step


def _last_place(what: str, base: int, length: int) -> int:
    """``base``, if the addresses of a pattern of so many bytes behind it are those of a memory."""
    base = _PLACE.checked(f"{what}: base", base)
    _PLACE.checked(f"{what}: the address after the last", base + length)
    return base


def splitmix(seed: int, places: ArrayLike) -> NDArray[np.uint64]:
    """Output of splitmix64 at places of its sequence (Steele, Lea and Flood, OOPSLA 2014).

    Raises
    ------
    ArgError : the seed is not a whole number, or a place not one from 0 to 2**64 - 1.
    """
    seed = _SEED.checked("splitmix: seed", seed)
    k = _places(places)
    with np.errstate(over="ignore"):
        z = np.uint64(seed & _MASK) + (k + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found: NDArray[np.uint64] = z ^ (z >> np.uint64(31))
    return found


def _places(places: ArrayLike) -> NDArray[np.uint64]:
    whole: Any = whole_array("splitmix: places", places)
    if whole.size and whole.min() < 0:
        raise ArgError(f"splitmix: places must be numbers from 0, found {int(whole.min())}")
    return np.asarray(whole, np.uint64)
