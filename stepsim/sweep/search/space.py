"""The points of a search: every combination of the axes' values, by their positions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

Place = tuple[int, ...]
"""A point: the position of its value on every axis."""


@dataclass(frozen=True)
class Space:
    """A product of axes.

    Attributes
    ----------
    names : names of the axes.
    values : values of each axis; numbers in ascending order, then the others as given.
    """

    names: tuple[str, ...]
    values: tuple[tuple[Any, ...], ...]

    @classmethod
    def of(cls, grid: Mapping[str, Sequence[Any]]) -> Space:
        """The space of the axes of a specification."""
        return cls(tuple(grid), tuple(_ordered(axis) for axis in grid.values()))

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(map(len, self.values))

    @property
    def count(self) -> int:
        """The number of points."""
        return math.prod(self.sizes)

    def numbers(self, axis: int) -> int:
        """The number of values of an axis that are numbers; these come first."""
        return sum(map(_is_number, self.values[axis]))

    def design(self, place: Place) -> dict[str, Any]:
        """The values of a point by name, as in a specification."""
        return {
            name: axis[at] for name, axis, at in zip(self.names, self.values, place, strict=True)
        }

    def place(self, design: Mapping[str, Any]) -> Place | None:
        """The position of a listed point; None if it is not in the space."""
        if design.keys() != set(self.names):
            return None
        found = []
        for name, axis in zip(self.names, self.values, strict=True):
            texts = [repr(value) for value in axis]
            if repr(design[name]) not in texts:
                return None
            found.append(texts.index(repr(design[name])))
        return tuple(found)

    def places(self) -> Iterator[Place]:
        """All points, the last axis fastest."""
        return product(*map(range, self.sizes))

    def extremes(self) -> list[Place]:
        """The point of all first values, that of all last values, and one halfway between."""
        sizes = self.sizes
        ends = [tuple(0 for _ in sizes), tuple(n - 1 for n in sizes), tuple(n // 2 for n in sizes)]
        return list(dict.fromkeys(ends))

    def neighbors(self, place: Place) -> Iterator[Place]:
        """Points one step away on one axis; a value that is not a number is one step from all
        others."""
        for axis, at in enumerate(place):
            numbers, size = self.numbers(axis), len(self.values[axis])
            if at < numbers:
                near = [i for i in (at - 1, at + 1) if 0 <= i < numbers] + [*range(numbers, size)]
            else:
                near = [i for i in range(size) if i != at]
            for i in near:
                yield (*place[:axis], i, *place[axis + 1 :])

    def random(self, draw: np.random.Generator) -> Place:
        """A random point, all being equally likely."""
        return tuple(int(draw.integers(size)) for size in self.sizes)

    def likeness(self, axis: int) -> npt.NDArray[np.float64]:
        """Correlation of two values of an axis, 1 for equal ones: ``[size, size]``."""
        size, numbers = len(self.values[axis]), self.numbers(axis)
        found = np.eye(size)
        at = np.arange(numbers) / max(1, numbers - 1)
        found[:numbers, :numbers] = np.exp(-4 * np.abs(at[:, None] - at[None, :]))
        return found


def _ordered(axis: Sequence[Any]) -> tuple[Any, ...]:
    numbers = sorted(value for value in axis if _is_number(value))
    return (*numbers, *(value for value in axis if not _is_number(value)))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
