"""Operators on several tiles: files, what is refused, and where streams enter and leave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import stepsim as st
from stepsim.errors import ArgError

SIZE = 64 * 64 * 2


def program() -> st.Program:
    with st.Program("silu", compute_bw=64) as made:
        x = st.linear_load(st.spec(64, 64), tile=(16, 64)).flatten(0, 1)
        st.linear_store(x.map(st.fn.silu), "out")
    return made


def machine(**values: Any) -> st.Machine:
    own = {f"noc.{key}": value for key, value in values.items()}
    return st.load_machine("sda-1024", {"noc": "mesh", "noc.rows": 2, "noc.cols": 5} | own)


def placed(silu: Any, *, per_tile: int = 1, **values: Any) -> st.noc.Placement:
    network = machine(**values).noc
    assert network is not None
    places = {
        "linear_load#0": [0, 0],
        "flatten#1": [1, 0],
        "silu#2": silu,
        "linear_store#3": [1, 4],
    }
    ports = {"linear_load#0": [0, 0], "linear_store#3": [1, 4]}
    return st.noc.Placement(program(), network, places, ports, per_tile=per_tile)


def hop_bytes(placement: st.noc.Placement, **values: Any) -> int:
    run = st.simulate(program(), machine(**values), place=placement)
    assert run.status == "ok"
    return sum(run.links()["link_bytes"].to_pylist())


def used(placement: st.noc.Placement) -> set[str]:
    """Names of the links that carry anything."""
    links = st.simulate(program(), machine(), place=placement).links().to_pylist()
    return {row["link_name"] for row in links if row["link_bytes"]}


def test_streams_enter_and_leave_by_the_nearest_tile() -> None:
    # From (0, 0) to (1, 0) there is one link, from there to (1, 1) one, from (1, 3) to (1, 4) one.
    wide = placed([[1, 1], [1, 2], [1, 3]])
    assert hop_bytes(wide) == 3 * SIZE
    assert hop_bytes(placed([1, 1])) == 5 * SIZE
    run = st.simulate(program(), machine(), place=wide)
    assert run.cycles < st.simulate(program(), machine(), place=placed([1, 1])).cycles
    assert run.provenance["place"]["operators"]["silu#2"] == [6, 7, 8]


def test_an_operator_that_shares_a_tile_with_another_sends_it_no_packets() -> None:
    wide = placed([[1, 0], [1, 4]], per_tile=2)
    assert hop_bytes(wide) == SIZE


def test_of_equal_tiles_the_first_is_taken() -> None:
    # From (1, 0) there are two links to (0, 1), east and north, and to (1, 2), both east.
    assert "(1, 1) north" in used(placed([[0, 1], [1, 2]]))
    assert "(1, 1) north" not in used(placed([[1, 2], [0, 1]]))


def test_two_networks_choose_the_tile_by_their_own_routes() -> None:
    values = {"topology": "torus", "routing": "one-way"}
    # Written from (1, 0) over network 1, which goes west: (1, 4) is nearer than (1, 1).
    near, far = placed([[1, 1], [1, 3]], **values), placed([1, 1], **values)
    assert hop_bytes(near, **values) < hop_bytes(far, **values)


def test_a_tree_begins_at_the_first_tile() -> None:
    with st.Program("spread", compute_bw=64) as made:
        x = st.linear_load(st.spec(64, 64), tile=(16, 64)).flatten(0, 1)
        x.map(st.fn.silu).consume()
        x.map(st.fn.gelu).consume()
    target = machine(broadcast="tree")
    assert target.noc is not None
    names = list(st.noc.Placement.row_major(made, target.noc).operators)
    places = dict(
        zip(names, [[0, 0], [[0, 0], [0, 2]], [0, 3], [0, 4], [1, 3], [1, 4]], strict=False)
    )
    placement = st.noc.Placement(made, target.noc, places, {"linear_load#0": [0, 0]}, per_tile=2)
    run = st.simulate(made, target, place=placement)
    assert run.status == "ok"
    used = {row["link_name"] for row in run.links().to_pylist() if row["link_bytes"]}
    assert "(0, 0) east" in used


def test_several_tiles_are_written_and_read(tmp_path: Path) -> None:
    wide = placed([[1, 1], [1, 2]])
    assert wide.tiles["silu#2"] == (6, 7)
    assert wide.place_of("silu#2") == (1, 1)
    wide.save(tmp_path / "place.yaml")
    assert wide != placed([1, 1])
    again = st.noc.Placement.from_yaml(tmp_path / "place.yaml", program(), wide.network)
    assert again == wide


@pytest.mark.parametrize(
    ("silu", "message"),
    [
        ([[1, 1], [1, 1]], r"operator 'silu#2' names tile \(1, 1\) twice"),
        ([[1, 1], [2, 1]], r"the place \(2, 1\) is outside the grid"),
        ([[1, 1], [1, 4]], r"2 operators are on tile \(1, 4\)"),
        ([[1, 1], [1]], "expected a place as"),
        ([], "expected a place as"),
    ],
)
def test_wrong_tiles_are_named(silu: Any, message: str) -> None:
    with pytest.raises(ArgError, match=message):
        placed(silu)


@pytest.mark.parametrize("silu", [[1, 2], [[1, 2]], [[0, 1], [1, 3]], [[1, 1], [1, 2], [1, 3]]])
def test_places_stay_on_a_network_with_other_links_or_more_columns(silu: Any) -> None:
    here = placed(silu)
    network = machine(**{"flits.flit_bytes": 64}).noc
    assert network is not None
    there = here.on(program(), network)
    assert there.network == network
    assert (there.tiles, there.ports) == (here.tiles, here.ports)
    wider = machine(cols=7).noc
    assert wider is not None
    moved = here.on(program(), wider)
    assert moved.to_dict() == here.to_dict() | {"cols": 7}
    wide = st.simulate(program(), machine(**{"flits.flit_bytes": 64}), place=here)
    assert wide.cycles < st.simulate(program(), machine(), place=here).cycles
