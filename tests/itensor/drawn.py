"""Strategies for streams: perfect tilings of a shape, other spellings of one, any type at all."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from stepsim.itensor import AffineMap, ITensor

__all__ = ["shapes", "streams", "tilings", "with_loops"]

Column = tuple[int, tuple[int, ...]]
"""A loop: trip count, and stride along every data dim."""


def shapes(rank: int = 3) -> st.SearchStrategy[tuple[int, ...]]:
    """Small tensor shapes with many divisors."""
    return st.lists(st.sampled_from([1, 2, 3, 4, 6, 8]), min_size=1, max_size=rank).map(tuple)


def with_loops(
    element: Sequence[int], constants: Sequence[int], loops: Sequence[Column], draw: Any
) -> ITensor:
    """A type with these loops, with steps drawn where the coefficients leave a choice."""
    steps, columns = [], []
    for _, stride in loops:
        choices = [s for s in range(1, 9) if all(value % s == 0 for value in stride)]
        step = draw(st.sampled_from(choices))
        steps.append(step)
        columns.append([value // step for value in stride])
    results = tuple(
        (tuple(column[i] for column in columns), const) for i, const in enumerate(constants)
    )
    trips = tuple(trip for trip, _ in loops)
    return ITensor(tuple(element), trips, tuple(steps), AffineMap(results, len(loops)), "f32")


@st.composite
def tilings(
    draw: Any, shape: Sequence[int], revisits: bool = False, levels: int = 2, ordered: bool = False
) -> ITensor:
    """A perfect tiling: every dim in a chain of tiles, loops in any order, spelled in any way.

    ``ordered`` keeps the loops of one dim in the order of their strides, as tiled loop nests do.
    """
    element, chains = [], []
    for i, extent in enumerate(shape):
        sizes = [extent]
        for _ in range(levels):
            sizes.append(
                draw(st.sampled_from([d for d in range(1, extent + 1) if sizes[-1] % d == 0]))
            )
        element.append(sizes[-1])
        chains.append(
            [
                (outer // inner, tuple(inner if j == i else 0 for j in range(len(shape))))
                for outer, inner in itertools.pairwise(sizes)
                if outer > inner
            ]
        )
    loops = draw(st.permutations([loop for chain in chains for loop in chain]))
    if ordered:
        left = [list(chain) for chain in chains]
        dims = [next(i for i, stride in enumerate(loop[1]) if stride) for loop in loops]
        loops = [left[i].pop(0) for i in dims]
    loops = list(loops)
    for _ in range(draw(st.integers(0, 2)) if revisits else 0):
        at = draw(st.integers(0, len(loops)))
        loops.insert(at, (draw(st.integers(1, 3)), (0,) * len(shape)))
    return with_loops(element, [0] * len(shape), _respelled(draw, loops), draw)


def _respelled(draw: Any, loops: Sequence[Column]) -> list[Column]:
    """The same turns with loops split in two and loops of one trip put in."""
    spelled: list[Column] = []
    for trip, stride in loops:
        inner = draw(st.sampled_from([d for d in range(1, trip + 1) if trip % d == 0]))
        spelled.append((trip // inner, tuple(inner * value for value in stride)))
        spelled.append((inner, stride))
    return [loop for loop in spelled if loop[0] > 1 or draw(st.integers(0, 3)) == 0]


@st.composite
def streams(draw: Any) -> ITensor:
    """Any type: overlaps, gaps, loops that drive several dims, backwards."""
    rank = draw(st.integers(1, 3))
    element = draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
    loops: list[Column] = draw(
        st.lists(
            st.tuples(
                st.integers(1, 4),
                st.tuples(*[st.sampled_from([0, 0, 1, 2, 3, -1, -2]) for _ in range(rank)]),
            ),
            max_size=4,
        )
    )
    constants = [
        -sum(min(0, stride[i]) * (trip - 1) for trip, stride in loops) for i in range(rank)
    ]
    return with_loops(element, constants, loops, draw)
