"""``stepsim run moe``: outputs, options that win over others, exit codes and messages."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from stepsim import MODEL_VERSION, __version__
from stepsim.cli.moe import resolve_settings
from stepsim.errors import ArgError
from stepsim.machine import load_machine
from stepsim.workloads import MOE_SHAPES, moe_shape
from tests.cli.conftest import Cli, Outcome

QWEN = moe_shape("qwen3-30b-a3b")
REQUIRED = {
    "cycles": int,
    "offchip_bytes": int,
    "onchip_bytes": int,
    "flops": int,
    "padded_flops": int,
    "allocated_flops_per_cycle": int,
    "compute_utilization": float,
    "bandwidth_utilization": float,
    "engine_steps": int,
    "wall_seconds": float,
    "status": str,
}


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three tokens that all choose experts 0 to 7."""
    path = tmp_path_factory.mktemp("trace") / "routing.npy"
    np.save(path, np.tile(np.arange(8), (3, 1)))
    return path


@pytest.fixture
def run(cli: Cli, trace: Path):
    """Run Qwen3 on the trace with tile 4, unless told otherwise."""

    def call(*options: object, **replace: object) -> Outcome:
        arguments = {"model": QWEN.name, "routing": trace, "tile": 4, **replace}
        flat = [part for key, value in arguments.items() for part in (f"--{key}", value)]
        return cli("run", "moe", *flat, *options)

    return call


def test_json_is_one_complete_object(run) -> None:
    outcome = run("--json")
    assert outcome.code == 0, outcome.err
    found = outcome.json()
    assert {name: type(found[name]) for name in REQUIRED} == REQUIRED
    assert found["status"] == "ok"
    assert found["diagnosis"] is None
    # One tile of 4 rows for each of the 8 experts: the closed forms of the published counting.
    d, f = QWEN.model_dim, QWEN.inner_dim
    assert found["offchip_bytes"] == 8 * 3 * d * f * 2 + 2 * 3 * d + 2 * 3 * 8 + 4 * 3 * d
    assert found["onchip_bytes"] == 2 * d + 2 + 8 * d + 128 * (6 * d * 64 + 12 * 4 * d)
    assert found["flops"] == 32 * (14 * d * f + f)
    assert found["padded_flops"] == 8 * (14 * d * f + f)
    assert found["allocated_flops_per_cycle"] == 4096 * (6 * 128 + 1)
    assert found["compute_utilization"] == pytest.approx(
        found["flops"] / found["cycles"] / found["allocated_flops_per_cycle"]
    )
    assert found["bandwidth_utilization"] == pytest.approx(
        found["offchip_bytes"] / found["cycles"] / 1024
    )
    assert 0 < found["bandwidth_utilization"] < 1
    assert found["bus_bytes"] == 64 * found["memory_requests"] >= found["offchip_bytes"] * 0.99


def test_json_holds_what_the_run_depended_on(run, trace: Path) -> None:
    outcome = run("--json", "--set", "hbm.channels=16", "--compute-bw", 2048)
    found = outcome.json()
    assert found["machine"]["hbm"]["channels"] == 16
    assert found["machine"]["peak_bandwidth"] == 512
    assert found["compute_bw"] == 2048
    assert (found["tile"], found["tile_inter"], found["fifo_depth"]) == (4, 64, 2)
    assert found["routing"]["source"] == str(trace)
    assert found["routing"]["active_experts"] == 8
    assert len(found["routing"]["identity"]) == 64
    assert found["provenance"]
    assert outcome.err.startswith("machine sda-1024: HBM 16 channels")
    assert "512 B/cycle peak" in outcome.err


def test_the_same_run_twice_differs_in_time_only(run) -> None:
    first, second = (run("--json").json() for _ in range(2))
    assert first.pop("wall_seconds") > 0
    second.pop("wall_seconds")
    assert first == second


