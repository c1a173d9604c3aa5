"""A column has one value, type, unit and definition wherever it stands: JSON, files, tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stepsim.reproduce.figures import FIGURES
from stepsim.reproduce.inputs import Inputs
from stepsim.reproduce.rows import figure_rows
from stepsim.reproduce.runs import make, source_of
from stepsim.reproduce.schema import points_schema
from stepsim.results.columns import COLUMNS
from stepsim.simulation.cases.case import make_case
from stepsim.sweep import open_table, run_sweep
from stepsim.workloads import Data
from tests.cli.conftest import Cli
from tests.samples import sampled

ROUTING = np.array([[0, 1], [2, 0], [1, 2], [5, 3], [7, 1], [0, 3], [4, 1], [1, 0]])
LENGTHS = np.array([5, 0, 40, 31, 32, 63, 64, 7])
MODEL = "mixtral-8x7b"
CASES: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "moe": ("moe", {"model": MODEL, "tile": 4}, ("routing",)),
    "moe with regions": ("moe", {"model": MODEL, "tile": "dynamic", "regions": 2}, ("routing",)),
    "attention": (
        "attention",
        {"model": "qwen3-30b-a3b", "strategy": "coarse", "micro_batches": "4+4", "block": 2},
        ("kv_lengths",),
    ),
    "swiglu": (
        "swiglu",
        {"tile": 16, "tile_inter": 32, "batch": 64, "hidden": 256, "intermediate": 512},
        (),
    ),
    "decoder": ("decoder", {"model": MODEL, "variant": "dynamic"}, ("routing", "kv_lengths")),
}
COUNTED = {"offchip_bytes", "flops", "bandwidth_utilization"}
"""What a result has as executed, however else its program can be counted."""

Row = Mapping[str, tuple[pa.Field, Any]]


def row_of(table: pa.Table) -> Row:
    """Field and value of each column of the only row."""
    (values,) = table.to_pylist()
    return {field.name: (field, values[field.name]) for field in table.schema}


def assert_one_meaning(
    one: Row, other: Row, least: int, apart: frozenset[str] = frozenset()
) -> None:
    """Compare the shared columns, of which there are at least as many."""
    shared = one.keys() & other.keys() - apart
    assert len(shared) >= least, sorted(shared)
    for name in sorted(shared):
        (left, value), (right, same) = one[name], other[name]
        assert value == same, name
        assert (left.type, left.metadata) == (right.type, right.metadata), name


def options(given: Mapping[str, Any]) -> Iterator[object]:
    for name, value in given.items():
        yield from ("--" + name.replace("_", "-"), value)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    paths = {name: tmp_path / f"{name}.npy" for name in ("routing", "kv_lengths")}
    np.save(paths["routing"], ROUTING)
    np.save(paths["kv_lengths"], LENGTHS)
    return paths


def run_row(cli: Cli, path: Path, workload: str, given: Mapping[str, Any]) -> Row:
    """The row of a run's file, after it was found to say what its JSON object says."""
    outcome = cli("run", workload, *options(given), "--json", "--out", path)
    assert outcome.code == 0, outcome.err
    row, found = dict(row_of(pq.read_table(path))), outcome.json()
    # The outline of a program, for comparisons, is in the file alone.
    outline = row.pop("outline")
    assert outline[1] is not None
    assert list(row) == list(found)
    for name, (field, value) in row.items():
        nested = isinstance(found[name], dict | list)
        assert (json.loads(value) if nested else value) == found[name], name
        known = COLUMNS.get(name)
        assert known is None or (field.type, field.metadata) == (known.type, known.metadata)
    return row


@pytest.mark.slow
@pytest.mark.parametrize("counting", ["executed", "published"])
@pytest.mark.parametrize("name", sampled(CASES, "moe"))
def test_run_sweep_and_result(
    cli: Cli, tmp_path: Path, files: dict[str, Path], name: str, counting: str
) -> None:
    workload, given, inputs = CASES[name]
    own = {one: files[one] for one in inputs}
    row = run_row(cli, tmp_path / "run.parquet", workload, {**given, **own, "counting": counting})

    sources = [{"files": [str(path)]} for path in own.values()]
    spec = {"workload": workload, "parameters": given, "counting": counting}
    spec |= dict(zip(("traces", "lengths"), sources, strict=False))
    summary = run_sweep(spec, tmp_path / "sweep")
    assert summary.failures == 0
    swept = row_of(open_table(tmp_path / "sweep").to_table())
    beside = swept.keys() - row.keys() - {"run", "point", "design", "versions"}
    assert [one for one in beside if swept[one][1] is not None] == []
    assert_one_meaning(row, swept, least=30)

    data = Data.of(**{one: np.load(path) for one, path in own.items()})
    case = make_case(workload, data, counting=counting, **given)
    table = row_of(case.result(data).to_arrow())
    apart = {"wall_seconds", "provenance", *(COUNTED if counting != "executed" else ())}
    assert_one_meaning(row, table, least=8, apart=frozenset(apart))
    assert json.loads(row["provenance"][1]) == json.loads(table["provenance"][1])


POINTS = {
    "8": "f8_step_16_64",
    "9": "f9_mixtral_8",
    "12": "f12_dyn_32",
    "14": "f14_4185_interleave",
    "17": "f17_mixtral_dynamic",
}


@pytest.mark.slow
@pytest.mark.parametrize("figure", POINTS)
def test_reproduced_points(cli: Cli, tmp_path: Path, figure: str) -> None:
    declared, inputs = FIGURES[figure], Inputs()
    points = {point.point_id: point for point in declared.points()}
    point = points[POINTS[figure]]
    outcome = make(point.run, inputs)
    # Ratios need other points; here they do not matter.
    outcomes = {one.run: outcome for one in points.values()}
    rows = figure_rows(declared, list(points.values()), outcomes, None)
    found = next(row for row in rows if row.get("point_id") == point.point_id)
    table = pa.Table.from_pylist([found], schema=points_schema(compared=False))

    given, data = dict(point.run.parameters), inputs.data(point.run, source_of(point.run).load())
    for name in ("routing", "kv_lengths"):
        array = getattr(data, name)
        if array is not None:
            given[name] = tmp_path / f"{name}.npy"
            np.save(given[name], array)
    given["config"] = "published"
    row = run_row(cli, tmp_path / "run.parquet", point.run.workload, given)
    # The drawn inputs have files in this test only.
    assert_one_meaning(row, row_of(table), 15, apart=frozenset({"trace", "wall_seconds"}))
