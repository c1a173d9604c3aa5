"""The search of a placement: constructed from the streams, then annealed; by seed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from typing import Any, Final

import numpy as np

from stepsim.errors import ArgError
from stepsim.kernels import Annealing, anneal
from stepsim.noc import Topology, Whole, networks_taken
from stepsim.placement.flows import Flows
from stepsim.placement.regions import Regions, free_regions

MOST_PLACES: Final = 576
"""Places of a network between which routes are kept."""

_STARTS: Final = 8
_MOVES: Final = (200_000, 2_000, 1_000_000)
"""Moves from each start with effort 1: at least, for each operator and port, at most."""

_AT_ONCE: Final = _MOVES[-1]
"""Moves whose random numbers are in memory."""

_HOT: Final = 0.02
_COLD: Final = 1e-5
_STILL: Final = 0.1
"""Temperatures at the start and end, as parts of the first score, and the part of moves without."""

_WEIGHT: Final = 4


def searched(
    flows: Flows, topology: Topology, tiles: Whole, memory: Whole, first: Whole, *,
    per_tile: int, seed: int, effort: float, regions: Regions | None = None,
) -> Whole:  # fmt: skip
    """Place of every item, with the least bytes on the busiest link, then the least bytes x hops.

    Parameters
    ----------
    tiles, memory : places that operators and memory ports can have.
    regions : where operators must be; anywhere if absent.
    first : places that the result must not be worse than, which is one of the starts.

    Raises
    ------
    ArgError : the network has too many places.
    """
    used = np.union1d(tiles, memory)
    if len(used) > MOST_PLACES:
        raise ArgError(
            f"place: network '{topology.network.name}' has {len(used)} places of workers and "
            f"memory, more than the {MOST_PLACES} that are searched; take a part of it, or state "
            "the placement"
        )
    if not flows.items:
        return first  # a program without operators
    count = len(flows.operators)
    slots = np.repeat(np.searchsorted(used, tiles), min(per_tile, count))
    ports = np.searchsorted(used, memory)
    pairs = np.arange(len(used))
    source, target = np.repeat(used, len(used)), np.tile(used, len(used))
    wanted, table = np.unique(flows.network, return_inverse=True)
    wanted = wanted if len(wanted) else np.zeros(1, np.int64)
    every = [
        topology.routes(
            source, target,
            networks_taken(topology, np.full(len(source), one, np.int64), source, target),
        )
        for one in wanted
    ]  # fmt: skip
    links = np.concatenate([one.links for one in every])
    begin = np.concatenate([[0], np.cumsum(links)])
    route = np.concatenate([one.path[one.path < topology.link_count] for one in every])
    tables = (len(source) * table.reshape(-1)).astype(np.int64)
    hops = every[-1].links.reshape(len(pairs), len(pairs))
    its = regions or free_regions(count, topology.places)
    allowed = its.slots(used[slots])
    random = np.random.Generator(np.random.PCG64(seed))
    least, each, most = _MOVES
    moves = max(1, int(effort * min(max(each * flows.items, least), most)))
    found: tuple[int, int, Whole] | None = None
    for start in range(_STARTS):
        if start == 0:
            slot, port = _slots_of(np.searchsorted(used, first), slots, count)
        elif start == 1:
            slot, port = _constructed(flows, slots, ports, hops, its.order, allowed)
        else:
            slot = _first_fit(random.permutation(len(slots)), its.order, allowed)
            port = ports[random.integers(len(ports), size=len(flows.ports))]
        state = _state(
            flows, slots, ports, slot, port, begin, route, tables, len(used), topology, its,
            used[slots],
        )  # fmt: skip
        anneal(state)
        score = max(int(state.words[4]) * int(state.score[0]) + int(state.score[1]), 1)
        for part in _with_moves(state, flows.items, moves, score, random):
            anneal(part)
        if found is None or (state.score[2], state.score[3]) < found[:2]:
            found = int(state.score[2]), int(state.score[3]), used[state.best]
    assert found is not None
    return found[2]


def _slots_of(places: Whole, slots: Whole, count: int) -> tuple[Whole, Whole]:
    """Slots of operators by their places, and the places of ports behind them."""
    taken: dict[int, int] = {}
    firsts = {int(place): i for i, place in reversed(list(enumerate(slots)))}
    found = np.zeros(count, np.int64)
    for operator in range(count):
        place = int(places[operator])
        found[operator] = firsts[place] + taken.get(place, 0)
        taken[place] = taken.get(place, 0) + 1
    return found, places[count:]


def _first_fit(slots: Whole, order: Sequence[int], allowed: Sequence[Whole]) -> Whole:
    """A slot for every operator: the first that it may have and that is not taken."""
    rank = np.empty(len(slots), np.int64)
    rank[slots] = np.arange(len(slots))
    found = np.zeros(len(order), np.int64)
    for operator in order:
        own = allowed[operator]
        found[operator] = own[rank[own].argmin()]
        rank[found[operator]] = len(slots)
    return found


def row_major(
    flows: Flows, topology: Topology, tiles: Whole, per_tile: int, regions: Regions
) -> Whole:
    """Place of every operator in its region, in the order of the program and row by row."""
    slots = np.repeat(tiles, min(per_tile, len(flows.operators)))
    return slots[_first_fit(np.arange(len(slots)), regions.order, regions.slots(slots))]


def _constructed(
    flows: Flows, slots: Whole, ports: Whole, hops: Whole, order: Sequence[int],
    allowed: Sequence[Whole],
) -> tuple[Whole, Whole]:  # fmt: skip
    """Operators one after another, each where its bytes to those before go the least hops."""
    count = len(flows.operators)
    neighbors: list[list[tuple[int, int]]] = [[] for _ in range(flows.items)]
    for one, other, nbytes in zip(
        flows.source.tolist(), flows.target.tolist(), flows.nbytes.tolist(), strict=True
    ):
        neighbors[one].append((other, nbytes))
        neighbors[other].append((one, nbytes))
    around = (hops + hops.T).astype(np.float64)
    place = np.full(flows.items, -1, np.int64)
    # Ports take turns, so that no memory place is used more than others.
    place[count:] = ports[np.arange(len(flows.ports)) % len(ports)]
    slot = np.zeros(count, np.int64)
    taken = np.zeros(len(slots), np.bool_)
    for operator in order:
        cost = np.zeros(len(hops))
        for other, nbytes in neighbors[operator]:
            if place[other] >= 0:
                cost += nbytes * around[place[other]]
        may = allowed[operator]
        own = np.where(taken[may], np.inf, cost[slots[may]])
        slot[operator] = may[own.argmin()]
        taken[slot[operator]] = True
        place[operator] = slots[slot[operator]]
    return slot, place[count:]


def _state(
    flows: Flows, slots: Whole, ports: Whole, slot: Whole, port: Whole, begin: Whole,
    route: Whole, table: Whole, places: int, topology: Topology, regions: Regions, at: Whole,
) -> Annealing:  # fmt: skip
    count = len(flows.operators)
    ends = np.concatenate([flows.source, flows.target])
    order = np.argsort(ends, kind="stable")
    streams = np.tile(np.arange(len(flows.nbytes)), 2)[order]
    of_item_begin = np.searchsorted(ends[order], np.arange(flows.items + 1))
    occupant = np.full(len(slots), -1, np.int64)
    occupant[slot] = np.arange(count)
    links = int(topology.exists(np.arange(topology.link_count)).sum())
    nothing = np.zeros(0, np.int64)
    return Annealing(
        np.array(
            [
                count, len(slots), len(ports), places, _WEIGHT * max(links, 1),
                topology.link_count, len(flows.names), flows.items, flows.trees, 0,
            ],
            np.int64,
        ),
        begin.astype(np.int64), route.astype(np.int64), slots.astype(np.int64),
        ports.astype(np.int64), regions.of_operators.astype(np.int64),
        regions.of_places[at].astype(np.int64),
        np.concatenate([slots[slot], port]).astype(np.int64),
        slot.astype(np.int64), occupant, flows.source, flows.target, flows.nbytes, table,
        flows.tree, np.zeros(flows.trees * topology.link_count, np.int64),
        of_item_begin.astype(np.int64), streams.astype(np.int64),
        np.zeros(topology.link_count, np.int64), np.array([0, 0, -1, -1], np.int64),
        np.zeros(flows.items, np.int64), nothing, nothing, np.zeros(0),
    )  # fmt: skip


def _with_moves(
    state: Annealing, items: int, moves: int, score: int, random: np.random.Generator
) -> Iterator[Annealing]:
    """The state with all moves, in parts that follow each other."""
    hot = moves - int(_STILL * moves)
    parts = [(first, min(first + _AT_ONCE, moves)) for first in range(0, moves, _AT_ONCE)]

    def chances(random: np.random.Generator, first: int, last: int) -> Any:
        found = np.zeros(last - first)
        count = max(min(last, hot) - first, 0)
        # As np.linspace(0, 1, hot) is.
        passed = np.arange(first, first + count) * (1 / max(hot - 1, 1))
        if count and first + count == hot > 1:
            passed[-1] = 1
        heat = _HOT * (_COLD / _HOT) ** passed
        found[:count] = score * heat * random.exponential(size=count)
        return found

    drawn = (
        _in_parts(random, parts, chances),
        _in_parts(random, parts, lambda random, i, j: random.integers(items, size=j - i)),
        _in_parts(random, parts, lambda random, i, j: random.integers(1 << 30, size=j - i)),
    )
    for chance, item, goal in zip(*drawn, strict=True):
        words = state.words.copy()
        words[-1] = len(item)
        yield state._replace(words=words, item=item, goal=goal, chance=chance)


def _in_parts(
    random: np.random.Generator, parts: Sequence[tuple[int, int]],
    draw: Callable[[np.random.Generator, int, int], Any],
) -> Iterable[Any]:  # fmt: skip
    """Random numbers by parts; those of the generator that follow are behind all of them."""
    if len(parts) == 1:
        return [draw(random, *parts[0])]
    own = deepcopy(random)
    for first, last in parts:
        draw(random, first, last)
    return (draw(own, first, last) for first, last in parts)