def test_table_shows_numbers_busiest_units_and_speed(run) -> None:
    cycles = run("--json").json()["cycles"]
    outcome = run()
    assert outcome.code == 0
    assert "\x1b" not in outcome.out
    assert outcome.out.startswith("machine sda-1024: HBM 32 channels")
    assert f"{cycles:,}" in outcome.out
    for word in ("off-chip traffic", "on-chip memory", "FLOPs", "compute utilisation"):
        assert word in outcome.out
    assert "M steps/s" in outcome.out
    below = outcome.out[outcome.out.index("busiest units") :].splitlines()
    assert len([line for line in below[2:] if line.strip()]) == 5


def test_times_depend_on_machine_and_depth_but_not_on_the_counting(run) -> None:
    def cycles(*options: object) -> int:
        return run("--json", *options).json()["cycles"]

    base = cycles()
    assert cycles("--memory-model", "paper") == base
    assert cycles("--set", "hbm.channels=2") > base
    assert cycles("--fifo-depth", 1) >= base
    assert cycles("--set", "fifo.depth=1") == cycles("--fifo-depth", 1)


@pytest.mark.parametrize("tile", [1, 4, "dynamic"])
def test_the_paper_counts_what_the_run_moves(run, tile: object) -> None:
    found = run("--json", "--memory-model", "paper", tile=tile).json()
    assert found["offchip_bytes"] == found["traffic_bytes"]


def test_json_names_the_busiest_units(run) -> None:
    found = run("--json").json()
    units = found["busiest_units"]
    assert len(units) == 5
    parts = ("busy", "wait_memory", "wait_input", "wait_output", "before", "after")
    assert all(sum(unit[part] for part in parts) == found["cycles"] for unit in units)
    assert [unit["busy"] for unit in units] == sorted((u["busy"] for u in units), reverse=True)


def test_a_machine_file_is_as_good_as_a_name(run, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(load_machine("sda-1024", {"name": "mine"}).to_yaml())
    found = run("--json", "--machine", path).json()
    assert found["machine"]["name"] == "mine"
    assert found["cycles"] == run("--json").json()["cycles"]


def test_out_writes_parquet_with_the_totals(run, tmp_path: Path) -> None:
    path = tmp_path / "result.parquet"
    outcome = run("--json", "--out", path)
    row = pq.read_table(path).to_pylist()[0]
    assert row["cycles"] == outcome.json()["cycles"]
    assert __version__ in row["provenance"]
    assert str(MODEL_VERSION) in row["provenance"]


def test_a_limit_ends_with_code_1_and_still_reports(run) -> None:
    outcome = run("--json", "--max-cycles", 100)
    assert outcome.code == 1
    assert outcome.json()["status"] == "limit"
    assert "status limit" in outcome.err


def test_a_deadlock_ends_with_code_1_and_is_explained(run, monkeypatch) -> None:
    import stepsim as st
    from stepsim import simulation

    with st.Program("center", compute_bw=1024, fifo_depth=2) as program:
        x = st.linear_load(st.spec(64, 512), tile=(16, 64))
        total = x.accum(st.fn.add, rank=1)
        st.linear_store(st.map(st.fn.add, x, total.unsqueeze(0).expand(8)), "y")
    stuck = simulation.simulate(program)
    monkeypatch.setattr(simulation, "simulate", lambda *_, **__: stuck)

    outcome = run("--json")
    assert outcome.code == 1
    found = outcome.json()
    assert found["status"] == "deadlock"
    assert [wait["reason"] for wait in found["diagnosis"]["cycle"]].count("slot") == 1
    assert "run failed, status deadlock: deadlock: 8 of 8 units are blocked" in outcome.err
    assert "these wait for each other in a circle:" in outcome.err
    human = run()
    assert human.code == 1
    assert "deadlock" in human.out


SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "defaults": (
        {"tile": 32},
        {"tile_inter": 64, "compute_bw": 4096, "pack_bw": 4096, "fifo_depth": 2},
    ),
    "static as published": (
        {"tile": 32, "config": "published"},
        {"tile_inter": 64, "compute_bw": 4096, "pack_bw": 4096, "fifo_depth": 2},
    ),
    "dynamic as published": (
        {"tile": "dynamic", "config": "published"},
        {"tile_inter": 64, "compute_bw": 6400, "pack_bw": 1024, "fifo_depth": 2},
    ),
    "large batch as published": (
        {"tile": 32, "config": "published", "batch": 1024},
        {"tile_inter": 64, "compute_bw": 4096, "pack_bw": 4096, "fifo_depth": 1024},
    ),
    "options win": (
        {
            "tile": "dynamic",
            "config": "published",
            "tile_inter": 48,
            "compute_bw": 512,
            "fifo_depth": 3,
        },
        {"tile_inter": 48, "compute_bw": 512, "pack_bw": 1024, "fifo_depth": 3},
    ),
    "the machine wins over the configuration": (
        {"tile": 32, "config": "published", "machine": {"fifo.depth": 7}},
        {"tile_inter": 64, "compute_bw": 4096, "pack_bw": 4096, "fifo_depth": 7},
    ),
    "an option wins over the machine": (
        {"tile": 32, "fifo_depth": 5, "machine": {"fifo.depth": 7}},
        {"tile_inter": 64, "compute_bw": 4096, "pack_bw": 4096, "fifo_depth": 5},
    ),
}


