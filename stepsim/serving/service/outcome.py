"""``ServeResult``: what a service leaves, in memory or in its folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepsim.arrow import pc
from stepsim.serving.metrics.benchmark import BenchmarkMetrics, benchmark_metrics
from stepsim.serving.metrics.slo import Slo
from stepsim.serving.service.folder import (
    REQUESTS,
    STEPS,
    read_summary,
    read_table,
)
from stepsim.serving.service.tables import times_of
from stepsim.typed import typed

if TYPE_CHECKING:
    import pyarrow as pa

_LATENCIES = ("ttft", "tpot", "itl", "e2el")
_SHOWN = ("mean", "median", "p90", "p95", "p99")


@dataclass(frozen=True, eq=False)
class ServeResult:
    """The results of a service.

    Attributes
    ----------
    requests : a row for each request.
    steps : a row for each step.
    summary : metrics, and everything that they depend on, as plain values.
    """

    requests: pa.Table
    steps: pa.Table
    summary: dict[str, Any]

    @classmethod
    @typed
    def read(cls, folder: str | Path) -> ServeResult:
        """The results in a folder of a finished service.

        Raises
        ------
        ServingError : there is none, or it is not finished.
        """
        path = Path(folder)
        summary = read_summary(path)
        return cls(read_table(path, REQUESTS), read_table(path, STEPS), summary)

    @property
    def status(self) -> str:
        """``ok``, or ``limit`` if the service was stopped with requests left."""
        return str(self.summary["status"])

    @property
    def metrics(self) -> dict[str, Any]:
        """The metrics of the benchmark of vLLM by the names of their columns."""
        return dict(self.summary["metrics"])

    def __str__(self) -> str:
        return summary_text(self.summary)


def metrics_of(requests: pa.Table, steps: pa.Table, slo: Slo | None) -> dict[str, Any]:
    """The metrics of a service by the names of their columns; None where nothing has a value."""
    times = times_of(requests)
    first, last = (
        pc.min(requests["arrival_ns"]).as_py(),
        pc.max(requests["finish_ns"]).as_py(),
    )
    duration = 0.0 if first is None or last is None else (last - first) / 1e9
    found: dict[str, Any] = {
        "served_steps": steps.num_rows,
        "served_preemptions": pc.sum(requests["preemptions"]).as_py() or 0,
        "hit_tokens": pc.sum(requests["cached_tokens"]).as_py() or 0,
        "served_cycles": _total(steps["step_cycles"]),
        "served_offchip_bytes": _total(steps["step_offchip_bytes"]),
        "duration_s": duration,
        **_of_link(requests),
    }
    if duration <= 0:
        return found | {"completed": int(times.success.sum())}
    return found | _flat(benchmark_metrics(times, duration, slo=slo))


def _of_link(requests: pa.Table) -> dict[str, Any]:
    """What was sent between engines; None where requests have one engine."""
    sent, wait, link = (requests[name] for name in ("kv_sent_bytes", "link_wait_ns", "link_ns"))
    return {
        "served_sent_bytes": pc.sum(sent).as_py(),
        "link_wait_mean_ms": _mean_ms(wait),
        "link_mean_ms": _mean_ms(link),
    }


def _mean_ms(nanoseconds: pa.ChunkedArray) -> float | None:
    """The mean of what is known; None if nothing is."""
    mean = pc.mean(nanoseconds).as_py()
    return None if mean is None else mean / 1e6


def _total(column: pa.ChunkedArray) -> int | None:
    """The sum of a column; None if a value is not known."""
    return None if column.null_count else pc.sum(column).as_py()


def _flat(metrics: BenchmarkMetrics) -> dict[str, Any]:
    found: dict[str, Any] = {
        "completed": metrics.completed,
        "request_throughput": metrics.request_throughput,
        "output_throughput": metrics.output_throughput,
        "total_throughput": metrics.total_throughput,
        "goodput": metrics.goodput,
        "good_share": metrics.good_share,
    }
    for name in _LATENCIES:
        one = getattr(metrics, name)
        found |= {
            f"{name}_mean_ms": one.mean_ms,
            f"{name}_median_ms": one.median_ms,
            f"{name}_std_ms": one.std_ms,
        }
        found |= {
            f"{name}_p{int(rank)}_ms": value
            for rank, value in one.percentiles_ms.items()
            if rank != 50  # the median
        }
    return found


def summary_text(summary: Mapping[str, Any]) -> str:
    """A summary for people: throughput, and a table of the latencies."""
    metrics = summary["metrics"]
    lines = [
        f"{metrics['completed']:,} of {summary['requests']:,} requests in "
        f"{metrics['duration_s']:.3f} s, {metrics['served_steps']:,} steps"
    ]
    if "request_throughput" not in metrics:
        return lines[0]
    lines.append(
        f"{metrics['request_throughput']:.3f} requests/s, {metrics['output_throughput']:,.1f} "
        f"output tokens/s, {metrics['total_throughput']:,.1f} tokens/s"
    )
    if metrics["goodput"] is not None:
        lines.append(
            f"goodput {metrics['goodput']:.3f} requests/s, {100 * metrics['good_share']:.1f} % of "
            f"the requests meet {summary['settings']['slo']}"
        )
    lines += [
        "",
        f"{'ms':6}" + "".join(f"{s:>12}" for s in ("mean", "median", "p90", "p95", "p99")),
    ]
    for name in _LATENCIES:
        values = (metrics[f"{name}_{one}_ms"] for one in _SHOWN)
        lines.append(f"{name.upper():6}" + "".join(f"{value:12,.2f}" for value in values))
    return "\n".join([*lines, *_errors(summary.get("errors"))])


def _errors(stated: Mapping[str, Any] | None) -> list[str]:
    """Lines on how far the metrics are off because steps were estimated."""
    if stated is None:
        return []
    wanted = f"the {100 * stated['wanted']:g} % that was asked for"
    if not stated["intervals"]:
        return ["", f"too few steps to say whether estimates are within {wanted}"]
    parts = []
    for name, (low, high) in stated["intervals"].items():
        metric, which, _ = name.split("_")
        parts.append(f"{metric.upper()} {which} {100 * low:+.2f} % to {100 * high:+.2f} %")
    judged = "within" if stated["within"] else "more than"
    return ["", f"error of estimated steps, {judged} {wanted} (95 %):", "  " + ", ".join(parts)]
