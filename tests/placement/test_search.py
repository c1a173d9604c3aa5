"""The search of placements: optima by enumeration, never worse than row by row, by seed."""

from __future__ import annotations

from functools import cache
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

import stepsim as st
from stepsim.errors import ArgError
from stepsim.machine import load_machine, load_network
from stepsim.noc import Topology, Whole, memory_places, worker_places
from stepsim.placement import Flows, FoundPlacement
from stepsim.placement.found import places_of
from stepsim.placement.search import searched
from tests.small_programs import diamond


def drawn(operators: int, ports: int, streams: int, seed: int) -> Flows:
    """Streams between any items, except that ports send or receive alone."""
    random = np.random.default_rng(seed)
    items = operators + ports
    pairs = [(a, b) for a in range(items) for b in range(items) if a != b]
    pairs = [(a, b) for a, b in pairs if min(a, b) < operators]
    chosen = random.choice(len(pairs), size=streams, replace=False)
    source, target = np.array([pairs[one] for one in chosen], np.int64).T.copy()
    names = tuple(f"operator#{i}" for i in range(operators))
    return Flows(
        names, names[:ports], tuple(f"stream {i}" for i in range(streams)), source, target,
        random.integers(1, 1000, streams) * 64, np.zeros(streams, np.int64),
        np.full(streams, -1),
    )  # fmt: skip


def optimum(flows: Flows, topology: Topology) -> tuple[int, int]:
    """Least bytes of the busiest link, and with them the least bytes times hops."""
    n = topology.places
    every = np.arange(n)
    routes = topology.routes(np.repeat(every, n), np.tile(every, n), np.zeros(n * n, np.int64))
    passed = np.zeros((n * n, topology.link_count), np.int64)
    inner = routes.path < topology.link_count
    owner = np.repeat(np.arange(n * n), np.diff(routes.begin))
    passed[owner[inner], routes.path[inner]] = 1
    tiles = np.array(list(permutations(range(n), len(flows.operators))))
    best = (1 << 62, 0)
    for ports in product(memory_places(topology.network), repeat=len(flows.ports)):
        places = np.concatenate(
            [tiles, np.tile(np.array(ports, np.int64), (len(tiles), 1))], axis=1
        )
        loads = np.zeros((len(tiles), topology.link_count), np.int64)
        for one, other, nbytes in zip(flows.source, flows.target, flows.nbytes, strict=True):
            loads += nbytes * passed[places[:, one] * n + places[:, other]]
        most, total = loads.max(axis=1), loads.sum(axis=1)
        least = most.min()
        best = min(best, (int(least), int(total[most == least].min())))
    return best


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    ("topology", "rows", "cols", "operators", "ports"),
    [("mesh", 2, 3, 6, 1), ("mesh", 3, 3, 5, 0), ("torus", 2, 3, 5, 2), ("ring", 1, 5, 5, 1)],
)
def test_small_grids_have_the_optimum(
    topology: str, rows: int, cols: int, operators: int, ports: int, seed: int
) -> None:
    network = load_network(topology, {"rows": rows, "cols": cols})
    grid, flows = Topology(network), drawn(operators, ports, 9, seed)
    tiles, memory = worker_places(network), memory_places(network)
    first = np.concatenate([tiles[:operators], np.full(ports, memory[0])])
    places = searched(flows, grid, tiles, memory, first, per_tile=1, seed=seed, effort=0.1)
    assert len(set(places[:operators].tolist())) == operators
    loads = flows.loads(grid, places)
    least, hops = optimum(flows, grid)
    assert loads.max() == least
    assert loads.sum() <= 1.1 * hops


@cache
def found(noc: str = "mesh", seed: int = 0, per_tile: int = 1) -> FoundPlacement:
    machine = load_machine("sda-1024", {"noc": noc})
    return st.place(diamond(), machine, seed=seed, effort=0.2, per_tile=per_tile)


