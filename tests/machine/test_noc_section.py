"""The network on chip of a machine: given by name, file or description, changed, and refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import stepsim as st
from stepsim.errors import MachineError
from stepsim.machine import load_machine, load_network


def test_a_network_is_given_by_name_mapping_file_or_description(tmp_path: Path) -> None:
    named = load_machine("sda-1024", {"noc": "torus"})
    network = load_network("torus")
    assert named.noc == network
    assert load_machine("sda-1024", {"noc": network.to_dict()}) == named
    assert st.Machine(**{**named.to_dict(), "noc": network}) == named
    assert st.Machine(**{**named.to_dict(), "noc": "torus"}) == named
    file = tmp_path / "machine.yaml"
    file.write_text(named.to_yaml())
    assert load_machine(file) == named
    file.write_text(load_machine("sda-1024").to_yaml() + "noc: torus\n")
    assert load_machine(file) == named


def test_values_of_a_named_network_are_changed(tmp_path: Path) -> None:
    changes = {"noc": "mesh", "noc.rows": 3, "noc.flits.quantum": "16"}
    machine = load_machine("sda-1024", changes)
    expected = load_network("mesh", {"rows": 3, "flits.quantum": 16})
    assert machine.noc == expected
    assert load_machine(machine, {"noc.cols": 2}).noc == load_network(expected, {"cols": 2})
    assert load_machine(machine, {"noc": None}) == load_machine("sda-1024")
    file = tmp_path / "machine.yaml"
    file.write_text(load_machine("sda-1024").to_yaml() + "noc: mesh\n")
    changed = load_machine(file, {"noc.rows": 3, "noc.flits.quantum": 16})
    assert changed.noc == expected


def test_a_machine_without_a_network_is_as_before() -> None:
    machine = load_machine("sda-1024")
    assert machine.noc is None
    assert "noc" not in machine.to_dict()
    assert machine.notes == ()
    note = " ".join(load_machine("sda-1024", {"noc": "mesh"}).notes)
    assert "cycles are those without the network on chip 'mesh'" in note


def test_a_network_does_not_change_the_cycles_of_a_program() -> None:
    with st.Program("small", compute_bw=64) as program:
        tiles = st.linear_load(st.spec(64, 64), tile=(16, 64)).flatten(0, 1)
        st.linear_store(tiles.map(st.fn.silu), "out")
    plain = st.simulate(program, machine="sda-1024")
    on_mesh = st.simulate(program, machine=load_machine("sda-1024", {"noc": "mesh"}))
    assert on_mesh.cycles == plain.cycles
    assert any("network on chip" in note for note in on_mesh.notes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"noc": "mehs"}, "noc: unknown network 'mehs'; did you mean 'mesh'?"),
        ({"noc": 3}, "noc: expected a mapping with the keys name, .* or null, found 3"),
        ({"noc": {"rows": 1}}, "noc.cols: missing; expected an integer"),
        ({"noc": {"rowz": 1}}, "noc.rowz: unknown key 'rowz'; did you mean 'rows'?"),
        ({"noc": "ring", "noc.cols": 2}, "noc.cols: expected 3 or more places of a ring"),
        ({"noc": "wormhole", "noc.routing": "no"}, "noc.routing: expected 'shortest' or"),
    ],
)
def test_a_wrong_network_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(st.errors.MachineError, match=message.replace("?", r"\?")):
        load_machine("sda-1024", changes)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"noc": "mesh", "noc.streams": "second"}, "streams: has an effect only with the two"),
        ({"noc": "mesh", "noc.streams": "third"}, "'by-access', 'shorter', 'first' or 'second'"),
        ({"noc": "mesh", "noc.flits.window": 0}, "window"),
        ({"noc": "mesh", "noc.broadcast": "trees"}, "expected 'routes' or 'tree'"),
    ],
)
def test_choices_for_placed_programs_are_checked(values: dict[str, Any], message: str) -> None:
    with pytest.raises(MachineError, match=message):
        st.load_machine("sda-1024", values)


def test_listed_links_have_no_trees() -> None:
    listed = {"topology": "links", "cols": 3, "links": "0-1 1-2", "broadcast": "tree"}
    with pytest.raises(MachineError, match="need not form a tree"):
        st.load_machine("sda-1024", {"noc": {"name": "three", **listed, "flits": {}}})
