"""A service of Llama-3-8B with audited steps against one with exact steps; see `bench.audited`."""

from __future__ import annotations

from pathlib import Path

from pytest_benchmark.fixture import BenchmarkFixture

from bench.audited import row_of, served
from stepsim.serving import ExactSteps
from stepsim.serving.service.errors.uncertainty import JUDGED


def test_metrics_of_audited_steps(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    exact = served("llama-3-8b", ExactSteps, tmp_path / "exact")
    row = benchmark.pedantic(lambda: row_of("llama-3-8b", 0, exact, {}), rounds=1)
    benchmark.extra_info.update(row)
    for name in JUDGED:
        assert abs(row[name]) < 1, row
        low, high = row[f"{name}_low"], row[f"{name}_high"]
        # One seed of twenty may be outside; it is not far.
        assert low - (high - low) / 2 <= row[name] <= high + (high - low) / 2, row
