"""Windows, steps of replays and large files as traces of a sweep."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

from stepsim.errors import SweepError
from stepsim.sweep import Plan, open_table, plan_sweep, run_sweep
from stepsim.sweep.planning import traces as traces_module
from stepsim.trace_io import (
    ParquetStream,
    RequestTrace,
    import_trace,
    read_kv_lengths,
    read_routing,
    replay,
    replay_rows,
    synthetic_routing,
    write_routing,
)
from tests.samples import sampled
from tests.sweep.support import rows_of, tiny

ATTENTION = {
    "workload": "attention",
    "model": "qwen3-30b-a3b-step",
    "grid": {"strategy": ["dynamic"], "regions": [2]},
}


@pytest.fixture
def routing(tmp_path: Path) -> Path:
    """Three layers in two steps, 30 tokens each, in small row groups."""
    tables = [
        synthetic_routing(30, 6, 2, seed=2, layer=layer, step=step)
        for step in range(2)
        for layer in range(3)
    ]
    write_routing(tables, tmp_path / "r.parquet")
    whole = pq.read_table(tmp_path / "r.parquet")
    pq.write_table(whole, tmp_path / "r.parquet", row_group_size=10)
    return tmp_path / "r.parquet"


@pytest.fixture
def requests(tmp_path: Path) -> RequestTrace:
    generator = np.random.default_rng(0)
    return RequestTrace(generator.integers(1, 90, 50), generator.integers(1, 6, 50))


def labels(**selection: Any) -> list[tuple[int | None, int | None, int | None]]:
    plan = plan_sweep(tiny(traces=selection))
    return [(trace.layer, trace.step, trace.window) for trace in plan.traces]


def message(spec: dict[str, Any]) -> str:
    with pytest.raises(SweepError) as caught:
        plan_sweep(spec)
    return str(caught.value)


def test_which_windows(routing: Path) -> None:
    files = {"files": [str(routing)], "layers": [1], "tokens": 8}
    assert labels(**files, windows="all") == [(1, s, w) for s in range(2) for w in range(3)]
    assert labels(**files, windows=2) == [(1, s, w) for s in range(2) for w in range(2)]
    assert labels(**files, windows=[2, 0], steps=[1]) == [(1, 1, 2), (1, 1, 0)]
    drawn = labels(**files, windows="all", sample=4, seed=5)
    assert drawn == labels(**files, windows="all", sample=4, seed=5) == sorted(drawn)
    assert len(set(drawn)) == 4
    synthetic = {"tokens": 20, "layers": 2, "seed": 1}
    assert labels(synthetic=synthetic, tokens=10, windows="all") == [
        (layer, 0, w) for layer in range(2) for w in range(2)
    ]


@pytest.mark.parametrize("kept", sampled([traces_module.KEPT_BYTES, 0], 0))
def test_windows_are_runs_of_their_own(
    routing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    monkeypatch.setattr(traces_module, "KEPT_BYTES", kept)
    selection = {"files": [str(routing)], "layers": [0, 2], "tokens": 8, "windows": "all"}
    spec = tiny(traces=selection, grid={"tile": [4]})
    plan = plan_sweep(spec)
    assert [trace.data is None for trace in plan.traces] == [not kept] * 12
    summary = run_sweep(plan, tmp_path / "out")
    assert (summary.simulated, summary.failures) == (12, 0)
    rows = open_table(tmp_path / "out").to_table().to_pylist()
    assert len({row["run"] for row in rows}) == 12
    for row in rows:
        table = read_routing(
            routing, layer=row["layer"], step=row["step"], tokens=8, window=row["window"]
        )
        assert row["trace_id"] == table.identity()
        assert row["max_load"] == np.bincount(table.experts.ravel()).max()
        assert (row["trace"], row["batch"]) == ("r.parquet", 8)
    # The same rows whether the data stays in memory, is read again, or travels.
    monkeypatch.undo()
    run_sweep(spec, tmp_path / "again", jobs=2)
    assert rows_of(tmp_path / "again") == rows_of(tmp_path / "out")


def test_keys_of_runs_without_windows_are_pinned() -> None:
    """They tell which runs of two sweeps belong together, also of sweeps kept for long."""
    chunk = next(plan_sweep(tiny(grid={"tile": [4]})).chunks())
    assert chunk.run_key(chunk.traces[0]) == "15d21232aa899a9a4159"


def test_a_trace_travels_with_its_data(routing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces_module, "KEPT_BYTES", 0)
    selection = {"files": [str(routing)], "tokens": 8, "windows": [1], "layers": [1]}
    trace = plan_sweep(tiny(traces=selection)).traces[0]
    sent = pickle.loads(pickle.dumps(trace))
    assert (trace.data, sent.load, sent.identity) == (None, None, trace.identity)
    wanted = read_routing(routing, layer=1, step=0, tokens=8, window=1)
    assert sent.data.tolist() == wanted.experts.tolist()


def test_a_file_that_changes_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces_module, "KEPT_BYTES", 0)
    ids = synthetic_routing(12, 6, 2, seed=1).experts
    np.save(tmp_path / "r.npy", ids)
    selection = {"files": [str(tmp_path / "r.npy")], "tokens": 4, "windows": [1]}
    plan = plan_sweep(tiny(traces=selection, grid={"tile": [4]}))
    np.save(tmp_path / "r.npy", ids[::-1])
    assert run_sweep(plan, tmp_path / "out").failures == 1
    (row,) = open_table(tmp_path / "out", "failures").to_table().to_pylist()
    assert (row["stage"], row["window"]) == ("trace", 1)
    assert row["message"].startswith("r.npy layer 0 step 0 window 1: has changed since the sweep")


@pytest.mark.parametrize("failure", [OSError(5, "Input/output error"), ValueError("cut short")])
def test_a_trace_that_cannot_be_read_again_travels_with_its_error(failure: Exception) -> None:
    """The data is read while a chunk is sent: an error there would end the sweep."""
    trace = traces_module.Trace("r.npy", 0, 2, "1d", None, window=1, load=Failing(failure))
    sent = pickle.loads(pickle.dumps(trace))
    assert (sent.data, sent.load, sent.identity) == (None, None, "1d")
    assert sent.error.startswith("r.npy layer 0 step 2 window 1: can no longer be read")
    assert f"({failure}), although it could" in sent.error


class Failing:
    """Reads nothing."""

    def __init__(self, failure: Exception) -> None:
        self._failure = failure

    def __call__(self) -> traces_module.Content:
        raise self._failure


@pytest.mark.parametrize("jobs", sampled([1, 2], 1))
def test_a_file_that_goes_away_costs_its_runs_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    monkeypatch.setattr(traces_module, "KEPT_BYTES", 0)
    for name in ("a.npy", "b.npy"):
        np.save(tmp_path / name, np.arange(1, 9) * ord(name[0]))
    files = [str(tmp_path / name) for name in ("a.npy", "b.npy")]
    plan = plan_sweep({**ATTENTION, "traces": {"files": files}})
    (tmp_path / "b.npy").unlink()
    summary = run_sweep(plan, tmp_path / "out", jobs=jobs)
    assert (summary.simulated, summary.errors) == (1, {"TraceError": 1})
    (row,) = open_table(tmp_path / "out", "failures").to_table().to_pylist()
    assert (row["stage"], row["trace"]) == ("trace", "b.npy")
    assert row["message"].startswith("b.npy: can no longer be read (")


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ({"windows": "all"}, "traces.windows: the number of tokens per window is missing"),
        (
            {"tokens": 8, "windows": [0, 3]},
            "layer 0 step 0 has 30 tokens, which makes windows 0..2 of 8, but window 3 is asked",
        ),
        ({"tokens": 8, "windows": 4}, "makes windows 0..2 of 8, but window 3 is asked for"),
        ({"tokens": 31, "windows": [0]}, "fewer than the batch of 31 asked for; choose"),
        ({"tokens": 31, "windows": "all"}, "no batch has 31 rows, the longest has 30; choose"),
        ({"tokens": 8, "windows": [1, 1]}, "traces.windows: holds a window twice"),
        ({"tokens": 8, "windows": []}, "traces.windows: expected 'all', the first N from 1"),
        ({"tokens": 8, "windows": [-1]}, "or a list of numbers from 0, found the list [-1]"),
        ({"tokens": 8, "windows": 0}, "traces.windows: expected 'all', the first N from 1"),
        ({"tokens": 8, "windows": "every"}, "or a list of numbers from 0, found the text 'every'"),
        ({"tokens": 8, "windows": 3, "sample": 19}, "19 traces requested, but only 18"),
        ({"column": "x"}, "traces.column: applies only to files of lengths; remove it"),
        (
            {"layers": [3]},
            "traces.layers: no source holds layer 3; the sources hold layers 0..2 and steps 0..1; "
            "choose among these",
        ),
        ({"layers": [1, 4, 9]}, "traces.layers: no source holds layer 4, 9; the sources hold"),
        ({"layers": [1], "steps": [0, 77]}, "traces.steps: no source holds step 77; the sources"),
        (
            {"steps": []},
            "traces.steps: expected a non-empty list of integers from 0 to 2**40 or null (steps",
        ),
        ({"min_tokens": 31}, "traces.min_tokens: no batch has 31 rows, the longest has 30"),
    ],
)
def test_windows_that_are_not_there(
    routing: Path, selection: dict[str, Any], expected: str
) -> None:
    text = message(tiny(traces={"files": [str(routing)], **selection}))
    assert expected in text
    if "asked" in expected:
        assert "r.parquet" in text


def test_a_layer_without_any_of_the_steps(tmp_path: Path) -> None:
    tables = [synthetic_routing(4, 6, 2, seed=2, layer=n, step=n) for n in range(2)]
    write_routing(tables, tmp_path / "r.parquet")
    files = {"files": [str(tmp_path / "r.parquet")]}
    assert labels(**files, layers=[0, 1], steps=[0, 1]) == [(0, 0, None), (1, 1, None)]
    assert "traces.layers: layer 1 has none of the steps; the sources hold layers 0..1" in message(
        tiny(traces={**files, "layers": [0, 1], "steps": [0]})
    )


def test_synthetic_layers_that_are_not_drawn() -> None:
    drawn = {"synthetic": {"tokens": 4, "layers": 2, "seed": 1}}
    assert "traces.layers: no source holds layer 2; the sources hold layers 0..1 and" in message(
        tiny(traces={**drawn, "layers": [0, 2]})
    )


# --- attention


def test_windows_of_requests(requests: RequestTrace, tmp_path: Path) -> None:
    requests.to_parquet(tmp_path / "q.parquet")
    files = {"files": [str(tmp_path / "q.parquet")], "tokens": 8}
    spec = {**ATTENTION, "traces": {**files, "windows": [1, 4]}}
    assert run_sweep(spec, tmp_path / "out").failures == 0
    rows = open_table(tmp_path / "out").to_table().to_pylist()
    assert [(row["window"], row["step"], row["batch"]) for row in rows] == [
        (1, None, 8), (4, None, 8),
    ]  # fmt: skip
    np.save(tmp_path / "w.npy", requests.context_tokens[8:16])
    alone = {**ATTENTION, "traces": {"files": [str(tmp_path / "w.npy")]}}
    run_sweep(alone, tmp_path / "alone")
    (row,) = open_table(tmp_path / "alone").to_table().to_pylist()
    assert (row["trace_id"], row["image_hash"]) == (rows[0]["trace_id"], rows[0]["image_hash"])
    assert "it has 50 requests, which makes windows 0..5 of 8, but window 6 is" in message(
        {**ATTENTION, "traces": {**files, "windows": [6]}}
    )
    assert "traces.steps: q.parquet has no steps" in message(
        {**ATTENTION, "traces": {**files, "steps": [1]}}
    )


def test_steps_of_a_replay(requests: RequestTrace, tmp_path: Path) -> None:
    path = tmp_path / "steps.parquet"
    with ParquetStream(path, row_group_rows=4) as out:
        out.write(replay_rows(list(replay(requests, 8))))

    def found(**selection: Any) -> list[tuple[int | None, int | None, int | None]]:
        plan = plan_sweep({**ATTENTION, "traces": {"files": [str(path)], **selection}})
        return [(trace.step, trace.window, trace.rows) for trace in plan.traces]

    assert found(steps=[2, 5]) == [(2, None, 8), (5, None, 8)]
    assert found(steps=[2], tokens=4, windows="all") == [(2, 0, 4), (2, 1, 4)]
    assert len(found(sample=3, seed=1)) == 3
    plan = plan_sweep({**ATTENTION, "traces": {"files": [str(path)], "steps": [5]}})
    assert plan.traces[0].data.tolist() == read_kv_lengths(path, step=5).tolist()
    two = {**ATTENTION, "traces": {"files": [str(path), str(path)], "steps": [2, 5], "sample": 3}}
    drawn = plan_sweep(two).traces
    assert {trace.step for trace in drawn} == {2, 5}
    assert [trace.rows for trace in drawn] == [8] * 3
    assert message({**ATTENTION, "traces": {"files": [str(path)], "steps": [2, 999, 1000]}}) == (
        "sweep, traces.steps: no file holds step 999..1000; found steps 0..22; choose among these"
    )


def test_batches_of_one_size(requests: RequestTrace, tmp_path: Path) -> None:
    """The last steps of a replay have fewer requests than the others."""
    path = tmp_path / "steps.parquet"
    with ParquetStream(path) as out:
        out.write(replay_rows(list(replay(requests, 8))))

    def plan(**selection: Any) -> Plan:
        return plan_sweep({**ATTENTION, "traces": {"files": [str(path)], **selection}})

    sizes = [trace.rows for trace in plan(min_tokens=2).traces]
    assert 8 in sizes
    assert any(size < 8 for size in sizes)
    whole = plan(min_tokens=8).traces
    assert [trace.rows for trace in whole] == [8] * sizes.count(8)
    assert len(plan(min_tokens=8, sample=3).traces) == 3
    smaller = next(trace for trace in plan(tokens=8).traces if trace.error)
    assert smaller.error.startswith(f"steps.parquet: step {smaller.step} has ")
    assert smaller.error.endswith(
        " requests, expected 8 by traces.tokens; leave smaller ones out with "
        "traces.min_tokens, or add traces.windows to run 8 each"
    )
    assert "traces.min_tokens: no batch has 9 rows, the longest has 8; choose a smaller" in message(
        {**ATTENTION, "traces": {"files": [str(path)], "min_tokens": 9}}
    )


def test_a_column_of_lengths(tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_text("id,kv\n1,30\n2,40\n3,50\n4,60\n")
    selection = {"files": [str(tmp_path / "q.csv")], "column": "kv", "tokens": 2, "windows": "all"}
    plan = plan_sweep({**ATTENTION, "traces": selection})
    assert [trace.data.tolist() for trace in plan.traces] == [[30, 40], [50, 60]]


# --- memory


PLAN = """
import json, re, sys
from pathlib import Path
from stepsim.sweep import plan_sweep
peak = lambda: int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
before = peak()
plan = plan_sweep(sys.argv[1])
print(json.dumps({"mb": peak() - before, "traces": len(plan.traces)}))
"""


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read in /proc")
def test_a_plan_over_a_large_file_holds_what_it_selects(tmp_path: Path) -> None:
    """96 MB of ids, of which 20 windows of 64 tokens are run."""
    ids = np.tile(synthetic_routing(1000, 6, 2, seed=0).experts[:, None], (250, 48, 1))
    np.save(tmp_path / "r.npy", ids.astype(np.int16))
    import_trace(tmp_path / "r.npy", tmp_path / "r.parquet")
    selection = {"files": ["r.parquet"], "tokens": 64, "windows": "all", "sample": 20, "seed": 1}
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(tiny(traces=selection)))
    command = [sys.executable, "-c", PLAN, str(tmp_path / "s.yaml")]
    found = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    assert found["traces"] == 20
    assert found["mb"] < 150
