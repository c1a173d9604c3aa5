"""The metrics of ``vllm bench serve``, with its definitions.

Times of a request count from when it is sent. TPOT is the time from the first to the last token
over the tokens after the first; requests of one token are left out of its statistics. ITL pools the
gaps between consecutive chunks of all requests. Standard deviations have the divisor n, and
percentiles are interpolated linearly at rank ``p / 100 * (n - 1)``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stepsim.errors import ArgError
from stepsim.serving.metrics.slo import Slo
from stepsim.serving.metrics.times import RequestTimes
from stepsim.shown import shown
from stepsim.typed import typed

PERCENTILES: Final = (50.0, 90.0, 95.0, 99.0)
"""Percentiles that are computed unless others are asked for."""

_MILLISECONDS: Final = 1000.0


@dataclass(frozen=True, slots=True)
class Distribution:
    """Statistics of a latency, in ms; all are 0 without values.

    Attributes
    ----------
    mean_ms, median_ms, std_ms : mean, median, and standard deviation with the divisor n.
    percentiles_ms : percentile, from 0 to 100, to value.
    """

    mean_ms: float
    median_ms: float
    std_ms: float
    percentiles_ms: dict[float, float]


@dataclass(frozen=True, slots=True)
class BenchmarkMetrics:
    """Metrics of a served load.

    Attributes
    ----------
    completed, failed : successful and failed requests.
    total_input_tokens, total_output_tokens : tokens of the successful requests.
    duration_s : the time over which rates are taken.
    request_throughput, output_throughput, total_throughput : successful requests, their output
        tokens, and their prompt and output tokens per second.
    goodput : successful requests per second that met every limit; None without limits.
    good_share : the share of all requests that met every limit, failed ones included; None without
        limits.
    ttft, tpot, itl, e2el : time to first token, per output token, between chunks, end to end.
    peak_output_tokens_per_s : most chunks in any of the bins of one second from the first start.
    peak_concurrency : most requests that are open in any of these bins.
    """

    completed: int
    failed: int
    total_input_tokens: int
    total_output_tokens: int
    duration_s: float
    request_throughput: float
    output_throughput: float
    total_throughput: float
    goodput: float | None
    good_share: float | None
    ttft: Distribution
    tpot: Distribution
    itl: Distribution
    e2el: Distribution
    peak_output_tokens_per_s: int
    peak_concurrency: int


@typed
def benchmark_metrics(
    times: RequestTimes,
    duration_s: float,
    *,
    percentiles: Sequence[float] = PERCENTILES,
    slo: Slo | None = None,
) -> BenchmarkMetrics:
    """The metrics of requests that were served in ``duration_s`` seconds.

    Raises
    ------
    ArgError : a duration that is not above 0, or a percentile that is not from 0 to 100.
    """
    if not (math.isfinite(duration_s) and duration_s > 0):
        raise ArgError(f"duration_s is {shown(duration_s)}, expected seconds above 0")
    for percentile in percentiles:
        if not 0 <= percentile <= 100:
            raise ArgError(f"percentiles has {shown(percentile)}, expected numbers from 0 to 100")
    done = times.answered
    prompt, output = int(done.prompt_tokens.sum()), int(done.output_tokens.sum())
    good = None if slo is None else int(np.count_nonzero(meets(done, slo)))
    tokens, open_requests = _peaks(done)
    return BenchmarkMetrics(
        completed=len(done),
        failed=len(times) - len(done),
        total_input_tokens=prompt,
        total_output_tokens=output,
        duration_s=duration_s,
        request_throughput=len(done) / duration_s,
        output_throughput=output / duration_s,
        total_throughput=(prompt + output) / duration_s,
        goodput=None if good is None else good / duration_s,
        good_share=None if good is None else good / max(1, len(times)),
        ttft=_distribution(done.ttft_s, percentiles),
        tpot=_distribution(done.tpot_s[done.output_tokens > 1], percentiles),
        itl=_distribution(done.gap_s, percentiles),
        e2el=_distribution(done.latency_s, percentiles),
        peak_output_tokens_per_s=tokens,
        peak_concurrency=open_requests,
    )


def meets(times: RequestTimes, slo: Slo) -> NDArray[np.bool_]:
    """Which requests meet every limit; all are taken as successful. [requests]"""
    values = {"ttft": times.ttft_s, "tpot": times.tpot_s, "e2el": times.latency_s}
    met = np.ones(len(times), np.bool_)
    for name, limit_ms in slo.limits.items():
        met &= values[name] <= limit_ms / _MILLISECONDS
    return met


def _distribution(seconds: NDArray[np.float64], percentiles: Sequence[float]) -> Distribution:
    if not len(seconds):
        return Distribution(0.0, 0.0, 0.0, {float(p): 0.0 for p in percentiles})
    ranks = [float(p) for p in percentiles]
    values = np.percentile(seconds, [50.0, *ranks]) * _MILLISECONDS
    return Distribution(
        mean_ms=float(seconds.mean()) * _MILLISECONDS,
        median_ms=float(values[0]),
        std_ms=float(seconds.std()) * _MILLISECONDS,
        percentiles_ms=dict(zip(ranks, values[1:].tolist(), strict=True)),
    )


def _peaks(done: RequestTimes) -> tuple[int, int]:
    """Most chunks, and most open requests, in a bin of one second from the earliest start."""
    if not len(done):
        return 0, 0
    origin = done.start_s.min()
    end = done.start_s + done.latency_s
    bins = math.ceil(float(end.max() - origin)) + 1

    chunks = np.floor(done.chunk_s() - origin).astype(np.int64)
    tokens = np.bincount(chunks, minlength=bins)[:bins]
    first = np.floor(done.start_s - origin).astype(np.int64)
    last = np.minimum(np.floor(end - origin).astype(np.int64), bins - 1)
    change = np.bincount(first, minlength=bins + 1) - np.bincount(last + 1, minlength=bins + 1)
    return int(tokens.max()), int(np.cumsum(change).max())
