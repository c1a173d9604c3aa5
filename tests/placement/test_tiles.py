"""The search with operators on several tiles: optima by enumeration, bytes of runs, bad input."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

import stepsim as st
from stepsim.errors import ArgError
from stepsim.noc import Topology, Whole, memory_places
from stepsim.placement import Flows, places_of
from stepsim.placement.spans import by_nearest
from tests.samples import sampled


def program() -> st.Program:
    with st.Program("gated", compute_bw=1024) as made:
        x = st.linear_load(st.spec(128, 64), tile=(16, 64)).flatten(0, 1)
        gate, up = x.map(st.fn.silu), x.map(st.fn.gelu)
        st.linear_store(st.zip(gate, up).map(st.fn.mul), "out")
    return made


def machine(rows: int = 3, cols: int = 5, noc: str = "mesh") -> st.Machine:
    return st.load_machine("sda-1024", {"noc": noc, "noc.rows": rows, "noc.cols": cols})


TILES = {"silu#2": 2, "mul#5": 3}


@pytest.mark.slow
@pytest.mark.parametrize("noc", ["mesh", "torus"])
@pytest.mark.parametrize("seed", range(3))
def test_it_is_never_worse_than_row_by_row_with_the_same_tiles(noc: str, seed: int) -> None:
    found = st.place(program(), machine(noc=noc), tiles=TILES, seed=seed, effort=0.05)
    for placement in (found.placement, found.row_major):
        counts = {name: len(tiles) for name, tiles in placement.tiles.items()}
        assert counts == dict.fromkeys(counts, 1) | TILES
        every = [tile for tiles in placement.tiles.values() for tile in tiles]
        assert len(set(every)) == len(every) == 10
    rows = [tile for tiles in found.row_major.tiles.values() for tile in tiles]
    assert rows == list(range(10))
    figures = found.metrics()
    after = figures["busiest_link_bytes"], figures["hop_bytes"]
    assert after <= (figures["row_major_busiest_link_bytes"], figures["row_major_hop_bytes"])
    assert (figures["operators"], figures["tiles"]) == (7, 10)
    again = st.place(program(), machine(noc=noc), tiles=TILES, seed=seed, effort=0.05)
    assert again.placement == found.placement


@pytest.mark.slow
@pytest.mark.parametrize("extra", [{}, {"noc.broadcast": "tree"}])
def test_bytes_are_those_of_the_run(extra: dict[str, Any]) -> None:
    target = st.load_machine(machine(), extra)
    found = st.place(program(), target, tiles=TILES, effort=0.05)
    for placement, loads in (
        (found.placement, found.link_bytes), (found.row_major, found.row_major_link_bytes)
    ):  # fmt: skip
        links = st.simulate(program(), target, place=placement).links().to_pylist()
        assert [link["link_bytes"] for link in links] == loads[
            [link["link"] for link in links]
        ].tolist()


def _optimum(flows: Flows, topology: Topology, memory: Whole) -> tuple[int, int]:
    """Least bytes of the busiest link, then bytes x hops, of all placements."""
    best = (1 << 62, 0)
    assert len(flows.ports) == 1
    for tiles in permutations(range(topology.places), len(flows.operators)):
        for port in memory.tolist():
            places = np.array([*tiles, port], np.int64)
            loads = by_nearest(flows, topology, places).loads(topology, places)
            best = min(best, (int(loads.max()), int(loads.sum())))
    return best


@pytest.mark.slow
@pytest.mark.parametrize(
    "tiles", sampled([{"x#0": 2}, {"silu#1": 3}, {"x#0": 2, "silu#1": 2}], {"x#0": 2})
)
def test_small_grids_have_the_optimum(tiles: dict[str, int]) -> None:
    with st.Program("fan", compute_bw=1024) as fan:
        x = st.linear_load(st.spec(128, 64), tile=(16, 64), label="x")
        x.map(st.fn.silu).consume(label="one")
    target = machine(2, 3)
    found = st.place(fan, target, tiles=tiles, effort=0.1)
    figures = found.metrics()
    assert target.noc is not None
    topology, memory = Topology(target.noc), memory_places(target.noc)
    least, hops = _optimum(found.flows, topology, memory)
    assert figures["busiest_link_bytes"] == least
    assert least <= hops <= figures["hop_bytes"] <= 1.1 * hops


def test_tiles_and_regions_together() -> None:
    regions = {"silu#2": 1, "gelu#3": 0}
    found = st.place(program(), machine(3, 6), tiles=TILES, regions=regions, effort=0.05)
    for placement in (found.placement, found.row_major):
        assert all(tile % 6 >= 3 for tile in placement.tiles["silu#2"])
        assert placement.tiles["gelu#3"][0] % 6 < 3
    with pytest.raises(ArgError, match="region 0 of 2 has 10 operators"):
        st.place(program(), machine(3, 6), tiles={"silu#2": 10},
                 regions={"silu#2": 0, "gelu#3": 1})  # fmt: skip


@pytest.mark.slow
def test_saved_placements_are_read_and_drawn(tmp_path: Any) -> None:
    found = st.place(program(), machine(), tiles=TILES, effort=0.05)
    found.placement.save(tmp_path / "p.yaml")
    assert (
        st.simulate(program(), machine(), place=tmp_path / "p.yaml").cycles
        == st.simulate(program(), machine(), place=found.placement).cycles
    )
    st.report.draw_placement(found, tmp_path / "p.svg")
    assert "silu#2" in (tmp_path / "p.svg").read_text()
    assert places_of(found.placement, found.flows).shape == (found.flows.items,)


@pytest.mark.parametrize(
    ("tiles", "message"),
    [
        ({"silu#9": 2}, "tiles: the program has no operator 'silu#9'"),
        ({"silu#2": 0}, r"tiles\['silu#2'\] must be an int from 1"),
        ({}, "expected a mapping from names of operators to numbers of tiles"),
        (4, "expected a mapping"),
        (
            {"silu#2": 10},
            r"'gated' is larger than the machine: it has 7 operators on 16 tiles, and network "
            r"'mesh' 15 tiles; use a larger network or fewer tiles",
        ),
    ],
)
def test_wrong_tiles_are_named(tiles: Any, message: str) -> None:
    with pytest.raises(ArgError, match=message):
        st.place(program(), machine(), tiles=tiles, effort=0.01)
    with pytest.raises(ArgError, match="per_tile=2 exclude each other"):
        st.place(program(), machine(), tiles=TILES, per_tile=2)


def test_an_operator_on_several_tiles_computes_as_fast_as_on_one() -> None:
    with st.Program("slow", compute_bw=64) as slow:
        x = st.linear_load(st.spec(128, 64), tile=(16, 64)).flatten(0, 1)
        st.linear_store(x.map(st.fn.silu), "out")
    one, three = (
        st.place(slow, machine(), tiles=tiles, effort=0.05).placement
        for tiles in (None, {"silu#2": 3})
    )
    prepared = st.prepare(slow, machine())

    def busy(changed: Any) -> int:
        units = changed.result().units.to_pylist()
        return next(unit["busy"] for unit in units if unit["name"] == "silu#2")

    alone = busy(prepared.changed(place=one))
    assert alone == 8 * (16 * 64 * 8 // 64)
    assert busy(prepared.changed(place=three)) == alone
    assert busy(prepared.changed(place=three, compute={"silu#2": 2})) == alone // 2