@pytest.mark.parametrize("noc", ["mesh", "torus", "ring", "switch", "wormhole"])
def test_it_is_never_worse_than_row_by_row(noc: str) -> None:
    figures = found(noc).metrics()
    after = figures["busiest_link_bytes"], figures["hop_bytes"]
    assert after <= (figures["row_major_busiest_link_bytes"], figures["row_major_hop_bytes"])


def test_the_loads_are_those_of_simulated_transfers() -> None:
    one = found()
    flows, places = one.flows, places_of(one.placement, one.flows)
    run = st.noc.simulate(
        {
            "source": places[flows.source], "destination": places[flows.target],
            "bytes": flows.nbytes,
        },
        one.placement.network,
    )  # fmt: skip
    links = one.topology.link_count
    assert run.port_bytes[:links].tolist() == one.link_bytes.tolist()
    assert run.busiest_link == one.busiest_link
    assert sum(size for _, size in one.busiest_streams) == one.link_bytes.max()
    assert str(one.link_bytes.max()) in str(one).replace(",", "")


def test_bytes_are_those_of_the_run() -> None:
    flows = found().flows
    sent = dict(zip(flows.names, flows.nbytes.tolist(), strict=True))
    assert sent["flatten#1 -> silu#2"] == sent["flatten#1 -> gelu#3"] == 64 * 64 * 2
    assert sent["memory -> linear_load#0"] == sent["linear_store#6 -> memory"] == 64 * 64 * 2


def test_a_seed_finds_the_same_placement() -> None:
    machine = load_machine("sda-1024", {"noc": "mesh"})
    again = st.place(diamond(), machine, effort=0.2)
    assert again.placement == found().placement
    assert found(seed=5).seed == 5


def test_tiles_hold_several_operators() -> None:
    one = found(per_tile=7)
    assert one.busiest_link is None
    assert one.busiest_streams == []
    assert "busiest link 0 bytes" in str(one)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"machine": "sda-1024"}, "'sda-1024' has no network on chip; state its section noc"),
        ({"per_tile": 0}, "per_tile"),
        ({"seed": -1}, "seed"),
        ({"effort": 0.0}, "effort must be above 0 to 1000, found 0"),
        ({"effort": "x"}, "effort"),
        ({"machine": ("mesh", 1, 3)}, "larger than the machine.* 3 tiles.* per_tile=3"),
        ({"machine": ("mesh", 30, 30)}, "has 900 places .* more than the 576"),
    ],
)
def test_bad_input_is_named(changes: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"machine": load_machine("sda-1024", {"noc": "mesh"})} | changes
    if isinstance(given["machine"], tuple):
        noc, rows, cols = given["machine"]
        values = {"noc": noc, "noc.rows": rows, "noc.cols": cols}
        given["machine"] = load_machine("sda-1024", values)
    with pytest.raises(ArgError, match=message):
        st.place(diamond(), **given)


def test_a_program_that_does_not_end_is_named() -> None:
    with st.Program("stuck", compute_bw=64) as stuck:
        x = st.linear_load(st.spec(64, 512), tile=(16, 64))
        total = x.accum(st.fn.add, rank=1)
        st.linear_store(st.map(st.fn.add, x, total.unsqueeze(0).expand(8)), "y")
    machine = load_machine("sda-1024", {"noc": "mesh"})
    with pytest.raises(ArgError, match="ends with status 'deadlock'"):
        st.place(stuck, machine)


def test_places_are_whole_numbers() -> None:
    places: Whole = places_of(found().placement, found().flows)
    assert places.dtype == np.int64


def test_a_program_without_operators_is_placed() -> None:
    with st.Program("empty", compute_bw=16) as empty:
        pass
    machine = load_machine("sda-1024", {"noc": "mesh"})
    found = st.place(empty, machine, effort=0.001)
    assert not found.placement.tiles
    assert st.simulate(empty, machine=machine, place=found.placement).cycles == 0