@pytest.mark.parametrize(("given", "expected"), SETTINGS.values(), ids=SETTINGS)
def test_settings(given: dict[str, Any], expected: dict[str, Any]) -> None:
    given = dict(given)
    machine = load_machine("sda-1024", given.pop("machine", None))
    settings = resolve_settings(QWEN, given.pop("batch", 64), machine=machine, **given)
    assert settings.to_dict() == {"tile": given["tile"], "regions": None, **expected}


@pytest.mark.parametrize("inner", [0, -8, 50, 1000])
def test_tile_inter_must_divide(inner: int) -> None:
    with pytest.raises(ArgError) as caught:
        resolve_settings(QWEN, 64, 32, load_machine(), tile_inter=inner)
    assert str(caught.value).startswith(
        "--tile-inter: expected a divisor of the inner dimension 768 of qwen3-30b-a3b, "
        f"found {inner}; near ones are "
    )


def test_only_published_models_have_a_published_configuration() -> None:
    with pytest.raises(ArgError) as caught:
        resolve_settings(moe_shape("glm-4.5"), 64, 32, load_machine(), config="published")
    assert str(caught.value) == (
        "--config published: there is no published experiment of glm-4.5; "
        "there are of mixtral-8x7b and qwen3-30b-a3b"
    )


MISTAKES = {
    "tile zero": (
        {"tile": 0},
        (),
        "--tile: expected a whole number from 1, or 'dynamic', found '0'",
    ),
    "tile word": (
        {"tile": "adaptive"},
        (),
        "--tile: expected a whole number from 1, or 'dynamic', found 'adaptive'",
    ),
    "tile that does not divide": (
        {},
        ("--tile-inter", 50),
        "--tile-inter: expected a divisor of the inner dimension 768 of qwen3-30b-a3b, "
        "found 50; near ones are 32, 48, 64",
    ),
    "negative depth": (
        {},
        ("--fifo-depth", -1),
        "--fifo-depth: expected a whole number from 1, found -1",
    ),
    "no compute": (
        {},
        ("--compute-bw", 0),
        "--compute-bw: expected a whole number from 1, found 0",
    ),
    "model": (
        {"model": "mixtral-8x7"},
        (),
        "--model: unknown model 'mixtral-8x7'; did you mean 'mixtral-8x7b'? "
        f"Known: {', '.join(sorted(MOE_SHAPES))}",
    ),
    "machine": (
        {},
        ("--machine", "sda1024"),
        "unknown machine 'sda1024'; did you mean 'sda-1024'? "
        "Known machines: sda-1024, sda-hdl; or give the path of a YAML file.",
    ),
    "machine key": (
        {},
        ("--set", "channels=4"),
        "machine override: unknown key 'channels'; did you mean 'hbm.channels'? Known: name, "
        "description, hbm.model, hbm.request_bytes, hbm.channels, hbm.latency, hbm.interval, "
        "hbm.startup, onchip.bytes_per_cycle, fifo.depth, closure_slack",
    ),
    "cycles": (
        {},
        ("--max-cycles", 0),
        "--max-cycles: expected a whole number from 1, found 0",
    ),
    "seconds": (
        {},
        ("--max-seconds", 0),
        "--max-seconds: expected a number above 0, found 0",
    ),
}


