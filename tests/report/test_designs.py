"""The plot of design points."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from stepsim.report import DesignLook, draw_designs
from stepsim.sweep import DesignCost, frontier


def many_costs(count: int) -> list[DesignCost]:
    dice = random.Random(count)
    pairs = [(1e8 * dice.uniform(1, 8), 1e6 * dice.uniform(1, 8)) for _ in range(count)]
    best = frontier(pairs)
    label = "tile={} machine.hbm.channels=16 regions=16 compute_bw=4096 strategy=interleaved"
    return [DesignCost(i, label.format(i), 10, *pair, i in best) for i, pair in enumerate(pairs)]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The figures that are saved."""
    figure_module = pytest.importorskip("matplotlib.figure")
    found: list[Any] = []
    real = figure_module.Figure.savefig

    def savefig(figure: Any, *args: Any, **options: Any) -> None:
        found.append(figure)
        real(figure, *args, **options)

    monkeypatch.setattr(figure_module.Figure, "savefig", savefig)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 20, 60])
def test_nothing_in_a_plot_covers_another_or_is_cut(
    tmp_path: Path, drawn: list[Any], count: int
) -> None:
    costs = many_costs(count)
    draw_designs(costs, "onchip_bytes", "cycles", tmp_path / "p.png")
    (axes,) = drawn[0].axes
    for axis in (axes.xaxis, axes.yaxis):
        assert not overlapping(axis.get_ticklabels())
    *numbers, names = axes.texts
    assert not overlapping(numbers)
    frame = axes.get_window_extent()
    assert_inside(numbers, frame)
    assert frame.x1 < names.get_window_extent().x0
    text = " ".join(names.get_text().split())
    for cost in costs:
        assert (f" {cost.label}" in text) is (cost.pareto_optimal or count <= 20)


NEAR = [
    (100, 100, True), (101, 100.5, False), (200, 50, True), (200.5, 49.9, True), (203, 50.2, False),
    (400, 20, True), (400, 100, False), (400.5, 100, False), (401, 100, False), (401.5, 100, False),
    (402, 100, False), (402.5, 100, False), (403, 100, False), (403.5, 100, False),
]  # fmt: skip


def test_points_of_the_frontier_are_seen_beside_beaten_ones(
    tmp_path: Path, drawn: list[Any]
) -> None:
    costs = [DesignCost(i, f"tile={i}", 10, *cost) for i, cost in enumerate(NEAR)]
    draw_designs(costs, "onchip_bytes", "cycles", tmp_path / "p.png")
    (axes,) = drawn[0].axes
    order = {str(spots.get_label()): spots.get_zorder() for spots in axes.collections}
    assert order["Pareto-optimal (4)"] > order["others (10)"]
    *numbers, names = axes.texts
    best = {
        line.split()[0] for line, cost in zip(lines_of(names), sorted(NEAR), strict=True) if cost[2]
    }
    joined = [set(number.get_text().split(", ")) for number in numbers]
    assert all(group <= best or not group & best for group in joined)
    assert {"3", "4"} in joined
    assert max(map(len, joined)) == 8
    assert not overlapping(numbers)
    assert_inside(numbers, axes.get_window_extent())


def lines_of(names: Any) -> list[str]:
    return str(names.get_text()).splitlines()


def assert_inside(texts: Sequence[Any], frame: Any) -> None:
    for text in texts:
        box = text.get_window_extent()
        assert frame.x0 <= box.x0 < box.x1 <= frame.x1
        assert frame.y0 <= box.y0 < box.y1 <= frame.y1


def overlapping(texts: Sequence[Any]) -> list[tuple[str, str]]:
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts]
    pairs = itertools.combinations(boxes, 2)
    return [(a, b) for (a, box), (b, other) in pairs if box.overlaps(other)]


def test_axes_have_units_and_look_tells_designs_apart(tmp_path: Path, drawn: list[Any]) -> None:
    costs = [
        DesignCost(i, f"tile={i}", 10, 2**20 * (1 + i % 5), 1e6 * (10 - i % 7), i < 2)
        for i in range(12)
    ]
    tiles, channels = [str(8 << i % 3) for i in range(12)], [str(8 << i % 2) for i in range(12)]
    look = DesignLook(None, tuple(tiles), tuple(channels), "tile", "machine.hbm.channels")
    path = tmp_path / "p.png"
    draw_designs(costs, "mean onchip_bytes", "mean cycles", path, "", look)
    (axes, *_) = drawn[0].axes
    # Memory in powers of 1024, cycles in powers of 1000.
    assert axes.get_xlabel() == "mean onchip_bytes [MiB]"
    assert axes.get_ylabel() == "mean cycles [Mcycles]"
    legends = [*drawn[0].legends, *filter(None, [axes.get_legend()])]
    words = {text.get_text() for legend in legends for text in legend.get_texts()}
    words |= {child.get_text() for child in axes.texts}
    texts = " ".join(words)
    assert all(value in texts for value in {*tiles, *channels})
    colors = {tuple(color) for spots in axes.collections for color in spots.get_facecolor()}
    assert len(colors) >= 3
    assert_inside_picture(axes, [spots.get_offsets() for spots in axes.collections])


def assert_inside_picture(axes: Any, spots: Sequence[Any]) -> None:
    """All points lie within the ranges of the axes."""
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    assert sum(map(len, spots)) >= 12
    assert all(left <= x <= right and low <= y <= high for some in spots for x, y in some)
