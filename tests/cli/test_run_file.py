"""The file of ``--out``: the same names and numbers as the JSON object, and units for each."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from stepsim.results.columns import COLUMNS
from tests.cli.conftest import Outcome


def check_file(path: Path, outcome: Outcome) -> None:
    assert outcome.code == 0, outcome.err
    found = outcome.json()
    table = pq.read_table(path)
    row = table.to_pylist()[0]
    assert table.column_names == [*found, "outline"]
    for name, value in found.items():
        if isinstance(value, dict | list):
            assert json.loads(row[name]) == value
        else:
            assert row[name] == value
    assert all({b"unit", b"definition"} <= set(field.metadata) for field in table.schema)
    assert sorted(p.name for p in path.parent.iterdir()) == sorted(
        f"result{label}.parquet" for label in ("", ".fifos", ".units")
    )


@pytest.mark.parametrize(
    ("counting", "tile"),
    [
        ("executed", "dynamic"),
        ("published", 4),
        pytest.param("executed", 4, marks=pytest.mark.slow),
        pytest.param("published", "dynamic", marks=pytest.mark.slow),
        pytest.param("paper", 4, marks=pytest.mark.slow),
        pytest.param("paper", "dynamic", marks=pytest.mark.slow),
    ],
)
def test_moe(run, tmp_path: Path, tile: object, counting: str) -> None:
    path = tmp_path / "result.parquet"
    outcome = run("--json", "--out", path, "--counting", counting, tile=tile)
    check_file(path, outcome)
    found = outcome.json()
    units = pq.read_table(tmp_path / "result.units.parquet")
    executed = counting == "executed"
    for name in ("flops", "offchip_bytes"):
        assert sum(units[name].to_pylist()) == found[name] or not executed
    assert (sum(units["flops"].to_pylist()) == found["flops"]) == (counting != "published")


def test_swiglu(feed, tmp_path: Path) -> None:
    path = tmp_path / "result.parquet"
    check_file(path, feed("--config", "published", "--json", "--out", path))


@pytest.mark.parametrize("strategy", ["coarse", "interleaved", "dynamic"])
def test_attention(attend, tmp_path: Path, strategy: str) -> None:
    lengths = tmp_path / "lengths.txt"
    lengths.write_text("10\n20\n30\n40\n")
    (tmp_path / "out").mkdir()
    path = tmp_path / "out" / "result.parquet"
    options = {"kv_lengths": lengths, "strategy": strategy}
    check_file(path, attend("--json", "--out", path, **options))


def test_every_column_is_known_with_a_definition() -> None:
    assert all(field.metadata[b"definition"] for field in COLUMNS.values())
