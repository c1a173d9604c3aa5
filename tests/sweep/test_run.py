"""Sweeps give the same rows however they are run, in a schema that does not move."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from stepsim.errors import SweepError
from stepsim.machine import Machine
from stepsim.results import SERVING
from stepsim.simulation.cases.case import make_case
from stepsim.simulation.cases.columns import parameter_columns
from stepsim.sweep import (
    FAILURES_SCHEMA,
    UNIT_ROWS_SCHEMA,
    SweepProgress,
    open_table,
    query,
    read_runs,
    run_sweep,
    runs_schema,
)
from stepsim.sweep.planning.optional_measures import measure_columns
from stepsim.sweep.planning.services import ServiceWorkload, columns_of
from stepsim.trace_io import synthetic_routing
from stepsim.workloads import Data
from stepsim.workloads.loading import BUILT_IN, find_workload
from tests.sweep.support import TINY, rows_of, tiny


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sweep") / "out"
    summary = run_sweep(tiny(), folder)
    assert (summary.runs, summary.simulated, summary.failures) == (24, 24, 0)
    assert summary.complete
    return folder


def schema_of(workload: str) -> pa.Schema:
    return runs_schema(parameter_columns(find_workload(workload).load()))


def with_design(schema: pa.Schema) -> pa.Schema:
    """As read: the files are as in the schema, the folder adds a column."""
    return schema.append(pa.field("design", pa.string(), nullable=False))


@pytest.mark.slow
def test_rows_are_those_of_single_simulations(done: Path) -> None:
    rows = open_table(done).to_table().to_pylist()
    assert len(rows) == 24
    for row in rows[::5]:
        table = synthetic_routing(12, 6, 2, seed=1, layer=row["layer"], step=row["step"])
        tile = "dynamic" if row["tile"] == "dynamic" else int(row["tile"])
        data = Data.of(routing=table.experts)
        machine = Machine(**json.loads(row["machine_json"]))
        case = make_case(
            "moe", data, machine=machine, model=TINY["model"], tile=tile, tile_inter=32
        )
        result = case.result(data)
        expected = {
            **case.measures(result, data),
            **case.describe(data),
            "image_hash": result.provenance["image_hash"],
            "program_hash": result.provenance["program_hash"],
        }
        origins = {"origins": row["origins"]}
        assert {name: row[name] for name in expected} == expected | origins
        assert row["trace_id"] == table.identity()


@pytest.mark.slow
def test_every_row_carries_its_provenance(done: Path) -> None:
    table = open_table(done).to_table()
    for name in ("program_hash", "machine_json", "trace_id", "stepsim_version", "model_version"):
        assert table[name].null_count == 0
        assert all(table[name].to_pylist()), name
    assert {"numba", "numpy", "python"} <= json.loads(table["versions"][0].as_py()).keys()


def test_jobs_do_not_change_a_byte(done: Path, tmp_path: Path) -> None:
    run_sweep(tiny(), tmp_path / "two", jobs=2)
    assert rows_of(tmp_path / "two") == rows_of(done)
    assert len(rows_of(done)) == 8


@pytest.mark.slow
def test_progress_counts_up_to_all(tmp_path: Path) -> None:
    seen: list[SweepProgress] = []
    run_sweep(tiny(), tmp_path, progress=seen.append)
    assert [p.done for p in seen] == [4, 6, 10, 12, 16, 18, 22, 24]
    assert seen[-1].eta_seconds == 0


def test_readers_of_other_projects_see_the_partitions(done: Path) -> None:
    arrow = ds.dataset(done / "runs", partitioning="hive").to_table()
    lazy = polars.scan_parquet(done / "runs" / "**" / "*.parquet", hive_partitioning=True)
    pattern = str(done / "runs" / "*" / "*.parquet")
    ducks = duckdb.sql(f"select design, sum(cycles) from '{pattern}' group by design").fetchall()
    assert arrow.num_rows == 24
    totals = arrow.group_by("design").aggregate([("cycles", "sum")]).to_pydict()
    expected = dict(zip(totals["design"], totals["cycles_sum"], strict=True))
    assert expected == dict(ducks)
    frame = lazy.group_by("design").agg(polars.col("cycles").sum()).collect()
    assert expected == dict(frame.iter_rows())
    assert len(expected) == 4


@pytest.mark.slow
def test_designs_and_machines_can_be_asked_for(done: Path, tmp_path: Path) -> None:
    designs = query(done, "select design, count(*) n from runs group by design order by design")
    labels = [path.name.removeprefix("design=") for path in sorted((done / "runs").iterdir())]
    assert designs.to_pydict() == {"design": labels, "n": [6] * 4}
    assert read_runs(done, ["design"])["design"].unique().to_pylist() == labels
    channels = query(
        done,
        "select (machine_json->>'$.hbm.channels')::int as channels, count(*) as n "
        "from runs group by channels order by channels",
    )
    assert channels.to_pydict() == {"channels": [8, 32], "n": [12, 12]}

    # The same of chunks that are not joined yet, and of other tables.
    def stop(progress: SweepProgress) -> None:
        if progress.done > 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_sweep(tiny(units=True), tmp_path, progress=stop)
    table = open_table(tmp_path).to_table(columns=["design", "point"])
    assert table["design"].to_pylist() == [labels[point] for point in table["point"].to_pylist()]
    assert set(table["design"].to_pylist()) == set(labels[:2])
    units = query(tmp_path, "select distinct design from units order by design")
    assert units["design"].to_pylist() == labels[:2]


def test_queries_and_columns(done: Path) -> None:
    answer = query(done, "select tile, count(*) as n from runs group by tile order by tile")
    assert answer.to_pydict() == {"tile": ["2", "dynamic"], "n": [12, 12]}
    with pytest.raises(SweepError, match=r"query: (.|\n)*cycels"):
        query(done, "select cycels from runs")
    with pytest.raises(SweepError, match="no column 'cycle'; did you mean 'cycles'"):
        read_runs(done, ["cycle"])
    with pytest.raises(SweepError, match="holds no sweep"):
        open_table(done / "runs")


def test_metrics_that_are_not_kept_are_null(tmp_path: Path) -> None:
    run_sweep(tiny(metrics=["cycles", "onchip_bytes"], grid={"tile": [4]}), tmp_path)
    table = open_table(tmp_path).to_table()
    assert with_design(schema_of("moe")) == table.schema
    assert table["cycles"].null_count == table["onchip_bytes"].null_count == 0
    assert table["flops"].null_count == table["offchip_bytes"].null_count == table.num_rows


def test_unit_accounts_can_be_kept(tmp_path: Path) -> None:
    run_sweep(tiny(units=True, grid={"tile": [4]}), tmp_path)
    units = open_table(tmp_path, "units").to_table()
    assert with_design(UNIT_ROWS_SCHEMA) == units.schema
    runs = open_table(tmp_path).to_table()
    assert set(units["run"].to_pylist()) == set(runs["run"].to_pylist())
    traffic = query(
        tmp_path, "select run, sum(offchip_bytes) t from units group by run"
    ).to_pydict()
    expected = dict(zip(runs["run"].to_pylist(), runs["offchip_bytes"].to_pylist(), strict=True))
    assert dict(zip(traffic["run"], traffic["t"], strict=True)) == expected


@pytest.mark.slow
def test_regions_attention_and_swiglu_run(tmp_path: Path) -> None:
    np.save(tmp_path / "kv.npy", np.array([3, 40, 12, 9]))
    specs: list[dict[str, Any]] = [
        tiny(grid={"tile": [2, "dynamic"], "regions": [2, 6]}, chunk=50),
        {
            "workload": "attention",
            "model": "qwen3-30b-a3b-step",
            "traces": {"files": [str(tmp_path / "kv.npy")]},
            "grid": {"strategy": ["coarse", "interleaved", "dynamic"], "regions": [2]},
        },
        {
            "workload": "swiglu",
            "parameters": {"batch": 8, "hidden": 16, "intermediate": 32, "tile_inter": 8},
            "grid": {"tile": [4, 8]},
        },
    ]
    for i, spec in enumerate(specs):
        summary = run_sweep(spec, tmp_path / str(i))
        assert summary.failures == 0
        table = open_table(tmp_path / str(i)).to_table()
        assert with_design(schema_of(spec["workload"])) == table.schema
        assert table.num_rows == summary.runs > 0
        assert min(table["onchip_bytes"].to_pylist()) > 0


def test_a_bad_trace_row_costs_its_layer_step_only(tmp_path: Path) -> None:
    ids = np.array([[[0, 1], [2, 3]], [[4, 5], [1, 9]], [[1, 2], [0, 2]]])
    np.save(tmp_path / "t.npy", ids)
    spec = tiny(traces={"files": [str(tmp_path / "t.npy")]}, grid={"tile": [2, 4]})
    summary = run_sweep(spec, tmp_path / "out")
    assert (summary.runs, summary.simulated, summary.failures) == (4, 2, 2)
    assert summary.errors == {"TraceError": 2}
    failures = open_table(tmp_path / "out", "failures").to_table()
    assert with_design(FAILURES_SCHEMA) == failures.schema
    for row in failures.to_pylist():
        assert (row["stage"], row["layer"]) == ("trace", 1)
        assert "row 1 (layer 1, step 0, token 1): expert id 9 is out of range" in row["message"]
    assert set(open_table(tmp_path / "out").to_table()["layer"].to_pylist()) == {0}


def test_runs_without_a_good_end_are_rows_and_failures(tmp_path: Path) -> None:
    summary = run_sweep(tiny(limits={"max_cycles": 10}, grid={"tile": [2]}), tmp_path)
    assert (summary.simulated, summary.errors) == (6, {"limit": 6})
    (row, *_) = open_table(tmp_path).to_table().to_pylist()
    assert row["status"] == "limit"
    assert row["bandwidth_utilization"] is None
    (failure, *_) = open_table(tmp_path, "failures").to_table().to_pylist()
    assert "stopped by the limit max_cycles" in failure["message"]
    assert failure["run"] == row["run"]


@pytest.mark.slow
def test_an_error_in_one_run_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stepsim.simulation.running.batches import ManyRuns

    real, calls = ManyRuns.totals, []

    def run(self: ManyRuns, *args: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise RuntimeError("bit flip")
        return real(self, *args, **options)

    monkeypatch.setattr(ManyRuns, "totals", run)
    summary = run_sweep(tiny(), tmp_path)
    assert (summary.simulated, summary.errors) == (23, {"RuntimeError": 1})
    (failure,) = open_table(tmp_path, "failures").to_table().to_pylist()
    assert (failure["stage"], failure["message"], failure["step"]) == ("run", "bit flip", 2)


def test_schemas_are_stable() -> None:
    schemas = {f"runs of {name}": schema_of(name) for name in BUILT_IN}
    service = columns_of(ServiceWorkload) | measure_columns(SERVING)
    schemas |= {"services": runs_schema(service)}
    schemas |= {"failures": FAILURES_SCHEMA, "units": UNIT_ROWS_SCHEMA}
    text = "\n\n".join(
        "\n".join([title, *(f"{f.name}: {f.type}{'' if f.nullable else ' not null'}" for f in one)])
        for title, one in schemas.items()
    )
    snapshot = Path(__file__).with_name("schemas.txt")
    assert text + "\n" == snapshot.read_text(), (
        "columns changed: renew the snapshot, and raise SCHEMA_VERSION unless some were only added"
    )
    for one in schemas.values():
        assert one.metadata[b"schema_version"] == b"5"
        for field in one:
            assert field.metadata[b"definition"]


@pytest.mark.parametrize("out", [5, None, b"folder"])
def test_a_place_that_is_no_path_is_refused(out: object) -> None:
    with pytest.raises(SweepError, match="out: expected a folder, found"):
        run_sweep(tiny(), out)  # type: ignore[arg-type]
