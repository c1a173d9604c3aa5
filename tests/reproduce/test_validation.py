"""The page on validation: what it says is what the tables say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stepsim import MODEL_VERSION
from stepsim.errors import TraceError
from stepsim.reproduce.published import read_published
from stepsim.reproduce.validation import write_validation
from tests.reproduce.conftest import DATA, needs_data

PAGE = Path(__file__).parents[2] / "docs" / "validation.md"


def rows_of(section: str) -> list[list[str]]:
    """Cells of the table below a heading."""
    text = PAGE.read_text().split(f"## {section}\n")[1].split("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")][2:]
    return [[cell.strip(" `*") for cell in line.strip("|").split(" | ")] for line in lines]


def number(text: str) -> int:
    return int(text.replace(",", ""))


def test_page_is_of_the_present_model() -> None:
    assert f"`stepsim validate` with model version {MODEL_VERSION};" in PAGE.read_text()


@needs_data
def test_page_has_every_point_with_its_values() -> None:
    published = read_published(DATA, ["8"])
    rows = {row.point_id: row for row in published.rows}
    table = rows_of("All points")
    assert [row[0] for row in table] == [
        row.point_id for row in published.rows if row.point_id in published.canonical
    ]
    for name, ours, canonical, theirs, difference, _ in table:
        assert number(ours) == number(canonical) == published.canonical[name]
        assert number(theirs) == rows[name].cycles
        assert number(difference) == number(ours) - number(theirs)


@needs_data
def test_slack_that_explains_a_point_is_marked() -> None:
    published = {row.point_id: row for row in read_published(DATA, ["8"]).rows}
    table = {row[0]: [number(cell) for cell in row[1:]] for row in rows_of("Closure slack")}
    assert table["f12_static_32"][2] == published["f12_static_32"].cycles
    for name, (theirs, *cycles) in table.items():
        assert theirs == published[name].cycles
        assert len(set(cycles)) > 1


def test_headlines_but_those_of_the_unknown_graph_are_met() -> None:
    rows = rows_of("Headlines")
    assert len(rows) > 50
    for figure, claim, *_, deviation, note in rows:
        off = 0.0 if deviation in ("0", "< 0.001 %") else float(re.sub("[ %]", "", deviation))
        assert abs(off) < 1 or (figure == "17" and "inferred" in note), claim


def test_without_data(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="is no folder"):
        write_validation(tmp_path / "page.md", tmp_path / "nowhere")
