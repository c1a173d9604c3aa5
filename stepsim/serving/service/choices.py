"""``ServeChoices``: what a service is asked, serves on and is judged by, each declared once.

A choice is an argument of ``st.serve``, a key of a YAML file and an option of ``stepsim serve``.
Those of the scheduler are declared with the scheduler, those of the mapping with the workload
``step``; `ServeSpec` joins all of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from stepsim.serving.metrics.slo import Slo
from stepsim.serving.service.quantities import Duration, Limits, Named, Source
from stepsim.serving.service.split import MOST_ENGINES, Split
from stepsim.workloads import Model, Param, ParameterError, check_fields

Arrivals: TypeAlias = Literal["recorded", "poisson", "gamma", "even", "at-once", "users"]
Router: TypeAlias = Literal["round-robin", "least-outstanding", "prefix-aware"]

_ABOVE_0 = "expected a number above 0, found {}; give one, or leave it out"
_AUDITED, _JUMPING, _NO_TIME = Named("audited"), Named("jumping"), Duration(0)
_MOST_SEED = (1 << 32) - 1


@dataclass(frozen=True, kw_only=True)
class RequestChoices:
    """Who asks for what, and when."""

    trace: Annotated[
        str | None,
        Param("file of requests, or the name of a data set", otherwise="those of source"),
    ] = None
    first: Annotated[int | None, Param("first request of the trace, from 1", otherwise="1")] = None
    requests: Annotated[int | None, Param("number of requests of the trace", otherwise="all")] = (
        None
    )
    output_tokens: Annotated[
        int | None, Param("tokens that each request of the trace generates", otherwise="recorded")
    ] = None
    source: Annotated[
        Source | None,
        Param(
            "other requests than those of a trace, as fixed:count=64,prompt_tokens=512",
            otherwise="the trace",
        ),
    ] = None  # fmt: skip
    arrivals: Annotated[
        Arrivals | None,
        Param("when requests arrive", otherwise="recorded with a trace of times, else poisson"),
    ] = None
    rate: Annotated[
        float | None,
        Param(
            "mean rate of arrivals; recorded ones are scaled to it", "requests/s",
            otherwise="as recorded",
        ),
    ] = None  # fmt: skip
    speedup: Annotated[
        float | None, Param("divides the recorded times of arrival", otherwise="1")
    ] = None
    burstiness: Annotated[
        float | None, Param("shape of gamma arrivals; 1 is poisson, less is burstier")
    ] = None
    users: Annotated[
        int | None,
        Param("users of a closed loop, who ask again after each answer", "users"),
    ] = None
    think: Annotated[
        Duration | None,
        Param("time from an answer to the next question of a user", otherwise="0s"),
    ] = None
    seed: Annotated[int, Param("seed of all that is drawn", least=0, most=_MOST_SEED)] = 0


@dataclass(frozen=True, kw_only=True)
class FleetChoices:
    """Engines, and what joins them."""

    replicas: Annotated[
        int, Param("engines that serve whole requests", "engines", most=MOST_ENGINES)
    ] = 1
    router: Annotated[
        Router | None, Param("how requests are sent to replicas", otherwise="round-robin")
    ] = None
    split: Annotated[
        Split | None,
        Param(
            "engines of prompts, engines of outputs, and the link for their keys and values, as "
            "in prefill=2,decode=2,latency=5us,bandwidth=50GB/s",
            otherwise="engines serve whole requests",
        ),
    ] = None

    @property
    def engines(self) -> int:
        """Engines in all."""
        return self.replicas if self.split is None else self.split.engines


@dataclass(frozen=True, kw_only=True)
class ServeChoices(RequestChoices, FleetChoices):
    """What a service is asked, serves on and is judged by.

    Raises
    ------
    ParameterError : a choice has the wrong type, is out of range, or has no effect with the
        others; all such choices are listed.
    """

    model: Annotated[Model | None, Param("model that is served")] = None
    machine: Annotated[
        str | None,
        Param(
            "name of a machine, or a YAML file of one", otherwise="needed by simulated steps alone"
        ),
    ] = None
    scheduler: Annotated[
        str, Param("rules of the scheduler: vllm, static, orca, sarathi, or a plugin's")
    ] = "vllm"
    memory_bytes: Annotated[
        int | None,
        Param(
            "off-chip memory for weights and KV blocks", "bytes", most=1 << 60,
            machine="hbm.capacity_bytes", otherwise="required without num_blocks",
        ),
    ] = None  # fmt: skip
    steps: Annotated[
        Named,
        Param(
            "where the time of a step comes from: audited, exact, table:FILE, linear:A,B,C, or a "
            "plugin"
        ),
    ] = _AUDITED
    routing: Annotated[
        Named | None,
        Param(
            "experts of tokens: recorded routing of these requests, or zipf:EXPONENT",
            otherwise="zipf:0, all experts equally likely",
        ),
    ] = None
    error: Annotated[
        float | None,
        Param(
            "largest error of audited steps; 0.01 is 1 %", "fraction", least=0, most=1,
            otherwise="0.01",
        ),
    ] = None  # fmt: skip
    host: Annotated[
        Duration, Param("time of the host from the end of a step to the start of the next")
    ] = _NO_TIME
    clock: Annotated[
        Named, Param("how an idle service finds the next request: jumping, ticking, a plugin's")
    ] = _JUMPING
    slo: Annotated[
        Limits | None,
        Param("limits of the times of a request, as in ttft=1s,tpot=50ms", otherwise="none"),
    ] = None
    max_steps: Annotated[
        int | None, Param("stop after this many steps", "steps", otherwise="no limit")
    ] = None

    def __post_init__(self) -> None:
        check_fields(self)
        if problems := [*self._not_positive(), *self._without_effect()]:
            raise ParameterError(problems)

    @property
    def limits(self) -> Slo | None:
        """The limits of the times of a request."""
        return self.slo

    @property
    def _has_choice(self) -> bool:
        """Whether requests can be sent to different engines."""
        engines = [self.replicas] if self.split is None else [self.split.prefill, self.split.decode]
        return max(engines) > 1

    def _not_positive(self) -> list[tuple[str, str]]:
        names = ("rate", "speedup", "burstiness", "error")
        values = ((name, getattr(self, name)) for name in names)
        return [
            (name, _ABOVE_0.format(f"{value:g}"))
            for name, value in values
            if value is not None and not (math.isfinite(value) and value > 0)
        ]

    def _without_effect(self) -> list[tuple[str, str]]:
        found = []
        pairs = [
            ("speedup", self.rate is not None, "rate, which scales arrivals already"),
            ("burstiness", self.arrivals != "gamma", "other arrivals than gamma"),
            ("users", self.arrivals != "users", "other arrivals than users"),
            ("think", self.arrivals != "users", "other arrivals than users"),
            ("rate", self.arrivals in ("at-once", "users"), f"arrivals {self.arrivals}"),
            ("speedup", self.arrivals not in (None, "recorded"), f"arrivals {self.arrivals}"),
            ("router", not self._has_choice, "one replica"),
            ("max_steps", self.engines > 1, "several replicas"),
        ]  # fmt: skip
        for name, useless, why in pairs:
            if getattr(self, name) is not None and useless:
                found.append((name, f"has no effect with {why}; leave it out"))
        if self.split is not None and self.replicas > 1:
            found.append(("replicas", "has no effect with split, which has engines; leave it out"))
        if self.arrivals == "users" and self.users is None:
            found.append(("users", "missing; say how many users there are"))
        if self.arrivals == "gamma" and self.burstiness is None:
            found.append(("burstiness", "missing; give the shape of gamma arrivals"))
        if self.arrivals in ("poisson", "gamma", "even") and self.rate is None:
            found.append(("rate", f"missing; arrivals {self.arrivals} need the rate of requests"))
        of_trace = ("first", "requests", "output_tokens")
        if self.trace is None:
            found += [
                (name, "has no effect without a trace; leave it out")
                for name in of_trace
                if getattr(self, name) is not None
            ]
        if (self.trace is None) == (self.source is None):
            said = "missing; name a file of requests, or give source"
            found.append(("trace", said if self.trace is None else "given beside source; keep one"))
        return found
