"""The parts of a service, made of its parameters: requests, machine, scheduler, steps, clock."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import stepsim.machine
from stepsim import plugins
from stepsim.errors import ServingError, did_you_mean
from stepsim.serving.clock import Clock, JumpingClock, TickingClock
from stepsim.serving.requests.arrivals import (
    Arrivals,
    ArrivalsAtOnce,
    ClosedLoop,
    DrawnArrivals,
    RecordedArrivals,
)
from stepsim.serving.requests.requests import Requests
from stepsim.serving.requests.sources import request_source
from stepsim.serving.requests.traces import TraceRequests
from stepsim.serving.scheduling.capacity import Held, blocks_in, held_by_stages
from stepsim.serving.scheduling.interface import Scheduler
from stepsim.serving.scheduling.outcomes import Outcomes
from stepsim.serving.scheduling.schedulers import scheduler_maker
from stepsim.serving.scheduling.settings import (
    SCHEDULERS as COMPILED,
    SchedulerRules,
    SchedulerSettings,
)
from stepsim.serving.service.choices import ServeChoices
from stepsim.serving.service.quantities import Source
from stepsim.serving.service.simulated import simulated_steps, split_of
from stepsim.serving.steps.interface import StepModel
from stepsim.serving.steps.linear import LinearSteps
from stepsim.serving.steps.profile import read_profile
from stepsim.serving.steps.table import TableSteps
from stepsim.workloads import Model, Split, fields_of

if TYPE_CHECKING:
    from stepsim.machine import Machine
    from stepsim.serving.service.spec import ServeSpec

CLOCKS: Final = "stepsim.clocks"
"""Entry points of this group are clocks of other packages: classes without arguments."""

STEP_MODELS: Final = "stepsim.step_models"
"""Entry points of this group are step models of other packages: classes, of whose instances each
serves one engine. What follows the name after a colon is their argument."""


def requests_of(choices: ServeChoices, given: Requests | None = None) -> Requests:
    """The requests, with their arrivals; ``given`` ones are in place of a trace.

    Raises
    ------
    ArgError : the source, its settings or the arrivals are wrong.
    TraceError : the trace is unreadable.
    """
    if given is not None:
        found = given
    elif choices.trace is not None:
        found = TraceRequests(
            choices.trace,
            first=choices.first or 1,
            count=choices.requests,
            output_tokens=choices.output_tokens,
        ).requests()
    else:
        assert choices.source is not None
        found = _of_source(choices.source, choices.seed)
    return arrivals_of(choices, found).arrive(found)


def arrivals_of(choices: ServeChoices, requests: Requests) -> Arrivals:
    """When the requests arrive, without a choice as recorded, else drawn at the rate.

    Raises
    ------
    ArgError : a number is out of range.
    """
    kind, rate = choices.arrivals, choices.rate
    if kind is None:
        kind = "recorded" if requests.timed else "at-once" if rate is None else "poisson"
    if kind == "recorded":
        return RecordedArrivals(rate, choices.speedup)
    if kind == "at-once":
        return ArrivalsAtOnce()
    if kind == "users":
        return ClosedLoop(choices.users or 1, float(choices.think or 0) / 1e9)
    shape = {"poisson": 1.0, "even": math.inf}.get(kind, choices.burstiness or 1.0)
    return DrawnArrivals(rate or 0.0, shape, choices.seed)


def _of_source(source: Source, seed: int) -> Requests:
    made = request_source(source.name)
    settings = dict(source.settings)
    fields = getattr(made, "__dataclass_fields__", {})
    if "seed" in fields:
        settings.setdefault("seed", seed)
    unknown = [name for name in settings if fields and name not in fields]
    if unknown:
        raise ServingError(
            f"source {source.name}: unknown setting {unknown[0]}"
            f"{did_you_mean(unknown[0], fields)} Its settings are {', '.join(fields)}"
        )
    try:
        return made(**settings).requests()
    except TypeError as error:
        known = ", ".join(fields)
        raise ServingError(
            f"source {source.name}: {error}; its settings are {known or 'unknown'}"
        ) from error


def machine_of(spec: ServeSpec) -> Machine | None:
    """The machine, with its changes; None without one.

    Raises
    ------
    MachineError : there is no such machine, or a change of it is wrong.
    """
    name = spec.choices.machine
    if name is None:
        return None
    return stepsim.machine.load_machine(name, dict(spec.overrides))


def clock_of(choices: ServeChoices) -> Clock:
    """The clock.

    Raises
    ------
    ServingError : it is unknown, or a setting has no effect on it.
    """
    named, host = choices.clock, int(choices.host)
    if named.about:
        raise ServingError(f"clock {named}: clocks take no settings; write {named.name}")
    if named.name == "jumping":
        return JumpingClock(host)
    known: dict[str, Callable[[], Clock]] = {**_plugins(CLOCKS), "ticking": TickingClock}
    if named.name not in known:
        raise unknown("clock", named.name, ["jumping", *known])
    if host:
        raise ServingError(f"host: has no effect with the clock {named.name}; leave it out")
    return known[named.name]()


def scheduler_of(
    spec: ServeSpec, requests: Requests, machine: Machine | None
) -> SchedulerRules | Callable[[], Scheduler]:
    """The rules of a compiled scheduler, or what makes that of a plugin.

    Raises
    ------
    ServingError : the memory is not known, or the model does not fit.
    ArgError : it is unknown, a setting is wrong, or a request is longer than the KV cache.
    """
    name = spec.choices.scheduler
    make = scheduler_maker(name)
    settings = settings_of(spec)
    memory = memory_of(spec.choices, machine)
    blocks = None
    if settings.num_blocks is None:
        blocks = _blocks_beside(spec.choices.model, memory, settings, split_of(spec))
    rules = settings.completed(blocks, memory)
    # Refuses requests that can never run.
    Outcomes(replace(requests, prefix=None), rules, keeps_tokens=False)
    return rules if name in COMPILED else partial(make, requests, rules)


def settings_of(spec: ServeSpec) -> SchedulerSettings:
    """The settings of the scheduler; one of a plugin has those of ``vllm``.

    Raises
    ------
    ParameterError : settings are out of range, without effect, or contradict others.
    """
    kind: Any = spec.choices.scheduler if spec.choices.scheduler in COMPILED else "vllm"
    given = {name: getattr(spec.scheduling, name) for name in fields_of(type(spec.scheduling))}
    return SchedulerSettings(scheduler=kind, **given)


def _blocks_beside(
    model: Model | None, memory: int | None, settings: SchedulerSettings, split: Split
) -> int:
    """KV blocks beside the weights of a model, on the chip that has room for the fewest."""
    if model is None or memory is None:
        lacking = "model" if model is None else "memory_bytes, or the machine's hbm.capacity_bytes"
        raise ServingError(
            "num_blocks: missing, and not known from the memory that the weights of the model "
            f"leave; give {lacking}, or num_blocks itself"
        )
    share, stages = settings.memory_share, held_by_stages(model, split)
    weights = max(stage.weights for stage in stages)
    if weights > memory * share:
        of_chip = "" if split.chips == 1 else f" on a chip of {split.chips} ({split.text})"
        raise ServingError(
            f"model {model.name} does not fit: its weights{of_chip} take {weights:,} bytes, and "
            f"{share:g} of {memory:,} bytes of memory may be used; give more memory, a "
            "larger gpu_memory_utilization, narrower weights, or more chips by tp, ep or pp"
        )

    def blocks(stage: Held) -> int:
        return blocks_in(
            memory, stage.weights, share=share, block_size=settings.block_size or 16,
            kv_bytes=stage.kv_bytes,
        )  # fmt: skip

    return min(map(blocks, stages))


def memory_of(choices: ServeChoices, machine: Machine | None) -> int | None:
    """Bytes of off-chip memory: those that are given, or else the machine's."""
    if choices.memory_bytes is not None or machine is None:
        return choices.memory_bytes
    hbm = machine.hbm
    if hbm.capacity_bytes is None and hbm.dram is not None:
        return hbm.dram.capacity_bytes
    return hbm.capacity_bytes


