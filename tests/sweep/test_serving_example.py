"""The example that asks what a mapping buys a service, and the page on it."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from stepsim.sweep import read_runs

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "serving"


@pytest.fixture
def example() -> Any:
    found = importlib.util.spec_from_file_location("dynamic_tiling", EXAMPLE / "dynamic_tiling.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_one_command_serves_and_draws(
    example: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = {"name": "lognormal", "count": 20, "prompt_median": 200, "output_median": 20}
    service = {
        "model": "qwen3-30b-a3b", "memory_bytes": 80_000_000_000, "source": source,
        "slo": "ttft=1s", "steps": "linear:8000000,40000,80",
    }  # fmt: skip
    points = [
        {"rate": rate, "tile": tile, "strategy": "dynamic"}
        for rate in (4, 40)
        for tile in (32, "dynamic")
    ]
    (tmp_path / "small.yaml").write_text(
        yaml.safe_dump({"name": "small", "service": service, "points": points}, sort_keys=False)
    )
    monkeypatch.setattr(example, "FOLDER", tmp_path)
    monkeypatch.setattr(example, "SPECIFICATIONS", ("small.yaml",))
    arguments = ["--out", str(tmp_path / "out"), "--requests", "10"]
    for _ in range(2):  # again, what is there already
        example.main(arguments)
    text = (tmp_path / "out" / "small.svg").read_text("utf-8")
    assert "tile=dynamic strategy=dynamic" in text
    assert read_runs(tmp_path / "out" / "small", ["completed"])["completed"].to_pylist() == [10] * 4


def test_requests_of_a_trace_take_the_place_of_drawn_ones(example: Any) -> None:
    for name in example.SPECIFICATIONS:
        service = example.specification(EXAMPLE / name, Path("azure.csv"), None)["service"]
        drawn = example.specification(EXAMPLE / name, None, None)["service"]
        assert "source" not in service
        assert (service["trace"], service["requests"]) == ("azure.csv", drawn["source"]["count"])


def test_the_page_shows_points_of_the_specifications(example: Any) -> None:
    page = (ROOT / "docs" / "serving-tutorial.md").read_text("utf-8")
    shown = re.findall(r"^\| ([\d.]+) \| (\w+) \| (\w+) \|", page, flags=re.MULTILINE)
    points = {
        (f"{point['rate']:g}", str(point["tile"]), point["strategy"])
        for name in example.SPECIFICATIONS
        for point in yaml.safe_load((EXAMPLE / name).read_text("utf-8"))["points"]
    }
    assert len(shown) >= 10
    assert points >= set(shown)
