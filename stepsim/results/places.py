"""The place of a unit or FIFO in its program, derived from its name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

_NUMBER = re.compile(r"#\d+")
_LANE = re.compile(r"(?<=\.)\d+(?=[.)>]|$)")

_MOST_ALIKE: Final = 8
"""Units of one name, without a lane, that are distinguished by their numbers."""


class Place(NamedTuple):
    """The place of a unit or FIFO.

    Attributes
    ----------
    stage : prefix of a layer, such as ``moe.expert.*``, or empty.
    operator : name with ``*`` for the lane and without its number, such as ``matmul_up.*``.
    lane : numbers of the lane, such as ``(60,)``; empty for an operator that exists once.
    """

    stage: str
    operator: str
    lane: tuple[int, ...]


def place_of(name: str) -> Place:
    """The place in the program that the name of a unit or a FIFO implies.

    Example
    -------
    >>> place_of("matmul_up.60#832")
    Place(stage='', operator='matmul_up.*', lane=(60,))
    >>> place_of("moe.expert.3.up#17").stage
    'moe.expert.*'
    """
    plain = _NUMBER.sub("", name)
    lane = tuple(int(number) for number in _LANE.findall(plain))
    operator = _LANE.sub("*", plain)
    inner = operator.partition("(")[2].rstrip(")") or operator
    words = inner.partition(">")[0].removesuffix(".*").split(".")
    stage = ".".join(words[:-1])
    return Place(stage, operator, lane)


def operators_of(names: Sequence[str], kinds: Sequence[str]) -> list[tuple[str, str, list[int]]]:
    """Name, kind and units of each operator. A few units that share a name but are not lanes stay
    separate."""
    found: dict[tuple[str, str], list[int]] = {}
    laned = set()
    for number, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        place = place_of(name)
        found.setdefault((place.operator, kind), []).append(number)
        if place.lane:
            laned.add(place.operator)
    groups = []
    for (operator, kind), members in found.items():
        if operator in laned or len(members) == 1:
            groups.append((operator, kind, members))
        elif len(members) > _MOST_ALIKE:
            groups.append((f"{operator}#*", kind, members))
        else:
            groups += [(names[number], kind, [number]) for number in members]
    return groups
