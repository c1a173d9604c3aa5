"""A program that grows step by step, and what a step picks from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

import stepsim.graph as st
from stepsim.errors import StepError
from stepsim.graph import Stream
from stepsim.graph.types import Tile

__all__ = ["Grower", "even_tiles", "is_address", "load"]

T = TypeVar("T")


class Grower:
    """A program under construction and the streams to go on with."""

    def __init__(self, integer: Callable[[int, int], int]) -> None:
        self.integer = integer
        self.open: list[Stream] = []
        self.pairs: list[tuple[Stream, Stream]] = []
        """Data and selectors that can partition it."""

    def pick(self, values: Sequence[T]) -> T:
        if not values:
            raise StepError("nothing to pick from")
        return values[self.integer(0, len(values) - 1)]

    def flag(self) -> bool:
        return bool(self.integer(0, 1))

    def stream(self, wanted: Callable[[Stream], bool] = lambda x: True) -> Stream:
        """An open stream, more often a late one."""
        fitting = [x for x in self.open if wanted(x)]
        return self.pick(fitting[-4:] if self.integer(0, 3) else fitting)

    def floats(self, rank: int = 0) -> Stream:
        return self.stream(
            lambda x: isinstance(x.type, Tile) and x.type.dtype.is_arithmetic and x.rank >= rank
        )

    def even(self, rank: int = 0) -> Stream:
        """Tiles of one size; only a run can tell whether others can be added or stored."""
        return self.stream(
            lambda x: (
                isinstance(x.type, Tile)
                and x.type.dtype.is_arithmetic
                and x.type.is_static
                and x.rank >= rank
            )
        )

    def flags(self, shape: Sequence[int], width: int, some: bool = False) -> Any:
        array = self.array((*shape, width), 0, 1)
        if some:
            array[..., 0] |= array.sum(axis=-1) == 0
        return array

    def array(self, shape: Sequence[int], low: int, high: int) -> Any:
        found = [self.integer(low, high) for _ in range(int(np.prod(shape)))]
        return np.array(found, dtype=int).reshape(shape)

    def add(self, *made: Stream) -> None:
        self.open += made


def load(
    g: Grower, shape: Sequence[int] | None = None, sides: tuple[int, int] | None = None
) -> Stream:
    dims = [g.integer(1, 3) for _ in range(g.integer(1, 3))] if shape is None else list(shape)
    rows, cols = (g.integer(1, 3), g.integer(1, 3)) if sides is None else sides
    steps = [int(np.prod(dims[i + 1 :])) for i in range(len(dims))]
    array = np.ones((int(np.prod(dims)) * rows, cols), np.float32)
    return st.linear_load(array, (rows, cols), shape=dims, stride=steps)


def is_address(x: Stream) -> bool:
    return isinstance(x.type, Tile) and x.type.is_address


def even_tiles(x: Stream) -> Stream:
    if not (isinstance(x.type, Tile) and x.type.is_static):
        raise StepError("sizes vary")
    return x
