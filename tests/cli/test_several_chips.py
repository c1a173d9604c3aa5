"""``stepsim run`` and ``sweep`` on programs of several chips."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

import stepsim as st
from tests.cli.conftest import Cli

RING = {
    "chips.count": 4,
    "chips.topology": "ring",
    "chips.gib_per_s": 50,
    "chips.latency_ns": 500,
    "clock_ghz": 1,
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    source = tmp_path / "own.py"
    source.write_text(
        "import stepsim as st\n\n\n"
        "def own(rows: int = 64, chips: int = 2):\n"
        "    with st.Program('own', compute_bw=64) as program:\n"
        "        x = st.linear_load(st.spec(rows, 64), tile=(16, 64)).flatten(0, 1)\n"
        "        with st.chip(chips - 1):\n"
        "            st.linear_store(x.map(st.fn.silu), 'out')\n"
        "    return program\n"
    )
    machine = st.load_machine("sda-1024", RING)
    (tmp_path / "machine.yaml").write_text(machine.to_yaml())
    return source


def test_a_run_names_its_chips_and_the_busiest_link(cli: Cli, model: Path) -> None:
    machine = model.with_name("machine.yaml")
    done = cli("run", f"{model}:own", "--machine", machine)
    assert done.code == 0, done.err
    assert "on 2 chips; the busiest link is chip 0 to chip 1, with 8,192" in done.out
    assert "; flatten#1 takes it" in done.out
    assert "`stepsim why` says" in done.out
    assert "on chip 0 of 4" not in done.err
    found = cli("run", f"{model}:own", "--machine", machine, "--json").json()
    assert found["cycles"] == st.simulate(_program(2, 64), str(machine)).cycles
    alone = cli("run", f"{model}:own", "--machine", machine, "--chips", 1)
    assert "on chip 0 of 4" in alone.err


def _program(chips: int, rows: int) -> st.Program:
    with st.Program("own", compute_bw=64) as program:
        x = st.linear_load(st.spec(rows, 64), tile=(16, 64)).flatten(0, 1)
        with st.chip(chips - 1):
            st.linear_store(x.map(st.fn.silu), "out")
    return program


@pytest.mark.slow
def test_runs_are_recorded_and_explained(cli: Cli, model: Path) -> None:
    machine = model.with_name("machine.yaml")
    done = cli("run", f"{model}:own", "--machine", machine, "--record")
    assert done.code == 0, done.err
    found = cli("why", f"{model}:own", "--machine", machine, "--json").json()
    assert found["cycles"] == st.simulate(_program(2, 64), str(machine)).cycles
    [link] = [one for one in found["speed_of_light"]["resources"] if one["kind"] == "link"]
    assert link["target"] == "chip 0 to chip 1"
    assert link["streams"] == ["flatten#1"]
    sizes = cli("size", f"{model}:own", "--machine", machine, "--json")
    assert sizes.code == 0, sizes.err


def test_a_machine_without_chips_is_named(cli: Cli, model: Path) -> None:
    done = cli("run", f"{model}:own")
    assert done.code != 0
    assert "silu#2 is on chip 1, but machine 'sda-1024' is a single chip" in done.err


@pytest.mark.slow
def test_a_sweep_over_links_and_rows(cli: Cli, model: Path) -> None:
    spec = {
        "workload": f"{model}:own",
        "machine": str(model.with_name("machine.yaml")),
        "grid": {"rows": [64, 128], "machine.chips.gib_per_s": [5, 50]},
    }
    file = model.with_name("sweep.yaml")
    file.write_text(yaml.safe_dump(spec))
    done = cli("sweep", "run", file, "--out", model.with_name("runs"))
    assert done.code == 0, done.err
    columns = st.sweep.read_runs(model.with_name("runs"), ["rows", "machine_json", "cycles"])
    cycles = {
        (row["rows"], json.loads(row["machine_json"])["chips"]["gib_per_s"]): row["cycles"]
        for row in columns.to_pylist()
    }
    assert len(cycles) == 4
    assert cycles[64, 5] > cycles[64, 50]
    machine = st.load_machine("sda-1024", RING | {"chips.gib_per_s": 5})
    assert cycles[128, 5] == st.simulate(_program(2, 128), machine).cycles
