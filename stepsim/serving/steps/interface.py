"""What a step model is to the rest of a service."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from stepsim.serving.scheduling.interface import Batch

NOT_OF_ENGINES: Final = {
    "dp": "an engine has one batch and one KV cache, whose requests dp would divide among groups "
    "of chips; leave it out, and give replicas",
    "pp_micro_batches": "the stages of an engine compute one after the other, each the whole batch "
    "of a step; leave it out",
}
"""Parameters of a step that a service does not have, and why."""


@dataclass(frozen=True, slots=True)
class StepTime:
    """How long a step takes, and why.

    Attributes
    ----------
    ns : its duration.
    cycles : the same in cycles of the machine; None for models without one.
    offchip_bytes : traffic off chip; None if it is not modeled.
    bound : the resource that limits the step; empty if that is not known.
    how : how the time came about, such as ``exact``, ``estimated``, ``linear`` or ``table``.
    """

    ns: int
    cycles: int | None = None
    offchip_bytes: int | None = None
    bound: str = ""
    how: str = ""


class StepModel(Protocol):
    """The time of steps. Nothing else in a service knows what a step costs.

    Every engine has a model of its own, which is asked for its steps in order. A model may also
    have any of these members, which a service looks for:

    ``memoryless``
        True if the time of a step depends on its batch alone. Then a resumed service takes the
        steps that an earlier process has left from the folder, and asks the model for the others.
        A model without it is asked for all steps again.
    ``compiled()``
        The same times as a :class:`~stepsim.serving.CompiledTime`, for models of which the engine
        has a kernel. Then the loop runs by itself, and `time` is never called.
    ``how``
        What the column ``how`` says of every step if the times are compiled; without it, the name
        of the class.
    ``report()``
        Called at the end: an object with a method ``to_dict``, whose plain values become an entry
        of ``estimators`` in the summary, such as the error of estimated steps.
    """

    def time(self, step: int, batch: Batch) -> StepTime:
        """The time of step number ``step``, which computes a batch that is not empty."""
        ...
