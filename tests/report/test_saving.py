"""Pictures as files: formats, what is refused, what is left behind."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from stepsim.errors import OutputError
from stepsim.report import (
    CurvePanel,
    DrawnCurve,
    TilingPoint,
    draw_curves,
    draw_designs,
    draw_requests,
    draw_routing,
    draw_tilings,
)
from stepsim.sweep import DesignCost
from stepsim.trace_io import RequestTrace, RoutingCounter, RoutingSummary, RoutingTable
from tests.samples import sampled

Draw = Callable[[str, Path], None]

POINTS = [TilingPoint("8", False, 10, 20), TilingPoint("dynamic", True, 5, 15)]
COSTS = [DesignCost(0, "a", 1, 1.0, 2.0, True), DesignCost(1, "b", 1, 2.0, 3.0, False)]


def routing(layers: int) -> RoutingSummary:
    counter = RoutingCounter()
    for layer in range(layers):
        counter.add(RoutingTable(np.array([[0, 1], [1, 2]]), layer=layer))
    return counter.summary()


PICTURES: dict[str, Draw] = {
    "tilings": lambda text, path: draw_tilings(POINTS, text, path, counting="executed"),
    "designs": lambda text, path: draw_designs(COSTS, text, text, path, text),
    "layer": lambda text, path: draw_routing(routing(1), text, path),
    "layers": lambda text, path: draw_routing(routing(3), text, path),
    "requests": lambda text, path: draw_requests(
        RequestTrace(np.array([1, 5, 9]), np.array([3, 4, 5])), text, path
    ),
}


@pytest.fixture(params=PICTURES)
def draw(request: pytest.FixtureRequest) -> Draw:
    pytest.importorskip("matplotlib")
    return PICTURES[request.param]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suffix", "magic"),
    [
        (".png", b"\x89PNG"),
        pytest.param(".svg", b"<?xml", marks=pytest.mark.slow),
        pytest.param(".PNG", b"\x89PNG", marks=pytest.mark.slow),
        pytest.param(".pdf", b"%PDF", marks=pytest.mark.slow),
    ],
)
def test_formats(draw: Draw, tmp_path: Path, suffix: str, magic: bytes) -> None:
    path = tmp_path / f"picture{suffix}"
    draw("title", path)
    first = path.read_bytes()
    assert first.startswith(magic)
    draw("title", path)
    assert path.read_bytes() == first
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("missing/picture.png", "No such file or directory; choose a folder that exists"),
        ("picture.xyz", "the suffix is .xyz, expected .png, .svg or .pdf"),
        ("picture", "the suffix is missing, expected .png, .svg or .pdf"),
    ],
)
def test_a_picture_that_cannot_be_written_leaves_nothing(
    draw: Draw, tmp_path: Path, name: str, says: str
) -> None:
    with pytest.raises(OutputError) as caught:
        draw("title", tmp_path / name)
    assert says in str(caught.value)
    assert str(tmp_path / name) in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_the_message_says_how_to_get_it(
    draw: Draw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(OutputError, match=r"pip install 'stepsim\[plot\]'"):
        draw("title", tmp_path / "picture.png")


@pytest.mark.slow
@pytest.mark.parametrize("title", sampled([r"a $\foo b$", "$", "$x_1$"], "$x_1$"))
def test_texts_are_no_formulas(draw: Draw, tmp_path: Path, title: str) -> None:
    draw(title, tmp_path / "x.svg")
    text = (tmp_path / "x.svg").read_text()
    assert f"<!-- {title} -->" in text or f">{title}</text>" in text


def test_a_single_curve_without_a_label_has_no_legend(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for label in ("", "tile=4"):
        curve = DrawnCurve(label, [4, 8], [20, 10], [None, None], [None, None])
        draw_curves([CurvePanel("cycles", [curve])], "tile", tmp_path / "x.svg")
        assert ("legend" in (tmp_path / "x.svg").read_text()) == bool(label)
