"""A workload of the user's file in sweeps: locally, on dask and ray, and in what looks at them."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from stepsim.cli.main import main
from stepsim.errors import StepSimError
from stepsim.sweep import compare, design_costs, open_table, plan_sweep, query, run_sweep
from stepsim.trace_io import synthetic_routing
from tests.sweep.support import ROOT, rows_of, tiny

FILE = '''
from typing import Annotated

import numpy as np

import stepsim as st


def gemm(m: int = 64, k: int = 64, n: int = 64, *, tile: int) -> st.Program:
    """Product of two matrices, a tile of rows at a time."""
    with st.Program("gemm", compute_bw=512) as program:
        a = st.linear_load(st.spec(m, k), tile=(tile, k)).flatten(0, 1)
        b = st.linear_load(st.spec(k, n), tile=(k, n), ref=a).flatten(0, 1)
        st.linear_store(st.map(st.fn.matmul, a, b.flatten(0, 1)), "c")
    return program


def turned(
    lengths: Annotated[np.ndarray, st.workloads.KV_LENGTHS],
    routing: Annotated[np.ndarray, st.workloads.ROUTING],
    width: int = 16,
) -> st.Program:
    return loads(routing, lengths, width)


def fragile(tile: int = 16) -> st.Program:
    if tile == 32:
        raise ZeroDivisionError("thirty-two")
    return gemm(tile=tile)


def loads(
    routing: Annotated[np.ndarray, st.workloads.ROUTING],
    lengths: Annotated[np.ndarray, st.workloads.KV_LENGTHS],
    width: int = 16,
) -> st.Program:
    """As many rows as the busiest expert has, and as the longest request."""
    rows = int(np.bincount(routing.ravel()).max() + lengths.max())
    with st.Program("loads") as program:
        st.linear_store(st.linear_load(st.spec(rows, width), tile=(1, width)), "c")
    return program
'''

GEMM: dict[str, Any] = {
    "workload": "gemm.py:gemm",
    "parameters": {"m": 128},
    "grid": {"tile": [16, 32, 64], "machine.hbm.channels": [1, 4]},
    "chunk": 1,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "gemm.py").write_text(FILE)
    return tmp_path


def written(folder: Path, **changes: Any) -> Path:
    path = folder / "sweep.yaml"
    path.write_text(yaml.safe_dump({**GEMM, **changes}, sort_keys=False))
    return path


@pytest.fixture
def done(folder: Path) -> Path:
    assert run_sweep(written(folder), folder / "local").failures == 0
    return folder / "local"


@pytest.mark.slow
def test_its_arguments_are_axes_and_columns(done: Path, folder: Path) -> None:
    rows = open_table(done).to_table().to_pylist()
    digest = hashlib.sha256(FILE.encode()).hexdigest()
    found = [
        (row["tile"], json.loads(row["machine_json"])["hbm"]["channels"], row["m"], row["k"])
        for row in rows
    ]
    assert found == [(tile, n, 128, 64) for tile in (16, 32, 64) for n in (1, 4)]
    assert {(row["workload"], row["workload_digest"]) for row in rows} == {("gemm.py:gemm", digest)}
    assert json.loads(rows[0]["origins"]) == {
        "m": "given", "k": "default", "n": "default", "tile": "given"
    }  # fmt: skip
    assert {row["flops"] for row in rows} == {2 * 128 * 64 * 64}
    # The file elsewhere, or with other code, makes runs of the same keys.
    (folder / "other").mkdir()
    for text in (FILE, FILE + "\n"):
        (folder / "other" / "gemm.py").write_text(text)
        plan = plan_sweep(written(folder / "other"))
        keys = {chunk.run_key(trace) for chunk in plan.chunks() for trace in chunk.traces}
        assert keys == {row["run"] for row in rows}


@pytest.mark.slow
def test_workers_import_the_file(done: Path, folder: Path) -> None:
    run_sweep(written(folder), folder / "two", jobs=2)
    assert rows_of(folder / "two") == rows_of(done)


@pytest.mark.long
def test_dask_workers_import_the_file(done: Path, folder: Path) -> None:
    pytest.importorskip("distributed", reason="dask.distributed is not installed")
    from tests.sweep.dask_cluster import DaskCluster

    cluster = DaskCluster(folder)
    try:
        cluster.start(2)
        run_sweep(written(folder), folder / "dask", backend="dask", address=cluster.address)
    finally:
        cluster.close()
    assert rows_of(folder / "dask") == rows_of(done)


@pytest.mark.long
def test_ray_workers_import_the_file(done: Path, folder: Path) -> None:
    if importlib.util.find_spec("ray") is None:
        pytest.skip("ray is not installed; it has wheels for few platforms")
    with tempfile.TemporaryDirectory(prefix="ray-") as place:
        command = [sys.executable, "-m", "stepsim", "sweep", "run", str(written(folder)),
                   "--out", str(folder / "ray"), "--backend", "ray", "--jobs", "2"]  # fmt: skip
        environment = {
            **os.environ, "RAY_TMPDIR": place, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64,
            "PYTHONPATH": str(ROOT),
        }  # fmt: skip
        ended = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert rows_of(folder / "ray") == rows_of(done)


@pytest.mark.slow
def test_a_file_that_changes_after_the_plan_is_refused(folder: Path) -> None:
    plan = plan_sweep(written(folder))
    (folder / "gemm.py").write_text(FILE + "\n")
    with pytest.raises(StepSimError, match=r"gemm\.py: has changed since it was read first"):
        run_sweep(plan, folder / "out")
    run_sweep(written(folder), folder / "out2")
    (folder / "gemm.py").write_text(FILE)
    expected = r"another sweep, gemm\.py has changed since the sweep was started; continue"
    with pytest.raises(StepSimError, match=expected):
        run_sweep(written(folder), folder / "out2", resume=True)


@pytest.mark.slow
def test_sweeps_before_and_after_an_edit_are_compared(done: Path, folder: Path) -> None:
    assert compare(done, done).remark == ""
    (folder / "gemm.py").write_text(FILE.replace("compute_bw=512", "compute_bw=64"))
    run_sweep(written(folder), folder / "after")
    found = compare(done, folder / "after")
    assert (len(found.changes), found.only_before, found.only_after) == (6, 0, 0)
    assert found.changes[0].ratio is not None
    assert found.changes[0].ratio > 1
    assert found.remark.startswith("the code of the workload differs between A and B, ")


def test_points_that_raise_are_refused_with_their_traceback(folder: Path) -> None:
    spec: dict[str, Any] = {"workload": "gemm.py:fragile", "parameters": {}}
    with pytest.raises(StepSimError) as caught:
        plan_sweep(written(folder, **spec, grid={"tile": [16, 32, 48]}))
    message = str(caught.value)
    assert "2 problems\n  design point 1 (tile=32): gemm.py:fragile: raised an exc" in message
    assert 'gemm.py", line ' in message
    assert "ZeroDivisionError: thirty-two\n  design point 2 (tile=48): " in message
    assert "stepsim/" not in message
    assert plan_sweep(written(folder, **spec, grid={"tile": [16, 64]})).runs == 2


@pytest.mark.long
def test_points_of_large_sweeps_that_raise_are_failures(folder: Path) -> None:
    tiles = [1, 2, 4, 8, 16, 32, 64]
    channels = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
    grid = {"tile": tiles, "machine.hbm.channels": channels}
    spec = written(folder, workload="gemm.py:fragile", parameters={}, grid=grid)
    summary = run_sweep(spec, folder / "out")
    assert (summary.simulated, summary.errors) == (60, {"UserCodeError": 10})
    row = open_table(folder / "out", "failures").to_table().to_pylist()[0]
    assert (row["stage"], row["point"], row["error"]) == ("build", 50, "UserCodeError")
    assert row["message"].endswith("ZeroDivisionError: thirty-two")


def test_batches_on_which_a_function_raises_are_misfits(folder: Path) -> None:
    for name, first in (("a", 9), ("b", 0)):
        np.save(folder / f"{name}.npy", np.array([first, 3]))
    (folder / "gemm.py").write_text(
        FILE
        + """

