"""The time that is left of a sweep, forecast from few runs."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from stepsim.sweep.running import time_left
from stepsim.sweep.running.time_left import TimeLeft, spread

AXES: dict[str, list[Any]] = {"tile": [1, 2, 4, 8, 16, 32], "kind": ["a", "b"], "width": [3, 5, 9]}


def seconds_of(design: dict[str, Any]) -> float:
    """What a run of a design takes: 32 times as long for the smallest tile as for the largest."""
    return 8.0 / design["tile"] * design["width"] * (2.0 if design["kind"] == "b" else 1.0)


def planned(axes: dict[str, list[Any]], runs: int = 20) -> Any:
    """As much of a plan as a forecast looks at: every design is a chunk."""
    designs = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    points = [SimpleNamespace(index=i, design=design) for i, design in enumerate(designs)]

    def chunks() -> list[Any]:
        return [Chunk(point=point, traces=(None,) * runs) for point in points]

    return SimpleNamespace(
        points=points, chunks=chunks, examples=dict.fromkeys(range(len(points))),
        shares_programs=True,
        spec=SimpleNamespace(design_points=lambda: designs, replicates={}, service=None),
    )  # fmt: skip


class Chunk(SimpleNamespace):
    def __replace__(self, **changes: Any) -> Chunk:
        return Chunk(**{**vars(self), **changes})


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch) -> Any:
    seen = set()

    def execute(chunk: Chunk) -> Any:
        again = chunk.point.index in seen
        seen.add(chunk.point.index)
        own = seconds_of(chunk.point.design)
        return SimpleNamespace(timing={"seconds": own if again else own + 5.0})

    monkeypatch.setattr(time_left, "execute_chunk", execute)
    monkeypatch.setattr(time_left, "replace", lambda chunk, **changes: chunk.__replace__(**changes))
    made = planned(AXES)
    made.executed = seen
    return made


def truth(plan: Any) -> float:
    return sum(20 * seconds_of(point.design) + 5.0 for point in plan.points)


def test_ten_runs_forecast_a_sweep_of_uneven_designs(plan: Any) -> None:
    known = TimeLeft(plan)
    assert known.seconds(plan.chunks(), 1) is None
    known.probe()
    assert len(plan.executed) == 5
    assert known.seconds(plan.chunks(), 1) == pytest.approx(truth(plan), rel=0.25)
    assert known.seconds(plan.chunks(), 4) == pytest.approx(truth(plan) / 4, rel=0.25)
    assert known.seconds([], 1) == 0.0


def test_what_is_done_corrects_the_forecast(plan: Any) -> None:
    known = TimeLeft(plan)
    known.probe()
    first, *others = plan.chunks()
    timing = {"seconds": 20 * seconds_of(first.point.design) + 5.0, "prepare_seconds": 5.0}
    known.add(first.point.index, {**timing, "runs": 20})
    left = truth(plan) - timing["seconds"]
    assert known.seconds(others, 1) == pytest.approx(left, rel=0.25)
    for chunk in others:
        own = 20 * seconds_of(chunk.point.design)
        known.add(chunk.point.index, {"seconds": own + 5.0, "prepare_seconds": 5.0, "runs": 20})
    assert known.seconds(plan.chunks(), 1) == pytest.approx(truth(plan), rel=1e-6)


def test_without_axes_the_mean_is_taken() -> None:
    plan = planned({"tile": [4]})
    known = TimeLeft(plan)
    known.add(0, {"seconds": 12.0, "prepare_seconds": 2.0, "runs": 20})
    assert known.seconds(plan.chunks(), 1) == 12.0


def test_a_forecast_of_thousands_of_runs_solves_equations_of_its_axes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sides = []

    def solve(matrix: Any, values: Any) -> Any:
        sides.append(len(matrix))
        return np.linalg.inv(matrix) @ values

    plan = planned({"tile": list(range(1, 51)), "width": list(range(1, 41))})
    known = TimeLeft(plan)
    monkeypatch.setattr(np.linalg, "solve", solve)
    for chunk in plan.chunks()[::2]:
        own = 20 * 8.0 / chunk.point.design["tile"] * chunk.point.design["width"]
        known.add(chunk.point.index, {"seconds": own, "prepare_seconds": 0.0, "runs": 20})
        if len(sides) == 0:
            known.seconds(plan.chunks(), 1)
    assert sides == [1]
    expected = sum(160.0 / p.design["tile"] * p.design["width"] for p in plan.points)
    assert known.seconds(plan.chunks(), 1) == pytest.approx(expected, rel=0.01)
    assert sides == [1, 2]


@pytest.mark.parametrize(("points", "count"), [(1, 1), (2, 2), (3, 3), (60, 5), (1000, 5)])
def test_points_are_spread(points: int, count: int) -> None:
    found = list(spread(range(points), 5))
    assert len(found) == len(set(found)) == count
    if points > 10:
        found = sorted(found)
        gaps = [b - a for a, b in zip(found, [*found[1:], points], strict=True)]
        assert max(gaps) < points / 2
