"""The plot of design points."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from stepsim.report import draw_designs
from stepsim.sweep import DesignCost, frontier


def many_costs(count: int) -> list[DesignCost]:
    dice = random.Random(count)
    pairs = [(1e8 * dice.uniform(1, 8), 1e6 * dice.uniform(1, 8)) for _ in range(count)]
    best = frontier(pairs)
    label = "tile={} machine.hbm.channels=16 regions=16 compute_bw=4096 strategy=interleaved"
    return [DesignCost(i, label.format(i), 10, *pair, i in best) for i, pair in enumerate(pairs)]


@pytest.mark.parametrize("count", [1, 2, 20, 60])
def test_nothing_in_a_plot_covers_another_or_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    figure_module = pytest.importorskip("matplotlib.figure")
    drawn: list[Any] = []
    real = figure_module.Figure.savefig

    def savefig(figure: Any, *args: Any, **options: Any) -> None:
        drawn.append(figure)
        real(figure, *args, **options)

    monkeypatch.setattr(figure_module.Figure, "savefig", savefig)
    costs = many_costs(count)
    draw_designs(costs, "onchip_bytes", "cycles", tmp_path / "p.png")
    (axes,) = drawn[0].axes
    for axis in (axes.xaxis, axes.yaxis):
        assert not overlapping(axis.get_ticklabels())
    *numbers, names = axes.texts
    assert not overlapping(numbers)
    frame = axes.get_window_extent()
    for number in numbers:
        assert frame.containsx(number.get_window_extent().x1)
        assert frame.containsy(number.get_window_extent().y1)
    assert frame.x1 < names.get_window_extent().x0
    text = " ".join(names.get_text().split())
    for cost in costs:
        assert (f" {cost.label}" in text) is (cost.pareto_optimal or count <= 20)


def overlapping(texts: Sequence[Any]) -> list[tuple[str, str]]:
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts]
    pairs = itertools.combinations(boxes, 2)
    return [(a, b) for (a, box), (b, other) in pairs if box.overlaps(other)]
