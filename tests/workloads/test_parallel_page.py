"""The table of large models on the page about parallelism is what the example prints."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.long
def test_the_table_of_large_models() -> None:
    path = ROOT / "examples" / "scaling" / "large_models.py"
    spec = importlib.util.spec_from_file_location("large_models", path)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    page = (ROOT / "docs" / "parallel.md").read_text(encoding="utf-8")
    assert f"\n\n{example.table()}\n\n" in page


def test_what_bounds_a_point() -> None:
    page = (ROOT / "docs" / "parallel.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.count("|") == 13]
    head, _, *points = rows
    assert len(points) == 12
    for point in points:
        cycles, *times = (int(point[i].replace(",", "")) for i in (3, *range(5, 10)))
        largest = head[5 + times.index(max(times))]
        alone = max(times) > cycles / 2
        assert point[-1] == (largest if alone else f"stages, then {largest}")
