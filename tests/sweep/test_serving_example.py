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


@pytest.mark.slow
def test_one_command_serves_and_draws(
    example: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = {
        "name": "tiny", "model_dim": 64, "layers": 2, "vocabulary": 128,
        "experts": {"count": 4, "active": 2, "inner_dim": 64},
        "attention": {"heads": 2, "kv_heads": 1, "head_dim": 32},
    }  # fmt: skip
    (tmp_path / "model.yaml").write_text(yaml.safe_dump(model))
    service = {
        "model": str(tmp_path / "model.yaml"), "machine": "sda-1024",
        "overrides": {"clock_ghz": 1.0}, "memory_bytes": 10**7, "steps": "exact",
        "source": {"name": "fixed", "count": 20, "prompt_tokens": 9, "output_tokens": 4},
        "slo": "ttft=1s", "tile_inter": 32, "kv_tile": 16, "attention_regions": 2,
        "weight_loads": 2,
    }  # fmt: skip
    points = [
        {"rate": rate, "tile": tile, "strategy": "dynamic"}
        for rate in (40000, 400000)
        for tile in (4, "dynamic")
    ]
    (tmp_path / "small.yaml").write_text(
        yaml.safe_dump({"name": "small", "service": service, "points": points}, sort_keys=False)
    )
    monkeypatch.setattr(example, "FOLDER", tmp_path)
    monkeypatch.setattr(example, "SPECIFICATIONS", ("small.yaml",))
    arguments = ["--out", str(tmp_path / "out"), "--requests", "6"]
    for _ in range(2):  # again, what is there already
        example.main(arguments)
    text = (tmp_path / "out" / "small.svg").read_text("utf-8")
    assert "tile=dynamic strategy=dynamic" in text
    runs = read_runs(tmp_path / "out" / "small", ["completed", "tpot_p99_ms"])
    assert runs["completed"].to_pylist() == [6] * 4
    header, _, *rows = capsys.readouterr().out.splitlines()[-6:]
    page = (ROOT / "docs" / "serving-tutorial.md").read_text("utf-8")
    assert page.count(f"{header}\n|---|") == 2
    assert [row.split(" | ")[1] for row in rows] == ["4", "dynamic"] * 2
    shown = [float(row.split(" | ")[7]) for row in rows]
    assert shown == [round(one, 1) for one in runs["tpot_p99_ms"].to_pylist()]
    assert all(row.endswith("| exact |") for row in rows)


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
