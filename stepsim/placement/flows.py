"""Bytes that the streams and memory ports of a program carry in a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from stepsim.errors import ArgError
from stepsim.frozen import frozen
from stepsim.noc import Topology, Whole, placed_operators
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
    """

    operators: tuple[str, ...]
    ports: tuple[str, ...]
    names: tuple[str, ...]
    source: Whole
    target: Whole
    nbytes: Whole

    @property
    def items(self) -> int:
        """Number of operators and memory ports."""
        return len(self.operators) + len(self.ports)

    def routes(self, topology: Topology, places: Whole) -> tuple[Whole, Whole]:
        """Links of all streams one after the other, and the stream of each, by places of items."""
        nothing = np.zeros(len(self.names), np.int64)
        routes = topology.routes(places[self.source], places[self.target], nothing)
        owner = np.repeat(np.arange(len(self.names)), np.diff(routes.begin))
        inner = routes.path < topology.link_count
        return routes.path[inner], owner[inner]

    def loads(self, topology: Topology, places: Whole) -> Whole:
        """Bytes over every link. [links]"""
        links, owner = self.routes(topology, places)
        found = np.zeros(topology.link_count, np.int64)
        np.add.at(found, links, self.nbytes[owner])
        return found


def flows_of(prepared: Prepared, bindings: Mapping[Any, Any] | None = None) -> Flows:
    """The bytes of a run without a placement, which are those of every placement.

    A stream with several readers goes to each of them. Bytes of memory ports are those of its
    requests' data: loads come from the port, stores go to it.

    Raises
    ------
    ArgError : the run does not end.
    """
    wiring = prepared.wiring
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
    producers = [fifo.stream.producer.title() for fifo in wiring.fifos]
    total = np.concatenate(([0], np.cumsum(events.nbytes)))
    carried = total[events.first[1:]] - total[events.first[:-1]]
    rows: list[tuple[str, int, int, int]] = []
    for fifo, nbytes in enumerate(carried):
        unit = wiring.units[events.consumers[fifo]]
        if unit.operator is not None and nbytes:
            name = flow_of(wiring.fifos[fifo].name, unit.name)
            rows.append((name, number[producers[fifo]], number[unit.name], int(nbytes)))
    moved = dict(zip(events.units, result.units["offchip_bytes"].to_pylist(), strict=True))
    for at, name in enumerate(ports):
        if moved[name]:
            own, port = number[name], len(operators) + at
            stores = not _is_load(wiring, name)
            ends = (own, port) if stores else (port, own)
            words = f"{name} -> memory" if stores else f"memory -> {name}"
            rows.append((words, *ends, int(moved[name])))
    rows = [row for row in rows if row[1] != row[2]]
    source, target, amount = (
        np.array([row[column] for row in rows], np.int64) for column in (1, 2, 3)
    )
    return Flows(operators, ports, tuple(row[0] for row in rows), source, target, amount)


def _is_load(wiring: Any, name: str) -> bool:
    return next("Load" in unit.kind for unit in wiring.units if unit.name == name)
