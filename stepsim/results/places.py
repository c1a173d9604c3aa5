"""Where a unit or FIFO belongs in its program, by its name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

__all__ = ["Place", "operators_of", "place_of"]

_NUMBER = re.compile(r"#\d+")
_LANE = re.compile(r"(?<=\.)\d+(?=[.)>]|$)")

_MOST_ALIKE: Final = 8
"""Units of one name, without a lane, that are told apart by their numbers."""


class Place(NamedTuple):
    """Where a unit or FIFO belongs.

    Attributes
    ----------
    stage : prefix of a layer, as ``moe.expert.*``, or empty.
    operator : name with ``*`` for the lane and without its number, as ``matmul_up.*``.
    lane : numbers of the lane, as ``(60,)``; empty for an operator that exists once.
    """

    stage: str
    operator: str
    lane: tuple[int, ...]


def place_of(name: str) -> Place:
    """What the name of a unit or a FIFO says about its place in the program.

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
    """Name, kind and units of each operator. Few that share a name without lanes stay apart."""
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
