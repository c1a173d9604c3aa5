"""``st.serve``: a service from its parameters to its results."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from stepsim.arrow import pa
from stepsim.collection import rare_collection
from stepsim.errors import ArgError, ServingError
from stepsim.lowering import software
from stepsim.machine import Machine
from stepsim.serving.clock import Clock, JumpingClock, TickingClock
from stepsim.serving.metrics.slo import Slo
from stepsim.serving.requests.requests import Requests
from stepsim.serving.scheduling.capacity import kv_bytes_per_token
from stepsim.serving.scheduling.interface import Batch, Scheduler
from stepsim.serving.scheduling.settings import SchedulerRules
from stepsim.serving.service.apart import Apart
from stepsim.serving.service.choices import ServeChoices
from stepsim.serving.service.compiled import run_compiled
from stepsim.serving.service.effects import check_effects
from stepsim.serving.service.errors.uncertainty import Judged, MetricErrors, metric_errors
from stepsim.serving.service.fleet import run_fleet
from stepsim.serving.service.folder import Folder
from stepsim.serving.service.loop import Limits, Loop, Recorded, Watch, run
from stepsim.serving.service.outcome import ServeResult, metrics_of
from stepsim.serving.service.parts import (
    SIMULATED,
    clock_of,
    machine_of,
    requests_of,
    scheduler_of,
    steps_of,
)
from stepsim.serving.service.record import StepRows
from stepsim.serving.service.simulated import Journal, check_chips
from stepsim.serving.service.spec import ServeSpec, read_spec
from stepsim.serving.service.tables import requests_table, steps_table
from stepsim.serving.steps.audited import AuditedSteps
from stepsim.serving.steps.interface import StepModel, StepTime
from stepsim.typed import typed

Progress = Callable[[str], None]

AnySpec: TypeAlias = ServeSpec | str | os.PathLike[str] | Mapping[str, Any]
"""Parameters of a service, or a YAML file of them."""

_LINE_SECONDS: Final = 0.25
"""Time between two lines of progress."""

_WORTH: Final = 100_000
"""Layers of all steps of a service up to which its effort is raised for the sake of its metrics, if
need be until all are simulated. It is half an hour of CPU for layers of a large model. The effort
of longer services is raised for the time of all steps alone: metrics of many requests are averages,
and single decisions, of which more effort would make sure, take hours to know."""

_SAVE_SECONDS: Final = 5.0
"""Time after which the steps until then are kept in the folder."""


@dataclass(frozen=True, eq=False)
class Service:
    """A service that is ready to run: its parts were made and checked.

    Attributes
    ----------
    spec : what it was made of.
    requests : what it is asked.
    machine : what the steps run on; None if they need none.
    scheduler : rules of a compiled scheduler, or what makes one for every engine.
    steps : makes a new step model.
    clock : when steps begin.
    objects : parts that were given as objects, by name.
    """

    spec: ServeSpec
    requests: Requests
    machine: Machine | None
    scheduler: SchedulerRules | Callable[[], Scheduler]
    steps: Callable[[], StepModel]
    clock: Clock
    objects: Mapping[str, Any]

    def at_rate(self, rate: float) -> Service:
        """The same service, whose requests arrive at another rate.

        Raises
        ------
        ParameterError : arrivals have no rate.
        ArgError : recorded times of arrival cannot be scaled to it.
        """
        # Schedulers of plugins and routing hold the requests, so all parts are made anew.
        return service_of(self.spec.changed(rate=rate), self.objects)

    def settings(self) -> dict[str, Any]:
        """Everything the results depend on, as plain values."""
        return {
            "settings": self.spec.to_dict(),
            "objects": sorted(self.objects),
            "requests": len(self.requests),
            "requests_digest": _digest(self.requests),
            "source": self.requests.source,
            "machine": None if self.machine is None else self.machine.to_dict(),
            **software(),
        }

    def run(self, folder: Folder | None = None, progress: Progress | None = None) -> ServeResult:
        """Serve all requests, and write the results to the folder.

        Raises
        ------
        ServingError : the service is stuck.
        OutputError : the folder cannot be written.
        """
        journal = Journal([] if folder is None else folder.kept_runs())
        models = [self.steps() for _ in range(self.spec.choices.engines)]
        for model in models:
            journal.attach(model)
        watch = _Watch(len(self.requests), folder, journal, progress)
        # Steps make programs, of which each leaves objects in cycles.
        with rare_collection():
            served = self._served(models, watch, folder)
            audited = [model for model in models if isinstance(model, AuditedSteps)]
            errors = None
            while audited and served.status == "ok":
                errors = metric_errors(
                    audited, served.steps, served.metrics(), self._metrics, progress=watch.say,
                    judged=_judged(audited),
                )  # fmt: skip
                if errors is not None:
                    break
                for one in audited:
                    one.again()
                watch.begin_again()
                served = self._served(models, watch, folder)
        return self._finish(served, models, errors, folder)

    def _metrics(self, models: list[StepModel]) -> Mapping[str, Any]:
        """The metrics of the service with other step models."""
        return self._served(models, None, None).metrics()

    def _served(
        self, models: list[StepModel], watch: _Watch | None, folder: Folder | None
    ) -> _Served:
        if folder is not None and watch is not None:
            models = [watch.replayed(*one) for one in enumerate(models)]
        if len(models) > 1:
            return self._run_fleet(models, watch)
        steps = models[0]
        limits = Limits(self.spec.choices.max_steps)
        if isinstance(self.scheduler, SchedulerRules):
            ran = run_compiled(
                self.requests, self.scheduler, steps, self._own_clock, limits=limits, watch=watch
            )
        else:
            ran = run(
                self.requests, self.scheduler(), steps, self.clock, limits=limits, watch=watch
            )
        return _Served(ran.status, requests_table(self.requests, ran.requests), [ran.steps])

    def _run_fleet(self, models: list[StepModel], watch: Watch | None) -> _Served:
        assert isinstance(self.scheduler, SchedulerRules)
        choices, clock = self.spec.choices, self._own_clock
        router = choices.router or "round-robin"
        if choices.split is None:
            ran = run_fleet(self.requests, self.scheduler, models, clock, router, watch)
        else:
            assert choices.model is not None
            ran = Apart(
                self.requests, self.scheduler, models, clock, choices.split,
                kv_bytes_per_token(choices.model), router,
            ).run(watch)  # fmt: skip
        table = requests_table(self.requests, ran.requests, ran.engine, ran.sent)
        return _Served("ok", table, ran.steps)

    @property
    def _own_clock(self) -> JumpingClock | TickingClock:
        """The clock, which compiled schedulers must know."""
        assert isinstance(self.clock, JumpingClock | TickingClock)
        return self.clock

    def _finish(
        self,
        served: _Served,
        models: list[StepModel],
        errors: MetricErrors | None,
        folder: Folder | None,
    ) -> ServeResult:
        requests, table = served.requests, steps_table(served.steps)
        summary = {
            "status": served.status,
            **self.settings(),
            "metrics": served.metrics(self.spec.choices.slo),
        }
        if isinstance(self.scheduler, SchedulerRules):
            summary["kv_blocks"] = self.scheduler.usable_blocks
        reports = [model.report().to_dict() for model in models if hasattr(model, "report")]
        if reports:
            summary["estimators"] = reports
        if errors is not None:
            summary["errors"] = errors.to_dict()
        if folder is not None:
            folder.finish(requests, table, summary)
        return ServeResult(requests, table, summary)


def _judged(models: Sequence[AuditedSteps]) -> Judged:
    """What must be within the error that was asked for."""
    worth = sum(model.steps * model.runs_of_step for model in models) <= _WORTH
    return Judged.METRICS if worth else Judged.STEPS


@dataclass(frozen=True, eq=False, slots=True)
class _Served:
    """All requests, served once.

    Attributes
    ----------
    requests : a row for each request.
    steps : those of each engine.
    """

    status: str
    requests: pa.Table
    steps: list[StepRows]

    def metrics(self, slo: Slo | None = None) -> dict[str, Any]:
        """The metrics of the service by the names of their columns."""
        return metrics_of(self.requests, steps_table(self.steps), slo)


class Replayed:
    """A step model without memory that takes the times of the first steps from a record."""

    def __init__(self, model: StepModel, rows: StepRows) -> None:
        self._model = model
        self._rows = rows

    def time(self, step: int, batch: Batch) -> StepTime:
        """The recorded time of a step, or else that of the model."""
        if step >= len(self._rows):
            return self._model.time(step, batch)
        return self._rows.time(step)


class _Watch:
    """Reports progress, and keeps the steps in the folder from time to time."""

    def __init__(
        self, requests: int, folder: Folder | None, journal: Journal, progress: Progress | None
    ) -> None:
        self._round = 1
        self._requests = requests
        self._journal = journal
        self._saved: dict[int, Recorded | None] = {}
        self._folder = folder
        self._progress = progress
        self._next_line = self._next_save = time.monotonic()

    def replayed(self, engine: int, model: StepModel) -> StepModel:
        """The step model of an engine; one without memory takes the steps that an earlier process
        has left from the folder, and those of this process are kept there.
        """
        if self._folder is None or not getattr(model, "memoryless", False):
            return model
        self._saved[engine] = None
        return Replayed(model, self._folder.kept(engine))

    def begin_again(self) -> None:
        """The requests are served once more; the next line says so."""
        self._round += 1
        self._next_line = time.monotonic()

    def say(self, text: str) -> None:
        """Report what is under way."""
        if self._progress is not None:
            again = f"round {self._round}: " if self._round > 1 else ""
            self._progress(again + text)

    def __call__(self, loop: Loop) -> None:
        if loop.engine in self._saved:
            self._saved[loop.engine] = loop.steps
        now = time.monotonic()
        if now >= self._next_line:
            self.say(
                f"{loop.finished():,} of {self._requests:,} requests, "
                f"{len(loop.steps):,} steps, {loop.now_ns / 1e9:.1f} s of service"
            )
            self._next_line = now + _LINE_SECONDS
        if self._folder is not None and now >= self._next_save:
            self._folder.save_runs(self._journal.entries)
            for engine, steps in self._saved.items():
                if steps is not None:
                    self._folder.save_steps(steps, engine)
            self._next_save = now + _SAVE_SECONDS


def prepare_service(spec: AnySpec | None = None, **parameters: Any) -> Service:
    """Make and check the parts of a service; nothing is simulated.

    Arguments and errors are those of :func:`serve`.
    """
    objects = _taken(parameters)
    if isinstance(spec, ServeSpec):
        made = spec.changed(**parameters) if parameters else spec
    else:
        given = {} if spec is None else read_spec(spec if isinstance(spec, Mapping) else Path(spec))
        made = ServeSpec.of(given | parameters)
    return service_of(made, objects)


def service_of(spec: ServeSpec, objects: Mapping[str, Any] | None = None) -> Service:
    """The service of a specification, with objects in place of some of its parts."""
    given = {} if objects is None else objects
    choices = spec.choices
    clock = given.get("clock") or clock_of(choices)
    machine = given.get("machine") or machine_of(spec)
    check_effects(spec, given, machine)
    if "steps" not in given and choices.steps.name in SIMULATED:
        check_chips(spec, machine)
    requests = requests_of(choices, given.get("trace"))
    scheduler = given.get("scheduler") or scheduler_of(spec, requests, machine)
    _check_joined(choices, scheduler, clock)
    steps = given.get("steps") or steps_of(spec, requests, machine)
    return Service(spec, requests, machine, scheduler, steps, clock, dict(given))


def _check_joined(
    choices: ServeChoices, scheduler: SchedulerRules | Callable[[], Scheduler], clock: Clock
) -> None:
    """Refuse parts that cannot work with each other."""
    is_compiled = isinstance(scheduler, SchedulerRules)
    if is_compiled and not isinstance(clock, JumpingClock | TickingClock):
        raise ServingError(
            f"clock {choices.clock}: clocks of plugins have an effect with schedulers of plugins "
            "alone; choose jumping or ticking"
        )
    if choices.engines > 1 and not is_compiled:
        name = "replicas" if choices.split is None else "split"
        raise ServingError(
            f"{name}: several engines have the schedulers of stepsim alone; leave {name} out, or "
            "choose another scheduler"
        )
    if choices.split is not None:
        if choices.model is None:
            raise ServingError(
                "model: missing; split sends keys and values, whose bytes follow from the model; "
                "give one"
            )
        kv_bytes_per_token(choices.model)  # refuses a model of which they are not known


def _taken(parameters: dict[str, Any]) -> dict[str, Any]:
    """Take objects out of the parameters; a text that describes each stays in its place."""
    objects: dict[str, Any] = {}
    for name, is_object, text in (
        ("trace", lambda value: isinstance(value, Requests), lambda value: value.source),
        ("machine", lambda value: isinstance(value, Machine), lambda value: value.name),
        ("scheduler", callable, _name_of),
        ("steps", callable, _name_of),
        ("clock", lambda value: hasattr(value, "after_step"), lambda value: _name_of(type(value))),
    ):
        value = parameters.get(name)
        if value is not None and is_object(value):
            objects[name], parameters[name] = value, text(value)
    return objects


def _name_of(made: Any) -> str:
    return f"{getattr(made, '__module__', '')}.{getattr(made, '__qualname__', 'object')}"


def _digest(requests: Requests) -> str:
    """SHA-256 of the requests but for their prefixes."""
    digest = hashlib.sha256()
    for name in ("arrival_ns", "prompt_tokens", "output_tokens", "priority", "after", "think_ns"):
        digest.update(name.encode() + getattr(requests, name).astype("<i8").tobytes())
    return digest.hexdigest()


@typed
def serve(
    spec: AnySpec | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    **parameters: Any,
) -> ServeResult:
    """Serve requests, and measure how long they take.

    Parameters
    ----------
    spec : parameters as a mapping, or a YAML file of them.
    out : folder for the results; without it they are only returned.
    resume : go on with the service that an earlier process has left in ``out``.
    progress : called with a line on how far the service is.
    parameters : the parameters; they take precedence over those of ``spec``.

    Raises
    ------
    ParameterError : parameters are unknown, mistyped, out of range, missing or without effect.
    ServingError : parts do not fit together, the service is stuck, or the folder has other
        results.
    TraceError, MachineError : the trace or the machine is wrong.
    OutputError : the folder cannot be written.
    """
    if out is None and resume:
        raise ArgError("resume: has no effect without out; name the folder of the service")
    service = prepare_service(spec, **parameters)
    folder = None if out is None else Folder(Path(out), service.settings(), resume=resume)
    if folder is not None and folder.finished:
        return ServeResult.read(folder.path)
    return service.run(folder, progress)
