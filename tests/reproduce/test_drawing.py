"""Every figure can be drawn, with published points and without."""

from __future__ import annotations

import re
from typing import Any

import pytest

from stepsim.report.saving import render
from stepsim.reproduce import FIGURES, points_of
from stepsim.reproduce.choice import Chosen
from stepsim.reproduce.pages.drawing import draw
from stepsim.reproduce.rows import figure_rows
from stepsim.reproduce.schema import COMPARED
from tests.reproduce.conftest import invented
from tests.samples import sampled


def rows_of(figure: str, *, compared: bool) -> list[dict[str, Any]]:
    points = points_of(figure)
    rows = figure_rows(FIGURES[figure], points, {p.run: invented(p.run) for p in points}, None)
    if compared:
        for row in rows[::2]:
            for field in COMPARED:
                name = field.name.removeprefix("published_").replace("hdl_", "")
                if row.get(name) is not None:
                    row[field.name] = row[name]
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("figure", sampled(FIGURES, *list(FIGURES)[::6]))
def test_pictures(figure: str) -> None:
    files = draw((Chosen(figure), rows_of(figure, compared=True)))
    assert files["png"].startswith(b"\x89PNG")
    text = files["svg"].decode()
    assert f"Figure {figure}: " in text
    assert ">published<" in text
    assert ">counting: published<" in text
    # Axes have units or say what is counted.
    assert re.search(r">[^<]*(cycles|bytes|MB|GB|MiB|FLOPs|speedup|time)[^<]*<", text)
    alone = draw((Chosen(figure), rows_of(figure, compared=False)))["svg"].decode()
    assert ">published<" not in alone
    assert ">HDL<" not in alone


@pytest.mark.parametrize("layout", [None, "constrained"])
def test_the_counting_stands_where_nothing_else_can_be(layout: Any) -> None:
    figures = pytest.importorskip("matplotlib.figure")
    picture = figures.Figure(figsize=(4, 3), layout=layout)
    picture.subplots().plot([1, 2], label="series")
    picture.legend(loc="upper right")
    render(lambda: picture, ("svg",), {}, foot="counting: executed")
    (note,) = picture.texts
    box = note.get_window_extent()
    assert note.get_text() == "counting: executed"
    assert box.y1 < picture.bbox.y0
    assert picture.bbox.x0 < box.x0 < box.x1 < picture.bbox.x1


@pytest.mark.slow
def test_the_same_rows_give_the_same_bytes() -> None:
    rows = rows_of("15", compared=True)
    assert draw((Chosen("15"), rows)) == draw((Chosen("15"), rows))
