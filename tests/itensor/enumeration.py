"""Streams by brute force, from the definition alone: no loop of the product is used."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from stepsim.itensor import ITensor

__all__ = ["cell_masks", "cuts_of", "least_uniform", "most_live", "tokens_of"]

Token = tuple[tuple[int, ...], tuple[int, ...]]


def tokens_of(it: ITensor) -> list[Token]:
    """(offset, shape) of every token in order."""
    loops = [range(0, trip * step, step) for trip, step in zip(it.trips, it.steps, strict=True)]
    return [
        (
            tuple(
                const + sum(c * v for c, v in zip(coefficients, values, strict=True))
                for coefficients, const in it.map.results
            ),
            it.element,
        )
        for values in itertools.product(*loops)
    ]


def cell_masks(tokens: Sequence[Token], shape: Sequence[int]) -> list[int]:
    """For every token the set of its cells, one bit each."""
    masks = []
    for offset, element in tokens:
        mask = 0
        for inside in itertools.product(*(range(size) for size in element)):
            number = 0
            for o, i, size in zip(offset, inside, shape, strict=True):
                assert 0 <= o + i < size
                number = number * size + o + i
            mask |= 1 << number
        masks.append(mask)
    return masks


def cuts_of(src: ITensor, dst: ITensor) -> list[int]:
    """Cells at every cut point: equal prefixes of which nothing is sent or read later."""
    sides = []
    for it in (src, dst):
        masks = cell_masks(tokens_of(it), src.shape)
        later = [0]
        for mask in reversed(masks):
            later.append(later[-1] | mask)
        later.reverse()
        sides.append(
            {
                prefix
                for prefix, rest in zip(
                    itertools.accumulate(masks, int.__or__), later[1:], strict=True
                )
                if not prefix & rest
            }
        )
    return sorted(prefix.bit_count() for prefix in sides[0] & sides[1])


def least_uniform(cuts: Sequence[int]) -> int:
    """The smallest size every multiple of which is a cut."""
    whole = cuts[-1]
    return next(
        size
        for size in range(1, whole + 1)
        if not whole % size and set(range(size, whole + 1, size)) <= set(cuts)
    )


def most_live(src: ITensor, dst: ITensor) -> int:
    """The live cells of the best order of sending and reading: every order is looked at."""
    sent, read = (cell_masks(tokens_of(it), src.shape) for it in (src, dst))
    unread = [0]
    for mask in reversed(read):
        unread.append(unread[-1] | mask)
    unread.reverse()
    there = [0, *itertools.accumulate(sent, int.__or__)]
    best = [[math.inf] * (len(read) + 1) for _ in range(len(sent) + 1)]
    best[0][0] = 0
    for i, j in itertools.product(range(len(sent) + 1), range(len(read) + 1)):
        live = (there[i] & unread[j]).bit_count()
        if i < len(sent):
            pushed = (there[i + 1] & unread[j]).bit_count()
            best[i + 1][j] = min(best[i + 1][j], max(best[i][j], pushed))
        if j < len(read) and not read[j] & ~there[i]:
            best[i][j + 1] = min(best[i][j + 1], max(best[i][j], live))
    return int(min(row[-1] for row in best))
