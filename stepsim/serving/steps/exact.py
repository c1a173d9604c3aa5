"""`ExactSteps`: every layer of every step is simulated, and the head."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stepsim.errors import ServingError
from stepsim.serving.scheduling.interface import Batch
from stepsim.serving.steps.features import LayerModel, LayerTerms
from stepsim.serving.steps.interface import StepTime
from stepsim.serving.steps.layers import Cost, StepPrograms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepsim.machine import Machine
    from stepsim.serving.steps.routing import RequestRouting
    from stepsim.workloads import Step

Reals = NDArray[np.float64]

_KEPT = 256
"""Steps whose times are kept for equal ones."""


@dataclass(frozen=True, eq=False, slots=True)
class Exact:
    """A step of which every layer was simulated.

    Attributes
    ----------
    time : of the step.
    layers : of each kind, the terms and the cycles of its layers.
    """

    time: StepTime
    layers: list[tuple[LayerTerms, Reals]]


class LayeredSteps:
    """What step models of simulated layers share.

    Args:
        workload: a layer of the model with its mapping; see the workload ``step``.
        machine: it must state a clock.
        routing: the experts of tokens; None for models without experts.

    Raises
    ------
    ServingError : the machine has no clock, the model is not whole, or the routing is missing, not
        needed, or of another model.
    """

    def __init__(self, workload: Step, machine: Machine, routing: RequestRouting | None) -> None:
        self.programs = StepPrograms(workload, machine)
        self.routing = routing
        needed = sum(len(kind.routed) for kind in self.programs.kinds)
        model = workload.model
        if needed and routing is None:
            raise ServingError(
                f"steps: model {model.name} has experts; give the routing of its requests"
            )
        if routing is not None:
            own = (needed, model.experts and model.experts.count)
            if own != (routing.layers, routing.experts):
                raise ServingError(
                    f"steps: the routing is of {routing.layers} layers of {routing.experts} "
                    f"experts, expected that of {model.name}; choose the routing of this model"
                )
        self.models = [LayerModel(kind.workload, machine) for kind in self.programs.kinds]

    @property
    def runs_of_step(self) -> int:
        """Layers of a step that are simulated to know it exactly; equal ones are simulated once."""
        return sum(len(kind.routed) or 1 for kind in self.programs.kinds)

    def experts(self, batch: Batch) -> NDArray[np.int32] | None:
        """The experts of all tokens of a step, ``[layers, tokens, k]``; None without experts."""
        return None if self.routing is None else self.routing.all_ids(batch)

    def beside(self, batch: Batch) -> Cost:
        """What a step takes beside its layers, which follow each other: the head, and the rows on
        their way between stages.
        """
        head = self.programs.head(int(batch.emits.sum()))
        sent = self.programs.handover(int(batch.new.sum()))
        return Cost(head.cycles + sent.cycles, head.offchip_bytes + sent.offchip_bytes)

    def exactly(self, batch: Batch, every: NDArray[np.int32] | None) -> Exact:
        """All layers of a step, simulated, whose tokens have the experts ``every``.

        Raises
        ------
        ServingError : a layer does not run to its end, or nothing was recorded of a token.
        """
        counts = None if self.routing is None else self.routing.counts(batch)
        beside = self.beside(batch)
        cycles, moved = beside.cycles, beside.offchip_bytes
        bounds: dict[str, float] = {}
        layers = []
        for number, kind in enumerate(self.programs.kinds):
            own = list(kind.routed)
            ids = None if every is None or not own else [every[layer] for layer in own]
            costs = self.programs.layers(number, batch, ids)
            loads = None if ids is None or counts is None else counts[own]
            terms = self.models[number].terms(batch, loads)
            times = 1 if ids is not None else kind.layers
            for cost, bound in zip(costs, terms.bound, strict=True):
                cycles += times * cost.cycles
                moved += times * cost.offchip_bytes
                bounds[bound] = bounds.get(bound, 0) + times * cost.cycles
            layers.append((terms, np.array([float(one.cycles) for one in costs])))
        return Exact(self.timed(cycles, moved, bounds, "exact"), layers)

    def timed(self, cycles: float, moved: int, bounds: Mapping[str, float], how: str) -> StepTime:
        """The time of a step, whose layers take so many cycles by the resource that limits them."""
        bound = max(bounds, key=lambda name: bounds[name]) if bounds else ""
        ns = self.programs.nanoseconds(cycles)
        return StepTime(ns, round(cycles), moved, bound, how)


class ExactSteps(LayeredSteps):
    """Simulates every layer of every step.

    Layers of equal program are simulated once for each routing; dense ones, and steps that are
    equal to an earlier one, once.
    """

    def __init__(self, workload: Step, machine: Machine, routing: RequestRouting | None) -> None:
        super().__init__(workload, machine, routing)
        self._known: OrderedDict[object, StepTime] = OrderedDict()

    def time(self, step: int, batch: Batch) -> StepTime:
        """See `StepModel`.

        Raises
        ------
        ServingError : a layer does not run to its end, or nothing was recorded of a token.
        """
        every = self.experts(batch)
        routed = b"" if every is None else sha256(every.tobytes()).digest()
        key = batch.new.tobytes(), batch.before.tobytes(), int(batch.emits.sum()), routed
        if key not in self._known:
            self._known[key] = self.exactly(batch, every).time
            if len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return self._known[key]
