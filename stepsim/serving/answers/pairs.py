"""Two services of the same requests: what differs, request by request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from math import hypot
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stepsim.errors import ServingError
from stepsim.serving.service.outcome import ServeResult
from stepsim.typed import typed

_DRAWS: Final = 500
_BLOCKS: Final = 40
_SHARE: Final = 0.95

_Statistic = Callable[[NDArray[np.float64]], float]

_STATISTICS: Final[dict[str, _Statistic]] = {
    "mean": lambda values: float(values.mean()),
    "median": lambda values: float(np.percentile(values, 50)),
    "p99": lambda values: float(np.percentile(values, 99)),
}


@dataclass(frozen=True, slots=True)
class Difference:
    """A latency of two services, B less A.

    Attributes
    ----------
    name : its column, such as ``ttft_p99_ms``.
    before, after : its values in A and in B.
    low, high : the interval that holds the difference in 95 of 100 draws of the requests. It is
        wider by the stated errors of estimated steps.
    leaves_out : whether steps of A or B were estimated, and the error that this makes is not known.
    """

    name: str
    before: float
    after: float
    low: float
    high: float
    leaves_out: bool = False

    @property
    def change(self) -> float:
        """B less A."""
        return self.after - self.before

    @property
    def is_clear(self) -> bool:
        """Whether the interval does not hold 0."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, slots=True)
class ServiceComparison:
    """Two services side by side.

    Attributes
    ----------
    latencies : latencies of requests that both have finished, with intervals.
    metrics : the other metrics that one or both have, by name: goodput needs an SLO.
    changed : settings that differ, with both values.
    paired : number of the requests that both have finished.
    """

    latencies: tuple[Difference, ...]
    metrics: dict[str, tuple[Any, Any]]
    changed: dict[str, tuple[Any, Any]]
    paired: int

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        return {
            "paired_requests": self.paired,
            "changed": {name: list(pair) for name, pair in self.changed.items()},
            "latencies": [asdict(one) | {"change": one.change} for one in self.latencies],
            "metrics": {name: list(pair) for name, pair in self.metrics.items()},
        }

    def __str__(self) -> str:
        lines = [f"{name}: {a} -> {b}" for name, (a, b) in self.changed.items()]
        lines = ["what changed:", *(f"  {line}" for line in lines or ["nothing"]), ""]
        lines.append(f"{'':22}{'A':>14}{'B':>14}{'B - A':>14}   95 % interval")
        for one in self.latencies:
            mark = "" if one.is_clear else ", may be chance"
            mark += " *" if one.leaves_out else ""
            lines.append(
                f"{one.name:22}{one.before:14,.3f}{one.after:14,.3f}{one.change:+14,.3f}   "
                f"{one.low:+,.3f} to {one.high:+,.3f}{mark}"
            )
        for name, (a, b) in self.metrics.items():
            both = a is not None and b is not None
            texts = ["" if value is None else f"{value:,.3f}" for value in (a, b)]
            lines.append(
                f"{name:22}{texts[0]:>14}{texts[1]:>14}{f'{b - a:+,.3f}' if both else '':>14}"
            )
        if any(one.leaves_out for one in self.latencies):
            lines.append(
                "* without the error of estimated steps, which A or B does not state for it; the "
                "other intervals include it"
            )
        return "\n".join(lines)


@typed
def compare_services(before: ServeResult, after: ServeResult) -> ServiceComparison:
    """The differences of two services of the same requests.

    Intervals are of draws of blocks of consecutive requests with replacement, as waiting makes
    neighbors alike; both services have the same draws. They are wider by what services with
    estimated steps state of their errors, as of three independent causes.

    Raises
    ------
    ServingError : the services have other requests, or none that both have finished.
    """
    one, two = before.requests, after.requests
    for name in ("request", "prompt_tokens"):
        if not one[name].equals(two[name]):
            raise ServingError(
                "the services have other requests, so that they cannot be paired; serve the same "
                "requests with the same seed"
            )
    both = one["finish_ns"].is_valid().to_numpy() & two["finish_ns"].is_valid().to_numpy()
    if not both.any():
        raise ServingError("there is no request that both services have finished")
    latencies = []
    for column, short in (("ttft_ns", "ttft"), ("tpot_ns", "tpot"), ("e2el_ns", "e2el")):
        pair = [
            table[column].to_numpy(zero_copy_only=False).astype(np.float64)[both] / 1e6
            for table in (one, two)
        ]
        there = ~np.isnan(pair[0]) & ~np.isnan(pair[1])
        if there.any():
            latencies += _differences(short, pair[0][there], pair[1][there])
    latencies = [_with_errors(each, before.summary, after.summary) for each in latencies]
    names = ("request_throughput", "output_throughput", "goodput", "good_share", "duration_s")
    pairs = {name: (before.metrics.get(name), after.metrics.get(name)) for name in names}
    return ServiceComparison(
        tuple(latencies),
        {name: pair for name, pair in pairs.items() if pair != (None, None)},
        changed_settings(before.summary, after.summary),
        int(both.sum()),
    )


def changed_settings(before: dict[str, Any], after: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What two services depend on and differ in: pairs of values by dotted name."""
    first, second = (
        _flat({key: one[key] for key in ("settings", "machine", "versions")})
        for one in (before, after)
    )
    return {
        name: (first.get(name), second.get(name))
        for name in sorted({*first, *second})
        if first.get(name) != second.get(name)
    }


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {name: value}
    return {
        path: one
        for key, inner in value.items()
        for path, one in _flat(inner, f"{name}.{key}" if name else key).items()
    }


def _with_errors(found: Difference, before: dict[str, Any], after: dict[str, Any]) -> Difference:
    """A difference whose interval has in it how far both services are from exact steps."""
    below, above = [found.change - found.low], [found.high - found.change]
    for value, summary, downward, upward in (
        (found.before, before, above, below),
        (found.after, after, below, above),
    ):
        stated = summary.get("errors")
        if stated is None:
            continue
        if found.name not in stated["intervals"]:
            return replace(found, leaves_out=True)
        low, high = stated["intervals"][found.name]
        downward.append(max(value - value / (1 + high), 0.0))
        upward.append(max(value / (1 + low) - value, 0.0))
    if len(below) == 1:
        return found
    return replace(found, low=found.change - hypot(*below), high=found.change + hypot(*above))


def _differences(
    name: str, before: NDArray[np.float64], after: NDArray[np.float64]
) -> list[Difference]:
    """The statistics of a latency with their intervals."""
    count = len(before)
    blocks = np.array_split(np.arange(count), min(_BLOCKS, count))
    generator = np.random.default_rng(0)
    draws: dict[str, list[float]] = {statistic: [] for statistic in _STATISTICS}
    for _ in range(_DRAWS):
        chosen = np.concatenate(
            [blocks[k] for k in generator.integers(0, len(blocks), len(blocks))]
        )
        a, b = before[chosen], after[chosen]
        for statistic, of in _STATISTICS.items():
            draws[statistic].append(of(b) - of(a))
    tail = 50 * (1 - _SHARE)
    return [
        Difference(
            f"{name}_{statistic}_ms", of(before), of(after),
            float(np.percentile(draws[statistic], tail)),
            float(np.percentile(draws[statistic], 100 - tail)),
        )
        for statistic, of in _STATISTICS.items()
    ]  # fmt: skip
