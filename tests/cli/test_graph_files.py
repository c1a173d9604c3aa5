"""Graph files on the command line: run, inspected, refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import stepsim as st
from tests.cli.conftest import Cli
from tests.graph.graph_file.support import MOE, SELECTED, moe_routing, small
from tests.shared import needs_data


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    small().to_graph(tmp_path / "graph.pb")
    return tmp_path / "graph.pb"


def test_a_graph_runs_like_its_program(cli: Cli, graph: Path) -> None:
    done = cli("run", str(graph), "--json")
    assert done.code == 0, done.err
    record = json.loads(done.out)
    assert record["cycles"] == st.simulate(small()).cycles
    assert record["workload"] == "graph.pb"


def test_machines_and_depths_are_options_of_the_run(cli: Cli, graph: Path) -> None:
    cycles = [
        json.loads(cli("run", str(graph), "--json", *given).out)["cycles"]
        for given in ((), ("--set", "hbm.channels=1"))
    ]
    assert cycles[0] < cycles[1]


def test_operators_and_totals_are_shown(cli: Cli, graph: Path) -> None:
    done = cli("inspect", str(graph), "--json")
    assert done.code == 0, done.err
    record = json.loads(done.out)
    assert [op["kind"] for op in record["operators"]][:3] == ["OffChipLoad", "Flatten", "SelectGen"]
    assert cli("inspect", str(graph), "--graph", "dot").out.startswith("digraph")


def test_arrays_in_another_place(cli: Cli, tmp_path: Path) -> None:
    with st.Program("split", compute_bw=1) as program:
        for part in st.partition(st.linear_load(st.spec(16, 8, dtype="f32"), (1, 8)).flatten(0, 1),
                                 st.selector(SELECTED)):  # fmt: skip
            part.consume()
    graph = tmp_path / "graph.pb"
    program.to_graph(graph)
    (array,) = tmp_path.glob("*.npy")
    array.unlink()
    done = cli("run", str(graph))
    assert done.code == 2
    assert f"no arrays for SelectGen_2 ({array.name})" in done.err
    totals = json.loads(cli("inspect", str(graph), "--json").out)["formulas"]
    assert totals["offchip_bytes"] == "512"
    np.savez(tmp_path / "arrays.npz", **{array.stem: SELECTED})
    done = cli("run", str(graph), "--arrays", str(tmp_path / "arrays.npz"), "--json")
    assert json.loads(done.out)["cycles"] == st.simulate(program).cycles
    other = tmp_path / "other"
    other.mkdir()
    np.save(other / array.name, SELECTED)
    assert cli("run", str(graph), "--arrays", str(other)).code == 0


@needs_data
def test_the_public_file(cli: Cli, tmp_path: Path) -> None:
    done = cli("run", str(MOE))
    assert done.code == 2
    assert "Operators without arrays: SelectGen_626" in done.err
    np.save(tmp_path / "indices.npy", moe_routing())
    done = cli("run", str(MOE), "--indices", str(tmp_path / "indices.npy"), "--json")
    assert done.code == 0, done.err
    expected = st.simulate(st.load_graph(MOE, routing=moe_routing())).cycles
    assert json.loads(done.out)["cycles"] == expected


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (None, (), "nowhere.pb: cannot be read: No such file"),
        (b"\x12\xff", (), "nowhere.pb: "),
        (b"", (), "has no operators; is it a graph file?"),
        (b"", ("--numbers", "none.yaml"), "none.yaml: cannot be read"),
        (b"", ("--indices", "none.npy"), "none.npy cannot be read"),
        (b"", ("--generation", "C"), "--generation: expected one of A, B"),
    ],
)
def test_what_cannot_be_read_ends_with_2(
    cli: Cli, tmp_path: Path, content: bytes | None, options: tuple[str, ...], message: str
) -> None:
    file = tmp_path / "nowhere.pb"
    if content is not None:
        file.write_bytes(content)
    for command in ("run", "inspect"):
        done = cli(command, str(file), *options)
        assert done.code == 2
        assert message in done.err.replace("\n", " ")


def test_help_names_graph_files(cli: Cli, graph: Path) -> None:
    assert "graph.pb" in " ".join(cli("run", "--help").out.split())
    assert "--indices" in cli("run", str(graph), "--help").out
