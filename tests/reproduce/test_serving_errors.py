"""Errors of simulated serving against real GPUs, as others found them."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from stepsim.errors import TraceError
from stepsim.reproduce.serving.real_runs import error_table, read_real_run, real_errors
from stepsim.serving import RequestTimes
from tests.shared import SERVING_RUNS, recorded

NAMES = {
    "output_tok_per_s": "output_throughput",
    "goodput_per_s_ttft10s_tpot40ms": "goodput",
}


def published(name: str) -> RequestTimes:
    """The published times of a simulated run."""
    rows = pq.read_table(SERVING_RUNS / "expected" / f"{name}.parquet").to_pylist()
    rows.sort(key=lambda row: row["id"])
    return RequestTimes.from_ns(
        start_ns=[row["arrival_ns"] for row in rows],
        ttft_ns=[row["ttft_ns"] for row in rows],
        gap_ns=[gap for row in rows for gap in row["itl_ns"]],
        gaps_from=np.cumsum([0, *(len(row["itl_ns"]) for row in rows)]),
        prompt_tokens=[row["n_in"] for row in rows],
        output_tokens=[row["n_out"] for row in rows],
    )


@recorded(SERVING_RUNS)
def test_errors_are_those_of_the_published_run() -> None:
    with (SERVING_RUNS / "closed" / "real_vs_sim.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    seen = 0
    for name in {row["run"] for row in rows}:
        real = read_real_run(SERVING_RUNS / "real" / f"{name}.csv")
        found = {one.metric: one for one in real_errors(real, published(name))}
        for row in rows:
            if row["run"] != name:
                continue
            one = found[NAMES.get(row["metric"], row["metric"])]
            for side, values in (("real", one.real), ("sim", one.simulated)):
                expected = [row[f"{side}_{key}"] for key in ("mean", "p50", "p90", "p99")]
                assert values == pytest.approx(
                    [float(value) for value in expected if value], abs=1e-3
                ), (name, row["metric"])
            assert one.error == pytest.approx(float(row["mean_err_pct"]), abs=0.006)
            if row["median_abs_err_pct"]:
                assert one.median_error == pytest.approx(
                    float(row["median_abs_err_pct"]), abs=0.006
                )
                assert one.p90_error == pytest.approx(float(row["p90_abs_err_pct"]), abs=0.006)
            seen += 1
        assert len(error_table([(name, tuple(found.values()))]).splitlines()) == 7
    assert seen == 10


def test_a_file_of_another_kind_is_named(tmp_path: Path) -> None:
    path = tmp_path / "real.csv"
    path.write_text("id,n_in\n0,1\n")
    with pytest.raises(TraceError, match="expected the columns queued_s, first_token_s"):
        read_real_run(path)
