"""The place of a unit or FIFO in its program, derived from its name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from stepsim.frozen import NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

_NUMBER = re.compile(r"#\d+")
_LANE = re.compile(r"(?<=\.)\d+(?=[./)>:]|$)")

_PART = re.compile(r"(.*#\d+)/[^/#]+")
_READER = re.compile(r"(>\d+)+$")

_MOST_STREAMS: Final = 4
"""Streams of a link that are named."""

_MOST_FLOWS: Final = 4
"""Entries of a list of FIFOs; more are only counted."""

_MOST_ALIKE: Final = 8
"""Units of one name, without a lane, that are distinguished by their numbers."""


_LEAST_LOOP: Final = 3
"""Units of one name that one line makes only in a loop; a sum of three streams has two."""


class Place(NamedTuple):
    """The place of a unit or FIFO.

    Attributes
    ----------
    stage : prefix of a layer, such as ``moe.expert.*``, or the call of which an operator is a part,
        such as ``expand#5``; or empty.
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
    >>> place_of("expand#5/repeat").stage
    'expand#5'
    """
    plain = unnumbered(name)
    lane = tuple(int(number) for number in _LANE.findall(plain))
    operator = _LANE.sub("*", plain)
    whole = whole_of(name)
    if whole:
        # Calls in one lane each are distinguished by their lanes.
        return Place(_LANE.sub("*", unnumbered(whole)) if lane else whole, operator, lane)
    inner = operator.partition("(")[2].rstrip(")") or operator
    words = inner.partition(">")[0].removesuffix(".*").split(".")
    return Place(".".join(words[:-1]), operator, lane)


def whole_of(name: str) -> str:
    """``expand#5``, the call of which a unit or FIFO such as ``expand#5/repeat`` is a part."""
    found = _PART.fullmatch(name.partition("(")[2].rstrip(")") or name)
    return found[1] if found else ""


def unnumbered(name: str) -> str:
    """The name of a unit or FIFO without the numbers of operators: ``silu`` of ``silu#8``."""
    return _NUMBER.sub("", name)


def line_of(source: str | None) -> str:
    """``model.py:12`` of a source line with the folder of its file; empty if there is none."""
    return re.split(r"[\\/]", source)[-1] if source else ""


def flow_of(fifo: str, consumer: str) -> str:
    """What a FIFO joins, in the words of the program: ``x#1.2 -> add#7``.

    FIFOs are named after their producer and, behind a broadcast, the number of the reader.
    """
    return f"{_source(fifo)} -> {consumer}"


def flows_text(fifos: Iterable[tuple[str, str]], most: int = _MOST_FLOWS) -> str:
    """A list of FIFOs, as pairs of their name and their consumer, with lanes as one entry.

    Example
    -------
    >>> flows_text([("load.0#1", "linear.0#2"), ("load.1#3", "linear.1#4"), ("x#5.2", "y#6")])
    'load.* -> linear.* (2 FIFOs), x#5.2 -> y#6'
    """
    groups: dict[tuple[str, str], list[str]] = {}
    for fifo, consumer in fifos:
        key = place_of(_source(fifo)).operator, place_of(consumer).operator
        groups.setdefault(key, []).append(flow_of(fifo, consumer))
    parts = [
        members[0] if len(members) == 1 else f"{source} -> {to} ({len(members)} FIFOs)"
        for (source, to), members in groups.items()
    ]
    more = len(parts) - most
    return ", ".join(parts) if more <= 0 else f"{', '.join(parts[:most])} and {more} more"


def sharing_text(streams: Sequence[str]) -> str:
    """The streams of a link, as the end of a sentence.

    Example
    -------
    >>> sharing_text(["x#0", "y#1"])
    'x#0, y#1 share it'
    """
    shown = ", ".join(streams[:_MOST_STREAMS])
    more = len(streams) - _MOST_STREAMS
    if more > 0:
        shown = f"{shown} and {more} more"
    return f"{shown} share it" if len(streams) > 1 else f"{shown} takes it"


def _source(fifo: str) -> str:
    return _READER.sub("", fifo)


def operators_of(units: pa.Table) -> list[tuple[str, str, list[int]]]:
    """Name, kind and rows of each operator of a table of units. A few units that share a name but
    are not lanes stay separate, but those that a source line makes in a loop."""
    names, kinds = units["name"].to_pylist(), units["operator"].to_pylist()
    # Tables of sweeps have none.
    lines = units["source"].to_pylist() if "source" in units.column_names else [None] * len(names)
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
            groups += _by_loop(operator, kind, members, names, lines)
    return groups


def _by_loop(
    operator: str,
    kind: str,
    members: Sequence[int],
    names: Sequence[str],
    lines: Sequence[str | None],
) -> Iterable[tuple[str, str, list[int]]]:
    """Units that share a name: those of one source line as one entry where it is in a loop."""
    of_line: dict[str | None, list[int]] = {}
    for number in members:
        of_line.setdefault(lines[number], []).append(number)
    loops = [own for line, own in of_line.items() if line and len(own) >= _LEAST_LOOP]
    for own in of_line.values():
        if own not in loops:
            yield from ((names[number], kind, [number]) for number in own)
        elif len(loops) == 1:
            yield f"{operator}#*", kind, own
        else:  # of several loops
            yield f"{names[own[0]]}..{names[own[-1]].rpartition('#')[2]}", kind, own
