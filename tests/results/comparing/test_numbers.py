"""A number of two runs: what is within a tolerance, better or worse."""

from __future__ import annotations

import math

import pytest

from stepsim.results import BETTER, EVERY_MEASURE, Tolerance, geometric_mean, ratio, within_spread
from stepsim.results.comparing.numbers import worsening


def test_a_tolerance_holds_at_its_bound_as_written() -> None:
    for percent in range(1, 100):
        tolerance = Tolerance(float(f"0.{percent:02}"))
        assert tolerance.judge(100, 100 + percent, "smaller") == "within"
        assert tolerance.judge(100, 100 - percent, "smaller") == "within"
        assert tolerance.judge(1, float(f"1.{percent:02}"), "smaller") == "within"
        assert tolerance.judge(100, 101 + percent, "smaller") == "worse"
        assert tolerance.judge(100, 99 - percent, "smaller") == "better"
    assert Tolerance(0, 0.1).judge(0, 0, "smaller") == "within"
    assert Tolerance(0.5).judge(0, 1, "smaller") == "worse"
    # A share that was computed in floating point is one too.
    shares = (Tolerance(n / 896).judge(896, 896 + n, "smaller") for n in range(896))
    assert set(shares) == {"within"}


def test_of_some_metrics_more_is_better() -> None:
    assert Tolerance(0.1).judge(0.5, 0.4, BETTER["compute_utilization"]) == "worse"
    assert Tolerance(0.1).judge(0.5, 0.6, BETTER["compute_utilization"]) == "better"


@pytest.mark.parametrize("unknown", [None, math.inf, math.nan])
def test_what_is_known_once_is_worse(unknown: float | None) -> None:
    assert Tolerance(9.0, 1e9).judge(unknown, 1, "smaller") == "worse"
    assert Tolerance(9.0, 1e9).judge(1, unknown, "larger") == "worse"
    assert Tolerance().judge(unknown, unknown, "smaller") == "within"


def test_every_measure_has_a_side_or_none_is_known() -> None:
    assert set(EVERY_MEASURE) - set(BETTER) == {
        "tokens", "engine_steps", "peak_bandwidth", "served_steps",
        "estimate_bias", "estimate_bias_low", "estimate_bias_high",
    }  # fmt: skip
    larger = {name for name, side in BETTER.items() if side == "larger"}
    assert larger == {
        "compute_utilization", "bandwidth_utilization", "tokens_per_second",
        "completed", "good_share", "goodput", "hit_tokens",
        "output_throughput", "request_throughput", "total_throughput",
    }  # fmt: skip


def test_twice_and_half_are_as_far_from_equal() -> None:
    assert worsening(2, 4, "smaller") == -worsening(4, 2, "smaller") == worsening(4, 2, "larger")
    assert worsening(4, 2, None) == worsening(2, 4, None) > 0
    assert worsening(0, 1, "smaller") == math.inf
    assert worsening(3, 3, "smaller") == 0


def test_ratios_and_their_mean() -> None:
    assert ratio(2, 3) == 1.5
    assert ratio(0, 3) is None
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4)


def test_the_spread_of_two_runs() -> None:
    row = {"cycles_p5": 90.0, "cycles_p95": 110.0}
    assert within_spread(row, {"cycles_p5": 110.0, "cycles_p95": 120.0}) is True
    assert within_spread(row, {"cycles_p5": 111.0, "cycles_p95": 120.0}) is False
    assert within_spread(row, {}) is None
    assert within_spread(row, {"cycles_p5": None, "cycles_p95": 120.0}) is None
