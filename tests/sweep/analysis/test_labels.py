"""Labels of design points and runs say what differs among them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stepsim.errors import SweepError
from stepsim.sweep import (
    compare,
    design_costs,
    run_sweep,
)
from stepsim.sweep.analysis.differences import key_differences
from tests.sweep.support import rewrite, tiny


def labels_of(folder: Path, **changes: Any) -> list[str]:
    run_sweep(tiny(**{"grid": {}, "parameters": {"tile": 2, "tile_inter": 32}, **changes}), folder)
    return [cost.label for cost in design_costs(folder, "onchip_bytes", "cycles")]


@pytest.mark.slow
def test_labels_hold_what_differs_and_nothing_else(tmp_path: Path) -> None:
    points: list[dict[str, Any]] = [{"tile_inter": 16}, {"regions": 3, "tile_inter": 32}]
    # Regions leave the defaults of the others as they are.
    assert labels_of(tmp_path / "listed", points=points) == [
        "tile_inter=16 regions=null",
        "tile_inter=32 regions=3",
    ]
    assert labels_of(tmp_path / "one") == ["moe tiny"]
    # A name stands for all that differs between machines, but not for what was changed.
    assert labels_of(tmp_path / "machines", grid={"machine": ["sda-1024", "sda-hdl"]}) == [
        "machine=sda-1024",
        "machine=sda-hdl",
    ]
    points = [{}, {"machine": "sda-hdl", "machine.onchip.bytes_per_cycle": 16}]
    assert labels_of(tmp_path / "changed", points=points) == [
        "machine=sda-1024 machine.onchip.bytes_per_cycle=64",
        "machine=sda-hdl machine.onchip.bytes_per_cycle=16",
    ]
    assert labels_of(tmp_path / "models", grid={"machine.model": ["step-2025", "step-2026"]}) == [
        "machine.model=step-2025",
        "machine.model=step-2026",
    ]
    points = [{}, {"machine.description": "the same in other words"}]
    assert labels_of(tmp_path / "same", points=points) == [
        "moe tiny (design 0)",
        "moe tiny (design 1)",
    ]


@pytest.mark.slow
def test_labels_of_runs_tell_all_of_them_apart(done: Path, tmp_path: Path) -> None:
    labels = [change.label for change in compare(done, done).changes]
    assert len(set(labels)) == 24
    files = []
    for name in ("a.npy", "b.npy"):
        np.save(tmp_path / name, np.arange(32).reshape(16, 1, 2) % 6)
        files.append(str(tmp_path / name))
    selection = {"files": files, "tokens": 8, "windows": "all"}
    run_sweep(tiny(traces=selection, grid={"tile": [2]}), tmp_path / "out")
    labels = [change.label for change in compare(tmp_path / "out", tmp_path / "out").changes]
    assert labels == [f"trace={name} window={i}" for name in ("a.npy", "b.npy") for i in (0, 1)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("column", "text", "problem"),
    [
        ("parameters", "{", r"1:2: not valid JSON"),
        ("parameters", "[" * 5000 + "]" * 5000, "at most 40 deep"),
        ("parameters", "[1]", r"expected a JSON object, found \[1\]"),
        ("machine_json", "1" * 5000, "integer of at most 40 digits"),
    ],
)
def test_rows_without_json_are_named(
    done: Path, tmp_path: Path, column: str, text: str, problem: str
) -> None:
    folder = tmp_path / "out"
    shutil.copytree(done, folder)
    path = sorted((folder / "runs").rglob("*.parquet"))[1]
    table = pq.ParquetFile(path).read()
    texts = pa.array([text] * table.num_rows)
    index = table.schema.get_field_index(column)
    rewrite(path, table.set_column(index, table.schema.field(column), texts))
    label = path.parent.name.removeprefix("design=")
    expected = f"{folder}: run .* of design {label}, column {column}.*{problem}"
    with pytest.raises(SweepError, match=expected):
        design_costs(folder, "onchip_bytes", "cycles")
    with pytest.raises(SweepError, match=expected):
        key_differences(done, folder)
