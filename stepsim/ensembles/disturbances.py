"""The disturbances of members of an ensemble, and their bounds.

Every level of simulation has a list of entries. One says to which programs it applies, within
which bounds, what is drawn for a member, and how that is applied. Its draws depend only on the
seed, its name and the number of the member, so that a new entry does not change the draws of
others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from stepsim.arguments import is_whole, shown
from stepsim.errors import ArgError, did_you_mean

_WIDEST: Final = 1 << 16
"""Largest change that bounds may allow."""

Bounds = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Disturbance:
    """One disturbance of members.

    Attributes
    ----------
    name : in bounds and messages; the key of the machine where there is one.
    about : the quantity that is changed, with its unit.
    bounds : default bounds: least and largest change, both included.
    applies : whether it has an effect on a program laid out at its level.
    draw : draws the changes of one member within bounds.
    apply : returns the program with these changes.
    most : largest change that is not one of the smaller ones again, where what runs decides it.
    """

    name: str
    about: str
    bounds: Bounds
    applies: Callable[[Any], bool]
    draw: Callable[[np.random.Generator, Bounds, Any], Any]
    apply: Callable[[Any, Any], Any]
    most: Callable[[Any], int] | None = None

    def usual(self, what: Any) -> Bounds:
        """The bounds, unless others are given."""
        least, largest = self.bounds
        return least, largest if self.most is None else min(largest, self.most(what))

    def drawn(self, seed: int, member: int, bounds: Bounds, what: Any) -> Any:
        """The changes of a member, from 0, which depend on nothing else."""
        letters = [seed, member, *self.name.encode()]
        return self.draw(np.random.default_rng(letters), bounds, what)


def draw_one(random: np.random.Generator, bounds: Bounds, what: Any) -> int:
    """One number within the bounds."""
    return int(random.integers(bounds[0], bounds[1], endpoint=True))


def bounds_of(
    entries: Sequence[Disturbance], given: object, where: str, what: Any
) -> Mapping[Disturbance, Bounds]:
    """The disturbances to make, with their bounds: all that apply, with the given bounds.

    Parameters
    ----------
    entries : all disturbances of the level.
    given : by name, ``(least, largest)`` or one number, up to which the change goes from 0; 0
        leaves the entry out. None for the bounds of the entries.
    where : begins messages. what : is run.

    Raises
    ------
    ArgError : an entry is unknown or does not apply, or its bounds are wrong.
    """
    chosen = checked_bounds(entries, given, where)
    found: dict[Disturbance, Bounds] = {}
    for one in entries:
        if one.applies(what):
            bounds = chosen.get(one.name, one.usual(what))
            if bounds != (0, 0):
                found[one] = bounds
        elif one.name in chosen:
            raise ArgError(
                f"{where}['{one.name}'] has no effect: {one.about} do not apply to this program on "
                "this machine; leave it out"
            )
    if not found:
        raise ArgError(
            f"{where}: nothing is left to disturb, so that all runs would be the same; give bounds "
            "above 0"
        )
    return found


def checked_bounds(
    entries: Sequence[Disturbance], given: object, where: str
) -> Mapping[str, Bounds]:
    """Bounds by name, as far as they can be checked without the program.

    Raises
    ------
    ArgError : an entry is unknown, or its bounds are wrong.
    """
    if given is None:
        given = {}
    if not isinstance(given, Mapping):
        raise ArgError(
            f"{where} must be a mapping such as {{'{entries[0].name}': (0, 3)}}, found "
            f"{shown(given)}"
        )
    known = [one.name for one in entries]
    for name in given:
        if name not in known:
            near = did_you_mean(name, known)
            raise ArgError(f"{where} names {shown(name)}{near} Known: {', '.join(known)}")
    return {name: _pair(f"{where}['{name}']", value) for name, value in given.items()}


def _pair(where: str, value: Any) -> Bounds:
    pair = value
    if is_whole(value):
        pair = (min(0, int(value)), max(0, int(value)))
    fits = isinstance(pair, tuple | list) and len(pair) == 2 and all(map(is_whole, pair))
    if not fits or not -_WIDEST <= pair[0] <= pair[1] <= _WIDEST:
        raise ArgError(
            f"{where} must be a number, or the least and the largest change from {-_WIDEST} to "
            f"{_WIDEST}, found {shown(value)}"
        )
    return int(pair[0]), int(pair[1])
