"""Simulated serving compared with real GPUs: the same requests, by their latencies."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from stepsim.errors import TraceError
from stepsim.serving import BenchmarkMetrics, RequestTimes, Slo, benchmark_metrics

LIMITS: Final = Slo(ttft_ms=10_000, tpot_ms=40)
"""The limits under which goodput is compared."""

PERCENTILES: Final = (50.0, 90.0, 99.0)

_COLUMNS: Final = ("queued_s", "first_token_s", "last_token_s", "n_in", "n_out")
_LATENCIES: Final = {"ttft": "TTFT", "tpot": "TPOT", "e2el": "E2EL"}


@dataclass(frozen=True, slots=True)
class RealError:
    """One metric of a real and a simulated run.

    Attributes
    ----------
    metric : ``ttft``, ``tpot``, ``e2el`` (ms), ``output_throughput`` (tokens/s), or ``goodput``
        (requests/s).
    real, simulated : the mean of a latency and its percentiles 50, 90 and 99, or a rate alone.
    error : of the mean or the rate, relative to the real one, in percent.
    median_error, p90_error : median and percentile 90 of the absolute errors of single requests, in
        percent; None for rates.
    """

    metric: str
    real: tuple[float, ...]
    simulated: tuple[float, ...]
    error: float
    median_error: float | None = None
    p90_error: float | None = None


def read_real_run(path: Path) -> RequestTimes:
    """The times of a real run, in the order of the file. The times of its tokens are not known.

    Raises
    ------
    TraceError : the file is unreadable, or a column is missing or not a number.
    """
    try:
        with path.open(newline="", encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream))
        queued, first, last, prompt, output = (
            np.array([float(row[name]) for row in rows]) for name in _COLUMNS
        )
    except (OSError, KeyError, ValueError) as error:
        raise TraceError(
            f"{path}: {error}; expected the columns {', '.join(_COLUMNS)} of a real run"
        ) from error
    return RequestTimes(
        start_s=queued,
        ttft_s=first - queued,
        latency_s=last - queued,
        gap_s=np.zeros(0),
        gaps_from=np.zeros(len(rows) + 1, np.int64),
        prompt_tokens=prompt.astype(np.int64),
        output_tokens=output.astype(np.int64),
        success=np.ones(len(rows), np.bool_),
    )


def real_errors(real: RequestTimes, simulated: RequestTimes) -> tuple[RealError, ...]:
    """The errors of a simulated run of the same requests in the same order.

    Rates are over the time from the first start to the last end.

    Raises
    ------
    TraceError : the requests are not the same.
    """
    for name in ("prompt_tokens", "output_tokens"):
        if not np.array_equal(getattr(real, name), getattr(simulated, name)):
            raise TraceError(f"real run: {name} differ from those of the simulated run")
    metrics = [_metrics(times) for times in (real, simulated)]
    found = []
    values = {
        "ttft": (real.ttft_s, simulated.ttft_s),
        "tpot": (real.tpot_s, simulated.tpot_s),
        "e2el": (real.latency_s, simulated.latency_s),
    }
    for metric, (true, ours) in values.items():
        spread = [getattr(one, metric) for one in metrics]
        means = [(one.mean_ms, *one.percentiles_ms.values()) for one in spread]
        counted = true > 0
        errors = 100 * np.abs(ours[counted] / true[counted] - 1)
        median, p90 = np.percentile(errors, [50, 90]).tolist()
        found.append(
            RealError(metric, means[0], means[1], _percent(means[0][0], means[1][0]), median, p90)
        )
    for metric in ("output_throughput", "goodput"):
        rates = [float(getattr(one, metric)) for one in metrics]
        found.append(RealError(metric, (rates[0],), (rates[1],), _percent(*rates)))
    return tuple(found)


def error_table(runs: Iterable[tuple[str, Sequence[RealError]]]) -> str:
    """The errors of runs by name as a table in Markdown."""
    lines = [
        "| run | metric | real mean / p50 / p90 / p99 | simulated | error of the mean | "
        "median error of a request | 90th percentile |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for run, errors in runs:
        for one in errors:
            lines.append(
                f"| {run} | {_label(one.metric)} | {_numbers(one.real)} | "
                f"{_numbers(one.simulated)} | {one.error:+.2f} % | {_share(one.median_error)} | "
                f"{_share(one.p90_error)} |"
            )
    return "\n".join(lines) + "\n"


def _metrics(times: RequestTimes) -> BenchmarkMetrics:
    duration = float((times.start_s + times.latency_s).max() - times.start_s.min())
    return benchmark_metrics(times, duration, percentiles=PERCENTILES, slo=LIMITS)


def _percent(real: float, simulated: float) -> float:
    return 100 * (simulated / real - 1)


def _label(metric: str) -> str:
    if metric in _LATENCIES:
        return f"{_LATENCIES[metric]}, ms"
    if metric == "goodput":
        return f"requests/s within {LIMITS.ttft_ms:g} ms TTFT and {LIMITS.tpot_ms:g} ms TPOT"
    return "output tokens/s"


def _numbers(values: Sequence[float]) -> str:
    return " / ".join(f"{value:,.4g}" if value < 1 else f"{value:,.2f}" for value in values)


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} %"
