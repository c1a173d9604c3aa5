"""The page on validation: what it says is what the tables say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stepsim import MODEL_VERSION
from stepsim.errors import ArgError, TraceError
from stepsim.reproduce.hardware_errors import models
from stepsim.reproduce.pages.validation import write_validation
from stepsim.reproduce.published import published

PAGE = Path(__file__).parents[2] / "docs" / "validation.md"


def rows_of(section: str) -> list[list[str]]:
    """Cells of the table below a heading."""
    text = PAGE.read_text().split(f"## {section}\n")[1].split("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")][2:]
    return [[cell.strip(" `*") for cell in line.strip("|").split(" | ")] for line in lines]


def number(text: str) -> int:
    return int(text.replace(",", ""))


def test_page_is_of_the_present_model() -> None:
    assert f"`stepsim reproduce validation` with model version {MODEL_VERSION};" in PAGE.read_text()


def test_page_has_every_point_with_its_values() -> None:
    everything = published()
    rows = {row.point_id: row for row in everything.rows}
    table = rows_of("All points")
    assert [row[0] for row in table] == [
        row.point_id for row in everything.rows if row.point_id in everything.canonical
    ]
    for name, ours, canonical, theirs, difference, _ in table:
        assert number(ours) == number(canonical) == everything.canonical[name]
        assert number(theirs) == rows[name].cycles
        assert number(difference) == number(ours) - number(theirs)


def test_slack_that_explains_a_point_is_marked() -> None:
    rows = {row.point_id: row for row in published().rows}
    table = {row[0]: [number(cell) for cell in row[1:]] for row in rows_of("Closure slack")}
    assert table["f12_static_32"][2] == rows["f12_static_32"].cycles
    for name, (theirs, *cycles) in table.items():
        assert theirs == rows[name].cycles
        assert len(set(cycles)) > 1


def test_headlines_but_those_of_the_unknown_graph_are_met() -> None:
    rows = rows_of("Headlines")
    assert len(rows) > 50
    for figure, claim, *_, deviation, note in rows:
        if claim.startswith("(ours)"):
            assert deviation == "-"
            continue
        off = 0.0 if deviation in ("0", "< 0.001 %") else float(re.sub("[ %]", "", deviation))
        assert abs(off) < 1 or (figure == "17" and "inferred" in note), claim


def test_the_ladder_ends_at_the_hardware() -> None:
    page = PAGE.read_text().split("## Against hardware\n")[1].split("\n## ")[0]
    steps = {m.step: m for m in models() if m.step}
    table = {row[0]: row for row in rows_of("Against hardware") if row[0] in steps}
    assert list(table) == list(steps)
    assert [float(cell) for cell in table["E"][3:6]] == [0, 0, 0]
    for step in ("S0", "S0'", "S1"):
        assert table[step][3:6] == table[step][6:9] == [
            steps[step].mean, steps[step].worst, steps[step].bias,
        ]  # fmt: skip
    assert float(table["S4"][3]) < float(table["S1"][3])
    for model in models():
        if not model.step:
            change = " ".join(f"{key}={value}" for key, value in model.changes.items())
            row = next(row for row in rows_of("Against hardware") if row[0] == change)
            assert [float(c) for c in row[3:5]] == [float(model.mean), float(model.worst)]
    assert "by 2.8 % on average and by up to 11.3 %" in " ".join(page.split())
    for word in ("Refresh", "channels", "Writes"):
        assert word in page


def test_without_data(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="is not a folder"):
        write_validation(tmp_path / "page.md", tmp_path / "nowhere")
    with pytest.raises(ArgError, match="recorded traces are needed"):
        write_validation(tmp_path / "page.md")
