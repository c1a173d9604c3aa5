"""Placements by hand: defaults, files, the units of a program, and what is refused."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import stepsim as st
from stepsim.errors import ArgError
from stepsim.machine import Network, load_network
from stepsim.noc import Placement
from tests.small_programs import diamond


@cache
def mesh(rows: int = 2, cols: int = 4, **more: Any) -> Network:
    return load_network("mesh", {"rows": rows, "cols": cols, **more})


def names() -> list[str]:
    return list(Placement.row_major(diamond(), mesh()).operators)


def test_row_major_follows_the_program() -> None:
    placement = Placement.row_major(diamond(), mesh())
    assert list(placement.operators.values()) == list(range(len(names())))
    assert placement.place_of(names()[5]) == (1, 1)
    shared = Placement.row_major(diamond(), mesh(1, 4), 2)
    assert list(shared.operators.values()) == [i // 2 for i in range(len(names()))]


def test_operators_are_on_workers_and_ports_at_the_memory() -> None:
    cores = mesh(2, 6, cores="DWUWWW DWWEWW")
    placement = Placement.row_major(diamond(), cores)
    assert list(placement.operators.values())[:4] == [1, 3, 4, 5]
    assert list(placement.ports.values()) == [0, 6]
    assert list(Placement.row_major(diamond(), mesh()).ports.values()) == [0, 3]
    ring = load_network("ring")
    assert set(Placement.row_major(diamond(), ring).ports.values()) == {0}


def test_a_file_is_read_back(tmp_path: Path) -> None:
    file = tmp_path / "placement.yaml"
    places: dict[str, Any] = {name: i for i, name in enumerate(reversed(names()))}
    places[names()[0]] = [1, 3]
    placement = Placement(diamond(), mesh(), places, {names()[0]: (0, 2)}, per_tile=2)
    placement.save(file)
    again = Placement.from_yaml(file, diamond(), mesh())
    assert again == placement
    assert hash(again) == hash(placement)
    assert again.ports[names()[0]] == 2
    assert again != Placement.row_major(diamond(), mesh())


@pytest.mark.slow
def test_a_placement_of_another_process_has_the_hash_of_an_equal_one() -> None:
    placement = Placement.row_major(diamond(), mesh())
    hash(placement)
    compared = (
        "import pickle, sys; from tests.noc.test_placement import Placement, diamond, mesh; "
        "sent = pickle.load(sys.stdin.buffer); made = Placement.row_major(diamond(), mesh()); "
        "print(sent == made, hash(sent) == hash(made))"
    )
    done = subprocess.run(
        [sys.executable, "-c", compared], input=pickle.dumps(placement), capture_output=True,
        env={**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": str(Path(__file__).parents[2])},
        check=True,
    )  # fmt: skip
    assert done.stdout.split() == [b"True", b"True"]


def test_units_have_the_places_of_their_operators() -> None:
    placement = Placement.row_major(diamond(), mesh())
    wiring = st.graph.wire(diamond())
    places, ports = placement.of_units(wiring)
    for unit, place, port in zip(wiring.units, places, ports, strict=True):
        if unit.operator is None:
            assert place == placement.operators["flatten#1"]
        else:
            assert place == placement.operators[unit.name]
        assert (port >= 0) == unit.name.startswith("linear")


@pytest.mark.parametrize(
    ("changes", "more", "message"),
    [
        ({"flatten#1": (2, 0)}, {}, "operator 'flatten#1': the place (2, 0) is outside the"),
        ({"flatten#1": 8}, {}, "the place 8 is outside the grid of 2 x 4 places"),
        ({"flatten#1": -1}, {}, "the place -1 is outside"),
        ({"flatten#1": "a"}, {}, "expected a place as [row, column] or a number, found 'a'"),
        ({"flatten#1": 2}, {}, "2 operators are on tile (0, 2) ('flatten#1', 'silu#2'), which may"),
        ({"flaten#1": 2}, {}, "no operator 'flaten#1'; did you mean 'flatten#1'?"),
        ({"flatten#1": None}, {}, "operator 'flatten#1' of program 'diamond' has no place"),
        ({}, {"per_tile": 0}, "per_tile"),
        ({}, {"ports": {"silu#2": 0}}, "operator 'silu#2' has no memory port; leave it out"),
        ({}, {"ports": {"linear_load#0": 9}}, "memory port of 'linear_load#0': the place 9 is"),
        ({}, {"ports": 3}, "ports: expected a mapping"),
        ({}, {"network": "mesh"}, "expected a stepsim.machine.Network, found 'mesh'"),
    ],
)  # fmt: skip
def test_a_wrong_placement_is_named(
    changes: dict[str, Any], more: dict[str, Any], message: str
) -> None:
    places: dict[str, Any] = {name: i for i, name in enumerate(names())} | changes
    if changes.get("flatten#1", 0) is None:
        del places["flatten#1"]
    given: dict[str, Any] = {"program": diamond(), "network": mesh(), "operators": places}
    given |= more
    with pytest.raises(ArgError, match=re.escape(message)):
        Placement(**given)


def test_a_program_larger_than_the_machine_is_refused() -> None:
    with pytest.raises(ArgError, match=r"larger than the machine.* 4 tiles for 1 each.*per_tile=2"):
        Placement.row_major(diamond(), mesh(1, 4))
    with pytest.raises(ArgError, match="state worker cores"):
        Placement.row_major(diamond(), mesh(1, 2, cores="DD"))


def test_an_operator_on_another_core_than_a_worker_is_refused() -> None:
    cores = mesh(2, 6, cores="DWUWWW DWWEWW")
    with pytest.raises(ArgError, match=r"kind 'unused'.* of which \(0, 1\) is the first"):
        Placement(diamond(), cores, dict.fromkeys(names(), 2))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rows: 3\noperators: {}\n", "line 1: it is for a network with rows 3, found 2"),
        ("operator: {}\n", "expected a mapping with the key operators"),
        ("operators: {}\nport: {}\n", "line 2: unknown key 'port'; did you mean 'ports'?"),
        ("operators:\n  flatten#1: [0, 9]\n", "line 2: operator 'flatten#1': the place (0, 9)"),
    ],
)
def test_a_wrong_file_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "placement.yaml"
    file.write_text(text)
    with pytest.raises(ArgError, match=re.escape(message)):
        Placement.from_yaml(file, diamond(), mesh())
