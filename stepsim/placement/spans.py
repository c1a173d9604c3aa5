"""Operators on several tiles: their parts as items of a search, and the streams of each part.

A stream leaves an operator by the tile, and enters one by the tile, between which there are the
fewest links; the search has an item for every tile of an operator, and a stream is that of two of
them. What tiles a stream takes follows from the places of all, so that places and tiles of streams
are found in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from stepsim.arguments import Range, shown
from stepsim.errors import ArgError, did_you_mean
from stepsim.noc import Topology, Whole, nearest_tiles
from stepsim.placement.flows import Flows
from stepsim.placement.regions import Regions

_MOST: Final = Range(1 << 20, "tiles of an operator")

_ROUNDS: Final = 4
"""Most searches from each of the starts, each with the tiles that streams took after the last."""

_EXCHANGES: Final = 2000
"""Exchanges of two places that are tried with effort 1 at the end."""


def checked_tiles(name: str, tiles: Any, operators: Iterable[str], per_tile: int) -> dict[str, int]:
    """The number of tiles of every operator, as given by name; 1 for the others.

    Raises
    ------
    ArgError : there is no such operator, a number is out of range, or tiles hold several operators.
    """
    known = dict.fromkeys(operators, 1)
    if tiles is None:
        return known
    where = f"program '{name}', place: tiles"
    if not isinstance(tiles, Mapping) or not tiles:
        raise ArgError(
            f"{where}: expected a mapping from names of operators to numbers of tiles, found "
            f"{shown(tiles)}"
        )
    for operator, count in tiles.items():
        if operator not in known:
            near = did_you_mean(operator, list(known)) if isinstance(operator, str) else "."
            raise ArgError(f"{where}: the program has no operator {shown(operator)}{near}")
        known[operator] = _MOST.checked(f"{where}['{operator}']", count)
    if per_tile > 1 and max(known.values()) > 1:
        raise ArgError(
            f"{where}: operators on several tiles and per_tile={per_tile} exclude each other; "
            "leave one of them out"
        )
    return known


def spread(flows: Flows, spans: Mapping[str, int]) -> Flows:
    """The flows with an item for every tile of an operator; streams are those of the first."""
    counts = np.array([spans[name] for name in flows.operators], np.int64)
    if (counts == 1).all():
        return flows
    names = tuple(np.repeat(np.array(flows.operators, object), counts).tolist())
    part = tuple(i for count in counts.tolist() for i in range(count))
    more = int(counts.sum()) - len(counts)
    count = len(counts)
    item = np.concatenate([np.cumsum(counts) - counts, np.arange(count, flows.items) + more])
    return replace(
        flows, operators=names, part=part, source=item[flows.source], target=item[flows.target]
    )


def by_nearest(flows: Flows, topology: Topology, places: Whole) -> Flows:
    """The flows with every stream between those tiles of its operators that it takes."""
    if not any(flows.part):
        return flows
    first = [i for i, part in enumerate(flows.part) if part == 0]
    ends = [*first[1:], len(flows.part)]
    own = {
        item: range(begin, end) for begin, end in zip(first, ends, strict=True)
        for item in range(begin, end)
    }  # fmt: skip
    source, target = flows.source.copy(), flows.target.copy()
    for stream, (one, other) in enumerate(zip(source.tolist(), target.tolist(), strict=True)):
        starts, stops = own.get(one, range(one, one + 1)), own.get(other, range(other, other + 1))
        if len(starts) == len(stops) == 1:
            continue
        if flows.tree[stream] >= 0:
            starts = starts[:1]  # a tree begins at one tile
        tiles, goals = places[list(starts)].tolist(), places[list(stops)].tolist()
        begin, end = nearest_tiles(topology, tiles, goals, int(flows.network[stream]))
        source[stream], target[stream] = starts[tiles.index(begin)], stops[goals.index(end)]
    return replace(flows, source=source, target=target)


def searched_in_turn(
    flows: Flows, topology: Topology, workers: Whole, first: Whole, regions: Regions,
    search: Callable[[Flows, Whole], Whole], effort: float,
) -> Whole:  # fmt: skip
    """Place of every item, by searches for the tiles that streams take, and exchanges in the end.

    Parameters
    ----------
    first : places that the result must not be worse than.
    search : finds places for flows between given tiles, no worse for these than others.
    """
    best, least = first, _score(flows, topology, first)
    for start in (by_nearest(flows, topology, first), _in_turn(flows)):
        now, places = start, first
        for _ in range(_ROUNDS):
            places = search(now, places)
            after = by_nearest(flows, topology, places)
            score = _score(flows, topology, places)
            if score < least:
                best, least = places, score
            if (after.source == now.source).all() and (after.target == now.target).all():
                break
            now = after
    return _exchanged(flows, topology, workers, best, least, regions, int(_EXCHANGES * effort))


def _score(flows: Flows, topology: Topology, places: Whole) -> tuple[int, int]:
    """Bytes of the busiest link, and bytes times hops, when streams take the nearest tiles."""
    loads = by_nearest(flows, topology, places).loads(topology, places)
    return int(loads.max(initial=0)), int(loads.sum())


def _in_turn(flows: Flows) -> Flows:
    """The flows with the streams of an operator at its tiles in turn."""
    names = np.array([*flows.operators, *flows.ports], object)
    items: dict[str, list[int]] = {}
    for item, name in enumerate(flows.operators):
        items.setdefault(name, []).append(item)
    count, used = len(flows.operators), dict.fromkeys(items, 0)

    def next_of(item: int) -> int:
        if item >= count:
            return item
        name = names[item]
        used[name] += 1
        return items[name][(used[name] - 1) % len(items[name])]

    source = np.array([next_of(item) for item in flows.source.tolist()], np.int64)
    target = np.array([next_of(item) for item in flows.target.tolist()], np.int64)
    source = np.where(flows.tree >= 0, flows.source, source)
    return replace(flows, source=source, target=target)


def _exchanged(
    flows: Flows, topology: Topology, workers: Whole, places: Whole, least: tuple[int, int],
    regions: Regions, tries: int,
) -> Whole:  # fmt: skip
    """Places after all exchanges of two tiles that make them better, one after the other."""
    count = len(flows.operators)
    moved = True
    while moved and tries > 0:
        moved = False
        for item in range(count):
            for tile in workers.tolist():
                after = places.copy()
                other = np.flatnonzero(places[:count] == tile)
                after[other] = places[item]
                after[item] = tile
                if tile == places[item] or not _fits(regions, after[:count]):
                    continue
                tries -= 1
                score = _score(flows, topology, after)
                if score < least:
                    places, least, moved = after, score, True
                if tries <= 0:
                    return places
    return places


def _fits(regions: Regions, places: Whole) -> bool:
    bound = regions.of_operators >= 0
    return bool((regions.of_places[places[bound]] == regions.of_operators[bound]).all())