def picky(lengths: Annotated[np.ndarray, st.workloads.KV_LENGTHS], most: int = 4) -> st.Program:
    if lengths.max() > most:
        raise ValueError("too long")
    return gemm(tile=16)
"""
    )
    spec = written(
        folder, workload="gemm.py:picky", parameters={}, grid={"most": [4, 9]},
        traces={"files": ["a.npy", "b.npy"]},
    )  # fmt: skip
    plan = plan_sweep(spec)
    (text,) = plan.misfits
    assert text.startswith("design point 0 (most=4): does not fit 1 of 2 batches, the first is a.")
    assert run_sweep(plan, folder / "out").errors == {"UserCodeError": 1}


@pytest.mark.slow
def test_what_looks_at_sweeps(done: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels = [f"tile={tile} machine.hbm.channels={n}" for tile in (16, 32, 64) for n in (1, 4)]
    costs = design_costs(done, "onchip_bytes", "cycles")
    assert sorted(cost.label for cost in costs) == labels
    assert {cost.pareto_optimal for cost in costs} == {True, False}
    assert [change.ratio for change in compare(done, done).changes] == [1.0] * 6
    rows = query(done, "select tile, count(*) n from runs group by tile order by tile")
    assert rows.to_pydict() == {"tile": [16, 32, 64], "n": [2, 2, 2]}
    with pytest.raises(SystemExit, match="0"):
        main(["sweep", "pareto", str(done), "--plot", str(folder / "p.png")])
    assert (folder / "p.png").read_bytes().startswith(b"\x89PNG")
    out = capsys.readouterr().out
    assert all(label in out for label in labels)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"workload": "gemm.py:gem"}, "has no 'gem'; did you mean 'gemm'?"),
        ({"workload": "gem.py:gemm"}, "gem.py: cannot be read: No such file"),
        ({"workload": "gemm.py"}, "gemm.py: holds 4 workloads, gemm, turned, fragile, loads; n"),
        ({"grid": {"tyle": [4]}}, "tyle: gemm has no such parameter; did you mean 'tile'?"),
        ({"grid": {"tile": [4, "x"]}}, "(tile=x): tile: expected a whole number from 1, found 'x'"),
        ({"parameters": {"m": 2.5}}, "line 3, parameters.m: expected a whole number from 1, found"),
        ({"grid": {}}, "design point 0: tile: missing; expected a whole number from 1"),
        ({"parameters": {"config": "published"}}, "config: there is no published experiment of"),
        ({"traces": {"files": ["x"]}}, "traces: workload gemm depends on no data; remove the key"),
        ({"workload": "gemm.py:loads", "grid": {}, "parameters": {}}, "lengths: missing; workload"),
        (
            {
                "workload": "gemm.py:loads", "grid": {}, "parameters": {},
                "traces": {"synthetic": {"tokens": 4, "seed": 1}},
            },
            "traces.synthetic: this workload does not state its number of experts; give files",
        ),
    ],
)  # fmt: skip
def test_mistakes(folder: Path, changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(StepSimError) as caught:
        plan_sweep(written(folder, **changes))
    assert expected in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["loads", "turned"])
def test_traces_are_arguments(folder: Path, name: str) -> None:
    np.save(folder / "routing.npy", np.stack([[[0, 1], [0, 2]], [[0, 1], [0, 1]]], axis=1))
    np.save(folder / "lengths.npy", np.array([7, 3]))
    spec = written(
        folder, workload=f"gemm.py:{name}", parameters={}, grid={"width": [16, 32]},
        traces={"files": ["routing.npy"]}, lengths={"files": ["lengths.npy"]},
    )  # fmt: skip
    assert run_sweep(spec, folder / "out").failures == 0
    rows = open_table(folder / "out").to_table().to_pylist()
    assert [(row["width"], row["batch"], row["max_load"]) for row in rows] == [
        (width, 2, load) for width in (16, 32) for load in (2, 2)
    ]
    for row in rows:
        # Two bytes each, loaded and stored; the longest request has 7 tokens.
        assert row["offchip_bytes"] == 2 * 2 * row["width"] * (7 + row["max_load"])


@pytest.mark.slow
def test_models_are_an_axis(tmp_path: Path) -> None:
    models = ["mixtral-8x7b", "qwen3-30b-a3b"]
    traces = {"synthetic": {"tokens": 4, "steps": 2, "seed": 1}}
    spec = tiny(model=None, traces=traces, parameters={"tile": 4}, grid={"model": models})
    assert run_sweep(spec, tmp_path).failures == 0
    rows = open_table(tmp_path).to_table().to_pylist()
    assert [row["model"] for row in rows] == [name for name in models for _ in range(2)]
    for row in rows:
        experts, active = {"mixtral-8x7b": (8, 2), "qwen3-30b-a3b": (128, 8)}[row["model"]]
        drawn = synthetic_routing(4, experts, active, seed=1, step=row["step"])
        assert row["trace_id"] == drawn.identity()
    costs = design_costs(tmp_path, "onchip_bytes", "cycles")
    assert [cost.label for cost in costs] == [f"model={name}" for name in models]
    assert costs.traces == 2


def test_folders_have_colons(tmp_path: Path) -> None:
    folder = tmp_path / "a:b"
    folder.mkdir()
    (folder / "gemm.py").write_text(FILE)
    plan = plan_sweep(written(folder))
    assert plan.source.text == "gemm.py:gemm"
    assert plan.runs == 6


CLASSES = (
    FILE
    + """

