"""Tensors under construction whose axes may be merged: how they are stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from stepsim.design.operators.graph import Dim, Index, Role
from stepsim.design.operators.views import mixed_radix, substituted_index


@dataclass(slots=True)
class StoredAxes:
    """A tensor under construction, and the axes it was made with that each stored axis merges."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    role: Role
    groups: tuple[tuple[int, ...], ...]

    def places(self, access: Sequence[Index]) -> tuple[Index, ...]:
        """Positions along the stored axes, of those along the axes it was made with."""
        return merged(access, self.shape, self.groups)

    @property
    def stored(self) -> tuple[int, ...]:
        return tuple(prod(self.shape[axis] for axis in group) for group in self.groups)


def merged(
    access: Sequence[Index], shape: Sequence[int], groups: Sequence[Sequence[int]]
) -> tuple[Index, ...]:
    """Positions along axes that are groups of others, the first one of each outermost."""
    found = []
    for group in groups:
        digits = [Dim(str(axis), shape[axis]) for axis in group]
        at = {digit.name: access[axis] for digit, axis in zip(digits, group, strict=True)}
        found.append(substituted_index(mixed_radix(digits), at))
    return tuple(found)
