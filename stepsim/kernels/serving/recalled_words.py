"""Arrays of :mod:`stepsim.kernels.serving.recalled`, and the same time for Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from stepsim.kernels.serving.recalled import (
    AMOUNTS,
    KIND_REALS,
    KIND_WORDS,
    W_ALL,
    W_END,
    W_FACTOR,
    W_KINDS,
    W_LENGTH,
    W_NOISE,
    W_NOISES,
    W_ORDER,
    W_OWN,
    W_OWN_AMOUNTS,
    W_OWN_TIME,
    W_SORTED,
    kind_of,
    known_time,
    time_like,
)

_Ints = NDArray[np.int64]
_Reals = NDArray[np.float64]
_Number = TypeVar("_Number", np.int64, np.float64)


@dataclass(frozen=True, eq=False, slots=True)
class RecalledKind:
    """Steps of one kind, with prompt tokens or without, among which a like one is looked for.

    Attributes
    ----------
    steps : which ones.
    places : logarithms of their amounts plus 1. [steps, 4]
    lengths : in ns. [steps]
    slopes : constant and slopes of a linear function of amounts, about their lengths. [5]
    plane : that function of their amounts. [steps]
    spread : how far lengths are from what like ones say, as the logarithm of the ratio.
    """

    steps: _Ints
    places: _Reals
    lengths: _Reals
    slopes: _Reals
    plane: _Reals
    spread: float

    def _reals(self) -> _Reals:
        weights = (self.places**2).sum(axis=1)
        return np.concatenate(
            [self.slopes, [self.spread], self.places.T.ravel(), weights, self.plane, self.lengths]
        )


class Recollection:
    """The steps of an earlier service.

    Args:
        amounts: of all engines, one after the other. [steps, 4]
        numbers: of each step on its engine. [steps]
        lengths: in ns. [steps]
        kinds: steps with prompt tokens, and those without.
    """

    def __init__(
        self, amounts: _Ints, numbers: _Ints, lengths: _Ints, kinds: Sequence[RecalledKind]
    ) -> None:
        self._amounts = amounts
        keys = np.concatenate([amounts, numbers[:, None]], axis=1)
        order = np.lexsort(keys.T[::-1])
        words = _Joined(np.zeros(W_END, np.int64))
        reals = _Joined(np.empty(0))
        head = words.parts[0]
        head[W_ALL] = len(amounts)
        head[W_SORTED] = words.add(keys[order].ravel())
        head[W_ORDER] = words.add(order)
        head[W_LENGTH] = words.add(lengths)
        for place, kind in enumerate(kinds):
            at = W_KINDS + KIND_WORDS * place
            head[at : at + KIND_WORDS] = (
                len(kind.steps), words.add(kind.steps), reals.add(kind._reals())
            )  # fmt: skip
        self._words, self._reals = words.whole(), reals.whole()

    def engine(
        self, first: int, times: _Ints, factors: _Reals, noise: _Reals
    ) -> tuple[_Ints, _Reals]:
        """Words and reals of an engine whose steps begin with ``first``.

        Args:
            times: of its own steps, in ns, with their factors.
            factors: of all steps. [steps]
            noise: normal numbers, of which each step takes one; at least one.
        """
        words, reals = _Joined(self._words.copy()), _Joined(self._reals)
        head = words.parts[0]
        head[W_OWN] = len(times)
        head[W_OWN_AMOUNTS] = words.add(self._amounts[first : first + len(times)].ravel())
        head[W_OWN_TIME] = words.add(times)
        head[W_FACTOR] = reals.add(factors)
        head[W_NOISE] = reals.add(noise)
        head[W_NOISES] = len(noise)
        return words.whole(), reals.whole()


class _Joined(Generic[_Number]):
    """One array after another."""

    def __init__(self, first: NDArray[_Number]) -> None:
        self.parts: list[NDArray[_Number]] = [first]
        self._end = len(first)

    def add(self, part: NDArray[_Number]) -> int:
        """Where the part begins."""
        self.parts.append(part)
        self._end += len(part)
        return self._end - len(part)

    def whole(self) -> NDArray[_Number]:
        """All parts."""
        return np.concatenate(self.parts)


def recalled_step(words: _Ints, reals: _Reals, step: int, amounts: Sequence[int]) -> int:
    """The time of a step in ns, as the kernel has it; like steps are compared all at once."""
    time = known_time(words, reals, step, *amounts)
    if time >= 0:
        return int(time)
    kind = kind_of(words, amounts[0], amounts[1])
    count, at = int(words[kind]), int(words[kind + 2]) + KIND_REALS
    columns = reals[at : at + (AMOUNTS + 1) * count].reshape(AMOUNTS + 1, count)
    own = np.log1p(np.array(amounts, float))
    # The sums of the kernel in their order, so that equal steps are equally far.
    near = columns[0] * own[0] + columns[1] * own[1] + columns[2] * own[2] + columns[3] * own[3]
    place = int((columns[AMOUNTS] - 2 * near).argmin())
    return int(time_like(words, reals, step, kind, place, *amounts))
