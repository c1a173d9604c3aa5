"""Parameters that have no effect in a service, which are refused by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from stepsim.serving.scheduling.settings import SchedulingChoices
from stepsim.serving.service.parts import SIMULATED, memory_of, settings_of
from stepsim.workloads import ParameterError, fields_of

if TYPE_CHECKING:
    from stepsim.machine import Machine
    from stepsim.serving.service.spec import ServeSpec


def check_effects(spec: ServeSpec, objects: Mapping[str, Any], machine: Machine | None) -> None:
    """Refuse parameters that nothing in the service reads.

    Parameters
    ----------
    objects : parts that were given as objects, by name.

    Raises
    ------
    ParameterError : there are such parameters; all of them are listed.
    """
    facts, given = _Facts(spec, objects, machine), spec.given()
    problems = {
        name: f"has no effect {rule.reason(facts)}; leave it out"
        for rule in _RULES
        if not rule.is_read(facts)
        for name in rule.names(facts)
        if name in given
    }
    if problems:
        raise ParameterError([*problems.items()])


@dataclass(frozen=True, slots=True)
class _Facts:
    """What decides whether a parameter is read."""

    spec: ServeSpec
    objects: Mapping[str, Any]
    machine: Machine | None

    @property
    def steps(self) -> str:
        """The step model in words."""
        given = "steps" in self.objects
        return "with steps " + ("given as an object" if given else self.spec.choices.steps.name)

    @property
    def scheduler(self) -> str:
        """The scheduler in words."""
        given = "scheduler" in self.objects
        return "the scheduler given as an object" if given else "a scheduler with these settings"

    @property
    def simulates(self) -> bool:
        """Whether the time of a step comes from a simulation."""
        return "steps" not in self.objects and self.spec.choices.steps.name in SIMULATED

    @property
    def counts_blocks(self) -> bool:
        """Whether the KV blocks are those beside the weights of the model."""
        return "scheduler" not in self.objects and self.spec.scheduling.num_blocks is None

    @property
    def reads_memory(self) -> bool:
        """Whether the bytes of memory decide anything."""
        return "scheduler" not in self.objects and settings_of(self.spec).reads_memory

    @property
    def reads_memory_of_machine(self) -> bool:
        """Whether they are those of the machine."""
        is_given = self.spec.choices.memory_bytes is not None
        has_some = memory_of(self.spec.choices, self.machine) is not None
        return self.reads_memory and has_some and not is_given


@dataclass(frozen=True, slots=True)
class _Rule:
    """When parameters are read, and what there is in place of that otherwise."""

    names: Callable[[_Facts], tuple[str, ...]]
    is_read: Callable[[_Facts], bool]
    reason: Callable[[_Facts], str]


def _with_object(part: str, *names: str) -> _Rule:
    """Parameters that an object in place of a part does not read."""
    return _Rule(
        lambda facts: names,
        lambda facts: part not in facts.objects,
        lambda facts: f"with {part} given as an object",
    )


_RULES: Final = (
    _with_object("trace", "first", "requests", "output_tokens"),
    _with_object("machine", "overrides"),
    _with_object("scheduler", *fields_of(SchedulingChoices)),
    _with_object("clock", "host"),
    _Rule(
        lambda facts: ("overrides",),
        lambda facts: facts.spec.choices.machine is not None,
        lambda facts: "without a machine",
    ),
    _Rule(
        lambda facts: ("routing", *facts.spec.mapping),
        lambda facts: facts.simulates,
        lambda facts: facts.steps,
    ),
    _Rule(
        lambda facts: ("error",),
        lambda facts: facts.simulates and facts.spec.choices.steps.name == "audited",
        lambda facts: facts.steps,
    ),
    _Rule(
        lambda facts: ("memory_bytes",),
        lambda facts: facts.reads_memory,
        lambda facts: f"on {facts.scheduler}, which does not depend on the memory",
    ),
    _Rule(
        lambda facts: ("model",),
        lambda facts: (
            facts.simulates or facts.counts_blocks or facts.spec.choices.split is not None
        ),
        lambda facts: f"{facts.steps}, and {facts.scheduler} does not depend on it",
    ),
    _Rule(
        lambda facts: ("machine",),
        lambda facts: facts.simulates or facts.reads_memory_of_machine,
        lambda facts: f"{facts.steps}, and {facts.scheduler} does not depend on its memory",
    ),
)
