"""Step models that simulate: the layers of a model on a machine, and the journal of their runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from stepsim.errors import ServingError
from stepsim.serving.requests.requests import Requests
from stepsim.serving.scheduling.interface import Batch
from stepsim.serving.steps.audited import AuditedSteps
from stepsim.serving.steps.exact import ExactSteps, LayeredSteps
from stepsim.serving.steps.interface import StepModel
from stepsim.serving.steps.layers import Cost, StepPrograms
from stepsim.serving.steps.routing import RequestRouting, Zipf
from stepsim.workloads import Model, ParameterError, Split, Step, resolve

if TYPE_CHECKING:
    from stepsim.machine import Machine
    from stepsim.serving.service.spec import ServeSpec

_ZIPF: Final = "zipf"


def simulated_steps(
    spec: ServeSpec, requests: Requests, machine: Machine | None
) -> Callable[[], StepModel]:
    """What makes the exact or audited step model of a service.

    Raises
    ------
    ServingError : there is no machine, no clock or no model, or the routing is of another model.
    ParameterError : a parameter of the mapping is wrong.
    """
    choices = spec.choices
    named, model = choices.steps, choices.model
    if named.about:
        raise ServingError(f"steps {named}: has no settings; write {named.name}")
    for what, part in (("model", model), ("machine", machine)):
        if part is None:
            raise ServingError(
                f"{what}: missing; steps {named.name} simulate a model on a machine; give both, or "
                "steps such as linear:8000000,40000,80"
            )
    assert model is not None
    assert machine is not None
    workload = _workload(spec, model, machine)
    routing = _routing(spec, model, requests)
    if named.name == "exact":
        make: Callable[[], StepModel] = partial(ExactSteps, workload, machine, routing)
    else:
        given = {} if choices.error is None else {"error": choices.error}
        make = partial(AuditedSteps, workload, machine, routing, seed=choices.seed, **given)
    make()  # refuses what does not fit
    return make


def split_of(spec: ServeSpec) -> Split:
    """How an engine is divided among chips."""
    return Split(*(spec.mapping.get(name, 1) for name in ("tp", "ep", "pp")))


def check_chips(spec: ServeSpec, machine: Machine | None) -> None:
    """Refuse engines that cannot be on the chips of the machine, before anything follows from them.

    Raises
    ------
    ParameterError : the model is not divided by these chips, or the machine has too few.
    """
    split, engines = split_of(spec), spec.choices.engines
    if spec.choices.model is None or machine is None:
        return
    if split.chips > 1:
        StepPrograms(_workload(spec, spec.choices.model, machine), machine)
    if machine.chips is not None and engines * split.chips > machine.chips.total:
        raise ParameterError(
            [
                (
                    "replicas" if spec.choices.split is None else "split",
                    f"expected a machine of {engines * split.chips} chips for {engines} engines of "
                    f"{split.chips}, found {machine.chips.total} chips ({machine.name}); state "
                    "more by chips.count",
                )
            ]
        )


def _workload(spec: ServeSpec, model: Model, machine: Machine) -> Step:
    """A layer of a step with its mapping."""
    return resolve(Step, {"model": model, **spec.mapping}, machine=machine).workload


def _routing(spec: ServeSpec, model: Model, requests: Requests) -> RequestRouting | None:
    named = spec.choices.routing
    if model.experts is None:
        if named is not None:
            raise ServingError(
                f"routing: has no effect, since {model.name} has no experts; leave it out"
            )
        return None
    name, about = (_ZIPF, "0") if named is None else (named.name, named.about)
    if name != _ZIPF:
        return RequestRouting.recorded(model, requests, str(named))
    try:
        exponent = float(about)
    except ValueError:
        raise ServingError(
            f"routing: expected zipf:EXPONENT, as in zipf:1.2, or a recording, found '{named}'"
        ) from None
    return RequestRouting.drawn(model, requests, Zipf(exponent), spec.choices.seed)


class Journal:
    """The costs of the runs of a step model, in order. A later process takes them from here, so
    that a model which learns from them ends in the same state.

    Parameters
    ----------
    kept : those that an earlier process has left.
    """

    def __init__(self, kept: Sequence[tuple[Cost, ...]] = ()) -> None:
        self.entries = [*kept]
        self._replayed = 0

    def attach(self, model: StepModel) -> None:
        """Have the runs of a model written to the journal, if it simulates."""
        if isinstance(model, LayeredSteps):
            programs: Any = _Journaled(model.programs, self)
            model.programs = programs

    def of(self, run: Callable[[], Sequence[Cost]]) -> list[Cost]:
        """The next entry, which is run if an earlier process has not left it."""
        if self._replayed == len(self.entries):
            self.entries.append(tuple(run()))
        self._replayed += 1
        return [*self.entries[self._replayed - 1]]


class _Journaled:
    """Programs whose runs are written to a journal, or taken from it."""

    def __init__(self, programs: StepPrograms, journal: Journal) -> None:
        self._programs = programs
        self._journal = journal
        self._heads: dict[int, Cost] = {}
        self.runs = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._programs, name)

    def layers(
        self, kind: int, batch: Batch, ids: Sequence[NDArray[np.int32]] | None
    ) -> list[Cost]:
        """As of `StepPrograms`."""
        found = self._journal.of(lambda: self._programs.layers(kind, batch, ids))
        self.runs += len(found)
        return found

    def head(self, rows: int) -> Cost:
        """As of `StepPrograms`."""
        if rows not in self._heads:
            (self._heads[rows],) = self._journal.of(lambda: [self._programs.head(rows)])
            self.runs += 1 if rows else 0
        return self._heads[rows]
