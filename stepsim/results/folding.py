"""Units folded to what a reader sees as one: the lanes of an operator, and the parts of a call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stepsim.results.places import place_of, unnumbered, whole_of


@dataclass(frozen=True, slots=True)
class Folded:
    """One box of a picture of a program.

    Attributes
    ----------
    name : of its unit; of lanes without what distinguishes them: ``matmul_up.*``, ``silu``.
    kind : of its units; of a call, those of its parts.
    source : line of the user's code, as ``file:line``, of the first unit; empty if there is none.
    members : numbers of its units, lane by lane.
    count : lanes, or calls.
    """

    name: str
    kind: str
    source: str
    members: tuple[int, ...]
    count: int


def folded(
    names: Sequence[str],
    kinds: Sequence[str],
    sources: Sequence[str | None],
    fifos: Iterable[tuple[int, int]],
) -> list[Folded]:
    """The boxes of a program, in the order of their first units.

    Units whose labels differ in the number of their lane are lanes. Others are lanes if they have
    the same name, kind and source line, and read from the same boxes: the bodies of a loop of
    parallel chains, but not the links of one chain. The parts of a call are one box.

    Parameters
    ----------
    names, kinds, sources : of all units, in construction order.
    fifos : number of the producer and of the consumer of every FIFO.
    """
    before: list[list[int]] = [[] for _ in names]
    for producer, consumer in fifos:
        before[consumer].append(producer)
    colors = _colors(names, kinds, sources, before)
    calls: dict[str, list[int]] = {}
    for unit, name in enumerate(names):
        calls.setdefault(whole_of(name) or name, []).append(unit)
    boxes: dict[tuple[int, ...], list[tuple[str, list[int]]]] = {}
    for title, members in calls.items():
        look = tuple(sorted(colors[unit] for unit in members))
        boxes.setdefault(look, []).append((title, members))
    return [_box(alike, kinds, sources) for alike in boxes.values()]


def _box(
    alike: Sequence[tuple[str, Sequence[int]]],
    kinds: Sequence[str],
    sources: Sequence[str | None],
) -> Folded:
    """The box of calls, or single units, that look alike."""
    title, first = alike[0]
    name = title if len(alike) == 1 else place_of(title).operator
    kind = ", ".join(dict.fromkeys(kinds[unit] for unit in first))
    members = tuple(unit for _, units in alike for unit in units)
    return Folded(name, kind, sources[first[0]] or "", members, len(alike))


def _colors(
    names: Sequence[str],
    kinds: Sequence[str],
    sources: Sequence[str | None],
    before: Sequence[Sequence[int]],
) -> list[int]:
    """A number for each unit; those of lanes of one operator are equal."""
    known: dict[object, int] = {}
    colors = [-1] * len(names)
    for unit in _forward(before):
        place = place_of(names[unit])
        look: object = (place.operator, kinds[unit])
        if not place.lane:
            # What closes a cycle has no color yet.
            fed = frozenset(colors[one] for one in before[unit])
            look = (unnumbered(names[unit]), kinds[unit], sources[unit] or "", fed)
        colors[unit] = known.setdefault(look, len(known))
    return colors


def _forward(before: Sequence[Sequence[int]]) -> list[int]:
    """Units after those that they read from, except along edges that close a cycle."""
    order: list[int] = []
    seen = [False] * len(before)
    for start in range(len(before)):
        stack = [] if seen[start] else [(start, iter(before[start]))]
        seen[start] = True
        while stack:
            unit, left = stack[-1]
            producer = next((one for one in left if not seen[one]), None)
            if producer is None:
                order.append(unit)
                stack.pop()
            else:
                seen[producer] = True
                stack.append((producer, iter(before[producer])))
    return order