def steps_of(
    spec: ServeSpec, requests: Requests, machine: Machine | None
) -> Callable[[], StepModel]:
    """What makes the step model of a service.

    Raises
    ------
    ServingError : it is unknown, what belongs to it is wrong, or it lacks a machine with a clock
        or a model.
    """
    named, known = spec.choices.steps, _plugins(STEP_MODELS)
    if named.name in _STEPS:
        return _STEPS[named.name](spec, requests, machine)
    if named.name not in known:
        raise unknown("step model", named.name, [*_STEPS, *known])
    return partial(known[named.name], *([named.about] if named.about else []))


def _linear(
    spec: ServeSpec, requests: Requests, machine: Machine | None
) -> Callable[[], StepModel]:
    text = spec.choices.steps.about
    try:
        terms = [float(part) for part in text.split(",")]
    except ValueError:
        terms = []
    if not 1 <= len(terms) <= len(_TERMS):
        raise ServingError(
            f"steps {spec.choices.steps}: expected up to {len(_TERMS)} numbers of ns, for a step, "
            "a token, a token of context of a decode, of a prefill, and a request, as in "
            "linear:8000000,40000,80"
        )
    return partial(LinearSteps, **dict(zip(_TERMS, terms, strict=False)))


def _table(spec: ServeSpec, requests: Requests, machine: Machine | None) -> Callable[[], StepModel]:
    folder, *settings = spec.choices.steps.about.split(",")
    try:
        given = {key: float(text) for key, text in (part.split("=") for part in settings)}
    except ValueError:
        given = {"": 0.0}
    if not folder or "host_gbps" not in given or given.keys() - {"host_gbps", "memory_gbps"}:
        raise ServingError(
            f"steps {spec.choices.steps}: expected the folder of a profile and the bandwidth "
            "of its host, as in table:FOLDER,host_gbps=64, and memory_gbps=N if weights are loaded"
        )
    memory = given.get("memory_gbps")
    steps = TableSteps(
        read_profile(folder),
        given["host_gbps"],
        memory_gbps=memory,
        weights_loaded=memory is not None,
    )
    return lambda: steps


_TERMS: Final = ("step_ns", "token_ns", "decode_context_ns", "prefill_context_ns", "request_ns")

_MakeSteps: TypeAlias = Callable[["ServeSpec", Requests, "Machine | None"], Callable[[], StepModel]]

SIMULATED: Final = ("audited", "exact")
"""The step models that simulate a model on a machine."""

_STEPS: Final[Mapping[str, _MakeSteps]] = {
    **dict.fromkeys(SIMULATED, simulated_steps),
    "table": _table,
    "linear": _linear,
}
"""The step models of stepsim by name."""


def unknown(what: str, name: str, known: list[str]) -> ServingError:
    """The error about a part that does not exist."""
    return ServingError(
        f"{what}: unknown {what} '{name}'{did_you_mean(name, known)} Known: {', '.join(known)}"
    )


def _plugins(group: str) -> Mapping[str, Any]:
    return {plugin.name: plugin.loaded for plugin in plugins.usable(group)}