@pytest.mark.parametrize(("replace", "options", "message"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes(
    run, replace: dict[str, object], options: tuple[object, ...], message: str
) -> None:
    outcome = run("--json", *options, **replace)
    assert (outcome.code, outcome.out, outcome.err) == (2, "", f"error: {message}\n")


def test_wrong_number_of_experts_per_token(run, trace: Path) -> None:
    outcome = run("--json", model="mixtral-8x7b")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"error: {trace}: 8 experts per token")
    assert "k = 2" in outcome.err


def test_machine_file_that_is_not_yaml(run, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: [1\n")
    outcome = run("--json", "--machine", path)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"error: machine file {path}: not valid YAML: line 2, column 1")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing/result.parquet", "does not exist; make it first"),
        ("file/result.parquet", "is not a folder; make it first"),
        ("folder", "it is a folder; name a file in it"),
    ],
)
def test_output_that_cannot_be_written(run, tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.rglob("*"))
    outcome = run("--json", "--out", tmp_path / name)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"error: {tmp_path / name}: cannot be written, ")
    assert outcome.err.endswith(f"{reason}\n")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_output_in_a_protected_folder(run, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    outcome = run("--json", "--out", tmp_path / "result.parquet")
    tmp_path.chmod(0o700)
    assert (outcome.code, outcome.out) == (2, "")
    assert "cannot write" in outcome.err
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_option_value_is_bad_input(run) -> None:
    outcome = run("--json", "--memory-model", "exact")
    assert (outcome.code, outcome.out) == (2, "")
    assert "published" in outcome.err


def test_missing_options_are_bad_input(cli: Cli) -> None:
    outcome = cli("run", "moe", "--json")
    assert (outcome.code, outcome.out) == (2, "")
    assert "--model" in outcome.err


def test_a_process_of_its_own(trace: Path) -> None:
    """As the installed command: it tunes its process, which tests above do not see."""
    code = "from stepsim.cli import main; main()"
    options = ["--model", QWEN.name, "--routing", str(trace), "--tile", "dynamic", "--json"]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, "run", "moe", *options],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "ok"


SHARED = Path(os.environ.get("STEPSIM_SHARED", Path(__file__).parents[3] / "shared"))
TRACES = SHARED / "data" / "traces" / "expert_routing"


@pytest.mark.skipif(not TRACES.is_dir(), reason=f"no shared data at {TRACES} (set STEPSIM_SHARED)")
@pytest.mark.parametrize(
    ("model", "file", "tile", "point"),
    [
        *[(QWEN.name, "qwen_b64/032_012.npz", t, "f9_qwen") for t in (8, 16, 32, 64, "dynamic")],
        ("mixtral-8x7b", "mixtral_b64/008_010.npz", 64, "f9_mixtral"),
        ("mixtral-8x7b", "mixtral_b64/008_010.npz", "dynamic", "f9_mixtral"),
        (QWEN.name, "qwen_b1024/022_016.npz", "dynamic", "f10_qwen"),
    ],
)
def test_published_points(run, model: str, file: str, tile: object, point: str) -> None:
    """`--config published` gives the recorded cycles and bytes, to the unit."""
    outcome = run("--json", "--config", "published", model=model, routing=TRACES / file, tile=tile)
    assert outcome.code == 0, outcome.err
    found = outcome.json()
    name = f"{point}_{'dyn' if tile == 'dynamic' else tile}"
    truth = _row("ground_truth.csv", name)
    assert found["cycles"] == int(_row("canonical_cycles.csv", name)["canonical_cycles"])
    assert found["offchip_bytes"] == int(truth["off_chip_bytes"])
    assert found["onchip_bytes"] == int(truth["on_chip_bytes"])
    assert found["flops"] == int(truth["flops"])
    assert found["padded_flops"] == int(truth["padded_flops"])


def _row(file: str, point: str) -> dict[str, str]:
    with (SHARED / "data" / file).open(newline="") as lines:
        return next(row for row in csv.DictReader(lines) if row["point_id"] == point)
