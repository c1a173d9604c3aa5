"""GPT-2 medium on the U55C against published tables: bounds, a design not fitted, one fitted."""

from __future__ import annotations

import numpy as np
import pytest

from stepsim.reproduce.streamtensor.gpt2 import (
    CALIBRATION_ROW,
    calibrated,
    prefill_ms,
    prefill_slope,
    token_ms,
    uncalibrated,
    weight_bounds,
)
from stepsim.reproduce.streamtensor.published_gpt2 import PREFILL_SLOPE_MS, SYSTEM, published_gpt2
from stepsim.results import geometric_mean

ROWS = ((32, 32), (64, 64), (128, 128), (256, 256))


def test_published_rows_are_consistent() -> None:
    rows = published_gpt2()
    assert tuple(rows) == ROWS
    for systems in rows.values():
        ours = systems[SYSTEM].times
        assert ours.latency_ms == pytest.approx(
            ours.ttft_ms + 1e3 * ours.output / ours.tokens_per_second, abs=0.07
        )
        for name in ("Allo", "DFX", "A100", "2080Ti"):
            printed = systems[name].ratios
            assert printed is not None
            for found, stated in zip(ours.over(systems[name].times), printed, strict=True):
                # Printed with two digits behind the point, of times that are rounded themselves.
                assert found == pytest.approx(stated, abs=0.0151)


def test_the_slope_is_that_of_the_published_rows() -> None:
    rows = published_gpt2()
    ttft = [rows[row][SYSTEM].times.ttft_ms for row in ROWS]
    fitted = np.polyfit([prompt for prompt, _ in ROWS], ttft, 2)
    assert fitted[1] == pytest.approx(PREFILL_SLOPE_MS, abs=5e-5)


@pytest.mark.parametrize(
    ("system", "stated"),
    [
        ("Allo", (0.76, 0.40, 1.06)),
        ("DFX", (0.52, 0.19, 1.17)),
        ("A100", (0.64, 10.65, 1.89)),
        ("2080Ti", (0.25, 3.67, 4.73)),
    ],
)
def test_geometric_means_are_the_printed_ones(
    system: str, stated: tuple[float, float, float]
) -> None:
    every = [row[SYSTEM].times.over(row[system].times) for row in published_gpt2().values()]
    for values, printed in zip(zip(*every, strict=True), stated, strict=True):
        assert geometric_mean(values) == pytest.approx(printed, abs=0.0051)


def test_a_token_takes_longer_than_its_weights() -> None:
    bounds = weight_bounds(uncalibrated())
    assert bounds.least_bytes == 12 * 1024 * 1024 // 2
    assert bounds.least_bytes <= bounds.weight_bytes <= 1.01 * bounds.least_bytes
    assert bounds.least_ms == pytest.approx(0.328, abs=5e-4)
    assert bounds.token_ms > bounds.least_ms


@pytest.mark.slow
def test_what_a_token_of_the_prompt_adds_is_not_fitted() -> None:
    design = uncalibrated()
    network = [
        op for op in design.dataflow("prefill", 64).operators.ops if op.name.startswith("mlp.up")
    ]
    assert [op.tiling.unroll for op in network if op.tiling is not None] == [512]
    assert prefill_slope(design) == pytest.approx(PREFILL_SLOPE_MS, rel=0.15)


@pytest.mark.slow
def test_the_height_of_tiles_hardly_moves_the_slope() -> None:
    for rows in (2, 4, 16):
        assert prefill_slope(uncalibrated(rows)) == pytest.approx(PREFILL_SLOPE_MS, rel=0.15)


@pytest.mark.long
@pytest.mark.parametrize("row", ROWS)
def test_a_design_fitted_to_one_row_predicts_the_others(row: tuple[int, int]) -> None:
    found = calibrated()
    ours, known = found.times(*row), published_gpt2()[row][SYSTEM].times
    latency, ttft, speed = ours.over(known)
    assert latency == pytest.approx(1, abs=0.05)
    assert ttft == pytest.approx(1, abs=0.10)
    assert speed == pytest.approx(1, abs=0.05)
    if row == CALIBRATION_ROW:
        assert speed == pytest.approx(1, abs=1e-9)
        assert ttft == pytest.approx(1, abs=0.02)
    assert found.overhead_ms > 0


def test_a_prompt_is_a_pipeline_and_a_token_a_chain() -> None:
    design = uncalibrated()
    assert prefill_ms(design, 64) < 64 * token_ms(design) / 3
