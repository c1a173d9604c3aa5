"""Legs: the ways of the tokens of a placed program, from unit to unit and to memory ports.

Ends of legs are numbered: the units of the wired program, and behind them the memory port of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from stepsim.graph import Wiring
from stepsim.machine import Network
from stepsim.noc.places import has_port
from stepsim.noc.topology import Topology, Whole

SHORTER: Final = 2
"""In place of the number of a network: the one with the shorter route."""


class Leg(NamedTuple):
    """A part of the way of the tokens of a FIFO.

    Attributes
    ----------
    source, target : numbers of its ends.
    reads : whether it is between a load and its memory port.
    """

    source: int
    target: int
    reads: bool


def legs_of(wiring: Wiring) -> list[list[Leg]]:
    """The legs of every FIFO, one after the other.

    What a load sends comes from its memory port first, and what a store or an address takes goes to
    that of the operator.
    """
    count = len(wiring.units)
    reading = {
        u: "Load" in unit.kind
        for u, unit in enumerate(wiring.units)
        if unit.operator is not None and has_port(unit.operator)
    }
    producers, consumers = [0] * len(wiring.fifos), [0] * len(wiring.fifos)
    for u, unit in enumerate(wiring.units):
        for c in unit.outputs:
            producers[c] = u
        for c in unit.inputs:
            consumers[c] = u
    ways = []
    for source, target in zip(producers, consumers, strict=True):
        way = [Leg(source, target, False)]
        if source in reading:
            way.insert(0, Leg(count + source, source, reading[source]))
        if target in reading:
            way.append(Leg(target, count + target, reading[target]))
        ways.append(way)
    return ways


def copies_in_trees(network: Network, wiring: Wiring) -> list[int]:
    """The broadcasts to several readers of a program, by the number of the unit; none where every
    reader has a route of its own."""
    if network.broadcast != "tree":
        return []
    units = enumerate(wiring.units)
    return [u for u, unit in units if unit.operator is None and len(unit.outputs) > 1]


def network_of_leg(network: Network, *, reads: bool, shared: bool) -> int:
    """The network that a leg takes, or `SHORTER`; ``shared`` in a tree."""
    if network.networks == 1:
        return 0
    if network.streams == "by-access":
        return 0 if reads else 1
    if network.streams == "shorter":
        return 1 if shared else SHORTER
    return 0 if network.streams == "first" else 1


def shorter_network(topology: Topology, source: Whole, target: Whole) -> Whole:
    """Of two networks the one with the shorter route, 0 if they are equal."""
    lengths = [
        topology.routes(source, target, np.full(len(source), network, np.int64)).links
        for network in range(2)
    ]
    return (lengths[1] < lengths[0]).astype(np.int64)


def networks_taken(topology: Topology, wanted: Whole, source: Whole, target: Whole) -> Whole:
    """The networks of legs, with that of the shorter route in place of `SHORTER`."""
    taken = wanted.copy()
    chosen = np.flatnonzero(wanted == SHORTER)
    if len(chosen):
        taken[chosen] = shorter_network(topology, source[chosen], target[chosen])
    return taken


def nearest_tiles(
    topology: Topology, starts: Sequence[int], ends: Sequence[int], wanted: int
) -> tuple[int, int]:
    """The tiles by which a stream leaves and enters: those with the fewest links between them.

    Of several such pairs it is the first, by the order in which the tiles are named.
    """
    if len(starts) == len(ends) == 1:
        return starts[0], ends[0]
    source = np.repeat(np.array(starts, np.int64), len(ends))
    target = np.tile(np.array(ends, np.int64), len(starts))
    taken = networks_taken(topology, np.full(len(source), wanted), source, target)
    best = int(topology.routes(source, target, taken).links.argmin())
    return int(source[best]), int(target[best])


class Branches(NamedTuple):
    """Routes from one place as a tree; see :class:`stepsim.lowering.Tree`.

    Attributes
    ----------
    path : ports.
    before : place in ``path`` of what leads to the router of each.
    ends : place in ``path`` of the end of every route.
    """

    path: tuple[int, ...]
    before: tuple[int, ...]
    ends: tuple[int, ...]


def tree_of(routes: Sequence[Sequence[int]]) -> Branches:
    """The tree of the ports of routes, which share their first ones until they part."""
    path, before = [routes[0][0]], [-1]
    at = {routes[0][0]: 0}
    k = 0
    while k < len(path):
        port = path[k]
        after = {
            route[i + 1] for route in routes for i in range(len(route) - 1) if route[i] == port
        }
        for one in sorted(after):
            at[one] = len(path)
            path.append(one)
            before.append(k)
        k += 1
    return Branches(tuple(path), tuple(before), tuple(at[route[-1]] for route in routes))
