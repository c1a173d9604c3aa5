"""Recorded cases of ``vllm bench serve``: its metrics, its arrivals, its random lengths."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from stepsim.serving import (
    DrawnArrivals,
    RampUpArrivals,
    RandomLengths,
    Requests,
    RequestTimes,
    Slo,
    benchmark_metrics,
)
from stepsim.serving.requests.arrivals import send_offsets, unit_gaps
from tests.shared import SERVING_METRICS, recorded


def cases() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(SERVING_METRICS.glob("*.jsonl")):
        with path.open() as file:
            for line in file:
                case = json.loads(line)
                yield f"{path.name} {case['kind']} {case['id']}", case


@recorded(SERVING_METRICS)
def test_serving_metrics_cases() -> None:
    checks = {"metrics": check_metrics, "arrivals": check_arrivals, "lengths": check_lengths}
    seen = dict.fromkeys(checks, 0)
    for name, case in cases():
        seen[case["kind"]] += 1
        checks[case["kind"]](name, case)
    assert sum(seen.values()), f"no cases in {SERVING_METRICS}"


def check_metrics(name: str, case: dict[str, Any]) -> None:
    columns = dict(zip(case["request_fields"], zip(*case["requests"], strict=True), strict=True))
    counts = [len(gaps) for gaps in columns["itl"]]
    times = RequestTimes(
        start_s=np.array(columns["start_time"]),
        ttft_s=np.array(columns["ttft"]),
        latency_s=np.array(columns["latency"]),
        gap_s=np.array([gap for gaps in columns["itl"] for gap in gaps], dtype=float),
        gaps_from=np.concatenate([[0], np.cumsum(counts)]),
        prompt_tokens=np.array(columns["prompt_len"]),
        output_tokens=np.array(columns["output_tokens"]),
        success=np.array(columns["success"]),
    )
    limits = case["goodput_ms"]
    slo = Slo(**{f"{name}_ms": limit for name, limit in limits.items()}) if limits else None
    found = benchmark_metrics(times, case["duration_s"], percentiles=case["percentiles"], slo=slo)
    expected = dict(case["expected"])

    lengths = np.where(times.success, np.maximum(times.output_tokens, 1), 0)
    assert lengths.tolist() == expected.pop("output_lens"), name
    values: dict[str, Any] = {
        "completed": found.completed,
        "failed": found.failed,
        "total_input": found.total_input_tokens,
        "total_output": found.total_output_tokens,
        "request_throughput": found.request_throughput,
        "request_goodput": found.goodput or 0.0,
        "output_throughput": found.output_throughput,
        "total_token_throughput": found.total_throughput,
        "max_output_tokens_per_s": found.peak_output_tokens_per_s,
        "max_concurrent_requests": found.peak_concurrency,
    }
    for latency in ("ttft", "tpot", "itl", "e2el"):
        spread = getattr(found, latency)
        values[f"mean_{latency}_ms"] = spread.mean_ms
        values[f"median_{latency}_ms"] = spread.median_ms
        values[f"std_{latency}_ms"] = spread.std_ms
        listed = expected.pop(f"percentiles_{latency}_ms")
        assert [p for p, _ in listed] == list(spread.percentiles_ms), name
        for percentile, value in listed:
            assert spread.percentiles_ms[percentile] == pytest.approx(value, rel=1e-9, abs=0), name
    assert values.keys() == expected.keys(), name
    for key, value in expected.items():
        # A deviation of values that are all equal is a rounding error.
        least = 1e-9 if key.startswith("std") else 0
        assert values[key] == pytest.approx(value, rel=1e-9, abs=least), (name, key)


def check_arrivals(name: str, case: dict[str, Any]) -> None:
    count, seed = case["num_requests"], case["numpy_seed"]
    rate, burstiness = float(case["request_rate"]), float(case["burstiness"])
    shape, first, last = case["ramp_up"]
    expected = case["expected"]
    requests = Requests.of(np.ones(count), np.ones(count))
    if shape is not None:
        source: RampUpArrivals | DrawnArrivals = RampUpArrivals(
            first, last, shape, burstiness, seed
        )
        rates = source.rates(count)
        gaps = unit_gaps(count, burstiness, seed)
        offsets = send_offsets(gaps, rates, rescaled=False)
    elif math.isinf(rate):
        rates, gaps, offsets = np.full(count, rate), np.zeros(count), np.zeros(count)
    else:
        source = DrawnArrivals(rate, burstiness, seed)
        rates = np.full(count, rate)
        gaps = unit_gaps(count, burstiness, seed)
        offsets = send_offsets(gaps, rates, rescaled=True)
    assert rates == pytest.approx(np.array(expected["rates"], dtype=float), rel=1e-9), name
    assert offsets == pytest.approx(np.array(expected["send_offset_s"]), rel=1e-9, abs=0), name
    for gap, at, drawn in zip(gaps, rates, case["raw_gamma_draws"], strict=True):
        assert drawn is None or gap / at == pytest.approx(drawn, rel=1e-9, abs=0), name
    if np.isfinite(rates).all():
        arrival = source.arrive(requests).arrival_ns
        assert arrival.tolist() == [round(s * 1e9) for s in offsets.tolist()], name


def check_lengths(name: str, case: dict[str, Any]) -> None:
    ratio = case["range_ratio"]
    if not isinstance(ratio, dict):
        ratio = {"input": ratio, "output": ratio}
    source = RandomLengths(
        count=case["num_requests"],
        input_len=case["input_len"],
        output_len=case["output_len"],
        input_range=ratio["input"],
        output_range=ratio["output"],
        special_tokens=case["num_special_tokens"],
        vocabulary=case["vocab_size"],
        prefix_len=1,  # so that no prompt is empty; it changes no other length
        seed=case["numpy_default_rng_seed"],
    )
    expected = case["expected"]
    inputs, outputs, offsets = source.draw()
    assert inputs.tolist() == expected["input_lens"], name
    assert outputs.tolist() == expected["output_lens"], name
    assert offsets.tolist() == expected["offsets"], name
    assert source.requests().prompt_tokens.tolist() == [n + 1 for n in expected["input_lens"]], name
