"""Schedulers by name: those of this package, and those of others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from stepsim import plugins
from stepsim.errors import ArgError, did_you_mean
from stepsim.serving.requests.requests import Requests
from stepsim.serving.scheduling.interface import Scheduler
from stepsim.serving.scheduling.settings import SCHEDULERS, SchedulerRules
from stepsim.serving.scheduling.stepwise import CompiledScheduler

GROUP: Final = "stepsim.schedulers"
"""Entry points of this group are schedulers of other packages: they are called with the requests
and the rules."""

MakeScheduler = Callable[[Requests, SchedulerRules], Scheduler]


def schedulers() -> Mapping[str, MakeScheduler]:
    """What makes each scheduler of requests that will arrive and its rules."""
    others = {plugin.name: plugin.loaded for plugin in plugins.usable(GROUP)}
    return {**others, **dict.fromkeys(SCHEDULERS, CompiledScheduler)}


def scheduler_maker(name: str) -> MakeScheduler:
    """What makes the scheduler of a name.

    Raises:
        ArgError: there is no such scheduler.
    """
    known = schedulers()
    if name not in known:
        raise ArgError(
            f"scheduler: unknown scheduler '{name}'{did_you_mean(name, known)} Known: "
            f"{', '.join(known)}"
        )
    return known[name]


def scheduler(name: str, requests: Requests, rules: SchedulerRules) -> Scheduler:
    """A scheduler of requests that will arrive.

    Raises:
        ArgError: there is no such scheduler, its rules are those of another one, or a request does
            not fit.
    """
    make = scheduler_maker(name)
    if name in SCHEDULERS and rules.scheduler != name:
        raise ArgError(
            f"scheduler: the rules are of scheduler {rules.scheduler!r}, expected {name!r}; make "
            f"them with SchedulerSettings(scheduler={name!r})"
        )
    return make(requests, rules)
