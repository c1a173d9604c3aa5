"""The page on the validation of networks is what the generator writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepsim.errors import TraceError
from stepsim.reproduce.noc.validation_page import noc_page, write_noc_validation
from tests.shared import DATA, recorded

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "noc-validation.md"


@recorded(DATA / "noc" / "cases")
def test_the_page_is_what_is_written() -> None:
    assert noc_page(DATA / "noc" / "cases") == PAGE.read_text("utf-8")


def test_cases_on_the_page_are_equal() -> None:
    rows = [line.split("|") for line in PAGE.read_text("utf-8").splitlines() if line[:3] == "| `"]
    assert len(rows) == 3
    for row in rows:
        equal, _, count = row[5].strip().partition(" of ")
        assert equal == count


def test_tests_that_are_named_exist() -> None:
    named = [word.strip("`;., ") for word in PAGE.read_text("utf-8").split() if "tests/" in word]
    assert len(named) >= 3
    assert all((ROOT / name).exists() for name in named)


def test_a_folder_without_cases_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"booksim_curves\.csv: .*expected curves of BookSim2"):
        write_noc_validation(tmp_path / "page.md", tmp_path)
