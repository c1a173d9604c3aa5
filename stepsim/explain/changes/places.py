"""Candidate changes of a placed program: its network on chip, and where its operators are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

import numpy as np

from stepsim.errors import ArgError
from stepsim.explain.changes.candidates import Change, option_text
from stepsim.graph import Program
from stepsim.noc import Placement, Topology, Whole, worker_places
from stepsim.placement import Flows, FoundPlacement, flows_of, placed, places_of
from stepsim.simulation import ImageRun, Prepared, prepare

_FACTOR: Final = 2
_MOST_FLIT: Final = 1 << 16
"""Bytes of the largest flit of a network."""

_EFFORT: Final = 0.25
"""Of the search of a placement, which is to take little more than a few runs."""

_STREAMS: Final = 4
"""Streams over the busiest link whose ends are moved."""


def network_changes(
    prepared: Prepared,
    bindings: Mapping[Any, Any] | None,
    done: ImageRun,
    *,
    ran: Callable[[], object] = lambda: None,
) -> Iterator[Change]:
    """Wider links, less latency, other places; nothing where no packet crossed the network.

    ``ran`` is called after the run that the search of a placement needs.
    """
    loads = prepared.loads(done)
    if loads is None or not loads.has_packets:
        return
    network = prepared.machine.noc
    assert network is not None  # the program is placed
    assert network.flits is not None
    flits = network.flits
    assert flits.flit_bytes is not None
    if flits.flit_bytes * _FACTOR <= _MOST_FLIT:
        wide = {"noc.flits.flit_bytes": flits.flit_bytes * _FACTOR}
        yield _of_network("twice the link width", "link", wide)
        free = {"noc.flits.flit_bytes": _MOST_FLIT}
        yield _of_network("link width without limit", "link", free, buildable=False)
    if flits.router > 1:
        half = {"noc.flits.router": flits.router // _FACTOR}
        yield _of_network("half the router delay", "network_latency", half)
    at_once = {"noc.flits.router": 0, "noc.flits.wire": 0, "noc.flits.inject": 0}
    if flits.router + flits.wire + flits.inject:
        yield _of_network("no network latency", "network_latency", at_once, buildable=False)
    yield from _other_places(prepared, bindings, ran)


def _of_network(
    name: str, kind: str, overrides: Mapping[str, Any], *, buildable: bool = True
) -> Change:
    return Change(
        name, kind, apply=option_text(overrides), overrides=overrides, buildable=buildable
    )


def _other_places(
    prepared: Prepared, bindings: Mapping[Any, Any] | None, ran: Callable[[], object]
) -> Iterator[Change]:
    present = prepared.placement
    assert present is not None  # the program is placed
    if any(len(tiles) > 1 for tiles in present.tiles.values()):
        return  # a search gives every operator one tile
    depth = prepared.fifo_depth if prepared.fifo_depth_from == "call" else None
    unplaced = prepare(prepared.program, prepared.machine, fifo_depth=depth)
    unplaced = unplaced.changed(fifo_depths=prepared.fifo_depths)
    try:
        flows = flows_of(unplaced, bindings)
    except ArgError:
        return  # it ends only with the tokens that are under way
    finally:
        ran()
    move = _best_move(prepared.program, present, flows)
    if move is not None:
        yield Change(
            move.name,
            "place",
            move.target,
            move.targets,
            f"place {move.name}",
            place=move.placement,
        )  # fmt: skip
    with suppress(ArgError):  # a network that is too large to be searched
        found = placed(unplaced, bindings, per_tile=present.per_tile, effort=_EFFORT, flows=flows)
        if found.placement != present:
            yield _found(present, found)


def _found(present: Placement, found: FoundPlacement) -> Change:
    words = [f"effort={_EFFORT:g}"]
    if present.per_tile > 1:
        words.insert(0, f"per_tile={present.per_tile}")
    moved = tuple(
        name
        for name, place in found.placement.operators.items()
        if present.operators[name] != place
    )
    return Change(
        "a placement that a search finds", "place", "all operators", moved,
        f"--place auto,{','.join(words)}, or st.place(program, machine, {', '.join(words)})",
        place=found.placement,
    )  # fmt: skip


class _Move(NamedTuple):
    """One operator or memory port at another place, or two operators exchanged."""

    name: str
    target: str
    targets: tuple[str, ...]
    placement: Placement


def _best_move(program: Program, present: Placement, flows: Flows) -> _Move | None:
    """The move of one end of a stream over the busiest link that relieves links most.

    None if every move leaves as many bytes on the busiest link, and as many times the hops.
    """
    topology = Topology(present.network)
    places = places_of(present, flows)
    loads = flows.loads(topology, places)
    best = int(loads.max(initial=0)), int(loads.sum())
    links, owner = flows.routes(topology, places)
    streams = owner[links == loads.argmax()] if best[0] else owner[:0]
    streams = streams[np.argsort(-flows.nbytes[streams], kind="stable")][:_STREAMS]
    ends = dict.fromkeys(
        int(item) for stream in streams for item in (flows.source[stream], flows.target[stream])
    )
    count, found = len(flows.operators), None
    of_item = [flows.along(i) for i in range(flows.items)]
    for item in ends:
        for after, other in _moves(present, places, item, count):
            own = of_item[item] if other is None else np.union1d(of_item[item], of_item[other])
            less, more = (flows.loads(topology, which, own) for which in (places, after))
            moved = loads - less + more
            score = int(moved.max(initial=0)), int(moved.sum())
            if score < best:
                best, found = score, (item, other, after)
    return None if found is None else _described(program, present, flows, *found)


def _moves(
    present: Placement, places: Whole, item: int, count: int
) -> Iterator[tuple[Whole, int | None]]:
    """Places of all items after a move of one, and the operator that it was exchanged with."""
    tiles = worker_places(present.network).tolist()
    on = np.bincount(places[:count], minlength=present.network.places)
    if item >= count:
        # Ports may share places, also with operators.
        for place in sorted(set(places[count:].tolist())):
            yield _with(places, {item: place}), None
        return
    for tile in tiles:
        if tile == places[item]:
            continue
        if on[tile] < present.per_tile:
            yield _with(places, {item: tile}), None
        for other in np.flatnonzero(places[:count] == tile).tolist():
            yield _with(places, {item: tile, other: int(places[item])}), other


def _with(places: Whole, moved: Mapping[int, int]) -> Whole:
    found = places.copy()
    for item, place in moved.items():
        found[item] = place
    return found


def _described(
    program: Program, present: Placement, flows: Flows, item: int, other: int | None,
    after: Whole,
) -> _Move:  # fmt: skip
    count = len(flows.operators)
    operators = dict(zip(flows.operators, after[:count].tolist(), strict=True))
    ports = dict(zip(flows.ports, after[count:].tolist(), strict=True))
    topology = Topology(present.network)
    placement = Placement(program, present.network, operators, ports, per_tile=present.per_tile)
    if item >= count:
        port = flows.ports[item - count]
        place = topology.place_name(int(after[item]))
        return _Move(f"the memory port of {port} at {place}", port, (port,), placement)
    name, place = flows.operators[item], topology.place_name(int(after[item]))
    if other is None:
        return _Move(f"{name} at {place}", name, (name,), placement)
    mate, back = flows.operators[other], topology.place_name(int(after[other]))
    return _Move(
        f"{name} at {place} and {mate} at {back}", f"{name}, {mate}", (name, mate), placement
    )
