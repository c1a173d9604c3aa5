"""The page on the validation of serving is what the generator writes, and all on it is equal."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepsim.errors import TraceError
from stepsim.reproduce.serving.validation_page import serving_page, write_serving_validation
from tests.shared import DATA, recorded

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "serving-validation.md"


@recorded(DATA / "serving" / "runs")
def test_the_page_is_what_is_written() -> None:
    assert serving_page(DATA) == PAGE.read_text("utf-8")


def test_runs_on_the_page_are_equal() -> None:
    rows = [line.split("|") for line in PAGE.read_text("utf-8").splitlines() if line[:3] == "| `"]
    assert len(rows) > 20
    for row in rows:
        assert row[9].strip() == "0", row[1]
        ours, _, count = row[10].strip().partition(" of ")
        assert ours == count or row[10].strip() == "only the clock is known"


def test_tests_that_are_named_exist() -> None:
    named = [word.strip("`;., ") for word in PAGE.read_text("utf-8").split() if "tests/" in word]
    assert len(named) >= 4
    assert all((ROOT / name).exists() for name in named)


def test_a_folder_without_runs_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"has no cases\.json, expected recorded runs"):
        write_serving_validation(tmp_path / "page.md", tmp_path)
