"""Why requests of a service took as long as they did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from stepsim.errors import ServingError
from stepsim.serving.answers.again import served_again
from stepsim.serving.answers.breakdown import Breakdown, Part, breakdowns, mean_parts
from stepsim.serving.service.outcome import ServeResult
from stepsim.serving.service.tables import steps_of
from stepsim.typed import typed

_PERCENTILE: Final = 99

Parts: TypeAlias = tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Explained:
    """The time of a request, or the mean of all.

    Attributes
    ----------
    title : which time it is.
    request : number of the request in its source; None for the mean of all.
    ns : the time, which is the sum of the parts.
    """

    title: str
    request: int | None
    ns: float
    parts: tuple[Part, ...]

    def text(self) -> str:
        """The parts as a table, the stages in order."""
        lines = [f"{self.title}: {self.ns / 1e6:,.3f} ms"]
        stages = dict.fromkeys(part.stage for part in self.parts)
        for stage in stages:
            own = [part for part in self.parts if part.stage == stage]
            lines.append(self._line(stage, sum(part.ns for part in own), "  "))
            if len(own) > 1 or own[0].bound:
                lines += [self._line(part.bound or "?", part.ns, "    ") for part in own]
        return "\n".join(lines)

    def _line(self, name: str, ns: float, indent: str) -> str:
        share = 100 * ns / self.ns if self.ns else 0.0
        return f"{indent + name:32}{ns / 1e6:14,.3f} ms {share:5.1f} %"

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        return {**asdict(self), "parts": [asdict(part) for part in self.parts]}


@dataclass(frozen=True, slots=True)
class ServiceWhy:
    """Where the time of a service's requests went.

    Attributes
    ----------
    times : the request at the 99th percentile of latency and of time to first token, and the means.
    """

    times: tuple[Explained, ...]

    def __str__(self) -> str:
        return "\n\n".join(time.text() for time in self.times)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        return {"times": [time.to_dict() for time in self.times]}


_Explain: TypeAlias = tuple[str, Callable[[Breakdown], float], Callable[[Breakdown], Parts]]

_TIMES: Final[tuple[_Explain, ...]] = (
    ("latency (E2EL)", lambda one: one.e2el_ns, lambda one: one.parts),
    ("time to first token (TTFT)", lambda one: one.ttft_ns, lambda one: one.to_first_token),
)


@typed
def why_served(result: ServeResult) -> ServiceWhy:
    """Where the time of the requests of a service went, adding up to the ns.

    Raises
    ------
    ServingError : no request was finished, or it is not known which steps computed them.
    """
    if result.requests["computed_steps"].null_count:
        result = served_again(result)
    replicas = 1 + max(result.steps["replica"].to_pylist(), default=0)
    engines = [steps_of(result.steps, replica) for replica in range(replicas)]
    every = breakdowns(result.requests, engines)
    done = [(k, one) for k, one in enumerate(every) if one is not None]
    if not done:
        raise ServingError("no request was finished, so there is no latency to explain")
    number = result.requests["request"].to_pylist()
    times = []
    for title, length, parts in _TIMES:
        at, worst = done[_rank([length(one) for _, one in done])]
        named = f"{title} at the 99th percentile, request {number[at]}"
        times.append(Explained(named, number[at], length(worst), parts(worst)))
        means = mean_parts([[*parts(one)] for _, one in done])
        mean = sum(length(one) for _, one in done) / len(done)
        times.append(Explained(f"mean {title} of {len(done):,} requests", None, mean, means))
    return ServiceWhy(tuple(times))


def _rank(values: Sequence[float]) -> int:
    """The index of the value at the percentile: the least that so many do not exceed."""
    order = np.argsort(values, kind="stable")
    return int(order[-(-_PERCENTILE * len(values) // 100) - 1])
