"""Arrays of a run for kernels as plain Python, of which nothing can be asked that is not in them.

Compiled kernels find an entry by the address of the array alone: an index below 0 or behind the end
is some other memory there, where numpy counts from the end. :func:`watched` gives the same arrays
with an error in its place. Kernels that are called from Python run as they are: to watch them, none
has to be compiled.
"""

from __future__ import annotations

import operator
from collections.abc import Collection
from typing import Any

import numpy as np

from stepsim.kernels.build.entry_point import EntryPoint
from stepsim.kernels.layout import State
from stepsim.kernels.memory import table

__all__ = ["OutsideError", "WatchedArray", "WatchedEntry", "spread", "watched"]


class OutsideError(IndexError):
    """A kernel asks for an entry that is not in the array."""


class WatchedArray:
    """An array that is asked for single entries, by whole numbers from 0 to below its length, and
    for parts that lie within it, which are watched too.

    Attributes
    ----------
    gaps : numbers of entries that are nobody's.
    """

    def __init__(self, name: str, array: Any, gaps: Collection[int] = ()) -> None:
        self.name = name
        self.array = array.view(np.ndarray)  # whose records have fields as attributes all the same
        self.gaps = frozenset(gaps)

    def __len__(self) -> int:
        return len(self.array)

    def _entry(self, index: Any) -> int:
        try:
            i = operator.index(index)
        except TypeError:
            raise OutsideError(f"{self.name}[{index!r}]: no whole number") from None
        if not 0 <= i < len(self.array):
            raise OutsideError(f"{self.name}[{i}] of {len(self.array)} entries")
        if i in self.gaps:
            raise OutsideError(f"{self.name}[{i}] lies between two parts")
        return i

    def _part(self, part: slice) -> Any:
        begin = 0 if part.start is None else operator.index(part.start)
        end = len(self.array) if part.stop is None else operator.index(part.stop)
        if self.gaps or part.step is not None or not 0 <= begin <= end <= len(self.array):
            raise OutsideError(f"{self.name}[{part!r}] of {len(self.array)} entries")
        return self.array[begin:end]

    def view(self, kind: Any) -> Any:
        """The same words as numbers of another kind."""
        return WatchedArray(f"{self.name} as {kind.__name__}", self.array.view(kind))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return WatchedArray(f"{self.name}[{index.start}:{index.stop}]", self._part(index))
        return self.array[self._entry(index)]

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(index, slice):
            self._part(index)[:] = value
        else:
            self.array[self._entry(index)] = value


def watched(arrays: Any) -> Any:
    """The same named tuple, its arrays watched; what already is stays as it is."""
    return type(arrays)(
        *(
            array if isinstance(array, WatchedArray) else WatchedArray(name, array)
            for name, array in zip(arrays._fields, arrays, strict=True)
        )
    )


class WatchedEntry:
    """In the place of an entry point: its function as plain Python, on watched arrays."""

    def __init__(self, entry: EntryPoint) -> None:
        self.function = entry.py_func

    def make_ready(self) -> None:
        """Nothing has to be loaded."""

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*map(watched, arguments))


_PARTS = ("WALK", "TURNS", "TREE", "LOG", "SEGMENTS", "CLOCKS", "STARTS", "MAPS")


def spread(state: State) -> State:
    """The state of a run with the published memory, gaps around all parts of the memory's table.

    A part that is left for the next one is noticed, too.
    """
    words = state.memory_table
    places = [int(words[getattr(table, part)]) for part in _PARTS]
    assert places == sorted(places)
    assert places[0] == table.HEADER
    maps, each = (int(words[getattr(table, name)]) for name in ("MAP_COUNT", "MAP_WORDS"))
    ends = [*places[1:], places[-1] + maps * each]
    assert ends[-1] == len(words)
    gap = 2 * int(state.globals[0].memory_channels) + 64
    made = np.zeros(len(words) + gap * (1 + len(places)), np.int64)
    made[: table.HEADER] = words[: table.HEADER]
    gaps: list[int] = []
    at = table.HEADER
    for part, begin, end in zip(_PARTS, places, ends, strict=True):
        gaps += range(at, at + gap)
        at += gap
        made[getattr(table, part)] = at
        made[at : at + end - begin] = words[begin:end]
        at += end - begin
    gaps += range(at, len(made))
    return state._replace(memory_table=WatchedArray("memory_table", made, gaps))
