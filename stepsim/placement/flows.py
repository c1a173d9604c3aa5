"""Bytes that the streams and memory ports of a program carry in a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from stepsim.errors import ArgError
from stepsim.frozen import frozen
from stepsim.machine import Network
from stepsim.noc import (
    Topology,
    Whole,
    copies_in_trees,
    legs_of,
    network_of_leg,
    networks_taken,
    placed_operators,
)
from stepsim.results import flow_of
from stepsim.simulation import Prepared


@frozen
class Flows:
    """Streams with their bytes; items are operators, and behind them memory ports.

    Attributes
    ----------
    operators : names of the operators.
    ports : names of those with a memory port, in the order of the ports.
    names : of the streams, in words.
    source, target : items that a stream joins. [streams]
    nbytes : of a stream in the run. [streams]
    network : that a stream takes, or ``SHORTER``. [streams]
    tree : number of the tree that a stream is a branch of, or -1. Its bytes pass a link once.
        [streams]
    part : where operators are on several tiles, which tile of its operator each one is; their names
        then follow each other.
    """

    operators: tuple[str, ...]
    ports: tuple[str, ...]
    names: tuple[str, ...]
    source: Whole
    target: Whole
    nbytes: Whole
    network: Whole
    tree: Whole
    part: tuple[int, ...] = ()

    @property
    def items(self) -> int:
        """Number of operators and memory ports."""
        return len(self.operators) + len(self.ports)

    @property
    def trees(self) -> int:
        """Number of trees."""
        return int(self.tree.max(initial=-1)) + 1

    def along(self, item: int) -> Whole:
        """The streams of an item, and the other branches of their trees."""
        own = (self.source == item) | (self.target == item)
        trees = self.tree[own]
        return np.flatnonzero(own | np.isin(self.tree, trees[trees >= 0]))

    def routes(
        self, topology: Topology, places: Whole, streams: Whole | None = None
    ) -> tuple[Whole, Whole]:
        """Links of all streams, or of some, one after the other, and the stream of each, by places
        of items.

        A link of a tree is that of the first stream that takes it.
        """
        some = np.arange(len(self.names)) if streams is None else streams
        source, target = places[self.source[some]], places[self.target[some]]
        taken = networks_taken(topology, self.network[some], source, target)
        routes = topology.routes(source, target, taken)
        owner = np.repeat(some, np.diff(routes.begin))
        inner = routes.path < topology.link_count
        links, owner = routes.path[inner], owner[inner]
        alone = np.flatnonzero(self.tree[owner] < 0)
        shared = np.flatnonzero(self.tree[owner] >= 0)
        of_tree = self.tree[owner[shared]] * topology.link_count + links[shared]
        first = shared[np.unique(of_tree, return_index=True)[1]]
        kept = np.sort(np.concatenate([alone, first]))
        return links[kept], owner[kept]

    def loads(self, topology: Topology, places: Whole, streams: Whole | None = None) -> Whole:
        """Bytes over every link, of all streams or of some. [links]"""
        links, owner = self.routes(topology, places, streams)
        found = np.zeros(topology.link_count, np.int64)
        np.add.at(found, links, self.nbytes[owner])
        return found


def flows_of(prepared: Prepared, bindings: Mapping[Any, Any] | None = None) -> Flows:
    """The bytes of a run without a placement, which are those of every placement.

    What a load sends comes from its memory port, what a store or an address takes goes on to that
    of the operator. A stream with several readers goes to each of them.

    Raises
    ------
    ArgError : the run does not end.
    """
    wiring, network = prepared.wiring, prepared.machine.noc
    assert network is not None
    result = prepared.result(bindings, record=True)
    if result.status != "ok":
        raise ArgError(
            f"place: program '{prepared.program.name}' ends with status '{result.status}', so that "
            "the bytes of its streams are not known; correct it first (`stepsim why`)"
        )
    events = result.events
    assert events is not None
    known = placed_operators(prepared.program)
    operators = tuple(known)
    number = {name: i for i, name in enumerate(operators)}
    ports = tuple(name for name, offchip in known.items() if offchip)
    port = {name: len(operators) + i for i, name in enumerate(ports)}
    total = np.concatenate(([0], np.cumsum(events.nbytes)))
    carried = total[events.first[1:]] - total[events.first[:-1]]
    # A broadcast is where the operator is whose stream it copies.
    names = [
        unit.name if unit.operator is not None
        else wiring.fifos[unit.inputs[0]].stream.producer.title()
        for unit in wiring.units
    ]  # fmt: skip
    count = len(names)
    tree_of = _trees(network, wiring)
    rows: list[tuple[str, int, int, int, int, int]] = []
    for fifo, way in enumerate(legs_of(wiring)):
        reader = names[events.consumers[fifo]]
        for i, leg in enumerate(way):
            one, other = names[leg.source % count], names[leg.target % count]
            source = port[one] if leg.source >= count else number[one]
            target = port[other] if leg.target >= count else number[other]
            if source == target or not carried[fifo]:
                continue
            words = flow_of(wiring.fifos[fifo].name, reader)
            if leg.source >= count:
                words = f"memory -> {other}"
            elif leg.target >= count:
                words = f"{one} -> memory"
            tree = tree_of.get(fifo, -1) if i == 0 else -1
            wanted = network_of_leg(network, reads=leg.reads, shared=tree >= 0)
            rows.append((words, source, target, int(carried[fifo]), wanted, tree))
    starts, ends, nbytes, networks, trees = (
        np.array([row[at] for row in rows], np.int64) for at in range(1, 6)
    )
    names_of_streams = tuple(row[0] for row in rows)
    return Flows(operators, ports, names_of_streams, starts, ends, nbytes, networks, trees)


def _trees(network: Network, wiring: Any) -> dict[int, int]:
    """The number of the tree of every FIFO that is a branch of one."""
    copies = copies_in_trees(network, wiring)
    return {fifo: tree for tree, unit in enumerate(copies) for fifo in wiring.units[unit].outputs}
