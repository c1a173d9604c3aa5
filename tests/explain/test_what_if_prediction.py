"""Predictions from a critical path, on paths that were made up and on one that was found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import stepsim as st
from stepsim.explain.path import critical_path
from stepsim.explain.what_if_changes import Change
from stepsim.explain.what_if_prediction import Segment, Work, predicted_cycles
from stepsim.explain.what_if_runs import what_if
from stepsim.lowering import TimingParams
from tests.explain.known_answers import KNOWN_ANSWERS, KnownAnswer

TIMING = TimingParams()
PATH: list[Segment] = [
    ("product#1", "work", None, 1000),
    ("copy#2", "work", None, 200),
    ("load#0", "hbm queue", None, 400),
    ("load#0", "hbm latency", None, 160),
    ("load#0", "hbm transfer", None, 30),
    ("product#1", "slot hop", "load#0", 7),
    ("product#1", "fifo hop", "load#0", 3),
]


WORKS = {"product#1": Work(1000, 1000, 40, 40), "copy#2": Work(200, 10, 200, 10)}


def predicted(change: Change, after: TimingParams = TIMING, requests: int = 0) -> int | None:
    return predicted_cycles(PATH, change, TIMING, after, WORKS, requests)


def test_without_a_change_the_path_stays() -> None:
    assert predicted(Change("none", "custom")) == 1800


@pytest.mark.parametrize(
    ("change", "after", "cycles"),
    [
        ({"compute": {"product#1": 2.0}}, {}, 1300),
        ({"compute": {"product#1": float("inf")}}, {}, 840),
        ({"compute": {"copy#2": 4.0}}, {}, 1800),
        ({}, {"hbm_channels": 64}, 1600),
        ({}, {"hbm_interval": 1}, 1600),
        ({}, {"memory_model": "uncontended"}, 1400),
        ({}, {"hbm_latency": 0, "hbm_startup": 0}, 1674),
        ({}, {"onchip_bytes_per_cycle": 128}, 1700),
        ({"fifo_depths": {"load#0": 8}}, {}, 1793),
        ({"fifo_depths": {"other": 8}}, {}, 1800),
    ],
)
def test_segments_shrink_by_what_is_relaxed(
    change: dict[str, Any], after: dict[str, Any], cycles: int
) -> None:
    assert predicted(Change("change", "custom", **change), replace(TIMING, **after)) == cycles


def test_no_run_is_shorter_than_its_longest_operator_or_its_requests() -> None:
    free = replace(TIMING, onchip_bytes_per_cycle=1 << 20)
    idle = {**WORKS, "beside#3": Work(1790, 1790, 1, 1)}
    change = Change("free", "custom")
    assert predicted_cycles(PATH, change, TIMING, free, WORKS) == 1610
    assert predicted_cycles(PATH, change, TIMING, free, idle) == 1790
    starts = (3200 // TIMING.hbm_channels - 1) * TIMING.hbm_interval + 1
    low = replace(TIMING, hbm_latency=0, hbm_startup=0)
    assert predicted(change, low, 3200) == max(1674, starts)
    assert predicted(change, low, 64_000) == (64_000 // 32 - 1) * TIMING.hbm_interval + 1


@pytest.mark.parametrize(
    ("compute", "wide", "left"),
    [(1, 1, 100), (2, 1, 50), (float("inf"), 1, 40), (1, 2, 90), (1, 1 << 20, 80)],
)
def test_work_shrinks_down_to_what_else_is_to_do(compute: float, wide: int, left: int) -> None:
    assert Work(100, 80, 40, 5).after(compute, wide) == pytest.approx(left, abs=1e-3)
    assert Work(100, 80, 40, 5).after(float("inf"), 1 << 20) == pytest.approx(5, abs=1e-3)


def test_another_routing_cannot_be_predicted() -> None:
    assert predicted(Change("even", "balance", bindings={})) is None
    assert predicted(Change("deep", "custom", fifo_depth=9)) is None


@pytest.mark.parametrize("name", ["compute of one operator", "serial chain", "on-chip bandwidth"])
def test_a_found_path_stands_beside_what_was_measured(name: str) -> None:
    case: KnownAnswer = next(one for one in KNOWN_ANSWERS if one.name == name)
    program, machine = case.before()
    prepared = st.prepare(program, machine)
    rows = what_if(prepared, path=critical_path(prepared)).table.to_pylist()
    for row in rows:
        guess = row["predicted_cycles"]
        assert guess is not None
        assert row["prediction_error"] == guess / row["cycles"] - 1
    best = next(row for row in rows if row["kind"] == case.change and row["buildable"])
    assert abs(best["prediction_error"]) < 0.1


@pytest.mark.parametrize("name", ["HBM latency", "compute of one operator", "on-chip bandwidth"])
def test_predictions_of_one_bound_resource_are_near(name: str) -> None:
    """The resource that binds, with the other one as what remains, and the one that does not."""
    case: KnownAnswer = next(one for one in KNOWN_ANSWERS if one.name == name)
    prepared = st.prepare(*case.before())
    rows = what_if(prepared, path=critical_path(prepared)).table.to_pylist()
    kinds = ("compute", "onchip_bandwidth", "hbm_latency")
    rows = [row for row in rows if row["kind"] in kinds]
    assert len(rows) > 3
    errors = {row["change"]: row["prediction_error"] for row in rows}
    assert max(map(abs, errors.values())) < 0.01, errors
