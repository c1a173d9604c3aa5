"""Random networks whose units lie at random places of a mesh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hypothesis import strategies as st

from stepsim.lowering.carriers import Tree, with_carriers
from stepsim.lowering.network import Carriage, Network
from tests.property_profile import FEW

__all__ = ["mesh_path", "mesh_tree", "placed", "placed_networks"]

_PORTS = 6  # of a place: east, south, north, west, injection, ejection


def mesh_path(source: int, to: int, cols: int) -> tuple[int, ...]:
    """Ports of the route along the row, then along the column."""
    path = [_PORTS * source + 4]
    (y, x), (to_y, to_x) = divmod(source, cols), divmod(to, cols)
    while (x, y) != (to_x, to_y):
        if x != to_x:
            way, step = (0, (1, 0)) if to_x > x else (3, (-1, 0))
        else:
            way, step = (1, (0, 1)) if to_y > y else (2, (0, -1))
        path.append(_PORTS * (y * cols + x) + way)
        x, y = x + step[0], y + step[1]
    return (*path, _PORTS * to + 5)


def placed(
    network: Network, places: Sequence[int], *, rows: int, cols: int, flit_bytes: int = 16,
    spread: bool = False, **delays: int | None,
) -> Network:  # fmt: skip
    """The network with its units at these places of a mesh; broadcasts ``spread`` over trees."""
    ends: dict[int, list[int]] = {c: [0, 0] for c in range(len(network.channels))}
    for place, unit in zip(places, network.units, strict=True):
        for c in unit.outputs:
            ends[c][0] = place
        for c in unit.inputs:
            ends[c][1] = place
    ways = [
        [mesh_path(ends[c][0], ends[c][1], cols)] if ends[c][0] != ends[c][1] else []
        for c in range(len(network.channels))
    ]
    trees = [
        mesh_tree(sorted(fifos, key=lambda c: ends[c][1]), ends, cols)
        for unit in network.units
        if spread and unit.op == "Broadcast"
        and len(fifos := [c for c in unit.outputs if ends[c][0] != ends[c][1]]) > 1
    ]  # fmt: skip
    for tree in trees:
        for c in tree.fifos:
            ways[c] = []
    carriage = Carriage(_PORTS * rows * cols, flit_bytes, **delays)  # type: ignore[arg-type]
    return with_carriers(network, carriage, ways, trees)


def mesh_tree(fifos: Sequence[int], ends: Mapping[int, Sequence[int]], cols: int) -> Tree:
    """The routes of FIFOs with one producer as a tree, one router after the other."""
    routes = [mesh_path(ends[c][0], ends[c][1], cols) for c in fifos]
    path, before = [routes[0][0]], [-1]
    for port in path:
        fed = {r[r.index(port) + 1] for r in routes if port in r and r[-1] != port}
        path += sorted(fed)
        before += [path.index(port)] * len(fed)
    return Tree(tuple(fifos), tuple(path), tuple(before), tuple(path.index(r[-1]) for r in routes))


@st.composite
def placed_networks(draw: st.DrawFn, networks: st.SearchStrategy[Network]) -> Network:
    """Networks at random places of a mesh with random delays."""
    network = draw(networks)
    if FEW:  # each model has an engine of its own, of which `make test` has time to compile one
        network = replace(network, timing=replace(network.timing, memory_model="published"))
    rows, cols = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    place = st.integers(0, rows * cols - 1)
    places = draw(st.lists(place, min_size=len(network.units), max_size=len(network.units)))
    return placed(
        network,
        places,
        rows=rows,
        cols=cols,
        flit_bytes=draw(st.sampled_from([1, 3, 16, 256])),
        router=draw(st.integers(0, 5)),
        wire=draw(st.integers(0, 2)),
        inject=draw(st.integers(0, 3)),
        quantum=draw(st.integers(1, 5)),
        window=draw(st.sampled_from([None, None, 1, 2, 5])),
        spread=draw(st.booleans()),
    )
