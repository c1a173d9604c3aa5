"""The option ``--place`` and the key ``place`` of sweeps: placed runs, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

import stepsim as st
from stepsim.errors import ArgError, SweepError
from stepsim.placement import read_choice
from tests.cli.conftest import Cli

_FILE = """\
import stepsim as st

def own(rows: int = 64, fifo_depth: int = 16):
    with st.Program("own", compute_bw=64, fifo_depth=fifo_depth) as program:
        x = st.linear_load(st.spec(rows, 64), tile=(16, 64)).flatten(0, 1)
        st.linear_store(x.map(st.fn.silu), "out")
    return program

def stuck(rows: int = 64):
    with st.Program("stuck", compute_bw=1024, fifo_depth=2) as program:
        x = st.linear_load(st.spec(rows, 512), tile=(16, 64))
        total = x.accum(st.fn.add, rank=1)
        st.linear_store(st.map(st.fn.add, x, total.unsqueeze(0).expand(8)), "y")
    return program
"""
_GRID = ("--set", "noc=mesh", "--set", "noc.rows=2", "--set", "noc.cols=3")
_SWEPT = {"noc": "mesh", "noc.rows": 2, "noc.cols": 3}


@pytest.fixture
def model(tmp_path: Path) -> str:
    (tmp_path / "own.py").write_text(_FILE)
    return f"{tmp_path / 'own.py'}:own"


@pytest.fixture
def file(cli: Cli, model: str, tmp_path: Path) -> Path:
    out = tmp_path / "placement.yaml"
    assert cli("place", model, *_GRID, "--effort", 0.02, "--out", out).code == 0
    return out


def placed(model: str, place: Any, **values: Any) -> int:
    """Cycles of the program as Python simulates it."""
    scope: dict[str, Any] = {}
    exec(Path(model.partition(":")[0]).read_text(), scope)
    machine = st.load_machine("sda-1024", _SWEPT)
    return st.simulate(scope["own"](**values), machine, place=place).cycles


@pytest.mark.slow
def test_runs_are_placed_by_a_file_and_by_words(cli: Cli, model: str, file: Path) -> None:
    plain = cli("run", model, *_GRID, "--json").json()
    by_rows = cli("run", model, *_GRID, "--place", "row-major", "--json").json()
    by_file = cli("run", model, *_GRID, "--place", file, "--json").json()
    found = cli("run", model, *_GRID, "--place", "auto,effort=0.02", "--json").json()
    assert by_rows["cycles"] == placed(model, "row-major") > plain["cycles"]
    assert found["cycles"] == by_file["cycles"] == placed(model, file) <= by_rows["cycles"]
    assert "place" not in plain
    assert by_rows["place"] == "row-major"
    assert found["place"] == "auto,effort=0.02"
    assert by_file["provenance"]["place"] == found["provenance"]["place"]
    together = cli("run", model, *_GRID, "--place", "row-major,per_tile=6", "--json").json()
    assert set(together["provenance"]["place"]["operators"].values()) == {0}
    text = cli("run", model, *_GRID, "--place", file).out
    assert "4 operators on 4 tiles of network 'mesh'" in text


def test_placed_programs_are_sized(cli: Cli, model: str, tmp_path: Path) -> None:
    sized = cli("size", model, *_GRID, "--place", "row-major", "--json").json()
    assert set(sized["depths"]) == {"linear_load#0", "flatten#1", "silu#2"}
    shown = cli("size", model, *_GRID, "--place", "row-major").out
    assert "flatten#1 -> silu#2 own.py:5 1 2048 2,048" in " ".join(shown.split())
    file = tmp_path / "sizes.yaml"
    file.write_text(yaml.safe_dump({"depths": sized["depths"]}))
    run = cli("run", model, *_GRID, "--place", "row-major", "--fix", file, "--json").json()
    assert [run["cycles"]] == sized["cycles"]
    assert sized["unbounded_cycles"] == [placed(model, "row-major", fifo_depth=1000)]


def test_placed_runs_have_ensembles_and_tables(cli: Cli, model: str, tmp_path: Path) -> None:
    out = tmp_path / "run.parquet"
    run = cli(
        "run", model, *_GRID, "--place", "row-major", "--ensemble", "3,hbm.latency=0:3",
        "--out", out, "--json",
    ).json()  # fmt: skip
    assert len(run["ensemble"]["cycles"]) == 3
    names = pq.read_table(tmp_path / "run.units.parquet").column("name").to_pylist()
    assert "flatten#1: send" in names


@pytest.mark.slow
def test_placed_runs_are_explained_and_recorded(cli: Cli, model: str, tmp_path: Path) -> None:
    placing = (*_GRID, "--place", "row-major")
    why = cli("why", model, *placing, "--json").json()
    assert why["cycles"] == placed(model, "row-major")
    kinds = {row["kind"] for row in why["what_if"]["changes"]}
    assert {"link", "network_latency", "place"} <= kinds
    assert "link" in {one["kind"] for one in why["speed_of_light"]["resources"]}
    out, trace = tmp_path / "run.parquet", tmp_path / "run.pftrace"
    run = cli(
        "run", model, *placing, "--record", "--why", "--out", out, "--perfetto", trace,
        "--events", tmp_path / "events.parquet", "--json",
    ).json()  # fmt: skip
    assert run["cycles"] == why["cycles"]
    assert trace.stat().st_size > 1000
    causes = pq.read_table(tmp_path / "run.path.parquet").column("cause").to_pylist()
    assert "network" in causes
    assert "flits" in pq.read_table(tmp_path / "events.parquet").column("event").to_pylist()


@pytest.mark.slow
def test_the_fix_of_a_placed_run_has_its_places(cli: Cli, model: str, tmp_path: Path) -> None:
    fix = tmp_path / "fix.yaml"
    why = cli("why", model, *_GRID, "--place", "row-major", "--write-fix", fix, "--json").json()
    run = cli("run", model, *_GRID, "--fix", fix, "--json").json()
    assert run["cycles"] == why["suggestions"][0]["cycles"] < why["cycles"]
    same = cli("run", model, *_GRID, "--fix", fix, "--place", fix, "--json")
    assert "found 'stepsim fix 1'; name a file of that form" in same.err
    refused = cli("run", model, *_GRID, "--fix", fix, "--place", "row-major,per_tile=4")
    assert refused.code == 2
    assert "its fix has places of operators, and others are given" in " ".join(refused.err.split())
    data = yaml.safe_load(fix.read_text())
    data["place"]["operators"]["silu#2"] = [7, 7]
    fix.write_text(yaml.safe_dump(data))
    refused = cli("run", model, *_GRID, "--fix", fix)
    assert "outside the grid of 2 x 3 places" in " ".join(refused.err.split())


def test_a_place_has_no_hardware_level(cli: Cli, model: str) -> None:
    done = cli("run", model, *_GRID, "--place", "row-major", "--level", "hardware")
    assert "--place" in done.err


def test_a_placed_deadlock_has_its_diagnosis(cli: Cli, model: str) -> None:
    stuck = model.replace(":own", ":stuck")
    grid = ("--set", "noc=mesh")
    done = cli("run", stuck, *grid, "--place", "row-major,per_tile=20", "--json")
    assert done.code == 1
    assert done.json()["status"] == "deadlock"
    assert done.json()["fix"]["status"] == "fixed"


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("colum-major", "--place: expected FILE.yaml, row-major or auto, .*found 'colum-major'"),
        ("row-major,seed=3", "--place: 'row-major' takes per_tile, each once; found 'seed=3'"),
        ("auto,seed=1,seed=2", "each once; found 'seed=2'"),
        ("auto,per_tile=x", "--place: per_tile: expected a number, found 'x'"),
        ("auto,effort=0", "--place: effort must be above 0"),
        ("auto,seed=-1", "--place: seed must be an int"),
        ("none.yaml", "placement none.yaml: cannot be read"),
    ],
)
def test_wrong_choices_are_named(cli: Cli, model: str, place: str, message: str) -> None:
    done = cli("run", model, *_GRID, "--place", place)
    assert done.code == 2
    assert re.search(message, " ".join(done.err.split()))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"linear_load#0": [2, 0]},
            "line .*: operator 'linear_load#0': the place (2, 0) is outside",
        ),
        ({"silu#2": [0, 0], "flatten#1": [0, 0], "linear_load#0": [0, 0]}, "operators are on tile"),
        ({"gelu#2": [0, 1]}, "the program has no operator 'gelu#2'; did you mean 'silu#2'?"),
    ],
)
def test_placements_that_do_not_fit_are_named(
    cli: Cli, model: str, file: Path, change: dict[str, Any], message: str
) -> None:
    data = yaml.safe_load(file.read_text())
    data["operators"] |= change
    file.write_text(yaml.safe_dump(data))
    done = cli("run", model, *_GRID, "--place", file)
    assert done.code == 2
    expected = re.escape(message).replace(r"\.\*", ".*")
    assert re.search(expected, " ".join(done.err.split()))


def test_machines_that_cannot_hold_or_carry_the_program_are_named(
    cli: Cli, model: str, file: Path
) -> None:
    for place in ("row-major", "auto"):
        small = ("--set", "noc=mesh", "--set", "noc.rows=1", "--set", "noc.cols=2")
        assert "larger than the machine" in cli("run", model, *small, "--place", place).err
        assert "has no network on chip" in cli("run", model, "--place", place).err
    other = ("--set", "noc=mesh")
    assert "for a network with rows 2, found 8" in cli("run", model, *other, "--place", file).err


def test_spaces_around_a_word_do_not_change_what_it_means(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice = read_choice(" auto , effort=0.02")
    assert choice == read_choice("auto,effort=0.02")
    assert choice.is_searched
    monkeypatch.chdir(tmp_path)
    Path("auto.yaml").write_text(file.read_text())
    assert not read_choice("auto.yaml").is_searched


def test_auto_is_for_the_command_line(model: str) -> None:
    with pytest.raises(ArgError, match=r"give place=st.place\(program, machine\).placement"):
        placed(model, "auto")


@pytest.mark.slow
def test_sweeps_place_by_an_axis(model: str, file: Path, tmp_path: Path) -> None:
    spec = {
        "workload": "own.py:own", "machine": "sda-1024",
        "parameters": {f"machine.{key}": value for key, value in _SWEPT.items()},
        "grid": {"place": ["row-major", "placement.yaml", "auto,effort=0.02", None]},
        "units": True,
    }  # fmt: skip
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump(spec))
    st.sweep.run_sweep(tmp_path / "sweep.yaml", tmp_path / "out")
    rows = st.sweep.read_runs(tmp_path / "out", ["place", "cycles", "status"]).to_pylist()
    found = {row["place"] and Path(row["place"]).name: row["cycles"] for row in rows}
    assert found == {
        "row-major": placed(model, "row-major"),
        "placement.yaml": placed(model, file),
        "auto,effort=0.02": placed(model, file),
        None: placed(model, None),
    }


@pytest.mark.slow
def test_one_placement_is_for_all_points_of_a_sweep(model: str, file: Path, tmp_path: Path) -> None:
    machine = {f"machine.{key}": value for key, value in _SWEPT.items()}
    spec = {
        "workload": model, "place": str(file), "parameters": machine,
        "grid": {"fifo_depth": [1, 16]},
    }  # fmt: skip
    st.sweep.run_sweep(spec, tmp_path / "out")
    rows = st.sweep.read_runs(tmp_path / "out", ["place", "cycles"]).to_pylist()
    assert [row["place"] for row in rows] == [str(file)] * 2
    assert [row["cycles"] for row in rows] == [
        placed(model, file, fifo_depth=1), placed(model, file, fifo_depth=16)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"place": "colum-major"}, r"place: expected FILE.yaml, row-major or auto"),
        ({"grid": {"place": ["row-major", 3]}}, r"place: expected FILE.yaml, row-major or auto"),
        ({"place": "row-major", "parameters": {}}, "has no network on chip"),
        ({"place": "auto", "parameters": {}}, "has no network on chip"),
        ({"grid": {"place": ["OTHER"]}}, "did you mean 'silu#2'"),
    ],
)
def test_sweeps_refuse_placements_before_anything_runs(
    model: str, file: Path, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(file.read_text().replace("silu#2", "gelu#2"))
    machine = {f"machine.{key}": value for key, value in _SWEPT.items()}
    spec: dict[str, Any] = {"workload": model, "parameters": machine} | changes
    if spec.get("grid") == {"place": ["OTHER"]}:
        spec["grid"] = {"place": [str(other)]}
    with pytest.raises(SweepError, match=message):
        st.sweep.run_sweep(spec, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_placed_run_names_its_busiest_link(cli: Cli, model: str) -> None:
    done = cli("run", model, *_GRID, "--place", "row-major")
    assert done.code == 0, done.err
    scope: dict[str, Any] = {}
    exec(Path(model.partition(":")[0]).read_text(), scope)
    run = st.simulate(scope["own"](), st.load_machine("sda-1024", _SWEPT), place="row-major")
    links = {one["link_name"]: one for one in run.links().to_pylist()}
    name, share, streams = re.search(
        r"^the busiest link is (.+), with [\d,]+ bytes in ([\d.]+)% of the cycles; "
        r"(.+) (?:share|takes) it$",
        done.out, re.MULTILINE,
    ).groups()  # type: ignore[union-attr]  # fmt: skip
    most = max(one["link_flits"] for one in links.values())
    assert float(share) >= 100 * most / run.cycles - 0.05
    if name in links:  # else a place sends or receives it
        assert links[name]["link_flits"] == most
        assert float(share) == pytest.approx(100 * most / run.cycles, abs=0.05)
    assert set(streams.split(", ")) <= set(run.fifos["name"].to_pylist())
    assert str(run.network_summary) in done.out
    assert "the busiest link" not in cli("run", model, *_GRID).out


@pytest.mark.slow
def test_sweeps_refuse_searched_places_beside_those_of_a_fix(
    cli: Cli, model: str, tmp_path: Path
) -> None:
    fix = tmp_path / "fix.yaml"
    cli("why", model, *_GRID, "--place", "row-major", "--write-fix", fix)
    assert "place:" in fix.read_text()
    spec = {
        "workload": model,
        "parameters": {f"machine.{key}": value for key, value in _SWEPT.items()},
        "fix": str(fix),
        "grid": {"place": ["auto,effort=0.02"]},
    }
    with pytest.raises(SweepError, match="auto finds places for every run, and its fix has places"):
        st.sweep.run_sweep(spec, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_sweeps_size_programs_on_several_chips(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(_TWO_CHIPS)
    chips = {"count": 2, "topology": "switch", "gib_per_s": 50, "latency_ns": 5}
    spec = {
        "workload": f"{tmp_path / 'own.py'}:own",
        "parameters": {"machine.clock_ghz": 1}
        | {f"machine.chips.{k}": v for k, v in chips.items()},
        "grid": {"fifo_depth": ["auto"]},
    }
    st.sweep.run_sweep(spec, tmp_path / "out")
    scope: dict[str, Any] = {}
    exec(_TWO_CHIPS, scope)
    on_chips = {f"chips.{key}": value for key, value in chips.items()}
    machine = st.load_machine("sda-1024", {"clock_ghz": 1} | on_chips)
    sizes = st.size_fifos(scope["own"](), machine)
    (row,) = st.sweep.read_runs(tmp_path / "out", ["cycles"]).to_pylist()
    assert (row["cycles"],) == sizes.cycles


_TWO_CHIPS = """
import stepsim as st

def own(rows: int = 32) -> st.Program:
    with st.Program("own", compute_bw=64) as program:
        x = st.linear_load(st.spec(rows, 16), tile=(16, 16)).flatten(0, 1)
        with st.chip(1):
            st.linear_store(x.map(st.fn.silu), "y")
    return program
"""