from dataclasses import dataclass


class Tile:
    def __init__(self, rows):
        self.rows = rows

    @classmethod
    def parse(cls, value):
        rows = value["rows"] if isinstance(value, dict) else value
        return value if isinstance(value, cls) else cls(int(rows))

    def __str__(self):
        return f"{self.rows} rows"


class Nameless(Tile):
    __str__ = object.__str__


@dataclass(frozen=True, kw_only=True)
class Classed(st.workloads.Workload):
    tile: Tile
    other: Tile = Tile(8)

    def build(self, data):
        return st.workloads.Built(gemm(tile=self.tile.rows))


@dataclass(frozen=True, kw_only=True)
class Bare(st.workloads.Workload):
    tile: Nameless

    def build(self, data):
        return st.workloads.Built(gemm(tile=self.tile.rows))
"""
)


@pytest.mark.slow
def test_values_of_classes_of_the_file_reach_workers(folder: Path) -> None:
    (folder / "gemm.py").write_text(CLASSES)
    grid = {"tile": [16, {"rows": 32}]}
    spec = written(folder, workload="gemm.py:Classed", parameters={}, grid=grid)
    for jobs in (1, 2):
        assert run_sweep(spec, folder / f"out{jobs}", jobs=jobs).failures == 0
    assert rows_of(folder / "out1") == rows_of(folder / "out2")
    rows = open_table(folder / "out2").to_table().to_pylist()
    assert [(row["tile"], row["other"]) for row in rows] == [
        ("16 rows", "8 rows"), ("32 rows", "8 rows")
    ]  # fmt: skip
    with pytest.raises(StepSimError, match=r"tile: class Nameless has no text by which"):
        plan_sweep(written(folder, workload="gemm.py:Bare", parameters={}, grid={"tile": [16]}))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "6 runs: 6 design points"),
        ({"grid": {"tile": [16]}}, "1 run: 1 design point"),
        (
            {
                "workload": "moe", "grid": {}, "model": "mixtral-8x7b", "parameters": {"tile": 4},
                "traces": {"synthetic": {"tokens": 4, "seed": 1}},
            },
            "1 run: 1 design point x 1 trace",
        ),
    ],
)  # fmt: skip
def test_how_much_there_is_to_do_is_said(
    folder: Path, changes: dict[str, Any], expected: str
) -> None:
    assert plan_sweep(written(folder, **changes)).size == expected


LATE = '''
from dataclasses import dataclass
from typing import Annotated, ClassVar
import stepsim as st

@dataclass(frozen=True, kw_only=True)
class Late(st.workloads.Workload):
    """Knows its experts from a neighbor that it imports when it is asked."""
    inputs: ClassVar = (st.workloads.ROUTING,)
    rows: Annotated[int, st.workloads.Param("rows of a tile")] = 4

    @classmethod
    def routing_shape(cls, given):
        from neighbor_of_late import EXPERTS
        return EXPERTS, 1

    def build(self, data):
        with st.Program("late", compute_bw=64) as program:
            st.linear_store(st.linear_load(st.spec(self.rows, 4), tile=(self.rows, 4)))
        return st.workloads.Built(program)
'''


def test_a_neighbor_imported_late_says_which_routing_is_drawn(tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text(LATE)
    (tmp_path / "neighbor_of_late.py").write_text("EXPERTS = 6\n")
    spec = {
        "workload": str(tmp_path / "late.py:Late"),
        "traces": {"synthetic": {"tokens": 5, "seed": 1}},
    }
    plan = plan_sweep(spec)
    assert plan.runs == 1
    assert plan.traces[0].data.shape == (5, 1)
