"""Data derived from a finished program and cached with it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import chain
from operator import is_
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from stepsim.graph.programs.program import Program

_Made = TypeVar("_Made")

MOST_KEPT = 4
"""Most entries cached with a program; the image of a large one has megabytes."""


class Kept:
    """The most recent data derived from a program."""

    def __init__(self) -> None:
        self._made: dict[Hashable, Any] = {}
        self._values: tuple[Any, ...] = ()

    def get(self, program: Program, name: Hashable, make: Callable[[], _Made]) -> _Made:
        """The result of ``make`` for the program, cached under a name.

        Depths and assumptions, which the user may still state after the block, are part of the key,
        so that no entry is used after it became invalid. The cache is dropped if an attribute of an
        operator changes.
        """
        # Comparing all values is cheaper than operators that watch every assignment.
        values = tuple(chain.from_iterable(map(dict.values, map(vars, program.operators))))
        if len(values) != len(self._values) or not all(map(is_, values, self._values)):
            self._made = {}
        self._values = values
        key = (
            name, program.name, program.compute_bw, program.par_dispatch, program.fifo_depth,
            program.order, len(program.operators), tuple(program.flop_weights.items()),
            tuple(program.depths.items()), tuple(stated.text for stated in program.assumptions),
            tuple(
                t.indices if t.indices is None else t.indices.tobytes() for t in program.routings
            ),
        )  # fmt: skip
        found = self._made.get(key)
        if found is None:
            found = make()
            last = list(self._made.items())[1 - MOST_KEPT :]
            self._made = {**dict(last), key: found}
        return cast(_Made, found)
