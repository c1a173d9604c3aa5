"""Layouts of tensors off chip: row-major, or packed tile by tile in the order of a walk.

A packed tile is one row, or rows of one word of the memory port (StreamTensor, on DMAs: pack and
widen). Weights are packed offline, so that it costs nothing; what a group stores in packed form
is read so by the next.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from stepsim.design.dataflow.buffer_walks import tile_of
from stepsim.design.dataflow.graph import Dma
from stepsim.dtypes import dtype_of
from stepsim.graph import Function, function
from stepsim.itensor import ITensor

Array = np.ndarray[Any, Any]


def stored_tile(dma: Dma) -> tuple[int, int]:
    """Rows and columns of a tile as it lies off chip."""
    rows, cols = tile_of(dma.walk.element)
    if not dma.packed:
        return rows, cols
    if not dma.word_bits:
        return 1, rows * cols
    per_word = dma.word_bits // dtype_of(dma.walk.dtype).bits
    return -(-rows * cols // per_word), per_word


def stored_shape(dma: Dma) -> tuple[int, ...]:
    """Shape of what a DMA moves, as it lies off chip."""
    if dma.packed:
        rows, cols = stored_tile(dma)
        return dma.tiles * rows, cols
    sizes = tuple(size for _, size in dma.window)
    return (*(1,) * (2 - len(sizes)), *sizes)


def tile_walk(dma: Dma) -> tuple[list[int], list[int]]:
    """Trips and steps, in tiles of the row-major grid, of a load that is not packed."""
    element = dma.walk.element
    grid = [size // e for (_, size), e in zip(dma.window, element, strict=True)]
    loops = dma.walk.normal_form().loops
    steps = [
        sum(
            step // e * prod(grid[axis + 1 :])
            for axis, (step, e) in enumerate(zip(loop.stride, element, strict=True))
        )
        for loop in loops
    ]
    return [loop.trip for loop in loops] or [1], steps or [1]


def laid_out(dma: Dma, array: Array) -> Array:
    """A tensor as a DMA finds its part of it off chip."""
    part = array[tuple(slice(start, start + size) for start, size in dma.window)]
    if not dma.packed:
        return part.reshape(stored_shape(dma))
    rows, cols = stored_tile(dma)
    found = np.zeros((dma.tiles, rows * cols), array.dtype)
    for tile, offset in zip(found, dma.walk.offsets()[: dma.tiles], strict=True):
        tile[: dma.walk.token_cells] = part[_places(dma.walk, offset)].ravel()
    return found.reshape(stored_shape(dma))


def put_back(walk: ITensor, stored: Array) -> Array:
    """A tensor from its tiles in the order in which they were stored."""
    tiles = stored.reshape(walk.tokens, -1)[:, : walk.token_cells]
    found = np.zeros(walk.shape, stored.dtype)
    for tile, offset in zip(tiles, walk.offsets(), strict=True):
        found[_places(walk, offset)] = tile.reshape(walk.element)
    return found


def _places(walk: ITensor, offset: Array) -> tuple[slice, ...]:
    return tuple(slice(int(o), int(o) + e) for o, e in zip(offset, walk.element, strict=True))


def relaid(source: tuple[int, int], target: tuple[int, int]) -> Function:
    """The scalars of a tile in rows of another length; padding at the end comes or goes."""

    def values(x: Array) -> Array:
        flat = np.zeros(max(x.size, prod(target)), x.dtype)
        flat[: x.size] = x.ravel()
        return flat[: prod(target)].reshape(target)

    sides = f"{source[0]} {source[1]} -> {target[0]} {target[1]}"
    return function(f"relay {sides}", sides, 0, 1, values)
