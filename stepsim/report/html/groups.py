"""Units that do the same for different experts, regions or lanes: the lanes of one operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stepsim.results import operators_of


@dataclass(frozen=True, slots=True)
class Groups:
    """The operators of a program with their lanes.

    Attributes
    ----------
    names, kinds : name and kind of each operator.
    members : numbers of its units.
    of_unit : number of the operator of each unit.
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    members: tuple[tuple[int, ...], ...]
    of_unit: tuple[int, ...]

    @classmethod
    def of(cls, units: Sequence[str], kinds: Sequence[str]) -> Groups:
        """Group units by their names and kinds."""
        found = operators_of(units, kinds)
        of_unit = [0] * len(units)
        for group, (_, _, members) in enumerate(found):
            for unit in members:
                of_unit[unit] = group
        return cls(
            tuple(name for name, _, _ in found),
            tuple(kind for _, kind, _ in found),
            tuple(tuple(members) for _, _, members in found),
            tuple(of_unit),
        )
